"""The widget of day 7.2: its numbers are those of the parser, and it needs no mouse."""

import runpy

import pytest
from tests.book.widget import Widget

from tiny_llm_course.paths import BOOK
from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course


def test_what_the_parser_has_reported(page):
    load_solution()
    from tiny_llm_solution.tools.parser import ToolCallParser
    from tiny_llm_solution.tools.partial import complete_json

    widget = Widget(page, "call-stream")
    answers = runpy.run_path(str(BOOK / "generate/week7/day2.py"))["ANSWERS"]
    for number, text in enumerate(answers.values()):
        for step in (0, 1, len(text) // 3, len(text) // 2, len(text), len(text) + 1):
            parser = ToolCallParser()
            events = [event for character in text[:step] for event in parser.add(character.encode())]
            events += parser.finish() if step > len(text) else []
            state = widget.change(answer=number, step=step)
            assert state["shown"] == "".join(said for kind, said, _ in events if kind == "text")
            found = {}
            for kind, said, index in events:
                call = found.setdefault(index, {"name": "", "arguments": "", "ended": False})
                if kind in ("name", "arguments"):
                    call[kind] += said
                call["ended"] = call["ended"] or kind in ("end", "error")
            found.pop(-1, None)
            shown = [{**call, "ended": call["state"] != "open"} for call in state["calls"]]
            assert [{name: call[name] for name in ("name", "arguments", "ended")} for call in shown] == [
                *found.values()
            ]
            expected = complete_json(found[max(found)]["arguments"]) if found else ""
            assert state["completed"] == expected
            if step == len(text) + 1:
                assert state["held"] == ""


def test_by_keyboard(page):
    widget = Widget(page, "call-stream")
    widget.focus("#step")
    assert widget.press("Home", "ArrowRight")["step"] == 1
    last = widget.press("End")
    assert last["calls"][0]["state"] == "complete"
    widget.focus("#back")
    assert widget.press("Enter")["step"] < last["step"]
    widget.focus("[name=answer]")
    assert widget.press("ArrowDown")["answer"] == 1
    assert page.url == widget.address
