"""Proofs of `dev check` are kept until something changes that they depend on."""

from pathlib import Path

import pytest

from tiny_llm_course.course.nouns import Day
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev import kept
from tiny_llm_course.dev.planted import Claims
from tiny_llm_course.dev.proof import Proof

PROVEN = [Proof("1.1.1", checks=3, wrong=5)], [Claims("1.1.1", planted=2)]


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Day:
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "proofs")
    return load_course().weeks[0].days[0]


def test_a_proof_comes_back_as_it_was(day: Day) -> None:
    assert kept.look_up(day) is None
    kept.keep(day, PROVEN)
    assert kept.look_up(day) == PROVEN


@pytest.mark.parametrize("part", ["_harness", "_of_days"])
def test_a_file_that_changes_ends_it(day: Day, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file.py"
    file.write_text("1", encoding="utf-8")
    monkeypatch.setattr(kept, part, lambda *of: [file])
    kept.keep(day, PROVEN)
    assert kept.look_up(day) == PROVEN
    file.write_text("2", encoding="utf-8")
    assert kept.look_up(day) is None


def test_what_it_depends_on_is_all_that_decides(day: Day) -> None:
    of_days = {file.name for file in kept._of_days([day])}
    assert {
        "basics.py",
        "attention.py",
        "test_day1.py",
        "variants_1_1_1.py",
        "formulas.py",
        "torch_day1.npz",
    } <= of_days
    assert {"agreement.py", "planted.py", "check.py"} <= {file.name for file in kept._harness()}
    assert "week1.toml" not in {file.name for file in kept._harness()}  # another week's tasks change nothing


def test_a_problem_and_what_cannot_be_read_are_not_kept(day: Day) -> None:
    kept.keep(day, ([Proof("1.1.1", problems=["one"])], []))
    assert kept.look_up(day) is None
    kept.keep(day, PROVEN)
    kept._file(day).write_text("{", encoding="utf-8")
    assert kept.look_up(day) is None
