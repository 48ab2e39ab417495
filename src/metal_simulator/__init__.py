"""Runs Metal kernels on a CPU, and reports their faults with source lines.

`metal_kernel` has the signature and results of `mlx.core.fast.metal_kernel`, and takes its place within `patched`;
`metal_library` has the kernels of a whole Metal file. A faulty kernel raises `KernelFault`; `kernel.counters` has the
memory traffic of the last run. `prepare` compiles what all kernels share, otherwise the first kernel does.
"""

from .compiling import NoCompiler, prepare
from .counters import Counters
from .faults import FaultWarning, KernelFault, Kind
from .kernel import Kernel, metal_kernel
from .library import metal_library
from .patching import patched

__all__ = [
    "Counters",
    "FaultWarning",
    "Kernel",
    "KernelFault",
    "Kind",
    "NoCompiler",
    "metal_kernel",
    "metal_library",
    "patched",
    "prepare",
]
