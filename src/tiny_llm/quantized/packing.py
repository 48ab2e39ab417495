"""Small integers packed into 32-bit words: eight of 4 bits, or four of 8 bits."""

import mlx.core as mx


def pack(values: mx.array, bits: int = 4) -> mx.array:
    """Pack integers into 32-bit words: the first value of a word in its lowest bits, the last in its highest.

    Args:
        values: N.. x I, of any integer dtype, from 0 to 2**bits - 1. I is a multiple of 32 / bits. It is not changed.
        bits: per value, 4 or 8.

    Returns:
        N.. x (I * bits / 32), uint32.

    Raises:
        ValueError: bits is neither 4 nor 8, or I does not fill whole words. The message states the wrong number.

    Source: `mx.quantize`, which uses the same order.
    """
    raise NotImplementedError("2.3.1 Pack")


def unpack(packed: mx.array, bits: int = 4) -> mx.array:
    """Unpack what `pack` has packed.

    Args:
        packed: N.. x P, uint32. It is not changed.
        bits: per value, 4 or 8.

    Returns:
        N.. x (P * 32 / bits), uint32, from 0 to 2**bits - 1.

    Raises:
        ValueError: bits is neither 4 nor 8. The message states it.
    """
    raise NotImplementedError("2.3.2 Unpack")
