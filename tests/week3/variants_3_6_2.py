"""Known programs of task 3.6.2, lookup of n-grams."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.2")


def found(program, *cases):
    """Return each case's proposal, a row of 8 padded with -1."""
    rows = []
    for tokens, *rest in cases:
        proposed = program(list(tokens), *rest)
        rows.append(([*proposed, *[-1] * 8])[:8])
    return mx.array(rows)


def text(seed, length, vocab):
    return np.random.default_rng(seed).integers(0, vocab, length).tolist()


@known.probe()
def lookup_sentence(program):
    """A bigram that has occurred twice, a unigram that has occurred three times."""
    tokens = [5, 1, 7, 8, 2, 5, 1, 9, 3, 4, 1, 6, 0, 5, 1]
    return found(program, (tokens, 3), (tokens, 2, 2), (tokens, 3, 1, 1), (tokens, 3, 3, 2), (tokens, 8, 4, 1))


known.probe_table(
    random=lambda program: found(program, *((text(seed, 40, 4), 3, 3, 1) for seed in range(12))),
    long_runs=lambda program: found(program, *((text(seed, 60, 2), 4, 6, 2) for seed in range(8))),
    nothing=lambda program: found(program, ([], 3), ([4], 3), ([1, 2, 3], 3), ([1, 2, 1, 3], 3, 3, 2), ([1, 1], 0)),
    repeats=lambda program: found(
        program, ([6, 6, 6, 6], 3), ([6, 6], 2), ([1, 2, 1, 2, 1], 5, 2, 1), ([3, 6, 6], 4, 4, 1), ([6, 6, 6], 1, 2, 2)
    ),
    text_ends=lambda program: found(program, ([1, 2, 9, 1, 2], 5, 2, 1), ([9, 1, 2, 3, 1, 2], 5), ([7, 8, 7], 4, 5, 1)),
    shortest=lambda program: found(
        program, ([1, 2, 3, 4, 2], 3, 3, 1), ([1, 2, 3, 4, 2], 3, 3, 2), ([1, 2, 3, 1, 2], 3, 3, 2)
    ),
    by_default=lambda program: found(
        program, ([9, 1, 2, 3, 4, 7, 8, 2, 3, 4, 6, 1, 2, 3, 4], 3), ([5, 1, 5], 3), ([1, 2, 3, 4, 4, 1, 2, 9, 1, 2], 2)
    ),
    digits=lambda program: found(
        program, ([1, 23, 5, 1, 2], 2), ([12, 7, 2, 9, 12, 8, 2], 3, 1), ([7, 3, 5, 17, 3, 8, 7, 3], 3)
    ),
    refusals=lambda program: refused(program, [1, 2, 1], (-1,), (2, 3, 0), (2, 1, 2), (2, 0, 0), (2, 3, -1)),
    refusals_of_short_texts=lambda program: mx.stack(
        [refused(program, text, (-1,), (2, 3, 0), (2, 1, 2)) for text in ([], [4])]
    ),
    refusals_for_nothing=lambda program: refused(program, [1, 2, 1], (0, 3, 0), (0, 1, 2)),
)


def refused(program, tokens, *cases):
    """Return whether each case raises: 2 if with another error."""
    said = []
    for rest in cases:
        try:
            program(list(tokens), *rest)
            said.append(0)
        except ValueError:
            said.append(1)
        except Exception:
            said.append(2)
    return mx.array(said)


@known.sized("sequences of 2,000 tokens")
def sized(program):
    texts = [text(seed, 2000, 2000) for seed in range(4)]

    def run():
        for tokens in texts:
            program(tokens, 4, 3, 1)

    return run


SIZES = "range(min(max_ngram, len(tokens) - 1), min_ngram - 1, -1)"
PLACES = "range(len(tokens) - size - 1, -1, -1)"
GIVEN = "tokens[first + size : first + size + count]"

LOOP = """
for first in range(len(tokens) - size - 1, -1, -1):  # the latest occurrence first
    if tokens[first] == end[0] and tokens[first : first + size] == end:  # most positions fail at once
        return tokens[first + size : first + size + count]
"""

known.change(
    "shortest-first",
    (SIZES, "range(min_ngram, min(max_ngram, len(tokens) - 1) + 1)"),
    fact="the shortest n-gram is tried first",
    question="One token matches here, three match there. After which of them is the continuation likelier to repeat?",
)
known.change(
    "first-place",
    (PLACES, "range(len(tokens) - size)"),
    fact="the earliest match is used, not the latest",
    question="A story returns to its opening. Which is closer to what comes next: page 1 or the last page?",
)
known.change(
    "match-with-enough-after-it",
    (
        LOOP,
        """
        places = [first for first in range(len(tokens) - size - 1, -1, -1) if tokens[first : first + size] == end]
        for first in [*(place for place in places if place + size + count <= len(tokens)), *places]:
            return tokens[first + size : first + size + count]
        """,
    ),
    fact="a match with enough tokens after it is preferred to a later one with fewer",
    question="The latest match has two tokens after it, and three are requested. Which match does the docstring name?",
)
known.change(
    "finds-itself",
    (PLACES, "range(len(tokens) - size, -1, -1)"),
    fact="the n-gram at the end of the sequence matches itself, with nothing after it",
    question="Where do the last two tokens always occur?",
)
known.change(
    "beginning-left-out",
    (PLACES, "range(len(tokens) - size - 1, 0, -1)"),
    fact="a match at index 0 is never found",
    question="In `a b c a`, where has `a` occurred before?",
)
known.change(
    "no-overlap",
    (PLACES, "range(len(tokens) - 2 * size, -1, -1)"),
    fact="a match that overlaps the end of the sequence is skipped",
    question="In `a a a`, where is there an earlier `a a`?",
)
known.change(
    "longest-alone",
    (SIZES, "range(max_ngram, max_ngram - 1, -1)"),
    fact="only n-grams of max_ngram tokens are tried",
    question="The last three tokens have not occurred before. What about the last two?",
)
known.change(
    "shortest-left-out",
    (SIZES, "range(min(max_ngram, len(tokens) - 1), min_ngram, -1)"),
    fact="n-grams of min_ngram tokens are not tried",
    question="Where does range(3, 1, -1) end?",
)
known.change(
    "longest-left-out",
    (SIZES, "range(min(max_ngram, len(tokens)) - 1, min_ngram - 1, -1)"),
    fact="n-grams of max_ngram tokens are not tried",
    question="With max_ngram 3, how many tokens does your first comparison use?",
)
known.change(
    "down-to-one",
    (SIZES, "range(min(max_ngram, len(tokens) - 1), 0, -1)"),
    fact="n-grams down to one token are tried, whatever min_ngram is",
    question="A caller sets min_ngram to 2. Why might that be?",
)
known.change(
    "half-of-the-text",
    (SIZES, "range(min(max_ngram, len(tokens) // 2), min_ngram - 1, -1)"),
    fact="n-grams longer than half of the sequence are not tried",
    question="A match may overlap the end. How long can an n-gram be in a sequence of three tokens?",
)
known.change(
    "full-or-not-at-all",
    (
        "if tokens[first] == end[0] and tokens[first : first + size] == end:  # most positions fail at once",
        "if tokens[first : first + size] == end and first + size + count <= len(tokens):",
    ),
    fact="a match with fewer tokens after it than requested is skipped in favour of a shorter n-gram",
    question="A 3-gram match has two tokens after it, and four are requested. Are two good draft tokens worth nothing?",
)
known.change(
    "short-texts-first",
    ("if count < 0:", "if len(tokens) < 2:\n    return []\nif count < 0:"),
    fact="a sequence of at most one token returns early, before the arguments are validated",
    question="A caller requests -1 tokens of an empty sequence. What should happen?",
)
known.change(
    "nothing-wanted-first",
    ("if not 1 <= min_ngram <= max_ngram:", "if not count:\n    return []\nif not 1 <= min_ngram <= max_ngram:"),
    fact="a count of 0 returns early, before the n-gram sizes are validated",
    question="A caller requests 0 tokens with n-grams of size 0. Which of the two arguments is valid?",
)
known.change(
    "run-proposed-again",
    (GIVEN, "tokens[first : first + count]"),
    fact="the n-gram itself is proposed instead of its continuation",
    question="The n-gram is already the end of the sequence. What should come next?",
)
known.change(
    "one-token-left-out",
    (GIVEN, "tokens[first + size + 1 : first + size + 1 + count]"),
    fact="the first token after the match is skipped",
    question="Which index follows directly after an n-gram of `size` tokens that starts at `first`?",
)
known.change(
    "all-that-follows",
    (GIVEN, "tokens[first + size :]"),
    fact="all tokens up to the end of the sequence are proposed, whatever count is",
    question="How many tokens does the caller request at most?",
)
known.change(
    "goes-round",
    (GIVEN, "[tokens[first + size + i % (len(tokens) - first - size)] for i in range(count)]"),
    fact="at the end of the sequence the proposal wraps around to the match again",
    question="How many tokens follow the match, and how many do you return?",
)
known.change(
    "longest-over-the-whole-text",
    (SIZES, "range(len(tokens) - 1, min_ngram - 1, -1)"),
    fact="n-grams of any length are tried, whatever max_ngram is",
    question="The last five tokens have occurred before, and max_ngram is 2. Which match should decide?",
)
known.change(
    "zero-becomes-everything",
    (GIVEN, "tokens[first + size :][: count or None]"),
    fact="a count of 0 returns all tokens that follow",
    question="What does [: None] leave out?",
)
known.change(
    "count-not-looked-at",
    ("if count < 0:", "if False:"),
    fact="a negative count is accepted",
    question="What does a slice to -1 leave out?",
)
known.change(
    "sizes-not-looked-at",
    ("if not 1 <= min_ngram <= max_ngram:", "if False:"),
    fact="min_ngram may be 0 or above max_ngram",
    question="How many positions match an n-gram of no tokens?",
)
known.change(
    "order-not-looked-at",
    ("if not 1 <= min_ngram <= max_ngram:", "if min_ngram < 1:"),
    fact="a max_ngram below min_ngram is accepted",
    question="From 1 token down to 2: how often does your loop run?",
)


@known.wrong(
    "found-in-a-string",
    fact="the tokens are joined to a string and searched there, so token 2 is found in token 23",
    question="Which of the two contains `1 2`: `1 23 5`, or `4 1 2`?",
)
def found_in_a_string(tokens, count, max_ngram=3, min_ngram=1):
    if count < 0:
        raise ValueError(f"count {count}")
    if min_ngram < 1 or max_ngram < min_ngram:
        raise ValueError(f"max_ngram {max_ngram}, min_ngram {min_ngram}")
    earlier = " ".join(map(str, tokens[:-1]))
    for size in range(min(max_ngram, len(tokens) - 1), min_ngram - 1, -1):
        place = earlier.rfind(" ".join(map(str, tokens[-size:])))
        if place >= 0:
            first = earlier[:place].count(" ")
            return tokens[first + size : first + size + count]
    return []


@known.accepted("the max_ngram common end")
def longest_common_end(tokens, count, max_ngram=3, min_ngram=1):
    if count < 0 or min_ngram < 1 or max_ngram < min_ngram:
        raise ValueError(f"{count}, {max_ngram}, {min_ngram}")
    best = (min_ngram - 1, 0)
    for end in range(1, len(tokens)):
        same = 0
        while same < max_ngram and same < end and tokens[end - 1 - same] == tokens[-1 - same]:
            same += 1
        if same >= min_ngram:
            best = max(best, (same, end))
    return tokens[best[1] : best[1] + count] if best[1] else []


@known.accepted("by a table of runs")
def by_a_table(tokens, count, max_ngram=3, min_ngram=1):
    if count < 0:
        raise ValueError(f"count {count}")
    if min_ngram < 1 or max_ngram < min_ngram:
        raise ValueError(f"max_ngram {max_ngram}, min_ngram {min_ngram}")
    behind = {}
    for size in range(min_ngram, max_ngram + 1):
        for first in range(len(tokens) - size):
            behind[tuple(tokens[first : first + size])] = first + size
    for size in range(max_ngram, min_ngram - 1, -1):
        place = behind.get(tuple(tokens[-size:])) if size <= len(tokens) else None
        if place is not None:
            return tokens[place : place + count]
    return []
