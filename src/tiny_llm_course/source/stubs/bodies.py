"""Replace the bodies that the learner writes by `raise NotImplementedError("1.1.2 Scaled dot-product attention")`."""

import ast
from collections.abc import Iterator, Mapping

from ...course.entities import Task
from ..language import ITS_END, YOUR_CODE
from ..text import Definition, Edit, Function, Text, definitions, docstring, end_line, indent, is_private, text_before

BEGIN = f"# {YOUR_CODE}"
END = f"# {ITS_END}"


def replace_bodies(source: str, tasks: Mapping[str, Task]) -> str:
    """Replace the body of every target: everything after the docstring, or what the markers enclose.

    A class as target means all its methods but the private ones. Raise ValueError if a target is missing or has nothing
    to replace, or a marker has no partner.
    """
    text = Text(source)
    functions = list(_functions(text.tree.body, tasks))
    for name, task in tasks.items():
        if name not in dict(definitions(text.tree.body)):
            raise ValueError(f"there is no {name}, which is a target of {task.id}")
        if not any(f"{function}.".startswith(f"{name}.") for function, _, _ in functions):
            raise ValueError(f"{name}, a target of {task.id}, has no method to write")
    edits: list[Edit] = []
    free_markers = [number for number in text.comments if _marker(text, number)]
    for _, node, task in functions:
        inside = range(text.head_line(node), text.last_line(node) + 1)
        markers = [number for number in free_markers if number in inside]
        free_markers = [number for number in free_markers if number not in inside]
        edits += _marked(text, markers, task) if markers else [_whole(text, node, task)]
    if free_markers:
        raise ValueError(f"line {free_markers[0]}: {_marker(text, free_markers[0])!r} is in the body of no target")
    return text.edited(edits)


def _functions(
    body: list[ast.stmt], tasks: Mapping[str, Task], inherited: Task | None = None, prefix: str = ""
) -> Iterator[tuple[str, Function, Task]]:
    """Yield every function to stub with its dotted name and its task: its own, or that of the class around it."""
    for node in body:
        if not isinstance(node, Definition):
            continue
        name = prefix + node.name
        task = tasks.get(name, None if is_private(node.name) else inherited)
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, tasks, task, f"{name}.")
        elif task is not None:
            decorators = [ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list]
            if "overload" not in decorators:  # which is for type checkers only, with the body `...`
                yield name, node, task


def _whole(text: Text, node: Function, task: Task) -> Edit:
    head, first, doc = text.head_line(node), node.body[0], docstring(node)
    if first.lineno == head:  # def f(): return 1
        margin = " " * (node.col_offset + 4)
        lines = [text_before(text.line(head), first.col_offset).rstrip()]
        if doc is not None:
            lines.append(margin + (ast.get_source_segment("\n".join(text.lines), doc) or ""))
        return Edit(head, text.last_line(node), (*lines, margin + _raise(task)))
    kept = head if doc is None else end_line(doc)
    # An edit replaces whole lines, and a body may have none below its docstring: so it includes the last kept line.
    return Edit(kept, max(kept, text.last_line(node)), (text.line(kept), " " * first.col_offset + _raise(task)))


def _marked(text: Text, markers: list[int], task: Task) -> Iterator[Edit]:
    for i, number in enumerate(markers):
        if _marker(text, number) != (END if i % 2 else BEGIN):
            raise ValueError(f"line {number}: {_marker(text, number)!r} where {BEGIN if i % 2 == 0 else END!r} is due")
        if i % 2:
            begin = text.line(markers[i - 1])
            yield Edit(markers[i - 1], number - 1, (begin, " " * indent(begin) + _raise(task)))
    if len(markers) % 2:
        raise ValueError(f"line {markers[-1]}: {BEGIN!r} without {END!r}")


def _marker(text: Text, number: int) -> str | None:
    comment = text.comments[number].rstrip()
    return comment if text.is_comment(number) and comment in (BEGIN, END) else None


def _raise(task: Task) -> str:
    quoted = repr(task.label)
    if quoted.startswith("'") and '"' not in quoted:
        quoted = f'"{quoted[1:-1]}"'  # as the formatter would have it
    return f"raise NotImplementedError({quoted})"
