"""PyTorch as an oracle without PyTorch: its answers are recorded once and committed beside the tests.

A test hands over a function of torch and its inputs. Depending on `--oracle`, the answer is looked up (`recorded`, the
default), computed and compared with the recording (`torch`), or computed and recorded (`record`).
"""

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
    """The recordings of one test file: an .npz in which a key is a test's name and a hash of the inputs."""

    def __init__(self, path: Path, mode: str) -> None:
        self.path = path
        self.mode = mode
        self._stored: dict[str, np.ndarray[Any, Any]] = dict(np.load(path)) if path.exists() else {}
        self._used: dict[str, np.ndarray[Any, Any]] = {}

    def answer(self, test: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Array64:
        """`function(torch, *args, **kwargs)`, each MLX array handed over as a float32 torch tensor."""
        key = f"{test}/{_fingerprint(args, kwargs)}"
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

        live = function(torch, *map(tensor, args), **{name: tensor(v) for name, v in kwargs.items()}).numpy()
        if self.mode == "torch":
            stored = self._stored[key]
            # Another processor rounds its sums otherwise, by so much of the largest number.
            spread = 1e-6 * max(1.0, float(np.abs(stored).max(initial=0.0, where=np.isfinite(stored))))
            np.testing.assert_allclose(live, stored, rtol=1e-5, atol=spread, err_msg=f"stale recording: {key}")
        self._used[key] = live.astype(np.float32)
        return np.asarray(live, dtype=np.float64)

    def save(self, complete: bool = True) -> None:
        """Write what was recorded; the same answers give the same bytes. Recordings that no test used are dropped.

        They are kept if only some tests ran.
        """
        if self.mode == "record" and self._used:
            kept = self._used if complete else self._stored | self._used
            np.savez_compressed(self.path, **dict(sorted(kept.items())))  # type: ignore[arg-type]


def _fingerprint(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for v in [*args, *(kwargs[name] for name in sorted(kwargs))]:
        digest.update(str(to_float64(v).tolist() if isinstance(v, mx.array) else v).encode())
    return digest.hexdigest()[:12]
