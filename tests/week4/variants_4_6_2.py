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

for name, old, new, fact, question in (
    ("macs-of-the-stored", "macs=c.num_hidden_layers * matrices", "macs=distinct * matrices",
     "multiplications are counted once per stored layer, not per layer that a token passes through",
     "A token passes through the same matrices a second time. Does that reuse any of the first pass's work?"),
    ("cached-of-the-stored", "cached=c.num_hidden_layers", "cached=distinct",
     "keys and values are cached per stored layer, not per layer that a token passes through",
     "Layers 0 and 1 have the same weights. Have they the same input, and so the same keys?"),
    ("stored-for-every-layer", "distinct * layer +", "c.num_hidden_layers * layer +",
     "weights are stored once per layer that a token passes through",
     "What does the checkpoint of a model with shared layers contain?"),
    ("head-never-stored", "table * (1 if c.tie_word_embeddings else 2)", "table",
     "the head is not counted as stored, tied or not",
     "Which tensor does an untied model's file have that a tied one's lacks?"),
    ("head-always-stored", "table * (1 if c.tie_word_embeddings else 2)", "table * 2",
     "the head is stored besides the embedding table, even if they are tied",
     "What does tie_word_embeddings say about lm_head.weight?"),
    ("tied-head-costs-nothing", "matrices + table", "matrices + (0 if c.tie_word_embeddings else table)",
     "a tied head counts no multiplications",
     "How does a tied model compute a logit for each token?"),
    ("looking-up-multiplies", "matrices + table", "matrices + 2 * table",
     "the embedding lookup counts as a multiplication by the whole table",
     "What does table[token] read, and what does it multiply?"),
    ("head-in-no-macs", "matrices + table", "matrices",
     "the head counts no multiplications",
     "Which is the last matrix that a token is multiplied by?"),
    ("dims-from-hidden", "queries, keys = c.num_attention_heads * c.head_dim,", "queries, keys = c.hidden_size,",
     "the queries' width is E instead of H * D",
     "What are H * D and E in this config?"),
    ("keys-of-all-heads", "c.num_key_value_heads * c.head_dim", "c.num_attention_heads * c.head_dim",
     "keys and values are counted per query head, H, instead of H_kv",
     "How many query heads share a key?"),
    ("values-not-cached", "* 2 * keys", "* keys",
     "only keys are cached, not values",
     "What does a query need from a cached token once it has its weight?"),
    ("two-matrices-in-the-mlp", "3 * c.intermediate_size", "2 * c.intermediate_size",
     "an MLP has two matrices instead of three",
     "Which matrices has a SwiGLU besides up and down?"),
    ("no-head-norms", "2 * c.head_dim if", "0 if",
     "the weights of q_norm and k_norm are not counted",
     "Which weights of size D has a layer of Qwen3?"),
    ("norms-of-every-head", "2 * c.head_dim if", "queries + keys if",
     "the weights of q_norm and k_norm are counted once per head, although all heads share them",
     "Which shape has q_norm.weight in a checkpoint: D, or H * D?"),
    ("biases-left-out", "else queries + 2 * keys", "else 0",
     "the q, k and v biases of Qwen2.5 are not counted",
     "Which weights has a layer of Qwen2.5 that one of Qwen3 lacks?"),
    ("no-value-biases", "else queries + 2 * keys", "else queries + keys",
     "the biases of the values are not counted",
     "Which projections of Qwen2.5 have a bias?"),
    ("norms-left-out", "matrices + small + 2 * c.hidden_size", "matrices + small",
     "the norms before attention and MLP are not counted",
     "How many weights of size E has a layer?"),
    ("no-final-norm", "distinct * layer + c.hidden_size,", "distinct * layer,",
     "the final norm is not counted",
     "Which weight of a model is in no layer and is not a table?"),
    ("remainder-not-refused", "if distinct < 1 or c.num_hidden_layers % distinct:", "if False:",
     "a number of layers that `distinct` does not divide is accepted",
     "Six layers, four stored: how often is each used?"),
):  # fmt: skip
    known.change(name, (old, new), fact=fact, question=question)


@known.accepted("by-shapes")
def by_shapes(config, distinct):
    """A model with that many layers, built from shapes alone, and counted."""
    if distinct < 1 or config.num_hidden_layers % distinct:
        raise ValueError(f"{config.num_hidden_layers}, {distinct}")
    return Counts(**counts_of(random_model(vars(config), 1), distinct))
