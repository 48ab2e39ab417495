"""Render the book's formulas by KaTeX (`book/katex`, run in mini-racer) at build time, so that no reader needs
JavaScript.
"""

import json
import re
from typing import Any

from .drawing import ROLES
from .tex import BadFormula, Formula, formulas

# Rejects unknown or doubtful TeX, and adds MathML to the HTML, for screen readers.
RENDER = """
function renderAll(formulas) {
  return JSON.stringify(formulas.map(([tex, displayMode]) => {
    const options = {
      displayMode, throwOnError: true, output: "htmlAndMathml", macros: ROLES,
      trust: ({ command }) => command === "\\\\htmlClass",
      strict: (code) => code === "htmlExtension" ? "ignore" : "error",
    };
    try {
      return { html: katex.renderToString(tex, options) };
    } catch (error) {
      return { error: error.rawMessage || String(error), position: error.position || 0 };
    }
  }));
}
"""
# \query{Q} has the colour of queries in the whole book, and so on.
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
        engine.eval(f"const ROLES = {json.dumps(MACROS)};" + RENDER)
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


def set_formulas(pages: dict[str, dict[str, Any]], katex: str) -> list[tuple[str, BadFormula]]:
    """Replace the formulas of mdBook's chapters, given by path, by HTML; return the bad ones with their paths."""
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
        pages[path]["content"] = "".join([*parts, text[end:]])
    return wrong
