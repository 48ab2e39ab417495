"""C++ of a package is built before its tests run: once for each state of its sources, and within limits."""

import importlib
import sys

import pytest
from tests.course.native_course import run, write_course

from tiny_llm_course.course.findings import Kind
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.grading import build as building
from tiny_llm_course.grading import compiling
from tiny_llm_course.programs.packages import LearnerError
from tiny_llm_course.testkit.marks import needs

pytestmark = needs("compiler")
RECIPE = "extension/build.py"


@pytest.fixture
def package(tmp_path, monkeypatch):
    root = write_course(tmp_path, "add")
    monkeypatch.setattr(building, "ROOT", root)
    monkeypatch.setattr(compiling, "ROOT", root)
    return root / "src" / "tiny_llm"


def runs(package) -> int:
    return len((package / "extension" / ".build" / "runs").read_text(encoding="utf-8").splitlines())


def write(package, old, new) -> None:
    file = package / "extension" / "add.cpp"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_library_is_built_and_called(package, monkeypatch):
    assert building.build(package, RECIPE) is None
    monkeypatch.syspath_prepend(str(package))
    extension = importlib.import_module("extension")
    try:
        assert extension.library().add(2, 3) == 5
    finally:
        del sys.modules["extension"]


def test_what_has_not_changed_is_not_built_again(package, monkeypatch):
    for _ in range(2):
        assert building.build(package, RECIPE) is None
    assert runs(package) == 1
    (package / "extension" / "__init__.py").write_text("# Python is not compiled\n", encoding="utf-8")
    assert (building.build(package, RECIPE), runs(package)) == (None, 1)
    write(package, "x + y", "y + x")
    assert (building.build(package, RECIPE), runs(package)) == (None, 2)
    monkeypatch.setattr(building, "version", lambda name: "another")
    assert (building.build(package, RECIPE), runs(package)) == (None, 3)


def test_a_mistake_is_told_at_the_learner_s_line(package):
    write(package, "return x + y;", "int z = x + v;\n    return z + w;")
    finding = building.build(package, RECIPE)
    assert finding is not None
    assert (finding.kind, finding.place) == (Kind.NOT_BUILT, "src/tiny_llm/extension/add.cpp:5")
    assert finding.headline.startswith("src/tiny_llm/extension/add.cpp:5 does not compile: ")
    assert finding.lines[0] == "int z = x + v;"
    assert finding.lines[1].startswith("src/tiny_llm/extension/add.cpp:6  "), "the next complaint"
    assert building.build(package, RECIPE) == finding, "what failed is tried again"


def test_where_no_line_is_to_blame_the_last_words_are_told(package):
    program = package / RECIPE
    program.write_text("import sys\nsys.exit('error: there is no nanobind')\n", encoding="utf-8")
    finding = building.build(package, RECIPE)
    assert finding is not None
    assert (finding.place, finding.headline) == (
        "src/tiny_llm/extension",
        "src/tiny_llm/extension cannot be built: error: there is no nanobind",
    )


def test_a_build_has_a_limit_of_its_own(package):
    (package / RECIPE).write_text("import time\ntime.sleep(60)\n", encoding="utf-8")
    finding = building.build(package, RECIPE, seconds=0.3)
    assert finding is not None
    assert finding.headline.endswith("cannot be built: still running after 0.3 s, the limit of a build")


def test_what_runs_without_its_tests_is_built_first(package, monkeypatch, capsys):
    monkeypatch.setattr(building, "recipes", lambda task: [RECIPE])
    monkeypatch.setattr(building, "SOLUTION", package)
    tasks = load_course().tasks()[:1]
    building.must_be_built(tasks, package)
    building.must_be_built(tasks, package)
    assert capsys.readouterr().err == "Building src/tiny_llm/extension ...\n", "once, as nothing has changed"
    assert runs(package) == 1
    write(package, "x + y;", "x + z;")
    with pytest.raises(LearnerError, match=r"add\.cpp:5 does not compile: .*\n  return x \+ z;"):
        building.must_be_built(tasks, package)


def test_the_verdicts_of_a_task_that_is_built_first(tmp_path):
    root = write_course(tmp_path / "course", "double", "add")
    package = root / "src" / "tiny_llm"
    ((status, text),) = run(root, "test 1")
    assert (status, "✓ 1.1.2 Sum: passed, 1 check\n" in text) == (0, True)
    write(package, "x + y;", "x + z;")
    (status, text), (_, board) = run(root, "test 1.1.2", "status")
    assert status == 1
    assert "✗ src/tiny_llm/extension/add.cpp:5 does not compile: " in text
    assert "      return x + z;\n" in text
    assert "✗ 1.1.2 Sum: failed, src/tiny_llm/extension/add.cpp cannot be built\n" in text
    assert "Next: fix src/tiny_llm/extension/add.cpp:5." in text
    assert "✗ 1.1.2 Sum: failing" in board
    write(package, "return x + z;", 'throw std::runtime_error("1.1.2 Sum");')
    ((status, text),) = run(root, "test 1.1.2")
    assert (status, "○ 1.1.2 Sum: not started\n" in text) == (1, True)
