"""The comparison that every grade rests on: what it accepts, what it refuses, and in which order."""

import re

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.reference_model import QWEN3, random_model

from tiny_llm_course.course.findings import CheckFailed, Finding, Kind
from tiny_llm_course.testkit import relations
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import CASE_NOTE, describe, noted
from tiny_llm_course.testkit.errors import raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import causal, normals
from tiny_llm_course.testkit.memo import key_of
from tiny_llm_course.testkit.rounding import EPSILON, LARGEST, close, exact, rounding, to_float64, tolerance
from tiny_llm_course.testkit.texts import same_ids, same_pieces, same_text


def double64(x, *, r=exact):
    return r(2 * x)


def kind_of(actual, expected, dtype=mx.float32, allowed=1e-6):
    with pytest.raises(CheckFailed) as caught:
        compare(actual, np.array(expected, dtype=np.float64), dtype, allowed, "the case", 2)
    return caught.value.finding.kind


def test_a_proof_tells_functions_apart_by_their_variables():
    def adding(summand, own=0):
        return lambda x, other=own: x + summand + other

    assert key_of(adding(1)) == key_of(adding(1))
    assert len({key_of(f) for f in (adding(1), adding(2), adding(1, 2), adding(np.ones(1)), adding(np.ones(2)))}) == 5
    with pytest.raises(TypeError):
        key_of(adding(object()))


def test_what_agrees_passes():
    agrees(lambda x: x + x, double64, normals(1)(3, 4), seed=1)
    agrees(lambda x: 2 * x, double64, normals(1, mx.bfloat16)(3, 4), seed=1)


@pytest.mark.parametrize(
    ("actual", "expected", "kind"),
    [
        (None, [1.0], Kind.TYPE),
        (np.ones(1), [1.0], Kind.TYPE),
        ([1.0], [1.0], Kind.TYPE),
        (mx.ones((1, 2)), [1.0, 1.0], Kind.SHAPE),
        (mx.ones(2), [[1.0, 1.0]], Kind.SHAPE),
        (mx.ones(2, dtype=mx.float16), [1.0, 1.0], Kind.DTYPE),
        (mx.ones(2, dtype=mx.int32), [1.0, 1.0], Kind.DTYPE),
        (mx.array([1.0, float("nan")]), [1.0, 1.0], Kind.NAN),
        (mx.array([1.0, float("inf")]), [1.0, 1.0], Kind.NAN),
        (mx.array([1.0, float("nan")]), [1.0, -np.inf], Kind.NAN),
        (mx.array([1.0, float("inf")]), [1.0, -np.inf], Kind.NAN),
        (mx.array([1.0, 2.0]), [1.0, -np.inf], Kind.VALUES),
        (mx.array([1.0, 1.00001]), [1.0, 1.0], Kind.VALUES),
        (mx.array(1.1), 1.0, Kind.VALUES),
    ],
)
def test_what_is_wrong_is_refused_by_its_kind(actual, expected, kind):
    assert kind_of(actual, expected) == kind


def test_shape_comes_before_dtype_and_dtype_before_values():
    assert kind_of(mx.zeros((1, 2), dtype=mx.float16), [1.0, 1.0]) == Kind.SHAPE
    assert kind_of(mx.zeros(2, dtype=mx.float16), [1.0, 1.0]) == Kind.DTYPE


def test_equal_infinities_agree():
    compare(mx.array([1.0, -float("inf")]), np.array([1.0, -np.inf]), mx.float32, 0.0, "", 0)


def test_a_finding_counts_and_places_what_differs():
    with pytest.raises(CheckFailed) as caught:
        compare(mx.array([[1.0, 2.5], [3.0, 5.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), mx.float32, 0.1, "c", 4)
    finding = caught.value.finding
    assert finding.headline == "values differ in 2 of 4 elements, largest error at [1, 1]"
    assert finding.lines == ("expected  4", "got       5")


def test_a_changed_input_is_found():
    def changes(x):
        y = 2 * x
        x += 1
        return y

    with pytest.raises(CheckFailed, match="the caller's `x` was changed"):
        agrees(changes, double64, normals(1)(3), seed=1)


def test_an_exception_carries_the_case():
    with pytest.raises(ZeroDivisionError) as caught:
        agrees(lambda x: 1 / 0, double64, normals(1)(3), seed=1)
    assert caught.value.__notes__ == [f"{CASE_NOTE}float32, x 3, seed 1"]


def test_a_case_is_named_in_words():
    arguments = {"x": mx.zeros((2, 3), dtype=mx.float16), "axis": -1, "mask": None, "scale": 0.5, "y": mx.array(1.0)}
    words = "float16, x 2 x 3, axis -1, no mask, scale 0.5, y a single number in float32, seed 7"
    assert describe(arguments, 7, mx.float16) == (words, 7)


def test_a_case_cuts_a_long_list_and_nothing_else():
    """The chapter of day 5 sends its reader to the theta in the model's name."""
    words, _ = describe({"prompt": list(range(100)), "model": random_model(QWEN3, 1)}, 7, mx.float32)
    assert re.search(
        r"prompt \[0, 1, 2, [\d, ]+ \.\.\., model Qwen3 \(2 layers, theta 1000000, untied, .*\), seed 7$", words
    )


@pytest.mark.parametrize("dtype", EPSILON, ids=str)
def test_the_tolerance_follows_the_dtype(dtype):
    """One wrong step at the dtype's own precision passes; four hundredths of the value never does."""
    x = to_float64(normals(1, dtype)(50))
    allowed = tolerance(double64(x), double64(x, r=rounding(dtype)), dtype)
    largest = np.abs(2 * x).max()
    assert EPSILON[dtype] * largest <= allowed <= 0.04 * largest


def test_rounding_is_that_of_the_dtype():
    x = np.array([1 + 2**-9])
    assert rounding(mx.float32)(x) == x
    assert rounding(mx.float16)(x) == x
    assert rounding(mx.bfloat16)(x) == 1.0


def test_normals_are_seeded_and_signed():
    x, y = normals(3)(100), normals(3)(100)
    assert mx.array_equal(x, y)
    assert x.min() < 0 < x.max()
    assert not mx.array_equal(x, normals(4)(100))


def test_causal_is_aligned_to_the_last_key():
    assert np.isfinite(to_float64(causal(2, 4, mx.float32))).tolist() == [[True] * 3 + [False], [True] * 4]


@pytest.mark.parametrize(
    ("action", "headline"),
    [
        (lambda: None, "no error was raised, expected a ValueError"),
        (lambda: [][1], "raised IndexError, expected a ValueError"),
        (lambda: int("x"), "the ValueError's message does not mention wq"),
    ],
)
def test_an_expected_error_is_checked(action, headline):
    with pytest.raises(CheckFailed) as caught, raises_value_error("the case", "wq"):
        action()
    assert caught.value.finding.headline == headline


def test_an_expected_error_passes():
    with raises_value_error("the case", "literal"):
        int("x")


@pytest.mark.parametrize("message", ["got (6, 5)", "got 6 x 5", "6x5 is wrong", "shape [6, 5]"])
def test_a_shape_may_be_written_in_any_way(message):
    with raises_value_error("the case", "(6, 5)"):
        raise ValueError(message)


@pytest.mark.parametrize(
    "message", ["5 x 6", "16 x 5", "6 x 50", "6 rows, and 5 columns", "6", "Shapes (2,3) and (6,5)"]
)
def test_other_numbers_are_not_the_shape(message):
    with pytest.raises(CheckFailed, match="does not mention"), raises_value_error("the case", "(6, 5)"):
        raise ValueError(message)


def test_another_kind_of_error_can_be_expected():
    with raises_error(KeyError, "the case"):
        {"y": 1}["x"]
    with pytest.raises(CheckFailed, match="no error was raised, expected a KeyError"), raises_error(KeyError, "case"):
        pass


def test_a_case_can_be_noted():
    with pytest.raises(ZeroDivisionError) as caught, noted("the case"):
        _ = 1 / 0
    assert caught.value.__notes__ == [f"{CASE_NOTE}the case"]


def test_equal_texts_and_lists_pass():
    same_text("", "", "")
    same_text("dog", "dog", "")
    same_ids([], [], "")
    same_ids([3, 4], [3, 4], "")
    same_pieces(["d", "og"], ["d", "og"], "")


@pytest.mark.parametrize(
    ("check", "actual", "expected", "kind", "headline", "lines"),
    [
        (same_text, None, "dog", Kind.TYPE, "got None, expected a str", ()),
        (same_text, b"dog", "dog", Kind.TYPE, "got a bytes, expected a str", ()),
        (
            same_text, "dig", "dog", Kind.VALUES, "wrong text, first different at index 1",
            ("expected  'dog'", "got       'dig'"),
        ),
        (
            same_text, "a blue dog\ufffd", "a blue dog", Kind.VALUES,
            "wrong text: length 11 instead of 10, first different at index 10",
            ("expected  'blue dog'", "got       'blue dog\\ufffd'", "both from character 2 on",
             "compared  equals the expected one, with one character more at the end: '\\ufffd'"),
        ),
        (same_ids, (3, 4), [3, 4], Kind.TYPE, "got a tuple, expected a list", ()),
        (same_ids, [3, "4"], [3, 4], Kind.TYPE, "item 1 of the list is a str, expected int", ()),
        (same_ids, [True], [1], Kind.TYPE, "item 0 of the list is a bool, expected int", ()),
        (same_ids, [mx.array(3)], [3], Kind.TYPE, "item 0 of the list is a mlx.core.array, expected int", ()),
        (
            same_ids, [1, 2, 3, 4, 5], [1, 2, 3, 4, 9, 6, 7, 8, 9, 10], Kind.VALUES,
            "wrong ids: length 5 instead of 10, first different at index 4",
            ("expected  [..., 2, 3, 4, 9, 6, 7, 8, 9, ...]", "got       [..., 2, 3, 4, 5]"),
        ),
        (
            same_pieces, ["d", "og"], ["dog"], Kind.VALUES,
            "wrong pieces: length 2 instead of 1, first different at index 0",
            ("expected  ['dog']", "got       ['d', 'og']"),
        ),
    ],
)  # fmt: skip
def test_a_wrong_text_or_list_is_described(check, actual, expected, kind, headline, lines):
    with pytest.raises(CheckFailed) as caught:
        check(actual, expected, "the case")
    finding = caught.value.finding
    assert (finding.kind, finding.headline, finding.lines) == (kind, headline, lines)
    assert (finding.case, finding.size) == ("the case", len(expected))


def test_findings_survive_the_pipe():
    finding = Finding(Kind.SHAPE, "wrong shape", ("a", "b"), "case", 3, ("f.py:1",), "", True)
    assert Finding.from_json(finding.to_json()) == finding


def test_findings_are_ranked_by_kind_then_oracle_then_size():
    shape, big, small, own = (
        Finding(Kind.SHAPE, "", size=9),
        Finding(Kind.VALUES, "", size=8),
        Finding(Kind.VALUES, "", size=2),
        Finding(Kind.VALUES, "", size=1, indirect=True),
    )
    assert sorted([own, big, small, shape], key=Finding.rank) == [shape, small, big, own]


def test_large_arrays_are_compared_without_copies_in_float64():
    """A result of 2 GB, broadcast by mistake, ended the process that looked for the mistake."""
    large = mx.broadcast_to(mx.array([[1.0, mx.nan]]), (LARGEST, 2))
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    assert close(large, mx.broadcast_to(mx.array([[1.0, mx.nan]]), (LARGEST, 2)), 0.0)
    assert not close(large, large + 1e-7, 0.01), "equal or nothing"
    assert mx.get_peak_memory() - before < 16 * LARGEST


X, ENDLESS = np.random.default_rng(0).normal(size=(2, 4, 4)), -np.inf
HIDDEN = np.where(np.tri(4), X[0], ENDLESS)


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        (X[0].T, X[0], "equals the expected array with axes 0 and 1 swapped"),
        (X.transpose(1, 2, 0), X, "equals the expected array with its axes in the order 1, 2, 0"),
        (X[:, None], X, "holds the expected numbers: only axes of size 1 differ"),
        (X.reshape(2, 16), X, "holds the expected numbers in their order, with other axes"),
        (X[:, :, 1:], X, "along axis 2, it equals the expected one, with one entry missing at the beginning"),
        (np.concatenate([X, X]), X, "along axis 0, it equals the expected one, with 2 entries more at the end"),
        (X[0, ::-1], X[0], "equals the expected array in reverse order along axis 0"),
        (np.roll(X[0], 1, 0), X[0], "along axis 0, the expected numbers are 1 place too late"),
        (np.roll(X[0], -1, 1), X[0], "along axis 1, the expected numbers are 1 place too early"),
        (X[0][[2, 0, 3, 1]], X[0], "holds the expected numbers in another order"),
        (X / 2, X, "each number is the expected one times 0.5"),
        (-X, X, "each number is the expected one with the opposite sign"),
        (HIDDEN + 2, HIDDEN, "each number is the expected one plus 2"),
        (X[0] * [2, 3, 4, 5], X[0], "each slice along axis 1 is the expected one times a factor, such as 2"),
        (X[0] + [[2], [3], [4], [5]], X[0], "each slice along axis 0 is the expected one plus a number, such as 2"),
        (X.astype(np.float16).astype(float), X, "each number is one that float16 can hold, unlike the expected ones"),
        (np.where(np.arange(4) == 1, 0, X), X, "wrong only at index 1 of axis 2, which has size 4"),
        (np.where(np.arange(4) > 1, 0, X), X, "wrong only at indices 2 to 3 of axis 2, which has size 4"),
        (X * 0, X, ""),
        (np.array([-2.01e-3, 1, 2, 3]), np.array([-2e-3, 1, 2, 3]), ""),  # close to the expected order, and in no other
        (X**2, X, ""),
        (X + 1e-5 * np.sin(X), X, ""),  # nearly the expected order, which is no other order
        (np.full((2, 2), 3.0), np.ones((2, 2)), ""),  # three times the expected ones, and two more than them
        ([5, 3, 9, 1], [1, 9, 3, 5], "equals the expected one in reverse order"),
        ([5, 9, 3, 1], [1, 9, 3, 5], "equals the expected one in another order"),
        ([1, 3, 5, 7], [1, 9, 3, 5, 7], "equals the expected one, with one entry missing at index 1: [9]"),
        ([2, 10, 4, 6], [1, 9, 3, 5], "each number is the expected one plus 1"),
        ([2, 9, 4, 6], [1, 9, 3, 5], ""),
        ("one,two", "one, two", "equals the expected one, with one character missing at index 4: ' '"),
        ([1, 1, 1], [1, 1], ""),  # many a program returns that
    ],
)  # fmt: skip
def test_a_wrong_result_is_compared_with_the_expected_one(actual, expected, said):
    if isinstance(expected, np.ndarray):
        assert relations.of_arrays(actual, expected, 1e-4, mx.float32) == said
    else:
        assert relations.of_lists(actual, expected) == said
