"""Task 7.1.3, JSON schemas to grammars: the texts of the rules, matched character by character, against validity."""

import copy
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.grammars import derives
from tests.week7.random_schemas import compact, draw_schema, draw_value, near_values, ordered, valid

from tiny_llm.constrained import schema as module
from tiny_llm.constrained.values import COMMON
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

PLACE = {"type": "string"}


def check(schema, right, wrong, swept=False):
    """Check which texts the rules of a schema derive."""
    case, before = f"schema {json.dumps(schema, ensure_ascii=False)[:300]}", copy.deepcopy(schema)
    with noted(case):
        rules = module.schema_rules(schema)
        others = module.schema_rules(True)
    if not isinstance(rules, dict) or "#" not in rules:
        fail(Kind.TYPE, f"got {type_words(rules)}, expected a dict with the rule #", case)
    if schema != before:
        fail(Kind.INPUT_CHANGED, "the schema was changed", case)
    if rules is others:
        fail(Kind.VALUES, "a call for another schema returns the same dict: it overwrites these rules", case)
    for expected, texts in ((True, right), (False, wrong)):
        for text in texts:
            if derives(rules["#"], text, rules) != expected:
                verdict = "is not derived, but must be" if expected else "is derived, but must not be"
                fail(Kind.VALUES, f"{text:.80} {verdict}", case, size=len(case) + len(text), swept=swept)


A, B, C = ({"type": "integer"}, {"type": "boolean"}, {"type": "null"})


@pytest.mark.parametrize(
    ("required", "right", "wrong"),
    [
        (
            [],
            [
                "{}",
                '{"a":1}',
                '{"b":true}',
                '{"c":null}',
                '{"a":1,"b":true}',
                '{"a":1,"c":null}',
                '{"b":true,"c":null}',
                '{"a":1,"b":true,"c":null}',
            ],
            ['{"b":true,"a":1}', '{,"a":1}', '{,"b":true}', '{"a":1,}', '{"a":1"b":true}', '{"a":1,"a":1}', ""],
        ),
        (["a"], ['{"a":1}', '{"a":1,"c":null}', '{"a":1,"b":true,"c":null}'], ["{}", '{"b":true}', '{"c":null,"a":1}']),
        (
            ["b"],
            ['{"b":true}', '{"a":1,"b":true}', '{"b":true,"c":null}'],
            ["{}", '{"a":1}', '{"c":null}', '{"a":1,"c":null}'],
        ),
        (["c"], ['{"c":null}', '{"a":1,"c":null}', '{"b":true,"c":null}'], ["{}", '{"a":1}', '{"a":1,"b":true}']),
        (["a", "c"], ['{"a":1,"c":null}', '{"a":1,"b":true,"c":null}'], ['{"a":1}', '{"c":null}', '{"a":1,"b":true}']),
        (
            ["c", "a", "b"],
            ['{"a":1,"b":true,"c":null}'],
            ['{"a":1,"b":true}', '{"a":1,"c":null}', '{"b":true,"c":null}'],
        ),
    ],
    ids=lambda value: " ".join(value) or "none" if isinstance(value, list) and all(len(v) == 1 for v in value) else "",
)
def test_task_3_schema_properties(required, right, wrong):
    """Properties a, b and c, some of them required, in their order, with commas only between them."""
    schema = {"type": "object", "properties": {"a": A, "b": B, "c": C}, "required": required}
    check(schema, right, wrong)


def test_task_3_schema_other_objects():
    check({"type": "object"}, ["{}", '{"x":1}', '{"x":[],"y":{}}'], ["[]", '{"x":1,}', "{,}"])
    check({"type": "object", "properties": {}}, ["{}", '{"x":1}'], ["[]"])
    check({"type": "object", "additionalProperties": False}, ["{}"], ['{"x":1}'])
    check({"type": "object", "additionalProperties": {}}, ["{}", '{"x":1}', '{"x":[],"y":{}}'], ["[]", '{"x":1,}'])
    check({"additionalProperties": A}, ["{}", '{"x":1}', '{"x":1,"y":2}'], ['{"x":true}', '{"x":1,"y":""}'])
    check({"properties": {"a": A}, "additionalProperties": False}, ["{}", '{"a":1}'], ['{"b":1}', '{"a":1,"b":1}'])
    check({"properties": {"a": A}, "additionalProperties": True}, ["{}", '{"a":1}'], ['{"b":1}', '{"a":1,"b":1}'])


def test_task_3_schema_names():
    """Names with a slash, a tilde, quotes, and characters of several bytes."""
    for name in ("a/b", "m~n", "~1", "/", 'say "x"', "größe", "犬", "", "tab\t", "0"):
        key = json.dumps(name, ensure_ascii=False)
        nested = {"type": "array", "items": {"properties": {name: {"enum": [1]}}}}
        check(
            {"properties": {name: nested}},
            ["{}", f"{{{key}:[{{{key}:1}}]}}"],
            [f"{{{key}:1}}", f"{{{key}:[{{{key}:2}}]}}"],
        )


@pytest.mark.parametrize(
    ("least", "most", "right", "wrong"),
    [
        (None, None, ["[]", "[1]", "[1,2,3,4,5]"], ["[", "[,]", "[1,]", "[,1]", "[1 ,2]", "[1,true]", "[12 3]"]),
        (0, 0, ["[]"], ["[1]"]),
        (0, 1, ["[]", "[1]"], ["[1,1]"]),
        (1, None, ["[1]", "[1,2]", "[1,2,3]"], ["[]"]),
        (1, 1, ["[1]"], ["[]", "[1,2]"]),
        (2, None, ["[1,2]", "[1,2,3,4]"], ["[]", "[1]"]),
        (2, 3, ["[1,2]", "[1,2,3]"], ["[]", "[1]", "[1,2,3,4]"]),
        (0, 3, ["[]", "[1]", "[1,2,3]"], ["[1,2,3,4]"]),
    ],
)
def test_task_3_schema_arrays(least, most, right, wrong):
    bounds = {"minItems": least, "maxItems": most}
    check({"type": "array", "items": A, **{key: n for key, n in bounds.items() if n is not None}}, right, wrong)


def test_task_3_schema_any_value():
    values = ["1", "-0.5e3", '"x"', "[]", '[1,"a",null]', "{}", '{"a":{"b":[true]}}', "true", "false", "null"]
    wrong = ["", "tru", "01", "[1, 2]", "{1:2}", "'x'", '{"a":}', "[[]", "nulll"]
    check({}, values, wrong)
    check(True, values, wrong)
    check({"type": "array"}, ["[]", '[1,"a",[{}]]'], ["{}", "[1,]"])
    for anything in ({}, True):
        check({"items": anything}, ["[]", '[1,"a",[{}]]'], ["{}", "[1,]"])
        check({"properties": {"a": anything}, "required": ["a"]}, ['{"a":1}', '{"a":{}}'], ["{}", '{"a":}', '{"b":1}'])
        check({"anyOf": [A, anything]}, ["1", '"x"', "{}"], ["", "tru"])


def test_task_3_schema_choices():
    check(
        {"enum": ["red", 1, None, [1, "a"], {"b": True}]},
        ['"red"', "1", "null", '[1,"a"]', '{"b":true}'],
        ['"re"', '"red', "2", "[1]", "", "{}"],
    )
    check({"const": 'say "hi"\n'}, ['"say \\"hi\\"\\n"', '"say \\"hi\\"\\u000a"'], ['"say "hi""', '"say \\"hi\\"\n"'])
    check({"enum": ["é"], "type": "string"}, ['"é"'], ['"e"', '"\\u00e9"'])
    check(
        {"type": ["integer", "null", "array"], "minItems": 1, "minimum": 3}, ["3", "null", "[1]"], ["2", "[]", "true"]
    )
    check({"anyOf": [A, {"type": "array", "items": B}]}, ["1", "[]", "[true]"], ["true", "[1]", ""])
    check({"anyOf": [{"anyOf": [A, C]}, B]}, ["1", "null", "false"], ['"a"'])
    either = {"anyOf": [{"properties": {"x": A}, "required": ["x"]}, {"properties": {"x": B}, "required": ["x"]}]}
    check(either, ['{"x":1}', '{"x":true}'], ["{}", '{"x":null}'])


def test_task_3_schema_references():
    tree = {
        "type": "object",
        "properties": {"v": A, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["v"],
    }
    right = ['{"v":1}', '{"v":1,"kids":[]}', '{"v":1,"kids":[{"v":2},{"v":3,"kids":[{"v":4}]}]}']
    check(tree, right, ["{}", '{"v":1,"kids":[{}]}', '{"v":1,"kids":{"v":2}}'])
    node = {"properties": {"n": {"anyOf": [C, {"$ref": "#/$defs/node"}]}}, "required": ["n"]}
    check(
        {"$ref": "#/$defs/node", "$defs": {"node": node}},
        ['{"n":null}', '{"n":{"n":{"n":null}}}'],
        ["{}", "null", '{"n":{}}'],
    )
    both = {
        "items": {"$ref": "#/definitions/a~1b"},
        "definitions": {"a/b": {"items": {"$ref": "#/definitions/x"}}, "x": B},
    }
    check(both, ["[]", "[[]]", "[[true],[false,true]]"], ["[true]", "[[1]]"])
    listed = {"anyOf": [C, {"items": {"$ref": "#/anyOf/0"}}]}
    check(listed, ["null", "[null,null]", "[]"], ["[[]]"])


PLACES = {
    "#/properties/a": ({"properties": {"a": A}}, "1", "true"),
    "#/properties/a~1b": ({"properties": {"a/b": A}}, "1", "true"),
    "#/properties/m~0n": ({"properties": {"m~n": A}}, "1", "true"),
    "#/items": ({"items": B}, "true", "1"),
    "#/items/items": ({"items": {"items": B}}, "true", "[true]"),
    "#/anyOf/1": ({"anyOf": [A, B]}, "true", "1"),
    "#/additionalProperties": ({"additionalProperties": C}, "null", "1"),
    "#/$defs/x": ({"items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"enum": ["x"]}}}, '"x"', '["x"]'),
}


@pytest.mark.parametrize("place", PLACES)
def test_task_3_schema_names_of_rules(place):
    """The rule of a schema inside the schema has the name of its place, and derives its texts."""
    schema, right, wrong = PLACES[place]
    case = f"schema {json.dumps(schema)}"
    with noted(case):
        rules = module.schema_rules(schema)
    if place not in rules:
        fail(Kind.VALUES, f"there is no rule {place}", case, f"got       {', '.join(rules)}"[:90])
    for text, expected in ((right, True), (wrong, False)):
        verdict = f"whether the rule {place} derives {text}"
        fail_if_different(verdict, expected, derives(rules[place], text, rules), case)


@pytest.mark.parametrize("needed", [0, 1, 12])
def test_task_3_schema_many_properties(needed):
    """12 properties have 4096 subsets, but their rule has at most 12 * 12 calls."""
    names = [f"p{number}" for number in range(12)]
    schema = {"properties": dict.fromkeys(names, A), "required": names[:needed]}
    case = f"an object of 12 properties, {needed} of them required"
    with noted(case):
        rules = module.schema_rules(schema)
    text = "{" + ",".join(f'"{name}":1' for name in names) + "}"
    fail_if_different("whether all 12 properties together are derived", True, derives(rules["#"], text, rules), case)
    if (count := repr(rules["#"]).count("Call(")) > 144:
        fail(Kind.VALUES, f"the rule # has {count} calls, expected at most 144", case)


def test_task_3_schema_the_rules_of_any_value():
    """The rules of COMMON are included, also if the schema does not need them."""
    with noted("schema of an integer"):
        rules = module.schema_rules(A)
    if missing := [name for name in COMMON if name not in rules]:
        fail(Kind.VALUES, f"rules of COMMON are missing: {', '.join(missing)}", "schema of an integer")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"anyOf": [A, {"$ref": "#"}]},
    ],
    ids=["itself", "two", "a choice"],
)
def test_task_3_schema_circles(schema):
    """References that lead back to themselves: a rule that derives no text, or calls itself at once, is a rule."""
    with noted(f"schema {json.dumps(schema)}"):
        rules = module.schema_rules(schema)
    if not isinstance(rules, dict) or "#" not in rules:
        fail(Kind.TYPE, f"got {type_words(rules)}, expected a dict with the rule #", f"schema {json.dumps(schema)}")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string", "format": "date"}, ["#: ", "format"]),
        ({"properties": {"a": {"type": "strin"}}}, ["#/properties/a: ", "type"]),
        ({"items": {"oneOf": [A, B]}}, ["#/items: ", "oneOf"]),
        ({"anyOf": [A, {"type": "integer", "multipleOf": 2}]}, ["#/anyOf/1: ", "multipleOf"]),
        ({"$ref": "#/$defs/none"}, ["#/$defs/none: ", "$ref"]),
        ({"$ref": "https://example.com/a.json"}, ["#: ", "$ref"]),
        ({"properties": {"a": A}, "required": ["b"]}, ["#: ", "required"]),
        ({"type": "integer", "minimum": 5, "maximum": 4}, ["#: ", "minimum"]),
        ({"type": "array", "minItems": 2, "maxItems": 1}, ["#: ", "minItems"]),
        ({"enum": []}, ["#: ", "enum"]),
        ({"enum": [1], "type": {}}, ["#: ", "type"]),
        ({"type": []}, ["#: ", "type"]),
        ({"type": None}, ["#: ", "type"]),
        ({"type": {}}, ["#: ", "type"]),
        ({"properties": {"a/b": False}}, ["#/properties/a~1b: "]),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_task_3_schema_refuses_what_it_does_not_support(schema, words):
    with raises_value_error(f"schema {json.dumps(schema)}", *words):
        module.schema_rules(schema)


def test_task_3_schema_ignores_unused_definitions():
    check({"type": "null", "$defs": {"x": {"oneOf": []}}, "title": "T", "description": "D"}, ["null"], ["1"])


def both(schema, rng, count):
    """Return texts of values that a schema allows, and of near ones that it does not."""
    right, wrong = [], []
    for _ in range(count):
        value = draw_value(rng, schema, schema)
        right.append(compact(value))
        for near in near_values(rng, value):
            (right if valid(near, schema, schema) and ordered(near, schema, schema) else wrong).append(compact(near))
    return right, wrong


def test_task_3_schema_sweep():
    """Random schemas of all kinds and depths."""
    for n in sizes(D=4, N=3):
        rng = random.Random(n.seed * 31 + n.D)
        schema = draw_schema(rng, min(n.D, 3))
        check(schema, *both(schema, rng, min(n.N, 3)), swept=True)


@property_test
@given(seed=st.integers(0, 9999))
def test_task_3_schema_random(seed):
    rng = random.Random(seed)
    schema = draw_schema(rng, 2)
    check(schema, *both(schema, rng, 2))
