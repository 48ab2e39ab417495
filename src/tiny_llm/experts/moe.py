"""The sparse block that stands in the place of an MLP: a router, and experts of which each token uses a few."""

import mlx.core as mx

from ..basics import silu
from .grouped import Grouped
from .router import route


class SparseMoE:
    """Several MLPs side by side: each token goes through k of X, and their outputs are added up by weight.

    Letters: E hidden size, I an expert's width, X experts, k those that a token goes to.
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
        """Keep the weights, those of all experts stacked.

        Args:
            gate: X x E, the router's.
            w_gate: X x I x E. That of expert x is w_gate[x], an MLP's as `Qwen3MLP` takes it; the others alike.
            w_up: X x I x E.
            w_down: X x E x I.
            top_k: k.
            normalize: whether a token's weights are made to sum to one, as in `route`.

        Raises:
            ValueError: w_up or w_down has not the shape that gate and w_gate ask for, or these two do not fit each
                other. The message names the weight, and says the shape that it has and the one that is needed.
        """
        raise NotImplementedError("4.5.3 The sparse block")

    def __call__(self, x: mx.array) -> mx.array:
        """Route, let each expert compute its tokens, and add up what a token's experts give, each times its weight.

        An expert is w_down(silu(w_gate(x)) * w_up(x)). The weights of one to which no token goes are not looked at:
        even a NaN there changes nothing.

        Args:
            x: N.. x L x E.

        Returns:
            N.. x L x E, in the dtype that x and the weights share. The arguments are not changed.

        Raises:
            ValueError: top_k is not one of 1 to X.

        Source: Shazeer et al. 2017; Yang et al. 2025, section 2; `mlx_lm.models.qwen3_moe.Qwen3MoeSparseMoeBlock`.
        """
        raise NotImplementedError("4.5.3 The sparse block")
