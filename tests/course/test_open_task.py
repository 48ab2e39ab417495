"""The open task of a week: its name, and the known programs in a process of their own that its check is given."""

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.course.findings import CheckFailed
from tiny_llm_course.course.registry import UsageError, load_course, resolve
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.grading.failing_case import kept_case
from tiny_llm_course.testkit.blind import BlindPrograms, programs_of
from tiny_llm_course.testkit.judging import check_verdicts, rejects_wrong_programs
from tiny_llm_course.testkit.variants import load_variants

COURSE = load_course()


@pytest.mark.parametrize(("week", "of"), [(1, "1.1.2"), (2, "2.5.2")])
def test_it_is_named_like_the_task_that_it_is(week, of):
    (task,) = resolve(COURSE, f"{week}.c")
    assert task is COURSE.task(f"{week}.C") is COURSE.open_task(week)
    assert (task.id, task.needs, task.judges) == (f"{week}.C", (of,), of)
    day = COURSE.day_of(task)
    assert (day.name, day.called, day.tasks) == (f"{week}.C", "open task", (task,))
    assert COURSE.week(week).days[-1] is day
    assert resolve(COURSE, str(week))[-1] is task


@pytest.mark.parametrize("name", ["1.8", "1.8.1", "1.C.1", "2.8", "9.C"])
def test_it_has_no_other_name(name):
    with pytest.raises(UsageError):
        resolve(COURSE, name)


@pytest.fixture(scope="module")
def attentions():
    return BlindPrograms("1.1.2")


def test_programs_are_one_function_in_an_order_that_is_drawn_anew(attentions):
    """Two of 23! orders are the same by chance never."""
    functions, orders = [], []
    for _ in range(2):
        functions += attentions.trials()
        orders.append(attentions.reveal())
    assert len(set(functions)) == 1
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    assert [known.right for known in sorted(orders[0])].index(False) == sum(known.right for known in orders[0])


def by_name(programs, *args, **kwargs):
    """What each program makes of some inputs: what it gives, or the error that it raises."""
    made = []
    for program in programs.trials():
        try:
            made.append(program(*args, **kwargs))
        except Exception as error:
            made.append(error)
    return dict(zip([known.name for known in programs.reveal()], made, strict=True))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_arrays_come_and_go_as_they_are(attentions, dtype):
    """One key has all the weight, so that its value comes out to the last digit."""
    value = mx.random.normal((2, 1, 5), key=mx.random.key(0)).astype(dtype)
    gave = by_name(attentions, mx.zeros((2, 3, 5), dtype), value, value, scale=np.float64(0.5))
    assert gave[""].dtype == dtype
    assert mx.array_equal(gave[""], mx.broadcast_to(value, (2, 3, 5)))


def test_errors_come_as_what_they_are(attentions):
    x = mx.ones((2, 3, 5))
    error = by_name(attentions, x, x, x, mask=mx.ones((3, 3)))["truth-of-the-mask"]
    assert type(error) is ValueError
    assert "can be converted" in str(error)


def test_what_a_program_changes_is_the_callers():
    x = mx.array([[1.0, 2.0, 4.0]])
    by_name(BlindPrograms("1.1.1"), x, -1)
    assert x.tolist() == [[-3.0, -2.0, 0.0]]


@pytest.mark.parametrize("thing", [object(), print, [{1: test_it_has_no_other_name}]], ids=["object", "print", "test"])
def test_nothing_else_comes_or_goes(attentions, thing):
    assert {type(error) for error in by_name(attentions, thing).values()} == {TypeError}


def test_who_has_no_turn_is_not_known():
    programs = BlindPrograms("1.1.2")
    next(programs.trials())
    with pytest.raises(CheckFailed, match="asked it which one"):
        programs.reveal()
    assert not programs.is_alive


def test_a_check_is_told_the_first_that_it_gets_wrong():
    """A right program before a wrong one, in the order of the file."""

    def only_shapes(attention):
        x = mx.ones((2, 3, 5))
        assert attention(x, x, x).shape == x.shape

    def nothing_wide(attention):
        x = mx.ones((2, 3, 5), mx.float16)
        assert attention(x, x, x, mask=mx.zeros((3, 3))).dtype == mx.bfloat16

    with pytest.raises(CheckFailed, match="How does the spread of random vectors") as caught:
        rejects_wrong_programs(only_shapes, of="1.1.2")
    case = kept_case(caught.value, only_shapes)
    assert (case.call, case.listed[-1]) == ("program(misjudged)", "misjudged")
    case.names["program"](case.names["misjudged"])  # which passes
    with pytest.raises(CheckFailed, match="a right program: our solution") as caught:
        rejects_wrong_programs(nothing_wide, of="1.1.2")
    assert isinstance(caught.value.__cause__, AssertionError)
    assert not check_verdicts(nothing_wide, of="1.1.2").any()


# Kernels


@pytest.fixture(scope="module")
def norms():
    if missing(["simulator"]):
        pytest.skip("no C++ compiler")
    return BlindPrograms("2.5.2")


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16], ids=str)
def test_a_kernel_gives_what_is_counted_of_its_own_call(norms, dtype):
    """Also of the second call on the same inputs, and of one on others."""
    long, short, weight = mx.ones((2, 2560), dtype), mx.ones((1, 32), dtype), mx.ones((2560,), dtype)
    for _ in range(2):
        out, counts = by_name(norms, long, weight, 1.0)[""]
        assert (out.dtype, out.shape) == (dtype, long.shape)
        assert counts == {"moved": 4 * long.nbytes, "bank_conflicts": 0, "barriers": 2}
        out[...] = 0
    assert mx.allclose(by_name(norms, long, weight, 1.0)[""][0], mx.array(0.5**0.5, dtype))
    gave = by_name(norms, short, weight[:32], 1.0)
    assert gave[""][1]["barriers"] == 1
    assert gave["tree-with-gaps"][1]["bank_conflicts"] == 0
    assert by_name(norms, long, weight, 1.0)["tree-with-gaps"][1]["bank_conflicts"] > 0


def test_a_fault_is_an_error_in_both_processes(norms):
    x, weight = mx.ones((2, 20)), mx.ones((20,))
    error = by_name(norms, x, weight, 1.0)["reads-past-the-row"]
    (here,) = (v for v in programs_of(load_variants(COURSE.task("2.5.2"))) if v.name == "reads-past-the-row")
    with pytest.raises(RuntimeError, match=r"reads x\[40\]") as caught:
        here.program(x, weight, 1.0)
    assert (type(error), str(error)) == (RuntimeError, str(caught.value))


def test_a_check_of_kernels_is_judged_like_any_other(norms):
    def faults_only(rms_norm):
        rms_norm(mx.ones((2, 64)), mx.ones((64,)), 1e-5)

    with pytest.raises(CheckFailed, match="3 of 22 wrong programs are stopped, 5 of 5 right ones pass") as caught:
        rejects_wrong_programs(faults_only, of="2.5.2")
    case = kept_case(caught.value, faults_only)
    case.names["program"](case.names["misjudged"])  # which passes
