"""Check the training loop: kills, equality with PyTorch.

pdm run python benches/pretraining.py kills            # SIGKILL at 50 random moments
pdm run python benches/pretraining.py pytorch          # the same 500 steps in PyTorch: losses within 1 %
"""

import argparse
import dataclasses
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402

from tiny_llm_course.paths import SOLUTION  # noqa: E402
from tiny_llm_course.programs.packages import load_solution  # noqa: E402

load_solution()

from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.dataset.packing import Rows  # noqa: E402
from tiny_llm_solution.optimizers.adamw import AdamW  # noqa: E402
from tiny_llm_solution.training.checkpoint import Checkpoints  # noqa: E402
from tiny_llm_solution.training.loop import Recipe, Trainer  # noqa: E402
from tiny_llm_solution.training.model import compiled_loss_and_grads, initial_params  # noqa: E402

SMALL = ModelConfig("qwen3", 32, 2, 88, 4, 2, 8, 64, 1e-6, 1e4, 128, True)
CHILD = """
import sys
import mlx.core as mx
from pathlib import Path
from tiny_llm.training.checkpoint import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]))
for step in range(int(sys.argv[2]), 1000000):
    w = mx.full(2**17, step)
    checkpoints.save(step, {"w": w}, {"m": w + 1}, {"step": step})
    print(step, flush=True)
"""


def kills(count: int) -> None:
    """Kill a process that saves 1 MB all the time, and check that no saved step is lost."""
    draw, first = random.Random(0), 1
    environment = {**os.environ, "PYTHONPATH": str(SOLUTION.parent)}
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            command = [sys.executable, "-c", CHILD, name, str(first)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
                assert process.stdout
                told = [int(process.stdout.readline())]
                time.sleep(draw.uniform(0, 0.2))
                process.send_signal(signal.SIGKILL)
                told += [int(line) for line in process.stdout.read().split("\n")[:-1]]
            found = Checkpoints(Path(name)).load_latest()
            assert found is not None
            assert found.step >= max(told), f"kill {number}: step {max(told)} is lost"
            assert mx.all(found.params["w"] == found.step).item()
            assert mx.all(found.optimizer_state["m"] == found.step + 1).item()
            first = found.step + 1
    print(f"{count} kills, the last at step {first - 1}: no saved step was lost")


class Fixed:
    """A loader of seeded rows: a noisy sequence in which each token depends on the one before it."""

    def __init__(self, rows: int, length: int, vocab: int) -> None:
        self.shape, self.vocab, self.number = (rows, length + 1), vocab, 0

    def __next__(self) -> Rows:
        """Return the next batch."""
        generator = np.random.default_rng([7, self.number])
        self.number += 1
        tokens = generator.integers(0, self.vocab, self.shape)
        for i in range(1, self.shape[1]):
            known = generator.random(self.shape[0]) < 0.8
            tokens[:, i] = np.where(known, (5 * tokens[:, i - 1] + 3) % self.vocab, tokens[:, i])
        rows, length = self.shape[0], self.shape[1] - 1
        positions = np.broadcast_to(np.arange(length), (rows, length))
        parts = (tokens[:, :-1], tokens[:, 1:], np.zeros((rows, length)), positions)
        return Rows(*(mx.array(part.astype(np.int32)) for part in parts))

    def state(self) -> dict[str, Any]:
        """Return the number of the next batch."""
        return {"number": self.number}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.number = state["number"]


def pytorch(steps: int) -> None:
    """Train the same model on the same data in both, and compare the losses."""
    import torch
    from qwen3_torch import Qwen3
    from torch.nn import functional as F

    recipe = Recipe(steps, 3e-3, warmup=min(20, steps // 3), floor=1e-4, evaluate_every=10**9, save_every=10**9)
    params = initial_params(SMALL, 0, 0.1)
    with tempfile.TemporaryDirectory() as name:
        loader, optimizer = Fixed(4, 64, SMALL.vocab_size), AdamW(1.0, (0.9, 0.95), weight_decay=0.1)
        trainer = Trainer(compiled_loss_and_grads(SMALL), params, loader, optimizer, recipe, Checkpoints(Path(name)))
        trainer.run()
    assert not any(report.skipped for report in trainer.log)
    model = Qwen3(dataclasses.asdict(SMALL))
    model.load_state_dict({name: torch.from_numpy(np.array(w)) for name, w in params.items()})
    groups = [
        {"params": [p for p in model.parameters() if (p.dim() > 1) == decayed], "weight_decay": 0.1 * decayed}
        for decayed in (True, False)
    ]
    other = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95))
    loader, losses = Fixed(4, 64, SMALL.vocab_size), []
    for report in trainer.log:
        rows = next(loader)
        tokens, targets = (torch.from_numpy(np.array(each)).long() for each in (rows.tokens, rows.targets))
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        other.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_norm)
        for group in other.param_groups:
            group["lr"] = report.learning_rate
        other.step()
        losses.append(loss.item())
    last = trainer.log[-1].loss
    apart = max(abs(report.loss / loss - 1) for report, loss in zip(trainer.log, losses, strict=True))
    print(f"{steps} steps: loss {last:.5f}, in PyTorch {losses[-1]:.5f}; at most {apart:.2%} apart at any step")
    assert abs(last / losses[-1] - 1) < 0.01


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("kills", "pytorch"))
    parser.add_argument("--count", type=int, help="kills or steps")
    options = parser.parse_args()
    part, count = {"kills": (kills, 50), "pytorch": (pytorch, 500)}[options.part]
    part(options.count or count)


if __name__ == "__main__":
    main()
