"""Known programs of task 3.6.2, lookup of n-grams."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.2")


def found(program, *cases):
    """What is proposed in each case, a row of 8 with -1 behind it."""
    rows = []
    for tokens, *rest in cases:
        proposed = program(list(tokens), *rest)
        rows.append(([*proposed, *[-1] * 8])[:8])
    return mx.array(rows)


def text(seed, length, vocab):
    return np.random.default_rng(seed).integers(0, vocab, length).tolist()


@known.probe()
def lookup_sentence(program):
    """A run of two that has stood twice, a run of one that has stood three times."""
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
    """Whether each case is refused: 2 if by another error."""
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


@known.sized("texts of 2,000 tokens")
def sized(program):
    texts = [text(seed, 2000, 2000) for seed in range(4)]

    def run():
        for tokens in texts:
            program(tokens, 4, 3, 1)

    return run


SIZES = "range(min(longest, len(tokens) - 1), shortest - 1, -1)"
PLACES = "range(len(tokens) - size - 1, -1, -1)"
GIVEN = "tokens[first + size : first + size + count]"

LOOP = """
for first in range(len(tokens) - size - 1, -1, -1):  # the latest place first
    if tokens[first] == end[0] and tokens[first : first + size] == end:  # most places fail at once
        return tokens[first + size : first + size + count]
"""

known.change(
    "shortest-first",
    (SIZES, "range(shortest, min(longest, len(tokens) - 1) + 1)"),
    fact="the shortest run is looked for first",
    question="One token agrees here, three agree there. What follows which of them is more likely to come again?",
)
known.change(
    "first-place",
    (PLACES, "range(len(tokens) - size)"),
    fact="the first place is taken, and not the latest one",
    question="A story comes back to its beginning. What is closer to what it will say: page 1 or the last page?",
)
known.change(
    "place-with-enough-behind-it",
    (
        LOOP,
        """
        places = [first for first in range(len(tokens) - size - 1, -1, -1) if tokens[first : first + size] == end]
        for first in [*(place for place in places if place + size + count <= len(tokens)), *places]:
            return tokens[first + size : first + size + count]
        """,
    ),
    fact="a place with as many tokens behind it as are wanted is preferred to a later one with fewer",
    question="The latest place has two tokens behind it, and three are wanted. Which place does the docstring name?",
)
known.change(
    "finds-itself",
    (PLACES, "range(len(tokens) - size, -1, -1)"),
    fact="the end of the text is found in its own place, behind which there is nothing",
    question="At which place do the last two tokens always stand?",
)
known.change(
    "beginning-left-out",
    (PLACES, "range(len(tokens) - size - 1, 0, -1)"),
    fact="the very beginning of the text is never looked at",
    question="In `a b c a`, at which place has `a` stood before?",
)
known.change(
    "no-overlap",
    (PLACES, "range(len(tokens) - 2 * size, -1, -1)"),
    fact="a place that overlaps the end of the text is left out",
    question="In `a a a`, which earlier place of `a a` is there?",
)
known.change(
    "longest-alone",
    (SIZES, "range(longest, longest - 1, -1)"),
    fact="only runs of the longest size are looked for",
    question="Three tokens in a row have not stood before. What about the last two of them?",
)
known.change(
    "shortest-left-out",
    (SIZES, "range(min(longest, len(tokens) - 1), shortest, -1)"),
    fact="runs of the shortest size are not looked for",
    question="Where does range(3, 1, -1) end?",
)
known.change(
    "longest-left-out",
    (SIZES, "range(min(longest, len(tokens)) - 1, shortest - 1, -1)"),
    fact="runs of the longest size are not looked for",
    question="With longest 3, how many tokens does your first comparison take?",
)
known.change(
    "down-to-one",
    (SIZES, "range(min(longest, len(tokens) - 1), 0, -1)"),
    fact="runs down to one token are looked for, whatever `shortest` says",
    question="Somebody asks for runs of at least two tokens. Why might that be?",
)
known.change(
    "half-of-the-text",
    (SIZES, "range(min(longest, len(tokens) // 2), shortest - 1, -1)"),
    fact="runs that are longer than half of the text are not looked for",
    question="A run may overlap with its earlier place. How long can it be in a text of three tokens?",
)
known.change(
    "looked-for-in-digits",
    (
        LOOP,
        """
        digits = " ".join(map(str, tokens[:-1]))
        place = digits.rfind(" ".join(map(str, end)))
        if place >= 0:
            first = digits[:place].count(" ")
            return tokens[first + size : first + size + count]
        """,
    ),
    fact="tokens are looked for in the text's digits, so that 2 is found within 23",
    question="The digits `1 2` stand within `1 23`. Which tokens stand there?",
)
known.change(
    "full-or-not-at-all",
    (
        "if tokens[first] == end[0] and tokens[first : first + size] == end:  # most places fail at once",
        "if tokens[first : first + size] == end and first + size + count <= len(tokens):",
    ),
    fact="a place with fewer tokens behind it than are wanted is passed over, and a shorter run may decide",
    question="A run of three has two tokens behind it, and four are wanted. Are two good guesses worth nothing?",
)
known.change(
    "short-texts-first",
    ("if count < 0:", "if len(tokens) < 2:\n    return []\nif count < 0:"),
    fact="a text of one token, or of none, gives nothing, and nobody looks at count and sizes",
    question="A caller asks for -1 tokens, of an empty text. Who tells him?",
)
known.change(
    "nothing-wanted-first",
    ("if not 1 <= shortest <= longest:", "if not count:\n    return []\nif not 1 <= shortest <= longest:"),
    fact="a count of 0 gives nothing, and nobody looks at the sizes",
    question="A caller asks for no tokens, and for runs of none. Which of the two can be done?",
)
known.change(
    "run-proposed-again",
    (GIVEN, "tokens[first : first + count]"),
    fact="the run itself is proposed, and not what follows it",
    question="The run stands at the end of the text already. What should come next?",
)
known.change(
    "one-token-left-out",
    (GIVEN, "tokens[first + size + 1 : first + size + 1 + count]"),
    fact="the first token behind the run is left out",
    question="Which place is directly behind a run of `size` tokens that begins at `first`?",
)
known.change(
    "all-that-follows",
    (GIVEN, "tokens[first + size :]"),
    fact="everything up to the end of the text is proposed, however little is wanted",
    question="How many tokens does the caller want at most?",
)
known.change(
    "goes-round",
    (GIVEN, "[tokens[first + size + i % (len(tokens) - first - size)] for i in range(count)]"),
    fact="once the text ends, what follows the run is proposed once more from its beginning",
    question="How many tokens stand behind the place, and how many do you give?",
)
known.change(
    "longest-over-the-whole-text",
    (SIZES, "range(len(tokens) - 1, shortest - 1, -1)"),
    fact="runs of any length are looked for, whatever `longest` says",
    question="The last five tokens have stood before, and longest is 2. Which place should decide?",
)
known.change(
    "zero-becomes-everything",
    (GIVEN, "tokens[first + size :][: count or None]"),
    fact="a count of 0 gives all that follow",
    question="What does [: None] leave out?",
)
known.change(
    "count-not-looked-at",
    ("if count < 0:", "if False:"),
    fact="a count below 0 is taken",
    question="What does a slice to -1 leave out?",
)
known.change(
    "sizes-not-looked-at",
    ("if not 1 <= shortest <= longest:", "if False:"),
    fact="a shortest run of no tokens, or one longer than the longest, is taken",
    question="With how many places does a run of no tokens agree?",
)
known.change(
    "order-not-looked-at",
    ("if not 1 <= shortest <= longest:", "if shortest < 1:"),
    fact="a longest run that is shorter than the shortest is taken",
    question="From 1 token down to 2: how often does your loop run?",
)


@known.accepted("the longest common end")
def longest_common_end(tokens, count, longest=3, shortest=1):
    if count < 0 or shortest < 1 or longest < shortest:
        raise ValueError(f"{count}, {longest}, {shortest}")
    best = (shortest - 1, 0)
    for end in range(1, len(tokens)):
        same = 0
        while same < longest and same < end and tokens[end - 1 - same] == tokens[-1 - same]:
            same += 1
        if same >= shortest:
            best = max(best, (same, end))
    return tokens[best[1] : best[1] + count] if best[1] else []


@known.accepted("by a table of runs")
def by_a_table(tokens, count, longest=3, shortest=1):
    if count < 0:
        raise ValueError(f"count {count}")
    if shortest < 1 or longest < shortest:
        raise ValueError(f"longest {longest}, shortest {shortest}")
    behind = {}
    for size in range(shortest, longest + 1):
        for first in range(len(tokens) - size):
            behind[tuple(tokens[first : first + size])] = first + size
    for size in range(longest, shortest - 1, -1):
        place = behind.get(tuple(tokens[-size:])) if size <= len(tokens) else None
        if place is not None:
            return tokens[place : place + count]
    return []
