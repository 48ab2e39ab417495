"""Tensor parallelism for the commands that run the engine: a command starts its own ranks, or is one of them."""

import os
import sys
from typing import Any

import click
from click.core import ParameterSource

SUPPORTED = ("prompt", "solution", "model", "dtype", "cpu", "max_tokens", "tensor_parallel")
SERVING = (
    *("solution", "model", "dtype", "host", "port", "api_key", "allowed_host", "root_path", "access_log"),
    *("max_num_seqs", "max_num_batched_tokens", "waiting", "memory", "grace", "tensor_parallel"),
)
SAMPLING = ("temp", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


def started() -> bool:
    """Return whether this process is a rank that `dist` has started."""
    from ..ranks.environment import RANK_FILE

    return RANK_FILE in os.environ


def number() -> int:
    """Return this process's rank, as the launcher has set it."""
    return int(os.environ.get("MLX_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))


def typed(ctx: click.Context) -> list[str]:
    """Return the arguments of the command as typed, without --tensor-parallel."""
    options, arguments = [], []
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        if ctx.get_parameter_source(param.name or "") is not ParameterSource.COMMANDLINE or value is None:
            continue
        if param.name == "tensor_parallel":
            continue
        if isinstance(param, click.Option) and param.multiple:
            options += [each for one in value for each in (param.opts[0], str(one))]
        elif isinstance(param, click.Option):
            options += [param.opts[0]] if param.is_flag else [param.opts[0], str(value)]
        else:
            arguments += [str(value)]
    return [*options, "--", *arguments]


def start(ctx: click.Context, count: int, timeout: float | None) -> int:
    """Run this command on so many ranks, and return 0; raise LearnerError with one message if a rank fails."""
    from ..engine.parallel import check_division
    from ..programs.packages import LearnerError
    from ..ranks import Ranks, RanksFailed

    check_division(ctx.params["model"], ctx.params["solution"], count)
    command = [sys.executable, "-m", "tiny_llm_course", str(ctx.info_name), *typed(ctx)]
    with Ranks(command, count, timeout=timeout) as running:
        try:
            running.wait()
        except RanksFailed as error:
            raise LearnerError(str(error)) from None
    return 0


def must_support(ctx: click.Context, known: tuple[str, ...]) -> None:
    """Raise UsageError for an option that does not go with tensor parallelism."""
    from ..course.registry import UsageError

    typed = (name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    if extra := [name for name in typed if name not in known]:
        raise UsageError(f"--{extra[0].replace('_', '-')} does not go with tensor parallelism.")


def serve(ctx: click.Context, count: int) -> int:
    """Serve on `count` ranks of this machine."""
    must_support(ctx, SERVING)
    return start(ctx, count, timeout=None)  # without requests, the ranks wait for each other


def generate(ctx: click.Context, count: int | None) -> int:
    """Generate a text on `count` ranks, or as one of the ranks that `dist` has started; rank 0 prints it."""
    from ..engine import engine, parallel, talk
    from ..engine.pace import USUAL_TOKENS

    options: dict[str, Any] = dict(ctx.params)
    must_support(ctx, (*SUPPORTED, *SAMPLING))
    if options["prompt"] is None:
        raise click.MissingParameter(ctx=ctx, param_type="argument", param_hint="'PROMPT'")
    if not started():
        return start(ctx, count or 1, timeout=60)
    if options["cpu"]:
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
    runner = parallel.load_rank(options["model"], options["solution"], options["dtype"])
    settings = engine.Sampling(**{name: options[name] for name in SAMPLING})
    # No limit by the clock: all ranks must stop after the same token.
    return talk.generate(
        runner, options["prompt"], options["max_tokens"] or USUAL_TOKENS, settings, runner.group.rank == 0
    )
