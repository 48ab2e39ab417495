"""Known programs of task 5.4.1, gradient accumulation."""

import mlx.core as mx
import numpy as np
from tests.week5 import runs
from tests.week5.runs import micro_batches

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.4.1")


def run(program, seed, counts, dtype=mx.float32, size=5, of_loss=mx.float32):
    """Return the loss and the gradient of micro-batches with these numbers of counted targets."""
    grads, losses = normals(seed, dtype)(len(counts), size), (normals(seed + 1)(len(counts)) + 2).astype(of_loss)
    numbers = iter(range(len(counts)))

    def loss_and_grads(params, batch):
        number = next(numbers)
        return losses[number], {"w": grads[number]}

    loss, found = program(loss_and_grads, {"w": mx.zeros(size)}, micro_batches(counts))
    return loss, found["w"]


def token_0(program):
    """Return the loss of two micro-batches, of which the first has token 0 as one of its targets."""
    batches = [runs.Micro(mx.zeros((1, 3)), mx.array([row])) for row in ([0, 4, 2], [5, -100, 1])]
    losses = iter((1.0, 3.0))
    return program(lambda params, batch: (mx.array(next(losses)), {"w": mx.ones(2)}), {"w": mx.zeros(2)}, batches)[0]


def several_rows(program):
    """Return the loss of a micro-batch of three rows and one of a single row, which count 3 and 2 targets."""
    batches = [runs.Micro(mx.zeros(x.shape), x) for x in (mx.array([[1, -100]] * 3), mx.array([[4, 2]]))]
    losses = iter((1.0, 3.0))
    return program(lambda params, batch: (mx.array(next(losses)), {"w": mx.ones(2)}), {"w": mx.zeros(2)}, batches)[0]


def calls(program):
    """Return the micro-batches that loss_and_grads is called with; the second counts nothing."""
    numbers = []

    def loss_and_grads(params, batch):
        numbers.append(int(batch.tokens[0, 0].item()))
        return mx.array(1.0), {"w": mx.ones(2)}

    program(loss_and_grads, {"w": mx.zeros(2)}, micro_batches([1, 0, 2]))
    return mx.array(numbers)


def evaluated(program):
    """Return whether the first micro-batch's gradients are in memory when the second one begins."""
    active = []

    def loss_and_grads(params, batch):
        active.append(mx.get_active_memory())
        return mx.sum(params["w"]), {"w": params["w"] * 2}

    params = {"w": mx.ones(2**18)}
    mx.eval(params)
    program(loss_and_grads, params, micro_batches([2, 1]))
    return mx.array(active[1] - active[0] >= 2**20, mx.float32)


def freed(program):
    """Return whether no graph keeps the first micro-batch's activations when the second one begins."""
    active = []

    def loss_and_grads(params, batch):
        active.append(mx.get_active_memory())
        activations = mx.arange(2**20) * params["w"][0]
        return mx.mean(activations), {"w": mx.mean(mx.square(activations)) * mx.ones(2)}

    params = {"w": mx.ones(2)}
    mx.eval(params)
    program(loss_and_grads, params, micro_batches([2, 1]))
    return mx.array(active[1] - active[0] <= 2 * 2**20, mx.float32)


def kept(program):
    """Return the gradient that loss_and_grads returns every time, after the call."""
    grad = {"w": mx.array([1.0, 2.0])}
    _, found = program(lambda params, batch: (mx.array(3.0), grad), {"w": mx.zeros(2)}, micro_batches([2, 1, 4]))
    return grad["w"], found["w"]


def kept_loss(program):
    """Return the loss that loss_and_grads returns every time, after the call."""
    loss = mx.array(3.0)
    found, _ = program(lambda params, batch: (loss, {"w": mx.ones(2)}), {"w": mx.zeros(2)}, micro_batches([2, 1, 4]))
    return loss, found


known.probe_table(
    uneven=lambda program: run(program, 1, [3, 1, 2]),
    one=lambda program: run(program, 2, [4]),
    even=lambda program: run(program, 3, [2, 2, 2]),
    some_empty=lambda program: run(program, 4, [0, 3, 0, 1]),
    all_empty=lambda program: run(program, 5, [0, 0]),
    first_is_larger=lambda program: run(program, 9, [6, 1]),
    token_0=token_0,
    several_rows=several_rows,
    calls=calls,
    evaluated=evaluated,
    freed=freed,
    kept=kept,
    kept_loss=kept_loss,
    none=lambda program: mx.array(refusal(lambda: program(lambda params, batch: (mx.array(0.0), {}), {}, []))),
)
known.probe_table(
    mx.bfloat16,
    half=lambda program: run(program, 6, [1, 5, 2], mx.bfloat16),
    half_loss=lambda program: run(program, 7, [1, 2, 1], mx.bfloat16, of_loss=mx.bfloat16),
)


@known.probe(mx.bfloat16)
def many_in_half(program):
    """A bfloat16 sum of many equal parts stops growing."""
    counts, ones = [1] * 600, mx.ones(3, mx.bfloat16)
    loss, found = program(lambda params, batch: (mx.array(1.0), {"w": ones}), {"w": mx.zeros(3)}, micro_batches(counts))
    return loss, found["w"]


@known.probe(mx.bfloat16)
def cancels(program):
    """A third of 1 and two thirds of almost -0.5: rounding either of them to bfloat16 changes the sum by half."""
    grads = iter((1.0, -0.498046875))

    def loss_and_grads(params, batch):
        return mx.array(1.0), {"w": mx.full(2, next(grads), mx.bfloat16)}

    return program(loss_and_grads, {"w": mx.zeros(2)}, micro_batches([1, 2]))[1]["w"]


@known.sized("8 micro-batches, gradients of 2**18 numbers, float32")
def sized(program):
    grads, batches = {"w": normals(1)(2**18)}, micro_batches([5, 3, 8, 1, 2, 9, 4, 4])
    loss = mx.array(2.0)
    mx.eval(grads)
    return lambda: program(lambda params, batch: (loss, grads), grads, batches)[1]["w"]


SHARE = "share = count.astype(mx.float32) / total"
known.change(
    "mean-of-the-means",
    (SHARE, "share = mx.array(1 / len(micro_batches))"),
    fact="the micro-batches are averaged as if all counted equally many targets",
    question="Two micro-batches count 3 and 1 targets. How much of the large batch's mean is the second one's?",
)
known.change(
    "summed",
    (SHARE, "share = mx.array(1.0)"),
    fact="losses and gradients are added up, and never divided",
    question="You use eight micro-batches instead of four, of the same data. Should the gradient be twice as long?",
)
known.change(
    "positions-counted",
    ("counts = [count_targets(batch.targets) for batch in micro_batches]",
     "counts = [mx.array(batch.targets.size) for batch in micro_batches]"),
    fact="a micro-batch is weighted by all of its positions, ignored targets included",
    question="A row is half padding. Over how many targets is its mean loss?",
)  # fmt: skip
known.change(
    "token-0-not-counted",
    ("counts = [count_targets(batch.targets) for batch in micro_batches]",
     "counts = [mx.sum(batch.targets > 0) for batch in micro_batches]"),
    fact="targets of token 0 do not count",
    question="Which targets does count_targets leave out, and is 0 one of them?",
)  # fmt: skip
known.change(
    "rows-counted",
    ("counts = [count_targets(batch.targets) for batch in micro_batches]",
     "counts = [mx.array(len(batch)) for batch in micro_batches]"),
    fact="a micro-batch is weighted by its number of rows",
    question="One row counts 100 targets, and another 3. How much of the mean is each?",
)  # fmt: skip
known.change(
    "documents-counted",
    ("counts = [count_targets(batch.targets) for batch in micro_batches]",
     "counts = [mx.sum(batch.document_ids >= 0) for batch in micro_batches]"),
    fact="every token of a document counts, also the eos, which has no target",
    question="A document of n tokens has an eos after it. How many targets of it does the mean loss count?",
)  # fmt: skip
known.change(
    "micro-batches-without-targets-skipped",
    ("own_loss, own_grads = loss_and_grads(params, batch)",
     "if count.item() == 0 and total.item() > 1:\n    continue\nown_loss, own_grads = loss_and_grads(params, batch)"),
    fact="loss_and_grads is not called with a micro-batch that counts no target",
    question="How often does the docstring say that loss_and_grads is called?",
)  # fmt: skip
known.change(
    "skipped-without-a-gradient",
    ("own_loss, own_grads = loss_and_grads(params, batch)",
     "if count.item() == 0:\n    continue\nown_loss, own_grads = loss_and_grads(params, batch)"),
    fact="a micro-batch without targets is skipped, and no gradient is returned if all of them are",
    question="Every row of a step is padding. Which names must the gradients have, and where do you get them?",
)  # fmt: skip
known.change(
    "divided-by-the-counts-so-far",
    (
        SHARE,
        """so_far = sum(counts[1 : counts.index(count) + 1], start=counts[0])
share = count.astype(mx.float32) / mx.maximum(so_far, 1)""",
    ),
    fact="each micro-batch is divided by the targets counted up to then instead of the total",
    question="The first micro-batch counts 3 targets of 6. What is its share, and what do you divide by?",
)  # fmt: skip
known.change(
    "last-gradient-alone",
    ("sums = {name: sums[name] + part for name, part in parts.items()} if sums else parts", "sums = parts"),
    fact="the gradients are those of the last micro-batch instead of the sum over all",
    question="What happens in your code to the first micro-batch's gradients when the second one's come?",
)
known.change(
    "loss-is-not-weighted",
    ("loss = loss + share * own_loss", "loss = loss + own_loss / len(micro_batches)"),
    fact="the gradients are weighted by counted targets, but the loss is the plain mean of the losses",
    question="Is the loss that you report the loss whose gradient you return?",
)
known.change(
    "divided-by-zero",
    ("total = mx.maximum(sum(counts[1:], start=counts[0]), 1)", "total = sum(counts[1:], start=counts[0])"),
    fact="the total is 0 and divides if no target counts, so that all becomes NaN",
    question="Every row of a step is padding. What is 0 / 0, and what should the gradient be?",
)
known.change(
    "loss-not-evaluated",
    ("mx.eval(loss, sums)", "mx.eval(sums)"),
    fact="the gradients are evaluated after each micro-batch, but the loss is not, so its graph keeps the activations",
    question="Which of your arrays were still graphs when the second micro-batch began?",
)
known.change(
    "evaluated-at-the-end",
    ("mx.eval(loss, sums)", "pass"),
    fact="the gradients are not evaluated between the micro-batches",
    question="MLX is lazy. How many micro-batches' activations are in memory when the first number is computed?",
)
known.change(
    "sums-in-their-own-dtype",
    ("share * grad.astype(mx.float32)", "share.astype(grad.dtype) * grad"),
    fact="the gradients are summed in their own dtype instead of float32",
    question="What is 0.5 + 0.001 in bfloat16?",
)
known.change(
    "weighted-in-their-own-dtype",
    ("share * grad.astype(mx.float32)", "(share.astype(grad.dtype) * grad).astype(mx.float32)"),
    fact="each gradient is multiplied by its share in its own dtype, and only the sum is float32",
    question="What is a third of 1 in bfloat16?",
)
known.change(
    "float32-gradients",
    ("grad.astype(dtypes[name])", "grad"),
    fact="the gradients are float32 although loss_and_grads returns another dtype",
    question="What should be the dtype of a bfloat16 parameter's gradient?",
)


known.change(
    "loss-in-its-own-dtype",
    ("return loss, {", "return loss.astype(own_loss.dtype), {"),
    fact="the loss has the dtype of the micro-batches' losses instead of float32",
    question="The micro-batches' losses are bfloat16. In which dtype is their mean returned?",
)


PARTS = "parts = {name: share * grad.astype(mx.float32) for name, grad in own_grads.items()}"
SCALED = """parts = {}
for name, grad in own_grads.items():
    if grad.dtype == mx.float32:
        grad *= share
    parts[name] = grad if grad.dtype == mx.float32 else share * grad.astype(mx.float32)"""
known.change(
    "scaled-in-place",
    (PARTS, SCALED),
    fact="each gradient is multiplied by its share in the array that loss_and_grads returned",
    question="`grad *= 0.5`: does MLX create an array, or change the one that the caller holds, too?",
)
known.change(
    "loss-scaled-in-place",
    (
        "loss = loss + share * own_loss",
        "if own_loss.dtype == mx.float32:\n    own_loss *= share\nelse:\n    own_loss = share * own_loss\n"
        "loss = loss + own_loss",
    ),
    fact="each loss is multiplied by its share in the array that loss_and_grads returned",
    question="loss_and_grads returns the same array every time, and you multiply it by 0.5. What is it the next time?",
)
known.change(
    "added-in-place",
    (PARTS, SCALED),
    (
        "sums = {name: sums[name] + part for name, part in parts.items()} if sums else parts",
        "for name, part in parts.items():\n    if name in sums:\n        sums[name] += part\n"
        "    else:\n        sums[name] = part",
    ),
    fact="the sum is kept in the first micro-batch's own array, which changes what loss_and_grads returned",
    question="`a = b; a += 1`: what is b in MLX?",
)


@known.accepted("sums first, one division at the end")
def divided_once(loss_and_grads, params, micro_batches):
    if len(micro_batches) == 0:
        raise ValueError("at least one micro-batch is needed")
    total, loss, sums, kinds = 0, mx.array(0.0), {}, {}
    for batch in micro_batches:
        count = int(np.sum(np.array(batch.targets) != -100))
        own, grads = loss_and_grads(params, batch)
        total += count
        loss = loss + count * own
        for name, grad in grads.items():
            kinds[name] = grad.dtype
            part = grad.astype(mx.float32) * count
            sums[name] = part if name not in sums else sums[name] + part
        mx.eval(loss, *sums.values())
    return loss / max(total, 1), {name: (grad / max(total, 1)).astype(kinds[name]) for name, grad in sums.items()}
