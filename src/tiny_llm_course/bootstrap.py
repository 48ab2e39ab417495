"""What `pdm run test` and its sisters start: install the course's packages if they are missing, then run its program.

A clone is ready after one command this way. Only the standard library may be imported before the packages are there.
PDM starts it with `python -S`: a src/sitecustomize.py could end any other Python before its first line.
"""

import sys
from os import chdir, environ, execv, path

# Python puts a script's folder first on the path. The course's modules must not be taken for the library's.
if path.realpath(sys.path[0]) == path.dirname(path.realpath(__file__)):
    sys.path.pop(0)

import shutil
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
# What the program cannot start without. PDM installs the project itself last.
PACKAGES = (
    "mlx",
    "numpy",
    "regex",
    "jinja2",
    "click",
    "rich",
    "watchfiles",
    "starlette",
    "uvicorn",
    "pydantic",
    "psutil",
    "pytest",
    "hypothesis",
    "py_mini_racer",
    "tiny_llm_course",
)
# Set while this script starts itself again, so that it does so once.
AGAIN = "TINY_LLM_BOOTSTRAP_AGAIN"


def missing_packages() -> list[str]:
    """Return the names of the packages that this Python does not find."""
    return [name for name in PACKAGES if find_spec(name) is None]


def fail(message: str) -> NoReturn:
    """Print one line and leave with the status for wrong use."""
    from tiny_llm_course.terminal.screen import say

    say(message, err=True)
    sys.exit(2)


def install_packages() -> None:
    """Run `pdm install` in the project; leave with one line about it if that does not work."""
    pdm = shutil.which("pdm")
    if pdm is None:
        fail("The course's packages are not installed, and pdm is not on the PATH: run `pdm install` yourself.")
    from tiny_llm_course.terminal.screen import say

    # All on stderr, as what the command itself prints may be on its way into a file.
    say("First run: installing the course's packages, about 230 MB, which takes one to three minutes.", err=True)
    say("If PDM has just warned about the Python version, no harm: it does so whenever it makes a .venv.", err=True)
    settings = environ | {"PDM_CHECK_UPDATE": "0", "PDM_NON_INTERACTIVE": "1"}
    try:
        status = subprocess.run(
            [pdm, "install"], cwd=ROOT, env=settings, stdin=subprocess.DEVNULL, stdout=sys.__stderr__
        ).returncode
    except OSError:
        status = 1
    if status != 0:
        fail("The course's packages could not be installed; PDM says above why. To try again: pdm install")


def go_where_the_person_stands() -> None:
    """PDM runs a command in the project's folder. The paths that are typed begin in the folder they are typed in."""
    root, here = environ.get("PDM_PROJECT_ROOT"), environ.pop("PDM_RUN_CWD", None)
    if root and here and Path(root).resolve() == ROOT:  # not those of another project's run that has led here
        with suppress(OSError):  # the folder is gone meanwhile
            chdir(here)


def find_packages() -> None:
    """Let Python find what is installed, as it does by itself without -S; not if a file of the learner's would run."""
    if not sys.flags.no_site:
        return
    sys.path.append(str(ROOT / "src"))
    from tiny_llm_course.doctor.strangers import run_at_start

    if told := run_at_start():
        fail(told)
    sys.path.pop()
    import site

    site.main()


def start() -> None:
    """Run the course's program with this command line, in an environment that has its packages."""
    find_packages()
    started_again = environ.pop(AGAIN, None) is not None
    missing = missing_packages()
    if missing:  # the course itself may be among them; what follows needs no other
        sys.path.insert(0, str(ROOT / "src"))
    if missing and sys.argv[1:] == ["doctor"]:  # it must say what is wrong, and change nothing
        from tiny_llm_course.doctor.doctor import examine

        sys.exit(examine())
    if missing:
        if started_again:
            fail(f"Not installed for {sys.executable}: {', '.join(missing)}. Run `pdm install`, then `pdm run test`.")
        install_packages()
        environ[AGAIN] = "1"
        execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    go_where_the_person_stands()
    from tiny_llm_course.commands.cli import main

    main()


if __name__ == "__main__":
    try:
        start()
    except KeyboardInterrupt:
        sys.exit(130)
