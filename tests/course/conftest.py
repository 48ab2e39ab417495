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
from tests import tested
from tests.course.fork_server import fork_from_now_on

from tiny_llm_course.commands import cli
from tiny_llm_course.dev import machine
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
# Where a test's pytest has no settings of the course: another package's plugin may need seconds to be imported.
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
# A script in the background ignores Ctrl-C, and what it starts inherits that: the programs that tests interrupt, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


HERE = Path(__file__).parent
EVERYTHING = "everything"  # the part that each file depends on: it starts programs, which may read anything
GUARDS = 4  # files that are tested although nothing has changed
# They take a minute or more, so they start first: at the end, each would leave the other cores idle.
LONGEST = ("test_new_week", "test_unearned", "test_robustness", "test_book", "test_training", "test_first_drafts")
RECORDER = pytest.StashKey[tested.Recorder]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--as-tested", action="store_true", help="Skip files of tests/course that passed for this content."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECORDER] = recorder = tested.Recorder(config, HERE)
    config.pluginmanager.register(recorder)


@pytest.hookimpl(trylast=True)  # when tests that are not asked for have been left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what has passed for the same content; of a copy with a new week, leave out the other weeks'."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    if new := os.environ.get("TINY_LLM_NEW_WEEK"):
        others = re.compile(rf"(?:week)?(?!{new}\b)[1-9][./]")
        items[:] = [item for item in items if not (hasattr(item, "callspec") and others.match(item.callspec.id))]
    if not config.option.as_tested or config.option.collectonly:
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    recorder, units = config.stash[RECORDER], {}
    recorder.content = content_of_the_course()
    for file, tests in files.items():
        # A file's tests of one run: those for maintainers run apart from the others.
        unit = f"{len(tests)} tests, {tested.hash_of(sorted(item.nodeid for item in tests))}"
        units[unit] = tests
        for item in tests:
            recorder.note(item, file.relative_to(config.rootpath).as_posix(), [EVERYTHING], unit, len(tests))
    recorder.skip(units, recorder.content, GUARDS, "without --as-tested it runs")


def content_of_the_course() -> tested.Content:
    """Hash the harness with its tests, and the course; on another kind of machine, nothing counts as tested."""
    files: dict[str, str] = {}
    for name in ("src", "tests", "packages", "solutions", "book", "benches", "models"):
        files |= tested.hashes(ROOT / name)
    for file in sorted(file for file in ROOT.iterdir() if file.suffix in (".md", ".toml", ".lock")):
        files[file.name] = tested.hash_of(file.read_text(encoding="utf-8"))
    return tested.Content({EVERYTHING: tested.hash_of(files)}, machine.in_words())


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
    from tests.course.checkpoint_folders import write_checkpoint

    return lambda model, **parts: write_checkpoint(tmp_path / f"model{len(list(tmp_path.iterdir()))}", model, **parts)


@pytest.fixture(scope="session")
def trial_model() -> Path:
    """A small trained model, where the machine has it."""
    folder = Path(os.environ.get("TINY_LLM_DATA") or ROOT.parent / "shared" / "data") / "trial-model"
    if not folder.is_dir():
        pytest.skip("not run here: there is no trial model (TINY_LLM_DATA names the folder that holds it)")
    return folder
