"""Evaluation of a PyTorch model: loss on held-out stories, and sampled text."""

from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional as F

from ..checkpoints.held_out import Tokens
from .qwen3_torch import Qwen3

IGNORED = -100  # cross_entropy's ignore_index
MOST = 80  # tokens of a sample


def mixed_precision(device: torch.device) -> torch.autocast:
    """Return the context for bfloat16 products with float32 accumulation."""
    return torch.autocast(device.type, torch.bfloat16)


def batches(rows: list[Tokens], tokens: int = 8192) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield rows of unequal length as padded inputs and targets, B x L, about `tokens` tokens per batch."""
    ordered = sorted(rows, key=len)
    while ordered:
        count = max(1, tokens // len(ordered[-1]))
        taken, ordered = ordered[-count:], ordered[:-count]
        table = np.full((len(taken), max(map(len, taken))), IGNORED)
        for row, filled in zip(taken, table, strict=True):
            filled[: len(row)] = row
        both = torch.from_numpy(table)
        yield both[:, :-1].clamp(min=0), both[:, 1:]


@torch.no_grad()
def loss_on(model: torch.nn.Module, rows: list[Tokens], device: torch.device) -> float:
    """Return the nats per token over rows that do not see one another."""
    model.eval()
    total, count = 0.0, 0
    for inputs, targets in batches(rows):
        with mixed_precision(device):
            logits = model(inputs.to(device))
        flat = targets.flatten().to(device)
        total += F.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=IGNORED, reduction="sum").item()
        count += int((flat != IGNORED).sum())
    model.train()
    return total / count


@torch.no_grad()
def continuation(model: Qwen3, prompt: list[int], end: set[int], seed: int, device: torch.device) -> list[int]:
    """Return at most MOST tokens sampled after the prompt, at temperature 0.7."""
    model.eval()
    draw = torch.Generator().manual_seed(seed)
    tokens = list(prompt)
    while len(tokens) < min(len(prompt) + MOST, len(model.cos)):
        logits = model(torch.tensor([tokens], device=device))[0, -1].float().cpu()
        token = int(torch.multinomial((logits / 0.7).softmax(dim=-1), 1, generator=draw))
        if token in end:
            break
        tokens.append(token)
    model.train()
    return tokens[len(prompt) :]
