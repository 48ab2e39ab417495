"""Shared weights, computed differently from the solution: owners by counting, models with copies, and the gradient of a
tied table in float64."""

import dataclasses

import numpy as np
from tests.week1.reference_model import ReferenceModel, model64

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32

ORDERS = ("sequence", "cycle", "cycle_reversed")
TABLE = "model.embed_tokens.weight"


def owners_of(layers: int, distinct: int, order: str) -> list[int]:
    """Return the owner of each layer, by counting."""
    rounds = layers // distinct
    if order == "sequence":
        return [owner for owner in range(distinct) for _ in range(rounds)]
    forwards = list(range(distinct))
    found = forwards * rounds
    if order == "cycle_reversed" and rounds > 1:
        found[-distinct:] = reversed(forwards)
    return found


@dataclasses.dataclass(frozen=True)
class Sharing:
    """The number of stored layers, and the order in which they are used."""

    distinct: int
    order: str

    def __str__(self) -> str:
        """Return the description for a failing case."""
        return f"{self.distinct} stored, {self.order}"


def stored_only(model: ReferenceModel, distinct: int) -> ReferenceModel:
    """Return the same model with the weights of only the stored layers."""
    kept = {f"model.layers.{number}." for number in range(distinct)}
    weights = {
        name: weight
        for name, weight in model.weights.items()
        if not name.startswith("model.layers.") or any(name.startswith(prefix) for prefix in kept)
    }
    return ReferenceModel(model.config, weights)


def with_copies(model: ReferenceModel, sharing: Sharing) -> ReferenceModel:
    """Return the model whose file has, for each layer, the weights that it uses."""
    weights = {name: weight for name, weight in model.weights.items() if not name.startswith("model.layers.")}
    owners = owners_of(model.config["num_hidden_layers"], sharing.distinct, sharing.order)
    for number, owner in enumerate(owners):
        weights |= {f"model.layers.{number}.{name}": weight for name, weight in model.layer(owner).items()}
    return ReferenceModel(model.config, weights)


def logits64(tokens: Array64, model: ReferenceModel, sharing: Sharing, parts: object, *, r: Round = exact) -> Array64:
    """Return the logits of the model with copies, for the whole sequence at once."""
    return model64(tokens, with_copies(model, sharing), r=r)


def counts_of(model: ReferenceModel, distinct: int) -> dict[str, int]:
    """Count the arrays of a checkpoint."""
    file = stored_only(model, distinct)
    layers: int = model.config["num_hidden_layers"]
    own = model.layer(0)
    matrices = sum(weight.size for weight in own.values() if weight.ndim == 2)
    keys, values = (own[f"self_attn.{name}_proj.weight"].shape[0] for name in "kv")
    return {
        "stored": sum(weight.size for weight in file.weights.values()),
        "macs": layers * matrices + model.weights[TABLE].size,  # a head has the table's shape
        "cached": layers * (keys + values),
    }


def _chances(table: Array64, tokens: Array64, r: Round) -> tuple[Array64, Array64, Array64]:
    """Return the looked-up rows, the logits, and -log p of every token, L x V."""
    x = table[tokens.astype(int)]
    logits = r(x @ table.T)
    largest = logits.max(axis=-1, keepdims=True)
    total = r(largest + r(np.log(r(np.exp(r(logits - largest)).sum(axis=-1, keepdims=True)))))
    return x, logits, r(total - logits)


def loss64(table: Array64, tokens: Array64, targets: Array64, *, r: Round = exact) -> Array64:
    """Return the mean of -log p of the targets."""
    _, _, costs = _chances(table, tokens, in_float32(r))
    return np.asarray(in_float32(r)(np.mean([row[int(i)] for row, i in zip(costs, targets, strict=True)])))


def gradient64(table: Array64, tokens: Array64, targets: Array64, *, r: Round = exact) -> Array64:
    """Position by position: the head's part goes to every row, the embedding's to the input token's row."""
    wide = in_float32(r)
    x, _, costs = _chances(table, tokens, wide)
    chances = wide(np.exp(-costs))
    gradient = np.zeros_like(table)
    for i, (token, target) in enumerate(zip(tokens.astype(int), targets.astype(int), strict=True)):
        error = chances[i].copy()
        error[target] -= 1
        gradient += wide(error[:, None] * x[i] / len(tokens))
        gradient[token] += wide(error @ table / len(tokens))
    return r(gradient)
