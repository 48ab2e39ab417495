"""Day 7's figures and widget: each pair's frequency under each scaling, of the course's model and of Llama 3.1."""

import json

import numpy as np

from tiny_llm_course.dev.book.drawing import at_both_widths, lines
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL

TRAINED, FACTOR = 512, 8  # training context, as in the model card; factor of the longer context
SHOWN = (0, 2, 4, 6, 8, 10, 12, 15, 18, 21, 24, 27, 31)  # pairs


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"paces": paces(), "llama3": llama3(), "rope-scaling": rope_scaling()}


def llama3() -> str:
    """Draw Llama 3.1's frequencies, and what YaRN's would be, relative to those before scaling."""
    from tiny_llm_solution.long_context.interpolation import linear_frequencies
    from tiny_llm_solution.long_context.llama3 import llama3_frequencies
    from tiny_llm_solution.long_context.yarn import yarn_frequencies

    dims, base, length, factor = 128, 500000.0, 8192, 8.0
    plain = np.array(linear_frequencies(dims, base, 1))
    kinds = {
        "YaRN": yarn_frequencies(dims, base, factor, length)[0],
        "llama3": llama3_frequencies(dims, base, factor, length, 1, 4),
    }
    series = {name: (np.array(found) / plain).tolist() for name, found in kinds.items()}
    changed = {name: next(pair for pair, share in enumerate(shares) if share < 1) for name, shares in series.items()}
    shown = range(14, 40, 2)
    axes = "pair, higher frequencies first", "frequency, relative to unscaled"
    drawn = {n: [s[pair] for pair in shown] for n, s in series.items()}
    canvas = at_both_widths(lambda canvas: lines(canvas, shown, drawn, axes, str, logarithmic=False))
    about = "; ".join(f"{name} first lowers pair {pair}" for name, pair in changed.items())
    caption = (
        f"The frequencies of pairs {shown[0]} to {shown[-1]} of the {dims // 2} pairs of Llama 3.1, with a factor "
        f"of {factor:g} and {length:,} training positions. YaRN would lower the frequencies from pair "
        f"{changed['YaRN']} on, and Llama 3.1 lowers them from pair {changed['llama3']} on."
    )
    return canvas.figure("llama3-4-7", "Llama 3's scaling beside YaRN", about, caption)


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
    series = {name: [float(share[pair]) for pair in SHOWN] for name, share in shares.items()}
    axes = "pair, highest frequency first", "frequency, relative to training"
    canvas = at_both_widths(lambda canvas: lines(canvas, SHOWN, series, axes, lambda x: f"{x:g}", logarithmic=False))
    about = "; ".join(
        f"{name}: from {s[0]:.2f} for pair 0 to {s[-1]:.2f} for pair {dims // 2 - 1}" for name, s in shares.items()
    )
    caption = (
        f"Each line shows one method's frequencies for the {dims // 2} pairs of the course's model, at {FACTOR} times "
        f"its training length of {TRAINED} tokens. Only the first {round_once} pairs completed a turn in training. "
        f"Interpolation lowers all frequencies by the same factor, NTK-aware scaling mainly lowers the low "
        f"frequencies, and YaRN keeps the high frequencies."
    )
    return canvas.figure("paces-4-7", "Three ways to lower RoPE's frequencies", about, caption)


def rope_scaling() -> str:
    """Return the widget, and a table of some pairs: turns in training, and at eight times the length by each method."""
    from tiny_llm_solution.long_context.interpolation import linear_frequencies
    from tiny_llm_solution.long_context.ntk import ntk_frequencies
    from tiny_llm_solution.long_context.yarn import yarn_frequencies

    config = json.loads((EMBEDDED_MODEL / "config.json").read_text(encoding="utf-8"))
    dims, base = config["head_dim"], config["rope_theta"]
    plain = linear_frequencies(dims, base, 1)
    found = (ntk_frequencies(dims, base, FACTOR), yarn_frequencies(dims, base, FACTOR, TRAINED)[0])
    kinds = (plain, linear_frequencies(dims, base, FACTOR), *found)
    rows = []
    for pair in (0, 6, 10, 12, 16, 24):
        turns = [TRAINED * plain[pair].item(), *(FACTOR * TRAINED * kind[pair].item() for kind in kinds)]
        rows.append([f"pair {pair}", *(number(x / (2 * np.pi), 3) for x in turns)])
    head = ["pair", "in training", "no scaling", "interpolation", "NTK-aware", "YaRN"]
    data = {"dims": dims, "base": base, "trained": TRAINED}
    return element(
        "rope-scaling", data, table(f"Turns in training, and at {FACTOR} times the training length", head, rows)
    )
