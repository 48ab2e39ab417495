"""The commands that run the engine: `pdm run generate` and `pdm run chat`."""

from collections.abc import Callable

import click

from ..doctor import blas
from .options import Finite


def engine_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options of every command that runs the engine."""
    own = "default: the model's own setting"
    for option in reversed(
        [
            click.option("--solution", is_flag=True, help="Run the solved engine instead of yours."),
            click.option("--stage", help="Which of the engines you have built (default: the furthest)."),
            click.option(
                "--model",
                help="A checkpoint's folder or Hub id (default: models/tiny-qwen3, which comes with the course).",
            ),
            click.option("--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help="Of the weights."),
            click.option(
                "--max-tokens", type=click.IntRange(min=1), help="Default: 256, or what a minute is enough for."
            ),
            click.option("--temp", type=Finite(min=0), help=f"Temperature, 0 for the likeliest token ({own}, or 0.7)."),
            click.option("--top-k", type=click.IntRange(min=0), help=f"0 is off ({own})."),
            click.option("--top-p", type=click.FloatRange(0, 1), help=f"1 is off ({own})."),
            click.option("--min-p", type=click.FloatRange(0, 1), help=f"0 is off ({own})."),
            click.option(
                "--repetition-penalty", type=click.FloatRange(min=0, min_open=True), help=f"1 is off ({own})."
            ),
            click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="The same seed gives the same text."),
        ]
    ):
        command = option(command)
    return command


@click.command(short_help="Continue a text, on your engine or ours.")
@click.argument("prompt")
@engine_options
def generate(
    prompt: str,
    solution: bool,
    stage: str | None,
    model: str | None,
    dtype: str | None,
    max_tokens: int | None,
    **sampling: float | None,
) -> int:
    """Continue a text: pdm run generate "Once upon a time".

    The text goes to stdout, the figures to stderr. Ctrl-C ends the text; the exit code is 130 then.
    """
    blas.load()
    from ..engine import engine, talk

    runner = engine.load_engine(model, solution, dtype, stage)
    return talk.generate(runner, prompt, max_tokens, engine.Sampling(**sampling))  # type: ignore[arg-type]


@click.command(short_help="Talk with a model, on your engine or ours.")
@engine_options
def chat(
    solution: bool,
    stage: str | None,
    model: str | None,
    dtype: str | None,
    max_tokens: int | None,
    **sampling: float | None,
) -> int:
    """Talk with a model; /help says how."""
    blas.load()
    from ..engine import engine, talk

    runner = engine.load_engine(model, solution, dtype, stage)
    return talk.chat(runner, max_tokens, engine.Sampling(**sampling))  # type: ignore[arg-type]
