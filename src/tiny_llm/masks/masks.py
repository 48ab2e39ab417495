"""One additive mask of all that a caller has to say about who may look at whom."""

import mlx.core as mx

from ..attention import causal_mask


def attention_mask(
    B: int,
    H: int,
    L: int,
    S: int,
    dtype: mx.Dtype,
    mask: mx.array | None = None,
    key_mask: mx.array | None = None,
    causal: bool = False,
) -> mx.array:
    """Bring masks of every form to one, which is added to scores of B x H x L x S.

    A key is hidden from a query if any of the arguments hides it. A boolean mask says "may look": True leaves a key as
    it is, False hides it. A float mask is added, and -inf hides. What a mask's axes mean is said by how many they are,
    and by which argument it is given as, never by their sizes.

    Args:
        B: texts in the batch.
        H: heads.
        L: queries.
        S: keys.
        dtype: of the result. A number that it cannot hold becomes infinite, such as -1e9 in float16.
        mask: bool or float, with 2, 3 or 4 axes: L x S, the same for all texts and heads; B x L x S, one for each text;
            B x H x L x S, so that one for each head is 1 x H x L x S. Any of these axes may also be 1.
        key_mask: bool or float, B x S: which keys of each text are there to be looked at, for all heads and queries.
        causal: whether `causal_mask` hides the future, too: query i may look at the keys 0 to i + S - L.

    Returns:
        Four axes, which are B x H x L x S where any of the arguments has them so, and 1 elsewhere: 1 x 1 x 1 x 1 if
        there are none. 0 leaves a key as it is, -inf hides it; float masks are added up in float32. The arguments are
        not changed.

    Raises:
        ValueError: a mask is neither bool nor float; mask has another number of axes, or an axis of another size, than
            above; key_mask is not B x S; or it is causal and L > S. The message names the argument with its dtype or
            its shape.
    """
    raise NotImplementedError("4.1.1 One mask of many")
