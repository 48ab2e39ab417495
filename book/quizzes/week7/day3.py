"""The quiz of week 7, day 3."""

from typing import Any

from tests.week7.scripted import A, B, Probe, Scene, asks, played, says

from tiny_llm_course.dev.book.quizzes import Quiz
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.agent.loop import Limits  # noqa: E402
from tiny_llm_solution.agent.model import Answer  # noqa: E402
from tiny_llm_solution.tools.tool import ToolCall  # noqa: E402

quiz = Quiz()


@quiz.question(
    "7.3.1",
    "A tool wants an integer `first`, and the model writes `true`. What does the model read?",
    why="JSON's `true` is no integer, whatever Python says.",
    mistakes={
        "true-is-one": "In Python, `True` is an int. In JSON it is none.",
    },
)
def true_as_an_integer(program: Any) -> str:
    found = program(ToolCall("probe", '{"first": true}'), [Probe()])
    return "an error" if found.startswith("Error: ") else "the tool's result"


@quiz.question(
    "7.3.2",
    "An answer takes one second, each call ten, and the limit is five seconds. The first answer has three calls. Of "
    "how many does the conversation contain a result?",
    why="The first call is run, the other two are answered with an error: each call needs a result.",
    mistakes={"calls-without-results": "A server refuses a conversation in which a call has no result."},
)
def results_after_the_time(program: Any) -> str:
    scene = Scene([asks(A, B, A)], {"seconds": 5.0}, call_takes=10.0)
    return str(sum(line.startswith("tool ") for line in played(program, scene, Answer, Limits)))


@quiz.question(
    "7.3.2",
    "A model runs the tests after each change: 3 failures, 2, 1. Then it says that it is done. With `repeats` 3, for "
    "which reason does the run stop?",
    why="The calls are the same, but their results differ: this is progress.",
    mistakes={"results-do-not-count": "The same calls with other results are no repeats."},
)
def progress(program: Any) -> str:
    scene = Scene([asks(A), asks(A), asks(A), says("Done.")], results=["3", "2", "1"])
    lines = played(program, scene, Answer, Limits)
    return next(line.split()[1] for line in lines if line.startswith("stop: "))
