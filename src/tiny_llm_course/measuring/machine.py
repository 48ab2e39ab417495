"""This machine: what it is, in words, and what it can do at most, measured: how fast it reads memory and computes.

Both rates are the best of several runs, as what disturbs a run only makes it slower.
"""

import dataclasses
import datetime
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from ..doctor.blas import in_use
from ..doctor.machine import own_blas
from ..paths import ROOT
from .clock import on_cpu

ROUNDS, SECONDS = 8, 0.6  # of runs, at most
STREAM = 1 << 28  # bytes: eight times what most processors keep beside them
SQUARE = 1024  # rows and columns of the matrices, on a CPU; a GPU needs more to do
LARGE_SQUARE = 4096


def machine() -> dict[str, str]:
    """What a measurement's numbers depend on, by name."""
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
    """What every record of a measurement says of how it was taken."""
    return {
        "package": package.relative_to(ROOT).as_posix(),
        "quick": quick,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
    }


def in_words(machine: dict[str, str]) -> str:
    """All of it in one line."""
    device = f"MLX {machine['mlx']} on the {machine['device']}"
    if "blas" in machine:
        device += f" with {machine['blas']}"
    return f"{machine['processor']}, {machine['system']}, Python {machine['python']}, {device}"


def _name(device: mx.Device) -> str:
    return str(mx.device_info(device).get("device_name") or platform.machine())


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a machine can do: bytes and FLOPs a second, and in words how that was found."""

    bandwidth: float
    rate: float
    how: str


def limits(quick: bool = False) -> Limits:
    """Measure the machine, on MLX's default device.

    On a CPU the bandwidth is that of one thread for each core, as many as matrix products and the kernels of week 2
    use: each looks for the largest number in its part of an array. NumPy does that, as MLX does it with one thread. The
    rate is that of a product of float32 matrices, by NumPy or MLX, whichever is faster. On a GPU, MLX does both.
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
    """The seconds of the fastest of some runs, after one that does not count."""
    run()
    taken: list[float] = []
    while len(taken) < ROUNDS and sum(taken) < SECONDS:
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)
