"""Measure what flash attention gains in an engine: `benches/flash.json`.

    pdm run python benches/flash.py [--quick]

In the shape of Qwen3-0.6B, on the CPU: one layer's attention for a prompt, week 1's beside the kernel, and then the
stages `fused` and `flash`, with random weights in 4 bits, for a prompt and for a token behind a long text. On a quiet
machine, for some minutes; --quick takes two layers and less text, and writes nothing.
"""

import argparse
import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import decode_engines as shape

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported, as `generate` does

import mlx.core as mx  # noqa: E402

from tiny_llm_course.measuring.machine import machine  # noqa: E402
from tiny_llm_course.paths import SOLUTION  # noqa: E402

RECORD = Path(__file__).with_suffix(".json")
TURNS, STEPS = 5, 12
PROMPT, CONTEXT = 2048, 4096


def main() -> None:
    """Measure, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; nothing is written")
    quick = parser.parse_args().quick
    mx.set_default_device(mx.cpu)
    sys.path.insert(0, str(SOLUTION.parent))
    prompt, context, layers, turns = (256, 512, 2, 3) if quick else (PROMPT, CONTEXT, shape.LAYERS, TURNS)
    found: dict[str, Any] = {"date": datetime.date.today().isoformat(), "machine": machine()}
    found["seconds"] = {**attention(prompt, turns), **engines(prompt, context, layers, turns)}
    for what, rows in found["seconds"].items():
        (slow, before), (name, after) = rows.items()
        print(f"{what}: {slow} {before:.4f} s, {name} {after:.4f} s: {before / after:.2f} times as fast")
    if not quick:
        RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def attention(prompt: int, turns: int) -> dict[str, dict[str, float]]:
    """Seconds of one layer's attention for a prompt: by operations on whole arrays, as in week 1, and by the kernel."""
    from tiny_llm.attention import scaled_dot_product_attention_grouped
    from tiny_llm.kernels import native

    query, key, value = (mx.random.normal((heads, prompt, shape.D)) for heads in (shape.HEADS, shape.KV, shape.KV))
    turned = mx.contiguous(query.swapaxes(0, 1))
    mx.eval(query, key, value, turned)
    programs: dict[str, Callable[[], mx.array]] = {
        "week 1": lambda: scaled_dot_product_attention_grouped(query, key, value, mask="causal"),
        "kernel": lambda: native.flash(turned, key, value, shape.D**-0.5),
    }
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(turns):
        for name, program in programs.items():
            begun = time.perf_counter()
            mx.eval(program())
            taken[name].append(time.perf_counter() - begun)
    return {f"one layer's attention, a prompt of {prompt}": {n: statistics.median(all_) for n, all_ in taken.items()}}


def engines(prompt: int, context: int, layers: int, turns: int) -> dict[str, dict[str, float]]:
    """Seconds of a prompt, and of a token behind so many, with day 4's attention and today's: medians, in turns."""
    shape.LAYERS = layers
    shape.SHAPE.update(num_hidden_layers=layers, max_position_embeddings=2 * context)
    caller, _ = shape.ours(SOLUTION.parent, int8=False)
    model: Any = caller.model
    found: dict[str, dict[str, float]] = {}

    def measure(what: str, run: Callable[[], float], turns: int) -> None:
        taken: dict[str, list[float]] = {"fused": [], "flash": []}
        for _ in range(turns):
            for name, all_ in taken.items():
                model.flash = name == "flash"
                all_.append(run())
        found[what] = {name: statistics.median(all_) for name, all_ in taken.items()}

    measure(f"a prompt of {prompt}", lambda: caller.prefill(prompt), turns)
    caller.prefill(context)
    measure(f"a token behind {context}", lambda: caller.decode(STEPS, context), turns)
    return found


if __name__ == "__main__":
    main()
