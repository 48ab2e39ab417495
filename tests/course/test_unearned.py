"""No pass that was not earned, and no right program refused: two tables of what lazy and diligent learners write.

`unearned.toml` holds them. A way is code at the end of a task's file, in a copy of the course where all is solved: what
it defines takes the place of our solution. The lazy ones must not pass, and the verdict must hold the words `told`; the
right ones must. All are graded in one process (`ways.py`). What a reader alone can see, such as a copy of our
solution, stands on the book's page for teachers.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from tests.course.unearned_libraries import write_libraries

from tiny_llm_course.course.file_paths import variants_path
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, environment
from tiny_llm_course.grading.own_work import foreign_target
from tiny_llm_course.grading.traps import Traps, nothing_compiled
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.testkit.variants import load_variants

pytestmark = pytest.mark.maintainers
# Grouped attention on keys and values that are spread out before.
SPREAD = """
def scaled_dot_product_attention_grouped(query, key, value, scale=None, mask=None):
    heads, kv_heads = query.shape[-3], key.shape[-3]
    if heads % kv_heads or (isinstance(mask, str) and mask != "causal"):
        raise ValueError("uneven groups, or an unknown mask")
    if isinstance(mask, str):
        mask = causal_mask(query.shape[-2], key.shape[-2], query.dtype)
    group = heads // kv_heads
    key, value = ({} for x in (key, value))
    return scaled_dot_product_attention_simple(query, key, value, scale, mask)
"""
TABLES = tomllib.loads(Path(__file__).with_name("unearned.toml").read_text(encoding="utf-8"))
LAZY, RIGHT = ({way["name"]: way for way in TABLES[kind]} for kind in ("lazy", "right"))


def graded(ways: list[dict[str, Any]], libraries: Path) -> list[str]:
    """What grading says of each."""
    for way in ways:
        spread = SPREAD.format(way["spread"]) if "spread" in way else ""
        way["code"] = way.get("above", "") + spread + way.get("code", "")
    with checkout_for(Scenario("all solved", (), tuple(task.id for task in load_course().tasks()))) as checkout:
        settings = environment(checkout)
        settings["PYTHONPATH"] += f"{os.pathsep}{libraries}"
        done = subprocess.run(
            [sys.executable, "-P", str(Path(__file__).with_name("ways.py")), str(libraries)],
            cwd=checkout,
            env={**settings, "PYTHONBREAKPOINT": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            input=json.dumps(ways),
            capture_output=True,
            encoding="utf-8",
        )
    assert done.returncode == 0, done.stderr
    verdicts: list[str] = json.loads(done.stdout)
    return verdicts


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What grading says, by the way's name."""
    libraries = tmp_path_factory.mktemp("libraries")
    write_libraries(libraries)
    ways = [*LAZY.values(), *RIGHT.values()]
    return dict(zip([way["name"] for way in ways], graded(ways, libraries), strict=True))


@pytest.mark.parametrize("name", LAZY)
def test_what_was_not_earned_is_named(verdicts, name):
    assert verdicts[name] != "passed"
    assert LAZY[name]["told"] in verdicts[name]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(verdicts, name):
    assert verdicts[name] == "passed"


def test_what_an_earlier_day_binds_is_forbidden_on_a_later_day():
    """As an editor runs it: all days in one process, and day 1 imports the file of day 4's task."""
    bound = "\nfrom mlx.nn import silu as s\ndef silu(x):\n    return s(x)\n"
    solved = tuple(task.id for task in load_course().tasks())
    with checkout_for(Scenario("bound", (), solved, (Edit("basics.py", bound),))) as checkout:
        days = [f"tests/week1/test_day{day}.py" for day in (1, 4)]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--task=1.4.2", *days]
        done = subprocess.run(
            command, cwd=checkout, env=environment(checkout), capture_output=True, encoding="utf-8", check=False
        )
    assert "calls mlx.nn.silu, which this task must do without" in done.stdout, done.stdout


@pytest.mark.parametrize("compiles", [True, False])
def test_whether_mlx_compiles_is_as_it_was_before(compiles):
    """Whoever has switched it off, by MLX_DISABLE_COMPILE say, finds it off."""

    def runs() -> int:
        calls = []

        def noting(x):
            calls.append(x)
            return x

        compiled = mx.compile(noting)
        compiled(mx.array(1.0))
        compiled(mx.array(1.0))
        return len(calls)

    try:
        if not compiles:
            mx.disable_compile()
        with nothing_compiled():
            assert runs() == 2
            with nothing_compiled():
                pass
            assert runs() == 2
        assert runs() == (1 if compiles else 2)
    finally:
        mx.enable_compile()


@pytest.mark.parametrize("task", load_course().tasks(), ids=lambda task: task.id)
def test_accepted_programs_are_written_where_they_stand(task):
    """The rule of the learner's files, held against the files of the known programs."""
    traps = Traps([variants_path(task), SOLUTION])
    for variant in load_variants(task).accepted_programs:
        assert foreign_target(variant.program, traps) == "", variant.name


def test_the_tables_are_large():
    assert len(LAZY) >= 60
    assert len(RIGHT) >= 20
    assert not LAZY.keys() & RIGHT.keys()
