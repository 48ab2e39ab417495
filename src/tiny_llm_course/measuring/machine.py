"""The machine in words, for those who read a measurement without it."""

import os
import platform
from importlib.metadata import version

import mlx.core as mx

from ..doctor.blas import in_use
from ..doctor.machine import own_blas


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


def in_words(machine: dict[str, str]) -> str:
    """All of it in one line."""
    device = f"MLX {machine['mlx']} on the {machine['device']}"
    if "blas" in machine:
        device += f" with {machine['blas']}"
    return f"{machine['processor']}, {machine['system']}, Python {machine['python']}, {device}"


def _name(device: mx.Device) -> str:
    return str(mx.device_info(device).get("device_name") or platform.machine())
