"""PyTorch as an oracle without PyTorch: look its answers up, compare them with live ones, or record them."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from .rounding import Array64, to_float64

MODES = ("recorded", "torch", "record")


class Recordings:
    """The recordings of one test file: an .npz whose keys are a test's name and a hash of the inputs."""

    def __init__(self, path: Path, mode: str) -> None:
        self.path = path
        self.mode = mode
        self._stored: dict[str, np.ndarray[Any, Any]] = dict(np.load(path)) if path.exists() else {}
        self._used: dict[str, np.ndarray[Any, Any]] = {}

    def answer(self, test: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Array64:
        """Return `function(torch, *args, **kwargs)`, where each MLX array arrives as a float32 torch tensor."""
        digest = hashlib.sha256()
        for v in [*args, *(kwargs[name] for name in sorted(kwargs))]:
            digest.update(str(to_float64(v).tolist() if isinstance(v, mx.array) else v).encode())
        key = f"{test}/{digest.hexdigest()[:12]}"
        if self.mode != "record" and key not in self._stored:
            # tests/week1/torch_day3.npz
            numbers = re.findall(r"(week|day)(\d+)", f"{self.path.parent.name} {self.path.stem}")
            how = " ".join(["pdm run dev record", *(f"--{word} {number}" for word, number in numbers)])
            raise LookupError(f"PyTorch's answer to {test} is not in {self.path.name}. Record it: {how}")
        if self.mode == "recorded":
            return self._stored[key].astype(np.float64)
        import torch  # 1.3 s, so only on request

        def tensor(v: Any) -> Any:
            return torch.from_numpy(np.array(v.astype(mx.float32))) if isinstance(v, mx.array) else v

        try:
            live = function(torch, *map(tensor, args), **{name: tensor(v) for name, v in kwargs.items()}).numpy()
        except ModuleNotFoundError:
            if self.mode == "torch":  # a machine with PyTorch alone, without the maintainers' transformers
                return self._stored[key].astype(np.float64)
            raise
        if self.mode == "torch":
            stored = self._stored[key]
            # Another processor may round sums differently, by this share of the largest number.
            spread = 1e-6 * max(1.0, float(np.abs(stored).max(initial=0.0, where=np.isfinite(stored))))
            np.testing.assert_allclose(live, stored, rtol=1e-5, atol=spread, err_msg=f"stale recording: {key}")
        self._used[key] = live.astype(np.float32)
        return np.asarray(live, dtype=np.float64)

    def save(self, complete: bool = True) -> None:
        """Write the recordings, if complete without unused ones; the same answers give the same bytes."""
        if self.mode == "record" and self._used:
            kept = self._used if complete else self._stored | self._used
            np.savez_compressed(self.path, **dict(sorted(kept.items())))  # type: ignore[arg-type]
