"""The sparse MoE block with its experts on several ranks: tokens travel to their experts, and the outputs back."""

from collections.abc import Sequence

import mlx.core as mx

from ..basics import silu
from ..distributed.group import Group
from ..experts.grouped import Grouped
from ..experts.router import route


class ExpertParallelMoE:
    """`SparseMoE` over ranks: each rank has tokens of its own, the router, and some of the experts.

    Letters: E hidden size, I an expert's width, X experts in all, k experts per token, R ranks.
    """

    def __init__(
        self,
        gate: mx.array,
        w_gate: mx.array,
        w_up: mx.array,
        w_down: mx.array,
        top_k: int,
        normalize: bool,
        group: Group,
    ) -> None:
        """Store the router and this rank's experts, those of `experts_of`, stacked.

        Args:
            gate: X x E, the router's, the same on all ranks.
            w_gate: X_own x I x E, for this rank's X_own experts, in order.
            w_up: X_own x I x E.
            w_down: X_own x E x I.
            top_k: k.
            normalize: as in `route`.
            group: the R ranks.

        Raises:
            ValueError: there are more ranks than experts, or w_gate, w_up or w_down does not have X_own experts. The
                message states the numbers, and names the weight.
        """
        raise NotImplementedError("6.3.3 Experts over ranks")

    def all_to_all(self, parts: Sequence[mx.array], rows: Sequence[Sequence[int]]) -> list[mx.array]:
        """Send one part to each rank, and return the parts that all ranks have sent to this one.

        All ranks call this together. Only neighbors of the ring reach each other, and `group.send` may block until the
        other rank receives. In each of R - 1 steps, every rank sends what is still traveling to its right neighbor,
        receives from its left neighbor, and keeps the part that is for itself. So a row for the rank d places to the
        right is sent d times, and no row is sent more often. Nothing is sent if no row is traveling.

        Args:
            parts: R arrays, n x E, of one dtype. parts[r] is for rank r; this rank's own part is not sent.
            rows: rows[s][r] is the number of rows from rank s to rank r, any of them may be 0. All ranks know all.

        Returns:
            R arrays: the part from each rank, by rank, rows in the order in which they were sent.
        """
        raise NotImplementedError("6.3.3 Experts over ranks")

    def __call__(self, x: mx.array) -> mx.array:
        """Return what `SparseMoE` with all experts returns for this rank's tokens, up to rounding.

        All ranks call this together. Each routes its own tokens. Counts go first: with one `group.all_gather` of an
        array of X int32, all ranks know how many rows each rank has for each expert. Then `all_to_all` takes one row
        per token and expert to the rank that holds the expert (dispatch), and takes the outputs back (combine).

        Args:
            x: N.. x L x E, this rank's tokens, at least one. Ranks may have different numbers of tokens, and an expert,
                or all experts of a rank, may get none; the weights of an expert without tokens are never read.

        Returns:
            N.. x L x E, in the dtype that x and the weights share. The arguments are not changed.

        Raises:
            ValueError: top_k is not in 1 .. X.

        Source: Lepikhin et al. 2020; Rajbhandari et al. 2022.
        """
        raise NotImplementedError("6.3.3 Experts over ranks")
