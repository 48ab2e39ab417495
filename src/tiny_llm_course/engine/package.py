"""One of the two packages, ready to run outside its tests: started, built, imported, with the borrowed tasks."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.features import LLAMA3, rope_table, rope_type
from ..course.entities import Target
from ..course.registry import UsageError, load_course
from ..grading.build import must_be_built
from ..grading.exceptions import learners_code, must_be_started
from ..learner import progress
from ..paths import LEARNER, SOLUTION, put_first
from ..programs import borrowing
from ..programs.packages import SOLUTION_NAME, LearnerError, installed, load_solution
from . import stages


class Package:
    """The package of an engine that needs some tasks; raise LearnerError if the learner's code is not ready."""

    def __init__(self, solution: bool, needs: Sequence[str]) -> None:
        self.package = SOLUTION if solution else LEARNER
        self.borrowed = () if solution else progress.borrowed_tasks()
        self.unproven = () if solution else stages.unproven(needs)
        self.package_name = SOLUTION_NAME if solution else "tiny_llm"
        must_be_started(self.unproven, self.package)
        must_be_built([load_course().task(task) for task in needs], self.package)
        if solution:
            load_solution()
        else:
            put_first(LEARNER)
            borrowing.install(self.borrowed)

    def quantized(self, checkpoint: Checkpoint) -> dict[str, mx.array]:
        """Return a checkpoint's weights, quantized to its `bits`, if any, by the package's own code."""
        if checkpoint.bits is None:
            return checkpoint.weights
        if (width := checkpoint.config["hidden_size"]) % 64:
            raise UsageError(f"{checkpoint.folder} has hidden_size = {width}, but --bits needs a multiple of 64.")
        own, weights = self.part("quantized.parts", "Quantized")(bits=checkpoint.bits), dict(checkpoint.weights)
        for layer in [name.removesuffix(".weight") for name, weight in weights.items() if weight.ndim == 2]:
            if packed := own.packed(checkpoint.weights, layer):
                weights |= zip((f"{layer}.{part}" for part in ("weight", "scales", "biases")), packed, strict=True)
        return weights

    @contextmanager
    def scaled_rope(self, *built: tuple[Any, dict[str, Any]]) -> Iterator[None]:
        """Let `rotation_angles` return scaled angles while models are built, each of a config and its config.json.

        The classes of weeks 1 to 3 know a base only, so Llama 3's frequencies come in by their function of angles.
        """
        tables: dict[tuple[int, int, float], tuple[float, ...]] = {}
        for config, entries in built:
            names = ("factor", *LLAMA3) if rope_type(entries) == "llama3" else ()
            scaling = tuple(rope_table(entries)[name] for name in names)
            if (
                tables.setdefault((config.head_dim, config.max_position_embeddings, config.rope_theta), scaling)
                != scaling
            ):
                raise UsageError("The two models scale the same RoPE differently: the one cannot draft for the other.")
        if not any(tables.values()):
            yield
            return
        plain, scaled = (
            self.part(*where)
            for where in (("positional_encoding", "rotation_angles"), ("long_context.llama3", "llama3_frequencies"))
        )
        used = set[tuple[int, int, float]]()

        def angles(dims: int, seq_len: int, base: float) -> Any:
            used.add(key := (dims, seq_len, base))
            if not (scaling := tables.get(key)):
                return plain(dims, seq_len, base)
            return mx.arange(seq_len, dtype=mx.float32)[:, None] * scaled(dims, base, *scaling)

        with installed(Target("positional_encoding", "rotation_angles"), angles, self.package_name):
            yield
        if any(scaling and key not in used for key, scaling in tables.items()):
            raise LearnerError(
                "RoPE does not call rotation_angles when it is built, so Llama 3's scaling cannot reach it."
            )

    def target(self, target: Target) -> Any:
        """Return a class or function by its name in the registry."""
        return self.part(target.module, target.name)

    def part(self, module: str, name: str) -> Any:
        """Return the same by its module inside the package and its name."""
        return getattr(importlib.import_module(f"{self.package_name}.{module}"), name)

    def learners_code(self) -> AbstractContextManager[None]:
        """Turn what the package raises into a LearnerError."""
        return learners_code(self.package)
