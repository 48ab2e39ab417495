"""Reference variants of task 2.3.5, least-squares quantization."""

import mlx.core as mx
from tests.week2.packed import errors64
from tiny_llm_solution.quantized.affine import quantize
from tiny_llm_solution.quantized.packing import pack

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.5")


def against_min_and_max(program, w, group_size, bits):
    """Return each group's error relative to min-max; right programs differ only slightly."""
    found = program(w, group_size, bits)
    before = errors64(w, mx.quantize(w, group_size=group_size, bits=bits), group_size, bits)
    shares = errors64(w, found, group_size, bits) / (before + 1e-30)
    return mx.array(shares.tolist()), found[1].astype(mx.float32)


known.probe_table(
    four=lambda program: against_min_and_max(program, normals(1)(6, 128), 64, 4),
    eight=lambda program: against_min_and_max(program, normals(2)(4, 64), 32, 8),
    half=lambda program: against_min_and_max(program, normals(3, mx.bfloat16)(8, 128), 64, 8),
    float16_next_to_nothing=lambda program: against_min_and_max(program, normals(4, mx.float16)(2, 64) * 1e-5, 64, 8),
    dtype=lambda program: program(normals(6, mx.float16)(1, 64), 64, 4)[1:],
    refuses=lambda program: refusals(lambda n: program(mx.ones((2, n)), 64, 4), (96, 65, 32)),
    # The levels of such a group hardly fit between two adjacent bfloat16 numbers.
    far_from_zero=lambda program: against_min_and_max(
        program, (0.01 * normals(7)(1, 64) + 5).astype(mx.bfloat16), 64, 8
    ),
)


@known.probe()
def least_one_far_from_zero(program):
    w = normals(9)(6, 64)
    w[2] = 0.01 * w[2] + 5
    return against_min_and_max(program, w.astype(mx.bfloat16), 64, 4)


@known.probe()
def least_one_of_a_thousand(program):
    w = normals(5)(4, 64)
    w[:, 3] = 100
    return against_min_and_max(program, w, 64, 4)


@known.probe()
def least_one_number(program):
    packed, scales, biases = program(mx.full((1, 64), 0.7), 64, 4)
    return mx.dequantize(packed, scales, biases, group_size=64, bits=4)


@known.sized("4 bits, groups of 64, 512 x 256")
def sized(program):
    w = normals(1)(512, 256)

    def run():
        packed, scales, biases = program(w, 64, 4)
        mx.eval(packed)
        return mx.round(scales * 0 + biases * 0 + mx.mean(scales) * 0)

    return run


NEAREST = "new_q = mx.clip(mx.round((groups - new_bias) / new_scale), 0, 2**bits - 1)"
# A right program that compares errors only once; with other results, because it rounds only once, too.
AT_THE_END = [
    ("error = _error(groups, q, scale, bias)\n", "error = _error(groups, q, scale, bias)\nfirst = q, scale, bias\n"),
    ("(x.astype(w.dtype).astype(mx.float32) for x in _best_line(groups, q))", "_best_line(groups, q)"),
    ("better = new_error < error", "better = mx.isfinite(new_error)"),
]
COMPARED = (
    "scale, bias = (x.astype(w.dtype).astype(mx.float32) for x in (scale, bias))\n"
    "better = _error(groups, q, scale, bias) < _error(groups, *first)\n"
)
CHOSEN = "q, scale, bias = (mx.where(better, *pair) for pair in zip((q, scale, bias), first))\n"
RESULT = "scales, biases = (x.squeeze(-1)"
known.change(
    "min-and-max",
    ("range(ROUNDS)", "range(0)"),
    fact="the min-max scale and bias are never improved",
    question="Where does the docstring ask for a smaller error than min and max give?",
)
known.change(
    "one-round",
    ("range(ROUNDS)", "range(1)"),
    (NEAREST, "new_q = q"),
    fact="the least-squares line is fitted once, and q is not recomputed",
    question="The line has moved. Is each weight's q still the nearest integer?",
)
known.change(
    "never-compared",
    ("better = new_error < error", "better = mx.isfinite(new_error)"),
    fact="the last iteration is kept even when its error is larger",
    question="A bfloat16 scale is rounded. Does every iteration reduce the error?",
)
known.change(
    "not-clipped",
    (NEAREST, "new_q = mx.round((groups - new_bias) / new_scale)"),
    fact="q is not clipped after it is recomputed, and values beyond its range are packed",
    question="The line has moved. How large may q be for the largest weight, and how many bits does it have?",
)
known.change(
    "not-clipped-and-compared-at-the-end",
    *AT_THE_END,
    (NEAREST, "new_q = mx.round((groups - new_bias) / new_scale)"),
    (RESULT, COMPARED + CHOSEN + RESULT),
    fact="q is not clipped after it is recomputed, and values beyond its range are packed",
    question="The line has moved. How large may q be for the largest weight, and how many bits does it have?",
)
known.change(
    "q-of-the-fit",
    *AT_THE_END,
    (RESULT, COMPARED + "scale, bias = (mx.where(better, *pair) for pair in zip((scale, bias), first[1:]))\n" + RESULT),
    fact="a group that the fit does not improve gets the scale and bias of min-max, but the q of the fit",
    question="Which three results does a group have, and which of them does your comparison choose?",
)
known.change(
    "compared-as-a-whole",
    ("better = new_error < error", "better = mx.broadcast_to(mx.sum(new_error) < mx.sum(error), error.shape)"),
    fact="the errors of all groups are summed before they are compared",
    question="If the total error has decreased, has it decreased in every group?",
)
known.change(
    "rounded-at-the-end",
    ("(x.astype(w.dtype).astype(mx.float32) for x in _best_line(groups, q))", "_best_line(groups, q)"),
    fact="each q, and any comparison of errors, is for a scale and bias not yet rounded to w's dtype",
    question="Which scale will dequantize the weights after it is stored in bfloat16?",
)
known.change(
    "through-zero",
    (
        "(x.astype(w.dtype).astype(mx.float32) for x in _best_line(groups, q))",
        "(mx.sum((groups - bias) * q, -1, keepdims=True) / mx.sum(q * q, -1, keepdims=True), bias)",
    ),
    fact="only the scale is fitted, and the bias stays at the edge",
    question="Which two parameters does a line have?",
)
known.change(
    "scales-in-float32",
    ("(x.squeeze(-1).astype(w.dtype) for x in (scale, bias))", "(x.squeeze(-1) for x in (scale, bias))"),
    fact="scales and biases stay float32",
    question="What is the dtype of the scales when the weights are float16?",
)


def tried(w, group_size, bits, tries):
    """Keep the best attempt for each group."""
    groups = mx.unflatten(w.astype(mx.float32), -1, (-1, group_size))
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    packed, scales, biases = quantize(w, group_size, bits)
    best_s, best_b = scales[..., None].astype(mx.float32), biases[..., None].astype(mx.float32)

    def fitted(s, b):
        q = mx.clip(mx.round((groups - b) / mx.where(s == 0, 1, s)), 0, 2**bits - 1)
        return q, mx.sum(mx.square(groups - (s * q + b)), axis=-1, keepdims=True)

    q0 = ((packed[..., None] >> mx.arange(0, 32, bits, dtype=mx.uint32)) & (2**bits - 1)).flatten(-2)
    best_q = mx.unflatten(q0, -1, (-1, group_size)).astype(mx.float32)
    least = mx.sum(mx.square(groups - (best_s * best_q + best_b)), axis=-1, keepdims=True)
    for below, above in tries:
        s = ((high * above - low * below) / (2**bits - 1)).astype(w.dtype).astype(mx.float32)
        b = (low * below).astype(w.dtype).astype(mx.float32)
        q, error = fitted(s, b)
        better = error < least
        best_s, best_b = mx.where(better, s, best_s), mx.where(better, b, best_b)
        best_q, least = mx.where(better, q, best_q), mx.where(better, error, least)
    words = pack(best_q.flatten(-2).astype(mx.uint32), bits)
    return words, best_s[..., 0].astype(w.dtype), best_b[..., 0].astype(w.dtype)


@known.accepted("ends-moved-inwards", differs=True)
def ends_moved_inwards(w, group_size=64, bits=4):
    shares = [1 - 0.05 * i for i in range(7)]
    return tried(w, group_size, bits, [(a, b) for a in shares for b in shares])


@known.accepted("line-by-normal-equations")
def line_by_normal_equations(w, group_size=64, bits=4):
    x = mx.unflatten(w.astype(mx.float32), -1, (-1, group_size))
    packed, scales, biases = quantize(w, group_size, bits)
    numbers = (packed[..., None] >> mx.arange(0, 32, bits, dtype=mx.uint32)) & (2**bits - 1)
    q = mx.unflatten(numbers.flatten(-2), -1, (-1, group_size)).astype(mx.float32)
    s, b = (v.astype(mx.float32)[..., None] for v in (scales, biases))
    origin = x.mean(-1, keepdims=True)
    for _ in range(8):
        n, sq, sqq = group_size, q.sum(-1, keepdims=True), (q * q).sum(-1, keepdims=True)
        sx, sqx = (x - origin).sum(-1, keepdims=True), (q * (x - origin)).sum(-1, keepdims=True)
        d = n * sqq - sq * sq
        flat = d < 0.5
        slope = (n * sqx - sq * sx) / mx.where(flat, 1, d)
        new_s = slope.astype(w.dtype).astype(mx.float32)
        new_b = (origin + (sx - slope * sq) / n).astype(w.dtype).astype(mx.float32)
        new_q = mx.clip(mx.round((x - new_b) / mx.where(new_s == 0, 1, new_s)), 0, 2**bits - 1)
        old = mx.square(x - s * q - b).sum(-1, keepdims=True)
        keep = flat | ~(mx.square(x - new_s * new_q - new_b).sum(-1, keepdims=True) < old)
        q, s, b = mx.where(keep, q, new_q), mx.where(keep, s, new_s), mx.where(keep, b, new_b)
    return pack(q.flatten(-2).astype(mx.int32), bits), s[..., 0].astype(w.dtype), b[..., 0].astype(w.dtype)
