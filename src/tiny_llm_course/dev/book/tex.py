"""Find the formulas of a Markdown page: `$...$` within a line of text, `$$...$$` between blank lines.

Code, comments, tags and mdBook directives are skipped; `\\$` is money. Any other dollar sign is reported: half a
formula would otherwise be read as prose.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Alternatives in order: text to skip comes first.
TOKEN = re.compile(
    r"""
    (?P<fence>^[ \t>]*(?:[-*+][ ]+|\d+[.)][ ]+)?(?P<ticks>`{3,}|~{3,})[^\n]*\n(?:.*?^[ \t>]*(?P=ticks)[ \t]*$|.*))
  | <!--.*?-->
  | <(?P<raw>script|style|pre|svg)\b.*?</(?P=raw)>
  | \{\{\#.*?\}\}
  | (?P<span>`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=span)(?!`)
  | </?[A-Za-z](?:"[^"]*"|'[^']*'|[^'"<>$])*>
  | \\.
  | \$\$(?P<display>(?:(?!\n[ \t]*\n)(?:\\.|[^\\$]))+?)\$\$
  | \$(?P<inline>(?=[^\s$])(?:(?!\n[ \t]*\n)(?:\\.|[^\\$`]))*?(?<=\S))\$(?!\d)
  | (?P<alone>\$)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


class BadFormula(NamedTuple):
    """A formula that cannot be rendered: its line number, counted from 1, and what is wrong."""

    line: int
    message: str


class Formula(NamedTuple):
    """A formula: its TeX, the part of the text that it takes, and the line where its TeX begins."""

    tex: str
    display: bool
    start: int
    end: int
    line: int


def formulas(text: str) -> Iterator[Formula | BadFormula]:
    """Yield the formulas of a page in order, and a BadFormula for each unpaired dollar sign."""
    for match in TOKEN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["alone"]:
            yield BadFormula(line, r"a $ without a partner; an amount of money is written \$5")
        elif match["display"] is not None:
            tex = match["display"]
            if _alone(text, match.start(), match.end()):
                first = line + tex[: len(tex) - len(tex.lstrip())].count("\n")
                yield Formula(tex.strip(), True, match.start(), match.end(), first)
            else:
                yield BadFormula(line, "a formula in $$ needs a blank line before it and one after it")
        elif match["inline"] is not None:
            yield Formula(match["inline"], False, match.start(), match.end(), line)


def _alone(text: str, start: int, end: int) -> bool:
    before, after = text[:start].rstrip(" \t"), text[end:].lstrip(" \t")
    return (not before or before.endswith("\n\n")) and (not after or bool(re.match(r"\n[ \t]*(?:\n|\Z)", after)))
