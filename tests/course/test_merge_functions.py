"""Upstream's changes and the learner's in one file: example by example, and no written body is ever lost."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.course.random_edits import Play, kept, text

from tiny_llm_course.paths import LEARNER, SOLUTION
from tiny_llm_course.source.merge.functions import Merged, merge

pytestmark = pytest.mark.maintainers
STUB = 'raise NotImplementedError("1.1.1 Norm")'
CALL = '"""Apply."""\n        raise NotImplementedError("1.1.2 Layer")'
BODY = "y = x - x.mean()  # centered\n\n    return y / mx.sqrt((y * y).mean() + eps)"
WRITTEN = (STUB, BODY)
NEW_DOC = ("Normalize x.", "Normalize the last axis of x.")
ADDED = ("def given(", "def other() -> int:\n    return 1\n\n\ndef given(")


def three(mine: list[tuple[str, str]], new: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> Merged:
    """Merge; the text must be the base with the edits `wanted`, and merging once more must change nothing."""
    merged = merge(text(), text(*mine), text(*new))
    assert merged.text == text(*wanted)
    assert merge(text(*new), merged.text, text(*new)) == Merged(merged.text)
    return merged


def test_what_only_one_changed():
    edits = [WRITTEN, ("* 2", "* 3")]
    assert three([], edits, edits).taken == ["norm", "given"]
    assert three(edits, [], edits) == Merged(text(*edits))
    assert three(edits, edits, edits) == Merged(text(*edits))
    merged = three([WRITTEN], [("* 2", "* 3"), ADDED], [WRITTEN, ("* 2", "* 3"), ADDED])
    assert (merged.taken, merged.added, merged.kept) == (["given"], ["other"], [])


def test_a_written_body_gets_a_new_docstring_signature_and_comment():
    head = (
        "def norm(x: mx.array, eps: float = EPS)",
        "# Zhang 2019\ndef norm(x: mx.array, eps: float = 0.1, *, n: int = 1)",
    )
    merged = three([WRITTEN], [NEW_DOC, head], [WRITTEN, NEW_DOC, head])
    assert (merged.taken, merged.kept) == (["norm"], [])


def test_a_body_that_uses_a_renamed_parameter_keeps_its_signature():
    renamed = ("def norm(x: mx.array, eps:", "def norm(x: mx.array, epsilon:")
    merged = three([WRITTEN], [renamed, NEW_DOC], [WRITTEN])
    assert kept(merged) == {"norm": "upstream changed its signature; your body uses eps, now gone"}
    unused = (STUB, "return x")
    three([unused], [renamed, NEW_DOC], [unused, renamed, NEW_DOC])


def test_what_both_changed_stays_the_learners_part_by_part():
    own = ("def norm(x: mx.array, eps: float = EPS) ->", "def norm(x: mx.array, eps: float = 2) ->")
    theirs = ("def norm(x: mx.array, eps: float = EPS) ->", "def norm(x: mx.array, eps: float = 3) ->")
    merged = three([WRITTEN, own], [theirs, NEW_DOC], [WRITTEN, own, NEW_DOC])
    assert kept(merged) == {"norm": "upstream changed its signature"}
    merged = three([("Normalize x.", "Mine.")], [NEW_DOC], [("Normalize x.", "Mine.")])
    assert kept(merged) == {"norm": "upstream changed its docstring"}
    merged = three(
        [("* 2", "* 3")], [("* 2", "* 4"), ("Provided.", "Given.")], [("* 2", "* 3"), ("Provided.", "Given.")]
    )
    assert kept(merged) == {"given": "upstream changed its body"}
    merged = three([("def given(x:", "def given(z:")], [("* 2", "* 4")], [("def given(x:", "def given(z:")])
    assert kept(merged) == {"given": "you and upstream both changed it"}
    merged = three([("1e-6", "1e-5")], [("1e-6", "1e-3")], [("1e-6", "1e-5")])
    assert kept(merged) == {"EPS": "you and upstream both changed it"}


def test_methods_are_merged_one_by_one():
    mine = (CALL, '"""Apply."""\n        return x')
    new = [("Keep the size.", "Keep it."), ("A layer.", "One layer."), ('"""Apply."""', '"""Apply it."""')]
    merged = three([mine], new, [mine, *new])
    assert merged.taken == ["Layer.__init__", "Layer.__call__"]
    more = ("    def __call__", "    def size(self) -> int:\n        return 1\n\n    def __call__")
    merged = three([mine], [more], [mine, more])
    assert merged.added == ["Layer.size"]


def test_a_stub_is_upstreams_however_it_is_written():
    single = (STUB, "raise NotImplementedError('1.1.1 Norm')")
    renumbered = (STUB, 'raise NotImplementedError("1.1.3 Norm")')
    three([single], [renumbered, NEW_DOC], [renumbered, NEW_DOC])
    plan = (STUB, f"# first the mean\n    {STUB}")
    three([plan], [renumbered, NEW_DOC], [plan, NEW_DOC])
    above = ("def norm", "# ask about this\ndef norm")
    three([above, single], [renumbered], [above, renumbered])


def test_imports_are_united():
    mine = [
        ("import linear", "import linear, softmax"),
        ("import mlx.core as mx", "import math\n\nimport mlx.core as mx"),
    ]
    new = [("import linear", "import linear, silu"), ("EPS = ", "from .config import Config\n\nEPS = ")]
    wanted = [
        mine[1],
        ("import linear", "import linear, silu, softmax"),
        ("EPS = ", "from .config import Config\n\nEPS = "),
    ]
    three(mine, new, wanted)


def test_imports_that_the_learner_keeps_apart():
    mine = ("from .basics import linear", "from .basics import softmax\n\nfrom .basics import linear")
    new = ("import linear", "import linear, silu")
    three([mine], [new], [mine, new])


def test_an_import_goes_only_if_nobody_uses_it():
    gone = [("\nfrom .basics import linear\n", ""), ("linear(x) * 2", "x")]
    three([WRITTEN], gone, [WRITTEN, *gone])
    uses = (STUB, "return linear(x)")
    merged = merge(text(), text(uses), text(*gone))
    assert "from .basics import linear" in merged.text
    assert "return linear(x)" in merged.text
    moved = ("from .basics", "from .projections")
    three([uses], [moved], [uses, moved])


def test_the_learners_own_name_is_not_bound_anew():
    own = ("from .basics import linear", "from .basics import linear\nfrom .mine import silu")
    merged = merge(text(), text(own), text(("import linear", "import linear, silu"), ("* 2", "* 3")))
    assert merged.text == text(own, ("* 2", "* 3"))
    shadow = [("from .basics", "from .mine import other\nfrom .basics")]
    merged = three(shadow, [ADDED], shadow)
    assert kept(merged) == {"other": "upstream has one of that name, too"}


def test_what_upstream_removed():
    function = text()[text().index("def norm") : text().index("class Layer")]
    gone = (function, "")
    assert three([("* 2", "* 3")], [gone], [("* 2", "* 3"), gone]).removed == ["norm"]
    merged = three([WRITTEN], [gone], [WRITTEN])
    assert kept(merged) == {"norm": "upstream removed it; you wrote it"}
    merged = merge(text(), text((CALL, '"""Apply."""\n        return norm(x)')), text(gone))
    assert merged.text == text((CALL, '"""Apply."""\n        return norm(x)'))
    assert kept(merged) == {"norm": "upstream removed it; your code uses it"}


def test_what_the_learner_deleted_stays_deleted():
    function = text()[text().index("def norm") : text().index("class Layer")]
    three([(function, "")], [("* 2", "* 3")], [(function, ""), ("* 2", "* 3")])
    merged = three([(function, "")], [NEW_DOC], [(function, "")])
    assert kept(merged) == {"norm": "you deleted it; upstream changed it"}


def test_helpers_order_and_comments_stay():
    source = text(WRITTEN)
    norm = source[source.index("def norm") : source.index("class Layer")]
    mine = source.replace(norm, "") + f"\n\n# mine\n_TABLE = [1]\n\n\n{norm.rstrip()}\n\n# the end\n"
    merged = merge(text(), mine, text(NEW_DOC, ADDED)).text
    assert merged == text(NEW_DOC, ADDED, source=mine)


def test_definitions_on_one_line():
    mine = [("EPS = 1e-6", "EPS = 1e-6; TWO = 2\n\n\nclass Mine: pass\n\n\ndef mine(): return 1")]
    three(mine, [NEW_DOC], [*mine, NEW_DOC])


def test_a_file_without_a_base():
    merged = merge(None, text(WRITTEN), text(NEW_DOC, ADDED))
    assert merged.text == text(WRITTEN, ADDED)
    assert kept(merged) == {"norm": "upstream has one of that name, too"}
    assert merge(None, text(), text(NEW_DOC)).text == text(NEW_DOC)


def test_overloads_do_not_hide_a_written_function():
    overloads = ("def norm(x", '@overload\ndef norm(x: int) -> int:\n    """One."""\n    ...\n\n\ndef norm(x')
    written = (STUB, "return x")
    merged = three([written], [overloads], [written])
    assert set(kept(merged)) == {"norm", "norm#2"}


def test_a_new_method_does_not_end_up_inside_another_one():
    """The learner indents by two spaces, upstream by four."""
    mine = "\n".join(re.sub(r"^(    )+", lambda m: m[0][::2], line) for line in text(WRITTEN).split("\n"))
    more = ("    def __call__", "    def size(self):\n        return 1\n\n    def __call__")
    merged = merge(text(), mine, text(NEW_DOC, more))
    assert merged.text == mine
    assert kept(merged) == {"the whole file": "upstream's changes do not fit into yours"}


@pytest.mark.parametrize("damage", ["def broken(:\n", "x = (\n", "'''\n", "\0"])
def test_what_is_not_python_is_refused(damage):
    with pytest.raises(SyntaxError):
        merge(text(), text() + damage, text(NEW_DOC))


@pytest.mark.parametrize("file", sorted(SOLUTION.glob("*.py")), ids=lambda file: file.name)
def test_a_solved_file_takes_the_docstrings_of_new_stubs(file):
    """The solution as a learner's file: docstrings of upstream's follow, and all code stays to the letter."""
    stub, solved = (LEARNER / file.name).read_text(encoding="utf-8"), file.read_text(encoding="utf-8")
    pattern = re.compile(r'^( *)"""(?=[A-Z])', re.MULTILINE)
    new = pattern.sub(r'\1"""Now: ', stub)
    merged = merge(stub, solved, new)
    assert merged.kept == []
    assert merged.text.replace('"""Now: ', '"""') == solved
    assert merged.text.count('"""Now: ') == new.count('"""Now: ')


@settings(max_examples=300, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32), rounds=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=4)
)
def test_no_written_body_is_ever_lost(seed, rounds):
    play = Play(seed)
    for learner_edits, upstream_edits in rounds:
        for _ in range(learner_edits):
            play.learner()
        for _ in range(upstream_edits):
            play.upstream()
        play.sync()
