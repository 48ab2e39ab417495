"""A learner and upstream who edit a module at random. Both edit text; where it stands is read with ast."""

import ast
import random
import re
from textwrap import dedent

from tiny_llm_course.source.merge.functions import Merged, merge

BASE = '''
"""Norms."""

import mlx.core as mx

from .basics import linear

EPS = 1e-6


def norm(x: mx.array, eps: float = EPS) -> mx.array:
    """Normalize x."""
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


def text(*edits: tuple[str, str], source: str = BASE) -> str:
    for find, put in edits:
        assert find in source
        source = source.replace(find, put)
    return dedent(source).lstrip("\n")


def kept(merged: Merged) -> dict[str, str]:
    return {kept.name: kept.reason for kept in merged.kept}


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
