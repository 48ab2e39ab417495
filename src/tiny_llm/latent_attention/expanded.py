"""Multi-head latent attention by definition: every head's keys and values are computed from a latent."""

import mlx.core as mx

from ..attention import causal_mask
from ..basics import linear, softmax
from ..layer_norm import RMSNorm
from ..positional_encoding import RoPE
from .config import LatentConfig


class LatentAttention:
    """Compresses each token into a latent of C numbers, from which every head computes its key and value.

    Letters: N batch, L tokens, E hidden size, H heads, C latent size; D_nope and D_rope, the parts of a query or key;
    D_v, a value. All of them may differ.
    """

    def __init__(self, config: LatentConfig, weights: dict[str, mx.array]) -> None:
        """Build the projections, the norms and RoPE. The eps of both norms, also the query's, is NORM_EPS.

        Args:
            config: the layer's dimensions.
            weights: of one layer, by the names of a checkpoint. Names that do not begin with `self_attn.` are ignored.
                There are no biases. With a q_lora_rank, Q:
                    q_a_proj.weight: Q x E, q_a_layernorm.weight: Q, q_b_proj.weight: (H * (D_nope + D_rope)) x Q;
                otherwise:
                    q_proj.weight: (H * (D_nope + D_rope)) x E;
                and always:
                    kv_a_proj_with_mqa.weight: (C + D_rope) x E, the rows of the latent before those of the RoPE key,
                    kv_a_layernorm.weight: C,
                    kv_b_proj.weight: (H * (D_nope + D_v)) x C, for each head the rows of its key before its value's,
                    o_proj.weight: E x (H * D_v).

        Raises:
            KeyError: a weight that the config needs is missing.
        """
        raise NotImplementedError("4.4.2 Latent attention, expanded")

    def queries(self, x: mx.array, positions: slice) -> tuple[mx.array, mx.array]:
        """Return the queries of every head, in their two parts.

        In each head's D_nope + D_rope features, those without position come first. Only the others are rotated, in
        pairs of neighbors (`traditional`). With a q_lora_rank, x is first projected to Q numbers and normalized.

        Args:
            x: N x L x E.
            positions: of the L tokens, as `RoPE` takes them.

        Returns:
            N x H x L x D_nope and N x H x L x D_rope, in the dtype that x and the weights share.
        """
        raise NotImplementedError("4.4.2 Latent attention, expanded")

    def latents(self, x: mx.array, positions: slice) -> tuple[mx.array, mx.array]:
        """Return what the cache stores of each token: its latent, and the RoPE key that all heads share.

        The latent is normalized and not rotated; the RoPE key is rotated, in pairs of neighbors, and not normalized.

        Args:
            x: N x L x E.
            positions: of the L tokens, as `RoPE` takes them: slice(offset, offset + L), where offset need not be 0.

        Returns:
            N x L x C and N x L x D_rope, in the dtype that x and the weights share.
        """
        raise NotImplementedError("4.4.2 Latent attention, expanded")

    def __call__(self, x: mx.array) -> mx.array:
        """Attend causally within x, whose first token is at position 0.

        A score is the sum of two dot products, of each head's D_nope query and key and of its D_rope query and the
        shared RoPE key, times 1 / sqrt(D_nope + D_rope).

        Args:
            x: N x L x E.

        Returns:
            N x L x E, in the dtype that x and the weights share. The arguments are not changed.

        Raises:
            ValueError: L exceeds the config's max_position_embeddings.

        Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1; `transformers` `DeepseekV3Attention`.
        """
        raise NotImplementedError("4.4.2 Latent attention, expanded")
