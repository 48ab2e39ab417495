"""The sweep that every task has: which sizes and texts it goes through, and what the checks do with them unasked."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiny_llm_course.course.findings import CheckFailed, Finding, Kind
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.results import TaskResult
from tiny_llm_course.dev import completeness
from tiny_llm_course.grading.exceptions import finding_of
from tiny_llm_course.paths import LEARNER
from tiny_llm_course.testkit.again import built, non_contiguous
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, distinct, forbidding, mask_of, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, in_float32, to_float64
from tiny_llm_course.testkit.sizes import EQUAL, SMALL, SPREADS, awkward, narrow, sizes, sweep
from tiny_llm_course.testkit.texts import again, awkward_texts


def double64(x, *, r=exact):
    return r(2 * x)


def softmax64(x, *, r=exact):
    e = r(np.exp(r(x - x.max())))
    return r(e / r(e.sum()))


def found(function, formula, *args, **kwargs):
    with pytest.raises(CheckFailed) as caught:
        agrees(function, formula, *args, seed=1, **kwargs)
    return caught.value.finding


# Sizes


def test_every_letter_has_every_small_size_and_some_past_every_border():
    tables = awkward(A=5000, B=5000, C=200, D=5000)
    for letter in "ABD":
        drawn = {table[letter] for table in tables}
        assert drawn >= set(range(1, SMALL + 1))
        assert all(any(size > border for size in drawn) for border in (64, 128, 1000, 4096))
    assert {table["C"] for table in tables} >= {*range(1, SMALL + 1), 64, 65, 128, 131}
    assert max(table["C"] for table in tables) <= 200
    assert all(dict.fromkeys("ABCD", n) in tables for n in EQUAL)


def test_a_letter_that_allows_little_does_not_take_sizes_from_others():
    tables = awkward(A=2, B=20, C=3)
    assert {table["B"] for table in tables} == set(range(1, 21))
    assert {table["A"] for table in tables} == {1, 2}


def test_the_smallest_come_first_and_always_the_same():
    tables = awkward(A=4200, B=4200)
    volumes = [table["A"] * table["B"] for table in tables]
    assert volumes == sorted(volumes)
    assert tables == awkward(A=4200, B=4200)


def test_a_sweep_ends_with_the_spreads():
    cases = list(sweep(A=9, B=4))
    wide = [n for n in cases if n.dtype == mx.float32]
    assert [n.spread for n in wide[-len(SPREADS) :]] == list(SPREADS)
    assert [n.sizes for n in wide if n.of_sizes] == [n.sizes for n in sizes(A=9, B=4)]
    assert cases[0].A == cases[0].B == 1
    with pytest.raises(AttributeError):
        _ = cases[0].C


@pytest.mark.parametrize("number", [2, 3, 4])
def test_each_spread_meets_several_of_the_values_that_take_turns(number):
    met = {(n.spread, n.turn(*range(number))) for n in sweep(A=9) if not n.of_sizes and n.dtype == mx.float32}
    assert len(met) == 2 * len(SPREADS)


@pytest.mark.parametrize("number", [2, 3, 5])
def test_each_narrow_dtype_meets_all_values_that_take_turns(number):
    met = {(n.dtype, n.turn(*range(number))) for n in narrow(A=9)}
    assert met == set(itertools.product([mx.float16, mx.bfloat16], range(number)))


def test_equal_sizes_meet_all_values():
    met = {n.A: n.each(1, 2, 3) for n in sizes(A=9, B=9) if n.A == n.B}
    assert all(met[n] == (1, 2, 3) for n in EQUAL)
    assert all(len(n.each(1, 2, 3)) == 1 for n in sizes(A=9, B=9) if n.A != n.B)


def test_a_narrow_dtype_meets_sizes_to_which_it_cannot_count():
    cases = list(narrow(A=5000, B=1000, C=20))
    for dtype, border in ((mx.float16, 2048), (mx.bfloat16, 256)):
        assert any(n.dtype == dtype and border < n.A for n in cases)
    assert max(n.B for n in cases) > 256
    assert max(n.C for n in cases) <= 20


@pytest.mark.parametrize("dtype", DTYPES)
def test_distinct_numbers_stay_distinct(dtype):
    rows = to_float64(distinct(1, dtype, 3, 2100))
    assert all(len(set(row)) == 2100 for row in rows)


@pytest.mark.parametrize("axis", [0, 1])
def test_something_is_left_where_entries_are_forbidden(axis):
    left = np.isfinite(to_float64(forbidding(1, normals(1)(7, 9), axis)))
    assert left.any(axis=axis).all()
    assert not left.all()


def test_the_masks_are_of_every_sort():
    drawn = {sort: mask_of(sort, 1, mx.float16, 4, 6) for sort in MASKS}
    assert drawn.pop("none") is None
    numbers = {sort: to_float64(mask) for sort, mask in drawn.items()}
    assert np.isneginf(numbers["forbidding"]).any()
    assert drawn["bias"].dtype == drawn["forbidding"].dtype == mx.float16
    for sort in ("huge", "huge row"):
        assert drawn[sort].dtype == mx.float32
        assert np.isinf(to_float64(drawn[sort].astype(mx.float16))).any()
        assert np.isfinite(numbers[sort]).all()
    assert (numbers["huge"] > -1e4).any(axis=-1).all()


def test_a_propertys_exception_shows_the_drawn_example():
    @property_test
    @given(size=st.integers(3, 3))
    def holds(size):
        raise IndexError("of the learner")

    with pytest.raises(IndexError) as caught:
        holds()
    assert "case: size 3" in caught.value.__notes__


def test_numbers_that_look_alike_are_shown_with_as_many_digits():
    finding = found(lambda x: x * 1.00003, lambda x, *, r=exact: r(x), mx.array([-0.000711]))
    assert [len(line) for line in finding.lines] == [len(finding.lines[0])] * 2
    assert len({line[10:] for line in finding.lines}) == 2


def test_the_texts_are_of_every_kind():
    texts = awkward_texts()
    assert texts[0] == ""
    assert {chr(n) for n in range(128)} <= set(texts)
    assert any(text.isdigit() and len(text) > 100 for text in texts)
    assert any(text.isalpha() and text.isascii() and len(text) > 200 for text in texts)
    assert [len(text) for text in texts] == sorted(map(len, texts))


# What `agrees` does unasked


def test_a_second_call_that_differs_is_found():
    calls = []

    def worse_and_worse(x):
        calls.append(x)
        return (1 + len(calls)) * x

    finding = found(worse_and_worse, double64, normals(1)(3))
    assert (finding.kind, finding.indirect) == (Kind.VALUES, True)
    assert finding.case.endswith("the second call with the same inputs")


def test_an_object_that_keeps_its_first_inputs_is_found():
    class Doubles:
        def __init__(self):
            self.first = None

        def __call__(self, x):
            self.first = x if self.first is None else self.first
            return self.first + self.first

    @built
    def doubled(x):
        layer = Doubles()
        return lambda x: layer(x)

    finding = found(doubled, double64, normals(1)(3))
    assert "an object that was called before" in finding.case


def test_objects_that_share_their_weights_are_found():
    class Scales:
        def __init__(self, w):
            Scales.w = w

    @built
    def scaled(x, w):
        layer = Scales(w)
        return lambda x: x * layer.w

    def scaled64(x, w, *, r=exact):
        return r(x * w)

    finding = found(scaled, scaled64, normals(1)(3), normals(2)(3))
    assert finding.case.endswith("after another object with other weights")


def test_a_list_that_is_changed_is_told_and_stays_as_it_was_for_others():
    def chosen64(x, places, *, r=exact):
        return r(x[places])

    def chosen(x, places):
        y = x[mx.array(places)]
        places.sort()
        return y

    places = [2, 0, 1]
    finding = found(chosen, chosen64, normals(1)(3), places)
    assert (finding.kind, finding.headline) == (Kind.INPUT_CHANGED, "the caller's `places` was changed")
    assert places == [2, 0, 1]


def test_a_program_that_gives_one_list_twice_is_found():
    kept = [1, 2]
    with pytest.raises(CheckFailed, match="a change to one changes both"):
        again(lambda: kept, "the case")
    assert again(lambda: [1, 2], "the case") == [1, 2]


def test_what_broadcasts_is_every_shape_with_ones_and_without_leading_axes():
    assert set(broadcasting(2, 3)) == {(), (1,), (3,), (1, 1), (1, 3), (2, 1), (2, 3)}
    assert len(broadcasting(2, 3, 4, 5)) == 31
    assert broadcasting(2, 3)[-1] == (2, 3)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_where_the_result_alone_is_narrow_each_number_has_one_spacing(dtype):
    """A sum that nearly cancels is right in float32, and wrong if the narrow dtype rounds a step of it."""

    def turned64(x, *, r=exact):
        angle = in_float32(r)(np.array(0.3))
        return r(x * np.cos(angle) - x[::-1] * np.sin(angle))

    def turned(x, inside):
        wide, cos, sin = x.astype(inside), mx.array(np.cos(0.3)).astype(inside), mx.array(np.sin(0.3)).astype(inside)
        return (wide * cos - wide[::-1] * sin).astype(x.dtype)

    x = normals(1, dtype)(300)
    agrees(lambda x: turned(x, mx.float32), turned64, x, seed=1)
    assert found(lambda x: turned(x, dtype), turned64, x).kind == Kind.VALUES


def test_a_program_that_reads_memory_as_if_it_were_contiguous_is_found():
    def by_memory(x):
        return 2 * mx.array(np.array(x, copy=False).ravel(order="K").reshape(x.shape))

    assert found(by_memory, double64, normals(1)(3, 4)).case.endswith("inputs that are not contiguous")


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4)], ids=str)
def test_spread_out_numbers_are_the_same(shape):
    x = normals(1)(*shape)
    assert np.array_equal(to_float64(non_contiguous(x)), to_float64(x))


def test_small_results_do_not_hide_behind_large_ones():
    def without_small_ones(x):
        weights = mx.softmax(x, axis=-1)
        return mx.where(weights < 1e-7, 0.0, weights)

    x = mx.array([0.0, 1.0, -18.0])
    agrees(lambda x: mx.softmax(x, axis=-1), softmax64, x, seed=1)
    assert found(without_small_ones, softmax64, x).headline == "values differ in 1 of 3 elements, largest error at [2]"


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16], ids=str)
def test_what_rounding_makes_of_large_inputs_is_allowed(dtype):
    x = (normals(1)(5) + 1000).astype(dtype)
    agrees(lambda x: mx.exp(x - mx.logsumexp(x)), softmax64, x, seed=1)


def test_a_text_that_differs_the_second_time_is_found():
    texts = iter(["dog", "dig"])
    with pytest.raises(CheckFailed, match="the second call with the same inputs returned something else"):
        again(lambda: next(texts), "the case")


# What is told


@pytest.mark.parametrize(
    ("actual", "headline"),
    [
        ([1.0, -np.inf, -np.inf], "set to -inf but should be kept: 1 of 3 elements, first at [1]"),
        ([1.0, 2.0, 3.0], "kept but should be set to -inf: 1 of 3 elements, first at [2]"),
        ([1.0, np.nan, -np.inf], "NaN or infinity in 1 of 3 elements, first at [1]"),
    ],
)
def test_a_wrong_choice_of_a_filter_is_told_as_that(actual, headline):
    def formula(x, *, r=exact):
        return np.where(x > 2.5, -np.inf, x)

    assert found(lambda x: mx.array(actual), formula, mx.array([1.0, 2.0, 3.0])).headline == headline


def test_float32_is_told_before_what_is_narrower():
    def at(kind, case, **rest):
        return Finding(kind, "", case=case, **rest)

    values, wide, dtype = (
        at(Kind.VALUES, "float32, x 3", size=3),
        at(Kind.VALUES, "float32, x 1", size=1, swept=True),
        at(Kind.DTYPE, "float16, x 1", size=1),
    )
    no_error = at(Kind.NO_ERROR, "x 7")
    assert sorted([no_error, dtype, wide, values], key=Finding.rank) == [values, wide, no_error, dtype]


def test_of_two_cases_as_small_the_plainer_one_is_told():
    plain, masked = (Finding(Kind.VALUES, "", case=f"float32, x 2 x 3{more}", size=6) for more in ("", ", causal"))
    assert min([masked, plain], key=Finding.rank) is plain


def test_a_formula_that_fails_is_the_course_s_fault():
    def formula(x, *, r=exact):
        return r(x @ np.ones(7))

    finding = found(lambda x: x, formula, normals(1)(2, 3))
    assert finding.kind == Kind.COURSE
    assert finding.headline.startswith("a check of the course is broken, not your code: ValueError: matmul")
    assert "(tests/course/test_sweep.py:" in finding.headline


def test_a_check_without_a_name_it_needs_is_the_course_s_fault_and_a_wrong_return_is_not():
    with pytest.raises(NameError) as missing:
        _ = not_defined  # noqa: F821
    assert finding_of(missing.value, LEARNER).kind == Kind.COURSE
    with pytest.raises(TypeError) as returned:
        _ = None + mx.ones(1)
    assert finding_of(returned.value, LEARNER).kind == Kind.RAISED


def test_a_task_whose_check_is_wrong_has_neither_passed_nor_failed():
    task = load_course().task("1.1.1")
    fault = Finding(Kind.COURSE, "a check of the course is broken, not your code: ValueError")
    result = TaskResult(task, checks=2, passed=1, failed=1)
    result.add(fault)
    assert result.status == "not run"
    result.add(Finding(Kind.VALUES, "values differ", case="float16, x 3", size=9))
    assert result.status == "failed"


def test_properties_compare_with_one_distance_for_all():
    with pytest.raises(CheckFailed, match="largest error at \\[1\\]"):
        compare(mx.array([1.0, 2.0]), np.array([1.5, 3.0]), mx.float32, 0.6, "the case", 2)


def test_a_task_without_a_sweep_is_reported(monkeypatch, tmp_path):
    tests = tmp_path / "test_day1.py"
    tests.write_text("def test_task_1_softmax_sweep():\n    ...\n", encoding="utf-8")
    monkeypatch.setattr(completeness.file_paths, "tests_path", lambda task: tests)
    monkeypatch.setattr(completeness, "name_of", lambda file: file.name)
    told = [line for line in completeness.for_the_book(load_course().day(1, 1)) if "no sweep" in line]
    assert told[0] == "1.1.2: no sweep, test_task_1_attention_sweep (test_day1.py)"
    assert len(told) == 3
