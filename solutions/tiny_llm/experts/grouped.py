"""Tokens sorted by their experts, so that each expert multiplies all of its tokens at once."""

import mlx.core as mx
import numpy as np

from ..basics import linear


class Grouped:
    """One row for each token and each of its experts, those of expert 0 first, then those of expert 1, and so on.

    Letters: k experts of a token, X experts in all, P rows: as many as there are tokens, times k.
    """

    def __init__(self, indices: mx.array, num_experts: int) -> None:
        """Sort by expert, and count.

        Args:
            indices: N.. x k, the experts of each token, as `route` gives them.
            num_experts: X.

        Raises:
            ValueError: an index is not one of 0 to X - 1. The message says X.
        """
        pairs = indices.flatten()  # P: row p is token p // k
        self.shape = indices.shape
        self.order = mx.argsort(pairs)  # P: which row comes first, second, ...
        self.places = mx.argsort(self.order)  # P: the inverse: where each row has gone
        counts = mx.sum(pairs[:, None] == mx.arange(num_experts), axis=0)  # X
        self.counts = [int(count) for count in np.array(counts)]  # for the loop in `linear`: MLX computes them here
        if sum(self.counts) != pairs.size:
            raise ValueError(f"an index is none of the {num_experts} experts, which are 0 to {num_experts - 1}")

    def gather(self, x: mx.array) -> mx.array:
        """Each token, once for each of its experts, sorted by expert.

        Args:
            x: N.. x I, one row for each token.

        Returns:
            P x I, in x's dtype. Rows of the same expert come in any order.
        """
        tokens = x.reshape(-1, x.shape[-1])
        return tokens[self.order // self.shape[-1]]

    def linear(self, rows: mx.array, w: mx.array) -> mx.array:
        """Multiply each row by the weights of its expert: one product for each expert that has rows.

        Args:
            rows: P x I, sorted as `gather` sorts them.
            w: X x O x I, a matrix for each expert, laid out as `linear` takes it.

        Returns:
            P x O, in the dtype that both share, in the order of the rows. The weights of an expert without rows are not
            looked at: even a NaN there changes nothing. No matrix is copied for each row.

        Source: Gale et al. 2022; `mx.gather_mm`.
        """
        results, first = [], 0
        for expert, count in enumerate(self.counts):
            if count:
                results.append(linear(rows[first : first + count], w[expert]))  # count x O
                first += count
        return mx.concatenate(results)

    def scatter(self, rows: mx.array) -> mx.array:
        """Put every row back to its token.

        Args:
            rows: P x O, sorted as `gather` sorts them.

        Returns:
            N.. x k x O: what comes out for a token, at the places that its experts have in `indices`.
        """
        return rows[self.places].reshape(*self.shape, -1)
