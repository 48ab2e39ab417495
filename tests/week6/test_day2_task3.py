"""Task 6.2.3, the vocabulary-parallel embedding, and the whole model, against one process and float64."""

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.formulas import linear64
from tests.week1.reference_model import embedded_model, model64, random_model, random_tokens
from tests.week6.sharded import (
    DIVISIBLE,
    SHARED,
    WIDE,
    Asked,
    Rows,
    called,
    on_ranks,
    packed_model,
    parts,
    same_on_all,
    words,
)

from tiny_llm.config import ModelConfig
from tiny_llm.embedding import Embedding
from tiny_llm.quantized.layers import QuantizedEmbedding
from tiny_llm.tensor_parallel import model as parallel
from tiny_llm.tensor_parallel import vocabulary
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import dtype_word
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.inputs import drawn, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

by_size = pytest.mark.parametrize("size", [1, 2, 3, 4])


def ranges(count, size):
    return [range(count * rank // size, count * (rank + 1) // size) for rank in range(size)]


def check_lookup(table, tokens, size, made=None, expected=None):
    """Compare every rank's vectors with the rows of the whole table, bit for bit."""
    count = len(table)
    case = f"{dtype_word(table.dtype)}, table {table.shape}, {size} ranks"
    case += f", tokens {tokens.shape} {dtype_word(tokens.dtype)}"
    case += f" {tokens.tolist()}" if tokens.size <= 8 else ""

    def program(group):
        own = ranges(count, size)[group.rank]
        inner = made(own) if made else Rows(table[own.start : own.stop])
        return vocabulary.VocabularyEmbedding(inner, own, group)(tokens)

    results, groups = on_ranks(program, size, case)
    called(groups, ["all_sum"], case)
    actual = same_on_all(results, case)
    expected = table[tokens] if expected is None else expected
    if actual.shape != expected.shape:
        fail(Kind.SHAPE, "wrong shape", case, f"expected  {expected.shape}", f"got       {actual.shape}")
    if actual.dtype != expected.dtype:
        fail(Kind.DTYPE, "wrong dtype", case, f"expected  {expected.dtype}", f"got       {actual.dtype}")
    if not mx.array_equal(actual, expected, equal_nan=True).item():
        differ = mx.any(actual != expected, axis=-1).reshape(-1)
        first = int(mx.argmax(differ).item())
        lines = (f"{name}  {vector(x, first)}" for name, x in (("expected", expected), ("got     ", actual)))
        token, wrong = tokens.reshape(-1)[first].item(), int(differ.sum().item())
        others = f", and {wrong - 1} of {tokens.size - 1} others" if wrong > 1 else ""
        fail(Kind.VALUES, f"token {token} has a wrong vector{others}", case, *lines)


def vector(x, token):
    """Return the first numbers of a token's vector, in words."""
    numbers = x.reshape(-1, x.shape[-1])[token].astype(mx.float32).tolist()
    return ", ".join(f"{number:.4g}" for number in numbers[:6]) + ", ..." * (len(numbers) > 6)


@by_dtype
@by_size
def test_task_3_vocabulary_lookup(size, dtype):
    (table,) = drawn(1, (13, 6), dtype=dtype)
    check_lookup(table, random_tokens(1, 2, 5, vocab_size=13), size)


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint32], ids=str)
def test_task_3_vocabulary_asks_a_table_for_its_own_rows(dtype):
    """MLX does not check indices: a row that a table does not have is read from other memory."""
    (table,) = drawn(13, (13, 6))
    case = f"table (13, 6), 3 ranks, all tokens, {dtype_word(dtype)}"

    def program(group):
        own = ranges(13, 3)[group.rank]
        rows = Asked(table[own.start : own.stop])
        mx.eval(vocabulary.VocabularyEmbedding(rows, own, group)(mx.arange(13).astype(dtype)))
        return [each for each in rows.ids if not 0 <= each < len(own)]

    for rank, wrong in enumerate(on_ranks(program, 3, case)[0]):
        if wrong:
            fail(Kind.VALUES, f"rank {rank}'s table gets ids of rows that it does not have", case,
                 f"got       {wrong[:6]}, of {len(ranges(13, 3)[rank])} rows")  # fmt: skip


@by_size
def test_task_3_vocabulary_every_token(size):
    """First and last rows of each rank, in any order."""
    (table,) = drawn(2, (11, 4))
    check_lookup(table, mx.array([10, 0, 5, 6, 3, 2, 7, 8, 4, 1, 9]), size)


@pytest.mark.parametrize("token", [0, 6, 7, 12])
def test_task_3_vocabulary_one_token(token):
    """The other rank has no token of the call."""
    (table,) = drawn(3, (13, 6))
    check_lookup(table, mx.array([[token]]), 2)


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64, mx.uint32, mx.uint16], ids=str)
def test_task_3_vocabulary_integer_dtypes(dtype):
    (table,) = drawn(4, (13, 6))
    check_lookup(table, mx.array([3, 12, 0, 7]).astype(dtype), 3)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (2, 1, 3), (0,)], ids=str)
def test_task_3_vocabulary_any_shape(shape):
    (table,) = drawn(5, (13, 6))
    check_lookup(table, random_tokens(5, *shape, vocab_size=13), 2)


@pytest.mark.parametrize("bad", [mx.inf, -mx.inf, mx.nan])
def test_task_3_vocabulary_rows_of_other_tokens_do_not_matter(bad):
    """The first and last row of each rank are not finite, and no token uses them."""
    (table,) = drawn(6, (12, 6))
    spoiled = mx.where(mx.array([i in (0, 5, 6, 11) for i in range(12)])[:, None], bad, table)
    check_lookup(spoiled, mx.array([1, 8, 4, 10]), 2)


@pytest.mark.parametrize("bits", [4, 8])
def test_task_3_vocabulary_quantized(bits):
    """The rank's table is a `QuantizedEmbedding`."""
    (table,) = drawn(7, (9, 64))
    packed = mx.quantize(table, 32, bits)
    whole = mx.dequantize(*packed, 32, bits)
    tokens = random_tokens(7, 6, vocab_size=9)

    def made(own):
        return QuantizedEmbedding(*(x[own.start : own.stop] for x in packed), 32, bits)

    wanted = QuantizedEmbedding(*packed, 32, bits)(tokens)
    check_lookup(whole, tokens, 2, made, wanted)


def logits_on_ranks(x, w, size):
    """Return the logits of all ranks, concatenated."""
    case = f"{dtype_word(x.dtype)}, as_linear, x {x.shape}, table {w.shape}, {size} ranks"

    def program(group):
        own = ranges(len(w), size)[group.rank]
        rows = w[own.start : own.stop]
        return vocabulary.VocabularyEmbedding(Embedding(len(own), w.shape[1], rows), own, group).as_linear(x)

    results, groups = on_ranks(program, size, case)
    called(groups, [], case)
    return mx.concatenate(results, axis=-1)


def logits64(x, w, size, *, r=exact):
    return linear64(x, w, r=r)


@by_dtype
@by_size
def test_task_3_vocabulary_logits(size, dtype):
    x, w = drawn(8, (2, 3, 6), (13, 6), dtype=dtype)
    agrees(logits_on_ranks, logits64, x, w, size, seed=8)


def test_task_3_vocabulary_sweep():
    for n in sweep(T=9, V=4200, E=130):
        size = n.turn(1, 2, 3, 4)
        (table,) = drawn(n.seed, (n.V + size, n.E), dtype=n.dtype)
        check_lookup(table * n.spread, mx.array(token_ids(n.seed, n.V + size, n.T)), size)
        x, w = drawn(n.seed, (n.T, n.E), (n.V + size, n.E), dtype=n.dtype)
        agrees(logits_on_ranks, logits64, x * n.spread, w / n.E**0.5, size, seed=n)


def model_on_ranks(tokens, model, size, calls=1):
    """Return the whole model's logits at all positions, the ranks' parts concatenated."""
    case = f"the model, tokens {tokens.shape}, {calls} calls, {words(model.config, size)}"
    config = ModelConfig.from_dict(model.config)

    def program(group):
        whole = parallel.TensorParallelModel(config, parts(model.weights, model.config, group.rank, size), group)
        caches = whole.new_caches()
        return mx.concatenate([whole(each, caches, all_positions=True) for each in mx.split(tokens, calls, 1)], axis=1)

    results, groups = on_ranks(program, size, case)
    called(groups, ["all_sum"] * (2 * config.num_hidden_layers + 1) * calls, case)
    return mx.concatenate(results, axis=-1)


def whole64(tokens, model, size, calls=1, *, r=exact):
    return model64(tokens, model, r=r)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize(("config", "size"), DIVISIBLE, ids=lambda v: v if isinstance(v, int) else "")
def test_task_3_vocabulary_model(config, size, tied):
    model = random_model(config, 9, tie_word_embeddings=tied)
    tokens = random_tokens(9, 2, 5, vocab_size=config["vocab_size"])
    agrees(model_on_ranks, whole64, tokens, model, size, seed=9, dtype=mx.float32)


def test_task_3_vocabulary_model_step_by_step():
    """One token at a time, with caches: 2 all_sums per layer and 1 for the embedding, each time."""
    model, tokens = random_model(SHARED, 10), random_tokens(10, 1, 6, vocab_size=SHARED["vocab_size"])
    agrees(model_on_ranks, whole64, tokens, model, 4, 6, seed=10, dtype=mx.float32)


@pytest.mark.parametrize("size", [2, 6])
def test_task_3_vocabulary_embedded_model(size):
    model = embedded_model()
    tokens = random_tokens(11, 1, 3, vocab_size=model.config["vocab_size"])
    agrees(model_on_ranks, whole64, tokens, model, size, seed=11, dtype=mx.float32)


def test_task_3_vocabulary_packed_model():
    """Packed in 4 bits, two ranks have the logits of one."""
    sizes = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16}
    model = packed_model({**WIDE, **sizes, "intermediate_size": 128}, 12, 4, 32)
    tokens = random_tokens(12, 1, 4, vocab_size=WIDE["vocab_size"])
    one, two = (to_float64(model_on_ranks(tokens, model, size)) for size in (1, 2))
    if np.abs(one - two).max() > 1e-3 * np.abs(one).max():
        fail(Kind.VALUES, "the logits differ from one rank's", f"4 bits, groups of 32, {words(model.config, 2)}")
