"""Known programs of task 7.3.1, running a call."""

import json
from functools import partial

import mlx.core as mx
from tests.week7.scripted import CASES, Probe
from tiny_llm_solution.tools.tool import ToolCall

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.3.1")


def answer(program, name):
    """Return a result as character codes; for an error, that it is one, and whether it says what it must."""
    case = CASES[name]
    tools = case.tools()
    found = program(ToolCall(case.name, case.arguments, case.error), tools, case.longest)
    if found.startswith("Error: "):
        return mx.array([-1, sum(word in found for word in case.words), sum(len(tool.seen) for tool in tools)])
    return mx.array([sum(len(tool.seen) for tool in tools), *found.encode()], dtype=mx.int32)


for each in (
    "all arguments",
    "one of two types",
    "one of the values",
    "a value in another form",
    "a malformed call",
    "no such tool",
    "no JSON",
    "no text at all",
    "a list",
    "an empty list",
    "brackets without an end",
    "a missing argument",
    "an unknown argument",
    "an argument of a tool that has none",
    "true as an integer",
    "a text as a number",
    "none of the values",
    "true for a 1 of the values",
    "a ValueError",
    "a KeyError",
    "a long result",
    "a result that just fits",
    "a limit of one",
):
    known.probe()(partial(lambda program, name: answer(program, name), name=each))


@known.sized("100 calls with five arguments")
def sized(program):
    call, tools = ToolCall("probe", CASES["all arguments"].arguments), [Probe(), Probe("other")]
    return lambda: [program(call, tools) for _ in range(100)]


known.change(
    "only-tool-errors",
    ('except Exception as error:\n    return f"Error: {type(error).__name__}: {error}"\n', ""),
    fact="an error of the tool's own, such as a KeyError, ends the loop",
    question="A tool has a bug that shows in one call of a hundred. What should the model read?",
)
known.change(
    "message-alone",
    ('return f"Error: {type(error).__name__}: {error}"', 'return f"Error: {error}"'),
    fact="the type of an unexpected error is missing",
    question="What is str(KeyError('a.py'))? Does it say what went wrong?",
)
known.change(
    "true-is-one",
    ('if isinstance(value, bool):\n    return kind == "boolean"\n', ""),
    fact="true and false pass for integers",
    question="What is isinstance(True, int)?",
)
known.change(
    "types-not-checked",
    ("if not any(_is_a(value, kind) for kind in kinds):", "if False:"),
    fact="the types of arguments are not checked",
    question='The model wrote "3" for 3. Which message helps it, yours or the tool\'s TypeError?',
)
known.change(
    "values-not-checked",
    ('if "enum" in schema and not any(_equal(value, each) for each in schema["enum"]):', "if False:"),
    fact="the values of an enum are not checked",
    question="The schema lists two modes, and the model has invented a third one. Who notices?",
)
known.change(
    "true-in-an-enum",
    ('not any(_equal(value, each) for each in schema["enum"])', 'value not in schema["enum"]'),
    fact="true passes for a 1 in an enum, as they are equal in Python",
    question="An enum has the levels 1 and 2, and the model writes true. What does `True in [1, 2]` return?",
)
known.change(
    "missing-not-noticed",
    ("if name not in arguments:", "if False:"),
    fact="a required argument may be missing",
    question="Which key of the schema says what a call must have?",
)
known.change(
    "unknown-not-noticed",
    ("if name not in properties:", "if name not in properties:\n    continue\nif False:"),
    fact="arguments that the tool does not have are ignored",
    question="The model wrote `file` for `path`. Does it ever learn that?",
)
known.change(
    "anything-without-properties",
    ("if name not in properties:", "if properties and name not in properties:"),
    ("_check(name, value, properties[name])", "_check(name, value, properties.get(name, {}))"),
    fact="a tool whose schema has no `properties` is called with any arguments",
    question="A schema names no arguments, and the call has one. Which of your checks sees it?",
)
known.change(
    "any-json",
    ("if not isinstance(arguments, dict):", "if False:"),
    fact="arguments that are JSON but no object reach the tool or raise",
    question='What are the names of the arguments in ["a.py"]?',
)
known.change(
    "values-compared-as-text",
    (
        'not any(_equal(value, each) for each in schema["enum"])',
        'json.dumps(value) not in [json.dumps(each) for each in schema["enum"]]',
    ),
    fact="1.0 does not pass for a 1 in an enum, because values are compared as text or by their type",
    question="An enum has the levels 1 and 2, and the model writes 1.0. What does your code compare?",
)
known.change(
    "nothing-for-no-arguments",
    ("json.loads(call.arguments)", 'json.loads(call.arguments or "{}") or {}'),
    fact="an empty text, null and an empty list are taken for an object without arguments",
    question="Is `[]` a JSON object, and what is `[] or {}` in Python?",
)
known.change(
    "parser-s-error-lost",
    ("if call.error:", "if False:"),
    fact="the parser's error is ignored, and the call is run or reported otherwise",
    question="The parser has found what is wrong. Who tells the model?",
)
known.change(
    "end-cut-off",
    ('return f"{result[:half]}\\n[{len(result) - 2 * half} characters omitted]\\n{end}"', "return result[:longest]"),
    fact="a long result loses its end",
    question="Where does a test run print its summary?",
)
known.change(
    "counted-from-the-limit",
    ("[{len(result) - 2 * half} characters", "[{len(result) - longest} characters"),
    fact="the number of omitted characters is the result's length minus `longest`",
    question="longest is 7, and 100 characters come. How many of them does the model read?",
)
known.change(
    "all-of-it-after-half",
    ("end = result[len(result) - half :]", "end = result[-half:]"),
    fact="half is 0 for a limit of 1, and result[-0:] is the whole result",
    question="What is 'dog'[-0:]?",
)
known.change(
    "never-cut",
    ("if len(result) <= longest:", "if True:"),
    fact="a result of any length is returned whole",
    question="A model reads a file of 5 MB. How many tokens does its next prompt have?",
)


@known.accepted("all checks in one function")
def checked(call, tools, longest=20_000):
    names = {tool.name: tool for tool in tools}
    wrong = call.error or ("" if call.name in names else f"no tool {call.name}; there are {', '.join(names)}")
    arguments = {}
    if not wrong:
        try:
            arguments = json.loads(call.arguments)
        except (ValueError, RecursionError):
            wrong = "the arguments are no JSON"
    if not wrong and type(arguments) is not dict:
        wrong = "the arguments must be a JSON object"
    if not wrong:
        schema = names[call.name].parameters
        known_names = schema.get("properties", {})
        wrong = next((f"{name} is missing" for name in schema.get("required", []) if name not in arguments), "")
        for name, value in arguments.items():
            if wrong:
                break
            if name not in known_names:
                wrong = f"{name} is unknown; there are {', '.join(known_names)}"
                break
            own = known_names[name]
            kinds = own.get("type", [])
            kinds = [kinds] if type(kinds) is str else kinds
            kind = {str: "string", bool: "boolean", list: "array", dict: "object", int: "integer", float: "number"}
            mine = kind.get(type(value), "null")
            if kinds and mine not in kinds and not (mine == "integer" and "number" in kinds):
                wrong = f"{name} must be {' or '.join(kinds)}"
            elif "enum" in own and (kind.get(type(value)) == "boolean" or value not in own["enum"]):
                wrong = f"{name} must be one of {own['enum']}"
    if wrong:
        return f"Error: {wrong}"
    try:
        result = names[call.name].call(arguments)
    except ValueError as error:
        return f"Error: {error}"
    except Exception as error:
        return f"Error: {type(error).__name__} {error}"
    if len(result) > longest:
        half = longest // 2
        lost = len(result) - half - half
        result = result[:half] + f"\n[{lost} characters omitted]\n" + (result[-half:] if half else "")
    return result
