"""Day 3's figures and widget: gradients of the course's model, the schedule, and AdamW in a ravine."""

import functools
from typing import Any

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCES, model, tokens_of

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, lines, matrix
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.rounding import to_float64

SENTENCE = SENTENCES[2]
MATRICES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj"}
MATRICES |= {"gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
# The widget's ravine: the loss is half the sum of curvature times square.
START, CURVATURE, STEPS = (-4.0, 1.5), (1.0, 20.0), 60
CHOICES: dict[str, list[float]] = {
    "rate": [0.01, 0.03, 0.05, 0.09, 0.11, 0.3, 1.0],
    "beta1": [0.0, 0.5, 0.9, 0.99],
    "beta2": [0.0, 0.9, 0.99, 0.999],
    "decay": [0.0, 0.1, 0.5, 2.0],
    "scale": [0.01, 1.0, 100.0],
}
CHOSEN = {"rate": 3, "beta1": 2, "beta2": 2, "decay": 0, "scale": 1}


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"gradients": gradients(), "schedule": schedule(), "adamw-ravine": ravine()}


class Backward:
    """The gradients of one sentence's loss in the course's model, by the solution's VJPs."""

    def __init__(self, sentence: str) -> None:
        from tiny_llm_solution.backward.block import block_vjp
        from tiny_llm_solution.backward.layers import embedding_vjp, linear_vjp, rms_norm_vjp
        from tiny_llm_solution.config import ModelConfig
        from tiny_llm_solution.layer_norm import RMSNorm
        from tiny_llm_solution.qwen3 import Qwen3TransformerBlock

        weights = {name: w.astype(mx.float32) for name, w in model().weights.items()}
        config = ModelConfig.from_dict(model().config)
        ids, layers = tokens_of(sentence), range(config.num_hidden_layers)
        table, norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        inputs, targets = mx.array(ids[:-1]), mx.array(ids[1:])
        parts = [
            {name.removeprefix(f"model.layers.{i}."): w for name, w in weights.items() if f"layers.{i}." in name}
            for i in layers
        ]
        streams = [table[inputs][None]]
        for own in parts:
            streams.append(Qwen3TransformerBlock(config, own)(streams[-1], "causal"))
        read = RMSNorm(config.hidden_size, norm, config.rms_norm_eps)(streams[-1])
        logits = read @ table.T
        chosen = mx.arange(config.vocab_size) == targets[:, None]
        self.loss = float(mx.mean(mx.logsumexp(logits[0], axis=-1) - mx.sum(mx.where(chosen, logits[0], 0), axis=-1)))
        dlogits = (mx.softmax(logits, axis=-1) - chosen) / targets.size
        dread, as_head = linear_vjp(read, table, dlogits)
        dx, _ = rms_norm_vjp(streams[-1], norm, config.rms_norm_eps, dread)
        self.streams, self.layers = [dx], []
        for i in reversed(layers):
            dx, found = block_vjp(config, parts[i], streams[i], dx)
            self.streams.append(dx)
            self.layers.append(found)
        self.table = as_head + embedding_vjp(inputs, dx[0], config.vocab_size)
        self.layers.reverse()
        self.streams.reverse()


def norm_of(x: mx.array) -> float:
    """Return the root of the sum of squares."""
    return float(np.sqrt(np.sum(to_float64(x) ** 2)))


@functools.cache
def backward() -> Backward:
    """Return the gradients for the chapter's sentence."""
    return Backward(SENTENCE)


def gradients() -> str:
    """Draw the norm of each matrix's gradient, layer by layer, in the order of the backward pass."""
    found = backward()
    count = len(found.layers)
    rows = [[norm_of(layer[f"{name}.weight"]) for name in MATRICES.values()] for layer in reversed(found.layers)]
    values = np.array(rows)
    canvas = Canvas()
    names = [f"layer {i}" for i in reversed(range(count))]
    matrix(canvas, values, names, list(MATRICES), "weights")
    streams = [norm_of(stream) for stream in found.streams]
    told = ", ".join(number(x) for x in reversed(streams))
    about = f"A table of {count} layers and {len(MATRICES)} matrices. " + "; ".join(
        f"{name}: {', '.join(number(x) for x in row)}" for name, row in zip(names, rows, strict=True)
    )
    caption = (
        f"The gradients of the course's model for its loss on <i>{SENTENCE}</i> ({number(found.loss)} nats per token), "
        "computed by this day's code. Each square shows the norm of the gradient of one matrix. The backward pass goes "
        f"from top to bottom. The gradient of the residual stream enters layer {count - 1} and leaves layer 0 toward "
        f"the embedding. From entry to exit, its norms are {told}."
    )
    return canvas.figure("gradients-5-3", "Gradients of all matrices of a model", f"{about}.", caption)


def schedule() -> str:
    """Draw the chapter's schedule, beside one without a floor."""
    from tiny_llm_solution.optimizers.schedule import warmup_cosine

    marked = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]
    kept = {f"floor {floor:g}": [warmup_cosine(step, 1.0, 10, 110, floor) for step in marked] for floor in (0.1, 0.0)}

    def draw(canvas: Canvas) -> None:
        lines(canvas, marked, kept, ("step", "learning rate"), lambda x: f"{x:g}", logarithmic=False, height=130)

    told = "; ".join(f"{name}: {', '.join(number(x) for x in row)}" for name, row in kept.items())
    caption = "Ten warm-up steps to a peak of 1, then a hundred steps of cosine decay to a floor of 0.1 or 0."
    about = f"Learning rates at the steps {', '.join(map(str, marked))}. {told}."
    return at_both_widths(draw).figure("schedule-5-3", "A learning-rate schedule", about, caption)


def settings_of(view: dict[str, int]) -> dict[str, float]:
    """Return the numbers of a choice in the widget."""
    return {name: CHOICES[name][i] for name, i in view.items()}


def path_of(view: dict[str, int], steps: int = STEPS) -> list[tuple[float, float]]:
    """Return where the solution's AdamW is after each step, from the start on."""
    from tiny_llm_solution.optimizers.adamw import AdamW

    own = settings_of(view)
    optimizer = AdamW(own["rate"], (own["beta1"], own["beta2"]), 1e-8, own["decay"], no_decay=lambda *_: False)
    params = {"p": mx.array(START)}
    state, path = optimizer.init(params), [START]
    for _ in range(steps):
        grads = {"p": own["scale"] * mx.array(CURVATURE) * params["p"]}
        params, state = optimizer.update(params, grads, state)
        x, y = params["p"].tolist()
        path.append((x, y))
    return path


def descent_of(view: dict[str, int], steps: int = STEPS) -> list[tuple[float, float]]:
    """Return where gradient descent with the same rate and decay is after each step."""
    own, place = settings_of(view), np.array(START)
    path: list[tuple[float, float]] = [START]
    for _ in range(steps):
        place = place - own["rate"] * (own["scale"] * np.array(CURVATURE) * place + own["decay"] * place)
        path.append((float(place[0]), float(place[1])))
    return path


def loss_at(place: tuple[float, float], scale: float = 1.0) -> float:
    """Return the ravine's height."""
    return scale * sum(c * x * x for c, x in zip(CURVATURE, place, strict=True)) / 2


def ravine() -> str:
    """Return the widget, and a table of both paths."""
    adam, descent = path_of(CHOSEN), descent_of(CHOSEN)

    def place(at: tuple[float, float]) -> str:
        return f"({number(at[0])}, {number(at[1])})"

    rows = [
        [str(t), place(adam[t]), number(loss_at(adam[t]), 3), place(descent[t]), number(loss_at(descent[t]), 3)]
        for t in (0, 1, 2, 5, 10, 20, 40, STEPS)
    ]
    head = ["step", "AdamW", "loss with AdamW", "gradient descent", "loss with gradient descent"]
    data: dict[str, Any] = {
        "start": START,
        "curvature": CURVATURE,
        "steps": STEPS,
        "choices": CHOICES,
        "chosen": CHOSEN,
    }
    own = settings_of(CHOSEN)
    caption = f"Paths in a ravine: learning rate {own['rate']}, betas {own['beta1']} and {own['beta2']}, "
    caption += f"weight decay {own['decay']}"
    return element("adamw-ravine", data, table(caption, head, rows))
