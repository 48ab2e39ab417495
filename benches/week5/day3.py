"""The loss of a small model that learns with AdamW, and with three common mistakes in its place."""

import dataclasses
import statistics
from collections.abc import Iterator

import mlx.core as mx
import numpy as np

from tiny_llm.config import ModelConfig
from tiny_llm.optimizers.adamw import AdamW, Params, State
from tiny_llm.optimizers.clipping import clip_by_global_norm
from tiny_llm.qwen3 import Qwen3Model
from tiny_llm_course.measuring.clock import Table
from tiny_llm_course.paths import ROOT

RATE, DECAY, MAX_NORM = 0.02, 0.1, 1.0
ROWS, LENGTH, SIZE = 8, 32, 32
SHOWN = 5  # steps whose mean loss is a row of the table

# What the book draws of the table.
CHART = ("lines", "loss", ("AdamW", "no bias correction", "decay in the gradient", "clipped one by one"))


@dataclasses.dataclass(frozen=True)
class Way:
    """An optimizer step, right or with a mistake."""

    decay: float = DECAY
    bias_correction: bool = True
    decay_in_the_gradient: bool = False
    one_by_one: bool = False

    def start(self, params: Params) -> tuple[AdamW, State]:
        """Return the optimizer and its first state; at a step of a million, no bias is left to correct."""
        optimizer = AdamW(RATE, weight_decay=0.0 if self.decay_in_the_gradient else self.decay)
        state = optimizer.init(params)
        return optimizer, state if self.bias_correction else state | {"step": mx.array(10**6, mx.int32)}

    def prepared(self, params: Params, grads: Params) -> Params:
        """Clip the gradients, all together or each on its own, and perhaps add the decay to them."""
        if self.one_by_one:
            grads = {name: clip_by_global_norm({name: grad}, MAX_NORM)[0][name] for name, grad in grads.items()}
        else:
            grads, _ = clip_by_global_norm(grads, MAX_NORM)
        if self.decay_in_the_gradient:
            grads = {n: grad + self.decay * params[n] if grad.ndim > 1 else grad for n, grad in grads.items()}
        return grads


WAYS = {
    "AdamW": Way(),
    "no bias correction": Way(bias_correction=False),
    "decay in the gradient": Way(decay_in_the_gradient=True),
    "clipped one by one": Way(one_by_one=True),
}


def measure(quick: bool = False) -> Table:
    """Train the same model on the same bytes of the held-out stories, once for each way."""
    marks = [1, 3] if quick else [1, 2, 5, 10, 20, 40, 60]
    losses = {name: _train(way, marks[-1]) for name, way in WAYS.items()}
    rows = tuple(
        (mark, *(statistics.mean(found[max(0, mark - SHOWN) : mark]) for found in losses.values())) for mark in marks
    )
    last = dict(zip(losses, rows[-1][1:], strict=True))
    return Table(
        ("step", *losses),
        rows,
        f"After {marks[-1]} steps the loss is {last['AdamW']:.2f} with AdamW; with a mistake it is "
        + ", ".join(f"{loss:.2f} ({name})" for name, loss in last.items() if name != "AdamW")
        + ". None of the mistakes stops the model from learning.",
    )


def _train(way: Way, steps: int) -> list[float]:
    """Return the loss of each step."""
    config, params = _model()

    def loss(params: Params, tokens: mx.array) -> mx.array:
        logits, targets = Qwen3Model(config, params)(tokens[:, :-1]), tokens[:, 1:]
        chosen = mx.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return mx.mean(mx.logsumexp(logits, axis=-1) - chosen)

    value_and_grad = mx.value_and_grad(loss)
    optimizer, state = way.start(params)
    found = []
    for tokens in _batches(steps):
        value, grads = value_and_grad(params, tokens)
        params, state = optimizer.update(params, way.prepared(params, grads), state)
        mx.eval(params, state)
        found.append(float(value.item()))  # type: ignore[arg-type]
    return found


def _batches(steps: int) -> Iterator[mx.array]:
    """Yield rows of bytes from the stories that ship with the course, which serve as tokens."""
    data = np.frombuffer((ROOT / "models" / "held-out-stories.txt").read_bytes(), np.uint8).astype(np.int32)
    generator = np.random.default_rng(0)
    for _ in range(steps):
        starts = generator.integers(0, len(data) - LENGTH, ROWS)
        yield mx.array(np.stack([data[start : start + LENGTH + 1] for start in starts]))


def _model() -> tuple[ModelConfig, Params]:
    """Return a model of one layer, with random matrices and norms of one."""
    config = ModelConfig("qwen3", SIZE, 1, 2 * SIZE, 2, 1, SIZE // 2, 256, 1e-6, 10000.0, LENGTH, True)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (256, SIZE), "model.norm.weight": (SIZE,)}
    own: dict[str, tuple[int, ...]] = {
        "input_layernorm": (SIZE,),
        "self_attn.q_proj": (SIZE, SIZE),
        "self_attn.k_proj": (SIZE // 2, SIZE),
        "self_attn.v_proj": (SIZE // 2, SIZE),
        "self_attn.o_proj": (SIZE, SIZE),
        "self_attn.q_norm": (SIZE // 2,),
        "self_attn.k_norm": (SIZE // 2,),
        "post_attention_layernorm": (SIZE,),
        "mlp.gate_proj": (2 * SIZE, SIZE),
        "mlp.up_proj": (2 * SIZE, SIZE),
        "mlp.down_proj": (SIZE, 2 * SIZE),
    }
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in own.items()}
    return config, {
        name: mx.ones(shape) if len(shape) == 1 else 0.02 * mx.random.normal(shape, key=mx.random.key(i))
        for i, (name, shape) in enumerate(shapes.items())
    }
