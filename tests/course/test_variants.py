"""The naming of a mistake: claimed only on equality everywhere, and never for a right program."""

import sys

import mlx.core as mx
import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.packages import SOLUTION_NAME, installed, load_package, program
from tiny_llm_course.testkit.naming import Candidates, candidates, explained, mistakes, right
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants, load_variants

TASK = load_course().task("1.1.3")
LINEAR = program(TASK.target, SOLUTION_NAME)


def without_bias(x, w, bias=None):
    return LINEAR(x, w)


def doubled(x, w, bias=None):
    return 2 * LINEAR(x, w, bias)


@pytest.fixture
def known() -> Variants:
    """Two probes, of which the second alone uses the bias, and two known mistakes."""
    known = Variants(TASK.id)
    known.probe()(lambda p: p(mx.array([1.0, 2.0]), mx.eye(2)))
    known.probe()(lambda p: p(mx.array([1.0, 2.0]), mx.eye(2), mx.ones(2)))
    known.wrong("no-bias", fact="", question="")(without_bias)
    known.wrong("doubled", fact="", question="")(doubled)
    return known


def named(known: Variants, subject) -> list[str]:
    return [variant.name for variant in mistakes(known, subject)]


def test_a_known_mistake_is_named(known):
    assert named(known, lambda x, w, bias=None: (x[None] @ w.T)[0]) == ["no-bias"]


def test_the_solution_has_no_mistake(known):
    assert named(known, LINEAR) == []


def test_equal_on_some_probes_is_not_enough(known):
    assert named(known, lambda x, w, bias=None: LINEAR(x, w, None if bias is None else bias * 3)) == []


def said(known: Variants, subject) -> list[str]:
    return [variant.name for variant in candidates(known, subject, []).programs]


def likely(known: Variants, subject) -> list[str]:
    return [variant.name for variant in candidates(known, subject, []).likely]


def test_two_mistakes_at_once_are_both_named(known):
    assert named(known, lambda x, w, bias=None: 2 * LINEAR(x, w)) == []
    assert said(known, lambda x, w, bias=None: 2 * LINEAR(x, w)) == ["no-bias + doubled"]


def test_two_that_several_pairs_come_to_are_not_named(known):
    known.wrong("doubled-again", fact="", question="")(doubled)
    assert said(known, lambda x, w, bias=None: 2 * LINEAR(x, w)) == []


def test_no_pair_is_named_when_there_was_no_time_to_try_them_all(known):
    found = candidates(known, lambda x, w, bias=None: 2 * LINEAR(x, w), [], until=0.0)
    assert found.programs == ()
    assert [variant.name for variant in found.likely] == ["no-bias", "doubled"]


def test_a_mistake_that_would_show_where_the_program_is_right_is_not_likely(known):
    """Whatever else is wrong where there is a bias: without one, nothing is doubled."""
    subject = lambda x, w, bias=None: LINEAR(x, w) if bias is None else LINEAR(x, w, bias) * 7  # noqa: E731
    assert (said(known, subject), likely(known, subject)) == ([], ["no-bias"])


def test_a_case_is_explained_by_one_known_mistake_and_no_other(known):
    fits = {1: ["no-bias", "doubled"], 2: ["doubled"], 3: ["no-bias"]}
    told = explained([0, 1, 2, 3], known.wrong_programs, lambda case, v: v.name in fits.get(case, []))
    assert told
    assert (told[0], told[1].name) == (2, "doubled")
    assert explained([0, 1], known.wrong_programs, lambda case, v: v.name in fits.get(case, [])) is None


def test_another_dtype_is_not_equal(known):
    assert named(known, lambda x, w, bias=None: without_bias(x, w).astype(mx.float16)) == []


def test_a_program_that_raises_is_not_named(known):
    assert named(known, lambda x, w, bias=None: 1 / 0) == []


def test_a_mistake_is_named_in_the_solution_in_other_words_too(known):
    """In these, a bias that is not there is nothing to add, which a negative bias shows."""
    known.change("bias-subtracted", ("y + bias", "y - bias"), fact="", question="")
    known.change("bias-needed", ("if bias is None else", "if False else"), fact="", question="")
    subject = lambda x, w, bias=None: LINEAR(x, w) if bias is None or mx.all(bias < 0) else LINEAR(x, w, -bias)  # noqa: E731
    known.probe()(lambda program: program(mx.ones((1, 2)), mx.ones((3, 2)), -mx.ones(3)))
    assert not known.alike(known.outcomes(subject), known.wrong_programs)
    known.written("for no negative bias", ("if bias is None", "if bias is None or mx.all(bias < 0)"))
    assert said(known, subject) == ["bias-subtracted for no negative bias"]
    assert [m.name for m in candidates(known, subject, []).mistakes] == ["bias-subtracted"]
    assert [v.name for v in known.in_other_words] == ["bias-subtracted for no negative bias"], "only what can be made"


@pytest.fixture
def crashing(known: Variants) -> Variants:
    """A known mistake that stops where there is a bias."""
    known.change("bias-as-a-row", ("y + bias", "y + bias.reshape(3)"), fact="", question="")
    return known


def test_a_program_that_stops_as_a_known_one_is_named(crashing):
    """However it is written: what reshapes and what unflattens is refused alike."""
    subject = lambda x, w, bias=None: LINEAR(x, w, bias if bias is None else mx.unflatten(bias, 0, (3, 1)))  # noqa: E731
    assert named(crashing, subject) == ["bias-as-a-row"]


@pytest.mark.parametrize(
    "stop",
    [
        lambda: 1 / 0,
        lambda: mx.ones(2) @ mx.ones(3),  # a ValueError too
        lambda: int("x"),
    ],
)
def test_a_program_that_stops_by_something_else_is_not_named(crashing, stop):
    assert named(crashing, lambda x, w, bias=None: LINEAR(x, w, bias if bias is None else stop())) == []


def test_a_program_that_stops_in_other_cases_is_not_named(crashing):
    assert named(crashing, lambda x, w, bias=None: LINEAR(x.reshape(3), w, bias)) == []


def test_a_program_that_stops_everywhere_says_too_little():
    known = Variants(TASK.id)
    known.probe()(lambda p: p(mx.array([1.0, 2.0]), mx.eye(2), mx.ones(2)))
    known.change("x-as-three", ("y = x", "y = x.reshape(3)"), fact="", question="")
    assert named(known, lambda x, w, bias=None: bias.reshape(3)) == []


def test_two_that_fit_are_both_named(known):
    known.wrong("no-bias-either", fact="", question="")(without_bias)
    assert named(known, without_bias) == ["no-bias", "no-bias-either"]


@pytest.fixture
def solution_as_tiny_llm(monkeypatch):
    """In this process the learner's package is the solution."""
    for name in [name for name in sys.modules if name.split(".")[0] == "tiny_llm"]:
        monkeypatch.delitem(sys.modules, name)
    load_package("tiny_llm", SOLUTION)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "tiny_llm"]:
        del sys.modules[name]  # those that were here before come back


@pytest.mark.usefixtures("solution_as_tiny_llm")
def test_a_right_program_on_a_wrong_need_is_told_apart():
    """With the solution's need in place it equals the solution: the need is the culprit, not the program."""
    course = load_course()
    attention, softmax = course.task("1.1.2"), course.task("1.1.1")
    variants = load_variants(attention)
    subject = program(attention.target)
    with installed(softmax.target, lambda x, axis: x - x):
        assert not right(variants, subject)
        assert candidates(variants, subject, [softmax]) == Candidates(culprits=(softmax,))
        no_scale = variants.wrong_programs[0]
        assert candidates(variants, no_scale.program, [softmax]) == Candidates((no_scale,))
    assert right(variants, subject)
    assert candidates(variants, subject, [softmax]) == Candidates()


@pytest.mark.usefixtures("solution_as_tiny_llm")
def test_a_mistake_made_of_the_learners_package_suffers_from_a_wrong_need():
    course = load_course()
    softmax, attention = course.task("1.1.1"), course.task("1.1.2")
    no_scale = load_variants(attention, "tiny_llm").wrong_programs[0].program
    assert named(load_variants(attention), no_scale) == ["no-scale"]
    with installed(softmax.target, lambda x, axis: x - x):
        assert named(load_variants(attention), no_scale) == []


@pytest.mark.usefixtures("solution_as_tiny_llm")
def test_two_wrong_needs_are_both_named_and_no_third():
    """A later need that is right as soon as both are is not blamed, although its solution alone would do."""
    course = load_course()
    block = course.task("1.3.3")
    needs = [course.task(need) for need in course.needs(block.id)]
    variants, subject = load_variants(block), program(block.target)
    softmax, mask = course.task("1.1.1"), course.task("1.3.1")
    wrong_mask = next(v for v in load_variants(mask).wrong_programs if v.name == "keys-by-queries").program
    with installed(softmax.target, lambda x, axis: x - x), installed(mask.target, wrong_mask):
        assert candidates(variants, subject, needs) == Candidates(culprits=(softmax, mask))


@pytest.mark.usefixtures("solution_as_tiny_llm")
def test_what_a_wrong_need_left_in_a_cache_is_forgotten():
    course = load_course()
    rope, angles = course.task("1.2.2"), course.task("1.2.1")
    variants = load_variants(rope)
    with installed(angles.target, lambda dims, seq_len, base: mx.ones((seq_len, dims // 2))):
        assert candidates(variants, program(rope.target), [angles]) == Candidates(culprits=(angles,))
    assert right(variants, program(rope.target))


def test_without_probes_nothing_is_named():
    known = Variants(TASK.id)
    known.wrong("no-bias", fact="", question="")(without_bias)
    assert named(known, without_bias) == []


@pytest.mark.parametrize("task", load_course().tasks(), ids=lambda task: task.id)
def test_facts_and_questions_are_fit_to_print(task):
    """A fact completes a sentence and ends without a full stop; a question is one."""
    for variant in load_variants(task).wrong_programs:
        assert variant.fact
        first = variant.fact.split()[0]  # small, but for code, a size, an acronym and a name
        capital = (
            first in {"True", "RoPE", "Qwen", "Qwen3", "Retry-After"} or first[0] in "DHLSN" or first[:2].isupper()
        )
        assert capital or first[0].islower() or not first[0].isalpha()
        assert first not in {"when", "where", "with", "if", "while"}  # "what you get when where ..." is no sentence
        assert not variant.fact.endswith(".")
        assert variant.question.endswith("?")
        assert len(variant.fact) <= 110
        assert len(variant.question) <= 130


def test_a_program_that_stops_in_every_case_is_not_said_to_refuse():
    def program(n):
        if n == 1:
            raise ValueError
        return [7][n]

    assert refusals(program, [0, 1, 2]).tolist() == [0, 1, 2]
    with pytest.raises(IndexError):
        refusals(program, [2, 3])
