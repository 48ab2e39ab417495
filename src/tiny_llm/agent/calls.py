"""Run a call, and say what went wrong in words for the model."""

from collections.abc import Sequence

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
    raise NotImplementedError("7.3.1 Running a call")
