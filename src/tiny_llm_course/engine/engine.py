"""Run the learner's engine, or the solved one: a checkpoint in, text out."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint, load_checkpoint, read_config
from ..checkpoints.features import unsupported_features, with_window
from ..course.registry import UsageError, load_course, with_commands
from ..paths import EMBEDDED_MODEL, ROOT, SOLUTION
from ..programs.packages import LearnerError
from . import stages
from .pace import MINUTE, USUAL_TOKENS, Pace
from .package import Package, may_pack, runs

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
Sampler = Callable[..., mx.array]  # from logits and tokens to tokens


class Sampling(NamedTuple):
    """How to choose tokens; None means the model's own setting, or else the default of `make_sampler`."""

    temp: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None


@dataclasses.dataclass
class Answer:
    """A text while it is generated, and then its figures."""

    pieces: Iterator[str]
    pace: Pace
    most: int  # tokens
    runs: str  # the stage and its weights, in words
    timed: bool  # no: the simulator's time says nothing about a GPU
    tokens: int = 0
    seconds: float = 0.0
    stopped: str = "interrupted"

    def summary(self) -> str:
        """Return one line of figures. The time includes prefill."""
        pace = self.tokens / self.seconds if self.seconds else 0.0
        took = f"{self.tokens} token{'s' * (self.tokens != 1)}"
        took += f" in {self.seconds:.1f} s, {pace:.1f} tokens/s" * self.timed
        return f"{took} ({self.runs}); stopped: {self.stopped}"


class Engine(Package):
    """A model and its tokenizer, built from a checkpoint by one of the two packages, at a stage or the latest one.

    `adapter` is the folder of a LoRA adapter, which is merged into the checkpoint's weights. Raise LearnerError if the
    learner's code is not finished, or fails, UsageError if the checkpoint, adapter or stage is unsuitable.
    """

    def __init__(
        self, checkpoint: Checkpoint, solution: bool, stage: str | None = None, adapter: Path | None = None
    ) -> None:
        self.stage = stages.choose(stage, solution, unsupported_features(checkpoint.config))
        self.simulated = stages.simulated(self.stage)
        super().__init__(solution, self.stage.needs)
        with self.learners_code():
            self.checkpoint = checkpoint = self._merged(checkpoint, adapter) if adapter else checkpoint
            weights = self.quantized(checkpoint)
            self.runs = runs(self.stage.name, checkpoint, weights, self.stage.packed, self.simulated)
            self.runs += f", adapter {adapter.resolve().name}" if adapter else ""
            config = self.target(self.stage.config).from_dict(checkpoint.config)
            self.context_length: int = config.max_position_embeddings
            model, further = self.target(self.stage.model), self.stage.config.name != "ModelConfig"
            with nullcontext() if further else self.scaled_rope(checkpoint.config):
                self.model = model(config, weights)
            self.tokenizer = self.part("tokenizer", "ByteLevelBPE").from_file(checkpoint.tokenizer)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; raise UsageError if it has lone surrogates: input that was not UTF-8."""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError("The text is not UTF-8.") from None
        with self.learners_code():
            ids = self.tokenizer.encode(text)
            if not isinstance(ids, list) or not all(isinstance(number, int) for number in ids):
                raise TypeError(f"ByteLevelBPE.encode returned {type(ids).__name__}, expected a list of ints")
        return self.checkpoint.begun(ids)

    def logits(self, tokens: mx.array) -> mx.array:
        """Return the logits after each token of whole texts, N x L x V for N x L."""
        every = {} if self.stage.rereads else {"all_positions": True}  # the default is the last one only
        scored: mx.array = self.model(tokens, **every)
        return scored

    def likeliest(self, prompt: list[int], count: int) -> Iterator[int]:
        """Yield `count` greedy tokens, ignoring end-of-text tokens: for measurements."""
        tokens: Iterator[int] = self.target(self.stage.generate)(self.model, prompt, count)
        return tokens

    def sampler(self, sampling: Sampling) -> Sampler:
        """Return the function that chooses tokens; raise UsageError for a setting out of range."""
        given = {name: value for name, value in sampling._asdict().items() if value is not None}
        with self.learners_code():
            make_sampler = self.part("sampler", "make_sampler")
            try:
                chosen: Sampler = make_sampler(**{"temp": 0.7, **self.checkpoint.sampling, **given})
            except ValueError as error:
                raise UsageError(str(error)) from error
        return chosen

    def answer(self, prompt: list[int], max_tokens: int | None, sampler: Sampler) -> Answer:
        """Continue a prompt; its pieces raise LearnerError where the logits are not finite.

        Without max_tokens it ends after USUAL_TOKENS or a minute. Raise UsageError if the prompt is empty or too long.
        """
        if not prompt:
            raise UsageError("The prompt is empty, but a model continues at least one token.")
        if len(prompt) >= self.context_length:
            what = f"The prompt has {len(prompt)} tokens"
            raise UsageError(f"{what}, but the model takes fewer than {self.context_length}.")
        most = min(max_tokens or USUAL_TOKENS, self.context_length - len(prompt))
        answer = Answer(iter(()), Pace(len(prompt), self.stage.rereads), most, self.runs, not self.simulated)
        answer.pieces = self._pieces(answer, prompt, max_tokens, sampler)
        return answer

    def _pieces(self, answer: Answer, prompt: list[int], max_tokens: int | None, sampler: Sampler) -> Iterator[str]:
        def choose(logits: mx.array, tokens: list[list[int]]) -> mx.array:
            # A sampler would choose a token from NaN, too; single logits may be -inf.
            if not mx.isfinite(mx.logsumexp(logits)).item():
                raise LearnerError(self._why_no_numbers())
            return sampler(logits, tokens)

        started = time.perf_counter()
        with self.learners_code():
            # It would skip all added tokens, even Qwen3's <think>, which its chat template needs in the next turn.
            detokenizer = self.part("tokenizer", "StreamingDetokenizer")(self.tokenizer, skip_special_tokens=False)
            tokens = self.target(self.stage.generate)(
                self.model,
                prompt,
                max_tokens or USUAL_TOKENS,
                eos_ids=self.checkpoint.eos_ids,
                context_length=self.context_length,
                sampler=choose,
            )
            late = False
            for token in tokens:
                answer.pace.token()
                answer.tokens += 1
                answer.seconds = time.perf_counter() - started
                if token not in self.checkpoint.hidden_ids:
                    yield _text(detokenizer.add(token))
                if late := max_tokens is None and answer.tokens < answer.most and answer.pace.seconds > MINUTE:
                    break
            answer.seconds = time.perf_counter() - started
            yield _text(detokenizer.finish())
        if late:
            answer.stopped = f"after a minute (--max-tokens {USUAL_TOKENS} goes on)"
        elif answer.tokens == (max_tokens or USUAL_TOKENS):
            answer.stopped = f"length limit ({answer.tokens} token{'s' * (answer.tokens != 1)})"
        elif len(prompt) + answer.tokens >= self.context_length:
            answer.stopped = f"the context is full ({self.context_length} tokens)"
        else:
            answer.stopped = "end of text"

    def _merged(self, checkpoint: Checkpoint, adapter: Path) -> Checkpoint:
        """Return the checkpoint with the adapter of a folder merged into its weights."""
        merge, loaded = self.part("lora.adapter", "merge_lora"), self.adapter(adapter)
        try:
            return dataclasses.replace(checkpoint, weights=merge(checkpoint.weights, loaded))
        except ValueError as error:
            raise UsageError(f"{adapter}: {error}") from error

    def _why_no_numbers(self) -> str:
        weights, what = self.checkpoint.weights, "the logits are NaN or infinite"
        if broken := next((name for name, w in weights.items() if not mx.isfinite(w).all().item()), ""):
            return f"{self.checkpoint.folder}: {what}, as {broken} has NaN or infinity"
        if mx.float16 in {weight.dtype for weight in weights.values()}:
            return f"{self.checkpoint.folder}: {what} in float16, whose largest number is 65504; try --dtype float32"
        more = () if self.package == SOLUTION else ("What the tests say:", "pdm run test")
        return with_commands(f"{self.package.relative_to(ROOT).as_posix()}: {what}", *more)


def _text(piece: Any) -> str:
    if not isinstance(piece, str):
        raise TypeError(f"StreamingDetokenizer returned {type(piece).__name__}, expected str")
    return piece


def load_engine(
    model: str | None,
    solution: bool,
    dtype: str | None,
    stage: str | None = None,
    window: int | None = None,
    sinks: int | None = None,
    bits: int | None = None,
    adapter: Path | None = None,
) -> Engine:
    """Return the engine for a folder, a Hub id, or the embedded model (None); raise UsageError if there is none.

    `dtype` is by default what suits the device; `window` and `sinks` override the checkpoint's; `bits` quantizes its
    weights, which the default stage otherwise uses as they are, except those of the embedded model; `adapter` is the
    folder of a LoRA adapter, with which the default stage uses those as they are too.
    """
    folder, config = configured(model, window, sinks)
    packs = may_pack(folder, config, bits) and (bits is not None or adapter is None)
    chosen = stages.choose(stage, solution, unsupported_features(config), packs)
    if bits and not chosen.packed:
        raise UsageError(f"--bits needs a stage that quantizes, as day 3 of week 2 builds one; {chosen.name} does not.")
    checkpoint = dataclasses.replace(read_model(folder, dtype, chosen.packed), config=config, bits=bits)
    if adapter and chosen.packed and "-bit" in checkpoint.stored_as:
        what = f"The stage {chosen.name} cannot merge an adapter into {checkpoint.stored_as} weights"
        others = ", ".join(each.name for each in load_course().stages() if not each.packed)
        raise UsageError(f"{what}; {others} can, as they dequantize the weights.")
    return Engine(checkpoint, solution, chosen.name, adapter)


def configured(model: str | None, window: int | None = None, sinks: int | None = None) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a model, and its config with `window` and `sinks`; UsageError if no engine supports it."""
    folder = find_model(model)
    return folder, with_window(folder / "config.json", read_config(folder), window, sinks)


def read_model(folder: Path, dtype: str | None, packed: bool) -> Checkpoint:
    """Return the checkpoint of a folder; if `packed`, quantized weights stay packed. UsageError if unreadable."""
    on_cpu = mx.default_device().type == mx.DeviceType.cpu
    # On a CPU, MLX is several times faster in float32 than in the half dtypes.
    return load_checkpoint(folder, DTYPES[dtype] if dtype else mx.float32 if on_cpu else None, packed)


def find_model(model: str | None) -> Path:
    """Return the folder of a model named by its path, by its Hub id, or not at all."""
    if model is None:
        if not EMBEDDED_MODEL.is_dir():
            where = EMBEDDED_MODEL.relative_to(ROOT).as_posix()
            restoring = f"restore it with `git checkout {where}`, or name another with --model."
            raise UsageError(f"{where} is missing: {restoring}")
        return EMBEDDED_MODEL
    path = Path(model)
    with suppress(OSError, RuntimeError, ValueError):  # too long, no such user, or no path at all
        path = path.expanduser()
        if model and path.exists():
            return path
    if not HUB_ID.fullmatch(model):
        raise UsageError(f"{model or 'The empty name'} is neither a checkpoint folder nor a Hub id.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        what = f"There is no folder {model}. If it is a Hugging Face Hub id"
        raise UsageError(f"{what}: pdm run pip install huggingface_hub, and try again.") from None
    try:
        return Path(snapshot_download(model, allow_patterns=["*.json", "*.safetensors", "*.jinja"]))
    except Exception as error:  # offline, unknown, not allowed: an exception for each
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"{model} is not a folder, and cannot be downloaded from the Hub: {reason}") from error
