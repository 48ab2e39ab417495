"""Known programs of task 5.5.5, several adapters in one batch."""

import mlx.core as mx
from tests.week4.routing import products
from tiny_llm_solution.basics import linear

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.5.5")
OWNERS = [1, -1, 0, 2, 1, 0, -1, 2, 1]
SCALES = [2.0, 0.5, 1.5]


def inputs(seed, dtype=mx.float32, rows=9, sizes=(7, 5, 2), count=3):
    draw, (inner, outputs, rank) = normals(seed, dtype), sizes
    a, b = ([draw(*shape) for _ in range(count)] for shape in ((rank, inner), (outputs, rank)))
    return draw(rows, inner), a, b


def run(program, drawn, owners, scales=SCALES):
    x, a, b = drawn
    return program(x, owners, a, b, scales)


def ranks(seed):
    draw = normals(seed)
    return draw(9, 7), [draw(r, 7) for r in (1, 4, 2)], [draw(5, r) for r in (1, 4, 2)]


known.probe_table(
    mixed=lambda program: run(program, inputs(1), OWNERS),
    in_order=lambda program: run(program, inputs(2), sorted(OWNERS)),
    a_cycle=lambda program: run(program, inputs(3, rows=3), [1, 2, 0]),
    one=lambda program: run(program, inputs(4, rows=1), [2]),
    none=lambda program: run(program, inputs(5, rows=2), [-1, -1]),
    ranks=lambda program: run(program, ranks(6), OWNERS),
    square=lambda program: run(program, inputs(7, sizes=(4, 4, 4)), OWNERS),
    refused=lambda program: refusals(lambda owner: run(program, inputs(8), [owner] * 9), [-2, 3, 0]),
    lengths=lambda program: refusals(lambda count: run(program, inputs(9), [0] * count), [8, 10, 9]),
)
known.probe_table(mx.float16, half=lambda program: run(program, inputs(10, mx.float16), OWNERS))
known.probe_table(
    mx.float16,
    half_with_float32=lambda program: run(program, (inputs(11, mx.float16)[0], *inputs(11)[1:]), OWNERS),
)


@known.probe()
def batched_idle(program):
    """Adapter 1 has no rows, and NaN for weights."""
    x, a, b = inputs(12)
    return run(program, (x, [a[0], a[1] * mx.nan, a[2]], [b[0], b[1] * mx.nan, b[2]]), [2, 0, -1, 0, 2, 2, -1, 0, 2])


@known.probe()
def batched_memory(program):
    """Whether 128 rows take as much memory as a copy of A for each of them."""
    x, a, b = inputs(13, rows=128, sizes=(128, 128, 64), count=2)
    mx.eval(x, a, b)
    call = lambda: program(x, [t % 2 for t in range(128)], a, b, [1.0, 1.0])  # noqa: E731
    return mx.array(peak_bytes(call) > 128 * 64 * 128), call()


@known.probe()
def batched_merged(program):
    """Whether one row takes as much memory as a matrix of O x I."""
    x, a, b = inputs(14, rows=1, sizes=(512, 512, 2), count=1)
    mx.eval(x, a, b)
    call = lambda: program(x, [0], a, b, [1.0])  # noqa: E731
    return mx.array(peak_bytes(call) > 512 * 512 * 2), call()


@known.probe()
def batched_products(program):
    """Whether 32 rows of two adapters in turn need more than two products per adapter."""
    return mx.array(products(run(program, inputs(15, rows=32, count=2), [0, 1] * 16, [1.0, 2.0])) > 4)


@known.sized("256 rows of 8 adapters, 1,024 x 1,024, r 8, float32")
def sized(program):
    x, a, b = inputs(1, rows=256, sizes=(1024, 1024, 8), count=8)
    mx.eval(x, a, b)
    return lambda: program(x, [t % 8 for t in range(256)], a, b, [1.0] * 8)


ROWS = "rows = x[mx.array(order[first : first + count])]"
UPDATE = "scales[owner] * linear(linear(rows, a[owner]), b[owner])"
known.change(
    "none-is-the-last",
    ("if owner < 0:", "if False:"),
    fact="rows without an adapter get the last one's update, because a[-1] is the last",
    question="Which element is a[-1]?",
)
known.change(
    "none-is-unchanged",
    ("mx.zeros((count, b[0].shape[0]), x.dtype)", "mx.ones((count, b[0].shape[0]), x.dtype)"),
    fact="the update of a row without an adapter is 1 instead of 0",
    question="What is added to W x for a request without an adapter?",
)
known.change(
    "left-sorted",
    ("[mx.array(np.argsort(order))]", ""),
    fact="the results remain sorted by adapter",
    question="To which row does the first result belong?",
)
known.change(
    "restored-by-order",
    ("[mx.array(np.argsort(order))]", "[mx.array(order)]"),
    fact="the rows are restored by the permutation that sorted them instead of its inverse",
    question="order says where a row comes from. What says where it went?",
)
known.change(
    "rows-not-sorted",
    (ROWS, "rows = x[first : first + count]"),
    fact="the rows are taken in their own order, and the results are put where the sorted rows belong",
    question="Adapter 0 has rows 2 and 5. Which rows of x do you multiply?",
)
known.change(
    "not-scaled",
    (UPDATE, "linear(linear(rows, a[owner]), b[owner])"),
    fact="the scales are missing",
    question="Two adapters have different alpha / r. Where does that enter?",
)
known.change(
    "first-scale-for-all",
    (UPDATE, "scales[0] * linear(linear(rows, a[owner]), b[owner])"),
    fact="all adapters are scaled by the first one's factor",
    question="Two adapters have different alpha / r. Whose does a row get?",
)
known.change(
    "first-b-for-all",
    ("b[owner])  # count x O", "b[0])  # count x O"),
    fact="each row is multiplied by its own A, and by the first adapter's B",
    question="How many matrices has an adapter?",
)
known.change(
    "adapter-by-group",
    (
        "in zip(*np.unique(owners, return_counts=True), strict=True):",
        "in enumerate(np.unique(owners, return_counts=True)[1], -1):",
    ),
    fact="the first group counts as rows without an adapter, the second as adapter 0, and so on",
    question="Only adapters 0 and 2 have rows. Which matrices does the second group use?",
)
known.change(
    "lengths-not-checked",
    ("if len(owners) != len(x):", "if False:"),
    fact="more or fewer owners than rows are not refused",
    question="There are ten owners for nine rows. Which row has two?",
)


known.change(
    "merged-first",
    (UPDATE, "scales[owner] * linear(rows, b[owner] @ a[owner])"),
    fact="A and B are multiplied by each other, into a matrix of O x I per adapter",
    question="How large is B A for 1,024 inputs and outputs and the rank 8, and how large are A and B?",
)


def refuse(x, owners, a):
    if len(owners) != len(x) or any(not -1 <= owner < len(a) for owner in owners):
        raise ValueError(f"{len(x)} rows, owners {owners} ({len(owners)}), {len(a)} adapters")


@known.wrong(
    "product-per-run",
    fact="an adapter's rows are multiplied in several products instead of one",
    question="The owners are 0, 1, 0, 1. How many products does your code compute, and how many adapters have rows?",
)
def per_run(x, owners, a, b, scales):
    refuse(x, owners, a)
    results, start = [], 0
    while start < len(owners):
        k, end = owners[start], start
        while end < len(owners) and owners[end] == k:
            end += 1
        if k < 0:
            results.append(mx.zeros((end - start, b[0].shape[0]), x.dtype))
        else:
            results.append((scales[k] * linear(linear(x[start:end], a[k]), b[k])).astype(x.dtype))
        start = end
    return mx.concatenate(results)


@known.wrong(
    "every-adapter-for-every-row",
    fact="every adapter is applied to all rows, also to those of other adapters",
    question="How many adapters does a row need? What is 0 times NaN?",
)
def every_adapter(x, owners, a, b, scales):
    refuse(x, owners, a)
    which, total = mx.array(owners)[:, None], mx.zeros((len(x), b[0].shape[0]), x.dtype)
    for k, scale in enumerate(scales):
        total = total + ((which == k) * scale * linear(linear(x, a[k]), b[k])).astype(x.dtype)
    return total


@known.wrong(
    "a-matrix-for-each-row",
    fact="A and B are copied for each row",
    question="Eight rows share an adapter. How often should its A be in memory?",
)
def copies(x, owners, a, b, scales):
    refuse(x, owners, a)
    rows = []
    for t, k in enumerate(owners):
        if k < 0:
            rows.append(mx.zeros((1, b[0].shape[0]), x.dtype))
        else:
            own, other = mx.contiguous(a[k] + 0), mx.contiguous(b[k] + 0)
            rows.append((scales[k] * linear(linear(x[t : t + 1], own), other)).astype(x.dtype))
    return mx.concatenate(rows)


@known.accepted("rows of each adapter, added at their places")
def added_at_places(x, owners, a, b, scales):
    if len(owners) != len(x) or [owner for owner in owners if owner < -1 or owner >= len(a)]:
        raise ValueError(f"{len(x)} rows, owners {owners} ({len(owners)}), {len(a)} adapters")
    total = mx.zeros((len(x), b[0].shape[0]), x.dtype)
    for k, scale in enumerate(scales):
        if mine := [t for t, owner in enumerate(owners) if owner == k]:
            rows = mx.array(mine)
            total = total.at[rows].add((linear(linear(x[rows], a[k]), b[k]) * scale).astype(x.dtype))
    return total
