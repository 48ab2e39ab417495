"""Known programs of task 7.6.3, the causes of failures."""

import mlx.core as mx
from tests.week7.transcripts import SCENES, entries, random_scene
from tiny_llm_solution.outcomes.called import calls_of
from tiny_llm_solution.outcomes.causes import CAUSES
from tiny_llm_solution.outcomes.grade import Grade

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.6.3")


def caused(program, scenes):
    """Return the places of the causes in CAUSES."""
    found = []
    for scene in scenes:
        cause = program(entries(scene.calls, scene.stop, scene.together), Grade(scene.verdict, scene.failed))
        found.append([*CAUSES].index(cause) if cause in CAUSES else -1)
    return mx.array(found)


known.probe()(lambda program: caused(program, list(SCENES.values())[:20]))
known.probe()(lambda program: caused(program, list(SCENES.values())[20:]))
known.probe()(lambda program: caused(program, map(random_scene, range(1000, 1100))))


@known.sized("200 transcripts")
def sized(program):
    scenes = [random_scene(seed) for seed in range(200)]
    given = [(entries(scene.calls, scene.stop), Grade(scene.verdict, scene.failed)) for scene in scenes]
    return lambda: [program(*each) for each in given]


known.change(
    "stop-first",
    ("calls = calls_of(entries)", 'calls = calls_of(entries)\nif entries[-1].get("stop", "done") != "done":\n'
     '    return str(entries[-1]["stop"])'),
    fact="the reason of the stop is the cause, if there is one other than done",
    question="A run was stopped after 20 steps, and no edit of it was accepted. What would you improve?",
)  # fmt: skip
known.change(
    "stops-together",
    (
        "return next(cause for cause",
        'if not grade.solved and stop in ("model", "repeats", *LIMITS):\n    return stop\nreturn next(cause for cause',
    ),
    fact="all reasons of the stop are checked together, before the causes that precede some of them",
    question="A run stopped at the limit of steps after a refused change. Which cause comes first in CAUSES?",
)
known.change(
    "any-refusal",
    (
        'last is not None and last.result.endswith("the user refused")',
        'any(call.result.endswith("the user refused") for call in calls if call.tool in (*CHANGES, COMMAND))',
    ),
    fact="one refusal anywhere in the run is the cause",
    question="The user refused an edit, and accepted the next one. Which of the two ended the run?",
)
known.change(
    "refusal-anywhere",
    ('last.result.endswith("the user refused")', '"the user refused" in last.result'),
    fact="a last result that contains the words of a refusal counts as one, even if more text follows them",
    question="The tests print the words of a refusal, and then pass. Did the user refuse them?",
)
known.change(
    "refusal-of-any-tool",
    (
        "next((call for call in reversed(calls) if call.tool in (*CHANGES, COMMAND)), None)",
        "calls[-1] if calls else None",
    ),
    fact="only the very last call can have been refused, reads included",
    question="A run reads once more after the refusal. Was it not refused then?",
)
known.change(
    "half-is-enough",
    ("> len(calls)", ">= len(calls)"),
    fact="exactly half of the calls, or no calls at all, count as more than half",
    question="Two of four: is that more than half? And none of none?",
)
known.change(
    "all-of-nothing",
    ('"edit refused": bool(changes) and not made', '"edit refused": not made'),
    fact="a run without any change counts as one whose changes were all refused",
    question="What is true of all elements of an empty list?",
)
known.change(
    "one-error-is-enough",
    ('"edit refused": bool(changes) and not made', '"edit refused": len(made) < len(changes)'),
    fact="one change that is an error is enough, also if another one was made",
    question="The second attempt worked. Were all of them refused?",
)
known.change(
    "any-test-file",
    ("all(_is_test(call) for call in made)", "any(_is_test(call) for call in made)"),
    fact="one changed test file is enough, also if the module was changed, too",
    question="A good fix adds a test. Is that why it failed?",
)
known.change(
    "attempts-count",
    ("all(_is_test(call) for call in made)", "all(_is_test(call) for call in changes)"),
    fact="changes that were errors count among the changed files",
    question="An edit of the module was refused. Has the module been changed?",
)
known.change(
    "whole-path",
    ('path.rpartition("/")[2].startswith("test_")', 'path.startswith("test_")'),
    fact="the whole path must begin with test_, not its last component",
    question="Where do many projects keep their tests?",
)
known.change(
    "any-command",
    (
        'bool(commands) and not commands[-1].result.endswith("[exit code 0]")',
        'any(not call.result.endswith("[exit code 0]") for call in commands)',
    ),
    fact="any command that failed is enough, not the last one",
    question="A good agent runs the tests first and sees them fail. And at the end?",
)
known.change(
    "run-at-all",
    ("for call in calls[last_change + 1 :]", "for call in calls"),
    fact="a command at any time counts, also before the change",
    question="The tests were run, and then the module was changed. Which module did they test?",
)
known.change(
    "any-failed-test",
    ("any(name.startswith(KEPT) for name in grade.failed)", "bool(grade.failed)"),
    fact="every test that fails counts as one that passed before",
    question="Which hidden tests pass on the bug? How are they named?",
)


@known.accepted("one condition after the other")
def in_turn(entries, grade):
    if grade.verdict == "passed":
        return "solved"
    stop = "interrupted"
    for entry in entries:
        stop = entry.get("stop", stop)
    if stop in ("interrupted", "model"):
        return stop
    calls = calls_of(entries)
    bad = {i for i, call in enumerate(calls) if call.result[:7] == "Error: "}
    change = [i for i, call in enumerate(calls) if call.tool in {"edit_file", "write_file"}]
    run = [i for i, call in enumerate(calls) if call.tool == "run_command"]
    if change + run and calls[max(change + run)].result[-16:] == "the user refused":
        return "refused"
    if stop == "repeats":
        return stop
    if len(bad) > len(calls) / 2:
        return "failing calls"
    good = [i for i in change if i not in bad]
    if change and not good:
        return "edit refused"
    if stop in {"steps", "tokens", "time", "cut"}:
        return stop
    if not change:
        return "no change"
    names = [str(calls[i].arguments.get("path", "")).split("/")[-1] for i in good]
    if all(name[:5] == "test_" for name in names):
        return "edited tests"
    if grade.verdict in {"limit", "no report"}:
        return "hangs" if grade.verdict == "limit" else "no report"
    if [name for name in grade.failed if name[:10] == "test_kept_"]:
        return "broke another test"
    if run and calls[run[-1]].result[-13:] != "[exit code 0]":
        return "ignored failure"
    return "wrong fix" if run and run[-1] > good[-1] else "untested"
