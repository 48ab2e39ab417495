"""The content of each box of week 1's engine for one sentence: arrays in float64, shapes, weights, recorded times."""

import json
from typing import Any

import numpy as np
from book.generate.course import Facts, Sentence, Shown
from book.generate.week1.heads import SENTENCE, SHOWN, heads_of, model, streams_of, tokens_of
from tests.week1.formulas import linear64, mlp64, rms_norm64, silu64, softmax64

from tiny_llm_course.dev.book.html import number, visible
from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.paths import EMBEDDED_MODEL, ROOT
from tiny_llm_course.testkit.rounding import Array64

COLUMNS, WORDS = 12, 8  # of an array, and of the words that may come next, so many are shown
RECORD = ROOT / "benches" / "engine.json"


def engine_sentence() -> Sentence:
    """Return the running sentence."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    tokens = SENTENCE.split()
    first = {"layer": SHOWN[0], "head": SHOWN[1], "row": len(tokens) - 1}
    return Sentence(tokens, first, f"{found['see']} {measured_on(found)}")


def engine_facts() -> dict[str, Facts]:
    """Return the facts of each box."""
    milliseconds: dict[str, float] = dict(json.loads(RECORD.read_text(encoding="utf-8"))["rows"])
    weights, arrays, words = _weights(), _arrays(), _words()
    return {
        path: Facts(
            about, shape, weights.get(path, 0), milliseconds.get(path, 0.0), arrays.get(path, ()), words.get(path, ())
        )
        for path, (about, shape) in _told(model().config, len(tokens_of(SENTENCE))).items()
    }


def _told(config: dict[str, Any], length: int) -> dict[str, tuple[str, str]]:
    """Return what each box does, and the shape of its result."""
    size, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, pairs, dims = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    stream = f"L x E = {length} x {size}"
    both = f"H x L x D = {heads} x {length} x {dims}; keys and values H_kv x L x D = {pairs} x {length} x {dims}"
    scores = f"H x L x L = {heads} x {length} x {length}"
    wide = f"L x I = {length} x {inner}"
    return {
        "tokens": ("The text is split into tokens, and each token has an id.", f"L = {length}"),
        "embedding": ("A row of the embedding table for each token.", stream),
        "layers": (
            f"{config['num_hidden_layers']} layers in sequence. Each adds to the residual stream twice.",
            stream,
        ),
        "layers/norm 1": ("The residual stream, normalized, as input of attention.", stream),
        "layers/attention": (
            "What attention adds to the residual stream: each token attends to itself and to the tokens before it.",
            stream,
        ),
        "layers/attention/q, k, v": ("The queries, keys and values of each token.", both),
        "layers/attention/q, k norm": ("Queries and keys, normalized per head.", both),
        "layers/attention/RoPE": ("Queries and keys, rotated by their positions.", both),
        "layers/attention/GQA": (
            f"Attention runs in {heads} heads, and every {heads // pairs} query heads share a key-value head.",
            f"H x L x D = {heads} x {length} x {dims}",
        ),
        "layers/attention/GQA/scores": (
            "The dot product of each query (row) with each key (column), divided by the square root of D.",
            scores,
        ),
        "layers/attention/GQA/mask": ("The scores of later tokens (dots) are set to minus infinity.", scores),
        "layers/attention/GQA/softmax": ("The attention weights; each row sums to 1.", scores),
        "layers/attention/GQA/values": (
            "The sum of the values, each multiplied by its weight.",
            f"H x L x D = {heads} x {length} x {dims}",
        ),
        "layers/attention/output": ("The heads concatenated and projected back to E.", stream),
        "layers/norm 2": ("The residual stream after attention, normalized, as input of the MLP.", stream),
        "layers/MLP": ("What the MLP adds to the residual stream, for each token independently.", stream),
        "layers/MLP/gate, up": ("The up projection, and a gate for each of its elements.", wide),
        "layers/MLP/silu": ("silu of the gate, multiplied by the up projection.", wide),
        "layers/MLP/down": ("The product, projected back to E.", stream),
        "norm": ("The residual stream after the last layer, normalized.", stream),
        "logits": (
            "A score for every possible next token: the dot product of the vector with the token's row of the "
            "embedding table.",
            f"L x V = {length} x {vocabulary}",
        ),
        "sampler": (
            "The logits of the last token as probabilities, from which one token is sampled.",
            f"V = {vocabulary}",
        ),
        "text": ("The sampled token as text. All steps are then repeated with one more token.", "1"),
    }


def _weights() -> dict[str, int]:
    """Count the checkpoint's numbers in each box, over all layers. The logits use the embedding table."""
    boxes = {
        "embed_tokens": "embedding",
        "input_layernorm": "layers/norm 1",
        "post_attention_layernorm": "layers/norm 2",
        **{f"self_attn.{name}_proj": "layers/attention/q, k, v" for name in "qkv"},
        **{f"self_attn.{name}_norm": "layers/attention/q, k norm" for name in "qk"},
        "self_attn.o_proj": "layers/attention/output",
        **{f"mlp.{name}_proj": "layers/MLP/gate, up" for name in ("gate", "up")},
        "mlp.down_proj": "layers/MLP/down",
        "model.norm": "norm",
    }
    counts: dict[str, int] = {}
    for name, array in model().weights.items():
        box = next(box for part, box in boxes.items() if name.removesuffix(".weight").endswith(part))
        counts[box] = counts.get(box, 0) + array.size
    return counts


def _arrays() -> dict[str, tuple[Shown, ...]]:
    """Return the arrays of each box, stacked over the layers and, where there are heads, over the heads."""
    config, streams, every = model().config, streams_of(SENTENCE), heads_of(SENTENCE)
    eps, group = config["rms_norm_eps"], config["num_attention_heads"] // config["num_key_value_heads"]
    found: dict[str, list[Array64]] = {}

    def keep(name: str, value: Array64) -> None:
        found.setdefault(name, []).append(value)

    for layer, (x, heads) in enumerate(zip(streams, every, strict=False)):
        w = model().layer64(layer)
        read = rms_norm64(x, w["input_layernorm.weight"], eps)
        keep("read", read)
        for name in "qkv":
            split = linear64(read, w[f"self_attn.{name}_proj.weight"]).reshape(len(x), -1, config["head_dim"])
            split = np.repeat(split, 1 if name == "q" else group, axis=1)
            keep(name, np.swapaxes(split, 0, 1))
            if name != "v":
                keep(f"{name} normed", np.swapaxes(rms_norm64(split, w[f"self_attn.{name}_norm.weight"], eps), 0, 1))
        attended = heads.weights @ heads.value
        joined = np.swapaxes(attended, 0, 1).reshape(len(x), -1)
        added = linear64(joined, w["self_attn.o_proj.weight"])
        for name, value in zip(
            ("turned q", "turned k", "scores", "weights", "attended", "joined", "attention"),
            (heads.query, heads.key, heads.scores, heads.weights, attended, joined, added),
            strict=True,
        ):
            keep(name, value)
        second = rms_norm64(x + added, w["post_attention_layernorm.weight"], eps)
        projections = [w[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down")]
        gate, up = (linear64(second, projection) for projection in projections[:2])
        for name, value in zip(
            ("second", "gate", "up", "passed", "mlp", "after"),
            (second, gate, up, silu64(gate) * up, mlp64(second, *projections), streams[layer + 1]),
            strict=True,
        ):
            keep(name, value)

    def shown(title: str, role: str | None, name: str, causal: bool = False) -> Shown:
        return _first(title, role, np.array(found[name]), causal)

    normed = rms_norm64(streams[-1], model().weights64["model.norm.weight"], eps)
    return {
        "embedding": (_first("residual stream", "stream", streams[0]),),
        "layers": (shown("residual stream after the layer", "stream", "after"),),
        "layers/norm 1": (shown("normalized", None, "read"),),
        "layers/attention": (shown("what attention adds", "stream", "attention"),),
        "layers/attention/q, k, v": (
            shown("query", "query", "q"),
            shown("key", "key", "k"),
            shown("value", "value", "v"),
        ),
        "layers/attention/q, k norm": (shown("query", "query", "q normed"), shown("key", "key", "k normed")),
        "layers/attention/RoPE": (shown("query", "query", "turned q"), shown("key", "key", "turned k")),
        "layers/attention/GQA": (shown("output of the head", "value", "attended"),),
        "layers/attention/GQA/scores": (shown("scores", None, "scores"),),
        "layers/attention/GQA/mask": (shown("masked scores", None, "scores", causal=True),),
        "layers/attention/GQA/softmax": (shown("weights", "weights", "weights", causal=True),),
        "layers/attention/GQA/values": (
            shown("value", "value", "v"),
            shown("output of the head", "value", "attended"),
        ),
        "layers/attention/output": (
            shown("the heads, concatenated", "value", "joined"),
            shown("what attention adds", "stream", "attention"),
        ),
        "layers/norm 2": (shown("normalized", None, "second"),),
        "layers/MLP": (shown("what the MLP adds", "stream", "mlp"),),
        "layers/MLP/gate, up": (shown("gate", None, "gate"), shown("up", None, "up")),
        "layers/MLP/silu": (shown("gated values", None, "passed"),),
        "layers/MLP/down": (shown("what the MLP adds", "stream", "mlp"),),
        "norm": (_first("normalized", None, normed),),
    }


def _first(title: str, role: str | None, values: Array64, causal: bool = False) -> Shown:
    return Shown(title, role, values[..., :COLUMNS], values.shape[-1], causal)


def _logits() -> Array64:
    weights = model().weights64
    normed = rms_norm64(streams_of(SENTENCE)[-1], weights["model.norm.weight"], model().config["rms_norm_eps"])
    return linear64(normed, weights["model.embed_tokens.weight"])


def _words() -> dict[str, tuple[tuple[str, str, float], ...]]:
    """Return the rows of boxes that list tokens: the tokens and their ids, and the likeliest next tokens."""
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    logits = _logits()[-1]
    shares = softmax64(logits, -1)
    best = [int(token) for token in np.argsort(-logits, kind="stable")[:WORDS]]
    names = [visible(str(tokenizer.decode([token]))) for token in best]
    ids = tokens_of(SENTENCE)
    return {
        "tokens": tuple((visible(str(tokenizer.decode([token]))), str(token), 0.0) for token in ids),
        "logits": tuple(
            (name, number(z), round(z / logits[best[0]], 3)) for name, z in zip(names, logits[best], strict=True)
        ),
        "sampler": tuple((name, number(p, 3), round(p, 3)) for name, p in zip(names, shares[best], strict=True)),
        "text": ((f"{SENTENCE} ...", str(tokenizer.decode(best[:1])), 0.0),),
    }
