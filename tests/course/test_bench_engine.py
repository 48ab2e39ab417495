"""`pdm run bench engine`: what is measured of a whole engine, what it is held to, and how it is drawn."""

import functools
import json
from xml.etree import ElementTree

import mlx.core as mx
import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.dev.book.measured import ROOFLINE
from tiny_llm_course.dev.transcripts import run
from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.engine.stages import simulated
from tiny_llm_course.measuring.engine_speed import Kind, _steps, measure, storage_of
from tiny_llm_course.measuring.machine import limits
from tiny_llm_course.measuring.roofline_text import drawn, lines_of
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.maintainers
load_solution()

from tiny_llm_solution.measure.step import Storage  # noqa: E402

HERE = [each.name for each in load_course().stages() if not (missing(each.requires) or simulated(each))]


@pytest.mark.parametrize("stage", HERE)
def test_every_stage_is_held_to_the_same_work(stage):
    found = measure(load_engine(None, solution=True, dtype="float32", stage=stage), quick=True)
    assert found["title"] == f"models/tiny-qwen3, stage {stage}"
    assert [(row["step"], row["flops"]) for row in found["rows"]] == [("prefill 1", 9511936), ("prefill 8", 69013504)]
    for row in found["rows"]:
        assert row["least"] > 0  # a small model is in the caches, and may be faster than memory allows
        assert max(row["bandwidth"], row["rate"]) == pytest.approx(row["least"] / row["seconds"])
    if found["storage"] == "weights in float32":
        # All weights once, tied to the head; the row of one token; and its keys and values, read and written.
        assert found["rows"][0]["bytes"] == 19021824 + 1024 + 2 * 6144
    assert ("4 bits" in found["storage"]) == (stage not in ("week1", "kv-cache"))
    assert found["left out"] == []


def test_what_does_not_fit_into_the_budget_is_left_out():
    engine = load_engine(None, solution=True, dtype="float32", stage=HERE[-1])
    taken = _steps(engine, (1, 8, 64), (), 9, 0.0)
    assert list(taken) == [Kind("prefill 1", 1, 0)]


def test_the_command_prints_writes_and_draws(tmp_path):
    record, drawing = tmp_path / "found.json", tmp_path / "roof.svg"
    for _ in range(2):  # its own files may be written over
        done = run(f"bench engine --solution --quick --json {record} --svg {drawing}", ROOT)
        assert done.returncode == 0, done.stdout
    found = json.loads(record.read_text(encoding="utf-8"))
    assert f"{found['title']}, {found['storage']}  (solutions/tiny_llm)\n" in done.stdout
    assert "a prefill 1 " in done.stdout
    assert "too small for meaningful numbers" in done.stdout
    assert drawing.read_text(encoding="utf-8") == ROOFLINE.in_a_file(found)
    ElementTree.parse(drawing)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("bench 1.1 --stage week1", "--stage applies to a whole engine: pdm run bench engine --stage week1"),
        ("bench --model x", "--model applies to a whole engine: pdm run bench engine --model x"),
        ("bench engine --stage fast", "There is no stage 'fast'."),
        ("bench engine --svg pyproject.toml", "pyproject.toml exists and is not an earlier drawing"),
        ("bench engine --json pyproject.toml", "pyproject.toml exists and is not an earlier record"),
    ],
)
def test_wrong_use_is_one_line(typed, words):
    done = run(typed, ROOT)
    assert done.returncode == 2
    assert words in done.stdout


def test_limits_are_measured():
    found = limits(quick=True)
    assert found.bandwidth > 1e8
    assert found.rate > 1e8
    assert found.how.startswith("reading 16 MiB by ")


# How weights are kept


class Packed:
    """Holds its table as a closure, a partial or an attribute would."""

    def __init__(self, how, *parts):
        self.norm = mx.ones(128, mx.bfloat16)
        self.look_up = {
            "closure": lambda: parts,
            "partial": functools.partial(print, *parts),
            "attribute": {"parts": [*parts]},
        }[how]


@pytest.mark.parametrize("how", ["closure", "partial", "attribute"])
@pytest.mark.parametrize(("bits", "group_size"), [(4, 64), (8, 32), (4, 128)])
def test_packed_weights_are_seen(how, bits, group_size):
    table = mx.random.normal((40, 128)).astype(mx.bfloat16)
    model = Packed(how, *mx.quantize(table, group_size, bits))
    assert storage_of(model, 128, 40) == Storage(2, bits, group_size, 2)
    assert storage_of(Packed(how, table), 128, 40) == Storage(2, None, 64, 2)


@pytest.mark.parametrize("before", [True, False])
def test_tables_of_positions_are_not_taken_for_scales(before):
    """RoPE's have a row for each position, and there may be as many as tokens."""
    model = Packed("attribute", *mx.quantize(mx.random.normal((40, 128)), 64, 4))
    model.norm = mx.ones(128)
    rope = [mx.ones((40, 4)), mx.ones((40, 16))]
    assert storage_of([rope, model] if before else [model, rope], 128, 40) == Storage(4, 4, 64, 4)


# The picture


def test_the_roof_and_the_points_below_it():
    """A ridge at 10 FLOPs a byte; one point below the slope, one below the ceiling, on marks of both axes."""
    lines = drawn(1e9, 1e10, {"a": (1.0, 1e8), "b": (100.0, 1e9)})
    picture, below = lines[1:-3], lines[-2]
    level = {mark: next(i for i, line in enumerate(picture) if line.split()[0] == mark) for mark in ("0.1", "1", "10")}
    assert "a" in picture[level["0.1"]]
    assert "b" in picture[level["1"]]
    assert "\u2500" in picture[level["10"]]
    at = {mark: below.index(f" {mark} " if mark != "100" else " 100") + 1 for mark in ("1", "10", "100")}
    assert picture[level["0.1"]].index("a") == at["1"]
    assert picture[level["1"]].index("b") == at["100"]
    assert picture[level["10"]].index("\u2500") == pytest.approx(at["10"], abs=2)
    assert max(map(len, lines)) <= 80


def test_points_in_one_place_stand_beside_each_other():
    text = "\n".join(drawn(1e9, 1e10, {"a": (1.0, 1e8), "b": (1.0, 1e8), "c": (1.001, 1e8)}))
    assert "abc" in text


def test_the_recorded_engine_fits_a_page():
    found = json.loads((ROOT / "benches" / "engine_speed.json").read_text(encoding="utf-8"))
    assert found["package"] == "solutions/tiny_llm"
    assert not found["quick"]
    assert max(map(len, lines_of(found, 80)[: len(found["rows"]) + 5])) <= 100
