"""The training loop: updates, a rule for bad gradients, evaluation, checkpoints and exact resume."""

import dataclasses
import math
import statistics
from collections.abc import Callable
from typing import Any, Protocol

import mlx.core as mx

from ..dataset.loss import count_targets
from ..dataset.packing import Rows
from ..optimizers.adamw import AdamW
from ..optimizers.clipping import clip_by_global_norm
from ..optimizers.schedule import warmup_cosine
from .accumulation import LossAndGrads, Params, accumulate_gradients
from .checkpoint import Checkpoints
from .diverged import Diverged


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
        self.loss_and_grads, self.loader, self.optimizer = loss_and_grads, loader, optimizer
        self.recipe, self.checkpoints, self.evaluate = recipe, checkpoints, evaluate
        self.step, self.params, self.log = 0, params, list[Report]()
        self.skipped_checkpoints: tuple[str, ...] = ()
        if latest := checkpoints.load_latest():
            self.step, self.params, self.optimizer_state = latest.step, latest.params, latest.optimizer_state
            # A file has names in its own order, on which the last bit of the gradients' norm depends.
            self.params = {name: self.params[name] for name in params}
            self.log = [Report(**entry) for entry in latest.progress["log"]]
            self.skipped_checkpoints = latest.skipped
            loader.load_state(latest.progress["loader"])
        else:
            self.optimizer_state = optimizer.init(params)

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
        while self.step < self.recipe.steps:
            stop = bool(on_step(self.advance()))
            recent = self.log[-self.recipe.max_skipped :]
            if len(recent) == self.recipe.max_skipped and all(report.skipped for report in recent):
                raise Diverged(f"{len(recent)} steps in a row were skipped, up to step {self.step}")
            if stop or self.step == self.recipe.steps or self.step % self.recipe.save_every == 0:
                self.save()
            if stop:
                break
        return self.step == self.recipe.steps

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
        recipe, step = self.recipe, self.step + 1
        batches = [next(self.loader) for _ in range(recipe.micro_batches)]
        loss, grads = accumulate_gradients(self.loss_and_grads, self.params, batches)
        grads, norm = clip_by_global_norm(grads, recipe.max_norm)
        rate = warmup_cosine(step, recipe.learning_rate, recipe.warmup, recipe.steps, recipe.floor)
        numbers = float(loss.item()), float(norm.item())  # type: ignore[arg-type]
        skipped = self._is_bad(*numbers)
        if not skipped:
            self.params, self.optimizer_state = self.optimizer.update(self.params, grads, self.optimizer_state, rate)
            mx.eval(self.params, self.optimizer_state)  # else the graph of all steps would be kept
        held_out = None
        if self.evaluate and (step % recipe.evaluate_every == 0 or step == recipe.steps):
            held_out = self.evaluate(self.params)
        targets = sum(int(count_targets(batch.targets).item()) for batch in batches)  # type: ignore[arg-type,misc]
        report = Report(step, *numbers, rate, targets, skipped, held_out)
        self.log.append(report)
        self.step = step
        return report

    def save(self) -> None:
        """Save a checkpoint of this step: its `progress` has the loader's state as "loader" and the log as "log"."""
        progress = {"loader": self.loader.state(), "log": [dataclasses.asdict(report) for report in self.log]}
        self.checkpoints.save(self.step, self.params, self.optimizer_state, progress)

    def _is_bad(self, loss: float, norm: float) -> bool:
        """Return whether these gradients would damage the parameters."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return True
        recent = [report.norm for report in self.log if not report.skipped][-self.recipe.spike_window :]
        return len(recent) == self.recipe.spike_window and norm > self.recipe.spike_factor * statistics.median(recent)
