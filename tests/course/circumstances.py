"""The circumstances that the table of `test_robustness.py` grades in: how it is run, and what was done before."""

import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fcntl import ioctl
from pathlib import Path

import psutil
from tests.course.terminal import all_of


def run(command: list[str], checkout: Path, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(errors="replace")


def on_a_narrow_terminal(
    command: list[str], checkout: Path, environment: dict[str, str], columns: int = 40
) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, cwd=checkout, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    output = all_of(ours)
    return process.wait(), re.sub(r"\x1b\[[0-9;]*m", "", output.decode().replace("\r\n", "\n"))


def without_streams(command: list[str], checkout: Path, environment: dict[str, str]) -> tuple[int, str]:
    """All three standard streams closed."""
    done = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command], cwd=checkout, env=environment)
    return done.returncode, ""


def without_stdin(command: list[str], checkout: Path, environment: dict[str, str]) -> tuple[int, str]:
    return run(["sh", "-c", '"$@" <&-', "sh", *command], checkout, environment)


def child_killed(command: list[str], checkout: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Somebody kills the grading process, which is then at an endless loop."""
    process = subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (checkout / "looping").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    for child in psutil.Process(process.pid).children():
        child.kill()
    return process.wait(), process.communicate()[0]


def twice_at_once(command: list[str], checkout: Path, environment: dict[str, str]) -> tuple[int, str]:
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: run(command, checkout, environment), range(2))
    assert first == second
    return first


def rewritten(change: Callable[[bytes], bytes], file: str = "src/tiny_llm/basics.py") -> Callable[[Path], None]:
    def prepare(checkout: Path) -> None:
        (checkout / file).write_bytes(change((checkout / file).read_bytes()))

    return prepare


def without(file: str) -> Callable[[Path], None]:
    return lambda checkout: (checkout / file).unlink()


def read_only(checkout: Path) -> None:
    """Nothing can be written: also for a superuser, whom no permission stops, files are where folders would be."""
    for folder in [checkout, *checkout.glob("src/*/"), *checkout.glob("tests/*/")]:
        if folder.is_dir():
            shutil.rmtree(folder / "__pycache__", ignore_errors=True)
            (folder / "__pycache__").touch()
    for name in (".hypothesis", ".pytest_cache", ".tiny-llm"):
        (checkout / name).touch()
    for path in sorted(checkout.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    checkout.chmod(0o555)


def scratch_files(checkout: Path) -> None:
    """Files of the learner's in the checkout that are named like libraries, or like pytest's own."""
    for name in ("random", "json", "numpy", "statistics", "test", "conftest"):
        (checkout / f"{name}.py").write_text("raise SystemExit('scratch')", encoding="utf-8")
    for folder in (checkout, checkout / "tests"):
        (folder / "pytest.ini").write_text("[pytest]\naddopts = -k nothing\n", encoding="utf-8")


def package_in_the_way(checkout: Path) -> None:
    """A package of the learner's with the name of a library, where Python looks."""
    (checkout / "src" / "mlx").mkdir()
    (checkout / "src" / "mlx" / "__init__.py").touch()
