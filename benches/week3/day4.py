"""Cost of paged attention: gathered first, page by page in Python, and two kernels that read pages in place."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm.kernels import native
from tiny_llm.kernels.native import flash
from tiny_llm.paged.attention import paged_attention
from tiny_llm.paged.kernels import paged_attend, paged_flash
from tiny_llm_course.measuring.clock import Program, Table, seconds

# What the book draws of the table.
CHART = ("bars", "", ("ratio to contiguous",))

FOLDER = Path(native.__file__).parent / ".build"
H, H_KV, D = 16, 8, 128  # of Qwen3-0.6B
PAGES = 16, 64  # tokens in a page
Array = np.ndarray[Any, Any]


def measure(quick: bool = False) -> Table:
    """Measure a decode step and a prefill, each with contiguous and with paged keys and values."""
    tokens, prompt = (256, 64) if quick else (4096, 512)
    rows: list[tuple[str, float, float, float]] = []
    for cases, length in ((_decode(tokens), tokens), (_prefill(prompt), prompt)):
        taken = seconds(*(program for _, program, _ in cases))
        for (name, _, moves), time in zip(cases, taken, strict=True):
            rows.append((name, moves * 2 * 4 * H_KV * D * length / 2**20, time * 1e3, time / taken[0]))
    ratio = {row[0]: row[-1] for row in rows}
    return Table(
        ("program", "KV traffic: MiB", "ms", "ratio to contiguous"),
        tuple(rows),
        f"In decode, pages of {PAGES[0]} take {ratio[f'decode, pages of {PAGES[0]}']:.2f} times as long as a "
        f"contiguous cache, and gathering them first takes {ratio['decode, gathered first']:.1f} times as long; in "
        f"prefill, pages of {PAGES[0]} take {ratio[f'prefill, pages of {PAGES[0]}']:.2f} times as long.",
    )


def _decode(tokens: int) -> list[tuple[str, Program, int]]:
    """Return names, programs and KV passes of decode attention. Contiguous means a single, long page."""
    query, attended = _random(H, D), np.zeros((H, D), np.float32)
    function, group = _library("paged_attend")[paged_attend.__name__], H // H_KV

    def kernel(keys: Array, values: Array, table: Array) -> Program:
        page, calls = keys.shape[2], []
        for head in range(H_KV):
            own = slice(head * group, (head + 1) * group)
            arrays = query[own], keys, values, table, attended[own]
            calls.append(_arguments(arrays, group, H_KV, head, D, page, tokens))
        return _all(function, calls)

    keys, values = _random(1, H_KV, tokens, D), _random(1, H_KV, tokens, D)
    one = np.zeros(1, np.int32)
    found: list[tuple[str, Program, int]] = [("decode, contiguous", kernel(keys, values, one), 1)]
    pools = {page: _pool(keys, values, page) for page in PAGES}
    found += [(f"decode, pages of {page}", kernel(*pools[page]), 1) for page in PAGES]
    copy, dense = _copied(*pools[PAGES[0]], keys, values), kernel(keys, values, one)
    found.append(("decode, gathered first", lambda: (copy(), dense()), 3))
    k, v, table = pools[PAGES[-1]]
    given = mx.array(query[None]), mx.array(k), mx.array(v), table.tolist(), tokens
    mx.eval(given[:3])
    found.append((f"decode, pages of {PAGES[-1]}, in Python", lambda: paged_attention(*given), 1))
    return found


def _prefill(length: int) -> list[tuple[str, Program, int]]:
    """Return the same for the prefill of a prompt of `length` tokens."""
    query, attended = _random(length, H, D), np.zeros((length, H, D), np.float32)
    keys, values = _random(1, H_KV, length, D), _random(1, H_KV, length, D)
    by_week_2, paged = _library("flash")[flash.__name__], _library("paged_flash")[paged_flash.__name__]
    dense = _all(by_week_2, [_arguments((query, keys, values, attended), H, H_KV, D, length, length)])
    found: list[tuple[str, Program, int]] = [("prefill, contiguous", dense, 1)]
    for page in PAGES:
        k, v, table = _pool(keys, values, page)
        call = _arguments((query, k, v, table, attended), H, H_KV, D, page, length, length)
        found.append((f"prefill, pages of {page}", _all(paged, [call]), 1))
    copy = _copied(*_pool(keys, values, PAGES[0]), keys, values)
    found.append(("prefill, gathered first", lambda: (copy(), dense()), 3))
    return found


def _library(name: str) -> ctypes.CDLL:
    """Load a C++ kernel directly; its Python wrapper would copy all its inputs."""
    return ctypes.CDLL(str(FOLDER / f"{name}.so"))


def _arguments(arrays: tuple[Array, ...], *sizes: int) -> list[Any]:
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    return [*pointers, *map(ctypes.c_int, sizes), ctypes.c_float(D**-0.5)]


def _all(function: Any, calls: list[list[Any]]) -> Callable[[], object]:
    def run() -> object:
        for call in calls:
            function(*call)
        return []

    return run


def _random(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _pool(keys: Array, values: Array, page: int) -> tuple[Array, Array, Array]:
    """Return the keys and values in random pages of a pool twice as large, and the block table."""
    count = keys.shape[2] // page
    table = np.random.default_rng(2).permutation(2 * count)[:count].astype(np.int32)
    pools = []
    for each in (keys, values):
        pool = np.zeros((2 * count, H_KV, page, D), np.float32)
        pool[table] = each.reshape(H_KV, count, page, D).swapaxes(0, 1)
        pools.append(pool)
    return pools[0], pools[1], table


def _copied(keys: Array, values: Array, table: Array, to_keys: Array, to_values: Array) -> Callable[[], object]:
    """Return a program that gathers the pages into contiguous arrays."""
    sides = [side.reshape(H_KV, len(table), -1, D) for side in (to_keys, to_values)]

    def run() -> object:
        for pool, side in zip((keys, values), sides, strict=True):
            for i, number in enumerate(table):
                side[:, i] = pool[number]
        return []

    return run
