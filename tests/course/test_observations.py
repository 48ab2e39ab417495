"""What is seen in the checks of a failing program: the condition that failures share, and the solution's refusal."""

import contextlib
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.course.findings import Claim, Finding, Kind
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.grading import diagnosis, observations
from tiny_llm_course.grading.diagnosis import Checks, Diagnosis, diagnoses
from tiny_llm_course.grading.failures import Failure
from tiny_llm_course.grading.observations import observed
from tiny_llm_course.grading.unread import unread
from tiny_llm_course.paths import LEARNER
from tiny_llm_course.programs.packages import SOLUTION_NAME, program
from tiny_llm_course.testkit.naming import Candidates
from tiny_llm_course.testkit.outcomes import Stopped
from tiny_llm_course.testkit.variants import Variant


def x(*shape: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.zeros(shape, dtype)


LONG, SHORT = {"a": x(2, 3, 4), "b": x(2, 5, 4)}, {"a": x(2, 3, 4), "b": x(2, 3, 4)}
# The arguments of failing checks, those of passing ones, and the condition that is said.
SEEN = [
    ([{"a": x(2, 3)}] * 2, [{"a": x(2, 3, 4)}] * 3, "fails all 2 checks in which `a` has 2 dimensions"),
    ([{"a": x(4)}, {"a": x(4, 5, 6)}], [{"a": x(2, 3)}] * 3, "passes all 3 checks in which `a` has 2 dimensions"),
    ([{"a": x(2, dtype=mx.float16)}] * 2, [{"a": x(2)}] * 3, "fails all 2 checks in which `a` is float16"),
    (
        [{"a": x(2, dtype=mx.float16)}, {"a": x(2, dtype=mx.bfloat16)}],
        [{"a": x(2)}] * 3,
        "fails all 2 checks in which `a` is float16 or bfloat16",
    ),
    ([{"a": x(3, 1)}] * 2, [{"a": x(3, 2)}] * 3, "fails all 2 checks in which `a` has size 1 in axis -1"),
    ([{"a": None}] * 2, [{"a": "one"}, {"a": "two"}] * 2, "fails all 2 checks in which `a` is None"),
    ([{"a": "causal"}] * 2, [{"a": "none"}, {"a": ""}, {"a": "other"}], "fails all 2 checks in which `a` is 'causal'"),
    ([{"a": 0}] * 2, [{"a": 1}, {"a": 2}, {"a": -3}], "fails all 2 checks in which `a` is 0"),
    ([{"a": [1]}] * 2, [{"a": [1, 2]}, {"a": []}, {"a": [3, 4, 5]}], "fails all 2 checks in which `a` has one entry"),
    ([{"a": 7}, {"a": 8}], [{"a": 1}] * 3, "fails all 2 checks in which `a` is not 1 (its default)"),
    (
        [{"a": 2, "b": 5}, {"a": 3, "b": 4}],
        [{"a": n, "b": 2} for n in (4, 5, 3)],
        "fails all 2 checks in which `a` is less than `b`",
    ),
    ([LONG] * 2, [SHORT] * 3, "fails all 2 checks in which axis -2 of `a` and of `b` differ in size"),
    (
        [{"a": SimpleNamespace(done=True)}] * 2,
        [{"a": SimpleNamespace(done=False)}] * 3,
        "fails all 2 checks in which `a.done` is True",
    ),
    (
        [LONG | {"c": True}] * 8,
        [LONG | {"c": False}, SHORT | {"c": True}, *[SHORT | {"c": False}] * 2] * 4,
        "fails all 8 checks in which `c` is True and axis -2 of `a` and of `b` differ in size",
    ),
    ([LONG | {"c": True}] * 4, [LONG | {"c": False}, SHORT | {"c": True}, SHORT | {"c": False}], None),  # nearly all
    ([LONG | {"c": True}] * 3, [LONG | {"c": False}, SHORT | {"c": True}, SHORT | {"c": False}], None),  # too few
    ([LONG | {"c": True}] * 4, [LONG | {"c": False}, SHORT | {"c": True}, *[SHORT | {"c": False}] * 2], None),
    ([{"a": float("nan")}] * 2, [{"a": 1}, {"a": 2}, {"a": -3}], "fails all 2 checks in which `a` is nan"),
    ([{"b": np.ones(3)}] * 2, [{}] * 3, "fails all 2 checks in which `b` is not '' (its default)"),
    ([{"a": 100_001}] * 4, [{"a": 100_002}] * 3, "fails all 4 checks in which `a` is 100001"),
    ([{"a": 100_001}] * 3, [{"a": 100_002}] * 3, None),  # by chance
    ([{"a": 0.5}] * 3, [{"a": 0.25}] * 3, None),
    ([{"a": 0.0}] * 2, [{"a": 0.25}] * 3, "fails all 2 checks in which `a` is 0.0"),
    ([{"a": 0}], [{"a": 1}] * 5, None),
    ([{"a": 0}] * 5, [{"a": 1}] * 2, None),
    ([{"a": 0}] * 3, [{"a": 0}] * 3, None),
    ([{"a": None, "b": x(3)}] * 2, [{"a": "one", "b": x(3, 4)}] * 3, None),  # either may be the reason
]


def seen(function, calls, kinds, monkeypatch):
    """Return what is said of a program whose checks call it once each; a kind of None passes."""
    task = SimpleNamespace(program=None)
    monkeypatch.setattr(observations, "program", lambda *of: function)
    items = [SimpleNamespace(name=str(number), call=call) for number, call in enumerate(calls)]
    failures = {item.name: kind and Failure(Finding(kind, "")) for item, kind in zip(items, kinds, strict=True)}
    claim = observed(task, items, failures, lambda item: function(**item.call))
    return claim and claim.place


@pytest.mark.parametrize(("failing", "passing", "said"), SEEN, ids=range(len(SEEN)))
def test_the_only_condition_that_separates_failing_checks_from_passing_ones_is_said(
    failing, passing, said, monkeypatch
):
    def function(a=1, b="", c=""): ...

    kinds = [Kind.VALUES] * len(failing) + [None] * len(passing)
    found = seen(function, [*failing, *passing], kinds, monkeypatch)
    assert found == (f"Your code {said}, and no others." if said else None)


@pytest.mark.parametrize(("failing", "said"), [("a[0] a[1] a[2] a[3]", False), ("a[0] a[1] b c", True)])
def test_the_numbers_of_one_test_say_nothing(failing, said, monkeypatch):
    def function(a): ...

    monkeypatch.setattr(observations, "program", lambda *of: function)
    numbers = dict.fromkeys(failing.split(), 96) | dict.fromkeys("wxyz", 7)
    items = [SimpleNamespace(name=name, a=a) for name, a in numbers.items()]
    failures = {item.name: Failure(Finding(Kind.VALUES, "")) if item.a == 96 else None for item in items}
    found = observed(SimpleNamespace(program=None), items, failures, lambda item: function(a=item.a))
    assert bool(found) == said


@pytest.mark.parametrize("called", [False, True])
def test_what_failing_checks_lack_is_no_reason_to_pass(called, monkeypatch):
    """Those that fail in the constructor have no `x`."""

    class Layer:
        def __call__(self, x): ...

    monkeypatch.setattr(observations, "program", lambda *of: Layer)
    items = [SimpleNamespace(name=str(number), fails=number < 2) for number in range(8)]
    failures = {item.name: Failure(Finding(Kind.VALUES, "")) if item.fails else None for item in items}

    def run(item):
        if called or not item.fails:
            Layer()(x=x(*[2] * (1 + item.fails + (item.name == "0"))))

    found = observed(SimpleNamespace(program=None), items, failures, run)
    said = "Your code passes all 6 checks in which `x` has 1 dimension, and no others."
    assert (found and found.place) == (said if called else None)


def test_that_an_object_or_a_helper_is_called_says_nothing(monkeypatch):
    class Layer:
        def __call__(self):
            self._helper()

        def _helper(self): ...

    monkeypatch.setattr(observations, "program", lambda *of: Layer)
    items = [SimpleNamespace(name=str(number), called=number < 3) for number in range(6)]
    failures = {item.name: Failure(Finding(Kind.VALUES, "")) if item.called else None for item in items}
    assert not observed(SimpleNamespace(program=None), items, failures, lambda item: item.called and Layer()())


@pytest.mark.parametrize("fails", [True, False])
def test_the_second_call_of_a_method_is_seen_and_is_no_reason_to_pass(fails, monkeypatch):
    class Cache:
        def __init__(self):
            self.keys = None

        def update(self, new): ...

    def run(item):
        cache = Cache()
        for _ in range(item.calls):
            cache.update(new=1)

    monkeypatch.setattr(observations, "program", lambda *of: Cache)
    items = [SimpleNamespace(name=str(number), calls=1 + number % 2) for number in range(8)]
    wrong = Failure(Finding(Kind.VALUES, ""))
    failures = {item.name: wrong if (item.calls > 1) == fails else None for item in items}
    claim = observed(SimpleNamespace(program=None), items, failures, run)
    said = "Your code fails all 4 checks in which `update` is called more than once, and no others."
    assert (claim and claim.place) == (said if fails else None)


def test_programs_that_only_raise_are_not_observed(monkeypatch):
    """Their exceptions say more than what the checks have in common."""

    def function(a): ...

    monkeypatch.setattr(observations, "program", lambda *of: function)
    items = [SimpleNamespace(name=str(number), call={"a": number < 2}) for number in range(6)]
    stopped = Failure(Finding(Kind.RAISED, ""), Stopped.by(ValueError("no")))
    failures = {item.name: stopped if item.call["a"] else None for item in items}
    assert not observed(SimpleNamespace(program=None), items, failures, lambda item: function(**item.call))


class Scale:
    def __init__(self, bits):
        self.value = bits

    def apply(self, new):
        self.value = new


# The objects of a check, as bits and the numbers that each is applied to, and whether the check fails.
SCALES = [
    ({"4": (1,), "8": (None,)}, False),  # 8 bits and 1, but not together
    ({"4": (1, None)}, False),
    ({"8": (None,)}, False),
    ({"4": (None,), "8": (1, None)}, True),
    ({"8": (1,)}, True),
]


def test_two_conditions_must_hold_of_one_call_or_of_one_object(monkeypatch):
    """What a program keeps in `self` is no condition of its inputs."""

    def run(item):
        for bits, news in item.objects.items():
            scale = Scale(bits)
            for new in news:
                scale.apply(new)

    monkeypatch.setattr(observations, "program", lambda *of: Scale)
    checks = [SimpleNamespace(name=str(number), objects=o, fails=f) for number, (o, f) in enumerate([*SCALES] * 4)]
    failures = {item.name: Failure(Finding(Kind.VALUES, "")) if item.fails else None for item in checks}
    claim = observed(SimpleNamespace(program=None), checks, failures, run)
    assert claim.place == "Your code fails all 8 checks in which `new` is 1 and `bits` is '8', and no others."


def linear(columns: int) -> None:
    program(load_course().task("1.1.3").program, SOLUTION_NAME)(x(2, columns), x(3, 4))


def unpacked() -> None:
    program(load_course().task("2.1.1").program, SOLUTION_NAME)().update_and_fetch(x(2, 3, 4), x(2, 3, 4))


def twice() -> None:
    with contextlib.suppress(ValueError):
        linear(5)
    linear(6)


# What the check does with our solution, and what is said.
REFUSED = [
    (lambda: linear(5), "Our solution raises here: ValueError: "),
    (lambda: linear(4), None),
    (twice, None),  # which one?
    (unpacked, None),  # "not enough values to unpack": an accident of how ours is written
]


@pytest.mark.parametrize(("check", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_the_solution_raises_is_said_where_the_program_raises_no_error(check, said, monkeypatch):
    def run(item):
        with contextlib.suppress(ValueError):
            check()

    monkeypatch.setattr(observations, "unread", lambda *of: "")
    monkeypatch.setattr(observations, "installed", lambda *of: contextlib.nullcontext())
    item = SimpleNamespace(name="check")
    failures = {"check": Failure(Finding(Kind.NO_ERROR, ""))}
    claim = observed(load_course().task("1.1.3"), [item], failures, run)
    assert claim.place.startswith(said) if said else claim is None


def failure(*lines: str, result: object = None, case: str = "x 2 x 3") -> Failure:
    return Failure(Finding(Kind.VALUES, "values differ", lines, case), result=result)


ONE = failure("expected  1", "got       2")
# The learner's failure of a check, a known mistake's, and whether they contradict each other.
PAIRS = [
    (ONE, ONE, False),
    (ONE, failure("expected  1", "got       3"), True),
    (ONE, failure("expected  1", "got       3", case="x 4"), False),  # another case says nothing
    (ONE, None, False),
    (failure("at most   4 MB"), failure("at most   5 MB"), False),  # measured, so never quite the same
    (failure("got       1.0", result=x(2)), failure("got       1.1", result=x(2)), False),
    (failure("got       1.0", result=x(2)), failure("got       1.0", result=x(2) + 1), True),
]


@pytest.mark.parametrize(("mine", "theirs", "wanted"), PAIRS, ids=range(len(PAIRS)))
def test_a_known_mistake_with_another_result_in_the_same_case_is_contradicted(mine, theirs, wanted):
    assert mine.contradicts(theirs) == wanted


@pytest.mark.parametrize(("got", "here"), [("2", False), ("3", True)])
def test_a_contradicted_mistake_is_claimed_for_the_case_in_which_it_holds(got, here, monkeypatch):
    """Both programs fail two checks; in the second, the learner's may have another result."""
    monkeypatch.setattr(diagnosis, "installed", lambda *of: contextlib.nullcontext())
    theirs = {"first": failure("got       1", case="x 1"), "second": failure("got       2", case="x 2")}
    mine = {"first": theirs["first"], "second": failure(f"got       {got}", case="x 2")}
    items = [SimpleNamespace(name=name) for name in theirs]
    variant = Variant("mistake", lambda: None, fact="a fact", question="a question?")
    checks = Checks(load_course().task("1.1.3"), items, mine, lambda item: theirs[item.name])
    found = checks.confirm(Candidates((variant,)), [], [variant])
    assert [claim.here for claim in found.claims] == [here]
    assert found.finding.case == "x 1"


EQUAL, ALIKE = "your output equals what you get when", "your program fails like one in which"


@pytest.mark.parametrize(("got", "said"), [(2, EQUAL), (3, ALIKE)])
def test_results_that_are_alike_and_nowhere_equal_are_not_said_to_be_equal(got, said, monkeypatch):
    monkeypatch.setattr(diagnosis, "installed", lambda *of: contextlib.nullcontext())
    item = SimpleNamespace(name="check")
    mine, theirs = failure(f"got       {got}", result=x(got)), failure("got       2", result=x(2))
    variant = Variant("mistake", lambda: None, fact="a fact", question="a question?")
    checks = Checks(load_course().task("1.1.3"), [item], {"check": mine}, lambda item: theirs)
    (claim,) = checks.confirm(Candidates((variant,)), [], [variant]).claims
    assert said in claim.said(Kind.VALUES).lower()
    assert "equals" not in claim.said(Kind.RAISED)


def test_what_is_known_is_told_before_a_search_that_may_end_the_process(monkeypatch):
    seen, method, line = (Claim([], [], place=word) for word in ("seen", "method", "line"))
    monkeypatch.setattr(diagnosis, "program", lambda *of: None)
    monkeypatch.setattr(diagnosis, "_named", lambda *of: Diagnosis())
    changes = SimpleNamespace(method=lambda: method, line=lambda: line)
    checks = SimpleNamespace(task=load_course().task("1.1.3"), seen=lambda: seen, changes=changes)
    told = [found.claims for found in diagnoses(checks, LEARNER, lambda search: search(0.0))]
    assert told == [(), (seen,), (seen, method), (seen, line)]


def test_a_parameter_that_is_read_by_the_solution_alone_is_said():
    def ours(x, scale, mask):
        return x * scale if mask else x

    def all_of_them(x, scale, mask):
        return [x, scale, mask]

    def in_place(x, scale, mask):
        x += scale
        return lambda: mask

    def two(x, scale, mask):
        return x

    def assigned(x, scale, mask):
        scale = 1
        return x * scale if mask else x

    def others(x, scale, mask, other):
        return locals()

    class Ours:
        def __init__(self, size, eps):
            self.size, self.eps = size, eps

    class Mine:
        def __init__(self, size, eps):
            self.size = size

        def _helper(self, size):
            return 0

    assert [unread(mine, ours) for mine in (ours, all_of_them, in_place, assigned, others)] == [""] * 5
    assert unread(two, ours) == "Your `two` never reads `scale` and `mask`. Our solution does."
    assert unread(Mine, Ours) == "Your `__init__` never reads `eps`. Our solution does."
    assert unread(ours, two) == ""
