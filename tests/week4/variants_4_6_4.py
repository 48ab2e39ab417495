"""Known programs of task 4.6.4, a tied embedding table."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.6.4")

known.probe_table(
    three_tokens=lambda program: tuple(program(normals(31)(7, 4), mx.array([1, 5, 3]), mx.array([5, 3, 6]))),
    twice_read=lambda program: tuple(program(normals(32)(6, 4), mx.array([1, 4, 1, 1]), mx.array([2, 5, 3, 0]))),
    repeats_itself=lambda program: tuple(program(normals(33)(6, 4), mx.array([2, 5]), mx.array([2, 0]))),
    huge_logits=lambda program: tuple(program(normals(34)(6, 5, spread=15), mx.array([1, 4, 2]), mx.array([0, 3, 5]))),
    square=lambda program: tuple(program(normals(37)(4, 4), mx.array([1, 0, 3, 2]), mx.array([3, 2, 2, 0]))),
)
known.probe_table(
    mx.float16,
    half=lambda program: tuple(program(normals(35, mx.float16)(6, 4), mx.array([1, 4]), mx.array([2, 5]))),
    # In float16 logits near 100,000 are infinite.
    huge_half=lambda program: tuple(
        program(normals(36, mx.float16)(6, 5, spread=150), mx.array([1, 4, 2]), mx.array([0, 3, 5]))
    ),
)


@known.sized("V 2,048, E 128, L 512, float32")
def sized(program):
    draw = normals(1)
    table = draw(2048, 128, spread=0.02)
    tokens, targets = (mx.array((mx.abs(draw(512)) * 600).astype(mx.int32)) % 2048 for _ in range(2))
    mx.eval(table, tokens, targets)
    return lambda: program(table, tokens, targets)


known.change(
    "head-part-only",
    ("as_head.at[tokens].add(as_rows)", "as_head"),
    fact="the gradient has only the output head's part",
    question="Row 5 was looked up, and is no target. Would another row 5 have changed the loss?",
)
known.change(
    "row-part-only",
    ("as_head.at[tokens].add(as_rows)", "mx.zeros_like(wide).at[tokens].add(as_rows)"),
    fact="the gradient has only the embedding lookup's part",
    question="A row that was never looked up still gave a logit. Should that go up or down?",
)
known.change(
    "a-token-read-twice-moved-once",
    ("gradient = as_head.at[tokens].add(as_rows)", "gradient = as_head + 0\ngradient[tokens] += as_rows"),
    fact="a token that is looked up several times contributes only once to its row",
    question="What does x[[0, 0]] += 1 do to x[0]?",
)
known.change(
    "rows-at-the-targets",
    ("as_head.at[tokens]", "as_head.at[targets]"),
    fact="the lookup's part is added to the targets' rows",
    question="Which rows of the table became x: the input tokens' or the targets'?",
)
known.change(
    "rows-replaced",
    ("as_head.at[tokens].add(as_rows)", "as_head\ngradient[tokens] = as_rows"),
    fact="at looked-up rows, one part replaces the other instead of being added",
    question="If a number is used twice, is its derivative one of the two parts, or their sum?",
)
known.change(
    "gradient-not-averaged",
    (") / tokens.size", ")"),
    fact="the gradient is that of the sum over all tokens, while the loss is the mean",
    question="With twice as many tokens, the loss stays about the same. What should happen to the gradient?",
)
for name, part, edit in (
    ("rows-not-averaged", "lookup's part", ("as_rows = error @ wide", "as_rows = error @ wide * tokens.size")),
    ("head-not-averaged", "output head's part", ("as_head = error.T @ x", "as_head = error.T @ x * tokens.size")),
):
    known.change(
        name,
        edit,
        fact=f"only the {part} of the gradient is that of the sum over all tokens instead of the mean",
        question="Both parts are gradients of the same loss. Which factor has each of them got from the mean?",
    )
known.change(
    "loss-of-a-probability-of-0",
    (
        "mx.mean(total[:, 0] - mx.sum(mx.where(right, logits, 0), axis=-1))",
        "-mx.mean(mx.log(mx.sum(mx.where(right, mx.softmax(logits, axis=-1), 0), axis=-1)))",
    ),
    fact="the logarithm is taken of a softmax probability that has underflowed to 0",
    question="The target's logit is 1,000 below the largest one. What is its probability in float32, and what its log?",
)
known.change(
    "loss-summed",
    ("loss = mx.mean(", "loss = mx.sum("),
    fact="the loss is the sum over all tokens instead of the mean",
    question="A sequence is twice as long. Does the model predict it half as well?",
)
known.change(
    "target-not-subtracted",
    ("(mx.exp(logits - total) - right)", "mx.exp(logits - total)"),
    fact="the error is the softmax alone, without subtracting 1 at the target",
    question="What is the error of a model that gives the target all the probability?",
)
known.change(
    "uphill",
    ("(mx.exp(logits - total) - right)", "(right - mx.exp(logits - total))"),
    fact="the gradient has the wrong sign",
    question="Should a small step in the direction of a gradient make the loss larger or smaller?",
)
known.change(
    "softmax-over-the-positions",
    ("mx.exp(logits - total)", "mx.softmax(logits, axis=0)"),
    fact="in the gradient, the softmax runs over positions instead of the vocabulary",
    question="Which numbers of L x V sum to one: those of a row, or those of a column?",
)
known.change(
    "exp-before-the-largest-is-known",
    ("mx.logsumexp(logits, axis=-1, keepdims=True)", "mx.log(mx.sum(mx.exp(logits), axis=-1, keepdims=True))"),
    fact="exp is taken of the raw logits, which overflows from 89 on",
    question="Without layers, a token's own logit is the squared norm of its row. What is exp of 1,000?",
)
known.change(
    "in-the-table-s-dtype",
    ("wide = table.astype(mx.float32)", "wide = table"),
    ("return loss, gradient", "return loss.astype(mx.float32), gradient"),
    fact="the products are computed in the table's dtype, where they are rounded or infinite",
    question="Two rows in float16, and a dot product of 70,000: what is it in float16?",
)
known.change(
    "gradient-left-in-float32",
    ("gradient.astype(table.dtype)", "gradient"),
    fact="the gradient is float32 although the table is not",
    question="Which dtype does the docstring promise for the gradient?",
)
known.change(
    "loss-in-the-table-s-dtype",
    ("return loss,", "return loss.astype(table.dtype),"),
    fact="the loss is rounded to the table's dtype",
    question="Which dtype does the docstring promise for the loss?",
)
known.change(
    "loss-with-the-tokens-read",
    ("== targets[:, None]", "== tokens[:, None]"),
    fact="the targets are the input tokens themselves instead of the next ones",
    question="Which of the two lists holds what should be predicted?",
)


@known.accepted("one-hot-matrices")
def one_hot(table, tokens, targets):
    wide = table.astype(mx.float32)
    read, came = (mx.eye(table.shape[0])[some] for some in (tokens, targets))  # L x V
    logits = (read @ wide) @ wide.T
    error = (mx.softmax(logits, axis=-1) - came) / len(tokens)
    loss = mx.mean(mx.logsumexp(logits, axis=-1) - mx.sum(logits * came, axis=-1))
    return loss, (error.T @ (read @ wide) + read.T @ (error @ wide)).astype(table.dtype)


@known.accepted("row-by-row")
def row_by_row(table, tokens, targets):
    wide, count = table.astype(mx.float32), tokens.size
    loss, gradient = mx.array(0.0), mx.zeros_like(wide)
    for token, target in zip(tokens.tolist(), targets.tolist(), strict=True):
        logits = wide @ wide[token]
        total = mx.logsumexp(logits)
        loss = loss + (total - logits[target]) / count
        error = mx.exp(logits - total)
        error[target] -= 1
        gradient = gradient + error[:, None] * wide[token] / count
        gradient[token] += error @ wide / count
    return loss, gradient.astype(table.dtype)
