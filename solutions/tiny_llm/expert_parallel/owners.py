"""Which rank holds which experts. Given."""


def experts_of(rank: int, ranks: int, experts: int) -> range:
    """Return the experts that a rank holds: successive ones, on all ranks equally many, up to one.

    Raises:
        ValueError: there are more ranks than experts.
    """
    if ranks > experts:
        raise ValueError(f"{experts} experts cannot be divided among {ranks} ranks: use at most {experts}")
    return range(experts * rank // ranks, experts * (rank + 1) // ranks)
