"""Tests that are not as they were published are said on the screen, and change the hash that an export carries."""

import json
import shutil
import subprocess
import sys

import pytest
from tests.course.checkouts import fixture
from tests.course.course_and_clone import git, without_settings

from tiny_llm_course.dev.transcripts import environment, run

pytestmark = pytest.mark.maintainers

SAID = "These tests differ from the published ones: "
GRADING = (
    "tests/week1/test_day1.py", "tests/week1/variants_1_1_1.py", "tests/week1/formulas.py", "pyproject.toml",
    "conftest.py", "tests/conftest.py", "tests/week1/conftest.py", "src/conftest.py", "pytest.ini", "tests/pytest.ini",
    "src/sitecustomize.py",
)  # fmt: skip
# Says what has changed, and the hash: at first, then with another line in each file in turn.
EACH = """
import json, sys
from pathlib import Path
from tiny_llm_course.commands.export import provenance
from tiny_llm_course.course.file_paths import day_files
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.doctor.git import changed
found = []
for name in [None, *sys.argv[1:]]:
    file = Path(name or "pyproject.toml")
    before = file.read_bytes() if file.exists() else None
    if name:
        file.write_bytes((before or b"") + b"\\n# mine\\n")
    found.append([changed(day_files(load_course().day(1, 1))), provenance.of("").grader_hash])
    file.unlink() if before is None else file.write_bytes(before)
print(json.dumps(found))
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A learner's clone of the fixture course, in which the mean is solved."""
    without_settings(tmp_path, monkeypatch)
    course = tmp_path / "course"
    with fixture("1.1.1") as made:
        shutil.copytree(made, course, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    (course / ".gitignore").write_text("__pycache__/\n.tiny-llm/\nconftest.py\n", encoding="utf-8")
    git(course, "init", "-q", "-b", "main")
    git(course, "add", "-A")
    git(course, "commit", "-q", "-m", "published")
    git(tmp_path, "clone", "-q", str(course), "clone")
    return tmp_path / "clone"


def append(file, text="\n# mine\n"):
    with file.open("a", encoding="utf-8") as opened:
        opened.write(text)


def said(clone):
    screen = run("test 1.1.1", clone).stdout
    return next((line.removeprefix(SAID) for line in screen.splitlines() if line.startswith(SAID)), "")


def test_the_learners_own_files_are_the_learners(clone):
    append(clone / "src/tiny_llm/basics.py")
    (clone / "src/tiny_llm/mine.py").write_text("x = 1\n", encoding="utf-8")
    (clone / "scratch.py").write_text("x = 1\n", encoding="utf-8")
    append(clone / "tests/week1/test_day2.py")  # of another day
    assert said(clone) == ""


def test_what_grades_and_is_another_is_told_and_changes_the_hash(clone):
    done = subprocess.run(
        [sys.executable, "-c", EACH, *GRADING], cwd=clone, env=environment(clone), capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [files for files, _ in found] == [[], *([file] for file in GRADING)]
    assert len({digest for _, digest in found}) == len(found)


def test_a_commit_of_ones_own_does_not_publish(clone):
    append(clone / "tests/week1/test_day1.py")
    git(clone, "commit", "-q", "-a", "-m", "easier")
    assert said(clone) == "tests/week1/test_day1.py"


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("json", '"changed": [\n    "tests/week1/test_day1.py"\n   ]'),
        ("junit", '<property name="git:changed" value="tests/week1/test_day1.py" />'),
        ("gradescope", '\\nThese files differ from the published ones: tests/week1/test_day1.py"'),
    ],
)
def test_an_export_names_what_was_committed(clone, form, told):
    append(clone / "tests/week1/test_day1.py")
    git(clone, "commit", "-q", "-a", "-m", "easier")
    out = clone.parent / "verdicts"
    screen = run(f"export --format {form} --out {out} 1.1.1", clone).stdout
    assert screen.startswith("These files differ from the published ones: tests/week1/test_day1.py\n")
    assert told in out.read_text(encoding="utf-8")


def test_ones_own_copy_on_the_web_does_not_publish(clone):
    """The remote "upstream", from which sync pulls, goes before the branch that the clone follows."""
    git(clone.parent, "clone", "-q", "--bare", "clone", "mine")
    git(clone, "remote", "rename", "origin", "upstream")
    git(clone, "remote", "add", "origin", str(clone.parent / "mine"))
    append(clone / "tests/week1/test_day1.py")
    git(clone, "commit", "-q", "-a", "-m", "easier")
    git(clone, "push", "-q", "-u", "origin", "main")
    assert said(clone) == "tests/week1/test_day1.py"


def test_what_the_course_brings_is_published(clone):
    append(clone.parent / "course" / "tests/week1/test_day1.py")
    git(clone.parent / "course", "commit", "-q", "-a", "-m", "better")
    git(clone, "pull", "-q")
    assert said(clone) == ""


def test_a_pass_with_other_tests_is_a_pass(clone):
    append(clone / "tests/week1/test_day1.py")
    done = run("test 1.1.1", clone)
    assert done.returncode == 0
    assert "1 of 1 task passed." in done.stdout
