"""Measure where the engine's prefill spends its time, part by part of the registry: `benches/engine.json`.

    pdm run python benches/engine.py [--quick]

Each box is timed separately, over all layers, with the solution's own parts on the embedded model, in interleaved
rounds. The book's page of the whole model shows the shares. Run it on a quiet machine.
"""

import argparse
import datetime
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from tiny_llm_course.measuring.benches import choose
from tiny_llm_course.measuring.clock import seconds
from tiny_llm_course.measuring.machine import machine
from tiny_llm_course.paths import EMBEDDED_MODEL

RECORD = Path(__file__).with_suffix(".json")
TEXT = "Once upon a time there was a little girl who had a big blue dog. "
LENGTH, QUICK = 256, 8  # tokens in the prefill


def main() -> None:
    """Measure all boxes and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few tokens, as a smoke test; nothing is written")
    options = parser.parse_args()
    package = choose(solution=True)
    found = measure(QUICK if options.quick else LENGTH)
    for name, ms in found.items():
        print(f"{ms:9.3f} ms  {name}")
    if not options.quick:
        total = sum(found.values())
        record = {
            "title": "Where the time of the engine's boxes is",
            "package": "solutions/tiny_llm",
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "columns": ["box", "ms"],
            "rows": [[name, float(f"{ms:.6g}")] for name, ms in found.items()],
            "see": f"Timed separately, all boxes add up to {total:.0f} ms for {LENGTH} tokens.",
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"Wrote {RECORD.name} for {package.name}. Next, update the page that shows it: pdm run dev book")


def measure(length: int) -> dict[str, float]:
    """Return the milliseconds of each box, summed over the layers that have it."""
    parts = dict(_parts(length))
    return {name: 1e3 * taken for name, taken in zip(parts, seconds(*parts.values()), strict=True)}


def _parts(length: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each box as a program, with inputs of its size for a prefill of `length` tokens."""
    from tiny_llm.attention import causal_mask
    from tiny_llm.basics import linear, silu, softmax
    from tiny_llm.config import ModelConfig
    from tiny_llm.qwen3 import Qwen3Model, Qwen3MultiHeadAttention
    from tiny_llm.sampler import make_sampler
    from tiny_llm.tokenizer import ByteLevelBPE, StreamingDetokenizer
    from tiny_llm_course.checkpoints.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(EMBEDDED_MODEL, mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = Qwen3Model(config, checkpoint.weights)
    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    text = TEXT * (length // len(tokenizer.encode(TEXT)) + 1)
    heads, pairs, dims = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    sampler = make_sampler(temp=0.7, seed=0)

    def of(*shape: int) -> mx.array:
        return mx.random.normal(shape)

    x, joined = of(1, length, config.hidden_size), of(1, length, heads * dims)
    q, k = of(1, length, heads, dims), of(1, length, pairs, dims)
    grouped, key = of(1, pairs, heads // pairs, length, dims), of(1, pairs, 1, length, dims)
    scores, wide = of(1, pairs, heads // pairs, length, length), of(1, length, config.intermediate_size)
    weights, mask = softmax(scores, -1), causal_mask(length, length, mx.float32)
    logits, ids = of(1, config.vocab_size), mx.array([tokenizer.encode(text)[:length]])
    mx.eval(x, joined, q, k, grouped, key, scores, wide, weights, mask, logits, ids)
    attentions = [layer.attention for layer in model.layers]
    mlps = [layer.mlp for layer in model.layers]

    def normed(attention: Qwen3MultiHeadAttention) -> list[mx.array]:
        both = ((q, attention.q_norm), (k, attention.k_norm))
        return [mx.fast.rms_norm(y, weight, config.rms_norm_eps) for y, weight in both]

    def each(layers: Sequence[Any], program: Callable[..., object]) -> Callable[[], object]:
        return lambda: [program(layer) for layer in layers]

    yield "tokens", partial(ByteLevelBPE.encode, tokenizer, text)
    yield "embedding", partial(model.embedding, ids)
    yield "layers", each(model.layers, lambda layer: [x + x, x + x])
    yield "layers/norm 1", each(model.layers, lambda layer: layer.input_norm(x))
    yield "layers/attention/q, k, v", each(attentions, lambda a: [linear(x, w) for w in (a.wq, a.wk, a.wv)])
    yield "layers/attention/q, k norm", each(attentions, normed)
    yield "layers/attention/RoPE", each(attentions, lambda a: [a.rope(q), a.rope(k)])
    yield "layers/attention/GQA/scores", each(attentions, lambda a: grouped @ key.swapaxes(-1, -2) * dims**-0.5)
    yield "layers/attention/GQA/mask", each(attentions, lambda a: scores + mask)
    yield "layers/attention/GQA/softmax", each(attentions, lambda a: softmax(scores, -1))
    yield "layers/attention/GQA/values", each(attentions, lambda a: weights @ key)
    yield "layers/attention/output", each(attentions, lambda a: linear(joined, a.wo))
    yield "layers/norm 2", each(model.layers, lambda layer: layer.mlp_norm(x))
    yield "layers/MLP/gate, up", each(mlps, lambda mlp: [linear(x, mlp.w_gate), linear(x, mlp.w_up)])
    yield "layers/MLP/silu", each(mlps, lambda mlp: silu(wide) * wide)
    yield "layers/MLP/down", each(mlps, lambda mlp: linear(wide, mlp.w_down))
    yield "norm", partial(model.norm, x)
    yield "logits", partial(model.embedding.as_linear, x)
    yield "sampler", partial(sampler, logits, [[]])
    yield "text", partial(StreamingDetokenizer(tokenizer).add, int(ids[0, -1]))


if __name__ == "__main__":
    main()
