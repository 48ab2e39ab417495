"""The engine's boxes as the registry has them: their order, their frames, the map of each day, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest
from book.generate.course import Facts, Sentence, Shown, model_page

from tiny_llm_course.course.registry import Course, load_course
from tiny_llm_course.dev.book.engine import Part, engine, map_parts
from tiny_llm_course.paths import ROOT

TASK = """
[[days.tasks]]
id = "{id}"
title = "Task"
target = "module:f_{name}"
tests = "task"
needs = []
minutes = 10
difficulty = 1
makes = {makes}
forbidden = []
hints = ["one", "two", "three"]
"""
WEEKS = {
    1: {
        "1.1.1": '["layers/attention/softmax"]',
        "1.1.2": '["layers/attention"]',
        "1.2.1": '["layers/attention/RoPE before softmax", "text"]',
        "1.2.2": '["layers", "embedding before layers"]',
    },
    2: {"2.1.1": '["layers/attention/KV cache", "scheduler before embedding"]', "2.2.1": "[]"},
}


def load(folder: Path, weeks: dict[int, dict[str, str]]) -> Course:
    for number, tasks in weeks.items():
        text, day = f'number = {number}\ntitle = "Week"\n', ""
        for name, makes in tasks.items():
            if name.split(".")[1] != day:
                day = name.split(".")[1]
                text += f'\n[[days]]\nnumber = {day}\ntitle = "Day"\nchapter = "week{number}/day{day}.md"\n'
            text += TASK.format(id=name, name=name.replace(".", "_"), makes=makes)
        (folder / f"week{number}.toml").write_text(text, encoding="utf-8")
    return load_course(folder)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load(tmp_path, WEEKS)


def maps_of(course: Course) -> dict[str, str]:
    """The maps of all days and weeks that have one, by name."""
    maps = {day.name: map_parts(course, day.week, day) for day in course.days()}
    maps |= {str(week.number): map_parts(course, week.number) for week in course.weeks}
    return {name: parts["map"] for name, parts in maps.items() if parts}


def paths(boxes: list[Part]) -> list[str]:
    return [part.path for box in boxes for part in box]


def links(text: str) -> dict[str, tuple[str, str]]:
    """Of each box of a map: where it leads and how it looks."""
    found = re.findall(r'<a href="([^"]+)" title="[^"]+"([^>]*)>([^<]+)</a>', text)
    return {name.removeprefix("✓ "): (address, looks.strip()) for address, looks, name in found}


def test_boxes_stand_in_their_frames_in_the_order_of_the_data(course: Course) -> None:
    attention = ["layers/attention", "layers/attention/RoPE", "layers/attention/softmax"]
    first = [task for day in course.week(1).days for task in day.tasks]
    assert paths(engine(first)) == ["embedding", "layers", *attention, "text"]
    every = ["scheduler", "embedding", "layers", *attention, "layers/attention/KV cache", "text"]
    assert paths(engine(course.tasks())) == every
    makers = {part.path: part.task.id for box in engine(course.tasks()) for part in box if part.task}
    assert makers["layers"] == "1.2.2"
    assert makers["layers/attention"] == "1.1.2"


def test_a_day_s_map_opens_the_frames_of_its_boxes_and_lights_them(course: Course) -> None:
    maps = maps_of(course)
    assert maps.keys() == {"1.1", "1.2", "1", "2.1", "2"}
    assert links(maps["1.1"]) == {
        "embedding": ("day2.md#task-1-2-2", 'class="later"'),
        "layers": ("day2.md#task-1-2-2", 'class="later"'),
        "attention": ("day1.md#task-1-1-2", 'aria-current="page"'),
        "RoPE": ("day2.md#task-1-2-1", 'class="later"'),
        "softmax": ("day1.md#task-1-1-1", 'aria-current="page"'),
        "text": ("day2.md#task-1-2-1", 'class="later"'),
    }
    assert "✓ softmax" in maps["1.2"]


def test_a_new_week_s_box_leads_to_its_own_chapter(course: Course) -> None:
    """And the week before knows nothing of it."""
    maps = maps_of(course)
    today = links(maps["2.1"])
    assert today["KV cache"] == ("day1.md#task-2-1-1", 'aria-current="page"')
    assert today["scheduler"] == ("day1.md#task-2-1-1", 'aria-current="page"')
    assert today["RoPE"] == ("../week1/day2.md#task-1-2-1", 'class="done"')
    assert "KV cache" not in maps["1"] + maps["1.2"]
    assert links(maps["2"])["KV cache"] == ("day1.md#task-2-1-1", "")


def test_a_frame_without_a_box_of_today_is_open_too(tmp_path: Path) -> None:
    weeks = {1: WEEKS[1] | {"1.3.1": '["sampler before text"]'}}
    inside = {"attention", "RoPE", "softmax"}
    assert links(maps_of(load(tmp_path, weeks))["1.3"]).keys() == {"embedding", "layers", "sampler", "text"} | inside


@pytest.mark.parametrize(
    ("makes", "message"),
    [
        ('["a//b"]', "task 1.2.2: 'makes' has 'a//b', which is not frame/name or frame/name before other"),
        ('["a before b before c"]', "task 1.2.2: 'makes' has 'a before b before c', which is not"),
        ('["text"]', "task 1.2.2: 'makes' has text, which 1.2.1 makes already"),
        ('["norm before logits"]', "task 1.2.2: 'makes' puts norm before logits, but no earlier task makes logits"),
        ('["embedding"]', "week 1: no task makes layers, the frame of layers/attention"),
        ('"layers"', "task 1.2.2: 'makes' must be a list of strings, not 'layers'"),
    ],
)
def test_what_makes_no_engine_is_refused(tmp_path: Path, makes: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        load(tmp_path, {1: WEEKS[1] | {"1.2.2": makes}})


def test_the_page_of_the_whole_model_has_every_box(course: Course) -> None:
    """Those that no script knows too; sums of weights and times go up through the frames."""
    values = np.array([[[1.0, -2.0, 0.5]] * 2] * 3)  # layers x tokens x columns
    facts = {
        "layers/attention/RoPE": Facts("It turns.", "L x D", 30, 1.0, (Shown("query", "query", values, 64),)),
        "layers": Facts("They add.", "L x E", 0, 2.0),
        "embedding": Facts("It looks up.", "L x E", 10, 1.0, rows=(("a", "7", 0.0),)),
    }
    page = model_page(course, Sentence(["one", "two"], {"layer": 2, "head": 0, "row": 1}, "Measured."), facts)
    told = re.findall(r"<summary><b>([^<]+)</b>: ([\d.]+) % of the weights, ([\d.]+) % of the time", page)
    shares = {name: (float(weights), float(time)) for name, weights, time in told}
    assert list(shares) == ["scheduler", "embedding", "layers", "attention", "RoPE", "softmax", "KV cache", "text"]
    assert shares["layers"] == (75, 75)
    assert shares["attention"] == shares["RoPE"] == (75, 25)
    assert shares["embedding"] == (25, 25)
    assert shares["KV cache"] == (0, 0)
    assert '<a href="week2/day1.html#task-2-1-1">Week 2, day 1: Day</a>' in page
    assert "query, layer 2: the first 3 of 64 elements" in page
    assert page.count("<details>") == page.count("</details>") == 8
    assert "\n\n" not in page


def test_every_chapter_that_has_a_map_shows_it() -> None:
    """And every page of a week that has one."""
    course = load_course()
    for file in maps_of(course):
        week, _, day = file.partition(".")
        own = (
            course.day(int(week), int(day)).chapter if day else str(Path(course.week(int(week)).days[0].chapter).parent)
        )
        page = ROOT / "book" / "src" / own
        text = (page if day else page / "overview.md").read_text(encoding="utf-8")
        assert f"generated/{file}.md:map}}}}" in text, f"{own} does not show {file}.md:map"
