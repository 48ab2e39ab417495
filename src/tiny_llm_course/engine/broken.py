"""Run an engine with a known mistake beside the same one without: what each writes, and what the mistake costs."""

import math
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from ..checkpoints.held_out import END, HeldOut, Tokens, shipped_stories
from ..course.entities import Task
from ..course.file_paths import name_of
from ..course.registry import UsageError
from ..grading.exceptions import first_line
from ..paths import ROOT, SOLUTION
from ..programs.packages import SOLUTION_NAME, LearnerError, installed
from ..testkit.variants import Program, load_variants
from .engine import Engine, Sampling
from .mistakes import in_bits

AT_ONCE = 4  # rows computed concurrently
SAME = 1e-3  # how far logits of one row in two batches may differ, as a share of the largest; float16 needs it


def mark_of(engine: Engine) -> str:
    """Return what is put before and after a story: the end mark, or nothing if the tokenizer has no token for it."""
    return END if len(engine.encode(END)) == 1 else ""


def as_rows(engine: Engine, stories: Sequence[str], mark: str) -> HeldOut:
    """Return the stories that fit the context, as tokens of an engine's tokenizer."""
    encoded = [(story, engine.encode(f"{mark}{story}{mark}")) for story in stories]
    fitting = [(story, row) for story, row in encoded if len(row) <= engine.context_length]
    return HeldOut([np.array(row) for _, row in fitting], sum(len(story.encode()) for story, _ in fitting))


def nats_per_token(engine: Engine, rows: Sequence[Tokens]) -> float:
    """Return the mean loss over all predicted tokens; LearnerError if the model fails or lacks logits for some."""
    streams = [mx.new_stream(mx.default_device()) for _ in range(AT_ONCE)]
    with engine.learners_code():
        losses = []
        for number, row in enumerate(rows):
            with mx.stream(streams[number % AT_ONCE]):
                losses.append(_losses(engine, row))
        mx.eval(losses)
        return float(np.concatenate([np.array(each) for each in losses]).astype(np.float64).mean())


def reads_ahead(engine: Engine, row: Tokens) -> bool:
    """Return whether the logits of a row's first half depend on its second half; LearnerError if the model fails."""
    half = len(row) // 2
    with engine.learners_code():
        whole, alone = (engine.logits(mx.array(part[None])).astype(mx.float32) for part in (row[:-1], row[:half]))
        apart = mx.max(mx.abs(whole[:, :half] - alone)) / mx.maximum(mx.max(mx.abs(alone)), 1e-30)
        return bool((apart > SAME).item())


def _losses(engine: Engine, row: Tokens) -> mx.array:
    logits = engine.logits(mx.array(row[None, :-1]))
    if logits.ndim != 3 or logits.shape[:2] != (1, len(row) - 1):
        raise ValueError(f"the logits for 1 x {len(row) - 1} tokens have shape {logits.shape}")
    wide = logits[0].astype(mx.float32)
    chosen = mx.take_along_axis(wide, mx.array(row[1:, None]), axis=-1)[:, 0]
    return mx.logsumexp(wide, axis=-1) - chosen


TOKENS = 100  # of a text by default
SECONDS = 3.0  # limit of its time then
LEAST = 16  # tokens, however slow the machine
STORIES = 4  # for bits per byte


class Written(NamedTuple):
    """What an engine wrote: the text, its number of tokens, whether it ended by itself, the error that stopped it."""

    text: str
    tokens: int
    ended: bool = False
    stopped: str = ""


class Bits(NamedTuple):
    """How well an engine predicts the held-out stories, or why that is unknown."""

    per_byte: float = math.nan
    choices: float = math.nan  # perplexity per token
    ahead: bool = False  # its predictions depend on later tokens
    why_not: str = ""


class Comparison(NamedTuple):
    """Both engines; `broken_bits` is None where the mistake does not affect the bits."""

    right: Written
    broken: Written
    most: int  # tokens of either text
    vocabulary: int
    bits: Bits
    broken_bits: Bits | None


Note = Callable[[str], None]


class Breaker:
    """Run an engine, then the same one with a mistake; `most` limits a text's tokens, `note` gets what is happening."""

    def __init__(self, engine: Engine, prompt: str, most: int | None, sampling: Sampling, note: Note) -> None:
        self.engine, self._prompt, self._most, self._sampling, self._note = engine, prompt, most, sampling, note
        self._stories, self._mark = shipped_stories()[:STORIES], mark_of(self.engine)

    def compare(self, task: Task, mistake: str) -> Comparison:
        """Run both; raise LearnerError if the engine fails without any mistake."""
        self._note("The right engine writes ...")
        right = self._written(self.engine, self._most or TOKENS, None if self._most else SECONDS)
        most = self._most or (TOKENS if right.ended else right.tokens)
        self._note("... and reads held-out stories.")
        rows = as_rows(self.engine, self._stories, self._mark)
        bits = _bits(self.engine, rows, rows)
        # Of the solution instead, if the known program, written for our classes, fails only with the learner's.
        for package in dict.fromkeys((self.engine.package_name, SOLUTION_NAME)):
            try:
                known = load_variants(task, package).wrong_programs
                program = next(variant.program for variant in known if variant.name == mistake)
            except Exception:  # a learner's file lacks what the known programs import
                if package == SOLUTION_NAME:
                    raise
                continue
            self._note("The engine with the mistake writes ...")
            broken, broken_bits = self._with(program, task, most, rows)
            if not broken.stopped:
                break
        vocabulary: int = self.engine.checkpoint.config["vocab_size"]
        return Comparison(right, broken, most, vocabulary, bits, broken_bits)

    def _with(self, program: Program, task: Task, most: int, rows: HeldOut) -> tuple[Written, Bits | None]:
        with installed(task.program, program, self.engine.package_name):
            try:
                right = self.engine
                engine = Engine(right.checkpoint, right.package == SOLUTION, right.stage.name)
            except (LearnerError, UsageError) as error:
                why = _stopped(error)
                return Written(self._prompt, 0, stopped=why), Bits(why_not=why)
            written = self._written(engine, most, None, broken=True)
            if task.id not in in_bits(engine.stage):
                return written, None
            self._note("... and reads the stories.")
            return written, self._judged(engine, rows)

    def _written(self, engine: Engine, most: int, seconds: float | None, broken: bool = False) -> Written:
        """Return what an engine writes. With `broken`, an exception is part of that."""
        said = [self._prompt]
        answer = None
        try:
            sampler = engine.sampler(self._sampling)
            answer = engine.answer(engine.encode(self._prompt), most, sampler)
            for piece in answer.pieces:
                said.append(piece)
                slow = seconds is not None and answer.tokens >= LEAST and answer.pace.seconds > seconds
                if slow or answer.tokens > most + TOKENS:  # the mistake may be that a text does not end
                    break
        except (LearnerError, UsageError) as error:
            if not broken:
                raise
            return Written("".join(said), answer.tokens if answer else 0, stopped=_stopped(error))
        return Written("".join(said), answer.tokens, answer.stopped == "end of text")

    def _judged(self, engine: Engine, rows: HeldOut) -> Bits:
        try:
            own = as_rows(engine, self._stories, self._mark)
            if _spelled(self.engine, own.rows) != _spelled(self.engine, rows.rows):
                return Bits(why_not="its tokens do not spell the stories")
            bits = _bits(engine, rows, own)
            return bits if bits.why_not else bits._replace(ahead=reads_ahead(engine, own.rows[0]))
        except (LearnerError, UsageError) as error:
            return Bits(why_not=_stopped(error))


def _bits(engine: Engine, rows: HeldOut, own: HeldOut) -> Bits:
    """Judge an engine on `own` tokens; `rows` are the right ones, in which choices per token are counted."""
    if not own.rows:
        return Bits(why_not=f"no story fits into its context of {engine.context_length} tokens")
    nats = nats_per_token(engine, own.rows)
    if not math.isfinite(nats):
        return Bits(why_not="the logits are NaN or infinite")
    return Bits(own.bits_per_byte(nats), math.exp(min(nats * own.predicted / rows.predicted, 700)))


def _spelled(engine: Engine, rows: list[Tokens]) -> list[bytes]:
    spelling: dict[int, bytes] = engine.tokenizer.token_bytes
    return [b"".join(spelling.get(token, b"") for token in row.tolist()) for row in rows]


def _stopped(error: Exception) -> str:
    """Return what stopped an engine, and where, in a line."""
    cause = error.__cause__
    if cause is None:
        return str(error).splitlines()[0].partition(": ")[2] or str(error)
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(cause.__traceback__)]
    theirs = {"tiny_llm_course", ".venv"}
    ours = [(file, line) for file, line in frames if file.is_relative_to(ROOT) and not theirs & {*file.parts}]
    where = f", at {name_of(ours[-1][0])}:{ours[-1][1]}" if ours else ""
    return f"{type(cause).__name__}: {first_line(cause).rstrip('.')}{where}"
