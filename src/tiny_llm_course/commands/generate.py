"""`pdm run generate` and `pdm run chat`: run the engine."""

from collections.abc import Callable
from typing import Any

import click

from ..doctor import blas
from . import ranks
from .options import Finite, adapter_folder, bits_option, dtype_option, model_option

PROMPT = "Once upon a time"  # default for --mistake
ENGINE = ("model", "solution", "dtype", "stage", "window", "sinks", "bits", "adapter")  # the engine's options


def engine_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of every command that runs the engine."""
    own = "default: the model's own setting"
    options: list[Callable[[Callable[..., int]], Callable[..., int]]] = [
        click.option("--solution", is_flag=True, help="Run our engine instead of yours."),
        click.option("--stage", help="The engine stage to run (default: the latest that you have built)."),
        model_option,
        click.option("--window", type=click.IntRange(min=1), help="Sliding window, in tokens (week 4, day 3)."),
        click.option("--sinks", type=click.IntRange(min=0), help="Attention sinks: first tokens kept as well."),
        dtype_option,
        bits_option,
        click.option(
            "--adapter",
            metavar="FOLDER",
            callback=lambda ctx, param, folder: None if folder is None else adapter_folder(folder),
            help="A LoRA adapter, in PEFT's or mlx-lm's form, to merge into the model (week 5, day 5).",
        ),
        click.option("--cpu", is_flag=True, help="Run on the CPU, and Metal kernels (--stage metal) on the simulator."),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Default: 256, or as many as a minute allows."),
        click.option("--temp", type=Finite(min=0), help=f"Temperature, 0 for greedy decoding ({own}, or 0.7)."),
        click.option("--top-k", type=click.IntRange(min=0), help=f"0 is off ({own})."),
        click.option("--top-p", type=click.FloatRange(0, 1), help=f"1 is off ({own})."),
        click.option("--min-p", type=click.FloatRange(0, 1), help=f"0 is off ({own})."),
        click.option("--repetition-penalty", type=click.FloatRange(min=0, min_open=True), help=f"1 is off ({own})."),
        click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Sampling seed, for reproducible text."),
    ]
    for add in reversed(options):
        command = add(command)
    return command


@click.command()
@click.argument("prompt", required=False)
@engine_options
@click.option(
    "--mistake",
    metavar="1.1.2[:NAME]",
    help="Inject a known mistake of a passed task into the engine, and show both texts and the cost in bits per byte; "
    "without a name, list the mistakes. Runs on the CPU, in float32 unless --dtype is given; the default seed is 1, "
    "the default length 100 tokens, or as many as 3 seconds allow.",
)
@click.option(
    "--tensor-parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="Divide the model among N processes on this machine (week 6, day 2).",
)
def generate(
    prompt: str | None, max_tokens: int | None, mistake: str | None, tensor_parallel: int | None, **options: Any
) -> int:
    """Generate text: pdm run generate "Once upon a time". Text goes to stdout, statistics to stderr."""
    blas.load()
    from ..engine import engine, talk

    ctx = click.get_current_context()
    if tensor_parallel or ranks.started():
        return ranks.generate(ctx, tensor_parallel)
    _choose_device(options.pop("cpu"))
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


@click.command()
@engine_options
def chat(max_tokens: int | None, **options: Any) -> int:
    """Chat with a model; /help lists the commands."""
    blas.load()
    from ..engine import engine, talk

    _choose_device(options.pop("cpu"))
    runner = engine.load_engine(**{name: options.pop(name) for name in ENGINE})
    return talk.chat(runner, max_tokens, engine.Sampling(**options))


def _choose_device(cpu: bool) -> None:
    import mlx.core as mx

    if cpu:
        mx.set_default_device(mx.cpu)
