"""Known programs of task 6.1.2, all-gather on a ring."""

import mlx.core as mx
from tests.week6.ringing import outcome_of
from tiny_llm_solution.distributed.ring import _shift

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.1.2")
RECEIVES = "group.receive(x.shape, x.dtype, group.left)"


def kept(program):
    """Return each rank's array after the call."""
    given = list(normals(7)(3, 6))
    run_ranks(lambda group: program(given[group.rank], group), 3)
    return tuple(given)


known.probe_table(
    one_rank=lambda program: outcome_of(program, *normals(1)(1, 4)),
    two_ranks=lambda program: outcome_of(program, *normals(2)(2, 3)),
    three_ranks=lambda program: outcome_of(program, *normals(3)(3, 4, 2)),
    four_ranks=lambda program: outcome_of(program, *normals(4)(4, 1)),
    five_ranks=lambda program: outcome_of(program, *normals(5)(5, 2, 1, 3)),
    integers=lambda program: outcome_of(program, *mx.arange(12).reshape(3, 4)),
    kept=kept,
    refused=lambda program: mx.array(refusal(lambda: run_ranks(lambda group: program(mx.array(1.0), group), 2)[0][0])),
    refused_alone=lambda program: mx.array(
        refusal(lambda: run_ranks(lambda group: program(mx.array(1.0), group), 1)[0][0])
    ),
)


@known.probe(mx.float16)
def half(program):
    return outcome_of(program, *normals(6, mx.float16)(3, 2))


known.not_timed("it waits for other processes; the day's bench measures it")

STEP = "parts[(group.rank - step) % group.size] = _shift(parts[(group.rank - step + 1) % group.size], group)"
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
    ("range(1, group.size)", "range(1, group.size - 1)"),
    fact="there is one step too few",
    question="Two ranks: how many times must each send? And how many times does yours?",
)
known.change(
    "one-step-too-many",
    ("range(1, group.size)", "range(1, group.size + 1)"),
    fact="there is one step too many, in which each rank gets its own array back",
    question="What does a rank receive in your last step, and has it seen that before?",
)
known.change(
    "in-order-of-arrival",
    ("mx.concatenate(parts)", "mx.concatenate([parts[(group.rank - i) % group.size] for i in range(group.size)])"),
    fact="arrays are in the order of their arrival, with the rank's own first",
    question="Rank 0 and rank 1 have the same arrays. Do they return them in the same order?",
)
known.change(
    "sends-its-own-each-time",
    (STEP, STEP.replace("parts[(group.rank - step + 1) % group.size], group", "x, group")),
    fact="each step sends the rank's own array again",
    question="How does rank 0's array reach rank 2?",
)
known.change(
    "stored-to-the-right",
    (STEP, "parts[(group.rank + step) % group.size] = _shift(parts[(group.rank + step - 1) % group.size], group)"),
    fact="what comes from the left is stored as if it came from the right",
    question="In the first step rank 2 receives from rank 1. Into which place does that belong?",
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
    fact="arrays travel to the left, but are stored as if they traveled to the right",
    question="Rank 1 receives from rank 2. Into which place does that belong?",
)
known.change(
    "stacked",
    ("mx.concatenate(parts)", "mx.stack(parts)"),
    fact="arrays are stacked along a new axis",
    question="Three ranks have 2 x 4 each. What is the shape of all arrays along the first axis?",
)
known.change(
    "last-axis",
    ("mx.concatenate(parts)", "mx.concatenate(parts, axis=-1)"),
    fact="arrays are concatenated along the last axis",
    question="Three ranks have 2 x 4 each. What is the shape of all arrays along the first axis?",
)
known.change(
    "in-float32",
    ("mx.concatenate(parts)", "mx.concatenate(parts).astype(mx.float32)"),
    fact="the result is converted to float32",
    question="What is the dtype of x, and what is that of your result?",
)


@known.wrong(
    "sends-all-so-far",
    fact="each step sends all arrays that the rank has so far",
    question="Which of the arrays that you send has the right neighbor received before?",
)
def growing(x, group):
    if x.ndim == 0:
        raise ValueError("x is a single number")
    parts, rows = [x], len(x)
    for step in range(group.size - 1):
        passing = _shift(mx.concatenate(parts), group)
        parts.append(passing[step * rows : (step + 1) * rows])
    return mx.concatenate([parts[(group.rank - i) % group.size] for i in range(group.size)])


known.written("with-the-last-one", (STEP, STEP.replace("step + 1)", "(step - 1))")))
known.change(
    "one-rank-unchecked",
    ("if x.ndim == 0:", "if group.size == 1:\n    return x\nif x.ndim == 0:"),
    fact="a single rank returns x before x is checked",
    question="A program is tested on one rank, with a single number. What does it do on two?",
)


@known.accepted("in order of arrival, then by rank")
def by_rank(x, group):
    if x.ndim == 0:
        raise ValueError("x is a single number")
    arrived = [x]
    while len(arrived) < group.size:
        arrived.append(_shift(arrived[-1], group))
    return mx.concatenate([arrived[(group.rank - rank) % group.size] for rank in range(group.size)])
