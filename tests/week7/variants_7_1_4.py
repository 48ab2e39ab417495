"""Known programs of task 7.1.4, a pushdown automaton."""

import itertools

import mlx.core as mx
import numpy as np
from tests.week7.grammars import own
from tests.week7.pushing import CALL_FIRST, GRAMMARS, accepts, expression
from tiny_llm_solution.constrained.automaton import compile_rule
from tiny_llm_solution.constrained.completion import compile_rules
from tiny_llm_solution.constrained.schema import schema_rules

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.1.4")


def of_rules(program, name):
    rules = {
        key: compile_rule(expression(text, lambda m: own(compile_rule, m))) for key, text in GRAMMARS[name][0].items()
    }
    return program(rules, "#")


def verdicts(program, name):
    """Return for the grammar's texts, and for all of up to four of its characters, whether they are accepted."""
    made, texts = of_rules(program, name), GRAMMARS[name][1]
    letters = sorted({letter for text in texts for letter in text})[:3]
    short = ("".join(each) for length in range(5) for each in itertools.product(letters, repeat=length))
    return mx.array([accepts(made, text) for text in (*texts, *short)], mx.float32)


def path(program, rules, text):
    """Return at each byte which may follow, whether the text may end, and how many states there are at the end."""
    made = program(rules, "#")
    state, found = made.start, []
    for byte in text:
        row = made.row(state)
        found.append([bool(made.accepts(state)), *(row >= 0).tolist()])
        state = int(row[byte])
        if state < 0:
            break
    return mx.array(np.array(found, np.float32)), mx.array(len(made.sets) > 400)


def states(program, text, again):
    """Return whether the number of states grows when the same bytes are read again."""
    made = program(compile_rules(schema_rules({})), "#")
    state, counts = made.start, []
    for byte in text + again * 4:
        state = int(made.row(state)[byte])
        counts.append(len(made.sets))
    return mx.array([counts[-1] > counts[-1 - 2 * len(again)]], mx.float32)


def waiting(program):
    """Return whether the start, a call, is the same state as the called rule on top of it."""
    rules = {key: compile_rule(expression(text, lambda m: own(compile_rule, m))) for key, text in CALL_FIRST.items()}
    made = program(rules, "#")
    (_, after), *_ = rules["#"].calls[0]
    return mx.array([made.start, made.state([("a", 0, ("#", after, None))])])


def rows(program):
    """Return whether a row's second call is equal and numbers no state."""
    made = program(compile_rules(schema_rules({})), "#")
    first = made.row(made.start).tolist()
    count = len(made.sets)
    return mx.array([first == made.row(made.start).tolist(), count == len(made.sets)], mx.float32)


def reordered(program):
    """Return whether the stacks of a state, in the reverse order and twice, are another state."""
    made = program(compile_rules(schema_rules({})), "#")
    made.row(made.start)
    again = [made.state([*reversed(stacks), *stacks]) for stacks in map(list, tuple(made.sets))]
    return mx.array([again != list(range(len(again)))], mx.float32)


TREE = {"properties": {"v": {"type": "integer"}, "kids": {"items": {"$ref": "#"}}}, "required": ["v"]}
EITHER = {
    "anyOf": [
        {"properties": {"x": {"type": "integer"}}, "required": ["x"]},
        {"properties": {"x": {"enum": ["a"]}}, "required": ["x"]},
    ]
}
known.probe_table(
    one_rule=lambda program: verdicts(program, "one rule"),
    a_list=lambda program: verdicts(program, "a list"),
    nested=lambda program: verdicts(program, "nested lists"),
    twice=lambda program: verdicts(program, "the same call twice"),
    alike=lambda program: verdicts(program, "two rules that begin alike"),
    at_the_end=lambda program: verdicts(program, "a call at the end"),
    deep=lambda program: verdicts(program, "calls three deep"),
    mutual=lambda program: verdicts(program, "mutual recursion"),
    tree=lambda program: path(program, compile_rules(schema_rules(TREE)), b'{"v":1,"kids":[{"v":2},{"v":30}]}'),
    either=lambda program: path(program, compile_rules(schema_rules(EITHER)), b'{"x":"a"}'),
    number=lambda program: path(program, compile_rules(schema_rules({"type": "number"})), b"-1.5e3"),
    string=lambda program: path(program, compile_rules(schema_rules({"type": "string"})), '"é\\n"'.encode()),
    listed=lambda program: states(program, b"[", b"1,"),
    in_string=lambda program: states(program, b'["', b"ab"),
    waiting=waiting,
    rows=rows,
    reordered=reordered,
)


@known.sized("a JSON text of 400 bytes, and the schema of any value")
def sized(program):
    rules, text = compile_rules(schema_rules({})), b'[{"a":[1,2.5e3,"x y"],"b":{"c":null}},true]' * 1
    text = b"[" + b",".join([text] * 9) + b"]"

    def read():
        made = program(rules, "#")
        state = made.start
        for byte in text:
            state = int(made.row(state)[byte])
        return mx.array(state)

    return read


known.change(
    "returns-before-the-call",
    ("(callee, 0, (rule, after, below)) for callee, after", "(callee, 0, (rule, at, below)) for callee, after"),
    fact="after a call, the caller is in the state before it",
    question="The list [ has called the number 1. In which state does it continue?",
)
known.change(
    "stack-replaced",
    ("(callee, 0, (rule, after, below)) for callee, after", "(callee, 0, (rule, after, None)) for callee, after"),
    fact="a call forgets what is below the caller",
    question="In [[1 two lists are open. How many stack entries are below the number?",
)
known.change(
    "returns-at-once",
    (
        "more.append(below or ())",
        "more.append(below or ())\nfound.discard(stack)",
    ),
    fact="a rule whose text may end is left at once",
    question="After [1, may a digit follow?",
)
known.change(
    "never-returns-early",
    ("if dfa.accepting[at]:", "if dfa.accepting[at] and not dfa.reads[at]:"),
    fact="a rule is left only if it can read nothing more",
    question="After [1, may a comma follow?",
)
known.change(
    "first-call-only",
    ("for callee, after in dfa.calls[at]]", "for callee, after in dfa.calls[at][:1]]"),
    fact="of several rules that may begin, only one does",
    question="A value is a string or a number. Which rules does the state before it call?",
)
known.change(
    "calls-or-bytes",
    (
        "if not each or self.rules[each[0]].reads[each[1]]",
        "if not each or (self.rules[each[0]].reads[each[1]] and not self.rules[each[0]].calls[each[1]])",
    ),
    fact="a state that calls rules reads no byte of its own",
    question="After [ a value may come, or ]. Which of the two is a call?",
)
known.change(
    "first-stack-only",
    ("known[targets] = self.state(moved)", "known[targets] = self.state(sorted(moved, key=repr)[-1:])"),
    fact="a byte that several stacks read moves only one of them",
    question='Two objects of an anyOf begin with {"x":. Which one is it after these bytes?',
)
known.change(
    "always-new",
    ("if key not in self.numbers:", "if True:"),
    fact="a set that was found before gets a new number",
    question="After [1, and after [1,1, the same may follow. How many states are that?",
)
known.change(
    "nothing-dropped",
    ("if not each or self.rules[each[0]].reads[each[1]]", "if not each or True"),
    fact="the stacks whose top state reads no byte stay in the set",
    question="A caller that only waits for its call reads nothing. Do two sets that differ in it read different bytes?",
)
known.change(
    "end-forgotten",
    ("more.append(below or ())", "more += [below] if below else []"),
    fact="the whole text never ends",
    question="The root rule may end, and nothing is below. Which stack is that?",
)
known.change(
    "ends-always",
    (
        "return () in self.sets[state]",
        "return () in self.sets[state] or any(s and self.rules[s[0]].accepting[s[1]] for s in self.sets[state])",
    ),
    fact="the text may end where any rule may end",
    question="After [1 the number may end. May the text?",
)
known.change(
    "one-call-deep",
    (
        "todo += [each for each in more if each not in found]",
        "todo += [each for each in more if each == below and each not in found]",
    ),
    fact="calls at the beginning of a called rule are left out",
    question="A value calls an object, whose rule begins with a brace. And a pair calls a value, which calls what?",
)
known.change(
    "one-step",
    ("todo += [each for each in more if each not in found]", ""),
    fact="calls and returns are followed for one step only",
    question='The last bracket of {"a":[]} ends a list. What else ends there, and how many returns are that?',
)
known.change(
    "order-matters",
    ("found = set(todo)", "found = dict.fromkeys(todo)"),
    ("found.update(more)", "found.update(dict.fromkeys(more))"),
    ("key = frozenset(", "key = tuple("),
    fact="the same stacks, found in a different order, are a new state",
    question="Two sets have the same stacks. In which order were they found, and does it matter to what they read?",
)
known.change(
    "end-dropped",
    ("if not each or self.rules", "if each and self.rules"),
    (
        "return () in self.sets[state]",
        "return any(below is None and self.rules[rule].accepting[at] for rule, at, below in self.sets[state])",
    ),
    fact="the empty stack is dropped with the stacks that read no byte, and most texts never end",
    question="A text has read its last bracket. Which stack stays in the set to say that it may end?",
)
known.accepted_change(
    "a set that grows",
    (
        "todo += [each for each in more if each not in found]",
        "todo += {*more} - found",
    ),
)
known.accepted_change(
    "byte by byte, without remembering the targets",
    ("if targets not in known:", "if targets not in known or len(known) > 3:"),
)
