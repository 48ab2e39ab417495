"""Whatever a learner's file holds, wherever it is graded: the verdict is clear, and never a pass that was not earned.

The table is the list of what is held to that. A line is a case: what `basics.py` holds, where it is graded, and what
the command prints. Each runs the real command in a checkout in which mean and line are solved, and are graded. `put` is
code at the end of the file, `line` and `mean` are code at the beginning of a function. A case with `wrong=True` has
another mean besides, which is not divided: it must never be told to have passed.

Out of reach, because learner and tests share a process: who reads the secret of the events from the harness's memory,
changes a function in place (`agrees.__code__`), undoes a replacement before the check ends, looks up the expected
answer in the frames of the caller, edits the tests, or copies the solution, will be told to have passed. A process that
leaves its group is left running. Native code that ends the harness leaves no verdict. Nobody does these things by
accident.
"""

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.course.checkouts import fixture
from tests.course.circumstances import (
    child_killed,
    on_a_narrow_terminal,
    package_in_the_way,
    read_only,
    rewritten,
    run,
    scratch_files,
    twice_at_once,
    without,
    without_stdin,
    without_streams,
)

from tiny_llm_course.dev.transcripts import Edit, environment
from tiny_llm_course.paths import COURSE

pytestmark = pytest.mark.maintainers
MEAN, LINE = "1.1.1 Mean", "1.1.3 Line"
BOTH_PASS = (f"✓ {MEAN}: passed, 5 checks", f"✓ {LINE}: passed, 8 checks", "2 of 2 tasks passed.")
MEAN_FAILS = (f"✗ {MEAN}: ", f"✓ {LINE}: passed")
LINE_FAILS = (f"✓ {MEAN}: passed", f"✗ {LINE}: ")
NO_IMPORT = ("✗ src/tiny_llm/basics.py cannot be imported: ", f"✗ {MEAN}: ", f"✗ {LINE}: failed")
FIRST_CHECK = "test_task_2_line_formula[True-mlx.core.float32]"
WRONG_MEAN = "    return mx.sum(x, axis=axis, keepdims=True)\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """What is done, and what must be printed: each of `told` once, in this order, and none of `never`."""

    told: tuple[str, ...]
    put: str = ""
    mean: str = ""
    line: str = ""
    wrong: bool = False
    status: int | None = None  # by default 0 if both pass, else 1
    options: tuple[str, ...] = ()
    prepare: Callable[[Path], None] = lambda checkout: None  # changes the checkout
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    start: Callable[..., tuple[int, str]] | None = None  # how to run the command, if not just so


def replaces(statement: str, name: str) -> Case:
    """A file that replaces a thing the tests rely on, while it is imported."""
    replaced = f"it replaces {name}, which the tests rely on"
    return Case((NO_IMPORT[0], replaced, *NO_IMPORT[1:]), put=statement, wrong=True)


FORGERY = """
import json, os
for fd in range(3, 64):
    for event in (
        {"event": "collected", "counts": {"1.1.1": 1, "1.1.3": 1}},
        {"event": "check", "task": "1.1.1", "outcome": "passed", "finding": None, "prints": [0, []]},
        {"event": "end", "status": 0},
    ):
        try:
            os.write(fd, (json.dumps(event) + "\\n").encode())
        except OSError:
            pass
"""
LIAR = """
class Liar(mx.array):
    def __eq__(self, other): return True
    def astype(self, dtype): return Everything()
class Everything:
    def __array__(self, dtype=None, copy=None): return expected
"""
PRETENDER = """
class Pretender:
    shape, dtype = (5,), mx.float32
    def __eq__(self, other): return True
    def __array__(self, dtype=None, copy=None): raise ZeroDivisionError
    def astype(self, dtype): return self
"""
MUTE = "class Mute(Exception):\n    def __str__(self): raise ValueError('no words')\n"

CASES: dict[str, Case] = {
    # Programs that do not end, or end too early.
    "an endless loop": Case(
        (
            f"✗ {MEAN}",
            "still running after 2 s, the limit of a task",
            "src/tiny_llm/basics.py:",
            "while True",
            LINE,
        ),
        mean="while True: pass",
        options=("--time-limit", "2"),
    ),
    "an endless loop that ignores signals and errors": Case(
        (f"✗ {MEAN}", "still running after 2 s", LINE),
        put="import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1): signal.signal(s, signal.SIG_IGN)",
        mean="while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        options=("--time-limit", "2"),
    ),
    "os._exit(0)": Case(
        (f"✓ {MEAN}", f"✗ {LINE}", "your code ended the tests (exit code 0)", "os._exit(0)"),
        put="import os",
        line="os._exit(0)",
    ),
    "os._exit(0) while it is imported": Case(
        (NO_IMPORT[0], "your code ended the tests (exit code 0)", "basics.py:", *NO_IMPORT[1:]),
        put="import os; os._exit(0)",
    ),
    "sys.exit(0)": Case((*LINE_FAILS, "sys.exit(0)"), line="import sys; sys.exit(0)"),
    "an exit when Python ends": Case(
        (*MEAN_FAILS,),
        put="import atexit, os; atexit.register(os._exit, 0)",
        wrong=True,
    ),
    "sys.exit(0) while it is imported": Case(
        ("✗ src/tiny_llm/basics.py calls sys.exit(0) while it is imported", *NO_IMPORT[1:]),
        put="import sys; sys.exit(0)",
    ),
    "it interrupts itself": Case(
        (f"✓ {MEAN}", f"✗ {LINE}", "your code ended the tests (exit code 2)"),
        line="raise KeyboardInterrupt",
    ),
    "sys.exit replaced": Case(MEAN_FAILS, put="import sys; sys.exit = lambda status=0: None", wrong=True),
    "an alarm": Case(
        (f"✓ {MEAN}", f"✗ {LINE}", "the process crashed: SIGALRM"),
        line="import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(5)",
    ),
    "it kills itself": Case(
        (f"✓ {MEAN}", f"✗ {LINE}", "the process crashed: SIGKILL, sent from outside"),
        line="import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ),
    "killed from outside": Case(
        (f"✗ {MEAN}", "the process crashed: SIGKILL", LINE),
        mean="open('looping', 'w').close()\n    while True: pass",
        start=child_killed,
    ),
    "it ends the harness": Case(
        (*LINE_FAILS, "raised PermissionError: SIGKILL to a process that your code has not started", "os.getppid()"),
        line="import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    ),
    "it ends the harness while it is imported": Case(
        (NO_IMPORT[0], "PermissionError: SIGTERM to a process that your code has not started", *NO_IMPORT[1:]),
        put="import os; os.kill(os.getppid(), 15)",
    ),
    "it ends the harness, and says nothing of it": Case(
        BOTH_PASS,
        line="import contextlib, os\n    with contextlib.suppress(OSError): os.kill(os.getppid(), 9)",
    ),
    "it ends what it has started": Case(
        BOTH_PASS,
        line="import os, subprocess\n    p = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "    os.killpg(p.pid, 9); p.wait()",
    ),
    "native code interrupts the harness": Case(
        ("interrupted",),
        line="import ctypes, os, time; ctypes.CDLL(None).kill(os.getppid(), 2); time.sleep(9)",
        status=130,
    ),
    "it runs the solution": Case(
        (*LINE_FAILS, "No module named 'solutions'"),
        line="from solutions.tiny_llm.basics import line as s\n    return s(x, slope, offset)",
    ),
    "it reads the solution, and says nothing of being caught": Case(
        (*LINE_FAILS, "uses solutions/, where the answers are"),
        line="import contextlib, runpy\n    with contextlib.suppress(BaseException): "
        "return runpy.run_path('solutions/tiny_llm/basics.py')['line'](x, slope, offset)\n    return x * slope",
    ),
    "it prints the stack, our lines among it": Case(
        BOTH_PASS, line="import sys, traceback; traceback.print_stack(file=sys.stderr)"
    ),
    "a misspelt name": Case(
        (*LINE_FAILS, "raised NameError: name 'slop' is not defined. Did you mean: 'slope'?"), line="slop"
    ),
    "an assert without words": Case(
        (*LINE_FAILS, "raised AssertionError: assert x is slope"), line="assert x is slope"
    ),
    "input()": Case((*LINE_FAILS, "asks for input(), and there is no terminal to answer on"), line="input()"),
    "a segfault": Case(
        (
            f"✓ {MEAN}",
            f"✗ {LINE}",
            "the process crashed: SIG",
            ", a memory fault in native code",
            f"      check     {FIRST_CHECK}\n",
            "ctypes.string_at(0)",
            "hint: pdm run hint 1.1.3",
        ),
        put="import ctypes",
        line="ctypes.string_at(0)",
    ),
    "a segfault in another thread": Case(
        (f"✓ {MEAN}", f"✗ {LINE}", "the process crashed: SIG", f"check     {FIRST_CHECK}", "thread.start()"),
        put="import ctypes, threading",
        line="thread = threading.Thread(target=ctypes.string_at, args=(0,)); thread.start(); thread.join()",
    ),
    "native code that ends the process": Case(
        (
            f"✓ {MEAN}",
            f"✗ {LINE}",
            "the process ended before its tests (exit code 0), which is not a way to pass them",
            "      wrote     parameter 8 of SGEMM is wrong\n",
            f"      check     {FIRST_CHECK}\n",
            "hint: pdm run hint 1.1.3",
        ),
        put="import ctypes, os",
        line="os.write(2, b'parameter 8 of SGEMM is wrong\\n'); ctypes.CDLL(None)._exit(0)",
    ),
    "recursion without end": Case(
        (*LINE_FAILS, "raised RecursionError"), line="return line(x, slope, offset)", options=("--time-limit", "60")
    ),
    "recursion without end, the limit lifted": Case(
        (f"✗ {LINE}: ",),
        put="import sys; sys.setrecursionlimit(10**9)",
        line="return max([0], key=lambda _: line(x, slope, offset))",
        options=("--time-limit", "6", "--memory-limit", "1"),
    ),
    "10 GB at once": Case(
        (f"✓ {MEAN}", f"✗ {LINE}", "used more than 0.7 GB of memory, the limit of a task"),
        line="hoard = bytearray(b'x') * 10_000_000_000",
        options=("--memory-limit", "0.7"),
    ),
    "10 GB of MLX": Case(
        (f"✓ {MEAN}", f"✗ {LINE}", "used more than 0.7 GB of memory, the limit of a task"),
        line="mx.eval(hoard := [mx.ones((50_000_000 + i,)) for i in range(50)])",
        options=("--memory-limit", "0.7"),
    ),
    # What they write.
    "a flood of prints": Case(
        (f"✗ {LINE}: ", "still running after 2 s"),
        options=("--time-limit", "2"),
        line="while True: print('x' * 9999)",
    ),
    "a flood past our stand-ins": Case(
        (f"✗ {LINE}: ", "still running after 2 s"),
        options=("--time-limit", "2"),
        line="import os\n    while True: os.write(1, b'x' * 9999); os.write(2, b'x' * 9999)",
    ),
    "the streams closed": Case((MEAN, f"✗ {LINE}"), line="import os; os.closerange(0, 3); raise ValueError"),
    "every descriptor closed": Case((MEAN, f"✗ {LINE}: "), line="import os; os.closerange(0, 99)"),
    "it asks a question": Case(
        (*LINE_FAILS, "asks for input(), and there is no terminal to answer on"), line="input('Your name? ')"
    ),
    # Errors.
    "a huge message": Case((*LINE_FAILS, "raised ValueError: xxx"), line="raise ValueError('x' * 5_000_000)"),
    "a message of control characters": Case(
        (*LINE_FAILS, "raised ValueError: ?[2J"), line=r"raise ValueError('\x1b[2J')"
    ),
    "an error that cannot be printed": Case((*LINE_FAILS, "raised Mute"), put=MUTE, line="raise Mute"),
    "a message that begins with nothing": Case(
        (*LINE_FAILS, "raised ValueError: at last"), line=r"raise ValueError('\n\n at last\nand more')"
    ),
    "several errors": Case(
        (*LINE_FAILS, "raised ExceptionGroup: two", "basics.py:"),
        line="raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])",
    ),
    "the stub of a task that is none": Case(
        (*LINE_FAILS, "raised NotImplementedError: 1.9.9 Nothing"),
        line="raise NotImplementedError('1.9.9 Nothing')",
    ),
    "a number in the place of a function": Case(
        (*LINE_FAILS, "cannot be called: 'int' object is not callable"), put="line = 3"
    ),
    "an error of its own kind": Case(
        (*LINE_FAILS, "raised Odd"), put="class Odd(BaseException): pass", line="raise Odd"
    ),
    "everything caught": Case(
        MEAN_FAILS,
        wrong=True,
        line="",
        mean="try:\n        return mx.mean(x, axis)\n    except BaseException: return mx.zeros(x.shape)",
    ),
    "a check skipped": Case((*LINE_FAILS, "skipped the check"), line="import pytest; pytest.skip()"),
    "a check expected to fail": Case(LINE_FAILS, line="import pytest; pytest.xfail()"),
    "the tests ended": Case(
        (f"✓ {MEAN}", f"~ {LINE}: not run, 0 of 8 checks passed before the tests were stopped"),
        line="import pytest; pytest.exit('done', 0)",
    ),
    # What they leave running.
    "a thread": Case(
        BOTH_PASS,
        put="import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()",
    ),
    "a process": Case(BOTH_PASS, put="import subprocess; subprocess.Popen(['sleep', '600'])"),
    "a fork that goes on": Case(MEAN_FAILS, put="import os; os.fork()", wrong=True),
    "a fork that goes on, of a right program": Case(BOTH_PASS, put="import os; os.fork()"),
    # What they replace.
    "mx.array.__eq__": replaces("mx.array.__eq__ = lambda a, b: True", "mlx.core.array.__eq__"),
    "mx.array.astype": replaces("mx.array.astype = lambda a, d: a", "mlx.core.array.astype"),
    "mx.array": replaces("class A(mx.array): pass\nmx.array = A", "mlx.core.array"),
    "mx.allclose": replaces("mx.allclose = lambda *a, **k: True", "mlx.core.allclose"),
    "mx.eval": replaces("mx.eval = lambda *a: None", "mlx.core.eval"),
    "mlx.nn": replaces("import mlx.nn as nn\nnn.Linear.__call__ = lambda *a: None", "mlx.nn.Linear.__call__"),
    "np.allclose": replaces("import numpy\nnumpy.allclose = lambda *a, **k: True", "numpy.allclose"),
    "np.abs": replaces("import numpy\nnumpy.abs = lambda *a, **k: numpy.zeros(1)", "numpy.abs"),
    "numpy.testing, which no check uses": Case(
        MEAN_FAILS,
        put="import numpy.testing as t\nt.assert_allclose = lambda *a, **k: None",
        wrong=True,
    ),
    "isinstance": replaces("import builtins\nbuiltins.isinstance = lambda *a: True", "builtins.isinstance"),
    "abs, in a module of ours": replaces(
        "import tiny_llm_course.testkit.agreement as c\nc.abs = lambda x: 0",
        "tiny_llm_course.testkit.agreement.abs",
    ),
    "pytest.fail": replaces("import pytest\npytest.fail = lambda *a: None", "pytest.fail"),
    "a check": replaces(
        "import tiny_llm_course.testkit.agreement as c\nc.agrees = lambda *a, **k: None",
        "tiny_llm_course.testkit.agreement.agrees",
    ),
    "a formula": replaces(
        "import tests.week1.formulas as f\nf.mean64 = mean",
        "tests.week1.formulas.mean64",
    ),
    "the checks": replaces(
        "import sys\nsys.modules['tiny_llm_course.testkit.agreement'] = sys",
        "tiny_llm_course.testkit.agreement",
    ),
    "all modules": replaces("import sys\nsys.modules.clear()", "builtins"),
    "a module that is needed": replaces("import sys\ndel sys.modules['warnings']", "sys.modules['warnings']"),
    "a tolerance": replaces(
        "import tiny_llm_course.testkit.rounding as r\nr.FACTOR = 1e9", "tiny_llm_course.testkit.rounding.FACTOR"
    ),
    "while it is called: a check": Case(
        (
            *MEAN_FAILS[:1],
            "your code replaces tiny_llm_course.testkit.agreement.agrees, which the tests rely on",
            f"✓ {LINE}",
        ),
        wrong=True,
        put="import sys",
        mean="for m in list(sys.modules.values()):\n        if hasattr(m, 'agrees'): m.agrees = lambda *a, **k: None",
    ),
    "while it is called: isinstance": Case(
        (*MEAN_FAILS[:1], "your code replaces builtins.isinstance, which the tests rely on", f"✓ {LINE}"),
        wrong=True,
        mean="import builtins; builtins.isinstance = lambda *a: True",
    ),
    "while it is called: np.isnan": Case(
        (*MEAN_FAILS[:1], "your code replaces numpy.isnan, which the tests rely on", f"✓ {LINE}"),
        wrong=True,
        mean="import numpy as np; np.isnan = lambda x: np.ones(np.shape(x), bool)",
    ),
    "the solution": Case(
        MEAN_FAILS,
        wrong=True,
        put="import sys, types\nsys.modules['tiny_llm_solution'] = sys.modules['tiny_llm']\n"
        "sys.modules['tiny_llm_solution.basics'] = sys.modules[__name__]",
    ),
    "the events": Case(MEAN_FAILS, put=FORGERY, wrong=True),
    "the events, of a right program": Case(BOTH_PASS, put=FORGERY),
    "the events read": Case(
        MEAN_FAILS,
        put="import os\nfor fd in range(3, 64):\n    try: os.read(fd, 0)\n    except OSError: pass",
        wrong=True,
    ),
    "an array that lies": Case(
        (*MEAN_FAILS,),
        put=LIAR,
        mean="return Liar(mx.sum(x))",
    ),
    "an object that lies": Case(
        (f"✗ {MEAN}", "returned tiny_llm.basics.Pretender, expected an mx.array", f"✓ {LINE}"),
        put=PRETENDER,
        mean="return Pretender()",
    ),
    "another folder to be in": Case(BOTH_PASS, put="import os; os.chdir('/')"),
    # What the tests are not there.
    "no tests": Case(
        ("tests/week1/test_day1.py is missing. Restore it: git checkout -- ", "tests"),
        status=2,
        prepare=without("tests/week1/test_day1.py"),
    ),
    "no variants": Case(
        ("tests/week1/variants_1_1_1.py is missing. Restore it: git checkout -- ", "tests"),
        status=2,
        prepare=without("tests/week1/variants_1_1_1.py"),
    ),
    "no module that tests share": Case(
        ("tests/week1/formulas.py is missing. Restore it: git checkout -- ", "tests"),
        status=2,
        prepare=without("tests/week1/formulas.py"),
    ),
    "empty tests": Case(
        ("tests/week1/test_day1.py has no check of 1.1.1. Restore it: git checkout -- ", "tests"),
        status=2,
        prepare=rewritten(lambda text: b"", "tests/week1/test_day1.py"),
    ),
    "a task without its tests": Case(
        ("tests/week1/test_day1.py has no check of 1.1.1. Restore it: git checkout -- ", "tests"),
        status=2,
        prepare=rewritten(lambda text: text.replace(b"def test_task_1_mean", b"def tesst"), "tests/week1/test_day1.py"),
    ),
    "tests that are not Python": Case(
        ("The tests could not be run: ",),
        status=2,
        prepare=rewritten(lambda text: text + b"(", "tests/week1/test_day1.py"),
    ),
    "no basics.py": Case(NO_IMPORT, prepare=without("src/tiny_llm/basics.py")),
    # Where it runs.
    "a checkout that cannot be written to": Case(BOTH_PASS, prepare=read_only),
    "no folder for temporary files": Case(
        BOTH_PASS, environment={"TMPDIR": "/nowhere", "TEMP": "/nowhere", "TMP": "/nowhere"}
    ),
    "no cache that can be written to": Case(
        BOTH_PASS,
        environment=dict.fromkeys(("HOME", "XDG_CACHE_HOME", "PYTHONPYCACHEPREFIX", "HF_HOME"), os.devnull),
    ),
    "two runs at once": Case(BOTH_PASS, start=twice_at_once),
    "40 columns": Case(BOTH_PASS, start=on_a_narrow_terminal),
    "40 columns, and a mistake": Case((*MEAN_FAILS,), start=on_a_narrow_terminal, wrong=True),
    "no stdin": Case(BOTH_PASS, start=without_stdin),
    "no stream at all": Case((), start=without_streams, status=0),
    "no stream at all, and a mistake": Case((), start=without_streams, wrong=True),
    "a terminal without the marks": Case(
        ("? 1.1.1 Mean: passed",), environment={"PYTHONIOENCODING": "latin-1"}, status=0
    ),
    "NO_COLOR": Case(BOTH_PASS, environment={"NO_COLOR": "1"}),
    "Python without asserts": Case(MEAN_FAILS, environment={"PYTHONOPTIMIZE": "2"}, wrong=True),
    "Python whose warnings are errors": Case(BOTH_PASS, environment={"PYTHONWARNINGS": "error"}),
    "a locale of the fifties": Case(BOTH_PASS, environment={"LC_ALL": "C"}),
    "scratch files named like a library, or like pytest's own": Case(BOTH_PASS, prepare=scratch_files),
    "a package named like a library": Case(
        (
            "src/mlx shadows the library mlx, in your code and in the tests. Rename it, or move it out of src.\n",
            "The tests could not be run: ModuleNotFoundError: No module named 'mlx.core'",
        ),
        status=2,
        prepare=package_in_the_way,
    ),
    # The bytes of the file.
    "a NUL byte": Case(
        ("✗ src/tiny_llm/basics.py", "null bytes", f"✗ {MEAN}"), prepare=rewritten(lambda text: text + b"\0")
    ),
    "Windows line ends": Case(BOTH_PASS, prepare=rewritten(lambda text: text.replace(b"\n", b"\r\n"))),
    "old Mac line ends": Case(BOTH_PASS, prepare=rewritten(lambda text: text.replace(b"\n", b"\r"))),
    "a byte order mark": Case(BOTH_PASS, prepare=rewritten(lambda text: b"\xef\xbb\xbf" + text)),
    "Latin-1": Case(
        ("✗ src/tiny_llm/basics.py", "not Python", "utf-8", f"✗ {MEAN}"),
        prepare=rewritten(lambda text: text + "E = 'é'\n".encode("latin-1")),
    ),
    "Latin-1 that says so": Case(
        BOTH_PASS,
        prepare=rewritten(lambda text: b"# coding: latin-1\n" + text + "# é\n".encode("latin-1")),
    ),
    "UTF-16": Case(
        ("✗ src/tiny_llm/basics.py", f"✗ {MEAN}"), prepare=rewritten(lambda text: text.decode().encode("utf-16"))
    ),
    "an empty file": Case((f"✗ {MEAN}", "src/tiny_llm/basics.py defines no mean"), prepare=rewritten(lambda text: b"")),
}


def grade(case: Case) -> tuple[int, str]:
    edits = [Edit("basics.py", f"\n\n{case.put}\n")] if case.put else []
    starts = {
        "mean": (case.mean, "    total ="),
        "line": (case.line, "    if x.shape[-1]"),
    }
    edits += [Edit("basics.py", f"    {code}\n{line}", line) for code, line in starts.values() if code]
    if case.wrong:
        line = "    total ="
        edits.append(Edit("basics.py", f"{WRONG_MEAN}{line}", line))
    with fixture("1.1.1", "1.1.3", edits=tuple(edits)) as made:
        checkout = made.rename(made.with_name("mein Kurs é 模型"))
        case.prepare(checkout)
        command = [sys.executable, str(COURSE / "bootstrap.py"), "test", "1.1.1", "1.1.3"]
        settings = {**environment(checkout), **case.environment}
        settings.pop("PYTHONUTF8")
        try:
            return (case.start or run)([*command, *case.options], checkout, settings)
        finally:
            for path in (checkout, *checkout.rglob("*")):
                path.chmod(0o755)
            checkout.rename(made)


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_clear_and_earned(name):
    case = CASES[name]
    status, screen = grade(case)
    assert "Traceback" not in screen, screen
    assert len(screen.splitlines()) <= 60, screen
    rest = screen
    for words in case.told:
        assert words in rest, screen
        rest = rest.partition(words)[2]
    expected = case.status if case.status is not None else int(case.told != BOTH_PASS)
    assert status == expected, screen
    if case.wrong:
        assert f"✓ {MEAN}" not in screen
