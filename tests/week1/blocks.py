"""A transformer layer of PyTorch operators, and the dimensions that a sweep draws for layers."""

from tests.week1.reference_model import QWEN3, QWEN25

ARCHITECTURES = [QWEN3, QWEN25]


def measures(n):
    """Return the config dimensions of a sweep case; every other case has E = H * D."""
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


def torch_block(torch, x, config, w):
    """Compute a layer with PyTorch operators and a causal mask; `w` is keyed by the names within a layer."""
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
