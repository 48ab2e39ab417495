"""Day 7's figure: the frequency of each pair of the embedded model under each kind of scaling."""

import json

import numpy as np

from tiny_llm_course.dev.book.drawing import Canvas, lines
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL

TRAINED, FACTOR = 512, 8  # training context, as in the model card; factor of the longer context
SHOWN = (0, 2, 4, 6, 8, 10, 12, 15, 18, 21, 24, 27, 31)  # pairs


def generated_parts() -> Parts:
    """Return the figure."""
    return {"paces": paces()}


def paces() -> str:
    """Draw each pair's frequency relative to its frequency in training."""
    from tiny_llm_solution.long_context.interpolation import linear_frequencies
    from tiny_llm_solution.long_context.ntk import ntk_frequencies
    from tiny_llm_solution.long_context.yarn import yarn_frequencies

    config = json.loads((EMBEDDED_MODEL / "config.json").read_text(encoding="utf-8"))
    dims, base = config["head_dim"], config["rope_theta"]
    plain = np.array(linear_frequencies(dims, base, 1))
    kinds = {
        "interpolation": linear_frequencies(dims, base, FACTOR),
        "NTK-aware": ntk_frequencies(dims, base, FACTOR),
        "YaRN": yarn_frequencies(dims, base, FACTOR, TRAINED)[0],
    }
    shares = {name: np.array(found) / plain for name, found in kinds.items()}
    round_once = int((TRAINED * plain / (2 * np.pi) >= 1).sum())
    canvas = Canvas()
    series = {name: [float(share[pair]) for pair in SHOWN] for name, share in shares.items()}
    axes = "pair, highest frequency first", "frequency, relative to training"
    lines(canvas, SHOWN, series, axes, lambda x: f"{x:g}", logarithmic=False)
    about = "; ".join(
        f"{name}: from {s[0]:.2f} for pair 0 to {s[-1]:.2f} for pair {dims // 2 - 1}" for name, s in shares.items()
    )
    caption = (
        f"Each line shows one method's frequencies for the {dims // 2} pairs of the embedded model, for contexts "
        f"{FACTOR} times the {TRAINED} tokens of its training, in which its first {round_once} pairs completed at "
        f"least one full rotation. Interpolation lowers all frequencies by the same factor, a larger base (NTK-aware) "
        f"lowers mainly the low ones, and YaRN keeps the high ones."
    )
    return canvas.figure("paces-4-7", "Three ways to lower RoPE's frequencies", about, caption)
