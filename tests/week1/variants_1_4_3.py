"""Reference variants of task 1.4.3, SwiGLU."""

import mlx.core as mx
from tiny_llm_solution.basics import linear, silu
from tiny_llm_solution.qwen3 import Qwen3MLP

from tiny_llm_course.testkit.inputs import drawn, normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.4.3")


def run_mlp(program, seed, dtype=mx.float32, hidden=5, width=7):
    x, *weights = drawn(seed, (2, 3, hidden), (width, hidden), (width, hidden), (hidden, width), dtype=dtype)
    return program(hidden, width, *weights)(x)


known.probe_table(
    plain=lambda program: run_mlp(program, 31),
    square=lambda program: run_mlp(program, 32, hidden=4, width=4),
)
known.probe_table(mx.float16, half=lambda program: run_mlp(program, 33, mx.float16))


@known.sized("96 tokens, E 256, I 576, float32")
def sized(program):
    draw = normals(1)
    x, w_down = draw(96, 256), draw(256, 576, spread=0.04)
    mlp = program(256, 576, *(draw(576, 256, spread=0.06) for _ in range(2)), w_down)
    return lambda: mlp(x)


known.change(
    "gate-and-up-swapped",
    ("= w_gate, w_up, w_down", "= w_up, w_gate, w_down"),
    fact="w_gate and w_up are swapped: silu is applied to the output of w_up",
    question="Which of the two projections goes through silu?",
)
known.change(
    "no-silu",
    ("silu(linear(x, self.w_gate))", "linear(x, self.w_gate)"),
    fact="the two projections are multiplied without silu",
    question="Can a gate close if its output may be negative?",
)
known.change(
    "silu-of-the-product",
    ("silu(linear(x, self.w_gate)) * linear(x, self.w_up)", "silu(linear(x, self.w_gate) * linear(x, self.w_up))"),
    fact="silu is applied to the product of the two projections",
    question="If up is doubled and gate stays, how should the product change?",
)
known.change(
    "silu-of-both",
    ("linear(x, self.w_up)", "silu(linear(x, self.w_up))"),
    fact="silu is applied to both projections",
    question="If w_up is multiplied by -1, what should happen to the result?",
)
known.change(
    "sigmoid-gate",
    ("silu(linear", "mx.sigmoid(linear"),
    fact="the gate is sigmoid instead of silu",
    question="How much should pass where the gate projection is 10: up itself, or ten times up?",
)
known.change(
    "relu-gate",
    ("silu(linear(x, self.w_gate))", "mx.maximum(linear(x, self.w_gate), 0)"),
    fact="the gate is ReLU instead of silu",
    question="What passes where the gate projection is -1?",
)
known.change(
    "gelu-gate",
    ("return linear(silu(", "from mlx.nn import gelu_approx\nreturn linear(gelu_approx("),
    fact="the gate is GELU instead of silu",
    question="Which function does the Swi in SwiGLU stand for?",
)
known.change(
    "sum-in-place-of-product",
    ("* linear(x, self.w_up)", "+ linear(x, self.w_up)"),
    fact="the gate and the up projection are added",
    question="What should the result be where the gate is 0?",
)
known.change(
    "no-up",
    (" * linear(x, self.w_up)", ""),
    fact="w_up is not used",
    question="Three weights are given. Which of them does x never reach?",
)
known.change(
    "no-gate",
    ("silu(linear(x, self.w_gate)) * linear(x, self.w_up)", "silu(linear(x, self.w_up))"),
    fact="w_gate is not used: silu is applied to the up projection, and the result goes to w_down",
    question="Three weights are given. Which of them does x never reach?",
)
for used, unused in (("w_gate", "w_up"), ("w_up", "w_gate")):
    known.change(
        f"{used}-twice",
        (f"linear(x, self.{unused})", f"linear(x, self.{used})"),
        fact=f"both projections use {used}",
        question="Three weights are given. Which of them does x never reach?",
    )
known.change(
    "no-down",
    ("linear(silu", "(silu"),
    (", self.w_down)", ")"),
    fact="the gated activations are returned without the projection w_down",
    question="How many features should a token have in the result?",
)
known.change(
    "residual",
    ("return linear(silu", "return x + linear(silu"),
    fact="x is added to the result",
    question="Is there a sum in the formula? Which part of the model adds the residual?",
)
known.change(
    "float32-result",
    ("self.w_down)", "self.w_down.astype(mx.float32))"),
    fact="the result is float32 although x is not",
    question="Where does a float32 array enter your float16 computation?",
)
known.change(
    "w_down-transposed",
    ("self.w_down)", "self.w_down.T)"),
    fact="w_down is transposed before linear, which transposes it again",
    question="w_down is E x I. Which layout does linear expect?",
)
known.change(
    "w_gate-and-w_up-transposed",
    ("linear(x, self.w_gate)", "linear(x, self.w_gate.T)"),
    ("linear(x, self.w_up)", "linear(x, self.w_up.T)"),
    fact="w_gate and w_up are transposed before linear, which transposes them again",
    question="w_gate is I x E. Which layout does linear expect?",
)
known.change(
    "silu-at-the-end",
    ("silu(linear(x, self.w_gate))", "linear(x, self.w_gate)"),
    (", self.w_down)", ", silu(self.w_down))"),
    fact="silu is applied to the weight w_down",
    question="silu is applied to one of the projections of x. Which one?",
)
known.together("gate-and-up-swapped", "no-up", makes="no-gate")
known.together("gate-and-up-swapped", "no-gate", makes="no-up")
known.together("no-silu", "silu-of-both", makes="gate-and-up-swapped")


@known.accepted("one-matrix-for-gate-and-up")
class OneMatrixForGateAndUp(Qwen3MLP):
    def __call__(self, x):
        gate, up = mx.split(linear(x, mx.concatenate([self.w_gate, self.w_up])), 2, axis=-1)
        return linear(up * gate * mx.sigmoid(gate), self.w_down)


@known.accepted("einsum")
class EinsumMLP:
    def __init__(self, dim, hidden_dim, w_gate, w_up, w_down):
        shapes = {"w_gate": (hidden_dim, dim), "w_up": (hidden_dim, dim), "w_down": (dim, hidden_dim)}
        for (name, wanted), w in zip(shapes.items(), (w_gate, w_up, w_down), strict=True):
            if w.shape != wanted:
                raise ValueError(f"{name}: {w.shape} and not {wanted}")
        self.gate, self.up, self.down = w_gate, w_up, w_down

    def __call__(self, x):
        gate, up = (mx.einsum("...e,ie->...i", x, w) for w in (self.gate, self.up))
        return mx.einsum("...i,ei->...e", silu(gate) * up, self.down)
