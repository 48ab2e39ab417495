"""What may replace a node of a learner's program: the small changes of which a repair makes one."""

import ast
from collections.abc import Iterator

from .parsing import parse_expression
from .scope import Scope
from .slips import OTHER

SAID = {  # the kinds of repairs in the order in which they are tried, and what is said if one makes all checks pass
    "a different comparison": "the comparison seems wrong",
    "a different condition": "the condition seems wrong",
    "a test for None": "0, or something empty, seems to be taken for None",
    "off by one": "a number seems off by one",
    "a different constant": "a constant seems wrong",
    "a different operator": "an operator seems wrong",
    "an operator removed": "one operation seems too many",
    "an operator added": "an operation seems missing",
    "swapped operands": "two operands seem exchanged",
    "swapped arguments": "two arguments seem exchanged",
    "a different order of elements": "the order of elements seems wrong",
    "a different function": "the wrong function seems to be called",
    "a different dtype": "the dtype seems wrong",
    "a copy": "a copy seems missing",
    "an argument removed": "one argument seems too many",
    "different arguments": "the arguments seem wrong",
    "a different axis": "the axis seems wrong",
    "a call removed": "one call seems too many",
    "a statement removed": "the statement seems one too many",
    "a different variable": "the wrong variable seems to be used",
    "a call added": "a call seems missing",
    "`while` in place of `if`, or the reverse": "`while` and `if` seem exchanged",
    "`break` in place of `continue`, or the reverse": "`break` and `continue` seem exchanged",
    "different indentation": "the indentation seems wrong",
    "a different order of statements": "this statement and the next one seem exchanged",
    "a different expression": "an expression seems wrong",
    "a factor added": "a factor seems missing",
    "a statement added before it": "a statement before it seems missing",
    "a term added": "a term seems missing",
}
KINDS = (*SAID,)
PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("floor", "ceil"),
    ("zeros", "ones"),
    ("sum", "mean"),
    ("append", "extend"),
    ("popleft", "pop"),
    ("appendleft", "append"),
    ("triu", "tril"),
    ("log", "log2"),
    ("startswith", "endswith"),
)
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
}
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
WHOLE = ("value", "test", "args", "elt", "iter")
PARTS = ("left", "comparators", "lower", "upper", "slice")
REDUCTIONS = {"sum", "mean", "max", "min", "argmax", "argmin", "softmax", "logsumexp", "cumsum", "sort", "argsort"}


def alternatives(node: ast.AST, scope: Scope) -> Iterator[tuple[str, ast.AST]]:
    """Yield what may take a node's place, each with the kind of that repair."""
    match node:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[right]):
            equal = ast.Eq() if isinstance(op, ast.Is) else ast.NotEq()
            yield "a different comparison", ast.Compare(left, [equal], [right])
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, COMPARISONS):
            near = OTHER.get(type(op))
            for each in sorted(COMPARISONS, key=lambda kind: kind is not near):
                yield "a different comparison", ast.Compare(left, [each()], [right])
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "a different condition", ast.BoolOp(other, values)
            for value in values:
                rest = [each for each in values if each is not value]
                yield "a different condition", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
            if isinstance(op, ast.Or) and len(values) == 2:
                yield "a test for None", ast.IfExp(_is_given(values[0]), *values)
        case ast.If(test=test, body=body, orelse=orelse) | ast.IfExp(test=test, body=body, orelse=orelse):
            made = type(node)
            if isinstance(test, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                yield "a test for None", made(_is_given(test), body, orelse)  # type: ignore[arg-type]
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                falsy = ast.Compare(test.operand, [ast.Is()], [ast.Constant(None)])
                yield "a test for None", made(falsy, body, orelse)  # type: ignore[arg-type]
            for verdict in (ast.Constant(True), ast.Constant(False), ast.UnaryOp(ast.Not(), test)):
                yield "a different condition", made(verdict, body, orelse)  # type: ignore[arg-type]
            if isinstance(node, ast.If) and not node.orelse:
                yield "`while` in place of `if`, or the reverse", ast.While(test, node.body, [])
        case ast.While(test=test, body=block):
            yield "`while` in place of `if`, or the reverse", ast.If(test, block, [])
        case ast.Break():
            yield "`break` in place of `continue`, or the reverse", ast.Continue()
        case ast.Continue():
            yield "`break` in place of `continue`, or the reverse", ast.Break()
        case ast.Tuple(elts=[first, second], ctx=ast.Load()):
            yield "a different order of elements", ast.Tuple([second, first], ast.Load())
        case ast.For(target=target, iter=each, body=block, orelse=orelse):
            backwards = _called("reversed", _called("list", each))
            yield "a different order of elements", ast.For(target, backwards, block, orelse, lineno=node.lineno)
        case ast.BinOp(left=left, op=op, right=right):
            for kind in OPERATORS.get(type(op), ()):
                yield "a different operator", ast.BinOp(left, kind(), right)
            if not isinstance(op, (ast.Add, ast.Mult)):
                yield "swapped operands", ast.BinOp(right, op, left)
            yield "an operator removed", left
            yield "an operator removed", right
        case ast.AugAssign(target=target, op=op, value=value):
            for kind in OPERATORS.get(type(op), ()):
                yield "a different operator", ast.AugAssign(target, kind(), value)
            yield "an operator removed", ast.Assign([target], value, lineno=node.lineno)
        case ast.UnaryOp(operand=operand):
            yield ("a different condition" if isinstance(node.op, ast.Not) else "an operator removed"), operand
        case ast.Constant(value=bool() as value):
            yield "a different constant", ast.Constant(not value)
        case ast.Constant(value=str()):
            for quoted in scope.constants:
                if isinstance(quoted, str) and quoted != node.value:
                    yield "a different constant", ast.Constant(quoted)
        case ast.Constant(value=int() | float() as value):
            ours = [each for each in scope.constants if isinstance(each, (int, float))]
            for number in dict.fromkeys([value + 1, value - 1, -value, 0, 1, -1, -2, 2, ..., *ours]):
                yield "a different constant", ast.Constant(number)
            for name in scope.names:
                yield "a different variable", parse_expression(name).body
            for expression in scope.expressions:
                yield "a different expression", expression
        case ast.Assign(targets=[target], value=value):
            if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
                yield "a copy", ast.Assign([target], _called("list", value), lineno=node.lineno)
            changed = parse_expression(ast.unparse(target)).body
            if not isinstance(target, (ast.Tuple, ast.List)):
                more = ast.BinOp(changed, ast.Add(), value)
                yield "an operator added", ast.Assign([target], more, lineno=node.lineno)
        case ast.Return(value=ast.expr() as value):
            for name in scope.names:
                dtype = parse_expression(f"{name}.dtype").body
                yield "a different dtype", ast.Return(ast.Call(ast.Attribute(value, "astype", ast.Load()), [dtype], []))
            yield "a copy", ast.Return(_called("list", value))
        case ast.Call():
            yield from _of_call(node)
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        quoted = ast.unparse(node)
        for name in scope.names if quoted in scope.names else ():
            if name != quoted and name.rpartition(".")[0] == quoted.rpartition(".")[0]:
                yield "a different variable", parse_expression(name).body


def in_place_of(parent: ast.AST, field: str, node: ast.AST, scope: Scope) -> Iterator[tuple[str, ast.AST]]:
    """Yield an expression of ours in place of a whole one, or this one with one more factor or term."""
    object_of = field == "value" and isinstance(parent, (ast.Attribute, ast.Subscript))
    if not isinstance(node, ast.expr) or field not in (*WHOLE, *PARTS) or object_of:
        return
    if field in WHOLE:
        yield from _of_ours(node, scope)
    if isinstance(node, (ast.BinOp, ast.Name, ast.Attribute, ast.Call)):
        for sign in (ast.Add(), ast.Sub()):
            yield "off by one", ast.BinOp(node, sign, ast.Constant(1))
        for name in scope.names:
            yield "a factor added", ast.BinOp(node, ast.Mult(), parse_expression(name).body)
            for sign in (ast.Add(), ast.Sub()):
                yield "a term added", ast.BinOp(node, sign, parse_expression(name).body)


def _of_ours(node: ast.expr, scope: Scope) -> Iterator[tuple[str, ast.AST]]:
    """Yield a call of ours around an expression, its arguments in this one, and its expressions."""
    for function in scope.functions:
        yield "a call added", ast.Call(function, [node], [])
    for call in scope.methods:
        attribute = call.func
        assert isinstance(attribute, ast.Attribute)
        yield "a call added", ast.Call(ast.Attribute(node, attribute.attr, ast.Load()), call.args, call.keywords)
        match node:
            case ast.Call(func=ast.Attribute(attr=attr)) if attr == attribute.attr:
                yield "different arguments", ast.Call(node.func, call.args, call.keywords)
    for each in scope.expressions:
        yield "a different expression", each


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    func, args, keywords = node.func, node.args, node.keywords
    name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    for pair in PAIRS:
        for old, new in (pair, pair[::-1]):
            if name == old:
                whole = ast.unparse(func).removesuffix(old) + new
                yield "a different function", ast.Call(parse_expression(whole).body, args, keywords)
    if len(args) == 2:
        yield "swapped arguments", ast.Call(func, args[::-1], keywords)
    for each in args:
        yield "a call removed", each
    if isinstance(func, ast.Attribute) and isinstance(func.value, (ast.Name, ast.Attribute, ast.Call)):
        yield "a call removed", func.value
    for index in range(len(keywords)):
        yield "an argument removed", ast.Call(func, args, [*keywords[:index], *keywords[index + 1 :]])
    if name in REDUCTIONS:
        given = {each.arg for each in keywords}
        if "axis" not in given and len(args) < 2:
            for axis in (-1, 0, -2):
                yield "a different axis", ast.Call(func, args, [*keywords, ast.keyword("axis", ast.Constant(axis))])
        if "keepdims" not in given:
            yield "a different axis", ast.Call(func, args, [*keywords, ast.keyword("keepdims", ast.Constant(True))])


def _called(name: str, value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), [value], [])


def _is_given(value: ast.expr) -> ast.expr:
    return ast.Compare(value, [ast.IsNot()], [ast.Constant(None)])
