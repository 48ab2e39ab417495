"""Runs Metal kernels on a CPU, and says what is wrong with them and at which line. See README.md.

`metal_kernel` is `mlx.core.fast.metal_kernel`, by its signature and by what it computes. A kernel that does what it
must not raises a `KernelFault`; `kernel.counters` says what the last run has moved. `prepare` compiles what all kernels
need, which the first of them does otherwise.
"""

from .compiling import NoCompiler, prepare
from .counters import Counters
from .faults import KernelFault, Kind
from .kernel import Kernel, metal_kernel

__all__ = ["Counters", "Kernel", "KernelFault", "Kind", "NoCompiler", "metal_kernel", "prepare"]
