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
    'A tool wants an integer `first`. The model writes `true` in one call and `"1"` in another. What do the calls '
    "return?",
    why="In JSON, neither `true` nor a string is an integer, whatever Python says.",
    mistakes={
        "true-is-one": "In Python, `True` is an int. In JSON, `true` is not an integer.",
        "types-not-checked": "The tool would compute with a text, or fail with an error of its own.",
    },
)
def true_as_an_integer(program: Any) -> str:
    found = (program(ToolCall("probe", f'{{"first": {value}}}'), [Probe()]) for value in ("true", '"1"'))
    return ", ".join("an error" if text.startswith("Error: ") else "the tool's result" for text in found)


@quiz.question(
    "7.3.2",
    "An answer takes one second, a call takes ten, and the limit is five seconds. The first answer has three calls. "
    "How many results does the conversation contain, and how many of the calls were run?",
    why="The first call is run. The other two get an error as their result, because each call needs a result.",
    mistakes={
        "calls-without-results": "A server rejects a conversation in which a call has no result.",
        "time-between-steps": "The time limit has already passed after the first call.",
    },
)
def results_after_the_time(program: Any) -> str:
    scene = Scene([asks(A, B, A)], {"seconds": 5.0}, call_takes=10.0)
    results = [line for line in played(program, scene, Answer, Limits) if line.startswith("tool ")]
    return f"{len(results)} and {sum('Error: ' not in line for line in results)}"


@quiz.question(
    "7.3.2",
    "While you fix the code, a model runs the tests three times and gets 3 failures, then 2, then 1. Then it says that "
    "it is done. `repeats` is 3, and each answer reports 10 `tokens`. Why does it stop, and after how many tokens?",
    why="The calls are the same, but their results differ, which is progress. Four answers report 40 tokens.",
    mistakes={
        "results-do-not-count": "The same calls with different results are not repeats.",
        "tokens-of-the-last-step": "The limit is for the whole run.",
    },
)
def progress(program: Any) -> str:
    scene = Scene([asks(A), asks(A), asks(A), says("Done.")], results=["3", "2", "1"])
    lines = played(program, scene, Answer, Limits)
    _, reason, _, _, tokens, _ = next(line for line in lines if line.startswith("stop: ")).split()
    return f"{reason}, {tokens} tokens"
