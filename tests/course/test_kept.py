"""Proofs of `dev check` are kept until something changes that they read."""

import dataclasses
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tiny_llm_course.course.entities import Task
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev import proof_inputs, proof_store
from tiny_llm_course.dev.fault_injection import DiagnosisScore
from tiny_llm_course.dev.proof import Proof, Proven, prove
from tiny_llm_course.paths import LEARNER, REGISTRY, ROOT, SOLUTION

pytestmark = pytest.mark.maintainers
TODAY = "2026-12-02"


def proven(task: Task, checks: int = 0, wrong: int = 0) -> Proven:
    return Proven(Proof(task.id, checks=checks, wrong=wrong), DiagnosisScore(task.id, planted=2))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_store, "FOLDER", tmp_path / "proofs")


@pytest.fixture
def task() -> Task:
    return load_course().task("1.1.1")


def test_a_proof_comes_back_as_it_was(task: Task) -> None:
    assert proof_store.look_up([task]) == {}
    proof_store.keep({task: proven(task, checks=3, wrong=5)}, TODAY)
    assert proof_store.look_up([task]) == {task: proof_store.Kept(proven(task, checks=3, wrong=5), TODAY)}


def test_a_problem_and_what_cannot_be_read_are_not_kept(task: Task) -> None:
    faulty = proven(task)
    faulty.proof.problems.append("one")
    proof_store.keep({task: faulty}, TODAY)
    assert proof_store.look_up([task]) == {}
    proof_store.keep({task: proven(task)}, TODAY)
    proof_store.path(task.week).write_text("{", encoding="utf-8")
    assert proof_store.look_up([task]) == {}


def test_a_proof_of_another_machine_counts_only_there(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    proof_store.keep({task: proven(task)}, TODAY)
    monkeypatch.setattr(proof_store, "in_words", lambda: "another")
    assert proof_store.look_up([task]) == {}
    proof_store.keep({task: proven(task)}, TODAY)
    assert len(json.loads(proof_store.path(task.week).read_text(encoding="utf-8"))[task.id]) == 2
    monkeypatch.setattr(proof_store, "key", lambda task: "changed")
    proof_store.keep({task: proven(task)}, TODAY)
    assert len(json.loads(proof_store.path(task.week).read_text(encoding="utf-8"))[task.id]) == 1


def test_the_prose_of_a_registry_entry_belongs_to_no_key(task: Task) -> None:
    key_of = proof_store._without_prose
    assert key_of(dataclasses.replace(task, hints=("another",), minutes=1, difficulty=5)) == key_of(task)
    assert key_of(dataclasses.replace(task, forbidden=())) != key_of(task)
    assert key_of(dataclasses.replace(task, title="Another")) != key_of(task)  # which the stub raises


def test_of_pyproject_only_what_a_proof_can_read_belongs_to_the_key() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    read = proof_store._what_a_proof_reads
    for old, new in (("line-length = 120", "line-length = 99"), ("Run every test of the course.", "Another.")):
        assert old in text
        assert read(text.replace(old, new)) == read(text)
    for old, new in (('"mlx==', '"mlx!='), ("--import-mode=importlib", "--import-mode=append"), (">=3.11,", ">=3.12,")):
        assert old in text
        assert read(text.replace(old, new)) != read(text)


def test_a_kernel_that_is_launched_by_name_belongs_to_the_key() -> None:
    """Tasks 2.6.x launch kernels of two files; a header reaches every kernel that is compiled beside it."""
    for name, file in (("2.6.4", "metal/sum_of_parts.metal"), ("2.4.1", "kernels/quantized.h")):
        assert {SOLUTION / file, LEARNER / file} <= proof_inputs.files_of(load_course().task(name))


@pytest.mark.parametrize(("name", "data"), [("1.2.1", ".npz"), ("2.5.1", ".metal")])
def test_every_file_that_a_proof_opens_changes_its_key(name: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are recorded while a real proof runs, in a process of its own, and not guessed from imports."""
    task = load_course().task(name)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found, others, opened = pool.submit(prove, [task]).result()
    assert not others
    assert not found[task.id].problems
    assert not proof_inputs.left_out(opened, [task])
    files = sorted(file for file in opened if not file.is_relative_to(REGISTRY))  # of which it has the entries
    assert {data, ".py"} <= {file.suffix for file in files}
    before, contents = proof_store.key(task), proof_store._content
    assert len(files) > 50
    for file in files:
        monkeypatch.setattr(proof_store, "_content", lambda one, file=file: "changed" if one == file else contents(one))
        assert proof_store.key(task) != before, file.relative_to(ROOT)
