"""PyTorch's recorded answers stand in for PyTorch, and for these inputs only."""

import ast
import hashlib
import importlib.util
import sys
import tomllib
import types

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.paths import ROOT
from tiny_llm_course.testkit.recordings import Recordings
from tiny_llm_course.testkit.rounding import to_float64

torch_is_here = importlib.util.find_spec("torch") is not None


def test_a_missing_recording_names_the_command(tmp_path):
    with pytest.raises(LookupError, match=r"pdm run dev record --week 2 --day 3$"):
        Recordings(tmp_path / "week2" / "torch_day3.npz", "recorded").answer("test", lambda torch, x: x, mx.ones(2))


@pytest.mark.skipif(not torch_is_here, reason="not run here: PyTorch is not installed")
def test_an_answer_is_recorded_found_and_checked(tmp_path):
    path, x = tmp_path / "torch.npz", mx.array([1.0, 2.0])
    recording = Recordings(path, "record")
    assert recording.answer("test", lambda torch, x, n: x * n, x, n=3).tolist() == [3.0, 6.0]
    recording.save()
    first = path.read_bytes()
    recording.save()
    assert path.read_bytes() == first

    def never(torch, x, n):
        raise AssertionError("the recording must be enough")

    assert Recordings(path, "recorded").answer("test", never, x, n=3).tolist() == [3.0, 6.0]
    with pytest.raises(LookupError):
        Recordings(path, "recorded").answer("test", never, x + 1, n=3)
    Recordings(path, "torch").answer("test", lambda torch, x, n: x * n, x, n=3)
    with pytest.raises(AssertionError, match="stale recording"):
        Recordings(path, "torch").answer("test", lambda torch, x, n: x * n + 0.1, x, n=3)


@pytest.mark.parametrize(("mode", "answers"), [("torch", True), ("record", False)])
def test_without_transformers_the_recorded_answer_counts_and_nothing_is_recorded(tmp_path, monkeypatch, mode, answers):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(from_numpy=np.array))
    monkeypatch.setitem(sys.modules, "transformers", None)
    path, x = tmp_path / "torch.npz", mx.array([1.0, 2.0])
    recording = Recordings(path, "record")

    def theirs(torch, x):
        import transformers

        return transformers.doubled(x)

    digest = hashlib.sha256(str(to_float64(x).tolist()).encode()).hexdigest()[:12]
    recording._used[f"test/{digest}"] = np.array([2.0, 4.0], dtype=np.float32)
    recording.save()
    if answers:
        assert Recordings(path, mode).answer("test", theirs, x).tolist() == [2.0, 4.0]
    else:
        with pytest.raises(ModuleNotFoundError, match="transformers"):
            Recordings(path, mode).answer("test", theirs, x)


def test_a_partial_recording_keeps_the_rest(tmp_path):
    path = tmp_path / "torch.npz"
    np.savez(path, other=np.zeros(1))
    part = Recordings(path, "record")
    part._used["mine"] = np.ones(1, dtype=np.float32)
    part.save(complete=False)
    assert set(np.load(path)) == {"mine", "other"}
    part.save()
    assert set(np.load(path)) == {"mine"}


def test_the_default_imports_no_torch(tmp_path):
    path = tmp_path / "torch.npz"
    np.savez(path, nothing=np.zeros(1))
    with pytest.raises(LookupError):
        Recordings(path, "recorded").answer("test", lambda torch: torch, mx.ones(1))


def test_graded_tests_import_the_libraries_of_maintainers_in_what_is_recorded_only():
    """A learner's machine has none of them: a test that imports one itself would fail there, and nowhere in CI."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["dev"]
    tools = {"torch", *(tool.partition(">")[0].replace("-", "_") for tool in tools)}
    found, wrong = 0, []
    for file in ROOT.glob("tests/week*/test_*.py"):
        # Each node with the innermost function around it.
        nodes: list[tuple[ast.AST, str]] = [(ast.parse(file.read_text(encoding="utf-8")), "test_ at import")]
        while nodes:
            node, function = nodes.pop()
            function = getattr(node, "name", function)
            nodes += [(inner, function) for inner in ast.iter_child_nodes(node)]
            imported = [name.name for name in getattr(node, "names", []) if isinstance(node, ast.Import)]
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if tools & {name.partition(".")[0] for name in imported}:
                found += 1
                wrong += [f"{file.name}:{node.lineno}"] if function.startswith("test_") else []
    assert found > 10
    assert wrong == []
