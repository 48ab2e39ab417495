"""A course of three kernels, made in a folder: two parts of one file, one calling the other, and an optional one."""

from pathlib import Path

from tests.course.native_course import run as run

from tiny_llm_course.paths import SOLUTION

TASK = """
[[days.tasks]]
id = "1.1.{number}"
title = "{title}"
target = "kernels/{file}.cpp:{name}"
program = "kernels.ours:{name}"
tests = "task_{number}"
needs = {needs}
minutes = 10
difficulty = {number}
forbidden = []
requires = ["compiler"]
hints = ["one", "two", "three"]
"""
REGISTRY = (
    'number = 1\ntitle = "Week"\nbuild = "kernels/build.py"\ncalls = "kernels.native:run"\n'
    + '[[days]]\nnumber = 1\ntitle = "Day"\nchapter = "day.md"\n'
    + TASK.format(number=1, title="Sum", file="sums", name="sum", needs="[]")
    + TASK.format(number=2, title="Sums", file="sums", name="sums", needs='["1.1.1"]')
    + TASK.format(number=3, title="Mean", file="mean", name="mean", needs="[]")
    + "optional = true\n"
)
SOLVED = {
    "sum": "*y = 0;\n  for (int i = 0; i < n; ++i) *y += x[i];",
    "sums": "pool().run(rows, 2, [&](int first, int last) {\n"
    "    for (int i = first; i < last; ++i) sum(x + i * n, y + i, n);\n  });",
    "mean": "*y = 0;\n  for (int i = 0; i < n; ++i) *y += x[i] / n;",
}
STUB = {
    "sum": 'throw std::runtime_error("1.1.1 Sum");',
    "sums": 'throw std::runtime_error("1.1.2 Sums");',
    "mean": 'throw std::runtime_error("1.1.3 Mean");',
}
SUMS = """#include <stdexcept>

#include "pool.h"

// The sum of n numbers.
extern "C" void sum(const float* x, float* y, int n) {
  // --- your code: sum
  SUM
  // --- end
}

// The sum of each row.
extern "C" void sums(const float* x, float* y, int rows, int n) {
  // --- your code: sums
  EVERY
  // --- end
}
"""
MEAN = """#include <stdexcept>

extern "C" void mean(const float* x, float* y, int n) {
  // --- your code: mean
  MEAN
  // --- end
}
"""
OURS = '''"""The kernels, from Python."""

from .native import Result, call


def sum(x):
    """The sum."""
    return call("sums.cpp", "sum", x, Result((1,)), x.size)


def sums(x):
    """The sum of each row."""
    return call("sums.cpp", "sums", x, Result((x.shape[0],)), *x.shape)


def mean(x):
    """The mean."""
    return call("mean.cpp", "mean", x, Result((1,)), x.size)
'''
TESTS = """import mlx.core as mx

from tiny_llm.kernels import ours
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import fast
from tiny_llm_course.testkit.rounding import exact


def sum64(x, *, r=exact):
    return r(x.sum(keepdims=True))


def sums64(x, *, r=exact):
    return r(x.sum(axis=1))


def mean64(x, *, r=exact):
    return r(x.mean(keepdims=True))


def test_task_1_adds():
    agrees(ours.sum, sum64, normals(1)(6), seed=1)


def test_task_1_sweep():
    for n in range(1, 40):
        agrees(fast(ours.sum), sum64, normals(n)(n), seed=n)


def test_task_2_adds_rows():
    agrees(ours.sums, sums64, normals(1)(5, 6), seed=1)


def test_task_2_sweep():
    for n in range(1, 40):
        agrees(fast(ours.sums), sums64, normals(n)(n, 3), seed=n)


def test_task_3_takes_the_mean():
    agrees(ours.mean, mean64, normals(1)(6), seed=1)
"""
VARIANTS = """import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.1.{number}")


@known.probe()
def probe(program):
    return program(normals(1)({shape}))


@known.probe()
def another(program):
    return program(normals(2)({other}))


"""
KNOWN = {
    1: 'known.change("squares", ("x[i]", "x[i] * x[i]"), fact="it adds squares", question="Of what?")\n',
    2: 'known.change("first-row", ("x + i * n", "x"), fact="each is that of row 0", question="Where is row 1?")\n'
    'known.change("one-place", ("y + i", "y"), fact="all sums go to y[0]", question="Where does row 1 go?")\n',
    3: 'known.change("sum", (" / n", ""), fact="it is the sum", question="Of how many?")\n',
}
SHAPES = {1: ("6", "9"), 2: ("5, 6", "1, 4"), 3: ("6", "9")}


def write_course(root: Path, **written: str) -> Path:
    """Write the course, in which the learner has written these parts; "solved" stands for the solution's."""
    learners = {name: SOLVED[name] if written.get(name) == "solved" else written.get(name, STUB[name]) for name in STUB}
    given = SOLUTION / "kernels"
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-p", "tiny_llm_course.grading.plugin"]\n',
        "src/tiny_llm_course/course/tasks/week1.toml": REGISTRY,
        "tests/week1/test_day1.py": TESTS,
    }
    for number, known in KNOWN.items():
        head = VARIANTS.replace("{number}", str(number))
        shape, other = SHAPES[number]
        files[f"tests/week1/variants_1_1_{number}.py"] = (
            head.replace("{shape}", shape).replace("{other}", other) + known
        )
    for package, parts in (("src", learners), ("solutions", SOLVED)):
        sums = SUMS.replace("SUM", parts["sum"], 1).replace("EVERY", parts["sums"])
        files |= {
            f"{package}/tiny_llm/__init__.py": '"""A package."""\n',
            f"{package}/tiny_llm/kernels/__init__.py": '"""Kernels."""\n',
            f"{package}/tiny_llm/kernels/native.py": (given / "native.py").read_text(encoding="utf-8"),
            f"{package}/tiny_llm/kernels/pool.h": (given / "pool.h").read_text(encoding="utf-8"),
            f"{package}/tiny_llm/kernels/ours.py": OURS,
            f"{package}/tiny_llm/kernels/sums.cpp": sums,
            f"{package}/tiny_llm/kernels/mean.cpp": MEAN.replace("MEAN", parts["mean"]),
            f"{package}/tiny_llm/kernels/build.py": "# There is nothing to build but the kernels themselves.\n",
        }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root
