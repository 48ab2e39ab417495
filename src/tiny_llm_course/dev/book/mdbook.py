"""Run mdBook with this environment's programs first, so that `python` in book.toml is this interpreter."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...course.registry import UsageError
from ...paths import BOOK
from . import page_metadata


def run_mdbook(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run mdBook with these arguments; the options are those of `subprocess.run`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    program = shutil.which("mdbook", path=path)
    if program is None:
        raise UsageError("mdBook, a package of the course, is not installed. Run `pdm install`.")
    # mdBook's own message is enough; hide its backtrace.
    environment = {**os.environ, "PATH": path, "RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0"}
    return subprocess.run([program, *arguments], env=environment, text=True, **options)


def build_book(folder: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Build the book in `folder`, as it is published; the options are those of `subprocess.run`."""
    done = run_mdbook("build", str(BOOK), "--dest-dir", str(folder), **options)
    if not done.returncode:
        page_metadata.complete(folder)
    return done
