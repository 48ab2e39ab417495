"""What each way to use several ranks spends on communication, by the cost model. Given."""

from typing import NamedTuple

from ..distributed.cost import CostModel


class Work(NamedTuple):
    """A step of a model: of training, or of decoding."""

    parameters: int
    layers: int
    hidden_size: int  # E
    tokens: int  # of the step, on all ranks together
    training: bool  # whether there are backward passes and gradients
    experts_per_token: int = 8  # k, if the MLPs are experts
    num_bytes: int = 2  # of a number: bfloat16


def communication_seconds(work: Work, ranks: int, link: CostModel, micro_batches: int) -> dict[str, float]:
    """Return the seconds that a step spends on messages, by the name of the method.

    No message overlaps with computation. Each is one hop on a ring, on which all ranks can send at the same time.

    data: an all-reduce of all gradients; nothing without a backward pass.
    tensor: two all-reduces of the activations per layer and pass.
    pipeline: messages of one micro-batch's activations, as many as there are on the longest chain from the first to the
        last pass. The bubble is not in it.
    expert: two all-to-alls per layer and pass, with the same number of rows from each rank to each.
    """
    passes = 2 if work.training else 1
    row = work.hidden_size * work.num_bytes
    part = work.tokens * work.experts_per_token * row / ranks**2  # from one rank to one other
    all_to_all = sum(link.message((ranks - step) * part) for step in range(1, ranks))
    return {
        "data": link.ring_all_reduce(work.parameters * work.num_bytes, ranks) if work.training else 0.0,
        "tensor": passes * work.layers * 2 * link.ring_all_reduce(work.tokens * row, ranks),
        "pipeline": passes * (micro_batches + ranks - 2) * link.message(work.tokens * row / micro_batches),
        "expert": passes * work.layers * 2 * all_to_all,
    }
