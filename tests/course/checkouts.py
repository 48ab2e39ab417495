"""Checkouts of the fixture course, in `fixture`: two days of five small tasks, graded in half a second."""

from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.source.package import stub_package

FIXTURE = Path(__file__).with_name("fixture")


def fixture(*solved: str, edits: tuple[Edit, ...] = ()) -> AbstractContextManager[Path]:
    """One in which these tasks are solved, and the learner's files edited."""
    return checkout_for(Scenario("fixture", (), solved, edits, FIXTURE))


def replace(file: Path, old: str, new: str) -> None:
    """Put other words in the place of some that stand there."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


@cache
def stubs_of_the_course() -> dict[str, str]:
    """The files of the learner's package as they are generated now."""
    return stub_package(SOLUTION, load_course())
