"""Random JSON schemas of the supported subset, and random values of a schema; nothing here calls the learner's code."""

import json
import math
import random
import re
from typing import Any

NAMES = ["t\tb", "a", "id", "name", "größe", "x-y", "a b", 'q"', "kind", "tags", "next", "犬"]
WORDS = ["red", "reddish", "blue", "", "é", 'say "hi"', "a\\b", "line\nbreak", "del\x7f", "🐸", "true"]

PATTERNS = ["^[a-z]{1,4}$", "^(cat|dog)s?$", "^[0-9]{4}-[0-9]{2}$", "^[A-Z][a-zé]{0,3}$"]


def draw_schema(rng: random.Random, depth: int = 3, bounded: bool = False) -> dict[str, Any]:
    """Return a random schema, at times recursive; `bounded`: no text that it allows is long."""
    definitions: dict[str, Any] = {}
    schema = _schema(rng, depth, bounded, definitions)
    return schema | {"$defs": definitions} if definitions else schema


def _schema(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    leaves = [_string, _integer, _number, _constants, _plain]
    inner = [_object, _array, _any_of, _reference]
    kind = rng.choice(leaves if depth == 0 else [_object, _object, *inner, *leaves])
    return kind(rng, depth, bounded, definitions)


def _string(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    least = rng.choice([0, 0, 1, 3])
    schema: dict[str, Any] = {"type": "string"}
    if rng.random() < 0.3:
        return schema | {
            "pattern": rng.choice(["^[a-z]{1,4}$", "^(cat|dog)s?$", "^[0-9]{4}-[0-9]{2}$", "^[A-Z][a-zé]{0,3}$"])
        }
    if least:
        schema["minLength"] = least
    if bounded or rng.random() < 0.3:
        schema["maxLength"] = least + rng.choice([0, 2, 5])
    return schema


def _integer(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    low = rng.choice([-1000, -37, -1, 0, 1, 9, 18, 250])
    if bounded or rng.random() < 0.5:
        schema[rng.choice(["minimum", "exclusiveMinimum"])] = low
    if bounded or rng.random() < 0.5:
        schema[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.choice([3, 10, 120, 5000])
    return schema


def _number(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    if bounded:  # a number may have any number of digits
        return _integer(rng, depth, bounded, definitions)
    low = rng.choice([-20, 0, 1, 5])
    both = {"minimum": low, "maximum": low + rng.choice([1, 7, 100])}
    return {"type": "number"} | rng.choice([{}, {}, {"minimum": low}, both])


def _constants(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    values: list[Any] = [*rng.sample(WORDS, 3), rng.choice([0, -7, 1.5, None, True, [1, "a\nb"], {"b\n": []}])]
    return {"enum": values} if rng.random() < 0.8 else {"const": rng.choice(values)}


def _plain(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    return rng.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["boolean", "null"]}])


def _object(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    if not bounded and rng.random() < 0.15:
        return {"type": "object", "additionalProperties": _schema(rng, depth - 1, bounded, definitions)}
    names = rng.sample(NAMES, rng.randint(0 if depth < 3 else 1, 4))
    properties = {name: _schema(rng, depth - 1, bounded, definitions) for name in names}
    required = [name for name in names if rng.random() < 0.6]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _array(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _schema(rng, depth - 1, bounded, definitions)}
    least = rng.choice([0, 0, 1, 2])
    if least:
        schema["minItems"] = least
    if bounded or rng.random() < 0.5:
        schema["maxItems"] = least + rng.choice([0, 1, 2])
    return schema


def _any_of(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [_schema(rng, depth - 1, bounded, definitions) for _ in range(rng.randint(2, 3))]}


def _reference(rng: random.Random, depth: int, bounded: bool, definitions: dict[str, Any]) -> dict[str, Any]:
    name = f"d{len(definitions)}"
    definitions[name] = {}  # reserved, as its parts may add others
    value = _schema(rng, depth - 1, bounded, definitions)
    if bounded or rng.random() < 0.5:
        definitions[name] = value
    else:  # a list of values, by recursion
        more = {"anyOf": [{"type": "null"}, {"$ref": f"#/$defs/{name}"}]}
        made = {"type": "object", "properties": {"value": value, "next": more}, "required": ["next"]}
        definitions[name] = made | {"additionalProperties": False}
    return {"$ref": f"#/$defs/{name}"}


def valid(value: Any, schema: Any, root: Any) -> bool:
    """Return whether a schema of `draw_schema` allows a value: its keywords, one after another."""
    if "$ref" in schema:
        return valid(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return any(valid(value, each, root) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        wanted = schema["enum"] if "enum" in schema else [schema["const"]]
        return json.dumps(value) in [json.dumps(each) for each in wanted]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return any(_of_type(value, kind, schema, root) for kind in kinds)


def _of_type(value: Any, kind: str, schema: Any, root: Any) -> bool:
    if kind in ("boolean", "null"):
        return value is None if kind == "null" else isinstance(value, bool)
    if kind in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float) or (kind == "integer" and value != int(value)):
            return False
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        if value == schema.get("exclusiveMinimum") or value == schema.get("exclusiveMaximum"):
            return False
        low = max(low, schema.get("exclusiveMinimum", low))
        return bool(low <= value <= min(high, schema.get("exclusiveMaximum", high)))
    if kind == "string":
        if not isinstance(value, str) or not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9):
            return False
        return "pattern" not in schema or bool(re.search(schema["pattern"], value))
    if kind == "array":
        right = isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9)
        return right and all(valid(each, schema["items"], root) for each in value)
    if not isinstance(value, dict):
        return False
    if "properties" not in schema:
        return all(valid(each, schema["additionalProperties"], root) for each in value.values())
    names = schema["properties"]
    return all(name in value for name in schema["required"]) and all(
        name in names and valid(each, names[name], root) for name, each in value.items()
    )


def ordered(value: Any, schema: Any, root: Any) -> bool:
    """Return whether the properties of all objects of a valid value are in the schema's order."""
    if "$ref" in schema:
        return ordered(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return any(valid(value, each, root) and ordered(value, each, root) for each in schema["anyOf"])
    if isinstance(value, list) and "items" in schema:
        return all(ordered(each, schema["items"], root) for each in value)
    if isinstance(value, dict) and "properties" in schema:
        names = [name for name in schema["properties"] if name in value]
        parts = (ordered(value[name], schema["properties"][name], root) for name in names)
        return names == list(value) and all(parts)
    if isinstance(value, dict) and "additionalProperties" in schema:
        return all(ordered(each, schema["additionalProperties"], root) for each in value.values())
    return True


def compact(value: Any) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("\x7f", "\\u007f")


def draw_value(rng: random.Random, schema: Any, root: Any) -> Any:
    """Return a random value of a schema of `draw_schema`."""
    if "$ref" in schema:
        return draw_value(rng, root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        recursive = schema["anyOf"][0] == {"type": "null"} and rng.random() < 0.5  # so that it ends
        return draw_value(rng, schema["anyOf"][0] if recursive else rng.choice(schema["anyOf"]), root)
    if "enum" in schema or "const" in schema:
        return rng.choice(schema["enum"]) if "enum" in schema else schema["const"]
    kind = rng.choice(schema["type"]) if isinstance(schema["type"], list) else schema["type"]
    if kind in ("boolean", "null"):
        return None if kind == "null" else rng.random() < 0.5
    if kind in ("integer", "number"):
        low = max(schema.get("minimum", -(10**6)), schema.get("exclusiveMinimum", -(10**6)) + 1)
        high = min(schema.get("maximum", low + 10**5), schema.get("exclusiveMaximum", low + 10**5) - 1)
        return rng.choice([low, high, rng.randint(low, high), (rng.randint(low, high - 1) if low < high else low)])
    if kind == "string":
        if "pattern" in schema:
            return {"^[a": "frog", "^(c": "cats", "^[0": "2026-11", "^[A": "Zoé"}[schema["pattern"][:3]]
        length = rng.randint(schema.get("minLength", 0), schema.get("maxLength", schema.get("minLength", 0) + 4))
        return "".join(rng.choice('ab é犬"\\\n\t🐸/') for _ in range(length))
    if kind == "array":
        least = schema.get("minItems", 0)
        count = rng.randint(least, schema.get("maxItems", least + 2))
        return [draw_value(rng, schema["items"], root) for _ in range(count)]
    if "properties" not in schema:
        names = rng.sample(["k", "l m", "ö"], rng.randint(0, 2))
        return {name: draw_value(rng, schema["additionalProperties"], root) for name in names}
    kept = [name for name in schema["properties"] if name in schema["required"] or rng.random() < 0.5]
    return {name: draw_value(rng, schema["properties"][name], root) for name in kept}


def near_values(rng: random.Random, value: Any) -> list[Any]:
    """Return values that differ from a value in one place: an item or a property more, fewer or at another place."""
    if isinstance(value, list):
        inner = [
            [*value[:i], near, *value[i + 1 :]] for i in range(len(value)) for near in near_values(rng, value[i])[:2]
        ]
        return [[*value, value[0] if value else 0], value[1:], *inner]
    if isinstance(value, dict):
        names = list(value)
        fewer = [{name: value[name] for name in names if name != gone} for gone in names]
        swapped = [{name: value[name] for name in reversed(names)}]
        changed = [{**value, name: near} for name in names for near in near_values(rng, value[name])[:2]]
        return [*fewer, *swapped, {**value, "no": 1}, *changed]
    if isinstance(value, bool) or value is None:
        return [0, not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1, str(value), value + 10000]
    return [value + "x", value[1:], 0]
