"""How much of a token a model must keep for the tokens that come after it."""

import dataclasses
from typing import Any

BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclasses.dataclass(frozen=True)
class CacheSize:
    """What a model keeps of each token."""

    kind: str  # "MHA", "GQA", "MQA" or "MLA"
    elements: int  # numbers in one layer
    bytes: int  # in all layers


def cache_size(config: dict[str, Any], expanded: bool = False) -> CacheSize:
    """Count what a cache holds of one token, from the contents of a model's config.json alone.

    An entry that is None counts as missing. Read are these:

        num_hidden_layers, hidden_size and num_attention_heads, H;
        num_key_value_heads, H_kv: missing means H;
        head_dim, D: missing means hidden_size // H;
        torch_dtype, or dtype in newer files: what one number takes; missing means float32;
        kv_lora_rank, C: a model that has it is "MLA", whatever num_key_value_heads says, and has qk_rope_head_dim,
            D_rope, and, for keys and values in full, qk_nope_head_dim and v_head_dim.

    Args:
        config: it is not changed.
        expanded: of "MLA", count the keys and values of every head, D_nope + D_rope and D_v numbers, as if those were
            cached in the place of the latent. For others it changes nothing.

    Returns:
        kind: "MLA"; otherwise "MQA" for one key-value head, "MHA" for H of them, and "GQA" between. With H = 1 it is
            "MHA".
        elements: "MLA": the latent and one rope key for all heads, C + D_rope. Otherwise H_kv keys and as many values.
        bytes: of the elements, in all layers.

    Raises:
        ValueError: the dtype is none of float32, float16 and bfloat16. The message names it.

    Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1.4.
    """
    raise NotImplementedError("4.4.1 What a token leaves behind")
