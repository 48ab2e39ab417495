"""Known programs of task 7.3.3, a transcript."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("7.3.3")
SAID = {"message": {"role": "user", "content": "a\nb \u2028 \u72d7"}}


def codes(*parts):
    return mx.array(list("|".join(map(repr, parts)).encode()), dtype=mx.int32)


def written(program, entries, before=b""):
    """Return the file and what is read from it, after entries were appended to what was there."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.write_bytes(before)
        file = program(path)
        for entry in entries:
            file.append(entry)
        file.close()
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        return codes(lines, program.read(path), path.read_bytes().endswith(b"\n"))


def at_once(program):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        file = program(path)
        file.append(SAID)
        found = path.read_bytes().count(b"\n")
        file.close()
        return mx.array([found])


def read(program, data):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.write_bytes(data)
        return codes(program.read(path))


def left_by_read(program):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.write_bytes(b'{"a": 1}\n{"b"')
        return codes(program.read(path), path.read_bytes())


def refused(program, data):
    return mx.array([refusal(lambda: read(program, data))])


def number_said(program, data):
    """Return whether the error has the number 2, its line's."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.write_bytes(data)
        try:
            return codes(program.read(path))
        except ValueError as error:
            return codes("2" in re.findall(r"\d+", str(error).replace(str(path), "")))


known.probe_table(
    two=lambda program: written(program, [SAID, {"stop": "done"}]),
    none=lambda program: written(program, []),
    continued=lambda program: written(program, [SAID], b'{"a": 1}\n'),
    after_a_crash=lambda program: written(program, [SAID], b'{"a": 1}\n{"b": "\xe7\x8b'),
    after_a_first_crash=lambda program: written(program, [SAID], b'{"a'),
    surrogate=lambda program: written(program, [{"a": "\ud83d"}]),
    at_once=at_once,
    half=lambda program: read(program, b'{"a": 1}\n{"b"'),
    half_that_is_whole=lambda program: read(program, b'{"a": 1}\n{"b": 2}'),
    line_separators=lambda program: read(program, '{"a": "\u2028"}\n{"b": "\x85"}\n'.encode()),
    damaged=lambda program: refused(program, b'{"a": 1}\n{"b"\n{"c": 2}\n'),
    second_line=lambda program: number_said(program, b'{"a": 1}\n{"b"\n{"c": 2}\n'),
    no_object=lambda program: refused(program, b"[]\n{}\n"),
    damaged_at_the_end=lambda program: refused(program, b'{"a": 1}\n{"b"\n'),
    utf_16=lambda program: refused(program, "{}".encode("utf-16-le") + b"\n"),
    half_a_pair=lambda program: refused(program, b'{"a": "\xed\xa0\xbd"}\n'),
    left_by_read=left_by_read,
    empty_line=lambda program: refused(program, b"{}\n\n{}\n"),
)
known.not_timed("the disk takes the time")

known.change(
    "half-a-line-stays",
    ('self._file.truncate(data.rfind(b"\\n") + 1)', "pass"),
    fact="the half line of a crash stays, and the next entry is appended to it",
    question='The file ends in `{"mess`. What does its last line look like after the next append?',
)
known.change(
    "half-a-line-ended",
    ('self._file.truncate(data.rfind(b"\\n") + 1)', "pass"),
    (
        "self._file.seek(0, os.SEEK_END)",
        'self._file.seek(0, os.SEEK_END)\nif data[-1:] not in (b"", b"\\n"):\n    self._file.write(b"\\n")',
    ),
    fact="the half line of a crash stays and gets a line feed, so that it is read as a damaged entry",
    question="What does `read` do with a line that ends with a line feed and is not JSON?",
)
known.change(
    "half-a-first-line-stays",
    (
        'self._file.truncate(data.rfind(b"\\n") + 1)',
        'if data.rfind(b"\\n") > 0:\n    self._file.truncate(data.rfind(b"\\n") + 1)',
    ),
    fact="the half line of a crash stays if it is the only line of the file",
    question="The process was killed while it wrote its first entry. How many line feeds has the file?",
)
known.change(
    "cut-one-byte-early",
    ('data.rfind(b"\\n") + 1', 'max(data.rfind(b"\\n"), 0)'),
    fact="the cut is one byte too early: the last whole line loses its line feed",
    question="The last line feed is byte 8. How many bytes must stay?",
)
known.change(
    "begins-anew",
    ('self._file.truncate(data.rfind(b"\\n") + 1)', "self._file.truncate(0)"),
    fact="opening a transcript deletes what it contained",
    question="A run is continued. Where is its first half?",
)
known.change(
    "not-flushed",
    ("self._file.flush()", "pass"),
    fact="an entry stays in a buffer of the process until there are enough of them",
    question="The process is killed. What of its last twenty entries is in the file?",
)
known.change(
    "lone-surrogates",
    ("json.dumps(entry).encode()", "json.dumps(entry, ensure_ascii=False).encode()"),
    fact="an entry with half of a surrogate pair cannot be written",
    question="Which texts can UTF-8 not encode?",
)
known.change(
    "other-line-ends",
    ('path.read_bytes().split(b"\\n")[:-1]', 'path.read_text(encoding="utf-8", errors="replace").splitlines()'),
    ("json.loads(line.decode())", "json.loads(line)"),
    fact="characters such as U+2028 end a line, and half a line at the end is an error",
    question="Which characters does str.splitlines take for the end of a line?",
)
known.change(
    "last-line-without-end",
    ('path.read_bytes().split(b"\\n")[:-1]', 'path.read_bytes().split(b"\\n")'),
    ("entries = []", "entries = []\nif not path.read_bytes().strip():\n    return entries"),
    (
        'raise ValueError(f"line {number} of {path} is not JSON: {error}") from None',
        'if path.read_bytes().count(b"\\n") < number:\n    break\nraise ValueError(f"line {number}") from None',
    ),
    fact="a last line without a line feed counts as an entry if it happens to be JSON",
    question='`{"tokens": 1` and `2}` were to be written, and the process was killed in between. And after `2`?',
)
known.change(
    "last-line-by-its-json",
    ('path.read_bytes().split(b"\\n")[:-1]', "lines"),
    ("entries = []", 'entries, lines = [], path.read_bytes().removesuffix(b"\\n").split(b"\\n")'),
    (
        'raise ValueError(f"line {number} of {path} is not JSON: {error}") from None',
        'if number == len(lines):\n    break\nraise ValueError(f"line {number}") from None',
    ),
    fact="the last line is left out if it is not JSON, with or without a line feed",
    question='Which of these last lines is half an entry: `{"a` with a line feed, or `{}` without one?',
)
known.change(
    "half-an-entry-is-read",
    ('path.read_bytes().split(b"\\n")[:-1]', "path.read_bytes().splitlines()"),
    fact="a last line without a line feed is read like any other, so half an entry is an error",
    question="A process was killed while it wrote its last entry. Can you read the entries before it?",
)
known.change(
    "damage-skipped",
    ('raise ValueError(f"line {number} of {path} is not JSON: {error}") from None', "continue"),
    fact="lines that are not JSON are skipped in silence",
    question="A line in the middle is damaged. Is the conversation without it the one that took place?",
)
known.change(
    "encoding-guessed",
    ("json.loads(line.decode())", "json.loads(line)"),
    fact="json.loads guesses the encoding of each line, so that UTF-16 and halves of surrogate pairs are read, too",
    question="What does json.loads do with bytes before it parses them?",
)
known.change(
    "read-cuts",
    ("entries = []", "Transcript(path).close()\nentries = []"),
    fact="reading cuts the half line off, which another process may be writing",
    question="A viewer reads the transcript of a run that has not ended. What happens to the line being written?",
)
known.change(
    "lines-from-zero",
    ('split(b"\\n")[:-1], 1)', 'split(b"\\n")[:-1])'),
    fact="lines are numbered from 0 in error messages",
    question="Which number does an editor show at the first line of a file?",
)
known.change(
    "any-json",
    ("if not isinstance(entry, dict):", "if False:"),
    fact="a line with another JSON value than an object counts as an entry",
    question='What would entry["message"] be for a line `[]`?',
)


LOADS = "entry = json.loads(line.decode())"
known.written(
    "objects-within-the-try", (LOADS, f"{LOADS}\nif not isinstance(entry, dict):\n    raise ValueError('no object')")
)


@known.accepted("an append-only file")
class AppendOnly:
    def __init__(self, path):
        if path.exists():
            data = path.read_bytes()
            if not data.endswith(b"\n"):
                path.write_bytes(b"".join(part + b"\n" for part in data.split(b"\n")[:-1]))
        self.file = path.open("a", encoding="ascii", newline="\n")

    def append(self, entry):
        print(json.dumps(entry, ensure_ascii=True), file=self.file, flush=True)

    def close(self):
        self.file.close()

    @staticmethod
    def read(path):
        found = []
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    try:
                        entry = json.loads(line.decode("utf-8"))
                    except ValueError as error:
                        raise ValueError(f"line {len(found) + 1}: {error}") from error
                    if type(entry) is not dict:
                        raise ValueError(f"line {len(found) + 1} is no object")
                    found.append(entry)
        return found
