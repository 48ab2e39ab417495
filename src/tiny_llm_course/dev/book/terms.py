"""Link each term to the glossary where a chapter's sentences first use it, by its name or by what it abbreviates."""

import re
from collections.abc import Iterator
from pathlib import Path

from .math import TOKEN

ENTRY = re.compile(r"^(\S.*)\n: ((?:.+\n?)*)", re.MULTILINE)
# An abbreviation's full name begins its explanation. "Of experts: ..." is no name, but says where the term is used.
IN_FULL = re.compile(r"(?!(?:Of|In) )([A-Z][\w -]{3,30}): ")
# So does a term's abbreviation.
ABBREVIATION = re.compile(r"([A-Z][A-Za-z]*[A-Z]): ")
# A meaning may have several senses, each before a link to its chapter.
SENSE = re.compile(r"([^\[]*)\[[^\]]*\]\(([^)]*)\)")
# Too common in other senses to be found by their names alone: they are linked where a chapter introduces them, in bold.
ORDINARY = Path(__file__).with_name("ordinary_terms.txt").read_text(encoding="utf-8").split()
# Skipped in addition to TOKEN: links, headings, rows of tables, blocks of HTML.
PASSED_OVER = re.compile(
    r"!?\[[^\]]*\]\([^)]*\)|<a\b.*?</a>|^[ \t]*#[^\n]*|^[ \t>]*\|[^\n]*|(?:(?<=\n\n)|\A)[ \t]*<(?:(?!\n[ \t]*\n).)*",
    re.DOTALL | re.MULTILINE,
)


class Terms:
    """The terms of a glossary, found in sentences."""

    def __init__(self, glossary: str) -> None:
        self.entries: list[tuple[str, str]] = []  # anchors and meanings
        ways = []
        for name, meaning in sorted(ENTRY.findall(glossary), key=lambda entry: -len(entry[0])):
            full = IN_FULL.match(meaning)
            names = [name.partition(",")[0], *(full.groups() if full else ())]  # "Detokenizer, streaming"
            way = "|".join(map(_ways_to_write, names))
            ways.append(rf"(?<=\*\*)({way})(?=\*\*)" if name in ORDINARY else f"({way})")
            self.entries.append((anchor(name), meaning))
        self.pattern = re.compile(rf"(?<![\w/.-])(?:{'|'.join(ways)})(?![\w-]|\.\w)")

    def link(self, page: str, glossary: str, path: str = "") -> str:
        """Return the page with a link to `glossary`, a relative address, at the first use of each term.

        The link's title, which terms.js shows, is the meaning's first sentence. If the term has several senses, it is
        that of the one that links to `path`, the page's; there is no link if none does.
        """
        seen: set[str] = set()
        parts, end = [], 0
        for start, stop in _sentences(page):
            for match in self.pattern.finditer(page, start, stop):
                assert match.lastindex
                target, meaning = self.entries[match.lastindex - 1]
                if target not in seen and (sense := _sense(meaning, path)):
                    seen.add(target)
                    title = first_sentence(sense)
                    parts += [page[end : match.start()], f'[{match[0]}]({glossary}#{target} "{title}")']
                    end = match.end()
        return "".join([*parts, page[end:]])


def _sense(meaning: str, path: str) -> str:
    """Return the part of a meaning that ends with a link to the path; all of it, if it has no parts; else ""."""
    senses, last = {}, ""
    for text, target in SENSE.findall(meaning):
        last = text.strip(" .,\n") or last
        senses[target] = f"{last}."
    return meaning if len({*senses.values()}) < 2 else senses.get(path, "")


def anchor(name: str) -> str:
    """Return the id of a term's entry, as mdBook makes it from a heading, but pass^k's is not pass@k's."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", name.lower().replace("^", "-hat-")))


def first_sentence(meaning: str) -> str:
    """Return the first sentence of an entry as plain text."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(meaning.split()))
    plain = re.sub(r"[*`$\\]", "", plain).replace('"', "'").replace("<", "&lt;")
    return re.split(r"(?<=[.!?]) (?=[A-Z]|vLLM|llama|mlx)", plain, maxsplit=1)[0]


def as_sections(glossary: str) -> str:
    """Return the glossary with a heading per entry, with its abbreviation: the search ranks words of headings first.

    Above them is a row of letters, each of which leads to its first entry.
    """
    firsts: dict[str, str] = {}
    for name, _ in ENTRY.findall(glossary):
        firsts.setdefault(name[0].upper() if name[0].isalpha() else "0\N{EN DASH}9", anchor(name))
    links = "".join(f'<a href="#{entry}">{letter}</a>' for letter, entry in firsts.items())
    row = f'<nav class="letters" aria-label="Entries by letter">{links}</nav>\n\n'

    def section(entry: re.Match[str]) -> str:
        short = ABBREVIATION.match(entry[2])
        return f"## {entry[1]}{f' ({short[1]})' if short else ''} {{#{anchor(entry[1])} .entry}}\n\n{entry[2]}"

    start = ENTRY.search(glossary)
    at = start.start() if start else len(glossary)
    return glossary[:at] + row + ENTRY.sub(section, glossary[at:])


def _ways_to_write(name: str) -> str:
    """Return a pattern for singular and plural, a capital at the start of a sentence, and a line break inside."""
    first, rest = name[0], name[1:]
    begins = f"[{first.lower()}{first.upper()}]" if rest == rest.lower() else first
    words = r"\s+".join(map(re.escape, rest.split(" ")))
    return f"{begins}{words[:-1]}(?:y|ies)" if name.endswith("y") else f"{begins}{words}(?:s|es)?"


def _sentences(page: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that are read as sentences; the summary before the first section is skipped."""
    skipped = [match.span() for pattern in (TOKEN, PASSED_OVER) for match in pattern.finditer(page)]
    end = max(page.find("\n## "), 0)
    for start, stop in [*sorted(skipped), (len(page), len(page))]:
        if end < start:
            yield end, start
        end = max(end, stop)
