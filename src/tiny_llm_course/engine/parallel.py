"""The engine of one rank of a tensor-parallel group: it reads and computes its own part of the model."""

import random
from pathlib import Path
from typing import Any

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.features import unsupported_features
from ..course.registry import UsageError, load_course
from .engine import Engine, Sampler, Sampling, configured, read_model
from .package import Package, runs

NEEDS = ("2.1.3", "2.1.4", "6.2.1", "6.2.2", "6.2.3", "6.2.4")
GATHERED = {"top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}  # settings that need all logits, and their off


class ParallelEngine(Engine):
    """A rank's part of a model, from its own part of the files. All ranks answer a prompt with the same tokens.

    Raise LearnerError if the learner's code is not finished, or fails, UsageError if the model cannot be divided.
    """

    def __init__(self, checkpoint: Checkpoint, solution: bool) -> None:
        self.stage = next(stage for stage in load_course().stages() if stage.name == "kv-cache")
        self.simulated = False
        Package.__init__(self, solution, NEEDS)
        with self.learners_code():
            self.group: Any = self.part("distributed.group", "start")()
            self.config: Any = self.part("config", "ModelConfig").from_dict(checkpoint.config)
            self.context_length: int = self.config.max_position_embeddings
            weights, self.runs = load_part(self, checkpoint, self.config, self.group)
            with self.scaled_rope(checkpoint.config):
                self.model = self.part("tensor_parallel.model", "TensorParallelModel")(self.config, weights, self.group)
            self.checkpoint = checkpoint
            self.tokenizer = self.part("tokenizer", "ByteLevelBPE").from_file(checkpoint.tokenizer)

    def sampler(self, sampling: Sampling) -> Sampler:
        """Return the function that chooses tokens, from all logits if a setting needs them."""
        chosen: dict[str, Any] = {"temp": 0.7, **self.checkpoint.sampling}
        chosen |= {name: value for name, value in sampling._asdict().items() if value is not None}
        if "seed" not in chosen:
            drawn = mx.array(random.SystemRandom().getrandbits(30))
            chosen["seed"] = self.group.all_max(drawn).item()  # the same on all ranks
        vocab_size, rank = self.config.vocab_size, self.group.rank
        own = self.part("tensor_parallel.shards", "Partition")(self.config, rank, self.group.size).vocabulary
        if any(chosen.get(name, off) != off for name, off in GATHERED.items()):
            every = super().sampler(Sampling(**chosen))
            gather = self.part("tensor_parallel.sampling", "gather_logits")
            return lambda logits, tokens: every(gather(self.group, own, vocab_size, logits), tokens)
        options = {name: value for name, value in chosen.items() if name not in GATHERED}
        with self.learners_code():
            make = self.part("tensor_parallel.sampling", "make_parallel_sampler")
            made: Sampler = make(self.group, own, vocab_size, **options)
        return made


def load_part(package: Package, checkpoint: Checkpoint, config: Any, group: Any) -> tuple[dict[str, mx.array], str]:
    """Return a rank's weights, and in words what runs. They have the dtypes of the checkpoint's, which are not read.

    Raise UsageError if the model cannot be divided.
    """
    try:
        partition = package.part("tensor_parallel.shards", "Partition")(config, group.rank, group.size)
        load = package.part("tensor_parallel.loading", "load_shard")
        read = load(checkpoint.folder, partition, checkpoint.weights).weights
    except ValueError as error:
        raise UsageError(f"{checkpoint.folder}: {error}") from error
    weights = {name: w.astype(checkpoint.weights[name].dtype) for name, w in read.items()}
    zeros = package.part("config", "zero_biases")(checkpoint.config, weights["model.norm.weight"].dtype)
    weights |= partition.take(zeros)
    return weights, f"{runs('tensor-parallel', checkpoint, weights, False)}, {group.size} ranks"


def load_rank(model: str | None, solution: bool, dtype: str | None) -> ParallelEngine:
    """Return this rank's engine for a folder, a Hub id, or the embedded model (None).

    Raise UsageError if the checkpoint needs what the stage kv-cache does not support, or cannot be divided.
    """
    folder, config = configured(model)
    if more := unsupported_features(config):
        raise UsageError(f"The checkpoint needs {more}, which tensor parallelism does not support here.")
    return ParallelEngine(read_model(folder, dtype, packed=True), solution)


def check_division(model: str | None, solution: bool, ranks: int) -> Path:
    """Return the folder of a model that so many ranks can divide; raise UsageError if they cannot."""
    folder, config = configured(model)
    package = Package(solution, NEEDS)
    with package.learners_code():
        whole = package.part("config", "ModelConfig").from_dict(config)
        try:
            package.part("tensor_parallel.shards", "Partition")(whole, 0, ranks)
        except ValueError as error:
            raise UsageError(f"{folder}: {error}") from error
    return folder
