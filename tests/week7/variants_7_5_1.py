"""Known programs of task 7.5.1, checkpoint and resume."""

from functools import partial

import mlx.core as mx
from tests.week7.crashes import SCRIPTS, Disk, Effect, Program, kind_of, run_process
from tests.week7.edits import User, names
from tests.week7.scenes import new_scene
from tiny_llm_solution.agent.loop import run_agent
from tiny_llm_solution.agent.model import Answer
from tiny_llm_solution.tools.tool import ToolError
from tiny_llm_solution.workspace.changes import Changes
from tiny_llm_solution.workspace.journal import Entry, Journal, digest
from tiny_llm_solution.workspace.root import Root

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.5.1")


def codes(*parts):
    return mx.array(list("|".join(map(repr, parts)).encode()), dtype=mx.int32)


def parts_of(program):
    return Program(program, run_agent, Answer, ToolError)


def whole(program, name):
    """Run without a crash, then resume after the end."""
    done = []
    first = run_process(parts_of(program), SCRIPTS[name], [], done)
    second = run_process(parts_of(program), SCRIPTS[name], first.log, done)
    return codes(first, second, done)


def killed(program, name, kill):
    """Run, killed at one moment, then resume."""
    done = []
    first = run_process(parts_of(program), SCRIPTS[name], [], done, kill)
    second = run_process(parts_of(program), SCRIPTS[name], first.log, done)
    return codes(first, second, done)


def write(program, before, now, pushed, steps=0):
    """Resume a write that was interrupted, and return what is found then."""
    with new_scene() as scene, Root(scene.w) as root:
        file, journal, done = scene.w / "f", Journal(scene.folder / "undo"), []
        for _ in range(pushed):
            journal.push(Entry("f", before, digest(b"new\n")))
        if now is not None:
            file.write_bytes(now)
        if pushed and now == before:
            (scene.w / ".0123456789abcdef.tmp").write_bytes(b"ne")
        changes, tool = Changes(root, journal, User()), Effect("write", done)
        tool.does = lambda: changes.write("f", "new\n")
        disk = Disk([{"call": "write", "arguments": {"n": 1}, "steps": steps}])
        wrapped = program(disk.entries, disk.append, changes).tool(tool, "compare")
        try:
            result = wrapped.call({"n": 1})
        except ValueError:
            result = "a ToolError"
        content = file.read_bytes() if file.exists() else None
        kinds = ["error" if "error" in entry else kind_of(entry) for entry in disk.entries]  # any message will do
        return codes(result, done, content, len(journal), len(names(scene.w)), kinds)


def diverged(program, entry):
    done, disk = [], Disk([entry])
    tool = program(disk.entries, disk.append).tool(Effect("post", done))
    try:
        result = tool.call({"n": 1})
    except BaseException as error:  # of the program's own package
        result = type(error).__name__
    return codes(result, done, len(disk.lines))


known.probe_table(
    **{f"whole_{i}": partial(lambda program, name: whole(program, name), name=name) for i, name in enumerate(SCRIPTS)},
    **{
        f"killed_{number}_{after}": lambda program, kill=(number, after): killed(program, "four calls", kill)
        for number in range(6)
        for after in (False, True)
    },
    failed_before=lambda program: killed(program, "calls that fail", (2, False)),
    failed_after=lambda program: killed(program, "calls that fail", (3, True)),
    not_begun=lambda program: write(program, b"old\n", b"old\n", 0),
    begun=lambda program: write(program, b"old\n", b"old\n", 1),
    made=lambda program: write(program, b"old\n", b"new\n", 1),
    new_begun=lambda program: write(program, None, None, 1),
    new_made=lambda program: write(program, None, b"new\n", 1),
    changed_since=lambda program: write(program, b"old\n", b"other\n", 1),
    two_steps=lambda program: write(program, b"old\n", b"new\n", 2),
    a_step_less=lambda program: write(program, b"old\n", b"new\n", 0, 1),
    other_arguments=lambda program: diverged(program, {"call": "post", "arguments": {"n": 2}, "steps": None}),
    another_kind=lambda program: diverged(program, {"answer": {}, "finish_reason": "", "tokens": 1}),
)
known.not_timed("the time is that of the tools and the disk")


known.change(
    "intent-after-the-call",
    (
        """
        self.append({"call": tool.name, "arguments": arguments, "steps": steps})
        return self._recorded(partial(tool.call, arguments))
        """,
        """
        try:
            end = {"result": tool.call(arguments)}
        except Exception as error:
            end = {"error": str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"}
        self.append({"call": tool.name, "arguments": arguments, "steps": steps})
        self.append(end)
        if "error" in end:
            raise ToolError(end["error"])
        return end["result"]
        """,
    ),
    fact="a call is written to the log after it was made",
    question="The process is killed during the call. What does the next one know of it?",
)
known.change(
    "asks-again",
    (
        'return Answer(entry["answer"], entry["finish_reason"], entry["tokens"])',
        "return model(messages, tools)",
    ),
    fact="the model is asked again for answers that are in the log",
    question="How much does a resumed run of 100 steps cost before it does anything new?",
)
known.change(
    "always-repeats",
    ('if recovery == "report":', "if False:"),
    fact="a call that was interrupted is made again, whatever it does",
    question="The call sent an email, and the process was killed before the result was recorded. What is sent now?",
)
known.change(
    "always-reports",
    ('if recovery == "report":', 'if recovery != "compare":'),
    fact="a call without side effects is reported as interrupted, although it could be made again",
    question="Does it matter whether a file was read once or twice?",
)
known.change(
    "errors-not-recorded",
    ('self.append({"error": message})', "pass"),
    fact="a call that fails leaves no result in the log",
    question="The next process finds an intent without a result. Was the call interrupted?",
)
known.change(
    "errors-replayed-as-results",
    ('raise ToolError(end["error"])', 'return str(end["error"])'),
    fact="a recorded error is replayed as the result of a call that succeeded",
    question="The model read a text that began with Error. Does it read the same one after resuming?",
)
known.change(
    "second-intent",
    (
        "return self._recorded(partial(self._recover, tool, recovery, intent))",
        "self.append(intent)\nreturn self._recorded(partial(self._recover, tool, recovery, intent))",
    ),
    fact="a recovered call gets a second intent in the log",
    question="A third process replays this log. Which entry does it expect after the first intent?",
)
known.change(
    "second-intent-of-a-repeat",
    (
        "return self._recorded(partial(self._recover, tool, recovery, intent))",
        """
        if recovery == "repeat":
            self.append({"call": tool.name, "arguments": arguments, "steps": None})
        return self._recorded(partial(self._recover, tool, recovery, intent))
        """,
    ),
    fact="a call that is repeated gets a second intent in the log",
    question="A third process replays this log. Which entry does it expect after the first intent?",
)
known.change(
    "report-not-recorded",
    (
        "return self._recorded(partial(self._recover, tool, recovery, intent))",
        """
        if recovery == "report":
            raise ToolError(INTERRUPTED)
        return self._recorded(partial(self._recover, tool, recovery, intent))
        """,
    ),
    fact="the report of an interrupted call is raised, but not recorded",
    question="The run continues, and is killed again later. What does the next process find after the intent?",
)
known.change(
    "recovery-not-recorded",
    (
        "return self._recorded(partial(self._recover, tool, recovery, intent))",
        "return self._recover(tool, recovery, intent)",
    ),
    fact="the outcome of a recovered call is not recorded",
    question="The run continues, and is killed again later. What does the next process find after the intent?",
)
known.change(
    "journal-alone",
    ("if content is not None and digest(content) == entry.after:", "if content is not None:"),
    fact="a write counts as made as soon as its step is in the journal",
    question="The journal is written before the file. What if the process was killed in between?",
)
known.change(
    "stale-step",
    ("journal.pop()", "pass"),
    fact="the step of a write that was not made stays in the journal, and the write adds a second one",
    question="How many undo steps does one write leave?",
)
known.change(
    "leftover-stays",
    ("remove_leftovers(place)", "pass"),
    fact="the new file that was never renamed stays in the folder",
    question="The process was killed before the rename. Which files are in the folder?",
)
known.change(
    "overwrites-the-user",
    ("if content != entry.before:", "if False:"),
    fact="a file that has changed since the crash is overwritten",
    question="You have repaired the file by hand before resuming. Whose content survives?",
)
known.change(
    "any-log",
    ("if not fits:", "if False:"),
    fact="an entry that does not fit the call is used all the same",
    question="The log is that of a run with other tools. Whose results does the model read?",
)


known.accepted_change(
    "entries taken from the end of a list",
    (
        "self._entries, self._at, self.append, self.changes = list(entries), 0, append, changes",
        "self._entries, self.append, self.changes = [*reversed(entries)], append, changes",
    ),
    ("if self._at == len(self._entries):", "if not self._entries:"),
    ("entry = self._entries[self._at]", "entry = self._entries[-1]"),
    ("{self._at + 1} of the log", "of the log"),
    (
        """
        self._at += 1
        return entry
        """,
        "return self._entries.pop()",
    ),
)
known.accepted_change(
    "arguments compared as they are",
    (
        'json.dumps([entry["call"], entry["arguments"]]) == json.dumps([name, arguments])',
        'entry["call"] == name and entry["arguments"] == arguments',
    ),
)
