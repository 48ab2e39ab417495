"""Which tests need not run: those that have passed for the same content, but for a few groups that are drawn."""

import json

import pytest
from tests.course.conftest import content_of_the_course
from tests.tested import COURSE, Content, Record, Run, hashes

from tiny_llm_course.paths import ROOT

pytest_plugins = ["pytester"]

PARTS = {"a.html": "1", "b.html": "2", "toc.js": "3", "b.js": "4", COURSE: "5"}
CONTENT = Content(PARTS, "the tests")
RAN = {
    "test_reads[a]": Run("a.html", ["a.html", "toc.js"], True),
    "test_reads[b]": Run("b.html", ["b.html", "b.js", "toc.js"], True),
    "test_prints[b]": Run("b.html", ["b.html", "toc.js"], True),
    "test_numbers": Run(COURSE, [COURSE], True),
}
EVERY = {*RAN}


@pytest.fixture
def file(tmp_path):
    """A record of tests that have all passed."""
    Record(tmp_path / "tested.json").keep(RAN, CONTENT)
    return tmp_path / "tested.json"


@pytest.mark.parametrize(
    ("name", "invalid"),
    [
        ("a.html", {"test_reads[a]"}),
        ("b.js", {"test_reads[b]", "test_prints[b]"}),
        ("toc.js", EVERY - {"test_numbers"}),
        (COURSE, {"test_numbers"}),
        ("c.html", set()),
    ],
)
def test_what_has_passed_is_valid_until_something_changes_that_it_depends_on(file, name, invalid):
    assert Record(file).valid(CONTENT).keys() == EVERY
    assert Record(file).valid(CONTENT._replace(parts=PARTS | {name: "changed"})).keys() == EVERY - invalid
    assert Record(file).valid(CONTENT._replace(always="others")) == {}


def test_what_has_run_is_kept_beside_what_is_still_valid(file):
    new = CONTENT._replace(parts=PARTS | {"b.html": "changed"})
    Record(file).keep({"test_reads[b]": RAN["test_reads[b]"]}, new)
    assert Record(file).valid(new).keys() == EVERY - {"test_prints[b]"}
    failed = Run("a.html", ["a.html"], False)
    Record(file).keep({"test_prints[b]": RAN["test_prints[b]"], "test_reads[a]": failed}, new)
    assert Record(file).valid(new).keys() == EVERY - {"test_reads[a]"}
    assert "a.html" not in json.loads(file.read_text(encoding="utf-8"))


def test_the_day_and_the_file_stay_if_the_same_has_passed_again(file):
    before = file.read_text(encoding="utf-8").replace('"tested": "2', '"tested": "1')
    file.write_text(before, encoding="utf-8")
    Record(file).keep(RAN, CONTENT)
    assert file.read_text(encoding="utf-8") == before
    lines = before.splitlines()
    assert json.loads(lines[1].partition(": ")[2].rstrip(",")) == ["toc.js"]
    assert len(lines) == 2 + 1 + 3, "a line for each group, for the parts of all, and for each brace"


def test_some_groups_are_tested_in_any_case(file):
    assert Record(file).guards(2) == EVERY - {"test_numbers"}
    assert len(Record(file).guards(1)) in (1, 2)
    assert Record(file).guards(1) == Record(file).guards(1)
    file.write_text("<<<<<<< HEAD", encoding="utf-8")
    assert Record(file).valid(CONTENT) == {}
    assert Record(file).guards(2) == set()


def test_the_content_is_that_of_all_files(tmp_path):
    for name in ("index.html", "week1/day1.html", "tested.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert hashes(tmp_path, tmp_path).keys() == {"index.html", "week1/day1.html"}
    assert content_of_the_course() == content_of_the_course()


TESTS = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_a(number):
    assert {passes}

def test_b():
    pass
"""


@pytest.mark.maintainers
def test_a_file_is_skipped_once_all_of_its_tests_have_passed(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("""
        from pathlib import Path
        from tests.course import conftest
        from tests.tested import Content

        conftest.HERE = Path(__file__).parent
        conftest.content_of_the_course = lambda: Content({"everything": "1"}, "")
        conftest.GUARDS = 0
        from tests.course.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_configure
    """)

    def run(*words):
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "xdist.plugin", "-n", "1", *words)

    pytester.makepyfile(test_it=TESTS.format(passes="number < 2"))
    run("--as-tested").assert_outcomes(passed=2, failed=1)
    pytester.makepyfile(test_it=TESTS.format(passes="number"))
    run("--as-tested", "-k", "test_a").assert_outcomes(passed=2)
    run("--as-tested").assert_outcomes(passed=3)
    run("--as-tested").assert_outcomes(skipped=3)
    run().assert_outcomes(passed=3)
