"""This machine: its description, memory bandwidth and peak FLOP/s, each the best of several runs."""

import datetime
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ..doctor.blas import in_use
from ..doctor.machine import own_blas
from ..paths import ROOT
from .clock import on_cpu

ROUNDS, SECONDS = 8, 0.6  # of runs, at most
STREAM = 1 << 28  # bytes: eight times the last-level cache of most processors
SQUARE = 1024  # rows and columns of the matrices, on a CPU; a GPU needs larger ones
LARGE_SQUARE = 4096


def machine() -> dict[str, str]:
    """Return what a benchmark's numbers depend on, by name."""
    device = mx.default_device()
    cpu = device.type == mx.DeviceType.cpu
    mac = platform.mac_ver()[0]
    found = {
        "processor": f"{_name(mx.Device(mx.cpu))}, {os.cpu_count()} cores",
        "system": f"macOS {mac}" if mac else platform.system(),
        "python": platform.python_version(),
        "mlx": version("mlx"),
        "device": "CPU" if cpu else f"GPU, {_name(device)}",
    }
    return found | ({"blas": in_use() or own_blas()} if cpu else {})


def circumstances(package: Path, quick: bool) -> dict[str, Any]:
    """Return the fields of every record on how it was measured."""
    return {
        "package": package.relative_to(ROOT).as_posix(),
        "quick": quick,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
    }


def in_words(machine: dict[str, str]) -> str:
    """Return the machine's description in one line."""
    device = f"MLX {machine['mlx']} on the {machine['device']}"
    if "blas" in machine:
        device += f" with {machine['blas']}"
    return f"{machine['processor']}, {machine['system']}, Python {machine['python']}, {device}"


def _name(device: mx.Device) -> str:
    return str(mx.device_info(device).get("device_name") or platform.machine())


class Limits(NamedTuple):
    """A machine's bandwidth (bytes/s) and peak rate (FLOP/s), and how they were measured."""

    bandwidth: float
    rate: float
    how: str


def limits(quick: bool = False) -> Limits:
    """Measure the machine, on MLX's default device.

    On a CPU, bandwidth is measured with one thread per core, each taking NumPy's maximum of its part of an array (MLX
    uses one thread), and the peak with a float32 matrix product, in NumPy or MLX, whichever is faster.
    """
    size, side = (STREAM >> 4, SQUARE >> 2) if quick else (STREAM, SQUARE if on_cpu() else LARGE_SQUARE)
    numbers = np.ones(size // 4, np.float32)
    a, b = mx.random.normal((side, side)), mx.random.normal((side, side))
    mx.eval(a, b)
    products: list[Callable[[], object]] = [lambda: mx.eval(a @ b)]
    if on_cpu():
        cores = os.cpu_count() or 1
        with ThreadPoolExecutor(cores) as pool:
            parts = np.array_split(numbers, cores)
            reading = _fastest(lambda: list(pool.map(np.max, parts)))
        x, y = np.array(a), np.array(b)
        products.append(lambda: x @ y)
        who, by = f"by {cores} thread{'s' * (cores != 1)}", "by NumPy or MLX"
    else:
        array = mx.array(numbers)
        mx.eval(array)
        reading = _fastest(lambda: mx.eval(mx.max(array)))
        who, by = "on the GPU", "on the GPU"
    computing = min(map(_fastest, products))
    how = f"reading {size >> 20} MiB {who}, multiplying {side} x {side} float32 matrices {by}"
    return Limits(size / reading, 2 * side**3 / computing, f"{how}, the best of up to {ROUNDS} runs")


def _fastest(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several runs, after a warm-up."""
    run()
    taken: list[float] = []
    while len(taken) < ROUNDS and sum(taken) < SECONDS:
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)
