"""A learner who writes in many forms, in several files, and upstream, which also renames and deletes files.

Every word that the learner writes is a mark (`mine7`): none may be lost. `random_edits` knows which body belongs where.
"""

import ast
import re
from pathlib import Path

from tests.course.course_and_clone import LEARNER, git
from tests.course.random_edits import Play, functions, put_lines, segment, top

from tiny_llm_course.source.merge.functions import merge

# Statements of a module; {0} is a mark.
STATEMENTS = (
    "async def {0}():\n    return {0}",
    "# {0}\n\n# {0} again",
    "if {0}:\n    def f{0}(x):\n        return {0}\nelse:\n    f{0} = None",
    "{0} = [\n    1,\n]  # {0}",
    "{0}: int",
    "try:\n    import {0}\nexcept ImportError:\n    {0} = None",
    "norm = lambda x: {0}",
    "def norm(x):\n    return {0}",
    "class {0}:\n    class norm:\n        def norm(self): return {0}",
    'if __name__ == "__main__":\n    print({0})',
)
# The ends of a body.
ENDS = ("# {0}", "{0} = 1; {0} += 2", "def {0}():\n    return 1", "class {0}:\n    def norm(self):\n        return {0}")


def marks(source: str) -> set[str]:
    """What the learner wrote but for signatures, docstrings and decorators: a stub that upstream removes takes them."""
    written = [line for line in source.split("\n") if not re.match(r' *(@|"""|((async )?def .*:$))', line.rstrip())]
    return set(re.findall(r"mine\d+", "\n".join(written)))


class Writer(Play):
    """One file."""

    by = "mine"

    def fresh(self) -> str:
        self.number += 1
        return f"{self.by}{self.number}"

    def learner(self) -> None:
        self.by = "mine"
        before = self.mine
        if self.random.random() < 0.4:
            super().learner()
        else:
            self.write()
        if not parses(self.mine):  # the edits expect functions of several lines
            self.mine = before

    def write(self) -> None:
        word, name = self.fresh(), self.pick(self.mine)
        act = self.random.choice(
            ["statement"] * 4 + ["end"] * 2 + ["decorate", "one line", "rename", "no newline", "tail"]
        )
        if act == "statement":
            after = self.random.choice([node.end_lineno for node in ast.parse(self.mine).body])
            new = self.random.choice(STATEMENTS).format(word).split("\n")
            self.mine = put_lines(self.mine, after + 1, after, ["", *new, ""])
        elif act == "no newline":
            self.mine = self.mine.rstrip("\n")
        elif act == "tail":
            self.mine += f"\n\n# {word}\n"
        elif name:
            node = functions(self.mine)[name]
            margin = " " * node.col_offset
            if act == "end":
                new = [f"{margin}    {line}" for line in self.random.choice(ENDS).format(word).split("\n")]
                self.mine = put_lines(self.mine, node.end_lineno + 1, node.end_lineno, new)
            elif act == "decorate":
                self.mine = put_lines(self.mine, top(node), top(node) - 1, [f"{margin}@cached({word!r})"])
            elif act == "one line":
                new = [f"{margin}def {node.name}({'self, ' * ('.' in name)}x): return {word}"]
                self.mine = put_lines(self.mine, node.lineno, node.end_lineno, new)
            elif act == "rename" and not node.name.startswith("__"):
                new = segment(self.mine, node).replace(f"def {node.name}(", f"def {word}(", 1).split("\n")
                self.mine = put_lines(self.mine, top(node), node.end_lineno, new)

    def upstream(self) -> None:
        self.by = "word"
        before = self.new
        name = self.pick(self.new)
        if self.random.random() < 0.7 or not name or "." in name:
            super().upstream()
        else:
            node, word = functions(self.new)[name], self.fresh()
            line = segment(self.new, node).replace(f"def {name}(", f"def {self.random.choice([name, word])}(", 1)
            above = self.random.choice([[], [f"# {word}"], [f"@up{word}"]])
            self.new = put_lines(self.new, top(node), node.end_lineno, [*above, *line.split("\n")])
        if not parses(self.new):
            self.new = before

    def sync(self) -> None:
        merged = merge(self.base, self.mine, self.new)
        assert marks(self.mine) <= marks(merged.text), merged.text
        assert parses(merged.text)
        assert merge(self.new, merged.text, self.new).text == merged.text
        self.base, self.mine = self.new, merged.text


class Checkouts:
    """A course with some files and a learner's clone of it, both edited by turns."""

    def __init__(self, seed: int, course: Path, clone: Path, names: tuple[str, ...]) -> None:
        self.writers = {name: Writer(seed + number) for number, name in enumerate(names)}
        self.random = next(iter(self.writers.values())).random
        self.course, self.clone = course / LEARNER, clone / LEARNER

    def edit(self) -> None:
        """A round: both edit, and one of them does something to a file."""
        ends = self.random.choice(["\n", "\n", "\r\n"])
        for name, writer in self.writers.items():
            mine, new = self.clone / f"{name}.py", self.course / f"{name}.py"
            if mine.exists() and parses(text := mine.read_text(encoding="utf-8")):
                writer.mine = text
                for _ in range(self.random.randint(0, 5)):
                    writer.learner()
                mine.write_text(writer.mine, encoding="utf-8", newline=ends)
            if new.exists():
                writer.new = new.read_text(encoding="utf-8")
                for _ in range(self.random.randint(0, 3)):
                    writer.upstream()
                new.write_text(writer.new, encoding="utf-8", newline="\n")
        self.act()
        git(self.course, "add", "-A", "..")
        git(self.course, "commit", "-q", "--allow-empty", "-m", "change")

    def act(self) -> None:
        name = self.random.choice(list(self.writers))
        mine, new = self.clone / f"{name}.py", self.course / f"{name}.py"
        act = self.random.choice(["rename", "delete", "rename mine", "delete mine", "damage", "commit", "add", "both"])
        if act == "rename" and new.exists():
            new.rename(self.course / f"{name}_{self.random.randint(0, 99)}.py")
        elif act == "delete":
            new.unlink(missing_ok=True)
        elif act == "rename mine" and mine.exists():
            mine.rename(self.clone / f"my_{name}.py")
        elif act == "delete mine":
            mine.unlink(missing_ok=True)
        elif act == "damage" and mine.exists():
            mine.write_text(mine.read_text(encoding="utf-8") + "\nmine0 = (\n", encoding="utf-8")
        elif act in ("commit", "add"):
            git(self.clone, "add", "-A", "..")
            if act == "commit":
                git(self.clone, "commit", "-q", "--allow-empty", "-m", "mine")
        elif act == "both":
            (self.clone / "cache.py").write_text("def f(x):\n    return mine1\n", encoding="utf-8")
            (self.course / "cache.py").write_text(
                'def g():\n    raise NotImplementedError("2.1.1")\n', encoding="utf-8"
            )

    def marks(self) -> set[str]:
        """All that the learner's files hold."""
        return set().union(*(marks(file.read_text(encoding="utf-8")) for file in self.clone.rglob("*.py")))


def parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
