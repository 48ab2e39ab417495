"""A course of one kernel in Metal, made in a folder."""

from pathlib import Path

from tests.course.native_course import run as run

from tiny_llm_course.paths import SOLUTION

REGISTRY = """number = 1
title = "Week"
launches = "metal.device:run"

[[days]]
number = 1
title = "Day"
chapter = "day.md"

[[days.tasks]]
id = "1.1.1"
title = "Sums"
target = "metal/sums.metal:sums"
program = "metal.ours:sums"
tests = "task_1"
needs = []
minutes = 10
difficulty = 1
forbidden = []
requires = ["simulator"]
hints = ["one", "two", "three"]
"""
STUB = '#error "1.1.1 Sums"'
SOLVED = """threadgroup float sums[2];
const uint size = x_shape[1], row = threadgroup_position_in_grid.x * size, t = thread_position_in_threadgroup.x;
float sum = 0;
for (uint i = t; i < size; i += 64) {
  sum += x[row + i];
}
sum = simd_sum(sum);
if (t % 32 == 0) sums[t / 32] = sum;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (t == 0) out[threadgroup_position_in_grid.x] = sums[0] + sums[1];"""
KERNEL = """// The sum of each row: a threadgroup of 64 threads for each.
//
// --- your code: sums
BODY
// --- end
"""
OURS = '''"""The kernel, from Python."""

import mlx.core as mx

from .device import Launch, launch


def sums(x):
    """The sum of each row."""
    work = Launch({"x": x}, {"out": ((len(x),), mx.float32)}, (64 * len(x), 1, 1), (64, 1, 1))
    return launch("sums", work)[0]
'''
TESTS = """from tiny_llm.metal import ours
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import costs_at_most
from tiny_llm_course.testkit.marks import on
from tiny_llm_course.testkit.rounding import exact


def sums64(x, *, r=exact):
    return r(x.sum(axis=1))


def test_task_1_adds():
    agrees(ours.sums, sums64, normals(1)(2, 96), seed=1)


@on("gpu")
def test_task_1_on_the_gpu():
    agrees(ours.sums, sums64, normals(1)(2, 96), seed=1)


def test_task_1_costs():
    x = normals(2)(2, 64)
    enough = {"moved": x.nbytes + 2 * 64, "bank_conflicts": 0, "barriers": 2}
    costs_at_most(ours.sums, x, seed=2, **enough)


def test_task_1_sweep():
    for n in range(1, 9):
        agrees(ours.sums, sums64, normals(n)(n, 70), seed=n)
"""
VARIANTS = """from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.1.1")


@known.probe()
def long_rows(program):
    return program(normals(1)(2, 96))


@known.probe()
def one_row(program):
    return program(normals(2)(1, 70))


known.change("squares", ("x[row + i]", "x[row + i] * x[row + i]"), fact="it adds squares", question="Of what?")
known.change("row-0", ("+= x[row + i]", "+= x[i]"), fact="each is that of row 0", question="Where is row 1?")
"""


def write_course(root: Path, body: str) -> Path:
    """Write the course, in which the learner has written this body."""
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-p", "tiny_llm_course.grading.plugin"]\n',
        "src/tiny_llm_course/course/tasks/week1.toml": REGISTRY,
        "tests/week1/test_day1.py": TESTS,
        "tests/week1/variants_1_1_1.py": VARIANTS,
    }
    for package, written in (("src", body), ("solutions", SOLVED)):
        files |= {
            f"{package}/tiny_llm/__init__.py": '"""A package."""\n',
            f"{package}/tiny_llm/metal/__init__.py": '"""Kernels."""\n',
            f"{package}/tiny_llm/metal/device.py": (SOLUTION / "metal" / "device.py").read_text(encoding="utf-8"),
            f"{package}/tiny_llm/metal/ours.py": OURS,
            f"{package}/tiny_llm/metal/sums.metal": KERNEL.replace("BODY", written),
        }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root
