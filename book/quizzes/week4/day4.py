"""The quiz of week 4, day 4."""

import math
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "4.4.1",
    "The config of DeepSeek-V2-Lite has 16 heads, 16 key-value heads, qk_nope_head_dim 128, qk_rope_head_dim 64, "
    "v_head_dim 128 and kv_lora_rank 512. How many elements does a layer cache per token?",
    why="A layer caches a latent of 512 elements, from which keys and values are computed, and a RoPE key of 64 "
    "elements.",
    mistakes={
        "latent-twice": "Keys and values are both computed from one latent of 512 elements.",
        "rope-key-for-each-head": "All heads share the same RoPE key: 64 elements, not 16 times as many.",
        "no-rope-key": "The RoPE key does not come from the latent: it must be cached too.",
        "always-expanded": "These are the expanded keys and values of all heads, more than plain heads of 128 would "
        "take.",
    },
)
def lite(count: Any) -> str:
    config = {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 27}
    sizes = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    return f"{count({**config, **sizes}).elements:,}"


@quiz.question(
    "4.4.3",
    "A cache with a capacity of 4 contains 3 tokens, and 9 more are added. Latents have 6 elements and RoPE keys 2, "
    "in float32, and N is 1. What is `nbytes` then?",
    why="There are 12 entries of 8 elements at 4 bytes each. The capacity has doubled to 16, but 4 slots are empty.",
    mistakes={
        "bytes-of-the-capacity": "The capacity is now 16 entries, but the four empty slots are never read.",
        "bytes-of-latents": "An entry is a latent and a RoPE key: 8 elements.",
        "elements-for-bytes": "There are 96 elements, and each takes four bytes.",
        "offset-stays": "All twelve entries must be counted, including the first three.",
    },
)
def twelve_entries(cache: Any) -> str:
    made = cache(4)
    for length in (3, 9):
        made.update_and_fetch(mx.ones((1, length, 6)), mx.ones((1, length, 2)))
    return str(made.nbytes)


@quiz.question(
    "4.4.4",
    "A layer has one head, C = 14, D_nope = 2 and D_rope = 2. All RoPE keys are zero. The second token's query absorbs "
    "the head's key matrix. Its product with the first token's latent is then 2 ln 3 = 2.2, and its product with the "
    "second token's latent is 0. What is the first token's attention weight?",
    why="The scale is 1 / sqrt(2 + 2), as in the expanded form: the scores are ln 3 and 0, so the weights are 3 to 1.",
    mistakes={
        "scale-of-an-entry": "C + D_rope is 16, but the scores do not change when the product is reassociated.",
        "no-scale": "Without the division by 2, the weights are 9 to 1 instead of 3 to 1.",
        "scale-of-one-part": "The scale depends on both parts of a query and is 1 / sqrt(2 + 2).",
    },
)
def weight(layer: Any) -> str:
    """The layer's output is the weight: the first token's value is 1, the second's is 0."""
    from tiny_llm_solution.latent_attention.cache import LatentCache
    from tiny_llm_solution.latent_attention.config import LatentConfig

    config = LatentConfig(2, 1, 14, 2, 2, 1, None, 10000.0, 8)
    latents = mx.eye(14, 2)  # of the two tokens, in columns
    unit = latents[:, 0][None] / math.sqrt(14)  # whose product with the first latent, which is normed, is 1
    weights = {
        "q_proj": mx.concatenate([mx.array([[0.0, 2 * math.log(3)]]), mx.zeros((3, 2))]),
        "kv_a_proj_with_mqa": mx.concatenate([latents, mx.zeros((2, 2))]),
        "kv_a_layernorm": mx.ones(14),
        "kv_b_proj": mx.concatenate([unit, mx.zeros((1, 14)), unit]),
        "o_proj": mx.array([[1.0], [0.0]]),
    }
    built = layer(config, {f"self_attn.{name}.weight": w for name, w in weights.items()})
    return numbers(built(mx.eye(2)[None], LatentCache())[0, 1, 0])


@quiz.measured(
    "Absorbed MLA and GQA with two key-value heads read the same number of bytes. Why does MLA take three times as "
    "long in our own run?",
    right="Its heads compute with whole entries, which are wider than GQA's keys and values.",
    why="Each of 16 heads scores entries of 256 elements and sums latents of 224. GQA uses keys and values of 64.",
    mistakes={
        "It computes every head's keys and values.": "That is the expanded form, which takes about 50 times as long.",
        "Its entries are rotated again in each step.": "An entry's positional part is cached after RoPE has been "
        "applied.",
        "Its latents are cached for each head.": "All heads share one latent, which is why the bytes are the same.",
    },
)
def same_bytes(record: Record, cause: str) -> str:
    mla, gqa, expanded = (record[row] for row in ("MLA, absorbed", "GQA", "MLA, expanded"))
    slower, slowest = (float(a["step: ms"]) / float(b["step: ms"]) for a, b in ((mla, gqa), (expanded, mla)))
    same = mla["cache read: MiB"] == gqa["cache read: MiB"]
    return cause if same and 3 < slower < 3.5 and 45 < slowest < 55 else ""
