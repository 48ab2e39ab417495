"""What leaves a module with the solved bodies: the imports that only they used."""

from textwrap import dedent

import pytest

from tiny_llm_course.course.entities import Target, Task
from tiny_llm_course.source.stubs.source import stub_source

TASK = Task("1.1.1", "Thing", Target("module", "name"), "tests", (), 10, 1, (), (), 1, 1)
RAISE = 'raise NotImplementedError("1.1.1 Thing")'


def check(source: str, wanted: str, *targets: str, needed: tuple[Target, ...] = ()) -> None:
    stubbed = stub_source(dedent(source).lstrip("\n"), dict.fromkeys(targets, TASK), needed)
    assert stubbed == dedent(wanted).lstrip("\n").replace("RAISE", RAISE)


def test_imports_that_only_the_solution_used_go() -> None:
    check(
        """
        from __future__ import annotations

        # why math: goes with it
        import math
        import os.path
        import readline
        import re, sys  # both

        import mlx.core as mx
        from a import counted, exported, listed, quoted, returned, solved  # from a
        from b import solved as also_solved
        from c import (
            given as kept,
            solved_too,
        )

        __all__ = ["exported", "target"]
        count: "counted" = 0


        def target(x: mx.array, y: "quoted", *z: list["listed"], a=kept) -> "returned":
            annotations = re.sub(solved, also_solved, solved_too)
            return math.pi + os.path.sep


        def given():
            return sys
        """,
        """
        from __future__ import annotations

        import readline
        import sys  # both

        import mlx.core as mx
        from a import counted, exported, listed, quoted, returned  # from a
        from c import given as kept

        __all__ = ["exported", "target"]
        count: "counted" = 0


        def target(x: mx.array, y: "quoted", *z: list["listed"], a=kept) -> "returned":
            RAISE


        def given():
            return sys
        """,
        "target",
    )


def test_a_helper_that_goes_takes_its_imports_along() -> None:
    check(
        "import re\nimport sys\n\n_X = re.compile('x')\n\n\ndef f():\n    return _X\n\n\nprint(sys)\n",
        "import sys\n\n\ndef f():\n    RAISE\n\n\nprint(sys)\n",
        "f",
    )


def test_a_long_import_is_wrapped() -> None:
    names = [f"a_rather_long_name_{i}" for i in range(6)]
    source = f"from m import ({', '.join(names)}, solved)\n\n\ndef f({'=1, '.join(names)}=1):\n    return solved\n"
    source = source.replace("=1", "=None").replace("f(", "f(x=[" + ", ".join(names) + "], ")
    stubbed = stub_source(source, {"f": TASK})
    assert stubbed.startswith("from m import (\n" + "".join(f"    {name},\n" for name in names) + ")\n\n\ndef")


@pytest.mark.parametrize(
    "line",
    [
        "from .basics import linear",
        "from ..basics import linear",
        "from tiny_llm.basics import linear",
        "from .basics import linear as project",
        "from . import basics",
        "from tiny_llm import basics",
        "from .kernels.rope import RoPE",
        "from .rope import RoPE",
        "from .kernels import rope",
    ],
)
def test_an_import_that_the_learner_will_need_stays(line: str) -> None:
    name = line.split()[-1]
    source = f"{line}\n\n\ndef f():\n    return {name}\n"
    needed = (Target("basics", "linear"), Target("kernels.rope", "RoPE.__call__"))
    check(source, f"{line}\n\n\ndef f():\n    RAISE\n", "f", needed=needed)
    check(source, "def f():\n    RAISE\n", "f", needed=(Target("basics", "other"),) if "linear" in line else ())


@pytest.mark.parametrize("line", ["from basics import linear", "from .others import linear", "import linear"])
def test_an_import_of_the_same_name_from_elsewhere_goes(line: str) -> None:
    source = f"{line}\n\n\ndef f():\n    return linear\n"
    check(source, "def f():\n    RAISE\n", "f", needed=(Target("basics", "linear"),))


def test_of_an_import_only_the_needed_names_stay() -> None:
    check(
        "from .basics import linear, silu, softmax\n\n\ndef f():\n    return linear, silu, softmax\n",
        "from .basics import linear, softmax\n\n\ndef f():\n    RAISE\n",
        "f",
        needed=(Target("basics", "linear"), Target("basics", "softmax")),
    )
