"""pass@k: the probability that at least one of k samples is correct."""


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Estimate the probability that at least one of k samples is correct, from a larger number of samples.

    The estimate is the share of all sets of k of the given samples that contain a correct one, 1 - C(n-c, k) / C(n, k).
    It is unbiased: its mean over many sets of n samples is 1 - (1 - p)^k, where p is the probability that a sample is
    correct.

    Args:
        samples: n, how many answers to one problem were sampled.
        correct: c, how many of them are correct.
        k: how many may be tried.

    Returns:
        A float from 0 to 1, with a relative error below 1e-9 for n up to 10,000.

    Raises:
        ValueError: k is not in 1 .. n, since fewer than k samples cannot estimate pass@k, or c is not in 0 .. n. The
            message states both numbers.

    Source: Chen et al. 2021, section 2.1.
    """
    raise NotImplementedError("5.7.2 pass@k without bias")
