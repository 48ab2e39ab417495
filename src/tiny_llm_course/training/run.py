"""A training run: the learner's tokenizer, loader, model, optimizer and loop, on a text and a recipe."""

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx

from ..checkpoints.held_out import END
from ..course.registry import UsageError, load_course
from ..course.requirements import compiler, missing
from ..engine.engine import Sampling, load_engine
from ..engine.package import Package
from ..learner import progress
from ..ranks.environment import RANK_FILE
from .conversations import CHAT_TEMPLATE, TURN_BEGIN, TURN_END, documents
from .recipe import Recipe

# The tasks whose code trains: tokenizer, data, gradients, optimizer, loop; and the layers of the model.
NEEDS = (
    *("1.1.3", "1.2.1", "1.4.1", "1.5.1", "1.6.1", "1.6.2", "1.6.3"),
    *("5.1.1", "5.1.3", "5.1.4", "5.2.1", "5.2.2", "5.2.3", "5.2.4"),
    *("5.3.1", "5.3.3", "5.3.6", "5.3.7", "5.3.8", "5.4.1", "5.4.2", "5.4.3"),
)
FUSED = "5.4.5"  # with it, operators run in C++
# Qwen's pre-tokenization: bytes are merged only within these words.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = (END, TURN_BEGIN, TURN_END)
SHARDS = 4  # files with all stories; each formats other stories as conversations
SAMPLE, SAMPLE_TOKENS = "Once upon a time", 60


class Run:
    """A run in a folder, new or resumed. `trainer` is the learner's `Trainer`; its `log` has every step's report.

    With a group, each rank computes its share of a step's rows, and only rank 0 writes to the folder.
    """

    def __init__(
        self, recipe: Recipe, stories: list[str], held_out: list[str], out: Path, solution: bool, group: Any = None
    ) -> None:
        """Prepare the run; raise UsageError if the folder or the text is unsuitable, LearnerError as `Package` does."""
        self.recipe, self.out, self.solution, self.group = recipe, out, solution, group
        self.state = out / "training"
        self.leads = group is None or group.rank == 0
        while not (self.leads or (self.state / "run.json").exists()):
            time.sleep(0.1)  # rank 0 prepares the folder; in a collective, `dist` would take minutes of it for a hang
        self.fused = _fuses(self.state / "run.json", solution)
        self.package = Package(solution, (*NEEDS, FUSED) if self.fused else NEEDS)
        part, schedule = self.package.part, recipe.schedule
        fingerprint = _fingerprint(recipe, stories, held_out)
        if self.leads:
            _check_folder(out, self.state, fingerprint)
        config = part("config", "ModelConfig").from_dict(recipe.architecture.config())
        with self.package.learners_code():
            encode, shards = self._prepared(stories, fingerprint)
            end = encode(END)[0]
            judges = part("dataset.packing", "pack_documents")(
                [encode(text) for text in held_out], schedule.context, end
            )
            self.targets = int(part("dataset.loss", "count_targets")(judges.targets).item())
            self.bytes = sum(len(text.encode()) for text in held_out)
            fused, arrays = ("training.fused", "fused_loss_function"), ("training.model", "loss_function")
            loss = (make := part(*(fused if self.fused else arrays)))(config)
            # Without a compiler, MLX cannot compile on a CPU.
            differentiate = part("training.model", "compiled_loss_and_grads")
            compiled = differentiate(config, make) if compiler() else mx.value_and_grad(loss)
            if group:
                compiled = part("pipeline.data_parallel", "data_parallel")(compiled, group)
            accumulate = part("training.accumulation", "accumulate_gradients")
            pieces = [judges[i : i + schedule.rows] for i in range(0, len(judges), schedule.rows)]
            self.trainer = part("training.loop", "Trainer")(
                compiled,
                part("training.model", "initial_params")(config, schedule.seed),
                part("dataset.loader", "ShardedLoader")(shards, schedule.rows, schedule.context, end, schedule.seed),
                part("optimizers.adamw", "AdamW")(
                    schedule.learning_rate, tuple(schedule.betas), weight_decay=schedule.weight_decay
                ),
                part("training.loop", "Recipe")(
                    steps=schedule.steps,
                    learning_rate=schedule.learning_rate,
                    warmup=min(schedule.warmup, schedule.steps - 1),  # --steps may be fewer
                    floor=schedule.learning_rate * schedule.final_share,
                    micro_batches=schedule.micro_batches,
                    max_norm=schedule.clip,
                    evaluate_every=schedule.every,
                    save_every=schedule.every,
                ),
                part("training.checkpoint", "Checkpoints")(self.state),
                # Only the loss: accumulation weights each piece by its targets, and asks for no gradient.
                lambda params: accumulate(lambda now, rows: (loss(now, rows), {}), params, pieces)[0].item(),
            )
            if not self.leads:
                self.trainer.evaluate, self.trainer.checkpoints = None, SimpleNamespace(save=lambda *state: None)

    @property
    def weights(self) -> int:
        """The number of parameters."""
        return sum(param.size for param in self.trainer.params.values())

    def go(self, on_step: Callable[[Any], bool]) -> bool:
        """Train to the last step, or until on_step returns True; return whether the last step was reached."""
        with self.package.learners_code():
            finished: bool = self.trainer.run(on_step)
        if self.leads:
            self.export()
        return finished

    def bits_per_byte(self, nats: float) -> float:
        """Return the held-out loss in bits per byte of text."""
        return nats * self.targets / math.log(2) / self.bytes

    def export(self) -> None:
        """Write config.json, generation_config.json, the tokenizer's two files, and the weights in bfloat16."""
        config = self.recipe.architecture.config()
        ids = {token: config["vocab_size"] - len(SPECIAL) + i for i, token in enumerate(SPECIAL)}
        rope = {"rope_type": "default", "rope_theta": config["rope_theta"]}  # for transformers 5
        ends = {"eos_token_id": [ids[TURN_END], ids[END]], "pad_token_id": ids[END]}
        _write(self.out / "config.json", {**config, "rope_parameters": rope, "dtype": "bfloat16", **ends})
        _write(self.out / "generation_config.json", {**ends, "do_sample": True, "temperature": 1.0, "min_p": 0.1})
        shutil.copyfile(self.state / "tokenizer.json", self.out / "tokenizer.json")
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config["max_position_embeddings"],
            "eos_token": TURN_END,
            "pad_token": END,
            "additional_special_tokens": [TURN_BEGIN],
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        }
        _write(self.out / "tokenizer_config.json", settings)
        arrays = {name: param.astype(mx.bfloat16) for name, param in self.trainer.params.items()}
        half_written = self.out / ".part.safetensors"  # loaders skip this name
        mx.save_safetensors(str(half_written), arrays, {"format": "pt"})
        half_written.replace(self.out / "model.safetensors")

    def sample(self) -> str:
        """Return a text by the same package's engine, which loads the exported folder."""
        engine = load_engine(str(self.out), self.solution, dtype="float32", stage="kv-cache")
        answer = engine.answer(engine.encode(SAMPLE), SAMPLE_TOKENS, engine.sampler(Sampling(temp=0.7, seed=1)))
        return SAMPLE + "".join(answer.pieces)

    def _prepared(self, stories: list[str], fingerprint: str) -> tuple[Callable[[str], list[int]], list[Path]]:
        """Train the tokenizer and write the shards, unless the folder has them; return `encode` and the shards."""
        file, shards = self.state / "tokenizer.json", [self.state / f"shard-{i}.npy" for i in range(SHARDS)]
        done = self.state / "run.json"
        if not done.exists():
            try:
                self._prepare(stories, file, shards)
            except UsageError:
                for written in (file, *shards):
                    written.unlink(missing_ok=True)
                raise
            _write(done, {"fingerprint": fingerprint, "fused": self.fused})
        return self.package.part("tokenizer", "ByteLevelBPE").from_file(file).encode, shards

    def _prepare(self, stories: list[str], file: Path, shards: list[Path]) -> None:
        """Train the tokenizer and write the shards; raise UsageError if the text is too short for the recipe."""
        size, schedule, part = self.recipe.architecture.vocab_size, self.recipe.schedule, self.package.part
        trained = part("bpe.train", "train_tokenizer")(file, stories, size, SPECIAL, WORDS, "NFC")
        if (got := len(trained.vocab) + len(SPECIAL)) != size:
            what = f"the text gives {got} tokens: add text, or set vocab_size = {got}"
            raise UsageError(f"The recipe's vocab_size is {size}, but {what}")
        for i, shard in enumerate(shards):
            texts = documents(stories, schedule.chat_share, f"{schedule.seed} {i}")
            told = [trained.encode(text) for text in texts]
            if sum(map(len, told)) < schedule.context:
                what = f"The text does not fill one row of {schedule.context} tokens"
                raise UsageError(f"{what}: add text, or lower context")
            part("dataset.shards", "write_shard")(shard, told, trained.encode(END)[0])


def joined_group(solution: bool) -> Any:
    """Return the group of this process if `dist` has started it, None otherwise."""
    return Package(solution, NEEDS).part("distributed.group", "start")() if RANK_FILE in os.environ else None


def _fuses(record: Path, solution: bool) -> bool:
    """Return whether the run uses the fused operators; a resumed run keeps its kind, because they round differently."""
    task = load_course().task(FUSED)
    if mx.default_device() != mx.cpu or missing(task.requires) or not (solution or progress.done(task)):
        return False
    try:
        return not record.exists() or bool(json.loads(record.read_text(encoding="utf-8"))["fused"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _fingerprint(*parts: Any) -> str:
    """Return a hash of what must not change when a run is resumed."""
    text = json.dumps([part.model_dump() if isinstance(part, Recipe) else part for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()


def _check_folder(out: Path, state: Path, fingerprint: str) -> None:
    """Refuse another run's folder and an existing model's, and check that it is writable before training."""
    record = state / "run.json"
    if record.exists():
        try:
            same = json.loads(record.read_text(encoding="utf-8"))["fingerprint"] == fingerprint
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{record} cannot be read: delete {state} to start over") from error
        if not same:
            raise UsageError(f"{out} holds a run with another recipe or text: choose another --out, or delete it")
    elif any(out.glob("*.safetensors")):
        raise UsageError(f"{out} already holds a model: choose another --out")
    try:
        state.mkdir(parents=True, exist_ok=True)
        (trial := state / ".part").write_bytes(b"")
        trial.unlink()
    except OSError as error:
        raise UsageError(f"{out} cannot be written to: {error.strerror}") from error


def _write(file: Path, table: dict[str, Any]) -> None:
    file.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
