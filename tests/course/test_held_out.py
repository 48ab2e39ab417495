"""The stories that come with the course to judge models by."""

import os
import string
from pathlib import Path

import gather_stories
import pytest

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.checkpoints.held_out import END, HeldOut, shipped_stories
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.paths import EMBEDDED_MODEL, ROOT
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.training.stories import unseen

STORIES = shipped_stories()


@pytest.fixture(scope="module")
def lengths() -> list[int]:
    load_solution()
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    return [len(tokenizer.encode(story)) for story in STORIES]


def test_about_twenty_most_of_them_short_and_some_long(lengths):
    assert 18 <= len(STORIES) <= 24
    assert len(set(STORIES)) == len(STORIES)
    assert sum(60 <= length <= 250 for length in lengths) >= 15
    assert 2 <= sum(length > 450 for length in lengths) <= 3
    assert max(lengths) < load_checkpoint(EMBEDDED_MODEL).config["max_position_embeddings"] / 2


def test_they_are_written_as_the_tokenizer_knows_it(lengths):
    allowed = set(string.ascii_letters + " \n.,!?:;'\"-")
    for story, length in zip(STORIES, lengths, strict=True):
        assert set(story) <= allowed
        assert "\n\n" not in story
        assert len(story) / length > 3  # the tokens of the text that it was made from have 3.7 letters


def test_they_are_not_in_the_text_that_the_models_learned():
    folder = Path(os.environ.get("TINY_LLM_DATA") or ROOT.parent / "shared" / "data") / "tinystories"
    files = [source for source in gather_stories.SOURCES if (folder / source.name).is_file()]
    if not files:
        pytest.skip("not run here: there is no training text (TINY_LLM_DATA names the folder that holds it)")
    text = [story for s in files for story in s.divide((folder / s.name).read_bytes().decode(errors="ignore"))]
    assert unseen(STORIES, text) == STORIES
    assert unseen([text[7]], text) == []


def test_lines_of_comment_are_no_part_of_a_story(tmp_path):
    file = tmp_path / "stories.txt"
    file.write_text(f"# For all.\nOne # two.\nThree.\n{END}\n# More.\nFour.\n{END}\n", encoding="utf-8")
    assert shipped_stories(file) == ["One # two.\nThree.", "Four."]
    with pytest.raises(UsageError, match=r"nowhere\.txt cannot be read"):
        shipped_stories(tmp_path / "nowhere.txt")


def test_bits_per_byte_by_hand():
    """Two rows, with three and one predicted tokens of 0.5 bits each, for 8 bytes."""
    judges = HeldOut([[0, 1, 2, 0], [0, 0]], 8)
    assert judges.predicted == 4
    assert judges.bits_per_byte(0.5 * 0.6931471805599453) == pytest.approx(0.25)
