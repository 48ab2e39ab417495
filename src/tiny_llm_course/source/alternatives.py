"""What may replace a node of a learner's program: the small changes of which a repair makes one."""

import ast
from collections.abc import Iterator

from .parsing import parse_expression
from .scope import Scope
from .slips import OTHER

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
AXES = REDUCTIONS | {
    "swapaxes",
    "moveaxis",
    "concatenate",
    "stack",
    "expand_dims",
    "squeeze",
    "repeat",
    "split",
    "take",
}


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
            whole = ast.BinOp(parse_expression(ast.unparse(target)).body, op, value)
            yield "an update in place", ast.Assign([target], whole, lineno=node.lineno)
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
        case ast.Subscript(value=value, ctx=ast.Load()):
            yield "an index removed", value
        case ast.Slice(lower=lower, upper=upper, step=step):
            for parts in ((upper, lower, step), (None, upper, step), (lower, None, step), (lower, upper, None)):
                yield "a different slice", ast.Slice(*parts)
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
        kind = "a different dtype" if attribute.attr == "astype" else "a call added"
        yield kind, ast.Call(ast.Attribute(node, attribute.attr, ast.Load()), call.args, call.keywords)
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
    for at, each in enumerate(args):
        if name in AXES and _is_axis(each):
            for axis in range(-3, 3):
                yield "a different axis", ast.Call(func, [*args[:at], ast.Constant(axis), *args[at + 1 :]], keywords)
        for other in range(at) if name == "transpose" else ():
            swapped = {at: args[other], other: each}
            order = [swapped.get(index, arg) for index, arg in enumerate(args)]
            yield "a different axis", ast.Call(func, order, keywords)
    for at, keyword in enumerate(keywords):
        for axis in range(-3, 3) if keyword.arg == "axis" and _is_axis(keyword.value) else ():
            given = ast.keyword("axis", ast.Constant(axis))
            yield "a different axis", ast.Call(func, args, [*keywords[:at], given, *keywords[at + 1 :]])
    if name in REDUCTIONS:
        named = {each.arg for each in keywords}
        if "axis" not in named and len(args) < 2:
            for axis in (-1, 0, -2):
                yield "a different axis", ast.Call(func, args, [*keywords, ast.keyword("axis", ast.Constant(axis))])
        if "keepdims" not in named:
            yield "a different axis", ast.Call(func, args, [*keywords, ast.keyword("keepdims", ast.Constant(True))])


def _is_axis(node: ast.expr) -> bool:
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(number, ast.Constant) and type(number.value) is int


def _called(name: str, value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), [value], [])


def _is_given(value: ast.expr) -> ast.expr:
    return ast.Compare(value, [ast.IsNot()], [ast.Constant(None)])
