"""What `pdm install` ends with: PyTorch on Linux, where pip would take its CPU build, and nothing otherwise.

PyTorch is an oracle of the tests. macOS has it as an ordinary dependency. On Linux its ordinary build is gigabytes of
CUDA, so it comes only if the learner's own pip settings lead to a CPU build of the very version that the course pins.
Without it the values recorded from PyTorch stand in. Whatever happens here, the installation goes on.

`TINY_LLM_TORCH=0` leaves PyTorch out.
"""

import sys
from os import environ, path

# Python puts a script's folder first on the path. The course's modules must not be taken for the library's.
if path.realpath(sys.path[0]) == path.dirname(path.realpath(__file__)):
    sys.path.pop(0)

import json
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASKING_SECONDS = 60
INSTALLING_SECONDS = 1800
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--timeout", "10", "--retries", "1")


def tell(line: str) -> None:
    """Print a line, as wide as the terminal."""
    sys.path.append(str(ROOT / "src"))
    from tiny_llm_course.terminal.screen import say

    say(line)


def pinned_version() -> str:
    """Return the version of PyTorch that the course pins for macOS, such as `2.13.0`."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        dependencies: list[str] = tomllib.load(file)["project"]["dependencies"]
    requirement = next(entry for entry in dependencies if entry.startswith("torch=="))
    return requirement.partition(";")[0].removeprefix("torch==").strip()


def installed_version() -> str | None:
    """Return the version of PyTorch that is installed here, with its build: `2.13.0+cpu`."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def version_for_pip(pin: str) -> str | None:
    """Return the version that pip would install for the pin, or None if it finds none in time."""
    options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-")
    command = (*PIP, "install", *options, "--only-binary", ":all:", f"torch=={pin}")
    asked = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ASKING_SECONDS, check=True
    )
    found: str = json.loads(asked.stdout)["install"][0]["metadata"]["version"]
    return found


def install(exact: str) -> None:
    """Install this version of PyTorch with pip, which shows how far it is."""
    tell(f"PyTorch {exact}, for a second opinion on your results: installing, about 200 MB.")
    command = (*PIP, "install", "--only-binary", ":all:", f"torch=={exact}")
    subprocess.run(command, stdin=subprocess.DEVNULL, timeout=INSTALLING_SECONDS, check=True)


def outcome() -> str | None:
    """Do what there is to do and return one line about it; None if nothing was to be done."""
    if sys.platform != "linux":
        return None
    if environ.get("TINY_LLM_TORCH") == "0":
        return "PyTorch is left out, as TINY_LLM_TORCH=0 asks; its recorded values stand in."
    left_out = "PyTorch is left out: pip finds no CPU build of it here. Its recorded values stand in."
    try:
        pin = pinned_version()
        installed = installed_version()
        # Any other build than ours is the learner's own choice, and so is its version.
        if installed is not None and (installed == f"{pin}+cpu" or not installed.endswith("+cpu")):
            return None
        if find_spec("pip") is None:
            return left_out
        tell("PyTorch: asking pip whether it has a CPU build.")
        found = version_for_pip(pin)
        if found != f"{pin}+cpu":
            return left_out
        install(found)
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, StopIteration):
        return left_out
    return f"PyTorch {found} is installed."


if __name__ == "__main__":
    line = outcome()
    if line is not None:
        tell(line)
