"""The languages that a learner writes in, by file suffix. All other files are data."""

from pathlib import PurePosixPath

from ..course.entities import Target
from .marked import Marked
from .python import Python

CPP = Marked("throw std::runtime_error({});", fence="cpp")
METAL = Marked("#error {}", fence="cpp")
LANGUAGES: dict[str, Python | Marked] = {".py": Python(), ".cpp": CPP, ".h": CPP, ".metal": METAL}


def language_of(file: str) -> Python | Marked | None:
    """Return the language of a file by its path; None for data."""
    return LANGUAGES.get(PurePosixPath(file).suffix)


def language_of_target(target: Target) -> Python | Marked:
    """Return the language of a target, which the registry guarantees to exist."""
    return LANGUAGES[PurePosixPath(target.file).suffix]
