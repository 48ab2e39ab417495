"""Multi-head latent attention with absorbed up-projections: queries attend to the latents directly."""

import mlx.core as mx

from ..attention import causal_mask
from ..basics import linear, softmax
from .cache import LatentCache
from .config import LatentConfig
from .expanded import LatentAttention


class AbsorbedLatentAttention:
    """`LatentAttention` from a cache of latents, without computing any head's keys or values.

    query . (W_k latent) = (W_k^T query) . latent, so a head's key projection moves to the query; and a weighted sum of
    W_v latent is W_v times the weighted sum of latents, so its value projection is applied after the sum.
    """

    def __init__(self, config: LatentConfig, weights: dict[str, mx.array]) -> None:
        """Split `kv_b_proj` into each head's key and value projections; weights are as in `LatentAttention`.

        Raises:
            KeyError: a weight that the config needs is missing.
        """
        self.config = config
        self.expanded = LatentAttention(config, weights)  # only its projections are used
        up = mx.unflatten(weights["self_attn.kv_b_proj.weight"], 0, (config.num_attention_heads, -1))
        self.key_up, self.value_up = mx.split(up, [config.qk_nope_head_dim], axis=1)  # H x D_nope x C, H x D_v x C
        self.output = weights["self_attn.o_proj.weight"]

    def __call__(self, x: mx.array, cache: LatentCache) -> mx.array:
        """Append the new latents and RoPE keys to the cache; attend causally to everything in it.

        No head's keys or values are computed for the S tokens: the largest arrays are the entries and the scores,
        N x H x L x S. The cache is fetched once, and one product serves all heads. The scores are those of
        `LatentAttention`, scaled by 1 / sqrt(D_nope + D_rope), although C + D_rope products are summed.

        Args:
            x: N x L x E, the tokens at positions cache.offset to cache.offset + L - 1.
            cache: this layer's.

        Returns:
            N x L x E, in the dtype that x and the weights share.

        Raises:
            ValueError: offset + L exceeds the config's max_position_embeddings. The cache is unchanged.

        Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1.2; `mlx_lm.models.deepseek_v3`.
        """
        heads, length = self.config.num_attention_heads, x.shape[1]
        positions = slice(cache.offset, cache.offset + length)
        query, query_rope = self.expanded.queries(x, positions)
        entries = cache.update_and_fetch(*self.expanded.latents(x, positions))  # N x S x (C + D_rope)
        latents = entries[..., : self.config.kv_lora_rank]  # also serve as the values
        query = mx.concatenate([query @ self.key_up, query_rope], axis=-1)  # N x H x L x (C + D_rope)
        # All heads are rows of one matrix, so that one product reads the entries once for all of them.
        scores = query.flatten(1, 2) @ entries.swapaxes(-1, -2) * self.config.query_dim**-0.5  # N x (H * L) x S
        mask = causal_mask(length, entries.shape[1], scores.dtype)
        weights = softmax(mx.unflatten(scores, 1, (heads, length)) + mask, axis=-1)  # N x H x L x S
        seen = mx.unflatten(weights.flatten(1, 2) @ latents, 1, (heads, length))  # N x H x L x C
        attended = seen @ self.value_up.swapaxes(-1, -2)  # N x H x L x D_v
        return linear(attended.swapaxes(1, 2).flatten(2), self.output)
