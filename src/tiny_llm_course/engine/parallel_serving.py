"""Serve on tensor-parallel ranks: rank 0 has the scheduler, and the others follow it."""

from typing import Any

from ..checkpoints.chat_template import check_template
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.features import unsupported_features
from ..course.registry import UsageError
from .engine import configured, read_model
from .package import Package
from .parallel import NEEDS, load_part
from .serving import Limits, ServingEngine, choose

MODE = "paged"  # how rank 0 schedules


class ParallelServingEngine(ServingEngine):
    """A rank of a tensor-parallel group: on rank 0, a scheduler and a tokenizer, as `ServingEngine`.

    Raise LearnerError if the learner's code is not finished, or fails, UsageError if the model cannot be divided.
    """

    def __init__(self, checkpoint: Checkpoint, solution: bool, limits: Limits) -> None:
        self.mode, self.checkpoint, self.adapters = choose(MODE, solution), checkpoint, ()
        self.fused = self.lacks_kernels = False
        self.adapted: Any = None
        Package.__init__(self, solution, (*self.mode.needs, *NEEDS))
        given: dict[str, Any] = {name: value for name, value in vars(limits).items() if value is not None}
        with self.learners_code():
            self.group: Any = self.part("distributed.group", "start")()
            self.config = self._config(checkpoint)
            self.context_length: int = self.config.max_position_embeddings
            self.weights, self.runs = load_part(self, checkpoint, self.config, self.group)
            self.limits = self.part("engines.modes", "Limits")(fused=False, **given)
            self.tokenizer: Any = self.part("tokenizer", "ByteLevelBPE").from_file(checkpoint.tokenizer)
            if self.group.rank == 0:
                self.scheduler: Any = self._started("Leader")

    def follow(self) -> None:
        """Compute what rank 0 plans, until it ends."""
        with self.learners_code():
            self._started("follow")

    def _started(self, name: str) -> Any:
        try:
            with self.scaled_rope(self.checkpoint.config):
                start = self.part("engines.tensor_parallel", name)
                return start(self.config, self.weights, self.limits, self.group)
        except ValueError as error:
            raise UsageError(f"{self.checkpoint.folder} cannot be served: {error}") from error


def load_rank_of_server(model: str | None, solution: bool, limits: Limits, dtype: str | None) -> ParallelServingEngine:
    """Return this rank's engine for a folder, a Hub id, or the embedded model (None)."""
    folder, config = configured(model)
    if more := unsupported_features(config):
        raise UsageError(f"The checkpoint needs {more}, which no stage of serving supports.")
    checkpoint = read_model(folder, dtype, packed=True)
    check_template(folder, checkpoint.chat_template)
    return ParallelServingEngine(checkpoint, solution, limits)
