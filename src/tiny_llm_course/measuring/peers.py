"""Other engines for comparison: mlx-lm on the same checkpoint, llama.cpp on the same shape."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from importlib.util import find_spec

import mlx.core as mx

from ..engine.engine import Engine
from ..paths import ROOT
from . import llama

MODELS = ROOT / ".tiny-llm" / "benches"  # llama.cpp's generated models

Pace = tuple[int, float]  # tokens, seconds
Writer = Callable[[int, float], Pace]  # (token count, limit in seconds)


class NotHere(Exception):
    """The engine cannot run; the message completes "not run here: "."""


def paced(tokens: Iterator[object], count: int, limit: float) -> Pace:
    """Consume `count` tokens, fewer after `limit` seconds."""
    begun, written, taken = time.perf_counter(), 0, 0.0
    for _ in itertools.islice(tokens, count):
        written, taken = written + 1, time.perf_counter() - begun
        if taken > limit:
            break
    return written, taken


def mlx_lm(engine: Engine, prompt: list[int]) -> tuple[str, Writer]:
    """Return title and writer of mlx-lm on the same folder and dtype (unless quantized); NotHere if unsupported."""
    if not find_spec("mlx_lm"):
        raise NotHere("needs mlx-lm (pdm run pip install mlx-lm)")
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load_model

    dtype = engine.checkpoint.weights["model.norm.weight"].dtype
    try:
        model, _ = load_model(engine.checkpoint.folder)
        model.set_dtype(dtype)
    except Exception as error:  # mlx-lm raises many types
        raise NotHere(f"mlx-lm does not support this model ({type(error).__name__})") from error
    tokens = mx.array(prompt)

    def write(count: int, limit: float) -> Pace:
        return paced(generate_step(tokens, model, max_tokens=count), count, limit)

    return f"mlx-lm {version('mlx-lm')}, on the same weights", write


def llama_cpp(engine: Engine, prompt: list[int], stack: ExitStack, python: str) -> tuple[str, Writer]:
    """Return the title and the writer of llama.cpp, in a process that ends with the stack; or raise NotHere."""
    try:
        process = llama.started(engine.checkpoint.config, MODELS, python)
    except RuntimeError as error:
        raise NotHere(f"needs {llama.NEEDED}") from error
    stack.callback(process.end)

    def write(count: int, limit: float) -> Pace:
        written, taken = process.tell(write=count, prompt=len(prompt), limit=limit)
        return written, taken

    return f"{process.title}, random weights", write
