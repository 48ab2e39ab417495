"""Measure MLX with NumPy's OpenBLAS on a Linux CPU: float32 products, and one story from our engine.

    pdm run python benches/blas.py [--runs 5]

Which library multiplies is settled before MLX is imported, so each run is a process of its own; those with it and
without take turns. `doctor` tells the ratio of the products.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from tiny_llm_course.doctor import blas
from tiny_llm_course.terminal.tables import in_columns

# Rows, columns, and what is summed over: in tiny-qwen3 for one token and for 50, and in a layer of Qwen3-0.6B for 128.
PRODUCTS = ((1, 2048, 256), (50, 576, 256), (50, 2048, 256), (128, 3072, 1024))
PROMPT, SEED, TOKENS = "Once upon a time", 6, 36  # the tour's story


def main() -> None:
    """Measure both in turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="how often each is run (default: 5)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure()))
        return
    both: dict[str, list[dict[str, float]]] = {"0": [], "1": []}
    for _ in range(options.runs):
        for switch, found in both.items():
            command = [sys.executable, __file__, "--one"]
            done = subprocess.run(command, env={**os.environ, blas.OFF: switch}, capture_output=True, check=True)
            found.append(json.loads(done.stdout))
    own, fast = ({name: statistics.median(run[name] for run in runs) for name in runs[0]} for runs in both.values())
    rows = [[name, f"{own[name]:.3g}", f"{fast[name]:.3g}", f"{fast[name] / own[name]:.1f}"] for name in own]
    print("\n".join(in_columns(("", "MLX alone", "with OpenBLAS", "times"), rows, 80)))


def measure() -> dict[str, float]:
    """GFLOP/s of each product, tokens/s of the story, with the library that this process has."""
    blas.load()
    import mlx.core as mx

    from tiny_llm_course.engine.engine import Sampling, load_engine
    from tiny_llm_course.measuring.clock import seconds

    if os.environ[blas.OFF] == "1" and not blas.in_use():
        sys.exit("NumPy's OpenBLAS cannot be used here; pdm run doctor says why")
    mx.set_default_device(mx.cpu)
    found = {}
    for rows, columns, depth in PRODUCTS:
        x, weights = mx.random.normal((rows, depth)), mx.random.normal((columns, depth))
        mx.eval(x, weights)
        (taken,) = seconds(lambda x=x, weights=weights: x @ weights.T)  # type: ignore[misc]
        found[f"{rows} x {depth} by {columns}: GFLOP/s"] = 2e-9 * rows * columns * depth / taken
    engine = load_engine(None, True, "float32", "kv-cache")
    answer = engine.answer(engine.encode(PROMPT), TOKENS, engine.sampler(Sampling(seed=SEED)))
    list(answer.pieces)
    return found | {"a story: tokens/s": answer.tokens / answer.seconds}


if __name__ == "__main__":
    main()
