"""The size of a model's KV cache per token."""

import dataclasses
from typing import Any

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclasses.dataclass(frozen=True)
class CacheSize:
    """A model's cache size per token."""

    kind: str  # "MHA", "GQA", "MQA" or "MLA"
    elements: int  # in one layer
    bytes: int  # in all layers


def cache_size(config: dict[str, Any], expanded: bool = False) -> CacheSize:
    """Count the cache's elements and bytes per token, from the contents of a model's config.json alone.

    An entry that is None counts as missing. These are read:

        num_hidden_layers, hidden_size and num_attention_heads, H;
        num_key_value_heads, H_kv: missing means H;
        head_dim, D: missing means hidden_size // H;
        torch_dtype, or dtype in newer files: missing means float32;
        kv_lora_rank, C: a model that has it is "MLA", whatever num_key_value_heads is. It also has qk_rope_head_dim,
            D_rope, and, for expanded keys and values, qk_nope_head_dim and v_head_dim.

    Args:
        config: it is not changed.
        expanded: for "MLA", count every head's keys and values, D_nope + D_rope and D_v numbers, as if they were cached
            instead of the latent. For other models it changes nothing.

    Returns:
        kind: "MLA"; otherwise "MQA" for one key-value head, "MHA" for H of them, "GQA" in between. With H = 1 it is
            "MHA".
        elements: in one layer. "MLA": the latent and one RoPE key for all heads, C + D_rope. Otherwise H_kv keys and as
            many values.
        bytes: of the elements in all layers.

    Raises:
        ValueError: the dtype is not float32, float16 or bfloat16. The message names it.

    Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1.4.
    """
    present = {name: value for name, value in config.items() if value is not None}
    heads = present["num_attention_heads"]
    kv_heads = present.get("num_key_value_heads", heads)
    if "kv_lora_rank" in present:
        kind, elements = "MLA", present["kv_lora_rank"] + present["qk_rope_head_dim"]
        if expanded:
            key = present["qk_nope_head_dim"] + present["qk_rope_head_dim"]
            elements = heads * (key + present["v_head_dim"])
    else:
        kind = "MHA" if kv_heads == heads else "MQA" if kv_heads == 1 else "GQA"
        elements = 2 * kv_heads * present.get("head_dim", present["hidden_size"] // heads)
    dtype = present.get("torch_dtype", present.get("dtype", "float32"))
    if dtype not in BYTES:
        raise ValueError(f"the dtype is {dtype!r}, known are {', '.join(BYTES)}")
    return CacheSize(kind, elements, present["num_hidden_layers"] * elements * BYTES[dtype])
