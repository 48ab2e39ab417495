"""Repeated calls: on inputs in another memory layout, and on an object that has been called before."""

import inspect
from collections.abc import Callable
from typing import Any

import mlx.core as mx


class Built:
    """Wrap `make(*args)`, which builds an object and returns its call; `agrees` calls the same object again.

    As `@built` it decorates a function that returns the call, as in `return lambda x: layer(x)`.
    """

    def __init__(self, make: Callable[..., Callable[..., Any]]) -> None:
        self.make = make
        self.__name__ = make.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Build an object and call it once."""
        return self.used(*args, **kwargs)()

    def used(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Build an object and return a function that calls it, with other values for some of its inputs if given."""
        bound = inspect.signature(self.make).bind(*args, **kwargs)
        bound.apply_defaults()
        call = self.make(*args, **kwargs)
        inputs = {name: bound.arguments[name] for name in inspect.signature(call).parameters}
        return lambda **others: call(**{**inputs, **{name: v for name, v in others.items() if name in inputs}})


built = Built


def non_contiguous(v: Any) -> Any:
    """Return an equal array that is not contiguous: gaps between its elements, axes in reverse order in memory."""
    if not isinstance(v, mx.array):
        return v
    reversed_axes = mx.contiguous(v.transpose())
    return mx.stack([mx.zeros_like(reversed_axes), reversed_axes], axis=-1)[..., 1].transpose()


def backwards(v: Any) -> Any:
    """Return another input of the same shape: an array reversed along every axis, or `v.backwards()` if it has one."""
    if isinstance(v, mx.array):
        return v[(slice(None, None, -1),) * v.ndim]
    return v.backwards() if hasattr(v, "backwards") else v
