"""Measure the fused engine's decode and prefill throughput beside llama.cpp and mlx-lm: `benches/decode.json`.

    pdm run python benches/decode.py [--quick] [--llama-python PYTHON]

All have the shape of Qwen3-0.6B, random weights in 4 bits, and take turns on one CPU, each in a process of its own
(`decode_engines.py`). Then come our stages and the others, on the model that comes with the course and in that shape,
kept for the book as `progression.json` and `progression_large.json`, and what 8-bit activations do to the perplexity.
On a quiet machine, for some minutes.

mlx-lm and llama-cpp-python are used where they are installed: `pdm run dev-setup` brings mlx-lm, and `pip install
llama-cpp-python gguf`, in any environment, which --llama-python then names, takes some minutes. Where llama.cpp is
missing, what was recorded for it stands in.
"""

import argparse
import ctypes
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported, as `generate` does

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402
from decode_engines import SHAPE, write_checkpoint  # noqa: E402

from tiny_llm_course.course.registry import load_course  # noqa: E402
from tiny_llm_course.grading.build import must_be_built  # noqa: E402
from tiny_llm_course.measuring import progression  # noqa: E402
from tiny_llm_course.measuring.engine_process import Process, llama_cpp  # noqa: E402
from tiny_llm_course.measuring.machine import machine  # noqa: E402
from tiny_llm_course.measuring.progression import MODELS  # noqa: E402
from tiny_llm_course.paths import SOLUTION  # noqa: E402

HERE = Path(__file__).parent
RECORD = Path(__file__).with_suffix(".json")
TURNS, STEPS = 5, 12
SHORT, LONG = 128, 2048
# Bytes of Qwen3-0.6B in 4 bits that each token reads, with scales and biases in bfloat16: 0.5 + 4 / 64 a weight.
WEIGHTS = (28 * (1024 * 128 * (16 + 2 * 8) + 16 * 128 * 1024 + 3 * 1024 * 3072) + 151936 * 1024) * 0.5625
CACHE = 28 * 2 * 8 * 128 * 4  # of each token before, in float32
NAME, BUDGET = "qwen3-0.6b", 240.0  # of the checkpoint in this shape; seconds for all stages on it
# What each required day of week 2 gains. On the small model, products are not what takes the time.
LADDER = (
    ("kv-cache", "week1", 1.0),
    ("quantized", "kv-cache", 1.0),
    ("cpu-kernel", "kv-cache", 1.0),
    ("cpu-kernel", "quantized", 3.0),
    ("fused", "cpu-kernel", 1.0),
    ("fused", "llama.cpp", 1.0),
    ("int8", "llama.cpp", 1.0),
)
BUSY = "while True: pass"


def main() -> None:
    """Measure, print the tables, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one turn each, to see that it runs; nothing is written")
    parser.add_argument("--llama-python", default=sys.executable, help="the Python that has llama-cpp-python")
    options = parser.parse_args()
    must_be_built([load_course().task("2.4.5")], SOLUTION)
    turns = 1 if options.quick else TURNS
    found: dict[str, Any] = {"date": datetime.date.today().isoformat(), "machine": machine()}
    memory = Memory()
    found["tokens/s"] = large(turns, options.llama_python, memory)
    found["bandwidth"] = statistics.median(memory.taken)
    print(f"memory: {found['bandwidth'] / 1e9:.1f} GB/s on {os.cpu_count()} cores")
    stages = progression.measure(None, True, quick=options.quick, budget=inf, llama_python=options.llama_python)
    perplexities = subprocess.check_output([sys.executable, str(HERE / "int8_perplexity.py")])
    folder = write_checkpoint(MODELS / NAME)
    budget = BUDGET / 4 if options.quick else BUDGET
    beside = progression.measure(
        str(folder), True, quick=options.quick, budget=budget, llama_python=options.llama_python
    )
    for model, each in (("embedded", stages), (NAME, beside)):
        each["rows"] = [row for row in each["rows"] if "tokens/s" in row]
        taken = [row for row in each["rows"] if "turns" in row and "recorded" not in row]
        found[model] = {row["name"]: row["tokens/s"] for row in taken}
    found["embedded"] |= json.loads(perplexities)
    bars = list(against_the_bars(found))
    for row in bars:
        print("{:<58} {:>9} {:>9}  {}".format(*row))
    if not options.quick:
        records = {RECORD: found | {"bars": bars}, progression.RECORD: stages, progression.LARGE: beside}
        for record, figures in records.items():
            record.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class Memory:
    """What all cores read together, bytes a second, noted in `taken` whenever it is tried.

    The memory is MLX's, as that of the weights. It is tried between the turns of decode, as the memory of a virtual
    machine may be half as fast again a minute later.
    """

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._read_all = ctypes.CDLL(str(SOLUTION / "kernels/.build/stream.so")).read_all
        numbers: Any = mx.ones(1 << 27)
        mx.eval(numbers)
        self._numbers = np.asarray(memoryview(numbers))

    def read(self) -> None:
        """Read 512 MiB a few times; the best counts."""
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            self._read_all(ctypes.c_void_p(self._numbers.ctypes.data), ctypes.c_int64(self._numbers.size))
            times.append(time.perf_counter() - begun)
        self.taken.append(self._numbers.nbytes / min(times))


def large(turns: int, llama_python: str, memory: Memory) -> dict[str, dict[str, float]]:
    """Tokens a second of each engine, by what it does: the median of all turns."""
    engines: dict[str, Process] = {}
    for name in ("int8", "float", "llama.cpp", "mlx-lm"):
        command = [sys.executable, str(HERE / "decode_engines.py"), name, str(SOLUTION.parent)]
        try:
            engines[name] = llama_cpp(SHAPE, MODELS, llama_python) if name == "llama.cpp" else Process(command)
        except RuntimeError:
            print(f"{name} is not installed here: it is left out")
    ours = {name: engine for name, engine in engines.items() if name != "mlx-lm"}
    found: dict[str, dict[str, list[float]]] = {engine.title: {} for engine in engines.values()}

    def measure(what: str, engines: dict[str, Process], run: Callable[[Process], float], tokens: int = 1) -> None:
        for _ in range(turns):
            for engine in engines.values():
                found[engine.title].setdefault(what, []).append(tokens / run(engine))
            if engines is ours and tokens == 1:
                memory.read()

    measure(f"decode at {SHORT}", ours, lambda engine: engine.tell(decode=STEPS, context=SHORT))
    measure(f"prefill {SHORT}", ours, lambda engine: engine.tell(prefill=SHORT), SHORT)
    measure(f"decode at {LONG}", ours, lambda engine: engine.tell(decode=STEPS, context=LONG))
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    beside = {name: ours[name] for name in ("int8", "float")}  # llama.cpp needs seconds for a token then
    measure(f"decode at {SHORT}, one core busy", beside, lambda engine: engine.tell(decode=STEPS, context=SHORT))
    busy.terminate()
    if "mlx-lm" in engines:  # so slow that a few tokens must do; its time grows with them evenly
        slow = {"mlx-lm": engines["mlx-lm"]}
        measure(f"prefill {SHORT}", slow, lambda engine: engine.tell(prefill=4), 4)
        measure(f"decode at {SHORT}", slow, lambda engine: engine.tell(decode=1, context=4))
    for engine in engines.values():
        engine.end()
    medians = {title: {what: statistics.median(all_) for what, all_ in rows.items()} for title, rows in found.items()}
    for what in dict.fromkeys(what for rows in medians.values() for what in rows):
        print(what)
        for title, rows in medians.items():
            if what in rows:
                print(f"  {rows[what]:8.2f} tokens/s  {title}")
    return medians


def against_the_bars(found: dict[str, Any]) -> Any:
    """What was asked for beside what it is: rows of name, bar, figure and verdict."""
    rows, embedded = found["tokens/s"], found["embedded"]
    int8, floats = (next(rows[title] for title in rows if words in title) for words in ("8-bit", "float32 act"))
    llama = next((rows[title] for title in rows if title.startswith("llama.cpp")), None) or recorded()
    mlx_lm = next((rows[title] for title in rows if title.startswith("mlx-lm")), None)

    def row(what: str, bar: float, figure: float, least: bool = True) -> tuple[str, str, str, str]:
        reached = figure >= bar if least else figure <= bar
        return what, f"{'>=' if least else '<='} {bar:g}", f"{figure:.3g}", "reached" if reached else "missed"

    decode, prefill = f"decode at {SHORT}", f"prefill {SHORT}"
    if llama:
        yield row("decode, times llama.cpp's (8-bit activations)", 1.2, int8[decode] / llama[decode])
        yield row("decode, times llama.cpp's (float32 activations)", 1.2, floats[decode] / llama[decode])
        yield row("prefill, times llama.cpp's", 1.0, int8[prefill] / llama[prefill])
    if mlx_lm:
        yield row("decode, times mlx-lm's", 25, int8[decode] / mlx_lm[decode])
        yield row("prefill, times mlx-lm's", 40, int8[prefill] / mlx_lm[prefill])
    for name, each in (("8-bit", int8), ("float32", floats)):
        yield row(f"share of the bandwidth, {name}", 0.6, each[decode] * (WEIGHTS + SHORT * CACHE) / found["bandwidth"])
        more = 1 / each[f"decode at {LONG}"] - 1 / each[decode]
        explained = (LONG - SHORT) * CACHE / found["bandwidth"]
        yield row(f"from {SHORT} to {LONG}, times what the cache's bytes explain, {name}", 1.5, more / explained, False)
        yield row(f"with one core busy, {name}", 0.5, each[f"{decode}, one core busy"] / each[decode])
    for model in ("embedded", NAME):
        stages = found[model]
        for faster, slower, bar in LADDER:
            if faster in stages and slower in stages:
                yield row(f"{model}: {faster}, times {slower}", bar, stages[faster] / stages[slower])
    if "mlx-lm" in embedded:
        yield row("embedded model, times mlx-lm's", 1.5, embedded["fused"] / embedded["mlx-lm"])
    yield row("embedded model, times stage week1's", 30, embedded["fused"] / embedded["week1"])
    change = embedded["perplexity, 8 bits"] / embedded["perplexity"]
    yield row("perplexity with 8-bit activations, times the float's", 1.01, change, False)


def recorded() -> dict[str, float]:
    """llama.cpp's figures of the record, with where and when they were taken."""
    if not RECORD.is_file():
        return {}
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = [rows for title, rows in record["tokens/s"].items() if title.startswith("llama.cpp")]
    if found:
        print(f"llama.cpp's figures are those of {record['date']}, {record['machine']['processor']}")
    return found[0] if found else {}


if __name__ == "__main__":
    main()
