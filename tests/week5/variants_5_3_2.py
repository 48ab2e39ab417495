"""Known programs of task 5.3.2, the gradient of an embedding."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.2")

SEQUENCES = mx.array([[2, 0, 2], [5, 2, 6]])

known.probe_table(
    different_ids=lambda program: program(mx.array([3, 1, 6]), normals(1)(3, 4), 7),
    repeated_ids=lambda program: program(mx.array([2, 0, 2, 5, 2]), normals(2)(5, 4), 7),
    sequences=lambda program: program(SEQUENCES, normals(3)(2, 3, 4), 7),
    one_id=lambda program: program(mx.array(4), normals(4)(4), 7),
)
known.probe_table(
    mx.float16,
    half=lambda program: program(mx.array([2, 0, 2, 5, 2]), normals(5, mx.float16)(5, 4), 7),
    frequent=lambda program: program(mx.ones(4000, mx.int32), mx.ones((4000, 2), mx.float16), 3),
)


@known.probe()
def embedding_refused(program):
    shapes = [(2, 4), (3, 2, 4), (6, 4), (2, 1, 4)]
    return refusals(lambda shape: program(SEQUENCES, mx.ones(shape), 7), shapes)


@known.sized("4,096 ids of 2,048, E 256, float32")
def sized(program):
    ids = (mx.abs(normals(1)(4096)) * 600).astype(mx.int32) % 2048
    dy = normals(2)(4096, 256)
    mx.eval(ids, dy)
    return lambda: program(ids, dy, 2048)


ADDED = "return table.at[ids].add(dy.astype(mx.float32)).astype(dy.dtype)"
known.change(
    "last-one-wins",
    (ADDED, "table[ids] = dy.astype(mx.float32)\nreturn table.astype(dy.dtype)"),
    fact="a row of dy replaces the one before it, so an id that occurs twice gets only one of them",
    question="A token occurs twice. How many places of the forward pass depend on its row?",
)
known.change(
    "averaged",
    (
        ADDED,
        "count = mx.maximum(mx.zeros(vocab_size).at[ids].add(mx.ones(ids.shape)), 1)[:, None]\n"
        "return (table.at[ids].add(dy.astype(mx.float32)) / count).astype(dy.dtype)",
    ),
    fact="an id that occurs several times gets the mean of its rows instead of their sum",
    question="Moving one row of the table changes three tokens' vectors. Is the effect the mean of three effects?",
)
known.change(
    "one-sequence-only",
    (ADDED, "if ids.ndim > 1:\n    ids, dy = ids[0], dy[0]\n" + ADDED),
    fact="only the first sequence's tokens are added",
    question="ids is 2 x 3. How many rows of dy are there to add?",
)
known.change(
    "first-axis-only",
    (
        ADDED,
        "found = [mx.where((ids == i)[..., None], dy.astype(mx.float32), 0) for i in range(vocab_size)]\n"
        "return mx.stack([mx.sum(rows, axis=0) for rows in found]).astype(dy.dtype)",
    ),
    fact="dy is summed over its first axis only, which is right only if ids has one axis",
    question="ids is 2 x 3. Which shape has the gradient of one row of the table, and which one your sum?",
)
for name, line in (
    ("two-axes-only", f"batch, length = ids.shape\n{ADDED}"),
    (
        "two-letters-only",
        "chosen = (ids[..., None] == mx.arange(vocab_size)).astype(mx.float32)\n"
        'return mx.einsum("nlv,nle->ve", chosen, dy.astype(mx.float32)).astype(dy.dtype)',
    ),
):
    known.change(
        name,
        (ADDED, line),
        fact="ids must have exactly two axes",
        question="N.. stands for any number of axes. Which shape has ids for one sequence, and for one token?",
    )
known.change(
    "row-0-left-out",
    (ADDED, "table = table.at[ids].add(dy.astype(mx.float32))\ntable[0] = 0\nreturn table.astype(dy.dtype)"),
    fact="row 0 has no gradient, as if id 0 were padding",
    question="What does the docstring say about padding?",
)
known.change(
    "summed-in-the-narrow-dtype",
    ("mx.float32)  # float16 counts to 2,048: a frequent id would stop there", "dy.dtype)"),
    ("add(dy.astype(mx.float32))", "add(dy)"),
    fact="the rows are summed in dy's dtype, where a long sum stops growing",
    question="What is 2,048 + 1 in float16?",
)
known.change(
    "mean-over-all-tokens",
    (ADDED, "return (table.at[ids].add(dy.astype(mx.float32)) / ids.size).astype(dy.dtype)"),
    fact="the gradient is divided by the number of tokens",
    question="Where is the mean of the loss taken, and is it already in dy?",
)
known.change(
    "float32-result",
    (".astype(mx.float32)).astype(dy.dtype)", ".astype(mx.float32))"),
    fact="the gradient is float32 although dy is not",
    question="What should be the dtype for dy in float16?",
)
known.change(
    "one-row-per-token",
    (ADDED, "return dy"),
    fact="the result is dy itself, with one row for each token instead of each row of the table",
    question="Which shape has the table, and which one its gradient?",
)
known.change(
    "shapes-not-checked",
    ("_check_dy(dy, (*ids.shape, *dy.shape[-1:]))", ""),
    fact="dy's shape is not checked, and MLX raises another message or none",
    question="ids is 2 x 3 and dy is 2 x 1 x 4. Which row belongs to which token?",
)


@known.accepted("a one-hot matrix product")
def one_hot(ids, dy, vocab_size):
    if dy.shape[:-1] != ids.shape:
        raise ValueError(f"dy has shape {dy.shape}, but ids has {ids.shape}")
    chosen = ids.reshape(-1, 1) == mx.arange(vocab_size)  # tokens x V
    rows = dy.reshape(-1, dy.shape[-1]).astype(mx.float32)
    return (chosen.astype(mx.float32).T @ rows).astype(dy.dtype)
