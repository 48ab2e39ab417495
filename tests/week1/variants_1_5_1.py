"""Reference variants of task 1.5.1, embedding."""

import mlx.core as mx
from tests.week1.reference_model import random_tokens
from tiny_llm_solution.embedding import Embedding

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.5.1")


def table(seed, dtype=mx.float32, rows=7, columns=5):
    return normals(seed, dtype)(rows, columns)


known.probe_table(
    look_up=lambda program: program(7, 5, table(11))(random_tokens(11, 2, 3, vocab_size=7)),
    look_up_first_and_last=lambda program: program(7, 5, table(12))(mx.array([0, 6])),
    compare_with_rows=lambda program: program(7, 5, table(13)).as_linear(normals(130)(2, 3, 5)),
    compare_with_rows_square=lambda program: program(5, 5, table(14, rows=5)).as_linear(normals(140)(2, 5)),
)
known.probe_table(
    mx.float16,
    embedding_half=lambda program: (
        program(7, 5, table(15, mx.float16))(random_tokens(15, 2, 3, vocab_size=7)),
        program(7, 5, table(15, mx.float16)).as_linear(normals(150, mx.float16)(2, 5)),
    ),
)


@known.sized("32 tokens, V 2,048, E 256, both ways, float32")
def sized(program):
    embedding = program(2048, 256, table(1, rows=2048, columns=256))
    tokens = random_tokens(1, 32, vocab_size=2048)
    return lambda: embedding.as_linear(embedding(tokens))


known.change(
    "scaled-by-root-E",
    ("self.weight[tokens]", "self.weight[tokens] * self.weight.shape[1] ** 0.5"),
    fact="the embedding vectors are multiplied by sqrt(E)",
    question="Some models do that. Does this task's docstring ask for it?",
)
known.change(
    "ids-from-one",
    ("self.weight[tokens]", "self.weight[tokens.astype(mx.int32) - 1]"),
    fact="each token gets the row before its own, as if ids started at 1",
    question="Which row belongs to token 0?",
)
known.change(
    "flattened",
    ("self.weight[tokens]", "self.weight[tokens.flatten()]"),
    fact="the leading dimensions of the tokens are flattened into one and not restored",
    question="For tokens of 2 x 3, what should the shape of the result be?",
)
known.change(
    "float32-lookup",
    ("self.weight[tokens]", "self.weight[tokens].astype(mx.float32)"),
    fact="the embedding lookup always returns float32, and the table's dtype is lost",
    question="The table is float16. What is the dtype of one of its rows?",
)
known.change(
    "reshaped-table",
    ("linear(x, self.weight)", "x @ self.weight.reshape(self.weight.shape[1], -1)"),
    fact="as_linear reshapes the table to E x V instead of transposing it",
    question="After that reshape, does a column still hold one token's vector?",
)
known.change(
    "not-transposed-when-square",
    ("linear(x, self.weight)", "x @ (self.weight if self.weight.shape[0] == self.weight.shape[1] else self.weight.T)"),
    fact="as_linear transposes the table only when the shapes do not fit otherwise",
    question="With V = E both products have the same shape. Which of the two compares x with rows?",
)
known.change(
    "scores-over-root-E",
    ("linear(x, self.weight)", "linear(x, self.weight) * self.weight.shape[1] ** -0.5"),
    fact="as_linear divides the dot products by sqrt(E)",
    question="Attention scales its scores. Does the output head?",
)
known.change(
    "cosines",
    ("linear(x, self.weight)", "linear(x, self.weight / mx.linalg.norm(self.weight, axis=1, keepdims=True))"),
    fact="as_linear normalizes the table's rows to unit length",
    question="Should a token with a long vector score as high as one with a short vector?",
)
known.change(
    "probabilities",
    ("linear(x, self.weight)", "mx.softmax(linear(x, self.weight), axis=-1)"),
    fact="as_linear applies a softmax over the vocabulary",
    question="Does the docstring ask for dot products, or for probabilities?",
)
known.change(
    "not-transposed",
    ("linear(x, self.weight)", "x @ self.weight"),
    fact="as_linear multiplies by the table as V x E, without a transpose",
    question="Which axis of the table should the product with an N x E matrix run over, and which axis comes first?",
)
known.change(
    "numbers-taken",
    ("self.weight[tokens]", "mx.take(self.weight, tokens)"),
    fact="mx.take is called without an axis and selects numbers from the flattened table",
    question="What is the shape of mx.take(table, tokens) for tokens of 2 x 3?",
)


@known.accepted("take-and-einsum")
class TakeAndEinsum:
    def __init__(self, vocab_size, embedding_dim, weight):
        if list(weight.shape) != [vocab_size, embedding_dim]:
            raise ValueError("the table does not fit")
        self.rows = weight

    def __call__(self, tokens):
        return mx.take(self.rows, tokens, axis=0)

    def as_linear(self, x):
        return mx.einsum("...e,ve->...v", x, self.rows)


@known.accepted("one-hot")
class OneHot(Embedding):
    def __call__(self, tokens):
        ids = mx.arange(self.weight.shape[0])
        return (tokens[..., None] == ids).astype(self.weight.dtype) @ self.weight

    def as_linear(self, x):
        return (self.weight @ x[..., None]).squeeze(-1)
