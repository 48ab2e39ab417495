"""Ways to take a training step of the embedded model's architecture, on the same batch and from the same weights.

Each is a function that takes one step and returns when the new weights are computed. `benches/training.py` times them.
MLX must get its BLAS before this module is imported.
"""

import importlib.util
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from pretraining import Fixed
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.dataset.packing import Rows
from tiny_llm_solution.optimizers.adamw import AdamW
from tiny_llm_solution.training.accumulation import LossAndGrads
from tiny_llm_solution.training.checkpoint import Checkpoints
from tiny_llm_solution.training.fused import fused_loss_function
from tiny_llm_solution.training.loop import Recipe, Trainer
from tiny_llm_solution.training.model import compiled_loss_and_grads, initial_params

from tiny_llm_course.paths import EMBEDDED_MODEL

CONFIG = json.loads((EMBEDDED_MODEL / "config.json").read_text(encoding="utf-8"))
ROWS, LENGTH, RATE = 8, 256, 1e-3
Step = Callable[[], object]


def ways_to_train() -> dict[str, Step]:
    """Return the ways that this machine can run, by name."""
    config = ModelConfig.from_dict(CONFIG)
    params, rows = initial_params(config, 0), next(Fixed(ROWS, LENGTH, config.vocab_size))
    ways = {
        "ours": ours(compiled_loss_and_grads(config), params, rows),
        "fused": ours(compiled_loss_and_grads(config, fused_loss_function), params, rows),
    }
    if importlib.util.find_spec("mlx_lm"):
        ways["mlx.nn"] = with_mlx_nn(params, rows)
    if importlib.util.find_spec("torch"):
        ways["PyTorch"] = with_pytorch(params, rows)
    return ways


class Same:
    """A loader that returns the same rows again and again."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __next__(self) -> Rows:
        """Return the rows."""
        return self.rows

    def state(self) -> dict[str, Any]:
        """Return nothing: there is no position."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def ours(loss_and_grads: LossAndGrads, params: dict[str, mx.array], rows: Rows) -> Step:
    """Return a step of the course's loop."""
    folder = tempfile.TemporaryDirectory()
    recipe = Recipe(10**6, RATE, evaluate_every=10**9, save_every=10**9)
    trainer = Trainer(loss_and_grads, params, Same(rows), AdamW(RATE), recipe, Checkpoints(Path(folder.name)))
    advance: Step = trainer.advance
    return advance


def with_mlx_nn(params: dict[str, mx.array], rows: Rows) -> Step:
    """Return a step of mlx-lm's Qwen3, which is built of `mlx.nn`, with `mlx.optimizers`."""
    import mlx.nn as nn
    import mlx.optimizers as optim
    from mlx_lm.models import qwen3

    model: Any = qwen3.Model(qwen3.ModelArgs.from_dict(CONFIG))  # type: ignore[no-untyped-call]
    model.load_weights(list(params.items()))
    optimizer: Any = optim.AdamW(RATE, bias_correction=True)
    clip: Callable[..., Any] = optim.clip_grad_norm
    differentiate: Any = nn.value_and_grad(
        model, lambda m, tokens, targets: nn.losses.cross_entropy(m(tokens), targets).mean()
    )

    def step() -> None:
        _, grads = differentiate(model, rows.tokens, rows.targets)
        grads, _ = clip(grads, 1.0)
        optimizer.update(model, grads)
        mx.eval(model.parameters(), optimizer.state)

    return step


def with_pytorch(params: dict[str, mx.array], rows: Rows) -> Step:
    """Return a step of the same model in PyTorch, with its fused AdamW."""
    import torch
    from qwen3_torch import Qwen3

    model = Qwen3(CONFIG)
    model.load_state_dict({name: torch.from_numpy(np.array(w)) for name, w in params.items()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    tokens, targets = (torch.from_numpy(np.array(each)).long() for each in (rows.tokens, rows.targets))

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step
