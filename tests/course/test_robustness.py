"""Whatever a learner's file holds, wherever it is graded: the verdict is clear, and never a pass that was not earned.

The table is the list of what is held to that. A line is a case: what `basics.py` holds, where it is graded, and what
the command prints. Each runs the real command in a copy of the checkout, in which softmax and linear are solved, and
are graded. `put` is code at the end of the file, `linear` and `softmax` are code at the beginning of a function. A
case with `wrong=True` has another softmax besides, without maximum and sum: it must never be told to have passed.

Out of reach, because learner and tests share a process: who reads the secret of the events from the harness's memory,
changes a function in place (`agrees.__code__`), undoes a replacement before the check ends, looks up the expected
answer in the frames of the caller, edits the tests, or copies the solution, will be told to have passed. A process that
leaves its group is left running. Nobody does these things by accident.
"""

import dataclasses
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.course.circumstances import (
    child_killed,
    on_a_narrow_terminal,
    read_only,
    rewritten,
    run,
    scratch_files,
    twice_at_once,
    without,
    without_stdin,
    without_streams,
)

from tiny_llm_course.transcripts import Edit, Scenario, checkout_for

SOFTMAX, LINEAR = "1.1.1 Softmax", "1.1.3 Linear"
BOTH_PASS = (f"✓ {SOFTMAX}: passed, 19 checks", f"✓ {LINEAR}: passed, 29 checks", "2 of 2 tasks passed.")
SOFTMAX_FAILS = (f"✗ {SOFTMAX}: failed", f"✓ {LINEAR}: passed")
LINEAR_FAILS = (f"✓ {SOFTMAX}: passed", f"✗ {LINEAR}: failed")
NO_IMPORT = ("✗ src/tiny_llm/basics.py cannot be imported: ", f"✗ {SOFTMAX}: failed", f"✗ {LINEAR}: failed")
FIRST_CHECK = "test_task_2_linear_formula[()-False-mlx.core.float32]"
WRONG_SOFTMAX = "    return mx.exp(x)\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """What is done, and what must be printed: each of `told` once, in this order, and none of `never`."""

    told: tuple[str, ...]
    put: str = ""
    softmax: str = ""
    linear: str = ""
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
            f"✗ {SOFTMAX}",
            "still running after 3 s, the limit of a task",
            "src/tiny_llm/basics.py:",
            "while True",
            LINEAR,
        ),
        softmax="while True: pass",
        options=("--time-limit", "3"),
    ),
    "an endless loop that ignores signals and errors": Case(
        (f"✗ {SOFTMAX}", "still running after 3 s", LINEAR),
        put="import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1): signal.signal(s, signal.SIG_IGN)",
        softmax="while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        options=("--time-limit", "3"),
    ),
    "os._exit(0)": Case(
        (f"✓ {SOFTMAX}", f"✗ {LINEAR}", "your code ended the tests (exit code 0)", "os._exit(0)"),
        put="import os",
        linear="os._exit(0)",
    ),
    "os._exit(0) while it is imported": Case(
        (NO_IMPORT[0], "your code ended the tests (exit code 0)", "basics.py:", *NO_IMPORT[1:]),
        put="import os; os._exit(0)",
    ),
    "sys.exit(0)": Case((*LINEAR_FAILS, "sys.exit(0)"), linear="import sys; sys.exit(0)"),
    "an exit when Python ends": Case(
        (*SOFTMAX_FAILS,),
        put="import atexit, os; atexit.register(os._exit, 0)",
        wrong=True,
    ),
    "sys.exit(0) while it is imported": Case(
        ("✗ src/tiny_llm/basics.py calls sys.exit(0) while it is imported", *NO_IMPORT[1:]),
        put="import sys; sys.exit(0)",
    ),
    "it interrupts itself": Case(
        (f"✓ {SOFTMAX}", f"✗ {LINEAR}", "your code ended the tests (exit code 2)"),
        linear="raise KeyboardInterrupt",
    ),
    "sys.exit replaced": Case(SOFTMAX_FAILS, put="import sys; sys.exit = lambda status=0: None", wrong=True),
    "an alarm": Case(
        (f"✓ {SOFTMAX}", f"✗ {LINEAR}", "the process crashed: SIGALRM"),
        linear="import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(5)",
    ),
    "it kills itself": Case(
        (f"✓ {SOFTMAX}", f"✗ {LINEAR}", "the process crashed: SIGKILL, which comes from outside"),
        linear="import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ),
    "killed from outside": Case(
        (f"✗ {SOFTMAX}", "the process crashed: SIGKILL", LINEAR),
        softmax="open('looping', 'w').close()\n    while True: pass",
        start=child_killed,
    ),
    "it interrupts the harness": Case(
        ("interrupted",),
        linear="import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(9)",
        status=130,
    ),
    "it runs the solution": Case(
        (*LINEAR_FAILS, "uses solutions/, where the answers are"),
        linear="from solutions.tiny_llm.basics import linear as s\n    return s(x, w, bias)",
    ),
    "it reads the solution, and says nothing of being caught": Case(
        (*LINEAR_FAILS, "uses solutions/, where the answers are"),
        linear="import contextlib, runpy\n    with contextlib.suppress(BaseException): "
        "return runpy.run_path('solutions/tiny_llm/basics.py')['linear'](x, w, bias)\n    return x @ w.T",
    ),
    "a segfault": Case(
        (
            f"✓ {SOFTMAX}",
            f"✗ {LINEAR}",
            "the process crashed: SIG",
            ", a memory fault in native code",
            f"      check     {FIRST_CHECK}\n",
            "ctypes.string_at(0)",
            "hint: pdm run hint 1.1.3",
        ),
        put="import ctypes",
        linear="ctypes.string_at(0)",
    ),
    "a segfault in another thread": Case(
        (f"✓ {SOFTMAX}", f"✗ {LINEAR}", "the process crashed: SIG", f"check     {FIRST_CHECK}", "thread.start()"),
        put="import ctypes, threading",
        linear="thread = threading.Thread(target=ctypes.string_at, args=(0,)); thread.start(); thread.join()",
    ),
    "native code that ends the process": Case(
        (
            f"✓ {SOFTMAX}",
            f"✗ {LINEAR}",
            "the process ended before its tests (exit code 0), which is not a way to pass them",
            "      wrote     parameter 8 of SGEMM is wrong\n",
            f"      check     {FIRST_CHECK}\n",
            "hint: pdm run hint 1.1.3",
        ),
        put="import ctypes, os",
        linear="os.write(2, b'parameter 8 of SGEMM is wrong\\n'); ctypes.CDLL(None)._exit(0)",
    ),
    "recursion without end": Case(
        (*LINEAR_FAILS, "raised RecursionError"), linear="return linear(x, w, bias)", options=("--time-limit", "60")
    ),
    "recursion without end, the limit lifted": Case(
        (f"✗ {LINEAR}: failed",),
        put="import sys; sys.setrecursionlimit(10**9)",
        linear="return max([0], key=lambda _: linear(x, w, bias))",
        options=("--time-limit", "6", "--memory-limit", "1"),
    ),
    "10 GB at once": Case(
        (f"✓ {SOFTMAX}", f"✗ {LINEAR}", "used more than 0.7 GB of memory, the limit of a task"),
        linear="hoard = bytearray(b'x') * 10_000_000_000",
        options=("--memory-limit", "0.7"),
    ),
    "10 GB of MLX": Case(
        (f"✓ {SOFTMAX}", f"✗ {LINEAR}", "used more than 0.7 GB of memory, the limit of a task"),
        linear="mx.eval(hoard := [mx.ones((50_000_000 + i,)) for i in range(50)])",
        options=("--memory-limit", "0.7"),
    ),
    # What they write.
    "a flood of prints": Case(
        (f"✗ {LINEAR}: failed", "still running after 3 s"),
        options=("--time-limit", "3"),
        linear="while True: print('x' * 9999)",
    ),
    "a flood past our stand-ins": Case(
        (f"✗ {LINEAR}: failed", "still running after 3 s"),
        options=("--time-limit", "3"),
        linear="import os\n    while True: os.write(1, b'x' * 9999); os.write(2, b'x' * 9999)",
    ),
    "the streams closed": Case((SOFTMAX, f"✗ {LINEAR}"), linear="import os; os.closerange(0, 3); raise ValueError"),
    "every descriptor closed": Case((SOFTMAX, f"✗ {LINEAR}: failed"), linear="import os; os.closerange(0, 99)"),
    "it asks a question": Case((*LINEAR_FAILS, "raised EOFError"), linear="input('Your name? ')"),
    # Errors.
    "a huge message": Case((*LINEAR_FAILS, "raised ValueError: xxx"), linear="raise ValueError('x' * 5_000_000)"),
    "a message of control characters": Case(
        (*LINEAR_FAILS, "raised ValueError: ?[2J"), linear=r"raise ValueError('\x1b[2J')"
    ),
    "an error that cannot be printed": Case((*LINEAR_FAILS, "raised Mute"), put=MUTE, linear="raise Mute"),
    "a message that begins with nothing": Case(
        (*LINEAR_FAILS, "raised ValueError: at last"), linear=r"raise ValueError('\n\n at last\nand more')"
    ),
    "several errors": Case(
        (*LINEAR_FAILS, "raised ExceptionGroup: two", "basics.py:"),
        linear="raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])",
    ),
    "the stub of a task that is none": Case(
        (*LINEAR_FAILS, "raised NotImplementedError: 1.9.9 Nothing"),
        linear="raise NotImplementedError('1.9.9 Nothing')",
    ),
    "a number in the place of a function": Case(
        (*LINEAR_FAILS, "cannot be called: 'int' object is not callable"), put="linear = 3"
    ),
    "an error of its own kind": Case(
        (*LINEAR_FAILS, "raised Odd"), put="class Odd(BaseException): pass", linear="raise Odd"
    ),
    "everything caught": Case(
        SOFTMAX_FAILS,
        wrong=True,
        linear="",
        softmax="try:\n        return mx.softmax(x, axis)\n    except BaseException: return mx.zeros(x.shape)",
    ),
    "a check skipped": Case((*LINEAR_FAILS, "skipped the check"), linear="import pytest; pytest.skip()"),
    "a check expected to fail": Case(LINEAR_FAILS, linear="import pytest; pytest.xfail()"),
    "the tests ended": Case(
        (f"✓ {SOFTMAX}", f"~ {LINEAR}: not run, 0 of 29 checks passed before the tests were stopped"),
        linear="import pytest; pytest.exit('done', 0)",
    ),
    # What they leave running.
    "a thread": Case(
        BOTH_PASS,
        put="import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()",
    ),
    "a process": Case(BOTH_PASS, put="import subprocess; subprocess.Popen(['sleep', '600'])"),
    "a fork that goes on": Case(SOFTMAX_FAILS, put="import os; os.fork()", wrong=True),
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
        SOFTMAX_FAILS,
        put="import numpy.testing as t\nt.assert_allclose = lambda *a, **k: None",
        wrong=True,
    ),
    "isinstance": replaces("import builtins\nbuiltins.isinstance = lambda *a: True", "builtins.isinstance"),
    "abs, in a module of ours": replaces(
        "import tiny_llm_course.checks as c\nc.abs = lambda x: 0",
        "tiny_llm_course.checks.abs",
    ),
    "pytest.fail": replaces("import pytest\npytest.fail = lambda *a: None", "pytest.fail"),
    "a check": replaces(
        "import tiny_llm_course.checks as c\nc.agrees = lambda *a, **k: None", "tiny_llm_course.checks.agrees"
    ),
    "a formula": replaces(
        "import tiny_llm_course.formulas as f\nf.softmax64 = softmax",
        "tiny_llm_course.formulas.softmax64",
    ),
    "the checks": replaces(
        "import sys\nsys.modules['tiny_llm_course.checks'] = sys",
        "tiny_llm_course.checks",
    ),
    "all modules": replaces("import sys\nsys.modules.clear()", "builtins"),
    "a module that is needed": replaces("import sys\ndel sys.modules['warnings']", "sys.modules['warnings']"),
    "a tolerance": replaces("import tiny_llm_course.rounding as r\nr.FACTOR = 1e9", "tiny_llm_course.rounding.FACTOR"),
    "while it is called: a check": Case(
        (
            *SOFTMAX_FAILS[:1],
            "your code replaces tiny_llm_course.checks.agrees, which the tests rely on",
            f"✓ {LINEAR}",
        ),
        wrong=True,
        put="import sys",
        softmax="for m in list(sys.modules.values()):\n"
        "        if hasattr(m, 'agrees'): m.agrees = lambda *a, **k: None",
    ),
    "while it is called: isinstance": Case(
        (*SOFTMAX_FAILS[:1], "your code replaces builtins.isinstance, which the tests rely on", f"✓ {LINEAR}"),
        wrong=True,
        softmax="import builtins; builtins.isinstance = lambda *a: True",
    ),
    "while it is called: np.isnan": Case(
        (*SOFTMAX_FAILS[:1], "your code replaces numpy.isnan, which the tests rely on", f"✓ {LINEAR}"),
        wrong=True,
        softmax="import numpy as np; np.isnan = lambda x: np.ones(np.shape(x), bool)",
    ),
    "the solution": Case(
        SOFTMAX_FAILS,
        wrong=True,
        put="import sys, types\nsys.modules['tiny_llm_solution'] = sys.modules['tiny_llm']\n"
        "sys.modules['tiny_llm_solution.basics'] = sys.modules[__name__]",
    ),
    "the events": Case(SOFTMAX_FAILS, put=FORGERY, wrong=True),
    "the events, of a right program": Case(BOTH_PASS, put=FORGERY),
    "the events read": Case(
        SOFTMAX_FAILS,
        put="import os\nfor fd in range(3, 64):\n    try: os.read(fd, 0)\n    except OSError: pass",
        wrong=True,
    ),
    "an array that lies": Case(
        (*SOFTMAX_FAILS,),
        put=LIAR,
        softmax="return Liar(mx.exp(x))",
    ),
    "an object that lies": Case(
        (f"✗ {SOFTMAX}", "returned tiny_llm.basics.Pretender, expected an mx.array", f"✓ {LINEAR}"),
        put=PRETENDER,
        softmax="return Pretender()",
    ),
    "another folder to be in": Case(BOTH_PASS, put="import os; os.chdir('/')"),
    # What the tests are not there.
    "no tests": Case(
        ("tests/week1/test_day1.py is missing. Bring it back: git checkout -- tests",),
        status=2,
        prepare=without("tests/week1/test_day1.py"),
    ),
    "no variants": Case(
        ("tests/week1/variants_day1.py is missing. Bring it back: git checkout -- tests",),
        status=2,
        prepare=without("tests/week1/variants_day1.py"),
    ),
    "empty tests": Case(
        ("tests/week1/test_day1.py holds no check of 1.1.1. Bring it back: git checkout -- tests",),
        status=2,
        prepare=rewritten(lambda text: b"", "tests/week1/test_day1.py"),
    ),
    "a task without its tests": Case(
        ("tests/week1/test_day1.py holds no check of 1.1.1. Bring it back: git checkout -- tests",),
        status=2,
        prepare=rewritten(
            lambda text: text.replace(b"def test_task_1_softmax", b"def tesst"), "tests/week1/test_day1.py"
        ),
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
    "40 columns, and a mistake": Case((*SOFTMAX_FAILS,), start=on_a_narrow_terminal, wrong=True),
    "no stdin": Case(BOTH_PASS, start=without_stdin),
    "no stream at all": Case((), start=without_streams, status=0),
    "no stream at all, and a mistake": Case((), start=without_streams, wrong=True),
    "a terminal without the marks": Case(
        ("? 1.1.1 Softmax: passed",), environment={"PYTHONIOENCODING": "latin-1"}, status=0
    ),
    "NO_COLOR": Case(BOTH_PASS, environment={"NO_COLOR": "1"}),
    "Python without asserts": Case(SOFTMAX_FAILS, environment={"PYTHONOPTIMIZE": "2"}, wrong=True),
    "Python whose warnings are errors": Case(BOTH_PASS, environment={"PYTHONWARNINGS": "error"}),
    "a locale of the fifties": Case(BOTH_PASS, environment={"LC_ALL": "C"}),
    "a scratch file named like a library": Case(
        BOTH_PASS,
        prepare=scratch_files,
    ),
    # The bytes of the file.
    "a NUL byte": Case(
        ("✗ src/tiny_llm/basics.py", "null bytes", f"✗ {SOFTMAX}"), prepare=rewritten(lambda text: text + b"\0")
    ),
    "Windows line ends": Case(BOTH_PASS, prepare=rewritten(lambda text: text.replace(b"\n", b"\r\n"))),
    "old Mac line ends": Case(BOTH_PASS, prepare=rewritten(lambda text: text.replace(b"\n", b"\r"))),
    "a byte order mark": Case(BOTH_PASS, prepare=rewritten(lambda text: b"\xef\xbb\xbf" + text)),
    "Latin-1": Case(
        ("✗ src/tiny_llm/basics.py", "not Python", "utf-8", f"✗ {SOFTMAX}"),
        prepare=rewritten(lambda text: text + "E = 'é'\n".encode("latin-1")),
    ),
    "Latin-1 that says so": Case(
        BOTH_PASS,
        prepare=rewritten(lambda text: b"# coding: latin-1\n" + text + "# é\n".encode("latin-1")),
    ),
    "UTF-16": Case(
        ("✗ src/tiny_llm/basics.py", f"✗ {SOFTMAX}"), prepare=rewritten(lambda text: text.decode().encode("utf-16"))
    ),
    "an empty file": Case(
        (f"✗ {SOFTMAX}", "src/tiny_llm/basics.py defines no softmax"), prepare=rewritten(lambda text: b"")
    ),
}


def grade(case: Case) -> tuple[int, str]:
    edits = [Edit("basics.py", f"\n\n{case.put}\n")] if case.put else []
    starts = {
        "softmax": (case.softmax, "    # The largest score becomes"),
        "linear": (case.linear, "    y = x @ w.swapaxes"),
    }
    edits += [Edit("basics.py", f"    {code}\n{line}", line) for code, line in starts.values() if code]
    if case.wrong:
        line = "    shifted = x - mx.max("
        edits.append(Edit("basics.py", f"{WRONG_SOFTMAX}{line}", line))
    with checkout_for(Scenario("robust", (), ("1.1.1", "1.1.3"), tuple(edits))) as made:
        checkout = made.rename(made.with_name("mein Kurs é 模型"))
        case.prepare(checkout)
        command = [sys.executable, str(checkout / "src" / "tiny_llm_course" / "bootstrap.py"), "test", "1.1.1", "1.1.3"]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), **case.environment}
        environment.pop("PYTHONUTF8", None)
        try:
            return (case.start or run)([*command, *case.options], checkout, environment)
        finally:
            for path in (checkout, *checkout.rglob("*")):
                path.chmod(0o755)
            checkout.rename(made)


@pytest.fixture(scope="module")
def outcomes(request):
    """The cases that were selected, all running at once on the machine's cores."""
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.module is request.module and hasattr(item, "callspec")
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting: dict[str, Future[tuple[int, str]]] = {name: pool.submit(grade, CASES[name]) for name in names}
        yield waiting
        for future in waiting.values():
            future.cancel()


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_clear_and_earned(outcomes, name):
    case = CASES[name]
    status, screen = outcomes[name].result()
    assert "Traceback" not in screen, screen
    assert len(screen.splitlines()) <= 60, screen
    rest = screen
    for words in case.told:
        assert words in rest, screen
        rest = rest.partition(words)[2]
    expected = case.status if case.status is not None else int(case.told != BOTH_PASS)
    assert status == expected, screen
    if case.wrong:
        assert f"✓ {SOFTMAX}" not in screen
