"""The commands that run the engine: `pdm run generate` and `pdm run chat`."""

from collections.abc import Callable
from typing import Any

import click

from ..doctor import blas
from .options import Finite, dtype_option, model_option

PROMPT = "Once upon a time"  # where --mistake needs one and none is typed
ENGINE = ("model", "solution", "dtype", "stage", "window", "sinks")  # the options that say which engine it is


def engine_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options of every command that runs the engine."""
    own = "default: the model's own setting"
    options: list[Callable[[Callable[..., int]], Callable[..., int]]] = [
        click.option("--solution", is_flag=True, help="Run the solved engine instead of yours."),
        click.option("--stage", help="Which of the engines you have built (default: the furthest)."),
        model_option,
        click.option(
            "--window", type=click.IntRange(min=1), help="Let every layer see so many tokens only (day 3 of week 4)."
        ),
        click.option("--sinks", type=click.IntRange(min=0), help="First tokens of the text that a window has besides."),
        dtype_option,
        click.option("--max-tokens", type=click.IntRange(min=1), help="Default: 256, or what a minute is enough for."),
        click.option("--temp", type=Finite(min=0), help=f"Temperature, 0 for the likeliest token ({own}, or 0.7)."),
        click.option("--top-k", type=click.IntRange(min=0), help=f"0 is off ({own})."),
        click.option("--top-p", type=click.FloatRange(0, 1), help=f"1 is off ({own})."),
        click.option("--min-p", type=click.FloatRange(0, 1), help=f"0 is off ({own})."),
        click.option("--repetition-penalty", type=click.FloatRange(min=0, min_open=True), help=f"1 is off ({own})."),
        click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="The same seed gives the same text."),
    ]
    for add in reversed(options):
        command = add(command)
    return command


@click.command(short_help="Continue a text, on your engine or ours.")
@click.argument("prompt", required=False)
@engine_options
@click.option(
    "--mistake",
    metavar="1.1.2[:NAME]",
    help="Put a known mistake of a task that has passed into the engine, and show both stories and what the mistake "
    "costs in bits per byte; without a name, list the mistakes. On the CPU, in float32 unless --dtype says otherwise; "
    "the seed is 1 by default, and a text has 100 tokens, or what 3 seconds are enough for.",
)
def generate(prompt: str | None, max_tokens: int | None, mistake: str | None, **options: Any) -> int:
    """Continue a text: pdm run generate "Once upon a time".

    The text goes to stdout, the figures to stderr. Ctrl-C ends the text; the exit code is 130 then.
    """
    blas.load()
    from ..engine import engine, talk

    ctx = click.get_current_context()
    which = {name: options.pop(name) for name in ENGINE}
    settings = engine.Sampling(**options)
    if mistake is not None:
        from .mistake import generate_with

        typed = {name: value for name, value in ctx.params.items() if value is not None and value is not False}
        typed = {name: value for name, value in typed.items() if name not in ("prompt", "mistake")}
        return generate_with(mistake, PROMPT if prompt is None else prompt, which, max_tokens, settings, typed)
    if prompt is None:
        raise click.MissingParameter(ctx=ctx, param_type="argument", param_hint="'PROMPT'")
    return talk.generate(engine.load_engine(**which), prompt, max_tokens, settings)


@click.command(short_help="Talk with a model, on your engine or ours.")
@engine_options
def chat(max_tokens: int | None, **options: Any) -> int:
    """Talk with a model; /help says how."""
    blas.load()
    from ..engine import engine, talk

    runner = engine.load_engine(**{name: options.pop(name) for name in ENGINE})
    return talk.chat(runner, max_tokens, engine.Sampling(**options))
