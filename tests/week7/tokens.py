"""Small vocabularies, automata as tables, and the allowed tokens found one by one, for task 7.1.2."""

import random
from collections import Counter
from typing import Any

import numpy as np

from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different

WORDS = [
    b"d",
    b"do",
    b"dog",
    b"dot",
    b"cat",
    b"c",
    b"o",
    b"og",
    b"g",
    b"dog",
    b"\xc3",
    b"\xa9",
    b"\xc3\xa9",
    b'",',
    b'"',
]


class Table:
    """An automaton of a table, S x 256, which counts the calls of its methods."""

    def __init__(self, table: np.ndarray, accepting: list[bool]) -> None:
        self.table, self.accepting = table.astype(np.int32), accepting
        self.rows, self.asked = list[int](), list[int]()

    def row(self, state: int) -> np.ndarray:
        """Return a row; a state that is none is an IndexError, also -1."""
        if not 0 <= state < len(self.table):
            raise IndexError(f"row({state}) was called, but the states are 0 to {len(self.table) - 1}")
        self.rows.append(int(state))
        found: np.ndarray = self.table[state]
        return found

    def accepts(self, state: int) -> bool:
        """Return whether a text may end."""
        if not 0 <= state < len(self.table):
            raise IndexError(f"accepts({state}) was called, but the states are 0 to {len(self.table) - 1}")
        self.asked.append(int(state))
        return self.accepting[state]


def of_words(*words: bytes) -> Table:
    """Return the automaton that accepts these words: one state for each prefix."""
    prefixes = sorted({word[:n] for word in words for n in range(len(word) + 1)}, key=lambda p: (len(p), p))
    table = np.full((len(prefixes), 256), -1, np.int32)
    for number, prefix in enumerate(prefixes):
        if prefix:
            table[prefixes.index(prefix[:-1]), prefix[-1]] = number
    return Table(table, [prefix in words for prefix in prefixes])


def random_table(rng: random.Random, states: int, letters: bytes, share: float) -> Table:
    """Return a random automaton over some letters, of whose moves this share exists."""
    table = np.full((states, 256), -1, np.int32)
    for state in range(states):
        for letter in letters:
            if rng.random() < share:
                table[state, letter] = rng.randrange(states)
    return Table(table, [rng.random() < 0.3 for _ in range(states)])


def random_words(rng: random.Random, count: int, letters: bytes, length: int) -> list[bytes]:
    """Return random words, some of them twice."""
    return [bytes(rng.choice(letters) for _ in range(rng.randint(1, length))) for _ in range(count)]


def texts_of(trie: Any) -> list[bytes]:
    """Return the bytes that lead to each node."""
    texts = [b""] * len(trie.byte)
    for node in range(len(trie.byte)):
        for child in range(trie.first_child[node], trie.first_child[node + 1]):
            texts[child] = texts[node] + bytes([trie.byte[child]])
    return texts


def expected_of(trie: Any, table: Table, state: int, roots: list[int]) -> tuple[list[int], list[int]]:
    """Return the allowed tokens and the nodes in which the automaton accepts, byte by byte."""
    tokens, ends, texts = list[int](), list[int](), texts_of(trie)
    for root in roots:
        for node, text in enumerate(texts):
            if not text.startswith(texts[root]):
                continue
            at = state
            for byte in text[len(texts[root]) :]:
                at = int(table.table[at, byte]) if at >= 0 else -1
            if at >= 0:
                ends += [node] if table.accepting[at] else []
                own = trie.tokens[trie.first_token[node] : trie.first_token[node + 1]]
                tokens += own.tolist() if node != root else []
    return sorted(tokens), sorted(ends)


class Watched(np.ndarray):
    """An array of a trie that notes which of its elements are read by index, one or many."""

    read: set[int]

    def __getitem__(self, index: Any) -> Any:
        """Return elements, as an array that notes nothing."""
        plain = self.view(np.ndarray)
        if hasattr(self, "read"):
            self.read.update(np.atleast_1d(np.arange(len(plain))[index]).tolist())
        return plain[index]


def watch(array: np.ndarray) -> tuple[Any, set[int]]:
    """Return an array that is watched, and a set that grows by the indices that are read."""
    watched, read = array.view(Watched), set[int]()
    watched.read = read
    return watched, read


def levels_of(trie: Any, table: Table, state: int, roots: list[int]) -> dict[int, int]:
    """Return for each state on how many levels of a walk the automaton is in it."""
    level, counts = [(root, state) for root in roots], dict[int, int]()
    while level:
        for one in {at for _, at in level}:
            counts[one] = counts.get(one, 0) + 1
        moved = [
            (child, int(table.table[at, trie.byte[child]]))
            for node, at in level
            for child in range(trie.first_child[node], trie.first_child[node + 1])
        ]
        level = [(child, at) for child, at in moved if at >= 0]
    return counts


def check_masks(allowed_tokens: Any, trie: Any, table: Table, state: int, roots: list[int] | None, case: str) -> None:
    """Check a walk against the same, node by node."""
    size = len(trie.byte) + len(trie.tokens)
    given = None if roots is None else np.array(roots, np.int32)
    table.rows.clear()
    table.asked.clear()
    with noted(case):
        found = allowed_tokens(trie, table, state, given)
    rows, asked = Counter(table.rows), Counter(table.asked)
    levels = levels_of(trie, table, state, [0] if roots is None else roots)
    if not isinstance(found, tuple) or len(found) != 2:
        fail(Kind.TYPE, f"got {type_words(found)}, expected an Allowed: mask and ends", case, size=size)
    mask, ends = found
    words = -(-trie.size // 32)
    for name, array in (("mask", mask), ("ends", ends)):
        if not isinstance(array, np.ndarray):
            fail(Kind.TYPE, f"`{name}` is {type_words(array)}, expected a NumPy array", case, size=size)
    if mask.shape != (words,):
        fail(Kind.SHAPE, f"`mask` is {mask.shape}, expected ({words},) for V = {trie.size}", case, size=size)
    if mask.dtype != np.uint32:
        fail(Kind.DTYPE, f"`mask` is {mask.dtype}, expected uint32", case, size=size)
    tokens, nodes = expected_of(trie, table, state, [0] if roots is None else roots)
    actual = [t for t in range(32 * words) if int(mask[t // 32]) >> (t % 32) & 1]
    fail_if_different("wrong tokens are allowed", tokens, actual, case, size)
    fail_if_different("wrong `ends`", nodes, ends.tolist(), case, size)
    for name, counts in (("row", rows), ("accepts", asked)):
        for one, count in counts.items():
            if count > (most := levels.get(one, 0)):
                what = f"`{name}({one})` was called {count} times"
                fail(Kind.VALUES, what, case, f"expected  at most {most}, once for each level in this state", size=size)
