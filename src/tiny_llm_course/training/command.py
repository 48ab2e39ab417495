"""`pdm run train`: prepares a run, and shows its progress."""

import dataclasses
import hashlib
import json
import math
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import mlx.core as mx

from ..terminal.screen import say
from .curve import as_svg, in_characters
from .recipe import Recipe
from .run import Run, joined_group
from .stories import training_stories


def train(recipe: Recipe, texts: tuple[Path, ...], out: Path, solution: bool) -> int:
    """Train the recipe's model on texts, to the end or until Ctrl-C; return the exit code."""
    stories, held_out = training_stories(texts)
    group = joined_group(solution)
    if group and group.rank:  # rank 0 shows the progress
        return 0 if Run(recipe, stories, held_out, out, solution, group).go(lambda report: False) else 130
    say(f"{len(stories)} stories to train on, {len(held_out)} held out; {mx.default_device()}")
    run = Run(recipe, stories, held_out, out, solution, group)
    guessing = math.log(recipe.architecture.vocab_size)
    say(f"{recipe.name}: {run.weights:,} parameters; random guessing has a loss of {guessing:.2f}")
    say(f"operators: {'fused, in C++ on all cores (5.4.5)' if run.fused else 'of MLX'}")
    for damaged in run.trainer.skipped_checkpoints:
        say(f"A checkpoint is damaged and not used: {damaged}")
    if run.trainer.step:
        say(f"Resumed at step {run.trainer.step} of {recipe.schedule.steps}.")
    began = time.perf_counter()
    with _interruptible() as stopped, _progress(run) as show:

        def on_step(report: Any) -> bool:
            show(report)
            return bool(stopped)

        finished = run.go(on_step)
    _record(run, texts, time.perf_counter() - began)
    if not finished:
        say(f"Stopped at step {run.trainer.step}. Run the same command to resume.")
        return 130
    took, ours = _about(time.perf_counter() - began), " --solution" * solution
    say(f'Done in {took}. Try it: pdm run generate "Once upon a time" --model {out}{ours}')
    return 0


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Yield a list that Ctrl-C makes true, so that the run ends after its step; a second Ctrl-C ends it at once."""
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(run: Run) -> Iterator[Any]:
    """Show a loss curve and a bar on a terminal, and print a line and a sample per evaluation."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    schedule, trainer, console = run.recipe.schedule, run.trainer, Console(highlight=False)
    bar = Progress(
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[pace]:,.0f} tokens/s "),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    task = bar.add_task("", total=schedule.steps, completed=trainer.step, pace=0.0)
    began, first = time.perf_counter(), trainer.step
    tokens = schedule.rows * schedule.micro_batches * schedule.context

    def show(report: Any) -> None:
        pace = (report.step - first) / (time.perf_counter() - began)
        bar.update(task, completed=report.step, pace=pace * tokens)
        if console.is_terminal:
            curve = Text("\n".join(in_characters([entry.loss for entry in trainer.log])), style="cyan")
            live.update(Group(curve, bar))
        if report.skipped:
            say(f"step {report.step}: skipped, the gradients' norm is {report.norm:.3g}")
        if report.held_out is None:
            return
        run.export()
        left = _about((schedule.steps - report.step) / pace)
        losses = f"loss {report.loss:.3f}, held out {report.held_out:.3f}"
        say(f"step {report.step}: {losses}, {run.bits_per_byte(report.held_out):.3f} bits per byte; {left} left")
        say("  " + run.sample().replace("\n", "\n  "), dim=True)

    with Live(bar, console=console, auto_refresh=console.is_terminal, transient=True) as live:
        yield show


def _record(run: Run, texts: tuple[Path, ...], seconds: float) -> None:
    """Write training/record.json, what a model card says about the training, and training/loss.svg."""
    log = [dataclasses.asdict(report) for report in run.trainer.log]
    if not log:
        return
    record = {
        **run.recipe.model_dump(),
        "texts": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in texts},
        "weights": run.weights,
        "machine": f"{platform.system()} {platform.machine()}, MLX {version('mlx')} on {mx.default_device()}",
        "seconds": round(seconds),
        "log": log,
    }
    (run.state / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    losses = [(entry["step"], entry["loss"]) for entry in log if math.isfinite(entry["loss"])]
    judged = [(entry["step"], entry["held_out"]) for entry in log if entry["held_out"] is not None]
    curves = {"training": losses} | ({"held out": judged} if judged else {})
    (run.state / "loss.svg").write_text(as_svg(curves), encoding="utf-8")


def _about(seconds: float) -> str:
    """Return a duration, rounded."""
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
