"""The book on the web: where it is, and what its pages say of themselves."""

import re
import runpy
import struct
from pathlib import Path

import pytest

from tiny_llm_course.dev.book import page_metadata
from tiny_llm_course.paths import BOOK, ROOT

pytestmark = pytest.mark.maintainers
SITE, REPOSITORY = page_metadata.address(), page_metadata.settings()["output"]["html"]["git-repository-url"]
SAYING = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(BOOK / "src").rglob("*.md")]
PAGE = """<!DOCTYPE html><html><head><title>Day 1: Vectors &amp; co - tiny-llm</title>
<meta name="description" content="The book's."></head>
<body><p>Not this.</p><main><h1>Day 1</h1>{}<p>Nor this.</p></main>"""


def test_addresses_are_those_of_the_one_place() -> None:
    """README and set-up page name them, and nothing names another one of the course."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"<{SITE}>" in readme
    for page in (ROOT / "README.md", BOOK / "src" / "setup.md"):
        assert re.search(rf"git clone {re.escape(REPOSITORY)}[`\n]", page.read_text(encoding="utf-8"))
    named = {
        url
        for page in SAYING
        for url in re.findall(r"https://[^\s<>)\"'`]*tiny-llm[^\s<>)\"'`]*", page.read_text(encoding="utf-8"))
    }
    assert not [url for url in named if not url.startswith((SITE, REPOSITORY))]
    assert SITE.startswith("https://")
    assert SITE.endswith("/")


@pytest.mark.parametrize(
    ("paragraphs", "about"),
    [
        ("<p>One &amp; <code>two</code>.</p><p>Three.</p>", "One & two."),
        ("<p><b>Needs</b> nothing. <b>Before</b>: a. <b>After</b>: b.</p>", "Before: a. After: b."),
        ("<dl><dt>Needs</dt><dd>x</dd><dt>Before</dt><dd>a.</dd><dt>After</dt><dd>b.</dd></dl>", "Before: a.After: b."),
        (f"<p>{'Eight is. ' * 30}</p>", f"{'Eight is. ' * 19}Eight is."),
        (f"<p>{'longword ' * 30}</p>", f"{'longword ' * 21}longword…"),
    ],
)
def test_a_description_is_the_first_paragraph(paragraphs: str, about: str) -> None:
    assert page_metadata.description(PAGE.format(paragraphs)) == about
    assert len(about) <= page_metadata.LONGEST


def test_a_page_knows_itself(tmp_path: Path) -> None:
    """Its address, its title and its description; what is no page stays as it is."""
    (tmp_path / "week1").mkdir()
    files = {name: tmp_path / name for name in ("index.html", "week1/day1.html", "print.html")}
    for file in files.values():
        file.write_text(PAGE.format("<p>It says &lt;this&gt; &amp; that.</p>"), encoding="utf-8")
    page_metadata.complete(tmp_path)
    day = files["week1/day1.html"].read_text(encoding="utf-8")
    assert day.count('name="description"') == 1
    for line in (
        '<meta name="description" content="It says &lt;this&gt; &amp; that.">',
        f'<link rel="canonical" href="{SITE}week1/day1.html">',
        '<meta property="og:title" content="Day 1: Vectors &amp; co - tiny-llm">',
        '<meta property="og:description" content="It says &lt;this&gt; &amp; that.">',
        f'<meta property="og:url" content="{SITE}week1/day1.html">',
        f'<meta property="og:image" content="{SITE}{page_metadata.PICTURE}">',
        '<meta name="twitter:card" content="summary_large_image">',
    ):
        assert line in day
    front = files["index.html"].read_text(encoding="utf-8")
    assert f'<link rel="canonical" href="{SITE}">' in front
    assert '<meta property="og:title" content="tiny-llm">' in front
    assert 'It says &lt;this&gt; &amp; that."' not in front
    assert "The book's." in files["print.html"].read_text(encoding="utf-8")


def test_the_share_picture_is_current() -> None:
    """A photograph cannot be compared, as fonts differ; but it says of which page it is one."""
    script = runpy.run_path(str(BOOK / "figures" / "share.py"))
    assert script["comment"]() == script["digest"](), "draw it anew: pdm run dev book"
    assert struct.unpack(">II", script["PICTURE"].read_bytes()[16:24]) == page_metadata.SIZE
