"""The quiz of week 6, day 2."""

from typing import Any

import mlx.core as mx
from tests.week6.sharded import WIDE

from tiny_llm_course.dev.book.quizzes import Quiz, numbers
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.ranks import run_ranks

load_solution()
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.qwen3_cached.parts import DENSE  # noqa: E402

quiz = Quiz()


@quiz.question(
    "6.2.1",
    "A model has 8 query heads and 2 key-value heads, all of dimension 16, and is split among four ranks. Which rows "
    "of `k_proj` does rank 1 hold?",
    why="Rank 1 has query heads 2 and 3, which use key-value head 0: its 16 rows. Rank 0 holds the same rows.",
    mistakes={
        "shared-heads-in-turn": "That is key-value head 1, which query heads 4 to 7 use.",
        "all-key-value-heads": "Its query heads use only one of the two key-value heads.",
    },
)
def shared_head(program: Any) -> str:
    config = {**WIDE, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16}
    cut = program(ModelConfig.from_dict(config), 1, 4).cut("model.layers.0.self_attn.k_proj.weight", (32, 10))
    return f"{cut.start} to {cut.stop - 1}"


@quiz.question(
    "6.2.2",
    "On each of 3 ranks, the partial product of a row-parallel layer is 2. The layer's bias is 1. What does the "
    "layer return?",
    why="The sum of the partial products is 6, and the bias is added once.",
    mistakes={
        "bias-on-every-rank": "Three times 2 + 1 is 9.",
        "averaged": "The mean of 2, 2 and 2 is 2, and the bias makes it 3. But each rank has a part of one sum over "
        "all inputs.",
        "bias-missing": "Three times 2 is 6.",
    },
)
def bias(program: Any) -> str:
    weights = {"mlp.down_proj.weight": mx.array([[2.0]]), "mlp.down_proj.bias": mx.array([1.0])}
    found, _ = run_ranks(
        lambda group: program(group, DENSE).projection(weights, "mlp.down_proj", True)(mx.array([1.0])), 3
    )
    return numbers(found[0])


@quiz.question(
    "6.2.4",
    "Three ranks hold two tokens each. The logits are 2 and 7 on rank 0, 7 and 1 on rank 1, 0 and 5 on rank 2. Which "
    "token does greedy decoding choose?",
    why="Tokens 1 and 2 have equal logits. One process takes the lower id, and so must the ranks.",
    mistakes={
        "last-of-equal-ranks": "Among equal logits, the lowest id wins, as in mx.argmax.",
        "largest-id": "Each rank sends a logit and an id. The largest logit decides.",
    },
)
def tie(program: Any) -> str:
    logits = mx.array([[2.0, 7, 7, 1, 0, 5]])

    def choose(group: Any) -> int:
        own = range(2 * group.rank, 2 * group.rank + 2)
        return int(program(group, own, 6, temp=0)(logits[:, own.start : own.stop], [[]]).item())

    return f"token {run_ranks(choose, 3)[0][0]}"
