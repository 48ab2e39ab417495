"""A layer of MLX operators, for checks of layers and models; the variants of 1.5.2 and 1.5.3 use it."""

import mlx.core as mx
import mlx.nn as nn


def layer_of_operators(x, config, w, mask=None):
    """Compute a transformer block. Only RoPE and the scale read head_dim, which the config may have wrong."""
    eps, dims = config.rms_norm_eps, config.head_dim
    normed = mx.fast.rms_norm(x, w["input_layernorm.weight"], eps)
    heads = {}
    for name, number in (("q", config.num_attention_heads), *((n, config.num_key_value_heads) for n in "kv")):
        y = normed @ w[f"self_attn.{name}_proj.weight"].T + w.get(f"self_attn.{name}_proj.bias", 0)
        y = mx.unflatten(y, -1, (number, -1))
        if config.model_type == "qwen3" and name != "v":
            y = mx.fast.rms_norm(y, w[f"self_attn.{name}_norm.weight"], eps)
        y = y.swapaxes(1, 2)
        if name != "v":
            y = mx.fast.rope(y, dims, traditional=False, base=config.rope_theta, scale=1.0, offset=0)
        heads[name] = y
    # The operator rejects a mask with a wider dtype than the queries.
    wide = mx.float32 if isinstance(mask, mx.array) else x.dtype
    mask = mask.astype(wide) if isinstance(mask, mx.array) else mask
    q, k, v = (heads[name].astype(wide) for name in "qkv")
    y = mx.fast.scaled_dot_product_attention(q, k, v, scale=dims**-0.5, mask=mask).astype(x.dtype)
    h = x + y.swapaxes(1, 2).flatten(2) @ w["self_attn.o_proj.weight"].T
    normed = mx.fast.rms_norm(h, w["post_attention_layernorm.weight"], eps)
    gate, up, down = (w[f"mlp.{name}_proj.weight"].T for name in ("gate", "up", "down"))
    return h + (nn.silu(normed @ gate) * (normed @ up)) @ down


def needed(config):
    """The names of a layer's weights, by architecture."""
    names = [f"self_attn.{n}_proj.weight" for n in "qkvo"] + [f"mlp.{n}_proj.weight" for n in ("gate", "up", "down")]
    names += ["input_layernorm.weight", "post_attention_layernorm.weight"]
    if config.model_type == "qwen3":
        return [*names, "self_attn.q_norm.weight", "self_attn.k_norm.weight"]
    return names + [f"self_attn.{n}_proj.bias" for n in "qkv"]
