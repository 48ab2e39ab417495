"""What the book's widgets are given and what stands in their place without JavaScript, made from the course's code.

Each is a part of its day: a custom element of `book/widgets/`, its data as JSON, and a table for print.
"""

import json
import re
import tomllib
from typing import Any

import numpy as np
from book.generate.week1 import heads
from tests.week1.formulas import rms_norm64, rope64, silu64, softmax64

from tiny_llm_course.course.registry import Course
from tiny_llm_course.dev.book.html import element, number, table, visible
from tiny_llm_course.dev.book.parts import Parts, present
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.rounding import Array64

TOKENS = tuple(heads.SENTENCE.split())
# Day 3's models: layers, query heads, key-value heads, D, and a power of two of tokens that they take.
MODELS = {"Qwen3-0.6B": (28, 16, 8, 128, 32768), "Qwen3-4B": (36, 32, 8, 128, 32768)}
# Day 2's query, which is its key as well: two pairs.
PAIRS, BASE, POSITIONS = [[1, 0], [1, 0]], 100, 16
# Day 4's vectors, gates and what stands behind the gates, as its sessions have them.
VECTORS: list[list[float]] = [
    [1, -1, 1, 1],
    [2, -4, 4, 8],
    [0.02, -0.04, 0.04, 0.08],
    [200, -400, 400, 800],
    [3, 1, -3, -9],
]
GATES: list[float] = [4, -4, 0, 1, -9]
UPS: list[float] = [0.5, 2, 3, -1, 5]
EPS = 1e-5
# Day 7's prompt, how many of its continuations have a bar, and how far a logit may be off on another machine.
PROMPT, SHOWN, CLOSE = "That is a blue", 12, 0.01


def generated_parts(course: Course) -> Parts:
    """The text of every widget."""
    return {
        ("1.1", "attention-stepper"): attention_stepper(),
        ("1.2", "rope-rotation"): rope_rotation(),
        ("1.3", "gqa-sharing"): gqa_sharing(),
        ("1.4", "norm-gate"): norm_gate(),
        ("1.7", "sampling-sliders"): sampling_sliders(),
    }


def attention_stepper() -> str:
    """Row `dog`, step by step: the head of `heads.example`."""
    if not heads.is_here():
        return present("1.1", "attention-stepper")
    found, row = heads.example(), TOKENS.index("dog")
    steps = {"scores": found.products, "scaled by 1 / √64": found.scores, "softmax": found.weights}
    rows = [[name, *map(number, step[row])] for name, step in steps.items()]
    caption = "Attention of the query “dog”, step by step. The mask forbids it nothing: no token comes later."
    data = {"tokens": TOKENS, **{name: getattr(found, name).tolist() for name in ("query", "key", "value", "products")}}
    return element("attention-stepper", data, table(caption, ["step", *TOKENS], rows))


def rope_rotation() -> str:
    """Two ways to stand one step apart, and two to stand three."""
    vector = np.array(PAIRS, dtype=np.float64).reshape(1, 1, 1, 4)

    def turned(position: int) -> Array64:
        return rope64(vector, [range(position, position + 1)], BASE, traditional=True).flatten()

    rows = []
    for query, key in [(1, 0), (4, 3), (15, 14), (3, 0), (15, 12)]:
        q, k = turned(query), turned(key)
        both = [", ".join(map(number, x)) for x in (q, k)]
        rows.append([f"{query} and {key}", str(query - key), *both, number(float(q @ k), 4)])
    data = {"tokens": TOKENS, "base": BASE, "positions": POSITIONS, "query": PAIRS, "key": PAIRS}
    head = ["positions", "distance", "query", "key", "score"]
    return element("rope-rotation", data, table("The score depends on the distance alone.", head, rows))


def gqa_sharing() -> str:
    """What the cache of each model takes, with other numbers of key-value heads than it has too."""
    recipe = tomllib.loads((EMBEDDED_MODEL / "recipe.toml").read_text(encoding="utf-8"))["model"]
    names = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings")
    models = {EMBEDDED_MODEL.name: tuple(recipe[name] for name in names), **MODELS}
    rows, data = [], []
    for name, (layers, queries, own, dims, context) in models.items():
        for kv_heads in (queries, own, 1):
            count = 2 * layers * kv_heads * dims * 2
            rows.append([name, str(queries), str(kv_heads), f"{count:,}", f"{count * 2048 / 2**20:g} MiB"])
        data.append(
            {"name": name, "layers": layers, "heads": queries, "kv_heads": own, "head_dim": dims, "context": context}
        )
    caption = "Bytes of the keys and values that are kept, in two-byte numbers"
    head = ["model", "query heads", "key-value heads", "a token", "2048 tokens"]
    return element("gqa-sharing", {"bytes": 2, "models": data}, table(caption, head, rows))


def norm_gate() -> str:
    """Each token's vector before and after the norm, and what its gate lets through."""
    rows = []
    for token, vector, gate, up in zip(TOKENS, VECTORS, GATES, UPS, strict=True):
        normed = rms_norm64(np.array(vector), np.ones(4), EPS)
        opened = float(silu64(np.array(gate)))
        texts = [", ".join(f"{x:g}" for x in vector), ", ".join(number(x, 4) for x in normed)]
        rows.append([token, *texts, f"{gate:g}", number(opened, 3), number(opened * up, 3)])
    data = {"tokens": TOKENS, "vectors": VECTORS, "gates": GATES, "ups": UPS, "eps": EPS}
    head = ["token", "x", "norm(x)", "gate", "silu(gate)", "silu(gate) · up"]
    return element(
        "norm-gate", data, table("What the norm makes of a vector, and what a gate lets through", head, rows)
    )


def sampling_sliders() -> str:
    """The likeliest tokens as they are, and as each filter leaves them."""
    load_solution()
    import mlx.core as mx
    from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p

    data = next_token_logits()
    logits = mx.array([data["logits"]])
    columns = {
        "as it is": logits,
        "temperature 0.5": logits / 0.5,
        "top-k 5": keep_top_k(logits, 5),
        "top-p 0.5": keep_top_p(logits, 0.5),
        "min-p 0.5": keep_min_p(logits, 0.5),
    }
    shares = [softmax64(np.array(column[0], dtype=np.float64), -1) for column in columns.values()]
    rows = [
        [token, number(data["logits"][i]), *(number(share[i], 3) for share in shares)]
        for i, token in enumerate(data["tokens"][:SHOWN])
    ]
    rows.append([f"{logits.size - SHOWN} others", "", *(number(share[SHOWN:].sum(), 3) for share in shares)])
    caption = f"The likeliest tokens after “{PROMPT}”, by the model that comes with the course"
    return element("sampling-sliders", data, table(caption, ["token", "logit", *columns], rows))


def next_token_logits() -> dict[str, Any]:
    """All logits after the prompt, from the largest down, and the texts of these tokens; a space is shown as ␣.

    Machines differ in the last digits, so the logits in the book stay as long as they are close. They stay too where
    the model is not there to be asked.
    """
    script = re.search(r"<script[^>]*>(.*)</script>", present("1.7", "sampling-sliders"))
    old: dict[str, Any] = json.loads(script[1]) if script else {}
    if old and not (EMBEDDED_MODEL / "model.safetensors").exists():
        return old
    import mlx.core as mx

    from tiny_llm_course.engine.engine import load_engine

    engine = load_engine(None, solution=True, dtype="float32", stage="kv-cache")
    logits = np.array(engine.model(mx.array([engine.encode(PROMPT)]))[0, -1].astype(mx.float32), dtype=np.float64)
    order = np.argsort(-logits, kind="stable")
    found = logits[order]
    if (
        (old.get("prompt"), old.get("shown")) == (PROMPT, SHOWN)
        and len(old["logits"]) == len(found)
        and np.allclose(old["logits"], found, 0, CLOSE)
    ):
        return old
    texts = [visible(engine.tokenizer.decode([int(token)])) for token in order]
    return {"prompt": PROMPT, "shown": SHOWN, "tokens": texts, "logits": [round(float(logit), 3) for logit in found]}
