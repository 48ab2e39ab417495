"""Multi-head latent attention by definition: every head's keys and values are computed from a latent."""

import mlx.core as mx

from ..attention import causal_mask
from ..basics import linear, softmax
from ..layer_norm import RMSNorm
from ..positional_encoding import RoPE
from .config import NORM_EPS, LatentConfig


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
        self.config = config
        own = {name.removeprefix("self_attn."): w for name, w in weights.items() if name.startswith("self_attn.")}
        rank = config.q_lora_rank
        self.query_down = None if rank is None else own["q_a_proj.weight"]
        self.query_norm = None if rank is None else RMSNorm(rank, own["q_a_layernorm.weight"], NORM_EPS)
        self.query_up = own["q_proj.weight" if rank is None else "q_b_proj.weight"]
        self.down = own["kv_a_proj_with_mqa.weight"]
        self.norm = RMSNorm(config.kv_lora_rank, own["kv_a_layernorm.weight"], NORM_EPS)
        self.up, self.output = own["kv_b_proj.weight"], own["o_proj.weight"]
        self.rope = RoPE(config.qk_rope_head_dim, config.max_position_embeddings, config.rope_theta, traditional=True)

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
        if self.query_down is not None and self.query_norm is not None:
            x = self.query_norm(linear(x, self.query_down))
        query = mx.unflatten(linear(x, self.query_up), -1, (self.config.num_attention_heads, -1))  # N x L x H x ..
        nope, rope = mx.split(query, [self.config.qk_nope_head_dim], axis=-1)
        return nope.swapaxes(1, 2), self.rope(rope, positions).swapaxes(1, 2)

    def latents(self, x: mx.array, positions: slice) -> tuple[mx.array, mx.array]:
        """Return what the cache stores of each token: its latent, and the RoPE key that all heads share.

        The latent is normalized and not rotated; the RoPE key is rotated, in pairs of neighbors, and not normalized.

        Args:
            x: N x L x E.
            positions: of the L tokens, as `RoPE` takes them: slice(offset, offset + L), where offset need not be 0.

        Returns:
            N x L x C and N x L x D_rope, in the dtype that x and the weights share.
        """
        latent, key = mx.split(linear(x, self.down), [self.config.kv_lora_rank], axis=-1)
        return self.norm(latent), self.rope(key[:, :, None], positions)[:, :, 0]  # RoPE needs a head axis

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
        length, positions = x.shape[1], slice(0, x.shape[1])
        query, query_rope = self.queries(x, positions)
        latent, key_rope = self.latents(x, positions)
        both = mx.unflatten(linear(latent, self.up), -1, (self.config.num_attention_heads, -1)).swapaxes(1, 2)
        key, value = mx.split(both, [self.config.qk_nope_head_dim], axis=-1)  # N x H x L x D_nope, N x H x L x D_v
        scores = query @ key.swapaxes(-1, -2) + query_rope @ key_rope[:, None].swapaxes(-1, -2)  # N x H x L x L
        scores = scores * self.config.query_dim**-0.5 + causal_mask(length, length, scores.dtype)
        attended = softmax(scores, axis=-1) @ value  # N x H x L x D_v
        return linear(attended.swapaxes(1, 2).flatten(2), self.output)
