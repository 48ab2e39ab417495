"""Show a change to a user before it is made: a diff in which nothing can hide."""

import difflib


def printable(text: str) -> str:
    r"""Return a text in which every character that a terminal would not print is an escape, such as `\x1b`.

    Line breaks and tabs stay. Escape sequences, which could overwrite the diff above, and characters that change the
    direction of the text become visible.
    """
    return "".join(x if x.isprintable() or x in "\n\t" else x.encode("unicode_escape").decode() for x in text)


def unified(path: str, before: str | None, after: str) -> str:
    """Return the unified diff of a file's old and new text; `before` is None for a new file."""
    old, name = ([], "/dev/null") if before is None else (_lines(before), f"a/{path}")
    diff = difflib.unified_diff(old, _lines(after), name, f"b/{path}", lineterm="")
    return printable("\n".join(diff))


def _lines(text: str) -> list[str]:
    """Return the lines of a text; a last one without a line break differs from one with it."""
    *lines, last = text.split("\n")
    return lines + ([f"{last}\n\\ No newline at end of file"] if last else [])
