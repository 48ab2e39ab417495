"""Known programs of task 7.3.2, the loop."""

import contextlib
import json
from functools import partial

import mlx.core as mx
from tests.week7.scripted import SCENES, START, Scene, asks, played, says
from tiny_llm_solution.agent.calls import call_tool
from tiny_llm_solution.agent.loop import Limits, Outcome
from tiny_llm_solution.agent.model import Answer
from tiny_llm_solution.tools.tool import ToolCall, function_schema

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.3.2")


def lines(program, name):
    return mx.array(list("\n".join(played(program, SCENES[name], Answer, Limits)).encode()), dtype=mx.int32)


for each in (
    "an answer",
    "text and a call",
    "two calls in a step",
    "an answer that is cut",
    "a call that is cut",
    "no steps",
    "one step too many",
    "tokens",
    "time",
    "the time is over in a step",
    "the same step",
    "repeats interrupted",
    "the same calls in other words",
    "two in a row, after another tool and another value",
    "other text each time",
    "other results each time",
    "the model fails later",
):
    known.probe()(partial(lambda program, name: lines(program, name), name=each))


@known.probe()
def loop_model_with_a_bug(program):
    def model(messages, tools):
        raise RuntimeError("a bug")

    return mx.array(program(model, START, []).steps)


@known.sized("100 steps of two calls")
def sized(program):
    script = [asks(("probe", f'{{"first": {i}}}'), ("probe", "{}")) for i in range(100)]
    scene = Scene([*script, says("Done.")], {"steps": 200})
    return lambda: played(program, scene, Answer, Limits)


known.change(
    "text-ends-the-run",
    ("if not calls:", 'if not calls or answer.message.get("content"):'),
    fact="an answer with text ends the run although it has calls",
    question="The model says what it is about to do, and calls a tool. Is it finished?",
)
known.change(
    "first-call-alone",
    ('calls = answer.message.get("tool_calls") or []', 'calls = (answer.message.get("tool_calls") or [])[:1]'),
    fact="only the first call of a step is run",
    question="The message has two calls. How many results must follow?",
)
known.change(
    "id-of-the-first",
    ('"tool_call_id": call["id"]', '"tool_call_id": calls[0]["id"]'),
    fact="every result refers to the first call",
    question="How does the model know which result belongs to which call?",
)
known.change(
    "cut-is-done",
    ('return stopped("cut" if answer.finish_reason == "length" else "done")', 'return stopped("done")'),
    fact="an answer that was cut at the token limit counts as done",
    question="What is the finish_reason of an answer that was cut?",
)
known.change(
    "one-step-more",
    ("if steps >= limits.steps:", "if steps > limits.steps:"),
    fact="the model is asked once more than the limit allows",
    question="With a limit of 0 steps, how often may the model be asked?",
)
known.change(
    "tokens-of-the-last-step",
    ("steps, tokens = steps + 1, tokens + answer.tokens", "steps, tokens = steps + 1, answer.tokens"),
    fact="only the tokens of the last step are counted",
    question="Two steps used 40 and 60 tokens. What has the run cost?",
)
known.change(
    "time-between-steps",
    ("late = clock() - start >= limits.seconds", "late = False"),
    fact="the time is checked only between steps, so calls run after it is over",
    question="The first of four calls takes ten minutes. Do the other three start?",
)
known.change(
    "calls-without-results",
    (
        "results.append(",
        "if late:\n    break\nresults.append(",
    ),
    fact="a call that was not run has no result",
    question="What does a server say to a conversation in which a call has no result?",
)
known.change(
    "results-do-not-count",
    ("now = [_key(call) for call in calls], results", "now = [_key(call) for call in calls]"),
    fact="steps with the same calls are repeats although their results differ",
    question="The model runs the tests after each change. Is it stuck?",
)
known.change(
    "arguments-as-text",
    ("return name, json.dumps(json.loads(arguments), sort_keys=True)", "return name, arguments"),
    fact="repeats are found only if the arguments are written in the same way",
    question='Are {"a":1} and { "a": 1 } different arguments?',
)
known.change(
    "arguments-as-python-values",
    ("return name, json.dumps(json.loads(arguments), sort_keys=True)", "return name, json.loads(arguments)"),
    fact="arguments are compared as Python values, so 1 and true are the same",
    question='What is {"any": 1} == {"any": True} in Python? Are the JSON values 1 and true equal?',
)
known.change(
    "repeats-anywhere",
    (
        "repeated = repeated + 1 if now == previous else 1",
        "repeated = repeated + 1 if now == previous else repeated or 1",
    ),
    fact="a different step does not end a row of repeats",
    question="The steps are A, A, B, A. How many in a row are the same?",
)
known.change(
    "repetitions-counted",
    ("if repeated >= limits.repeats:", "if repeated > limits.repeats:"),
    fact="`limits.repeats` is compared with the number of repetitions, so the run stops one step late",
    question="Three steps in a row are the same. How many of them repeat the step before?",
)
known.change(
    "cut-although-it-has-calls",
    ("if not calls:", 'if not calls or answer.finish_reason == "length":'),
    fact="an answer that was cut ends the run although it has calls, which get no results",
    question="An answer has a call, and its finish_reason is length. Which of your two checks comes first?",
)
known.change(
    "every-error-of-the-model",
    ("except OSError as error:", "except Exception as error:"),
    fact="every error of the model ends the run with `model`, even a bug's",
    question="Which errors of the model does the docstring name, and what happens to the others?",
)
known.change(
    "caller-s-list",
    ("history, schemas = list(messages), [", "history, schemas = messages, ["),
    fact="the messages are appended to the caller's list",
    question="The caller starts a second run with the same question. What does its list contain by then?",
)
known.change(
    "limit-after-the-answer",
    ("append(answer.message)", 'append(answer.message)\nif steps >= limits.steps:\n    return stopped("steps")'),
    fact="an answer in the last permitted step ends the run with `steps`, even if it is the final one",
    question="One step is allowed, and the model answers at once. Is it done?",
)


@known.accepted("a class that runs")
def by_class(model, messages, tools, limits=Limits(), *, clock=None, record=lambda entry: None):  # noqa: B008
    run = Runner(model, [*messages], tools, limits, clock, record)
    reason, detail = run.until_it_stops()
    record({"stop": reason, "detail": detail, "steps": run.steps, "tokens": run.tokens})
    return Outcome(run.messages, reason, detail, run.steps, run.tokens)


class Runner:
    """One run, with its state."""

    def __init__(self, model, messages, tools, limits, clock, record):
        import time

        self.model, self.messages, self.tools, self.limits, self.record = model, messages, tools, limits, record
        self.clock = clock or time.monotonic
        self.end, self.steps, self.tokens, self.rows = self.clock() + limits.seconds, 0, 0, []

    def until_it_stops(self):
        while True:
            if self.limits.steps - self.steps <= 0:
                return "steps", ""
            if self.limits.tokens - self.tokens <= 0:
                return "tokens", ""
            if self.late():
                return "time", ""
            try:
                answer = self.model(self.messages, [function_schema(tool) for tool in self.tools])
            except OSError as error:
                return "model", f"{error}"
            if reason := self.step(answer):
                return reason, ""

    def late(self):
        return self.clock() >= self.end

    def add(self, message):
        self.messages.append(message)
        self.record({"message": message})

    def step(self, answer):
        self.steps += 1
        self.tokens += answer.tokens
        self.add(answer.message)
        if not answer.message.get("tool_calls"):
            return {"length": "cut"}.get(answer.finish_reason, "done")
        row = []
        for call in answer.message["tool_calls"]:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            result = "Error: not run, the time is over"
            if not self.late():
                result = call_tool(ToolCall(name, arguments), self.tools)
            self.add({"role": "tool", "tool_call_id": call["id"], "content": result})
            with contextlib.suppress(ValueError):
                arguments = json.dumps(json.loads(arguments), sort_keys=True)
            row.append((name, arguments, result))
        self.rows.append(row)
        last = self.rows[-self.limits.repeats :]
        return "repeats" if len(last) == self.limits.repeats and all(row == last[0] for row in last) else ""
