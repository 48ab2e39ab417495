"""A transformer block's gradient, put together from the VJPs of its parts. Given: no task is in this file."""

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..basics import linear, silu
from ..config import ModelConfig
from ..layer_norm import RMSNorm
from ..positional_encoding import RoPE
from .attention import attention_vjp
from .layers import linear_vjp, rms_norm_vjp, swiglu_vjp

Params = dict[str, mx.array]


def block_vjp(config: ModelConfig, weights: Params, x: mx.array, dy: mx.array) -> tuple[mx.array, Params]:
    """Return the gradients of x and the weights for Qwen3's block, y = block(x, mask="causal"), given dy, y's gradient.

    Args:
        config: the model's, of type qwen3.
        weights: by their names within a layer, as `Qwen3TransformerBlock` takes them.
        x: N x L x E, the residual stream before the block.
        dy: N x L x E, the gradient of the residual stream after it.

    Returns:
        dx: N x L x E; and the gradient of each weight, by its name.
    """
    h = x + _Attention(config, weights, x).output  # forward: the input of the second half is needed
    dh, of_mlp = _mlp_vjp(config, weights, h, dy)
    dx, of_attention = _Attention(config, weights, x).vjp(dh + dy)  # the residual connection passes dy on unchanged
    return dx + dh + dy, of_attention | of_mlp


def _mlp_vjp(config: ModelConfig, weights: Params, h: mx.array, dy: mx.array) -> tuple[mx.array, Params]:
    """Return the gradients of y = mlp(norm(h)) with respect to h and the weights."""
    eps, norm = config.rms_norm_eps, weights["post_attention_layernorm.weight"]
    w_gate, w_up, w_down = (weights[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
    x = RMSNorm(config.hidden_size, norm, eps)(h)
    gate, up = linear(x, w_gate), linear(x, w_up)
    dinner, ddown = linear_vjp(silu(gate) * up, w_down, dy)
    dgate, dup = swiglu_vjp(gate, up, dinner)
    by_gate, dw_gate = linear_vjp(x, w_gate, dgate)
    by_up, dw_up = linear_vjp(x, w_up, dup)
    dh, dnorm = rms_norm_vjp(h, norm, eps, by_gate + by_up)  # x was used twice: the gradients of both uses are added
    return dh, {
        "post_attention_layernorm.weight": dnorm,
        "mlp.gate_proj.weight": dw_gate,
        "mlp.up_proj.weight": dw_up,
        "mlp.down_proj.weight": ddown,
    }


class _Attention:
    """y = attention(norm(x)), with the values that its backward pass needs."""

    def __init__(self, config: ModelConfig, weights: Params, x: mx.array) -> None:
        self.config, self.weights, self.x = config, weights, x
        self.rope = RoPE(config.head_dim, x.shape[1], config.rope_theta)
        self.read = RMSNorm(config.hidden_size, weights["input_layernorm.weight"], config.rms_norm_eps)(x)
        counts = {"q": config.num_attention_heads, "k": config.num_key_value_heads, "v": config.num_key_value_heads}
        self.projected = {  # N x L x H x D each
            name: mx.unflatten(linear(self.read, weights[f"self_attn.{name}_proj.weight"]), -1, (count, -1))
            for name, count in counts.items()
        }
        query, key = self._rotated("q"), self._rotated("k")  # N x H x L x D
        value = self.projected["v"].swapaxes(1, 2)
        self.heads = query, key, value
        attended = scaled_dot_product_attention_grouped(query, key, value, mask="causal")
        self.joined = attended.swapaxes(1, 2).flatten(2)
        self.output = linear(self.joined, weights["self_attn.o_proj.weight"])

    def _rotated(self, name: str) -> mx.array:
        weight = self.weights[f"self_attn.{name}_norm.weight"]
        normed = RMSNorm(self.config.head_dim, weight, self.config.rms_norm_eps)(self.projected[name])
        return self.rope(normed).swapaxes(1, 2)

    def vjp(self, dy: mx.array) -> tuple[mx.array, Params]:
        """Return the gradients with respect to x and the weights."""
        eps, weights, gradients = self.config.rms_norm_eps, self.weights, {}
        djoined, gradients["self_attn.o_proj.weight"] = linear_vjp(self.joined, weights["self_attn.o_proj.weight"], dy)
        dheads = mx.unflatten(djoined, -1, (self.config.num_attention_heads, -1)).swapaxes(1, 2)
        dread = mx.zeros_like(self.read)
        query, key, value = self.heads
        for name, d in zip("qkv", attention_vjp(query, key, value, dheads, mask="causal"), strict=True):
            d = d.swapaxes(1, 2)  # N x L x H x D
            if name != "v":
                weight, d = weights[f"self_attn.{name}_norm.weight"], _rope_vjp(self.rope, d)
                d, gradients[f"self_attn.{name}_norm.weight"] = rms_norm_vjp(self.projected[name], weight, eps, d)
            w = f"self_attn.{name}_proj.weight"
            part, gradients[w] = linear_vjp(self.read, weights[w], d.flatten(2))
            dread = dread + part  # the normalized stream was used three times
        dx, dnorm = rms_norm_vjp(self.x, weights["input_layernorm.weight"], eps, dread)
        return dx, gradients | {"input_layernorm.weight": dnorm}


def _rope_vjp(rope: RoPE, dy: mx.array) -> mx.array:
    """Rotate back: the transpose of a rotation is the opposite rotation, which swapped halves turn into the same."""
    half = dy.shape[-1] // 2
    return mx.roll(rope(mx.roll(dy, half, -1)), half, -1)
