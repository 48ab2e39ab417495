"""mdBook's preprocessor for formulas: `python -m tiny_llm_course.dev.book.math`, as book.toml says.

KaTeX sets them while the book is built, so a reader needs no JavaScript and no network. KaTeX is JavaScript itself. It
is vendored in `book/katex` and runs in mini-racer's engine. A formula that it refuses ends the build.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .drawing import ROLES
from .tex import BadFormula, Formula, formulas

# Refuses what is unknown or doubtful, and gives MathML beside the HTML, for those who listen.
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
# \query{Q} has the colour that queries have in the whole book, and so on.
MACROS = {f"\\{role}": rf"\htmlClass{{role-{role}}}{{#1}}" for role in ROLES}
# What Markdown would read as its own, within text that is HTML already.
MARKDOWN = {ord(sign): f"&#{ord(sign)};" for sign in "*_`[]|\\~'\"!$:^=+#()-.{}"}


class NoEngine(Exception):
    """KaTeX cannot run here."""


def render(found: list[tuple[str, bool]], katex: str) -> dict[tuple[str, bool], str | BadFormula]:
    """Return the HTML of each formula (TeX, and whether it is displayed), or what is wrong with it.

    The line of a BadFormula is counted from the formula's first, as 0.
    """
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
    """The same HTML in one line, in which Markdown finds nothing of its own."""
    one_line = re.sub(r"\s*\n\s*", " ", html)
    return re.sub(r"(?<=>)[^<>]+(?=<)", lambda text: _encode(text[0]), one_line)


def _encode(text: str) -> str:
    return re.sub(r"&#?\w+;|[^&]+", lambda part: part[0] if part[0][0] == "&" else part[0].translate(MARKDOWN), text)


def chapters(items: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the chapters of mdBook's tree that come from a file."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            if item["Chapter"]["source_path"]:
                yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def set_formulas(book: dict[str, Any], katex: str) -> list[tuple[str, BadFormula]]:
    """Put HTML in place of the formulas of all chapters; return what is wrong, with the path of its page."""
    pages = [(chapter, list(formulas(chapter["content"]))) for chapter in chapters(book["items"])]
    wanted = dict.fromkeys((f.tex, f.display) for _, found in pages for f in found if isinstance(f, Formula))
    html = render(list(wanted), katex) if wanted else {}
    wrong = []
    for chapter, found in pages:
        text, parts, end = chapter["content"], [], 0
        for formula in found:
            if isinstance(formula, BadFormula):
                wrong.append((chapter["source_path"], formula))
                continue
            answer = html[formula.tex, formula.display]
            if isinstance(answer, BadFormula):
                wrong.append((chapter["source_path"], BadFormula(formula.line + answer.line, str(answer))))
            else:
                tag = '<div class="formula">{}</div>' if formula.display else "{}"
                parts += [text[end : formula.start], tag.format(protect(answer))]
                end = formula.end
        chapter["content"] = "".join([*parts, text[end:]])
    return wrong


def main(arguments: list[str]) -> int:
    """Answer mdBook's question, which of its renderers this is for; without arguments, do the work."""
    if arguments[:1] == ["supports"]:
        return 0 if arguments[1:] == ["html"] else 1
    context, book = json.load(sys.stdin.buffer)
    root = Path(context["root"])
    source = Path(root.name) / context["config"]["book"].get("src", "src")
    try:
        wrong = set_formulas(book, (root / "katex" / "katex.min.js").read_text(encoding="utf-8"))
    except NoEngine as reason:
        print(reason, file=sys.stderr)
        return 1
    for page, mistake in wrong:
        print(f"{(source / page).as_posix()}:{mistake.line}: {mistake}", file=sys.stderr)
    if wrong:
        return 1
    sys.stdout.buffer.write(json.dumps(book).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
