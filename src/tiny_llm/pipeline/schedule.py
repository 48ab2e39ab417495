"""1F1B: the order of passes in which a stage holds few activations."""

from .passes import Pass


def one_forward_one_backward(rank: int, stages: int, micro_batches: int) -> list[Pass]:
    """Return the order in which a stage runs its forward and backward passes.

    A forward pass makes activations, which are held until the backward pass of the same micro-batch. A stage starts
    with forward passes (warm-up) until as many micro-batches are held as there are stages from this one to the last, at
    most all of them. From then on each backward pass is followed by a forward pass (steady state), until no forward
    pass is left; then the remaining backward passes run (cool-down). Forward passes and backward passes are each in
    the order of the micro-batches.

    Args:
        rank: the stage, from 0, the one with the embedding, to stages - 1, the one with the loss.
        stages: P.
        micro_batches: M, at least 1; it may be smaller than P.

    Returns:
        2 * M passes. At most min(P - rank, M) micro-batches are held at any time. If all stages are equally fast, the
        step is as short as in GPipe's order.

    Raises:
        ValueError: rank is not in 0 .. P - 1, or there is no micro-batch. The message states the numbers.

    Source: Narayanan et al. 2021, section 2.2 (PipeDream-Flush).
    """
    raise NotImplementedError("6.3.1 The 1F1B schedule")
