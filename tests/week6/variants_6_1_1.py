"""Known programs of task 6.1.1, reduce-scatter on a ring."""

import mlx.core as mx
from tests.week6.ringing import outcome_of
from tiny_llm_solution.distributed.ring import _shift

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal, refusals
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.1.1")
RECEIVES = "group.receive(x.shape, x.dtype, group.left)"


def kept(program):
    """Return each rank's array after the call."""
    given = list(normals(7)(3, 6))
    run_ranks(lambda group: program(given[group.rank], group), 3)
    return tuple(given)


def shapes_refused(program):
    """Return for some shapes whether three ranks refuse them."""
    return refusals(
        lambda shape: tuple(run_ranks(lambda group: program(mx.ones(shape), group), 3)[0]), [(), (5,), (2, 3)]
    )


known.probe_table(
    one_rank=lambda program: outcome_of(program, *normals(1)(1, 4)),
    two_ranks=lambda program: outcome_of(program, *normals(2)(2, 6)),
    three_ranks=lambda program: outcome_of(program, *normals(3)(3, 6, 2)),
    four_ranks=lambda program: outcome_of(program, *normals(4)(4, 8)),
    five_ranks=lambda program: outcome_of(program, *normals(5)(5, 5, 1, 2)),
    integers=lambda program: outcome_of(program, *mx.arange(18).reshape(3, 6)),
    large_integers=lambda program: tuple(
        x - 2**24 for x in outcome_of(program, mx.array([2**24 + 1, 2**24 + 3]), mx.array([0, 0]))[:2]
    ),
    kept=kept,
    refused=shapes_refused,
    refused_alone=lambda program: mx.array(
        refusal(lambda: run_ranks(lambda group: program(mx.array(1.0), group), 1)[0][0])
    ),
)


@known.probe(mx.float16)
def half(program):
    return outcome_of(program, *normals(6, mx.float16)(3, 6))


known.not_timed("it waits for other processes; the day's bench measures it")


def naive(x, group):
    """Send complete arrays around the ring."""
    if x.ndim == 0 or x.shape[0] % group.size:
        raise ValueError(f"x has shape {x.shape}, {group.size} ranks")
    total = passing = x
    for _ in range(group.size - 1):
        passing = _shift(passing, group)
        total = total + passing
    return mx.split(total, group.size)[group.rank]


known.wrong(
    "complete-arrays",
    fact="each step sends a complete array, and the sum is divided only at the end",
    question="How many numbers does a rank send in each step, and how many does it need to return?",
)(naive)
SHIFTS = "total = _shift(total, group) + chunks[(group.rank - step) % group.size]"
known.change(
    "all-send-first",
    ("if group.rank % 2:", "if False:"),
    fact="every rank sends before it receives",
    question="A send may wait until the other rank receives. Which rank is the first to receive?",
)
known.change(
    "all-receive-first",
    ("if group.rank % 2:", "if True:"),
    fact="every rank receives before it sends",
    question="Which rank is the first to send?",
)
known.change(
    "one-step-too-few",
    ("range(2, group.size + 1)", "range(2, group.size)"),
    fact="there is one step too few",
    question="Two ranks: how many times must each send? And how many times does yours?",
)
known.change(
    "one-step-too-many",
    ("range(2, group.size + 1)", "range(2, group.size + 2)"),
    fact="there is one step too many",
    question="Two ranks: how many times must each send? And how many times does yours?",
)
known.change(
    "the-right-neighbors-chunk",
    ("chunks[(group.rank - 1) % group.size]", "chunks[group.rank]"),
    (SHIFTS, SHIFTS.replace("- step", "- step + 1")),
    fact="rank r returns the sum of chunk r + 1",
    question="Rank r starts with chunk r. Which rank is the last one that adds to it?",
)
known.change(
    "adds-its-own-chunk",
    (SHIFTS, SHIFTS.replace("(group.rank - step) % group.size", "group.rank")),
    fact="a rank adds its chunk `rank` to every sum that passes",
    question="The sum of chunk 1 arrives at rank 3. Which of its four chunks must rank 3 add?",
)
known.change(
    "starts-with-its-own-chunk",
    ("chunks[(group.rank - 1) % group.size]", "chunks[group.rank]"),
    fact="a rank starts with chunk `rank`, but then adds as if it had started with the one before",
    question="The sum that reaches rank r last has started at rank r + 1. With which chunk?",
)
known.change(
    "sends-its-own-parts",
    (SHIFTS, SHIFTS.replace("_shift(total, group)", "_shift(chunks[(group.rank - step + 1) % group.size], group)")),
    fact="each step sends the rank's own part instead of the running sum",
    question="What does rank 2 know of rank 0's array, if rank 1 only sends its own?",
)
known.change(
    "adds-all-that-arrives",
    ("chunks[(group.rank - 1) % group.size]", "chunks[group.rank]"),
    (SHIFTS, "total = total + _shift(chunks[(group.rank - step + 1) % group.size], group)"),
    fact="a rank sends a part of its own in each step, and adds up all parts that arrive, of whichever chunks",
    question="Of which chunk is the part that rank 2 receives in its first step, and of which that of its second?",
)
known.change(
    "one-sum-for-all",
    ("total = chunks[(group.rank - 1) % group.size]", "total = passing = chunks[group.rank]"),
    (SHIFTS, "passing = _shift(passing, group)\ntotal = total + passing"),
    fact="all ranks return the same sum, of chunk 0 of rank 0, chunk 1 of rank 1, and so on",
    question="Which chunk of rank 1's array does rank 0 need?",
)
known.together("adds-its-own-chunk", "starts-with-its-own-chunk", makes="one-sum-for-all")
known.change(
    "adds-in-the-wrong-direction",
    (SHIFTS, SHIFTS.replace("(group.rank - step)", "(group.rank + step - 2)")),
    fact="the number of the chunk to add grows from step to step instead of falling",
    question="Your left neighbor started with the chunk before yours. With which one did its left neighbor start?",
)
known.change(
    "to-the-left",
    (
        "received = group.receive(x.shape, x.dtype, group.left)",
        "received = group.receive(x.shape, x.dtype, group.right)",
    ),
    ("group.send(x, group.right)\nreturn received", "group.send(x, group.left)\nreturn received"),
    (
        "group.send(x, group.right)\nreturn group.receive(x.shape, x.dtype, group.left)",
        "group.send(x, group.left)\nreturn group.receive(x.shape, x.dtype, group.right)",
    ),
    fact="sums travel to the left, but chunks are counted as if they traveled to the right",
    question="Rank 1 receives from rank 2. With which chunk has rank 2 started?",
)
known.change(
    "mean",
    ("return total", "return total / group.size"),
    fact="the sum is divided by the number of ranks",
    question="Is the result a sum or a mean?",
)
known.change(
    "sums-in-float32",
    ("chunks = mx.split(x, group.size)", "chunks = mx.split(x.astype(mx.float32), group.size)"),
    fact="chunks are converted to float32",
    question="What is the dtype of x, and what is that of your result? How many bytes does each step send?",
)
known.change(
    "in-place",
    (
        SHIFTS,
        "chunk = (group.rank - step) % group.size\nrows = x.shape[0] // group.size\n"
        "x[chunk * rows : (chunk + 1) * rows] = _shift(total, group) + chunks[chunk]\n"
        "total = x[chunk * rows : (chunk + 1) * rows]",
    ),
    fact="running sums are stored in the caller's array",
    question="The caller needs x again, for example as a residual. What does it have now?",
)
known.change(
    "rest-dropped",
    ("if x.ndim == 0 or x.shape[0] % group.size:", "if x.ndim == 0:"),
    ("chunks = mx.split(x, group.size)", "chunks = mx.split(x[: x.shape[0] // group.size * group.size], group.size)"),
    fact="rows that do not fill a chunk are dropped instead of refused",
    question="Five rows and three ranks: where are rows 3 and 4 of the sum?",
)
known.written(
    "chunk-numbers",
    (
        SHIFTS,
        f"number = (group.rank - step) % group.size\n{SHIFTS.replace('(group.rank - step) % group.size', 'number')}",
    ),
)


known.change(
    "added-in-float32",
    (
        SHIFTS,
        "total = (_shift(total, group).astype(mx.float32)"
        " + chunks[(group.rank - step) % group.size].astype(mx.float32)).astype(x.dtype)",
    ),
    fact="sums are taken in float32, whatever the dtype of x, so that integers of more than 24 bits are rounded",
    question="Which is the next float32 after 16,777,216?",
)
known.change(
    "one-rank-unchecked",
    ("if x.ndim == 0 or", "if group.size == 1:\n    return x\nif x.ndim == 0 or"),
    fact="a single rank returns x before x is checked",
    question="A program is tested on one rank, with a single number. What does it do on two?",
)


@known.accepted("only rank 0 receives first")
def one_breaks_the_circle(x, group):
    if x.ndim == 0 or x.shape[0] % group.size:
        raise ValueError(f"x has shape {x.shape}, {group.size} ranks")
    rows = x.shape[0] // group.size
    chunks = [x[i * rows : (i + 1) * rows] for i in range(group.size)]
    total = chunks[group.rank - 1]
    for step in range(group.size - 1):
        mine = chunks[group.rank - 2 - step]
        if group.rank == 0:
            came = group.receive(total.shape, total.dtype, group.left)
            group.send(total, group.right)
        else:
            group.send(total, group.right)
            came = group.receive(total.shape, total.dtype, group.left)
        total = came + mine
    return total


@known.accepted("one row for each chunk")
def rows(x, group):
    if x.ndim == 0 or x.shape[0] % group.size:
        raise ValueError(f"x has shape {x.shape}, {group.size} ranks")
    chunks = x.reshape(group.size, x.shape[0] // group.size, *x.shape[1:])
    number = (group.rank + group.size - 1) % group.size
    total = chunks[number]
    while number != group.rank:
        number = (number + group.size - 1) % group.size
        total = _shift(total, group) + chunks[number]
    return total
