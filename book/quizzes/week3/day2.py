"""The quiz of week 3, day 2."""

from typing import Any

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.2.1",
    "A budget of 8. Three requests write. The older of two prompts has 4 unread tokens, the younger one 10. How many "
    "tokens of the prompts does the step read, older + younger?",
    why="Three of the eight tokens are for those that write. The older prompt takes four of the other five, the "
    "younger one what is left.",
    mistakes={
        "writers-not-counted": "With the three that write, that would be 11 tokens.",
        "youngest-first": "Whoever came first is read first.",
        "one-prompt-a-step": "One token of the budget would be left over.",
        "all-that-run-counted": "Prompts need no token put aside: what is left is theirs.",
    },
)
def read(plan: Any) -> str:
    from tiny_llm_solution.serving.request import Request

    running = [Request([1], 9, number=i, output=[2], read=1) for i in range(3)]
    running += [Request([1] * 4, 9, number=3), Request([1] * 10, 9, number=4)]
    counts = {chunk.request.number: len(chunk.tokens) for chunk in plan(running, 8)}
    return f"{counts.get(3, 0)} + {counts.get(4, 0)}"


@quiz.question(
    "3.2.2",
    "Ann sends four requests of 6 tokens, and then Bob one of 2. Nobody has been served yet, and three slots are free. "
    "Whose requests are let in, in this order?",
    why="With the first of Ann's she claims 6 tokens, before anything is read. Bob claims none. Behind him it is 6 for "
    "her and 2 for him, but nothing of his waits any more.",
    mistakes={
        "first-come-first-served": "Then it would pay to send everything at once.",
        "youngest-of-equals": "Before anything is let in both claim nothing. Then the older request is next.",
    },
)
def let_in(queue: Any) -> str:
    from tiny_llm_solution.serving.request import Request

    fair, names = queue(), []
    for number, (user, prompt) in enumerate([("Ann", 6)] * 4 + [("Bob", 2)]):
        fair.add(Request([1] * prompt, 9, user=user, number=number))
    for _ in range(3):
        request = fair.next()
        fair.remove(request)
        names.append(request.user)
    return ", ".join(names)


@quiz.question(
    "3.2.3",
    "A request came at second 0, was let in at 3, and its four tokens came at 4, 5, 6 and 10. What are its TTFT and "
    "its TPOT, in seconds?",
    why="From 0 to 4, and from 4 to 10 in three steps of 2 seconds on average.",
    mistakes={
        "ttft-from-the-first-step": "The user's clock has been running since second 0.",
        "divided-by-n": "Between four tokens there are three gaps.",
        "tpot-from-the-start": "The time to the first token is TTFT, and counted there.",
        "longest-gap": "It is what the user remembers, and another number.",
    },
)
def both(latency: Any) -> str:
    from tiny_llm_solution.serving.latency import Times

    kept = latency()
    kept.add(Times(0.0, 3.0, (4.0, 5.0, 6.0, 10.0)))
    return f"{kept.ttft[0]:g} and {kept.tpot[0]:g}"


@quiz.measured(
    "In our own run, how was the long prompt read when its own first token came soonest?",
    right="whole",
    why="In one step, with nobody in between. That is what the others pay for.",
    mistakes={
        "budget 16": "Eight of each 16 tokens went to those that write, and every step has its own cost.",
        "budget 64": "Of each step a part went to those that write.",
    },
)
def soonest(record: Record, row: str) -> str:
    return row if row in record else ""
