"""Reference variants of task 2.2.3, the operations of a step."""

import mlx.core as mx
from tests.week1.reference_model import QWEN3, QWEN25
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.measure.step import Flops, Step

from tiny_llm_course.testkit.variants import Variants

known = Variants("2.2.3")


def counted(program, base, length, offset, batch, **measures):
    found = program(Step(ModelConfig.from_dict({**base, **measures}), length, offset, batch))
    return tuple(mx.array([value]) for value in (found.projections, found.attention, found.mlp, found.head))


known.probe_table(
    one_token=lambda program: counted(program, QWEN3, 1, 0, 1),
    decode=lambda program: counted(program, QWEN3, 1, 7, 1),
    prefill=lambda program: counted(program, QWEN3, 5, 0, 1),
    more_of_a_text=lambda program: counted(program, QWEN3, 3, 4, 1),
    batch=lambda program: counted(program, QWEN3, 2, 3, 5, tie_word_embeddings=True),
    qwen25=lambda program: counted(program, QWEN25, 2, 3, 5, num_hidden_layers=5, num_key_value_heads=2),
)


known.not_timed("only a few multiplications")


known.change(
    "additions-left-out",
    ("projections=2 * tokens", "projections=tokens"),
    ("attention=2 * 2 *", "attention=2 *"),
    ("mlp=2 * tokens", "mlp=tokens"),
    ("head=2 * step.batch", "head=step.batch"),
    fact="a multiply-add counts as one FLOP",
    question="y += w * x: how many operations is that?",
)
known.change(
    "nothing-hidden",
    (" step.length * step.offset + step.length * (step.length + 1) // 2", " step.length * (step.offset + step.length)"),
    fact="each new token attends to all new keys, including later ones",
    question="Five tokens are prefilled at once. How many keys does the first of them see?",
)
known.change(
    "not-itself",
    ("(step.length + 1) // 2", "(step.length - 1) // 2"),
    fact="a token does not attend to its own key",
    question="How many keys does the first token of a sequence see?",
)
known.change(
    "half-of-a-square",
    (
        "step.length * step.offset + step.length * (step.length + 1) // 2",
        "((step.offset + step.length) ** 2 - step.offset**2) // 2",
    ),
    fact="the visible keys are counted as half of a square, which leaves out half of the diagonal",
    question="Three tokens are prefilled. How many keys do they see, one by one, and how much is half of 3 x 3?",
)
known.change(
    "cache-left-out",
    ("pairs = step.length * step.offset + ", "pairs = "),
    fact="the cached keys are not counted",
    question="The eighth token arrives alone. How many keys does it attend to?",
)
known.change(
    "new-keys-left-out",
    (" + step.length * (step.length + 1) // 2", ""),
    fact="the keys of the new tokens are not counted",
    question="How many keys does the first token of a sequence see?",
)
known.change(
    "scores-alone",
    ("attention=2 * 2 *", "attention=2 *"),
    fact="only one of attention's two products is counted: the scores or the weighted sums of values",
    question="Which two products does attention compute?",
)
known.change(
    "scores-of-key-value-heads",
    ("* queries * pairs", "* keys * pairs"),
    fact="attention is counted for H_kv heads instead of H",
    question="Three query heads share one key. How many scores do they compute?",
)
known.change(
    "attention-of-one-layer",
    ("step.batch * c.num_hidden_layers * queries", "step.batch * queries"),
    fact="attention is counted for only one layer",
    question="How many layers compute attention?",
)
known.change(
    "attention-of-one-row",
    ("2 * step.batch * c.num_hidden_layers", "2 * c.num_hidden_layers"),
    fact="attention is counted for only one row of the batch",
    question="How many rows compute attention?",
)
known.change(
    "head-for-every-token",
    ("head=2 * step.batch * c.vocab_size", "head=2 * step.batch * step.length * c.vocab_size"),
    fact="the head is counted for every new token",
    question="Which logits does a model with caches compute for a prompt?",
)
known.change(
    "head-for-one-row",
    ("head=2 * step.batch * c.vocab_size", "head=2 * c.vocab_size"),
    fact="the head is counted for only one row of the batch",
    question="Five sequences are prefilled. How many of them get a next token?",
)
known.change(
    "tied-head-for-nothing",
    ("head=2 * step.batch", "head=0 if c.tie_word_embeddings else 2 * step.batch"),
    fact="a tied head is counted as free",
    question="Does a matrix product get cheaper when the matrix is also used elsewhere?",
)
known.change(
    "tokens-of-one-row",
    ("tokens = step.batch * step.length", "tokens = step.length"),
    fact="projections and MLP are counted for only one row of the batch",
    question="Five sequences of two tokens each: how many vectors is a matrix multiplied by?",
)
known.change(
    "one-token",
    ("tokens = step.batch * step.length", "tokens = step.batch"),
    fact="projections and MLP are counted for only one token of each row",
    question="Five sequences of two tokens each: how many vectors is a matrix multiplied by?",
)
known.change(
    "one-layer",
    ("step.length * c.num_hidden_layers  #", "step.length  #"),
    fact="projections and MLP are counted for only one layer",
    question="How many layers does a token pass through?",
)
known.change(
    "everything-again",
    ("tokens = step.batch * step.length", "tokens = step.batch * (step.offset + step.length)"),
    fact="the projections and the MLP are computed again for the cached tokens",
    question="What is a cache for?",
)
known.change(
    "no-output-projection",
    ("(2 * queries + 2 * keys)", "(queries + 2 * keys)"),
    fact="the output projection of attention is not counted",
    question="What maps the concatenated heads back to E features?",
)
known.change(
    "square-output-projection",
    ("c.hidden_size * (2 * queries + 2 * keys)", "c.hidden_size * (queries + 2 * keys + c.hidden_size)"),
    fact="the output projection of attention is E x E",
    question="How many features do all heads have together: E, or H * D?",
)
known.change(
    "square-projections",
    ("c.hidden_size * (2 * queries + 2 * keys)", "c.hidden_size * (2 * c.hidden_size + 2 * keys)"),
    fact="the query and output projections of attention are E x E",
    question="How many features do all heads have together: E, or H * D?",
)
known.change(
    "keys-for-each-head",
    ("(2 * queries + 2 * keys)", "4 * queries"),
    fact="the key and value projections are as large as the query projection",
    question="How many key-value heads are there?",
)
known.change(
    "values-not-projected",
    ("(2 * queries + 2 * keys)", "(2 * queries + keys)"),
    fact="only one of the key and value projections is counted",
    question="Which matrices produce q, k and v?",
)
known.change(
    "two-matrices-in-the-mlp",
    ("mlp=2 * tokens * 3", "mlp=2 * tokens * 2"),
    fact="the MLP has only two matrices",
    question="What does SwiGLU consist of?",
)
known.change(
    "dims-of-the-stream",
    (
        "queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim",
        "dims = c.hidden_size // c.num_attention_heads\n"
        "queries, keys = c.num_attention_heads * dims, c.num_key_value_heads * dims",
    ),
    fact="the head dimension is E / H",
    question="The config gives head_dim. Is it hidden_size / num_attention_heads?",
)
known.change(
    "floats",
    ("(step.length + 1) // 2", "(step.length + 1) / 2"),
    fact="the FLOP count of attention is a float",
    question="What type does / return in Python, and what type does // return?",
)


@known.accepted("token-by-token")
def token_by_token(step):
    c = step.config
    of_a_token = 0
    for heads in (c.num_attention_heads, c.num_key_value_heads, c.num_key_value_heads, c.num_attention_heads):
        of_a_token += 2 * c.hidden_size * heads * c.head_dim
    projections = attention = mlp = head = 0
    for _ in range(step.batch):
        for position in range(step.offset, step.offset + step.length):
            projections += c.num_hidden_layers * of_a_token
            attention += c.num_hidden_layers * c.num_attention_heads * 4 * c.head_dim * (position + 1)
            mlp += c.num_hidden_layers * 6 * c.hidden_size * c.intermediate_size
        head += 2 * c.hidden_size * c.vocab_size
    return Flops(projections, attention, mlp, head)
