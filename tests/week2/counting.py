"""The bytes and FLOPs of a step, counted by running it: array sizes, and the products of a model of zeros."""

from typing import Any

import mlx.core as mx
import numpy as np
from tests.week1.reference_model import ReferenceModel

from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

TABLE = "model.embed_tokens.weight"
OF_SIZE = {4: mx.float32, 2: mx.bfloat16}  # bytes

Config = dict[str, Any]  # the contents of a config.json


def moved(model: ReferenceModel, storage: Any, length: int, offset: int, batch: int) -> dict[str, int]:
    """Return the bytes of the arrays that a step reads; MLX knows them without computing."""
    c, dtype = model.config, OF_SIZE[storage.size]
    every = sum(part.nbytes for weight in model.weights.values() for part in stored(weight, storage))
    table = stored(model.weights[TABLE], storage)
    tokens = mx.zeros((batch, length), mx.int32)
    rows = sum(part[tokens].nbytes for part in table)
    unread = 0 if c["tie_word_embeddings"] else sum(part.nbytes for part in table)  # the head is a separate matrix

    layers: int = c["num_hidden_layers"]

    def of_caches(count: int) -> int:
        keys = mx.zeros((batch, c["num_key_value_heads"], count, c["head_dim"]), dtype)
        return layers * 2 * keys.nbytes

    return {
        "weights": every - unread + rows,
        "cache_read": of_caches(offset + length),
        "cache_written": of_caches(length),
    }


def stored(weight: mx.array, storage: Any) -> list[mx.array]:
    """Return the arrays of a weight; MLX packs a matrix if the storage is quantized."""
    if storage.bits is None or weight.ndim == 1:
        return [weight.astype(OF_SIZE[storage.size])]
    packed, *scales_and_biases = mx.quantize(weight, storage.group_size, storage.bits)
    return [packed, *(x.astype(OF_SIZE[storage.scale_size]) for x in scales_and_biases)]


class Counter:
    """Multiplies matrices, and counts FLOPs by category."""

    def __init__(self) -> None:
        self.flops = dict.fromkeys(("projections", "attention", "mlp", "head"), 0)

    def product(self, of: str, a: Any, b: Any) -> Any:
        """Return a @ b and count 2 FLOPs per result element and column of a."""
        result = a @ b
        self.flops[of] += 2 * result.size * a.shape[-1]
        return result


def computed(config: Config, length: int, offset: int, batch: int) -> dict[str, int]:
    """Count a model of zeros that runs on the new tokens one at a time, which needs no mask."""
    count, size, dims = Counter(), config["hidden_size"], config["head_dim"]
    heads, pairs = config["num_attention_heads"], config["num_key_value_heads"]

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.int8)

    for _ in range(batch):
        for seen in range(offset + 1, offset + length + 1):
            x = zeros(1, size)
            for _ in range(config["num_hidden_layers"]):
                query = count.product("projections", x, zeros(size, heads * dims)).reshape(heads, 1, dims)
                for _ in "kv":
                    count.product("projections", x, zeros(size, pairs * dims))
                keys = np.repeat(zeros(pairs, seen, dims), heads // pairs, axis=0)
                weights = count.product("attention", query, keys.swapaxes(1, 2))
                attended = count.product("attention", weights, keys)
                x = count.product("projections", attended.reshape(1, heads * dims), zeros(heads * dims, size))
                for _ in ("gate", "up"):
                    wide = count.product("mlp", x, zeros(size, config["intermediate_size"]))
                x = count.product("mlp", wide, zeros(config["intermediate_size"], size))
        count.product("head", x, zeros(size, config["vocab_size"]))
    return count.flops


def is_a(actual: Any, kind: type) -> bool:
    """Return whether a value has this type, by name: a variant's type is the solution's class of the same name."""
    return type(actual).__name__ == kind.__name__


def same_counts(actual: Any, kind: type, expected: dict[str, int], case: str, size: int, swept: bool = False) -> None:
    """Check the type, that all fields are ints, and their exact values."""

    def fail(kind: Kind, headline: str, *lines: str) -> None:
        raise CheckFailed(Finding(kind, headline, lines, case, size, swept=swept))

    if not is_a(actual, kind):
        fail(Kind.TYPE, f"returned {type_words(actual)}, expected a {kind.__name__}")
    found = {name: getattr(actual, name) for name in expected}
    for name, value in found.items():
        if type(value) is not int:
            fail(Kind.TYPE, f"{name} is {type_words(value)}, expected an int")
    if wrong := [name for name in expected if found[name] != expected[name]]:
        lines = [
            f"{word}{', '.join(f'{name} {table[name]:,}' for name in wrong)}"
            for word, table in (("expected  ", expected), ("got       ", found))
        ]
        right = [name for name in expected if name not in wrong]
        fail(
            Kind.VALUES,
            f"wrong {' and '.join(wrong)}" + (f"; {', '.join(right)} right" if right else ""),
            *lines,
        )
