"""Known programs of task 6.2.3, the vocabulary-parallel embedding."""

import mlx.core as mx
from tests.week6.sharded import Rows
from tiny_llm_solution.embedding import Embedding

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.2.3")


def on_ranks(table, size, use):
    """Return what each rank's embedding returns, and how often each rank communicated."""

    def run(group):
        own = range(len(table) * group.rank // size, len(table) * (group.rank + 1) // size)
        return use(table[own.start : own.stop], own, group)

    results, groups = run_ranks(run, size)
    return *results, mx.array([len(group.calls) for group in groups])


def lookup(program, seed, count, tokens, size=2, dtype=mx.float32, spoiled=()):
    (table,) = drawn(seed, (count, 5), dtype=dtype)
    for row in spoiled:
        table[row] = mx.inf
    return on_ranks(table, size, lambda own, *others: program(Rows(own), *others)(mx.array(tokens)))


def logits(program, seed, count, size=2):
    x, table = drawn(seed, (3, 5), (count, 5))
    return on_ranks(table, size, lambda own, *others: program(Embedding(*own.shape, own), *others).as_linear(x))


known.probe_table(
    every_token=lambda program: lookup(program, 1, 12, list(range(12)), 3),
    uneven=lambda program: lookup(program, 2, 13, list(range(13)), 3),
    one_token=lambda program: lookup(program, 3, 12, [[8]]),
    table=lambda program: lookup(program, 4, 12, [[3, 9], [7, 2]], 4),
    spoiled=lambda program: lookup(program, 5, 12, [1, 8, 4, 10], 2, mx.float32, (0, 6)),
    alone=lambda program: lookup(program, 6, 7, [6, 0, 3], 1),
    logits=lambda program: logits(program, 7, 12),
)
known.probe_table(mx.float16, half=lambda program: lookup(program, 8, 12, [0, 11, 5], 2, mx.float16))


@known.probe()
def dtype_of_the_vectors(program):
    """Return whether bfloat16 stays bfloat16."""
    found = lookup(program, 9, 12, [0, 11, 5], 2, mx.bfloat16)[0]
    return mx.array(found.dtype == mx.bfloat16, mx.float32)


@known.sized("512 tokens of a table of 4,096 x 256 on 2 ranks")
def sized(program):
    (table,) = drawn(1, (4096, 256))
    tokens = mx.arange(512) * 8
    return lambda: on_ranks(table, 2, lambda own, *others: program(Embedding(*own.shape, own), *others)(tokens))


MASKED = "mx.where(own[..., None], found, mx.zeros_like(found))"
known.change(
    "not-masked",
    (MASKED, "found"),
    fact="ranks that do not have a token add the vector of another one",
    question="Token 3 is rank 0's. What does rank 1 add to its vector?",
)
known.change(
    "multiplied-by-the-mask",
    (MASKED, "(found * own[..., None]).astype(found.dtype)"),
    fact="the mask is a factor, so that an infinite number in a row that is not wanted becomes NaN",
    question="What is 0 times infinity?",
)
known.change(
    "not-summed",
    (f"self.group.all_sum({MASKED})", MASKED),
    fact="each rank has the vectors of its own tokens only, and zeros for all others",
    question="Which vector does rank 1 have for a token of rank 0? Which one must it have?",
)
known.change(
    "maximum-over-ranks",
    (f"self.group.all_sum({MASKED})", f"self.group.all_max({MASKED})"),
    fact="the ranks exchange the maximum, so that negative numbers become 0",
    question="A token's vector has -2 somewhere, and the other rank has 0 there. Which is larger?",
)
known.change(
    "first-token-lost",
    ("(tokens >= self.vocabulary.start)", "(tokens > self.vocabulary.start)"),
    fact="the first token of each rank's range has no rank, and its vector is zero",
    question="A rank has the tokens 6 to 11. Is token 6 larger than 6?",
)
known.change(
    "modulo-rows",
    ("tokens - self.vocabulary.start, 0)", "tokens % len(self.vocabulary), 0)"),
    fact="a token's row is its id modulo the rank's number of rows",
    question="Ranks have 4, 4 and 5 of 13 tokens. Which row of the last rank is token 8's? What is 8 modulo 5?",
)
known.change(
    "start-by-rank",
    (
        "self.table, self.vocabulary, self.group = table, vocabulary, group",
        "count = len(vocabulary)\n"
        "self.table, self.vocabulary, self.group = table, range(group.rank * count, (group.rank + 1) * count), group",
    ),
    fact="a rank's first token is taken to be its number times its number of rows, as if all ranks had as many",
    question="Ranks have 4, 4 and 5 of 13 tokens. Which token is the last rank's first, and what is 2 * 5?",
)
known.change(
    "ids-of-the-whole-vocabulary",
    ("tokens - self.vocabulary.start, 0)", "tokens, 0)"),
    fact="the rank's table is indexed by ids of the whole vocabulary",
    question="A rank has the tokens 6 to 11, and its table has six rows. Which of them is token 6's?",
)
known.change(
    "earlier-tokens-too",
    ("(tokens >= self.vocabulary.start) & ", ""),
    fact="the lower bound is not checked: a token of an earlier rank has a negative row",
    question="Which row of an array is row -2?",
)
known.change(
    "counted-from-the-end",
    ("tokens - self.vocabulary.start, 0)", "self.vocabulary.stop - 1 - tokens, 0)"),
    fact="the rows of a rank's table are counted from its last token",
    question="Which token's vector is row 0 of the rank's table?",
)
known.change(
    "silent-without-a-token",
    (
        "rows = mx.where(",
        "if not mx.any(own).item():\n    return mx.zeros_like(self.table(mx.zeros_like(tokens)))\nrows = mx.where(",
    ),
    fact="a rank that has none of the tokens does not call all_sum",
    question="How many ranks must call all_sum before it returns on any of them?",
)
known.change(
    "zeros-in-float32",
    ("mx.zeros_like(found)", "mx.zeros(found.shape)"),
    fact="the vectors of a table in half precision become float32, as they do with zeros in float32",
    question="Which dtype has mx.zeros? And which one has mx.where of a float16 and a float32 array?",
)
known.change(
    "logits-summed",
    ("return self.table.as_linear(x)", "return self.group.all_sum(self.table.as_linear(x))"),
    fact="as_linear adds the logits of different ranks' tokens",
    question="The first logit of rank 0 is token 0's. Whose is the first logit of rank 1?",
)
known.change(
    "logits-gathered",
    (
        "return self.table.as_linear(x)",
        "own = self.table.as_linear(x)\nreturn self.group.all_gather(own.swapaxes(0, -1)).swapaxes(0, -1)",
    ),
    fact="as_linear collects the logits of all ranks",
    question="How many numbers per token does that exchange? How many does greedy decoding need?",
)
known.accepted_change("a zero for all", (MASKED, "mx.where(own[..., None], found, 0)"))


@known.accepted("one-hot rows")
class WithAZeroRow:
    """Looks the tokens of other ranks up in row 0, and selects by a list of booleans."""

    def __init__(self, table, vocabulary, group):
        self.table, self.first, self.count, self.group = table, vocabulary.start, len(vocabulary), group

    def __call__(self, tokens):
        moved = tokens.astype(mx.int32) - self.first
        absent = mx.logical_or(moved < 0, moved >= self.count)
        vectors = self.table(mx.clip(moved, 0, self.count - 1))
        return self.group.all_sum(mx.where(mx.expand_dims(absent, -1), mx.array(0, vectors.dtype), vectors))

    def as_linear(self, x):
        return self.table.as_linear(x)
