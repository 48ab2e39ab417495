"""Other engines, on the model that an engine of the course runs: mlx-lm on the same files, llama.cpp on its shape."""

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

MODELS = ROOT / ".tiny-llm" / "benches"  # which llama.cpp is given

Pace = tuple[int, float]  # tokens that were written, and the seconds that it took
Writer = Callable[[int, float], Pace]  # given how many tokens, and after how many seconds to leave off


class NotHere(Exception):
    """It cannot run; the message completes "not run here: "."""


def paced(tokens: Iterator[object], count: int, limit: float) -> Pace:
    """Let so many tokens come, fewer if the limit is passed."""
    begun, written, taken = time.perf_counter(), 0, 0.0
    for _ in itertools.islice(tokens, count):
        written, taken = written + 1, time.perf_counter() - begun
        if taken > limit:
            break
    return written, taken


def mlx_lm(engine: Engine, prompt: list[int]) -> tuple[str, Writer]:
    """mlx-lm in this process, on the same folder and, unless it is quantized, in the same dtype: what it is, and it.

    Raises:
        NotHere: it is not installed, or does not take this model.
    """
    if not find_spec("mlx_lm"):
        raise NotHere("needs mlx-lm (pdm run pip install mlx-lm)")
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load_model

    dtype = engine.checkpoint.weights["model.norm.weight"].dtype
    try:
        model, _ = load_model(engine.checkpoint.folder)
        model.set_dtype(dtype)
    except Exception as error:  # whatever it finds strange
        raise NotHere(f"mlx-lm does not take this model ({type(error).__name__})") from error
    tokens = mx.array(prompt)

    def write(count: int, limit: float) -> Pace:
        return paced(generate_step(tokens, model, max_tokens=count), count, limit)

    return f"mlx-lm {version('mlx-lm')}, on the same weights", write


def llama_cpp(engine: Engine, prompt: list[int], stack: ExitStack, python: str) -> tuple[str, Writer]:
    """llama.cpp in a process of its own, which ends with the stack: what it is, and it.

    Raises:
        NotHere: that Python has not what it needs, or llama.cpp does not take such a model.
    """
    try:
        process = llama.started(engine.checkpoint.config, MODELS, python)
    except RuntimeError as error:
        raise NotHere(f"needs {llama.NEEDED}") from error
    stack.callback(process.end)

    def write(count: int, limit: float) -> Pace:
        written, taken = process.tell(write=count, prompt=len(prompt), limit=limit)
        return written, taken

    return f"{process.title}, random weights", write
