"""The command that serves a model: `pdm run serve`."""

import os
import sys
from functools import partial

import click

from ..doctor import blas
from .options import Finite, dtype_option, model_option


@click.command(short_help="Serve a model to any OpenAI client, by your engine or ours.")
@click.option("--solution", is_flag=True, help="Run the solved engine instead of yours.")
@click.option("--stage", help="Which of the ways to serve that you have built (default: the furthest).")
@model_option
@dtype_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen; 0.0.0.0 lets other machines come in."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 is any that is free.")
@click.option(
    "--api-key", envvar="TINY_LLM_API_KEY", help="What clients must send (default: the variable TINY_LLM_API_KEY)."
)
@click.option("--slots", type=click.IntRange(min=1), help="Requests that run at a time (default: 8).")
@click.option(
    "--waiting", type=click.IntRange(min=0), default=64, show_default=True, help="Requests that may wait beside them."
)
@click.option("--memory", type=click.IntRange(min=1), help="MiB of keys and values (default: 1024).")
@click.option(
    "--int8", is_flag=True, help="Round activations to 8 bits: less exact, and faster; needs the kernels in C++."
)
@click.option(
    "--grace",
    type=Finite(min=0),
    default=10.0,
    show_default=True,
    help="Seconds that requests have to end on Ctrl-C; a second one ends them at once.",
)
def serve(
    solution: bool,
    stage: str | None,
    model: str | None,
    dtype: str | None,
    host: str,
    port: int,
    api_key: str | None,
    slots: int | None,
    waiting: int,
    memory: int | None,
    int8: bool,
    grace: float,
) -> int:
    """Serve a model at http://127.0.0.1:8000/v1, in the form of OpenAI's API. Ctrl-C ends it."""
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
        raise click.BadParameter("It must be printable ASCII, and not empty.", param_hint="'--api-key'")
    blas.load()
    from ..engine.serving import Limits, ServingEngine, load_scheduler
    from ..serving import run
    from ..terminal.screen import say

    limits = Limits(slots=slots, memory=memory and memory << 20, int8=int8 or None)
    local, listening = run.is_loopback(host), run.listen(host, port)
    if not local and api_key is None:
        say("Anybody who can reach this machine may use the model: --api-key keeps others out.", err=True)

    def tell(where: str, engine: ServingEngine) -> None:
        name = engine.checkpoint.folder.resolve().name
        page = f"a page to chat on is at {where}"
        say(f"{name} is served at {where}/v1 (stage {engine.mode.name}), {page}. Ctrl-C ends it.", err=True)

    load = partial(load_scheduler, model, solution, stage, limits, dtype)
    status = 0
    try:
        with listening:
            run.serve(load, listening, local=local, key=api_key, waiting=waiting, grace=grace, tell=tell)
    except KeyboardInterrupt:
        say("interrupted", err=True)
        status = 130
    except SystemExit as ended:  # by a signal
        status = int(ended.code or 0)
    # Past the end of C++: MLX's threads belong to the one that computed, which is gone, and now and then they abort.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)
