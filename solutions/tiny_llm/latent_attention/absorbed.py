"""Multi-head latent attention with its up-projections absorbed: queries meet the latents themselves."""

import mlx.core as mx

from ..attention import causal_mask
from ..basics import linear, softmax
from .cache import LatentCache
from .config import LatentConfig
from .expanded import LatentAttention


class AbsorbedLatentAttention:
    """What `LatentAttention` computes, from a cache of latents, with no key and no value of any head.

    query . (W_k latent) is (W_k^T query) . latent, so a head's key projection goes to the query's side; and a sum of
    W_v latents is W_v times the sum of latents, so its value projection goes behind the sum.
    """

    def __init__(self, config: LatentConfig, weights: dict[str, mx.array]) -> None:
        """Take `kv_b_proj` apart, into what is absorbed on either side.

        Args:
            config: the layer's measures.
            weights: as `LatentAttention` takes them.

        Raises:
            KeyError: a weight that the config asks for is missing.
        """
        self.config = config
        self.expanded = LatentAttention(config, weights)  # of which the projections are used
        up = mx.unflatten(weights["self_attn.kv_b_proj.weight"], 0, (config.num_attention_heads, -1))
        self.key_up, self.value_up = mx.split(up, [config.qk_nope_head_dim], axis=1)  # H x D_nope x C, H x D_v x C
        self.output = weights["self_attn.o_proj.weight"]

    def __call__(self, x: mx.array, cache: LatentCache) -> mx.array:
        """Attend to what is in the cache, and to the new tokens up to each one itself.

        Of the S tokens no key and no value of a head is computed: the largest arrays are the entries and the scores,
        N x H x L x S. The cache is asked once, and all heads read its entries together.

        Args:
            x: N x L x E, the tokens at positions offset to offset + L - 1, where offset is the cache's.
            cache: this layer's. The latents and rope keys of the new tokens are appended to it.

        Returns:
            N x L x E, in the dtype that x and the weights share.

        Raises:
            ValueError: offset + L is more than the config's max_position_embeddings. The cache stays as it was.

        Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1.2; `mlx_lm.models.deepseek_v3`.
        """
        heads, length = self.config.num_attention_heads, x.shape[1]
        positions = slice(cache.offset, cache.offset + length)
        query, query_rope = self.expanded.queries(x, positions)
        entries = cache.update_and_fetch(*self.expanded.latents(x, positions))  # N x S x (C + D_rope)
        latents = entries[..., : self.config.kv_lora_rank]  # the same numbers are the values
        query = mx.concatenate([query @ self.key_up, query_rope], axis=-1)  # N x H x L x (C + D_rope)
        # All heads are rows of one matrix, so that one product reads the entries for all of them.
        scores = query.flatten(1, 2) @ entries.swapaxes(-1, -2) * self.config.query_dim**-0.5  # N x (H * L) x S
        mask = causal_mask(length, entries.shape[1], scores.dtype)
        weights = softmax(mx.unflatten(scores, 1, (heads, length)) + mask, axis=-1)  # N x H x L x S
        seen = mx.unflatten(weights.flatten(1, 2) @ latents, 1, (heads, length))  # N x H x L x C
        attended = seen @ self.value_up.swapaxes(-1, -2)  # N x H x L x D_v
        return linear(attended.swapaxes(1, 2).flatten(2), self.output)
