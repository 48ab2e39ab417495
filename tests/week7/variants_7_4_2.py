"""Known programs of task 7.4.2, reading a range of lines."""

import codecs
import os
import tracemalloc

import mlx.core as mx
from tests.week7.probing import told
from tests.week7.read_files import TEXTS, in_a_file
from tiny_llm_solution.workspace.errors import WorkspaceError
from tiny_llm_solution.workspace.reading import MAX_LINE

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.4.2")


def read(program, name, *arguments):
    content = TEXTS[name] if isinstance(name, str) else name
    return told(lambda: in_a_file(content, lambda file: program(file, *arguments)))


def much(program, content=b"0123456\n" * 300_000):
    """Return whether ten lines of a large file need much memory."""
    tracemalloc.start()
    try:
        result = read(program, content, 1, 10)
        return result, mx.array(tracemalloc.get_traced_memory()[1] > 1_000_000)
    finally:
        tracemalloc.stop()


known.probe_table(
    whole=lambda program: read(program, "three lines"),
    middle=lambda program: read(program, "three lines", 2, 2),
    up_to_the_last=lambda program: read(program, "three lines", 2, 3),
    beyond=lambda program: read(program, "three lines", 4),
    no_break=lambda program: read(program, "no line break at the end"),
    empty=lambda program: read(program, "empty"),
    returns=lambda program: read(program, "carriage returns"),
    separators=lambda program: read(program, "other separators"),
    accents=lambda program: read(program, "accents", 1, None, 20),
    invalid=lambda program: read(program, "invalid UTF-8"),
    whole_line=lambda program: read(program, "a whole line"),
    long=lambda program: read(program, "a long last line"),
    cut=lambda program: read(program, "a cut in a character"),
    long_lines=lambda program: read(program, "long lines", 3, None, 2500),
    limits=lambda program: tuple(read(program, "three lines", 1, None, most) for most in (1, 12, 13, 24, 25)),
    limit_of_accents=lambda program: read(program, "\u00e9\u00e9\u00e9\n".encode() * 3, 1, None, 24),
    zero=lambda program: tuple(read(program, b"a\n\0\nb\n", *lines) for lines in ((1, 2), (3,), (1, 1), (9,))),
    no_range=lambda program: (read(program, "three lines", 0), read(program, "three lines", 3, 2)),
    much=much,
    much_in_a_line=lambda program: much(program, b"x" * 2_400_000),
    bytes_and_characters=lambda program: tuple(
        read(program, letters.encode() * count + b"\n")
        for letters, count in (("\u00e9", 700), ("\u00e9z", 340), ("\u00e9", 1200))
    ),
    limits_of_four=lambda program: tuple(read(program, b"aaaa\n" * 4, 1, None, most) for most in (13, 14, 20, 26, 27)),
)


@known.sized("lines 20,000 to 20,200 of 30,000")
def sized(program):
    content = b"a line of a file that is not very long\n" * 30_000
    return lambda: in_a_file(content, lambda file: program(file, 20_000, 20_200))


known.change(
    "lines-from-zero",
    ('f"{number:>6}  {text}', 'f"{number - 1:>6}  {text}'),
    fact="the first line is shown with the number 0",
    question="Which number has the first line, in the docstring and in every editor?",
)
known.change(
    "last-left-out",
    ("number > last:", "number >= last:"),
    fact="the line `last` itself is left out",
    question="How many lines are lines 2 to 3?",
)
known.change(
    "exactly-max-chars",
    ("length + len(line) > max_chars", "length + len(line) >= max_chars"),
    fact="a line with which the result has exactly `max_chars` characters is left out",
    question="max_chars is 24, and the lines have 12 characters each. How many are shown?",
)
known.change(
    "stops-after-max-chars",
    ("if shown and length + len(line) > max_chars:", "if length >= max_chars:"),
    fact="lines are added until the result has max_chars characters, so the last one may exceed the limit",
    question="max_chars is 20, and the lines have 12 characters each. How long is your result?",
)
known.change(
    "a-line-is-skipped",
    (
        "if shown and length + len(line) > max_chars:\n"
        '    return "".join([*shown, f"[more lines: continue with first={number}]"])',
        "if shown and length + len(line) > max_chars:\n"
        '    return "".join([*shown, f"[more lines: continue with first={number + 1}]"])',
    ),
    fact="the last line says to continue one line too late, after the one that did not fit",
    question="Line 2 did not fit. Which line should the model ask for?",
)
known.change(
    "carriage-returns-dropped",
    (".decode(body, final=not rest)", '.decode(body, final=not rest).rstrip("\\r")'),
    fact="the carriage return at the end of a line is not shown",
    question="The model copies a line into an edit, which must match exactly. What is missing?",
)
known.change(
    "bytes-are-counted",
    ("if shown and length + len(line) > max_chars:", "if shown and length + len(line.encode()) > max_chars:"),
    ("length += len(line)", "length += len(line.encode())"),
    fact="max_chars counts bytes",
    question="How many characters, and how many bytes, are in 'd\u00e9j\u00e0'?",
)
CUT = 'text = codecs.getincrementaldecoder("utf-8")("replace").decode(body, final=not rest)'
AFTER_CHARACTERS = [
    ("lines.readline(MAX_LINE + 1)", "lines.readline(4 * MAX_LINE + 1)"),
    ("piece[:MAX_LINE]", "piece[: 4 * MAX_LINE]"),
    ('if b"\\0" in body:', 'if b"\\0" in body[:MAX_LINE]:'),
]
CUT_TEXT = """text = body.decode(errors="replace")
if len(text) > MAX_LINE:
    text, rest = text[:MAX_LINE], """
known.change(
    "cut-after-characters",
    *AFTER_CHARACTERS,
    (CUT, f"{CUT_TEXT}size - len(text[:MAX_LINE].encode()) - piece.endswith(b'\\n')"),
    fact="a line is cut after MAX_LINE characters instead of MAX_LINE bytes",
    question="A line has 700 times the letter \u00e9. How many bytes does it have, and how many of them are shown?",
)
known.change(
    "cut-and-counted-in-characters",
    *AFTER_CHARACTERS,
    (CUT, f"{CUT_TEXT}rest + len(text) - MAX_LINE"),
    fact="a line is cut after MAX_LINE characters instead of bytes, and N in `[+N bytes]` counts characters, too",
    question="A line has 1,200 times the letter \u00e9. How many bytes does it have, and how many are not shown?",
)
known.change(
    "line-break-counted",
    ('- piece.endswith(b"\\n")', '- (piece.endswith(b"\\n") and size <= MAX_LINE + 1)'),
    fact="N in `[+N bytes]` also counts the line break",
    question="A line has 1,001 bytes and then a line break. How many of the line's bytes follow the first 1,000?",
)
known.change(
    "half-a-character",
    ("final=not rest", "final=True"),
    fact="a character that the cut after MAX_LINE bytes divides is shown as invalid",
    question="Byte 1,000 is the first of the two bytes of an \u00e9. What can you show of it?",
)
known.change(
    "zero-bytes-shown",
    ('if b"\\0" in body:', "if False:"),
    fact="a file with zero bytes is not refused",
    question="What would a model learn from the bytes of a picture?",
)
known.change(
    "zero-bytes-before-the-range",
    ('if b"\\0" in body:', 'if b"\\0" in body and number >= first:'),
    fact="zero bytes in the lines before `first` are not seen",
    question="Line 1 has a zero byte, and the model asks for line 3. Is the file text?",
)
known.change(
    "zero-bytes-after-the-range",
    ("if last is not None and number > last:", 'if last is not None and number > last and b"\\0" not in piece:'),
    fact="a zero byte in the line after `last` is refused, too",
    question="The model asks for lines 1 to 2, and line 3 is binary. Which lines does it get?",
)
known.change(
    "no-more-bytes-announced",
    ("if rest else ''", "if rest or len(body) == MAX_LINE else ''"),
    fact="a line of exactly MAX_LINE bytes is marked as cut",
    question="A line has 1,000 bytes, and 1,000 are shown. How many are missing?",
)
known.change(
    "first-line-may-not-fit",
    ("if shown and length + len(line) > max_chars:", "if length + len(line) > max_chars:"),
    fact="a first line that is longer than max_chars is not returned, so the reading never goes on",
    question="The first line does not fit. What does the model ask for next?",
)
known.change(
    "line-after-the-last-break",
    (
        "while piece := lines.readline(MAX_LINE + 1):",
        "ended = True\nwhile (piece := lines.readline(MAX_LINE + 1)) or ended:",
    ),
    ('if b"\\0" in body:', 'ended = piece.endswith(b"\\n")\nif b"\\0" in body:'),
    fact="a line break at the end of the file begins another line, which is empty",
    question="How many lines does a file with the content `a`, line break have? And which parts does split return?",
)


known.change(
    "a-whole-line",
    ("lines.readline(16_384)", "lines.readline()"),
    fact="each line is read into memory as a whole, however long it is",
    question="A file has 4 GB and no line break. How much of it do you read at once?",
)


@known.wrong(
    "every-separator",
    fact="str.splitlines divides the text, so form feeds and Unicode's line separators end lines, too",
    question="Which characters end a line in the docstring? And which ones for str.splitlines?",
)
def every_separator(file, first=1, last=None, max_chars=16_000):
    if first < 1 or (last is not None and last < first):
        raise WorkspaceError("no range")
    with os.fdopen(file, "rb", closefd=False) as opened:
        lines = opened.read(200_000).decode(errors="replace").replace("\r\n", "\r\r\n").splitlines()
    return told_of([line.encode() for line in lines], first, last, max_chars)


@known.wrong(
    "the-whole-file",
    fact="the whole file is read into memory, however few lines are requested",
    question="The model asks for ten lines of a log of 4 GB. How much do you read?",
)
def the_whole_file(file, first=1, last=None, max_chars=16_000):
    if first < 1 or (last is not None and last < first):
        raise WorkspaceError("no range")
    with os.fdopen(file, "rb", closefd=False) as opened:
        lines = opened.read().split(b"\n")
    return told_of(lines if lines[-1] else lines[:-1], first, last, max_chars)


def told_of(lines, first, last, max_chars):
    """Return what is to be shown of these lines."""
    shown, length, number = [], 0, 0
    for number, line in enumerate(lines, 1):
        body, rest = line[:MAX_LINE], len(line) - MAX_LINE
        if last is not None and number > last:
            return f"{''.join(shown)}[more lines: continue with first={number}]"
        if b"\0" in body:
            raise WorkspaceError("no text")
        if number < first:
            continue
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(body, rest <= 0)
        text = f"{number:>6}  {text}" + (f" [+{rest} bytes]" if rest > 0 else "") + "\n"
        if shown and length + len(text) > max_chars:
            return f"{''.join(shown)}[more lines: continue with first={number}]"
        shown.append(text)
        length += len(text)
    return f"{''.join(shown)}[end of file]" if shown else f"[the file has {number} lines]"


@known.accepted("blocks of bytes")
def blocks(file, first=1, last=None, max_chars=16_000):
    if first < 1 or (last is not None and last < first):
        raise ValueError(f"{first} to {last} is no range")
    return told_of(_Lines(file), first, last, max_chars)


class _Lines:
    """Reads blocks, and yields lines; of a long one the beginning, and zeros that stand for the rest."""

    def __init__(self, file):
        self.file = file

    def __iter__(self):
        begun, rest = b"", 0
        while block := os.read(self.file, 16_384):
            *whole, open_line = block.split(b"\n")
            for line in whole:
                yield _Line(begun + line, rest)
                begun, rest = b"", 0
            begun += open_line
            if len(begun) > 2 * MAX_LINE:
                rest += len(begun) - 2 * MAX_LINE
                begun = begun[: 2 * MAX_LINE]
        if begun:
            yield _Line(begun, rest)


class _Line(bytes):
    """A line's beginning; its length counts bytes that were not kept."""

    def __new__(cls, begun, rest):
        made = super().__new__(cls, begun)
        made.rest = rest
        return made

    def __len__(self):
        return super().__len__() + self.rest
