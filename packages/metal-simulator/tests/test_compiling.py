"""Kernels are compiled once, kept by their content, and thrown away when there are too many."""

import os
import time
from pathlib import Path

import pytest

from memory_watch.compiling import forget_old
from metal_simulator import NoCompiler, compiling

from .right.elementwise import AXPY


def libraries() -> set[Path]:
    return set(compiling.folder().glob("[0-9a-f]*.so"))


def test_a_kernel_is_compiled_once():
    AXPY.run()
    before = libraries()
    AXPY.run()
    assert libraries() == before
    AXPY.run(f"{AXPY.source}// {time.time_ns()}")
    assert len(libraries() - before) == 1


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path):
    for i in range(6):
        (tmp_path / f"{i}.so").touch()
        os.utime(tmp_path / f"{i}.so", (i, i))
    forget_old(tmp_path, most=4)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["3.so", "4.so", "5.so"]


def test_says_which_compiler_does_not_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("METAL_SIMULATOR_CXX", "no-such-compiler")
    with pytest.raises(NoCompiler, match="no-such-compiler does not run"):
        AXPY.run()


def test_says_how_to_get_a_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("METAL_SIMULATOR_CXX", raising=False)
    with pytest.raises(NoCompiler, match="install one: "):
        AXPY.run()
