"""The training loop: updates, a rule for bad gradients, evaluation, checkpoints and exact resume."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from ..dataset.packing import Rows
from ..optimizers.adamw import AdamW
from ..optimizers.clipping import clip_by_global_norm
from ..optimizers.schedule import warmup_cosine
from .accumulation import LossAndGrads, Params, accumulate_gradients
from .checkpoint import Checkpoints


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings of a run. Given."""

    steps: int  # in all
    learning_rate: float  # the peak
    warmup: int = 0  # steps
    floor: float = 0.0  # the learning rate of the last step
    micro_batches: int = 1  # per step
    max_norm: float = 1.0  # of the gradients
    spike_factor: float = 20.0  # a norm this many times the median is a spike
    spike_window: int = 50  # updates that the median is taken over
    max_skipped: int = 10  # steps in a row
    evaluate_every: int = 100  # steps
    save_every: int = 500  # steps


@dataclasses.dataclass(frozen=True)
class Report:
    """What happened in a step. Given."""

    step: int  # counted from 1
    loss: float  # mean nats per target, before the update
    norm: float  # of all gradients, before clipping
    learning_rate: float
    targets: int  # that counted
    skipped: bool  # whether there was no update
    held_out: float | None = None  # the loss on held-out rows after the step, if it was evaluated


class Loader(Protocol):
    """What the loop needs of a `ShardedLoader`. Given."""

    def __next__(self) -> Rows:
        """Return the next micro-batch."""

    def state(self) -> dict[str, Any]:
        """Return where the next micro-batch starts, in a form that JSON can store."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken."""


class Trainer:
    """A training run: its parameters, its optimizer's state, its position in the data and its log."""

    def __init__(
        self,
        loss_and_grads: LossAndGrads,
        params: Params,
        loader: Loader,
        optimizer: AdamW,
        recipe: Recipe,
        checkpoints: Checkpoints,
        evaluate: Callable[[Params], float] | None = None,
    ) -> None:
        """Start a run at step 0, or continue it from its latest checkpoint if there is one.

        `step`, `params`, `optimizer_state` and `log` are then those of the checkpoint, and the loader is where it was,
        so that the rest of the run is bit for bit that of a run that was never interrupted. `skipped_checkpoints` has
        the messages about damaged checkpoints, and is empty otherwise.

        Args:
            loss_and_grads: as `accumulate_gradients` takes it.
            params: the initial parameters; not used if there is a checkpoint.
            loader: `next` returns a micro-batch.
            optimizer: its settings; `init` and `update` are called here.
            recipe: the settings of the run.
            checkpoints: where to save and from where to continue.
            evaluate: returns the held-out loss of parameters; None for no evaluation.

        Raises:
            ValueError: there are checkpoints, and all are damaged.
        """
        raise NotImplementedError("5.4.3 The training loop")

    def run(self, on_step: Callable[[Report], object] = lambda report: None) -> bool:
        """Train to the recipe's last step.

        Saves a checkpoint after every `save_every` steps, after the last step, and when on_step stops the run. If the
        last `max_skipped` steps were all skipped, the run has diverged, and the step is not saved.

        Args:
            on_step: called after each step with its report, before a checkpoint is saved. If it returns a true value,
                the run stops after this step.

        Returns:
            Whether the last step was reached. A run that is at its last step returns True at once, without a save.

        Raises:
            Diverged: the last `max_skipped` steps were all skipped. The message states the number and the step.
        """
        raise NotImplementedError("5.4.3 The training loop")

    def advance(self) -> Report:
        """Take one step.

        Accumulates the gradients of `micro_batches` batches, clips them to `max_norm`, and updates the parameters with
        the learning rate of `warmup_cosine` for this step, counted from 1. A skipped step uses up its batches and its
        learning rate, but changes neither the parameters nor the optimizer's state. The step is skipped if the loss or
        the norm is NaN or infinite, or if the norm is larger than `spike_factor` times the median norm of the last
        `spike_window` steps that were not skipped, provided that there were so many. After every `evaluate_every`
        steps and after the last one, the new parameters are evaluated.

        Returns:
            The report, which is also appended to `log`.
        """
        raise NotImplementedError("5.4.3 The training loop")

    def save(self) -> None:
        """Save a checkpoint of this step: its `progress` has the loader's state as "loader" and the log as "log"."""
        raise NotImplementedError("5.4.3 The training loop")
