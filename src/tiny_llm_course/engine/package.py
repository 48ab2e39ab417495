"""One of the two packages, ready to run outside its tests: started, built, imported, with the borrowed tasks."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.weights import open_weights, storage_of
from ..course.entities import Target
from ..course.registry import UsageError, load_course
from ..grading.build import must_be_built
from ..grading.exceptions import learners_code, must_be_started
from ..learner import progress
from ..paths import EMBEDDED_MODEL, LEARNER, SOLUTION, put_first
from ..programs import borrowing, kernels
from ..programs.packages import SOLUTION_NAME, LearnerError, installed, load_solution
from . import stages


class Package:
    """The package of an engine that needs some tasks; raise LearnerError if the learner's code is not ready."""

    def __init__(self, solution: bool, needs: Sequence[str]) -> None:
        self.package = SOLUTION if solution else LEARNER
        course = load_course()
        used = {each for need in needs for each in (*course.needs(need), need)}
        self.borrowed = () if solution else progress.on_reference(used)
        lent = () if solution else progress.on_reference()
        self.unproven = () if solution else stages.unproven(needs)
        self.package_name = SOLUTION_NAME if solution else "tiny_llm"
        must_be_started(self.unproven, self.package)
        must_be_built(tasks := [course.task(task) for task in needs], self.package)
        if any(task.target.file.endswith(".metal") for task in tasks):
            kernels.install(lent)
        if solution:
            load_solution()
        else:
            put_first(LEARNER)
            borrowing.install(lent)

    def quantized(self, checkpoint: Checkpoint) -> dict[str, mx.array]:
        """Return a checkpoint's weights, quantized to its `bits`, if any, by the package's own code."""
        weights = dict(checkpoint.weights)
        weights |= self.part("config", "zero_biases")(checkpoint.config, weights["model.norm.weight"].dtype)
        if checkpoint.bits is None:
            return weights
        if (width := checkpoint.config["hidden_size"]) % 64:
            raise UsageError(f"{checkpoint.folder} has hidden_size = {width}, but --bits needs a multiple of 64.")
        own = self.part("quantized.parts", "Quantized")(bits=checkpoint.bits)
        for layer in [name.removesuffix(".weight") for name, weight in weights.items() if weight.ndim == 2]:
            if packed := own.packed(checkpoint.weights, layer):
                weights |= zip((f"{layer}.{part}" for part in ("weight", "scales", "biases")), packed, strict=True)
        return weights

    def adapter(self, folder: Path) -> Any:
        """Return the LoRA adapter of a folder, loaded by the package's own code; raise UsageError if it is none."""
        try:
            adapter = self.part("lora.files", "load_adapter")(folder)
        except NotImplementedError:  # a stub, which is a RuntimeError too
            raise
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            why = f"adapter_config.json has no {error}" if isinstance(error, KeyError) else error
            raise UsageError(f"{folder} is not an adapter that can be loaded: {why}") from error
        if not adapter.weights:
            raise UsageError(f"{folder} is not an adapter that can be loaded: its file of weights has no tensors")
        return adapter

    @contextmanager
    def scaled_rope(self, *configs: dict[str, Any]) -> Iterator[None]:
        """Let `rotation_angles` scale the angles of Llama 3 while models are built, each of a config.json."""
        target = Target("positional_encoding", "rotation_angles")
        angles = self.part("long_context.llama3", "ScaledAngles")(self.target(target), configs)
        with installed(target, angles, self.package_name) if angles.missed else nullcontext():
            yield
        if angles.missed:
            raise LearnerError("RoPE.__init__ does not call rotation_angles and cannot scale; --stage further can.")

    def target(self, target: Target) -> Any:
        """Return a class or function by its name in the registry."""
        return self.part(target.module, target.name)

    def part(self, module: str, name: str) -> Any:
        """Return the same by its module inside the package and its name."""
        return getattr(importlib.import_module(f"{self.package_name}.{module}"), name)

    def learners_code(self) -> AbstractContextManager[None]:
        """Turn what the package raises into a LearnerError."""
        return learners_code(self.package)


def may_pack(folder: Path, config: dict[str, Any], bits: int | None) -> bool:
    """Return whether a stage that packs may be the default: with `bits`, without loss, or for the course's two models.

    Raise UsageError if the weights are quantized already, and `bits` given.
    """
    words, alike = storage_of(open_weights(folder), config.get("quantization"))
    if bits and "-bit" in words:
        raise UsageError(f"{folder} has {words} weights; --bits quantizes weights of full precision only.")
    ours = folder.resolve() in (EMBEDDED_MODEL, EMBEDDED_MODEL.with_name("tiny-qwen3-draft"))
    return alike or bits is not None or ours


def runs(name: str, checkpoint: Checkpoint, weights: dict[str, mx.array], packs: bool, simulated: bool = False) -> str:
    """Return what runs in a line, such as "fused, 4-bit weights made from bfloat16"."""
    hidden, table = checkpoint.config["hidden_size"], weights["model.embed_tokens.weight"]
    kept = f"{32 * table.shape[-1] // hidden}-bit" if table.dtype == mx.uint32 else "4-bit"
    if table.dtype != mx.uint32 and (not packs or hidden % 64):
        kept = str(table.dtype).removeprefix("mlx.core.")
    made = "as stored" if kept == checkpoint.stored_as else f"made from {checkpoint.stored_as}"
    return f"{name}, {kept} weights {made}{', on the simulator' * simulated}"
