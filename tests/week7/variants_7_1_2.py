"""Known programs of task 7.1.2, token masks."""

import random
from collections import Counter

import mlx.core as mx
import numpy as np
from tests.week7.grammars import own
from tests.week7.tokens import WORDS, Table, levels_of, of_words, random_table, random_words, texts_of

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.1.2")


def walked(program, words, table, state=0, roots=None, size=None):
    """Return the mask's words, the ends, and whether a row was called too often, or what the program raises."""
    trie = own(program, "trie").TokenTrie(dict(enumerate(words)), size or len(words))
    given = None
    if roots is not None:
        texts = texts_of(trie)
        given = np.array(sorted(texts.index(root) for root in roots), np.int32)
    mask, ends = program(trie, table, state, given)
    most = levels_of(trie, table, state, [0] if given is None else given.tolist())
    called = Counter(table.rows), Counter(table.asked)
    too_often = [any(count > most.get(one, 0) for one, count in counts.items()) for counts in called]
    halves = [int(word) >> shift & 0xFFFF for word in mask for shift in (0, 16)]  # exact in float32
    return mx.array(halves, mx.float32), mx.array([-1, *ends.tolist()], mx.float32), mx.array(too_often, mx.float32)


EACH = [bytes([n]) for n in range(70)]
MANY = [*WORDS, *random_words(random.Random(0), 100, b"xyz", 5)]
known.probe_table(
    words=lambda program: walked(program, WORDS, of_words(b"dog", b"cat")),
    nested=lambda program: walked(program, WORDS, of_words(b"d", b"dot")),
    from_state=lambda program: walked(program, WORDS, of_words(b"dogdog"), 2),
    bit_0=lambda program: walked(program, EACH, of_words(b"\x00")),
    bit_33=lambda program: walked(program, EACH, of_words(b"\x21", b"\x45")),
    padded=lambda program: walked(program, WORDS, of_words(b"dog"), size=40),
    two_words=lambda program: walked(program, WORDS, of_words(b"dog"), size=64),
    different_depths=lambda program: walked(
        program, WORDS, of_words(b"", b"g", b"t", b"og"), roots=[b"do", b"c", b"o"]
    ),
    everything=lambda program: walked(program, WORDS, Table(np.zeros((1, 256)), [True])),
    nothing=lambda program: walked(program, WORDS, Table(np.full((1, 256), -1), [False])),
    accepts_at_once=lambda program: walked(program, WORDS, of_words(b"", b"cow")),
    roots=lambda program: walked(program, WORDS, of_words(b"og", b"g"), roots=[b"d", b"do"][:1]),
    two_roots=lambda program: walked(program, WORDS, Table(np.zeros((1, 256)), [True]), roots=[b"do", b"c"]),
    leaf=lambda program: walked(program, WORDS, Table(np.zeros((1, 256)), [True]), roots=[b"dog"]),
    no_roots=lambda program: walked(program, WORDS, Table(np.zeros((1, 256)), [True]), roots=[]),
    large=lambda program: walked(program, MANY, of_words(b"xy", b"xyzzy", b"z")),
    random=lambda program: walked(program, MANY, random_table(random.Random(1), 5, b"dogxyz", 0.7)),
)


@known.sized("20,000 tokens of up to 8 bytes, an automaton of 30 states")
def sized(program):
    rng = random.Random(2)
    trie = own(program, "trie").TokenTrie(dict(enumerate(random_words(rng, 20000, b"abcdefgh", 8))), 20000)
    table = random_table(rng, 30, b"abcdefgh", 0.95)
    return lambda: program(trie, table, 0)


known.change(
    "highest-bit-first",
    ('mask = np.packbits(bits, bitorder="little")', "mask = np.packbits(bits)"),
    fact="the bits of a byte are packed from the highest on",
    question="Which bit of the first word is token 0, and in which order does np.packbits fill a byte?",
)
known.change(
    "prefixes-only",
    (
        "nodes, states = children[alive], after[alive]\nvisited.append(nodes)",
        "visited.append(nodes)\nnodes, states = children[alive], after[alive]",
    ),
    fact="the tokens of the nodes before the last level are allowed, those of the roots included",
    question="Which nodes' tokens does a walk from some roots allow?",
)
known.change(
    "roots-allowed",
    ("visited, accepting = list[Ints](), list[Ints]()", "visited, accepting = [nodes], list[Ints]()"),
    fact="the tokens of the roots are allowed",
    question="A walk starts where another one stopped. Who has allowed the token that ends there?",
)
known.change(
    "dead-kept",
    ("alive = after >= 0", "alive = np.ones(len(after), np.bool_)"),
    (
        "rows[np.repeat(place[states], last - first), trie.byte[children]]",
        "np.maximum(rows[np.repeat(place[states], last - first), trie.byte[children]], 0)",
    ),
    fact="a byte that the automaton does not read leads back to state 0",
    question="What does -1 in a row mean?",
)
known.change(
    "first-token-only",
    (
        "trie.tokens[ranges(trie.first_token[reached], trie.first_token[reached + 1])]",
        "trie.tokens[trie.first_token[reached][trie.first_token[reached] < trie.first_token[reached + 1]]]",
    ),
    fact="of several tokens with the same bytes, only one is allowed",
    question="Tokens 2 and 9 are both dog. Which of them may follow?",
)
known.change(
    "accepted-only",
    (
        "reached = np.concatenate(visited) if visited else nodes[:0]",
        "reached = np.concatenate(visited) if visited else nodes[:0]\n"
        "reached = reached[np.isin(reached, np.concatenate(accepting) if accepting else nodes[:0])]",
    ),
    fact="a token is allowed only if the automaton accepts after it",
    question="The text must become dog. May it continue with do?",
)
known.change(
    "ends-without-roots",
    ("if accepts.any():", "if accepts.any() and visited:"),
    fact="`ends` lacks the roots",
    question="The automaton accepts in its first state. At which node may the text end?",
)
known.change(
    "one-level",
    ("visited.append(nodes)", "visited.append(nodes)\nbreak"),
    fact="the walk ends after one byte",
    question="Is dog one byte below the root?",
)
known.change(
    "states-of-the-level-mixed",
    ("np.repeat(place[states], last - first)", "np.resize(place[states], len(children))"),
    fact="a child is read in the state of another node than its parent",
    question="A level has two nodes with three children and one. How often does each state occur among the parents?",
)
known.change(
    "ends-not-sorted",
    ("np.sort(np.concatenate(accepting))", "np.concatenate(accepting)"),
    fact="`ends` are in the order of the walk, level by level",
    question="A walk starts at nodes 2 and 9. Can a child of node 2 have a number below 9?",
)
known.change(
    "a-word-too-many",
    ("-(-trie.size // 32) * 32", "(trie.size // 32 + 1) * 32"),
    fact="the mask has V // 32 + 1 words",
    question="How many words do 32 tokens take?",
)
known.change(
    "no-roots-forgotten",
    ("if accepts.any():", "if len(accepts):"),
    ("np.sort(np.concatenate(accepting)) if accepting else nodes[:0]", "np.sort(np.concatenate(accepting))"),
    fact="a walk from no roots has no level, and so no arrays to concatenate",
    question="`roots` is empty. How many levels does your walk have?",
)
known.change(
    "row-per-node",
    (
        "rows = np.stack([automaton.row(int(one)) for one in seen])",
        "rows = np.stack([automaton.row(int(one)) for one in states])",
    ),
    (
        "rows[np.repeat(place[states], last - first), trie.byte[children]]",
        "rows[np.repeat(np.arange(len(states)), last - first), trie.byte[children]]",
    ),
    fact="a row is fetched for every node instead of every state",
    question="100,000 nodes of a level are in one state. How many rows do you need?",
)


@known.wrong(
    "asks-at-each-node",
    fact="`row` and `accepts` are called for each node instead of once for each state of a level",
    question="100,000 nodes of a level are in one state. How often do you call `row`?",
)
def asks_at_each_node(trie, automaton, state, roots=None):
    level = [(node, state) for node in ([0] if roots is None else map(int, roots))]
    tokens, ends = [], []
    while level:
        below = []
        for node, at in level:
            if automaton.accepts(at):
                ends.append(node)
            row = automaton.row(at)
            for child in range(trie.first_child[node], trie.first_child[node + 1]):
                if (after := int(row[trie.byte[child]])) >= 0:
                    tokens += trie.tokens[trie.first_token[child] : trie.first_token[child + 1]].tolist()
                    below.append((child, after))
        level = below
    mask = np.zeros(-(-trie.size // 32), np.uint32)
    for token in tokens:
        mask[token // 32] |= np.uint32(1 << token % 32)
    return mask, np.array(sorted(ends), np.int32)


@known.accepted("node by node, with a stack")
def node_by_node(trie, automaton, state, roots=None):
    starts = [0] if roots is None else [int(root) for root in roots]
    level, mask, ends = [(node, state) for node in starts], np.zeros(-(-trie.size // 32), np.uint32), []
    first = True
    while level:
        distinct = sorted({at for _, at in level})
        accepts = {at: automaton.accepts(at) for at in distinct}
        ends += [node for node, at in level if accepts[at]]
        if not first:
            for node, _ in level:
                for token in trie.tokens[trie.first_token[node] : trie.first_token[node + 1]].tolist():
                    mask[token // 32] |= np.uint32(1 << (token % 32))
        children = [
            (child, at) for node, at in level for child in range(trie.first_child[node], trie.first_child[node + 1])
        ]
        rows = {at: automaton.row(at) for at in distinct} if children else {}
        moved = [(child, int(rows[at][trie.byte[child]])) for child, at in children]
        level, first = [(child, at) for child, at in moved if at >= 0], False
    return mask, np.array(sorted(ends), np.int32)
