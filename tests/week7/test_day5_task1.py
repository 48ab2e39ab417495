"""Task 7.5.1, checkpoint and resume: a run that is killed at every moment in turn, and continued by another process."""

import json
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.crashes import (
    QUESTION,
    SCRIPTS,
    Disk,
    Effect,
    Killed,
    Program,
    kills,
    kind_of,
    raising,
    run_process,
)
from tests.week7.edits import User, names
from tests.week7.lines import same_lines
from tests.week7.scenes import new_scene
from tests.week7.scripted import asks, says

from tiny_llm.agent import durable, loop
from tiny_llm.agent.model import Answer
from tiny_llm.tools.tool import ToolError
from tiny_llm.workspace.changes import Changes
from tiny_llm.workspace.diff import unified
from tiny_llm.workspace.journal import Entry, Journal, digest
from tiny_llm.workspace.root import Root
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_error, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

INTERRUPTED = "the process was killed during this call: it may have run in part. Look at what it changed"


def program():
    return Program(durable.DurableRun, loop.run_agent, Answer, ToolError)


def expected_log(script, interrupted=None):
    """Return the log of a run as lines; `interrupted` is the number of the entry that is a report."""
    lines, done = [], 0
    for _, calls, _, _ in script:
        lines.append("answer")
        for name, arguments in calls:
            if name == "none" or not arguments.endswith("}"):
                continue  # an error of the loop: the tool is not called
            lines.append(f"call {name} {json.loads(arguments).get('n')}")
            done += 1
            results = {"refuse": "error no such file", "break": "error KeyError: 'encoding'"}
            if len(lines) == interrupted:
                lines.append(f"error {INTERRUPTED}")
            else:
                lines.append(results.get(name, f"result {name} {done}"))
    return lines


def without_numbers(lines):
    """Results are numbered by the calls that were really made, which differ after a crash."""
    return [line.rpartition(" ")[0] if line.startswith("result ") else line for line in lines]


@pytest.mark.parametrize("name", SCRIPTS)
def test_task_1_durable_log(name):
    """A run without a crash: each entry, in order, and the same conversation as without a log."""
    case, done = f"{name}, without a crash", []
    with noted(case):
        found = run_process(program(), SCRIPTS[name], [], done)
    same_lines([kind_of(entry) for entry in found.log], expected_log(SCRIPTS[name]), case, "entry")
    with noted(case):
        again = run_process(program(), SCRIPTS[name], found.log, done)
    same_lines(again.lines, found.lines, f"{name}, resumed after its end", "message")
    fail_if_different("the model was asked again", 0, again.asked, f"{name}, resumed after its end")
    fail_if_different("replaying appended entries", len(found.log), len(again.log), f"{name}, resumed after its end")


@pytest.mark.parametrize("name", SCRIPTS)
def test_task_1_durable_killed(name):
    """Killed before and after each append, then resumed: nothing is lost and nothing is done twice."""
    script = SCRIPTS[name]
    whole = run_process(program(), script, [], [])
    for number, after in kills(program(), script):
        case = f"{name}, killed {'after' if after else 'before'} the append of entry {number + 1}"
        check_kill(script, whole, number, after, case)


def check_kill(script, whole, number, after, case):
    done = []
    with noted(case):
        first = run_process(program(), script, [], done, (number, after))
        second = run_process(program(), script, first.log, done)
    entry = whole.log[number]
    unknown = ("call" in entry) if after else ("answer" not in entry and "call" not in entry)
    call = whole.log[number if "call" in entry else number - 1] if unknown else {}
    reported = call.get("call") == "post"
    at = (number + 1 if after else number) if reported else None
    lines = [kind_of(entry) for entry in second.log]
    same_lines(without_numbers(lines), without_numbers(expected_log(script, at)), case, "entry")
    same_lines([kind_of(entry) for entry in first.log], lines[: number + after], case, "entry")
    if not reported:
        fail_if_different("the conversation is different", len(whole.lines), len(second.lines), case)
    answers = sum(line == "answer" for line in lines)
    repeated = int("answer" in entry and not after)
    fail_if_different("how often the model was asked is wrong", answers + repeated, first.asked + second.asked, case)
    runs = sum(line.startswith("call ") for line in lines)
    runs += int(unknown and not after and not reported) - int(reported and after)
    fail_if_different("how many calls were really made is wrong", runs, len(done), case)


@property_test
@given(
    st.lists(st.sampled_from([asks(call) for call in (("look", '{"n": 1}'), ("post", '{"n": 1}'))]), max_size=4),
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=4),
)
def test_task_1_durable_killed_often(steps, moments):
    """Several processes in turn, each killed: a call with a side effect is made at most once for each intent."""
    script, log, done = [*steps, says("Done.")], [], []
    case = f"{len(steps)} steps, processes killed at {moments}"
    for kill in [*moments, None]:
        with noted(case):
            found = run_process(program(), script, log, done, kill)
        fail_if_different("an entry was changed", log, found.log[: len(log)], case)
        log = found.log
    lines = [kind_of(entry) for entry in log]
    fail_if_different("the number of answers is wrong", len(script), lines.count("answer"), case)
    for line, outcome in zip(lines, [*lines[1:], "the end of the log"], strict=True):
        if line.startswith("call ") and not outcome.startswith(("result ", "error ")):
            lines = ("expected  a result or an error", f"got       {outcome}")
            fail(Kind.VALUES, f"the log has no outcome of `{line}`", case, *lines)
    intents = sum(line.startswith("call post") for line in lines)
    reported = lines.count(f"error {INTERRUPTED}")
    real = sum(line.startswith("post") for line in done)
    if not intents - reported <= real <= intents:
        least = f"{intents - reported} to " if reported else ""  # a reported call may have been made
        found = (f"expected  {least}{intents}, at most one for each intent", f"got       {real}")
        fail(Kind.VALUES, "how many calls of post were really made is wrong", case, *found)


def test_task_1_durable_sweep():
    """Long runs, killed somewhere."""
    for n in sizes(S=20, C=5):
        script = [*[asks(*[("post", f'{{"n": {j}}}') for j in range(n.C)]) for _ in range(n.S)], says("Done.")]
        whole = run_process(program(), script, [], [])
        number = len(whole.log) * 2 // 3
        for after in (False, True):
            case = f"{n.S} steps of {n.C} calls, killed {'after' if after else 'before'} entry {number + 1}"
            check_kill(script, whole, number, after, case)


def test_task_1_durable_ctrl_c():
    """A call that Ctrl-C ends has no result: what it has done is unknown."""
    case, disk = "Ctrl-C during a call", Disk()
    with noted(case):
        run = durable.DurableRun([], disk.append)
        tool = run.tool(Effect("post", [], raising(KeyboardInterrupt())))
    found = "nothing"
    try:
        tool.call({"n": 1})
    except (KeyboardInterrupt, ToolError) as error:
        found = type(error).__name__
    fail_if_different("what was raised is wrong", "KeyboardInterrupt", found, case)
    fail_if_different("the log is wrong", ["call post 1"], [kind_of(entry) for entry in disk.entries], case)


def test_task_1_durable_a_model_that_fails():
    """An error of the model is no answer: the next process asks again."""
    case, disk = "the model raises OSError", Disk()
    with noted(case):
        run = durable.DurableRun([], disk.append)
        model = run.model(raising_model)
    with raises_error(OSError, case, "refused"):
        model(QUESTION, [])
    fail_if_different("the log is wrong", [], disk.entries, case)


def raising_model(messages, tools):
    raise ConnectionError("refused")


@pytest.mark.parametrize(
    "error", [KeyError("encoding"), OSError("disk full"), ValueError(""), ToolError("no file")], ids=repr
)
def test_task_1_durable_errors_are_tool_errors(error):
    """What was recorded is raised as a ToolError, in the first process and in the one that replays it."""
    case, disk = f"a tool that raises {error!r}", Disk()
    message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    for which in ("live", "replayed"):
        with noted(f"{case}, {which}"):
            tool = durable.DurableRun(disk.entries, disk.append).tool(Effect("post", [], raising(error)))
        try:
            found = f"the result {tool.call({'n': 1})!r}"
        except Exception as raised:
            found = f"{type(raised).__name__} {raised}"
        fail_if_different("what was raised is wrong", f"ToolError {message}", found, f"{case}, {which}")
    fail_if_different("the log is wrong", {"error": message}, disk.entries[-1], case)


def test_task_1_durable_empty_results():
    """A recorded result of no characters is a result."""
    case, disk, done = "a call whose recorded result is empty", Disk([CALL, {"result": ""}]), []
    with noted(case):
        found = durable.DurableRun(disk.entries, disk.append).tool(Effect("post", done)).call({"n": 1})
    fail_if_different("the result is wrong", "", found, case)
    fail_if_different("the tool was called", [], done, case)


def test_task_1_durable_by_default():
    """A tool of which nothing is known reports."""
    case, done = "a tool without a recovery, killed during its call", []
    disk = Disk([{"call": "post", "arguments": {"n": 1}, "steps": None}])
    with noted(case):
        run = durable.DurableRun(disk.entries, disk.append)
        tool = run.tool(Effect("post", done))
        same_tool = (tool.name, tool.description, tool.parameters)
    effect = Effect("post", [])
    expected = (effect.name, effect.description, effect.parameters)
    fail_if_different("the wrapped tool is another one", expected, same_tool, case)
    with raises_value_error(case, INTERRUPTED):
        tool.call({"n": 1})
    fail_if_different("the tool was called", [], done, case)
    case, new = "a tool with the recovery report, in a run with changes", Disk()
    with new_scene() as scene, Root(scene.w) as root, noted(case):
        changes = Changes(root, Journal(scene.folder / "undo"), User())
        durable.DurableRun([], new.append, changes).tool(Effect("post", [])).call({"n": 1})
    fail_if_different("the intent is wrong", CALL, new.entries[0], case)
    case, log = "a new run, two calls, and the list of its entries grows with each append", []
    with noted(case):
        tool = durable.DurableRun(log, log.append).tool(Effect("post", done))
        results = [tool.call({"n": 1}) for _ in range(2)]
    fail_if_different("the results are wrong", ["post 1", "post 2"], results, case)


@contextmanager
def raises_diverged(case):
    """Check that the block raises Diverged, and nothing else."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "Diverged":
            if isinstance(error, NotImplementedError):
                raise
            fail(Kind.NO_ERROR, f"raised {type(error).__name__}, expected Diverged", case, f"got       {error}")
    else:
        fail(Kind.VALUES, "Diverged was not raised", case)


CALL, ANSWER = {"call": "post", "arguments": {"n": 1}, "steps": None}, {"answer": {}, "finish_reason": "", "tokens": 1}
DIVERGED = {
    "another tool": CALL | {"call": "look"},
    "other arguments": CALL | {"arguments": {"n": 2}},
    "an answer": ANSWER,
    "a result": {"result": "posted"},
}


@pytest.mark.parametrize("which", DIVERGED)
def test_task_1_durable_diverged(which):
    """The log is of another run: it stops, before anything is done or recorded."""
    case, done, disk = f"call post 1, and the next entry is {which}", [], Disk([DIVERGED[which]])
    with noted(case):
        run = durable.DurableRun(disk.entries, disk.append)
        tool = run.tool(Effect("post", done))
    with raises_diverged(case):
        tool.call({"n": 1})
    fail_if_different("the tool was called", [], done, case)
    fail_if_different("the log has changed", 1, len(disk.lines), case)


def test_task_1_durable_diverged_model():
    for words, entry in {"a call": CALL, "a result": {"result": "posted"}, "an error": {"error": "refused"}}.items():
        case = f"the model is asked, and the next entry is {words}"
        with noted(case):
            model = durable.DurableRun([entry], Disk().append).model(raising_model)
        with raises_diverged(case):
            model(QUESTION, [])


def test_task_1_durable_diverged_result():
    case = "call post 1, and its entry is followed by an answer"
    with noted(case):
        tool = durable.DurableRun([CALL, ANSWER], Disk().append).tool(Effect("post", []))
    with raises_diverged(case):
        tool.call({"n": 1})


# Writes, compared with the journal


class Write:
    """Writes the file f through changes."""

    name, description, parameters = "write", "Write.", {"type": "object", "properties": {"text": {"type": "string"}}}

    def __init__(self, changes, done):
        self.changes, self.done = changes, done

    def call(self, arguments):
        self.done.append(arguments["text"])
        return self.changes.write("f", arguments["text"])


OLD = {"a file": b"old\n", "a new file": None, "an empty file": b""}
LEFTOVER = ".0123456789abcdef.tmp"


def resumed(before, now, pushed, case, *, earlier=0, text="new\n", user=None):
    """Resume a write that was interrupted when the file had `now`; return what another process finds."""
    with new_scene() as scene, Root(scene.w) as root:
        file, journal, done = scene.w / "f", Journal(scene.folder / "undo"), []
        changes = Changes(root, journal, user or User())
        for number in range(earlier):
            journal.push(Entry("notes.txt", b"%d" % number, digest(b"inside\n")))
        disk = Disk([{"call": "write", "arguments": {"text": text}, "steps": earlier}])
        for _ in range(pushed):
            journal.push(Entry("f", before, digest(text.encode())))
        if now is not None:
            file.write_bytes(now)
        if pushed and now == before:
            (scene.w / LEFTOVER).write_bytes(b"ne")
        with noted(case):
            tool = durable.DurableRun(disk.entries, disk.append, changes).tool(Write(changes, done), "compare")
        try:
            result = tool.call({"text": text})
        except ValueError:
            result = "a ToolError"
        found = {
            "result": result,
            "calls": len(done),
            "content": file.read_bytes() if file.exists() else None,
            "steps": len(journal),
            "entries": ["result" if "result" in entry else "error" for entry in disk.entries[1:]],
            "names": [name for name in names(scene.w) if name not in (".git", "docs", "notes.txt", "src", "f")],
        }
        if len(journal) > earlier and found["content"] == text.encode():
            changes.undo()
            found["undone"] = file.read_bytes() if file.exists() else None
        return found


@pytest.mark.parametrize("which", OLD)
@pytest.mark.parametrize("earlier", [0, 2])
@pytest.mark.parametrize("moment", ["before the journal", "before the rename", "after the rename"])
def test_task_1_durable_write(which, earlier, moment):
    """After each moment of a write, it is made exactly once, and can be undone."""
    before, made = OLD[which], moment == "after the rename"
    for new in (b"new\n", b""):  # the diff of a new empty file is empty, too
        if new == before:
            continue
        case = f"{which}, {earlier} earlier steps, killed {moment}, the new content is {new!r}"
        now, pushed = new if made else before, moment != "before the journal"
        found = resumed(before, now, pushed, case, earlier=earlier, text=new.decode())
        diff = unified("f", None if before is None else before.decode(), new.decode())
        expected = {"result": diff, "calls": int(not made), "content": new, "steps": earlier + 1, "undone": before}
        fail_if_different("what was found after resuming is wrong", expected | {"entries": ["result"], "names": []},
                          found, case)  # fmt: skip


@pytest.mark.parametrize("now", [b"other\n", b"", None])
def test_task_1_durable_write_changed_since(now):
    case = f"the step is in the journal, and the file has {now!r}: neither the old nor the new content"
    found = resumed(b"old\n", now, True, case)
    expected = {"result": "a ToolError", "calls": 0, "content": now, "steps": 1, "entries": ["error"], "names": []}
    fail_if_different("what was found after resuming is wrong", expected, found, case)


@pytest.mark.parametrize("pushed", [2, -1])
def test_task_1_durable_write_another_journal(pushed):
    case = "the journal has two steps more" if pushed == 2 else "the journal has a step less"
    steps = 1 + pushed
    with new_scene() as scene, Root(scene.w) as root:
        journal = Journal(scene.folder / "undo")
        for _ in range(steps):
            journal.push(Entry("f", b"", digest(b"new\n")))
        (scene.w / "f").write_bytes(b"new\n")
        changes = Changes(root, journal, User())
        disk, done = Disk([{"call": "write", "arguments": {"text": "new\n"}, "steps": 1}]), []
        with noted(case):
            tool = durable.DurableRun(disk.entries, disk.append, changes).tool(Write(changes, done), "compare")
        with raises_value_error(case):
            tool.call({"text": "new\n"})
        fail_if_different("the tool was called", [], done, case)
        fail_if_different("the error was not recorded", ["call", "error"], [next(iter(e)) for e in disk.entries], case)


def test_task_1_durable_write_refused():
    """What the user refuses is an error, which is recorded."""
    case = "the write is run again, and the user refuses"
    found = resumed(b"old\n", b"old\n", False, case, user=User(False))
    expected = {"result": "a ToolError", "calls": 1, "content": b"old\n", "steps": 0, "entries": ["error"], "names": []}
    fail_if_different("what was found after resuming is wrong", expected, found, case)


def test_task_1_durable_write_live():
    """The intent has the length of the journal before the call."""
    case = "a write without a crash, after one earlier step"
    with new_scene() as scene, Root(scene.w) as root:
        journal, disk = Journal(scene.folder / "undo"), Disk()
        journal.push(Entry("notes.txt", b"", digest(b"inside\n")))
        changes = Changes(root, journal, User())
        with noted(case):
            tool = durable.DurableRun([], disk.append, changes).tool(Write(changes, []), "compare")
            tool.call({"text": "new\n"})
        intent = {"call": "write", "arguments": {"text": "new\n"}, "steps": 1}
        fail_if_different("the intent is wrong", intent, disk.entries[0], case)


def test_task_1_durable_killed_during_recovery():
    """A resumed process may be killed, too: the third one finds the same intent, and the same step."""
    case = "killed again, after the write and before its result"
    with new_scene() as scene, Root(scene.w) as root:
        file, journal, done = scene.w / "f", Journal(scene.folder / "undo"), []
        file.write_bytes(b"old\n")
        changes, disk = Changes(root, journal, User()), Disk()
        for kill in ((0, True), (0, False), None):
            disk = Disk(disk.entries, kill)
            with noted(case):
                tool = durable.DurableRun(disk.entries, disk.append, changes).tool(Write(changes, done), "compare")
            try:
                tool.call({"text": "new\n"})
            except Killed:
                continue
        kinds = [("call" in entry, "result" in entry) for entry in disk.entries]
        fail_if_different("the log is wrong", [(True, False), (False, True)], kinds, case)
        fail_if_different("how often the file was written is wrong", 1, len(done), case)
        fail_if_different("the number of steps in the journal is wrong", 1, len(journal), case)
