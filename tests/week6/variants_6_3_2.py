"""Known programs of task 6.3.2, a training step over stages."""

import mlx.core as mx
from tests.week6 import stages
from tests.week6.formulas_day3 import EMBEDDING
from tests.week6.pipelines import ROOMY

from tiny_llm_course.testkit.variants import Variants

known = Variants("6.3.2")


def run(program, ranks, counts, tied=True, seed=1, order=stages.one_f_one_b):
    """Return each rank's loss and gradients, in the order of their names."""
    params, batches = stages.small_params(seed, tied), stages.micro_batches(seed, *counts)
    found = stages.step_over_ranks(program, params, batches, [order(r, ranks, len(counts)) for r in range(ranks)])
    return (*found.losses, *(own[name] for own in found.grads for name in sorted(own)))


def alive(program):
    """Return how many inputs the last of two stages has held."""
    params, batches = stages.small_params(1, False), stages.micro_batches(1, *[2] * 7)
    found = stages.step_over_ranks(program, params, batches, [stages.one_f_one_b(r, 2, 7) for r in range(2)])
    return mx.array(found.stages[1].most_alive)


def sent(program):
    """Return how many bytes each of three ranks has sent."""
    params, batches = stages.small_params(1, False), stages.micro_batches(1, 3, 1, 2)
    found = stages.step_over_ranks(program, params, batches, [stages.one_f_one_b(r, 3, 3) for r in range(3)])
    return mx.array([stages.sent_bytes(group) for group in found.groups])


known.probe_table(
    one=lambda program: run(program, 1, (3, 1, 2)),
    one_micro_batch=lambda program: run(program, 2, (4,)),
    two=lambda program: run(program, 2, (3, 1, 4), seed=2),
    two_untied=lambda program: run(program, 2, (3, 1, 4), tied=False, seed=2),
    two_by_gpipe=lambda program: run(program, 2, (2, 4, 1), seed=3, order=stages.gpipe),
    untied_by_gpipe=lambda program: run(program, 2, (2, 4, 1), tied=False, seed=3, order=stages.gpipe),
    three_by_gpipe=lambda program: run(program, 3, (2, 4, 1), tied=False, seed=4, order=stages.gpipe),
    three=lambda program: run(program, 3, (3, 1, 4, 2), seed=5),
    some_empty=lambda program: run(program, 1, (0, 3)),
    all_empty=lambda program: run(program, 1, (0, 0)),
    alive=alive,
    sent=sent,
    evaluated=lambda program: mx.array(ROOMY.growth(program, "") > 4 * 2**20),
)


@known.sized("1 rank, 8 micro-batches, a small model of 128 x 128 layers")
def sized(program):
    params = stages.small_params(1, True, size=128)
    batches, order = stages.micro_batches(1, *[60] * 8), stages.one_f_one_b(0, 1, 8)

    def step():
        return stages.step_over_ranks(program, params, batches, [order], size=128).grads[0][EMBEDDING]

    return step


SHARES = "shares = [mx.array(count / max(1, sum(counts))) for count in counts]"
known.change(
    "mean-of-the-means",
    (SHARES, "shares = [mx.array(1 / len(counts)) for count in counts]"),
    fact="the micro-batches are averaged as if all counted equally many targets",
    question="Two micro-batches count 3 and 1 targets. How much of the large batch's mean is the second one's?",
)
known.change(
    "summed",
    (SHARES, "shares = [mx.array(1.0) for count in counts]"),
    fact="losses and gradients are added up over the micro-batches, and never divided",
    question="What is the gradient of the mean loss with respect to one micro-batch's mean loss?",
)
known.change(
    "share-twice",
    ("total + grads[name]", "total + shares[m] * grads[name]"),
    fact="the gradients of each micro-batch are multiplied by its share twice",
    question="The last stage starts with the share as the gradient of its loss. What does that multiply?",
)
known.change(
    "loss-is-not-weighted",
    ("loss = loss + shares[m] * y", "loss = loss + y / len(micro_batches)"),
    fact="the gradients are weighted by counted targets, but the loss is the plain mean of the losses",
    question="Is the loss that you return the loss whose gradients you return?",
)
known.change(
    "loss-on-the-last-rank-alone",
    ("group.all_sum(loss)", "loss"),
    fact="the loss is 0 on every rank but the last",
    question="Which ranks know the loss after the last backward pass, and which must return it?",
)
known.change(
    "loss-averaged-over-ranks",
    ("group.all_sum(loss)", "group.all_sum(loss) / group.size"),
    fact="the loss is divided by the number of ranks",
    question="How many ranks compute a loss? What do the others add to the sum?",
)
known.change(
    "last-micro-batch-alone",
    ("sums = {name: total + grads[name] for name, total in sums.items()}", "sums = grads"),
    fact="the gradients are those of the last micro-batch instead of the sum over all",
    question="What happens to the first micro-batch's gradients when those of the second one come?",
)
known.change(
    "divided-by-zero",
    ("max(1, sum(counts))", "sum(counts)"),
    fact="the total is 0 and divides if no target counts",
    question="Every row of a step is padding. What is 0 / 0, and what should the gradient be?",
)
known.change(
    "nan-without-targets",
    (SHARES, "shares = [mx.array(count) / mx.array(sum(counts)) for count in counts]"),
    fact="the total is 0 and divides if no target counts, so that all becomes NaN",
    question="Every row of a step is padding. What does MLX return for 0 / 0, and what should the gradient be?",
)
known.change(
    "gradient-sent-first",
    ("if following and following.forward:", "if False:"),
    fact="a stage sends a gradient before it receives its next activation",
    question="Stage 0 sends an activation and blocks until it is received. What does stage 1 do at this moment?",
)
known.change(
    "copies-on-their-own",
    ("if stage.has_copy:", "if False:"),
    fact="the two copies of a tied embedding keep their own gradients",
    question="In one process, a tied embedding's gradient has two parts. Which of them does the first stage have?",
)
known.change(
    "input-kept",
    ("inputs.pop(m)", "inputs[m]"),
    fact="an input is held after its backward pass",
    question="How many inputs does a stage hold at the end of the step, and what are they for?",
)
known.change(
    "evaluated-at-the-end",
    ("mx.eval(loss, sums)", "pass"),
    fact="the sums of the gradients are not evaluated after each backward pass",
    question="MLX is lazy. Which arrays does the sum of eight gradients keep in memory until it is computed?",
)
known.change(
    "ring-closed",
    ("mx.array(0.0) if stage.first else group.receive(shape, dtype, group.left)",
     "group.receive(shape, dtype, group.left) if group.size > 1 else mx.array(0.0)"),
    fact="the first stage waits for an activation of the last one",
    question="A ring has no first rank, but a pipeline has. From whom does stage 0 receive its input?",
)  # fmt: skip
known.change(
    "gradient-from-the-left",
    ("group.receive(*stage.activation(batch), group.right)", "group.receive(*stage.activation(batch), group.left)"),
    fact="the gradient of the output is expected from the left neighbor",
    question="With two ranks, both neighbors are the same rank. And with three: who has the gradient of your output?",
)
known.change(
    "shape-of-the-first-micro-batch",
    ("shape, dtype = stage.activation(micro_batches[m])", "shape, dtype = stage.activation(micro_batches[0])"),
    fact="every activation is expected in the shape of the first micro-batch's",
    question="The last micro-batch has fewer rows. Which shape does its activation have?",
)
known.change(
    "sum-in-one-copy",
    ("sums[EMBEDDING] = sums[EMBEDDING] + _other_copy(stage, sums[EMBEDDING], group)",
     """own = sums[EMBEDDING]
if stage.first:
    sums[EMBEDDING] = own + group.receive(own.shape, own.dtype, group.left)
else:
    group.send(own, group.right)"""),
    fact="only the first stage's copy of the embedding gets the sum of the gradients",
    question="Both copies are updated by their own rank's optimizer. Are they still equal after the step?",
)  # fmt: skip


@known.accepted("a list of what is still to run")
def by_list(stage, params, micro_batches, order, group):
    counts = [int((batch.targets != -100).sum().item()) for batch in micro_batches]
    total, held, loss, sums = max(1, sum(counts)), {}, mx.array(0.0), {}

    def arrives(m):
        return group.receive(*stage.activation(micro_batches[m]), group.left)

    waiting = list(order)
    early = None
    while waiting:
        forward, m = waiting.pop(0)
        rows = micro_batches[m]
        if forward:
            held[m] = mx.array(0.0) if stage.first else arrives(m) if early is None else early
            early = None
            if not stage.last:
                group.send(stage.forward(params, held[m], rows), group.right)
            continue
        dy = mx.array(counts[m] / total) if stage.last else group.receive(*stage.activation(rows), group.right)
        y, grads, dx = stage.backward(params, held.pop(m), rows, dy)
        if stage.last:
            loss = loss + y * counts[m] / total
        sums = {name: grads[name] if not sums else sums[name] + grads[name] for name in grads}
        mx.eval(sums, loss)
        if waiting and waiting[0][0] and not stage.first:
            early = arrives(waiting[0][1])
        if not stage.first:
            group.send(dx, group.left)
    if stage.has_copy:
        other = None
        own = sums[EMBEDDING]
        peer = group.left if stage.first else group.right
        if stage.last:
            group.send(own, peer)
        other = group.receive(own.shape, own.dtype, peer)
        if stage.first:
            group.send(own, peer)
        sums[EMBEDDING] = own + other
    return group.all_sum(loss), sums


@known.accepted("the copies' gradients by all_sum")
def by_all_sum(stage, params, micro_batches, order, group):
    shapes = [stage.activation(batch) for batch in micro_batches]
    counts = [int((batch.targets != -100).sum().item()) for batch in micro_batches]
    inputs, loss, sums = {}, mx.array(0.0), {name: mx.zeros(w.shape) for name, w in params.items()}
    for position, (forward, m) in enumerate(order):
        if forward:
            if m not in inputs:
                inputs[m] = mx.array(0.0) if stage.first else group.receive(*shapes[m], group.left)
            y = stage.forward(params, inputs[m], micro_batches[m])
            if stage.last:
                loss = loss + counts[m] / max(1, sum(counts)) * y
            else:
                group.send(y, group.right)
            continue
        share = mx.array(counts[m] / max(1, sum(counts)))
        dy = share if stage.last else group.receive(*shapes[m], group.right)
        _, grads, dx = stage.backward(params, inputs.pop(m), micro_batches[m], dy)
        for name, grad in grads.items():
            sums[name] = sums[name] + grad
        mx.eval(sums)
        if position + 1 < len(order) and order[position + 1][0]:
            n = order[position + 1][1]
            inputs[n] = mx.array(0.0) if stage.first else group.receive(*shapes[n], group.left)
        if not stage.first:
            group.send(dx, group.left)
    if group.size > 1:
        # Every rank takes part, with zeros if it has no copy; whether there are copies, all must know.
        shape = params[EMBEDDING].shape if EMBEDDING in params else None
        size = group.all_max(mx.array(shape if stage.has_copy else [0, 0], mx.int32))
        if size[0].item():
            total = group.all_sum(sums[EMBEDDING] if stage.has_copy else mx.zeros(size.tolist()))
            if stage.has_copy:
                sums[EMBEDDING] = total
    return group.all_sum(loss), sums
