"""Layer factories of a tensor-parallel model: any other factory's matrices, with all-reduces where they are needed."""

import mlx.core as mx

from ..distributed.group import Group
from ..qwen3_cached.parts import Dense, Projection
from .shards import ROW_PARALLEL


class ParallelParts(Dense):
    """Another factory's projections of a rank's weights: the row-parallel ones are summed over the ranks."""

    def __init__(self, group: Group, inner: Dense) -> None:
        """Store the group and the factory that builds the rank's own matrices, dense or quantized."""
        self.group, self.inner = group, inner

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """Return the function x -> x @ W.T + b of the whole W, or of the rank's rows of it.

        A column-parallel matrix maps the whole x to the rank's own outputs, without communication. A row-parallel one
        (`o_proj`, `down_proj`) maps the rank's own inputs to all outputs, equal on all ranks, with one all_sum.

        Args:
            weights: the rank's, as `Partition.take` returns them.
            name: as for `Dense.projection`.
            bias: whether to add `name.bias`, once: to the whole sum if W is row-parallel.

        Raises:
            KeyError: a weight is missing.
        """
        if name.rpartition(".")[2] not in ROW_PARALLEL:
            return self.inner.projection(weights, name, bias)
        partial = self.inner.projection(weights, name)
        b = weights[f"{name}.bias"] if bias else None

        def project(x: mx.array) -> mx.array:
            y = self.group.all_sum(partial(x))
            return y if b is None else y + b.astype(y.dtype)

        return project
