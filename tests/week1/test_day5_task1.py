"""Week 1, day 5, task 1: embedding."""

import mlx.core as mx
import mlx.nn as nn
import pytest
from tests.week1.reference_model import random_tokens

from tiny_llm import embedding
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def embed(tokens, weight):
    table = embedding.Embedding(*weight.shape, weight)
    return lambda tokens: table(tokens)


def embed64(tokens, weight, *, r=exact):
    return r(weight[tokens.astype(int)])


@built
def unembed(x, weight):
    table = embedding.Embedding(*weight.shape, weight)
    return lambda x: table.as_linear(x)


def unembed64(x, weight, *, r=exact):
    return r(x @ weight.T)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (2, 3, 4)], ids=str)
def test_task_1_embedding_formula(leading, dtype):
    weight = normals(1, dtype)(7, 5)
    agrees(embed, embed64, random_tokens(1, *leading, vocab_size=7), weight, seed=1, dtype=dtype)


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64, mx.uint32], ids=str)
def test_task_1_embedding_every_token(dtype):
    """The ids 0 to V - 1 return the table itself, for any integer dtype."""
    weight = normals(2)(7, 5)
    agrees(embed, embed64, mx.arange(7).astype(dtype), weight, seed=2, dtype=mx.float32)


def test_task_1_embedding_mlx():
    weight, tokens, x = normals(3)(7, 5), random_tokens(3, 2, 3, vocab_size=7), normals(30)(2, 3, 5)
    table = nn.Embedding(7, 5)
    table.update({"weight": weight})
    agrees(embed, embed64, tokens, weight, seed=3, dtype=mx.float32, expected=to_float64(table(tokens)))
    agrees(unembed, unembed64, x, weight, seed=30, expected=to_float64(table.as_linear(x)))


def test_task_1_embedding_pytorch(pytorch):
    weight, tokens, x = normals(4)(7, 5), random_tokens(4, 2, 3, vocab_size=7), normals(40)(2, 3, 5)
    expected = pytorch(lambda torch, t, w: torch.nn.functional.embedding(t.long(), w), tokens, weight)
    agrees(embed, embed64, tokens, weight, seed=4, dtype=mx.float32, expected=expected)
    expected = pytorch(lambda torch, x, w: torch.nn.functional.linear(x, w), x, weight)
    agrees(unembed, unembed64, x, weight, seed=40, expected=expected)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (2, 3, 4)], ids=str)
def test_task_1_embedding_as_linear(leading, dtype):
    draw = normals(5, dtype)
    agrees(unembed, unembed64, draw(*leading, 5), draw(7, 5), seed=5)


def test_task_1_embedding_sweep():
    for n in sweep(N=1100, V=4200, E=1100):
        draw = normals(n.seed, n.dtype)
        weight, x = draw(n.V, n.E, spread=n.spread), draw(n.N, n.E)
        tokens = mx.array(token_ids(n.seed, n.V, n.N))
        leading = n.turn((-1,), (1, -1), (-1, 1))
        agrees(embed, embed64, tokens.reshape(*leading), weight, seed=n, dtype=n.dtype)
        agrees(unembed, unembed64, x.reshape(*leading, n.E), weight, seed=n)


def test_task_1_embedding_large_vocabulary():
    """More tokens than 16 bits can count, as in real models."""
    weight, tokens = normals(7)(70000, 1), mx.array([69999, 40000, 32768, 65536, 0])
    agrees(embed, embed64, tokens, weight, seed=7, dtype=mx.float32)


def test_task_1_embedding_square_table():
    """V = E: the one case in which a table that is not transposed goes unnoticed."""
    draw = normals(6)
    agrees(unembed, unembed64, draw(2, 5), draw(5, 5), seed=6)


@pytest.mark.parametrize("shape", [(5, 7), (7, 6), (8, 5), (7, 1), (1, 5), (35,), (7, 5, 1)], ids=str)
def test_task_1_embedding_refuses_other_shapes(shape):
    with raises_value_error(f"vocab_size 7, embedding_dim 5, weight of shape {shape}"):
        embedding.Embedding(7, 5, mx.zeros(shape))
