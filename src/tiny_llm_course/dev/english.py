"""`dev english`: list the phrases that the course avoids, file by file, and fail if there are any.

`english.toml` beside this file holds the phrases, each with what to write instead. The score of a sentence is a smoke
alarm: it says what to reread.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..course.file_paths import name_of
from ..paths import COURSE, ROOT
from ..source.text import Text
from ..terminal.screen import say

SETTINGS = COURSE / "dev" / "english.toml"
PAGES = ("*.md", "book/src/**/*.md", "models/*/*.md", "packages/*/*.md", "solutions/**/*.md")
MODULES = ("src/**/*", "solutions/**/*", "tests/week*/*.py", "book/generate/**/*.py", "book/quizzes/**/*.py")
IN_C = (".cpp", ".h", ".metal")
LEFT_OUT = ("book/src/generated/", "src/tiny_llm/", "src/tiny_llm_course/dev/english.toml")
MARKUP = re.compile(
    r"^[ >]*(?P<fence>```|~~~).*?^[ >]*(?P=fence)|<script.*?</script>|<!--.*?-->|<[^>\n]*>|`[^`\n]*`|\]\([^)\n]*\)",
    re.MULTILINE | re.DOTALL,
)
C_PROSE = re.compile(r'//([^\n]*)|/\*(.*?)\*/|"((?:\\.|[^"\\\n])*)"', re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[.!?])[\")]*\s+|\n\s*\n|\n\s*(?:[-*#>]|\d+\.)\s+|\s*\|\s*")
INVERTED = re.compile(r"(?:Of|What|Which|Whether|Where|With|In|To|From|As)\b[^,.]*\b(?:is|are|has|have)\b")
PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been)(?: \w+ly)? \w+(?:ed|en)\b")
LONG = 28  # words of a sentence
WORST = 10  # sentences that are shown


def main() -> int:
    """Print the worst sentences and all avoided phrases; return 1 if there are any."""
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    found = {name_of(file): list(sentences(file)) for file in files()}
    counts = {name: count for name, texts in found.items() if (count := phrases(name, texts, settings))}
    avoided = _pattern(settings, "")
    scored = [(score(text, avoided), name, text) for name, texts in found.items() for text in texts]
    for points, name, text in sorted(scored, reverse=True)[:WORST]:
        say(f"{points:4}  {name}: {text}")
    for name, count in sorted(counts.items()):
        for phrase, number in count.items():
            instead = next(w for p, w in settings["phrases"].items() if re.fullmatch(p, phrase, re.IGNORECASE))
            say(f"{name}: {number} x '{phrase}'; write: {instead}", color="red")
    say(f"{sum(count.total() for count in counts.values())} avoided phrases in {len(counts)} of {len(found)} files")
    return bool(counts)


def files() -> list[Path]:
    """List the pages and modules whose prose is counted."""
    chosen = {file for pattern in (*PAGES, *MODULES) for file in ROOT.glob(pattern) if file.is_file()}
    wanted = [file for file in chosen if file.suffix in (".md", ".py", ".toml", *IN_C) and ".build" not in file.parts]
    return sorted(file for file in wanted if not name_of(file).startswith(LEFT_OUT))


def sentences(file: Path) -> Iterator[str]:
    """Yield the sentences of a page, of a module's docstrings, comments and messages, or of a table's strings."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        parts = iter([text])
    elif file.suffix == ".py":
        parts = _python(text)
    elif file.suffix == ".toml":
        parts = _strings(tomllib.loads(text))
    else:
        parts = (next(filter(None, match.groups()), "") for match in C_PROSE.finditer(text))
    for part in parts:
        for sentence in SENTENCE_END.split(MARKUP.sub(" X ", part)):
            if " " in (words := " ".join(sentence.split())):
                yield words


def phrases(name: str, texts: list[str], settings: dict[str, Any]) -> Counter[str]:
    """Count each avoided phrase in the sentences of a file."""
    pattern = _pattern(settings, name)
    return Counter(match[0].lower() for text in texts for match in pattern.finditer(text))


def score(text: str, avoided: re.Pattern[str]) -> int:
    """Score a sentence: 1 for each word beyond LONG, 3 for a passive, 8 for an inversion, 10 for an avoided phrase."""
    points = 3 * len(PASSIVE.findall(text)) + 8 * bool(INVERTED.match(text)) + 10 * len(avoided.findall(text))
    return points + max(0, len(text.split()) - LONG)


def _pattern(settings: dict[str, Any], name: str) -> re.Pattern[str]:
    """Return a pattern of the phrases that count in a file: all but those of `only` that are about other files."""
    only = settings["only"]
    return re.compile("|".join(p for p in settings["phrases"] if re.search(only.get(p, ""), name)), re.IGNORECASE)


def _python(text: str) -> Iterator[str]:
    """Yield strings, with X for what an f-string computes, and comments, those on neighboring lines as one."""
    module = Text(text)
    nodes = list(ast.walk(module.tree))
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    within = {id(part) for node in formatted for part in node.values}
    strings = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in within]
    yield from (node.value for node in strings if isinstance(node.value, str))
    for node in formatted:
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    found = ""
    for line, comment in sorted(module.comments.items()):
        joined = line - 1 in module.comments and module.is_comment(line - 1) and module.is_comment(line)
        found += ("\n" if joined else "\n\n") + comment.lstrip("#! ")
    yield found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
