"""Task 7.1.2, token masks, checked token by token."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.tokens import WORDS, Table, check_masks, of_words, random_table, random_words, texts_of, watch

from tiny_llm.constrained import masks
from tiny_llm.constrained.trie import TokenTrie
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sweep


def trie_of(words, size=None, excluded=()):
    return TokenTrie(dict(enumerate(words)), size or len(words), excluded)


@pytest.mark.parametrize(
    "words",
    [
        (b"dog",),
        (b"dog", b"dot"),
        (b"do",),
        (b"cat", b"dog"),
        (b"d",),
        (b"cow",),
        (b"",),
        (b"", b"dog"),
        (b"\xc3\xa9",),
    ],
    ids=lambda words: " ".join(word.decode() or "nothing" for word in words),
)
def test_task_2_masks_words(words):
    """Tokens d, do, dog twice, dot, cat and others; the automaton accepts some words."""
    check_masks(masks.allowed_tokens, trie_of(WORDS), of_words(*words), 0, None, f"15 tokens, the words {words}")


@pytest.mark.parametrize("state", [1, 2, 3])
def test_task_2_masks_from_another_state(state):
    """After d, do and dog of the word dogdog."""
    table = of_words(b"dogdog")
    check_masks(masks.allowed_tokens, trie_of(WORDS), table, state, None, f"15 tokens, in state {state} of dogdog")


@pytest.mark.parametrize("size", [15, 31, 32, 33, 64, 100])
def test_task_2_masks_size(size):
    """V = 15 to 100 logits for 15 tokens: the mask has whole words, and no bits from V on."""
    check_masks(masks.allowed_tokens, trie_of(WORDS, size), of_words(b"dog"), 0, None, f"15 tokens, V = {size}")


def test_task_2_masks_every_bit():
    """70 tokens of one byte, each allowed by itself."""
    trie = trie_of([bytes([n]) for n in range(70)])
    for token in (0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 69):
        check_masks(
            masks.allowed_tokens, trie, of_words(bytes([token])), 0, None, f"70 tokens, only token {token} allowed"
        )


def test_task_2_masks_equal_bytes():
    """Tokens 3 and 40 are both dog."""
    words = [b"%02d" % n for n in range(41)]
    words[3] = words[40] = b"dog"
    check_masks(masks.allowed_tokens, trie_of(words), of_words(b"dog"), 0, None, "41 tokens, two of which are dog")


def test_task_2_masks_left_out():
    """Excluded tokens are not in the trie, nor are tokens without bytes."""
    trie = trie_of([b"dog", b"", b"dot", b"do"], excluded={2})
    check_masks(
        masks.allowed_tokens, trie, of_words(b"dog", b"dot"), 0, None, "tokens dog, an empty one, dot excluded, do"
    )


@pytest.mark.parametrize(
    "roots", [["d"], ["do", "c"], ["dog", "cat"], ["c", "d", "og"], []], ids=lambda roots: " ".join(roots) or "none"
)
def test_task_2_masks_roots(roots):
    """The walk starts below some nodes, whose own tokens it does not allow."""
    trie = trie_of(WORDS)
    texts = texts_of(trie)
    nodes = sorted(texts.index(root.encode()) for root in roots)
    loop = Table(np.zeros((1, 256)), [True])
    for name, table in (("everything", loop), ("og, g or t", of_words(b"og", b"g", b"t"))):
        for order in (nodes, nodes[::-1]):
            case = f"15 tokens, from the nodes {order} of {roots}, {name} is accepted"
            check_masks(masks.allowed_tokens, trie, table, 0, order, case)


def test_task_2_masks_nothing():
    """No token is allowed, and an empty vocabulary."""
    none = Table(np.full((1, 256), -1), [False])
    check_masks(masks.allowed_tokens, trie_of(WORDS), none, 0, None, "15 tokens, no byte is read")
    check_masks(masks.allowed_tokens, trie_of([b""], 5), none, 0, None, "no tokens, V = 5")


def test_task_2_masks_visits_no_dead_branch():
    """The automaton reads dog only: 400 tokens that begin with other letters are not looked at."""
    rng = random.Random(0)
    words = [*WORDS, *random_words(rng, 400, b"xyz", 7)]
    table = of_words(b"dog")
    case = f"{len(words)} tokens, the word dog"
    check_masks(masks.allowed_tokens, trie_of(words), table, 0, None, case)
    levels = 5  # of dog, dot and what is below
    if len(table.rows) > levels or len(table.asked) > 8:
        what = f"`row` was called {len(table.rows)} times and `accepts` {len(table.asked)} times for 4 states"
        fail(Kind.VALUES, what, case, f"expected  at most {levels} and 8", size=len(words))


def test_task_2_masks_looks_at_nothing_below_a_dead_node():
    """Hundreds of nodes lie below letters that the automaton does not read: their bytes and children are not read."""
    trie = trie_of([*WORDS, *random_words(random.Random(0), 400, b"xyz", 7)])
    texts, case = texts_of(trie), f"{400 + len(WORDS)} tokens, the word dog"
    trie.byte, of_bytes = watch(trie.byte)
    trie.first_child, of_children = watch(trie.first_child)
    with noted(case):
        masks.allowed_tokens(trie, of_words(b"dog"), 0)
    near = {node for node, text in enumerate(texts) if b"dog".startswith(text[:-1])}  # reached, or a child of such
    if wrong := sorted((of_bytes - near) | (of_children - near - {node + 1 for node in near})):
        what = f"{len(wrong)} nodes below dead ones were looked at, such as {texts[wrong[0]].decode('latin-1')!r}"
        fail(Kind.VALUES, what, case, size=len(texts))


def test_task_2_masks_each_row_once_a_level():
    """300 tokens of up to 6 bytes in one state."""
    words = random_words(random.Random(1), 300, b"abcde", 6)
    table = Table(np.zeros((1, 256)), [False])
    case = "300 tokens of up to 6 bytes, an automaton of one state"
    check_masks(masks.allowed_tokens, trie_of(words), table, 0, None, case)
    if len(table.rows) > 7:
        fail(Kind.VALUES, f"`row` was called {len(table.rows)} times for 7 levels of one state", case, size=300)
    if len(table.asked) > 7:
        fail(Kind.VALUES, f"`accepts` was called {len(table.asked)} times for 7 levels of one state", case, size=300)


def test_task_2_masks_leaves_its_input():
    trie, table = trie_of(WORDS), of_words(b"dog")
    before = trie.byte.copy(), trie.tokens.copy(), table.table.copy()
    roots = np.array([1], np.int32)
    with noted("15 tokens, the word dog"):
        masks.allowed_tokens(trie, table, 0, roots)
    same = all((a == b).all() for a, b in zip(before, (trie.byte, trie.tokens, table.table), strict=True))
    if not same or roots.tolist() != [1]:
        fail(Kind.INPUT_CHANGED, "the trie, the table or the roots were changed", "15 tokens, the word dog")


def test_task_2_masks_sweep():
    """Random vocabularies and automata of all sizes."""
    for n in sweep(V=1100, S=70, L=9):
        rng = random.Random(n.seed * 7919 + n.V + n.S)
        letters = b"abcde\x00\xff"[: 1 + n.seed % 7]
        trie = trie_of(random_words(rng, min(n.V, 300), letters, min(n.L, 9)), max(n.V, 1))
        table = random_table(rng, n.S, letters, n.turn(0.5, 1.0, 0.9))
        state = rng.randrange(n.S)
        case = (
            f"{min(n.V, 300)} tokens of up to {n.L} bytes, V = {n.V}, {n.S} states, from state {state}, seed {n.seed}"
        )
        check_masks(masks.allowed_tokens, trie, table, state, None, case)


@property_test
@given(seed=st.integers(0, 999))
def test_task_2_masks_random_roots(seed):
    rng = random.Random(seed)
    trie = trie_of(random_words(rng, 20, b"abc", 4))
    table = random_table(rng, 4, b"abc", 0.8)
    depths = [len(text) for text in texts_of(trie)]
    level = [node for node, depth in enumerate(depths) if depth == 1 + seed % 2]
    roots = sorted(rng.sample(level, min(len(level), 3)))
    check_masks(masks.allowed_tokens, trie, table, 0, roots, f"20 tokens, 4 states, roots {roots}, seed {seed}")
