"""Slips that programs invite, derived from the solution's: a limit missed, a refusal forgotten, 0 taken for None.

They need not be foreseen. Each replaces one node of the syntax tree; its fact completes "Your output equals what you
get when". Code in a `while` is left as it is: with a slip it might never end.
"""

import ast
import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterator
from keyword import kwlist
from typing import NamedTuple

from .parsing import parse, parse_or_none
from .text import Definition, mentioned

OTHER = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
WRAPPERS = {"list", "tuple", "sorted", "set", "dict", "reversed", "abs", "int", "float", "mx.stop_gradient"}
METHODS = {"astype", "copy", "strip", "lower"}
BOUNDS = {"min": "exceed", "mx.minimum": "exceed", "max": "fall below", "mx.maximum": "fall below"}
LEFT_OUT = "nothing special happens when "
LONGEST = 60  # of the code that a fact quotes
QUESTIONS = {
    "not-refused": "Which errors does the docstring promise, and which of your lines raises each of them?",
    "at-the-limit": "What should happen when the two are equal?",
    "falsy": "Is 0, or something empty, the same as None?",
    "case-left-out": "Which cases does the docstring tell apart?",
    "unbounded": "How large and how small can this number become?",
    "not-converted": "Which type does the docstring promise, for every input?",
    "not-passed-on": "What does the called function do when it is not given this argument?",
    "off-by-one": "Count by hand in the case shown: where does the count begin, and is the end included?",
    "exchanged": "Check with two small numbers: does the order matter?",
    "not-updated": "What must be remembered for the next call?",
    "not-called": "Which step of the docstring does no line of yours take?",
    "not-caught": "What should remain as it was when something fails midway?",
}


class Slip(NamedTuple):
    """One slip: its kind, which is a key of QUESTIONS, what it does, the text that has it, and our code with its own.

    The fact is "" if nothing can be said without names that the learner does not know.
    """

    kind: str
    fact: str
    program: str
    edit: tuple[str, str]


Alternative = tuple[ast.AST, str, str]  # a node to take another's place, the kind and the fact
Say = Callable[[ast.AST], str]  # code as a learner may read it, or ""


def slips(text: str, learners: str) -> Iterator[Slip]:
    """Yield the slips of a module; facts quote only code whose names occur in the learner's own text."""
    tree = parse(text)
    code = parse_or_none(learners)
    known = {*kwlist, *dir(builtins), *re.findall(r"\w+", " ".join(re.findall("`([^`]*)`", learners)))}
    for each in ast.walk(code) if code else ():
        known |= {each.arg} if isinstance(each, ast.arg) else {each.name} if isinstance(each, Definition) else set()
    known |= mentioned(code) if code else set()

    def say(node: ast.AST) -> str:
        quoted = ast.unparse(node)
        spoken = {*re.findall(r"[^\W\d]\w*", quoted)} <= known and len(quoted) <= LONGEST and "\n" not in quoted
        return f"`{quoted}`" if spoken else ""

    seen = set[str]()  # two kinds can make one text: the first says more
    tests = Counter(ast.unparse(node.test) for node in ast.walk(tree) if isinstance(node, (ast.If, ast.IfExp)))
    for parent, field, index, node in places(tree):
        siblings = getattr(parent, field)
        for other, kind, fact in _alternatives(node, say):
            once = kind != "case-left-out" or tests[ast.unparse(getattr(node, "test", node))] < 2
            if index is None:
                setattr(parent, field, other)
            else:
                siblings[index] = other
            changed = ast.unparse(ast.fix_missing_locations(tree))
            if changed not in seen:
                seen.add(changed)
                yield Slip(kind, fact if once else "", changed, (_short(node), _short(other)))
            if index is None:
                setattr(parent, field, node)
            else:
                siblings[index] = node


def places(
    parent: ast.AST, skipped: tuple[type[ast.AST], ...] = (ast.While, ast.Raise)
) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield every node below one with where it is: parent, field, and its index if the field is a list."""
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not isinstance(node, skipped):
                yield parent, field, index, node
                yield from places(node, skipped)


def _alternatives(node: ast.AST, say: Say) -> Iterator[Alternative]:
    match node:
        case ast.If(test=test, body=[ast.Raise(exc=ast.AST() as error)], orelse=orelse):
            yield _branch(orelse), "not-refused", _not_raised(error, say(test), error)
            for part, rest in _parts(test, ast.Or):
                yield ast.If(rest, node.body, orelse), "not-refused", _not_raised(error, say(part), part)
        case ast.If(test=test, orelse=orelse):
            yield _branch(orelse), "case-left-out", _of(say(test), LEFT_OUT)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield orelse, "case-left-out", _of(say(test), LEFT_OUT)
            yield body, "case-left-out", _of(say(_negated(test)), LEFT_OUT)
        case ast.BoolOp(op=op):
            both = isinstance(op, ast.And)
            words = "one of several conditions is enough" if both else "all of several conditions must hold"
            swapped = ast.BoolOp(ast.Or() if both else ast.And(), node.values)
            yield swapped, "case-left-out", f"{words}{_of(say(node), ' in place of ')}"
            for part, rest in _parts(node, type(op)):
                words = f"{say(part) or 'one of several conditions'} is not checked"
                if isinstance(part, ast.Constant):
                    words = f"an empty value is not replaced by {say(part)}"
                yield rest, "case-left-out", words
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            falsy = ast.UnaryOp(ast.Not(), left)
            other = falsy if isinstance(op, ast.Is) else ast.UnaryOp(ast.Not(), falsy)
            yield other, "falsy", f"{say(left) or 'a value'} that is 0 or empty is taken for None"
        case ast.Compare(left=left, ops=ops, comparators=rights):
            for i, each in enumerate(ops):
                if type(each) in OTHER:
                    equal = say(ast.Compare(rights[i - 1] if i else left, [ast.Eq()], [rights[i]]))
                    words = f"the case {equal} is" if equal else "the case in which two compared numbers are equal is"
                    flipped = [*ops[:i], OTHER[type(each)](), *ops[i + 1 :]]
                    yield ast.Compare(left, flipped, rights), "at-the-limit", f"{words} decided the other way"
        case ast.Try(body=body, handlers=handlers, finalbody=final):
            for handler in handlers:
                caught = say(handler.type) if handler.type else ""
                yield _branch([*body, *node.orelse, *final]), "not-caught", f"{caught or 'an exception'} is not caught"
            if final:
                yield _branch([*body, *final]), "not-caught", "an exception skips the clean-up"
        case ast.Expr(value=ast.Call(func=func)) if say(func):
            yield ast.Pass(), "not-called", f"{say(func)} is not called"
        case ast.AugAssign(target=target) if say(target):
            yield ast.Pass(), "not-updated", f"{say(target)} is not updated"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
            yield left, "off-by-one", f"{say(left) or 'one number'} is off by one in one place"
        case ast.BinOp(
            left=left, op=ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Mod() | ast.MatMult() as op, right=right
        ):
            yield ast.BinOp(right, op, left), "exchanged", _exchanged(left, right, say)
        case ast.Subscript(value=value, slice=ast.Slice(lower=ast.Constant(value=1), upper=upper, step=None)):
            whole = ast.Subscript(value, ast.Slice(None, upper), node.ctx)
            yield whole, "off-by-one", f"the first element of {say(value) or 'a sequence'} is not left out"
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=ast.UnaryOp(ast.USub(), ast.Constant(1)))):
            whole = ast.Subscript(value, ast.Slice(lower), node.ctx)
            yield whole, "off-by-one", f"the last element of {say(value) or 'a sequence'} is not left out"
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=None)):
            for change, words in ((ast.Sub(), "one element too early"), (ast.Add(), "one element too late")):
                of = f"a slice{_of(say(value), ' of ')}"
                if upper:
                    later = ast.Slice(lower, ast.BinOp(upper, change, ast.Constant(1)))
                    yield ast.Subscript(value, later, node.ctx), "off-by-one", f"{of} ends {words}"
                if lower:
                    later = ast.Slice(ast.BinOp(lower, change, ast.Constant(1)), upper)
                    yield ast.Subscript(value, later, node.ctx), "off-by-one", f"{of} begins {words}"
        case ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), left), ast.FloorDiv(), right)):
            floor = ast.BinOp(left, ast.FloorDiv(), right)
            yield floor, "off-by-one", f"{say(ast.BinOp(left, ast.Div(), right)) or 'a division'} is rounded down"
        case ast.Call():
            yield from _of_call(node, say)


def _of_call(node: ast.Call, say: Say) -> Iterator[Alternative]:
    """Yield a call's slips: it is not made, an argument is not passed on, or only one of two numbers is taken."""
    name = ast.unparse(node.func)
    for keyword in node.keywords:
        if keyword.arg and keyword.arg not in ("strict", "dir_fd"):  # the first only asserts, the second protects files
            rest = [each for each in node.keywords if each is not keyword]
            to = f"to {say(node.func)}" if say(node.func) else "on"
            yield ast.Call(node.func, node.args, rest), "not-passed-on", f"`{keyword.arg}` is not passed {to}"
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="astype"), args=[dtype]):
            to = f" to {say(dtype)}" if say(dtype) else " of the dtype"
            yield value, "not-converted", f"a conversion{to} is missing"
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in METHODS:
            yield value, "not-converted", f"`{method}` is not applied{_of(say(value), ' to ')}"
        case ast.Call(args=[value, *_]) if name in WRAPPERS and not isinstance(value, ast.GeneratorExp):
            yield value, "not-converted", f"`{name}` is not applied{_of(say(value), ' to ')}"
        case ast.Call(args=[left, right], keywords=[]) if name in BOUNDS:
            for one, bound in ((left, right), (right, left)):
                if isinstance(one, ast.Constant):
                    continue
                words = f"{say(one)} may {BOUNDS[name]} {say(bound)}" if say(one) and say(bound) else ""
                yield one, "unbounded", words or f"a number may {BOUNDS[name]} its bound"
        case ast.Call(func=ast.Name(id="range"), args=[*first, end]) if len(first) < 2:
            for change, words in ((ast.Sub(), "early"), (ast.Add(), "late")):
                later = ast.Call(node.func, [*first, ast.BinOp(end, change, ast.Constant(1))], [])
                yield later, "off-by-one", f"a range ends one too {words}{_of(say(end), ', at ')}"
        case ast.Call(func=func, args=[ast.Name() | ast.Attribute() as left, ast.Name() | ast.Attribute() as right]):
            both = ast.Call(func, [right, left], node.keywords)
            yield both, "exchanged", _exchanged(left, right, say)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr="ceil"), args=[value]):
            yield ast.Call(ast.Name("int"), [value], []), "off-by-one", f"{say(value) or 'a number'} is rounded down"


def _short(node: ast.AST) -> str:
    """Return a node's code on one line, without what follows `LONGEST` characters."""
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())[:LONGEST]


def _of(code: str, before: str) -> str:
    return before + code if code else ""


def _exchanged(left: ast.AST, right: ast.AST, say: Say) -> str:
    return f"{say(left)} and {say(right)} are exchanged" if say(left) and say(right) else ""


def _branch(body: list[ast.stmt]) -> ast.stmt:
    """Return statements as one, which can take a statement's place."""
    return ast.If(ast.Constant(True), body, []) if body else ast.Pass()


def _parts(test: ast.AST, operator: type[ast.boolop]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each operand of an `and` or `or` with the test that lacks it."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, operator):
        for part in test.values:
            rest = [each for each in test.values if each is not part]
            yield part, rest[0] if len(rest) == 1 else ast.BoolOp(test.op, rest)


def _negated(test: ast.expr) -> ast.expr:
    match test:
        case ast.UnaryOp(ast.Not(), inner):
            return inner
        case ast.Compare(left=left, ops=[ast.Is()], comparators=right):
            return ast.Compare(left, [ast.IsNot()], right)
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=right):
            return ast.Compare(left, [ast.Is()], right)
    return ast.UnaryOp(ast.Not(), test)


def _not_raised(error: ast.AST, test: str, part: ast.AST) -> str:
    """Say which error is missing: by its condition, or else by the fixed words of its message."""
    name = ast.unparse(error.func if isinstance(error, ast.Call) else error)
    if test:
        return f"no {name} is raised when {test}"
    fixed = [each.value for each in ast.walk(error) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    said = "…".join(fixed).strip()[:LONGEST] if part is error else ""
    return f'the {name} "{said}" is not raised' if said else f"no {name} is raised in one of several cases"
