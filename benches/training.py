"""Measure training: how long each part of it takes.

    pdm run python benches/training.py

The text is the stories in the folder that the environment variable TINY_LLM_DATA names, by default
`../shared/data/tinystories` beside the checkout; without them, it is made of random words. Each part prints a line of
its own, and `--json` writes the figures.

`tokenizer` trains a tokenizer of 2,048 tokens on 5 MB on one core, beside Hugging Face's `tokenizers` on one core, if
that is installed, and checks that both learn the same merges. The naive loop, which counts all pairs again for every
merge, is timed for a few merges and extrapolated.

`steps` takes training steps of the embedded model's architecture, 8 rows of 256 tokens, in turns: with the course's
loop, with its fused operators, with `mlx.nn` and `mlx.optimizers`, and with PyTorch, where those are installed. A turn
is one step of each, and the ratios are medians over the turns. The environment variable PAUSE sets seconds of rest
between two turns, for a shared machine.

`parts` times the parts of such a step one by one, of arrays and fused: the shortest of several calls, times the number
of calls in a step. Chapter 5.4 draws `steps` and `parts` from benches/training.json.
"""

import argparse
import datetime
import importlib.util
import json
import os
import runpy
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported

from tiny_llm_course.measuring.machine import machine  # noqa: E402
from tiny_llm_course.paths import ROOT  # noqa: E402
from tiny_llm_course.programs.packages import load_solution  # noqa: E402

Row = dict[str, Any]
BYTES, VOCABULARY = 5_000_000, 2_048
SAMPLE = 3  # the merges that the naive loop is timed with
TURNS = 12  # steps of each way to train
REST = 0.3  # seconds before each step: threads of the one before, which wait for work in a loop, go to sleep
PAUSE = float(os.environ.get("PAUSE", "0"))  # seconds between two turns: on a shared machine, others run meanwhile
TOKENS = 8 * 256  # in a step
CALLS = 7  # of each part


def main() -> None:
    """Measure the parts, print a line for each, and write the JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"what to measure (default: all): {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    load_solution()
    found: Row = {"date": datetime.date.today().isoformat(), "machine": machine()}
    for name in options.parts or PARTS:
        found[name], line = PARTS[name]()
        print(f"{name}: {line}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def training_text(size: int) -> tuple[str, str]:
    """Return about `size` bytes of text and what it is: stories, repeated if there are fewer, or random words."""
    folder = Path(os.environ.get("TINY_LLM_DATA") or ROOT.parent / "shared" / "data") / "tinystories"
    files = sorted(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []
    if files:
        stories = b"\n".join(file.read_bytes() for file in files)
        return (stories * (1 + size // len(stories)))[:size].decode(errors="ignore"), "of stories"
    words = runpy.run_path(str(ROOT / "benches" / "week5" / "day1.py"))
    return words["random_text"](size), "of random words"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and the CPU seconds that it took."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


def tokenizer() -> tuple[Row, str]:
    """Train a tokenizer of 2,048 tokens on 5 MB of text."""
    from tiny_llm_solution.bpe.naive import train_naively
    from tiny_llm_solution.bpe.trainer import train_bpe
    from tiny_llm_solution.bpe.words import count_words

    text, what = training_text(BYTES)
    merges = VOCABULARY - 256
    words, counting = timed(lambda: count_words([text]))
    learned, training = timed(lambda: train_bpe(words, merges))
    _, sample = timed(lambda: train_naively(words, SAMPLE))
    naive = sample / SAMPLE * merges
    whole = naive * sum(words.values()) / len(words)
    row = {
        "bytes": len(text.encode()), "text": what, "words": sum(words.values()), "distinct": len(words),
        "vocabulary": 256 + len(learned), "count_seconds": counting, "train_seconds": training,
        "naive_seconds": naive, "naive_on_text_seconds": whole,
    }  # fmt: skip
    line = (
        f"{row['bytes'] / 1e6:.1f} MB {what}, {row['distinct']:,} distinct words of {row['words']:,}, to "
        f"{row['vocabulary']:,} tokens in {counting + training:.1f} s of one core (words {counting:.1f} s, merges "
        f"{training:.1f} s)"
    )
    if importlib.util.find_spec("tokenizers"):
        theirs, seconds = timed(lambda: with_tokenizers(text))
        row |= {"tokenizers_seconds": seconds, "equal": theirs == learned}
        line += f"; Hugging Face's tokenizers: {seconds:.1f} s, {'the same' if theirs == learned else 'OTHER'} merges"
    line += f"; naive loop, extrapolated: {naive:,.0f} s on distinct words, {whole / 3600:.1f} h on the whole text"
    return row, line


def with_tokenizers(text: str) -> list[tuple[str, str]]:
    """Return the merges that `tokenizers` learns on one core."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    model.train_from_iterator([text], trainer)
    return [(a, b) for a, b in json.loads(model.to_str())["model"]["merges"]]


def steps() -> tuple[Row, str]:
    """Take steps of each way to train, in turns."""
    from training_ways import ways_to_train

    ways = ways_to_train()
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        time.sleep(PAUSE)
        for name, step in ways.items():
            time.sleep(REST)
            wall, cpu = time.perf_counter(), time.process_time()
            step()
            if turn:  # the first is a warm-up
                took[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    row: Row = {"turns": TURNS, "blas": blas.in_use() or "MLX's own"}
    said = []
    for name, times in took.items():
        walls = [wall for wall, _ in times]
        row[name] = {
            "tokens_per_second": TOKENS / statistics.median(walls),
            "best": TOKENS / min(walls),
            "cpu_seconds": statistics.median(cpu for _, cpu in times),
            "ratios": {
                other: statistics.median(b / a for (a, _), (b, _) in zip(times, theirs, strict=True))
                for other, theirs in took.items()
                if other != name
            },
        }
        said.append(f"{name} {row[name]['tokens_per_second']:,.0f} tokens/s (best {row[name]['best']:,.0f})")
    for one, other in (("ours", "mlx.nn"), ("fused", "ours"), ("fused", "PyTorch")):
        if one in ways and other in ways:
            said.append(f"{one} / {other} = {row[one]['ratios'][other]:.2f}")
    return row, f"{row['blas']}, {os.cpu_count()} cores: " + ", ".join(said)


def parts() -> tuple[Row, str]:
    """Time the parts of a training step."""
    from training_parts import measured

    found: Row = measured(CALLS)
    words = [f"{name} {part['arrays']:.0f} ms, fused {part['fused']:.0f}" for name, part in found.items()]
    return found, "; ".join(words)


PARTS: dict[str, Callable[[], tuple[Row, str]]] = {"tokenizer": tokenizer, "steps": steps, "parts": parts}


if __name__ == "__main__":
    main()
