"""No pass that was not earned, and no right program refused: two tables of what lazy and diligent learners write.

A way is code at the end of a task's file, in a copy of the course where all is solved: what it defines takes the place
of our solution. `LAZY` has what must not pass, each with words of the verdict; `RIGHT` what must. All are graded in one
process (`ways.py`). What a reader alone can see, such as a copy of our solution, stands on the book's page for teachers.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.course.unearned_libraries import write_libraries

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Scenario, checkout_for, environment


class Way(NamedTuple):
    """How a task is written, and what the verdict must say."""

    task: str
    code: str
    told: str = "passed"
    files: dict[str, str] = {}  # noqa: RUF012


SOFTMAX, LINEAR, SILU, EMBEDDING, NORM, ROPE, GROUPED = "1.1.1", "1.1.3", "1.4.2", "1.5.1", "1.4.1", "1.2.2", "1.3.2"
MX_SOFTMAX = "softmax is not written here: it is mx.softmax"
CALLS_SOFTMAX = "calls mx.softmax, which this task must do without"
STANDS = "but week 1 stands on mlx, numpy, regex and the standard library"
ANSWERS = "where the answers are: write it yourself"
BY_TORCH = "    return mx.array(np.array(torch.softmax(torch.tensor(np.array(x.astype(mx.float32))), axis))).astype(x.dtype)"
COPIED = "key and value hold 2.1 MB, and your code takes "
OURS = "solutions/tiny_llm/basics.py"


def softmax(body: str, above: str = "") -> str:
    return f"{above}\ndef softmax(x, axis):\n    {body}"


def attend(expand: str) -> str:
    """Grouped attention on keys and values that are spread out before."""
    return f"""
def scaled_dot_product_attention_grouped(query, key, value, scale=None, mask=None):
    heads, kv_heads = query.shape[-3], key.shape[-3]
    if heads % kv_heads or (isinstance(mask, str) and mask != "causal"):
        raise ValueError("uneven groups, or an unknown mask")
    if isinstance(mask, str):
        mask = causal_mask(query.shape[-2], key.shape[-2], query.dtype)
    group = heads // kv_heads
    def spread(x):
        return {expand}
    return scaled_dot_product_attention_simple(query, spread(key), spread(value), scale, mask)
"""


LAZY = {
    # The target is the operator.
    "imported": Way(SOFTMAX, "from mlx.core import softmax", MX_SOFTMAX),
    "imported with all others": Way(SOFTMAX, "from mlx.core import *", MX_SOFTMAX),
    "another name for it": Way(SOFTMAX, "softmax = mx.softmax", MX_SOFTMAX),
    "found by getattr": Way(SOFTMAX, "softmax = getattr(mx, 'soft' + 'max')", MX_SOFTMAX),
    "found in the module's dict": Way(SOFTMAX, "softmax = vars(mx)['softmax']", MX_SOFTMAX),
    "found by its path": Way(SOFTMAX, "import pkgutil\nsoftmax = pkgutil.resolve_name('mlx.core:softmax')", MX_SOFTMAX),
    "found by operator": Way(SOFTMAX, "import operator\nsoftmax = operator.attrgetter('softmax')(mx)", MX_SOFTMAX),
    "a global, set late": Way(SOFTMAX, "globals()['softmax'] = mx.softmax", MX_SOFTMAX),
    "set in its own module": Way(SOFTMAX, "import sys\nsetattr(sys.modules[__name__], 'softmax', mx.softmax)", MX_SOFTMAX),
    "of mlx.nn": Way(SOFTMAX, "import mlx.nn as nn\nsoftmax = nn.softmax", "softmax is not written here: it is mlx.nn.softmax"),
    "compiled": Way(SOFTMAX, "softmax = mx.compile(mx.softmax)", MX_SOFTMAX),
    "compiled without shapes": Way(SOFTMAX, "softmax = mx.compile(mx.softmax, shapeless=True)\nsoftmax(mx.ones((2, 3)), axis=1)", MX_SOFTMAX),
    "a partial": Way(SOFTMAX, "from functools import partial\nsoftmax = partial(mx.softmax, precise=True)", MX_SOFTMAX),
    "a partial of a partial": Way(SOFTMAX, "from functools import partial\nsoftmax = partial(partial(mx.softmax), precise=True)", MX_SOFTMAX),
    "kept in a cache": Way(SOFTMAX, "from functools import cache\nsoftmax = cache(mx.softmax)", MX_SOFTMAX),
    "a checkpoint of it": Way(SOFTMAX, "softmax = mx.checkpoint(mx.softmax)", "mx.softmax"),
    "in a static method": Way(SOFTMAX, "class Tool:\n    run = staticmethod(mx.softmax)\nsoftmax = Tool.run", MX_SOFTMAX),
    "by another of one's files": Way(SOFTMAX, "from .mine import softmax", MX_SOFTMAX, {"mine.py": "from mlx.core import softmax\n"}),
    "an object of MLX's": Way(SILU, "import mlx.nn as nn\nsilu = nn.SiLU()", "silu is not written here: it is an object of mlx.nn.layers.activations.SiLU"),
    "an object's method": Way(SILU, "import mlx.nn as nn\nsilu = nn.SiLU().__call__", "silu is not written here: it is mlx.nn.SiLU.__call__"),
    "a compiled object": Way(SILU, "import mlx.nn as nn\nsilu = mx.compile(nn.SiLU())", "silu is not written here: it is an object of mlx.nn.layers.activations.SiLU"),
    "silu": Way(SILU, "from mlx.nn import silu", "silu is not written here: it is mlx.nn.silu"),
    "another path to it": Way(SILU, "from mlx.nn.layers.activations import silu", "silu is not written here: it is mlx.nn.silu"),
    "another path that is no trap": Way(SILU, "import mlx.nn as nn\nsilu = nn.Sequential(nn.SiLU())", "silu is not written here: it is an object of mlx.nn"),
    "the whole class": Way(EMBEDDING, "from mlx.nn import Embedding", "Embedding"),
    # It calls the operator.
    "called": Way(SOFTMAX, softmax("return mx.softmax(x, axis=axis)"), CALLS_SOFTMAX),
    "called in a helper": Way(SOFTMAX, softmax("return _s(x, axis)", "def _s(x, axis): return mx.softmax(x, axis=axis)"), CALLS_SOFTMAX),
    "called, and nothing said": Way(SOFTMAX, softmax("try: return mx.softmax(x, axis=axis)\n    except BaseException: pass\n    e = mx.exp(x - x.max(axis, keepdims=True))\n    return e / e.sum(axis, keepdims=True)"), CALLS_SOFTMAX),
    "called when it is called first": Way(SOFTMAX, softmax("return _s(x, axis)", "_s = mx.compile(lambda x, axis: mx.softmax(x, axis=axis))"), CALLS_SOFTMAX),
    "compiled while imported": Way(SOFTMAX, softmax("return _s(x) if axis in (-1, x.ndim - 1) else _s(x.swapaxes(axis, -1)).swapaxes(axis, -1)", "_s = mx.compile(lambda x: mx.softmax(x, axis=-1), shapeless=True)\n_s(mx.ones((2, 3)))"), CALLS_SOFTMAX),
    "in another thread": Way(SOFTMAX, softmax("with ThreadPoolExecutor() as pool: return pool.submit(mx.softmax, x, axis=axis).result()", "from concurrent.futures import ThreadPoolExecutor"), CALLS_SOFTMAX),
    "by map": Way(SOFTMAX, softmax("return next(map(_s, [x], [axis]))", "from mlx.core import softmax as _s"), CALLS_SOFTMAX),
    "from a string": Way(SOFTMAX, softmax("return eval('mx.softmax(x, axis=axis)')"), CALLS_SOFTMAX),
    "defined from a string": Way(SOFTMAX, "exec('def softmax(x, axis): return mx.softmax(x, axis=axis)')", CALLS_SOFTMAX),
    "vectorized": Way(SOFTMAX, softmax("return mx.vmap(lambda r: mx.softmax(r, axis=-1))(x.swapaxes(axis, -1)).swapaxes(axis, -1) if x.ndim > 1 else mx.softmax(x)"), CALLS_SOFTMAX),
    "in a decorator's closure": Way(SOFTMAX, "from functools import wraps\ndef mine(f):\n    @wraps(f)\n    def run(*a, **k): return f(*a, **k)\n    return run\nsoftmax = mine(mx.softmax)", CALLS_SOFTMAX),
    "in an object of one's own": Way(SOFTMAX, "class Softmax:\n    def __call__(self, x, axis): return mx.softmax(x, axis=axis)\nsoftmax = Softmax()", CALLS_SOFTMAX),
    "as the method of an object": Way(SOFTMAX, "class Softmax:\n    __call__ = staticmethod(mx.softmax)\nsoftmax = Softmax()", "softmax is not written here"),
    "by a layer of MLX": Way(SOFTMAX, softmax("y = nn.Softmax()(x.swapaxes(axis, -1))\n    return y.swapaxes(axis, -1)", "import mlx.nn as nn"), CALLS_SOFTMAX),
    "a layer in a function": Way(LINEAR, "import mlx.nn as nn\ndef linear(x, w, bias=None):\n    layer = nn.Linear(*w.T.shape, bias=False)\n    layer.weight = w\n    y = layer(x)\n    return y if bias is None else y + bias", "calls mlx.nn.Linear"),
    "a layer's method alone": Way(LINEAR, "import mlx.nn as nn\ndef linear(x, w, bias=None):\n    return nn.Linear.__call__({'weight': w} if bias is None else {'weight': w, 'bias': bias}, x)", "calls mlx.nn.Linear, which"),
    "a layer made while imported": Way(LINEAR, "import mlx.nn as nn\n_l = nn.Linear(1, 1)\ndef linear(x, w, bias=None):\n    _l.weight = w\n    _l.bias = mx.zeros(1) if bias is None else bias\n    return _l(x).astype(x.dtype)", "calls mlx.nn.Linear"),
    "silu, within a partial": Way(SILU, "import mlx.nn as nn\nfrom functools import partial\nclass Tool:\n    def __init__(self, f): self.f = f\n    @property\n    def run(self): return partial(self.f)\nsilu = Tool(nn.silu).run", "mlx.nn.silu"),
    "the attention of MLX": Way("1.1.2", "def scaled_dot_product_attention_simple(query, key, value, scale=None, mask=None):\n    return mx.fast.scaled_dot_product_attention(query, key, value, scale=scale or query.shape[-1] ** -0.5, mask=mask)", "calls mx.fast.scaled_dot_product_attention"),
    # The class is the operator's.
    "a subclass": Way(EMBEDDING, "import mlx.nn as nn\nclass Embedding(nn.Embedding):\n    def __init__(self, vocab_size, embedding_dim, weight):\n        if weight.shape != (vocab_size, embedding_dim): raise ValueError(f'{weight.shape} {vocab_size} {embedding_dim}')\n        nn.Module.__init__(self)\n        self.weight = weight", "Embedding is a kind of mlx.nn.Embedding, which this task must do without"),
    "a subclass of a subclass": Way(NORM, "import mlx.nn as nn\nclass _N(nn.RMSNorm): pass\nclass RMSNorm(_N):\n    def __init__(self, dim, weight, eps=1e-5):\n        nn.Module.__init__(self)\n        self.weight, self.eps = weight, eps", "RMSNorm is a kind of mlx.nn.RMSNorm"),
    "a subclass that writes all": Way(EMBEDDING, "import mlx.nn as nn\n_Own = Embedding\nclass Embedding(nn.Embedding):\n    __init__ = lambda self, v, e, weight: (nn.Module.__init__(self), _Own.__init__(self, v, e, weight))[0]\n    def __call__(self, tokens): return _Own.__call__(self, tokens)\n    def as_linear(self, x): return _Own.as_linear(self, x)", "Embedding is a kind of mlx.nn.Embedding, which this task must do without"),
    "a method borrowed from the class": Way(NORM, "import mlx.nn as nn\nclass RMSNorm(dict):\n    def __init__(self, dim, weight, eps=1e-5): self.update(weight=weight); self.eps = eps\n    __call__ = nn.RMSNorm.__call__", "RMSNorm calls mlx.nn.RMSNorm, which"),
    "a class made by type()": Way(EMBEDDING, "import mlx.nn as nn\nEmbedding = type('Embedding', (nn.Embedding,), {'__init__': lambda self, v, e, weight: (nn.Module.__init__(self), setattr(self, 'weight', weight))[0]})", "mlx.nn.Embedding"),
    "an operator in an attribute": Way(NORM, "from functools import partial\nclass RMSNorm:\n    def __init__(self, dim, weight, eps=1e-5): self.run = partial(mx.fast.rms_norm, weight=weight, eps=eps)\n    __call__ = property(lambda self: self.run)", "calls mx.fast.rms_norm"),
    "an object in the class's place": Way(ROPE, "import mlx.nn as nn\nclass RoPE:\n    def __new__(cls, dims, seq_len, base=10000, traditional=False): return nn.RoPE(dims, traditional, base)", "calls mlx.nn.RoPE"),
    # Copies where none are to be.
    "repeated": Way(GROUPED, attend("mx.repeat(x, group, axis=-3)"), "calls mx.repeat"),
    "tiled": Way(GROUPED, attend("mx.tile(x[..., None, :, :], (group, 1, 1)).reshape(*x.shape[:-3], heads, *x.shape[-2:])"), COPIED),
    "taken": Way(GROUPED, attend("mx.take(x, mx.arange(heads) // group, axis=-3)"), COPIED),
    "indexed": Way(GROUPED, attend("x[..., mx.arange(heads) // group, :, :]"), COPIED),
    "joined": Way(GROUPED, attend("mx.concatenate([x[..., h // group : h // group + 1, :, :] for h in range(heads)], axis=-3)"), COPIED),
    "stacked": Way(GROUPED, attend("mx.stack([x] * group, axis=-3).reshape(*x.shape[:-3], heads, *x.shape[-2:])"), COPIED),
    "broadcast and reshaped": Way(GROUPED, attend("mx.broadcast_to(x[..., None, :, :], (*x.shape[:-2], group, *x.shape[-2:])).reshape(*x.shape[:-3], heads, *x.shape[-2:])"), COPIED),
    "repeated by NumPy": Way(GROUPED, "import numpy as np\n" + attend("mx.array(np.repeat(np.array(x.astype(mx.float32)), group, axis=-3)).astype(x.dtype)"), COPIED),
    # Other libraries.
    "PyTorch": Way(SOFTMAX, softmax(BY_TORCH.strip(), "import numpy as np\nimport torch"), f"src/tiny_llm/basics.py imports torch, {STANDS}"),
    "PyTorch, imported when it is called": Way(SOFTMAX, softmax("import torch\n" + BY_TORCH, "import numpy as np"), f"imports torch, {STANDS}"),
    "PyTorch's functions": Way(SILU, "import numpy as np\nfrom torch.nn.functional import silu as _s\ndef silu(x): return mx.array(_s(np.array(x.astype(mx.float32)))).astype(x.dtype)", f"imports torch, {STANDS}"),
    "PyTorch by importlib": Way(SOFTMAX, softmax(BY_TORCH.strip(), "import importlib\nimport numpy as np\ntorch = importlib.import_module('torch')"), f"imports torch, {STANDS}"),
    "SciPy": Way(SOFTMAX, softmax("return mx.array(special.softmax(np.array(x.astype(mx.float32)), axis)).astype(x.dtype)", "import numpy as np\nfrom scipy import special"), f"imports scipy, {STANDS}"),
    "a name that is put together": Way(SOFTMAX, softmax("return mx.array(special.softmax(np.array(x.astype(mx.float32)), axis)).astype(x.dtype)", "import numpy as np\nspecial = __import__('sci' + 'py.special', fromlist=['softmax'])"), f"imports scipy, {STANDS}"),
    "in another of one's files": Way(SOFTMAX, "from .mine import softmax", f"src/tiny_llm/mine.py imports jax, {STANDS}", {"mine.py": softmax("return jax.softmax(x, axis)", "import jax")}),
    "tokenizers": Way("1.6.1", "from transformers.models.gpt2 import byte_alphabet", f"is not written here"),
    "tokenizers, called": Way("1.6.1", "from transformers.models import gpt2\ndef byte_alphabet(): return gpt2.byte_alphabet()", f"imports transformers, {STANDS}"),
    "a sampler of a library": Way("1.7.4", "import mlx_lm\n_own = keep_min_p\ndef keep_min_p(logits, min_p): return mlx_lm.apply(_own, logits, min_p)", f"imports mlx_lm, {STANDS}"),
    # The course's own answers.
    "the formula of the tests": Way(SOFTMAX, "import numpy as np\nfrom tests.week1.formulas import softmax64\ndef softmax(x, axis): return mx.array(softmax64(np.array(x.astype(mx.float32)), axis)).astype(x.dtype)", f"imports tests, {ANSWERS}"),
    "the solution, by its name here": Way(SOFTMAX, "def softmax(x, axis):\n    import tiny_llm_solution.basics as b\n    return b.softmax(x, axis)", ANSWERS),
    "the harness": Way(SOFTMAX, "from tiny_llm_course.course.nouns import Target\nfrom tiny_llm_course.programs.packages import program\ndef softmax(x, axis): return program(Target('basics', 'softmax'), 'tiny_llm_solution')(x, axis)", ANSWERS),
    "the harness, by parts of its name": Way(SOFTMAX, "import importlib\ndef softmax(x, axis):\n    p = importlib.import_module('tiny_llm' + '_course.programs.packages')\n    return p.program(p.Target('embedding', 'linear'), 'tiny_llm' + '_solution')(x, axis)", "solutions/, where the answers are"),
    "the file, run": Way(SOFTMAX, f"import runpy\nsoftmax = runpy.run_path('{OURS}')['softmax']", "solutions/, where the answers are"),
    "the file, by a path in bytes": Way(SOFTMAX, softmax(f"exec(open(b'{OURS}').read(), d := {{}})\n    return d['softmax'](x, axis)"), "solutions/, where the answers are"),
    "the file, by a path object": Way(SOFTMAX, softmax(f"exec(Path('{OURS}').read_text(), d := {{}})\n    return d['softmax'](x, axis)", "from pathlib import Path"), "solutions/, where the answers are"),
    "the file, by os.open": Way(SOFTMAX, softmax(f"exec(os.read(os.open('{OURS}', 0), 99999), d := {{}})\n    return d['softmax'](x, axis)", "import os"), "solutions/, where the answers are"),
    "the file, by linecache": Way(SOFTMAX, softmax(f"exec(''.join(linecache.getlines('{OURS}')), d := {{}})\n    return d['softmax'](x, axis)", "import linecache"), "solutions/, where the answers are"),
    "the file, from its folder": Way(SOFTMAX, softmax("os.chdir('solutions')\n    exec(open('tiny_llm/basics.py').read(), d := {})\n    return d['softmax'](x, axis)", "import os"), "solutions/, where the answers are"),
    "the file, by another program": Way(SOFTMAX, softmax(f"exec(subprocess.check_output(['cat', '{OURS}']), d := {{}})\n    return d['softmax'](x, axis)", "import subprocess"), "solutions/, where the answers are"),
    "the file, by a symbolic link": Way(SOFTMAX, softmax(f"link = tempfile.mkdtemp() + '/x'\n    os.symlink(os.path.abspath('{OURS}'), link)\n    exec(open(link).read(), d := {{}})\n    return d['softmax'](x, axis)", "import os, tempfile"), "solutions/, where the answers are"),
    "a module of one's own from it": Way(SOFTMAX, softmax("spec = util.spec_from_file_location('mine', '" + OURS + "')\n    m = util.module_from_spec(spec)\n    spec.loader.exec_module(m)\n    return m.softmax(x, axis)", "from importlib import util"), "solutions/, where the answers are"),
    "the known programs": Way(SOFTMAX, softmax("exec(open('tests/week1/variants_1_1_1.py').read(), d := {})\n    return d['softmax'](x, axis)"), "tests/, where the answers are"),
    "the recorded answers": Way(SOFTMAX, softmax("return np.load('tests/week1/torch_day1.npz')", "import numpy as np"), "tests/, where the answers are"),
}  # fmt: skip

_OWN = "_mine = softmax"
RIGHT = {
    "as we do": Way(SOFTMAX, ""),
    "another name of MLX": Way(SOFTMAX, softmax("e = core.exp(x - core.max(x, axis=axis, keepdims=True))\n    return e / core.sum(e, axis=axis, keepdims=True)", "from mlx import core")),
    "names from MLX": Way(SOFTMAX, softmax("e = exp(x - x.max(axis, keepdims=True))\n    return e / e.sum(axis, keepdims=True)", "from mlx.core import exp")),
    "all names from MLX": Way(SILU, "from mlx.core import *\ndef silu(x): return x * sigmoid(x.astype(float32)).astype(x.dtype)"),
    "log-softmax by hand": Way(SOFTMAX, softmax("x32 = x.astype(mx.float32) - x.max(axis, keepdims=True)\n    return mx.exp(x32 - mx.log(mx.sum(mx.exp(x32), axis=axis, keepdims=True))).astype(x.dtype)")),
    "compiled": Way(SOFTMAX, f"{_OWN}\nsoftmax = mx.compile(_mine)"),
    "compiled by a decorator, without shapes": Way(SILU, "from functools import partial\n_own = silu\n@partial(mx.compile, shapeless=True)\ndef silu(x): return _own(x)"),
    "compiled while imported": Way(SILU, "_own = mx.compile(silu)\n_own(mx.ones(3))\ndef silu(x): return _own(x)"),
    "a partial": Way(SOFTMAX, "from functools import partial\ndef _s(x, axis, keep): e = mx.exp(x - x.max(axis, keepdims=keep)); return e / e.sum(axis, keepdims=keep)\nsoftmax = partial(_s, keep=True)"),
    "a lambda": Way(SOFTMAX, f"{_OWN}\nsoftmax = lambda x, axis: _mine(x, axis)"),
    "an object with __call__": Way(SOFTMAX, f"{_OWN}\nclass Softmax:\n    def __call__(self, x, axis): return _mine(x, axis)\nsoftmax = Softmax()"),
    "an object's method": Way(SOFTMAX, f"{_OWN}\nclass Tool:\n    def run(self, x, axis): return _mine(x, axis)\nsoftmax = Tool().run"),
    "a decorator of one's own": Way(SOFTMAX, "from functools import wraps\ndef timed(f):\n    @wraps(f)\n    def run(*a, **k): return f(*a, **k)\n    return run\nsoftmax = timed(softmax)"),
    "wraps the operator's name": Way(SOFTMAX, f"{_OWN}\nfrom functools import wraps\n@wraps(mx.softmax)\ndef softmax(x, axis): return _mine(x, axis)"),
    "a singledispatch": Way(SOFTMAX, "from functools import singledispatch\nsoftmax = singledispatch(softmax)"),
    "a cached helper": Way(SOFTMAX, f"{_OWN}\nfrom functools import cache\n@cache\ndef _minus(axis): return axis\ndef softmax(x, axis): return _mine(x, _minus(axis))"),
    "in a file of one's own": Way(SOFTMAX, "from .mine import softmax", files={"mine.py": "import mlx.core as mx\ndef softmax(x, axis):\n    e = mx.exp(x - x.max(axis, keepdims=True))\n    return e / e.sum(axis, keepdims=True)\n"}),
    "in NumPy": Way(SOFTMAX, softmax("v = np.array(x.astype(mx.float32))\n    e = np.exp(v - v.max(axis, keepdims=True))\n    return mx.array(e / e.sum(axis, keepdims=True)).astype(x.dtype)", "import numpy as np")),
    "with prints": Way(SOFTMAX, f"{_OWN}\nimport sys, logging, pprint\ndef softmax(x, axis):\n    print(x.shape, file=sys.stderr); logging.debug(x); pprint.pprint(axis)\n    return _mine(x, axis)"),
    "with a breakpoint": Way(SOFTMAX, f"{_OWN}\ndef softmax(x, axis):\n    breakpoint()\n    return _mine(x, axis)"),
    "types for a checker": Way(SOFTMAX, f"{_OWN}\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\ndef softmax(x: 'torch.Tensor', axis: int) -> 'torch.Tensor': return _mine(x, axis)"),
    "PyTorch where the file is run": Way(SOFTMAX, "if __name__ == '__main__':\n    import torch\n    print(torch.softmax)"),
    "PyTorch in a function for oneself": Way(SOFTMAX, "def show():\n    import torch\n    print(torch.softmax)"),
    "an experiment with the operator": Way(SOFTMAX, "import mlx.nn as nn\n_wanted = mx.softmax(mx.ones((2, 3)), axis=-1)\ndef difference(x): return mx.abs(softmax(x, -1) - mx.softmax(x, axis=-1)).max()"),
    "a module of MLX": Way(EMBEDDING, "import mlx.nn as nn\n_Own = Embedding\nclass Embedding(nn.Module):\n    def __init__(self, vocab_size, embedding_dim, weight):\n        super().__init__()\n        if weight.shape != (vocab_size, embedding_dim): raise ValueError(f'weight {weight.shape} {vocab_size} {embedding_dim}')\n        self.weight = weight\n    def __call__(self, tokens): return self.weight[tokens]\n    as_linear = _Own.as_linear"),
    "a module with a layer of another task's": Way(NORM, "import mlx.nn as nn\n_Own = RMSNorm\nclass RMSNorm(nn.Module):\n    def __init__(self, dim, weight, eps=1e-5):\n        super().__init__()\n        self.drop, self.own = nn.Dropout(0.0), _Own(dim, weight, eps)\n    def __call__(self, x): return self.own(self.drop(x))"),
    "a dataclass": Way(NORM, "import dataclasses\n_Own = RMSNorm\n@dataclasses.dataclass\nclass RMSNorm:\n    dim: int\n    weight: mx.array\n    eps: float = 1e-5\n    def __post_init__(self): self._own = _Own(self.dim, self.weight, self.eps)\n    def __call__(self, x): return self._own(x)"),
    "a subclass of one's own class": Way(NORM, "_Own = RMSNorm\nclass RMSNorm(_Own): pass"),
    "slots and a static method": Way("1.6.1", "_own = byte_alphabet\nclass Tool:\n    __slots__ = ()\n    @staticmethod\n    def table(): return _own()\nbyte_alphabet = Tool.table"),
    "a method that is a function elsewhere": Way("1.6.3", "def _encode(self, text, _own=ByteLevelBPE.encode): return _own(self, text)\nByteLevelBPE.encode = _encode"),
    "attention of one's own": Way("1.1.2", "_own = scaled_dot_product_attention_simple\ndef scaled_dot_product_attention_simple(*a, **k): return _own(*a, **k)"),
    "groups by einsum": Way(GROUPED, "_own = scaled_dot_product_attention_grouped\ndef scaled_dot_product_attention_grouped(query, key, value, scale=None, mask=None):\n    return _own(query, key + 0, value + 0, scale, mask)"),
    "a sampler with random numbers": Way("1.7.4", "import random, numpy as np\n_own = keep_min_p\ndef keep_min_p(logits, min_p): return _own(logits, float(np.float64(min_p)))"),
}  # fmt: skip


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> dict[str, str]:
    """What grading says of each way, by its table and name."""
    libraries = tmp_path_factory.mktemp("libraries")
    write_libraries(libraries)
    ways = {("lazy", name): way for name, way in LAZY.items()} | {("right", name): way for name, way in RIGHT.items()}
    with checkout_for(Scenario("all solved", (), tuple(task.id for task in load_course().tasks()))) as checkout:
        surroundings = environment(checkout)
        surroundings["PYTHONPATH"] += f":{libraries}"
        done = subprocess.run(
            [sys.executable, "-P", str(Path(__file__).with_name("ways.py")), str(libraries)],
            cwd=checkout,
            env={**surroundings, "PYTHONBREAKPOINT": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            input=json.dumps([way._asdict() for way in ways.values()]),
            capture_output=True,
            text=True,
        )
    assert done.stdout, done.stderr
    said, seconds = json.loads(done.stdout)
    Path("/tmp/h1_seconds.json").write_text(json.dumps(sorted(zip(seconds, map(str, ways)))))
    return dict(zip(ways, said, strict=True))


@pytest.mark.parametrize("name", LAZY)
def test_what_was_not_earned_is_named(verdicts, name):
    said = verdicts["lazy", name]
    assert said != "passed"
    assert LAZY[name].told in said


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(verdicts, name):
    assert verdicts["right", name] == "passed"
