"""The sparse MoE block with its experts on several ranks: tokens travel to their experts, and the outputs back."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from ..basics import silu
from ..distributed.group import Group
from ..experts.grouped import Grouped
from ..experts.router import route
from .owners import experts_of


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
        self.owned = [experts_of(rank, group.size, len(gate)) for rank in range(group.size)]
        needed = len(self.owned[group.rank])
        for name, w in [("w_gate", w_gate), ("w_up", w_up), ("w_down", w_down)]:
            if len(w) != needed:
                raise ValueError(f"{name} has {len(w)} experts, but rank {group.rank} holds {needed} of {len(gate)}")
        self.gate, self.top_k, self.normalize, self.group = gate, top_k, normalize, group
        self.w_gate, self.w_up, self.w_down = w_gate, w_up, w_down

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
        rank, ranks = self.group.rank, self.group.size
        found = list(parts)  # those of other ranks are replaced below
        size, dtype = parts[0].shape[1], parts[0].dtype
        traveling = mx.concatenate([parts[(rank + d) % ranks] for d in range(1, ranks)] or [parts[rank][:0]])
        for step in range(1, ranks):
            source = (rank - step) % ranks  # whose rows arrive now, for the ranks `step` places to its right and beyond
            count = sum(rows[source][(source + d) % ranks] for d in range(step, ranks))
            arrived = self._shift(traveling, (count, size), dtype)
            own = rows[source][rank]
            found[source], traveling = arrived[:own], arrived[own:]
        return found

    def _shift(self, x: mx.array, shape: tuple[int, int], dtype: mx.Dtype) -> mx.array:
        """Send to the right, and receive from the left; odd ranks receive first, or all ranks would wait in `send`."""
        arrived = mx.zeros(shape, dtype)
        for receives in (self.group.rank % 2 == 1, self.group.rank % 2 == 0):
            if receives and shape[0]:
                arrived = self.group.receive(shape, dtype, self.group.left)
            elif not receives and len(x):
                self.group.send(x, self.group.right)
        return arrived

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
        indices, weights = route(x, self.gate, self.top_k, self.normalize)  # N.. x L x k
        groups = Grouped(indices, len(self.gate))
        gathered = self.group.all_gather(mx.array(groups.counts, mx.int32))
        counts = np.array(gathered).reshape(self.group.size, -1)  # R x X
        rows = [[int(counts[s, list(owned)].sum()) for owned in self.owned] for s in range(self.group.size)]

        sent = groups.gather(x)  # P x E, by expert, and so by rank
        arrived = self.all_to_all(_cut(sent, rows[self.group.rank]), rows)
        outputs = self._experts(mx.concatenate(arrived), counts[:, list(self.owned[self.group.rank])])
        mine = [by_rank[self.group.rank] for by_rank in rows]  # the rows of each rank that have arrived here
        returned = self.all_to_all(_cut(outputs, mine), list(zip(*rows, strict=True)))
        return mx.sum(groups.scatter(mx.concatenate(returned)) * weights[..., None], axis=-2)

    def _experts(self, rows: mx.array, counts: "np.ndarray[tuple[int, ...], np.dtype[np.int32]]") -> mx.array:
        """Apply this rank's experts to rows that are sorted by rank and then by expert; counts is R x X_own."""
        if not len(rows):
            return rows
        ranks, experts = counts.shape
        groups = Grouped(mx.array(np.repeat(np.tile(np.arange(experts), ranks), counts.flatten())[:, None]), experts)
        x = groups.gather(rows)
        inner = silu(groups.linear(x, self.w_gate)) * groups.linear(x, self.w_up)
        return groups.scatter(groups.linear(inner, self.w_down)).squeeze(1)


def _cut(rows: mx.array, lengths: Sequence[int]) -> list[mx.array]:
    """Cut rows into parts of these lengths."""
    ends = np.cumsum(lengths)
    return [rows[int(end) - length : int(end)] for end, length in zip(ends, lengths, strict=True)]
