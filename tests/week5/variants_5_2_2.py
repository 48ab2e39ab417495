"""Known programs of task 5.2.2, the document mask."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.variants import Variants

known = Variants("5.2.2")


def ids(*rows):
    return mx.array(rows, dtype=mx.int32)


known.probe_table(
    one_row=lambda program: program(ids([0, 0, 1, 1, 1, 2])),
    two_rows=lambda program: program(ids([0, 0, 1, 1], [1, 1, 2, -1])),
    square=lambda program: program(ids([0, 0, 0], [1, 2, 2], [2, 2, 2])),
    padded=lambda program: program(ids([3, 3, -1, -1, -1])),
    flat=lambda program: program(mx.array([0, 1, 1])),
    unsigned=lambda program: program(mx.array([[2, 2, 5]], dtype=mx.uint32)),  # -1 does not fit an unsigned dtype
    more_axes=lambda program: program(ids([0, 0, 1], [2, 3, 3]).reshape(2, 1, 3)),
)


@known.sized("8 rows of 1,024 tokens")
def sized(program):
    rows = mx.array(np.cumsum(np.random.default_rng(1).random((8, 1024)) < 0.01, axis=-1))
    return lambda: program(rows)


RESULT = "(same & (index[:, None] >= index))"
known.change(
    "causal-alone",
    (RESULT, "(mx.ones_like(same) & (index[:, None] >= index))"),
    fact="a token sees all earlier tokens of its row, of other documents too",
    question="What should a story read of the one before it?",
)
known.change(
    "documents-alone",
    (RESULT, "same"),
    fact="a token sees the later tokens of its document, too",
    question="The target of a token is the next one. Should the token see it?",
)
known.change(
    "not-itself",
    (">= index", "> index"),
    fact="a token does not see itself",
    question="Which key has the first token of a document?",
)
known.change(
    "sees-the-future",
    (">= index", "<= index"),
    fact="a token sees itself and the later tokens of its document",
    question="Which axis is the query's: the last one, or the one before it?",
)
known.change(
    "inverted",
    (RESULT, f"~{RESULT}"),
    fact="True means hidden",
    question="Does MLX's attention read True in a bool mask as visible or as hidden?",
)
known.change(
    "additive",
    (RESULT, f"mx.where({RESULT}, 0.0, -mx.inf)"),
    fact="the mask is additive, 0 and -inf, instead of bool",
    question="Which dtype does the docstring state?",
)
known.change(
    "no-axis-for-heads",
    ("[..., None, :, :]", ""),
    fact="the axis for the heads is missing",
    question="Attention scores are N x H x L x L. With which axis would N x L x L broadcast to H?",
)
known.change(
    "heads-before-rows",
    ("[..., None, :, :]", "[None]"),
    fact="the axis for the heads comes first, before the rows",
    question="Scores are N x H x L x L. Is the mask's axis of size 1 in the place of H?",
)
known.change(
    "padding-sees-nothing",
    (RESULT, "(same & (index[:, None] >= index) & (document_ids >= 0)[..., :, None])"),
    fact="a padding token sees nothing, so its row of the mask is all False",
    question="What is the softmax of a row of -inf?",
)
known.change(
    "padding-compared-sees-nothing",
    (RESULT, "(same & (index[:, None] >= index) & (document_ids != PADDING)[..., None, :])"),
    fact="a padding token sees nothing, so its row of the mask is all False",
    question="What is the softmax of a row of -inf?",
)
ITSELF = "(index[:, None] == index)"
known.change(
    "padding-sees-itself-only",
    (RESULT, f"(same & (index[:, None] >= index) & (document_ids >= 0)[..., None, :] | {ITSELF})"),
    fact="a padding token sees only itself, not the padding before it",
    question="Do two padding tokens have the same document id?",
)
known.change(
    "padding-compared-sees-itself-only",
    (RESULT, f"(same & (index[:, None] >= index) & (document_ids != PADDING)[..., None, :] | {ITSELF})"),
    fact="a padding token sees only itself, not the padding before it",
    question="Do two padding tokens have the same document id?",
)


@known.accepted("from runs of equal ids")
def from_runs(document_ids):
    length = document_ids.shape[-1]
    rows = np.array(document_ids).reshape(-1, length)
    mask = np.zeros((len(rows), 1, length, length), bool)
    for n, row in enumerate(rows):
        for i in range(length):
            mask[n, 0, i, : i + 1] = row[: i + 1] == row[i]
    return mx.array(mask.reshape(*document_ids.shape[:-1], 1, length, length))


known.accepted_change("lower triangle", (RESULT, "mx.tril(same)"))
