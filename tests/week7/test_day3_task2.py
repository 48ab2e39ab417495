"""Task 7.3.2, the loop, checked by the conversation, the record and the reason of scripted runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.lines import same_lines
from tests.week7.scripted import SCENES, START, A, B, Scene, asks, expected_lines, played, says

from tiny_llm.agent import loop
from tiny_llm.agent.model import Answer
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import fail_if_different, raises_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again


def check(scene, case):
    found = again(lambda: played(loop.run_agent, scene, Answer, loop.Limits), case)
    same_lines(found, expected_lines(scene), case, "line")


def said(name):
    scene = SCENES[name]
    more = "".join(f", {key} {value}" for key, value in scene.limits.items())
    return f"{name}{more}" + (f", each call takes {scene.call_takes:g} s" if scene.call_takes else "")


@pytest.mark.parametrize("name", SCENES)
def test_task_2_loop_scene(name):
    check(SCENES[name], said(name))


def test_task_2_loop_what_the_model_gets():
    """The whole conversation, and the tools' schemas, in each step."""
    seen, case = [], "a call and an answer"

    class Tool:
        name, description, parameters = "look", "Look.", {"type": "object", "properties": {}}

        def call(self, arguments):
            return "blue"

    def model(messages, tools):
        seen.append(([dict(message) for message in messages], tools))
        calls = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
        done = len(messages) > len(START)
        return Answer(
            {"role": "assistant", "content": "It is."} if done else {"role": "assistant", "tool_calls": calls}, "", 1
        )

    with noted(case):
        found = loop.run_agent(model, START, [Tool()])
    schema = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
    for number, (messages, tools) in enumerate(seen):
        fail_if_different("the tools are different", [{"type": "function", "function": schema}], list(tools), case)
        fail_if_different("the conversation is different", found.messages[: (2, 4)[number]], messages, case)


def test_task_2_loop_lets_ctrl_c_through():
    """A run that is interrupted has recorded all that happened before."""
    record = []

    def model(messages, tools):
        if len(messages) > 2:
            raise KeyboardInterrupt
        call = {"id": "1", "type": "function", "function": {"name": "none", "arguments": "{}"}}
        return Answer({"role": "assistant", "tool_calls": [call]}, "tool_calls", 1)

    case = "Ctrl-C in the second step"
    try:
        loop.run_agent(model, START, [], record=record.append)
    except KeyboardInterrupt:
        fail_if_different("the record is incomplete", 2, len(record), case)
        return
    fail_if_different("KeyboardInterrupt was swallowed", "raised", "swallowed", case)


def test_task_2_loop_a_bug_is_no_stop():
    """A bug in the model's code is raised, not hidden as a reason."""

    def model(messages, tools):
        raise RuntimeError("a bug")

    with raises_error(RuntimeError, "a model that raises RuntimeError", "a bug"):
        loop.run_agent(model, START, [])


def test_task_2_loop_sweep():
    """Limits of any size on long runs."""
    for n in sizes(S=20, C=5):
        steps = [asks(*[(A, B)[(i + j) % 2] for j in range(n.C)], tokens=7) for i in range(n.S + 2)]
        for limits in ({"steps": n.S}, {"tokens": 7 * n.S}, {"seconds": n.S + 0.0}, {"seconds": n.S / 2 + 1.25}):
            check(
                Scene([*steps, says("Done.")], limits, call_takes=0.125),
                f"{n.S + 2} steps of {n.C} calls, {limits}",
            )
        same = [asks(*[A] * n.C)] * (n.S + 3)
        check(Scene([*same, says("Done.")], {"repeats": n.S}), f"the same {n.C} calls, repeats {n.S}")


@property_test
@given(
    st.lists(st.sampled_from([asks(A), asks(B), asks(A, B), asks(("none", "{}")), asks(("probe", "{"))]), max_size=7),
    st.fixed_dictionaries({"steps": st.integers(1, 8), "tokens": st.integers(5, 90), "repeats": st.integers(1, 4)}),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([3.0, 7.5, 600.0]),
)
def test_task_2_loop_any_run(answers, limits, call_takes, seconds):
    scene = Scene([*answers, says("Done.")], {**limits, "seconds": seconds}, call_takes=call_takes)
    check(scene, f"{len(answers)} steps with calls, {limits}, seconds {seconds}, each call takes {call_takes:g} s")
