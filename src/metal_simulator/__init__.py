"""Runs Metal kernels on a CPU, and reports their faults with source lines. See README.md.

`metal_kernel` has the signature and results of `mlx.core.fast.metal_kernel`. A faulty kernel raises `KernelFault`;
`kernel.counters` has the memory traffic of the last run. `prepare` compiles what all kernels share, which otherwise
happens with the first kernel.
"""

from .compiling import NoCompiler, prepare
from .counters import Counters
from .faults import KernelFault, Kind
from .kernel import Kernel, metal_kernel

__all__ = ["Counters", "Kernel", "KernelFault", "Kind", "NoCompiler", "metal_kernel", "prepare"]
