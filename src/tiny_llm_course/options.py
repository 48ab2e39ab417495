"""Kinds of values that commands take."""

import math

import click


class Finite(click.FloatRange):
    """A number within bounds; neither infinity nor NaN, which are within any bounds or compare with none."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number.

        Raises:
            click.BadParameter: it is none, or not within the bounds.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
