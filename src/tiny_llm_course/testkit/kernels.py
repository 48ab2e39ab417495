"""For tests of kernels in C++: which build of them a check runs.

A kernel that a check calls is the checked build, which says at which line it touches memory that it must not, and
lets the chunks of a loop run one after another. `fast` makes of a kernel's function one that runs the fast build, all
threads included, once the checked build has let it through: for sweeps, whose sizes are large.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..programs import kernels


def fast(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, on the build that an engine runs."""

    @wraps(kernel)
    def faster(*args: Any, **kwargs: Any) -> Any:
        with kernels.fast():
            return kernel(*args, **kwargs)

    return faster


def chunks_of(kernel: Callable[..., Any], *args: Any) -> int:
    """Into how many chunks a kernel divides its largest loop; below 2, one core does all of it."""
    kernel(*args)
    return kernels.chunks()
