"""The pictures are what their scripts draw."""

import runpy

from tiny_llm_course.paths import BOOK


def test_the_terminal_is_drawn_from_its_transcript():
    script = runpy.run_path(str(BOOK / "figures" / "terminal.py"))
    drawn = script["draw"](script["TRANSCRIPT"].read_text(encoding="utf-8"))
    assert script["PICTURE"].read_text(encoding="utf-8") == drawn, "draw it anew: pdm run dev book"


def test_the_icon_is_drawn():
    script = runpy.run_path(str(BOOK / "figures" / "icon.py"))
    assert script["ICON"].read_text(encoding="utf-8") == script["draw"](), "draw it anew: pdm run dev book"
