"""The quiz of week 7, day 5."""

import contextlib
from typing import Any

from tests.week7.branching import STEM, FakeScheduler
from tests.week7.compacting import GREEN, RED, conversation, did, edit, one, read, run
from tests.week7.crashes import Disk, Effect
from tests.week7.merging import with_lines

from tiny_llm_course.dev.book.quizzes import Quiz
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.serving.request import Chunk, Request  # noqa: E402
from tiny_llm_solution.serving.step import Step  # noqa: E402

quiz = Quiz()


@quiz.question(
    "7.5.1",
    "A call sends an email; its recovery is `report`. The process is killed after the email was sent, but before the "
    "result was recorded. After the next process has finished, how many emails have been sent, and how many intents "
    "does the log contain?",
    why="The call is not repeated. The model reads that the call may have run, and can look for the email.",
    mistakes={
        "always-repeats": "The recipient gets the email twice.",
        "second-intent": "The intent is already in the log. A third process would expect a result after it.",
    },
)
def an_email(program: Any) -> str:
    done = ["sent by the process that was killed"]
    disk = Disk([{"call": "send", "arguments": {"n": 1}, "steps": None}])
    tool = program(disk.entries, disk.append).tool(Effect("send", done))
    with contextlib.suppress(ValueError):
        tool.call({"n": 1})
    intents = sum("call" in entry for entry in disk.entries)
    return f"{len(done)} email{'s' * (len(done) != 1)}, {intents} intent{'s' * (intents != 1)}"


@quiz.question(
    "7.5.2",
    "An agent runs the tests, which fail. It edits `a.py`, and tries to edit `b.py`, which the user refuses. It runs "
    "the tests again, and they pass. A summary replaces all of this. Which files does it list as changed, and how "
    "many of its lines begin with `Failed`?",
    why="`b.py` is unchanged, and its edit is the only failure left, because the tests were run again and passed.",
    mistakes={
        "repaired-failures": "The model would look for an error that is gone.",
        "failed-edits-count": "An edit that was refused has changed nothing.",
    },
)
def what_is_open(program: Any) -> str:
    work = [did(run(RED)), did(edit("a.py")), did(edit("b.py", "Error: the user refused")), did(run(GREEN))]
    found = program(conversation([*work, did(*[read("c.py")] * 3), did(read("d.py"))]), 4, one)
    lines = "\n".join(str(message.get("content")) for message in found).split("\n")
    changed = next(line.partition(": ")[2] for line in lines if line.startswith("Files changed"))
    failed = sum(line.startswith("Failed") for line in lines)
    return f"`{changed}`, {failed} line{'s' * (failed != 1)}"


@quiz.question(
    "7.5.3",
    "Four branches share 12 tokens, which fill three pages, and each has one more token of its own. The cache is "
    "empty. How many prompt tokens are prefilled, and in how many steps are the branches submitted?",
    why="The first branch prefills 13 tokens. Before the second step, the other three are submitted together. Each "
    "finds the three pages in the cache and prefills its own token.",
    mistakes={
        "all-at-once": "Admitted in one step, each branch finds an empty cache.",
        "one-by-one": "The prefix is in the cache after one step, although the first branch is still decoding.",
    },
)
def four_branches(program: Any) -> str:
    scheduler = FakeScheduler(Request, Chunk, Step, 4)
    found = program(scheduler, [Request([*STEM, number], 5, user="branch") for number in range(4)], 4)
    moments = len({line.partition(":")[0] for line in scheduler.log if "submit" in line})
    return f"{found.prefilled_tokens} tokens, {moments} step{'s' * (moments != 1)}"


@quiz.question(
    "7.5.4",
    "Copy `a` changes line 4 of a file of ten lines. Copy `b` deletes line 5. What does the merge return for the file?",
    why="The two changes are adjacent. Neither agent has seen the combined result, so a person decides.",
    mistakes={
        "touching-is-fine": "Changes to adjacent lines are likely to depend on each other.",
        "the-last-copy-wins": "The work of the first agent would be lost silently.",
    },
)
def neighbors(program: Any) -> str:
    base = b"".join(b"line %d\n" % i for i in range(10))
    copies = {"a": {"f": with_lines({3: b"A\n"}, base)}, "b": {"f": with_lines({4: None}, base)}}
    merge = program({"f": base}, copies)
    if merge.conflicts:
        return "a conflict of " + " and ".join(f"`{name}`" for name in merge.conflicts[0].copies)
    return f"{merge.changed['f'].count(bytes([10]))} lines, {'with' if b'A' in merge.changed['f'] else 'without'} a's"
