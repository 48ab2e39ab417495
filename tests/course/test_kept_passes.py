"""A ✓ is for the code that it was earned with: a change of whatever the task's code can reach takes it.

Each row is what stands at the end of a task's file, in a package where all is solved, with a further file perhaps; then
what is changed in one of the two.
"""

import shutil

import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.source.code import fingerprint

SOFTMAX, ENCODE, NORM = "1.1.1", "1.6.3", "1.4.1"
ONE, H = ("return 1", "return 2"), "def h(x): return 1"
BY_MINE, IMPORTS = "from . import basics\nbasics.x = 1", "from math import e"
USES = "def softmax(x, axis): return "
TOOL = "class Tool:\n    def run(self, x): return 1\n"
# A task, what stands at the end of its file, what is changed and into what; the file mine.py, if there is one.
CHANGES = {
    "an import": (SOFTMAX, f"from math import exp as e\n{USES}e(x)", "math import exp", "cmath import exp", ""),
    "an import within": (SOFTMAX, f"{USES}__import__('math').exp(x)", "math", "cmath", ""),
    "a rebinding below": (SOFTMAX, "softmax = mx.exp", "mx.exp", "mx.sin", ""),
    "a rebinding that was not there": (SOFTMAX, "x = 1", "x = 1", "softmax = mx.softmax", ""),
    "a rebinding of two": (SOFTMAX, "a, softmax = 1, mx.exp", "mx.exp", "mx.sin", ""),
    "a rebinding in a branch": (SOFTMAX, "if True:\n    softmax = mx.exp", "mx.exp", "mx.sin", ""),
    "a rebinding by walrus": (SOFTMAX, "(softmax := mx.exp)", "mx.exp", "mx.sin", ""),
    "a rebinding in a loop": (SOFTMAX, "for softmax in [mx.exp]: pass", "mx.exp", "mx.sin", ""),
    "a rebinding by with": (SOFTMAX, "with open('x') as softmax: pass", "'x'", "'y'", ""),
    "a rebinding by globals": (SOFTMAX, "globals()['softmax'] = mx.exp", "mx.exp", "mx.sin", ""),
    "a rebinding by setattr": (SOFTMAX, "import sys\nsetattr(sys, 'x', 1)", "'x', 1", "'x', 2", ""),
    "a deletion": (SOFTMAX, "_a = 1", "_a = 1", "del softmax", ""),
    "module-level code": (SOFTMAX, "print(1)", "1", "2", ""),
    "a called decorator": (SOFTMAX, f"def _d(f): return f\n@_d\n{USES}x", "return f", "return mx.sin", ""),
    "a default": (SOFTMAX, "_k = 1\ndef softmax(x, axis, k=_k): return k", "_k = 1", "_k = 2", ""),
    "a global": (SOFTMAX, f"_k = 1\n{USES}_k", "_k = 1", "_k = 2", ""),
    "a global, added to": (SOFTMAX, f"_k = 1\n_k += 1\n{USES}_k", "+= 1", "+= 2", ""),
    "a global's element": (SOFTMAX, f"_k = [1]\n_k[0] = 3\n{USES}_k", "= 3", "= 4", ""),
    "a global that a function sets": (
        SOFTMAX, f"_k = 1\ndef _set():\n    global _k\n    _k = 2\n_set()\n{USES}_k", "_k = 2", "_k = 3", "",
    ),
    "a helper": (SOFTMAX, f"def _h(x): return 1\n{USES}_h(x)", *ONE, ""),
    "a helper of a helper": (
        SOFTMAX, f"def _g(x): return 1\ndef _h(x): return _g(x)\n{USES}_h(x)", *ONE, "",
    ),
    "a helper by its name in a string": (SOFTMAX, f"def _h(x): return 1\n{USES}eval('_h(x)')", *ONE, ""),
    "a helper by globals()": (
        SOFTMAX, f"def _h(x): return 1\n{USES}globals()['_' + 'h'](x)", *ONE, "",
    ),
    "a helper by a table": (
        SOFTMAX, f"def _h(x): return 1\n_t = {{'a': _h}}\n{USES}_t['a'](x)", *ONE, "",
    ),
    "a class's method": (SOFTMAX, f"{TOOL}{USES}Tool().run(x)", *ONE, ""),
    "a class's method, by an object": (SOFTMAX, f"{TOOL}_t = Tool()\n{USES}_t.run(x)", *ONE, ""),
    "a base class": (
        SOFTMAX, f"{TOOL}class Other(Tool): pass\n{USES}Other().run(x)", *ONE, "",
    ),
    "a method put into a class": (
        SOFTMAX, f"{TOOL}Tool.run = lambda self, x: 3\n{USES}Tool().run(x)", "x: 3", "x: 4", "",
    ),
    "an operator of its class": (
        ENCODE, "class ByteLevelBPE:\n    def __getitem__(self, i): return 1\n    def encode(self, t): return self[t]",
        *ONE, "",
    ),
    "a method of its class by another name of self": (
        ENCODE,
        "class ByteLevelBPE:\n    def _h(self): return 1\n    def encode(self, text): me = self; return me._h()",
        *ONE, "",
    ),
    "a method of its class by getattr": (
        ENCODE,
        "class ByteLevelBPE:\n    def _h(self): return 1\n    def encode(self, text): return getattr(self, '_h')()",
        *ONE, "",
    ),
    "an attribute of its class": (
        ENCODE, "class ByteLevelBPE:\n    k = 1\n    def encode(self, text): return self.k", "k = 1", "k = 2", "",
    ),
    "the class's own base": (NORM, "class _B:\n    k = 1\nclass RMSNorm(_B): pass", "k = 1", "k = 2", ""),
    "a metaclass": (NORM, "class _M(type):\n    k = 1\nclass RMSNorm(metaclass=_M): pass", "k = 1", "k = 2", ""),
    "a further file": (SOFTMAX, "from .mine import h as softmax", *ONE, H),
    "a further file, by the package": (SOFTMAX, f"import tiny_llm.mine as m\n{USES}m.h(x)", *ONE, H),
    "a further file, by another import": (SOFTMAX, f"from . import mine\n{USES}mine.h(x)", *ONE, H),
    "a further file, imported within": (
        SOFTMAX, "def softmax(x, axis):\n    from tiny_llm.mine import h\n    return h(x)", *ONE, H,
    ),
    "a further file with all its names": (SOFTMAX, "from .mine import *", *ONE, "def softmax(x): return 1"),
    "a further file, by importlib": (
        SOFTMAX, f"import importlib\n_m = importlib.import_module('tiny_llm.mine')\n{USES}_m.h(x)",
        *ONE, H,
    ),
    "a further file, by importlib and a dot": (
        SOFTMAX, f"import importlib\n_m = importlib.import_module('.mine', __package__)\n{USES}_m.h(x)",
        *ONE, H,
    ),
    "a further file that is only imported": (SOFTMAX, "from . import mine", "x = 1", "x = 2", BY_MINE),
    "what a further file imports": (SOFTMAX, f"from . import mine\n{USES}mine.e(x)", "math", "cmath", IMPORTS),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_takes_the_pass(tmp_path, name):
    task_id, end, old, new, mine = CHANGES[name]
    package, task = tmp_path / "tiny_llm", load_course().task(task_id)
    shutil.copytree(SOLUTION, package)
    file = package / task.target.file
    file.write_text(f"{file.read_text(encoding='utf-8')}\n\n{end}\n", encoding="utf-8")
    if mine:
        (package / "mine.py").write_text(f"{mine}\n", encoding="utf-8")
    before = fingerprint(task, package)
    edited = package / "mine.py" if mine else file
    text, _, _ = edited.read_text(encoding="utf-8").rpartition(old)
    rest = edited.read_text(encoding="utf-8")[len(text) + len(old) :]
    edited.write_text(text + new + rest, encoding="utf-8")
    assert fingerprint(task, package) != before
