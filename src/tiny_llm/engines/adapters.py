"""A model whose requests may each use a LoRA adapter, all of them in one batch."""

from collections.abc import Mapping

import mlx.core as mx

from ..config import ModelConfig
from ..lora.adapter import Adapter
from ..lora.batched import batched_update
from ..qwen3_cached.parts import Dense, Projection
from ..serving.kv_cache import KVCacheManager
from ..serving.ragged import RaggedModel
from ..serving.request import Chunk, Request

Weights = dict[str, mx.array]


class _AdaptedParts(Dense):
    """Builds the projections of other parts, each followed by the updates of the adapters that have one for it."""

    def __init__(self, inner: Dense, adapters: Mapping[str, Adapter]) -> None:
        self.inner, self.adapters = inner, adapters
        self.owners: list[str] = []  # the adapter of each token of the running step; "" for none
        self.embedding = inner.embedding  # type: ignore[method-assign]

    def projection(self, weights: Weights, name: str, bias: bool = False) -> Projection:
        base = self.inner.projection(weights, name, bias)
        own = [which for which in self.adapters if f"{name}.lora_a.{which}" in weights]
        if not own:
            return base
        a, b = ([weights[f"{name}.lora_{x}.{which}"] for which in own] for x in "ab")
        scales = [self.adapters[which].scale for which in own]
        numbers = {which: number for number, which in enumerate(own)}

        def adapted(x: mx.array) -> mx.array:
            owners = [numbers.get(owner, -1) for owner in self.owners]
            y = base(x)
            return y if max(owners) < 0 else y + batched_update(x, owners, a, b, scales).astype(y.dtype)

        return adapted


class AdapterModel(RaggedModel):
    """A `RaggedModel` that adds each request's adapter."""

    def __init__(self, config: ModelConfig, weights: Weights, parts: Dense, adapters: Mapping[str, Adapter]) -> None:
        """Build the layers.

        Args:
            config, weights, parts: as for `RaggedModel`.
            adapters: by their names.

        Raises:
            KeyError: a weight is missing.
            ValueError: an adapter has a projection that the model lacks, or has in another size; the message names it.
        """
        self.adapted = _AdaptedParts(parts, adapters)
        self.users: dict[Request, str] = {}
        every = dict(weights)
        for which, adapter in adapters.items():
            _check(config, weights, which, adapter)
            every |= {f"{name}.{which}": w for name, w in adapter.weights.items()}
        super().__init__(config, every, self.adapted)

    def use(self, request: Request, name: str) -> None:
        """Compute a request with the adapter of this name from now on; a request that is not named uses none.

        Raises:
            KeyError: there is no adapter of this name.
        """
        _ = self.adapted.adapters[name]
        self.users[request] = name

    def forget(self, request: Request) -> None:
        """Drop a request that has ended."""
        self.users.pop(request, None)

    def __call__(self, chunks: list[Chunk], kv_cache: KVCacheManager) -> mx.array:
        """Run one forward pass over the chunks, as `RaggedModel`, each with its request's adapter."""
        self.adapted.owners = [self.users.get(chunk.request, "") for chunk in chunks for _ in chunk.tokens]
        return super().__call__(chunks, kv_cache)


def _check(config: ModelConfig, weights: Weights, which: str, adapter: Adapter) -> None:
    """Raise ValueError if an adapter is for another model."""
    heads, kv_heads = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    size, inner = config.hidden_size, config.intermediate_size
    shapes = {"q_proj": (heads, size), "k_proj": (kv_heads, size), "v_proj": (kv_heads, size), "o_proj": (size, heads)}
    shapes |= {"gate_proj": (inner, size), "up_proj": (inner, size), "down_proj": (size, inner)}
    for name in adapter.projections:
        wanted = shapes.get(name.rpartition(".")[2]) if f"{name}.weight" in weights else None
        outputs = adapter.weights[f"{name}.lora_b"].shape[0]
        inputs = adapter.weights[f"{name}.lora_a"].shape[1]
        if (outputs, inputs) != wanted:
            has = "has no such projection" if wanted is None else f"has {wanted[0]} x {wanted[1]}"
            raise ValueError(f"the adapter {which} changes {name}, {outputs} x {inputs}, but the model {has}")
