"""Known programs of task 7.2.3, JSON that is still being written."""

import json
import re

import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.2.3")


def texts(program, *prefixes):
    return mx.array(
        list("\n".join(program(prefix) for prefix in prefixes).encode("utf-8", "surrogatepass")), dtype=mx.int32
    )


known.probe_table(
    open_string=lambda program: texts(program, '{"path": "src/ma', '["a', '"That is', '{"a": {"b": ["c'),
    open_key=lambda program: texts(program, '{"path": "a", "li', '{"pa', '{"a": [{"b'),
    key=lambda program: texts(program, '{"path"', '{"path": "a", "lines"', '{"path":', '{"a": 1, "b": '),
    comma=lambda program: texts(program, '{"path": "a", ', "[1, ", "[[1, 2], "),
    nested=lambda program: texts(program, '{"a": [{"b": [', "[[[", '{"a": {"b": {'),
    numbers=lambda program: texts(program, "[1, 23", "[1.", "[-", "[1e+", '{"a": -0.5', "[0"),
    words=lambda program: texts(program, "[tru", "[true", '{"a": nul', "[false, f"),
    escapes=lambda program: texts(program, r'["a\n', '["a\\', r'["\u00', r'["\"', r'["\\'),
    surrogates=lambda program: texts(program, r'["a\ud83d', r'["a\ud83d\udc', r'["a\ud83d\udc15'),
    spaces=lambda program: texts(program, "[1 , 2 ", '{ "a" : 1 ', "[ "),
    no_json=lambda program: texts(program, "{a", '["a\nb', "[1 2", "[1, ]", "{} {}", "[01"),
    first_half=lambda program: texts(program, r'["\udc15\udc15'),
    half_inside=lambda program: texts(program, r'["a\ud83d b', '["a\ud83db'),
    white_space=lambda program: texts(program, "[1\xa0"),
    deep=lambda program: texts(program, "[" * 3_000),
    digits=lambda program: texts(program, "[1\u0663"),
    comma_after=lambda program: texts(program, "[1],"),
    whole=lambda program: texts(program, '{"a": [1, "b", null]}', "[]", "3", ""),
)


@known.sized("1,000 numbers, and a string that is open")
def sized(program):
    prefix = json.dumps({"lines": list(range(1000)), "text": "That is a blue dog. " * 50})[:-9]
    return lambda: program(prefix)


known.change(
    "open-strings-dropped",
    ("if not is_key:", "if False:"),
    fact="a string that is still open is dropped until its closing quote arrives",
    question="A model writes a file's text for a minute. What does a user see of it meanwhile?",
)
known.change(
    "open-keys-closed",
    ("if not is_key:", "if True:"),
    fact="an open key is closed like a value",
    question='Is {"li"} an object?',
)
known.change(
    "null-for-a-missing-value",
    (
        'at, expected = end + 1, "colon" if is_key else "end"\ncontinue',
        'at, expected = end + 1, "colon" if is_key else "end"\nmissing = ": null" if is_key else ""\ncontinue',
    ),
    (
        'if character != ":":\n    break\nat, expected = at + 1, "value"',
        'if character != ":":\n    break\nat, expected, missing = at + 1, "value", " null"',
    ),
    (
        'closers, kept, at, expected = list[str](), 0, 0, "value"',
        'closers, kept, at, expected, missing = list[str](), 0, 0, "value", ""',
    ),
    ("if expected in _CLOSABLE:\n    kept = at", "if expected in _CLOSABLE or missing:\n    kept = at"),
    ("closers.append('\"')\nkept = end", 'closers.append(\'"\')\nkept, missing = end, ""'),
    ('at, expected = end, "end"', 'at, expected, missing = end, "end", ""'),
    (
        'at, expected = at + 1, "first key" if character == "{" else "first item"',
        'at, expected, missing = at + 1, "first key" if character == "{" else "first item", ""',
    ),
    ('return prefix[:kept] + "".join', 'return prefix[:kept] + missing + "".join'),
    fact="a key without a value gets the value null",
    question="The value has not arrived yet. Is it null?",
)
known.change(
    "commas-kept",
    ('if character != "," or not closers:\n    break', 'if character != "," or not closers:\n    break\nkept = at + 1'),
    fact="the comma before what is missing is kept",
    question="Does JSON allow a comma before a closing bracket?",
)
known.change(
    "comma-as-a-brace",
    ('"key" if closers[-1] == "}" else "value"', '"first key" if closers[-1] == "}" else "value"'),
    fact="after a comma an object may end as after its opening brace, so the comma is kept",
    question='Is {"a": 1, } JSON?',
)
known.change(
    "spaces-after-brackets-dropped",
    (
        "at = _end_of(_SPACE, prefix, at)\nif expected in _CLOSABLE:\n    kept = at",
        "begun, at = at, _end_of(_SPACE, prefix, at)\n"
        'if expected in _CLOSABLE:\n    kept = at if expected == "end" else begun',
    ),
    fact="white space after an opening bracket or brace is dropped",
    question="The prefix is a bracket and a line break. What can be kept of it?",
)
known.change(
    "closed-from-outside",
    ('"".join(reversed(closers))', '"".join(closers)'),
    fact="what was opened first is closed first",
    question="Of [ and {, opened in this order, which is inside the other?",
)
known.change(
    "half-words-kept",
    ("if prefix.startswith(word, at)", "if word.startswith(prefix[at : at + len(word)])"),
    fact="half a word such as `tru` is kept",
    question="Is [tru] JSON?",
)
known.change(
    "last-number-dropped",
    ("if end == at:", "if end == at or (not word and end == len(prefix)):"),
    fact="a number at the end is dropped, because it may go on",
    question="The docstring says what `[1, 23` becomes. What does yours return?",
)
known.change(
    "half-escapes-kept",
    ("kept = end", "kept = len(prefix)"),
    fact="everything to the end of the prefix is kept in an open string, half an escape, too",
    question="The prefix ends in a backslash. What does a quote after it mean?",
)
known.change(
    "control-characters-kept",
    (r'[^"\\\x00-\x1f\ud800-\udfff]', r'[^"\\\ud800-\udfff]'),
    fact="tabs and line breaks are kept in a string, where JSON allows only their escapes",
    question="The string has a line break as it is. Does json.loads read it?",
)
known.change(
    "half-a-pair",
    ("(?![dD][89a-fA-F])", ""),
    fact="half of a surrogate pair is kept, which is no character",
    question="Can you encode the completed string as UTF-8?",
)
known.change(
    "one-after-the-other",
    ('if character != "," or not closers:', "if not closers:"),
    ('at, expected = at + 1, "key" if', 'at, expected = at + (character == ","), "key" if'),
    fact="a value may follow another one without a comma",
    question="Is [1 2] JSON?",
)
known.change(
    "half-numbers",
    ("_end_of(_NUMBER, prefix, at)", '_end_of(re.compile(r"[-+.0-9eE]+"), prefix, at)'),
    fact="half a number such as `1.` or `-` is kept, which is not JSON",
    question="The prefix ends in `[1.`. Can a parser read `[1.]`?",
)


known.change(
    "other-white-space",
    (
        "at = _end_of(_SPACE, prefix, at)",
        "at = next((i for i in range(at, len(prefix)) if not prefix[i].isspace()), len(prefix))",
    ),
    fact="white space is what `isspace` says, not JSON's four characters",
    question="Is a non-breaking space white space in JSON?",
)
known.change(
    "any-digits",
    (
        "_end_of(_NUMBER, prefix, at)",
        r'_end_of(re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?"), prefix, at)',
    ),
    fact=r"a number may begin with zeros, and has all digits that \d matches",
    question=r"Is [01] JSON? And which characters does \d match in a Python string?",
)
known.change(
    "other-digits",
    ("_end_of(_NUMBER, prefix, at)", r'_end_of(re.compile(_NUMBER.pattern.replace("[0-9]", r"\d")), prefix, at)'),
    fact=r"digits are what \d matches, also those of other scripts",
    question=r"Which characters does \d match in a Python string, and which digits may a number in JSON have?",
)
known.change(
    "half-a-pair-at-the-end-only",
    ("(?![dD][89a-fA-F])", ""),
    (r'[^"\\\x00-\x1f\ud800-\udfff]', r'[^"\\\x00-\x1f]'),
    ("kept = end", r'kept = at + len(re.sub(r"(\\u[dD][89abAB][0-9a-fA-F]{2}|[\ud800-\udbff])$", "", prefix[at:end]))'),
    fact="half a surrogate pair is dropped at the end of the prefix only, and kept if the string continues",
    question="After the first half comes a letter. Can you encode the completed string as UTF-8?",
)
known.change(
    "two-halves-from-anywhere",
    ("[dD][89abAB][0-9a-fA-F]{2}", "[dD][89a-fA-F][0-9a-fA-F]{2}"),
    fact="the first half of a surrogate pair may be a second half",
    question="From which range is the first half of a pair, and from which the second?",
)
known.change(
    "comma-after-the-text",
    ('if character != "," or not closers:', 'if character != ",":'),
    fact="a comma is accepted although no array or object is open",
    question="The prefix is `1,`. What is open when the comma comes?",
)


@known.wrong(
    "nothing-dropped",
    fact="everything that is open is closed, and nothing is dropped",
    question='What does `{"path": "a", ` become if you only close the brace?',
)
def nothing_dropped(prefix):
    stack, inside, escaped = [], False, False
    for character in prefix:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "{[":
            stack.append("}" if character == "{" else "]")
        elif character in "}]" and stack:
            stack.pop()
    return prefix + '"' * inside + "".join(reversed(stack))


@known.wrong(
    "limits-of-json-loads",
    fact="json.loads decides, which raises RecursionError for deep nesting and refuses numbers of many digits",
    question="A model repeats an opening bracket 3,000 times. What does json.loads make of that?",
)
def by_trial(prefix):
    sizes, stack, inside, escaped = [""], [], False, False
    for character in prefix:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "{[":
            stack.append("}" if character == "{" else "]")
        elif character in "}]" and stack:
            stack.pop()
        sizes.append('"' * inside + "".join(reversed(stack)))
    for size in range(len(prefix), 0, -1):
        whole = prefix[:size] + sizes[size]
        try:
            found = json.loads(whole, parse_constant={}.__getitem__)
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, KeyError):  # NaN and the like are keys that are missing
            continue
        return whole
    return ""


SPACE = re.compile(r"[ \t\n\r]*")
TOKEN = re.compile(
    r'([\[{])|([\]}])|([,:])|("(?:[^"\\\x00-\x1f\ud800-\udfff]|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|'
    r'\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*)("?)|'
    r"(true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)


@known.accepted("tokens by one regular expression")
def by_tokens(prefix):
    stack, wanted, kept, at, found = [], "value", 0, 0, True
    while found:
        at = SPACE.match(prefix, at).end()
        kept = at if wanted in ("more", "first") else kept
        if not (found := TOKEN.match(prefix, at)):
            break
        opened, closed, mark, string, quote, word = found.groups()
        at, value = found.end(), wanted == "value" or (wanted == "first" and stack[-1] == "]")
        if opened and value:
            stack.append("}" if opened == "{" else "]")
            wanted = "first"
        elif closed and wanted in ("more", "first") and stack and stack[-1] == closed:
            stack.pop()
            wanted = "more"
        elif mark == "," and wanted == "more" and stack:
            wanted = "value" if stack[-1] == "]" else "key"
        elif mark == ":" and wanted == "colon":
            wanted = "value"
        elif string and quote and wanted in ("key", "first") and not value:
            wanted = "colon"
        elif string and value and not quote:
            stack.append('"')
            kept = at
            break
        elif (string or word) and value:
            wanted = "more"
        else:
            break
    return prefix[:kept] + "".join(reversed(stack))
