"""What the tests of loading, generating and chatting share: a writer of checkpoint folders, and a trained model."""

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import settings
from tests.course.checkpoint_folders import write_checkpoint
from tests.course.fork_server import fork_from_now_on

from tiny_llm_course.commands import cli
from tiny_llm_course.learner import progress
from tiny_llm_course.paths import ROOT

# A course of its own, which is graded in copies.
collect_ignore = ["fixture"]
fork_from_now_on()
# How long an example takes says how busy the machine is.
settings.register_profile("course", deadline=None)
settings.load_profile("course")
# The device of the harness's own tests: the one that every machine has.
mx.set_default_device(mx.cpu)
# pytest-xdist tells its workers a width, which would come before that of a test's terminal.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
# A script in the background ignores Ctrl-C, and what it starts inherits that: the programs that tests interrupt, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a copy of the course with a new week, leave out what a test says of each day, task and page of other weeks."""
    if new := os.environ.get("TINY_LLM_NEW_WEEK"):
        others = re.compile(rf"(?:week)?(?!{new}\b)[1-9][./]")
        items[:] = [item for item in items if not (hasattr(item, "callspec") and others.match(item.callspec.id))]


@pytest.fixture
def typed(monkeypatch, capsys, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """The program, here, with a memory of its own: `typed("test", "1.1")` gives its exit code and outputs."""
    monkeypatch.setattr(progress, "FILE", tmp_path / "progress.json")
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tiny-llm", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """`checkpoint(model, ...)` writes a folder and gives its path; the arguments are those of `write_checkpoint`."""
    return lambda model, **parts: write_checkpoint(tmp_path / f"model{len(list(tmp_path.iterdir()))}", model, **parts)


@pytest.fixture(scope="session")
def trial_model() -> Path:
    """A small trained model, where the machine has it."""
    folder = Path(os.environ.get("TINY_LLM_DATA") or ROOT.parent / "shared" / "data") / "trial-model"
    if not folder.is_dir():
        pytest.skip("not run here: there is no trial model (TINY_LLM_DATA names the folder that holds it)")
    return folder
