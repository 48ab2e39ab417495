"""Turns a process that was just forked into a new Python program, without the time that starting Python takes.

What differs from a new Python is that libraries are imported already. Where that would matter, because Python would
find another file of that name first, the process starts Python after all, with `exec`. A program with a setting that
changes how Python itself starts is not forked.
"""

import atexit
import contextlib
import fcntl
import importlib
import io
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

# What a new Python has on its path, besides what it is told.
BASE_PATH = [folder for folder in sys.path if folder != str(Path(__file__).parent)]
# Settings of Python that a forked process can take over; with any other, Python is really started.
SETTINGS = {
    "PYTHONBREAKPOINT", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUNBUFFERED",
    "PYTHONUTF8",
}  # fmt: skip
LOCALE = {name: os.environ.get(name) for name in ("LANG", "LC_ALL", "LC_CTYPE")}
GRADING = "tiny_llm_course.grading.child"
PROGRAMS = ("tiny_llm_course", GRADING)
SCRIPT = "bootstrap.py"
leave, really_start = os._exit, subprocess.Popen
# Those of Popen's method that starts a process, after the first three.
ARGUMENTS = (
    "close_fds", "pass_fds", "cwd", "env", "startupinfo", "creationflags", "shell",
    "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite",
    "restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """What to run: a Python command line, its environment and folder, and how its process is set up."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    session: bool = False
    terminal: bool = False  # standard input is the terminal that sends Ctrl-C
    group: int = -1
    files: tuple[int, ...] = ()  # descriptors, besides the three standard ones, that stay open

    @property
    def words(self) -> list[str]:
        """The command line without Python and without -P."""
        return self.command[2:] if self.command[1:2] == ["-P"] else self.command[1:]

    def is_ours(self) -> bool:
        """Whether it is one of the course's programs, started in the ordinary way."""
        words = self.words
        if len(words) < 2 or self.command[0] != sys.executable:
            return False
        ours = (words[0:1] == ["-m"] and words[1] in PROGRAMS) or Path(words[0]).name == SCRIPT
        settings = {name for name in self.environment if name.startswith("PYTHON")}
        same = all(self.environment.get(name) == value for name, value in LOCALE.items())
        return ours and settings <= SETTINGS and same

    def path(self) -> list[str]:
        """What `sys.path` is for it."""
        set_by_user = [folder for folder in self.environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
        first = self.folder if self.words[0] == "-m" else str(Path(self.words[0]).resolve().parent)
        return [*([first] if self.command[1] != "-P" else []), *set_by_user, *BASE_PATH]


def fork(program: Program, streams: Sequence[int], opened: Sequence[int]) -> int:
    """Fork a process that becomes the program, and give its number once it is in the group that it shall be in.

    `streams` are the descriptors of its standard streams, `opened` those that stand for `program.files`.
    """
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if program.session:
                os.setsid()
            elif program.group >= 0:
                os.setpgid(0, program.group)
            os.close(tell)
            become(program, streams, opened)
        except BaseException:
            traceback.print_exc()
        finally:
            leave(70)
    os.close(tell)
    os.read(ready, 1)  # nothing: the other end is closed
    os.close(ready)
    return pid


def become(program: Program, streams: Sequence[int], opened: Sequence[int]) -> NoReturn:
    """Run a program in this process, which was forked for it, and end with it."""
    _take_files(streams, opened, program.files)
    if program.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.chdir(program.folder)
    path = program.path()
    if any(_shadowed(path)):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execve(program.command[0], program.command, program.environment)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(program.environment)
    sys.orig_argv, sys.path = program.command, path
    sys.dont_write_bytecode = bool(program.environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    tempfile.tempdir = None
    atexit._clear()
    sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(3))
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
    set_popen(_fork_here if program.words[-1] != GRADING else None)
    leave(_run(program.words))


def _fork_here(program: Program, streams: Sequence[int]) -> int | None:
    """Fork the process that grades, unless code of the learner's or of the solution's has run here."""
    same = all(program.environment.get(name) == os.environ.get(name) for name in ("TINY_LLM_ROOT", "PYTHONPATH"))
    if program.words != ["-m", GRADING] or not same or {"tiny_llm", "tiny_llm_solution"} & sys.modules.keys():
        return None
    return fork(program, streams, program.files)


def _take_files(streams: Sequence[int], opened: Sequence[int], targets: Sequence[int]) -> None:
    """Let these descriptors be open, and no others: the streams as 0 to 2, the `opened` ones as the `targets`."""
    above = max(256, *targets, 0) + 1
    copies = {
        target: fcntl.fcntl(source, fcntl.F_DUPFD, above)
        for source, target in zip((*streams, *opened), (0, 1, 2, *targets), strict=True)
    }
    os.closerange(0, above)
    for target, copy in copies.items():
        os.dup2(copy, target, inheritable=True)
    os.closerange(above, max(copies.values()) + 256)


def _shadowed(path: list[str]) -> Iterator[bool]:
    """Whether each file that Python would find in these folders has the name of what is imported already."""
    site = Path(os.__file__).parent
    for folder in path:
        if Path(folder) == site or folder.endswith(".zip"):
            return  # the standard library, and what is installed
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                stem, _, ending = name.partition(".")
                found = Path(folder, name) if ending else Path(folder, name, "__init__.py")
                if stem in ("sitecustomize", "usercustomize"):
                    yield True
                elif stem in sys.modules and stem != "__main__" and found.is_file():
                    yield getattr(sys.modules[stem], "__file__", None) != str(found)


def _stream(number: int) -> io.TextIOWrapper:
    raw = os.fdopen(number, "rb" if number == 0 else "wb", closefd=False)
    errors = ("surrogateescape", "surrogateescape", "backslashreplace")[number]
    by_line = number == 2 or (number == 1 and raw.isatty())
    return io.TextIOWrapper(
        raw, "utf-8", errors, line_buffering=by_line, write_through=bool(os.environ.get("PYTHONUNBUFFERED"))
    )


def _run(words: list[str]) -> int:
    """Run it as `__main__` and give its exit code, when its threads and what it does at its end are through."""
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
        code: Any = 0
    except SystemExit as ending:
        code = ending.code
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if not isinstance(code, int):
        if code is not None:
            print(code, file=sys.stderr)
        code = int(code is not None)
    status: int = code
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return status & 0xFF


def set_popen(start: Callable[[Program, Sequence[int]], int | None] | None) -> None:
    """Let `subprocess.Popen` fork where it can: `start` gives a process's number, or None to start it as ever."""
    subprocess.Popen = really_start  # type: ignore[misc]
    if not start:
        return

    class Popen(really_start):  # type: ignore[misc,valid-type]
        def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
            how = dict(zip(ARGUMENTS, rest, strict=True))
            program = _program(args, preexec_fn, how) if executable is None and how["close_fds"] else None
            own = (how["p2cread"], how["c2pwrite"], how["errwrite"])
            streams = [asked if asked >= 0 else number for number, asked in enumerate(own)]
            pid = start(program, streams) if start and program and program.is_ours() else None
            if pid is None:
                super()._execute_child(args, executable, preexec_fn, *rest)
            else:
                self.pid, self._child_created = pid, True
                self._close_pipe_fds(*(how[name] for name in ARGUMENTS[7:13]))

    subprocess.Popen = Popen  # type: ignore[misc]


def _program(args: Any, preexec_fn: Any, how: dict[str, Any]) -> Program | None:
    """What is asked of Popen; None if no forked process could be that."""
    if how["shell"] or preexec_fn not in (None, take_terminal) or isinstance(args, (str, bytes, os.PathLike)):
        return None
    words = [os.fsdecode(word) for word in args]
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in (how["env"] or os.environ).items()}
    group = -1 if how["process_group"] is None else how["process_group"]
    folder, terminal = os.path.abspath(how["cwd"] or os.getcwd()), preexec_fn is take_terminal
    return Program(words, environment, folder, how["start_new_session"], terminal, group, tuple(how["pass_fds"]))


def take_terminal() -> None:
    """Make standard input the terminal that sends this process Ctrl-C."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
