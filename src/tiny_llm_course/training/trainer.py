"""The training loop, in one process or several; a resumed run gives the same weights as an uninterrupted one."""

import ctypes
import dataclasses
import hashlib
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, distributed
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters

from ..checkpoints.held_out import END, Tokens
from ..course.registry import UsageError
from .packing import TURN_END, Packer, export, held_out
from .qwen3_torch import Qwen3, continuation, loss_on, mixed_precision, optimizers, share_of_peak
from .recipe import Recipe

SAMPLE = "Once upon a time"
WEIGHTS = "model.safetensors"
KEPT = ("step", "epoch", "row", "seconds", "recent", "log")
OnStep = Callable[[int, float, float], None]  # gets the step, its loss, and tokens/s
OnCheck = Callable[[dict[str, Any], str], None]  # gets a log entry and a sample text


@dataclasses.dataclass(frozen=True)
class Job:
    """What every process of a run needs."""

    recipe: Recipe
    stories: list[str]  # to train on
    held_out: list[str]
    tokenizer: str  # as tokenizer.json
    out: Path
    device: str
    workers: int
    teacher: Path | None  # a model's folder, with the same tokenizer

    @property
    def checkpoint(self) -> Path:
        """Return the checkpoint's path."""
        return self.out / "training" / "checkpoint.pt"

    def fingerprint(self) -> str:
        """Return a hash of what must not change between runs: recipe, texts, tokenizer and teacher."""
        teacher = hashlib.sha256((self.teacher / WEIGHTS).read_bytes()).hexdigest() if self.teacher else None
        parts = [dataclasses.asdict(self.recipe), self.stories, self.held_out, self.tokenizer, teacher]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def state(self) -> dict[str, Any] | None:
        """Return the checkpoint of a stopped run, or None; raise UsageError if it is unreadable or of another run."""
        if not self.checkpoint.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(self.checkpoint, map_location=self.device)
            same = state["fingerprint"] == self.fingerprint()
        except Exception as error:  # torch and pickle raise many types
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(f"{self.checkpoint} cannot be read: {reason}; delete it to start over") from error
        if not same:
            what = "recipe, text, tokenizer or teacher"
            raise UsageError(f"{self.out} holds a run with another {what}: choose another --out, or delete it")
        return state


def load_weights(folder: Path, model: torch.nn.Module) -> None:
    """Load a checkpoint folder's weights into the model."""
    import mlx.core as mx

    arrays = mx.load(str(folder / WEIGHTS))
    assert isinstance(arrays, dict)
    model.load_state_dict({name: torch.from_numpy(np.array(w.astype(mx.float32))) for name, w in arrays.items()})


class Run:
    """One process of a run; rank 0 writes the log and the checkpoints."""

    def __init__(self, job: Job, rank: int = 0) -> None:
        keep_memory()
        torch.set_num_threads(1)  # processes synchronize once per step, threads at every product
        self.job, self.rank, self.device = job, rank, torch.device(job.device)
        schedule = job.recipe.schedule
        config = job.recipe.architecture.config()
        torch.manual_seed(schedule.seed)
        self.model = Qwen3(config, schedule.dropout).to(self.device)
        self.teacher: torch.nn.Module | None = None
        if job.teacher:
            self.teacher = Qwen3(json.loads((job.teacher / "config.json").read_text(encoding="utf-8"))).to(self.device)
            load_weights(job.teacher, self.teacher)
            self.teacher.eval()
        self.optimizers = optimizers(self.model, schedule)
        self.tokenizer = Tokenizer.from_str(job.tokenizer)
        self.packer = Packer(job.stories, self.tokenizer, schedule.context, schedule.chat_share, schedule.seed)
        self.step, self.epoch, self.row, self.seconds = 0, 0, 0, 0.0
        self.recent: list[float] = []  # losses since the last evaluation
        self.log: list[dict[str, Any]] = []
        if state := job.state():
            self.model.load_state_dict(state["model"])
            for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(kept)
            for name in KEPT:
                setattr(self, name, state[name])
        self._rows = self.packer.epoch(self.epoch)
        if not len(self._rows):
            raise UsageError(f"The text does not fill one row of {schedule.context} tokens: add text, or lower context")

    def go(self, step: OnStep, check: OnCheck) -> bool:
        """Train to the end, or until Ctrl-C; return whether the end was reached."""
        schedule = self.job.recipe.schedule
        stopped = False

        def stop(number: int, frame: FrameType | None) -> None:
            nonlocal stopped
            stopped = True
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C interrupts at once

        if self.rank == 0:
            signal.signal(signal.SIGINT, stop)
            unseen = held_out(self.job.held_out, self.tokenizer, len(self.model.cos))
        began = time.perf_counter() - self.seconds
        while self.step < schedule.steps and not stopped:
            start = time.perf_counter()
            self.recent.append(self._update())
            self.step += 1
            if self.rank:
                continue
            pace = schedule.rows * schedule.context / (time.perf_counter() - start)
            step(self.step, self.recent[-1], pace)
            if self.step % schedule.every == 0 or self.step == schedule.steps:
                nats = loss_on(self.model, unseen.rows, self.device)
                entry = {
                    "step": self.step,
                    "tokens": self.step * schedule.rows * schedule.context,
                    "epoch": round(self.epoch + self.row / len(self._rows), 2),
                    "loss": round(sum(self.recent) / len(self.recent), 4),
                    "held_out_loss": round(nats, 4),
                    "bits_per_byte": round(unseen.bits_per_byte(nats), 4),
                }
                self.log.append(entry)
                self.recent = []
                self.seconds = time.perf_counter() - began
                self._save()
                prompt = self.tokenizer.encode(END + SAMPLE).ids
                ends = {self.tokenizer.token_to_id(END), self.tokenizer.token_to_id(TURN_END)}
                written = continuation(self.model, prompt, ends, self.step, self.device)
                check(entry, SAMPLE + str(self.tokenizer.decode(written)))
        if stopped:
            self.seconds = time.perf_counter() - began
            self._save()
        return not stopped

    def _update(self) -> float:
        """Run one optimizer step; return the loss before it, in nats per token."""
        schedule = self.job.recipe.schedule
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * share_of_peak(self.step, schedule)
        torch.manual_seed((schedule.seed * 1_000_003 + self.step) * self.job.workers + self.rank)
        rows = self._next_rows()[self.rank :: self.job.workers]
        self.model.zero_grad(set_to_none=False)
        loss = self._loss(torch.from_numpy(rows).to(self.device)) * (len(rows) / schedule.rows)
        loss.backward()
        weights = list(self.model.parameters())
        total = loss.detach().cpu()
        if self.job.workers > 1:
            gradients = [w.grad if w.grad is not None else torch.zeros_like(w) for w in weights]
            flat = torch.cat([parameters_to_vector(gradients), total[None]])
            distributed.all_reduce(flat)
            vector_to_parameters(flat[:-1], gradients)
            total = flat[-1]
        clip_grad_norm_(weights, schedule.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return float(total)

    def _loss(self, rows: Tensor) -> Tensor:
        """Return the nats per token; with a teacher, mixed with the distillation cross-entropy."""
        inputs, targets = rows[:, :-1], rows[:, 1:].flatten()
        with mixed_precision(self.device):
            logits = self.model(inputs)
        flat = logits.float().flatten(0, 1)
        loss = F.cross_entropy(flat, targets)
        if self.teacher is not None:
            with torch.no_grad(), mixed_precision(self.device):
                wanted = self.teacher(inputs).float().flatten(0, 1).softmax(dim=-1)
            share = self.job.recipe.schedule.teacher_share
            loss = (1 - share) * loss + share * F.cross_entropy(flat, wanted)
        return loss

    def _next_rows(self) -> Tokens:
        wanted, taken = self.job.recipe.schedule.rows, []
        while wanted:
            if self.row == len(self._rows):
                self.epoch, self.row = self.epoch + 1, 0
                self._rows = self.packer.epoch(self.epoch)
            part = self._rows[self.row : self.row + wanted]
            taken.append(part)
            self.row += len(part)
            wanted -= len(part)
        return np.concatenate(taken)

    def _save(self) -> None:
        """Export the model, and write the checkpoint."""
        export(self.job.out, self.job.recipe, self.model.state_dict(), self.tokenizer)
        self.job.checkpoint.parent.mkdir(exist_ok=True)
        state = {
            "fingerprint": self.job.fingerprint(),
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            **{name: getattr(self, name) for name in KEPT},
        }
        half_written = self.job.checkpoint.with_suffix(".part")
        torch.save(state, half_written)
        half_written.replace(self.job.checkpoint)


def assist(rank: int, job: Job, rendezvous: str) -> None:
    """Run a worker process: the same steps on its share of the rows. Rank 0 ends it."""
    with suppress(RuntimeError, UsageError):  # rank 0 has exited, or reports the error
        join(rank, job, rendezvous)
        Run(job, rank).go(lambda *_: None, lambda *_: None)


def join(rank: int, job: Job, rendezvous: str) -> None:
    """Join the process group through a rendezvous file."""
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=job.workers)


def keep_memory() -> None:
    """On Linux, let malloc keep freed memory instead of returning it to the system after each step."""
    if sys.platform != "linux":
        return
    trim_threshold, mmap_threshold = -1, -3  # malloc.h of glibc
    with suppress(OSError, AttributeError):
        for parameter in (trim_threshold, mmap_threshold):
            ctypes.CDLL(None).mallopt(parameter, 1 << 30)
