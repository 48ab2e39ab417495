"""Grouped matrix products: tokens are sorted by expert, so that each expert multiplies all of its tokens at once."""

import mlx.core as mx
import numpy as np

from ..basics import linear


class Grouped:
    """One row per (token, expert) pair, sorted by expert: those of expert 0 first, then those of expert 1, and so on.

    Letters: k experts per token, X experts in all, P rows = tokens * k.
    """

    def __init__(self, indices: mx.array, num_experts: int) -> None:
        """Sort the pairs by expert, and count each expert's.

        Args:
            indices: N.. x k, the experts of each token, as returned by `route`.
            num_experts: X.

        Raises:
            ValueError: an index is not in 0 .. X - 1. The message states X.
        """
        pairs = indices.flatten()  # P: row p is token p // k
        self.shape = indices.shape
        self.order = mx.argsort(pairs)  # P: the permutation that sorts
        self.places = mx.argsort(self.order)  # P: its inverse
        counts = mx.sum(pairs[:, None] == mx.arange(num_experts), axis=0)  # X
        self.counts = [int(count) for count in np.array(counts)]  # evaluated here: the loop in `linear` needs ints
        if sum(self.counts) != pairs.size:
            raise ValueError(f"an index is none of the {num_experts} experts, which are 0 to {num_experts - 1}")

    def gather(self, x: mx.array) -> mx.array:
        """Return each token once for each of its experts, sorted by expert.

        Args:
            x: N.. x I, one row per token.

        Returns:
            P x I, in x's dtype. Rows of the same expert come in any order.
        """
        tokens = x.reshape(-1, x.shape[-1])
        return tokens[self.order // self.shape[-1]]

    def linear(self, rows: mx.array, w: mx.array) -> mx.array:
        """Multiply each row by its expert's matrix: one product per expert that has rows.

        Args:
            rows: P x I, in the order of `gather`.
            w: X x O x I, one matrix per expert, laid out as `linear` takes it.

        Returns:
            P x O, in the dtype that both share, in the order of the rows. The weights of an expert without rows are
            never read: even a NaN there changes nothing. No matrix is copied per row.

        Source: Gale et al. 2022; `mx.gather_mm`.
        """
        results, first = [], 0
        for expert, count in enumerate(self.counts):
            if count:
                results.append(linear(rows[first : first + count], w[expert]))  # count x O
                first += count
        return mx.concatenate(results)

    def scatter(self, rows: mx.array) -> mx.array:
        """Undo the sort of `gather`.

        Args:
            rows: P x O, in the order of `gather`.

        Returns:
            N.. x k x O: each token's outputs, in the order of its experts in `indices`.
        """
        return rows[self.places].reshape(*self.shape, -1)
