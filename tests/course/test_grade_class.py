"""`pdm run grade-class`: a row and a Gradescope file for each submission, graded by the tests of this checkout."""

import json
import os
import shutil

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.dev.transcripts import run

pytestmark = pytest.mark.maintainers


@pytest.fixture(scope="module")
def checkout():
    """The teacher's: nothing is solved in it."""
    with fixture() as folder:
        yield folder


@pytest.fixture(scope="module")
def graded(checkout, tmp_path_factory):
    """What is printed for a class of five, and the folder of submissions."""
    folder = tmp_path_factory.mktemp("class")
    solved = checkout / "solutions/tiny_llm"
    stubs = checkout / "src/tiny_llm"
    shutil.copytree(solved, folder / "ann/src/tiny_llm")
    (folder / "ann/tests/week1").mkdir(parents=True)
    (folder / "ann/tests/week1/test_day1.py").write_text("raise SystemExit\n", encoding="utf-8")
    shutil.copytree(stubs, folder / "bob/tiny_llm")
    (folder / "bob/.tiny-llm").mkdir()
    (folder / "bob/.tiny-llm/progress.json").write_text('{"borrowed": ["1.1.1"]}', encoding="utf-8")
    shutil.copytree(solved, folder / "carl")
    (folder / "carl/loop").symlink_to("loop")
    (folder / "dora").mkdir()
    shutil.copytree(stubs, folder / "eve/src/tiny_llm")
    (folder / "eve/src/tiny_llm/mine").mkdir()
    os.mkfifo(folder / "eve/src/tiny_llm/mine/pipe")
    return run(f"grade-class {folder} 1.1.1", checkout), folder


def test_each_submission_has_a_row(graded):
    done, _ = graded
    ann, bob, carl, dora, eve = done.stdout.splitlines()
    assert ann == "ann   1 of 1 task passed, 1 of 1 point"
    assert bob == "bob   0 of 1 task passed, 0 of 1 point"
    assert carl == "carl  1 of 1 task passed, 1 of 1 point"
    assert dora == "dora  not graded: there is no src/tiny_llm in it"
    assert eve.startswith("eve   not graded: it cannot be copied: ")
    assert done.returncode == 1, "two are not graded"


def test_each_graded_submission_has_a_file_for_gradescope(graded):
    folder = graded[1] / "results"
    assert {file.name for file in folder.iterdir()} == {"ann.json", "bob.json", "carl.json"}
    scores = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()}
    assert {name: found["score"] for name, found in scores.items()} == {"ann": 1, "bob": 0, "carl": 1}
    assert scores["bob"]["tests"][0]["tags"][1] == "borrowed"


def test_a_second_run_takes_no_results_for_a_submission(graded, checkout):
    again = run(f"grade-class {graded[1]} 1.1.1", checkout)
    assert "results" not in again.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("grade-class", "Missing argument 'FOLDER'."),
        ("grade-class nowhere", "Invalid value for 'FOLDER': Directory 'nowhere' does not exist."),
        ("grade-class tests", "tests has no submission: each is a folder with src/tiny_llm in it."),
        ("grade-class tests 9.9", "There is no week 9"),
    ],
)
def test_wrong_use_is_one_line(checkout, words, told):
    done = run(words, checkout)
    assert done.returncode == 2
    assert done.stdout.startswith(told)
