"""How an answer comes about: what the embedded model would say if each of its layers were the last.

A table of day 5. It is computed in float64, so that it is the same on every machine.
"""

import numpy as np
from book.generate.week1.widgets import TOKENS
from tests.week1.formulas import linear64, rms_norm64
from tests.week1.reference_model import block64, embedded_model

from tiny_llm_course.course.registry import Course
from tiny_llm_course.dev.book.html import number, table
from tiny_llm_course.dev.book.parts import Parts, present
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.rounding import to_float64

SENTENCE = " ".join(TOKENS)


def generated_parts(course: Course) -> Parts:
    """The table, a part of day 5."""
    return {("1.5", "depth"): depth_table()}


def depth_table() -> str:
    """The likeliest next token at each depth and position of the sentence; without the model, the old table."""
    old = present("1.5", "depth")
    if old and not (EMBEDDED_MODEL / "model.safetensors").exists():
        return old
    load_solution()
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer, model = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json"), embedded_model()
    embedding, norm = (to_float64(model.weights[f"model.{name}.weight"]) for name in ("embed_tokens", "norm"))
    stream = embedding[tokenizer.encode(SENTENCE)][None]
    rows = []
    for layer in range(model.config["num_hidden_layers"] + 1):
        if layer:
            stream = block64(stream, model, "causal", layer - 1)
        logits = linear64(rms_norm64(stream, norm, model.config["rms_norm_eps"]), embedding)[0]
        said = [tokenizer.decode([int(token)]).strip() for token in logits.argmax(axis=-1)]
        size = number(np.sqrt(np.mean(stream * stream)), 1)
        rows.append([f"layer {layer}" if layer else "embedding", *said, size])
    return table("What the model would say next", ["after", *TOKENS, "RMS"], rows) + "\n"
