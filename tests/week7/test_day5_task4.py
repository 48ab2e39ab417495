"""Task 7.5.4, merging parallel work, against a formula that marks lines and gaps, and by what a user sees."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.merging import SCENES, merged, told, with_lines

from tiny_llm.workspace import merge
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def check(base, copies, case):
    before = copy.deepcopy((base, copies))
    with noted(case):
        found = merge.merge_copies(base, copies)
    fail_if_different("an input was changed", before, (base, copies), case)
    (changed, conflicts), (mine, refused) = merged(base, copies), told(found)
    fail_if_different("the conflicts are wrong", conflicts, refused, case)
    fail_if_different("the changed files are wrong", changed, mine, case)
    fail_if_different("the order of the files is wrong", [*changed], [*mine], case)


def said(name, base, copies):
    parts = {"base": base} | copies
    files = (f"{part}: " + (", ".join(f"{p} {c[:24]!r}" for p, c in files.items()) or "no files")
             for part, files in parts.items())  # fmt: skip
    return f"{name}; " + "; ".join(files)


@pytest.mark.parametrize("name", SCENES)
def test_task_4_merge_scene(name):
    base, copies = SCENES[name]
    check(base, copies, said(name, base, copies))


@pytest.mark.parametrize("name", SCENES)
def test_task_4_merge_other_order(name):
    """The order of the copies is that of the names in a conflict, and changes nothing else."""
    base, copies = SCENES[name]
    copies = dict(reversed(copies.items()))
    check(base, copies, said(f"{name}, copies in reverse", base, copies))


def test_task_4_merge_several_files():
    case = "all scenes of one base's file at once, each with a name of its own"
    base = {name: files["f"] for name, (files, _) in SCENES.items() if "f" in files}
    copies = {
        part: {name: scene[1][part]["f"] for name, scene in SCENES.items() if "f" in scene[1].get(part, {})}
        for part in ("b", "a")
    }
    check(base, copies, case)


def test_task_4_merge_sweep():
    """Files of many lengths, a change at each end and in the middle."""
    for n in sizes(L=130, C=7):
        base = b"".join(b"line %d\n" % i for i in range(n.L))
        copies = {str(c): {"f": with_lines({c * n.L // n.C: b"copy %d\n" % c}, base)} for c in range(n.C)}
        check({"f": base}, copies, f"a file of {n.L} lines, {n.C} copies, each with another line changed")


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=7).map(b"".join)


@property_test
@given(LINES, st.lists(st.one_of(LINES, st.none()), min_size=1, max_size=3))
def test_task_4_merge_any(base, contents):
    copies = {name: {} if body is None else {"f": body} for name, body in zip("xyz", contents, strict=False)}
    check({"f": base}, copies, said("files of few lines", {"f": base}, copies))


@property_test
@given(st.lists(st.integers(0, 29), max_size=6, unique=True), st.lists(st.integers(0, 29), max_size=6, unique=True))
def test_task_4_merge_far_apart(one, other):
    """Changes that neither meet nor touch are all made."""
    other = [line for line in other if not {line - 1, line, line + 1} & set(one)]
    base = b"".join(b"line %d\n" % i for i in range(30))
    first, second = ({line: b"%s %d\n" % (who, line) for line in lines} for who, lines in ((b"a", one), (b"b", other)))
    case = f"copy a changes the lines {sorted(one)} of 30, copy b the lines {sorted(other)}"
    copies = {"a": {"f": with_lines(first, base)}, "b": {"f": with_lines(second, base)}}
    with noted(case):
        found = merge.merge_copies({"f": base}, copies)
    both = with_lines(first | second, base)
    expected = {"f": both} if both != base else {}
    fail_if_different("the changed files are wrong", expected, dict(found.changed), case)
