"""Cross-attention: queries of a decoder, keys and values of an encoder's output."""

import mlx.core as mx

from ..basics import linear
from .attention import masked_attention
from .masks import attention_mask


class MultiHeadCrossAttention:
    """Attention from one sequence to another, the memory, such as an encoder's output.

    Letters: B batch, L queries, S tokens of the memory, E hidden size, M the memory's hidden size, H heads, D head
    dimension.
    """

    def __init__(
        self,
        num_heads: int,
        wq: mx.array,
        wk: mx.array,
        wv: mx.array,
        wo: mx.array,
        bq: mx.array | None = None,
        bk: mx.array | None = None,
        bv: mx.array | None = None,
        bo: mx.array | None = None,
    ) -> None:
        """Store weights and biases, laid out as `linear` takes them. D is the number of wq's rows divided by H.

        Args:
            num_heads: H.
            wq: (H * D) x E.
            wk: (H * D) x M.
            wv: (H * D) x M.
            wo: E x (H * D).
            bq, bk, bv: H * D; None adds nothing.
            bo: E; None adds nothing.

        All have the dtype of the inputs.

        Raises:
            ValueError: wq's rows are not a multiple of num_heads, or a weight's or bias's shape is not as above. The
                message names it and states wq's rows, or its shape and the one needed.
        """
        raise NotImplementedError("4.1.3 Cross-attention")

    def read(self, memory: mx.array) -> tuple[mx.array, mx.array]:
        """Return the keys and values of a memory, B x H x S x D each, in memory's dtype.

        They do not change while a decoder generates, so they are computed once.

        Args:
            memory: B x S x M.
        """
        raise NotImplementedError("4.1.3 Cross-attention")

    def __call__(
        self,
        x: mx.array,
        key: mx.array,
        value: mx.array,
        mask: mx.array | None = None,
        key_mask: mx.array | None = None,
    ) -> mx.array:
        """Attend from x to the memory. There is no causal mask: all of the memory precedes x.

        Args:
            x: B x L x E.
            key: B x H x S x D, from `read`.
            value: B x H x S x D, from `read`.
            mask: bool or float, L x S, B x L x S or B x H x L x S, as `attention_mask` takes it. A float mask's values
                may exceed the range of x's dtype.
            key_mask: bool or float, B x S: which tokens of the memory are real and which are padding.

        Returns:
            B x L x E, in x's dtype; bo, or zeros, for a token from which the whole memory is hidden. The arguments are
            not changed.

        Raises:
            ValueError: from `attention_mask`.

        Source: Vaswani et al. 2017, section 3.2.3; `torch.nn.MultiheadAttention`, in whose boolean masks True hides.
        """
        raise NotImplementedError("4.1.3 Cross-attention")
