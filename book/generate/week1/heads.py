"""The attention of the course's model in float64: its scores, weights and vectors for the book's sentences.

The numbers that a chapter shows are rounded once, here, and everything else is computed from the rounded numbers.
"""

import functools
from typing import NamedTuple

import numpy as np
from tests.week1.formulas import causal64, linear64, rms_norm64, rope64, softmax64
from tests.week1.reference_model import ReferenceModel, block64, embedded_model

from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.rounding import Array64, to_float64

SENTENCE = "That is a blue dog"
SHOWN = 3, 0  # the layer and the head that day 1 follows

# Statements about a head are measured on these sentences, not only on the one that the book shows.
SENTENCES = (
    SENTENCE,
    "The little girl gave her red ball to the boy",
    "Once upon a time there was a cat named Tim",
    "Tom and his mom went to the park to play",
    "The big bird sat in a tall tree and sang",
    "A frog wanted to jump over the green log",
    "Lily saw a shiny stone near the river",
    "The dog was sad because he lost his toy",
    '"Can I have a cookie?" asked the small mouse',
    "It was a sunny day, and the children were happy",
    "The old man had a yellow boat and a brown hat",
    "Her friend said that the water was too cold",
    "Ben likes to eat apples and bread every day",
    "They ran home when it started to rain",
    "The cat looked at the moon and smiled",
    "My sister found a box full of pretty things",
    "One day, a bear came to the forest and slept",
    "He put the blue car under the bed",
    "The flower is soft and smells very nice",
    "Sam was brave, so he helped the tiny bug",
)


class Heads(NamedTuple):
    """One layer's attention on a sentence of L tokens. Each key-value head is repeated for its query heads."""

    query: Array64  # H x L x D, with norm and RoPE
    key: Array64  # H x L x D
    value: Array64  # H x L x D
    scores: Array64  # H x L x L, over the root of D, before the mask
    weights: Array64  # H x L x L


@functools.cache
def model() -> ReferenceModel:
    """Return the model that comes with the course."""
    return embedded_model()


def tokens_of(sentence: str) -> list[int]:
    """Return a sentence's token ids from the solution's tokenizer."""
    load_solution()
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    ids: list[int] = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json").encode(sentence)
    return ids


@functools.cache
def heads_of(sentence: str) -> list[Heads]:
    """Return the attention of each layer."""
    config = model().config
    counts = {
        "q": config["num_attention_heads"],
        "k": config["num_key_value_heads"],
        "v": config["num_key_value_heads"],
    }
    eps, group = config["rms_norm_eps"], counts["q"] // counts["k"]
    found = []
    for number, stream in enumerate(streams_of(sentence)[:-1]):
        weights = {name: to_float64(w) for name, w in model().layer(number).items()}
        read, length = rms_norm64(stream[None], weights["input_layernorm.weight"], eps), len(stream)
        projected: dict[str, Array64] = {
            name: linear64(read, weights[f"self_attn.{name}_proj.weight"]).reshape(1, length, count, -1)
            for name, count in counts.items()
        }
        for name in "qk":
            normed = rms_norm64(projected[name], weights[f"self_attn.{name}_norm.weight"], eps)
            projected[name] = rope64(normed, [range(length)], config["rope_theta"])
        query, key, value = (np.swapaxes(projected[name][0], 0, 1) for name in "qkv")
        key, value = np.repeat(key, group, axis=0), np.repeat(value, group, axis=0)
        scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
        shares = softmax64(scores + causal64(length, length), -1)
        found.append(Heads(query, key, value, scores, shares))
    return found


@functools.cache
def streams_of(sentence: str) -> list[Array64]:
    """Return the residual stream, L x E, after the embedding and after each layer."""
    found = [to_float64(model().weights["model.embed_tokens.weight"])[tokens_of(sentence)][None]]
    for number in range(model().config["num_hidden_layers"]):
        found.append(block64(found[-1], model(), "causal", number))
    return [stream[0] for stream in found]


class Example(NamedTuple):
    """The head that day 1 follows. The same numbers are used wherever they are printed or graded."""

    query: Array64  # L x D, two decimals, as the key and the value are
    key: Array64
    value: Array64
    products: Array64  # L x L, of queries and keys, two decimals
    scores: Array64  # these over the root of D, from here on nothing is rounded
    weights: Array64  # softmax of the causally masked scores


def example() -> Example:
    """Return the example, rounded up to and including the products, so that readers can check each digit from there."""
    layer, head = SHOWN
    query, key, value = (x[head].round(2) for x in heads_of(SENTENCE)[layer][:3])
    products = (query @ key.T).round(2)
    scores = products / np.sqrt(query.shape[1])
    return Example(query, key, value, products, scores, softmax64(scores + causal64(*scores.shape), -1))


# Where a query may look: the token itself, the one before, the one before that, the first. Fractions of its weight.
PLACES = ("itself", "one before", "two before", "the first")


@functools.cache
def habits() -> Array64:
    """Return the mean weight, layers x heads x `PLACES`, over all queries with at least three tokens before them."""
    layers, count = heads_of(SENTENCE), 0
    sums = np.zeros((len(layers), len(layers[0].weights), len(PLACES)))
    for sentence in SENTENCES:
        for layer, heads in enumerate(heads_of(sentence)):
            for query in range(3, heads.weights.shape[1]):
                sums[layer] += heads.weights[:, query, [query, query - 1, query - 2, 0]]
                count += not layer
    return sums / count
