"""The rules that all grammars have, and the expressions of values without parts."""

from collections.abc import Mapping
from typing import Any

from .expression import Call, Choice, Expression, Repeat, Sequence, literal, separated
from .keywords import anchored, bounds
from .numbers import NUMBER, decimals, integers
from .pattern import parse_regex
from .strings import CHARACTER, constant, escaped, quoted

STRING, VALUE = "string", "value"
COMMON: dict[str, Expression] = {  # any JSON value, without spaces between its parts
    STRING: quoted(Repeat(CHARACTER)),
    "number": NUMBER,
    "object": Sequence((
        literal("{"), separated(Sequence((Call(STRING), literal(":"), Call(VALUE))), 0, None), literal("}"),
    )),
    "array": Sequence((literal("["), separated(Call(VALUE), 0, None), literal("]"))),
    VALUE: Choice((
        Call(STRING), Call("number"), Call("object"), Call("array"), *map(constant, (True, False, None)),
    )),
}  # fmt: skip


def scalar(kind: str, given: Mapping[str, Any]) -> Expression:
    """Return the expression of a string, integer, number, boolean or null.

    Args:
        kind: the type.
        given: what `checked` returned: the keywords of the type are used, others ignored.
    """
    if kind == "string":
        return _string(given)
    if kind == "integer":
        return integers(*bounds(given))
    if kind == "number":
        return decimals(*bounds(given))
    return constant(None) if kind == "null" else Choice((constant(True), constant(False)))


def _string(given: Mapping[str, Any]) -> Expression:
    if "pattern" in given:
        begun, body, ended = anchored(given["pattern"])
        inner, around = escaped(parse_regex(body)), Repeat(CHARACTER)
        return quoted(Sequence((*([] if begun else [around]), inner, *([] if ended else [around]))))
    least, most = given.get("minLength", 0), given.get("maxLength")
    return quoted(Repeat(CHARACTER, least, most)) if least or most is not None else Call(STRING)
