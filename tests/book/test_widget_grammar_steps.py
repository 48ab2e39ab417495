"""The widget of week 7, day 1: its steps are those of the solution's grammar, and it needs no mouse."""

import json

import pytest
from book.generate.week7 import day1
from tests.book.widget import Widget
from tests.week7.random_schemas import ordered, valid

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


def test_the_steps_are_the_solution_s(page):
    from tiny_llm_solution.constrained.trie import unpack

    grammar, state = day1.compiled(), day1.compiled().start
    widget = Widget(page, "grammar-steps")
    count = len(day1.steps())
    states, said = widget.look([{"step": step} for step in range(count)], ".say")
    vocabulary = {text: token for token, text in reversed(day1.tokenizer().token_bytes.items())}
    for step, shown in enumerate(states):
        mask = unpack(grammar.mask(state), day1.LARGEST)
        assert shown["allowed"] == mask.sum()
        assert f"{mask.sum()} of {day1.LARGEST} tokens" in said[step]
        chosen = shown["masked"][0][0]
        if step == count - 1:
            assert chosen == "the end"
            assert grammar.pushdown.accepts(state)
            break
        assert states[step + 1]["text"] == shown["text"] + chosen
        assert mask[vocabulary[chosen.encode()]]
        assert sum(percent for _, percent in shown["masked"]) <= 100.3
        state = grammar.advance(state, vocabulary[chosen.encode()])
    answer = json.loads(states[-1]["text"])
    schema = day1.SCHEMA
    assert valid(answer, schema, schema)
    assert ordered(answer, schema, schema)


def test_steps_by_keyboard(page):
    widget = Widget(page, "grammar-steps")
    widget.focus("#next")
    assert widget.press("Enter")["step"] == 11
    assert widget.press("ArrowRight", "ArrowRight")["step"] == 13
    assert widget.press("ArrowLeft")["step"] == 12
    widget.focus("#step")
    assert widget.press("Home")["step"] == 0
    assert widget.press("End")["step"] == len(day1.steps()) - 1
    assert page.url == widget.address
