"""The generated files: what stands in them, how one that is not current is named, and when one is made again."""

import json

import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book import current, parts
from tiny_llm_course.dev.book.listings import names_of_files
from tiny_llm_course.paths import ROOT

pytestmark = pytest.mark.maintainers
WANTED = {"1.1": {"tasks": "one\n", "hints-1": "two\n\nlines\n"}, "1": {"map": "a map\n"}, "course": {}}
INPUTS = ["day.py", "missing.py", "records"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A checkout whose generated files are as they should be; the names that are made again are in `made`."""
    for module in (current, parts):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "generated")
    monkeypatch.setattr(current, "KEYS", tmp_path / "inputs.json")
    monkeypatch.setattr(current, "ROOT", tmp_path)
    monkeypatch.setattr("tiny_llm_course.course.file_paths.ROOT", tmp_path)
    monkeypatch.setattr(current, "names_of_files", lambda course: list(WANTED))
    made = []

    def make(names):
        made.extend(names)
        return {name: current.Made(parts.as_text(WANTED[name]), INPUTS) for name in names}

    monkeypatch.setattr(current, "_make", make)
    (tmp_path / "day.py").write_text("1", encoding="utf-8")
    (tmp_path / "records").mkdir()
    assert current.refresh() == {"1.1": True, "1": True, "course": False}
    made.clear()
    return tmp_path, made


def test_a_part_is_read_as_it_was_written(root):
    assert {name: {anchor: parts.present(name, anchor) for anchor in of} for name, of in WANTED.items()} == WANTED
    assert parts.present("1.1", "quiz") == parts.present("1.2", "tasks") == ""


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        ("1.1", "two", "three", "generated/1.1.md:hints-1 is out of date"),
        ("1.1", "hints-1", "hints-2", "generated/1.1.md:hints-1 is missing"),
        ("1.1", "hints-1", "hints-2", "generated/1.1.md:hints-2 is no longer generated"),
        ("1.1", "-->\n\n<!--", "-->\n<!--", "generated/1.1.md is out of date"),
        ("1", "", "", "generated/1.md is missing"),
        ("1.2", "", "# more", "generated/1.2.md is no longer generated"),
        ("course", "", "# more", "generated/course.md is no longer generated"),
    ],
)
def test_what_is_not_current_is_named_by_file_and_anchor(root, name, old, new, line):
    file = root[0] / "generated" / f"{name}.md"
    if not new:
        file.unlink()
    else:
        file.write_text(file.read_text(encoding="utf-8").replace(old, new) if old else new, encoding="utf-8")
    assert f"{line} (pdm run dev book)" in current.differences()
    assert current.refresh() == {name: True}
    assert current.differences() == []


def test_a_file_is_made_again_only_when_an_input_has_changed(root):
    checkout, made = root

    def made_again():
        """What a look at all files makes, which keeps the keys that are new."""
        made.clear()
        assert current.differences() == []
        return list(made)

    assert made_again() == []
    (checkout / "day.py").write_text("2", encoding="utf-8")
    assert current.stale(["1.1"]) == ["1.1"]
    assert made_again() == list(WANTED)
    for change in (
        lambda: (checkout / "missing.py").touch(),
        lambda: (checkout / "missing.py").write_text("3", encoding="utf-8"),
        lambda: (checkout / "records" / "new.json").touch(),
        lambda: (checkout / "day.py").unlink(),
        lambda: (checkout / "inputs.json").write_text("<<<<<<< HEAD", encoding="utf-8"),
    ):
        change()
        assert (made_again(), made_again()) == (list(WANTED), [])
    (checkout / "another.py").touch()
    assert made_again() == []
    assert current.differences(["1.1"], fresh=True) == []
    assert made == ["1.1"]


def test_what_cannot_be_made_changes_nothing(root, monkeypatch):
    def fail(names):
        raise ValueError("no such mistake")

    monkeypatch.setattr(current, "_make", fail)
    before = {file: file.read_bytes() for file in root[0].rglob("*.*") if file.is_file()}
    with pytest.raises(ValueError, match="no such mistake"):
        current.refresh(fresh=True)
    assert {file: file.read_bytes() for file in root[0].rglob("*.*") if file.is_file()} == before


def test_the_inputs_of_a_file_are_those_that_it_opens():
    """Scripts and what they import, the registry, the known mistakes, the record, the model, what is not there."""
    made = current._make(["2.1"])["2.1"]
    assert made.text == parts.present_text("2.1")
    assert {
        "benches/week2/day1.json",
        "book/generate/week1/heads.py",
        "book/generate/week2/day1.py",
        "book/quizzes/week2/day1.py",
        "book/transcripts/scenarios.toml",
        "models/tiny-qwen3",
        "models/tiny-qwen3/model.safetensors",
        "solutions/tiny_llm/qwen3_cached/model.py",
        "src/tiny_llm_course/course/tasks/week4.toml",
        "src/tiny_llm_course/dev/book/drawing/canvas.py",
        "tests/week1/formulas.py",
        "tests/week2/variants_2_1_1.py",
    } <= {*made.inputs}
    assert all((ROOT / name).exists() for name in made.inputs)
    assert "book/generate/week4/week.py" in current._make(["4"])["4"].inputs


def test_every_generated_file_has_a_key():
    kept = json.loads(current.KEYS.read_text(encoding="utf-8"))
    assert [*kept] == [current.EVERY, *names_of_files(load_course())]
