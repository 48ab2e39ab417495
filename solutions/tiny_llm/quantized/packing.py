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
    shifts = _shifts(bits)
    if values.shape[-1] % len(shifts):
        raise ValueError(f"{values.shape[-1]} numbers of {bits} bits do not fill whole words of {len(shifts)}")
    apart = mx.unflatten(values.astype(mx.uint32), -1, (-1, len(shifts)))  # N.. x words x numbers of a word
    return mx.sum(apart << shifts, axis=-1)  # no two have a bit in common, so the sum is their union


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
    apart: mx.array = packed[..., None] >> _shifts(bits)  # N.. x P x numbers of a word
    return mx.flatten(apart & (2**bits - 1), -2)


def _shifts(bits: int) -> mx.array:
    """Return the bit offset of each value of a word."""
    if bits not in (4, 8):
        raise ValueError(f"bits is {bits}, but 4 or 8 is needed")
    return mx.arange(0, 32, bits, dtype=mx.uint32)
