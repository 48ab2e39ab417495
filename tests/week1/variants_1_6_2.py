"""Reference variants of task 1.6.2, merging pairs."""

import heapq
import itertools

from tests.week1.text_probes import pieces

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.2")


def ranked(text):
    return {tuple(pair.split("+")): rank for rank, pair in enumerate(text.split())}


def merged(program, ranks, *words):
    return tuple(pieces(program(list(word), ranked(ranks))) for word in words)


WORDS = "blue", "ublublu", "doog", "dogdog", "cat"
RANKS = "l+u u+e b+l lu+e b+lue d+o do+g bl+u o+o"


known.probe_table(
    table_in_another_order=lambda program: pieces(program(list("blue"), {("b", "l"): 1, ("u", "e"): 2, ("l", "u"): 0})),
    one_pair=lambda program: merged(program, "d+o", "do", "a"),
    words=lambda program: merged(program, RANKS, *WORDS, ""),
    two_pairs=lambda program: merged(program, "d+o c+a do+g ca+t", "dogcat"),
    same_spelling=lambda program: pieces(program(["a", "bc", "ab", "c", "ab", "b"], ranked("b+c a+b ab+c"))),
    borders=lambda program: pieces(program(["ba", "ab", "a", "a"], ranked("a+a"))),
    two_ways=lambda program: merged(program, "a+a c+a", "caa", "caaa", "cac"),
    gaps=lambda program: pieces(program(list("dogs"), {("d", "o"): 1, ("do", "g"): 3, ("dog", "s"): 7})),
    repeated=lambda program: merged(program, "a+a aa+aa aa+b", "aaa", "aaaa", "aaaaaaab", "aab"),
)


@known.probe()
def merge_input_afterwards(program):
    symbols = list("dog")
    program(symbols, ranked("d+o"))
    return pieces(symbols)


@known.sized("1,500 words")
def sized(program):
    ranks, words = ranked(RANKS), [list(word) for word in WORDS] * 300
    return lambda: [program(word, ranks) for word in words]


known.change(
    "leftmost-first",
    ("min(pairs, key=ranks.__getitem__)", "pairs[0]"),
    fact="the leftmost pair in the word is merged first",
    question="Two known pairs occur in the word. Which of them was learned first?",
)
known.change(
    "highest-rank-first",
    ("min(pairs", "max(pairs"),
    fact="the pair learned last is merged first",
    question="Does rank 0 mean that a pair was learned first, or last?",
)
known.change(
    "one-round",
    ("symbols = merged", "return merged"),
    fact="only the first pair is merged, and then no other",
    question="After d and o have become do, can do and g be merged?",
)
known.change(
    "no-new-pairs",
    (
        """
        while True:
            pairs = [pair for pair in itertools.pairwise(symbols) if pair in ranks]
            if not pairs:
                return symbols
            first, second = min(pairs, key=ranks.__getitem__)
        """,
        """
        pairs = sorted({pair for pair in itertools.pairwise(symbols) if pair in ranks}, key=ranks.__getitem__)
        while True:
            if not pairs:
                return symbols
            first, second = pairs.pop(0)
        """,
    ),
    fact="only the pairs of the original word are merged, never one that a merge has created",
    question="After `l` + `o` has become `lo`, which pair does it form with the `w` that follows?",
)
known.change(
    "one-place",
    ("merged[-1] == first:", "merged[-1] == first and first + second not in merged:"),
    ("symbols = merged", "symbols, ranks = merged, {pair: ranks[pair] for pair in ranks if pair != (first, second)}"),
    fact="a pair is merged at one position only, although it occurs several times",
    question="In dogdog, how often are d and o adjacent?",
)


@known.wrong(
    "longest-piece",
    fact="the longest known token is taken from the left, and the ranks are ignored",
    question="If l+u was learned before b+l, what are the symbols of blue after the first merge?",
)
def longest_piece(symbols, ranks):
    word, table, result = "".join(symbols), {a + b for a, b in ranks}, []
    while word:
        size = next((n for n in range(len(word), 1, -1) if word[:n] in table), 1)
        result.append(word[:size])
        word = word[size:]
    return result


@known.wrong(
    "replaced-in-a-text",
    fact="a pair also matches the end of one symbol and the beginning of the next, as in a text with blanks",
    question="The symbols are ba and ab. Are they the pair a + a?",
)
def replaced_in_a_text(symbols, ranks):
    text = " ".join(symbols)
    while True:
        symbols = text.split()
        pairs = [pair for pair in itertools.pairwise(symbols) if pair in ranks]
        if not pairs:
            return symbols
        first, second = min(pairs, key=ranks.__getitem__)
        text = text.replace(f"{first} {second}", first + second)


@known.wrong(
    "old-heap-entries",
    fact="an old entry of the heap is used although one of its two symbols has become another one since",
    question="In caa, c+a and a+a are in the heap, and a+a is merged first. Which symbol is next to c now?",
)
def old_heap_entries(symbols, ranks):
    symbols, following = list(symbols), [*range(1, len(symbols) + 1)]
    previous, heap = [i - 1 for i in range(len(symbols))], []

    def push(i):
        j = following[i] if i >= 0 else len(symbols)
        if j < len(symbols) and (symbols[i], symbols[j]) in ranks:
            heapq.heappush(heap, (ranks[symbols[i], symbols[j]], i))

    for i in range(len(symbols)):
        push(i)
    while heap:
        i = heapq.heappop(heap)[1]
        if not symbols[i] or (j := following[i]) >= len(symbols):
            continue
        symbols[i], symbols[j], following[i] = symbols[i] + symbols[j], "", following[j]
        if following[i] < len(symbols):
            previous[following[i]] = i
        push(i)
        push(previous[i])
    return [symbol for symbol in symbols if symbol]


known.change(
    "joined-twice",
    ("for symbol in symbols:", "for i, symbol in enumerate(symbols):"),
    ("merged and merged[-1] == first:", "i > 0 and symbols[i - 1] == first:"),
    ("merged[-1] = first + second", "merged[len(merged) - (merged[-1] == first) :] = [first + second]"),
    fact="a symbol is merged with both its left and its right neighbor, so aaa becomes aa aa",
    question="How many characters do aa and aa have together, and how many does aaa have?",
)
known.change(
    "from-the-right",
    ("for symbol in symbols:", "for symbol in reversed(symbols):"),
    ("symbol == second and merged and merged[-1] == first:", "symbol == first and merged and merged[-1] == second:"),
    ("symbols = merged", "symbols = merged[::-1]"),
    fact="a pair is merged from right to left, so aaa becomes a aa",
    question="In aaa the pair a+a occurs twice. Which occurrence comes first from the left?",
)
known.change(
    "order-of-the-table",
    ("key=ranks.__getitem__", "key=list(ranks).index"),
    fact="the pairs are merged in dictionary order, and their ranks are ignored",
    question="What do the values in `ranks` mean?",
)
known.change(
    "input-changed",
    ("symbols = list(symbols)", ""),
    ("symbols = merged", "symbols[:] = merged"),
    fact="the caller's list is modified in place",
    question="What is in `symbols` after the call?",
)
known.change(
    "unknown-pairs-looked-up",
    ("[pair for pair in itertools.pairwise(symbols) if pair in ranks]", "list(itertools.pairwise(symbols))"),
    fact="`ranks` is indexed with every adjacent pair, including unknown ones",
    question="What is the rank of a pair that was never learned?",
)

known.change(
    "second-symbol-kept",
    ("for symbol in symbols:", "for i, symbol in enumerate(symbols):"),
    ("if symbol == second and merged and merged[-1] == first:", "if symbols[i : i + 2] == [first, second]:"),
    ("merged[-1] = first + second", "merged.append(first + second)"),
    fact="the second symbol of a merged pair is kept beside the merged one",
    question="After d + o has become `do`, which symbol of the word does your loop look at next?",
)
known.change(
    "spelling-compared",
    ("symbol == second and merged and merged[-1] == first:", "merged and merged[-1] + symbol == first + second:"),
    fact="two symbols are merged if they spell the same as the pair, wherever the border between them is",
    question="a + bc and ab + c spell the same. Is one of them learned if the other one is?",
)
known.change(
    "ranks-without-gaps",
    ("if pair in ranks", "if ranks.get(pair, len(ranks)) < len(ranks)"),
    fact="pairs whose rank is len(ranks) or more are treated as unknown",
    question="`ranks` has three pairs, of ranks 1, 3 and 7. Which of these numbers are less than three?",
)
known.change(
    "rank-0-is-none",
    ("if pair in ranks", "if ranks.get(pair)"),
    fact="the pair of rank 0 is treated as unknown",
    question="Is 0 true or false in Python, and is it a rank?",
)


@known.accepted("one-at-a-time")
def one_at_a_time(symbols, ranks):
    symbols = list(symbols)
    while True:
        known = [(ranks[pair], i) for i, pair in enumerate(itertools.pairwise(symbols)) if pair in ranks]
        if not known:
            return symbols
        _, i = min(known)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


@known.accepted("rank-by-rank")
def rank_by_rank(symbols, ranks):
    symbols = list(symbols)
    for first, second in sorted(ranks, key=ranks.__getitem__):
        i = 0
        while i + 1 < len(symbols):
            if symbols[i] == first and symbols[i + 1] == second:
                symbols[i : i + 2] = [first + second]
            i += 1
    return symbols
