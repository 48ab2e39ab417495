"""Given files are graded as published, and a message names the learner's copies that were not used."""

import shutil

import pytest
from tests.course.checkouts import fixture
from tests.course.kernel_course import SOLVED, write_course

from tiny_llm_course.dev.transcripts import Edit, run
from tiny_llm_course.testkit.marks import needs

pytestmark = pytest.mark.maintainers
SAID = "These given files are not used, as they differ from the published ones: src/tiny_llm/"
MLX = "\n\nimport mlx.core as mx\n\n\ndef mean(x):\n    return mx.mean(x, keepdims=True)\n"
PATCH = f"{MLX}\n\nfrom . import ours\n\nours.mean = mean\n"
EMPTY = "(void)x; (void)y; (void)n;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose `.tiny-llm/kernels` all courses share."""
    return tmp_path_factory.mktemp("given") / "course"


@pytest.fixture
def graded(folder):
    """Writes the course anew, with a file of the learner's package changed, and returns the screen of a task."""

    def write_and_grade(task, given, text, **written):
        for name in ("src", "solutions", "tests"):
            shutil.rmtree(folder / name, ignore_errors=True)
        write_course(folder, **written)
        with (folder / "src/tiny_llm" / given).open("a", encoding="utf-8") as file:
            file.write(text)
        return run(f"test {task}", folder).stdout

    return write_and_grade


@needs("compiler")
@pytest.mark.parametrize("kernel", [EMPTY, SOLVED["mean"]], ids=["empty", "solved"])
@pytest.mark.parametrize(("given", "text"), [("kernels/ours.py", MLX), ("kernels/__init__.py", PATCH)])
def test_a_wrapper_cannot_do_the_kernels_work(graded, given, text, kernel):
    screen = graded("1.1.3", given, text, mean=kernel)
    assert f"{SAID}{given}\n" in screen
    assert ("1.1.3 Mean: passed" in screen) == (kernel != EMPTY), screen


@needs("compiler")
def test_a_header_is_the_published_one(graded):
    screen = graded("1.1.2", "kernels/pool.h", '#error "not the published header"\n', sum="solved", sums="solved")
    assert f"{SAID}kernels/pool.h\n" in screen
    assert "1.1.2 Sums: passed" in screen


@pytest.mark.parametrize("code", ["x = (", "import os; os._exit(0)"], ids=["syntax error", "exit"])
def test_a_given_file_that_cannot_be_imported(code):
    edits = (Edit("config.py", f"\n\n{code}\n"),)
    with fixture("1.1.1", "1.1.2", "1.1.3", "1.2.1", edits=edits) as checkout:
        screen = run("test 1.2", checkout).stdout
    assert screen.startswith(f"{SAID}config.py\n"), screen
    assert "\n✓ 1.2.1 " in screen
