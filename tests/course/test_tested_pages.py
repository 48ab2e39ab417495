"""Which browser tests need not run: those that have passed for the same content, but for two pages that are drawn."""

import json

import pytest
from tests.book import tested
from tests.book.tested import COURSE, Content, Record, Run

pytestmark = pytest.mark.maintainers
BOOK = {"a.html": "1", "b.html": "2", "toc.js": "3", "b.js": "4"}
CONTENT = Content(BOOK, "the tests", "the course")
RAN = {
    "test_reads[a]": Run("a.html", ["a.html", "toc.js"], True),
    "test_reads[b]": Run("b.html", ["b.html", "b.js", "toc.js"], True),
    "test_prints[b]": Run("b.html", ["b.html", "toc.js"], True),
    "test_numbers": Run(COURSE, ["a.html"], True),
}
EVERY = {*RAN}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A record of tests that have all passed."""
    monkeypatch.setattr(tested, "RECORD", tmp_path / "tested.json")
    tested.keep(RAN, CONTENT)
    return tmp_path / "tested.json"


def test_what_has_passed_is_valid_until_something_changes_that_it_loads(file):
    assert Record().valid(CONTENT).keys() == EVERY
    for name, invalid in (
        ("a.html", {"test_reads[a]"}),
        ("b.js", {"test_reads[b]", "test_prints[b]"}),
        ("toc.js", EVERY - {"test_numbers"}),
    ):
        changed = CONTENT._replace(book=BOOK | {name: "changed"})
        assert Record().valid(changed).keys() == EVERY - invalid
    assert Record().valid(CONTENT._replace(book=BOOK | {"c.html": "new"})).keys() == EVERY
    assert Record().valid(CONTENT._replace(tests="others")).keys() == {"test_numbers"}
    assert Record().valid(CONTENT._replace(course="another")).keys() == EVERY - {"test_numbers"}


def test_what_has_run_is_kept_beside_what_is_still_valid(file):
    changed = CONTENT._replace(book=BOOK | {"b.html": "changed"})
    tested.keep({"test_reads[b]": RAN["test_reads[b]"]}, changed)
    assert Record().valid(changed).keys() == EVERY - {"test_prints[b]"}
    tested.keep({"test_prints[b]": RAN["test_prints[b]"], "test_reads[a]": Run("a.html", ["a.html"], False)}, changed)
    assert Record().valid(changed).keys() == EVERY - {"test_reads[a]"}
    assert "a.html" not in json.loads(file.read_text(encoding="utf-8"))


def test_the_day_and_the_file_stay_if_the_same_has_passed_again(file):
    before = file.read_text(encoding="utf-8").replace('"tested": "2', '"tested": "1')
    file.write_text(before, encoding="utf-8")
    tested.keep(RAN, CONTENT)
    assert file.read_text(encoding="utf-8") == before
    lines = before.splitlines()
    assert json.loads(lines[1].partition(": ")[2].rstrip(",")) == ["toc.js"]
    assert len(lines) == 2 + 1 + 3, "a line for each group, for what all pages load, and for each brace"


def test_two_pages_are_tested_in_any_case(file):
    guards = Record().guards()
    assert guards == EVERY - {"test_numbers"}
    assert guards == Record().guards()
    file.write_text("<<<<<<< HEAD", encoding="utf-8")
    assert Record().valid(CONTENT) == {}
    assert Record().guards() == set()


def test_the_content_is_that_of_all_files(tmp_path):
    for name in ("index.html", "week1/day1.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    content = Content.of(tmp_path)
    assert content.book.keys() == {"index.html", "week1/day1.html"}
    assert content.key("index.html", ["index.html"]) != content.key("index.html", ["index.html", "week1/day1.html"])
    assert content.key(COURSE, []) == content.course == Content.of(tmp_path).course
