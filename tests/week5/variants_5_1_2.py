"""Known programs of task 5.1.2, learning merges."""

from collections import Counter
from itertools import pairwise

from tests.week5.merge_probes import learned, merged, refused
from tests.week5.merging import counts_of
from tiny_llm_solution.tokenizer import byte_alphabet

from tiny_llm_course.testkit.variants import Variants

known = Variants("5.1.2")

known.probe_table(
    one_word=lambda program: learned(program, ("dog 1", 1), ("dog 2", 9)),
    frequent=lambda program: learned(program, ("xy 9 xyz 4 zab 6 zabc 5", 3)),
    occurrences=lambda program: learned(program, ("xy 5 ab 1 abc 1 abz 1", 2), ("abab 2 cd 3", 2)),
    ties=lambda program: learned(program, ("dog 2 dig 2 big 2", 5), ("zb 2 za 2 yc 2", 3)),
    space_ties=lambda program: learned(program, ("\u0120ab 2 cb 2", 3), ("a\u0120 1 ab 1", 2)),
    new_token_ties=lambda program: learned(program, ("hez 4 zhe 4", 3)),
    left_and_right=lambda program: learned(program, ("bc 2 ad 2", 2), ("za 2 bz 2", 2)),
    overlapping=lambda program: learned(program, ("aaab 2 cd 3 xa 1", 4), ("aaaa 1", 5), ("aaabaaa 1 b 3", 6)),
    runs_out=lambda program: learned(program, ("ab 2 c 4", 5)),
    rare=lambda program: learned(program, ("abc 3 de 1 fg 1", 5)),
    none=lambda program: learned(program, ("ab 2", 0)),
    page=lambda program: merged(program(dict(list(counts_of("a page").items())[:90]), 40)),
    refused=refused,
)


@known.sized("50 merges of 284 words")
def sized(program):
    counts = counts_of("a page")
    return lambda: program(counts, 50)


BEST = "min(counts, key=lambda pair: (-counts[pair], ids[pair[0]], ids[pair[1]]))"
MERGE = "(merge_pairs(tokens, {best: 0}), count) for tokens, count in words"
known.change(
    "first-seen",
    (BEST, "max(counts, key=counts.__getitem__)"),
    fact="of several most frequent pairs, the one that was seen first is merged",
    question="Do the merges change if the words come in another order?",
)
known.change(
    "ties-by-text",
    ("ids[pair[0]], ids[pair[1]]))", "pair))"),
    fact="ties are broken by the text of the tokens instead of their ids",
    question='Which is smaller, "he" or "z"? And which of them has the smaller id?',
)
known.change(
    "largest-ids",
    (BEST, "max(counts, key=lambda pair: (counts[pair], ids[pair[0]], ids[pair[1]]))"),
    fact="of several most frequent pairs, the one with the largest ids is merged",
    question="The pairs d o and o g tie. Which comes first?",
)
known.change(
    "right-token-first",
    ("ids[pair[0]], ids[pair[1]]))", "ids[pair[1]], ids[pair[0]]))"),
    fact="ties are broken by the right token first",
    question="The pairs b c and a d tie. Which token do you compare first?",
)
known.change(
    "ids-of-bytes",
    ("enumerate(sorted(byte_alphabet().values()))", "((byte, byte_alphabet()[byte]) for byte in range(256))"),
    fact="the characters' ids are their bytes, so that the space comes before the letters",
    question="The space is byte 32. What is it in the byte alphabet, and which characters sort before it?",
)
known.change(
    "each-word-once",
    ("counts[pair] += count", "counts[pair] += 1"),
    fact="each distinct word counts once, however often it occurs",
    question='"xy" occurs 10 times, "ab" in two words that occur once. Which pair is more frequent?',
)
known.change(
    "once-per-word",
    ("for pair in pairwise(tokens):", "for pair in dict.fromkeys(pairwise(tokens)):"),
    fact="a pair counts once per word, even if it occurs at several places in it",
    question='How often does a b occur in the word "abab"?',
)
known.change(
    "without-overlaps",
    (
        "for pair in pairwise(tokens):",
        "pairs = list(pairwise(tokens))\nlast = -1\nfor at, pair in enumerate(pairs):\n"
        "    if pair[0] == pair[1] and last == at - 1 >= 0 and pairs[last] == pair:\n        continue\n    last = at",
    ),
    fact="overlapping places of a pair are counted once",
    question='At how many places are two a adjacent in "aaa"?',
)
known.change(
    "rare-pairs-skipped",
    ("if not counts:", "if max(counts.values(), default=0) < 2:"),
    fact="training stops when no pair occurs twice",
    question="One word is left, and it occurs once. May its pairs be merged?",
)
known.change(
    "one-place",
    (
        MERGE,
        "((lambda at: [*tokens[:at], ''.join(best), *tokens[at + 2 :]] if at >= 0 else tokens)"
        "(next((i for i, pair in enumerate(pairwise(tokens)) if pair == best), -1)), count) for tokens, count in words",
    ),
    fact="a pair is merged at one place per word, although it occurs several times",
    question='How many tokens has "abab" after the merge of a b?',
)
known.change(
    "merged-in-the-text",
    (MERGE, "(' '.join(tokens).replace(' '.join(best), ''.join(best)).split(), count) for tokens, count in words"),
    fact="a merge replaces text, so that it also joins the end of a longer token with its neighbor",
    question='The tokens are "ba b", and the pair a b is merged. Does it occur here?',
)
known.change(
    "no-end",
    ("if not counts:\n    break", "pass"),
    fact="it does not stop when no pair is left",
    question="Every word has become one token. Which pair is the most frequent?",
)


@known.wrong(
    "counted-once",
    fact="the pairs are counted only before the first merge",
    question="After d o has become do, which pair is in the words that was not there before?",
)
def counted_once(word_counts, num_merges):
    ids = {character: i for i, character in enumerate(sorted(byte_alphabet().values()))}
    if num_merges < 0 or any(character not in ids for word in word_counts for character in word):
        raise ValueError(f"num_merges is {num_merges}, words {list(word_counts)}")
    counts = Counter()
    for word, count in word_counts.items():
        for pair in pairwise(word):
            counts[pair] += count
    return sorted(counts, key=lambda pair: (-counts[pair], ids[pair[0]], ids[pair[1]]))[:num_merges]


@known.accepted("on ids, sorted")
def on_ids(word_counts, num_merges):
    names = sorted(byte_alphabet().values())
    for word in word_counts:
        if set(word) - set(names):
            raise ValueError(f"{word} is not written in bytes")
    if num_merges < 0:
        raise ValueError(f"there are no {num_merges} merges")
    rows = [[names.index(character) for character in word] for word in word_counts]
    merges = []
    for _ in range(num_merges):
        counts = {}
        for row, count in zip(rows, word_counts.values(), strict=True):
            for i in range(1, len(row)):
                counts[row[i - 1], row[i]] = counts.get((row[i - 1], row[i]), 0) + count
        if not counts:
            return merges
        most = max(counts.values())
        left, right = min(pair for pair in counts if counts[pair] == most)
        for row in rows:
            i = 0
            while i < len(row) - 1:
                if row[i] == left and row[i + 1] == right:
                    row[i : i + 2] = [len(names)]
                i += 1
        merges.append((names[left], names[right]))
        names.append(names[left] + names[right])
    return merges


known.accepted_change(
    "the largest count, the smallest ids", (BEST, "max(counts, key=lambda p: (counts[p], -ids[p[0]], -ids[p[1]]))")
)
