"""Python: stubs by the syntax tree, merges function by function."""

from collections.abc import Collection, Mapping

from ..course.entities import Target, Task
from .language import MergeLines, Reach, Spans
from .merge.functions import Merged, merge
from .parsing import parse
from .reach import definitions_by_name, reach
from .reset import is_python, reset_target
from .stubs.signatures import Signature, listing, signatures
from .stubs.source import stub_source
from .text import decorated_line, end_line, indent


class Python(Spans):
    """A target is a function, a method or a class."""

    fence = "python"  # what the book calls the language

    def stub(self, text: str, tasks: Mapping[str, Task], solved: Collection[str], needed: Collection[Target]) -> str:
        """Turn the solution's file into the learner's, with `raise NotImplementedError("1.1.1 Softmax")` for bodies.

        `tasks` are the file's, by target name; code of `solved` names stays, and so do imports of `needed` targets.
        Raise ValueError if a target is missing or badly marked.
        """
        return stub_source(text, {name: task for name, task in tasks.items() if name not in solved}, needed)

    def holds_stub(self, text: str, task: Task) -> bool:
        """Return whether the task's raise is left, neither in a comment nor after a return. The text need not parse."""
        stub = f'raise NotImplementedError("{task.label}")'
        lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
        return any(line.strip() == stub and not _follows_return(line, lines[:i]) for i, line in enumerate(lines))

    def reach(self, text: str, file: str, name: str | None, targets: Mapping[str, Collection[str]]) -> Reach:
        """Return the code of a target without other tasks' code; for the name None, all code that is no task's.

        `file` is the path below the package; `targets` has the names of all targets by file. Invalid UTF-8 is escaped.
        """
        return reach(text, file, name, targets)

    def span(self, text: str, name: str) -> tuple[int, int] | None:
        """Return the lines of the definition in force, with its decorators."""
        node = definitions_by_name(text).get(name)
        return (decorated_line(node), end_line(node)) if node else None

    def line(self, text: str, name: str) -> int | None:
        """Return the line where a learner should write the target: the one with `def` or `class`."""
        node = definitions_by_name(text).get(name)
        return node.lineno if node else None

    def fault(self, text: str) -> str:
        """Return why a text cannot be run, as a suffix of its file name (":3 is not Python: ..."), or ""."""
        try:
            parse(text.encode(errors="surrogateescape"))
        except SyntaxError as error:
            return f":{error.lineno}" * (error.lineno is not None) + f" is not Python: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return f" is not Python: {error}"
        return ""

    def merge(self, base: str | None, mine: str, new: str, merge_lines: MergeLines) -> Merged:
        """Merge upstream's changes into the learner's file, definition by definition; what the learner wrote stays.

        `base` is the file that the learner started from, if any; `merge_lines` merges text that is not parsed. Raise
        SyntaxError if a file must be parsed and cannot be.
        """
        return merge(base, mine, new)

    def reset(self, text: str, stub: str, name: str) -> tuple[str, str]:
        """Restore one target's stub in the learner's file, whatever its line ends; a missing one among the others.

        Return the text, and the name of a missing definition that was restored, or "". Raise ValueError if it cannot be
        done; the message completes "the file ...".
        """
        if not is_python(text):
            raise ValueError("is not Python")
        after, missing = reset_target(text, stub, name)
        if after != text and not is_python(after):
            raise ValueError("does not take the stub where it would stand")
        return after, missing

    def listing(self, text: str, name: str) -> str:
        """Return what the book prints of a target: its head and docstring. Raise ValueError if there is none."""
        return listing(text, name)

    def signatures(self, text: str, name: str) -> Mapping[str, Signature | str]:
        """Return what a stub and its solution share, by name: the target and its methods."""
        return {part: one for part, one in signatures(text).items() if f"{part}.".startswith(f"{name}.")}


def _follows_return(line: str, above: list[str]) -> bool:
    """Return whether the previous statement of the same block is a return, perhaps over several lines."""
    for other in reversed(above):
        if indent(other) < indent(line):
            break
        if indent(other) == indent(line) and other.strip()[0] not in ")]}":
            return other.strip().startswith("return")
    return False
