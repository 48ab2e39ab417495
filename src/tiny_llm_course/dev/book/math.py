"""Render the book's formulas by KaTeX (`book/katex`, in mini-racer) at build time: no reader needs JavaScript.

Formulas are `$...$` within a line of text, `$$...$$` between blank lines; `\\$` is money. Any other dollar sign is
reported: half a formula would otherwise be read as prose.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .drawing import ROLES, TIMES

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

# "H_kv", "-1", "p - q", "2 · E" and "ε = 0.2" in a sentence or a table, and what is no text.
SYMBOL = re.compile(
    rf"""
    <code>.*?</code>
  | {TOKEN.pattern}
  | \b(?P<letter>[A-Z])_(?P<index>[a-z]{{1,4}})\b
  | (?<![\w.`\[-])(?P<minus>-)(?=\d|inf\b)
  | (?<=[\w)])[ ](?P<sign>[-·]|\+(?=[^()\n]+\)))[ ](?=[\w(-])
  | (?<!\S)(?P<named>\w)[ ]=[ ](?=-?\d)
  | (?P<percent>(?<=\d)[ ](?=%))
  | (?P<times>(?:(?<=[\w)])|(?<=\.\.)|(?<=[A-Z]'))
      \sx\s(?=[A-Z\d](?!\.T)|\(+[A-Z\d]|[a-z]\b|\w+[ ]x[ ])|(?<=\d)\sx\s(?=[a-z]))
    """,
    TOKEN.flags,
)


MINUS, NO_BREAK = "\N{MINUS SIGN}", "\N{NO-BREAK SPACE}"


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


RENDER = Path(__file__).with_name("render.js")
# \query{Q} has the color of queries in the whole book, and so on.
MACROS = {f"\\{role}": rf"\htmlClass{{role-{role}}}{{#1}}" for role in ROLES}
# Markdown syntax, to be escaped in text that is HTML already.
MARKDOWN = {ord(sign): f"&#{ord(sign)};" for sign in "*_`[]|\\~'\"!$:^=+#()-.{}"}


class NoEngine(Exception):
    """KaTeX cannot run here."""


def render(found: list[tuple[str, bool]], katex: str) -> dict[tuple[str, bool], str | BadFormula]:
    """Return each formula's HTML by TeX and display mode, or a BadFormula whose lines are counted from 0."""
    try:
        from py_mini_racer import mini_racer
    except ImportError:
        raise NoEngine("formulas need the package mini-racer: pdm install") from None
    with mini_racer() as engine:  # without the with-block Python may hang when it ends
        engine.eval(katex)
        engine.eval(f"const ROLES = {json.dumps(MACROS)};" + RENDER.read_text(encoding="utf-8"))
        answers = json.loads(str(engine.eval(f"renderAll({json.dumps(found)})")))
    return {
        (tex, display): answer["html"]
        if "html" in answer
        else BadFormula(tex.count("\n", 0, answer["position"]), f"{answer['error']}, in {' '.join(tex.split())}")
        for (tex, display), answer in zip(found, answers, strict=True)
    }


def protect(html: str) -> str:
    """Return the HTML in one line, escaped so that Markdown leaves it alone."""

    def encode(text: re.Match[str]) -> str:
        return re.sub(r"&#?\w+;|[^&]+", lambda p: p[0] if p[0][0] == "&" else p[0].translate(MARKDOWN), text[0])

    return re.sub(r"(?<=>)[^<>]+(?=<)", encode, re.sub(r"\s*\n\s*", " ", html))


def with_signs(text: str) -> str:
    """Return Markdown with typographic signs outside code.

    Indices are subscripts, a hyphen before a number is a minus, an x between sizes is a multiplication sign, no line
    ends in a product, at a minus or at a plus in parentheses, and a number keeps its percent sign.
    """

    def sign(match: re.Match[str]) -> str:
        if match["letter"]:
            return f"{match['letter']}<sub>{match['index']}</sub>"
        if match["minus"]:
            return MINUS
        if match["times"]:
            return f"{NO_BREAK}{TIMES}{NO_BREAK}"
        if match["percent"]:
            return NO_BREAK
        if match["sign"]:
            return NO_BREAK + match["sign"].replace("-", MINUS) + NO_BREAK
        return f"{match['named']}{NO_BREAK}={NO_BREAK}" if match["named"] else match[0]

    return SYMBOL.sub(sign, text)


def set_formulas(pages: dict[str, dict[str, Any]], katex: str) -> list[tuple[str, BadFormula]]:
    """Replace the formulas of mdBook's chapters, given by path, by HTML; return the bad ones with their paths.

    Symbols in the text get subscripts.
    """
    all_found = {path: list(formulas(page["content"])) for path, page in pages.items()}
    wanted = dict.fromkeys((f.tex, f.display) for found in all_found.values() for f in found if isinstance(f, Formula))
    html = render(list(wanted), katex) if wanted else {}
    wrong = []
    for path, found in all_found.items():
        text, parts, end = pages[path]["content"], [], 0
        for formula in found:
            if isinstance(formula, BadFormula):
                wrong.append((path, formula))
                continue
            answer = html[formula.tex, formula.display]
            if isinstance(answer, BadFormula):
                wrong.append((path, BadFormula(formula.line + answer.line, answer.message)))
            else:
                tag = '<div class="formula">{}</div>' if formula.display else "{}"
                parts += [text[end : formula.start], tag.format(protect(answer))]
                end = formula.end
        pages[path]["content"] = with_signs("".join([*parts, text[end:]]))
    return wrong
