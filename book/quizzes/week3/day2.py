"""The quiz of week 3, day 2."""

from typing import Any

from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.2.1",
    "The token budget is 8, and three requests are decoding. Of two prompts, the older has 4 uncomputed tokens and "
    "the younger has 10. How many tokens of each prompt does the step compute, older + younger?",
    why="Three of the eight tokens go to the decoding requests. The older prompt takes four of the other five, and the "
    "younger prompt takes the last one.",
    mistakes={
        "writers-not-counted": "Together with the three decoding requests, that would be 11 tokens.",
        "youngest-first": "The older prompt has waited longer, so it comes first and takes four tokens.",
        "one-prompt-a-step": "The older prompt needs only four of the five tokens that are left, so one would be "
        "wasted.",
        "all-that-run-counted": "No token is reserved for each prompt: prompts share what the decoding requests leave.",
    },
)
def read(plan: Any) -> str:
    from tiny_llm_solution.serving.request import Request

    running = [Request([1], 9, request_id=i, output=[2], num_computed_tokens=1) for i in range(3)]
    running += [Request([1] * 4, 9, request_id=3), Request([1] * 10, 9, request_id=4)]
    counts = {chunk.request.request_id: len(chunk.tokens) for chunk in plan(running, 8)}
    return f"{counts.get(3, 0)} + {counts.get(4, 0)}"


@quiz.question(
    "3.2.2",
    "Ann sends four requests of 6 tokens each, and then Bob sends a request of 2 tokens. No tokens have been served "
    "yet, and three slots are free. Whose requests are admitted, and in which order?",
    why="With her first request, Ann claims 6 tokens before anything is computed. Bob claims none, so he is next. "
    "Bob's claim of 2 is then still lower than Ann's, but he has no more requests waiting, so Ann's second request is "
    "next.",
    mistakes={
        "first-come-first-served": "Users would gain by sending all of their requests at once.",
        "youngest-of-equals": "At first, both claims are 0, and with equal claims, the older request is next.",
    },
)
def let_in(queue: Any) -> str:
    from tiny_llm_solution.serving.request import Request

    fair, names = queue(), []
    for number, (user, prompt) in enumerate([("Ann", 6)] * 4 + [("Bob", 2)]):
        fair.add(Request([1] * prompt, 9, user=user, request_id=number))
    for _ in range(3):
        request = fair.peek()
        fair.remove(request)
        names.append(request.user)
    return ", ".join(names)


@quiz.question(
    "3.2.3",
    "A request arrived at second 0 and was admitted at second 3. Its four tokens were generated at seconds 4, 5, 6 and "
    "10. What are its TTFT and its TPOT, in seconds?",
    why="TTFT is the time from second 0 to second 4. From second 4 to second 10, there are three intervals of 2 "
    "seconds on average.",
    mistakes={
        "ttft-from-the-first-step": "The user has been waiting since second 0.",
        "divided-by-n": "Between four tokens there are three intervals.",
        "tpot-from-the-start": "The 4 seconds before the first token are already counted as TTFT.",
        "longest-gap": "4 seconds is the maximum ITL, but TPOT is the mean.",
    },
)
def both(latency: Any) -> str:
    from tiny_llm_solution.serving.latency import RequestTimes

    kept = latency()
    kept.add(RequestTimes(0.0, 3.0, (4.0, 5.0, 6.0, 10.0)))
    return f"{kept.ttft[0]:g} and {kept.tpot[0]:g}"


@quiz.question(
    "3.2.4",
    "The token budget is 8, and one request is decoding. The oldest prompt has 40 uncomputed tokens, the next one 30, "
    "and the youngest 2. How many tokens of each does the step compute, from the oldest to the youngest?",
    why="Seven tokens are left. The oldest prompt gets half, rounded up: 4. Of the other 3 tokens, the shortest "
    "prompt takes 2, and the next shortest takes the last one.",
    mistakes={
        "oldest-first": "The youngest prompt, of 2 tokens, would wait for 70 tokens.",
        "shortest-first": "The oldest prompt would starve while short ones keep arriving.",
        "rounded-down": "Half is rounded up: with 1 token left, the oldest prompt must get it.",
        "others-by-age": "The shortest of the other prompts is next, so the youngest prompt gets its 2 tokens and is "
        "complete.",
    },
)
def divided(plan: Any) -> str:
    from tiny_llm_solution.serving.request import Request

    running = [Request([1], 9, request_id=0, output=[2], num_computed_tokens=1)]
    running += [Request([1] * length, 9, request_id=i) for i, length in enumerate((40, 30, 2), 1)]
    counts = {chunk.request.request_id: len(chunk.tokens) for chunk in plan(running, 8)}
    return " + ".join(str(counts.get(i, 0)) for i in (1, 2, 3))
