"""What was graded, by which code, where: hashes, git's view of the tests, versions, for a teacher to compare."""

import dataclasses
import hashlib
import platform
import sys
from pathlib import Path

from ...course.file_paths import name_of
from ...doctor.git import ask_git, changed, differ, steering
from ...doctor.machine import version_of
from ...paths import COURSE, LEARNER, REGISTRY, ROOT, TESTS, WATCHERS
from ...programs.parts import differing
from ...source.package import files_of

PACKAGES = ("tiny-llm", "mlx", "numpy", "pytest", "hypothesis")


@dataclasses.dataclass(frozen=True)
class Commit:
    """The checked-out commit, and which of the grader's files differ from the published ones."""

    commit: str
    changed: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where an export comes from. Hashes are SHA-256, keyed by the path from the checkout's root."""

    time: str
    graded: dict[str, str]  # the learner's files
    grader: dict[str, str]  # tests, variants, registry, and files that configure pytest or Python
    grader_hash: str  # over everything that decides a verdict: the above and the harness's own code
    git: Commit | None
    not_used: tuple[str, ...]  # the learner's copies of given files that differ from the published ones
    versions: dict[str, str]
    platform: str


def of(time: str) -> Provenance:
    """Return the provenance of an export made in this checkout at `time`."""
    tests = [file for folder in sorted(TESTS.glob("week*")) for file in _files(folder)]
    grader = _hashes([*tests, *_files(REGISTRY), *(file for file in steering() if file not in tests)])
    harness = [file for folder in (COURSE, *WATCHERS) for file in _files(folder)]
    every = {**_hashes(harness, COURSE.parents[1]), **grader}
    head = ask_git("rev-parse", "HEAD")
    together = "\n".join(f"{name} {digest}" for name, digest in sorted(every.items()))
    return Provenance(
        time,
        _hashes(_files(LEARNER)),
        grader,
        hashlib.sha256(together.encode()).hexdigest(),
        None if head.returncode else Commit(head.stdout.strip(), tuple(changed([*tests, TESTS]))),
        tuple(map(name_of, differing())),
        {"python": platform.python_version(), **{name: version_of(name) or "unknown" for name in PACKAGES}},
        f"{sys.platform} {platform.machine()}",
    )


def _files(folder: Path) -> list[Path]:
    return [file for name in files_of(folder) if (file := folder / name).is_file()]


def _hashes(files: list[Path], root: Path = ROOT) -> dict[str, str]:
    return {file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def warnings(source: Provenance) -> list[str]:
    """Return what a teacher should know of the graded checkout, a line each."""
    others = source.git.changed if source.git else ()
    found = (("files", others), ("given files are not used, as they", source.not_used))
    return [differ(words, files) for words, files in found if files]
