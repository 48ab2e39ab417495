"""Task 4.1.3, cross-attention, checked against its formula in float64, MLX's operators and PyTorch, in three dtypes."""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day1 import cross64
from tests.week4.masks import SIZES, blind, may_look

from tiny_llm.masks import cross_attention
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


class Heads(int):
    """A number of heads, which a failing case also shows as an axis: one head cannot show what several would."""

    def __str__(self):
        return f"{int(self)} ({int(self)} x D)"


@built
def cross(
    x, memory, num_heads, wq, wk, wv, wo, bq=None, bk=None, bv=None, bo=None,
    mask=None, key_mask=None, bool_mask=None, bool_key_mask=None,
):  # fmt: skip
    # A plain int: MLX's reshape raises std::bad_cast if its first size is a subclass of int.
    layer = cross_attention.MultiHeadCrossAttention(int(num_heads), wq, wk, wv, wo, bq, bk, bv, bo)

    def call(x, memory, mask, key_mask, bool_mask, bool_key_mask):
        masks = {
            "mask": mask if bool_mask is None else bool_mask,
            "key_mask": key_mask if bool_key_mask is None else bool_key_mask,
        }
        return layer(x, *layer.read(memory), **{name: each for name, each in masks.items() if each is not None})

    return call


def cross_inputs(seed, dtype=mx.float32, batch=2, length=4, keys=5, hidden=11, other=9, heads=3, dims=7):
    """B, L, S, E, M, H and D all differ, and E is not H * D."""
    draw, width = normals(seed, dtype), heads * dims
    x, memory = draw(batch, length, hidden), draw(batch, keys, other)
    wq = draw(width, hidden, spread=hidden**-0.5)
    wk, wv = (draw(width, other, spread=other**-0.5) for _ in "kv")
    return x, memory, heads, wq, wk, wv, draw(hidden, width, spread=width**-0.5)


def biases(seed, dtype=mx.float32, hidden=11, heads=3, dims=7):
    draw = normals(seed, dtype)
    return {**{name: draw(heads * dims) for name in ("bq", "bk", "bv")}, "bo": draw(hidden)}


@by_dtype
@pytest.mark.parametrize("batch", [1, 2])
def test_task_3_cross_formula(batch, dtype):
    agrees(cross, cross64, *cross_inputs(1, dtype, batch), seed=1)


@by_dtype
def test_task_3_cross_biases(dtype):
    agrees(cross, cross64, *cross_inputs(2, dtype), **biases(20, dtype), seed=2)


@pytest.mark.parametrize("name", ["bq", "bv", "bo"])
def test_task_3_cross_biases_apart(name):
    """Each may be None while others are not. (The key bias changes nothing: it shifts a row's scores.)"""
    agrees(cross, cross64, *cross_inputs(3), **{name: biases(30)[name]}, seed=3)
    agrees(cross, cross64, *cross_inputs(3), **{**biases(30), name: None}, seed=3)


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_task_3_cross_any_number_of_heads(heads):
    agrees(cross, cross64, *cross_inputs(4, heads=Heads(heads), dims=3), seed=4)


@by_dtype
def test_task_3_cross_keys_and_values(dtype):
    """The result of `read`, of the same dtype and split by heads."""
    _, memory, heads, wq, wk, wv, wo = cross_inputs(5, dtype)
    some = biases(50, dtype)
    for which, (w, bias) in enumerate([(wk, some["bk"]), (wv, some["bv"])]):

        def read(memory, wk, bias, which=which, w=w):
            layer = cross_attention.MultiHeadCrossAttention(
                heads, wq, wk if which == 0 else w, wk if which else w, wo,
                **{"bk" if which == 0 else "bv": bias},
            )  # fmt: skip
            return layer.read(memory)[which]

        def projected64(memory, wk, bias, *, r=exact):
            y = r(r(memory @ wk.T) + bias)
            return np.swapaxes(y.reshape(*y.shape[:2], heads, -1), 1, 2)

        agrees(read, projected64, memory, w, bias, seed=5)


@by_dtype
def test_task_3_cross_padded_memory(dtype):
    """One memory is full, one is padded."""
    key_mask = mx.arange(5) < mx.array([[5], [2]])
    agrees(cross, cross64, *cross_inputs(6, dtype), **biases(60, dtype), bool_key_mask=key_mask, seed=6)


@by_dtype
def test_task_3_cross_fully_padded_memory(dtype):
    """A memory of padding only: the output is bo, and the other sequence is unchanged."""
    key_mask = mx.arange(5) < mx.array([[5], [0]])
    agrees(cross, cross64, *cross_inputs(7, dtype), **biases(70, dtype), bool_key_mask=key_mask, seed=7)


@SIZES
def test_task_3_cross_masks(sizes):
    """Two, three and four axes, boolean and float, with and without padding."""
    B, H, L, S = sizes
    inputs = cross_inputs(8, batch=B, heads=Heads(H), length=L, keys=S)
    for shape in ((L, S), (B, L, S), (B, H, L, S), (1, H, 1, S)):
        agrees(cross, cross64, *inputs, bool_mask=may_look(80, *shape), seed=8)
        agrees(cross, cross64, *inputs, mask=normals(81)(*shape), bool_key_mask=may_look(82, B, S), seed=8)
    agrees(cross, cross64, *inputs, key_mask=normals(83)(B, S), seed=8)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_3_cross_mask_of_large_numbers(dtype):
    """Float masks with numbers that x's dtype may not hold."""
    inputs, mask = cross_inputs(9, dtype), normals(90)(4, 5) - 1e5
    agrees(cross, cross64, *inputs, mask=mask, seed=9)
    expected = cross64(*(to_float64(v) if isinstance(v, mx.array) else v for v in inputs), mask=to_float64(mask))
    case = f"{dtype_word(dtype)}, x 2 x 4 x 11, memory 2 x 5 x 9, num_heads 3, mask 4 x 5 near -100,000, seed 9"
    compare(cross(*inputs, mask=mask), expected, dtype, 0.06, case, 168)


@pytest.mark.parametrize(("length", "keys"), [(1, 6), (6, 1), (6, 2), (5, 5)])
def test_task_3_cross_longer_and_shorter(length, keys):
    """No memory token is later than a query, whichever sequence is longer."""
    agrees(cross, cross64, *cross_inputs(10, length=length, keys=keys), seed=10)


def test_task_3_cross_mlx():
    x, memory, heads, wq, wk, wv, wo = cross_inputs(11)
    layer = nn.MultiHeadAttention(
        21, heads, query_input_dims=11, key_input_dims=9, value_input_dims=9, value_dims=21, value_output_dims=11
    )
    weights = {"query_proj": wq, "key_proj": wk, "value_proj": wv, "out_proj": wo}
    layer.update({name: {"weight": w} for name, w in weights.items()})
    mask = normals(110)(4, 5)
    expected = to_float64(layer(x, memory, memory, mask))
    agrees(cross, cross64, x, memory, heads, wq, wk, wv, wo, mask=mask, seed=11, expected=expected)


@pytest.mark.parametrize("kind", ["padding", "bool", "float", "float by text and head"])
def test_task_3_cross_pytorch(pytorch, kind):
    """PyTorch's module, which needs E = H * D, and in which True hides."""
    inputs, some = cross_inputs(12, hidden=21), biases(120, hidden=21)
    mask = key_mask = None
    if kind == "padding":
        key_mask = mx.arange(5) < mx.array([[5], [2]])
    elif kind == "bool":
        mask = blind(121, 4, 5)
    else:
        mask = normals(122)(*((4, 5) if kind == "float" else (2, 3, 4, 5)))

    def module(torch, x, memory, heads, wq, wk, wv, wo, mask, key_mask, bq, bk, bv, bo):
        layer = torch.nn.MultiheadAttention(21, heads, batch_first=True, kdim=9, vdim=9)
        with torch.no_grad():
            for to, w in (("q", wq), ("k", wk), ("v", wv)):
                getattr(layer, f"{to}_proj_weight").copy_(w)
            layer.in_proj_bias.copy_(torch.cat([bq, bk, bv]))
            layer.out_proj.weight.copy_(wo)
            layer.out_proj.bias.copy_(bo)
            hides = None if mask is None else mask == 0 if kind == "bool" else mask.reshape(-1, 4, 5)
            options = {"attn_mask": hides[0] if hides is not None and len(hides) == 1 else hides}
            if key_mask is not None:
                options["key_padding_mask"] = key_mask == 0
            return layer(x, memory, memory, need_weights=False, **options)[0]

    expected = pytorch(module, *inputs, mask, key_mask, **some)
    given = {"bool_mask": mask} if kind == "bool" else {"mask": mask}
    agrees(cross, cross64, *inputs, **some, **given, bool_key_mask=key_mask, seed=12, expected=expected)


def test_task_3_cross_of_itself_is_self_attention():
    """A sequence that is its own memory: in PyTorch and week 1, that is self-attention."""
    x, _, heads, wq, wk, wv, wo = cross_inputs(13, other=11, keys=4)
    agrees(cross, cross64, x, x, heads, wq, wk, wv, wo, seed=13)


def test_task_3_cross_sweep():
    for n in sweep(N=65, L=131, S=1100, E=131, M=131, H=20, D=65):
        x, memory, *weights = cross_inputs(n.seed, n.dtype, n.N, n.L, n.S, n.E, n.M, n.H, n.D)
        some = n.turn(biases(n.seed, n.dtype, n.E, n.H, n.D), {})
        for shape in n.each((n.L, n.S), (n.N, n.L, n.S), (1, n.H, n.L, n.S), (n.N, 1, 1, n.S)):
            shape = shape if math.prod(shape) < 100000 else (n.L, n.S)
            mask = mask_of(n.turn(*MASKS), n.seed, n.turn(*DTYPES), *shape)
            key_mask = n.turn(may_look(n.seed, n.N, n.S), None)
            given = {**some, "mask": mask, "bool_key_mask": key_mask}
            agrees(cross, cross64, x * n.spread, memory, *weights, **given, seed=n)


@property_test
@given(length=st.integers(2, 5), seed=st.integers(0, 99))
def test_task_3_cross_token_by_token(length, seed):
    """A memory that was projected once serves tokens one at a time as well as all at once."""
    x, memory, *weights = cross_inputs(seed, length=length)
    agrees(cross, cross64, x, memory, *weights, seed=seed)
    layer = cross_attention.MultiHeadCrossAttention(*weights)
    key, value = layer.read(memory)
    together = layer(x, key, value)
    apart = mx.concatenate([layer(x[:, i : i + 1], key, value) for i in range(length)], axis=1)
    case = f"float32, x 2 x {length} x 11, memory 2 x 5 x 9, token by token, against all at once, seed {seed}"
    compare(apart, to_float64(together), mx.float32, 1e-5, case, x.size)


@pytest.mark.parametrize(
    ("name", "heads", "wrong_shape"),
    [
        ("wq", 4, (21, 11)),
        ("wk", 3, (20, 9)),
        ("wv", 3, (21, 8)),
        ("wv", 3, (7, 9)),
        ("wo", 3, (21, 11)),
        ("wo", 3, (1, 21)),
        ("bq", 3, (11,)),
        ("bk", 3, (1,)),
        ("bv", 3, (7,)),
        ("bo", 3, (21,)),
        ("bo", 3, (1,)),
    ],
)
def test_task_3_cross_refuses_other_shapes(name, heads, wrong_shape):
    shapes = {
        "wq": (21, 11),
        "wk": (21, 9),
        "wv": (21, 9),
        "wo": (11, 21),
        "bq": (21,),
        "bk": (21,),
        "bv": (21,),
        "bo": (11,),
    }
    weights = {each: mx.zeros(wrong_shape if each == name else shape) for each, shape in shapes.items()}
    words = ", ".join(f"{each} {' x '.join(map(str, w.shape))}" for each, w in weights.items())
    stated = {str(size) for size in (wrong_shape[:1] if name == "wq" else (*wrong_shape, *shapes[name]))}
    with raises_value_error(f"num_heads {heads}, {words}", name, *sorted(stated)):
        cross_attention.MultiHeadCrossAttention(heads, **weights)


@pytest.mark.parametrize("shape", [(2, 5), (3, 4, 5), (2, 5, 4)], ids=str)
def test_task_3_cross_refuses_other_masks(shape):
    """Padding passed as mask, and a mask per head instead of one per sequence."""
    x, memory, *weights = cross_inputs(14)
    layer = cross_attention.MultiHeadCrossAttention(*weights)
    words = " x ".join(map(str, shape))
    with raises_value_error(f"float32, x 2 x 4 x 11, memory 2 x 5 x 9, num_heads 3, mask {words}", str(shape)):
        mx.eval(layer(x, *layer.read(memory), mask=may_look(140, *shape)))


@pytest.mark.parametrize("name", ["mask", "key_mask"])
def test_task_3_cross_refuses_integers(name):
    """A 1 may be a number to add, or mark a key that is visible."""
    x, memory, *weights = cross_inputs(14)
    layer, shape = cross_attention.MultiHeadCrossAttention(*weights), (4, 5) if name == "mask" else (2, 5)
    given = {name: mx.ones(shape, dtype=mx.int32)}
    words = " x ".join(map(str, shape))
    with raises_value_error(f"float32, x 2 x 4 x 11, memory 2 x 5 x 9, num_heads 3, {name} {words} of int32"):
        mx.eval(layer(x, *layer.read(memory), **given))
