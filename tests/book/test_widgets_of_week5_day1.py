"""The widget of week 5, day 1: its numbers are those of the course's own code, and it needs no mouse."""

from collections import Counter
from itertools import pairwise

import pytest
from book.generate.week5 import day1
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


@pytest.mark.parametrize("corpus", range(len(day1.CORPORA)))
def test_the_merges_are_the_solution_s(page, corpus):
    from tiny_llm_solution.bpe.trainer import train_bpe
    from tiny_llm_solution.tokenizer import merge_pairs

    words = list(day1.CORPORA.values())[corpus]
    merges = train_bpe(words, 99)
    widget = Widget(page, "bpe-merges")
    states, said = widget.look([{"corpus": corpus, "step": step} for step in range(len(merges) + 1)], ".say")
    for step, state in enumerate(states):
        assert list(map(tuple, state["merges"])) == merges[:step]
        ranks = {pair: rank for rank, pair in enumerate(merges[:step])}
        rows = [merge_pairs(list(word), ranks) for word in words]
        assert state["rows"] == rows
        assert state["counts"] == list(words.values())
        assert state["tokens"] == sum(len(row) * count for row, count in zip(rows, words.values(), strict=True))
        counts = Counter()
        for row, count in zip(rows, words.values(), strict=True):
            for pair in pairwise(row):
                counts[pair] += count
        assert {(a, b): n for a, b, n in state["pairs"]}.items() <= counts.items()
        assert len(state["pairs"]) + state["more"] == len(counts)
        ties = sum(n == max(counts.values()) for n in counts.values()) if counts else 0
        assert (f"{ties} pairs tie" in said[step]) == (ties > 1)
    assert all(len(row) == 1 for row in states[-1]["rows"])


@pytest.mark.parametrize("_", range(3))
def test_merges_by_keyboard(page, _):
    widget = Widget(page, "bpe-merges")
    widget.focus("#next")
    assert widget.press("Enter")["step"] == 1
    assert widget.press("ArrowRight", "ArrowRight")["step"] == 3
    assert widget.press("ArrowLeft")["step"] == 2
    widget.focus("#step")
    assert widget.press("Home")["step"] == 0
    last = widget.press("End")
    assert not last["pairs"]
    widget.focus("[name=corpus]")
    state = widget.press("ArrowDown")
    assert (state["corpus"], state["step"]) == (1, 0)
    assert page.url == widget.address


def test_merges_play_and_pause(page):
    widget = Widget(page, "bpe-merges")
    widget.element.locator("#play").click()
    page.wait_for_timeout(1500)
    widget.element.locator("#play").click()
    step = widget.state()["step"]
    assert step >= 1
    page.wait_for_timeout(1500)
    assert widget.state()["step"] == step


def test_the_chapter_s_answer_about_merges(page):
    """In the corpus of runs, a a is counted at overlapping places."""
    widget = Widget(page, "bpe-merges")
    first = widget.change(corpus=2, step=0)
    assert first["pairs"][0] == ["a", "a", 15]
    second = widget.change(corpus=2, step=1)
    assert second["rows"][0] == ["aa", "aa"]
