"""Parameter types, options that several commands share, and the arguments that name tasks."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..course.entities import Task
from ..course.registry import UsageError, load_course
from ..course.selection import selected

NAMES = "[1.1.2 | 1.1 | 1]..."  # of tasks, days and weeks
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


class Finite(click.FloatRange):
    """A float within bounds that is neither infinite nor NaN."""

    name = "number"

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise click.BadParameter if it is not finite or out of bounds."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def server_model(part: Callable[[str, str], Any], url: str, *more: Any) -> Any:
    """Return the model of a server that speaks OpenAI's API; raise UsageError if the server cannot be asked."""
    if not re.match("https?://[^/]", url):
        raise UsageError(f"{url} is not an address such as http://127.0.0.1:8000/v1.")
    try:
        return part("agent.client", "ServerModel")(url, *more)
    except OSError as error:
        wrong_path = "status 404" in str(error) and not url.rstrip("/").endswith("/v1")
        raise UsageError(f"{error}.{' Most addresses end in /v1.' * wrong_path}") from None


def model_option(command: Callable[..., int]) -> Callable[..., int]:
    """Add --model, which `load_engine` reads."""
    text = "A checkpoint's folder or Hub id (default: models/tiny-qwen3, included in the course)."
    return click.option("--model", help=text)(command)


def dtype_option(command: Callable[..., int], text: str = "Dtype of the weights.") -> Callable[..., int]:
    """Add --dtype."""
    return click.option("--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help=text)(command)


def bits_option(command: Callable[..., int]) -> Callable[..., int]:
    """Add --bits."""
    text = "Quantize a full-precision model (default: only the included models, to 4 bits)."
    return click.option("--bits", type=click.Choice([4, 8]), help=text)(command)


def adapter_folder(folder: str) -> Path:
    """Return the folder of a LoRA adapter; raise click.BadParameter if there is none."""
    found = Path(folder)
    if (found / "adapter_config.json").is_file():
        return found
    what = "has no adapter_config.json" if found.is_dir() else "is not a folder"
    raise click.BadParameter(f"{found} {what}.", param_hint="'--adapter'")


def named_tasks(names: Sequence[str], week: int | None, day: int | None, command: str) -> list[Task]:
    """Return the tasks that the arguments of `names_of_tasks` select, in the order of the course; none by default."""
    chosen = selected(names, week, day, command) if names or week is not None or day is not None else ()
    return [task for task in load_course().tasks() if task in chosen]


def names_of_tasks(command: Callable[..., int]) -> Callable[..., Any]:
    """Add NAMES, --week and --day, which `selection.selected` resolves."""
    day = click.option("--day", type=int, help="A day of the --week.")(command)
    week = click.option("--week", type=int, help="A week, or with --day one of its days.")(day)
    return click.argument("names", nargs=-1, metavar=NAMES)(week)


def typed(ctx: click.Context, without: Collection[str]) -> list[str]:
    """Return the options and arguments of a command as they were typed, without some of them, for another process."""
    options, arguments = list[str](), list[str]()
    for param in ctx.command.params:
        name = param.name or ""
        value = ctx.params.get(name)
        if name in without or value is None or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if isinstance(param, click.Option) and param.multiple:
            options += [each for one in value for each in (param.opts[0], str(one))]
        elif isinstance(param, click.Option):
            options += [param.opts[0]] if param.is_flag else [param.opts[0], str(value)]
        else:
            arguments.append(str(value))
    return [*options, *(["--", *arguments] if arguments else [])]
