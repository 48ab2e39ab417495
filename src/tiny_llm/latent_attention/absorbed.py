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
        raise NotImplementedError("4.4.4 Absorbed projections")

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
        raise NotImplementedError("4.4.4 Absorbed projections")
