"""What the course consists of: weeks, days and tasks with their targets, and the engines built from them."""

from dataclasses import dataclass

from .registry_check import OPEN, OTHER_LANGUAGES

TASK_ID = rf"\d+\.(?:\d+\.\d+|{OPEN})"


@dataclass(frozen=True)
class Target:
    """What the learner writes: `attention:Heads.__call__` in Python, or a marked part, `extension/axpy.cpp:axpy`."""

    source: str  # inside the package: a dotted module, or the path of a file in another language
    name: str  # inside the source, dotted for a method

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read "module:name" or "folder/file.cpp:name"."""
        source, _, name = text.partition(":")
        return cls(source, name)

    @property
    def is_python(self) -> bool:
        """Whether it is written in Python."""
        return not self.source.endswith(OTHER_LANGUAGES)

    @property
    def is_cpp(self) -> bool:
        """Whether it is written in C++."""
        return self.source.endswith((".cpp", ".h"))

    @property
    def file(self) -> str:
        """Its file below the package: "kernels/axpy.py", "extension/axpy.cpp"."""
        return f"{self.source.replace('.', '/')}.py" if self.is_python else self.source

    @property
    def module(self) -> str:
        """Its dotted module inside the package; only Python has one."""
        if not self.is_python:
            raise ValueError(f"{self} is in no Python module")
        return self.source

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"


@dataclass(frozen=True)
class Box:
    """A part of the engine that a task makes: "layers/attention/RoPE before softmax" is in two frames."""

    path: str  # the frames around it and its own name, with slashes between them
    before: str = ""  # the box of its frame that it precedes; by default it is the last so far

    @classmethod
    def parse(cls, text: str) -> "Box":
        """Read "frame/name" or "frame/name before other"."""
        path, _, before = text.partition(" before ")
        return cls(path, before)


@dataclass(frozen=True)
class Task:
    """One thing to write: the smallest unit that is graded, hinted at and shown on the board."""

    id: str  # week.day.number, or 1.C
    title: str
    target: Target
    tests: str  # the graded tests are those whose name begins with test_, this and _
    needs: tuple[str, ...]  # ids of the earlier tasks whose code this one calls
    minutes: int
    difficulty: int
    forbidden: tuple[str, ...]  # dotted names that would do the work for the learner
    hints: tuple[str, ...]  # from a question to almost the answer
    week: int
    day: int
    runner: Target | None = None  # the function in Python that runs a target in another language
    requires: tuple[str, ...] = ()  # words of `requirements`; without one of them it is not run
    seconds: int = 20  # that grading it may take
    makes: tuple[Box, ...] = ()  # the parts of the engine that are there with it
    optional: bool = False  # not required for its day to be done
    judges: str = ""  # of an open task: the id of the task whose programs its check judges

    @property
    def program(self) -> Target:
        """What tests call, and what known programs and the solution replace."""
        return self.runner or self.target

    @property
    def number(self) -> int:
        """Its number in the day."""
        return 1 if self.judges else int(self.id.rpartition(".")[2])

    @property
    def place(self) -> tuple[int, int, int]:
        """Its position in the course."""
        return self.week, self.day, self.number

    @property
    def label(self) -> str:
        """The id and the title: what a stub raises, and how the harness recognizes it."""
        return f"{self.id} {self.title}"


@dataclass(frozen=True)
class Day:
    """One chapter and its tasks; a week's open task, with its chapter, is the last day of the week."""

    week: int
    number: int  # its place in the week
    title: str
    chapter: str  # the chapter's file below book/src
    tasks: tuple[Task, ...]

    @property
    def is_open(self) -> bool:
        """Whether it is the open task, which has no number, quiz or benchmark."""
        return any(task.judges for task in self.tasks)

    @property
    def name(self) -> str:
        """What a learner types: 1.1, or 1.C."""
        return f"{self.week}.{OPEN if self.is_open else self.number}"

    @property
    def called(self) -> str:
        """Its name within the week: "day 1", or "open task"."""
        return "open task" if self.is_open else f"day {self.number}"

    @property
    def stem(self) -> str:
        """The stem of its files: "day1", or "checks"."""
        return "checks" if self.is_open else f"day{self.number}"


@dataclass(frozen=True)
class Stage:
    """An engine built by some days: what `generate --stage NAME` runs."""

    name: str
    title: str
    model: Target  # a class, made of a config and named weights
    generate: Target  # the function that yields tokens
    needs: tuple[str, ...]  # ids of the tasks without which it does not run
    requires: tuple[str, ...] = ()  # words of `requirements`
    # Whether each token is computed from all before it. If not, its model scores the last one alone, and all of them
    # when it is called with all_positions=True.
    rereads: bool = False
    # Whether its model multiplies by packed weights: it takes a quantized checkpoint as it is, and packs another one.
    packed: bool = False
    config: Target = Target("config", "ModelConfig")  # a class whose from_dict reads a config.json
    # Of a config, new tokens, tokens before them and a Storage: what a step computes and moves. None: week 2's counts.
    counts: Target | None = None
    asked: bool = False  # whether it runs only if its name is typed


@dataclass(frozen=True)
class Mode:
    """A way to serve many requests: what `serve --stage NAME` runs."""

    name: str
    title: str
    make: Target  # a function of a config, named weights and limits that gives a scheduler
    needs: tuple[str, ...]  # ids of the tasks without which it does not run
    kernels: tuple[str, ...] = ()  # of those that its fused model needs besides; without them another model serves
    requires: tuple[str, ...] = ()  # words of `requirements`
    asked: bool = False  # whether it runs only if its name is typed: it is not always the better one


@dataclass(frozen=True)
class Week:
    """A number of days with one aim."""

    number: int
    title: str
    days: tuple[Day, ...]
    stages: tuple[Stage, ...] = ()
    modes: tuple[Mode, ...] = ()
    engines: tuple[Stage, ...] = ()  # for checkpoints that no stage takes: they are no step on the way to a faster one
    build: str = ""  # a program in the package, `extension/build.py`, that its tasks with a compiler need first
    calls: str = ""  # a function in the package, `kernels.native:run`, through which one kernel in C++ is called
    launches: str = ""  # the same for kernels in Metal, `metal.device:run`
