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
    why="`rewind(2)` drops 4 and 5, and 6 overwrites the 4. The 5 is still in the array, but past `offset`.",
    mistakes={
        "rewind-forgets-nothing": "`offset` must fall from 5 to 3, so that the next key overwrites the 4.",
        "rewind-to": "Three of the five tokens should remain, not two.",
        "whole-capacity-returned": "The slots past `offset` contain only zeros or dropped tokens.",
        "growth-loses-the-old": "The fifth key needs a second block, to which the old keys must be copied.",
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
    "Every score is 0, so attention returns the average of the values that a token sees. The cache contains the values "
    "1, 2 and 3, and a call adds 4 and 5. What does attention return for the two new tokens?",
    why="The first token sees 1 to 4 and the second sees 1 to 5. The averages are 2.5 and 3.",
    mistakes={
        "no-mask": "The first new token would see the 5, which comes after it.",
        "mask-upper-left": "The first new token is the fourth of the sequence, so it sees four keys.",
        "cache-unread": "This would be right if the cache were empty.",
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
    "A model predicts the last token plus one, so 5 follows 4. The prompt is 3, 1, 4, and you generate two tokens. "
    "Which tokens does each call pass to the model?",
    why="The prompt's logits predict 5. The second call passes 5 and predicts 6, and no third call is needed.",
    mistakes={
        "new-caches-for-every-token": "This is the loop of week 1, which computes the whole sequence in every call.",
        "prompt-s-last-token-twice": "The caches would contain the 4 twice.",
        "prompt-in-two-calls": "An extra call for the 4 would load all weights once more.",
        "chosen-token-unread": "The model would never see the 5 that it generated.",
    },
)
def calls(generate: Any) -> str:
    reader = Reader(lambda text: (text[-1] + 1) % 11)
    list(generate(reader, [3, 1, 4], 2))
    return ", then ".join(f"`{' '.join(map(str, given))}`" for given in reader.seen)
