"""The optimizers, and their learning rate from step to step."""

import math

import torch
from torch import Tensor

from .recipe import Schedule


def share_of_peak(step: int, schedule: Schedule) -> float:
    """The learning rate: up in a straight line, then down along half a cosine."""
    if step < schedule.warmup:
        return (step + 1) / schedule.warmup
    done = (step - schedule.warmup) / max(1, schedule.steps - schedule.warmup)
    return schedule.final_share + (1 - schedule.final_share) * (1 + math.cos(math.pi * done)) / 2


def optimizers(model: torch.nn.Module, schedule: Schedule) -> list[torch.optim.Optimizer]:
    """AdamW for every weight; or, if the recipe says so, Muon for the layers' matrices and AdamW for the rest."""
    by_kind: dict[str, list[Tensor]] = {"matrix": [], "embedding": [], "norm": []}
    for name, weight in model.named_parameters():
        by_kind["norm" if weight.dim() == 1 else "embedding" if "embed_tokens" in name else "matrix"].append(weight)
    betas = (schedule.betas[0], schedule.betas[1])
    found: list[torch.optim.Optimizer] = []
    if schedule.muon_learning_rate:
        # Jordan et al. 2024: the step of a matrix is its momentum with all singular values brought near to one.
        peak, decay = schedule.muon_learning_rate, schedule.weight_decay
        found.append(torch.optim.Muon(by_kind.pop("matrix"), lr=peak, weight_decay=decay, momentum=0.95))
    groups = [  # norms are not to shrink
        {"params": weights, "weight_decay": 0.0 if kind == "norm" else schedule.weight_decay}
        for kind, weights in by_kind.items()
    ]
    found.append(torch.optim.AdamW(groups, lr=schedule.learning_rate, betas=betas, fused=True))
    for optimizer in found:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return found
