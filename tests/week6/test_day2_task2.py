"""Task 6.2.2, row-parallel and column-parallel products, against the whole matrices in float64."""

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.formulas import linear64
from tests.week1.reference_model import QWEN3, QWEN25, block64, random_model
from tests.week6.sharded import (
    DIVISIBLE,
    ROW_PARALLEL,
    WIDE,
    called,
    on_ranks,
    own_config,
    packed_model,
    parts,
    same_on_all,
    words,
)

from tiny_llm.config import ModelConfig
from tiny_llm.quantized.parts import Quantized
from tiny_llm.qwen3_cached.attention import Qwen3CachedAttention
from tiny_llm.qwen3_cached.cache import KVCache
from tiny_llm.qwen3_cached.decoder import DecoderLayer, SwiGLU
from tiny_llm.qwen3_cached.parts import DENSE
from tiny_llm.tensor_parallel import parts as parallel
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import fail_if_different, raises_error
from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

COLUMN = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj", "lm_head"]
ROW = ["self_attn.o_proj", "mlp.down_proj"]
by_size = pytest.mark.parametrize("size", [1, 2, 3, 4])


def split(x, rank, size, axis):
    """Return the rank's part of equal parts along an axis."""
    return mx.split(x, size, axis)[rank]


def product(x, w, bias, name, size):
    """Return the product of all ranks: of a column-parallel matrix, their outputs concatenated."""
    by_rows = name.rpartition(".")[2] in ROW_PARALLEL
    case = f"{dtype_word(x.dtype)}, {name}, {size} ranks, x {x.shape}, w {w.shape}, bias {bias is not None}"

    def program(group):
        def own(v, axis):
            return split(v, group.rank, group.size, axis)

        weights = {f"{name}.weight": own(w, 1 if by_rows else 0)}
        if bias is not None:
            weights[f"{name}.bias"] = bias if by_rows else own(bias, 0)
        project = parallel.ParallelParts(group, DENSE).projection(weights, name, bias is not None)
        return project(own(x, -1) if by_rows else x)

    results, groups = on_ranks(program, size, case)
    called(groups, ["all_sum"] * by_rows, case)
    return same_on_all(results, case) if by_rows else mx.concatenate(results, axis=-1)


def product64(x, w, bias, name, size, *, r=exact):
    return linear64(x, w, bias, r=r)


@by_dtype
@by_size
@pytest.mark.parametrize("name", COLUMN + ROW)
def test_task_2_parts_product(name, size, dtype):
    x, w = drawn(1, (2, 5, 12 * size), (6 * size, 12 * size), dtype=dtype)
    agrees(product, product64, x, w / w.shape[1] ** 0.5, None, name, size, seed=1)


@by_dtype
@by_size
@pytest.mark.parametrize("name", ["self_attn.q_proj", *ROW])
def test_task_2_parts_bias_is_added_once(name, size, dtype):
    x, w, bias = drawn(2, (3, 12 * size), (6 * size, 12 * size), (6 * size,), dtype=dtype)
    agrees(product, product64, x, w / w.shape[1] ** 0.5, bias, name, size, seed=2)


def test_task_2_parts_bias_alone():
    """The product is zero, so the result is the bias."""
    _, w, bias = drawn(3, (1,), (7, 12), (7,))
    for name in ROW:
        agrees(product, product64, mx.zeros((2, 12)), w, bias, name, 3, seed=3)


@pytest.mark.parametrize("leading", [(), (1,), (4,), (2, 1, 3)], ids=str)
def test_task_2_parts_any_leading_dimensions(leading):
    x, w = drawn(4, (*leading, 8), (5, 8))
    agrees(product, product64, x, w, None, "mlp.down_proj", 2, seed=4)


def layer_on_ranks(x, model, size, calls=1):
    """Return the residual stream after the first layer, computed by all ranks, the tokens in one call or more."""
    case = f"{dtype_word(x.dtype)}, one layer, x {x.shape}, {calls} calls, {words(model.config, size)}"
    whole = ModelConfig.from_dict(model.config)

    def program(group):
        config = own_config(whole, group.rank, size)
        weights = parts(model.layer(0), model.config, group.rank, size)
        made = parallel.ParallelParts(group, DENSE)
        attention = Qwen3CachedAttention(config, weights, made)
        layer, cache = DecoderLayer(config, weights, attention, SwiGLU(weights, made)), KVCache()
        return mx.concatenate([layer(each, cache) for each in mx.split(x, calls, 1)], axis=1)

    results, groups = on_ranks(program, size, case)
    called(groups, ["all_sum"] * 2 * calls, case)
    return same_on_all(results, case)


def layer64(x, model, size, calls=1, *, r=exact):
    return block64(x, model, "causal", r=r)


@by_dtype
@pytest.mark.parametrize(("config", "size"), DIVISIBLE, ids=lambda v: v if isinstance(v, int) else "")
def test_task_2_parts_layer(config, size, dtype):
    """Attention and MLP: two all_sums, whatever the numbers of heads."""
    model = random_model(config, 5, dtype, num_hidden_layers=1)
    (x,) = drawn(50, (2, 4, config["hidden_size"]), dtype=dtype)
    agrees(layer_on_ranks, layer64, x, model, size, seed=5)


def test_task_2_parts_layer_step_by_step():
    model = random_model(WIDE, 6, num_hidden_layers=1)
    (x,) = drawn(60, (2, 4, WIDE["hidden_size"]))
    agrees(layer_on_ranks, layer64, x, model, 2, 4, seed=6)


@pytest.mark.parametrize("kept", ["self_attn.o_proj.weight", "mlp.down_proj.weight"])
def test_task_2_parts_layer_half(kept):
    """Only attention, or only the MLP, adds anything to the residual stream."""
    model = random_model(WIDE, 7, num_hidden_layers=1)
    ends = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
    (gone,) = (f"model.layers.0.{name}" for name in ends if name != kept)
    model = model.with_weights(**{gone: mx.zeros_like(model.weights[gone])})
    (x,) = drawn(70, (1, 3, WIDE["hidden_size"]))
    agrees(layer_on_ranks, layer64, x, model, 2, seed=7)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", ["mlp.up_proj", *ROW])
def test_task_2_parts_quantized(name, bits):
    """The inner factory is `Quantized`, and the matrix is packed."""
    size, by_rows = 2, name in ROW
    x, w = drawn(8, (3, 128), (6, 128))
    packed = mx.quantize(w, 64, bits)
    case = f"{name} in {bits} bits, groups of 64, {size} ranks, x 3 x 128, w 6 x 128, seed 8"

    def program(group):
        def own(v, axis):
            return split(v, group.rank, group.size, axis)

        kinds = ("weight", "scales", "biases")
        weights = {f"{name}.{kind}": own(v, 1 if by_rows else 0) for kind, v in zip(kinds, packed, strict=True)}
        project = parallel.ParallelParts(group, Quantized(64, bits)).projection(weights, name)
        return project(own(x, -1) if by_rows else x)

    results, groups = on_ranks(program, size, case)
    called(groups, ["all_sum"] * by_rows, case)
    actual = same_on_all(results, case) if by_rows else mx.concatenate(results, axis=-1)
    expected = linear64(to_float64(x), to_float64(mx.dequantize(*packed, 64, bits)))
    compare(actual, expected, mx.float32, 1e-4, case, expected.size)


def test_task_2_parts_building_does_not_communicate():
    """Only a product that runs communicates."""
    case = "all projections of a model are built, and none is called"
    model = random_model(WIDE, 9)

    def program(group):
        weights = parts(model.layer(0), WIDE, group.rank, 2)
        made = parallel.ParallelParts(group, DENSE)
        return [made.projection(weights, name) for name in (*COLUMN[:-1], *ROW)] and 0

    _, groups = on_ranks(program, 2, case)
    called(groups, [], case)


@pytest.mark.parametrize("missing", ["weight", "bias"])
@pytest.mark.parametrize("name", ["mlp.up_proj", *ROW])
def test_task_2_parts_missing_weight(name, missing):
    """It is missed when the model is built, not when it runs."""
    weights = {
        f"{name}.{kind}": x for kind, x in (("weight", mx.ones((2, 2))), ("bias", mx.ones(2))) if kind != missing
    }

    def program(group):
        parallel.ParallelParts(group, DENSE).projection(weights, name, bias=True)

    with raises_error(KeyError, f"projection({name!r}, bias=True), without {name}.{missing}", f"{name}.{missing}"):
        on_ranks(program, 2, "")


def test_task_2_parts_is_built_once():
    """The inner factory builds each matrix once, however often the layer is called."""
    case = "down_proj is called three times"
    built = []

    class Counting(type(DENSE)):
        def projection(self, weights, name, bias=False):
            built.append(name)
            return super().projection(weights, name, bias)

    (x, w) = drawn(10, (3, 4), (5, 4))

    def program(group):
        weights = {"mlp.down_proj.weight": split(w, group.rank, 2, 1)}
        with noted(case):
            project = parallel.ParallelParts(group, Counting()).projection(weights, "mlp.down_proj")
        own = split(x, group.rank, 2, -1)
        return [project(own), project(own), project(own)][-1]

    results, _ = on_ranks(program, 2, case)
    compare(results[0], linear64(to_float64(x), to_float64(w)), mx.float32, 1e-5, case, 15)
    fail_if_different("the inner factory's calls on 2 ranks", ["mlp.down_proj"] * 2, built, case)


def test_task_2_parts_sweep():
    for n in sweep(T=9, I=1030, O=130):
        size = n.turn(1, 2, 3, 4)
        name = n.turn(*ROW, "self_attn.q_proj", "mlp.gate_proj", "self_attn.o_proj")
        x, w, bias = drawn(n.seed, (n.T, n.I * size), (n.O * size, n.I * size), (n.O * size,), dtype=n.dtype)
        w = w / np.sqrt(w.shape[1])
        agrees(product, product64, x * n.spread, w.astype(n.dtype), n.turn(None, bias), name, size, seed=n)


@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
def test_task_2_parts_packed_layer(base):
    """A layer of packed matrices on two ranks equals the same layer on one."""
    sizes = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16}
    model = packed_model({**base, **sizes, "intermediate_size": 192, "num_hidden_layers": 1}, 11, 4, 32)
    (x,) = drawn(110, (1, 5, 64))
    whole = ModelConfig.from_dict(model.config)
    found = []
    for size in (1, 2):
        case = f"4 bits, groups of 32, one layer, {words(model.config, size)}"

        def program(group, size=size):
            config = own_config(whole, group.rank, size)
            weights = parts(model.layer(0), model.config, group.rank, size)
            made = parallel.ParallelParts(group, Quantized(32, 4))
            layer = DecoderLayer(config, weights, Qwen3CachedAttention(config, weights, made), SwiGLU(weights, made))
            return layer(x, KVCache())

        results, _ = on_ranks(program, size, case)
        found.append(same_on_all(results, case))
    compare(found[1], to_float64(found[0]), mx.float32, 1e-3, case, x.size)
