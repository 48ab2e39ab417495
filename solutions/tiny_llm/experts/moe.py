"""The sparse MoE block that replaces an MLP: a router, and experts of which each token uses a few."""

import mlx.core as mx

from ..basics import silu
from .grouped import Grouped
from .router import route


class SparseMoE:
    """X expert MLPs: each token goes through k of them, and their outputs are summed, weighted by the router.

    Letters: E hidden size, I an expert's width, X experts, k experts per token.
    """

    def __init__(
        self,
        gate: mx.array,
        w_gate: mx.array,
        w_up: mx.array,
        w_down: mx.array,
        top_k: int,
        normalize: bool,
    ) -> None:
        """Store the weights, stacked over the experts.

        Args:
            gate: X x E, the router's.
            w_gate: X x I x E. w_gate[x] is expert x's, as `Qwen3MLP` takes it; w_up and w_down likewise.
            w_up: X x I x E.
            w_down: X x E x I.
            top_k: k.
            normalize: whether a token's weights are normalized to sum to one, as in `route`.

        Raises:
            ValueError: gate and w_gate do not fit each other, or w_up or w_down does not fit them. The message names
                the weight and states its shape and the one needed, each as in "(5, 6, 7)".
        """
        experts, size = gate.shape
        width = w_gate.shape[1]
        up, down = (experts, width, size), (experts, size, width)
        for name, w, wanted in [("w_gate", w_gate, up), ("w_up", w_up, up), ("w_down", w_down, down)]:
            if w.shape != wanted:
                raise ValueError(f"{name} has shape {w.shape}, but {wanted} is needed")
        self.gate, self.top_k, self.normalize = gate, top_k, normalize
        self.w_gate, self.w_up, self.w_down = w_gate, w_up, w_down

    def __call__(self, x: mx.array) -> mx.array:
        """Route each token to k experts and return the weighted sum of their outputs.

        An expert is w_down(silu(w_gate(x)) * w_up(x)). The weights of an expert without tokens are never read: even a
        NaN there changes nothing.

        Args:
            x: N.. x L x E.

        Returns:
            N.. x L x E, in the dtype that x and the weights share. The arguments are not changed.

        Raises:
            ValueError: top_k is not in 1 .. X.

        Source: Shazeer et al. 2017; Yang et al. 2025, section 2; `mlx_lm.models.qwen3_moe.Qwen3MoeSparseMoeBlock`.
        """
        indices, weights = route(x, self.gate, self.top_k, self.normalize)  # N.. x L x k
        groups = Grouped(indices, len(self.gate))
        rows = groups.gather(x)  # P x E
        inner = silu(groups.linear(rows, self.w_gate)) * groups.linear(rows, self.w_up)  # P x I
        outputs = groups.scatter(groups.linear(inner, self.w_down))  # N.. x L x k x E
        return mx.sum(outputs * weights[..., None], axis=-2)
