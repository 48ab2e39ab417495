"""Proofs of `dev check` are kept until something changes that they read."""

import dataclasses
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tiny_llm_course.course.nouns import Task
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev import kept, reached
from tiny_llm_course.dev.planted import Claims
from tiny_llm_course.dev.proof import Proof, Proven, prove
from tiny_llm_course.paths import LEARNER, REGISTRY, ROOT, SOLUTION

TODAY = "2026-12-02"


def proven(task: Task, checks: int = 0, wrong: int = 0) -> Proven:
    return Proven(Proof(task.id, checks=checks, wrong=wrong), Claims(task.id, planted=2))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "proofs")


@pytest.fixture
def task() -> Task:
    return load_course().task("1.1.1")


def test_a_proof_comes_back_as_it_was(task: Task) -> None:
    assert kept.look_up([task]) == {}
    kept.keep({task: proven(task, checks=3, wrong=5)}, TODAY)
    assert kept.look_up([task]) == {task: kept.Kept(proven(task, checks=3, wrong=5), TODAY)}


def test_a_problem_and_what_cannot_be_read_are_not_kept(task: Task) -> None:
    faulty = proven(task)
    faulty.proof.problems.append("one")
    kept.keep({task: faulty}, TODAY)
    assert kept.look_up([task]) == {}
    kept.keep({task: proven(task)}, TODAY)
    kept.path(task.week).write_text("{", encoding="utf-8")
    assert kept.look_up([task]) == {}


def test_a_proof_of_another_machine_counts_only_there(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.keep({task: proven(task)}, TODAY)
    monkeypatch.setattr(kept, "in_words", lambda: "another")
    assert kept.look_up([task]) == {}
    kept.keep({task: proven(task)}, TODAY)
    assert len(json.loads(kept.path(task.week).read_text(encoding="utf-8"))[task.id]) == 2
    monkeypatch.setattr(kept, "key", lambda task: "changed")
    kept.keep({task: proven(task)}, TODAY)
    assert len(json.loads(kept.path(task.week).read_text(encoding="utf-8"))[task.id]) == 1


def test_the_prose_of_a_registry_entry_belongs_to_no_key(task: Task) -> None:
    key_of = kept._without_prose
    assert key_of(dataclasses.replace(task, hints=("another",), minutes=1, difficulty=5)) == key_of(task)
    assert key_of(dataclasses.replace(task, forbidden=())) != key_of(task)
    assert key_of(dataclasses.replace(task, title="Another")) != key_of(task)  # which the stub raises


def test_a_kernel_that_is_launched_by_name_belongs_to_the_key() -> None:
    """Tasks 2.6.x launch kernels of two files; a header reaches every kernel that is compiled beside it."""
    for name, file in (("2.6.4", "metal/sum_of_parts.metal"), ("2.4.1", "kernels/quantized.h")):
        assert {SOLUTION / file, LEARNER / file} <= reached.files_of(load_course().task(name))


@pytest.mark.parametrize(("name", "data"), [("1.2.1", ".npz"), ("2.5.1", ".metal")])
def test_every_file_that_a_proof_opens_changes_its_key(name: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are recorded while a real proof runs, in a process of its own, and not guessed from imports."""
    task = load_course().task(name)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found, others, opened = pool.submit(prove, [task]).result()
    assert not others
    assert not found[task.id].problems
    assert not reached.left_out(opened, [task])
    files = sorted(file for file in opened if not file.is_relative_to(REGISTRY))  # of which it has the entries
    assert {data, ".py"} <= {file.suffix for file in files}
    before, contents = kept.key(task), kept._content
    assert len(files) > 50
    for file in files:
        monkeypatch.setattr(kept, "_content", lambda one, file=file: "changed" if one == file else contents(one))
        assert kept.key(task) != before, file.relative_to(ROOT)
