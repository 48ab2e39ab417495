"""Kinds of values that commands take, the options that several share, and the ways to name tasks."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

NAMES = "[1.1.2 | 1.1 | 1]..."  # of tasks, days and weeks
OUT_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


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


def model_option(command: Callable[..., int]) -> Callable[..., int]:
    """Add --model, which `load_engine` reads."""
    text = "A checkpoint's folder or Hub id (default: models/tiny-qwen3, which comes with the course)."
    return click.option("--model", help=text)(command)


def dtype_option(command: Callable[..., int], text: str = "Of the weights.") -> Callable[..., int]:
    """Add --dtype."""
    return click.option("--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help=text)(command)


def names_of_tasks(command: Callable[..., int]) -> Callable[..., Any]:
    """What every command on tasks takes: their names, or --week and --day. `selection.selected` reads them."""
    day = click.option("--day", type=int, help="This day of the week.")(command)
    week = click.option("--week", type=int, help="This week, or its --day.")(day)
    return click.argument("names", nargs=-1, metavar=NAMES)(week)
