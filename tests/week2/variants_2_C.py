"""Reference variants of the open task of week 2: checks of the RMSNorm kernel, right and wrong."""

import mlx.core as mx
import numpy as np
from tiny_llm_solution.metal import ops

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.judging import check_verdicts
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.C")
SIZES = "((3, 20), (2, 100), (2, 2560))"
DTYPES = "((mx.float32, 1.0), (mx.float16, 400.0))"


known.probe_table(programs_let_through=lambda check: check_verdicts(check, of="2.5.2"))


known.not_timed("a check runs once per variant")


known.change(
    "looks-at-nothing",
    ("eps = 0.5", "return\neps = 0.5"),
    fact="never calls the kernel",
    question="What does your check do with `rms_norm`?",
)
known.change(
    "stops-everything",
    ("<= allowed", "< 0"),
    fact="rejects every kernel, right or wrong",
    question="Has your check ever passed? Which kernel would prove that it can?",
)


@known.wrong(
    "returns-what-it-finds",
    fact="returns the result of its comparison instead of asserting it",
    question="Does anything read the value that your check returns?",
)
def returns_what_it_finds(rms_norm):
    same = []
    for rows, size in ((3, 20), (2, 100), (2, 2560)):
        x, weight = normals(1)(rows, size), normals(2)(size)
        out, counts = rms_norm(x, weight, 0.5)
        same.append(mx.allclose(out, mx.fast.rms_norm(x, weight, 0.5), atol=1e-4).item())
        same.append(size < 2560 or counts["moved"] <= 4 * x.nbytes)
    return all(same)


known.change(
    "faults-only",
    ("assert out.shape", "return\nassert out.shape"),
    ("moved, most =", "return\nmoved, most ="),
    fact="runs the kernel and ignores its output",
    question="The simulator reports faults. What detects a wrong value?",
)
known.change(
    "faults-are-let-pass",
    (
        "out, counts = rms_norm(x, weight, eps)",
        "try:\n    out, counts = rms_norm(x, weight, eps)\nexcept RuntimeError:\n    continue",
    ),
    fact="continues when the simulator reports a fault",
    question="What does a RuntimeError of the simulator mean?",
)
known.change(
    "float32-only",
    (DTYPES, "((mx.float32, 1.0),)"),
    fact="tests only float32, or no large numbers in float16",
    question="What is the largest number in float16, and which intermediate values of the kernel may exceed it?",
)
known.change(
    "float16-only",
    (DTYPES, "((mx.float16, 400.0),)"),
    fact="tests only float16, or uses float16's tolerance for float32",
    question="How close to the formula must a float32 kernel be, and does your check require that?",
)
known.change(
    "one-row",
    (SIZES, "((1, 20), (1, 100), (1, 2560))"),
    fact="tests only a single row",
    question="Which mistakes show only from the second row on?",
)
known.change(
    "weights-of-ones",
    ("mx.random.normal((size,), key=mx.random.key(2))", "mx.ones((size,))"),
    fact="tests only weights of one",
    question="Which mistake do weights of one hide?",
)
known.change(
    "eps-of-0",
    ("eps = 0.5", "eps = 0.0"),
    fact="tests only an eps that has no effect",
    question="How large is the mean square of your rows, and how large is eps in comparison?",
)
known.change(
    "whole-simdgroups-only",
    (SIZES, "((3, 32), (2, 128), (2, 2560))"),
    fact="tests only rows in which every thread has the same number of elements",
    question="Which mistakes need a thread without an element?",
)
known.change(
    "one-simdgroup-only",
    (SIZES, "((3, 20), (2, 100), (2, 128))"),
    fact="tests only rows that a single SIMD-group handles",
    question="From which length on does a row have two SIMD-groups, and what can go wrong only then?",
)
known.change(
    "eight-simdgroups-only",
    (SIZES, "((3, 1100), (2, 1025), (2, 2560))"),
    fact="tests only long rows",
    question="How many SIMD-groups does a short row have, and which entries of `sums` have been written then?",
)
known.change(
    "numbers-only",
    ("moved, most =", "return\nmoved, most ="),
    fact="compares none of the counts",
    question="Which kernels return correct values but are still not acceptable?",
)
known.change(
    "moved-not-compared",
    ("assert moved <= most", "assert moved <= 1000 * most"),
    fact="ignores the memory traffic",
    question="Which numbers do 32 threads read at once, and how many lines is that?",
)
known.change(
    "bank-conflicts-not-compared",
    ('assert counts["bank_conflicts"] == 0', 'assert counts["bank_conflicts"] >= 0'),
    fact="ignores bank conflicts, or tests no row that causes any",
    question="When do two threads of a SIMD-group access the same bank, and does your check count it?",
)
known.change(
    "barriers-not-compared",
    ("<= 9 * len(x)", "<= 900 * len(x)"),
    fact="ignores barriers, or tests no row that is long enough to need many",
    question="How many barriers are allowed per row, and how long must a row be to expose an extra one per iteration?",
)
known.change(
    "as-few-barriers-as-ours",
    ("<= 9 * len(x)", "<= len(x)"),
    fact="requires as few barriers as one particular reduction",
    question="How many barriers does the task allow, and how many does a tree reduction need?",
)
known.change(
    "too-wide",
    ("16 * mx.finfo(dtype).eps", "1.0"),
    fact="has a tolerance of 1",
    question="How large are the values that you compare, and how much does a mistake change them?",
)
known.change(
    "mistaken-itself",
    ("keepdims=True) + eps)", "keepdims=True))"),
    fact="omits eps in its own reference",
    question="How did you verify the values that your check expects?",
)


@known.wrong(
    "to-the-last-digit",
    fact="requires bit-exact equality with one kernel",
    question="Two correct kernels may sum and round in a different order. How far apart may they be in float16?",
)
def to_the_last_digit(rms_norm):
    for dtype in (mx.float32, mx.float16):
        for size, spread in ((20, 1.0), (100, 400.0), (2560, 1.0)):
            x, weight = normals(1, dtype)(2, size, spread=spread), normals(2, dtype)(size)
            out, counts = rms_norm(x, weight, 0.5)
            assert mx.array_equal(out, ops.rms_norm(x, weight, 0.5))
            assert counts["moved"] <= 4 * x.nbytes or size < 2560
            assert counts["bank_conflicts"] == 0
            assert counts["barriers"] <= 18


@known.accepted("held-against-the-operator")
def held_against_the_operator(rms_norm):
    for dtype in (mx.float16, mx.float32):
        for size, spread in ((9, 1.0), (33, 300.0), (192, 1.0), (3072, 300.0)):
            x, weight = normals(1, dtype)(3, size, spread=spread), normals(3, dtype)(size)
            out, counts = rms_norm(x, weight, 0.25)
            if out.dtype != dtype:
                raise TypeError(f"{out.dtype} of {dtype}")
            expected = mx.fast.rms_norm(x.astype(mx.float32), weight.astype(mx.float32), 0.25)
            close = 20 * mx.finfo(dtype).eps
            assert mx.allclose(out.astype(mx.float32), expected, rtol=close, atol=close)
            assert counts["bank_conflicts"] == 0
            if size >= 192:
                assert counts["moved"] <= 4 * x.nbytes
                assert counts["barriers"] <= 27


@known.accepted("in-float64-and-one-count-at-a-time")
def in_float64(rms_norm):
    def given(rows, size, dtype, spread):
        x, weight = normals(4, dtype)(rows, size, spread=spread), normals(5, dtype)(size)
        return x, weight, *rms_norm(x, weight, 0.5)

    for rows, size, dtype, spread in (
        (2, 9, mx.float32, 1.0),
        (2, 90, mx.float32, 2.0),
        (2, 500, mx.float32, 1.0),
        (2, 64, mx.float16, 500.0),
    ):
        x, weight, out, _ = given(rows, size, dtype, spread)
        rows_of_x, weights = (np.array(each.astype(mx.float32), np.float64) for each in (x, weight))
        for row, numbers in zip(rows_of_x, np.array(out.astype(mx.float32)), strict=True):
            expected = row / np.sqrt(np.mean(row**2) + 0.5) * weights
            np.testing.assert_allclose(numbers, expected, rtol=8 * mx.finfo(dtype).eps, atol=1e-6)
    x, _, _, counts = given(1, 8192, mx.float32, 1.0)
    assert counts["moved"] <= 4 * x.nbytes
    assert counts["barriers"] <= 9
    assert not counts["bank_conflicts"]
