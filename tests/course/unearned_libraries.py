"""Stand-ins for libraries that do a task's work: of PyTorch and others the names count, and not everybody has them."""

from pathlib import Path

FILES = {
    "torch/__init__.py": "from scipy.special import softmax\nfrom numpy import asarray as tensor\n",
    "torch/nn/__init__.py": "",
    "torch/nn/functional.py": "import numpy as np\ndef silu(x): return x / (1 + np.exp(-x))\n",
    "scipy/__init__.py": "",
    "scipy/special.py": "import numpy as np\ndef softmax(x, axis):\n    e = np.exp(x - x.max(axis, keepdims=True))\n"
    "    return e / e.sum(axis, keepdims=True)\n",
    "jax.py": "import mlx.core as mx\ndef softmax(x, axis):\n    e = mx.exp(x - x.max(axis, keepdims=True))\n"
    "    return e / e.sum(axis, keepdims=True)\n",
    "transformers/__init__.py": "",
    "transformers/models/__init__.py": "",
    "transformers/models/gpt2.py": "def byte_alphabet():\n"
    "    own = [*range(33, 127), *range(161, 173), *range(174, 256)]\n"
    "    rest = [b for b in range(256) if b not in own]\n"
    "    return {b: chr(b) for b in own} | {b: chr(256 + i) for i, b in enumerate(rest)}\n",
    "mlx_lm.py": "import mlx.core as mx\ndef apply(function, *args): return function(*args)\n"
    "class RMSNorm:\n    def __init__(self, dim, weight, eps=1e-5): self.weight, self.eps = weight, eps\n"
    "    def __call__(self, x):\n        y = x.astype(mx.float32)\n"
    "        y = y * mx.rsqrt((y * y).mean(-1, keepdims=True) + self.eps)\n"
    "        return (y.astype(x.dtype) * self.weight).astype(x.dtype)\n",
}


def write_libraries(folder: Path) -> None:
    """Write them into a folder, for Python's path."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
