"""Python source to its syntax tree, in any thread."""

import ast
import threading

# Python before 3.11.8 and 3.12.2 counts the depth of all the trees it is building in one place: two threads that parse
# at once now and then end in a SystemError, "AST constructor recursion depth mismatch".
_one_at_a_time = threading.Lock()


def parse(source: str | bytes) -> ast.Module:
    """Parse a module; raise SyntaxError or ValueError if it is not Python."""
    with _one_at_a_time:
        return ast.parse(source)


def parse_or_none(source: str | bytes) -> ast.Module | None:
    """Parse a module; None if it is not Python, or too deep to parse."""
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def parse_expression(source: str) -> ast.Expression:
    """Parse one expression; raise SyntaxError or ValueError if it is none."""
    with _one_at_a_time:
        return ast.parse(source, mode="eval")
