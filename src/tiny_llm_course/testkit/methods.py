"""Probes of a task whose target is one method of a given class."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def completed(given: Class, method: Callable[..., Any]) -> Class:
    """Return a class of the solution with the attributes that only the method's own class has.

    A learner may divide a method into helpers of the same class. A probe calls the method on an object of the
    solution's class, which lacks them.
    """
    owner = getattr(method, "__qualname__", "").rpartition(".")[0]
    own = getattr(sys.modules.get(getattr(method, "__module__", "")), owner, None)
    if not inspect.isclass(own) or own is given:
        return given
    more = {name: value for name, value in vars(own).items() if not hasattr(given, name)}
    return type(given)(given.__name__, (given,), more) if more else given
