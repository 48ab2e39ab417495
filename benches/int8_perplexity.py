"""Measure what 8-bit activations cost in perplexity on the embedded model; print JSON for `decode.py`."""

import json
from collections.abc import Iterable

import mlx.core as mx

from tiny_llm_course.checkpoints.held_out import shipped_stories
from tiny_llm_course.engine.engine import Engine, load_engine

STORIES = 12


def main() -> None:
    """Judge the fused engine with both."""
    mx.set_default_device(mx.Device(mx.cpu))
    fused = load_engine(None, True, None, "fused")
    ends = fused.checkpoint.eos_ids
    stories = [[min(ends), *fused.encode(story)] for story in shipped_stories()[:STORIES]]
    found = {"perplexity": _perplexity(fused, stories)}
    fused.model.int8 = True
    found["perplexity, 8 bits"] = _perplexity(fused, stories)
    print(json.dumps(found))


def _perplexity(engine: Engine, stories: Iterable[list[int]]) -> float:
    losses: list[mx.array] = []
    for story in stories:
        logits = engine.model(mx.array([story[:-1]]), all_positions=True)[0].astype(mx.float32)
        chosen = mx.take_along_axis(logits, mx.array(story[1:])[:, None], -1)[:, 0]
        losses.append(mx.logsumexp(logits, -1) - chosen)
    return float(mx.exp(mx.mean(mx.concatenate(losses))))


if __name__ == "__main__":
    main()
