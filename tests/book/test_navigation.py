"""The way through the book: titles, the contents, the next chapter, the search, and a note on each term."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

NOTE = "#term-note"
TERM = 'main a[data-note][href$="#block-table"]'


def test_titles_and_the_next_chapter(page: "Page") -> None:
    page.goto("week3/day4.html")
    assert page.title() == "3.4 Paged attention - tiny-llm"
    before, after = page.locator("a.mobile-nav-chapters").all()
    for link, said in ((before, "Previous chapter: 3.3 Paged KV cache"), (after, "Next chapter: 3.5 Prefix cache")):
        assert link.get_attribute("aria-label") == said
        assert said.endswith(link.inner_text())
        box = link.bounding_box()
        assert box is not None
        assert box["height"] >= 24
    after.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/week3/day5.html")


def test_weeks_fold(page: "Page") -> None:
    page.goto("week3/day4.html")
    for chapter, shown in (("3.5 Prefix cache", True), ("2.1 The KV cache", False)):
        assert page.locator("#mdbook-sidebar a", has_text=chapter).is_visible() is shown
    page.locator("#mdbook-sidebar li", has_text="Week 2").locator(".chapter-fold-toggle").first.click()
    assert page.locator("#mdbook-sidebar a", has_text="2.1 The KV cache").is_visible()


def test_a_wide_page_lists_its_sections_beside_the_text(page: "Page") -> None:
    """By keyboard, with the section that one is in; a narrow page has them in the contents."""
    page.goto("week3/day4.html")
    link = page.get_by_role("navigation", name="On this page").get_by_role("link", name="Checkpoint")
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/day4.html#checkpoint")
    page.wait_for_function("document.querySelector('.sections .current-header')?.textContent === 'Checkpoint'")
    text = page.locator("main > p").first.bounding_box()
    beside = link.bounding_box()
    assert text is not None
    assert beside is not None
    assert text["x"] + text["width"] < beside["x"]
    page.set_viewport_size({"width": 1000, "height": 900})
    page.locator("#mdbook-sidebar a", has_text="Checkpoint").wait_for()
    assert not link.count()


@pytest.mark.parametrize(
    ("word", "entry"),
    [("TTFT", "TTFT"), ("roofline", "Roofline"), ("split-K", "Split-K"), ("GQA", "Grouped-query attention (GQA)")],
)
def test_the_search_finds_the_glossary_s_entry(page: "Page", word: str, entry: str) -> None:
    page.goto(f"index.html?search={word}")
    hits = page.locator("#mdbook-searchresults li > a")
    hits.first.wait_for()
    assert f"Glossary » {entry}" in [hit.inner_text() for hit in hits.all()[:2]]


def test_a_term_has_a_note(page: "Page") -> None:
    """Under the mouse and with the focus, until Escape; it names its term, and lies within the page."""
    page.goto("week3/day4.html")
    note, term = page.locator(NOTE), page.locator(TERM)
    assert not note.is_visible()
    term.hover()
    assert note.inner_text().startswith("The list of one request's pages in order")
    box = note.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2, steps=8)
    page.wait_for_timeout(400)
    assert note.is_visible()
    page.mouse.move(0, 0)
    note.wait_for(state="hidden")
    term.focus()
    assert note.is_visible()
    assert term.get_attribute("aria-describedby") == note.get_attribute("id")
    page.keyboard.press("Escape")
    assert not note.is_visible()


def test_a_tap_shows_the_note_and_a_second_one_follows_the_link(browser, book_url) -> None:
    context = browser.new_context(base_url=book_url, viewport={"width": 375, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto("week3/day4.html")
    term, note = page.locator(TERM), page.locator(NOTE)
    term.tap()
    assert note.is_visible()
    box = note.bounding_box()
    column = page.locator("main").bounding_box()
    assert column["x"] <= box["x"]
    assert box["x"] + box["width"] <= column["x"] + column["width"] + 0.5
    assert page.url.endswith("week3/day4.html")
    term.tap()
    page.wait_for_url("**/glossary.html#block-table")
    context.close()
