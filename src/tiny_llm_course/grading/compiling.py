"""Compile kernels that are called one by one, and turn a compiler's errors about a package's files into findings."""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from memory_watch.building import Source

from ..course.entities import Task
from ..course.findings import Finding, Kind, shortened
from ..course.registry import load_course
from ..course.requirements import missing
from ..learner import progress
from ..paths import LEARNER, ROOT
from ..programs.kernels import AT_ONCE, built
from ..programs.parts import NotBuilt, header_folders, solved_part, with_part

SIMULATOR = "the Metal simulator"
REPORTED = 3  # of a compiler's errors
ERROR = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<what>.+)$", re.MULTILINE)
LINKER = re.compile(r"^.*(?:[Uu]ndefined |error).*$", re.MULTILINE)


def is_called_alone(task: Task) -> bool:
    """Return whether grading a task calls its kernel directly, so that only its file has to be compiled."""
    calls = load_course().week(task.week).calls
    return bool(calls) and task.target.is_cpp and not missing([*task.requires, "compiler"])


def compiled(tasks: Sequence[Task], packages: Iterable[Path]) -> dict[str, Finding]:
    """Compile the files of some kernels in these packages; return the finding by task id where that fails."""
    files = {package / task.target.file: package for package in packages for task in tasks}
    jobs = [(file, files[file], checked) for file in files if file.is_file() for checked in (True, False)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = list(pool.map(_compiled, jobs))
    failed = {job[:2]: finding for job, finding in zip(jobs, said, strict=True) if finding}
    pairs = [(task.id, job) for job in failed for task in tasks if job[1] / task.target.file == job[0]]
    return {task: failed[job] for task, job in pairs}


def without_simulator(tasks: Iterable[Task]) -> dict[str, Finding]:
    """Compile the Metal simulator if a task needs it; return the finding by task id where that fails."""
    course = load_course()
    used = {task.id: (task, *map(course.task, course.needs(task.id))) for task in tasks}
    wanted = [name for name, some in used.items() if any("simulator" in each.requires for each in some)]
    if not wanted or missing(["simulator"]):
        return {}
    from ..programs import launches  # imports MLX

    try:
        launches.prepare()
    except NotBuilt as error:
        return dict.fromkeys(wanted, Finding(Kind.NOT_BUILT, shortened(str(error)), place=SIMULATOR))
    return {}


def _compiled(job: tuple[Path, Path, bool]) -> Finding | None:
    file, package, checked = job
    try:
        built(Source(with_borrowed_parts(package, file), file, header_folders(file)), checked)
    except NotBuilt as error:
        return complaint(str(error), package) or last_words(str(error), file.relative_to(ROOT).as_posix(), "")
    return None


def borrowed_parts(package: Path, place: Path) -> list[tuple[Task, str]]:
    """Return the borrowed and skipped tasks whose parts are in a file or folder of a package, each with our lines."""
    tasks = progress.on_reference() if package == LEARNER else ()
    found = [t for t in tasks if not t.target.is_python and (package / t.target.file).is_relative_to(place)]
    return [(task, solved_part(task.target)) for task in found]


def with_borrowed_parts(package: Path, file: Path) -> str:
    """Return the text of a file, with the borrowed parts replaced by our lines."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    for task, lines in borrowed_parts(package, file):
        text = with_part(text, task.target, lines)
    return text


def complaint(words: str, folder: Path) -> Finding | None:
    """Return a finding with the compiler's first errors about the package's own files; None if there is none."""
    own = []
    for error in ERROR.finditer(words):
        file = (folder / error["file"]).resolve()
        if file.is_relative_to(folder.resolve()) and file.is_file():
            place = (folder / file.relative_to(folder.resolve())).relative_to(ROOT)
            own.append((f"{place.as_posix()}:{error['line']}", error["what"], source_line(file, int(error["line"]))))
    if not own:
        return None
    (first, what, line), *others = own[:REPORTED]
    more = [shortened(f"{where}  {complaint}") for where, complaint, _ in others]
    headline = shortened(f"{first} does not compile: {what}")
    return Finding(Kind.NOT_BUILT, headline, (shortened(line), *more), place=first)


def source_line(file: Path, number: int) -> str:
    """Return a line of a file, stripped; "" if there is none."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()[number - 1].strip()
    except (OSError, IndexError):
        return ""


def last_words(words: str, folder: str, why: str) -> Finding:
    """Return the finding where no line is to blame: what the linker or the build program printed."""
    lines = [line.strip() for line in words.replace(f"{ROOT}/", "").splitlines() if line.strip()]
    said = [line for line in lines if LINKER.match(line)] or lines[-1:] or [why or "the compiler printed nothing"]
    told = tuple(map(shortened, said[1:REPORTED]))
    return Finding(Kind.NOT_BUILT, shortened(f"{folder} cannot be built: {said[0]}"), told, place=folder)
