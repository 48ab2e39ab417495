"""Known programs of task 5.2.1, packing."""

import mlx.core as mx
import numpy as np
from tests.week5.formulas_day2 import pack64
from tests.week5.packed import documents_of, table
from tiny_llm_solution.dataset.packing import Rows

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.2.1")


known.probe_table(
    mixed=lambda program: table(program(documents_of(1, 3, 2, 5), 4, 9)),
    one_row=lambda program: table(program(documents_of(2, 2, 4), 8, 9)),
    full_rows=lambda program: table(program(documents_of(3, 4, 4), 5, 9)),
    long_document=lambda program: table(program(documents_of(4, 2, 11, 1), 4, 9)),
    an_empty_one=lambda program: table(program([[1], [], [2, 3]], 3, 9)),
    zero_ends=lambda program: table(program([[4, 2, 1], [3]], 4, 0)),
    none=lambda program: table(program([], 3, 9)),
    generated=lambda program: table(program((each for each in documents_of(5, 3, 3)), 6, 9)),
    refuses=lambda program: mx.array(refusal(lambda: program([[1]], 0, 9))),
)


@known.sized("2,000 documents of 1 to 200 tokens, length 512")
def sized(program):
    lengths = np.random.default_rng(1).integers(1, 200, 2000)
    documents = documents_of(1, *map(int, lengths))
    return lambda: program(documents, 512, 9).tokens


known.change(
    "targets-not-shifted",
    ("np.where(continues, tokens[1:], IGNORE)", "np.where(continues, tokens[:-1], IGNORE)"),
    fact="a token's target is the token itself",
    question="The model reads token 5. What is it asked for: token 5, or the one after it?",
)
known.change(
    "targets-of-the-next-document",
    (
        "continues = (ids[:-1] == ids[1:]) & (ids[:-1] != PADDING)",
        "continues = (ids[:-1] != PADDING) & (ids[1:] != PADDING)",
    ),
    fact="an eos has the first token of the next document as its target",
    question="What in a document says how the next one, drawn at random, begins?",
)
known.change(
    "rows-end-without-a-target",
    (
        "rows = ids[:-1]",
        "targets = np.where(np.arange(len(targets)) % length == length - 1, IGNORE, targets)\nrows = ids[:-1]",
    ),
    fact="the last token of each row has no target, even if its document continues in the next row",
    question="Row 0 ends inside a document. Which token comes next, and is it known?",
)
known.change(
    "padding-has-targets",
    (" & (ids[:-1] != PADDING)", ""),
    fact="padding has eos as its target and counts in the loss",
    question="A row ends with five tokens of padding. What does the model learn from predicting them?",
)
known.change(
    "eos-is-never-a-target",
    ("np.where(continues, tokens[1:], IGNORE)", "np.where(continues & (tokens[1:] != eos), tokens[1:], IGNORE)"),
    fact="eos is never a target",
    question="From what does a model learn where a story ends?",
)
known.change(
    "no-eos",
    ("[*document, eos]", "document"),
    fact="no eos is appended to the documents",
    question="How does a served model say that it has finished?",
)
for name, edit in (
    ("empty-documents-skipped", ("for document in documents]", "for document in documents if len(document)]")),
    ("empty-documents-skipped-but-numbered", ("[*document, eos]", "[*document, eos] if len(document) else []")),
):
    known.change(
        name,
        edit,
        fact="a document without tokens is skipped, and its eos with it",
        question="How many eos do three documents have, if one of them is empty?",
    )
known.change(
    "last-row-dropped",
    (".astype(np.int32)) for", ".astype(np.int32))[: count // length] for"),
    fact="the last row is dropped unless it is full",
    question="Ten tokens are left, and a row has 512. Where do they go?",
)
known.change(
    "positions-do-not-restart",
    (
        "arrays = (tokens[:-1], targets, rows, positions)",
        "arrays = (tokens[:-1], targets, rows, 0 * positions + index)",
    ),
    fact="positions count from the start of the row instead of the document",
    question="A document starts in the middle of a row. Which position would its first token have in a row of its own?",
)
known.change(
    "positions-continue-in-the-next-row",
    (
        "positions = index - np.maximum.accumulate(starts, axis=1)",
        "positions = np.concatenate([np.zeros(0, int), *(np.arange(len(p)) for p in pieces), np.arange(padding)])",
    ),
    fact="the positions of a document that is cut continue in the next row",
    question="How many tokens of its own document does the first token of a row see?",
)
known.change(
    "ids-restart-in-each-row",
    (
        "arrays = (tokens[:-1], targets, rows, positions)",
        "arrays = (tokens[:-1], targets, np.where(rows < 0, rows, rows - rows[:, :1]), positions)",
    ),
    fact="document ids count from 0 in each row",
    question="Two rows have parts of document 7. What is the id in each?",
)
known.change(
    "padding-is-the-last-document",
    ("np.full(padding + 1, PADDING)", "np.full(padding, len(pieces) - 1), [PADDING]"),
    fact="padding has the id of the last document",
    question="Should padding be a part of the last document?",
)
known.change(
    "documents-cut-to-a-row",
    ("[*document, eos]", "[*document, eos][:length]"),
    fact="a document longer than a row is truncated",
    question="A document has 3 rows' worth of tokens. Where are the last two thirds?",
)
for name, padding in (
    ("row-of-padding", "length - count % length"),
    ("row-of-padding-if-any", "length - count % length if count else 0"),
):
    known.change(
        name,
        ("padding = -count % length", f"padding = {padding}"),
        fact="rows that are exactly full are followed by one more row, of padding",
        question="Eight tokens fill two rows of four. How much padding do they need, and how much do you add?",
    )
known.change(
    "padding-at-position-0",
    ("positions = index - np.maximum.accumulate(starts, axis=1)",
     "positions = np.where(rows == PADDING, 0, index - np.maximum.accumulate(starts, axis=1))"),
    fact="all padding has the position 0",
    question="How many earlier tokens of its row have the same document id as the third token of padding?",
)  # fmt: skip


@known.accepted("token by token")
def token_by_token(documents, length, eos):
    if length <= 0:
        raise ValueError(f"length {length} is less than 1")
    fields = pack64(documents, length, eos)
    return Rows(*(mx.array(each.astype(np.int32)) for each in fields.values()))
