"""Whether known programs do the same again, and right ones the same as the solution."""

import ctypes
import math
import time

from ..testkit.outcomes import Program, outcome
from ..testkit.variants import Variant, Variants

M_PERTURB = -6  # with which byte glibc fills memory that it hands out or takes back
REPEAT_SECONDS = 0.5  # for a known mistake that is run again


def repeats(variants: Variants, variant: Variant) -> bool:
    """Return whether a known program does the same again while memory that nothing has written holds other bytes."""
    fill = getattr(ctypes.CDLL(None), "mallopt", lambda option, value: 0)  # glibc has it
    fill(M_PERTURB, 170)
    try:
        return equals(variants, variant.program, variant, REPEAT_SECONDS)
    finally:
        fill(M_PERTURB, 0)


def equals(variants: Variants, subject: Program, known: Variant, seconds: float = math.inf) -> bool:
    """Return whether a program has a known one's results on the probes, or on as many as fit into some seconds.

    There are two tries, as a process may be late on a busy machine.
    """

    def alike() -> bool:
        until = time.monotonic() + seconds
        probes = (each for each in enumerate(variants.probes) if time.monotonic() < until)
        return all(variants.equal(outcome(probe.run, subject), known, number) for number, probe in probes)

    return alike() or alike()
