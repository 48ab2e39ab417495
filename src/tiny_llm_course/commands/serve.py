"""`pdm run serve`: serve a model."""

import os
import re
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..doctor import blas
from .options import Finite, adapter_folder, bits_option, dtype_option, model_option

if TYPE_CHECKING:
    import socket

    from ..engine.package import Package
    from ..engine.serving import Limits, ServingEngine
    from ..serving.guards import Access

COUNT = click.IntRange(min=1)
KEY = "The key that clients must send (default: $TINY_LLM_API_KEY)."
STEP = "Maximum tokens that a step computes, over all requests (default: 64; a GPU is faster with more)."
MEMORY = "MiB of KV cache (default: 1024; for larger models up to half of the free memory)."
GRACE = "Seconds for running requests to finish after Ctrl-C; a second Ctrl-C ends them at once."
REPLICAS = "Run so many processes of the server, and a router in front of them."
OF_ROUTER = {"host", "port", "api_key", "allowed_host", "root_path", "access_log", "replicas", "end_with_stdin"}
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
@shown("--grace", type=Finite(min=0), default=10.0, help=GRACE)
@click.option("--replicas", type=click.IntRange(1, 64), help=REPLICAS)
@click.option("--end-with-stdin", is_flag=True, hidden=True)
@click.pass_context
def serve(
    context: click.Context,
    /,
    host: str,
    port: int,
    waiting: int,
    grace: float,
    adapter: tuple[str, ...],
    replicas: int | None,
    end_with_stdin: bool,
    **options: Any,
) -> int:
    """Serve a model over the OpenAI API at http://127.0.0.1:8000/v1. Ctrl-C stops the server.

    With --replicas, a router serves the same API: it chooses a replica for each request, and starts one again that has
    ended. SIGTERM to a replica's process drains it: it finishes its requests, ends, and is started again.
    """
    if end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()

    def taken(*names: str) -> dict[str, Any]:
        return {name: options.pop(name) for name in names}

    if not replicas:
        blas.load()
    from ..engine.serving import load_scheduler
    from ..serving import run
    from ..terminal.screen import say

    local = run.is_loopback(host)
    access = _access(local, **taken("api_key", "allowed_host", "root_path", "access_log"))
    limits = _limits(**taken("max_num_seqs", "max_num_batched_tokens", "memory", "int8"))
    load = partial(
        load_scheduler, limits=limits, adapters=_folders_by_name(adapter), mode=options.pop("stage"), **options
    )
    listening = run.listen(host, port)
    if not local and access.key is None:
        say("Anyone who can reach this machine can use the model; --api-key restricts access.", err=True)

    if replicas:
        return _serve_replicas(replicas, _passed_on(context), listening, access, context.params)

    def tell(where: str, engine: "ServingEngine") -> None:
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
    # Skip C++ destructors: with the computing thread gone, MLX's threads sometimes abort in them.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _end_with_stdin() -> None:
    """End this process as by SIGTERM when the process that started it is gone."""
    os.read(0, 1)  # not sys.stdin, whose lock a thread may not hold when Python ends
    os.kill(os.getpid(), signal.SIGTERM)


def _passed_on(context: click.Context) -> list[str]:
    """Return the options of this command line that concern a replica."""
    found: list[str] = []
    for param in context.command.params:
        value = context.params.get(param.name or "")
        if param.name in OF_ROUTER or value in (None, False, ()):
            continue
        for each in value if isinstance(value, tuple) else (value,):
            found += [param.opts[0]] if each is True else [param.opts[0], str(each)]
    return found


def _serve_replicas(
    count: int, passed_on: list[str], listening: "socket.socket", access: "Access", given: dict[str, Any]
) -> int:
    from ..serving.routing import run
    from ..terminal.screen import say

    if access.key:
        os.environ["TINY_LLM_API_KEY"] = access.key  # which the replicas require, too

    def limit(package: "Package") -> int:
        default: int = package.part("engines.modes", "Limits").max_num_seqs
        return (given["max_num_seqs"] or default) + int(given["waiting"])

    with listening:
        try:
            run.serve_replicas(
                count,
                given["solution"],
                passed_on,
                listening,
                access,
                limit=limit,
                grace=given["grace"],
                say=partial(say, err=True),
            )
        except run.FirstStartFailed as failed:
            say("\n".join(failed.output), err=True, as_is=True)
            return failed.code if failed.code > 0 else 1
        except KeyboardInterrupt:
            say("interrupted", err=True)
            return 130
        except SystemExit as ended:  # on a signal
            return int(ended.code or 0)
    return 0


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
