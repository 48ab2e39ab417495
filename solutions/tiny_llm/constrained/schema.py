"""A JSON schema as the rules of a grammar."""

from collections.abc import Callable
from typing import Any

from .expression import Call, Choice, Expression, Sequence, literal, optional, separated
from .keywords import checked, find
from .strings import constant, property_key
from .values import COMMON, STRING, VALUE, scalar

ROOT_RULE = "#"


def schema_rules(schema: Any) -> dict[str, Expression]:
    """Return the rules of a schema's grammar; the rule of the whole text is ROOT_RULE, "#".

    A text of the grammar is a JSON value that the schema allows, without spaces or line breaks between its parts:
    `{"a":[1,2]}`. Each schema inside the schema has a rule with the name of its place, such as "#/properties/age" or
    "#/anyOf/0", and is called wherever it is used. So a `$ref` is a call, and a recursive schema has finitely many
    rules. A "/" in a property's name is "~1" in a place, and a "~" is "~0".

    `checked` says what is supported, and returns a schema's keywords in one form:

    - {} is any value: the rule VALUE.
    - `$ref` and `anyOf`: the one rule, or a choice of them.
    - `enum`: a choice of the values, each as `constant` writes it.
    - `type`: a choice of the types, each with its own keywords. `scalar` has those without parts.
    - array: `minItems` to `maxItems` items, each of which is a text of `items`, or else any value.
    - object with `properties`: those of `required`, and any of the others, in the order of `properties`, each once: its
      `property_key`, then its value. No other properties. The rule of n properties has at most n * n calls: with an
      option for each subset, it would have too many.
    - object without `properties`: any number of strings, ":" and values: of `additionalProperties`, or any; if it is
      false, only `{}`.

    Args:
        schema: parsed JSON. It is not changed.

    Returns:
        The rules by name, those of COMMON included. One that derives no text may be among them.

    Raises:
        ValueError: as `checked` and `find` say, for a schema that is used.

    Source: JSON Schema, draft 2020-12.
    """
    rules, todo = dict(COMMON), [ROOT_RULE]

    def call(place: str) -> Call:
        if place not in todo:
            todo.append(place)
        return Call(place)

    for place in todo:  # grows while it is read
        rules[place] = _expression(checked(find(schema, place), place), place, call)
    return rules


def _expression(given: dict[str, Any], place: str, call: Callable[[str], Call]) -> Expression:
    if "$ref" in given:
        return call(given["$ref"])
    if "anyOf" in given:
        return Choice(tuple(call(f"{place}/anyOf/{i}") for i in range(len(given["anyOf"]))))
    if "enum" in given:
        return Choice(tuple(map(constant, given["enum"])))
    if "type" not in given:
        return Call(VALUE)
    parts = {"object": _object, "array": _array}
    return Choice(tuple(
        parts[kind](given, place, call) if kind in parts else scalar(kind, given) for kind in given["type"]
    ))  # fmt: skip


def _array(given: dict[str, Any], place: str, call: Callable[[str], Call]) -> Expression:
    item = call(f"{place}/items") if "items" in given else Call(VALUE)
    return Sequence((literal("["), separated(item, given.get("minItems", 0), given.get("maxItems")), literal("]")))


def _object(given: dict[str, Any], place: str, call: Callable[[str], Call]) -> Expression:
    if not given.get("properties"):
        more = given.get("additionalProperties", True)
        if more is False:
            return literal("{}")
        value = Call(VALUE) if more is True else call(f"{place}/additionalProperties")
        body = separated(Sequence((Call(STRING), literal(":"), value)), 0, None)
        return Sequence((literal("{"), body, literal("}")))
    pairs, required = list[Expression](), given.get("required", [])
    for name in given["properties"]:
        part = name.replace("~", "~0").replace("/", "~1")
        pairs.append(Sequence((property_key(name), call(f"{place}/properties/{part}"))))
    needed = [name in required for name in given["properties"]]
    # After the first property, each has its comma before it. Which one is first decides where the commas are.
    with_comma = [Sequence((literal(","), pair)) for pair in pairs]
    follows = [each if must else optional(each) for each, must in zip(with_comma, needed, strict=True)]
    firsts = list[Expression]()
    for i, pair in enumerate(pairs):
        firsts.append(Sequence((pair, *follows[i + 1 :])))
        if needed[i]:
            break  # none of those after it can be the first
    body = Choice(tuple(firsts))
    return Sequence((literal("{"), body if any(needed) else optional(body), literal("}")))
