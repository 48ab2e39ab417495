"""Models that ranks can divide, what each rank holds of them, counted head by head, and programs run on all ranks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from tests.week1.reference_model import QWEN3, QWEN25, ReferenceModel, random_model

from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.ranks import RanksStopped, run_ranks

WIDE: dict[str, Any] = {
    **QWEN3,
    "hidden_size": 10,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 6,
    "intermediate_size": 28,
    "vocab_size": 31,
}
SHARED = {**WIDE, "num_key_value_heads": 2, "hidden_size": 14, "intermediate_size": 36, "vocab_size": 33}
BIASES = {**QWEN25, "hidden_size": 22, "num_key_value_heads": 3, "intermediate_size": 15, "tie_word_embeddings": True}
ALONE = {**BIASES, "num_key_value_heads": 1, "intermediate_size": 18, "vocab_size": 32}  # one key-value head for all
# A config, and sizes of a group that can divide it. In the second, four ranks share two key-value heads.
DIVISIBLE = [(WIDE, 1), (WIDE, 2), (WIDE, 4), (SHARED, 2), (SHARED, 4), (BIASES, 3), (ALONE, 2), (ALONE, 3), (ALONE, 6)]
ROW_PARALLEL = ("o_proj", "down_proj")
Indices = list[int]


class Rows:
    """A rank's table that reads no memory outside of it: an id that it does not have gets a vector of -99."""

    def __init__(self, weight: mx.array) -> None:
        """Store the rows."""
        self.weight = weight

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the vectors of ids; negative ones count from the end, as in every array."""
        count, tokens = len(self.weight), tokens.astype(mx.int64)
        has = (tokens >= -count) & (tokens < count)
        return mx.where(has[..., None], self.weight[mx.where(has, tokens, 0)], mx.array(-99, self.weight.dtype))


class Asked(Rows):
    """A rank's table that keeps the ids it gets."""

    def __init__(self, weight: mx.array) -> None:
        """Store the rows."""
        super().__init__(weight)
        self.ids = list[int]()

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the vectors of ids."""
        ids: Any = tokens.flatten().tolist()
        self.ids += ids
        return super().__call__(tokens)


def words(config: dict[str, Any], size: int) -> str:
    """Describe a model and a group."""
    letters = {"H": "num_attention_heads", "H_kv": "num_key_value_heads", "D": "head_dim", "I": "intermediate_size"}
    letters |= {"E": "hidden_size", "V": "vocab_size"}
    sizes = ", ".join(f"{letter} {config[name]}" for letter, name in letters.items())
    return f"{size} rank{'s' * (size != 1)}; {config['model_type']}, {sizes}"


def features(config: dict[str, Any], rank: int, size: int) -> dict[str, tuple[Indices, int]]:
    """Return for each layer's name which of its outputs or inputs the rank holds, and how many there are."""
    heads, kv_heads, dims = (config[x] for x in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    width, vocabulary = config["intermediate_size"], config["vocab_size"]
    own = [head for head in range(heads) if head * size // heads == rank]
    used = sorted({head * kv_heads // heads for head in own})
    query, key = ([head * dims + i for head in each for i in range(dims)] for each in (own, used))
    mlp = [i for i in range(width) if i * size // width == rank]
    tokens = list(range(vocabulary * rank // size, vocabulary * (rank + 1) // size))
    return {
        **dict.fromkeys(("q_proj", "o_proj"), (query, heads * dims)),
        **dict.fromkeys(("k_proj", "v_proj"), (key, kv_heads * dims)),
        **dict.fromkeys(("gate_proj", "up_proj", "down_proj"), (mlp, width)),
        **dict.fromkeys(("embed_tokens", "lm_head"), (tokens, vocabulary)),
    }


def columns(own: Indices, total: int, count: int) -> Indices:
    """Return which of `count` columns hold these of `total` inputs."""
    return sorted({i * count // total for i in own})


def part(name: str, w: mx.array, config: dict[str, Any], rank: int, size: int) -> mx.array:
    """Return the rank's part of a weight."""
    layer, kind = name.split(".")[-2:]
    found = features(config, rank, size).get(layer)
    if found is None or (layer in ROW_PARALLEL and kind == "bias"):
        return w
    if layer in ROW_PARALLEL:
        return w[:, mx.array(columns(*found, w.shape[-1]))]
    return w[mx.array(found[0])]


def parts(weights: dict[str, mx.array], config: dict[str, Any], rank: int, size: int) -> dict[str, mx.array]:
    """Return the rank's part of all weights."""
    return {name: part(name, w, config, rank, size) for name, w in weights.items()}


def own_config(config: Any, rank: int, size: int) -> Any:
    """Return the rank's ModelConfig."""
    table = dataclasses.asdict(config)
    held = features(table, rank, size)
    return dataclasses.replace(
        config,
        num_attention_heads=len(held["q_proj"][0]) // config.head_dim,
        num_key_value_heads=len(held["k_proj"][0]) // config.head_dim,
        intermediate_size=len(held["down_proj"][0]),
        vocab_size=len(held["lm_head"][0]),
    )


def vocabulary_of(config: dict[str, Any], rank: int, size: int) -> range:
    """Return the range of the rank's token ids."""
    tokens = features(config, rank, size)["lm_head"][0]
    return range(tokens[0], tokens[-1] + 1)


def on_ranks(program: Callable[[Any], Any], size: int, case: str) -> tuple[list[Any], list[Any]]:
    """Run a program on simulated ranks; report ranks that wait for each other as a failure of this case."""
    with noted(case):
        try:
            results, groups = run_ranks(program, size)
        except RanksStopped as stopped:
            what, _, each = str(stopped).partition(": ")
            fail(Kind.RAISED, what, case, *each.split("; "))
        mx.eval([result for result in results if isinstance(result, mx.array)])
    return results, groups


def called(groups: list[Any], expected: list[str], case: str) -> None:
    """Check which collectives each rank has called."""
    for group in groups:
        if (actual := [call.name for call in group.calls]) != expected:
            lines = (f"expected  {counted(expected)}", f"got       {counted(actual)}")
            fail(Kind.VALUES, f"rank {group.rank} communicates differently", case, *lines)


def counted(names: list[str]) -> str:
    """Return calls in words: `3 all_sum, 1 all_gather`."""
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "no call"


def same_on_all(results: list[Any], case: str) -> Any:
    """Check that all ranks have the same result, and return it."""
    first = results[0]
    for rank, result in enumerate(results[1:], 1):
        alike = mx.array_equal(first, result, equal_nan=True).item() if isinstance(first, mx.array) else first == result
        if not alike:
            fail(Kind.VALUES, f"rank {rank}'s result differs from rank 0's", case)
    return first


def packed_model(config: dict[str, Any], seed: int, bits: int, group_size: int) -> ReferenceModel:
    """Return a random model with matrices quantized by MLX, and their values as the dense model's."""
    model = random_model(config, seed)
    weights: dict[str, mx.array] = {}
    for name, w in model.weights.items():
        if w.ndim == 1:
            weights[name] = w
            continue
        kinds = ("weight", "scales", "biases")
        made = mx.quantize(w, group_size, bits)
        weights |= {f"{name.removesuffix('weight')}{kind}": x for kind, x in zip(kinds, made, strict=True)}
    return ReferenceModel(config, weights)


def numbers(x: mx.array) -> Any:
    """Return an array for an exact comparison."""
    return np.array(x if x.dtype == mx.uint32 else x.astype(mx.float32))
