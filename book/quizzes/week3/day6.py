"""The quiz of week 3, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record

quiz = Quiz()


@quiz.question(
    "3.6.1",
    "The target's probabilities of three tokens are 0.3, 0.2 and 0.5, and the draft's are 0.2, 0.5 and 0.3. Token 1 "
    "was drafted. The uniform samples are 0.5 and 0.4, and after token 1 the target's probabilities would be 0.1, "
    "0.1 and 0.8. How many draft tokens are accepted, and which token is next?",
    why="0.5 is not below 0.2 / 0.5 = 0.4, so token 1 is rejected. The residual is 0.1, 0 and 0.2, normalized to "
    "1/3, 0 and 2/3, and u = 0.4 selects token 2.",
    mistakes={
        "ratio-upside-down": "The rule compares u with p / q. With q / p, this token would always be accepted.",
        "target-row-after-a-refusal": "Token 1 was just rejected, so it must not be sampled again here.",
    },
)
def stands_and_next(accept: Any) -> str:
    target, draft = mx.array([[0.3, 0.2, 0.5], [0.1, 0.1, 0.8]]), mx.array([[0.2, 0.5, 0.3]])
    stands, token = accept(target, draft, [1], [0.5, 0.4])
    return f"{stands}, then token {token}"


@quiz.question(
    "3.6.2",
    "The sequence is 5 1 7 8 2 5 1 9 3 4 1 6 0 5 1, and two tokens are requested. What does prompt lookup propose?",
    why="The last three tokens have not occurred before, but the last two have, twice. The later match is followed by "
    "9 and 3.",
    mistakes={
        "first-place": "`5 1` occurs at the first and at the sixth token, and 9 and 3 follow the later match.",
        "shortest-first": "Only a single token matches there. At another position, two tokens match.",
        "run-proposed-again": "These tokens are themselves the end of the sequence.",
        "one-token-left-out": "9 directly follows the match, so the proposal starts with 9.",
    },
)
def proposed(lookup: Any) -> str:
    return " ".join(map(str, lookup([5, 1, 7, 8, 2, 5, 1, 9, 3, 4, 1, 6, 0, 5, 1], 2)))


@quiz.question(
    "3.6.4",
    "Three requests are decoding, num_speculative_tokens is 4, and the token budget is 8. How many tokens does each "
    "of their chunks have?",
    why="Each request needs one token of its own. Of the remaining five, the first request gets four draft tokens, and "
    "the second request gets one draft token.",
    mistakes={
        "budget-left-aside": "That would be 15 tokens, and the budget is 8.",
        "own-tokens-not-counted": "That would be eight draft tokens, plus three of the requests' own.",
        "last-chunk-first": "The first request should get four draft tokens, but here it gets none.",
    },
)
def chunk_sizes(speculation: Any) -> str:
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.speculative.drafter import Draft

    class Ones:
        def retain(self, running: Any) -> None:
            """Keep no state."""

        def propose(self, requests: Any, counts: Any) -> list[Draft]:
            return [Draft([1] * count) for count in counts]

    requests = [Request([1, 2], 50, output=[3], num_computed_tokens=2) for _ in range(3)]
    return ", ".join(str(len(chunk.tokens)) for chunk in speculation(Ones(), 4).plan(requests, 8))


@quiz.measured(
    "In our own run, n-grams reduce the steps of one song by a factor of more than 4, but the speed-up is below 1.5. "
    "Why?",
    right="A step with five rows takes much longer than a step with one.",
    why="The step cost is 2.9, and the speed-up is the step reduction divided by it. Where decoding is memory-bound, "
    "as on a GPU, five rows take hardly longer than one.",
    mistakes={
        "Looking up the n-grams takes most of the time.": "Prompt lookup compares a few tokens and runs no model, so "
        "its cost is almost 0.",
        "Most draft tokens are rejected.": "More than 90 % are accepted. Otherwise, there would be more steps.",
        "After a rejection, the model prefills the sequence again.": "The loop only truncates the cache to the "
        "accepted tokens, which stay valid.",
    },
)
def fewer_but_longer_steps(record: Record, cause: str) -> str:
    song = {column: float(cell) for column, cell in record["1 x song, n-grams"].items() if column != "requests"}
    true = song["step reduction"] > 4 and song["speed-up"] < 1.5 and song["accepted: %"] > 90
    return cause if true and round(song["step cost"], 1) == 2.9 else ""
