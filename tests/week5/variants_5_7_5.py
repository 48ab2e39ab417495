"""Known programs of task 5.7.5, contamination."""

import weakref

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.7.5")
ITEMS = [[1, 2, 3, 4, 5], [6, 7, 8, 9], [2, 3, 2, 3, 2, 3, 5]]
DOCUMENTS = [[9, 1, 2, 3, 9], [4, 5], [8, 2, 3, 2, 1], [3, 4, 5], [8, 7, 6, 9]]


class Document(list[int]):
    """A list that can be observed."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def run(program, items, documents, n):
    return mx.array(program(items, iter(documents), n), mx.float32)


@known.probe()
def in_memory(program):
    """Whether more than three documents exist at a time."""
    alive, most = weakref.WeakSet(), 0

    def documents():
        nonlocal most
        for i in range(20):
            document = Document([i, 1, 2, 3, i])
            alive.add(document)
            most = max(most, len(alive))
            yield document
            del document

    shares = program([[1, 2, 3, 4]], documents(), 3)
    return mx.array([most > 3, *shares], mx.float32)


@known.probe()
def n_grams_in_memory(program):
    """Whether the memory grows with the documents' n-grams."""
    draw = np.random.default_rng(2)
    documents = (draw.integers(0, 99, 500).tolist() for _ in range(60))
    return mx.array([peak_bytes(lambda: mx.array(program([[1, 2, 3, 4]], documents, 3))) > 1_000_000])


@known.probe()
def read_before_the_refusal(program):
    """How many documents are read before a short item is refused."""
    read = []

    def documents():
        for document in DOCUMENTS:
            read.append(document)
            yield document

    refused = refusals(lambda n: run(program, ITEMS, documents(), n), [5, 9])
    return refused, mx.array(len(read))


known.probe_table(
    two=lambda program: run(program, ITEMS, DOCUMENTS, 2),
    three=lambda program: run(program, ITEMS, DOCUMENTS, 3),
    one=lambda program: run(program, ITEMS, DOCUMENTS, 1),
    whole=lambda program: run(program, [[1, 2, 3, 4]], [[0, 1, 2, 3, 4, 0]], 3),
    last=lambda program: run(program, [[1, 2, 3, 4]], [[9, 9, 2, 3, 4]], 3),
    across=lambda program: run(program, [[1, 2, 3, 4]], [[9, 1, 2], [3, 4, 9]], 3),
    repeated=lambda program: run(program, [[7, 7, 7, 7, 8]], [[7, 7]], 2),
    digits=lambda program: run(program, [[1, 23, 4], [12, 3]], [[12, 3, 4], [1, 2, 34]], 2),
    within=lambda program: run(program, [[5, 6]], [[15, 67]], 2),
    short=lambda program: refusals(lambda n: run(program, ITEMS, DOCUMENTS, n), [5, 9]),
    no_tokens=lambda program: refusals(lambda n: run(program, ITEMS, DOCUMENTS, n), [0, -1]),
)


@known.sized("100 items of 20 tokens, 20 documents of 1,000, n 13")
def sized(program):
    draw = np.random.default_rng(1)
    items, documents = draw.integers(0, 99, (100, 20)).tolist(), draw.integers(0, 99, (20, 1000)).tolist()
    return lambda: program(items, iter(documents), 13)


STARTS = "range(len(tokens) - n + 1)"
LOOP = "for document in documents:"
SHARE = "sum(gram in found for gram in grams) / len(grams)"
known.change(
    "last-n-gram-left-out",
    (STARTS, "range(len(tokens) - n)"),
    (SHARE, "sum(gram in found for gram in grams) / max(1, len(grams))"),
    fact="the last n-gram of items and documents is left out",
    question="Four tokens: how many 3-grams do they have, and where does the last one begin?",
)
known.change(
    "across-documents",
    (LOOP, "for document in [[token for each in documents for token in each]]:"),
    fact="the documents are joined, so that an n-gram may span two of them",
    question="The last tokens of one document and the first of the next: did the model see them as one text?",
)
known.change(
    "distinct",
    (SHARE, "len(found.intersection(grams)) / len({*grams})"),
    fact="an n-gram that occurs several times in an item counts once",
    question="Three of the item's four n-grams are equal, and were found. What is the share?",
)
known.change(
    "any",
    (SHARE, "float(any(gram in found for gram in grams))"),
    fact="the result is 1 as soon as one n-gram is found",
    question="Is an item of which one n-gram in a hundred was found as contaminated as one that was found whole?",
)
known.change(
    "all",
    (SHARE, "float(all(gram in found for gram in grams))"),
    fact="the result is 1 only if the whole item is found, and 0 otherwise",
    question="Half of an item occurs in a document. Is it clean?",
)
known.change(
    "divided-by-tokens",
    (
        "/ len(grams) for grams in (_ngrams(item, n) for item in items)",
        "/ len(item) for item in items for grams in (_ngrams(item, n),)",
    ),
    fact="the count is divided by the number of tokens, not of n-grams",
    question="All n-grams of an item were found. What is the share?",
)
known.change(
    "digits-joined",
    ("tuple(tokens[start : start + n])", "''.join(map(str, tokens[start : start + n]))"),
    fact="the tokens of an n-gram are joined to one text without separators, in which 1 23 equals 12 3",
    question="Write the tokens 1 and 23 one after the other, and then 12 and 3. What distinguishes the two?",
)
known.change(
    "last-document",
    ("found.update(wanted.intersection(_ngrams(document, n)))", "found = wanted.intersection(_ngrams(document, n))"),
    fact="only the last document counts",
    question="What happens to `found` at the second document?",
)
known.change(
    "every-nth",
    (STARTS, "range(0, len(tokens) - n + 1, n)"),
    fact="n-grams begin only at every n-th token",
    question="How many 3-grams have six tokens?",
)
known.change(
    "single-tokens",
    (
        "return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]",
        "return [(token,) for token in tokens]",
    ),
    fact="single tokens are compared, whatever n is",
    question="Which items are contaminated by a document that contains all common words?",
)
known.change(
    "documents-in-memory",
    (LOOP, "for document in list(documents):"),
    fact="all documents are kept in memory at once",
    question="The training set has a trillion tokens. What does `list` do with the generator?",
)
known.change(
    "short-items-clean",
    ("if len(item) < n:", "if n < 1:"),
    (SHARE, "sum(gram in found for gram in grams) / max(1, len(grams))"),
    fact="an item that is shorter than n has the share 0",
    question="What do you know about an item that has no n-gram?",
)


known.change(
    "all-n-grams-kept",
    ("wanted.intersection(_ngrams(document, n))", "_ngrams(document, n)"),
    fact="the n-grams of all documents are kept in memory, with those that no item has",
    question="The training set has a trillion tokens. How many n-grams do you keep, and how many of them do you need?",
)
known.change(
    "refused-after-reading",
    ("if len(item) < n:", "if n < 1:"),
    (
        "return [sum(",
        "short = [i for i, item in enumerate(items) if len(item) < n]\n"
        'if short: raise ValueError(f"item {short[0]} is shorter than {n}")\nreturn [sum(',
    ),
    fact="an item that is shorter than n is refused only after all documents have been read",
    question="Reading the documents takes a day. When do you know that an item is too short?",
)


def refuse_short(items, n):
    short = [i for i, item in enumerate(items) if len(item) < n]
    if n < 1 or short:
        raise ValueError(f"n is {n}, too short are {short}")


@known.wrong(
    "read-for-each-item",
    fact="the documents are read once for each item, so a generator has none left for the second",
    question="What does a second loop over the same generator yield?",
)
def for_each_item(items, documents, n):
    refuse_short(items, n)
    shares = []
    for item in items:
        grams, found = [tuple(item[i : i + n]) for i in range(len(item) - n + 1)], set()
        for document in documents:
            found.update(gram for i in range(len(document) - n + 1) if (gram := tuple(document[i : i + n])) in grams)
            del document
        shares.append(sum(gram in found for gram in grams) / len(grams))
    return shares


@known.wrong(
    "text-search",
    fact="the tokens' numbers are searched as text, in which 5 6 occurs in 15 67",
    question="Where in the text 15 67 does your search find 5 6?",
)
def text_search(items, documents, n):
    refuse_short(items, n)
    texts = [[" ".join(map(str, item[i : i + n])) for i in range(len(item) - n + 1)] for item in items]
    missing = {text for each in texts for text in each}
    for document in documents:
        whole = " ".join(map(str, document))
        missing = {text for text in missing if text not in whole}
        del document
    return [sum(text not in missing for text in each) / len(each) for each in texts]


@known.accepted("a rolling window over the document")
def rolling(items, documents, n):
    if n < 1:
        raise ValueError(f"n is {n}")
    short = [i for i, item in enumerate(items) if len(item) < n]
    if short:
        raise ValueError(f"item {short[0]} is shorter than {n}")
    seen = {}
    for item in items:
        for i in range(len(item) - n + 1):
            seen[tuple(item[i : i + n])] = False
    for document in documents:
        window = []
        for token in document:
            window.append(token)
            if len(window) > n:
                del window[0]
            if len(window) == n and (gram := tuple(window)) in seen:
                seen[gram] = True
        del document
    shares = []
    for item in items:
        hits = [seen[tuple(item[i : i + n])] for i in range(len(item) - n + 1)]
        shares.append(hits.count(True) / len(hits))
    return shares
