"""Qwen3 in PyTorch, which trains several times faster than MLX on a CPU; parameter names are a checkpoint's."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tiny_llm_course.checkpoints.held_out import Tokens


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How a model is trained by the benchmarks that use PyTorch."""

    seed: int
    steps: int
    rows: int  # batch size
    context: int  # tokens in a row
    learning_rate: float  # peak, of AdamW
    muon_learning_rate: float  # peak, of Muon for the layers' matrices; 0: AdamW for all
    final_share: float  # final learning rate / peak
    warmup: int  # steps
    weight_decay: float
    betas: tuple[float, float]
    clip: float  # maximum gradient norm
    every: int  # steps between evaluations


INITIAL_SPREAD = 0.02  # standard deviation, as in Qwen


class RMSNorm(nn.Module):
    """RMSNorm with float32 statistics; the output has the input's dtype."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis, of size `dim`."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention with QK-norm."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.dims = config["head_dim"]
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.q_proj = nn.Linear(hidden, self.heads * self.dims, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.dims, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.dims, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dims, hidden, bias=False)
        self.q_norm, self.k_norm = RMSNorm(self.dims, eps), RMSNorm(self.dims, eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, future: Tensor) -> Tensor:
        """Map B x L x E to B x L x E."""
        B, L, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(B, L, self.heads, self.dims)).transpose(1, 2)  # B x H x L x D
        k = self.k_norm(self.k_proj(x).view(B, L, self.kv_heads, self.dims)).transpose(1, 2)  # B x H_kv x L x D
        v = self.v_proj(x).view(B, L, self.kv_heads, self.dims).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        # Unfused: on a CPU, PyTorch's fused attention takes three times as long with heads this small.
        groups = q.reshape(B, self.kv_heads, -1, self.dims)  # B x H_kv x (H/H_kv * L) x D
        scores = (groups @ k.transpose(-1, -2)).view(B, self.heads, L, L) * self.dims**-0.5 + future
        weights = scores.softmax(dim=-1).to(v.dtype).view(B, self.kv_heads, -1, L)
        attended = (weights @ v).view(B, self.heads, L, self.dims)
        out: Tensor = self.o_proj(attended.transpose(1, 2).reshape(B, L, -1))
        return out


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map B x L x E to B x L x E."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, config: dict[str, Any], dropout: float) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn, self.mlp = Attention(config), MLP(config)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(hidden, eps), RMSNorm(hidden, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, future: Tensor) -> Tensor:
        """Map B x L x E to B x L x E."""
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), cos, sin, future))
        out: Tensor = x + self.dropout(self.mlp(self.post_attention_layernorm(x)))
        return out


class Qwen3(nn.Module):
    """The model of a config.json with tied embeddings."""

    def __init__(self, config: dict[str, Any], dropout: float = 0.0) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.model.layers = nn.ModuleList(Block(config, dropout) for _ in range(config["num_hidden_layers"]))
        self.model.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                # Residual outputs are scaled down by the number of layers (GPT-2).
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                scale = (2 * config["num_hidden_layers"]) ** -0.5 if last else 1.0
                nn.init.normal_(weight, std=INITIAL_SPREAD * scale)
        half = torch.arange(0, config["head_dim"], 2).float() / config["head_dim"]
        angles = torch.outer(torch.arange(config["max_position_embeddings"]).float(), config["rope_theta"] ** -half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits: B x L to B x L x V."""
        L = tokens.shape[1]
        x = self.model.embed_tokens(tokens)
        future = torch.full((L, L), float("-inf"), device=x.device).triu(1)  # added to the scores: L x S
        for layer in self.model.layers:
            x = layer(x, self.cos[:L], self.sin[:L], future)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply RoPE on halves: x is B x H x L x D, cosines and sines are L x D/2."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


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


IGNORED = -100  # cross_entropy's ignore_index
MOST = 80  # tokens of a sample


def mixed_precision(device: torch.device) -> torch.autocast:
    """Return the context for bfloat16 products with float32 accumulation."""
    return torch.autocast(device.type, torch.bfloat16)


def batches(rows: list[Tokens]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield rows of unequal length as padded inputs and targets, B x L, about 8,192 tokens per batch."""
    ordered = sorted(rows, key=len)
    while ordered:
        count = max(1, 8192 // len(ordered[-1]))
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
