"""Terms of the glossary, found where a chapter first uses them in a sentence."""

import re

import pytest

from tiny_llm_course.dev.book.terms import Terms, as_sections, first_sentence

pytestmark = pytest.mark.maintainers
GLOSSARY = """# Glossary

BPE
: Byte-pair encoding: pairs, joined.

Detokenizer, streaming
: Decodes while tokens arrive.

Head
: One of several.

Key-value head
: One of few.

Query
: What is looked for.

RoPE
: Rotary position embedding: angles.

Up
: One of two projections.
"""


def linked(page: str) -> list[str]:
    """The words that are links, each with its goal."""
    return [
        f"{words} {goal}"
        for words, goal in re.findall(r"\[([^]]+)\]\(g#(\S+) [^)]+\)", Terms(GLOSSARY).link(page, "g"))
    ]


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("A **query** and a query.", ["query query"]),
        ("Queries come first.", ["Queries query"]),
        ("a key-value head, and a head", ["key-value head key-value-head"]),
        ("a head start, and a **head**", ["head head"]),
        ("a key-value\nhead", ["key-value\nhead key-value-head"]),
        ("RoPE, not rope, a *detokenizer*", ["RoPE rope", "detokenizer detokenizer-streaming"]),
        ("byte-pair encoding, or BPE", ["byte-pair encoding bpe"]),
        ('The <span class="role-query">**query**</span> is', ["query query"]),
        ("look it up; ahead, headers, query-key, query.dtype", []),
    ],
)
def test_a_term_is_linked_once(page, found):
    assert linked(page) == found


@pytest.mark.parametrize(
    "page",
    [
        "# The head\n\ntext",
        "text\n\n## A head {#head}\n",
        "`head`",
        "```text\nhead\n```",
        "$head$",
        "[the head](day1.md) ![head](a.png) <a href='#'>the head</a>",
        "| a | head |\n|---|---|\n| head | b |",
        '<details class="symptom"><summary>head</summary>head</details>\n<p>head</p>',
        "1. text\n\n   <details>\n   <summary>head</summary>\n\n   text\n",
        "{{#include ../generated/head.md}}",
        "<!-- head -->",
    ],
)
def test_what_is_no_sentence_stays(page):
    assert linked(page) == []


def test_a_summary_before_the_sections_has_no_links():
    assert linked("# Day\n\nA head.\n\n## Idea\n\nIts query.\n") == ["query query"]


def test_the_text_is_the_same_but_for_the_links():
    page = "## A head\n\nThe **head**, its **query**.\n\n```text\nhead\n```\n"
    assert Terms(GLOSSARY).link(page, "../g.md") == page.replace(
        "The **head**, its **query**",
        'The **[head](../g.md#head "One of several.")**, its **[query](../g.md#query "What is looked for.")**',
    )


def test_the_note_has_the_sense_of_the_chapter_and_one_that_has_none_links_nothing():
    meaning = "Of heads. [Day 3](week1/day3.md), [day 4](week1/day4.md) Of weights: some. [Week 2](week2/day3.md)"
    terms = Terms(f"# Glossary\n\nGroup\n: {meaning}\n")
    noted = {"week1/day3.md": "Of heads.", "week1/day4.md": "Of heads.", "week2/day3.md": "Of weights: some."}
    for path, note in noted.items():
        assert terms.link("a **group**", "g", path) == f'a **[group](g#group "{note}")**'
    assert terms.link("a **group**", "g", "a.md") == "a **group**"


@pytest.mark.parametrize(
    ("meaning", "first"),
    [
        ("One of several. Not all.", "One of several."),
        (
            "The *state* of `x[0]`, about 0.5 of\nthe [whole](day.md). Next.",
            "The state of x[0], about 0.5 of the whole.",
        ),
        ("A list. vLLM's term too.", "A list."),
        ('It is "so", $x < y$', "It is 'so', x &lt; y"),
    ],
)
def test_a_note_is_a_first_sentence_as_plain_text(meaning, first):
    assert first_sentence(meaning) == first


def test_each_entry_is_a_section_which_the_search_finds():
    assert (
        "\n## Detokenizer, streaming {#detokenizer-streaming .entry}\n\nDecodes while tokens arrive.\n"
        in as_sections(GLOSSARY)
    )


def test_each_letter_leads_to_its_first_entry():
    page = as_sections("# Glossary\n\n1F1B\n: An order.\n\nKey\n: One.\n\nKV cache\n: Two.\n")
    assert '<a href="#1f1b">0\N{EN DASH}9</a><a href="#key">K</a></nav>\n\n## 1F1B' in page
