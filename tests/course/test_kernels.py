"""Kernels in C++: what a learner is told of one that is wrong, by its line; borrowing, culprits, what is optional."""

import json
import shutil

import pytest
from tests.course.kernel_course import run, write_course

from tiny_llm_course.testkit.marks import needs

pytestmark = needs("compiler")
ADDS = "*y = 0;\n  for (int i = 0; i < n; ++i) *y += x[i];"
SQUARES = ADDS.replace("x[i]", "x[i] * x[i]")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder whose `.tiny-llm/kernels` all courses share: what one has compiled, another one need not."""
    return tmp_path_factory.mktemp("kernels") / "course"


@pytest.fixture
def course(built):
    """Writes the course anew, with some parts, and runs commands on it."""

    def write_and_run(*commands, environment=None, **written):
        for name in ("src", "solutions", "tests"):
            shutil.rmtree(built / name, ignore_errors=True)
        for file in (built / ".tiny-llm").glob("*.json"):
            file.unlink()
        write_course(built, **written)
        return run(built, *commands, **(environment or {}))

    return write_and_run


def told(text):
    """Return the line below the verdict of the first task."""
    return text[text.index("✗ ") :].split("\n")[1].strip()


def test_the_solution_passes_and_a_stub_is_not_started(course):
    (status, text), (with_stubs, stubs) = course("test --solution", "test 1")
    assert (status, "3 of 3 tasks passed." in text) == (0, True)
    assert with_stubs == 1
    assert "○ 1.1.1 Sum: not started\n" in stubs
    assert "○ 1.1.2 Sums: not started\n" in stubs


def test_a_fault_is_told_with_its_line(course):
    ((status, text),) = course("test 1.1.3", mean="*y = x[n];")
    assert status == 1
    assert told(text) == "src/tiny_llm/kernels/mean.cpp:5 reads x[6], and x has 6 elements"
    place = "src/tiny_llm/kernels/mean.cpp:5  *y = x[n];"
    assert f"      case      float32, x 6, seed 1\n      check     takes the mean\n      {place}\n" in text
    assert "pdm run hint 1.1.3" in text


RACE = """float total;
  pool().run(rows, 2, [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      sum(x + i * n, &total, n);
      y[i] = total;
    }
  });"""


def test_a_race_names_both_lines_and_always_the_same_ones(course):
    for status, text in course("test 1.1.2", "test 1.1.2", sum="solved", sums=RACE):
        assert status == 1
        assert "sums.cpp:8 writes shared memory in one chunk, and another chunk writes it: a race\n" in text
        assert "the other chunk is at src/tiny_llm/kernels/sums.cpp:9  for (int i = 0; i < n; ++i)" in text
        assert "      src/tiny_llm/kernels/sums.cpp:19  sum(x + i * n, &total, n);\n" in text


def test_a_compile_error_bars_the_tasks_of_its_file_alone(course):
    (status, text), (other, _) = course("test 1.1.1", "test 1.1.3", sum=ADDS.replace("x[i]", "z[i]"), mean="solved")
    assert (status, other) == (1, 0)
    assert "✗ src/tiny_llm/kernels/sums.cpp:9 does not compile: 'z' was not declared in this scope\n" in text
    assert "      for (int i = 0; i < n; ++i) *y += z[i];\n" in text
    assert "Next: fix src/tiny_llm/kernels/sums.cpp:9." in text


def test_a_mistake_is_named(course):
    ((_, text),) = course("test 1.1.1", sum=SQUARES)
    assert "    Your output equals what you get when it adds squares.\n    Of what?\n" in text


def test_a_race_is_known_as_a_mistake_where_it_shows(course):
    wrong = "pool().run(rows, 2, [&](int first, int last) {\n"
    wrong += "    for (int i = first; i < last; ++i) sum(x + i * n, y, n);\n  });"
    ((_, text),) = course("test 1.1.2", sum="solved", sums=wrong)
    assert "    Your kernel behaves like one in which all sums go to y[0].\n" in text


def test_a_part_is_right_although_one_that_it_calls_is_not(course):
    ((_, text),) = course("test 1.1.2", sum=SQUARES, sums="solved")
    assert "✗ 1.1.2 Sums: 2 of 2 checks failed; this task is right, 1.1.1 which it uses is not\n" in text


def test_a_borrowed_part_is_ours_for_those_who_call_it(course):
    commands = "borrow 1.1.1", "test 1.1.2", "return 1.1.1", "test 1.1.2"
    _, (borrowed, _), _, (returned, text) = course(*commands, sums="solved")
    assert (borrowed, returned) == (0, 1)
    assert "~ 1.1.2 Sums: waits for 1.1.1 Sum\n" in text


def test_behind_a_borrowed_part_lines_are_those_of_the_file(course):
    bad = "for (int i = 0; i <= rows; ++i) sum(x + i * n, y + i, n);"
    _, (_, text) = course("borrow 1.1.1", "test 1.1.2", sums=bad)
    assert "      src/tiny_llm/kernels/sums.cpp:15  for (int i = 0; i <= rows; ++i) sum(" in text


def test_what_is_optional_is_not_asked_for(course):
    commands = "test 1", "status", "export --format json"
    (status, text), (_, board), (_, exported) = course(*commands, sum="solved", sums="solved")
    assert status == 0
    assert "○ 1.1.3 Mean: not started, optional\n" in text
    assert "2 of 3 tasks passed, 1 optional." in text
    assert "  2 of 2 tasks done\n✓ Day 1  Day" in board
    assert "    ○ 1.1.3 Mean: optional\n" in board
    assert "Next: write 1.1.3 Mean (optional), " in board
    tasks = json.loads(exported)["tasks"]
    assert [(task["optional"], task["max_points"]) for task in tasks] == [(False, 1), (False, 2), (True, 0)]


def test_what_is_optional_comes_last(course):
    ((_, board),) = course("status", mean="return;")
    assert "    ~ 1.1.3 Mean: written, not graded yet\n" in board
    assert "Next: write 1.1.1 Sum, " in board
    assert "20 min to go" in board


def test_the_one_next_step_where_there_is_no_compiler(course):
    ((why, _),) = course("build-ext", environment={"CXX": "no-such-compiler"})
    assert str(why).startswith("This needs a C++ compiler.")


def test_dev_check_proves_known_kernels(course):
    ((_, text),) = course("dev check 1")
    assert "3 tasks, 5 checks: 5 fail on the stubs, 5 pass on the solution; 4 wrong programs: 4 caught, 4 named" in text
