"""Reference variants of task 2.7.1, the online softmax."""

import itertools

import mlx.core as mx
from tests.week2.formulas_day7 import bytes_held

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.7.1")


def averaged(program, scores, values, cuts=()):
    """Return the output for scores in blocks that end at `cuts`."""
    running = program(*scores.shape[:-1], values.shape[-1])
    for first, last in itertools.pairwise((0, *cuts, scores.shape[-1])):
        running.add(scores[..., first:last], values[..., first:last, :])
    return running.result()


def run(program, seed, cuts=(), change=lambda scores: scores):
    scores, values = drawn(seed, (3, 9), (9, 4))
    return averaged(program, change(scores), values, cuts)


def hiding(*blocks):
    """For the second query, some blocks of three keys are masked."""
    keys = mx.any(mx.arange(9)[:, None] // 3 == mx.array(blocks), axis=-1)
    return lambda scores: mx.where(keys & (mx.arange(3)[:, None] == 1), -mx.inf, scores)


known.probe_table(
    three_blocks=lambda program: run(program, 1, (2, 6)),
    one_block=lambda program: run(program, 2),
    rising=lambda program: (
        run(program, 3, (3, 6), lambda scores: scores + mx.arange(9)),
        run(program, 3, (3, 6)),
    ),
    falling=lambda program: run(program, 4, (3, 6), lambda scores: scores - mx.arange(9)),
    first_block_hidden=lambda program: run(program, 5, (3, 6), hiding(0)),
    middle_block_hidden=lambda program: run(program, 6, (3, 6), hiding(1)),
    all_hidden=lambda program: run(program, 7, (), hiding(0, 1, 2)),
    first_block_hidden_then_far_below=lambda program: run(program, 13, (3, 6), lambda scores: hiding(0)(scores) - 300),
    blocks_falling_far=lambda program: run(program, 14, (3, 6), lambda scores: scores - 200 * (mx.arange(9) // 3)),
    first_block_all_hidden=lambda program: run(program, 15, (3,), lambda x: mx.where(mx.arange(9) < 3, -mx.inf, x)),
    very_far_below_zero=lambda program: run(program, 16, (4,), lambda scores: scores - 1e10),
    far_below_zero=lambda program: run(program, 8, (4,), lambda scores: scores - 300),
    far_above_zero=lambda program: run(program, 9, (), lambda scores: scores + 300),
    rows_far_apart=lambda program: run(program, 10, (), lambda scores: scores + 1000 * mx.arange(3)[:, None]),
)

# In float16, the sum of 9 values of 20,000 is infinite.
known.probe_table(
    mx.float16,
    sums_beyond_float16=lambda program: averaged(
        program, mx.zeros((2, 9), mx.float16), mx.full((9, 4), 20000, mx.float16), (3,)
    ),
)


@known.probe()
def online_results_on_the_way(program):
    scores, values = drawn(11, (3, 9), (9, 4))
    running, found = program(3, 4), []
    for last in (3, 6, 9):
        running.add(scores[:, last - 3 : last], values[last - 3 : last])
        found.append(running.result())
    return tuple(found)


@known.probe()
def online_state_grows(program):
    scores, values = drawn(12, (4, 1024), (1024, 16))
    held = bytes_held(program(4, 16), scores, values)
    return mx.array(held[19] - held[3] > values.nbytes)


@known.sized("scores 256 x 8,192 in blocks of 256")
def sized(program):
    scores, values = drawn(1, (256, 8192), (8192, 16))
    return lambda: averaged(program, scores, values, tuple(range(256, 8192, 256)))


LARGEST = "mx.maximum(self.largest, mx.max(scores, axis=-1, keepdims=True))"
BASE = "mx.where(largest == -mx.inf, 0.0, largest)"
KEPT = "mx.exp(self.largest - base)"
RESULT = "self.seen / mx.where(self.total == 0, 1.0, self.total)"

known.change(
    "total-not-rescaled",
    ("self.total * kept", "self.total"),
    fact="the running sum of weights is not rescaled when the running maximum grows",
    question="Relative to which score are the weights in your sum?",
)
known.change(
    "values-not-rescaled",
    ("self.seen * kept", "self.seen"),
    fact="the accumulated values are not rescaled when the running maximum grows",
    question="Relative to which score are the weights that these values were multiplied by?",
)
known.change(
    "never-rescaled",
    (KEPT, "mx.ones_like(base)"),
    fact="neither the running sum nor the accumulated values are rescaled when the running maximum grows",
    question="A block's maximum is 2 above the running one. How large are the earlier weights relative to it?",
)
known.change(
    "largest-of-the-block",
    (LARGEST, "mx.max(scores, axis=-1, keepdims=True)"),
    fact="the running maximum is replaced by that of the last block",
    question="What is your running maximum of a row after a block that is masked for it?",
)
known.change(
    "largest-of-the-last-visible-block",
    (LARGEST, "mx.max(scores, axis=-1, keepdims=True)\nlargest = mx.where(largest == -mx.inf, self.largest, largest)"),
    fact="the running maximum is replaced by that of the last block, unless the block is masked",
    question="The maximum of a block is 200 below that of the block before. How large does the factor become?",
)
known.change(
    "own-maximum-of-each-block",
    (LARGEST, "mx.max(scores, axis=-1, keepdims=True)"),
    (KEPT, "mx.ones_like(base)"),
    fact="each block's weights are relative to its own maximum, and are summed without rescaling",
    question="Two blocks have maxima of 1 and 9. What is the largest weight in each of them?",
)
known.change(
    "last-block-only",
    ("self.largest = largest", ""),
    fact="only the last block counts, because the running maximum is not stored",
    question="What is `self.largest` when the second block arrives?",
)
known.change(
    "inf-minus-inf",
    (BASE, "largest"),
    fact="infinity is subtracted from infinity for a row that has not seen any key yet",
    question="What is the maximum of a row whose first block is fully masked, and what is exp(-inf - -inf)?",
)
known.change(
    "only-blocks-masked-for-all",
    ("largest = mx.maximum", "if mx.all(scores == -mx.inf):\n    return\nlargest = mx.maximum"),
    (BASE, "largest"),
    fact="a block is skipped only if it is masked for all rows, and infinity is subtracted from infinity otherwise",
    question="The first block is masked for one of four rows. What is that row's maximum after it?",
)
known.change(
    "zero-by-zero",
    (RESULT, "self.seen / self.total"),
    fact="zero is divided by zero for a fully masked row",
    question="What is the sum of the weights of a row that has seen no key?",
)
known.change(
    "no-maximum",
    (BASE, "mx.zeros_like(largest)"),
    (KEPT, "mx.ones_like(base)"),
    fact="exp is applied to the raw scores instead of relative to the maximum",
    question="What is exp(300) in float32?",
)
known.change(
    "one-maximum-for-all-rows",
    (LARGEST, "mx.maximum(self.largest, mx.max(scores))"),
    fact="the scores of all rows are relative to the maximum of the whole block",
    question="One row has scores near 0, another near 1,000. How large are the weights of the first?",
)
known.change(
    "begins-at-zero",
    ("mx.full((*rows, 1), -mx.inf)", "mx.zeros((*rows, 1))"),
    fact="the running maximum starts at 0 instead of -inf",
    question="All scores of a row are near -300. What should its weights be relative to?",
)
known.change(
    "begins-at-a-finite-number",
    ("mx.full((*rows, 1), -mx.inf)", "mx.full((*rows, 1), -1e9)"),
    (BASE, "largest"),
    fact="the running maximum starts at a finite number, such as -1e9, instead of -inf",
    question="All scores of a row are finite, but below this number. What are their weights relative to it?",
)
known.change(
    "zero-stored",
    ("self.largest = largest", "self.largest = base"),
    fact="the 0 that replaces -inf before a subtraction is also stored as the running maximum",
    question="A row's first visible score is -300, in the second block. What should its weights be relative to?",
)
known.change(
    "values-in-their-dtype",
    ("weights @ values.astype(mx.float32)", "weights.astype(values.dtype) @ values"),
    fact="the weighted sum of a block is computed in the dtype of the values",
    question="What is the dtype of `weights @ values` in your `add` if both arguments are float16?",
)
known.change(
    "result-divides-in-place",
    (f"return {RESULT}", f"self.seen = {RESULT}\nreturn self.seen"),
    fact="`result` divides the accumulated values in place, so later blocks are added to the wrong state",
    question="What has `result` changed when the next block arrives?",
)
known.change(
    "hidden-rows-get-the-mean",
    ("scores = scores.astype(mx.float32)", "scores = mx.maximum(scores.astype(mx.float32), -1e30)"),
    fact="a fully masked row gets the mean of all values",
    question="What is each weight of a row whose scores are all -1e30?",
)
known.change(
    "all-blocks-kept",
    ("self.largest = largest", "self.largest = largest\nself.blocks = [*vars(self).get('blocks', ()), scores, values]"),
    fact="all scores and values are kept, so the state grows with the number of keys",
    question="After 100 blocks of keys, how many scores does your object still hold?",
)
known.written(
    "zeros where nothing is seen",
    (RESULT, "mx.where(self.total > 0, self.seen / mx.where(self.total > 0, self.total, 1.0), 0.0)"),
)
known.together("total-not-rescaled", "values-not-rescaled", makes="never-rescaled")
known.together("largest-of-the-block", "never-rescaled", makes="own-maximum-of-each-block")
known.together("last-block-only", "never-rescaled", makes="own-maximum-of-each-block")

known.accepted_change(
    "starts far below zero",
    ("mx.full((*rows, 1), -mx.inf)", "mx.full((*rows, 1), -1e30)"),
    (BASE, "largest"),
)
