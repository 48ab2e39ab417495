"""`pdm run train`: checks what was asked for, starts the processes of the run, and shows how far it is."""

import dataclasses
import hashlib
import json
import math
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from ..registry import UsageError
from .recipe import Recipe
from .stories import read_stories, split
from .trainer import Job, Report, Run, assist, join
from .vocabulary import train_tokenizer


def train(
    recipe: Recipe,
    text: Path,
    also: tuple[Path, ...],
    out: Path,
    device: str | None,
    workers: int | None,
    teacher: Path | None,
) -> int:
    """Train the recipe's model on a text, to the end or until Ctrl-C; the exit code."""
    stories, held_out = split(read_stories(text))
    if not held_out:
        raise UsageError(f"{text} is too short: none of its {len(stories)} stories would be held out")
    for file in also:
        stories += [story for story in read_stories(file) if story not in set(held_out)]
    device = device or ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
    workers = workers or (max(1, (os.cpu_count() or 1) - 1) if device == "cpu" else 1)
    workers = min(workers, recipe.schedule.rows)
    if workers > 1 and device != "cpu":
        raise UsageError(f"--workers {workers} is for the CPU; on {device} one process does the work")
    tokenizer = _tokenizer(teacher, stories, recipe)
    job = Job(recipe, stories, held_out, tokenizer, out, device, workers, teacher)
    print(f"{len(stories)} stories to train on, {len(held_out)} held out; {device}, {workers} processes")
    with tempfile.TemporaryDirectory() as meeting, _assistants(job, f"{meeting}/meeting"):
        if workers > 1:
            join(0, job, f"{meeting}/meeting")
        run = Run(job)
        if run.step:
            print(f"Resumed at step {run.step} of {recipe.schedule.steps}.")
        weights = sum(w.numel() for w in run.model.parameters())
        print(
            f"{recipe.name}: {weights:,} weights; a loss of {math.log(recipe.architecture.vocab_size):.2f} is guessing"
        )
        sys.stdout.flush()
        with _progress(recipe, run.step) as report:
            finished = run.go(report)
    if not finished:
        print(f"Stopped at step {run.step}. The same command goes on from there.")
        return 130
    _write_record(run, (text, *also))
    print(
        f'Done in {run.seconds / 60:.0f} minutes of training. Try it: pdm run generate "Once upon a time" --model {out}'
    )
    return 0


def _write_record(run: Run, texts: tuple[Path, ...]) -> None:
    """training/record.json: what a model card says about how the model was made."""
    job = run.job
    record = {
        **dataclasses.asdict(job.recipe),
        "texts": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in texts},
        "stories": len(job.stories),
        "held_out": len(job.held_out),
        "teacher": job.teacher.name if job.teacher else None,
        "weights": sum(w.numel() for w in run.model.parameters()),
        "machine": f"{platform.system()} {platform.machine()}, {job.device}, {job.workers} processes",
        "torch": torch.__version__,
        "minutes": round(run.seconds / 60),
        "log": run.log,
    }
    (job.checkpoint.parent / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _tokenizer(teacher: Path | None, stories: list[str], recipe: Recipe) -> str:
    """The teacher's, or a new one."""
    if teacher is None:
        tokenizer = train_tokenizer(stories, recipe.architecture.vocab_size)
    else:
        tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    wanted, got = recipe.architecture.vocab_size, tokenizer.get_vocab_size()
    if got != wanted:
        origin = "the text gives" if teacher is None else f"{teacher} has"
        raise UsageError(f"The recipe's vocab_size is {wanted}, but {origin} {got} tokens")
    return str(tokenizer.to_str())


@contextmanager
def _assistants(job: Job, meeting: str) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=assist, args=(rank, job, meeting), daemon=True) for rank in range(1, job.workers)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


@contextmanager
def _progress(recipe: Recipe, start: int) -> Iterator[Report]:
    """A bar in a terminal, and a line for every check everywhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(highlight=False)
    bar = Progress(
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(bar_width=None),
        TextColumn("loss {task.fields[loss]:.3f}  {task.fields[pace]:,.0f} tokens/s "),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=console,
        disable=not console.is_terminal,
    )
    shown = bar.add_task("", total=recipe.schedule.steps, completed=start, loss=math.nan, pace=0.0)
    began, first = time.perf_counter(), start

    def step(number: int, loss: float, pace: float) -> None:
        bar.update(shown, completed=number, loss=loss, pace=pace)

    def check(entry: dict[str, Any], sample: str) -> None:
        left = (time.perf_counter() - began) / (entry["step"] - first) * (recipe.schedule.steps - entry["step"])
        figures = (
            f"loss {entry['loss']:.3f}, held out {entry['held_out_loss']:.3f}, {entry['bits_per_byte']:.3f} bits a byte"
        )
        console.print(f"step {entry['step']}: {figures}; {left / 60:.0f} minutes left", markup=False)
        console.print("  " + sample.replace("\n", "\n  "), markup=False, style="dim", soft_wrap=True)

    with bar:
        yield Report(step, check)
