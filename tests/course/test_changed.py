"""A known mistake as a change of the solution: where the old words stand, and what program comes out."""

import sys

import mlx.core as mx
import pytest

from tiny_llm_course.course.entities import Target
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.packages import SOLUTION_NAME, load_solution, program
from tiny_llm_course.programs.patched import patched, source_of
from tiny_llm_course.source.edits import DoesNotApply, changed
from tiny_llm_course.testkit.naming import mistakes
from tiny_llm_course.testkit.variants import Variants, load_variants

LOOP = """\
for i in range(3):
    if i:
        first(i)

        second(i)
"""
TWO_LINES = """
    first(i)

    second(i)
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("range(3)", "range(4)", 0, "for i in range(4):"),
        ("first(i)", "i += 1\nfirst(i)", 2, "        i += 1\n        first(i)"),
        (TWO_LINES, "both(i)", 2, "        both(i)"),
        (TWO_LINES, "while i:\n    i -= 1", 2, "        while i:\n            i -= 1"),
    ],
)
def test_a_place_of_one_line_or_several_is_changed(old, new, line, expected):
    assert changed(LOOP, [(old, new)]).split("\n", line)[line].startswith(expected)
    assert changed(LOOP, [(old, new)]).startswith("for i in range")


@pytest.mark.parametrize(("old", "times"), [("third(i)", 0), ("(i)", 2), ("first(i)\nsecond(i)", 0)])
def test_old_words_stand_exactly_once(old, times):
    with pytest.raises(DoesNotApply, match=f"occurs {times} times"):
        changed(LOOP, [(old, "")])


def test_changes_are_made_one_after_the_other():
    assert "range(5)" in changed(LOOP, [("range(3)", "range(4)"), ("range(4)", "range(5)")])
    with pytest.raises(DoesNotApply):
        changed(LOOP, [("range(3)", "range(4)"), ("range(3)", "range(5)")])


def test_the_text_is_the_target_and_its_helpers_on_their_lines():
    text = (SOLUTION / "positional_encoding.py").read_text(encoding="utf-8").split("\n")
    rope = source_of(Target("positional_encoding", "RoPE")).split("\n")
    assert {line for line in rope if line} < set(text)
    assert rope.index("class RoPE:") == text.index("class RoPE:")
    assert any(line.startswith("def _tables") for line in rope)
    assert not any(line.startswith("def rotation_angles") for line in rope)  # another target


def test_a_helper_is_changed_for_its_target_alone():
    load_solution()
    target = Target("positional_encoding", "RoPE")
    backwards = patched(target, [("mx.sin(angles)", "-mx.sin(angles)")], SOLUTION_NAME, "backwards")
    right, x = program(target, SOLUTION_NAME), mx.ones((1, 2, 1, 2))
    assert mx.allclose(right(2, 2)(backwards(2, 2)(x)), x)


def test_a_given_class_from_which_the_target_derives_is_changed_for_it_alone():
    load_solution()
    target, base = Target("qwen3_cached.model", "Qwen3CachedModel"), Target("qwen3_cached.decoder", "Decoder")
    given, own = source_of(target).split("class Qwen3CachedModel(Decoder):")
    assert "return h + self.mlp" in given
    assert "x[:, -1:]" in own
    changes = [("return h + self.mlp", "return self.mlp"), ("x[:, -1:]", "x[:, :1]")]
    broken = patched(target, changes, SOLUTION_NAME, "broken")
    assert not issubclass(broken, program(base, SOLUTION_NAME))
    assert [each.__name__ for each in broken.__mro__] == ["Qwen3CachedModel", "Decoder", "object"]


def test_a_method_is_a_function():
    load_solution()
    target = Target("tokenizer", "ByteLevelBPE.decode")
    strict = patched(target, [('errors="replace"', 'errors="ignore"')], SOLUTION_NAME, "ignored")
    tokenizer = program(Target("tokenizer", "ByteLevelBPE"), SOLUTION_NAME)({"a": 0, "\u0123": 1}, [])
    assert (tokenizer.decode([0, 1]), strict(tokenizer, [0, 1])) == ("a\ufffd", "a")


def test_it_is_a_line_of_the_solution_that_fails():
    load_solution()
    broken = patched(Target("basics", "softmax"), [("return exponentials", "return nothing")], SOLUTION_NAME, "broken")
    with pytest.raises(NameError) as raised:
        broken(mx.ones(3), 0)
    last = raised.traceback[-1]
    assert last.path == SOLUTION / "basics.py"
    assert "return exponentials" in last.path.read_text(encoding="utf-8").split("\n")[last.lineno]


def known() -> Variants:
    load_solution()
    known = Variants("1.1.3")
    known.probe()(lambda p: p(mx.array([1.0, 2.0]), mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.ones(2)))
    known.change("not-transposed", ("w.swapaxes(-1, -2)", "w"), fact="", question="")
    known.change("no-bias", ("y + bias", "y"), fact="", question="")
    known.change("twice-the-bias", ("y + bias", "y + 2 * bias"), fact="", question="")
    known.change("nowhere", ("x * w", "x"), fact="", question="")
    known.change("not-python", ("y + bias", "y +"), fact="", question="")
    known.wrong("by-hand", fact="", question="")(lambda x, w, bias: x @ w)
    return known


def test_a_mistake_that_is_a_change_is_named():
    assert [variant.name for variant in mistakes(known(), lambda x, w, bias: x @ w.T)] == ["no-bias"]


def test_a_change_that_does_not_apply_is_matched_by_nothing_and_says_so():
    _, _, _, nowhere, not_python, _ = known().wrong_programs
    with pytest.raises(DoesNotApply, match=r"the change nowhere: 'x \* w' occurs 0 times in basics:linear, not once"):
        _ = nowhere.program
    with pytest.raises(DoesNotApply, match=r"the change not-python: line \d+ of basics:linear is not Python any more"):
        _ = not_python.program


def test_two_changes_make_a_program_with_both():
    pairs = {pair.name: pair for pair in known().pairs}
    both = pairs["not-transposed + no-bias"].program
    assert both(mx.ones(1), mx.array([[3.0]]), mx.ones(1)).item() == 3
    for name in ("no-bias + twice-the-bias", "no-bias + by-hand"):  # the place has been taken; it has none
        with pytest.raises(DoesNotApply):
            _ = pairs[name].program


def test_what_two_make_together_is_a_mistake_of_the_task():
    for task in load_course().tasks():
        variants = load_variants(task)
        names = {variant.name for variant in variants.wrong_programs}
        assert {name for pair, third in variants.thirds.items() for name in (*pair, third)} <= names


def test_known_programs_share_helpers_without_leaving_a_path():
    before = list(sys.path)
    load_variants(load_course().task("1.1.1"))
    assert sys.path == before
