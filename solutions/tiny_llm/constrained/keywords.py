"""Which JSON schemas are supported: each keyword is checked here, and refused in one line."""

from collections.abc import Mapping
from typing import Any

from .pattern import parse_regex

IGNORED = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
IGNORED |= {"$schema", "$id", "$comment", "$defs", "definitions"}
KEYWORDS = {  # of each type; all others are refused
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": {"minimum", "maximum"},
    "boolean": set[str](),
    "null": set[str](),
}
LONGEST = 500  # of minLength, maxLength, minItems and maxItems: each one more is another copy in the automaton


def find(schema: Any, place: str) -> Any:
    """Return the schema at a place such as "#/properties/age".

    Raises:
        ValueError: there is none.
    """
    for part in place.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        try:
            schema = schema[int(part) if isinstance(schema, list) else part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ValueError(f"{place}: $ref leads nowhere in this schema") from None
    return schema


def checked(schema: Any, place: str) -> dict[str, Any]:
    """Return a schema's keywords that have an effect, in one form.

    Returns:
        One of these; parts such as the schemas of `properties` are not checked:

        - {}: any value.
        - {"$ref": place}.
        - {"anyOf": list of schemas}.
        - {"enum": list of values}; `const` is an enum of one.
        - {"type": list of types, ...} with the keywords of these types. `required` is a subset of `properties`.
          `additionalProperties` is there only if it is a schema, or false without `properties`.

    Raises:
        ValueError: something else, or a contradiction. The message begins with the place and names the keyword.
    """
    if schema is True:
        return {}
    if not isinstance(schema, Mapping):
        raise ValueError(f"{place}: {schema!r:.40} is not supported, expected a schema")
    given = {key: value for key, value in schema.items() if key not in IGNORED}
    for key in ("$ref", "anyOf"):
        if key in given and len(given) > 1:
            raise ValueError(f"{place}: {next(name for name in given if name != key)} beside {key} is not supported")
    if "$ref" in given:
        path = given["$ref"]
        right = isinstance(path, str) and (path == "#" or path.startswith("#/"))
        _check(right, place, "$ref", "a path in this schema, such as #/$defs/node")
    elif "anyOf" in given:
        _check(isinstance(given["anyOf"], list) and given["anyOf"], place, "anyOf", "a list of schemas")
    elif "enum" in given or "const" in given:
        return _constants(given, place)
    elif given:
        return _typed(given, place)
    return given


def _constants(given: dict[str, Any], place: str) -> dict[str, Any]:
    key = "enum" if "enum" in given else "const"
    if other := [name for name in given if name not in (key, "type")]:
        raise ValueError(f"{place}: {other[0]} beside {key} is not supported")
    values = given["enum"] if key == "enum" else [given["const"]]
    _check(isinstance(values, list) and values, place, "enum", "a list of values")
    types = given.get("type", list(KEYWORDS))
    for value in values:
        if not any(kind in (types if isinstance(types, list) else [types]) for kind in types_of(value)):
            raise ValueError(f"{place}: {key} has {value!r:.40}, which is not of the type {types}")
    return {"enum": values}


def _typed(given: dict[str, Any], place: str) -> dict[str, Any]:
    if "type" in given:
        types = given.pop("type")
        types = types if isinstance(types, list) else [types]
    else:  # implied by a keyword
        types = [kind for kind, words in KEYWORDS.items() if words & given.keys()][:1]
        if not types:
            raise ValueError(f"{place}: {next(iter(given))} is not supported")
    right = types and all(isinstance(each, str) and each in KEYWORDS for each in types)
    _check(right, place, "type", f"one of {', '.join(KEYWORDS)}, or a list of them")
    if unknown := [key for key in given if not any(key in KEYWORDS[kind] for kind in types)]:
        raise ValueError(f"{place}: {unknown[0]} is not supported for {' or '.join(types)}")
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        _check(type(given.get(key, 0)) is int, place, key, "an integer")
    for what in ("Items", "Length"):
        least, most = given.get(f"min{what}", 0), given.get(f"max{what}", LONGEST)
        for key, value in ((f"min{what}", least), (f"max{what}", most)):
            _check(type(value) is int and 0 <= value <= LONGEST, place, key, f"an integer from 0 to {LONGEST}")
        _check(least <= most, place, f"min{what}", f"at most max{what}, which is {most}")
    low, high = bounds(given)
    _check(low is None or high is None or low <= high, place, "minimum", f"at most the maximum, which is {high}")
    if "pattern" in given:
        _check(isinstance(given["pattern"], str), place, "pattern", "a string")
        _check(not given.keys() & {"minLength", "maxLength"}, place, "pattern", "no length beside it")
        try:
            parse_regex(anchored(given["pattern"])[1])
        except ValueError as error:
            raise ValueError(f"{place}: pattern: {error}") from None
    return {"type": list(dict.fromkeys(types)), **_of_object(given, place)}


def _of_object(given: dict[str, Any], place: str) -> dict[str, Any]:
    properties, required = given.get("properties", {}), given.get("required", [])
    more = given.pop("additionalProperties", True)
    _check(isinstance(properties, Mapping), place, "properties", "an object of schemas")
    right = isinstance(required, list) and all(isinstance(name, str) and name in properties for name in required)
    _check(right, place, "required", "names that are in properties")
    if properties:
        _check(isinstance(more, bool), place, "additionalProperties", "true or false beside properties")
    elif more is not True:
        given["additionalProperties"] = more
    return given


def _check(right: Any, place: str, keyword: str, expected: str) -> None:
    if not right:
        raise ValueError(f"{place}: {keyword}: expected {expected}")


def bounds(given: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the least and the largest value that the keywords of a number allow; None for no bound."""
    lows = [given[name] + more for name, more in (("minimum", 0), ("exclusiveMinimum", 1)) if name in given]
    highs = [given[name] - less for name, less in (("maximum", 0), ("exclusiveMaximum", 1)) if name in given]
    return max(lows, default=None), min(highs, default=None)


def anchored(pattern: str) -> tuple[bool, str, bool]:
    """Return a pattern without ^ at its beginning and $ at its end, and whether it had each of them."""
    body = pattern.removeprefix("^")
    ended = body.endswith("$") and (len(body) - len(body[:-1].rstrip("\\"))) % 2 == 1  # not an escaped $
    return body != pattern, body[:-1] if ended else body, ended


def types_of(value: Any) -> set[str]:
    """Return the names of a JSON value's types: an integer is a number, too."""
    if value is None or isinstance(value, bool):
        return {"null" if value is None else "boolean"}
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return {"integer", "number"}
    return {{float: "number", str: "string", list: "array", dict: "object"}[type(value)]}
