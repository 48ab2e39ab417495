"""`pdm run serve`: serve a model."""

import os
import re
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..doctor import blas
from . import ranks
from .options import Finite, adapter_folder, bits_option, dtype_option, model_option

if TYPE_CHECKING:
    from ..engine.serving import Limits, ServingEngine
    from ..serving.guards import Access

COUNT = click.IntRange(min=1)
KEY = "The key that clients must send (default: $TINY_LLM_API_KEY)."
STEP = "Maximum tokens that a step computes, over all requests (default: 64; a GPU is faster with more)."
MEMORY = "MiB of KV cache (default: 1024; for larger models up to half of the free memory)."
GRACE = "Seconds for running requests to finish after Ctrl-C; a second Ctrl-C ends them at once."
shown = partial(click.option, show_default=True)
several = partial(click.option, multiple=True)


@click.command()
@click.option("--solution", is_flag=True, help="Run our engine instead of yours.")
@click.option("--stage", help="The serving mode to run (default: the latest that you have built).")
@model_option
@dtype_option
@bits_option
@shown("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 accepts other machines.")
@shown("--port", type=click.IntRange(0, 65535), default=8000, help="0 picks a free port.")
@click.option("--api-key", envvar="TINY_LLM_API_KEY", help=KEY)
@several("--allowed-host", help="A name by which clients may call the server, besides localhost; may be repeated.")
@click.option("--root-path", default="", help="The path below which a proxy serves it, such as /llm.")
@click.option("--access-log", metavar="FILE", help="Append a line of JSON per request; - for stderr.")
@click.option("--max-num-seqs", type=COUNT, help="Maximum requests in the batch (default: 8).")
@click.option("--max-num-batched-tokens", type=COUNT, help=STEP)
@shown("--waiting", type=click.IntRange(min=0), default=64, help="Maximum requests in the queue.")
@click.option("--memory", type=COUNT, help=MEMORY)
@several(
    "--adapter", metavar="NAME=FOLDER", help="A LoRA adapter that a request may choose as its model; may be repeated."
)
@click.option("--int8", is_flag=True, help="Quantize activations to int8: faster, less exact; needs the C++ kernels.")
@click.option("--tensor-parallel", type=COUNT, metavar="N", help="Divide the model among N processes on this machine.")
@shown("--grace", type=Finite(min=0), default=10.0, help=GRACE)
def serve(
    host: str,
    port: int,
    waiting: int,
    grace: float,
    adapter: tuple[str, ...],
    tensor_parallel: int | None,
    **options: Any,
) -> int:
    """Serve a model over the OpenAI API at http://127.0.0.1:8000/v1. Ctrl-C stops the server."""
    if (parallel := bool(tensor_parallel) or ranks.started()) and not ranks.started():
        return ranks.serve(click.get_current_context(), tensor_parallel or 1)

    def taken(*names: str) -> dict[str, Any]:
        return {name: options.pop(name) for name in names}

    blas.load()
    from ..engine.serving import load_scheduler
    from ..serving import run
    from ..terminal.screen import say

    local = run.is_loopback(host)
    access = _access(local, **taken("api_key", "allowed_host", "root_path", "access_log"))
    limits = _limits(**taken("max_num_seqs", "max_num_batched_tokens", "memory", "int8"))
    load: Callable[[], ServingEngine] = partial(
        load_scheduler, limits=limits, adapters=_folders_by_name(adapter), mode=options.pop("stage"), **options
    )
    if parallel:
        from ..engine.parallel_serving import load_rank_of_server

        ranks.must_support(click.get_current_context(), ranks.SERVING)
        rank = partial(load_rank_of_server, options["model"], options["solution"], limits, options["dtype"])
        if ranks.number() > 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(143))  # the launcher's, at the end
            rank().follow()
            return 0
        load = rank
    listening = run.listen(host, port)
    if not local and access.key is None:
        say("Anyone who can reach this machine can use the model; --api-key restricts access.", err=True)

    served: list[ServingEngine] = []

    def tell(where: str, engine: "ServingEngine") -> None:
        served.append(engine)
        name = engine.checkpoint.folder.resolve().name
        say(f"Serving {name} at {where}/v1 ({engine.runs}), chat page at {where}. Ctrl-C stops.", err=True)

    status = 0
    try:
        with listening:
            run.serve(load, listening, access, waiting=waiting, grace=grace, tell=tell)
    except KeyboardInterrupt:
        say("interrupted", err=True)
        status = 130
    except SystemExit as ended:  # on a signal
        status = int(ended.code or 0)
    if parallel and served:
        served[0].scheduler.close()  # lets the other ranks end
    # Skip C++ destructors: with the computing thread gone, MLX's threads sometimes abort in them.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _access(
    local: bool, api_key: str | None, allowed_host: tuple[str, ...], root_path: str, access_log: str | None
) -> "Access":
    from ..serving.guards import Access, AccessLog

    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
        raise click.BadParameter("It must be non-empty printable ASCII.", param_hint="'--api-key'")
    if root_path and not re.fullmatch(r"(/[\w.~-]+)+", root_path):
        raise click.BadParameter("It must begin with a slash and not end with one.", param_hint="'--root-path'")
    hosts = {name.lower() for name in allowed_host} if local or allowed_host else None
    try:
        return Access(api_key, hosts, root_path, AccessLog(access_log) if access_log else None)
    except OSError as error:
        raise click.BadParameter(f"{access_log}: {error.strerror}.", param_hint="'--access-log'") from None


def _limits(max_num_seqs: int | None, max_num_batched_tokens: int | None, memory: int | None, int8: bool) -> "Limits":
    import psutil

    from ..engine.serving import Limits

    if memory and memory > (most := psutil.virtual_memory().total >> 20):
        raise click.BadParameter(f"It exceeds this machine's {most} MiB.", param_hint="'--memory'")
    return Limits(max_num_seqs, max_num_batched_tokens, kv_cache_bytes=memory and memory << 20, int8=int8 or None)


def _folders_by_name(adapters: tuple[str, ...]) -> dict[str, Path]:
    """Return the folders of `--adapter NAME=FOLDER`, by name."""
    folders: dict[str, Path] = {}
    for given in adapters:
        name, _, folder = given.partition("=")
        if not re.fullmatch(r"[\w.-]+", name, re.ASCII) or not folder:
            raise click.BadParameter(f"{given!r} is not of the form NAME=FOLDER.", param_hint="'--adapter'")
        if name in folders:
            raise click.BadParameter(f"There are two adapters named {name}.", param_hint="'--adapter'")
        folders[name] = adapter_folder(folder)
    return folders
