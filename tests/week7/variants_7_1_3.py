"""Known programs of task 7.1.3, JSON schema to grammar."""

from functools import partial

import mlx.core as mx
from tests.week7.grammars import derives

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("7.1.3")
A, B, C = {"type": "integer"}, {"type": "boolean"}, {"type": "null"}


def verdicts(program, schema, *texts):
    """Return for each text whether the rules derive it."""
    rules = program(schema)
    return mx.array([derives(rules["#"], text, rules) for text in texts], mx.float32)


def abc(*required):
    return {"type": "object", "properties": {"a": A, "b": B, "c": C}, "required": list(required)}


TEXTS = (
    "{}",
    '{"a":1}',
    '{"b":true}',
    '{"c":null}',
    '{"a":1,"b":true}',
    '{"a":1,"c":null}',
    '{"b":true,"c":null}',
    '{"a":1,"b":true,"c":null}',
    '{"b":true,"a":1}',
    '{"a":1,}',
    '{,"a":1}',
    '{,"b":true}',
    '{"a":1"b":true}',
    '{"a":1,"a":1}',
)
TREE = {"properties": {"v": A, "kids": {"items": {"$ref": "#"}}}, "required": ["v"]}
known.probe_table(
    optional=lambda program: verdicts(program, abc(), *TEXTS),
    first=lambda program: verdicts(program, abc("a"), *TEXTS),
    middle=lambda program: verdicts(program, abc("b"), *TEXTS),
    last=lambda program: verdicts(program, abc("c"), *TEXTS),
    all_of_them=lambda program: verdicts(program, abc("c", "b", "a"), *TEXTS),
    one=lambda program: verdicts(program, {"properties": {"a": A}}, "{}", '{"a":1}', '{"b":1}', '{"a":true}'),
    any_object=lambda program: verdicts(
        program, {"type": "object"}, "{}", '{"x":1}', '{"x":[],"y":{}}', "{,}", '{"x":1,}'
    ),
    no_properties=lambda program: verdicts(program, {"properties": {}}, "{}", '{"x":1}'),
    any_values=lambda program: verdicts(program, {"additionalProperties": {}}, "{}", '{"x":1}', "{,}"),
    closed=lambda program: verdicts(program, {"additionalProperties": False, "type": "object"}, "{}", '{"x":1}'),
    values=lambda program: verdicts(
        program, {"additionalProperties": A}, "{}", '{"x":1}', '{"x":true}', '{"x":1,"y":2}'
    ),
    items=lambda program: verdicts(program, {"items": A}, "[]", "[1]", "[1,2]", "[true]", "[1,]", "[,1]", "[1"),
    one_or_more=lambda program: verdicts(program, {"items": A, "minItems": 1}, "[]", "[1]", "[1,2,3]"),
    two_to_three=lambda program: verdicts(
        program, {"items": A, "minItems": 2, "maxItems": 3}, "[]", "[1]", "[1,2]", "[1,2,3]", "[1,2,3,4]"
    ),
    at_most=lambda program: verdicts(program, {"items": A, "maxItems": 1}, "[]", "[1]", "[1,2]"),
    no_items=lambda program: verdicts(program, {"type": "array", "maxItems": 0}, "[]", "[1]"),
    anything=lambda program: verdicts(program, {}, "1", '"x"', "[{}]", '{"a":[null]}', "tru"),
    plain_array=lambda program: verdicts(program, {"type": "array"}, "[]", '[1,"a",{}]', "{}"),
    enum=lambda program: verdicts(
        program, {"enum": ["red", 1, [1, "a"]]}, '"red"', "1", '[1,"a"]', '"re"', "2", '"red"1'
    ),
    either=lambda program: verdicts(program, {"anyOf": [A, {"items": B}]}, "1", "[]", "[true]", "true", "1[]"),
    types=lambda program: verdicts(program, {"type": ["integer", "array"], "minItems": 1}, "1", "[1]", "[]", "true"),
    tree=lambda program: verdicts(
        program,
        TREE,
        '{"v":1}',
        '{"v":1,"kids":[]}',
        '{"v":1,"kids":[{"v":2,"kids":[{"v":3}]}]}',
        '{"v":1,"kids":[{}]}',
        '{"v":1,"kids":[1]}',
    ),
    defined=lambda program: verdicts(
        program, {"items": {"$ref": "#/$defs/x"}, "$defs": {"x": B}}, "[]", "[true]", "[1]"
    ),
    slash=lambda program: verdicts(
        program, {"properties": {"a/b": {"items": A}}}, '{"a/b":[1]}', '{"a/b":[true]}', "{}"
    ),
    tilde=lambda program: verdicts(program, {"properties": {"m~n": {"items": A}}}, '{"m~n":[1]}', '{"m~n":[true]}'),
    tilde_one=lambda program: verdicts(program, {"properties": {"~1": {"items": A}}}, '{"~1":[1]}', '{"~1":[true]}'),
    both_of_them=lambda program: verdicts(
        program, {"properties": {"~1": {"items": A}, "~/": {"items": B}}}, '{"~1":[1],"~/":[true]}', '{"~1":[true]}'
    ),
    nested=lambda program: verdicts(
        program,
        {"properties": {"a": abc("a"), "b": abc("b")}},
        '{"a":{"a":1}}',
        '{"b":{"a":1}}',
        '{"a":{"b":true}}',
        '{"b":{"b":true}}',
    ),
    refused=lambda program: mx.array(
        [
            refusal(partial(program, schema))
            for schema in (
                {"type": "string", "format": "date"},
                {"items": {"oneOf": [A]}},
                {"$ref": "#/none"},
                {"properties": {"x": {"type": "y"}}},
            )
        ]
    ),
    circle=lambda program: mx.array("#" in program({"$ref": "#"})),
    unused=lambda program: verdicts(program, {"type": "null", "$defs": {"x": {"oneOf": []}}}, "null"),
)


@known.sized("an object of 60 properties with 20 properties each")
def sized(program):
    inner = {"type": "object", "properties": {f"p{n}": A for n in range(20)}}
    schema = {"type": "object", "properties": {f"q{n}": inner for n in range(60)}}
    return lambda: program(schema)


FIRSTS = """
    for i, pair in enumerate(pairs):
        firsts.append(Sequence((pair, *follows[i + 1 :])))
        if needed[i]:
            break  # none of those after it can be the first
"""
AFTER = """
    before = [Sequence((pair, literal(","))) for pair in pairs[:-1]]
    parts = [each if must else optional(each) for each, must in zip(before, needed[:-1], strict=True)]
    firsts = [Sequence((*parts, pairs[-1] if needed[-1] else optional(pairs[-1])))]
"""
known.change(
    "comma-at-the-end",
    (FIRSTS, AFTER),
    fact="each property but the last has its comma after it, even if nothing follows",
    question="Only a is there, of a, b and c. What follows its value?",
)
known.change(
    "comma-by-the-schema",
    (FIRSTS, "    firsts.append(Sequence((pairs[0] if needed[0] else optional(pairs[0]), *follows[1:])))\n"),
    fact="each property but the schema's first has a comma before it, even if it is the first in the text",
    question="a is missing. What is between the brace and b?",
)
known.change(
    "first-property-needed",
    (FIRSTS, "    firsts.append(Sequence((pairs[0], *follows[1:])))\n"),
    fact="a text has the first property in any case",
    question="a is optional, and b is required. Which texts begin with b?",
)
known.change(
    "required-skipped",
    ("        if needed[i]:\n            break  # none of those after it can be the first\n", ""),
    fact="a later property may be the first although a required one is before it",
    question="a is required. May a text begin with b?",
)
known.change(
    "all-required",
    (
        "follows = [each if must else optional(each) for each, must in zip(with_comma, needed, strict=True)]",
        "follows = with_comma",
    ),
    fact="after the first property, all others must follow",
    question="What does `required` say about a property that it does not name?",
)
known.change(
    "all-optional",
    ('needed = [name in required for name in given["properties"]]', 'needed = [False for name in given["properties"]]'),
    fact="`required` is ignored",
    question="Is {} valid if a is required?",
)
known.change(
    "never-empty",
    ("body if any(needed) else optional(body)", "body"),
    fact="an object has at least one property",
    question="No property is required. What is the shortest text?",
)
known.change(
    "no-properties-closed",
    ('more = given.get("additionalProperties", True)', 'more = given.get("additionalProperties", False)'),
    fact="an object without `properties` has none",
    question='Which objects does {"type": "object"} allow?',
)
known.change(
    "any-value-is-false",
    ("if more is False:", "if not more:"),
    fact="an `additionalProperties` of {} allows only {}, as false does",
    question="Which values does the schema {} allow?",
)
known.change(
    "false-is-any",
    ('if more is False:\n    return literal("{}")\n', ""),
    ("value = Call(VALUE) if more is True else", "value = Call(VALUE) if more in (True, False) else"),
    fact="an `additionalProperties` of false allows any properties, as true does",
    question='Which of {} and {"x":1} does an `additionalProperties` of false allow?',
)
known.change(
    "additional-ignored",
    ('value = Call(VALUE) if more is True else call(f"{place}/additionalProperties")', "value = Call(VALUE)"),
    fact="the schema of `additionalProperties` is ignored",
    question='What may the values of {"additionalProperties": {"type": "integer"}} be?',
)
known.change(
    "items-unbounded",
    ('separated(item, given.get("minItems", 0), given.get("maxItems"))', "separated(item, 0, None)"),
    fact="`minItems` and `maxItems` are ignored",
    question="Is [] valid if minItems is 1?",
)
known.change(
    "slash-not-escaped",
    ('part = name.replace("~", "~0").replace("/", "~1")', "part = name"),
    fact="the names of properties are used in places unescaped",
    question="Where does #/properties/a/b lead?",
)
known.change(
    "escaped-in-the-wrong-order",
    ('name.replace("~", "~0").replace("/", "~1")', 'name.replace("/", "~1").replace("~", "~0")'),
    fact="the slash is escaped before the tilde, whose escape is then escaped again",
    question="What becomes of a/b in the two steps?",
)
known.change(
    "circles-followed",
    (
        "rules[place] = _expression(checked(find(schema, place), place), place, call)",
        "rules[place] = _expression(*followed(place), call)",
    ),
    (
        "for place in todo:  # grows while it is read\n",
        "def followed(at):\n"
        "    given = checked(find(schema, at), at)\n"
        '    return followed(given["$ref"]) if "$ref" in given else (given, at)\n\n'
        "for place in todo:  # grows while it is read\n",
    ),
    fact="a `$ref` is replaced by what it refers to, and a circle of references never ends",
    question='What is left of {"$ref": "#"} after you have followed it once?',
)
known.change(
    "rule-after-its-parts",
    ("if place not in todo:\n    todo.append(place)\n",
     "if place not in rules:\n"
     "    rules[place] = _expression(checked(find(schema, place), place), place, call)\n"),
    fact="a rule is added only after the rules that it calls, so a recursive schema recurses without end",
    question="The items of # are # again. Does # have a rule when its items call it?",
)  # fmt: skip
known.change(
    "required-first",
    (
        'pairs, required = list[Expression](), given.get("required", [])\n',
        'pairs, required = list[Expression](), given.get("required", [])\n'
        'names = sorted(given["properties"], key=lambda name: name not in required)\n'
        'given = given | {"properties": {name: given["properties"][name] for name in names}}\n',
    ),
    fact="required properties come before optional ones",
    question="`properties` has a and then b, and b is required. In which order are they written?",
)
known.change(
    "first-option-only",
    ('Choice(tuple(call(f"{place}/anyOf/{i}") for i in range(len(given["anyOf"]))))', 'call(f"{place}/anyOf/0")'),
    fact="only the first schema of `anyOf` is used",
    question="anyOf has an integer and an array. May the text be []?",
)
known.change(
    "first-type-only",
    ('for kind in given["type"]', 'for kind in given["type"][:1]'),
    fact="only the first of several types is used",
    question="The type is integer or array. May the text be []?",
)
known.change(
    "empty-in-any-case",
    ('separated(item, given.get("minItems", 0), given.get("maxItems"))',
     'optional(separated(item, given.get("minItems", 0), given.get("maxItems")))'),
    fact="an array may be empty, whatever `minItems` is",
    question="`minItems` is 1. May the brackets be empty?",
)  # fmt: skip
known.accepted_change(
    "the options of the first property in a comprehension",
    (
        FIRSTS,
        "    last = needed.index(True) if any(needed) else len(pairs) - 1\n"
        "    firsts = [Sequence((pairs[i], *follows[i + 1 :])) for i in range(last + 1)]\n",
    ),
)
known.accepted_change(
    "no call of any value",
    (
        '    if "type" not in given:\n        return Call(VALUE)\n',
        '    if "type" not in given:\n        return COMMON[VALUE]\n',
    ),
)
