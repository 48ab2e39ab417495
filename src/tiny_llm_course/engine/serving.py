"""Serves many requests by the scheduler that the learner has written, or ours: a checkpoint in, a scheduler out."""

import dataclasses
from typing import Any

from ..checkpoints.beyond import beyond
from ..checkpoints.checkpoint import Checkpoint
from ..course.nouns import Mode
from ..course.registry import UsageError, load_course
from ..course.requirements import in_words, missing
from ..learner import progress
from .engine import configured, read_model
from .package import Package
from .stages import lacking


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a scheduler may take; None for what `engines.modes.Limits` has."""

    slots: int | None = None  # requests that run at most
    budget: int | None = None  # tokens that a step reads at most
    memory: int | None = None  # bytes of keys and values
    page: int | None = None  # tokens in a page
    drafted: int | None = None  # tokens that are drafted at a time
    int8: bool | None = None  # whether activations may be rounded to 8 bits


class ServingEngine(Package):
    """A scheduler and a tokenizer, built from a checkpoint by one of the two packages."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        solution: bool,
        mode: Mode,
        limits: Limits,
        draft: Checkpoint | None = None,
        kernels: bool = True,
    ) -> None:
        """Build them.

        Args:
            checkpoint: of the model.
            solution: whether our package does it.
            mode: how requests are served.
            limits: what it may take.
            draft: of a small model that drafts, for a mode that has any use for it.
            kernels: whether the kernels in C++ may be used, where they are there.

        Raises:
            LearnerError: the learner's code is not finished, or failed.
            UsageError: the limits are too narrow for the model.
        """
        self.mode, self.checkpoint = mode, checkpoint
        self.fused = kernels and has_kernels(mode, solution)  # whether the fused model may be used
        super().__init__(solution, (*mode.needs, *(mode.kernels if self.fused else ())))
        given = {name: value for name, value in dataclasses.asdict(limits).items() if value is not None}
        with self.learners_code():
            config = self._config(checkpoint)
            self.context_length: int = config.max_position_embeddings
            if draft:
                given["draft"] = self._config(draft), draft.weights
            # What the solution has for them is given to the learner, too.
            self.limits = self.part("engines.modes", "Limits")(fused=self.fused, **given)
            make = self.target(mode.make)
            try:
                self.scheduler: Any = make(config, checkpoint.weights, self.limits)
            except ValueError as error:
                raise UsageError(f"{checkpoint.folder} cannot be served: {error}") from error
            self.tokenizer: Any = self.part("tokenizer", "ByteLevelBPE").from_file(checkpoint.tokenizer)

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
) -> ServingEngine:
    """The scheduler for a folder, a Hub id, or the embedded model.

    Args:
        model: which; None for the embedded one.
        solution: whether ours runs it.
        mode: its name; None for the furthest that is there.
        limits: what it may take; None for the usual.
        dtype: of the weights; None for what suits the device.
        draft: a small model with the same tokens, named as `model` is; None if there is none.
        kernels: whether the kernels in C++ may be used, where they are there.

    Raises:
        LearnerError: the learner's code is not finished, or failed.
        UsageError: there is no such model or mode, or the model cannot be read or served.
    """
    chosen = choose(mode, solution)
    found, drafting = (_read(name, dtype) if name or i == 0 else None for i, name in enumerate((model, draft)))
    assert found
    if drafting and drafting.config["vocab_size"] != found.config["vocab_size"]:
        sizes = drafting.config["vocab_size"], found.config["vocab_size"]
        raise UsageError(
            f"{drafting.folder} has {sizes[0]} tokens, but {found.folder} has {sizes[1]}: it cannot draft."
        )
    return ServingEngine(found, solution, chosen, limits or Limits(), drafting, kernels)


def choose(name: str | None, solution: bool) -> Mode:
    """The mode of a name; without one the last that this machine runs and, for the learner, whose tasks have passed,
    except for those that somebody must ask for.

    A borrowed task counts as passed. Where none has got so far, it is the first: running it says what is missing.

    Raises:
        UsageError: there is no such mode, or this machine has not what it needs.
    """
    modes = load_course().modes()
    if name is None:
        first, *others = modes
        return [first, *(mode for mode in others if not (mode.asked or lacking(mode, solution)))][-1]
    known = {mode.name: mode for mode in modes}
    if name not in known:
        listed = ", ".join(f"{mode.name} ({mode.title})" for mode in modes)
        raise UsageError(f"There is no stage {name!r} of serving. There is: {listed}.")
    if absent := missing(known[name].requires):
        raise UsageError(f"The stage {name} cannot run here: it needs {in_words(absent)}.")
    return known[name]


def has_kernels(mode: Mode, solution: bool) -> bool:
    """Whether its fused model can be used: a compiler is here, and the learner's kernels have passed."""
    if missing(["compiler"]):
        return False
    return solution or all(progress.done(load_course().task(task)) for task in mode.kernels)


def _read(model: str | None, dtype: str | None) -> Checkpoint:
    folder, config = configured(model)
    if more := beyond(config):
        raise UsageError(f"The checkpoint asks for {more}, which no stage of serving has.")
    return dataclasses.replace(read_model(folder, dtype, packed=True), config=config)
