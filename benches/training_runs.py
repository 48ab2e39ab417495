"""Record the training runs of chapter 5.4: loss curves, samples, and losses of models of several sizes.

    TINY_LLM_DATA=/path/to/data pdm run python benches/training_runs.py book/generate/week5/runs.json
    TINY_LLM_DATA=/path/to/data pdm run python benches/training_runs.py book/generate/week5/resumed.json --resumed

Reads the stories in the folder tinystories of TINY_LLM_DATA, and trains with the solution's loop on the tokens of the
embedded model's tokenizer. All runs have the same data, order and schedule. What is recorded are figures and samples; a
run that the file has already is not repeated. With `--resumed`, a small run is stopped and continued, once as it should
be and once with an empty optimizer state.
"""

import argparse
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported

import mlx.core as mx  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from tiny_llm_course.paths import EMBEDDED_MODEL  # noqa: E402
from tiny_llm_course.programs.packages import load_solution  # noqa: E402

load_solution()

from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.dataset.loader import ShardedLoader  # noqa: E402
from tiny_llm_solution.dataset.order import split_by_document  # noqa: E402
from tiny_llm_solution.dataset.packing import Rows, pack_documents  # noqa: E402
from tiny_llm_solution.dataset.shards import write_shard  # noqa: E402
from tiny_llm_solution.optimizers.adamw import AdamW  # noqa: E402
from tiny_llm_solution.qwen3_cached.generate import generate_cached  # noqa: E402
from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel  # noqa: E402
from tiny_llm_solution.sampler import make_sampler  # noqa: E402
from tiny_llm_solution.training.checkpoint import Checkpoints  # noqa: E402
from tiny_llm_solution.training.loop import Recipe, Report, Trainer  # noqa: E402
from tiny_llm_solution.training.model import compiled_loss_and_grads, initial_params, loss_function  # noqa: E402

LENGTH, ROWS, VOCABULARY = 128, 8, 2048
PROMPT = "Once upon a time"
SAMPLED = (0, 25, 100, 250)  # steps
WIDTHS = (128, 96, 64, 48, 32, 24)  # of the models, the largest first


def architecture(width: int, layers: int) -> ModelConfig:
    """Return a Qwen3 of this width: heads of 16 numbers, four query heads in a group for each key-value head."""
    heads = width // 16 if width % 16 == 0 else width // 8
    return ModelConfig(
        "qwen3", width, layers, round(8 / 3 * width), heads, max(1, heads // 4) if heads % 4 == 0 else 1,
        width // heads, VOCABULARY, 1e-6, 1e4, 512, True,
    )  # fmt: skip


def main() -> None:
    """Train what the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path)
    parser.add_argument("--steps", type=int, default=SAMPLED[-1])
    parser.add_argument("--widths", type=int, nargs="+", default=list(WIDTHS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resumed", action="store_true")
    options = parser.parse_args()
    runs: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}
    tokenizer = Tokenizer.from_file(str(EMBEDDED_MODEL / "tokenizer.json"))
    eos = tokenizer.token_to_id("<|endoftext|>")
    folder = Path(os.environ["TINY_LLM_DATA"]) / "tinystories"
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.glob("*.txt"))]
    stories = [
        story.strip() for text in texts for story in re.split(r"<\|endoftext\|>|\n(?=Once upon a time|One day)", text)
    ]
    stories = [story for story in stories if len(story) > 200]
    documents = [each.ids for each in tokenizer.encode_batch(stories)]
    train, validation = split_by_document(documents, 0.01)
    held_out = pack_documents(validation, LENGTH, eos)[: 8 * ROWS]
    with tempfile.TemporaryDirectory() as scratch:
        shard = Path(scratch) / "stories.npy"
        write_shard(shard, train, eos)
        if options.resumed:
            options.json.write_text(json.dumps(resumed(shard, eos or 0, Path(scratch))) + "\n")
            return
        for width in options.widths:
            layers = 4 if width > 32 else 2
            name = f"{width}-{options.seed}"
            if name in runs:
                continue
            loader = ShardedLoader([shard], ROWS, LENGTH, eos, seed=0)
            runs[name] = train_one(
                architecture(width, layers), loader, held_out, tokenizer, eos or 0, options, Path(scratch) / name
            )
            options.json.write_text(json.dumps(runs) + "\n")


def train_one(
    config: ModelConfig, loader: ShardedLoader, held_out: Rows, tokenizer: Tokenizer, eos: int, options: Any, out: Path
) -> dict[str, Any]:
    """Train one model, and return its size, losses and samples."""
    params = initial_params(config, options.seed)
    loss_of = loss_function(config)

    def evaluate(params: Any) -> float:
        parts = [loss_of(params, held_out[i : i + ROWS]) for i in range(0, len(held_out), ROWS)]
        counts = [mx.sum(held_out.targets[i : i + ROWS] >= 0) for i in range(0, len(held_out), ROWS)]
        return float((sum(a * b for a, b in zip(parts, counts, strict=True)) / sum(counts)).item())

    recipe = Recipe(
        options.steps, 3e-3, warmup=40, floor=1e-4, evaluate_every=50, save_every=options.steps, spike_factor=50
    )
    optimizer = AdamW(recipe.learning_rate, (0.9, 0.95), weight_decay=0.1)
    trainer = Trainer(compiled_loss_and_grads(config), params, loader, optimizer, recipe, Checkpoints(out), evaluate)
    samples = {"0": sample(config, params, tokenizer, eos)} if config.hidden_size == WIDTHS[0] else {}
    start = time.process_time()
    first = evaluate(params)

    def on_step(report: Report) -> None:
        if report.step % 25 == 0:
            took = time.process_time() - start
            print(f"{config.hidden_size}: {report} {took / report.step:.2f} CPU s a step", flush=True)
        if samples and report.step in SAMPLED:
            samples[str(report.step)] = sample(config, trainer.params, tokenizer, eos)
            print(samples[str(report.step)], flush=True)

    trainer.run(on_step)
    return {
        "width": config.hidden_size,
        "layers": config.num_hidden_layers,
        "params": sum(p.size for p in params.values()),
        "steps": options.steps,
        "tokens": sum(report.targets for report in trainer.log),
        "cpu_seconds": round(time.process_time() - start, 1),
        "loss": [round(report.loss, 4) for report in trainer.log],
        "norm": [round(report.norm, 4) for report in trainer.log],
        "skipped": [report.step for report in trainer.log if report.skipped],
        "held_out": {"0": round(first, 4)}
        | {str(report.step): round(report.held_out, 4) for report in trainer.log if report.held_out is not None},
        "samples": samples,
    }


def resumed(shard: Path, eos: int, scratch: Path) -> dict[str, Any]:
    """Stop a run after 60 of 100 steps, and return the losses of the uninterrupted run and of two continued ones."""
    config, stop = architecture(24, 2), 60
    recipe = Recipe(100, 1e-2, warmup=10, floor=8e-3, save_every=1000, spike_factor=50)
    loss_and_grads = compiled_loss_and_grads(config)

    def trainer(folder: str) -> Trainer:
        loader = ShardedLoader([shard], 4, 64, eos, seed=0)
        optimizer = AdamW(recipe.learning_rate, (0.9, 0.999), weight_decay=0.1)
        params = initial_params(config, 0, 0.06)
        return Trainer(loss_and_grads, params, loader, optimizer, recipe, Checkpoints(scratch / folder))

    def losses(run: Trainer) -> list[float]:
        run.run()
        return [round(report.loss, 4) for report in run.log]

    found: dict[str, Any] = {"stop": stop, "uninterrupted": losses(trainer("whole"))}
    trainer("stopped").run(lambda report: report.step == stop)
    again, empty = trainer("stopped"), trainer("stopped")
    empty.optimizer_state = empty.optimizer.init(empty.params)
    empty.checkpoints = Checkpoints(scratch / "empty")
    found["resumed"] = losses(again)
    found["without the optimizer's state"] = losses(empty)
    return found


def sample(config: ModelConfig, params: Any, tokenizer: Tokenizer, eos: int) -> str:
    """Return a continuation of PROMPT, sampled at temperature 0.7 by the engine of week 2."""
    model = Qwen3CachedModel(config, params)
    tokens = generate_cached(model, tokenizer.encode(PROMPT).ids, 40, eos_ids=[eos], sampler=make_sampler(0.7, seed=1))
    return str(tokenizer.decode(list(tokens)))


if __name__ == "__main__":
    main()
