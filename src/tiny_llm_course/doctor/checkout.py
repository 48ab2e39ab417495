"""Checks of the checkout: the course's files, the model, git, write access, other copies."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..paths import EMBEDDED_MODEL, LEARNER, REGISTRY, ROOT, SOLUTION, shell_path
from ..source.package import files_of
from . import Check, Line
from .git import ask_git, restoring

BUILT_FROM = "built-from"  # a file in the build folder: `mlx 0.32.4 HASH`, the hash of all inputs
PROBE = 1 << 20  # bytes written to find out whether that is possible
ROOM = 1 << 30  # bytes that a package update may need


def course() -> Iterator[Line]:
    """Report which course this is, and whether another copy shadows it."""
    try:
        number = version("tiny-llm")
    except PackageNotFoundError:
        yield Line("course", "is not installed in this environment.", fix="pdm install", stops=True)
        return
    here = Path.cwd().resolve()
    if here != ROOT and (here / "src" / "tiny_llm_course").is_dir():
        text = f"this environment runs the course of {ROOT}, not of {here}."
        yield Line("course", text, fix="pdm install", stops=True)
        return
    yield Line("course", f"tiny-llm {number}, {ROOT}")
    own = {LEARNER.parent, SOLUTION.parent}
    for entry in dict.fromkeys(Path(entry or ".").resolve() for entry in sys.path):
        for name in ("tiny_llm", "tiny_llm_course"):
            if entry not in own and ((entry / name).is_dir() or (entry / f"{name}.py").is_file()):
                from_variable = str(entry) in os.environ.get("PYTHONPATH", "").split(os.pathsep)
                fix = "unset PYTHONPATH" if from_variable else "pdm sync --reinstall"
                yield Line("course", f"another {name} is on Python's path: {entry / name}.", fix=fix)


def files() -> Iterator[Line]:
    """Check that the learner's files and the tests are all there."""
    from ..course.file_paths import asks_pytorch, day_files, recordings_path
    from ..course.registry import load_course

    try:
        days = load_course().days()
    except (OSError, ValueError) as error:
        fix = f"git restore {shell_path(REGISTRY)}"
        yield Line("files", f"the task registry cannot be read: {error}.", fix=fix, stops=True)
        return
    wanted = [LEARNER / file for file in files_of(SOLUTION)]
    wanted += [file for day in days for file in day_files(day)]
    wanted += [recordings_path(day) for day in days if asks_pytorch(day)]
    missing = restoring(file for file in dict.fromkeys(wanted) if not file.is_file())
    for fix, names in missing.items():
        yield Line("files", f"{len(names)} missing: {', '.join(names)}.", fix=fix, stops=True)
    if not missing:
        counts = f"{sum(not day.is_open for day in days)} days, {sum(len(day.tasks) for day in days)} tasks"
        yield Line("files", f"{counts}; yours are in {LEARNER.relative_to(ROOT).as_posix()}")


def kernels() -> Iterator[Line]:
    """Report whether the learner's C++ is built, and for which MLX."""
    from ..course.registry import load_course

    for recipe in dict.fromkeys(week.build for week in load_course().weeks if week.build):
        folder = (LEARNER / recipe).parent
        name = folder.relative_to(ROOT).as_posix()
        try:
            of, number, _ = (folder / ".build" / BUILT_FROM).read_text(encoding="utf-8").split(" ")
        except (OSError, ValueError):
            text = f"{name} is not built yet: commands that need it build it, as does pdm run build-ext"
            yield Line("kernels", text, absent=True)
            continue
        text = f"{name} is built, for {of} {number}"
        if (installed := version(of)) != number:
            text = f"{name} is built for {of} {number}, but {installed} is installed: commands that need it rebuild it"
        yield Line("kernels", text, absent=installed != number)


def model() -> Iterator[Line]:
    """Check that the model included in the course is there."""
    name = EMBEDDED_MODEL.relative_to(ROOT).as_posix()
    config, weights = EMBEDDED_MODEL / "config.json", EMBEDDED_MODEL / "model.safetensors"
    fix = f"git restore {shell_path(EMBEDDED_MODEL)}"
    if not config.exists() and not weights.exists():
        text = f"{name} is not part of this checkout: generate and chat need --model"
        is_part = not ask_git("ls-files", "--error-unmatch", f"{name}/config.json").returncode
        yield Line("model", f"{name} is missing.", fix=fix) if is_part else Line("model", text, absent=True)
        return
    try:
        kind = json.loads(config.read_text(encoding="utf-8"))["model_type"]
        size = weights.stat().st_size
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Line("model", f"{name} cannot be read: {type(error).__name__}: {error}.", fix=fix)
        return
    if size < 1 << 16:  # a git-lfs pointer, or an interrupted download
        yield Line("model", f"{name}/{weights.name} has only {size} bytes.", fix=fix)
    else:
        yield Line("model", f"{name}: {kind}, {size / 1e6:.1f} MB")


def git() -> Iterator[Line]:
    """Check that `sync` has git, a repository and a remote."""
    if shutil.which("git") is None:
        install = "xcode-select --install" if sys.platform == "darwin" else "sudo apt-get install git"
        yield Line("git", "not on the PATH: sync needs it.", fix=install)
    elif ask_git("rev-parse", "--git-dir").returncode:
        yield Line("git", "this folder is not a git clone: sync and git restore need one.", fix="git init")
    elif not (remotes := ask_git("remote").stdout.split()):
        yield Line("git", "no remote to sync with.", fix="git remote add upstream URL")
    else:
        chosen = next((name for name in ("upstream", "origin") if name in remotes), remotes[0])
        yield Line("git", f"sync uses the remote {chosen}")


def writing() -> Iterator[Line]:
    """Check that the learner's files and .tiny-llm can be written, and that there is disk space."""
    memory = ROOT / ".tiny-llm"
    places = [LEARNER, *(LEARNER / file for file in files_of(LEARNER)), *([memory] if memory.exists() else [ROOT])]
    if memory.exists() and not memory.is_dir():
        text = ".tiny-llm is a file; the course needs a folder of this name."
        yield Line("writing", text, fix="mv .tiny-llm tiny-llm.old")
        places.remove(memory)
    if memory.is_dir():
        places += filter(Path.is_dir, memory.iterdir())
    if denied := [place.relative_to(ROOT).as_posix() for place in places if not os.access(place, os.W_OK)]:
        text = f"cannot be written: {', '.join(denied[:3])}{' and others' * (len(denied) > 3)}."
        tops = [name for name in denied if not any(name.startswith(f"{other}/") for other in denied)]
        yield Line("writing", text, fix=f"chmod -R u+w {' '.join(tops)}", stops=any("src" in name for name in denied))
    elif why := not_written(folder := memory if memory.is_dir() else LEARNER):
        yield Line("writing", f"{folder} cannot be written: {why}.", fix=f"df -h {shell_path(folder)}", stops=True)
    else:
        yield Line("writing", "your files and .tiny-llm can be written")
    if (free := shutil.disk_usage(ROOT).free) < ROOM:
        yield Line("disk", f"{free / 1e9:.1f} GB are free; an update may need 1 GB.", fix="pdm cache clear")
    else:
        yield Line("disk", f"{free / 1e9:.0f} GB are free")


def not_written(folder: Path) -> str:
    """Return why a file in a folder cannot be written, such as a full disk; "" if it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE))
    except OSError as error:
        return error.strerror or str(error)
    return ""


CHECKS: tuple[Check, ...] = (course, files, kernels, model, git, writing)
