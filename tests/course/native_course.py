"""A course of two tasks, made in a folder: one in Python, one in C++, which has to be built and needs a compiler."""

import json
import os
import subprocess
import sys
from pathlib import Path

TASK = """
[[days.tasks]]
id = "1.1.{number}"
title = "{title}"
target = "{target}"
tests = "task_{number}"
needs = {needs}
minutes = 10
difficulty = {number}
forbidden = []
hints = ["one", "two", "three"]
"""
REGISTRY = (
    'number = 1\ntitle = "Week"\nbuild = "extension/build.py"\n'
    + '[[days]]\nnumber = 1\ntitle = "Day"\nchapter = "day.md"\n'
    + TASK.format(number=1, title="Double", target="plain:double", needs=[])
    + TASK.format(number=2, title="Sum", target="extension/add.cpp:add", needs=["1.1.1"])
    + 'program = "plain:add"\nrequires = ["compiler"]\nseconds = 7\n'
)
SOLVED = {"double": "return 2 * x", "add": "return x + y;"}
STUB = {"double": 'raise NotImplementedError("1.1.1 Double")', "add": 'throw std::runtime_error("1.1.2 Sum");'}
PLAIN = '''"""Two functions."""

from .extension import library


def double(x):
    """Twice x."""
    DOUBLE


def add(x, y):
    """The sum, in C++."""
    return library().add(x, y)
'''
LOADS = '''"""The C++ part, loaded when it is first used: this can be imported where nothing is built."""

import ctypes
from pathlib import Path


def library():
    return ctypes.CDLL(str(Path(__file__).parent / ".build" / "add.so"))
'''
SOURCE = """#include <stdexcept>

extern "C" int add(int x, int y) {
    // --- your code: add
    ADD
    // --- end
}
"""
BUILDS = '''"""Compiles add.cpp."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

out = Path(sys.argv[1])
with (out / "runs").open("a", encoding="utf-8") as runs:
    runs.write("once\\n")
command = [*shlex.split(os.environ["CXX"]), "-shared", "-fPIC", "-o", str(out / "new.so"), "add.cpp"]
status = subprocess.run(command).returncode
if status == 0:
    os.replace(out / "new.so", out / "add.so")
sys.exit(status)
'''
TESTS = """from tiny_llm import plain
from tiny_llm_course.testkit.marks import needs


def test_task_1_doubles():
    assert plain.double(3) == 6


@needs("compiler")
def test_task_1_beside_the_sum():
    assert plain.double(2) == plain.add(2, 2)


def test_task_2_adds():
    assert plain.add(2, 3) == 5
"""
VARIANTS = """import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.1.{number}")


@known.probe()
def probe(program):
    return mx.array(program(*[3] * {number}))


@known.wrong("nothing", fact="it is nothing", question="What is one and one?")
def nothing(*numbers):
    return 0
"""
# Several commands in one process: what each returns and prints.
RUN = """
import contextlib, io, json, sys
from tiny_llm_course.commands.cli import cli
done = []
for arguments in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            status = cli.main(arguments, prog_name="pdm run", obj=(), standalone_mode=False)
        except Exception as error:
            status = str(error)
    done.append([status, out.getvalue()])
print(json.dumps(done))
"""


def write_course(root: Path, *solved: str) -> Path:
    """Write the course, of which the learner has solved these."""
    learners = {name: SOLVED[name] if name in solved else STUB[name] for name in SOLVED}
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-p", "tiny_llm_course.grading.plugin"]\n',
        "src/tiny_llm_course/course/tasks/week1.toml": REGISTRY,
        "tests/week1/test_day1.py": TESTS,
        **{f"tests/week1/variants_1_1_{n}.py": VARIANTS.replace("{number}", str(n)) for n in (1, 2)},
    }
    for package, functions in (("src", learners), ("solutions", SOLVED)):
        files |= {
            f"{package}/tiny_llm/__init__.py": '"""A package."""\n',
            f"{package}/tiny_llm/plain.py": PLAIN.replace("DOUBLE", functions["double"]),
            f"{package}/tiny_llm/extension/__init__.py": LOADS,
            f"{package}/tiny_llm/extension/build.py": BUILDS,
            f"{package}/tiny_llm/extension/add.cpp": SOURCE.replace("ADD", functions["add"]),
        }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def run(root: Path, *commands: str, **environment: str) -> list[tuple[int | str, str]]:
    """Run some commands, one after another; the exit code of each or what stopped it, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([command.split() for command in commands])],
        cwd=root,
        env={**os.environ, "TINY_LLM_ROOT": str(root), "PYTHONUTF8": "1", **environment},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return [(status, text) for status, text in json.loads(done.stdout.splitlines()[-1])]
