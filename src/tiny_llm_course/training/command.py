"""`pdm run train`: prepares a training job, starts its processes, and shows their progress."""

import dataclasses
import hashlib
import json
import math
import multiprocessing
import platform
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..terminal.screen import say
from .preparing import Teacher, Texts, prepare
from .recipe import Recipe
from .trainer import Job, OnCheck, OnStep, Run, assist, join


def train(recipe: Recipe, texts: Texts, out: Path, device: str | None, workers: int | None, teacher: Teacher) -> int:
    """Train the recipe's model on texts, to the end or until Ctrl-C; return the exit code."""
    job = prepare(recipe, texts, out, device, workers, teacher)
    by = f"{job.workers} process{'es' * (job.workers > 1)}"
    say(f"{len(job.stories)} stories to train on, {len(job.held_out)} held out; {job.device}, {by}")
    with tempfile.TemporaryDirectory() as folder, _workers(job, rendezvous := f"{folder}/rendezvous"):
        if job.workers > 1:
            join(0, job, rendezvous)
        run = Run(job)
        if run.step:
            say(f"Resumed at step {run.step} of {recipe.schedule.steps}.")
        weights = sum(w.numel() for w in run.model.parameters())
        guessing = math.log(recipe.architecture.vocab_size)
        say(f"{recipe.name}: {weights:,} parameters; random guessing has a loss of {guessing:.2f}")
        with _progress(recipe, run.step) as report:
            try:
                finished = run.go(*report)
            except RuntimeError as error:
                if job.workers == 1:
                    raise
                say(f"A worker process exited: {error}. Run the same command to resume from the last checkpoint.")
                return 1
    if not finished:
        say(f"Stopped at step {run.step}. Run the same command to resume.")
        return 130
    _write_record(run, texts)
    say(f'Done in {_about(run.seconds)} of training. Try it: pdm run generate "Once upon a time" --model {out}')
    return 0


def _write_record(run: Run, texts: Texts) -> None:
    """Write training/record.json: what a model card says about the training."""
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


@contextmanager
def _workers(job: Job, rendezvous: str) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    ranks = range(1, job.workers)
    processes = [spawn.Process(target=assist, args=(rank, job, rendezvous), daemon=True) for rank in ranks]
    try:
        # Ctrl-C reaches the workers too; they inherit the ignored signal.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in processes:
            process.start()
        signal.signal(signal.SIGINT, before)
        yield
    finally:
        for process in processes:
            if process.pid:
                process.terminate()
                process.join()


def _about(seconds: float) -> str:
    """Return a duration, rounded."""
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"


@contextmanager
def _progress(recipe: Recipe, start: int) -> Iterator[tuple[OnStep, OnCheck]]:
    """Show a progress bar on a terminal, and print a line per evaluation."""
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
        losses = f"loss {entry['loss']:.3f}, held out {entry['held_out_loss']:.3f}"
        say(f"step {entry['step']}: {losses}, {entry['bits_per_byte']:.3f} bits per byte; {_about(left)} left")
        say("  " + sample.replace("\n", "\n  "), dim=True)

    with bar:
        yield step, check
