"""`pdm run check`: everything that CI runs, for those who work on the course."""

import os
import shutil
import subprocess

import click

from .paths import ROOT
from .registry import UsageError


@click.command()
def check() -> int:
    """Run all that CI runs, on this machine: tests, linters, types, the book. It takes minutes."""
    script = ROOT / ".ci" / "run"
    bash = shutil.which("bash")
    if bash is None:
        raise UsageError(
            "This needs bash, which is not on the PATH. Without it: pdm run test-all, then pdm run dev check"
        )
    if not script.is_file():
        raise UsageError("There is no .ci/run in this checkout. To get it back: git restore .ci/run")
    # The script makes and uses the checkout's own environment, whichever one this is.
    environment = {name: value for name, value in os.environ.items() if name not in ("PDM_PROJECT_ROOT", "PYTHONPATH")}
    return subprocess.run([bash, str(script)], cwd=ROOT, env=environment).returncode
