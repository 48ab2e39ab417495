"""The same once more: on inputs in another layout, and by an object that has been used before."""

import inspect
from collections.abc import Callable
from typing import Any

import mlx.core as mx


class Built:
    """A program that builds an object and calls it: `make(*args)` gives the call, whose parameters are some of make's.

    It is called as `make` is. `agrees` keeps the object, and calls it again.
    """

    def __init__(self, make: Callable[..., Callable[..., Any]]) -> None:
        self.make = make
        self.__name__ = make.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Build an object, and call it once."""
        return self.used(*args, **kwargs)()

    def used(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Build an object. What is given: a function that calls it, on other values of some of its inputs."""
        bound = inspect.signature(self.make).bind(*args, **kwargs)
        bound.apply_defaults()
        call = self.make(*args, **kwargs)
        inputs = {name: bound.arguments[name] for name in inspect.signature(call).parameters}
        return lambda **others: call(**{**inputs, **{name: v for name, v in others.items() if name in inputs}})


def built(make: Callable[..., Callable[..., Any]]) -> Built:
    """Decorate a function that builds an object and gives the call of it, as in `return lambda x: layer(x)`."""
    return Built(make)


def spread_out(v: Any) -> Any:
    """The same array with gaps between its numbers and its axes in reverse order: not contiguous."""
    if not isinstance(v, mx.array):
        return v
    turned = mx.contiguous(v.transpose())
    return mx.stack([mx.zeros_like(turned), turned], axis=-1)[..., 1].transpose()


def backwards(v: Any) -> Any:
    """Another input of the same shape: an array with every axis in reverse order, or what a value calls its own."""
    if isinstance(v, mx.array):
        return v[(slice(None, None, -1),) * v.ndim]
    return v.backwards() if hasattr(v, "backwards") else v
