"""`dev english`: it finds the phrases that the course avoids, and its limits only go down."""

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


def test_limits_are_set_once_and_then_only_go_down(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert english.main(update=False) == 1
    assert english.main(update=True) == 0
    assert settings.read_text(encoding="utf-8") == SETTINGS + '[limits]\n"day1.py" = 2\n"speculative.md" = 2\n'
    page = english.files()[1]
    page.write_text("Nobody.\n\nNobody comes, nobody goes, nobody stays.\n", encoding="utf-8")
    capsys.readouterr()
    assert english.main(update=True) == 1
    assert "speculative.md: 3 avoided phrases, at most 2 allowed: nobody 3" in capsys.readouterr().out
    page.write_text("Nobody comes.\n", encoding="utf-8")
    assert english.main(update=True) == 0
    assert settings.read_text(encoding="utf-8").endswith('"speculative.md" = 1\n')
