"""Formulas of the book: found where they are, set by KaTeX, and refused with file and line where they are wrong."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.dev.book.math import BadFormula, Formula, formulas, protect, render, with_signs
from tiny_llm_course.dev.book.page_metadata import run_mdbook
from tiny_llm_course.paths import BOOK, ROOT

pytestmark = pytest.mark.maintainers
KATEX = (BOOK / "katex" / "katex.min.js").read_text(encoding="utf-8")


def found(text: str) -> list[tuple[str, bool, int] | int]:
    """TeX, whether it is displayed, and line of each formula; the line alone of a mistake."""
    return [(f.tex, f.display, f.line) if isinstance(f, Formula) else f.line for f in formulas(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("the score $q \\cdot k$ of $a$ and $b$", [("q \\cdot k", False, 1), ("a", False, 1), ("b", False, 1)]),
        ("in a line\nthat goes $a +\nb$ on", [("a +\nb", False, 2)]),
        ("| a | b |\n|---|---|\n| $x|y$ | 2 |", [("x|y", False, 3)]),
        ("text\n\n$$\nx\n$$\n\ntext", [("x", True, 4)]),
        ("- item\n\n  $$ x < y $$\n", [("x < y", True, 3)]),
        (r"a price of \$5 and one of \$6, $x_{\$}$", [(r"x_{\$}", False, 1)]),
    ],
)
def test_formulas_are_found(text, wanted):
    assert found(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "`$x$` and ``a ` $y$``",
        "```text\n$ pdm run test\n$x$\n```",
        "1. first:\n\n   ```text\n   $x$\n   ```\n",
        "> ~~~text\n> $x$\n> ~~~\n",
        "```text\n```\n\n```text\n$x\n```",
        "<!-- $x$ -->",
        "<mc-quiz data-cost='$5' title=\"$x$\"></mc-quiz>",
        '<script type="application/json">{"cost": "$x$"}</script>',
        "{{#include a$b$.md}}",
    ],
)
def test_code_comments_and_tags_are_passed_over(text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo costs $5", 2),
        ("from $5 to $6", 1),
        ("text $x\n\nand y$ text", 1),
        ("$ x$", 1),
        ("text\n$$\nx\n$$\n\ntext", 2),
        ("$$\nx\n$$\ntext", 1),
        ("$$\nx\n", 1),
        ("an empty one: $$", 1),
    ],
)
def test_a_dollar_sign_without_a_formula_is_a_mistake(text, line):
    assert found(text)[0] == line


def test_an_index_is_a_subscript_outside_code():
    code = "`H_kv` <code>D_v</code> $H_kv$ num_kv_heads A_BC"
    assert with_signs(f"| 2 · H_kv · D | {code}") == f"| 2\u00a0·\u00a0H<sub>kv</sub>\u00a0·\u00a0D | {code}"


def test_katex_sets_and_refuses():
    good, bad, doubtful = (r"\frac{a_1}{b}", True), ("a \\\\\n\\nothing", True), ("5 €", False)
    html = render([good, bad, doubtful], KATEX)
    assert 'class="katex-display"' in html[good]
    assert "<math" in html[good]
    assert isinstance(html[bad], BadFormula)
    assert (html[bad].line, "\\nothing" in html[bad].message) == (1, True)
    assert isinstance(html[doubtful], BadFormula)


def test_markdown_finds_nothing_in_a_formula():
    assert protect("<i title='a_b'>a_b *c*\n &lt;d&#39;</i>") == "<i title='a_b'>a&#95;b &#42;c&#42; &lt;d&#39;</i>"


def build(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build a book of one page, with the preprocessor as book.toml has it."""
    (folder / "src").mkdir(parents=True)
    shutil.copytree(BOOK / "katex", folder / "katex")
    table = re.search(r"^\[preprocessor\.pages\]\n(?:\w.*\n)+", (BOOK / "book.toml").read_text(encoding="utf-8"), re.M)
    assert table
    (folder / "book.toml").write_text(f"[book]\ntitle = 'One page'\n{table[0]}[output.html]\n", encoding="utf-8")
    (folder / "src" / "SUMMARY.md").write_text("[Page](page.md)\n[Draft]()\n", encoding="utf-8")
    (folder / "src" / "page.md").write_text(source, encoding="utf-8")
    return run_mdbook("build", str(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_a_book_is_built(tmp_path):
    source = "Not *emphasis* in $x_{i}^{*} y_{j}^{*}$, \\$5.\n\n$$\n- x' \\, \\| y \\| \\{z\\}\n$$\n\nAnd *so* on.\n"
    done = build(source, tmp_path / "book")
    assert done.returncode == 0, done.stdout
    html = (tmp_path / "book" / "book" / "page.html").read_text(encoding="utf-8")
    assert html.count("<em>") == 2
    assert html.count('class="katex"') == 2
    assert "<p>And <em>so</em> on.</p>" in html
    assert "$5." in html


def test_a_bad_formula_ends_the_build_and_is_named(tmp_path):
    done = build("# Page\n\n$$\na +\n\\sotfmax\n$$\n\nand $5\n", tmp_path / "book")
    assert done.returncode != 0
    assert re.findall(r"^book/src/page\.md:\d+: .*", done.stdout, re.M) == [
        r"book/src/page.md:5: Undefined control sequence: \sotfmax, in a + \sotfmax",
        r"book/src/page.md:8: a $ without a partner; an amount of money is written \$5",
    ]
    assert "Traceback" not in done.stdout


def test_an_include_that_finds_nothing_ends_the_build_and_is_named(tmp_path):
    done = build("# Page\n\n{{#include other.md}}\n\nand $5\n", tmp_path / "book")
    assert done.returncode != 0
    assert re.findall(r"^book/src/page\.md:\d+: .*", done.stdout, re.M) == [
        "book/src/page.md:3: there is no other.md to include",
        r"book/src/page.md:5: a $ without a partner; an amount of money is written \$5",
    ]


def test_without_mdbook_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UsageError, match="pdm install"):
        run_mdbook("build")


def test_other_renderers_get_the_tex():
    for renderer, status in (("html", 0), ("markdown", 1)):
        command = [sys.executable, "-m", "tiny_llm_course.dev.book.preprocessor", "supports", renderer]
        assert subprocess.run(command, cwd=ROOT / "src").returncode == status


def test_the_fonts_of_the_style_sheet_are_there():
    css = (BOOK / "katex" / "katex.min.css").read_text(encoding="utf-8")
    named = set(re.findall(r"url\(fonts/([^)]+)\)", css))
    assert named == {font.name for font in (BOOK / "src" / "katex" / "fonts").iterdir()}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a mask of -inf, | -1 | (-0.5)", "a mask of \N{MINUS SIGN}inf, | \N{MINUS SIGN}1 | (\N{MINUS SIGN}0.5)"),
        ("max(p - q, 0), 2 - -1", "max(p\u00a0\N{MINUS SIGN}\u00a0q, 0), 2\u00a0\N{MINUS SIGN}\u00a0\N{MINUS SIGN}1"),
        ("47 % fewer, `a % b`, x % 2", "47\u00a0% fewer, `a % b`, x % 2"),
        ("at ε = 0.2", "at ε\u00a0=\u00a00.2"),
        ("`x - 1`, <code>-1</code>, a[-1], 2-3, Qwen-2", "`x - 1`, <code>-1</code>, a[-1], 2-3, Qwen-2"),
        ("- one\n- two\n  - 3", "- one\n- two\n  - 3"),
    ],
)
def test_signs_outside_code_are_typographic(text, shown):
    assert with_signs(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("N x H_kv x L x (H · D), r x I", "N * H<sub>kv</sub> * L * (H\u00a0·\u00a0D), r * I"),
        ("N.. x H x L. x is", "N.. * H * L. x is"),
        ("pages x page_size x D, 8 x song", "pages * page_size * D, 8 * song"),
        ("the x of Q, `N x L`, x A.T, A token x is", "the x of Q, `N x L`, x A.T, A token x is"),
    ],
)
def test_an_x_between_sizes_is_a_times_sign_that_no_line_ends_with(text, shown):
    assert with_signs(text) == shown.replace(" * ", "\u00a0\N{MULTIPLICATION SIGN}\u00a0")
