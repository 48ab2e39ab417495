"""Figures drawn from arrays: what the numbers become, and what is refused."""

import math
import re
from importlib import import_module
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from tiny_llm_course.dev.book.drawing import (
    ROLES,
    Canvas,
    at_both_widths,
    bars,
    flow,
    lines,
    matrix,
    squares,
    strips,
)
from tiny_llm_course.dev.book.drawing.canvas import COLUMN, WIDEST
from tiny_llm_course.dev.book.drawing.charts import legend
from tiny_llm_course.paths import BOOK, make_importable

SVG = "{http://www.w3.org/2000/svg}"


def shapes(canvas, kind, looks=""):
    """The attributes of the shapes of a kind, in their order, numbers as numbers; `looks` is a class that they have."""
    tree = ElementTree.fromstring(canvas.figure("a-figure", "A figure", "What there is to see"))
    found = [dict(part.attrib) for part in tree.iter(SVG + kind) if looks in part.get("class", "").split() or not looks]
    return [{k: float(v) if re.fullmatch(r"-?[\d.]+", v) else v for k, v in part.items()} for part in found]


def drawn_texts(canvas):
    tree = ElementTree.fromstring(canvas.figure("a-figure", "A figure", "What there is to see"))
    return list(tree.iter(SVG + "text"))


def texts(canvas):
    return [part.text for part in drawn_texts(canvas)]


def points(part):
    return [tuple(map(float, place.split(","))) for place in part["points"].split()]


def test_a_figure_says_what_it_shows():
    canvas = Canvas()
    canvas.text(0, 0, "a < b & c")
    html = canvas.figure("x-1", "A <title>", "It's & more", "A <b>caption</b>")
    tree = ElementTree.fromstring(html)
    svg = tree.find(SVG + "svg")
    assert svg.get("role") == "img"
    named = {part.get("id"): part.text for part in svg if part.tag in (SVG + "title", SVG + "desc")}
    assert [named[name] for name in svg.get("aria-labelledby").split()] == ["A <title>", "It's & more"]
    assert tree.find("figcaption/b").text == "caption"
    assert texts(canvas) == ["a < b & c"]
    assert "\n\n" not in html


def test_nothing_is_drawn_off_the_canvas():
    canvas = Canvas()
    canvas.circle(-30, -20, 5, "dot")
    canvas.rect(100, 50, 10, 10, "fill")
    (view,) = re.findall(r'viewBox="([^"]+)"', canvas.figure("x", "t", "d"))
    left, top, width, height = map(float, view.split())
    assert (left, top) == (-37, -27)
    assert (left + width, top + height) == (112, 62)


def test_what_a_phone_would_shrink_is_refused():
    canvas = Canvas()
    canvas.rect(0, 0, WIDEST + 1, 10, "fill")
    with pytest.raises(ValueError, match=r"figure wide is 3\d\d pixels wide, 372 is what a phone shows"):
        canvas.figure("wide", "t", "d")


def test_a_chart_is_drawn_for_a_phone_and_for_the_column():
    canvas = at_both_widths(lambda canvas: bars(canvas, {"one": 2.0, "other": 1.0}, str))
    tree = ElementTree.fromstring(canvas.figure("bars", "t", "d"))
    narrow, wide = tree.findall(SVG + "svg")
    assert (narrow.get("class"), wide.get("class")) == ("narrow", "wide")
    assert len({part.get("id") for part in tree.iter() if part.get("id")}) == 4
    widths = [float(part.get("viewBox").split()[2]) for part in (narrow, wide)]
    assert widths[0] <= WIDEST < 1.5 * widths[0] < widths[1] <= COLUMN
    assert [part.text for part in narrow.iter(SVG + "text")] == [part.text for part in wide.iter(SVG + "text")]


def test_names_of_series_take_a_line_of_their_own_only_where_they_must():
    def levels(width):
        canvas = Canvas(width)
        legend(canvas, ["x" * 20, "y" * 20, "z" * 20], 0)
        return [float(re.search(r' y="([^"]+)"', shape)[1]) for shape in canvas._shapes if "<text" in shape]

    assert len(set(levels(WIDEST))) == 3
    assert len(set(levels(COLUMN))) == 1


def test_a_square_is_as_large_as_its_number():
    canvas = Canvas()
    squares(canvas, 10, 20, np.array([[4.0, 1.0], [-4.0, 0.0]]), 17.5, "weights")
    filled, hollow = shapes(canvas, "rect", "fill"), shapes(canvas, "rect", "hollow")
    assert [part["width"] for part in filled] == [16, 8]  # areas as 4 to 1
    assert [part["width"] for part in hollow] == [16]
    assert (filled[0]["x"], filled[0]["y"]) == (10.8, 20.8)
    assert all("role-weights" in part["class"] for part in filled + hollow)


def test_what_is_hidden_is_a_dot_and_sets_no_scale():
    canvas, hidden = Canvas(), np.array([[False, True], [False, False]])
    matrix(canvas, np.array([[1.0, 99.0], [0.5, 0.25]]), ["a", "b"], ["c", "d"], "weights", hidden=hidden, lit=1)
    assert len(shapes(canvas, "circle", "dot")) == 1
    sides = [part["width"] for part in shapes(canvas, "rect", "fill")]
    assert sides[1] == pytest.approx(sides[0] * math.sqrt(0.5), abs=0.1)
    assert texts(canvas) == ["c", "d", "a", "1.00", "b", "0.50", "0.25"]
    assert len(shapes(canvas, "rect", "frame")) == 1


def test_strips_go_up_and_down_in_one_scale():
    canvas = Canvas()
    strips(canvas, np.array([[1.0, -2.0], [0.5, 0.0]]), ["a", "b"], "value")
    (up, half), (down,) = shapes(canvas, "rect", "fill"), shapes(canvas, "rect", "hollow")
    assert (up["height"], down["height"], half["height"]) == (8.5, 17, 4.2)
    assert up["y"] + up["height"] == pytest.approx(down["y"])  # both stand on the line


def test_bars_are_as_long_as_their_numbers():
    canvas = Canvas()
    bars(canvas, {"one": 2.0, "other": 1.0}, lambda x: f"{x:.0f} ms", heading="time")
    first, second = (part["width"] for part in shapes(canvas, "rect"))
    assert first == pytest.approx(2 * second, abs=0.21)
    assert texts(canvas) == ["time", "one", "other", "2 ms", "1 ms"]


def test_what_doubles_goes_up_by_equal_steps():
    canvas = Canvas()
    lines(canvas, [1, 2, 4], {"a": [3, 6, 12], "b": [1, 1, 1]}, ("L", "ms"), str)
    second, first = map(points, shapes(canvas, "polyline", "line")[2:])  # after the legend; the first one is on top
    (x0, y0), (x1, y1), (x2, y2) = first
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert len({y for _, y in second}) == 1
    assert second[0][1] > y0  # smaller is further down
    assert len(shapes(canvas, "circle", "series-0")) == 4  # three points and the legend's
    assert len(shapes(canvas, "rect", "series-1")) == 4


def test_curves_have_one_scale_and_their_dots_lie_on_them():
    canvas = Canvas()
    across = [-4, -2, 0, 2, 4]
    dots = {"flat": -2, "steep": 2}
    make_importable()
    curves = import_module("book.generate.week1.day4").curves
    curves(canvas, across, {"relu": [0, 0, 0, 2, 4], "line": across}, lambda x: f"{x:g}", dots=dots)
    relu, line = (points(part) for part in shapes(canvas, "polyline", "line"))
    steps = [(b[0] - a[0], a[1] - b[1]) for a, b in pairwise(line)]
    assert all(right == pytest.approx(up, abs=0.11) for right, up in steps)
    flat, steep = shapes(canvas, "circle")
    assert (flat["cx"], flat["cy"]) == relu[1]
    assert (steep["cx"], steep["cy"]) == relu[3]
    named = {part.text: part.attrib for part in drawn_texts(canvas)}
    assert float(named["flat"]["y"]) < flat["cy"] - 4
    assert float(named["steep"]["x"]) > steep["cx"] + 4
    assert {"\N{MINUS SIGN}4", "\N{MINUS SIGN}2", "2", "4"} <= set(texts(canvas))


def test_arrows_lead_from_box_to_box():
    """Straight down, and by one bend around what lies between; a sum is entered from its side.

    A head stops 1.5 before what it points at, and its line 6 before that.
    """
    canvas = Canvas()
    boxes = {"x": ("x", "stream"), "part": "a part", "sum": ("+", "stream")}
    flow(canvas, [["x"], ["", "part"], ["sum"]], boxes, [("x", "part"), ("part", "sum"), ("x", "sum")])
    there, back, straight = map(points, shapes(canvas, "polyline"))
    x, part = shapes(canvas, "rect", "frame")
    (ring,) = shapes(canvas, "circle", "frame")
    assert there[0] == pytest.approx((x["x"] + x["width"], x["y"] + x["height"] / 2), abs=0.2)
    down, left, again = (points(head)[0] for head in shapes(canvas, "polygon", "head"))
    assert down == pytest.approx((part["x"] + part["width"] / 2, part["y"] - 1.5), abs=0.2)
    assert there[-1] == pytest.approx((down[0], down[1] - 6), abs=0.2)
    assert len(there) == len(back) == 3
    assert left == pytest.approx((ring["cx"] + ring["r"] + 1.5, ring["cy"]), abs=0.2)
    assert back[-1] == pytest.approx((left[0] + 6, left[1]), abs=0.2)
    assert straight[0][0] == straight[1][0]
    assert again == pytest.approx((ring["cx"], ring["cy"] - ring["r"] - 1.5), abs=0.2)
    assert straight[1] == pytest.approx((again[0], again[1] - 6), abs=0.2)


def test_a_name_that_fills_several_places_is_one_wide_box():
    canvas = Canvas()
    flow(canvas, [["a", "b", "c"], ["ab", "ab", "c2"]], {n: n for n in ("a", "b", "c", "ab", "c2")}, [("b", "ab")])
    a, b, _, ab, _ = shapes(canvas, "rect", "frame")
    assert ab["x"] <= a["x"]
    assert ab["x"] + ab["width"] >= b["x"] + b["width"]
    assert ab["width"] > a["width"] + b["width"]


def test_the_book_has_each_role_once():
    css = (BOOK / "figures.css").read_text(encoding="utf-8")
    assert set(re.findall(r"^\.role-(\w+) \{", css, re.MULTILINE)) == set(ROLES)
    look = r"^\.role-\w+ \{\n    --role: var\(--(\w+)\);\n    --underline: (\w+);\n    --dashes: ([^;]+);"
    marks = re.findall(look, css, re.MULTILINE)
    assert [mark[0] for mark in marks] == list(ROLES)
    assert len({mark[1:] for mark in marks}) == len(ROLES), "two roles look the same without their color"
    with pytest.raises(ValueError, match="no role 'qery', there are query, key, value"):
        squares(Canvas(), 0, 0, np.ones((1, 1)), 10, "qery")
