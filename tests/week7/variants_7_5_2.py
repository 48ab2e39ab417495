"""Known programs of task 7.5.2, compaction."""

import mlx.core as mx
from tests.week7.compacting import (
    GREEN,
    RED,
    REFUSED,
    SYSTEM,
    TASK,
    WORK,
    conversation,
    did,
    edit,
    lines_of,
    one,
    read,
    run,
    said,
    user,
)
from tiny_llm_solution.agent.compaction import CHANGES, approximate_tokens
from tiny_llm_solution.agent.finished import finished_calls

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.5.2")
SMALL = [did(read("a.py")), did(edit("a.py")), did(run(RED))]
WIDE = did(*[read(f"{i}.py") for i in range(5)])


def lines(program, turns, budget, notes=None, head=(SYSTEM, TASK)):
    found = program(conversation(turns, head), budget, one, notes)
    return mx.array(list("\n".join(lines_of(found)).encode()), dtype=mx.int32)


def summarized(program, *turns):
    return lines(program, [*turns, did(*[read("a.py")] * 3), said("So.")], 4)


known.probe_table(
    fits=lambda program: lines(program, SMALL, 8),
    too_much=lambda program: lines(program, SMALL, 7),
    half=lambda program: lines(program, SMALL * 3, 10),
    wide=lambda program: lines(program, [*SMALL, WIDE], 6),
    wide_first=lambda program: lines(program, [WIDE, *SMALL], 6),
    steps=lambda program: lines(program, [did(read(f"{i}.py")) for i in range(23)], 20),
    summary_counts=lambda program: lines(program, [said(f"{i}") for i in range(13)], 10),
    work=lambda program: lines(program, WORK, 6),
    work_longer=lambda program: lines(program, WORK, 14),
    users=lambda program: summarized(program, user("a\nb"), user("a\nb")),
    two_heads=lambda program: lines(program, [user("Now the cat."), *SMALL], 6),
    repaired=lambda program: summarized(program, did(run(RED)), did(run(GREEN))),
    twice=lambda program: summarized(program, did(run(RED)), did(edit("a.py", REFUSED)), did(run("4\n[exit code 2]"))),
    other_file=lambda program: summarized(program, did(edit("a.py", REFUSED)), did(edit("b.py"))),
    in_turns=lambda program: summarized(program, did(edit("b.py")), did(edit("a.py")), did(edit("b.py"))),
    two_files=lambda program: summarized(program, did(edit("b.py")), did(edit("a.py"))),
    read_failed=lambda program: summarized(program, did(read("no.py", "Error: There is no 'no.py'."))),
    notes=lambda program: lines(program, WORK, 8, lambda messages: f"{len(messages)} messages"),
)


@known.sized("400 turns, a budget of 100 messages")
def sized(program):
    messages = conversation([did(edit(f"{i % 7}.py")) for i in range(400)])
    return lambda: program(messages, 100, one)


known.change(
    "result-without-its-call",
    ("*_flat(turns[start:])]", "*_flat(turns)[max(0, len(_flat(turns[:start])) - 1) :]]"),
    fact="the first kept message is a result whose call was replaced",
    question="The first kept message is a result. Of which call?",
)
known.change(
    "only-as-much-as-needed",
    ("sum(sizes[start:end]) > budget // 2", "fixed + sum(sizes[start:end]) > budget"),
    fact="no more turns are replaced than the budget requires",
    question="How many steps later are the next turns replaced, and what does that do to a prefix cache?",
)
known.change(
    "exactly-the-budget",
    ("if fixed + sum(sizes[start:end]) > budget:", "if fixed + sum(sizes[start:end]) >= budget:"),
    fact="a conversation of exactly the budget is compacted",
    question="The budget is 100 tokens, and the conversation has 100. Does it fit?",
)
known.change(
    "half-with-the-head",
    ("sum(sizes[start:end]) > budget // 2", "sum(map(count, head)) + sum(sizes[start:end]) > budget // 2"),
    fact="the half of the budget that the kept turns may have includes the head",
    question="The task alone has half of the budget. How many turns are kept?",
)
known.change(
    "boundary-from-the-end",
    ("for end in range(1, len(turns) + 1):", "for end in range(len(turns), len(turns) + 1):"),
    fact="the boundary is computed from the end of the conversation alone, and moves with each step",
    question="Two steps follow each other. Is the beginning of the second prompt that of the first one?",
)
known.change(
    "last-turn-too",
    ("while start < end - 1 and", "while start < end and"),
    fact="the last turn is replaced as well if it is too large",
    question="The model has just called a tool. Where does it read the result?",
)
known.change(
    "summary-for-nothing",
    ("fixed = sum(map(count, [*head, *_summary(turns[:start])]))", "pass"),
    fact="the tokens of the summary do not count",
    question="The summary lists 300 files. How many tokens does the prompt have?",
)
known.change(
    "head-without-the-task",
    ('if message["role"] == "user"), len(messages)) + 1', 'if message["role"] != "system"), len(messages))'),
    fact="the first message of the user is replaced like any other",
    question="After 200 steps, what was the task, in the user's own formatting?",
)
known.change(
    "user-forgotten",
    ('lines += [f"The user said:', '_ = [f"The user said:'),
    fact="what the user said later is not in the summary",
    question="In step 5, the user said which file must stay as it is. Who knows that in step 50?",
)
known.change(
    "failed-again-in-its-old-place",
    ("failed.pop(str(call), None)", "if not call.failed:\n    failed.pop(str(call), None)"),
    fact="a call that fails again is listed at the place of its first failure",
    question="A test run fails in steps 3 and 9, an edit in step 5. Which of the failures that count is the first?",
)
known.change(
    "repaired-failures",
    ("failed.pop(str(call), None)", "if call.failed:\n    failed.pop(str(call), None)"),
    fact="a failure stays in the summary although the same call succeeded later",
    question="The tests failed in step 3 and pass in step 9. What is left to be done?",
)
known.change(
    "failures-by-first-occurrence",
    ("failed.pop(str(call), None)", "pass"),
    fact="a failure stays in the summary, at its first place, although the same call succeeded or failed again later",
    question="The tests failed in step 3 and pass in step 9. What is left to be done?",
)
known.together("failed-again-in-its-old-place", "repaired-failures", makes="failures-by-first-occurrence")
known.change(
    "each-failure-listed",
    ("failed.pop(str(call), None)",
     'if not call.failed:\n    failed = {k: x for k, x in failed.items() if not x.startswith(f"Failed: {call}: ")}'),
    ("failed[str(call)] =", "failed[object()] ="),
    fact="a failure is dropped only if the same call succeeds later: a call that fails twice is listed twice",
    question="The tests failed in step 3 and again in step 9. Which of the two results is still true?",
)  # fmt: skip
known.change(
    "turns-counted",
    ("Summary of {len(replaced)} earlier", "Summary of {len(turns)} earlier"),
    fact="the summary states the number of turns, not of messages",
    question="A turn has three calls. How many messages is it?",
)
known.change(
    "failed-edits-count",
    ("elif call.name in CHANGES:", "if call.name in CHANGES:"),
    fact="a file counts as changed although the edit failed",
    question="The edit was refused. Is the file different now?",
)
known.change(
    "any-success-repairs",
    (
        "failed.pop(str(call), None)",
        "failed.pop(str(call), None)\nif not call.failed:\n    failed.clear()",
    ),
    fact="every call that succeeds removes all failures before it from the summary",
    question="The tests fail, and a file is read. Do they pass?",
)
known.change(
    "last-call-of-each-tool",
    ("failed.pop(str(call), None)", "failed.pop(call.name, None)"),
    ("failed[str(call)] =", "failed[call.name] ="),
    fact="only the last call of each tool counts for the failures, whatever its target is",
    question="`rm` was refused, and `pytest` passes later. Both are calls of run_command. Which failure is left?",
)
known.change(
    "last-change-first",
    ("changed[call.target] = None", "changed = {call.target: None, **changed}"),
    fact="the changed files are listed with the last change first",
    question="Which file was changed first, and where is it in the list?",
)


@known.accepted("a recursive boundary")
def recursive(messages, budget, count=approximate_tokens, notes=None):
    users = [i for i, message in enumerate(messages) if message["role"] == "user"]
    first = users[0] + 1 if users else len(messages)
    turns = []
    for message in messages[first:]:
        if message["role"] != "tool":
            turns.append([])
        turns[-1].append(message)
    begin = 0
    for end in range(len(turns)):
        begin = _next(messages[:first], turns, begin, end, budget, count)
    parts = [messages[:first], [_summary(turns[:begin], notes)] if begin else [], *turns[begin:]]
    return [message for part in parts for message in part]


def _next(head, turns, begin, end, budget, count):
    def size(part):
        return sum(count(message) for turn in part for message in turn)

    summary = [_summary(turns[:begin], None)] if begin else []
    if size([head, summary, *turns[begin : end + 1]]) <= budget:
        return begin
    return next((i for i in range(begin, end) if size(turns[i : end + 1]) <= budget // 2), end)


def _summary(turns, notes):
    messages = [message for turn in turns for message in turn]
    calls = [call for turn in turns for call in finished_calls(turn)]
    text = f"Summary of {len(messages)} earlier messages:"
    for message in messages:
        if message["role"] == "user":
            text += "\nThe user said: " + message["content"]
    files = list(dict.fromkeys(call.target for call in calls if call.name in CHANGES and not call.failed))
    if files:
        text += "\nFiles changed: " + ", ".join(files)
    last = {str(call): number for number, call in enumerate(calls)}
    for number in sorted(last.values()):
        if calls[number].failed:
            text += f"\nFailed: {calls[number]}: {calls[number].end}"
    if notes:
        text += "\nNotes: " + notes(messages)
    return {"role": "user", "content": text}
