"""Prefill and decode speed against the machine's limits; FLOPs and bytes are those of a step with caches."""

import functools
import io
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.registry import UsageError
from ..engine.engine import Engine
from ..paths import EMBEDDED_MODEL
from ..programs.packages import SOLUTION_NAME, load_solution, program
from .machine import circumstances, limits

TEXT = "Once upon a time there was a little girl who had a big blue dog. "
PREFILLS = (1, 8, 64, 256)  # tokens of a prompt
DECODES = (64, 256)  # tokens before the decoded ones
WRITTEN = 8  # tokens decoded after such a prompt
BUDGET = 8.0  # seconds; a started round is finished
ROUNDS = 9  # at most

Count = Callable[[int, int], tuple[int, int]]  # new tokens, and tokens before them -> operations and bytes
GROUP_SIZES = (32, 64, 128)


class Kind(NamedTuple):
    """A measured step: `length` tokens are processed after `offset` cached ones."""

    name: str
    length: int
    offset: int


def measure(engine: Engine, quick: bool = False) -> dict[str, Any]:
    """Return the results as JSON data, a row per step, with the machine's limits; LearnerError if the engine raises."""
    if engine.simulated:
        what = f"The stage {engine.stage.name} runs on the simulator here, whose time says nothing about a GPU."
        raise UsageError(f"{what} It counts:", f'pdm run generate "Once upon a time" --stage {engine.stage.name}')
    prefills, decodes = (PREFILLS[:2], DECODES[:0]) if quick else (PREFILLS, DECODES)
    taken = _steps(engine, prefills, decodes, 1 if quick else ROUNDS)
    machine_limits = limits(quick)
    count, storage = counts(engine)
    from tiny_llm_solution.measure.roofline import Roofline

    roofline = Roofline(machine_limits.bandwidth, machine_limits.rate)
    rows = []
    for kind, seconds in taken.items():
        computed, moved = count(kind.length, kind.offset)
        used = roofline.utilization(computed, moved, seconds)
        row = {"step": kind.name, "tokens": kind.length, "seconds": seconds, "flops": computed, "bytes": moved}
        row |= {"least": roofline.least_seconds(computed, moved), "limit": roofline.limit(computed, moved)}
        rows.append(row | {"bandwidth": used.bandwidth, "rate": used.compute})
    return {
        "title": f"{name_of(engine.checkpoint.folder)}, stage {engine.stage.name}",
        "storage": in_words(storage),
        **circumstances(engine.package, quick),
        "limits": machine_limits._asdict(),
        "ridge": roofline.ridge(),
        "rows": rows,
        "left out": [kind.name for kind in _kinds(prefills, decodes) if kind not in taken],
    }


Lengths = tuple[int, ...]


def _kinds(prefills: Lengths, decodes: Lengths) -> list[Kind]:
    found = [Kind(f"prefill {length}", length, 0) for length in prefills]
    return found + [Kind(f"decode after {length}", 1, length + WRITTEN // 2) for length in decodes]


def _steps(
    engine: Engine, prefills: Lengths, decodes: Lengths, rounds: int, budget: float = BUDGET
) -> dict[Kind, float]:
    """Return the median seconds of each step, interleaved; beyond the budget, the longest prompts are left out."""
    with engine.learners_code(), redirect_stdout(io.StringIO()):
        text = engine.encode(TEXT)
        kinds = {(kind.length, kind.offset): kind for kind in _kinds(prefills, decodes)}
        found: defaultdict[Kind, list[float]] = defaultdict(list)
        list(engine.likeliest(text[:2], 2))  # loads, compiles, warms up
        started = time.perf_counter()
        for _ in range(rounds):
            for length in prefills:
                if found and time.perf_counter() - started > budget:
                    return {kind: statistics.median(found[kind]) for kind in kinds.values() if found[kind]}
                prompt = (text * (length // len(text) + 1))[:length]
                times, tokens = [], engine.likeliest(prompt, count := 1 + WRITTEN if length in decodes else 1)
                for _ in range(count):  # a token is a Python int, so it is evaluated when it arrives
                    begun = time.perf_counter()
                    next(tokens)
                    times.append(time.perf_counter() - begun)
                found[kinds[length, 0]].append(times[0])
                if length in decodes:
                    found[kinds[1, length + WRITTEN // 2]] += times[1:]
    return {kind: statistics.median(found[kind]) for kind in kinds.values()}


def counts(engine: Engine) -> tuple[Count, Any]:
    """Return a function for a step's FLOPs and bytes, by the solution's accounting, and the weights' storage."""
    load_solution()
    from tiny_llm_solution.measure.accounting import flops, traffic
    from tiny_llm_solution.measure.step import Step, Storage

    entries, stage = engine.checkpoint.config, engine.stage
    storage = storage_of(engine.model, entries["hidden_size"], entries["vocab_size"])
    if storage.bits is None and "4-bit" in engine.runs.partition(" made ")[0]:  # the fused model keeps them in C++
        scales = engine.checkpoint.weights.get("model.embed_tokens.scales")
        storage = Storage(bits=4, group_size=64 if scales is None else entries["hidden_size"] // scales.shape[1])
    config = program(stage.config, SOLUTION_NAME).from_dict(entries)
    if stage.counts:
        counted = program(stage.counts, SOLUTION_NAME)
        return lambda length, offset: counted(config, length, offset, storage), storage

    def count(length: int, offset: int) -> tuple[int, int]:
        step = Step(config, length, offset)
        return flops(step).total, traffic(step, storage).total

    return count, storage


def name_of(folder: Path) -> str:
    """Return the model's name for display."""
    return "models/tiny-qwen3" if folder == EMBEDDED_MODEL else folder.name


def in_words(storage: Any) -> str:
    """Return `weights in 4 bits, groups of 64 with scales in float32`."""
    names = {4: "float32", 2: "16-bit floats"}
    if storage.bits is None:
        return f"weights in {names[storage.size]}"
    return f"weights in {storage.bits} bits, groups of {storage.group_size} with scales in {names[storage.scale_size]}"


def storage_of(model: object, hidden_size: int, vocab_size: int) -> Any:
    """Infer the accounting's Storage from the embedding table: every model has it, alone with `vocab_size` rows."""
    load_solution()
    from tiny_llm_solution.measure.step import Storage

    held = list(arrays(model))
    vectors = [x for x in held if x.shape == (hidden_size,) and mx.issubdtype(x.dtype, mx.floating)]
    size = vectors[0].itemsize if vectors else 4
    tables = [x for x in held if x.ndim == 2 and len(x) == vocab_size]
    at = next((i for i, x in enumerate(tables) if x.dtype == mx.uint32), None)
    if at is None:
        return Storage(size, scale_size=size)
    # RoPE's tables may have as many rows; the scales are next to the packed words.
    scales = min(
        (i for i, x in enumerate(tables) if hidden_size in [x.shape[1] * group_size for group_size in GROUP_SIZES]),
        key=lambda i: abs(i - at),
    )
    bits = 32 * tables[at].shape[1] // hidden_size
    return Storage(size, bits, hidden_size // tables[scales].shape[1], tables[scales].itemsize)


def arrays(model: object) -> Iterator[mx.array]:
    """Yield all arrays that an object holds: in attributes, lists, dicts, partials and closures."""
    seen: set[int] = set()
    waiting: list[Any] = [model]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, mx.array):
            yield each
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list | tuple | set):
            waiting += each
        elif isinstance(each, functools.partial):
            waiting += [each.func, each.args, each.keywords]
        elif isinstance(each, MethodType):
            waiting.append(each.__self__)
        elif isinstance(each, FunctionType):
            filled = (cell for cell in each.__closure__ or () if cell != type(cell)())
            waiting += [cell.cell_contents for cell in filled]
            waiting.append(each.__defaults__)
        elif hasattr(each, "__dict__") and not hasattr(each, "__path__") and not hasattr(each, "__spec__"):
            waiting.append(vars(each))
