"""The entry point of `pdm run test` and the others: install missing packages, with the standard library, then run.

PDM starts it with `python -S`, because a src/sitecustomize.py could end Python before its first line.
"""

import sys
from os import chdir, environ, execv, path

# Python puts a script's folder first on the path, where the course's modules would shadow the standard library's.
if path.realpath(sys.path[0]) == path.dirname(path.realpath(__file__)):
    sys.path.pop(0)

import shutil
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
# What the program needs to start. PDM installs the project itself last.
PACKAGES = ["mlx", "numpy", "regex", "jinja2", "click", "rich", "watchfiles", "starlette", "uvicorn", "pydantic"]
PACKAGES += ["httpx", "psutil", "greenlet", "pytest", "hypothesis", "py_mini_racer", "tiny_llm_course"]
# Set when this script restarts itself, which it does only once.
AGAIN = "TINY_LLM_BOOTSTRAP_AGAIN"


def fail(message: str) -> NoReturn:
    """Print one line and exit with 2, the code for wrong use."""
    from tiny_llm_course.terminal.screen import say

    say(message, err=True)
    sys.exit(2)


def install_packages() -> None:
    """Run `pdm install` in the project; exit with one line if that fails."""
    pdm = shutil.which("pdm")
    if pdm is None:
        fail("The course's packages are not installed, and pdm is not on the PATH: install PDM, then `pdm install`.")
    from tiny_llm_course.terminal.screen import say

    # On stderr, because the command's own output may go to a file.
    say("First run: installing the course's packages, about 230 MB, in one to three minutes.", err=True)
    say("You can ignore PDM's warning about the Python version: it appears whenever PDM creates a .venv.", err=True)
    settings = environ | {"PDM_CHECK_UPDATE": "0", "PDM_NON_INTERACTIVE": "1"}
    try:
        status = subprocess.run(
            [pdm, "install"], cwd=ROOT, env=settings, stdin=subprocess.DEVNULL, stdout=sys.__stderr__
        ).returncode
    except OSError:
        status = 1
    if status != 0:
        fail("The course's packages could not be installed; see PDM's output above. To retry: pdm install")


def return_to_typed_folder() -> None:
    """Change back to the folder in which the user typed the command; PDM runs it in the project's root."""
    root, here = environ.get("PDM_PROJECT_ROOT"), environ.pop("PDM_RUN_CWD", None)
    if root and here and Path(root).resolve() == ROOT:  # not another project's `pdm run` that led here
        with suppress(OSError):  # the folder no longer exists
            chdir(here)


def find_packages() -> None:
    """Make installed packages importable despite -S, unless a file of the learner's would run at start-up."""
    if not sys.flags.no_site:
        return
    sys.path.append(str(ROOT / "src"))
    from tiny_llm_course.doctor.shadowing import startup_problem

    if problem := startup_problem():
        fail(problem)
    sys.path.pop()
    import site

    site.main()


def start() -> None:
    """Run the course's command line, in an environment that has its packages."""
    find_packages()
    started_again = environ.pop(AGAIN, None) is not None
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:  # the course itself may be missing; the code below needs no other package
        sys.path.insert(0, str(ROOT / "src"))
    if missing and sys.argv[1:] == ["doctor"]:  # doctor reports and changes nothing
        from tiny_llm_course.doctor.doctor import examine

        sys.exit(examine())
    if missing:
        if started_again:
            fail(f"Not installed for {sys.executable}: {', '.join(missing)}. Run `pdm install`, then `pdm run test`.")
        install_packages()
        environ[AGAIN] = "1"
        execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    return_to_typed_folder()
    from tiny_llm_course.commands.cli import main

    main()


if __name__ == "__main__":
    try:
        start()
    except KeyboardInterrupt:
        sys.exit(130)
