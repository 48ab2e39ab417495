"""Training a tokenizer by slow formulas, and the checks of a dict of counts and of a list of merges."""

import itertools
import random
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

import regex
from hypothesis import strategies as st
from tests.week1.tokenizing import alphabet_formula, words
from tests.week5.training_texts import STORIES, counts_of_stories, texts

from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.texts import LENGTHS

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LETTERS = alphabet_formula()
Pairs = list[tuple[str, str]]
Train = Callable[[dict[str, int], int], object]


def words_formula(
    given: Iterable[str], pattern: str = GPT2, special: Sequence[str] = (), form: str | None = None
) -> dict[str, int]:
    """Count the words of each text, scanning greedily for special tokens."""
    # White space is Unicode's, without the four control characters that Python's own adds.
    compiled = regex.compile(pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}"))
    counts: dict[str, int] = {}

    def flush(part: str) -> None:
        part = unicodedata.normalize(form, part) if form else part  # type: ignore[arg-type]
        for match in compiled.finditer(part):
            word = "".join(LETTERS[byte] for byte in match[0].encode())
            counts[word] = counts.get(word, 0) + 1

    for text in given:
        rest = ""
        while text:
            found = max((s for s in special if text.startswith(s)), key=len, default=None)
            if found is None:
                rest, text = rest + text[0], text[1:]
            else:
                flush(rest)
                rest, text = "", text[len(found) :]
        flush(rest)
    return counts


@cache
def counts_of(name: str) -> dict[str, int]:
    """Return the word counts of one of the training texts."""
    return counts_of_stories() if name == STORIES else words_formula([texts()[name][0]])


def words_of_all_lengths() -> Iterator[tuple[dict[str, int], int]]:
    """Yield word counts and numbers of merges: a word of each length, alone and with others, of 1 to 12 letters."""
    for seed, length in enumerate([*LENGTHS, 1009]):
        draw = random.Random(seed)
        letters = "a\u0120zb\u010ac\u00ffdA!0e"[: 1 + seed % 12]
        word = "".join(draw.choice(letters) for _ in range(length))
        yield {word: 1}, 30
        others = {"".join(draw.choice(letters) for _ in range(1 + n % 7)): 1 + n % 3 for n in range(12)}
        yield {**others, word: 2}, 12 + seed


def merges_formula(word_counts: dict[str, int], num_merges: int) -> Pairs:
    """Learn merges on ids: a new list of all pairs for every merge, sorted by count and then by ids."""
    names = sorted(LETTERS.values())
    rows = [([names.index(letter) for letter in word], count) for word, count in word_counts.items()]
    merges: Pairs = []
    while len(merges) < num_merges:
        counts: Counter[tuple[int, int]] = Counter()
        for row, count in rows:
            for i in range(len(row) - 1):
                counts[row[i], row[i + 1]] += count
        if not counts:
            break
        (left, right), _ = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[0]
        merges.append((names[left], names[right]))
        for row, _ in rows:
            i = 0
            while i < len(row) - 1:
                if (row[i], row[i + 1]) == (left, right):
                    row[i : i + 2] = [len(names)]
                i += 1
        names.append(names[left] + names[right])
    return merges


def counts_in_words(counts: dict[str, int]) -> str:
    """Return word counts as a case shows them."""
    shown = ", ".join(f"{ascii(word)[1:-1]} {count}" for word, count in list(counts.items())[:6])
    return f"{shown}{', ...' * (len(counts) > 6)}" if counts else "no words"


def case_id(value: object) -> str:
    """Return a test's id for word counts or a list of merges."""
    return counts_in_words(value) if isinstance(value, dict) else " ".join(map(ascii, value)) or "none"  # type: ignore[call-overload]


def same_counts(actual: object, expected: dict[str, int], case: str) -> None:
    """Check that a dict of word counts is the expected one, in its order."""
    size = len(expected)
    if not isinstance(actual, dict):
        fail(Kind.TYPE, f"got {type_words(actual)}, expected a dict", case, size=size)
    for word, count in actual.items():
        if type(word) is not str or type(count) is not int:
            found = f"{type_words(word)} and {type_words(count)}"
            fail(Kind.TYPE, f"a word and its count are {found}, expected a str and an int", case, size=size)
        if not _is_utf8(word):
            fail(Kind.VALUES, f"the word {words(word)} is not written as its UTF-8 bytes", case, size=size)
    for word in [*expected, *actual]:
        if expected.get(word) != actual.get(word):
            lines = (f"expected  {expected.get(word, 'not counted')}", f"got       {actual.get(word, 'not counted')}")
            fail(Kind.VALUES, f"wrong count of the word {words(word)}", case, *lines, size=size)
    if list(actual) != list(expected):
        at = next(i for i, (a, b) in enumerate(zip(actual, expected, strict=True)) if a != b)
        lines = (f"expected  {words(list(expected)[at])}", f"got       {words(list(actual)[at])}")
        fail(Kind.VALUES, f"the counts are right but in another order, from word {at} on", case, *lines, size=size)


def _is_utf8(word: str) -> bool:
    byte_of = {character: byte for byte, character in LETTERS.items()}
    try:
        bytes(byte_of[character] for character in word).decode()
    except (KeyError, UnicodeDecodeError):
        return False
    return True


def same_merges(train: Train, counts: dict[str, int], num: int, expected: Pairs, case: str = "") -> None:
    """Check the merges that a program learns, and that it leaves the counts alone; report the first wrong merge."""
    case = f"{case or counts_in_words(counts)}; num_merges {num}"
    given = dict(counts)
    with noted(case):
        actual = train(given, num)
    size = sum(map(len, counts))
    if type(actual) is not list:
        fail(Kind.TYPE, f"got {type_words(actual)}, expected a list", case, size=size)
    for i, pair in enumerate(actual):
        if type(pair) is not tuple or [type(piece) for piece in pair] != [str, str]:
            fail(Kind.TYPE, f"merge {i} is {ascii(pair)[:50]}, expected a tuple of two strings", case, size=size)
    for i, (mine, wanted) in enumerate(zip(actual, expected, strict=False)):
        if mine != wanted:
            lines = (f"expected  {_pair(wanted)}", f"got       {_pair(mine)}")
            fail(Kind.VALUES, f"merge {i} is wrong, the first {i} are right", case, *lines, size=size)
    if len(actual) != len(expected):
        headline = f"got {len(actual)} merges, expected {len(expected)}; those that both have are right"
        fail(Kind.VALUES, headline, case, size=size)
    if given != counts:
        fail(Kind.INPUT_CHANGED, "the caller's `word_counts` was changed", case, size=size)


def _pair(pair: tuple[str, str]) -> str:
    return ascii(" + ".join(pair))[1:-1]


def lines_run(call: Callable[[], object]) -> int:
    """Return how many lines of Python a call executes, loops and called functions included."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event in ("line", "call")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        call()
    finally:
        sys.settrace(before)
    return count


LOWER = "abcdefghijklmnopqrstuvwxyz"
HOT = {LOWER: 10**6, LOWER[::-1]: 10**5, LOWER[::2] + LOWER[1::2]: 10**4}
COLD = ["".join(letters) for letters in itertools.product("ABCDEF", repeat=4)]  # 1,296 words, 36 pairs


def lines_per_merge(train: Train, first: int = 10, last: int = 50) -> float:
    """Return the lines that a program executes per merge, where each merge changes one of 1,299 words or two."""
    counts = {**dict.fromkeys(COLD[:500], 1), **HOT, **dict.fromkeys(COLD[500:], 1)}
    few, many = (lines_run(partial(train, dict(counts), num)) for num in (first, last))
    return (many - few) / (last - first)


# Words in a small alphabet, so that pairs occur often, tie often and overlap.
WORD_COUNTS = st.dictionaries(st.text("ab\u0120", min_size=1, max_size=9), st.integers(1, 3), min_size=1, max_size=9)
