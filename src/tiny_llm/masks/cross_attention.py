"""Attention from one text to another: the queries of a decoder, the keys and values of what an encoder has read."""

import mlx.core as mx

from ..basics import linear
from .attention import masked_attention
from .masks import attention_mask


class MultiHeadCrossAttention:
    """Tokens of one text look things up in another one, the memory, whose vectors an encoder may have made.

    Letters: B batch, L queries, S tokens of the memory, E hidden size, M the memory's, H heads, D head dimension.
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
        """Keep weights and biases, laid out as `linear` takes them. D is the number of wq's rows over H.

        Args:
            num_heads: H.
            wq: (H * D) x E, the query projection.
            wk: (H * D) x M, the key projection.
            wv: (H * D) x M, the value projection.
            wo: E x (H * D), the output projection.
            bq, bk, bv: H * D, the biases of the first three; None adds nothing.
            bo: E, that of wo.

        All have the dtype of the vectors to come.

        Raises:
            ValueError: wq's rows are not a multiple of num_heads, or a weight or a bias has another shape than those
                above. The message names it and says how many rows wq has, or the shape that it has and needs.
        """
        raise NotImplementedError("4.1.3 Cross-attention")

    def read(self, memory: mx.array) -> tuple[mx.array, mx.array]:
        """The keys and values of a memory. They stay as they are while a decoder writes: they are computed once.

        Args:
            memory: B x S x M.

        Returns:
            Keys and values, B x H x S x D each, in memory's dtype.
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
        """Look things up in a memory that has been read. Nothing of it is later than x: there is no causal mask.

        Args:
            x: B x L x E, the tokens that ask.
            key: B x H x S x D, of `read`.
            value: B x H x S x D, of `read`.
            mask: bool or float, L x S, B x L x S or B x H x L x S, as `attention_mask` takes it. A float mask may hold
                numbers that x's dtype cannot hold.
            key_mask: bool or float, B x S: which tokens of the memory are there, and no padding.

        Returns:
            B x L x E, in x's dtype: bo, or zeros, for a token from which the whole memory is hidden. The arguments are
            not changed.

        Raises:
            ValueError: of `attention_mask`.

        Source: Vaswani et al. 2017, section 3.2.3; `torch.nn.MultiheadAttention`, in whose boolean masks True hides.
        """
        raise NotImplementedError("4.1.3 Cross-attention")
