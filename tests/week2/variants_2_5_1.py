"""Reference variants of task 2.5.1, a kernel that adds two arrays."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import drawn, normals
from tiny_llm_course.testkit.kernels import moved
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.5.1")


def moves(program, seed, size):
    x = normals(seed)(size)
    return moved(program, x, x, 0.5, enough=3 * x.nbytes)


NARROW = mx.array([60000, 50000, -60000, 0.25] * 2, mx.float16)

known.probe_table(
    few=lambda program: program(*drawn(1, (200,), (200,)), 0.5),
    two_axes=lambda program: program(*drawn(2, (2, 50), (2, 50)), -2.0),
    as_many_as_are_full=lambda program: program(*drawn(3, (1024,), (1024,)), 3.0),
    several_threadgroups=lambda program: program(*drawn(4, (1500,), (1500,)), 3.0),
    moves=lambda program: moves(program, 5, 2048),
    moves_in_one_threadgroup=lambda program: moves(program, 6, 1024),
)
known.probe_table(
    mx.float16,
    narrow=lambda program: program(NARROW, -NARROW, 1.5),
    large_scale=lambda program: program(NARROW, -mx.sign(NARROW) / 4, 1e5),
)


known.change(
    "one-number-a-thread",
    (
        "for (uint i = thread_position_in_grid.x; i < size; i += threads_per_grid.x) {",
        "uint i = thread_position_in_grid.x;\nif (i < size) {",
    ),
    fact="each thread writes only one number",
    question="1,500 numbers, 512 threads: which thread writes number 512?",
)
known.change(
    "four-without-a-look",
    ("i < size; i += threads_per_grid.x", "i < 4 * threads_per_grid.x; i += threads_per_grid.x"),
    fact="the loop also writes elements past the end of the array",
    question="With 1,500 numbers and 512 threads, which numbers does thread 500 take, and do they all exist?",
)
known.change(
    "counted-from-the-threadgroup",
    ("thread_position_in_grid.x", "thread_position_in_threadgroup.x"),
    fact="each threadgroup starts at number 0",
    question="What is the position of the second threadgroup's first thread in its threadgroup, and in the grid?",
)
known.change(
    "every-threadgroup-does-all",
    ("thread_position_in_grid.x", "thread_position_in_threadgroup.x"),
    ("threads_per_grid.x", "threads_per_threadgroup.x"),
    fact="every threadgroup writes all numbers",
    question="The result is correct. How often is number 7 computed with two threadgroups?",
)
known.change(
    "advanced-by-the-threadgroup",
    ("threads_per_grid.x", "threads_per_threadgroup.x"),
    fact="the loop advances by the size of the threadgroup, so threadgroups repeat each other's work",
    question="The result is correct. With two threadgroups, which threads compute number 512?",
)
known.change(
    "four-neighbors-a-thread",
    (
        "i = thread_position_in_grid.x; i < size; i += threads_per_grid.x",
        "i = 4 * thread_position_in_grid.x; i < min(size, 4 * thread_position_in_grid.x + 4); i++",
    ),
    fact="each thread takes four adjacent numbers",
    question="Which numbers do 32 threads read in their first iteration, and how many 64-byte lines is that?",
)
known.change(
    "scale-of-x",
    ("float(x[i]) + scale[0] * float(y[i])", "scale[0] * float(x[i]) + float(y[i])"),
    fact="x is scaled instead of y",
    question="With a scale of 0, what should the result be?",
)
known.change(
    "sum-scaled",
    ("float(x[i]) + scale[0] * float(y[i])", "scale[0] * (float(x[i]) + float(y[i]))"),
    fact="the sum of both is scaled",
    question="With a scale of 0, what should the result be?",
)
known.change(
    "no-scale",
    ("scale[0] * ", ""),
    fact="y is not scaled",
    question="What does `scale` change in your kernel?",
)
known.change(
    "scale-in-T",
    ("scale[0] *", "float(T(scale[0])) *"),
    fact="the scale is rounded to the dtype of x",
    question="Can float16 represent a scale of 100,000?",
)
known.change(
    "computed-in-T",
    ("T(float(x[i]) + scale[0] * float(y[i]))", "x[i] + T(scale[0]) * y[i]"),
    fact="the scale, the product and the sum are computed in the dtype of x",
    question="1.5 * 60,000 is 90,000. Can float16 represent that?",
)
known.change(
    "product-in-T",
    ("scale[0] * float(y[i])", "float(T(scale[0] * float(y[i])))"),
    fact="scale * y is rounded to the dtype of x before it is added",
    question="1.5 * 60,000 is 90,000. Can float16 represent that?",
)
known.accepted_change(
    "a multiply-add",
    ("float(x[i]) + scale[0] * float(y[i])", "metal::fma(scale[0], float(y[i]), float(x[i]))"),
)
known.accepted_change(
    "by turns",
    ("i = thread_position_in_grid.x; i < size; i += threads_per_grid.x", "turn = 0; turn < 4; ++turn"),
    ("  out[i] =", "  const uint i = turn * threads_per_grid.x + thread_position_in_grid.x;\n  if (i < size) out[i] ="),
)
known.not_timed("simulated time says nothing about a GPU")
