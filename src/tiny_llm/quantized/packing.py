"""Small whole numbers in words of 32 bits: eight of 4 bits, or four of 8 bits."""

import mlx.core as mx


def pack(values: mx.array, bits: int = 4) -> mx.array:
    """Put as many numbers as fit into each word. The first one has its lowest bits, the last one its highest.

    Args:
        values: N.. x I, of any integer dtype, from 0 to 2**bits - 1. I is a multiple of 32 / bits. It is not changed.
        bits: of a number, 4 or 8.

    Returns:
        N.. x (I * bits / 32), uint32.

    Raises:
        ValueError: bits is neither 4 nor 8, or I does not fill whole words. The message says the number that is wrong.

    Source: `mx.quantize`, whose words have this order.
    """
    raise NotImplementedError("2.3.1 Pack")


def unpack(packed: mx.array, bits: int = 4) -> mx.array:
    """Take the numbers out of their words again.

    Args:
        packed: N.. x P, uint32, as `pack` gives it. It is not changed.
        bits: of a number, 4 or 8.

    Returns:
        N.. x (P * 32 / bits), uint32, from 0 to 2**bits - 1.

    Raises:
        ValueError: bits is neither 4 nor 8. The message says it.
    """
    raise NotImplementedError("2.3.2 Unpack")
