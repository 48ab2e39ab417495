"""Known programs of task 6.3.1, the 1F1B schedule."""

import mlx.core as mx
from tiny_llm_solution.pipeline.passes import Pass

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.3.1")


def table(program, stages, micro_batches):
    """Return the order of each stage as numbers, m + 1 for a forward pass, -m - 1 for a backward pass."""
    orders = [program(rank, stages, micro_batches) for rank in range(stages)]
    return tuple(mx.array([m + 1 if forward else -m - 1 for forward, m in order]) for order in orders)


known.probe_table(
    two=lambda program: table(program, 2, 5),
    three=lambda program: table(program, 3, 4),
    four=lambda program: table(program, 4, 9),
    one=lambda program: table(program, 1, 3),
    few=lambda program: table(program, 4, 2),
    a_single_one=lambda program: table(program, 3, 1),
    equal=lambda program: table(program, 3, 3),
    refusals=lambda program: refusals(lambda case: program(*case), [(4, 4, 8), (-1, 4, 8), (0, 3, 0), (1, 2, -2)]),
)


known.not_timed("a list of a few passes")

AHEAD = "ahead = min(stages - 1 - rank, micro_batches)"
PAIR = "order += [Pass(True, ahead + m), Pass(False, m)]"
REST = "[Pass(False, m) for m in range(micro_batches - ahead, micro_batches)]"

known.change(
    "all-forward-first",
    (AHEAD, "ahead = micro_batches"),
    fact="all forward passes come before the first backward pass, as in GPipe",
    question="How many micro-batches does the last stage hold in your order, and how many must it hold?",
)
known.change(
    "one-too-many-ahead",
    (AHEAD, "ahead = min(stages - rank, micro_batches)"),
    fact="the warm-up has one forward pass too many",
    question="The last stage waits for no other stage. After which pass can it run its first backward pass?",
)
known.change(
    "one-too-few-ahead",
    (AHEAD, "ahead = min(max(0, stages - 2 - rank), micro_batches)"),
    fact="the warm-up has one forward pass too few, wherever it has any",
    question="Two stages: what does the first one do while the last one computes the first backward pass?",
)
known.change(
    "the-same-on-all-stages",
    (AHEAD, "ahead = min(stages - 1, micro_batches)"),
    fact="every stage has the first stage's warm-up",
    question="Over how many stages does a micro-batch travel until its gradient is back at this stage?",
)
known.change(
    "warm-up-of-the-other-end",
    (AHEAD, "ahead = min(rank, micro_batches)"),
    fact="the last stage has the longest warm-up, and the first stage has none",
    question="Which stage waits longest for the gradient of its first micro-batch?",
)
known.change(
    "no-limit-of-the-warm-up",
    (AHEAD, "ahead = stages - 1 - rank"),
    fact="the warm-up has passes of micro-batches that do not exist, where there are fewer than stages",
    question="Four stages and two micro-batches: how many forward passes can the first stage run?",
)


@known.wrong(
    "warm-up-of-missing-micro-batches",
    fact="the warm-up has passes of micro-batches that do not exist, where there are fewer than stages",
    question="Four stages and two micro-batches: how many forward passes can the first stage run?",
)
def no_limit(rank, stages, micro_batches):
    if not 0 <= rank < stages:
        raise ValueError(f"there is no stage {rank} among {stages}")
    if micro_batches < 1:
        raise ValueError(f"there are {micro_batches} micro-batches, but at least 1 is needed")
    warm_up = stages - rank
    order = [Pass(True, m) for m in range(warm_up)]
    for m in range(micro_batches):
        order.append(Pass(False, m))
        if warm_up + m < micro_batches:
            order.append(Pass(True, warm_up + m))
    return order


known.change(
    "backward-first",
    (PAIR, "order += [Pass(False, m), Pass(True, ahead + m)]"),
    fact="the backward pass of each pair comes before the forward pass",
    question="The last stage has no warm-up. Of which forward pass is its first backward pass?",
)
for name, edit in (
    ("newest-first", (REST, "[Pass(False, m) for m in range(micro_batches - 1, micro_batches - ahead - 1, -1)]")),
    (
        "newest-first-after-the-last-forward-pass",
        (
            f"return order + {REST}",
            f"order += {REST}\n"
            "last = order.index(Pass(True, micro_batches - 1)) + 1\n"
            "return order[:last] + order[last:][::-1]",
        ),
    ),
):
    known.change(
        name,
        edit,
        fact="the backward passes of the cool-down begin with the newest micro-batch",
        question="In which order do the gradients arrive from the next stage?",
    )
known.change(
    "no-cool-down",
    (f"return order + {REST}", "return order"),
    fact="the backward passes of the cool-down are missing",
    question="How many micro-batches does the first stage hold after its last forward pass?",
)
known.change(
    "backward-of-the-newest",
    (PAIR, "order += [Pass(True, ahead + m), Pass(False, ahead + m)]"),
    (REST, "[Pass(False, m) for m in range(ahead)]"),
    fact="each pair has both passes of the same micro-batch, and the warm-up's backward passes come last",
    question="When the first stage has just run a forward pass, for which micro-batch can a gradient have come back?",
)
known.change(
    "a-stack-of-held",
    (PAIR, "order += [Pass(True, ahead + m), Pass(False, ahead + m)]"),
    (REST, "[Pass(False, m) for m in range(ahead - 1, -1, -1)]"),
    fact="each backward pass is of the newest micro-batch that is held",
    question="Of the micro-batches that a stage holds, whose gradient comes back first?",
)
known.change(
    "numbers-not-checked",
    ("if not 0 <= rank < stages:", "if False:"),
    ("if micro_batches < 1:", "if False:"),
    fact="a stage that does not exist, and no micro-batches, are accepted",
    question="What does your function return for stage 4 of 4?",
)

known.change(
    "one-stage-too-many",
    ("if not 0 <= rank < stages:", "if not 0 <= rank <= stages:"),
    fact="a rank equal to the number of stages is accepted",
    question="The first of four stages is 0. Which one is the last?",
)


@known.accepted("a queue of micro-batches that are held")
def queue(rank, stages, micro_batches):
    if rank not in range(stages):
        raise ValueError(f"rank {rank} of {stages}")
    if micro_batches <= 0:
        raise ValueError(f"{micro_batches} micro-batches")
    order, held, fresh = [], [], 0
    while held or fresh < micro_batches:
        if fresh < micro_batches and len(held) < stages - rank:
            order.append(Pass(True, fresh))
            held.append(fresh)
            fresh += 1
        else:
            order.append(Pass(False, held.pop(0)))
    return order
