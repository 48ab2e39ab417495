"""Runs code that uses `mx.fast.metal_kernel` on the simulator."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from .kernel import metal_kernel
from .options import OnFault, default_on_fault


@contextmanager
def patched(on_fault: OnFault = "raise") -> Iterator[None]:
    """Run kernels that are made within the block by `mx.fast.metal_kernel` on the simulator.

    Within it, `mx.metal.is_available()` is true, and functions that `mx.compile` has made run uncompiled, because the
    simulator needs the values of a kernel's inputs. Kernels that were made before are not changed. `on_fault` is the
    default of all kernels of the simulator that run within the block.
    """
    fast: Any = mx.fast
    before = fast.metal_kernel, mx.metal.is_available
    nested = before[0] is metal_kernel
    with default_on_fault(on_fault):
        fast.metal_kernel, mx.metal.is_available = metal_kernel, lambda: True
        mx.disable_compile()
        try:
            yield
        finally:
            if not nested and not os.environ.get("MLX_DISABLE_COMPILE"):
                mx.enable_compile()
            fast.metal_kernel, mx.metal.is_available = before
