"""An adapter: the A and B of every adapted projection, and the model that uses them."""

import dataclasses
from collections.abc import Sequence

import mlx.core as mx

from ..qwen3_cached.parts import Dense, Projection
from .layer import LoRALinear

Params = dict[str, mx.array]


@dataclasses.dataclass(frozen=True)
class Adapter:
    """A LoRA adapter. A projection NAME, such as "model.layers.0.self_attn.q_proj", has two entries in `weights`."""

    weights: Params  # "NAME.lora_a": r x I; "NAME.lora_b": O x r
    alpha: float  # the update is alpha / r * B A

    @property
    def projections(self) -> list[str]:
        """The names of the adapted projections, sorted."""
        return sorted(name.removesuffix(".lora_a") for name in self.weights if name.endswith(".lora_a"))

    @property
    def rank(self) -> int:
        """r, the same for all projections."""
        return int(self.weights[f"{self.projections[0]}.lora_a"].shape[0])

    @property
    def scale(self) -> float:
        """alpha / r."""
        return self.alpha / self.rank


def init_lora(params: Params, rank: int, names: Sequence[str], seed: int) -> Params:
    """Return the weights of an untrained adapter: A is random and B zero, so the model's output does not change.

    Args:
        params: the model's, by the names of a checkpoint.
        rank: r.
        names: the last parts of the projections' names: ("q_proj", "v_proj") adapts these two in every layer.
        seed: of A, which is uniform in ± 1 / sqrt(I), as in PEFT and mlx-lm.

    Returns:
        float32 arrays, as in `Adapter.weights`.

    Raises:
        ValueError: no projection has one of these names.
    """
    ends = tuple(f".{name}.weight" for name in names)
    found = sorted(name.removesuffix(".weight") for name in params if name.endswith(ends))
    if not found:
        raise ValueError(f"no projection is named {' or '.join(names)}")
    weights: Params = {}
    for name, key in zip(found, mx.random.split(mx.random.key(seed), len(found)), strict=True):
        outputs, inputs = params[f"{name}.weight"].shape
        bound = inputs**-0.5
        weights[f"{name}.lora_a"] = mx.random.uniform(-bound, bound, (rank, inputs), key=key)
        weights[f"{name}.lora_b"] = mx.zeros((outputs, rank))
    return weights


def merge_lora(params: Params, adapter: Adapter) -> Params:
    """Return the model's weights with the adapter merged into them; the arguments are not changed.

    Raises:
        ValueError: the model lacks an adapted projection, or has one of another shape. The message names it.
    """
    merged = dict(params)
    for name in adapter.projections:
        if f"{name}.weight" not in params:
            raise ValueError(f"the adapter is for another model: there is no {name}.weight")
        a, b = adapter.weights[f"{name}.lora_a"], adapter.weights[f"{name}.lora_b"]
        try:
            merged[f"{name}.weight"] = LoRALinear(params[f"{name}.weight"], a, b, adapter.alpha).merged()
        except ValueError as error:
            raise ValueError(f"the adapter is for another model: {name}: {error}") from error
    return merged


class LoRAParts(Dense):
    """Builds a `LoRALinear` for each projection with an A and a B among the weights, and plain ones for the others.

    A model takes one dict with its own weights and the adapter's: Qwen3CachedModel(config, {**params,
    **adapter.weights}, LoRAParts(adapter.alpha)).
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """Return the function from N.. x I to N.. x O, as `Dense.projection`."""
        if f"{name}.lora_a" not in weights:
            return super().projection(weights, name, bias)
        a, b = weights[f"{name}.lora_a"], weights[f"{name}.lora_b"]
        return LoRALinear(weights[f"{name}.weight"], a, b, self.alpha, weights[f"{name}.bias"] if bias else None)
