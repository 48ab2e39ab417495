"""The Qwen3 model, from attention to logits; Qwen2.5 is the same with other options."""

import mlx.core as mx

from .attention import scaled_dot_product_attention_grouped
from .basics import linear, silu
from .config import ModelConfig
from .embedding import Embedding
from .layer_norm import RMSNorm
from .positional_encoding import RoPE


class Qwen3MultiHeadAttention:
    """Grouped-query self-attention with RoPE and an RMS norm on each head's queries and keys."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        wq: mx.array,
        wk: mx.array,
        wv: mx.array,
        wo: mx.array,
        *,
        q_norm: mx.array | None = None,
        k_norm: mx.array | None = None,
        bq: mx.array | None = None,
        bk: mx.array | None = None,
        bv: mx.array | None = None,
        max_seq_len: int = 32768,
        theta: float = 1000000,
        rms_norm_eps: float = 1e-6,
    ) -> None:
        """Store the weights, laid out as `linear` takes them. Their shapes are not checked.

        Args:
            hidden_size: E.
            num_heads: H.
            num_kv_heads: H_kv, a divisor of H.
            head_dim: D.
            wq: (H * D) x E.
            wk: (H_kv * D) x E.
            wv: (H_kv * D) x E.
            wo: E x (H * D).
            q_norm: D, the weight of the RMS norm of each head's query; None for no norm (Qwen2.5).
            k_norm: D, the same for keys.
            bq: H * D, the bias of the query projection; None for no bias (Qwen3).
            bk: H_kv * D.
            bv: H_kv * D.
            max_seq_len: the longest sequence.
            theta: RoPE's base; pair i is features i and i + D/2 (`traditional=False`).
            rms_norm_eps: eps of both norms.

        Raises:
            ValueError: H is not a multiple of H_kv.
        """
        raise NotImplementedError("1.3.3 Qwen3 attention")

    def __call__(self, x: mx.array, mask: mx.array | str | None = None) -> mx.array:
        """Compute self-attention within each row.

        Args:
            x: N x L x E, the tokens at positions 0 to L - 1.
            mask: None, "causal", or an array of any float dtype, added to the scaled scores, that broadcasts to
                N x H x L x L.

        Returns:
            N x L x E, in the dtype that x and the weights share.

        Raises:
            ValueError: L exceeds max_seq_len.

        Source: the Qwen3 report, 2025, section 2; `mlx_lm.models.qwen3.Attention`.
        """
        raise NotImplementedError("1.3.3 Qwen3 attention")


class Qwen3MLP:
    """SwiGLU: one projection gates another."""

    def __init__(self, dim: int, hidden_dim: int, w_gate: mx.array, w_up: mx.array, w_down: mx.array) -> None:
        """Store the weights.

        Args:
            dim: E.
            hidden_dim: I, the MLP's width.
            w_gate: I x E.
            w_up: I x E.
            w_down: E x I.

        Raises:
            ValueError: a weight's shape is not as above; the message names it.
        """
        raise NotImplementedError("1.4.3 SwiGLU")

    def __call__(self, x: mx.array) -> mx.array:
        """Return w_down(silu(w_gate(x)) * w_up(x)).

        Args:
            x: N.. x E.

        Returns:
            N.. x E, in the dtype that x and the weights share.

        Source: Shazeer 2020.
        """
        raise NotImplementedError("1.4.3 SwiGLU")


class Qwen3TransformerBlock:
    """One layer: attention, then MLP, each on the normalized residual stream and added back to it."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        """Build the layer's parts from its weights.

        Args:
            config: the model's.
            weights: by their names within a layer: `input_layernorm.weight`, `self_attn.q_proj.weight` (k, v, o alike),
                `self_attn.q_proj.bias` (k, v alike; Qwen2.5), `self_attn.q_norm.weight` (k alike; Qwen3),
                `post_attention_layernorm.weight`, `mlp.gate_proj.weight` (up, down alike). The config determines which
                of these a model has; other names are ignored.

        Raises:
            KeyError: a weight that the architecture needs is missing.
        """
        raise NotImplementedError("1.5.2 Transformer block")

    def __call__(self, x: mx.array, mask: mx.array | str | None = None) -> mx.array:
        """Add attention's output and then the MLP's to the residual stream.

        Args:
            x: N x L x E, the residual stream.
            mask: as `Qwen3MultiHeadAttention` takes it.

        Returns:
            N x L x E, in the dtype that x and the weights share: the residual stream after this layer.

        Raises:
            ValueError: L exceeds the config's max_position_embeddings.
        """
        raise NotImplementedError("1.5.2 Transformer block")


class Qwen3Model:
    """Token ids in, next-token logits out."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers.

        Args:
            config: the model's.
            weights: by the names of a checkpoint: `model.embed_tokens.weight` (V x E), `model.layers.0.` and the names
                of `Qwen3TransformerBlock`, ..., `model.norm.weight`, and `lm_head.weight` (V x E), which is used only
                if the config does not tie the word embeddings.

        Raises:
            KeyError: a weight is missing.
            ValueError: the shape of the embedding, a norm of the residual stream or an MLP weight does not fit the
                config.
        """
        raise NotImplementedError("1.5.3 The model")

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the next-token logits at each position.

        Args:
            tokens: N x L, integers.

        Returns:
            N x L x V, in the dtype that all weights share. The logits at position i depend only on the tokens up to i.

        Source: `mlx_lm.models.qwen3.Model`, `transformers.Qwen3ForCausalLM`.
        """
        raise NotImplementedError("1.5.3 The model")
