"""Options of a kernel: its math mode, and what happens at a fault."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, get_args

from .faults import FaultWarning, KernelFault

OnFault = Literal["raise", "report", "ignore"]
_MODES = ("safe", "relaxed", "fast")
_defaults: list[OnFault] = ["raise"]  # of kernels that name none, the innermost block's last


def on_fault_or_default(given: OnFault | None) -> OnFault:
    """Return the given option, or the enclosing block's default; raise ValueError if it is unknown."""
    if given is not None and given not in get_args(OnFault):
        raise ValueError(f"on_fault is one of {', '.join(map(repr, get_args(OnFault)))}, not {given!r}.")
    return given or _defaults[-1]


@contextmanager
def default_on_fault(given: OnFault) -> Iterator[None]:
    """Set the default for kernels that run within the block."""
    _defaults.append(on_fault_or_default(given))
    try:
        yield
    finally:
        _defaults.pop()


def handle(faults: Sequence[KernelFault], on_fault: OnFault) -> list[KernelFault]:
    """Raise the first fault, warn of all, or neither; return those that were reported."""
    if on_fault == "ignore":
        return []
    for fault in faults:
        if on_fault == "raise":
            raise fault
        warnings.warn(FaultWarning(str(fault)), stacklevel=3)
    return list(faults)


def math_mode(options: Mapping[str, str]) -> str:
    """Return the math mode of `compile_options`; raise ValueError, as MLX does, for what it does not know."""
    for name in options:
        if name != "math_mode":
            raise ValueError(f"[metal_kernel] Unknown compile option `{name}`.")
    mode = options.get("math_mode", "safe")
    if mode not in _MODES:
        raise ValueError("[metal_kernel] Expected math_mode to be 'safe', 'relaxed', or 'fast'.")
    return mode
