"""JSON that is still being written."""

import re

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = ("true", "false", "null")
_CLOSABLE = ("end", "first key", "first item")  # what may come next where an object or an array may be closed


def complete_json(prefix: str) -> str:
    """Return the beginning of a JSON text, completed so that it is valid JSON.

    As much of the prefix is kept as can be completed by closing what is open: a string by `"`, an array by `]`, an
    object by `}`. All that follows is dropped: a comma, a key without a value, half a word such as `tru`, the end of a
    number such as `1.`, half an escape, half a surrogate pair or its escape (also if the string goes on, as no text
    contains it), and everything from the first character on that is not allowed there.

    `{"path": "src/ma` becomes `{"path": "src/ma"}`, and so does `{"path": "src/ma", "li`. The last number may be only
    the beginning of the final one: `[1, 23` becomes `[1, 23]`.

    Returns:
        The completed text; "" if nothing can be completed, as before the first character. White space at the end of
        what is kept is kept.

    Raises nothing, whatever the text is.

    Source: RFC 8259.
    """
    closers, kept, at, expected = list[str](), 0, 0, "value"
    while True:
        at = _end_of(_SPACE, prefix, at)
        if expected in _CLOSABLE:
            kept = at
        if at == len(prefix):
            break
        character = prefix[at]
        if expected in _CLOSABLE and closers and character == closers[-1]:
            closers.pop()
            at, expected = at + 1, "end"
        elif expected == "end":
            if character != "," or not closers:
                break
            at, expected = at + 1, "key" if closers[-1] == "}" else "value"
        elif expected == "colon":
            if character != ":":
                break
            at, expected = at + 1, "value"
        elif character == '"':
            end, is_key = _end_of_string(prefix, at), expected in ("key", "first key")
            if prefix[end : end + 1] == '"':
                at, expected = end + 1, "colon" if is_key else "end"
                continue
            if not is_key:
                closers.append('"')
                kept = end
            break
        elif expected in ("key", "first key"):
            break
        elif character in "{[":
            closers.append("}" if character == "{" else "]")
            at, expected = at + 1, "first key" if character == "{" else "first item"
        else:
            word = next((word for word in _WORDS if prefix.startswith(word, at)), "")
            end = at + len(word) if word else _end_of(_NUMBER, prefix, at)
            if end == at:
                break
            at, expected = end, "end"
    return prefix[:kept] + "".join(reversed(closers))


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where a match that begins at an index ends; the index itself if there is none."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _end_of_string(text: str, at: int) -> int:
    """Return where a string's characters end: at its closing quote, or where it stops being one."""
    plain = r'[^"\\\x00-\x1f\ud800-\udfff]|\\["\\/bfnrt]'
    escaped = r"\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    pair = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # two escapes, one character
    return _end_of(re.compile(f'"(?:{plain}|{escaped}|{pair})*'), text, at)
