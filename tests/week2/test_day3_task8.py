"""Week 2, day 3, task 8: perplexity."""

import math

import mlx.core as mx
import numpy as np
import pytest
from tests.week2.packed import ContextModel, TableModel, perplexity64, table

from tiny_llm.quantized import perplexity
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.rounding import EPSILON, FACTOR, to_float64
from tiny_llm_course.testkit.sizes import sweep


def judges(logits, texts, seed, model=TableModel):
    lengths = ", ".join(str(len(text)) for text in texts)
    case = f"{dtype_word(logits.dtype)}, V {len(logits)}, texts of {lengths} tokens, seed {seed}"
    kept = [list(text) for text in texts]
    with noted(case):
        found = perplexity.perplexity(model(logits, case), texts)
    if type(found) is not float:
        raise CheckFailed(Finding(Kind.TYPE, f"returned {type_words(found)}, expected a float", (), case))
    if texts != kept:
        raise CheckFailed(Finding(Kind.INPUT_CHANGED, "the caller's `texts` were changed", (), case))
    expected = perplexity64(to_float64(logits), texts, model is ContextModel)
    compare(
        mx.array(found), expected, mx.float32, FACTOR * EPSILON[mx.float32] * 8 * expected, case, sum(map(len, texts))
    )


@by_dtype
@pytest.mark.parametrize("lengths", [(5,), (2,), (4, 2), (9, 1, 3), (1, 2, 1)], ids=str)
def test_task_8_perplexity_formula(lengths, dtype):
    draw = np.random.default_rng(1)
    judges(table(1, dtype=dtype, spread=2.0), [draw.integers(0, 7, n).tolist() for n in lengths], 1)


def test_task_8_perplexity_long_and_short():
    """A text of 30 tokens and one of two: each token has the same weight."""
    draw = np.random.default_rng(2)
    judges(table(2, spread=3.0), [draw.integers(0, 7, n).tolist() for n in (30, 2)], 2)


@pytest.mark.parametrize("shift", [0, 500, -500])
def test_task_8_perplexity_large_logits(shift):
    """exp of these logits overflows or underflows in float32."""
    judges(table(3, spread=20.0) + shift, [[1, 2, 3, 4, 5, 6, 0]], 3)


def test_task_8_perplexity_unlikely():
    """One token has a loss of 120: its probability is not zero, but float32 cannot represent it."""
    judges(mx.array([[120.0, 0.0], [0.0, 0.0]]), [[0, 1, 1, 1]], 0)


@pytest.mark.parametrize("loss", [80, 95, 300, 650])
def test_task_8_perplexity_past_the_largest_float32(loss):
    """exp of a mean loss above 88 overflows in float32, but not in a Python float."""
    with noted(case := f"one token with a loss of {loss}"):
        found = perplexity.perplexity(TableModel(mx.array([[float(loss), 0.0], [0.0, 0.0]])), [[0, 1]])
    if not math.isclose(found, math.exp(loss), rel_tol=1e-3):
        lines = (f"expected  {math.exp(loss):.6g}", f"got       {found:.6g}")
        raise CheckFailed(Finding(Kind.VALUES, "the perplexity is wrong", lines, case))


def test_task_8_perplexity_equal_logits():
    judges(mx.zeros((7, 7)), [[1, 2, 3], [4, 4]], 0)


def test_task_8_perplexity_impossible():
    """A token of probability 0 gives inf without an error."""
    with noted(case := "a logit of 5000 for the wrong token, and one of -inf for the right one"):
        for wrong in (mx.array([[5000.0, 0.0], [5000.0, 0.0]]), mx.array([[0.0, -mx.inf], [0.0, -mx.inf]])):
            found = perplexity.perplexity(TableModel(wrong), [[0, 1, 1]])
            compare(mx.array(found), np.array(np.inf), mx.float32, 0.0, case, 3)


def test_task_8_perplexity_reads_each_text_once():
    """Each text is processed once, without its last token; texts with nothing to predict are skipped."""
    reader = TableModel(table(4), case := "texts [1, 2, 3, 4, 5, 6], [4], [5, 6]")
    with noted(case):
        perplexity.perplexity(reader, [[1, 2, 3, 4, 5, 6], [4], [5, 6]])
    read = sum(map(len, reader.seen))
    if read > 8:  # the last token of each text may be included
        lines = ("at most   8", f"got       {read}, in calls of {', '.join(map(str, reader.seen))}")
        raise CheckFailed(Finding(Kind.VALUES, "the model was called on more tokens than needed", lines, case))


@pytest.mark.parametrize("lengths", [(6,), (4, 5), (3, 1, 6, 4)], ids=str)
def test_task_8_perplexity_predicts_from_one_text(lengths):
    """The logits depend on all tokens that the model gets up to a position: those of one text."""
    draw = np.random.default_rng(6)
    judges(table(6, spread=2.0), [draw.integers(1, 7, n).tolist() for n in lengths], 6, ContextModel)


def test_task_8_perplexity_sweep():
    for n in sweep(T=9, V=130, L=300):
        draw = np.random.default_rng(n.seed)
        texts = [draw.integers(0, n.V, n.L + 1).tolist() for _ in range(n.T)]
        judges(table(n.seed, n.V, n.dtype, min(n.spread, 30.0)), texts, n.seed)


@pytest.mark.parametrize("texts", [[], [[3]], [[], [1]]], ids=str)
def test_task_8_perplexity_refuses_texts_with_nothing_to_predict(texts):
    with raises_value_error(f"texts {texts}"):
        perplexity.perplexity(TableModel(table(5)), texts)
