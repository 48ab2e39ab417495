"""Bytes, FLOPs and time of one decode step, by kind of KV cache."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from tiny_llm.attention import causal_mask
from tiny_llm.basics import linear, softmax
from tiny_llm.config import ModelConfig
from tiny_llm.latent_attention.absorbed import AbsorbedLatentAttention
from tiny_llm.latent_attention.cache import LatentCache
from tiny_llm.latent_attention.config import LatentConfig
from tiny_llm.latent_attention.expanded import LatentAttention
from tiny_llm.qwen3_cached.attention import Qwen3CachedAttention
from tiny_llm.qwen3_cached.cache import KVCache
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "", ("cache read: MiB", "attention: MFLOP", "step: ms"))

E, H, D = 256, 16, 64
LATENT = LatentConfig(E, H, 224, D, 32, D, None, 10000.0, 8192)  # 224 + 32 numbers: as many as GQA with two heads

Step = Callable[[], mx.array]


def measure(quick: bool = False) -> Table:
    """Measure a decode step with H heads that have their own keys, share them, or read latents."""
    tokens = 256 if quick else 4096
    weights = _latent_weights()
    layers: dict[str, tuple[Any, Any, float]] = {
        name: (_grouped(kv_heads), KVCache(), 4.0 * H * D * tokens)
        for name, kv_heads in (("MHA", H), ("GQA", 2), ("MQA", 1))
    }
    c = LATENT
    absorbed = (
        2.0 * H * (tokens * (c.entry_dim + c.kv_lora_rank) + c.kv_lora_rank * (c.qk_nope_head_dim + c.v_head_dim))
    )
    expanded = 2.0 * H * tokens * (c.query_dim + c.v_head_dim + c.kv_lora_rank * (c.qk_nope_head_dim + c.v_head_dim))
    layers["MLA, absorbed"] = AbsorbedLatentAttention(c, weights), LatentCache(), absorbed
    layers["MLA, expanded"] = ExpandedAgain(c, weights), LatentCache(), expanded
    x, read = mx.random.normal((1, 1, E)), {}
    mx.eval(x)
    for name, (layer, cache, _) in layers.items():
        kv_heads = 0 if name.startswith("MLA") else {"MHA": H, "GQA": 2}.get(name, 1)
        mx.eval(cache.update_and_fetch(*_kept(kv_heads, tokens - 1)))
        counting = Counting(cache)
        mx.eval(layer(x, counting))
        cache.rewind(1)
        read[name] = counting.bytes
    times = seconds(*(_step(layer, cache, x) for layer, cache, _ in layers.values()))
    rows = tuple(
        (name, read[name] // tokens // 4, read[name] / 2**20, flops / 1e6, taken * 1e3)
        for (name, (_, _, flops)), taken in zip(layers.items(), times, strict=True)
    )
    of = {row[0]: row for row in rows}
    return Table(
        ("cache", "elements per token", "cache read: MiB", "attention: MFLOP", "step: ms"),
        rows,
        "MLA caches as many elements per token as GQA and twice as many as MQA; MHA caches "
        f"{of['MHA'][1] / of['GQA'][1]:.0f} times as many as GQA. Compared with GQA, a step takes "
        f"{of['MHA'][4] / of['GQA'][4]:.1f} times as long with MHA, {of['MLA, absorbed'][4] / of['GQA'][4]:.1f} times "
        f"with absorbed MLA and {of['MLA, expanded'][4] / of['GQA'][4]:.0f} times with expanded MLA.",
    )


class Counting:
    """A cache that counts the bytes it returns."""

    def __init__(self, cache: Any) -> None:
        self.cache, self.bytes = cache, 0

    @property
    def offset(self) -> int:
        """Return the number of cached tokens."""
        offset: int = self.cache.offset
        return offset

    def update_and_fetch(self, *new: mx.array) -> Any:
        """Return what the cache returns, and count its bytes."""
        found = self.cache.update_and_fetch(*new)
        self.bytes += sum(each.nbytes for each in (found if isinstance(found, tuple) else (found,)))
        return found


class ExpandedAgain:
    """MLA that caches latents and recomputes all keys and values from them in each call."""

    def __init__(self, config: LatentConfig, weights: dict[str, mx.array]) -> None:
        self.config, self.layer = config, LatentAttention(config, weights)
        self.up, self.output = weights["self_attn.kv_b_proj.weight"], weights["self_attn.o_proj.weight"]

    def __call__(self, x: mx.array, cache: Any) -> mx.array:
        """Return the same output as the absorbed layer."""
        c, positions = self.config, slice(cache.offset, cache.offset + x.shape[1])
        query, query_rope = self.layer.queries(x, positions)
        entries = cache.update_and_fetch(*self.layer.latents(x, positions))
        latent, key_rope = mx.split(entries, [c.kv_lora_rank], axis=-1)
        both = mx.unflatten(linear(latent, self.up), -1, (c.num_attention_heads, -1)).swapaxes(1, 2)
        key, value = mx.split(both, [c.qk_nope_head_dim], axis=-1)
        scores = query @ key.swapaxes(-1, -2) + query_rope @ key_rope[:, None].swapaxes(-1, -2)
        scores = scores * c.query_dim**-0.5 + causal_mask(x.shape[1], entries.shape[1], scores.dtype)
        return linear((softmax(scores, axis=-1) @ value).swapaxes(1, 2).flatten(2), self.output)


def _grouped(kv_heads: int) -> Qwen3CachedAttention:
    """Return week 2's attention with `kv_heads` key-value heads."""
    config = ModelConfig("qwen3", E, 1, E, H, kv_heads, D, 32, 1e-6, 10000.0, 8192, True)
    sizes = {"q": H * D, "k": kv_heads * D, "v": kv_heads * D}
    weights = {f"self_attn.{name}_proj.weight": _matrix(size, E) for name, size in sizes.items()}
    norms = {f"self_attn.{name}_norm.weight": mx.ones(D) for name in "qk"}
    return Qwen3CachedAttention(config, {**weights, **norms, "self_attn.o_proj.weight": _matrix(E, H * D)})


def _latent_weights() -> dict[str, mx.array]:
    c = LATENT
    weights = {
        "q_proj": _matrix(H * c.query_dim, E),
        "kv_a_proj_with_mqa": _matrix(c.entry_dim, E),
        "kv_a_layernorm": mx.ones(c.kv_lora_rank),
        "kv_b_proj": _matrix(H * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank),
        "o_proj": _matrix(E, H * c.v_head_dim),
    }
    return {f"self_attn.{name}.weight": w for name, w in weights.items()}


def _kept(kv_heads: int, tokens: int) -> tuple[mx.array, ...]:
    """Return random keys and values of `tokens` tokens, or latents and RoPE keys without key-value heads."""
    if kv_heads:
        shape = 1, kv_heads, tokens, D
        return mx.random.normal(shape), mx.random.normal(shape)
    return tuple(mx.random.normal((1, tokens, size)) for size in (LATENT.kv_lora_rank, LATENT.qk_rope_head_dim))


def _matrix(outputs: int, inputs: int) -> mx.array:
    made: mx.array = mx.random.normal((outputs, inputs)) * inputs**-0.5
    mx.eval(made)
    return made


def _step(layer: Any, cache: Any, x: mx.array) -> Step:
    """Return a decode step that is rolled back afterwards."""

    def run() -> mx.array:
        found: mx.array = layer(x, cache)
        mx.eval(found)
        cache.rewind(1)
        return found

    return run
