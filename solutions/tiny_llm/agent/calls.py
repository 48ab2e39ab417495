"""Run a call, and say what went wrong in words for the model."""

import json
from collections.abc import Sequence
from typing import Any

from ..tools.tool import Tool, ToolCall

LONGEST = 20_000  # characters of a result
# The Python types of JSON's; true is an int in Python, and no number in JSON.
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def call_tool(call: ToolCall, tools: Sequence[Tool], longest: int = LONGEST) -> str:
    """Run the tool that a model asked for, and return what the model is to read: the result, or an error.

    An error is a text that begins with "Error: ". It names what is wrong and what is valid:

    - the call's own `error`, if it has one;
    - the name, if no tool has it, and the names of all tools;
    - that the arguments are not a JSON object, or nested too deeply to be parsed as JSON;
    - a required argument that is missing;
    - an argument that is not among the schema's `properties`, and the names of those;
    - an argument whose value is not of its `type` (a name or a list of names), and that type; a boolean is neither an
      integer nor a number. Items of arrays and members of objects are not checked;
    - an argument whose value is not in its `enum`, and the allowed values; there, 1.0 equals 1, but true does not;
    - the message of a ValueError that the tool raises, such as a ToolError, without its type;
    - the type and the message of any other Exception that it raises. A loop must survive a tool's bug.

    The tool is called only if nothing is wrong, with the parsed arguments. Its schema may lack `properties` and
    `required`; then it has no arguments, or none is required.

    A result of more than `longest` characters is cut in the middle, because both ends of an output matter: it becomes
    its first `longest // 2` and its last `longest // 2` characters. Between them, on a line of its own, is
    "[N characters omitted]", with line breaks around it.
    """
    try:
        result = _tool_of(call, tools).call(_arguments(call, tools))
    except ValueError as error:
        return f"Error: {error}"
    except Exception as error:
        return f"Error: {type(error).__name__}: {error}"
    if len(result) <= longest:
        return result
    half = longest // 2
    end = result[len(result) - half :]
    return f"{result[:half]}\n[{len(result) - 2 * half} characters omitted]\n{end}"


def _tool_of(call: ToolCall, tools: Sequence[Tool]) -> Tool:
    if call.error:
        raise ValueError(call.error)
    for tool in tools:
        if tool.name == call.name:
            return tool
    raise ValueError(f"There is no tool {call.name!r}. The tools are {', '.join(tool.name for tool in tools)}.")


def _arguments(call: ToolCall, tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the arguments; raise ValueError if the tool's schema does not allow them."""
    schema = _tool_of(call, tools).parameters
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The arguments of {call.name} are not JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise ValueError(f"The arguments of {call.name} are not a JSON object.")
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            raise ValueError(f"{call.name} needs the argument {name!r}.")
    for name, value in arguments.items():
        if name not in properties:
            raise ValueError(f"{call.name} has no argument {name!r}. Its arguments are {', '.join(properties)}.")
        _check(name, value, properties[name])
    return arguments


def _check(name: str, value: Any, schema: dict[str, Any]) -> None:
    """Raise ValueError if a value is not of its type, or not one of its enum's."""
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(_is_a(value, kind) for kind in kinds):
        raise ValueError(f"The argument {name!r} must be of type {' or '.join(kinds)}, not {json.dumps(value)[:60]}.")
    if "enum" in schema and not any(_equal(value, each) for each in schema["enum"]):
        allowed = ", ".join(json.dumps(each) for each in schema["enum"])
        raise ValueError(f"The argument {name!r} must be one of {allowed}, not {json.dumps(value)[:60]}.")


def _is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def _equal(value: Any, other: Any) -> bool:
    """Return whether two values are equal in JSON, where true is not 1."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
