"""The files of generated parts: what stands in them, and how one that is not current is named."""

import pytest

from tiny_llm_course.dev.book import listings, parts

WANTED = {("1.1", "tasks"): "one\n", ("1.1", "hints-1"): "two\n\nlines\n", ("1", "map"): "a map\n"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of generated files as they should be."""
    folder = tmp_path / "generated"
    for module in (listings, parts):
        monkeypatch.setattr(module, "FOLDER", folder)
    monkeypatch.setattr("tiny_llm_course.course.places.ROOT", tmp_path)
    monkeypatch.setattr(listings, "generated_parts", lambda course: dict(WANTED))
    assert listings.write() == ["1.1.md", "1.md"]
    return folder


def test_a_part_is_read_as_it_was_written(folder):
    assert {place: parts.present(*place) for place in WANTED} == WANTED
    assert parts.present("1.1", "quiz") == parts.present("1.2", "tasks") == ""
    assert listings.write() == listings.differences() == []


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        ("1.1.md", "two", "three", "generated/1.1.md:hints-1 is out of date"),
        ("1.1.md", "hints-1", "hints-2", "generated/1.1.md:hints-1 is missing"),
        ("1.1.md", "hints-1", "hints-2", "generated/1.1.md:hints-2 is not generated any more"),
        ("1.1.md", "-->\n\n<!--", "-->\n<!--", "generated/1.1.md is out of date"),
        ("1.md", "", "", "generated/1.md is missing"),
        ("1.2.md", "", "# more", "generated/1.2.md is not generated any more"),
    ],
)
def test_what_is_not_current_is_named_by_file_and_anchor(folder, name, old, new, line):
    file = folder / name
    if not new:
        file.unlink()
    else:
        file.write_text(file.read_text(encoding="utf-8").replace(old, new) if old else new, encoding="utf-8")
    assert f"{line} (pdm run dev book)" in listings.differences()
    assert listings.write() == [name]
    assert listings.differences() == []
