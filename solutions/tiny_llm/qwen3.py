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
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads = {num_heads} is not a multiple of num_kv_heads = {num_kv_heads}")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.wq, self.wk, self.wv, self.wo = wq, wk, wv, wo
        self.bq, self.bk, self.bv = bq, bk, bv
        self.q_norm, self.k_norm, self.eps = q_norm, k_norm, rms_norm_eps
        self.rope = RoPE(head_dim, max_seq_len, theta)

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
        query = mx.unflatten(linear(x, self.wq, self.bq), -1, (self.num_heads, -1))  # N x L x H x D
        key = mx.unflatten(linear(x, self.wk, self.bk), -1, (self.num_kv_heads, -1))  # N x L x H_kv x D
        value = mx.unflatten(linear(x, self.wv, self.bv), -1, (self.num_kv_heads, -1))
        # Normalize each head's D numbers before RoPE, which would mix the norm's weights within each pair.
        if self.q_norm is not None:
            query = mx.fast.rms_norm(query, self.q_norm, self.eps)
        if self.k_norm is not None:
            key = mx.fast.rms_norm(key, self.k_norm, self.eps)
        attended = scaled_dot_product_attention_grouped(
            self.rope(query).swapaxes(1, 2),  # N x H x L x D
            self.rope(key).swapaxes(1, 2),
            value.swapaxes(1, 2),
            mask=mask,
        )
        return linear(attended.swapaxes(1, 2).flatten(2), self.wo)


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
        up, down = (hidden_dim, dim), (dim, hidden_dim)
        for name, w, wanted in [("w_gate", w_gate, up), ("w_up", w_up, up), ("w_down", w_down, down)]:
            if w.shape != wanted:
                raise ValueError(f"{name} has shape {w.shape}, but {wanted} is needed")
        self.w_gate, self.w_up, self.w_down = w_gate, w_up, w_down

    def __call__(self, x: mx.array) -> mx.array:
        """Return w_down(silu(w_gate(x)) * w_up(x)).

        Args:
            x: N.. x E.

        Returns:
            N.. x E, in the dtype that x and the weights share.

        Source: Shazeer 2020.
        """
        return linear(silu(linear(x, self.w_gate)) * linear(x, self.w_up), self.w_down)


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
        qwen3 = config.model_type == "qwen3"
        self.input_norm = RMSNorm(config.hidden_size, weights["input_layernorm.weight"], config.rms_norm_eps)
        self.attention = Qwen3MultiHeadAttention(
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
            *(weights[f"self_attn.{name}_proj.weight"] for name in "qkvo"),
            q_norm=weights["self_attn.q_norm.weight"] if qwen3 else None,
            k_norm=weights["self_attn.k_norm.weight"] if qwen3 else None,
            bq=None if qwen3 else weights["self_attn.q_proj.bias"],
            bk=None if qwen3 else weights["self_attn.k_proj.bias"],
            bv=None if qwen3 else weights["self_attn.v_proj.bias"],
            max_seq_len=config.max_position_embeddings,
            theta=config.rope_theta,
            rms_norm_eps=config.rms_norm_eps,
        )
        self.mlp_norm = RMSNorm(config.hidden_size, weights["post_attention_layernorm.weight"], config.rms_norm_eps)
        self.mlp = Qwen3MLP(
            config.hidden_size,
            config.intermediate_size,
            *(weights[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down")),
        )

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
        h = x + self.attention(self.input_norm(x), mask)
        return h + self.mlp(self.mlp_norm(h))


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
        self.embedding = Embedding(config.vocab_size, config.hidden_size, weights["model.embed_tokens.weight"])
        self.layers = []
        for number in range(config.num_hidden_layers):
            prefix = f"model.layers.{number}."
            own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            self.layers.append(Qwen3TransformerBlock(config, own))
        self.norm = RMSNorm(config.hidden_size, weights["model.norm.weight"], config.rms_norm_eps)
        self.head = None if config.tie_word_embeddings else weights["lm_head.weight"]

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the next-token logits at each position.

        Args:
            tokens: N x L, integers.

        Returns:
            N x L x V, in the dtype that all weights share. The logits at position i depend only on the tokens up to i.

        Source: `mlx_lm.models.qwen3.Model`, `transformers.Qwen3ForCausalLM`.
        """
        x = self.embedding(tokens)  # N x L x E
        for layer in self.layers:
            x = layer(x, mask="causal")
        x = self.norm(x)
        return self.embedding.as_linear(x) if self.head is None else linear(x, self.head)
