"""Files for task 7.4.2, and what `read_range` returns for them, by a formula that has the whole file in memory."""

import os
import tempfile

MAX_LINE = 1000
TEXTS = {
    "three lines": b"one\ntwo\nthree\n", "no line break at the end": b"one\ntwo", "one": b"x", "empty": b"",
    "line breaks alone": b"\n\n\n", "carriage returns": b"one\r\ntwo\rthree\r\n",
    "other separators": "a\u2028b\x0bc\x0cd\x1ce\x85f\n".encode(), "accents": "d\u00e9j\u00e0 \U0001f438\n".encode(),
    "invalid UTF-8": b"a\xffb\xc3\n\xc3(\n", "a whole line": b"x" * 1000 + b"\ny\n",
    "a byte too many": b"x" * 1001 + b"\ny\n", "a long last line": b"y\n" + b"x" * 5000,
    "a cut in a character": b"x" * 999 + "\u00e9\u00e9\nlast\n".encode(),
    "a cut in a long one": b"x" * 998 + "\U0001f438\n".encode(), "a cut after one": b"x" * 998 + "\u00e9z\n".encode(),
    "long lines": b"".join(b"%d" % i * 900 + b"\n" for i in range(10, 40)),
    "a zero byte far to the right": b"x" * 1000 + b"\0\nlast\n", "a tab": b"\tx\n",
    "a whole last line": b"y\n" + b"x" * 1000, "a last line of a byte too many": b"y\n" + b"x" * 1001,
}  # fmt: skip


def formula(content, first=1, last=None, max_chars=16_000):
    """Return what is read from a file with this content, or "refused"."""
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if len(lines) < first:
        return f"[the file has {len(lines)} lines]" if b"\0" not in content else "refused"
    shown, number = "", first
    for line in lines[: first - 1]:
        if b"\0" in line[:MAX_LINE]:
            return "refused"
    while number <= len(lines) and (last is None or number <= last):
        body = lines[number - 1]
        if b"\0" in body[:MAX_LINE]:
            return "refused"
        rest = len(body[MAX_LINE:])
        text = body[:MAX_LINE].decode(errors="replace")
        for cut in range(1, 4) if rest else ():  # a character that is incomplete
            start = body[MAX_LINE - cut]
            if start >= 0xC0 and (2 + (start >= 0xE0) + (start >= 0xF0)) > cut:
                text = body[: MAX_LINE - cut].decode(errors="replace")
        line = f"{number:6d}  {text}" + (f" [+{rest} bytes]" if rest else "") + "\n"
        if shown and len(shown) + len(line) > max_chars:
            break
        shown, number = shown + line, number + 1
    return shown + (f"[more lines: continue with first={number}]" if number <= len(lines) else "[end of file]")


def in_a_file(content, use):
    """Call `use` with a descriptor of a file with this content, and return its result and the descriptor's fate."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        found = os.open(file.name, os.O_RDONLY)
        try:
            return use(found)
        finally:
            os.close(found)
