"""`pdm run serve`: serve a model."""

import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..doctor import blas
from .options import Finite, bits_option, dtype_option, model_option

COUNT = click.IntRange(min=1)
shown = partial(click.option, show_default=True)


@click.command()
@click.option("--solution", is_flag=True, help="Run our engine instead of yours.")
@click.option("--stage", help="The serving mode to run (default: the latest that you have built).")
@model_option
@dtype_option
@bits_option
@shown("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 accepts other machines.")
@shown("--port", type=click.IntRange(0, 65535), default=8000, help="0 picks a free port.")
@click.option(
    "--api-key", envvar="TINY_LLM_API_KEY", help="The key that clients must send (default: $TINY_LLM_API_KEY)."
)
@click.option(
    "--allowed-host",
    "hosts",
    multiple=True,
    help="A name by which clients may call the server, besides localhost; may be repeated.",
)
@click.option("--root-path", default="", help="The path below which a proxy serves it, such as /llm.")
@click.option("--access-log", metavar="FILE", help="Append a line of JSON per request; - for stderr.")
@click.option("--max-num-seqs", type=COUNT, help="Maximum requests in the batch (default: 8).")
@click.option(
    "--max-num-batched-tokens",
    type=COUNT,
    help="Maximum tokens that a step computes, over all requests (default: 64; a GPU is faster with more).",
)
@shown("--waiting", type=click.IntRange(min=0), default=64, help="Maximum requests in the queue.")
@click.option(
    "--memory", type=COUNT, help="MiB of KV cache (default: 1024; for larger models up to half of the free memory)."
)
@click.option(
    "--adapter",
    "adapters",
    multiple=True,
    metavar="NAME=FOLDER",
    help="A LoRA adapter that a request may choose as its model; may be repeated.",
)
@click.option("--int8", is_flag=True, help="Quantize activations to int8: faster, less exact; needs the C++ kernels.")
@shown(
    "--grace",
    type=Finite(min=0),
    default=10.0,
    help="Seconds for running requests to finish after Ctrl-C; a second Ctrl-C ends them at once.",
)
def serve(
    host: str,
    port: int,
    api_key: str | None,
    hosts: tuple[str, ...],
    root_path: str,
    access_log: str | None,
    waiting: int,
    grace: float,
    adapters: tuple[str, ...],
    **options: Any,
) -> int:
    """Serve a model over the OpenAI API at http://127.0.0.1:8000/v1. Ctrl-C stops the server."""
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
        raise click.BadParameter("It must be non-empty printable ASCII.", param_hint="'--api-key'")
    if root_path and not re.fullmatch(r"(/[\w.~-]+)+", root_path):
        raise click.BadParameter("It must begin with a slash and not end with one.", param_hint="'--root-path'")
    blas.load()
    import psutil

    from ..engine.serving import Limits, ServingEngine, load_scheduler
    from ..serving import run
    from ..serving.guards import AccessLog
    from ..terminal.screen import say

    names = ("max_num_seqs", "max_num_batched_tokens", "memory", "int8")
    seqs, tokens, memory, int8 = map(options.pop, names)
    if memory and memory > (most := psutil.virtual_memory().total >> 20):
        raise click.BadParameter(f"It exceeds this machine's {most} MiB.", param_hint="'--memory'")
    limits = Limits(seqs, tokens, kv_cache_bytes=memory and memory << 20, int8=int8 or None)
    try:
        log = AccessLog(access_log) if access_log else None
    except OSError as error:
        raise click.BadParameter(f"{access_log}: {error.strerror}.", param_hint="'--access-log'") from None
    folders = _folders_by_name(adapters)
    local, listening = run.is_loopback(host), run.listen(host, port)
    if not local and api_key is None:
        say("Anyone who can reach this machine can use the model; --api-key restricts access.", err=True)

    def tell(where: str, engine: ServingEngine) -> None:
        name = engine.checkpoint.folder.resolve().name
        say(f"Serving {name} at {where}/v1 ({engine.runs}), chat page at {where}. Ctrl-C stops.", err=True)

    load = partial(load_scheduler, mode=options.pop("stage"), limits=limits, adapters=folders, **options)
    status = 0
    try:
        with listening:
            run.serve(
                load,
                listening,
                hosts={name.lower() for name in hosts} if local or hosts else None,
                key=api_key,
                log=log,
                root_path=root_path,
                waiting=waiting,
                grace=grace,
                tell=tell,
            )
    except KeyboardInterrupt:
        say("interrupted", err=True)
        status = 130
    except SystemExit as ended:  # on a signal
        status = int(ended.code or 0)
    # Skip C++ destructors: with the computing thread gone, MLX's threads sometimes abort in them.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _folders_by_name(adapters: tuple[str, ...]) -> dict[str, Path]:
    """Return the folders of `--adapter NAME=FOLDER`, by name."""
    folders: dict[str, Path] = {}
    for given in adapters:
        name, _, folder = given.partition("=")
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII) or not folder:
            raise click.BadParameter(f"{given!r} is not of the form NAME=FOLDER.", param_hint="'--adapter'")
        if name in folders:
            raise click.BadParameter(f"There are two adapters named {name}.", param_hint="'--adapter'")
        if not (Path(folder) / "adapter_config.json").is_file():
            raise click.BadParameter(f"{folder} has no adapter_config.json.", param_hint="'--adapter'")
        folders[name] = Path(folder)
    return folders
