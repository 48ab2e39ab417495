"""Python: stubs by the syntax tree, merges function by function."""

from collections.abc import Collection, Mapping

from ..course.entities import Target, Task
from .language import Language, MergeLines, Reach
from .merge.functions import Merged, merge
from .parsing import parse
from .reach import definitions_by_name, reach
from .reset import is_python, reset_target
from .stubs import Signature, listing, signatures, stub_source
from .text import decorated_line, end_line, indent


class Python(Language):
    """A target is a function, a method or a class."""

    fence = "python"

    def stub(self, text: str, tasks: Mapping[str, Task], solved: Collection[str], needed: Collection[Target]) -> str:
        """Replace bodies by `raise NotImplementedError("1.1.1 Softmax")`."""
        return stub_source(text, {name: task for name, task in tasks.items() if name not in solved}, needed)

    def holds_stub(self, text: str, task: Task) -> bool:
        """Return whether a raise is left that is neither in a comment nor after a return. The text need not parse."""
        stub = f'raise NotImplementedError("{task.label}")'
        lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
        return any(line.strip() == stub and not _follows_return(line, lines[:i]) for i, line in enumerate(lines))

    def reach(self, text: str, file: str, name: str | None, targets: Mapping[str, Collection[str]]) -> Reach:
        """Follow the names that the code mentions and the imports of the learner's own files."""
        return reach(text, file, name, targets)

    def span(self, text: str, name: str) -> tuple[int, int] | None:
        """Return the lines of the definition in force, with its decorators."""
        node = definitions_by_name(text).get(name)
        return (decorated_line(node), end_line(node)) if node else None

    def line(self, text: str, name: str) -> int | None:
        """Return the line with `def` or `class`."""
        node = definitions_by_name(text).get(name)
        return node.lineno if node else None

    def fault(self, text: str) -> str:
        """Return the parser's message."""
        try:
            parse(text.encode(errors="surrogateescape"))
        except SyntaxError as error:
            return f":{error.lineno}" * (error.lineno is not None) + f" is not Python: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return f" is not Python: {error}"
        return ""

    def merge(self, base: str | None, mine: str, new: str, merge_lines: MergeLines) -> Merged:
        """Merge definition by definition, never by lines."""
        return merge(base, mine, new)

    def reset(self, text: str, stub: str, name: str) -> tuple[str, str]:
        """Restore a definition, at its place among the others if it is gone."""
        if not is_python(text):
            raise ValueError("is not Python")
        after, missing = reset_target(text, stub, name)
        if after != text and not is_python(after):
            raise ValueError("does not take the stub where it would stand")
        return after, missing

    def listing(self, text: str, name: str) -> str:
        """Return the signature and docstring."""
        return listing(text, name)

    def signatures(self, text: str, name: str) -> Mapping[str, Signature]:
        """Return those of the target and its methods."""
        return {part: one for part, one in signatures(text).items() if f"{part}.".startswith(f"{name}.")}


def _follows_return(line: str, above: list[str]) -> bool:
    """Return whether the previous statement of the same block is a return, perhaps over several lines."""
    for other in reversed(above):
        if indent(other) < indent(line):
            break
        if indent(other) == indent(line) and other.strip()[0] not in ")]}":
            return other.strip().startswith("return")
    return False
