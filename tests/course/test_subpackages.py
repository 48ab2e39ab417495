"""A toy course whose targets lie in a folder of the package, one of them in Metal, graded from stub to borrowed."""

import os
import subprocess
import sys

import pytest
from tests.course.course_and_clone import commit, git, make_clone, without_settings

from tiny_llm_course.commands.sync import bring_in
from tiny_llm_course.commands.watch.saves import signature
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.source.package import write_stubs

REGISTRY = """
number = 1
title = "Toy"

[[days]]
number = 1
title = "Kernels"
chapter = "week1/day1.md"
"""
TASK = """
[[days.tasks]]
id = "{id}"
title = "{name}"
target = "{target}"
tests = "{name}"
needs = [{needs}]
minutes = 5
difficulty = 1
forbidden = [{forbidden}]
hints = ["one", "two", "three"]
"""
DOUBLE = '"""Doubling."""\n\nfrom .. import config\n\n\ndef double(x):\n    """Twice x."""\n    return x * config.TWO\n'
# A stand-in for a compiler: it stops at an #error, and knows one statement.
SCALE = '''"""Scaling."""

from pathlib import Path

from .double import double


def scale(x):
    """Four times x."""
    for number, line in enumerate(Path(__file__).with_suffix(".metal").read_text(encoding="utf-8").split("\\n"), 1):
        if line.startswith("#error"):
            raise RuntimeError(f"program_source:{number}:2: error: {line.removeprefix('#error ')}")
        if line.startswith("y = "):
            return eval(line.removeprefix("y = ").rstrip(";"), {"x": x, "twice": double})
'''
TESTS = """
import mlx.core as mx
import numpy as np
from tiny_llm.kernels import double, scale
from tiny_llm_course.testkit.agreement import compare


def test_double_of_one():
    compare(double.double(mx.array(1.0)), np.array(2.0), mx.float32, 0.0, "x 1", 1, indirect=False)


def test_scale_of_one():
    compare(scale.scale(mx.array(1.0)), np.array(4.0), mx.float32, 0.0, "x 1", 1, indirect=False)
"""
VARIANTS = """
import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("{id}")


@known.probe()
def of_three(program):
    return program(mx.array([3.0]))


@known.wrong("not-at-all", fact="nothing is multiplied", question="By what?")
def not_at_all(x):
    return x
"""
FILES = {
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p tiny_llm_course.grading.plugin'\n",
    "book/src/week1/day1.md": "# Kernels\n",
    "src/tiny_llm_course/course/tasks/week1.toml": REGISTRY
    + TASK.format(id="1.1.1", name="double", target="kernels.double:double", needs="", forbidden='"mlx.core.add"')
    + TASK.format(id="1.1.2", name="scale", target="kernels/scale.metal:scale", needs='"1.1.1"', forbidden="")
    + 'program = "kernels.scale:scale"\n',
    "solutions/tiny_llm/__init__.py": "",
    "solutions/tiny_llm/config.py": "TWO = 2\n",
    "solutions/tiny_llm/kernels/__init__.py": "",
    "solutions/tiny_llm/kernels/double.py": DOUBLE,
    "solutions/tiny_llm/kernels/scale.py": SCALE,
    "solutions/tiny_llm/kernels/scale.metal": "// x to y\n// --- your code: scale\ny = twice(twice(x));\n// --- end\n",
    "tests/week1/test_day1.py": TESTS,
    "tests/week1/variants_1_1_1.py": VARIANTS.format(id="1.1.1"),
    "tests/week1/variants_1_1_2.py": VARIANTS.format(id="1.1.2"),
}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "toy"
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    course = load_course(folder / "src/tiny_llm_course/course/tasks")
    write_stubs(folder / "solutions/tiny_llm", folder / "src/tiny_llm", course)
    return folder


def run(root, command):
    done = subprocess.run(
        [sys.executable, "-m", "tiny_llm_course", *command.split()],
        cwd=root,
        env={**os.environ, "TINY_LLM_ROOT": str(root), "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    return done.stdout


def edit(root, file, old, new):
    path = root / "src/tiny_llm/kernels" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


STUB, ERROR = 'raise NotImplementedError("1.1.1 double")', '#error "1.1.2 scale"'
FILE = "src/tiny_llm/kernels"


def solve_scale(root):
    edit(root, "scale.metal", ERROR, "y = twice(twice(x));")


def test_both_are_graded_named_and_borrowed(root):
    assert run(root, "test 1.1 --solution").endswith("2 of 2 tasks passed.\n")
    stubs = run(root, "test 1.1")
    assert f"○ 1.1.1 double: not started\n    code {FILE}/double.py:4 · " in stubs
    assert f"○ 1.1.2 scale: not started\n    code {FILE}/scale.metal:3 · " in stubs
    edit(root, "double.py", STUB, "return x")
    edit(root, "scale.metal", ERROR, "y = x;")
    assert run(root, "test 1.1").count("Your output equals what you get when nothing is multiplied.") == 2
    edit(root, "scale.metal", "y = x;", "y = twice(twice(x));")
    assert "1.1.2 scale: 1 of 1 check failed; this task is right, 1.1.1 which it uses is not" in run(root, "test 1.1")
    run(root, "borrow 1.1.1 1.1.2")
    assert run(root, "test 1.1").count("borrowed (pdm run return") == 2
    run(root, "return 1.1.2")
    passing = run(root, "test 1.1")
    assert "✓ 1.1.2 scale: passed, 1 check\n" in passing
    assert "\n⇢ on the reference, as you have borrowed" in passing
    assert "✓ 1.1.2 scale: done" in run(root, "status")
    done = run(root, "reset 1.1.2 --yes")
    assert done.startswith(f"{FILE}/scale.metal: scale (1.1.2 scale) will be a stub again.\n")
    assert "kernels/scale.metal src/tiny_llm/kernels/scale.metal" in done
    assert "○ 1.1.2 scale: not started" in run(root, "status")


@pytest.mark.parametrize(
    ("file", "put", "told", "double", "scale"),
    [
        ("double.py", "return mx.add(x, x)", "double.py:8 calls mx.add, which this task must do without", "✗", "✓"),
        ("double.py", "import os; os._exit(3)", "exit code 3", "✗", "~"),
        ("double.py", "return x\n\n\n1 / 0", "kernels/double.py:11  1 / 0", "✗", "~"),
        ("double.py", "return x\n\n\ndel double", f"{FILE}/double.py defines no double", "✗", "~"),
        (
            "scale.py",
            "1 / 0",
            f"These given files are not used, as they differ from the published ones: {FILE}/scale.py\n",
            "○",
            "~",
        ),
        ("__init__.py", "x = (", f"published ones: {FILE}/__init__.py\n", "○", "~"),
    ],
)
def test_a_fault_is_told_where_it_is(root, file, put, told, double, scale):
    solve_scale(root)
    edit(root, "double.py", 'Doubling."""', 'Doubling."""\n\nimport mlx.core as mx')
    if file == "double.py":
        edit(root, file, STUB, put)
    else:
        (root / FILE / file).write_text(f"{put}\n", encoding="utf-8")
    screen = run(root, "test 1.1")
    assert told in screen
    assert f"{double} 1.1.1 double: " in screen
    assert f"{scale} 1.1.2 scale: " in screen


def test_a_save_is_noticed(root):
    package = root / "src/tiny_llm"
    before = signature(package)
    (package / "notes.txt").write_text("", encoding="utf-8")
    assert signature(package) == before
    solve_scale(root)
    assert signature(package) != before


def test_sync_brings_both_up_to_date(root, tmp_path, monkeypatch, capsys):
    without_settings(tmp_path, monkeypatch)
    git(root, "init", "-q", "-b", "main")
    commit(root)
    clone = make_clone(root)
    solve_scale(clone)
    edit(root, "double.py", "Twice x.", "Two times x.")
    edit(root, "scale.metal", "// x to y", "// x and y [N]")
    commit(root)
    bring_in(clone)
    assert "Two times x." in (clone / FILE / "double.py").read_text(encoding="utf-8")
    wanted = FILES["solutions/tiny_llm/kernels/scale.metal"].replace("x to y", "x and y [N]")
    assert (clone / FILE / "scale.metal").read_text(encoding="utf-8") == wanted
    printed = capsys.readouterr().out
    assert f"✓ {FILE}/double.py: updated\n    updated  double\n" in printed
    assert f"✓ {FILE}/scale.metal: updated\n    updated  scale\n" in printed
    assert "Worth testing again:\n    pdm run test 1.1.2\n" in printed
