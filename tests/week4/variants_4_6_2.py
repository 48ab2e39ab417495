"""Known programs of task 4.6.2, what sharing saves."""

import mlx.core as mx
from tests.week1.reference_model import QWEN3, QWEN25, random_model
from tests.week4.formulas_day6 import counts_of
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.weight_sharing.counts import Counts

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.6.2")


def counted(program, base, distinct, **measures):
    found = program(ModelConfig.from_dict({**base, **measures}), distinct)
    return tuple(mx.array([value]) for value in (found.stored, found.macs, found.cached))


known.probe_table(
    nothing_shared=lambda program: counted(program, QWEN3, 2),
    tied=lambda program: counted(program, QWEN3, 2, tie_word_embeddings=True),
    half=lambda program: counted(program, QWEN3, 3, num_hidden_layers=6),
    one_of_six=lambda program: counted(program, QWEN25, 1, num_hidden_layers=6),
    qwen25_tied=lambda program: counted(program, QWEN25, 2, num_hidden_layers=4, tie_word_embeddings=True),
    refused=lambda program: refusals(
        lambda sizes: counted(program, QWEN3, sizes[1], num_hidden_layers=sizes[0]), [(6, 4), (3, 6)]
    ),
)

known.not_timed("a few multiplications")

known.change(
    "macs-of-the-stored",
    ("macs=c.num_hidden_layers * matrices", "macs=distinct * matrices"),
    fact="multiplications are counted once per stored layer, not per layer that a token passes through",
    question="A token passes through the same matrices a second time. Does that reuse any of the first pass's work?",
)
known.change(
    "cached-of-the-stored",
    ("cached=c.num_hidden_layers", "cached=distinct"),
    fact="keys and values are cached per stored layer, not per layer that a token passes through",
    question="Layers 0 and 1 have the same weights. Have they the same input, and so the same keys?",
)
known.change(
    "stored-for-every-layer",
    ("distinct * layer +", "c.num_hidden_layers * layer +"),
    fact="weights are stored once per layer that a token passes through",
    question="What does the checkpoint of a model with shared layers contain?",
)
known.change(
    "head-never-stored",
    ("table * (1 if c.tie_word_embeddings else 2)", "table"),
    fact="the head is not counted as stored, tied or not",
    question="Which tensor does an untied model's file have that a tied one's lacks?",
)
known.change(
    "head-always-stored",
    ("table * (1 if c.tie_word_embeddings else 2)", "table * 2"),
    fact="the head is stored besides the embedding table, even if they are tied",
    question="What does tie_word_embeddings say about lm_head.weight?",
)
known.change(
    "ties-exchanged",
    ("(1 if c.tie_word_embeddings else 2)", "(2 if c.tie_word_embeddings else 1)"),
    fact="a tied model stores the table twice, an untied one once",
    question="Which of the two needs one more matrix?",
)
known.change(
    "tied-head-costs-nothing",
    ("matrices + table", "matrices + (0 if c.tie_word_embeddings else table)"),
    fact="a tied head counts no multiplications",
    question="How does a tied model compute a logit for each token?",
)
known.change(
    "looking-up-multiplies",
    ("matrices + table", "matrices + 2 * table"),
    fact="the embedding lookup counts as a multiplication by the whole table",
    question="What does table[token] read, and what does it multiply?",
)
known.change(
    "head-in-no-macs",
    ("matrices + table", "matrices"),
    fact="the head counts no multiplications",
    question="Which is the last matrix that a token is multiplied by?",
)
known.change(
    "dims-from-hidden",
    ("queries, keys = c.num_attention_heads * c.head_dim,", "queries, keys = c.hidden_size,"),
    fact="the queries' width is E instead of H * D",
    question="What are H * D and E in this config?",
)
known.change(
    "keys-of-all-heads",
    ("c.num_key_value_heads * c.head_dim", "c.num_attention_heads * c.head_dim"),
    fact="keys and values are counted per query head, H, instead of H_kv",
    question="How many query heads share a key?",
)
known.change(
    "values-not-cached",
    ("* 2 * keys", "* keys"),
    fact="only keys are cached, not values",
    question="What does a query need from a cached token once it has its weight?",
)
known.change(
    "two-matrices-in-the-mlp",
    ("3 * c.intermediate_size", "2 * c.intermediate_size"),
    fact="an MLP has two matrices instead of three",
    question="Which matrices has a SwiGLU besides up and down?",
)
known.change(
    "no-head-norms",
    ("2 * c.head_dim if", "0 if"),
    fact="the weights of q_norm and k_norm are not counted",
    question="Which weights of size D has a layer of Qwen3?",
)
known.change(
    "biases-left-out",
    ("else queries + 2 * keys", "else 0"),
    fact="the q, k and v biases of Qwen2.5 are not counted",
    question="Which weights has a layer of Qwen2.5 that one of Qwen3 lacks?",
)
known.change(
    "norms-left-out",
    ("matrices + small + 2 * c.hidden_size", "matrices + small"),
    fact="the norms before attention and MLP are not counted",
    question="How many weights of size E has a layer?",
)
known.change(
    "no-final-norm",
    ("distinct * layer + c.hidden_size,", "distinct * layer,"),
    fact="the final norm is not counted",
    question="Which weight of a model is in no layer and is not a table?",
)
known.change(
    "remainder-not-refused",
    ("if distinct < 1 or c.num_hidden_layers % distinct:", "if False:"),
    fact="a number of layers that `distinct` does not divide is accepted",
    question="Six layers, four stored: how often is each used?",
)


@known.accepted("by-shapes")
def by_shapes(config, distinct):
    """A model with that many layers, built from shapes alone, and counted."""
    if distinct < 1 or config.num_hidden_layers % distinct:
        raise ValueError(f"{config.num_hidden_layers}, {distinct}")
    return Counts(**counts_of(random_model(vars(config), 1), distinct))
