"""The quiz of week 2, day 1."""

from typing import Any

import mlx.core as mx
from tests.week2.in_parts import Reader

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.1.1",
    "A cache with blocks of four gets the keys 1, 2 and 3, then 4 and 5, then `rewind(2)`, then 6. Which keys does the "
    "last call return?",
    why="`rewind(2)` drops 4 and 5, and 6 overwrites the 4. The 5 is still in the array, past `offset`: not returned.",
    mistakes={
        "rewind-forgets-nothing": "`offset` goes back by two, and the next key is written there.",
        "rewind-to": "`rewind(2)` drops two tokens; it does not keep two.",
        "whole-capacity-returned": "Past `offset` the array holds nothing that counts: zeros, or dropped tokens.",
        "growth-loses-the-old": "The fifth key needed a second block, and the old keys were not copied.",
    },
)
def keys_after_a_rewind(cache: Any) -> str:
    kept = cache(4)
    for keys in ([1, 2, 3], [4, 5], [6]):
        if keys == [6]:
            kept.rewind(2)
        new = mx.array(keys, mx.float32).reshape(1, 1, -1, 1)
        found, _ = kept.update_and_fetch(new, new)
    return numbers(found)


@quiz.question(
    "2.1.2",
    "Every score is 0, so a token gets the average of the values that it sees. The values are 1, 2 and 3 in the cache, "
    "then 4 and 5 in one call. What do the two new tokens get?",
    why="The first sees 1 to 4, the second 1 to 5: averages of 2.5 and 3.",
    mistakes={
        "no-mask": "Then the first would already see 5.",
        "mask-upper-left": "A triangle aligned to the upper left corner shows the first of them key 1 alone.",
        "cache-unread": "That is what they would get with an empty cache.",
    },
)
def averages(attention: Any) -> str:
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.qwen3_cached.cache import KVCache

    zeros, one = mx.zeros((2, 1)), mx.array([[1.0], [0.0]])
    weights = {f"self_attn.{name}_proj.weight": zeros for name in "qk"}
    weights |= {"self_attn.v_proj.weight": one, "self_attn.o_proj.weight": one.T}
    weights |= {f"self_attn.{name}_proj.bias": mx.zeros(2) for name in "qkv"}
    config = ModelConfig("qwen2", 1, 1, 1, 1, 1, 2, 5, 1e-6, 1e4, 8, True)
    layer, kept = attention(config, weights), KVCache()
    layer(mx.array([[[1.0], [2.0], [3.0]]]), kept)
    return " and ".join(numbers(x) for x in layer(mx.array([[[4.0], [5.0]]]), kept)[0])


@quiz.question(
    "2.1.4",
    "A model predicts the last token plus one: after 4 comes 5. The prompt is 3, 1, 4, and you generate two tokens. "
    "What is the model given, call by call?",
    why="The prompt's logits give 5. Then the model is given 5 and predicts 6; the token after it is not needed.",
    mistakes={
        "new-caches-for-every-token": "That is week 1's loop: right, and everything is recomputed.",
        "prompt-s-last-token-twice": "The 4 would be in the caches twice.",
        "prompt-in-two-calls": "A call for the 4 alone loads all weights once more.",
        "chosen-token-unread": "The model would never see its own 5.",
    },
)
def calls(generate: Any) -> str:
    reader = Reader(lambda text: (text[-1] + 1) % 11)
    list(generate(reader, [3, 1, 4], 2))
    return ", then ".join(f"`{' '.join(map(str, given))}`" for given in reader.seen)
