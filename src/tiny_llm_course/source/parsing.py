"""Python source to its syntax tree, in any thread."""

import ast
import threading

# Python before 3.11.8 and 3.12.2 counts the depth of all the trees it is building in one place: two threads that parse
# at once now and then end in a SystemError, "AST constructor recursion depth mismatch".
_one_at_a_time = threading.Lock()


def parse(source: str | bytes) -> ast.Module:
    """The syntax tree of a module; a SyntaxError or ValueError if the source is not Python."""
    with _one_at_a_time:
        return ast.parse(source)


def parse_expression(source: str) -> ast.Expression:
    """The syntax tree of one expression; a SyntaxError or ValueError if the source is not one."""
    with _one_at_a_time:
        return ast.parse(source, mode="eval")
