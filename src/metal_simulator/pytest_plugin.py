"""`pytest --metal-simulator` runs the kernels of `mx.fast.metal_kernel` that tests use on the simulator."""

from contextlib import ExitStack
from typing import get_args

import pytest

from .options import OnFault
from .patching import patched


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's two options."""
    group = parser.getgroup("metal-simulator", "Metal kernels on a CPU")
    group.addoption("--metal-simulator", action="store_true", help="Run mx.fast.metal_kernel on the CPU simulator.")
    group.addoption(
        "--on-kernel-fault",
        choices=get_args(OnFault),
        default="raise",
        help="With --metal-simulator: fail the test at a kernel's fault, warn of all faults, or ignore them.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Patch MLX before the tests' modules are imported, until the session ends."""
    if config.getoption("--metal-simulator"):
        stack = ExitStack()
        stack.enter_context(patched(config.getoption("--on-kernel-fault")))
        config.add_cleanup(stack.close)
