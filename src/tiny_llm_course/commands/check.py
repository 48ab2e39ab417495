"""`pdm run check`, everything that CI runs, and `pdm run doctor`, what could be in the way."""

import os
import shutil
import subprocess

import click

from ..course.registry import UsageError
from ..paths import ROOT, typed


@click.command(short_help="Run all that CI runs.")
def check() -> int:
    """Run all that CI runs, on this machine: tests, linters, types, the book. It takes minutes."""
    script = ROOT / ".ci" / "run"
    bash = shutil.which("bash")
    if bash is None:
        raise UsageError("This needs bash, which is not on the PATH. Without it:", "pdm run test-all")
    if not script.is_file():
        raise UsageError("There is no .ci/run in this checkout. To get it back:", f"git restore {typed(script)}")
    # The script finds the environment by itself, as it does in CI.
    environment = {name: value for name, value in os.environ.items() if name not in ("PDM_PROJECT_ROOT", "PYTHONPATH")}
    return 1 if subprocess.run([bash, str(script)], cwd=ROOT, env=environment).returncode else 0


@click.command(short_help="Say what is installed, what can be checked, and what to mend.")
def doctor() -> int:
    """Say what this machine and this checkout can do, and how to mend what is wrong; 1 if that stops the course."""
    from ..doctor.doctor import examine

    return examine()
