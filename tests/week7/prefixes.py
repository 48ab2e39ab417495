"""Beginnings of JSON texts, and their completions by trial, for task 7.2.3."""

import json

WHOLE = [
    '{"path": "src/main.py", "lines": [1, -2.5e3, true, null, false], "more": {"a": {}, "b": []}}',
    r'{"text": "a\n\"\\\u00e9\ud83d\udc15", "\u72d7": "\/"}',
    '[[[]], [{}], {"a": [0, 10, 0.5, 1E+2, -0]}]',
    ' {\n  "a" : [ 1 ,\t"b" ] ,\r\n "c" : { } }\n',
    '"That is a blue dog"',
    "-12.75e-10",
    "true",
    '{"\u00e9\U0001f415": "d\u00e9j\u00e0 \u72d7", "": ""}',
]
ODD = [
    "{a", "{]", "[}", "[1 2", '{"a" 1', '{"a": 1, }', "[1,, 2", "[01", "[1.e5", "[.5", "[+1", "[tr ue", "[NaN",
    "[-Infinity", '["a\nb"', '["\\x"', '["\\u12g4"', '["\\ud83d"', '["\\ud83dx"', '["\\udc15"', '["\\ud83d\\ud83d',
    '["\\ud83d\\udc15', '["\\uD83D\\u00e9', "{} {}", "[1] x", '{"a": 1}}', "]", "}", ",", ":", "'a'", '{"a": "b": 1',
    '{1: 2', "[[[[", '{"a":{"b":{"c":', "\ufeff{}", "[1\u00a0", "nul", "truefalse", "[true1", '"', '"\\', '{"', "-",
    "[-", "[1e", "[1e+", "[0x1", '["\t"', "[\u0661", "[1\u0663", "{}, ", "1,", "1, 2", "[1] , ", '{"a":1},{"b',
    '["\\udc15\\udc15"',
]  # fmt: skip


def _closers(text: str) -> str:
    """Return what closes the strings, arrays and objects that are open at the end."""
    stack, inside, escaped = [], False, False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "{[":
            stack.append("}" if character == "{" else "]")
        elif character in "}]" and stack:
            stack.pop()
    return '"' * inside + "".join(reversed(stack))


def completed(text: str) -> str:
    """Return the completion of the longest beginning that has one, by trying all of them."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    for size in range(len(text), -1, -1):
        whole = text[:size] + _closers(text[:size])
        try:
            found = json.loads(whole, parse_constant=refuse)
            json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair raises
        except ValueError:
            continue
        return whole
    return ""
