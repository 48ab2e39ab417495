"""Kinds of values that commands take, and the ways to name tasks that they share."""

import math
from collections.abc import Callable
from typing import Any

import click

NAMES = "[1.1.2 | 1.1 | 1]..."  # of tasks, days and weeks


class Finite(click.FloatRange):
    """A number within bounds; neither infinity nor NaN, which are within any bounds or compare with none."""

    name = "number"

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number.

        Raises:
            click.BadParameter: it is none, or not within the bounds.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def names_of_tasks(command: Callable[..., int]) -> Callable[..., Any]:
    """What every command on tasks takes: their names, or --week and --day. `selection.selected` reads them."""
    day = click.option("--day", type=int, help="This day of the week.")(command)
    week = click.option("--week", type=int, help="This week, or its --day.")(day)
    return click.argument("names", nargs=-1, metavar=NAMES)(week)
