"""Grouped matrix products: tokens are sorted by expert, so that each expert multiplies all of its tokens at once."""

import mlx.core as mx

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
        raise NotImplementedError("4.5.2 Tokens sorted by expert")

    def gather(self, x: mx.array) -> mx.array:
        """Return each token once for each of its experts, sorted by expert.

        Args:
            x: N.. x I, one row per token.

        Returns:
            P x I, in x's dtype. Rows of the same expert come in any order.
        """
        raise NotImplementedError("4.5.2 Tokens sorted by expert")

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
        raise NotImplementedError("4.5.2 Tokens sorted by expert")

    def scatter(self, rows: mx.array) -> mx.array:
        """Undo the sort of `gather`.

        Args:
            rows: P x O, in the order of `gather`.

        Returns:
            N.. x k x O: each token's outputs, in the order of its experts in `indices`.
        """
        raise NotImplementedError("4.5.2 Tokens sorted by expert")
