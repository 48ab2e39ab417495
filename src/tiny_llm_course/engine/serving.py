"""Serve many requests by the learner's scheduler or ours: a checkpoint in, a scheduler out."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..checkpoints.chat_template import check_template
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.features import unsupported_features
from ..course.entities import Mode
from ..course.registry import UsageError, load_course
from ..course.requirements import missing
from ..learner import progress
from .engine import configured, read_model
from .package import Package, may_pack, runs
from .stages import named, runnable, simulated

WITH_ADAPTERS = ("static", "continuous", "chunked", "paged")  # a prefix cache would mix their keys and values
ADAPTER_TASKS = ("5.5.2", "5.5.4", "5.5.5")  # what serving an adapter needs, besides a mode


@dataclasses.dataclass(frozen=True)
class Limits:
    """A scheduler's limits; None means the default of `engines.modes.Limits`."""

    max_num_seqs: int | None = None  # maximum number of running requests
    max_num_batched_tokens: int | None = None  # token budget of a step
    kv_cache_bytes: int | None = None  # for keys and values
    page_size: int | None = None  # tokens per page
    num_speculative_tokens: int | None = None  # draft tokens per request and step
    int8: bool | None = None  # whether activations may be rounded to 8 bits


class ServingEngine(Package):
    """A scheduler and a tokenizer, built from a checkpoint; `draft` is a draft model, `kernels` allows C++ kernels.

    `adapters` are folders of LoRA adapters by name, each of which a request may use; they exclude the kernels.
    Raise LearnerError if the learner's code is not finished, or fails, UsageError if the limits are too narrow.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        solution: bool,
        mode: Mode,
        limits: Limits,
        draft: Checkpoint | None = None,
        kernels: bool = True,
        adapters: Mapping[str, Path] | None = None,
    ) -> None:
        self.mode, self.checkpoint, self.adapters = mode, checkpoint, tuple(adapters or ())
        self.fused = kernels and has_kernels(mode, solution)  # whether the fused model may be used
        self.lacks_kernels = kernels and not self.fused
        tasks = ADAPTER_TASKS if adapters else ()
        super().__init__(solution, (*mode.needs, *(mode.kernels if self.fused else ()), *tasks))
        given = {name: value for name, value in dataclasses.asdict(limits).items() if value is not None}
        with self.learners_code():
            weights = self.quantized(checkpoint)
            packs = self.fused or "kernels" in mode.requires
            self.runs = runs(mode.name, checkpoint, weights, packs, simulated(mode))
            config = self._config(checkpoint)
            self.context_length: int = config.max_position_embeddings
            if draft:
                given["draft_model"] = self._config(draft), self.quantized(draft)
            given.setdefault("kv_cache_bytes", self._default_memory(config, weights, given))
            self.limits = self.part("engines.modes", "Limits")(fused=self.fused, **given)
            make = self.target(mode.make)
            try:
                with self.scaled_rope(*(each.config for each in (checkpoint, draft) if each)):
                    self.scheduler: Any = make(config, weights, self.limits)
            except ValueError as error:
                raise UsageError(f"{checkpoint.folder} cannot be served: {error}") from error
            self.adapted: Any = self._adapted(config, weights, adapters) if adapters else None
            self.tokenizer: Any = self.part("tokenizer", "ByteLevelBPE").from_file(checkpoint.tokenizer)

    @property
    def max_model_len(self) -> int:
        """The maximum number of tokens of a prompt and its answer: the context's, or fewer if memory holds fewer."""
        storage = getattr(self.scheduler.kv_cache, "storage", None)  # none has no limit
        if storage is None:
            return self.context_length
        pages = self.scheduler.kv_cache.pool.pages if hasattr(self.scheduler.kv_cache, "pool") else 1  # a slot is one
        return min(int(self.context_length), pages * int(storage.page_size))

    def _adapted(self, config: Any, weights: dict[str, Any], adapters: Mapping[str, Path]) -> Any:
        """Return the model with adapters, in the place of the scheduler's model."""
        found = {name: self.adapter(folder) for name, folder in adapters.items()}
        packed = "model.embed_tokens.scales" in weights
        quantized = self.part("quantized.parts", "Quantized")
        parts = quantized.like(config, weights) if packed else self.part("qwen3_cached.parts", "DENSE")
        try:
            with self.scaled_rope(self.checkpoint.config):
                self.scheduler.model = self.part("engines.adapters", "AdapterModel")(config, weights, parts, found)
        except ValueError as error:
            raise UsageError(f"{self.checkpoint.folder} cannot be served: {error}") from error
        return self.scheduler.model

    def _default_memory(self, config: Any, weights: dict[str, Any], given: dict[str, Any]) -> int:
        """Return the bytes for keys and values: 1 GiB, or up to half of the free memory if all requests need more."""
        import psutil

        limits: Any = self.part("engines.modes", "Limits")
        of_token = 2 * 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim  # float32
        needed: int = of_token * given.get("max_num_seqs", limits.max_num_seqs) * self.context_length
        free = psutil.virtual_memory().available - sum(each.nbytes for each in weights.values())
        share: int = free // (4 if "draft_model" in given else 2)  # a draft model takes as much again
        return max(int(limits.kv_cache_bytes), min(needed, share))

    def _config(self, checkpoint: Checkpoint) -> Any:
        return self.part("config", "ModelConfig").from_dict(checkpoint.config)


def load_scheduler(
    model: str | None,
    solution: bool,
    mode: str | None = None,
    limits: Limits | None = None,
    dtype: str | None = None,
    draft: str | None = None,
    kernels: bool = True,
    bits: int | None = None,
    adapters: Mapping[str, Path] | None = None,
) -> ServingEngine:
    """Return the scheduler for a folder, a Hub id, or the embedded model (None), in a mode or the latest available.

    `dtype` is by default what suits the device; `draft` names a small model with the same tokens; `bits` quantizes
    weights, which are otherwise used as they are; `adapters` are folders by name, for a mode that keeps their keys and
    values apart. Raise LearnerError if the learner's code is not finished, or fails,
    UsageError if a model or mode is unknown or unusable.
    """
    chosen = choose("paged" if adapters and mode is None else mode, solution)
    if adapters and chosen.name not in WITH_ADAPTERS:
        raise UsageError(f"The stage {chosen.name} cannot serve adapters; {', '.join(WITH_ADAPTERS)} can.")
    (found, packs), (drafting, fits) = _read(model, dtype, bits), _read(draft, dtype, bits) if draft else (None, True)
    if "kernels" in chosen.requires and not packs:
        raise UsageError(f"The stage {chosen.name} multiplies by 4-bit weights; {found.folder} needs --bits 4.")
    if adapters and (name := found.folder.resolve().name) in adapters:
        raise UsageError(f"{name} is the name of the model; an adapter needs another one.")
    if drafting and drafting.config["vocab_size"] != found.config["vocab_size"]:
        has, needs = (f"{each.folder} has {each.config['vocab_size']}" for each in (drafting, found))
        raise UsageError(f"{has} tokens, but {needs}: it cannot draft.")
    return ServingEngine(
        found, solution, chosen, limits or Limits(), drafting, kernels and packs and fits and not adapters, adapters
    )


def choose(name: str | None, solution: bool) -> Mode:
    """Return the mode of a name, or the latest that this machine runs and whose tasks have passed, except opt-in modes.

    If none is available, it is the first: running it says what is missing. Raise UsageError if it is unknown or cannot
    run.
    """
    modes = load_course().modes()
    return runnable(modes, solution)[-1] if name is None else named(name, modes, " of serving")


def has_kernels(mode: Mode, solution: bool) -> bool:
    """Return whether its fused model can be used: there is a compiler, and the learner's kernels have passed."""
    if missing(["compiler"]):
        return False
    return solution or all(progress.usable(load_course().task(task)) for task in mode.kernels)


def _read(model: str | None, dtype: str | None, bits: int | None) -> tuple[Checkpoint, bool]:
    """Return a model, and whether the fused model may be used: it quantizes weights that are not."""
    folder, config = configured(model)
    if more := unsupported_features(config):
        raise UsageError(f"The checkpoint needs {more}, which no stage of serving supports.")
    packs = may_pack(folder, config, bits)
    checkpoint = dataclasses.replace(read_model(folder, dtype, packs), config=config, bits=bits)
    check_template(folder, checkpoint.chat_template)
    return checkpoint, packs
