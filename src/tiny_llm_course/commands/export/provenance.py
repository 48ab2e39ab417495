"""What was graded, by what and where: hashes, git's word on the tests, versions. So that a teacher can compare."""

import dataclasses
import hashlib
import platform
import sys
from pathlib import Path

from ...doctor.git import ask_git, steering
from ...doctor.machine import version_of
from ...paths import COURSE, LEARNER, REGISTRY, ROOT, TESTS, WATCHERS

PACKAGES = ("tiny-llm", "mlx", "numpy", "pytest", "hypothesis")
# All that decides a verdict and is not the learner's; a file in the root can steer pytest too.
STEERING = (f":(glob){folder}*.{kind}" for folder in ("", "src/") for kind in ("toml", "py", "ini", "cfg"))
GRADER = ("tests", *(f"src/{folder.name}" for folder in (COURSE, *WATCHERS)), "solutions", *STEERING)


@dataclasses.dataclass(frozen=True)
class Commit:
    """The commit that is checked out, and which of the grader's files are not as it has them."""

    commit: str
    changed: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Where an export comes from. Hashes are SHA-256, by the file's path from the root of the checkout."""

    time: str
    graded: dict[str, str]  # the learner's files
    grader: dict[str, str]  # the tests, the variants, the registry, and what steers pytest or Python beside them
    grader_hash: str  # one for all that decides a verdict: the above, and the harness's own code
    git: Commit | None
    versions: dict[str, str]
    platform: str


def of(time: str) -> Provenance:
    """The provenance of what is graded here at this time."""
    tests = [file for folder in sorted(TESTS.glob("week*")) for file in _files(folder)]
    grader = _hashes([*tests, *_files(REGISTRY), *(file for file in steering() if file not in tests)])
    harness = [file for folder in (COURSE, *WATCHERS) for file in _files(folder)]
    every = {**_hashes(harness, COURSE.parents[1]), **grader}
    together = "\n".join(f"{name} {digest}" for name, digest in sorted(every.items()))
    return Provenance(
        time,
        _hashes(_files(LEARNER)),
        grader,
        hashlib.sha256(together.encode()).hexdigest(),
        _commit(),
        {"python": platform.python_version(), **{name: version_of(name) or "unknown" for name in PACKAGES}},
        f"{sys.platform} {platform.machine()}",
    )


def _files(folder: Path) -> list[Path]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [f for f in files if not any(p.startswith((".", "__pycache__")) for p in f.relative_to(folder).parts)]


def _hashes(files: list[Path], root: Path = ROOT) -> dict[str, str]:
    return {file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _commit() -> Commit | None:
    """What git says; None where there is no git, or no commit."""
    head = ask_git("rev-parse", "HEAD")
    status = ask_git("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--", *GRADER)
    if head.returncode or status.returncode:
        return None
    return Commit(head.stdout.strip(), tuple(sorted(entry[3:] for entry in status.stdout.split("\0") if entry)))
