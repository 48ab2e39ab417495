"""Upstream's changes and the learner's in one file: example by example, and no written body is ever lost."""

import ast
import random
import re
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiny_llm_course.merge_functions import Merged, merge
from tiny_llm_course.paths import LEARNER, SOLUTION

BASE = '''
"""Norms."""

import mlx.core as mx

from .basics import linear

EPS = 1e-6


def norm(x: mx.array, eps: float = EPS) -> mx.array:
    """Normalise x."""
    raise NotImplementedError("1.1.1 Norm")


class Layer:
    """A layer."""

    def __init__(self, size: int) -> None:
        """Keep the size."""
        raise NotImplementedError("1.1.2 Layer")

    def __call__(self, x: mx.array) -> mx.array:
        """Apply."""
        raise NotImplementedError("1.1.2 Layer")


def given(x: mx.array) -> mx.array:
    """Provided."""
    return linear(x) * 2
'''
STUB = 'raise NotImplementedError("1.1.1 Norm")'
CALL = '"""Apply."""\n        raise NotImplementedError("1.1.2 Layer")'
BODY = "y = x - x.mean()  # centred\n\n    return y / mx.sqrt((y * y).mean() + eps)"
WRITTEN = (STUB, BODY)
NEW_DOC = ("Normalise x.", "Normalise the last axis of x.")
ADDED = ("def given(", "def other() -> int:\n    return 1\n\n\ndef given(")


def text(*edits: tuple[str, str], source: str = BASE) -> str:
    for find, put in edits:
        assert find in source
        source = source.replace(find, put)
    return dedent(source).lstrip("\n")


def three(mine: list[tuple[str, str]], new: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> Merged:
    """Merge; the text must be the base with the edits `wanted`, and merging once more must change nothing."""
    merged = merge(text(), text(*mine), text(*new))
    assert merged.text == text(*wanted)
    assert merge(text(*new), merged.text, text(*new)) == Merged(merged.text)
    return merged


def kept(merged: Merged) -> dict[str, str]:
    return {kept.name: kept.reason for kept in merged.kept}


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
    assert kept(merged) == {"norm": "upstream changed its signature; your body uses eps"}
    unused = (STUB, "return x")
    three([unused], [renamed, NEW_DOC], [unused, renamed, NEW_DOC])


def test_what_both_changed_stays_the_learners_part_by_part():
    own = ("def norm(x: mx.array, eps: float = EPS) ->", "def norm(x: mx.array, eps: float = 2) ->")
    theirs = ("def norm(x: mx.array, eps: float = EPS) ->", "def norm(x: mx.array, eps: float = 3) ->")
    merged = three([WRITTEN, own], [theirs, NEW_DOC], [WRITTEN, own, NEW_DOC])
    assert kept(merged) == {"norm": "upstream changed its signature"}
    merged = three([("Normalise x.", "Mine.")], [NEW_DOC], [("Normalise x.", "Mine.")])
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


# What follows plays a learner and upstream at random. Both edit text; where it stands is read with ast.


def every_function(source):
    for node in ast.parse(source).body:
        for inner in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            if isinstance(inner, ast.FunctionDef):
                yield inner.name if inner is node else f"{node.name}.{inner.name}", inner


def functions(source):
    return dict(every_function(source))


def once(source):
    """The names that are defined once; overloads and properties are not."""
    names = [name for name, _ in every_function(source)]
    return {name for name in names if names.count(name) == 1}


def top(node):
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def segment(source, node):
    return "\n".join(source.split("\n")[top(node) - 1 : node.end_lineno])


def whole(source, node):
    """The function with the comments that end it."""
    below = "\n".join(source.split("\n")[node.end_lineno :])
    return segment(source, node) + re.match(r"( +#.*\n)*", below)[0]


def put_lines(source, first, last, lines):
    every = source.split("\n")
    every[first - 1 : last] = lines
    return "\n".join(every)


def rewrite(source, name, body):
    """Give a function this body; its docstring stays."""
    node = functions(source)[name]
    margin = " " * (node.col_offset + 4)
    first = node.body[0]
    start = first.end_lineno + 1 if isinstance(first, ast.Expr) else first.lineno
    return put_lines(source, start, node.end_lineno, [margin + line for line in body])


class Play:
    """A learner's file and upstream's, edited by turns."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.number = 0
        self.base = self.new = self.mine = text()
        self.bodies: dict[str, list[str]] = {}
        self.words: set[str] = set()  # the learner's imports, comments and constants

    def fresh(self):
        self.number += 1
        return f"word{self.number}"

    def pick(self, source):
        names = list(functions(source))
        return self.random.choice(names) if names else None

    def learner(self):
        word, name = self.fresh(), self.pick(self.mine)
        act = self.random.choice(
            ["write"] * 4
            + ["class", "property", "helper", "import", "comment", "delete", "reorder", "signature", "docstring"]
        )
        if act == "write" and name:
            arguments = [argument.arg for argument in functions(self.mine)[name].args.args]
            first = f"{word} = {self.random.choice([*arguments, '0'])}  # {word}"
            inner = [f"def inner({word}=1):", f'    """{word}"""', f"    return {word}", ""]
            self.bodies[name] = [first, *self.random.choice([inner, [], [f'{word} += """', '"""']]), f"return {word}"]
            self.mine = rewrite(self.mine, name, self.bodies[name])
        elif act == "helper":
            self.bodies[word] = [f"return norm({word})", "# end of it"][: self.random.randint(1, 2)]
            lines = ["", "", f"def {word}({word}):", *(f"    {line}" for line in self.bodies[word]), ""]
            after = self.random.choice([node.end_lineno for node in ast.parse(self.mine).body])
            # A comment below a definition belongs to it: what follows must not come between.
            while self.mine.split("\n")[after : after + 1] and self.mine.split("\n")[after].startswith(" "):
                after += 1
            self.mine = put_lines(self.mine, after + 1, after, lines)
        elif act == "class":
            self.bodies[f"C{word}.run"] = [f"return {word}"]
            after = self.random.choice([node.end_lineno for node in ast.parse(self.mine).body])
            lines = [
                "",
                f"class C{word}(object):",
                "    size = 1",
                "",
                "    def run(self):",
                f"        return {word}",
                "",
            ]
            self.mine = put_lines(self.mine, after + 1, after, lines)
        elif act == "property" and "Layer.__call__" in functions(self.mine):
            end = functions(self.mine)["Layer.__call__"].end_lineno
            self.bodies[f"Layer.{word}"] = [f"self.{word}_ = value"]
            getter = ["", "    @property", f"    def {word}(self):", "        return 1"]
            setter = ["", f"    @{word}.setter", f"    def {word}(self, value):", f"        self.{word}_ = value"]
            self.mine = put_lines(self.mine, end + 1, end, [*getter, *setter])
        elif act == "import":
            line = self.random.choice(
                [f"import {word}", f"from .basics import {word}", f"from .{word} import thing as {word}"]
            )
            self.mine = put_lines(self.mine, 2, 1, ["", line])
            self.words.add(f"import {word}" if line.startswith("import") else word)
        elif act == "comment" and name:
            node = functions(self.mine)[name]
            self.mine = put_lines(self.mine, top(node), top(node) - 1, [" " * node.col_offset + f"# {word}"])
        elif act == "delete" and name and name not in self.bodies:
            node = functions(self.mine)[name]
            if node.col_offset == 0:
                self.mine = put_lines(self.mine, top(node), node.end_lineno, [])
        elif act == "reorder":
            nodes = [node for node in functions(self.mine).values() if node.col_offset == 0]
            if len(nodes) > 1:
                one, other = sorted(self.random.sample(nodes, 2), key=lambda node: node.lineno)
                texts = segment(self.mine, one).split("\n"), segment(self.mine, other).split("\n")
                self.mine = put_lines(self.mine, top(other), other.end_lineno, texts[0])
                self.mine = put_lines(self.mine, top(one), one.end_lineno, texts[1])
        elif act == "signature" and name:
            self.mine = self.edit_signature(self.mine, name, word)
        elif act == "docstring" and name:
            self.mine = self.edit_docstring(self.mine, name, word)

    def upstream(self):
        word, name = self.fresh(), self.pick(self.new)
        act = self.random.choice(
            ["docstring"] * 2
            + ["signature", "add", "method", "remove", "reorder", "import", "unimport", "given", "twice"]
        )
        if act == "docstring" and name:
            self.new = self.edit_docstring(self.new, name, word)
        elif act == "signature" and name:
            self.new = self.edit_signature(self.new, name, word)
        elif act == "add":
            stub = ["", "", f"def new_{word}(x):", f'    """{word}."""', f'    raise NotImplementedError("{word}")', ""]
            after = self.random.choice([node.end_lineno for node in ast.parse(self.new).body])
            self.new = put_lines(self.new, after + 1, after, stub)
        elif act == "method" and "Layer.__init__" in functions(self.new):
            end = functions(self.new)["Layer.__init__"].end_lineno
            self.new = put_lines(
                self.new, end + 1, end, ["", f"    def {word}(self):", f'        raise NotImplementedError("{word}")']
            )
        elif act == "remove" and name and not name.startswith("Layer"):
            node = functions(self.new)[name]
            self.new = put_lines(self.new, top(node), node.end_lineno, [])
        elif act == "reorder":
            nodes = [node for node in functions(self.new).values() if node.col_offset == 0]
            if len(nodes) > 1:
                one, other = sorted(self.random.sample(nodes, 2), key=lambda node: node.lineno)
                texts = segment(self.new, one).split("\n"), segment(self.new, other).split("\n")
                self.new = put_lines(self.new, top(other), other.end_lineno, texts[0])
                self.new = put_lines(self.new, top(one), one.end_lineno, texts[1])
        elif act == "import":
            self.new = self.new.replace("import linear", f"import {word}, linear")
        elif act == "unimport":
            self.new = re.sub(r"import \w+, ", "import ", self.new, count=1)
        elif act == "twice" and name and "." not in name:
            node = functions(self.new)[name]
            self.new = put_lines(self.new, top(node), top(node) - 1, ["@overload", f"def {name}(x):", "    ...", ""])
        elif act == "given" and "given" in functions(self.new):
            self.new = rewrite(self.new, "given", [f"return linear(x) * {self.number}"])

    def edit_docstring(self, source, name, word):
        node = functions(source)[name]
        if ast.get_docstring(node) is None:
            return source
        doc = [" " * (node.col_offset + 4) + f'"""{word}."""']
        return put_lines(source, node.body[0].lineno, node.body[0].end_lineno, doc)

    def edit_signature(self, source, name, word):
        node = functions(source)[name]
        start = "self, " * ("." in name)
        names = self.random.choice(["x", f"x, eps=0, {word}=1", word])
        line = " " * node.col_offset + f"def {node.name}({start}{names}):"
        return put_lines(source, node.lineno, node.body[0].lineno - 1, [line])

    def ends(self, source, node, code):
        margin = " " * (node.col_offset + 4)
        return segment(source, node).split("\n")[-len(code) :] == [margin + line for line in code]

    def sync(self):
        before, stubs = functions(self.mine), functions(self.new)
        untouched = {
            name
            for name in once(self.base) & once(self.mine) & once(self.new)
            if whole(self.mine, before[name]) == whole(self.base, functions(self.base)[name])
        }
        comments = set(re.findall(r"# word\d+", self.mine))
        merged = merge(self.base, self.mine, self.new)
        after = functions(merged.text)
        for name, body in self.bodies.items():
            code = [line for line in body if not line.startswith("#")]
            assert any(
                self.ends(merged.text, node, code) for other, node in every_function(merged.text) if other == name
            ), (
                name,
                merged,
            )
        assert set(re.findall(r"# word\d+", merged.text)) >= comments
        for word in self.words:
            assert word in merged.text
        for name in stubs.keys() - functions(self.base).keys() - before.keys():
            assert name in after, f"{name} is new and missing"
        assert "the whole file" not in kept(merged), merged
        for name in untouched:
            if segment(self.mine, before[name]) != segment(self.new, stubs[name]):
                assert segment(merged.text, after[name]) == segment(self.new, stubs[name]), name
        assert merge(self.new, merged.text, self.new).text == merged.text
        self.base, self.mine = self.new, merged.text


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
