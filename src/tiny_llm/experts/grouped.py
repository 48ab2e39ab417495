"""Tokens sorted by their experts, so that each expert multiplies all of its tokens at once."""

import mlx.core as mx

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
        raise NotImplementedError("4.5.2 Tokens sorted by expert")

    def gather(self, x: mx.array) -> mx.array:
        """Each token, once for each of its experts, sorted by expert.

        Args:
            x: N.. x I, one row for each token.

        Returns:
            P x I, in x's dtype. Rows of the same expert come in any order.
        """
        raise NotImplementedError("4.5.2 Tokens sorted by expert")

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
        raise NotImplementedError("4.5.2 Tokens sorted by expert")

    def scatter(self, rows: mx.array) -> mx.array:
        """Put every row back to its token.

        Args:
            rows: P x O, sorted as `gather` sorts them.

        Returns:
            N.. x k x O: what comes out for a token, at the places that its experts have in `indices`.
        """
        raise NotImplementedError("4.5.2 Tokens sorted by expert")
