"""Known programs of task 5.1.3, learning merges fast."""

from collections import Counter, defaultdict
from itertools import pairwise

import mlx.core as mx
from tests.week5.merge_probes import learned, merged, refused
from tests.week5.merging import counts_of, lines_per_merge
from tiny_llm_solution.tokenizer import byte_alphabet

from tiny_llm_course.testkit.variants import Variants

known = Variants("5.1.3")

known.probe_table(
    one_word=lambda program: learned(program, ("dog 1", 1), ("dog 2", 9)),
    occurrences=lambda program: learned(program, ("xy 5 ab 1 abc 1 abz 1", 2), ("abab 2 cd 3", 2)),
    neighbors=lambda program: learned(program, ("xaby 5 xa 1 by 2 cd 4", 4), ("abc 5 ab 3 xbc 2 cx 4", 5)),
    falls=lambda program: learned(program, ("abc 5 bc 1 bd 3 ab 1", 4), ("abc 4 ab 3 xbc 2 cx 6", 6)),
    new_pairs=lambda program: learned(program, ("abcd 5 zz 2", 5), ("abx 3 aby 3 abxab 3", 4)),
    weights=lambda program: learned(program, ("abc 9 abz 1 bce 3 bcf 3 xy 5", 5)),
    ties=lambda program: learned(program, ("dog 2 dig 2 big 2", 5), ("zb 2 za 2 yc 2", 3)),
    space_ties=lambda program: learned(program, ("\u0120ab 2 cb 2", 3), ("a\u0120 1 ab 1", 2)),
    new_token_ties=lambda program: learned(program, ("hez 4 zhe 4", 3)),
    overlapping=lambda program: learned(program, ("aaab 2 cd 3 xa 1", 4), ("aaaa 1", 5), ("aaabaaa 1 b 3", 6)),
    page=lambda program: merged(program(dict(list(counts_of("a page").items())[:90]), 40)),
    scripts=lambda program: merged(program(dict(list(counts_of("many scripts").items())[:60]), 60)),
    refused=refused,
    visits=lambda program: mx.array(lines_per_merge(program, 4, 24) < 1299, mx.float32),
)


@known.sized("700 merges of 284 words")
def sized(program):
    counts = counts_of("a page")
    return lambda: program(counts, 700)


INDEXED = """
        changes[pair] += word_count[i]
        places[pair].add(i)
"""
HEAP = "[(-count, pair) for pair, count in counts.items()]"
POP = "negative, best = heapq.heappop(heap)"
PUSH = "heapq.heappush(heap, (-counts[pair], pair))"
RECOUNTED = """
for pair in pairwise(words[i]):
    changes[pair] -= word_count[i]
words[i] = _replaced(words[i], best, len(tokens) - 1)
for pair in pairwise(words[i]):
    changes[pair] += word_count[i]
    places[pair].add(i)
"""
NEIGHBORS = """
old, new, at = words[i], len(tokens) - 1, 0
while at < len(old) - 1:
    found = (old[at], old[at + 1]) == best
    if found and at:
        changes[old[at - 1], old[at]] -= word_count[i]
        changes[old[at - 1], new] += word_count[i]
        places[old[at - 1], new].add(i)
    if found and at + 2 < len(old):
        changes[old[at + 1], old[at + 2]] -= word_count[i]
        changes[new, old[at + 2]] += word_count[i]
        places[new, old[at + 2]].add(i)
    at += 1 + found
words[i] = _replaced(old, best, new)
"""
known.change(
    "old-counts-used",
    ("if counts[best] != -negative:", "if not counts[best]:"),
    fact="a pair is merged on the strength of an old count, although other merges have reduced it",
    question="b c had the count 7 when it was pushed, and now has 2. What does its old entry say?",
)
known.change(
    "falling-counts-not-pushed",
    ("if change and counts[pair]:", "if change > 0:"),
    fact="a pair whose count has fallen gets no new entry in the heap, so it is lost",
    question="The old entry of a pair is skipped when it is popped. Where is the one with its current count?",
)
known.change(
    "pairs-without-occurrences-pushed",
    ("if change and counts[pair]:", "if change:"),
    ("places.pop(best)", "list(places[best])"),
    fact="pairs whose count has fallen to 0 are pushed as well, so pairs that no longer occur are merged",
    question="After the only word has become a single token, which entries does the heap still hold?",
)
known.change(
    "neighbors-of-the-old-word",
    (RECOUNTED, NEIGHBORS),
    ("counts[pair] += change\n", "counts[pair] += change\ncounts[best] = 0\n"),
    ("if change and counts[pair]:", "if change and counts[pair] > 0:"),
    fact="the neighbors of every occurrence are taken from the word as it was, even if they were merged as well",
    question="After the merge of a b in abab, is there an a next to the first ab?",
)
known.change(
    "words-of-new-pairs-missing",
    (INDEXED, "changes[pair] += word_count[i]"),
    ("places.pop(best)", "places[best]"),
    fact="the words of a pair are only those at the beginning, not those in which a merge creates it",
    question="After do exists, which words does the pair do g occur in?",
)
known.change(
    "old-pairs-not-subtracted",
    ("changes[pair] -= word_count[i]", "changes[pair] -= 0 if pair != best else word_count[i]"),
    fact="the counts of the pairs on either side of a merge are not reduced",
    question="In blue, l u is merged. What happens to the counts of b l and u e?",
)
known.change(
    "changes-count-once",
    ("changes[pair] -= word_count[i]", "changes[pair] -= 1"),
    ("changes[pair] += word_count[i]", "changes[pair] += 1"),
    ("counts[pair] += change", "counts[pair] += change if pair != best else -counts[pair]"),
    fact="a merge changes the counts by one per word, however often the word occurs",
    question="A word occurs 9 times and gains a pair. By how much does the count of the pair grow?",
)
known.change(
    "each-word-once",
    ("counts[pair] += word_count[i]\nplaces[pair].add(i)\n", "counts[pair] += 1\nplaces[pair].add(i)\n"),
    ("changes[pair] -= word_count[i]", "changes[pair] -= 1"),
    ("changes[pair] += word_count[i]", "changes[pair] += 1"),
    fact="each distinct word counts once, however often it occurs",
    question='"xy" occurs 10 times, "ab" in two words that occur once. Which pair is more frequent?',
)
known.change(
    "once-per-word",
    ("for pair in pairwise(word):", "for pair in {*pairwise(word)}:"),
    (RECOUNTED, RECOUNTED.replace("pairwise(words[i])", "{*pairwise(words[i])}")),
    fact="a pair counts once per word, even if it occurs there several times",
    question='How often does a a occur in "aaaa"?',
)
known.change(
    "largest-ids",
    (HEAP, "[(-count, (-pair[0], -pair[1])) for pair, count in counts.items()]"),
    (POP, "negative, best = heapq.heappop(heap)\nbest = (-best[0], -best[1])"),
    (PUSH, "heapq.heappush(heap, (-counts[pair], (-pair[0], -pair[1])))"),
    fact="of several most frequent pairs, the one with the largest ids is merged",
    question="A heap returns its smallest entry. Which of two entries with equal counts is smaller?",
)
known.change(
    "ties-by-text",
    (HEAP, "[(-count, tokens[pair[0]], tokens[pair[1]], pair) for pair, count in counts.items()]"),
    (POP, "negative, _, _, best = heapq.heappop(heap)"),
    (PUSH, "heapq.heappush(heap, (-counts[pair], tokens[pair[0]], tokens[pair[1]], pair))"),
    fact="ties are broken by the text of the tokens instead of their ids",
    question='Which is smaller, "he" or "z"? And which of them has the smaller id?',
)
known.change(
    "ids-of-bytes",
    ("sorted(byte_alphabet().values())", "[byte_alphabet()[byte] for byte in range(256)]"),
    fact="the characters' ids are their bytes, so that the space comes before the letters",
    question="The space is byte 32. What is it in the byte alphabet, and which characters sort before it?",
)
known.change(
    "used-twice",
    ("i += 1 + found", "i += 1"),
    fact="the second token of a merged pair stays in the word",
    question='How many tokens has "abc" after the merge of a b?',
)
known.change(
    "one-place",
    ("found = (*word[i : i + 2],) == pair", "found = (*word[i : i + 2],) == pair and token not in replaced"),
    fact="a pair is merged at one place per word, although it occurs several times",
    question='How many tokens has "abab" after the merge of a b?',
)
known.change(
    "every-word-visited",
    ("for i in places.pop(best):", "for i in range(len(words)):"),
    fact="every word is visited for every merge, whether it contains the pair or not",
    question="Of ten thousand words, three contain the pair. How many do you look at?",
)


@known.accepted("only the neighbors, without a heap")
def neighbors(word_counts, num_merges):
    names = sorted(byte_alphabet().values())
    known_names = set(names)
    if num_merges < 0 or any(not known_names.issuperset(word) for word in word_counts):
        raise ValueError(f"num_merges {num_merges}, words {list(word_counts)[:3]}")
    rows = [[names.index(character) for character in word] for word in word_counts]
    weights, counts, where = list(word_counts.values()), Counter(), defaultdict(set)
    for number, row in enumerate(rows):
        for pair in pairwise(row):
            counts[pair] += weights[number]
            where[pair].add(number)
    merges = []
    while counts and len(merges) < num_merges:
        most = max(counts.values())
        best = min(pair for pair in counts if counts[pair] == most)
        merges.append((names[best[0]], names[best[1]]))
        new = len(names)
        names.append("".join(merges[-1]))
        for number in list(where[best]):
            row, weight, i = rows[number], weights[number], 0
            while i < len(row) - 1:
                if (row[i], row[i + 1]) == best:
                    for left, right, by in ((i - 1, i, -1), (i + 1, i + 2, -1), (i, i + 1, -1)):
                        if left >= 0 and right < len(row):
                            counts[row[left], row[right]] += by * weight
                    row[i : i + 2] = [new]
                    for left, right in ((i - 1, i), (i, i + 1)):
                        if left >= 0 and right < len(row):
                            counts[row[left], row[right]] += weight
                            where[row[left], row[right]].add(number)
                i += 1
        counts = +counts
    return merges


known.accepted_change("an entry for every pair of the words", ("if change and counts[pair]:", "if counts[pair]:"))
