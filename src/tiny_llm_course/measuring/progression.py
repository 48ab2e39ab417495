"""Greedy decoding speed of every stage on one prompt, interleaved, beside other engines and the bandwidth limit."""

import io
import itertools
import json
import math
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stdout
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint, read_config
from ..checkpoints.features import unsupported_features
from ..course.registry import UsageError, load_course, with_commands
from ..engine.engine import Engine, find_model, read_model
from ..engine.stages import lacking, simulated, undone
from ..paths import EMBEDDED_MODEL, ROOT
from ..programs.packages import LearnerError
from . import engine_process
from .engine_speed import counts, in_words, name_of
from .machine import circumstances, limits

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
        process = engine_process.llama_cpp(engine.checkpoint.config, MODELS, python)
    except RuntimeError as error:
        raise NotHere("needs llama-cpp-python and gguf") from error
    stack.callback(process.end)

    def write(count: int, limit: float) -> Pace:
        written, taken = process.tell(write=count, prompt=len(prompt), limit=limit)
        return written, taken

    return f"{process.title}, random weights", write


RECORD = ROOT / "benches" / "progression.json"  # of our solution, on the included model
LARGE = RECORD.with_name("progression_large.json")  # on random weights in the shape of Qwen3-0.6B
WORDS, TOKENS, QUICK = "Once upon a time", 200, 3
TURNS, BUDGET = 5, 35.0  # seconds for all turns; a started turn is finished
TOO_LONG = 4.0  # seconds; a slower turn is not repeated

Row = dict[str, Any]


def measure(
    model: str | None,
    solution: bool,
    dtype: str | None = None,
    quick: bool = False,
    budget: float = BUDGET,
    llama_python: str = sys.executable,
) -> dict[str, Any]:
    """Return a row per stage, other engine and limit, as JSON data; UsageError or LearnerError if none can run."""
    if asked := unsupported_features(read_config(find_model(model))):
        what = f"{model} asks for {asked}, which no stage supports. To measure its own engine:"
        raise UsageError(what, f"pdm run bench engine --model {shlex.quote(str(model))}")
    with ExitStack() as stack, redirect_stdout(io.StringIO()):
        engines, rows = _stages(model, solution, dtype)
        first = next(iter(engines.values()))
        prompt = first.encode(WORDS)
        count = min(QUICK if quick else TOKENS, first.context_length - len(prompt))
        writers: dict[str, Writer] = {name: partial(_write, engine, prompt) for name, engine in engines.items()}
        others: dict[str, Callable[[], tuple[str, Writer]]] = {
            "mlx-lm": lambda: mlx_lm(first, prompt),
            "llama.cpp": lambda: llama_cpp(first, prompt, stack, llama_python),
        }
        for name, start in others.items():
            rows[name] = {"name": name, "kind": "peer"}
            try:
                rows[name]["about"], writers[name] = start()
            except NotHere as why:
                rows[name] |= _recorded(name, first.checkpoint) or {"not run": str(why)}
        paces = in_turns(writers, count, 1 if quick else TURNS, budget)
        at_most = limits(quick)
    for name, each in paces.items():
        if isinstance(each, str):
            rows[name]["not run"] = each
        else:
            median = statistics.median(written / seconds for written, seconds in each)
            rows[name] |= {"tokens/s": float(f"{median:.6g}"), "tokens": each[0][0], "turns": len(each)}
    return {
        "title": f"{name_of(first.checkpoint.folder)}: {count} tokens, each the likeliest",
        **circumstances(first.package, quick),
        "bandwidth": at_most.bandwidth,
        "how": at_most.how.partition(",")[0],
        "tokens": count,
        "rows": [*rows.values(), *_allowed(engines, at_most.bandwidth, len(prompt) + count // 2)],
    }


def _stages(model: str | None, solution: bool, dtype: str | None) -> tuple[dict[str, Engine], dict[str, Row]]:
    """Return the engines of the stages that can run, and a row for every stage; LearnerError if none can."""
    engines: dict[str, Engine] = {}
    rows: dict[str, Row] = {}
    checkpoints: dict[bool, Checkpoint] = {}  # stages share their weights
    failed: LearnerError | None = None
    for stage in load_course().stages():
        row = rows[stage.name] = {"name": stage.name, "kind": "stage", "about": stage.title}
        if words := lacking(stage, solution):
            row["not run"] = f"needs {words}"
            continue
        if simulated(stage):
            row["not run"] = "needs a GPU: the simulator's time says nothing about one"
            continue
        if stage.packed not in checkpoints:
            checkpoints[stage.packed] = read_model(find_model(model), dtype, stage.packed)
        try:
            engines[stage.name] = Engine(checkpoints[stage.packed], solution, stage.name)
        except LearnerError as error:
            row["not run"] = _first_line(error)
            failed = failed or error
    if not engines:
        what = "None of your stages runs yet (--solution measures ours). Your next step:"
        first = undone(load_course().stages()[0], solution)
        raise failed or LearnerError(with_commands(what, f"pdm run test {first[0]}"))
    return engines, rows


def _write(engine: Engine, prompt: list[int], count: int, limit: float) -> Pace:
    with engine.learners_code():
        return paced(engine.likeliest(prompt, count), count, limit)


def in_turns(writers: Mapping[str, Writer], count: int, turns: int, budget: float) -> dict[str, list[Pace] | str]:
    """Return each writer's results by turn, or why it failed; the last, the fastest, goes first to save budget."""
    begun = time.perf_counter()
    found: dict[str, list[Pace]] = {name: [] for name in writers}
    failed: dict[str, str] = {}
    for turn in range(turns):
        waiting = list(writers)[:: 1 if turn % 2 else -1]
        while waiting:
            name = waiting.pop(0)
            left = budget - (time.perf_counter() - begun)
            if name in failed or (turn and found[name][0][1] > min(left, TOO_LONG)):
                continue
            try:
                if not turn:
                    writers[name](1, 0.0)  # loads, compiles, warms up
                found[name].append(writers[name](count, math.inf if turn else left / (len(waiting) + 1)))
            except (LearnerError, RuntimeError) as error:
                failed[name] = _first_line(error)
    return {name: failed.get(name) or each for name, each in found.items()}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _recorded(name: str, checkpoint: Checkpoint) -> Row:
    """Return the recorded row of another engine on this model, with date and machine; {} if there is none."""
    if checkpoint.folder != EMBEDDED_MODEL or not RECORD.is_file():
        return {}
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    here = {"recorded": {"date": record["date"], "machine": record["machine"]}}
    return next((here | row for row in record["rows"] if row["name"] == name and "tokens/s" in row), {})


def _allowed(engines: Mapping[str, Engine], bandwidth: float, offset: int) -> list[Row]:
    """Return the bandwidth limit for each weight storage, from the bytes of a step mid-text."""
    rows: dict[str, Row] = {}
    for engine in engines.values():
        count, storage = counts(engine)
        _, moved = count(1, offset)
        name = f"memory, {storage.bits or 8 * storage.size} bits"
        about = f"{in_words(storage)}: {moved / 1e6:.3g} MB for each token"
        rows[name] = {"name": name, "kind": "limit", "about": about, "bytes": moved}
        rows[name]["tokens/s"] = float(f"{bandwidth / moved:.6g}")
    return [*rows.values()]
