"""Includes of the book that find nothing, each named by its line, with the command that makes what is missing."""

import pytest

from tiny_llm_course.dev.book.preprocessor import faults
from tiny_llm_course.paths import BOOK

pytestmark = pytest.mark.maintainers


@pytest.fixture
def page(tmp_path):
    """A page beside a file with a part."""
    (tmp_path / "other.md").write_text("<!-- ANCHOR: one -->\ntext\n<!-- ANCHOR_END: one -->\n", encoding="utf-8")
    return tmp_path / "page.md"


@pytest.mark.parametrize(
    "text",
    [
        "text",
        "{{#include other.md}} and {{ #include other.md:one }}",
        "```text\n{{#include other.md:1:2}}\n```",
        r"\{{#include no.md}}",
    ],
)
def test_what_is_there_is_found(page, text):
    assert list(faults(text, page)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("one\n\n{{#include no.md}}", [(3, "there is no no.md to include")]),
        ("```text\n{{#include no.md:one}}\n```", [(2, "there is no no.md to include")]),
        ("{{#include other.md:two}}", [(1, "other.md has no part two")]),
        ("{{#include other.md:on}}", [(1, "other.md has no part on")]),
        ("{{#includ other.md}}", [(1, "there is no directive #includ, only #include")]),
        ("\n{{#include}}\n{{#include other.md", [
            (2, "a directive is not complete: it is {{#include FILE}} or {{#include FILE:PART}}"),
            (3, "a directive is not complete: it is {{#include FILE}} or {{#include FILE:PART}}"),
        ]),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(page, text, found):
    assert list(faults(text, page)) == found


@pytest.mark.parametrize(
    ("include", "reason"),
    [
        ("generated/9.9.md:quiz", "there is no book/src/generated/9.9.md to include (pdm run dev book)"),
        ("generated/1.1.md:no-part", "generated/1.1.md has no part no-part (pdm run dev book)"),
        ("../transcripts/new.txt", "there is no book/transcripts/new.txt to include (pdm run dev transcripts new)"),
    ],
)
def test_the_command_that_makes_it_is_named(include, reason):
    page = BOOK / "src" / "index.md"
    assert list(faults(f"{{{{#include {include}}}}}", page)) == [(1, reason)]
