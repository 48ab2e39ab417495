"""The optimizers and the learning-rate schedule."""

import math

import torch
from torch import Tensor

from .recipe import Schedule


def share_of_peak(step: int, schedule: Schedule) -> float:
    """Return the learning rate's share of its peak: linear warm-up, then half a cosine."""
    if step < schedule.warmup:
        return (step + 1) / schedule.warmup
    done = (step - schedule.warmup) / max(1, schedule.steps - schedule.warmup)
    return schedule.final_share + (1 - schedule.final_share) * (1 + math.cos(math.pi * done)) / 2


def optimizers(model: torch.nn.Module, schedule: Schedule) -> list[torch.optim.Optimizer]:
    """Return AdamW for all parameters, or, if the recipe sets it, Muon for the layers' matrices and AdamW beside it."""
    by_kind: dict[str, list[Tensor]] = {"matrix": [], "embedding": [], "norm": []}
    for name, weight in model.named_parameters():
        by_kind["norm" if weight.dim() == 1 else "embedding" if "embed_tokens" in name else "matrix"].append(weight)
    betas = (schedule.betas[0], schedule.betas[1])
    found: list[torch.optim.Optimizer] = []
    if schedule.muon_learning_rate:
        # Jordan et al. 2024: a matrix's update is its momentum, orthogonalized (singular values near one).
        peak, decay = schedule.muon_learning_rate, schedule.weight_decay
        found.append(torch.optim.Muon(by_kind.pop("matrix"), lr=peak, weight_decay=decay, momentum=0.95))
    groups = [  # no weight decay for norms
        {"params": weights, "weight_decay": 0.0 if kind == "norm" else schedule.weight_decay}
        for kind, weights in by_kind.items()
    ]
    found.append(torch.optim.AdamW(groups, lr=schedule.learning_rate, betas=betas, fused=True))
    for optimizer in found:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return found
