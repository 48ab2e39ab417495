"""How fast each stage writes the same text, beside other engines and what memory allows: a week as one picture.

All write as many tokens after the same words, each the likeliest, and take turns. What cannot run here is a row that
says why.
"""

import io
import json
import math
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stdout
from typing import Any

from ..checkpoints.beyond import beyond
from ..checkpoints.checkpoint import Checkpoint, read_config
from ..course.registry import UsageError, load_course, with_commands
from ..engine.engine import Engine, find_model, read_model
from ..engine.stages import lacking, undone
from ..paths import EMBEDDED_MODEL, ROOT
from ..programs.packages import LearnerError
from .engine_speed import counts, in_words, name_of
from .machine import circumstances, limits
from .peers import NotHere, Pace, Writer, llama_cpp, mlx_lm, paced

RECORD = ROOT / "benches" / "progression.json"  # of our solution, on the model that comes with the course
WORDS, TOKENS, QUICK = "Once upon a time", 200, 3
TURNS, BUDGET = 5, 35.0  # seconds for all turns; what is begun is brought to its end
TOO_LONG = 4.0  # seconds: what takes longer is not run again

Row = dict[str, Any]


def measure(
    model: str | None,
    solution: bool,
    dtype: str | None = None,
    quick: bool = False,
    budget: float = BUDGET,
    llama_python: str = sys.executable,
) -> dict[str, Any]:
    """What was found, as JSON has it: a row for each stage, each engine of others, and each limit.

    Raises:
        UsageError: there is no such model, or no stage takes it.
        LearnerError: no stage runs.
    """
    if asked := beyond(read_config(find_model(model))):
        what = f"{model} asks for {asked}, which no stage has. Its engine by itself:"
        raise UsageError(what, f"pdm run bench engine --model {shlex.quote(str(model))}")
    with ExitStack() as stack, redirect_stdout(io.StringIO()):
        engines, rows = _stages(model, solution, dtype)
        first = next(iter(engines.values()))
        prompt = first.encode(WORDS)
        count = min(QUICK if quick else TOKENS, first.context_length - len(prompt))
        writers = {name: _writer(engine, prompt) for name, engine in engines.items()}
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
        rows[name] |= {"not run": each} if isinstance(each, str) else _figures(each)
    return {
        "title": f"{name_of(first.checkpoint.folder)}: {count} tokens, each the likeliest",
        **circumstances(first.package, quick),
        "bandwidth": at_most.bandwidth,
        "how": at_most.how.partition(",")[0],
        "tokens": count,
        "rows": [*rows.values(), *_allowed(engines, at_most.bandwidth, len(prompt) + count // 2)],
    }


def _stages(model: str | None, solution: bool, dtype: str | None) -> tuple[dict[str, Engine], dict[str, Row]]:
    """The engine of each stage that can be built, and a row for each that there is.

    Raises:
        LearnerError: none can be built.
    """
    engines: dict[str, Engine] = {}
    rows: dict[str, Row] = {}
    checkpoints: dict[bool, Checkpoint] = {}  # stages share their weights
    failed: LearnerError | None = None
    for stage in load_course().stages():
        row = rows[stage.name] = {"name": stage.name, "kind": "stage", "about": stage.title}
        if words := lacking(stage, solution):
            row["not run"] = f"needs {words}"
            continue
        if stage.packed not in checkpoints:
            checkpoints[stage.packed] = read_model(find_model(model), dtype, stage.packed)
        try:
            engines[stage.name] = Engine(checkpoints[stage.packed], solution, stage.name)
        except LearnerError as error:
            row["not run"] = _first_line(error)
            failed = failed or error
    if not engines:
        what = "None of your stages runs yet (with --solution, ours do). Your next step:"
        first = undone(load_course().stages()[0], solution)
        raise failed or LearnerError(with_commands(what, f"pdm run test {first[0]}"))
    return engines, rows


def _writer(engine: Engine, prompt: list[int]) -> Writer:
    def write(count: int, limit: float) -> Pace:
        with engine.learners_code():
            return paced(engine.likeliest(prompt, count), count, limit)

    return write


def in_turns(writers: Mapping[str, Writer], count: int, turns: int, budget: float) -> dict[str, list[Pace] | str]:
    """What each wrote in each of its turns, or why it failed.

    The last goes first, as later stages are faster: what it leaves of its part of the budget is for the slower ones.
    Each has one turn at least, in which it leaves off when its part is used up, and no other one that does not fit in.
    """
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
                    writers[name](1, 0.0)  # loads, compiles and warms up
                found[name].append(writers[name](count, math.inf if turn else left / (len(waiting) + 1)))
            except (LearnerError, RuntimeError) as error:
                failed[name] = _first_line(error)
    return {name: failed.get(name) or each for name, each in found.items()}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _figures(paces: list[Pace]) -> Row:
    """The median of all turns, and of how many tokens and turns it is."""
    pace = statistics.median(written / seconds for written, seconds in paces)
    return {"tokens/s": float(f"{pace:.6g}"), "tokens": paces[0][0], "turns": len(paces)}


def _recorded(name: str, checkpoint: Checkpoint) -> Row:
    """What was recorded of another engine on this model, with where and when; empty if nothing was."""
    if checkpoint.folder != EMBEDDED_MODEL or not RECORD.is_file():
        return {}
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    here = {"recorded": {"date": record["date"], "machine": record["machine"]}}
    return next((here | row for row in record["rows"] if row["name"] == name and "tokens/s" in row), {})


def _allowed(engines: Mapping[str, Engine], bandwidth: float, offset: int) -> list[Row]:
    """What memory allows with each way to keep the weights: the bytes of a step in the middle of the text, no more."""
    rows: dict[str, Row] = {}
    for engine in engines.values():
        count, storage = counts(engine)
        _, moved = count(1, offset)
        name = f"memory, {storage.bits or 8 * storage.size} bits"
        about = f"{in_words(storage)}: {moved / 1e6:.3g} MB for each token"
        rows[name] = {"name": name, "kind": "limit", "about": about, "bytes": moved}
        rows[name]["tokens/s"] = float(f"{bandwidth / moved:.6g}")
    return [*rows.values()]
