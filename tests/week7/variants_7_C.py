"""Known programs of week 7's open task: agents around the loop, good ones and bad ones."""

import time
from dataclasses import replace

import mlx.core as mx
from tests.week7.weak_models import CASES, KINDS, worked
from tiny_llm_solution.agent.loop import Limits, run_agent
from tiny_llm_solution.agent.model import Answer

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.C")


def results(program, kind, steps):
    """Return what came of each case, as numbers."""
    found = [worked(program, case, kind, Answer, Limits, steps) for case in CASES]
    return mx.array([[*map(int, each[:1] + each[2:6]), min(each.rounds, 1)] for each in found])


known.probe_table(
    announces=lambda program: results(program, KINDS[0], 20),
    wrong_at_first=lambda program: results(program, KINDS[1], 20),
    three_attempts=lambda program: results(program, KINDS[2], 20),
    no_help=lambda program: results(program, KINDS[3], 20),
    never=lambda program: results(program, KINDS[4], 9),
)
known.not_timed("an agent waits for its model")


@known.wrong(
    "believes-the-model",
    fact="the model's word is taken: the loop runs once",
    question="What does the model say at the end of a run that has failed?",
)
def believes(model, messages, tools, limits=Limits(), *, record=lambda entry: None):  # noqa: B008
    return run_agent(model, messages, tools, limits, record=record)


OBJECTION = 'objection = _objection(outcome.messages[len(messages) :], tools) if outcome.reason == "done" else ""'
known.change(
    "asks-once",
    (OBJECTION, OBJECTION.replace('== "done"', '== "done" and history == list(messages)')),
    fact="the agent objects once, and then takes the model's word",
    question="The second attempt is wrong as well. Who notices?",
)
known.change(
    "without-the-output",
    ('f"I have run the tests, and they fail:\\n{output}\\nFind', 'f"The tests do not pass.\\nFind'),
    fact="the message says that the tests fail, but not what they print",
    question="You learn that something is wrong. What do you ask first?",
)
known.change(
    "a-new-conversation",
    ("history = [*outcome.messages, answer]", "history = [*messages, answer]"),
    fact="each attempt begins with a conversation that has forgotten the others",
    question="What has the model read so far, and what of it is in the new conversation?",
)
known.change(
    "limits-anew",
    ("steps=limits.steps - steps, tokens=limits.tokens - tokens, seconds=left", "seconds=left"),
    ("stops = list[dict[str, Any]]()", "stops = list[dict[str, Any]]()\nrounds = iter(range(25))"),
    (OBJECTION, OBJECTION.replace('== "done"', '== "done" and next(rounds, 0)  is not None and steps < 90')),
    fact="each attempt gets the limits of the whole work",
    question="With a limit of 20 steps and five attempts: how many steps may the work take?",
)
known.change(
    "waits-for-calls",
    (
        'return "Nothing has changed yet. Do not wait for an answer: change the code, then run the tests."',
        'return ""',
    ),
    fact="a model that has changed nothing is done",
    question="The model asks whether it may begin. Who answers?",
)
known.change(
    "always-objects",
    ('if output.endswith("[exit code 0]"):\n    return ""\n', ""),
    fact="the agent objects although the tests pass",
    question="When is the work done?",
)
known.change(
    "last-round-only",
    ("return replace(outcome, steps=steps, tokens=tokens)", "return outcome"),
    fact="steps and tokens of the outcome are those of the last attempt",
    question="Who pays for the attempts before the last one?",
)
known.change(
    "several-stops",
    ('stops.append(entry) if "stop" in entry else record(entry)', "stops.append(entry)\nrecord(entry)"),
    ('record(stops[-1] | {"steps": steps, "tokens": tokens})', "stops.clear()"),
    fact="the transcript has a stop after each attempt",
    question="What does a reader of the transcript take a stop for?",
)


@known.accepted("rounds")
def rounds(model, messages, tools, limits=Limits(), *, record=lambda entry: None):  # noqa: B008
    run = {tool.name: tool.call for tool in tools}
    begun, said, used = time.monotonic(), [*messages], [0, 0]
    while True:
        spent = time.monotonic() - begun
        rest = Limits(limits.steps - used[0], limits.tokens - used[1], max(0, limits.seconds - spent), limits.repeats)
        found = run_agent(model, said, tools, rest, record=lambda entry: "stop" in entry or record(entry))
        used = [used[0] + found.steps, used[1] + found.tokens]
        tested = run["run_command"]({"command": ["python3", "-m", "unittest"]})
        if found.reason != "done" or "exit code 0" in tested:
            record({"stop": found.reason, "detail": found.detail, "steps": used[0], "tokens": used[1]})
            return replace(found, steps=used[0], tokens=used[1])
        said = [*found.messages, {"role": "user", "content": f"Not yet. The tests say: {tested}"}]
        record({"message": said[-1]})
