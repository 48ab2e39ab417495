"""`case` opens the failing case that the verdict tells: in Python on a terminal, printed elsewhere."""

import mlx.core as mx
import numpy as np
import pytest
from tests.course.checkouts import fixture
from tests.course.terminal import CTRL_C, CTRL_D, Terminal

from tiny_llm_course.dev.transcripts import Edit, run
from tiny_llm_course.grading.failing_case import kept_case, numbers_of, words_of
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.rounding import exact
from tiny_llm_course.testkit.texts import same_ids

MEAN = "return total / x.shape[axis]"


def edited(find: str, put: str):
    return fixture("1.1.1", "1.1.2", "1.1.3", edits=(Edit("basics.py", put, find),))


def caught(check, *args, **kwargs):
    with pytest.raises(Exception) as raised:  # noqa: PT011
        check(*args, **kwargs)
    return kept_case(raised.value, max)


def sum64(x, axis, factor=1.0, r=exact):
    return x.sum(axis) * factor


def test_of_a_formula_the_inputs_have_its_names_and_the_dtype_they_had():
    x = mx.array([[1.0, 2.0], [3.0, 4.0]], dtype=mx.bfloat16)
    case = caught(agrees, lambda x, axis, factor: x[axis] * factor, sum64, x, 0, factor=2.0, seed=1)
    assert case.call == "program(x, axis, factor=factor)"
    assert case.listed == ("x", "axis", "factor", "expected", "yours")
    assert case.names["x"] is x
    assert words_of(x) == "bfloat16, 2 x 2"
    assert case.names["expected"].tolist() == [8.0, 12.0]
    assert case.names["yours"].tolist() == [2.0, 4.0]
    again = case.names["program"](x, 0, factor=2.0)
    assert again.tolist() == case.names["yours"].tolist()


def test_what_raises_has_no_result_but_what_was_expected():
    case = caught(agrees, lambda x, axis: x.nothing, sum64, mx.ones((2, 3)), 0, seed=1)
    assert "yours" not in case.names
    assert case.names["expected"].tolist() == [2.0, 2.0, 2.0]


def test_another_oracle_comes_before_the_formula():
    case = caught(agrees, lambda x, axis: x.no, sum64, mx.ones((1, 2)), 0, seed=1, expected=np.array([7.0, 8.0]))
    assert case.names["expected"].tolist() == [7.0, 8.0]


def test_an_input_that_was_changed_is_as_it_was():
    def program(x, axis):
        x -= 5
        return mx.sum(x + 5, axis=axis)

    case = caught(agrees, program, sum64, mx.array([[1.0, 2.0]]), 0, seed=1)
    assert case.names["x"].tolist() == [[1.0, 2.0]]
    assert case.names["expected"].tolist() == [1.0, 2.0]


def test_inputs_in_another_layout_are_in_that_layout():
    def program(x, axis):
        if not memoryview(x).c_contiguous:
            return mx.zeros(x.shape[1:])
        return mx.sum(x, axis=axis)

    case = caught(agrees, program, sum64, mx.array([[1.0, 2.0], [3.0, 4.0]]), 0, seed=1)
    assert not memoryview(case.names["x"]).c_contiguous
    assert case.names["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_what_came_and_what_was_expected_of_a_property_a_text_and_an_error():
    compared = caught(compare, mx.zeros((2,)), np.ones(2), mx.float32, 0.0, "case", 2)
    assert (compared.names["yours"].tolist(), compared.names["expected"].tolist()) == ([0, 0], [1, 1])
    ids = caught(same_ids, [1, 2], [1, 3], "case")
    assert (ids.names["yours"], ids.names["expected"]) == ([1, 2], [1, 3])
    nothing = caught(same_ids, None, [1, 3], "case")
    assert nothing.names["yours"] is None

    def failing():
        with noted("case"):
            raise KeyError

    here = caught(failing)
    assert "yours" not in here.names
    assert here.names["program"] is max
    assert any("raise KeyError" in line for line in here.source)


def test_large_arrays_are_cut():
    assert len(numbers_of(mx.zeros((50, 50, 50)))) <= 12
    assert all(len(row) <= 100 for row in numbers_of(mx.zeros((4000,))))
    assert numbers_of("text") == []


def test_piped_it_prints_the_arrays_of_the_verdict_s_case():
    with edited(MEAN, "return total") as checkout:
        verdict, done = run("test 1.1.1", checkout), run("case 1.1.1", checkout)
    assert done.returncode == 1
    line = next(line for line in verdict.stdout.splitlines() if line.strip().startswith("case"))
    assert line in done.stdout.splitlines()
    assert verdict.stdout.count("look: pdm run case 1.1.1") == 1
    for name in ("x         float32, ", "axis      0", "expected  float64, ", "yours     float32, "):
        assert f"\n  {name}" in done.stdout


def test_on_a_terminal_the_names_are_there_and_a_breakpoint_stops():
    with edited(MEAN, "breakpoint(); return total") as checkout:
        told = run("test 1.1.1", checkout).stdout
        assert (
            "breakpoint() at src/tiny_llm/basics.py:17 does not stop under test; it does in: pdm run case 1.1.1" in told
        )
        with Terminal("case", "1.1.1", checkout=checkout) as terminal:
            terminal.wait_for("To see it again: program(x, axis).")
            terminal.wait_for(">>> ")
            for typed, answer in (("x.dtype", "mlx.core.float32"), ("yours.shape == expected.shape", "True")):
                terminal.type(f"{typed}\n")
                terminal.wait_for(answer)
            terminal.type("sorted(name for name in dir() if name in ('main', 'say', 'agrees'))\n")
            terminal.wait_for("\n[]")
            terminal.type(CTRL_C)
            terminal.wait_for("KeyboardInterrupt")
            terminal.wait_for(">>> ")
            terminal.type("program(x, axis)\n")
            terminal.wait_for("(Pdb) ")
            terminal.type("total.shape\n")
            terminal.wait_for("(1, 4)")
            terminal.type("c\n")
            terminal.wait_for(">>> ")
            terminal.type(CTRL_D)
            assert terminal.end() == 1


def test_what_never_ends_is_not_called():
    with edited(MEAN, "while True: pass") as checkout:
        task = checkout / "src/tiny_llm_course/course/tasks/week1.toml"
        text = task.read_text(encoding="utf-8")
        task.write_text(text.replace('target = "basics:mean"', 'target = "basics:mean"\nseconds = 1'), encoding="utf-8")
        done = run("case 1.1.1", checkout)
    assert done.returncode == 1
    assert "still running after 1 s" in done.stdout
    assert (
        "Your code is not run here, as it ended the process. These are the first inputs of that check:\n" in done.stdout
    )
    assert "\n  expected  float64, " in done.stdout
    assert "yours" not in done.stdout


def test_without_a_failing_case_it_says_so():
    with edited(MEAN, MEAN) as checkout:
        passes, stub = run("case 1.1.1", checkout), run("case 1.2.1", checkout)
        (checkout / "src/tiny_llm/basics.py").write_text("def oops(:\n", encoding="utf-8")
        broken = run("case 1.1.1", checkout)
    assert (passes.returncode, passes.stdout) == (0, "✓ 1.1.1 Mean passes: there is no failing case\n")
    assert stub.returncode == 1
    assert "○ 1.2.1 Standard scores: not started\n    code src/tiny_llm/spread.py" in stub.stdout
    assert "look:" not in stub.stdout
    assert broken.returncode == 1
    assert "✗ src/tiny_llm/basics.py:1 is not Python" in broken.stdout


def test_code_that_does_not_do_the_same_every_time_is_told_so():
    once = "import os\n    if os.environ.get('PYTEST_VERSION') and not os.path.exists('seen'):\n"
    once += "        open('seen', 'w').close()\n        return x\n    " + MEAN
    with edited(MEAN, once) as checkout:
        done = run("case 1.1.1", checkout)
    assert done.returncode == 1
    assert "your code does not do the same every time" in done.stdout


def test_full_shows_the_arrays_of_every_failed_check():
    with edited(MEAN, "return total") as checkout:
        done = run("test 1.1.1 --full -- -k mlx", checkout)
    assert done.returncode == 1
    assert "the case" in done.stdout
    assert "\nyours     float32, 1 x 4\n  [[" in done.stdout
