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
        raise NotImplementedError("4.4.4 Absorbed projections")

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
        raise NotImplementedError("4.4.4 Absorbed projections")
