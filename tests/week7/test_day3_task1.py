"""Task 7.3.1, running a call, checked case by case."""

import pytest
from tests.week7.scripted import CASES, Case, Probe, raising

from tiny_llm.agent import calls
from tiny_llm.tools.tool import ToolCall, ToolError
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.texts import awkward_texts, same_text


def answered(case, words):
    """The learner's answer to a case, and what the tools were called with."""
    tools = case.tools()
    with noted(words):
        found = calls.call_tool(ToolCall(case.name, case.arguments, case.error), tools, case.longest)
    return found, [arguments for tool in tools for arguments in tool.seen]


def check(case, words):
    found, seen = answered(case, words)
    if case.result is not None:
        same_text(found, case.result, words)
        return
    if not isinstance(found, str) or not found.startswith("Error: "):
        fail(Kind.NO_ERROR, "no error was returned", words, f"got       {found!a:.80}")
    if missing := [word for word in case.words if word not in found]:
        fail(Kind.VALUES, f"the error does not mention {', '.join(missing)}", words, f"got       {found[:90]}")
    if seen and not any(tool.does.__name__ == "run" for tool in case.tools()):
        fail(Kind.VALUES, "the tool was called although something is wrong", words, f"with      {seen}")


def said(name):
    case = CASES[name]
    return f"{name}: {case.name} {case.arguments[:60]}" + (f", longest {case.longest}" if case.longest < 20000 else "")


@pytest.mark.parametrize("name", CASES)
def test_task_1_call_case(name):
    check(CASES[name], said(name))


def test_task_1_call_arguments_once():
    """The tool gets the parsed arguments, once."""
    case = Case("probe", '{"path": "a", "names": [1, {"b": null}]}', lambda: [], "")
    tool = Probe()
    with noted("probe with a list of two items"):
        calls.call_tool(ToolCall(case.name, case.arguments), [tool])
    if tool.seen != [{"path": "a", "names": [1, {"b": None}]}]:
        fail(Kind.VALUES, "the tool was called with something else", "probe with a list", f"got       {tool.seen}")


def test_task_1_call_tool_error():
    check(
        Case("probe", "{}", lambda: [Probe(does=raising(ToolError("no file a.py")))], None, ("no file a.py",)),
        "ToolError",
    )


@pytest.mark.parametrize(
    "error", [ToolError("no file a.py"), ValueError("no file a.py")], ids=["ToolError", "ValueError"]
)
def test_task_1_call_shows_only_the_message_of_a_value_error(error):
    """A ValueError is meant for the model: its message says it all, without the name of a Python type."""
    case = Case("probe", "{}", lambda: [Probe(does=raising(error))], None, ("no file a.py",))
    words = f"a tool that raises {type(error).__name__}"
    found, _ = answered(case, words)
    if isinstance(found, str) and type(error).__name__ in found:
        fail(Kind.VALUES, f"the answer has the type {type(error).__name__}", words, f"got       {found[:90]}")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_task_1_call_lets_ctrl_c_through(error):
    case = f"a tool that raises {type(error).__name__}"
    try:
        found = calls.call_tool(ToolCall("probe", "{}"), [Probe(does=raising(error))])
    except (KeyboardInterrupt, SystemExit):
        return
    fail(Kind.NO_ERROR, f"{type(error).__name__} was swallowed", case, f"got       {found!a:.80}")


def test_task_1_call_sweep():
    """Every kind of text as a result, whole and cut in the middle; a bound on what the model must read."""
    for number, text in enumerate(awkward_texts()):
        longest = (len(text) + 3, len(text), max(1, len(text) - 1), 20, 7)[number % 5]
        half = longest // 2
        omitted = f"\n[{len(text) - 2 * half} characters omitted]\n"
        expected = text if len(text) <= longest else text[:half] + omitted + text[len(text) - half :]
        case = Case("probe", "{}", lambda text=text: [Probe(does=lambda arguments: text)], expected, longest=longest)
        check(case, f"result {ascii(text)[:50]}, longest {longest}")
