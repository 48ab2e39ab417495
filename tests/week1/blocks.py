"""Layers of MLX's and of PyTorch's own operators, and the measures that a sweep draws for them."""

import mlx.core as mx
import mlx.nn as nn
from tests.week1.reference_model import QWEN3, QWEN25

ARCHITECTURES = [QWEN3, QWEN25]


def measures(n):
    """Of a model as a sweep draws them, and every other time with E = H * D."""
    heads, dims = n.K * n.G, 2 * n.P
    return {
        "hidden_size": n.turn(n.E, heads * dims),
        "num_attention_heads": heads,
        "num_key_value_heads": n.K,
        "head_dim": dims,
        "intermediate_size": n.I,
        "max_position_embeddings": n.L,
        "rope_theta": n.turn(1000000.0, 500.0, 10000.0),
        "rms_norm_eps": n.turn(1e-6, 0.1, 1e-5, 0.01),
    }


def mlx_block(x, model, mask, number=0):
    """A layer of MLX's own operators."""
    c, w = model.config, model.layer(number)
    dims, eps = c["head_dim"], c["rms_norm_eps"]
    normed = mx.fast.rms_norm(x, w["input_layernorm.weight"], eps)

    def heads(name):
        y = normed @ w[f"self_attn.{name}_proj.weight"].T + w.get(f"self_attn.{name}_proj.bias", 0)
        y = y.reshape(*y.shape[:2], -1, dims)
        if f"self_attn.{name}_norm.weight" in w:
            y = mx.fast.rms_norm(y, w[f"self_attn.{name}_norm.weight"], eps)
        y = y.transpose(0, 2, 1, 3)
        theta = c["rope_theta"]
        return y if name == "v" else mx.fast.rope(y, dims, traditional=False, base=theta, scale=1.0, offset=0)

    y = mx.fast.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), scale=dims**-0.5, mask=mask)
    h = x + y.transpose(0, 2, 1, 3).flatten(2) @ w["self_attn.o_proj.weight"].T
    normed = mx.fast.rms_norm(h, w["post_attention_layernorm.weight"], eps)
    gate, up, down = (w[f"mlp.{name}_proj.weight"].T for name in ("gate", "up", "down"))
    return h + (nn.silu(normed @ gate) * (normed @ up)) @ down


def torch_block(torch, x, config, w):
    """A layer of PyTorch's own operators, with a causal mask; `w` by the names within a layer."""
    functional, eps, dims = torch.nn.functional, config["rms_norm_eps"], config["head_dim"]
    angles = torch.outer(torch.arange(x.shape[1]), config["rope_theta"] ** (-torch.arange(0, dims, 2) / dims))
    cos, sin = (torch.cat([f(angles), f(angles)], dim=-1) for f in (torch.cos, torch.sin))
    normed = functional.rms_norm(x, x.shape[-1:], w["input_layernorm.weight"], eps)

    def heads(name):
        y = functional.linear(normed, w[f"self_attn.{name}_proj.weight"], w.get(f"self_attn.{name}_proj.bias"))
        y = y.unflatten(-1, (-1, dims))
        if f"self_attn.{name}_norm.weight" in w:
            y = functional.rms_norm(y, (dims,), w[f"self_attn.{name}_norm.weight"], eps)
        y = y.transpose(1, 2)
        first, second = y.chunk(2, dim=-1)
        return y if name == "v" else y * cos + torch.cat([-second, first], dim=-1) * sin

    y = functional.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), is_causal=True, enable_gqa=True)
    h = x + functional.linear(y.transpose(1, 2).flatten(2), w["self_attn.o_proj.weight"])
    normed = functional.rms_norm(h, h.shape[-1:], w["post_attention_layernorm.weight"], eps)
    gate, up = (functional.linear(normed, w[f"mlp.{name}_proj.weight"]) for name in ("gate", "up"))
    return h + functional.linear(functional.silu(gate) * up, w["mlp.down_proj.weight"])
