"""The quiz of week 1, day 5."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "1.5.1",
    "An embedding table has a row for each of three tokens: `1, 0`, `0, 2` and `2, 2`. What does `as_linear` return "
    "for the vector `1, 2`?",
    why="Each logit is the dot product of the vector with a row: 1 · 1 + 2 · 0, 1 · 0 + 2 · 2 and 1 · 2 + 2 · 2. Token "
    "2 has the largest logit.",
    mistakes={
        "reshaped-table": "A reshape to 2 x 3 puts elements of different tokens into one column.",
        "cosines": "The norms of the rows are 1, 2 and 2.83. A logit grows with the norm of its row, but a cosine "
        "does not.",
        "scores-over-root-E": "Attention divides by a square root, but the LM head does not.",
    },
)
def logits_of_three(embedding: Any) -> str:
    table = mx.array([[1.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    return numbers(embedding(3, 2, table).as_linear(mx.array([1.0, 2.0])))


@quiz.question(
    "1.5.2",
    "In a layer with E = 1, a norm keeps only the sign of a number: 1 or -1. Attention always adds -5 to the "
    "residual stream. The MLP adds 4 if its input is 1, and nothing if its input is -1. The residual stream is 2. "
    "What is the layer's output?",
    why="2 - 5 is -3. The MLP's input is the norm of -3, which is -1, so the MLP adds nothing.",
    mistakes={
        "mlp-reads-x": "The MLP used the sign of 2 and added 4, as if attention had added nothing.",
        "no-residual-at-attention": "The residual stream should be 2 - 5 = -3, but the 2 was lost.",
        "mlp-added-to-x": "The MLP correctly added nothing, but to 2, the residual stream before attention.",
    },
)
def signs(block: Any) -> str:
    return numbers(block(_config(), _weights())(mx.array([[[2.0]]])), 0)


def _config() -> Any:
    from tiny_llm_solution.config import ModelConfig

    return ModelConfig("qwen2", 1, 1, 1, 1, 1, 2, 5, 1e-12, 1e4, 8, True)


def _weights() -> dict[str, mx.array]:
    """Attention's only value is its bias, -5. silu(10) is 10 and silu(-10) next to nothing, and 0.4 makes 4 of 10."""
    names = {name: mx.zeros((2, 1)) for name in ("q", "k", "v")}
    weights = {f"self_attn.{name}_proj.weight": weight for name, weight in names.items()}
    weights |= {f"self_attn.{name}_proj.bias": mx.zeros(2) for name in ("q", "k")}
    return weights | {
        "self_attn.v_proj.bias": mx.array([-5.0, 0.0]),
        "self_attn.o_proj.weight": mx.array([[1.0, 0.0]]),
        "input_layernorm.weight": mx.ones(1),
        "post_attention_layernorm.weight": mx.ones(1),
        "mlp.gate_proj.weight": mx.array([[10.0]]),
        "mlp.up_proj.weight": mx.array([[1.0]]),
        "mlp.down_proj.weight": mx.array([[0.4]]),
    }
