"""Every page of the book as a reader gets it: in a light and a dark theme, on a phone, on paper, and offline.

That no page logs an error, misses a file or asks another machine for anything is checked by `page` itself, every time.
"""

import gzip
import re
from pathlib import Path

import pytest
from tests.book.contrast import FAINT

from tiny_llm_course.paths import BOOK

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
SUMMARY = (BOOK / "src" / "SUMMARY.md").read_text(encoding="utf-8")
PAGES = [name.removesuffix(".md") for name in re.findall(r"\]\(([\w/.-]+\.md)\)", SUMMARY)]
RULES, COLORS = "rules: { 'target-size': { enabled: true } }", "runOnly: ['color-contrast']"
WIDGETS = {file.stem for file in (BOOK / "src" / "widgets").glob("*.js")} - {"common"}
UNFOLD = "document.querySelectorAll('main details').forEach((details) => { details.open = true; })"

every_page = pytest.mark.parametrize("name", PAGES)
LIGHT = 400 * 1024  # bytes that a reader waits for at most

on_a_phone = pytest.mark.parametrize("width", [375])


@every_page
def test_a_page_is_light_and_can_be_printed_and_read(page, name):
    answers = []
    page.on("requestfinished", lambda request: answers.append(request.response()))
    page.goto(f"{name}.html")
    is_light(page, answers)
    in_theme(page, "navy")
    page.emulate_media(media="print")
    can_be_printed(page)
    page.emulate_media(media="screen")
    page.evaluate(UNFOLD)
    page.evaluate(AXE)
    can_be_read(page, COLORS)
    in_theme(page, "light")
    can_be_read(page, RULES)


def in_theme(page, theme):
    """As a reader chooses it, in the menu of the page."""
    page.evaluate(f"document.getElementById('mdbook-theme-{theme}').click()")
    assert theme in page.locator("html").get_attribute("class").split()


def is_light(page, answers):
    """All that it asks for before the reader does anything, as a server sends it; of widgets, only its own."""
    page.evaluate("document.fonts.ready.then(() => true)")
    sizes = {answer.url: min(len(answer.body()), len(gzip.compress(answer.body()))) for answer in answers}
    assert sum(sizes.values()) <= LIGHT, sizes
    own = set(page.evaluate("[...document.querySelectorAll('main *')].map((part) => part.localName)"))
    widgets = {Path(url).stem for url in sizes if "/widgets/" in url}
    assert widgets == ({*own} & WIDGETS) | ({"common"} if own & WIDGETS else set())


def can_be_printed(page):
    """Dark on white paper, even from a dark theme, with the text and without what is there to be clicked."""
    assert page.locator("main h1").first.is_visible()
    assert not page.locator("#mdbook-sidebar").is_visible()
    assert not page.locator("nav.nav-wrapper").first.is_visible()
    every = "[...document.querySelectorAll('main :is(h1, h2, p, li, td, a, code, code span)')]"
    colors = page.evaluate(f"[...new Set({every}.map((part) => getComputedStyle(part).color))]")
    pale = [color for color in colors if sum(map(int, re.findall(r"\d+", color)[:3])) > 450]
    assert colors
    assert not pale
    # Hints and answers stand open: what was folded has its place on the paper.
    folded = "[...document.querySelectorAll('main details:not([open]) > :not(summary)')]"
    assert not page.evaluate(f"{folded}.filter((part) => !part.checkVisibility() || !part.offsetHeight).length")
    assert page.pdf().startswith(b"%PDF")


def can_be_read(page, options):
    """By whoever comes: axe has no objection, not to mdBook's frame either, and drawings follow the theme.

    They do not behind an <img>. A control or a link that stands by itself is at least 24 pixels high and wide. Another
    theme changes colors alone.
    """
    faults = page.evaluate(f"axe.run(document, {{ resultTypes: ['violations'], {options} }}).then((r) => r.violations)")
    assert not [
        f"{fault['id']}: {node['failureSummary']} {node['html']}" for fault in faults for node in fault["nodes"]
    ]
    assert page.locator("main img[src$='.svg']").count() == 0
    assert not page.evaluate(FAINT)


@on_a_phone
@every_page
def test_a_page_fits_a_phone(page, name, width):
    """Listings, tables and formulas scroll by themselves, and fade where they go on; the page does not."""
    page.goto(f"{name}.html")
    page.evaluate(UNFOLD)
    wide = """
        () => {
            const around = [];
            for (let part = document.querySelector("main"); part; part = part.parentElement) around.push(part);
            return around.every((part) => part.scrollWidth <= part.clientWidth) ? [] :
                [...document.querySelectorAll("main *")]
                    .filter((part) => part.getBoundingClientRect().right > innerWidth)
                    .map((part) => part.outerHTML.slice(0, 100));
        }
    """
    assert page.evaluate(wide) == []
    code = "[...document.querySelectorAll('main pre > :is(.language-python, .language-cpp)')]"
    assert page.evaluate(f"{code}.every((listing) => listing.scrollWidth <= listing.clientWidth)")
    scroll = """[...document.querySelectorAll("main *")].filter((part) =>
        part.clientWidth && ["auto", "scroll"].includes(getComputedStyle(part).overflowX))"""
    for each in (1280, width):
        page.set_viewport_size({"width": each, "height": 800})
        page.wait_for_function(f"""() => {scroll}.every((part) =>
            part.classList.contains('more-after') === part.scrollWidth > part.clientWidth + 1)""")
    faded = "part.classList.contains('more-after') === (getComputedStyle(part).maskImage !== 'none')"
    assert page.evaluate(f"{scroll}.every((part) => {faded})")


def test_the_first_link_leads_past_the_contents(page):
    page.goto("week1/day1.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the text"
    assert page.locator(".skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.localName") == "main"


@on_a_phone
@every_page
def test_a_wide_table_becomes_cards_on_a_phone(page, name, width):
    """Nothing of it is beyond an edge, and a screen reader still gets a table; a grid of numbered columns scrolls."""
    page.goto(f"{name}.html")
    page.evaluate(UNFOLD)
    page.wait_for_function("document.fonts.status === 'loaded'")
    scrolls = """[...document.querySelectorAll("main .table-wrapper")].filter((around) =>
        around.scrollWidth > around.clientWidth + 1).map((around) => around.querySelector("tr").innerText)"""
    page.wait_for_function(f"{scrolls}.every((head) => head.split('\t').slice(1).every((each) => each.length < 2))")
    cards = page.locator("main table.cards")
    for table in cards.all():
        assert table.get_attribute("role") == "table"
        heads, rows = table.evaluate(CARDS)
        assert all(row == [[head, head] for head in heads] for row in rows)
        # In its grid, each text and each element of a cell would get a place of its own.
        cells = "[...table.querySelectorAll('tbody td')]"
        assert table.evaluate(f"(table) => {cells}.every((cell) => cell.childNodes.length < 2)")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("!document.querySelector('table.cards, table[role]')")


# The names of the columns, and for each row, those that its cells say and those that a style sheet shows, where a quote
# is escaped.
CARDS = r"""(table) => [
    [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim()),
    [...table.tBodies].flatMap((body) => [...body.rows]).map((row) => [...row.cells].map((cell) =>
        [cell.dataset.column, getComputedStyle(cell, "::before").content.replaceAll('\\"', "''")
            .replace(/^"|" ?"?"$|"$/g, "").replace("''", '"').trim()])),
]"""


def test_the_whole_book_on_one_page(page):
    page.goto("print.html", timeout=120_000)  # all pages, and all of their widgets
    assert page.locator("main h1").count() >= len(PAGES)
    assert page.locator(".formula").count() > 5
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((part) => part.id)")
    assert len(ids) == len(set(ids))


def test_the_contents_open_and_close_by_keyboard(page):
    page.goto("index.html")
    toggle = page.get_by_role("button", name="Toggle Table of Contents")
    assert toggle.get_attribute("aria-expanded") == "true"
    toggle.focus()
    shown = "(contents) => contents.checkVisibility() && contents.getBoundingClientRect().right > 10"
    for expanded in (False, True, False, True):
        page.keyboard.press("Enter")
        assert toggle.get_attribute("aria-expanded") == str(expanded).lower()
        # Closed contents are off the page only when they have slid out.
        page.wait_for_function(
            f"open => ({shown})(document.querySelector('#mdbook-sidebar')) === open "
            "&& (open || !document.querySelector('#mdbook-sidebar').checkVisibility())",
            arg=expanded,
        )


def test_the_search_finds_softmax(page):
    page.goto("index.html")
    page.keyboard.press("s")
    page.keyboard.type("softmax")
    page.locator("#mdbook-searchresults a[href*='day1']").first.click()
    page.wait_for_url("**/week1/day1.html*")


def test_formulas_are_set(page):
    """In the fonts of the book and in the color of the text, in each theme."""
    page.goto("week1/day1.html")
    formula = page.locator(".formula .katex").first
    assert formula.is_visible()
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('16px KaTeX_Main'))")
    color = "(part) => getComputedStyle(part).color"
    seen = set()
    for theme in ("light", "rust", "coal", "navy", "ayu"):
        in_theme(page, theme)
        seen.add(formula.evaluate(color))
        assert formula.evaluate(color) == page.locator("main p").first.evaluate(color), theme
    assert len(seen) > 2


@on_a_phone
def test_arrow_keys_scroll_what_is_too_wide(page, width):
    """And do not turn the page."""
    page.goto("week1/day7.html")
    listing = page.locator("pre > code[tabindex='0']").first
    listing.focus()
    here = page.url
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")
    page.wait_for_function("document.activeElement.classList.contains('more-before')")
    assert page.url == here
