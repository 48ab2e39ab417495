"""The end of `pdm install`: on Linux, install PyTorch, an oracle of the tests, if pip would choose its CPU build.

macOS has it as a dependency. Linux's default build is gigabytes of CUDA, so it needs pip settings that resolve to a CPU
build of the pinned version; else recorded values are used. Never fails the installation. `TINY_LLM_TORCH=0` skips it.
"""

import sys
from os import environ, path

# Python puts a script's folder first on the path, where the course's modules would shadow the standard library's.
if path.realpath(sys.path[0]) == path.dirname(path.realpath(__file__)):
    sys.path.pop(0)

import json
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESOLVE_SECONDS = 60
INSTALL_SECONDS = 1800
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--timeout", "10", "--retries", "1")


def tell(line: str) -> None:
    """Print a line, wrapped to the terminal."""
    sys.path.append(str(ROOT / "src"))
    from tiny_llm_course.terminal.screen import say

    say(line)


def pinned_version() -> str:
    """Return PyTorch's pinned version for macOS, such as `2.13.0`."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        dependencies: list[str] = tomllib.load(file)["project"]["dependencies"]
    requirement = next(entry for entry in dependencies if entry.startswith("torch=="))
    return requirement.partition(";")[0].removeprefix("torch==").strip()


def installed_version() -> str | None:
    """Return PyTorch's installed version with its build, `2.13.0+cpu`."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def version_for_pip(pin: str) -> str | None:
    """Return the version that pip would install for the pin."""
    options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-")
    command = (*PIP, "install", *options, "--only-binary", ":all:", f"torch=={pin}")
    asked = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=True
    )
    found: str = json.loads(asked.stdout)["install"][0]["metadata"]["version"]
    return found


def install(exact: str) -> None:
    """Install this version of PyTorch with pip, which shows its progress."""
    tell(f"Installing PyTorch {exact}, a second reference for your results, about 200 MB.")
    command = (*PIP, "install", "--only-binary", ":all:", f"torch=={exact}")
    subprocess.run(command, stdin=subprocess.DEVNULL, timeout=INSTALL_SECONDS, check=True)


def outcome() -> str | None:
    """Install PyTorch if appropriate and return one line about it; None if there was nothing to do."""
    if sys.platform != "linux":
        return None
    if environ.get("TINY_LLM_TORCH") == "0":
        return "PyTorch is skipped (TINY_LLM_TORCH=0); its recorded values are used."
    skipped = "PyTorch is skipped: pip finds no CPU build here. Its recorded values are used."
    try:
        pin = pinned_version()
        installed = installed_version()
        # Any build other than ours, and its version, is the learner's own choice.
        if installed is not None and (installed == f"{pin}+cpu" or not installed.endswith("+cpu")):
            return None
        if find_spec("pip") is None:
            return skipped
        tell("PyTorch: checking whether pip offers a CPU build.")
        found = version_for_pip(pin)
        if found != f"{pin}+cpu":
            return skipped
        install(found)
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, StopIteration):
        return skipped
    return f"PyTorch {found} is installed."


if __name__ == "__main__":
    line = outcome()
    if line is not None:
        tell(line)
