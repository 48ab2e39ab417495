"""`dev english`: it finds the phrases that the course avoids, and fails if there are any."""

from pathlib import Path

import pytest

from tiny_llm_course.dev import english

SETTINGS = """[phrases]
'\\bnobody\\b' = "name the actor"
'\\bguess\\b' = "draft token"

[only]
'\\bguess\\b' = 'speculative'

"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "speculative.md").write_text("Nobody makes a guess. `nobody`\n\n```\nnobody\n```\n", encoding="utf-8")
    (pages / "day1.py").write_text('"""A guess\nof nobody."""\nx = f"{1} nobody"  # nobody,\n', encoding="utf-8")
    monkeypatch.setattr(english, "SETTINGS", tmp_path / "english.toml")
    monkeypatch.setattr(english, "files", lambda: sorted(pages.iterdir()))
    monkeypatch.setattr(english, "name_of", lambda file: file.name)
    english.SETTINGS.write_text(SETTINGS, encoding="utf-8")
    return english.SETTINGS


def test_prose_is_counted_and_code_is_not(settings: Path) -> None:
    page, module = (list(english.sentences(file)) for file in reversed(english.files()))
    assert page == ["Nobody makes a guess."]
    assert module == ["A guess of nobody.", "X nobody"], "a comment of one word is no sentence"


def test_each_phrase_is_listed_with_its_file_and_what_to_write(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert english.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert "day1.py: 2 x 'nobody'; write: name the actor" in lines
    assert "speculative.md: 1 x 'guess'; write: draft token" in lines
    assert not [line for line in lines if line.startswith("day1.py") and "guess'" in line], (
        "a guess is only wrong there"
    )
    assert lines[-1] == "4 avoided phrases in 2 of 2 files"


def test_without_any_it_passes(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in english.files():
        file.unlink()
    assert english.main() == 0
    assert capsys.readouterr().out == "0 avoided phrases in 0 of 0 files\n"
