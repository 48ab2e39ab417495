"""The quiz of week 3, day 7."""

from typing import Any

from tests.week3.figures_script import MODEL, Clock, figures, measured
from tests.week3.gate_script import passes
from tests.week3.stream_script import Script, streamed

from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.7.2",
    "A gate admits at most two requests at a time. At 8 s, two requests leave together, and two others enter. At 16 s, "
    "three more arrive, one after another, and are rejected. What Retry-After does each of the three get, in seconds?",
    why="Two requests have left in the last eight seconds, or one per 4 s. Each later client must also wait for the "
    "places promised to the earlier clients.",
    mistakes={
        "promises-nothing": "All three would return at 20 s, but by then only one place is free.",
        "groups-leave-once": "Two requests left at 8 s, and both places became free.",
        "always-a-second": "At the current pace, no request will have left after one second.",
    },
)
def told(gate: Any) -> str:
    ops = [(0, "enter", 2), (8, "leave", 2), (8, "enter", 2), *[(16, "enter", 1)] * 3]
    return ", ".join(str(-seconds) for seconds in passes(gate, 2, ops)[3:])


@quiz.question(
    "3.7.3",
    "The stop string is <code>dog</code>. The output is <code>That is a blue </code> and then <code>do</code>, which "
    "reaches the token limit. What is the text of all pieces together?",
    why="<code>do</code> is held back as long as <code>g</code> may follow. The output ends without a <code>g</code>, "
    "so <code>do</code> is shown.",
    mistakes={
        "never-finished": "The model generated these two characters, and no stop string followed.",
        "all-of-it-again": "A client that joins the pieces would show the first part of the text twice.",
    },
)
def read(stream: Any) -> str:
    script = Script([(0, [5], "That is a blue ", ""), (0, [6], "That is a blue ", "length")], held=("do", ""))
    lines = streamed(stream, script, False)[:-1]
    return "".join(line.split("'")[1] for line in lines)


@quiz.question(
    "3.7.4",
    "A request arrives at 10 s. Its five tokens are generated at 11, 11.5, 12, 12.5 and 13 s. What is its TPOT, in "
    "seconds?",
    why="From 11 to 13 s, there are four intervals of 0.5 s.",
    mistakes={
        "divided-by-all": "Between five tokens, there are only four intervals.",
        "each-gap-from-arrival": "The second before the first token is the TTFT.",
    },
)
def tpot(metrics: Any) -> str:
    clock = Clock()
    calls = [(10.0, "arrived", 0, 0), *((11 + 0.5 * i, "new", 0, 1) for i in range(4)), (13.0, "ends", 0, 1)]
    found = figures(measured(metrics(MODEL, clock), clock, calls, [7]))
    return f"{found['vllm:request_time_per_output_token_seconds_sum']:g}"
