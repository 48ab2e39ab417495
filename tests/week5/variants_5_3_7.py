"""Known programs of task 5.3.7, gradient clipping."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.7")


def run(program, seed, max_norm, size=1.0, dtype=mx.float32):
    draw = normals(seed)
    grads = {"w": (draw(3, 4) * size).astype(dtype), "b": (draw(5) * size).astype(dtype)}
    clipped, norm = program(grads, max_norm)
    return clipped["w"], clipped["b"], norm


known.probe_table(
    above=lambda program: run(program, 1, 0.7),
    far_above=lambda program: run(program, 2, 2.5, size=50.0),
    below=lambda program: run(program, 3, 100.0),
    between=lambda program: run(program, 4, 3.5),  # above the norm of each, below that of both
    tiny=lambda program: run(program, 5, 1e-6, size=1e-6),
    tiny_below=lambda program: program({"w": mx.array([3e-6, -4e-6])}, 5.5e-6)[0]["w"],
    zeros=lambda program: run(program, 6, 1.0, size=0.0),
)
known.probe_table(
    mx.float16,
    half=lambda program: run(program, 7, 1.0, dtype=mx.float16),
    half_of_large=lambda program: run(program, 8, 1.0, size=300.0, dtype=mx.float16),
    half_by_a_tiny_factor=lambda program: run(program, 10, 1e-3, size=10_000.0, dtype=mx.float16),
)


@known.probe()
def gradients_after(program):
    grads = {"w": normals(9)(3, 4)}
    mx.eval(list(program(grads, 0.5)[0].values()))
    return grads["w"]


@known.probe()
def clipping_refused(program):
    return refusals(lambda norm: program({"w": mx.ones(3)}, norm)[1], [0.0, -1.5])


@known.sized("8 gradients of 512 x 512, float32")
def sized(program):
    draw = normals(1)
    grads = {f"w{i}": draw(512, 512) for i in range(8)}
    mx.eval(grads)
    return lambda: list(program(grads, 1.0)[0].values())


RETURN = "return {name: (grad.astype(mx.float32) * factor).astype(grad.dtype) for name, grad in grads.items()}, norm"
NORM = "norm = mx.sqrt(sum(squares, start=mx.array(0.0)))"
FACTOR = "factor = mx.minimum(1.0, max_norm / (norm + 1e-6))"
known.change(
    "each-on-its-own",
    (
        RETURN,
        "factors = [mx.minimum(1.0, max_norm / (mx.sqrt(square) + 1e-6)) for square in squares]\n"
        "return {name: (grad.astype(mx.float32) * factor).astype(grad.dtype)"
        " for (name, grad), factor in zip(grads.items(), factors)}, norm",
    ),
    fact="each gradient is clipped by its own norm instead of all by their common one",
    question="One gradient is long and one is short. Which direction has the step after both are clipped?",
)
known.change(
    "norms-added",
    (NORM, "norm = sum([mx.sqrt(square) for square in squares], start=mx.array(0.0))"),
    fact="the norm is the sum of the gradients' norms instead of the root of the sum of all squares",
    question="What is the length of (3, 4)?",
)
known.change(
    "largest-norm",
    (NORM, "norm = mx.sqrt(mx.max(mx.stack(squares)))"),
    fact="the norm is that of the longest gradient instead of all together",
    question="A model has 100 gradients of norm 1. What is their norm together?",
)
known.change(
    "root-missing",
    (NORM, "norm = sum(squares, start=mx.array(0.0))"),
    fact="the norm is the sum of squares, without the root",
    question="What is the length of (3, 4)?",
)
known.change(
    "mean-of-squares",
    ("mx.sum(mx.square(", "mx.mean(mx.square("),
    fact="the squares of each gradient are averaged instead of summed",
    question="Is a norm a root of a sum or of a mean?",
)
known.change(
    "always-scaled",
    (FACTOR, "factor = max_norm / (norm + 1e-6)"),
    fact="short gradients are scaled up to max_norm",
    question="What should happen to a gradient whose norm is below max_norm?",
)
known.change(
    "clipped-by-value",
    (RETURN, "return {name: mx.clip(grad, -max_norm, max_norm) for name, grad in grads.items()}, norm"),
    fact="each number is clipped to the range from -max_norm to max_norm",
    question="Does (3, 0.5), clipped to 1, keep its direction?",
)
known.change(
    "without-the-1e-6",
    (FACTOR, "factor = mx.minimum(1.0, max_norm / norm)"),
    fact="1e-6 is not added to the norm",
    question="By what does the docstring divide max_norm?",
)
known.change(
    "compared-without-the-1e-6",
    (FACTOR, "factor = mx.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)"),
    fact="the factor is 1 for every norm up to max_norm, although max_norm / (norm + 1e-6) may be below 1",
    question="The norm and max_norm are both 1e-6. What is max_norm / (norm + 1e-6)?",
)
known.change(
    "norm-after-clipping",
    (RETURN, RETURN.removesuffix("norm") + "norm * factor"),
    fact="the norm that is returned is that after clipping",
    question="Training diverges and the norm rises. What does a curve of your norm show?",
)
known.change(
    "squared-in-the-gradient-s-dtype",
    ("mx.square(grad.astype(mx.float32))", "mx.square(grad)"),
    fact="the squares are computed in the gradient's dtype, in which that of 300 is infinite",
    question="What is 300 squared in float16?",
)
known.change(
    "float32-gradients",
    (
        RETURN,
        RETURN.replace("(grad.astype(mx.float32) * factor).astype(grad.dtype)", "grad.astype(mx.float32) * factor"),
    ),
    fact="the clipped gradients are float32 although the gradients are not",
    question="What should be the dtype of a clipped gradient in float16?",
)
known.change(
    "factor-in-the-gradient-s-dtype",
    (
        RETURN,
        "return {name: grad * factor.astype(grad.dtype) for name, grad in grads.items()}, norm",
    ),
    fact="the factor is rounded to the gradient's dtype, in which 1e-8 is zero",
    question="The norm is 40,000 and max_norm 0.001. What is the factor in float16?",
)
known.change(
    "changed-in-place",
    (RETURN, "for grad in grads.values():\n    grad *= factor\nreturn dict(grads), norm"),
    fact="the caller's gradients are changed in place",
    question="What does `grad *= factor` do to the array that the caller has?",
)


@known.accepted("all in one vector")
def flat(grads, max_norm):
    if max_norm <= 0:
        raise ValueError(f"max_norm is {max_norm}, which is not positive")
    if not grads:
        return {}, mx.array(0.0)
    norm = mx.linalg.norm(mx.concatenate([grad.astype(mx.float32).flatten() for grad in grads.values()]))
    factor = mx.where(norm + 1e-6 > max_norm, max_norm / (norm + 1e-6), 1.0)
    return {name: (grad.astype(mx.float32) * factor).astype(grad.dtype) for name, grad in grads.items()}, norm
