"""How well an engine predicts stories that its model was not trained on: bits per byte."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from ..checkpoints.held_out import END, HeldOut, Tokens

if TYPE_CHECKING:
    from .engine import Engine

AT_ONCE = 4  # rows computed concurrently
SAME = 1e-3  # how far logits of one row in two batches may differ, as a share of the largest; float16 needs it


def mark_of(engine: "Engine") -> str:
    """Return what is put before and after a story: the end mark, or nothing if the tokenizer has no token for it."""
    return END if len(engine.encode(END)) == 1 else ""


def as_rows(engine: "Engine", stories: Sequence[str], mark: str) -> HeldOut:
    """Return the stories that fit the context, as tokens of an engine's tokenizer."""
    encoded = [(story, engine.encode(f"{mark}{story}{mark}")) for story in stories]
    fitting = [(story, row) for story, row in encoded if len(row) <= engine.context_length]
    return HeldOut([np.array(row) for _, row in fitting], sum(len(story.encode()) for story, _ in fitting))


def nats_per_token(engine: "Engine", rows: Sequence[Tokens]) -> float:
    """Return the mean loss over all predicted tokens; LearnerError if the model fails or lacks logits for some."""
    device = mx.default_device()
    streams = [mx.new_stream(device) for _ in range(AT_ONCE)]
    with engine.learners_code():
        losses = []
        for number, row in enumerate(rows):
            with mx.stream(streams[number % AT_ONCE]):
                losses.append(_losses(engine, row))
        mx.eval(losses)
        return float(np.concatenate([np.array(each) for each in losses]).astype(np.float64).mean())


def reads_ahead(engine: "Engine", row: Tokens) -> bool:
    """Return whether the logits of a row's first half depend on its second half; LearnerError if the model fails."""
    half = len(row) // 2
    with engine.learners_code():
        whole, alone = (engine.logits(mx.array(part[None])).astype(mx.float32) for part in (row[:-1], row[:half]))
        apart = mx.max(mx.abs(whole[:, :half] - alone)) / mx.maximum(mx.max(mx.abs(alone)), 1e-30)
        return bool((apart > SAME).item())


def _losses(engine: "Engine", row: Tokens) -> mx.array:
    logits = engine.logits(mx.array(row[None, :-1]))
    if logits.ndim != 3 or logits.shape[:2] != (1, len(row) - 1):
        raise ValueError(f"the logits for 1 x {len(row) - 1} tokens have shape {logits.shape}")
    wide = logits[0].astype(mx.float32)
    chosen = mx.take_along_axis(wide, mx.array(row[1:, None]), axis=-1)[:, 0]
    return mx.logsumexp(wide, axis=-1) - chosen
