"""What fewer bits per weight save and cost: bytes, bits per byte on held-out stories, tokens per second."""

import math
from collections.abc import Callable

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.quantized.affine import quantize
from tiny_llm.quantized.least_squares import quantize_least_squares
from tiny_llm.quantized.parts import Packed, Quantized
from tiny_llm.quantized.perplexity import perplexity
from tiny_llm.qwen3_cached.model import Qwen3CachedModel
from tiny_llm.qwen3_cached.parts import Dense
from tiny_llm.tokenizer import ByteLevelBPE
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.checkpoints.held_out import END, shipped_stories
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "", ("KiB", "vs. float32: %", "tokens/s"))


class Counting(Quantized):
    """Count the bytes of the matrices, before and after packing."""

    packed_bytes = float_bytes = 0

    def packed(self, weights: dict[str, mx.array], name: str) -> Packed | None:
        """Return what `Quantized` returns, and count its bytes."""
        found = super().packed(weights, name)
        if found is not None:
            self.packed_bytes += sum(part.nbytes for part in found)
            self.float_bytes += weights[f"{name}.weight"].nbytes
        return found


def measure(quick: bool = False) -> Table:
    """Measure the embedded model in float32 and four quantized forms on the held-out stories."""
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config, weights = ModelConfig.from_dict(checkpoint.config), checkpoint.weights
    kinds: dict[str, Dense] = {
        "float32": Dense(),
        "8 bits, groups of 64": Counting(64, 8, quantize),
        "4 bits, groups of 32": Counting(32, 4, quantize),
        "4 bits, groups of 64": Counting(64, 4, quantize),
        "4 bits, least-squares fit": Counting(64, 4, quantize_least_squares),
    }
    models = {kind: Qwen3CachedModel(config, weights, parts) for kind, parts in kinds.items()}
    tokenizer = ByteLevelBPE.from_file(checkpoint.tokenizer)
    stories = shipped_stories()[: 1 if quick else None]
    texts = [tokenizer.encode(f"{END}{story}{END}") for story in stories]
    predicted, size = sum(len(text) - 1 for text in texts), sum(len(story.encode()) for story in stories)
    bits = [math.log2(perplexity(model, texts)) * predicted / size for model in models.values()]
    times = seconds(*map(_next_token, models.values()))
    whole = sum(weight.nbytes for weight in weights.values())
    saved = [parts.float_bytes - parts.packed_bytes if isinstance(parts, Counting) else 0 for parts in kinds.values()]
    rows = tuple(
        (kind, (whole - less) // 1024, each, 100 * (each / bits[0] - 1), 1 / time)
        for kind, less, each, time in zip(kinds, saved, bits, times, strict=True)
    )
    share = rows[0][1] / rows[-1][1]
    return Table(
        ("format", "KiB", "bits per byte", "vs. float32: %", "tokens/s"),
        rows,
        f"With 4 bits in groups of 64 and a least-squares fit, the model takes {share:.1f} times less memory and needs "
        f"{rows[-1][3]:.2f} % more bits per byte; with a min/max fit it needs {rows[3][3]:.2f} % more.",
    )


def _next_token(model: Qwen3CachedModel) -> Callable[[], object]:
    """Return a decode step after 32 tokens."""
    caches = model.new_caches()
    mx.eval(model(mx.array([[258] * 32]), caches))

    def run() -> object:
        token = mx.argmax(model(mx.array([[258]]), caches)[:, -1], axis=-1)
        for cache in caches:
            cache.rewind(1)
        return token

    return run
