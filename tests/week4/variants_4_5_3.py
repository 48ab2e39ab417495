"""Known programs of task 4.5.3, the sparse block."""

import mlx.core as mx
from tests.week4.routing import table_of
from tiny_llm_solution.experts.moe import SparseMoE
from tiny_llm_solution.experts.router import route

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.5.3")


def inputs(seed, dtype=mx.float32, leading=(2, 3), size=5, width=4, experts=6):
    draw = normals(seed, dtype)
    up, down = (experts, width, size), (experts, size, width)
    return draw(*leading, size), draw(experts, size), draw(*up), draw(*up), draw(*down)


def run(program, inputs, *settings):
    x, *weights = inputs
    return program(*weights, *settings)(x)


known.probe_table(
    normalized=lambda program: run(program, inputs(1), 3, True),
    as_they_are=lambda program: run(program, inputs(2), 3, False),
    one_token=lambda program: run(program, inputs(3, leading=(1,)), 2, True),
    one_expert_each=lambda program: (run(program, inputs(4), 1, True), run(program, inputs(4), 1, False)),
)


@known.probe()
def moe_idle_is_nan(program):
    """All tokens go to experts 0 and 1; the weights of others are NaN."""
    x, gate, *weights = inputs(5)
    gate = mx.abs(gate) * mx.where(mx.arange(6) < 2, 1.0, -1.0)[:, None]
    weights = [mx.where(mx.arange(6)[:, None, None] < 2, w, mx.nan) for w in weights]
    return run(program, (mx.abs(x), gate, *weights), 2, True)


@known.probe(mx.float16)
def moe_half(program):
    x, *weights = inputs(6, mx.float16)
    return program(*(0.5 * w for w in weights), 2, True)(x)


@known.sized("1,024 tokens, E 128, 2 of 8 experts of width 64, float32")
def sized(program):
    x, *weights = inputs(1, leading=(1, 1024), size=128, width=64, experts=8)
    block = program(*(w * 0.1 for w in weights), 2, True)
    return lambda: block(x)


WEIGHED = "outputs * weights[..., None]"
GATED = "silu(groups.linear(rows, self.w_gate)) * groups.linear(rows, self.w_up)"
DOWN = "groups.linear(inner, self.w_down)"
known.change(
    "weights-left-out",
    (WEIGHED, "outputs"),
    fact="the expert outputs are summed without their weights",
    question="One expert has the weight 0.9, another 0.1. Should both count equally?",
)
known.change(
    "averaged",
    ("mx.sum(outputs", "mx.mean(outputs"),
    fact="the weighted outputs are averaged, that is, divided by k once more",
    question="The weights sum to one. What is left to divide by?",
)
known.change(
    "weights-before-the-experts",
    ("rows = groups.gather(x)", "rows = groups.gather(x) * weights.flatten()[groups.order][:, None]"),
    (WEIGHED, "outputs"),
    fact="the tokens are multiplied by the weights before the experts instead of after",
    question="An expert gets twice a token. Does it return twice as much?",
)
known.change(
    "weights-of-other-rows",
    (DOWN, f"{DOWN} * weights.flatten()[:, None]"),
    (WEIGHED, "outputs"),
    fact="weights in token order are multiplied by rows that are sorted by expert",
    question="Which token is the first of the sorted rows? Whose is the first weight?",
)
known.change(
    "silu-of-the-other",
    (GATED, "groups.linear(rows, self.w_gate) * silu(groups.linear(rows, self.w_up))"),
    fact="SiLU is applied to w_up's output instead of w_gate's",
    question="Which of the two is the gate?",
)
known.change(
    "no-silu",
    (GATED, "groups.linear(rows, self.w_gate) * groups.linear(rows, self.w_up)"),
    fact="the experts' SiLU is missing",
    question="What makes an expert more than a product of two matrices?",
)
known.change(
    "always-normalized",
    ("self.top_k, self.normalize)", "self.top_k, True)"),
    fact="a token's weights always sum to one, whatever `normalize` is",
    question="Where does the block use `normalize`?",
)
known.change(
    "never-normalized",
    ("self.top_k, self.normalize)", "self.top_k, False)"),
    fact="`normalize` is ignored, and a token's weights are never normalized",
    question="Where does the block use `normalize`?",
)
known.change(
    "likeliest-expert-alone",
    ("self.top_k, self.normalize)", "1, self.normalize)"),
    fact="each token goes only to its likeliest expert",
    question="To how many experts does a token go when top_k is 3?",
)
known.change(
    "one-choice-for-a-row",
    ("route(x, ", "route(mx.broadcast_to(mx.mean(x, axis=-2, keepdims=True), x.shape), "),
    fact="all tokens of a sequence go to the same experts, those of their mean",
    question="What does the router see when it chooses for token 3?",
)
known.change(
    "stream-added",
    ("return mx.sum(", "return x + mx.sum("),
    fact="x is added to the experts' output",
    question="What adds the residual stream: the MLP, or the layer around it?",
)
known.change(
    "three-axes-only",
    ("indices, weights = route(", "rows, length, size = x.shape\nindices, weights = route("),
    fact="x must have exactly three axes",
    question="Which shapes may x have, if N.. stands for any number of axes?",
)
known.change(
    "float32-result",
    (WEIGHED, f"({WEIGHED}).astype(mx.float32)"),
    fact="the result is float32 although x and the weights are not",
    question="What should be the dtype of the result for float16?",
)
known.change(
    "silu-of-the-product",
    (
        "silu(groups.linear(rows, self.w_gate)) * groups.linear(rows, self.w_up)",
        "silu(groups.linear(rows, self.w_gate) * groups.linear(rows, self.w_up))",
    ),
    fact="SiLU is applied to the product of w_gate's and w_up's outputs",
    question="Which of the two outputs goes through SiLU, and is that before or after they are multiplied?",
)


@known.wrong(
    "every-expert-computes",
    fact="every token goes through every expert, and most outputs are multiplied by zero",
    question="How many experts does a token need? What is 0 times NaN?",
)
class Dense(SparseMoE):
    def __call__(self, x):
        table = table_of(*route(x, self.gate, self.top_k, self.normalize), len(self.gate))
        total = mx.zeros_like(x)
        for e in range(len(self.gate)):
            gated = x @ self.w_gate[e].T
            inner = gated * mx.sigmoid(gated) * (x @ self.w_up[e].T)
            total = total + table[..., e : e + 1] * (inner @ self.w_down[e].T)
        return total


@known.accepted("by MLX's gather_mm")
class Gathered(SparseMoE):
    def __call__(self, x):
        indices, weights = route(x, self.gate, self.top_k, self.normalize)

        def product(y, w):
            product = mx.gather_mm(y.astype(mx.float32), w.swapaxes(-1, -2).astype(mx.float32), rhs_indices=indices)
            return product.astype(x.dtype)  # on a CPU, MLX has it for float32 alone

        y = x[..., None, None, :]
        gated = product(y, self.w_gate)
        outputs = product(gated * mx.sigmoid(gated) * product(y, self.w_up), self.w_down).squeeze(-2)
        return (weights[..., None, :] @ outputs).squeeze(-2)


@known.accepted("expert by expert, added at their tokens")
class AddedAtTokens(SparseMoE):
    def __call__(self, x):
        indices, weights = route(x, self.gate, self.top_k, self.normalize)
        tokens, total = x.reshape(-1, x.shape[-1]), mx.zeros((x.size // x.shape[-1], x.shape[-1]), x.dtype)
        flat, each = indices.flatten().tolist(), weights.flatten()
        for e in range(len(self.gate)):
            if mine := [p for p, expert in enumerate(flat) if expert == e]:
                rows, k = mx.array(mine), indices.shape[-1]
                y = tokens[rows // k]
                gated = y @ self.w_gate[e].T
                y = (gated * mx.sigmoid(gated) * (y @ self.w_up[e].T)) @ self.w_down[e].T
                total = total.at[rows // k].add(y * each[rows][:, None])
        return total.reshape(x.shape)
