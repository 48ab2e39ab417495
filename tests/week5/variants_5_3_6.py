"""Known programs of task 5.3.6, AdamW."""

import mlx.core as mx
from tiny_llm_solution.optimizers.adamw import AdamW

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.6")


def run(program, seed, steps, dtype=mx.float32, rate=0.1, size=1.0, **settings):
    """Train a matrix and a vector for some steps; return both, and the state's numbers."""
    draw = normals(seed, dtype)
    params = {"w": draw(2, 3), "b": draw(4)}
    optimizer = program(rate, **settings)
    state = optimizer.init(params)
    for _ in range(steps):
        params, state = optimizer.update(params, {"w": size * draw(2, 3), "b": size * draw(4)}, state)
    return params["w"], params["b"], *(state[f"{x}.{name}"] for x in "mv" for name in "wb"), state["step"]


def never(name, param):
    return False


known.probe_table(
    one_step=lambda program: run(program, 1, 1),
    five_steps=lambda program: run(program, 2, 5, betas=(0.8, 0.95)),
    no_decay=lambda program: run(program, 3, 3, weight_decay=0.0),
    strong_decay=lambda program: run(program, 4, 3, weight_decay=2.0),
    all_decay=lambda program: run(program, 5, 3, weight_decay=2.0, no_decay=never),
    large_eps=lambda program: run(program, 6, 3, eps=0.5),
    large_gradients=lambda program: run(program, 7, 2, size=100.0),
)
known.probe_table(
    mx.bfloat16,
    narrow=lambda program: run(program, 8, 3, mx.bfloat16, no_decay=never, weight_decay=0.5),
    many_narrow_steps=lambda program: run(program, 14, 60, mx.bfloat16, rate=0.003, size=0.01),
)


@known.probe()
def given_rates(program):
    """A rate for the step, 0 among them."""
    draw = normals(9)
    optimizer, params = program(0.1), {"w": draw(2, 3)}
    state = optimizer.init(params)
    seen = []
    for rate in (0.5, 0.0, None):
        params, state = optimizer.update(params, {"w": draw(2, 3)}, state, rate)
        seen.append(params["w"])
    return tuple(seen)


@known.probe()
def kept_by_the_caller(program):
    """What the caller's arrays are after an update."""
    draw = normals(10)
    optimizer, params, grads = program(0.1), {"w": draw(2, 3)}, {"w": draw(2, 3)}
    _, state = optimizer.update(params, grads, optimizer.init(params))
    mx.eval(params, state)
    mx.eval(optimizer.update(params, grads, state))
    return params["w"], grads["w"], state["m.w"], state["v.w"], state["step"]


@known.probe()
def resumed(program):
    """The same state, given to a new optimizer."""
    draw = normals(11)
    params = {"w": draw(2, 3)}
    state = program(0.1).init(params)
    for _ in range(3):
        params, state = program(0.1).update(params, {"w": draw(2, 3)}, state)
    return params["w"]


@known.probe()
def adamw_refused(program):
    def build(settings):
        program(**{"learning_rate": 0.1, **settings})

    bad = [{"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"eps": 0.0}, {"learning_rate": -0.5}, {"weight_decay": -0.2}]
    return refusals(build, bad)


@known.probe()
def grads_refused(program):
    params = {"w": mx.ones((2, 3)), "b": mx.ones(3)}
    optimizer = program(0.1)
    state = optimizer.init(params)

    def update(grads):
        new, _ = optimizer.update(params, grads, state)
        return new["w"]

    return refusals(
        update,
        [{"w": mx.ones((2, 3))}, params | {"c": mx.ones(3)}, params | {"w": mx.ones(3)}, params | {"w": mx.ones(())}],
    )


@known.sized("4 matrices of 512 x 512, float32")
def sized(program):
    draw = normals(1)
    params, grads = ({f"w{i}": draw(512, 512) for i in range(4)} for _ in range(2))
    optimizer = program(1e-3)
    state = optimizer.init(params)
    mx.eval(params, grads, state)
    return lambda: list(optimizer.update(params, grads, state)[0].values())


M = 'm = beta1 * state[f"m.{name}"] + (1 - beta1) * g'
V = 'v = beta2 * state[f"v.{name}"] + (1 - beta2) * mx.square(g)'
DIRECTION = "direction = m / (1 - beta1**step) / (mx.sqrt(v / (1 - beta2**step)) + self.eps)"
STEP = "new_params[name] = (p - rate * (direction + decay * p)).astype(param.dtype)"
RATE = "rate = self.learning_rate if learning_rate is None else learning_rate"
known.change(
    "no-bias-correction",
    (DIRECTION, "direction = m / (mx.sqrt(v) + self.eps)"),
    fact="m and v are not divided by 1 - beta ** t: no bias correction",
    question="After the first step m is a tenth of the gradient. What is the root of v, if beta2 is 0.999?",
)
known.change(
    "only-m-corrected",
    (DIRECTION, "direction = m / (1 - beta1**step) / (mx.sqrt(v) + self.eps)"),
    fact="the bias correction of v is missing",
    question="Which of m and v start at zero?",
)
known.change(
    "decay-in-the-gradient",
    (
        "p, g = param.astype(mx.float32), grads[name].astype(mx.float32)",
        "p = param.astype(mx.float32)\n"
        "g = grads[name].astype(mx.float32) + (0.0 if self.no_decay(name, param) else self.weight_decay) * p",
    ),
    (STEP, "new_params[name] = (p - rate * direction).astype(param.dtype)"),
    fact="the decay is added to the gradient, as in Adam with L2 regularization, and is divided by sqrt(v) like it",
    question="Without any gradient, how much of a parameter should a step take? And how much does yours?",
)
known.change(
    "decay-not-times-the-rate",
    (STEP, "new_params[name] = (p - rate * direction - decay * p).astype(param.dtype)"),
    fact="the decay is not multiplied by the learning rate",
    question="With a rate of 0, what should an update change?",
)
known.change(
    "decay-after-the-step",
    (STEP, "p = p - rate * direction\nnew_params[name] = (p - rate * decay * p).astype(param.dtype)"),
    fact="the decay is a share of the parameter after the step, not before it",
    question="A parameter of 1 moves by 0.5. Of which of its two values is lambda multiplied?",
)
known.change(
    "vectors-decayed-too",
    ("decay = 0.0 if self.no_decay(name, param) else self.weight_decay", "decay = self.weight_decay"),
    fact="no_decay is ignored, and norms and biases are decayed, too",
    question="Which function says which parameters are exempt, and who calls it?",
)
known.change(
    "eps-under-the-root",
    (
        DIRECTION,
        DIRECTION.replace("mx.sqrt(v / (1 - beta2**step)) + self.eps", "mx.sqrt(v / (1 - beta2**step) + self.eps)"),
    ),
    fact="eps is added to v, under the root, instead of to the root",
    question="With a gradient of zero, what is divided by: eps, or its root?",
)
known.change(
    "no-root",
    (DIRECTION, DIRECTION.replace("mx.sqrt(v / (1 - beta2**step))", "v / (1 - beta2**step)")),
    fact="the root of v is missing",
    question="All gradients are 100 times as large. Should the step change?",
)
known.change(
    "betas-swapped",
    ("beta1, beta2 = self.betas", "beta2, beta1 = self.betas"),
    fact="beta1 and beta2 are swapped",
    question="Which of m and v is averaged over about 1,000 steps?",
)
known.change(
    "step-counted-from-zero",
    ('{"step": step}', '{"step": step}\nstep = state["step"]'),
    fact="the bias correction takes the number of earlier steps, which is 0 at the first",
    question="What is 1 - beta ** 0, and what is divided by it?",
)
known.change(
    "rate-of-the-step-ignored",
    (RATE, "rate = self.learning_rate"),
    fact="the step's learning rate is ignored, so no schedule has an effect",
    question="Who passes a learning rate to update, and why?",
)
known.change(
    "rate-of-zero-ignored",
    (RATE, "rate = learning_rate or self.learning_rate"),
    fact="a learning rate of 0 counts as None, so the optimizer's is used",
    question="What is the value of `0.0 or 0.1`?",
)
known.change(
    "state-changed-in-place",
    (M, 'm = state[f"m.{name}"]\nm *= beta1\nm += (1 - beta1) * g'),
    (V, 'v = state[f"v.{name}"]\nv *= beta2\nv += (1 - beta2) * mx.square(g)'),
    fact="the caller's state is changed in place",
    question="The caller skips a bad step and keeps the old state. What is in it?",
)
known.change(
    "moments-in-the-narrow-dtype",
    (
        'state[f"m.{name}"] = mx.zeros(param.shape, mx.float32)',
        'state[f"m.{name}"] = mx.zeros(param.shape, param.dtype)',
    ),
    (
        'state[f"v.{name}"] = mx.zeros(param.shape, mx.float32)',
        'state[f"v.{name}"] = mx.zeros(param.shape, param.dtype)',
    ),
    ('new_state[f"v.{name}"] = m, v', 'new_state[f"v.{name}"] = m.astype(param.dtype), v.astype(param.dtype)'),
    fact="m and v have the parameter's dtype, in which a thousandth of v is rounded away",
    question="In bfloat16, what is 1 + 0.001?",
)
known.change(
    "step-not-counted",
    ('{"step": step}', '{"step": state["step"]}'),
    fact="the new state has the old number of steps, so every step is corrected like the first",
    question="What is `step` in the state after three updates?",
)
known.change(
    "no-memory",
    ('beta1 * state[f"m.{name}"] + (1 - beta1) * g', "(1 - beta1) * g"),
    ('beta2 * state[f"v.{name}"] + (1 - beta2) * mx.square(g)', "(1 - beta2) * mx.square(g)"),
    fact="m and v start at zero in every step: those of the step before are not used",
    question="What does m contain of the gradient of the step before?",
)
known.change(
    "counted-by-the-object",
    ('step = state["step"] + 1', 'step = self._step = getattr(self, "_step", 0 * state["step"]) + 1'),
    fact="steps are counted by the object instead of being read from the state",
    question="A run is resumed with a new `AdamW`. Which step does its first update take?",
)


@known.accepted("decay first, in two steps")
class DecayFirst(AdamW):
    def update(self, params, grads, state, learning_rate=None):
        if set(params) != set(grads):
            raise ValueError(f"other names: {sorted(set(params) ^ set(grads))}")
        rate = self.learning_rate if learning_rate is None else learning_rate
        t = state["step"].item() + 1
        new, moved = {}, {"step": mx.array(t, mx.int32)}
        for name in sorted(params):
            p, g = params[name].astype(mx.float32), grads[name].astype(mx.float32)
            if p.shape != g.shape:
                raise ValueError(f"{name} has shape {p.shape}, its gradient {g.shape}")
            if not self.no_decay(name, params[name]):
                p = p * (1 - rate * self.weight_decay)
            m = state[f"m.{name}"] + (1 - self.betas[0]) * (g - state[f"m.{name}"])
            v = state[f"v.{name}"] + (1 - self.betas[1]) * (g * g - state[f"v.{name}"])
            root = mx.sqrt(v) / (1 - self.betas[1] ** t) ** 0.5
            p = p - (rate / (1 - self.betas[0] ** t)) * m / (root + self.eps)
            new[name] = p.astype(params[name].dtype)
            moved |= {f"m.{name}": m, f"v.{name}": v}
        return new, moved
