"""Which tasks a change of the learner's files concerns."""

import shutil

import pytest
from tests.tested import hash_of, hashes

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.source.code import Code

pytestmark = pytest.mark.maintainers

DAY1 = ["1.1.1", "1.1.2", "1.1.3", "1.1.4"]


@pytest.fixture
def package(tmp_path):
    shutil.copytree(SOLUTION, tmp_path / "tiny_llm")
    return tmp_path / "tiny_llm"


KNOWN: dict[str, dict[str, str]] = {}  # seconds each, and most are asked for twice


def computed(package):
    code = Code(package)
    return {task.id: code.with_needs(task) for task in load_course().tasks()}


def fingerprints(package):
    content = hash_of(hashes(package, package))
    if content not in KNOWN:
        KNOWN[content] = computed(package)
    return KNOWN[content]


def changed_by(package, file, find, put):
    """The ids of the tasks whose fingerprint is another one after an edit."""
    tasks = load_course().tasks()
    before = fingerprints(package)
    path = package / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    assert find in text
    path.write_text(text.replace(find, put, 1), encoding="utf-8")
    after = fingerprints(package)
    return [task.id for task in tasks if before[task.id] != after[task.id]]


def everything_that_needs(*ids):
    course = load_course()
    return [task.id for task in course.tasks() if task.id in ids or set(ids) & set(course.needs(task.id))]


def test_a_function_concerns_its_task_and_what_needs_it(package):
    changed = changed_by(package, "basics.py", "def silu(", "@str\ndef silu(")
    task = next(t.id for t in load_course().tasks() if str(t.target) == "basics:silu")
    assert changed == everything_that_needs(task)
    assert "1.1.1" not in changed


@pytest.mark.parametrize(
    ("find", "put"),
    [
        ("\n\n\ndef ", "\n\n# a comment between functions\n\n\ndef "),
        ("\n\n\ndef ", "\n\n\n\n\n\n\ndef "),
        ('"""', '"""Another first line of the file. '),
        ("\n", "\r\n"),
    ],
)
def test_what_is_no_code_concerns_no_task(package, find, put):
    assert changed_by(package, "attention.py", find, put) == []


def test_a_helper_concerns_the_tasks_that_use_it(package):
    helper = "import mlx.core as mx\n\n\ndef _helper():\n    return 1\n"
    assert changed_by(package, "attention.py", "import mlx.core as mx\n", helper) == []
    uses = "@_helper()\ndef causal_mask("
    mask = next(t.id for t in load_course().tasks() if str(t.target) == "attention:causal_mask")
    assert changed_by(package, "attention.py", "def causal_mask(", uses) == everything_that_needs(mask)
    assert changed_by(package, "attention.py", "return 1\n", "return 2\n") == everything_that_needs(mask)


@pytest.mark.parametrize("line", ["mx.random.seed(1)", "for i in range(3): pass", "from .basics import *", "mx.x = 1"])
def test_what_is_done_at_import_concerns_all_tasks_of_the_file(package, line):
    changed = changed_by(package, "attention.py", "import mlx.core as mx\n", f"import mlx.core as mx\n\n{line}\n")
    there = [t.id for t in load_course().tasks() if str(t.target).startswith("attention:")]
    assert changed == everything_that_needs(*there)
    assert "1.1.1" not in changed


def test_a_file_of_the_learners_own_concerns_those_that_import_it(package):
    (package / "own.py").write_text("SCALE = 1\n", encoding="utf-8")
    (package / "other.py").write_text("SCALE = 1\n", encoding="utf-8")
    changed_by(package, "layer_norm.py", "import mlx", "from .own import SCALE\nimport mlx")
    there = [t.id for t in load_course().tasks() if str(t.target).startswith("layer_norm:")]
    assert there
    assert changed_by(package, "own.py", "1", "2") == everything_that_needs(*there)
    assert changed_by(package, "other.py", "1", "2") == []


def test_the_later_of_two_definitions_counts_and_the_other_is_other_code(package):
    task = load_course().task("1.1.1")
    before = Code(package).with_needs(task)
    file = package / "basics.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "\n\ndef softmax(x, axis):\n    return x\n", encoding="utf-8")
    assert Code(package).with_needs(task) != before
    file.write_text(text, encoding="utf-8")
    assert Code(package).with_needs(task) == before


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"def f(:\n    pass\n", "attention.py:1 is not Python: invalid syntax"),
        (b"x = '\xff'\n", "attention.py"),
        (b"x = 1\0\n", "is not Python"),
        (None, "attention.py is not there"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_line_for_the_tasks_that_run_it(package, data, words):
    if data is None:
        (package / "attention.py").unlink()
    else:
        (package / "attention.py").write_bytes(data)
    code, course = Code(package), load_course()
    problems = code.problems([course.task("1.1.2")])
    assert len(problems) == 1
    assert words in problems[0]
    assert "\n" not in problems[0]
    assert code.problems([course.task("1.1.1")]) == []


def test_an_editors_lock_file_is_no_module(package):
    tasks, before = load_course().tasks(), fingerprints(package)
    (package / ".#attention.py").symlink_to("somebody@somewhere.1234")
    assert Code(package).problems(tasks) == []
    assert computed(package) == before
