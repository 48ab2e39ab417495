"""Measure time and bytes of one decode step, part by part: `benches/decode_boxes.json`.

    pdm run python benches/decode_boxes.py [--quick]

Each box is run by itself, in all layers, by the solution's own parts, on the model that comes with the course; they
take turns with the whole step. The book's page on measuring shows the record. On a quiet machine.
"""

import argparse
import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tiny_llm_course.doctor import blas

blas.load()  # as `bench engine` does, and before MLX is imported

import mlx.core as mx  # noqa: E402

from tiny_llm_course.measuring.benches import choose  # noqa: E402
from tiny_llm_course.measuring.clock import seconds  # noqa: E402
from tiny_llm_course.measuring.machine import limits, machine  # noqa: E402
from tiny_llm_course.paths import EMBEDDED_MODEL  # noqa: E402

RECORD = Path(__file__).with_suffix(".json")
OFFSET, QUICK = 256, 8  # tokens that the caches hold
WHOLE = "the whole step"

Box = tuple[str, int, Callable[[], object]]  # a name, the bytes that it reads and writes, a program


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few tokens, to see that it runs; nothing is written")
    options = parser.parse_args()
    package = choose(solution=True)
    boxes = list(_boxes(QUICK if options.quick else OFFSET))
    times = seconds(*(run for _, _, run in boxes))
    rows = [(name, size, float(f"{1e3 * taken:.6g}")) for (name, size, _), taken in zip(boxes, times, strict=True)]
    for name, size, ms in rows:
        print(f"{size / 1e3:10.1f} KB {ms:9.3f} ms  {name}")
    if not options.quick:
        record = {
            "title": f"Where the time of a decode step after {OFFSET} tokens is",
            "package": "solutions/tiny_llm",
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "bandwidth": float(f"{limits().bandwidth:.6g}"),
            "columns": ["box", "bytes", "ms"],
            "rows": rows,
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"{RECORD.name} of {package.name} is written. Next, the page that shows it: pdm run dev book")


def _boxes(offset: int) -> Iterator[Box]:
    """Each box as a program of what it does for one token after `offset` others; the last is the whole step."""
    from tiny_llm.attention import scaled_dot_product_attention_grouped
    from tiny_llm.basics import linear, silu
    from tiny_llm.config import ModelConfig
    from tiny_llm.generate import greedy
    from tiny_llm.layer_norm import RMSNorm
    from tiny_llm.measure.accounting import traffic
    from tiny_llm.measure.step import Step, Storage
    from tiny_llm.positional_encoding import RoPE
    from tiny_llm.qwen3_cached.model import Qwen3CachedModel
    from tiny_llm_course.checkpoints.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(EMBEDDED_MODEL, mx.float32)
    config, weights = ModelConfig.from_dict(checkpoint.config), checkpoint.weights
    heads, pairs, dims = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    numbers, eps = range(config.num_hidden_layers), config.rms_norm_eps
    model = Qwen3CachedModel(config, weights)
    caches = model.new_caches()
    token, rope = mx.array([[258]]), RoPE(dims, config.max_position_embeddings, config.rope_theta)
    mx.eval(model(mx.array([[258] * offset]), caches))

    def of(*shape: int) -> mx.array:
        x = mx.random.normal(shape)
        mx.eval(x)
        return x

    def named(name: str) -> list[mx.array]:
        """The weights of that name in all layers."""
        return [weights[f"model.layers.{number}.{name}.weight"] for number in numbers]

    def size_of(*names: str) -> int:
        return sum(w.nbytes for name in names for w in named(name))

    x, joined = of(1, 1, config.hidden_size), of(1, 1, heads * dims)
    query, key = of(1, 1, heads, dims), of(1, 1, pairs, dims)
    table, logits = weights["model.embed_tokens.weight"], of(1, config.vocab_size)
    stream_norms = [
        RMSNorm(config.hidden_size, w, eps) for n in ("input", "post_attention") for w in named(f"{n}_layernorm")
    ]
    stream_norms.append(RMSNorm(config.hidden_size, weights["model.norm.weight"], eps))
    head_norms = [
        (RMSNorm(dims, w, eps), y) for n, y in (("q", query), ("k", key)) for w in named(f"self_attn.{n}_norm")
    ]
    projections = [f"self_attn.{name}_proj" for name in "qkv"]

    def attend() -> list[mx.array]:
        found = []
        for cache in caches:
            keys, values = cache.update_and_fetch(key.swapaxes(1, 2), key.swapaxes(1, 2))
            found.append(scaled_dot_product_attention_grouped(query.swapaxes(1, 2), keys, values, mask="causal"))
            cache.rewind(1)
        return found

    def swiglu() -> list[mx.array]:
        return [
            linear(silu(linear(x, gate)) * linear(x, up), down) for gate, up, down in zip(*map(named, MLP), strict=True)
        ]

    def step() -> mx.array:
        chosen = greedy(model(token, caches)[:, -1], [[258]])
        for cache in caches:
            cache.rewind(1)
        return chosen

    def every(names: list[str], y: mx.array) -> Callable[[], object]:
        return lambda: [linear(y, w) for name in names for w in named(name)]

    moved = traffic(Step(config, 1, offset), Storage())
    positions = slice(offset, offset + 1)
    norms = [norm.weight for norm in stream_norms] + [norm.weight for norm, _ in head_norms]
    yield "embedding", table[0].nbytes, lambda: table[token]
    yield "norms", sum(w.nbytes for w in norms), lambda: [n(x) for n in stream_norms] + [n(y) for n, y in head_norms]
    yield "q, k, v", size_of(*projections), every(projections, x)
    yield "RoPE", 0, lambda: [rope(y, positions) for _ in numbers for y in (query, key)]
    yield "cache, attention", moved.cache_read + moved.cache_written, attend
    yield "attention's output", size_of("self_attn.o_proj"), every(["self_attn.o_proj"], joined)
    yield "MLP", size_of(*MLP), swiglu
    yield "logits", table.nbytes, lambda: linear(x, table)
    yield "choice", 0, lambda: greedy(logits, [[258]])
    yield WHOLE, moved.total, step


MLP = [f"mlp.{name}_proj" for name in ("gate", "up", "down")]


if __name__ == "__main__":
    main()
