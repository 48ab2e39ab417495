"""`pdm run export`: what a class's tools read, whatever the learner's code printed; borrowed tasks earn nothing."""

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.course.checkouts import FIXTURE, fixture

from tiny_llm_course.commands.export import formats
from tiny_llm_course.commands.export.provenance import Commit, Provenance
from tiny_llm_course.commands.export.verdicts import GradedDay, Verdict, clean
from tiny_llm_course.commands.out_file import must_be_writable
from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.dev.transcripts import Edit, environment
from tiny_llm_course.paths import REGISTRY, ROOT

COURSE = load_course(FIXTURE / REGISTRY.relative_to(ROOT))
DAY = COURSE.day(1, 1)
NASTY = 'print("\\x00\\x1b[31m]]> \\ud800 & <b> \\uffff \\u202e \\u00e9")'
FALSE_VALUE = "raise ValueError('bad \\x1b[31m \\x00 value')"


@pytest.fixture(scope="module")
def checkout():
    """1.1.1 passes and prints, 1.1.2 fails, 1.1.3 is borrowed, day 2 is not started."""
    edits = (
        Edit("basics.py", find="    total =", put=f"    {NASTY}\n    total ="),
        Edit("spread.py", find="    centered =", put=f"    {NASTY}\n    {FALSE_VALUE}\n    centered ="),
    )
    with fixture("1.1.1", "1.1.2", "1.1.3", edits=edits) as folder:
        memory = folder / ".tiny-llm" / "progress.json"
        memory.parent.mkdir()
        memory.write_text(json.dumps({"borrowed": ["1.1.3"]}), encoding="utf-8")
        yield folder


def export(checkout, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tiny_llm_course", "export", *args]
    return subprocess.run(command, cwd=checkout, env=environment(checkout), capture_output=True, encoding="utf-8")


@pytest.fixture(scope="module")
def as_json(checkout):
    done = export(checkout, "--format", "json", "--week", "1")
    assert (done.returncode, done.stderr) == (0, "1 of 5 tasks passed, 1 of 8 points\n")
    return json.loads(done.stdout)


def test_json_has_verdicts_points_and_messages(as_json):
    assert (as_json["format"], as_json["version"], as_json["points"], as_json["max_points"]) == (
        "tiny-llm-export", 1, 1, 8,
    )  # fmt: skip
    tasks = as_json["tasks"]
    assert [(t["id"], t["status"], t["points"], t["max_points"]) for t in tasks] == [
        ("1.1.1", "passed", 1, 1),
        ("1.1.2", "failed", 0, 2),
        ("1.1.3", "borrowed", 0, 1),
        ("1.2.1", "not started", 0, 3),
        ("1.2.2", "not started", 0, 1),
    ]
    assert [t["borrowed"] for t in tasks] == [False, False, True, False, False]
    assert tasks[1]["message"].startswith("raised ValueError: bad ")
    assert f"{tasks[1]['checks_passed']} of {tasks[1]['checks']} checks passed" in tasks[1]["details"]
    assert tasks[0]["prints"].startswith("\\x00\\x1b[31m]]> \\ud800 & <b> \\uffff \\u202e \u00e9\n")
    assert tasks[2]["message"] == "borrowed, no points; to return it: pdm run return 1.1.3"


def test_hashes_are_those_of_the_files(checkout, as_json):
    source = as_json["source"]
    for file in ("src/tiny_llm/basics.py", "src/tiny_llm/spread.py"):
        assert source["graded"][file] == sha256((checkout / file).read_bytes()).hexdigest()
    for file in (
        "tests/week1/test_day1.py",
        "tests/week1/variants_1_1_1.py",
        "src/tiny_llm_course/course/tasks/week1.toml",
    ):
        assert source["grader"][file] == sha256((checkout / file).read_bytes()).hexdigest()
    assert source["git"] is None  # a copy without git
    assert source["versions"]["mlx"]


def test_what_was_tampered_with_is_seen(checkout, tmp_path, as_json):
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    (copy / ".gitignore").write_text("__pycache__/\n.tiny-llm/\n", encoding="utf-8")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], cwd=copy, check=True)
    with (copy / "src" / "tiny_llm" / "basics.py").open("a", encoding="utf-8") as mine:
        mine.write("\n")  # the learner's to edit
    honest = json.loads(export(copy, "--format", "json", "1.1.1").stdout)["source"]
    assert honest["git"]["changed"] == []
    assert len(honest["git"]["commit"]) == 40
    assert honest["grader_hash"] == as_json["source"]["grader_hash"]
    with (copy / "tests" / "week1" / "test_day1.py").open("a", encoding="utf-8") as test:
        test.write("\n# easier now\n")
    (copy / "conftest.py").write_text("", encoding="utf-8")
    changed = json.loads(export(copy, "--format", "json", "1.1.1").stdout)["source"]
    assert changed["git"]["changed"] == ["conftest.py", "tests/week1/test_day1.py"]
    assert changed["grader_hash"] != honest["grader_hash"]


def test_a_day_whose_tests_are_gone_has_not_passed(checkout, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "tests" / "week1" / "test_day1.py").unlink()
    done = export(copy, "--format", "json", "1.1.1", "1.2.1")
    assert done.returncode == 0
    gone, other = json.loads(done.stdout)["tasks"]
    assert (gone["status"], gone["points"], other["status"]) == ("not run", 0, "not started")
    assert gone["message"].startswith("not run: ")
    assert "test_day1.py" in gone["message"]


def test_junit_is_xml_in_the_structure_that_pytest_writes(checkout, tmp_path):
    out = tmp_path / "verdicts.xml"
    done = export(checkout, "--format", "junit", "--out", str(out), "1")
    assert done.stderr.startswith(f"{out}: 1 of 5 tasks passed, ")
    assert (done.returncode, done.stdout) == (0, "")
    root = ElementTree.fromstring(out.read_bytes())
    counts = [[suite.get(name) for name in ("tests", "failures", "errors", "skipped")] for suite in root]
    assert counts == [["3", "1", "0", "1"], ["2", "0", "0", "2"]]
    kinds = [[part.tag for part in case] for case in root.iter("testcase")]
    assert kinds == [
        ["properties", "system-out"],
        ["properties", "failure", "system-out"],
        *[["properties", "skipped"]] * 3,
    ]
    theirs = pytests_own(tmp_path)
    assert theirs.tag == root.tag
    assert {part.tag for part in root.iter()} <= {part.tag for part in theirs.iter()}
    for tag in ("testsuite", "testcase", "failure", "skipped", "property"):
        ours, known = root.iter(tag), next(theirs.iter(tag)).attrib
        assert all(set(part.attrib) <= set(known) for part in ours), tag


def pytests_own(tmp_path) -> ElementTree.Element:
    """What pytest itself writes about a test of each kind."""
    (tmp_path / "test_kinds.py").write_text(
        "import pytest\n"
        "def test_passes(record_property, record_testsuite_property):\n"
        "    record_property('a', 'b')\n    record_testsuite_property('c', 'd')\n    print('words')\n"
        "def test_fails():\n    assert False\n"
        "@pytest.mark.skip(reason='later')\ndef test_skipped():\n    pass\n"
        "def test_error(no_such_fixture):\n    pass\n",
        encoding="utf-8",
    )
    options = ["-q", "-p", "no:cacheprovider", "-o", "junit_logging=all", "--junitxml=theirs.xml", "--rootdir=."]
    subprocess.run([sys.executable, "-m", "pytest", *options, "test_kinds.py"], cwd=tmp_path, capture_output=True)
    return ElementTree.parse(tmp_path / "theirs.xml").getroot()


# The fields that Gradescope documents, and their types.
TOP = {
    "score": (int, float), "execution_time": (int, float), "output": str, "output_format": str,
    "test_output_format": str, "test_name_format": str, "visibility": str, "stdout_visibility": str,
    "extra_data": dict, "tests": list, "leaderboard": list,
}  # fmt: skip
TEST = {
    "score": (int, float), "max_score": (int, float), "status": str, "name": str, "name_format": str, "number": str,
    "output": str, "output_format": str, "tags": list, "visibility": str, "extra_data": dict,
}  # fmt: skip


def test_gradescope_gets_the_fields_that_it_documents(checkout):
    done = export(checkout, "--format", "gradescope", "--points", "minutes", "1")
    results = json.loads(done.stdout)
    for data, known in [(results, TOP), *((test, TEST) for test in results["tests"])]:
        assert all(isinstance(value, known[key]) for key, value in data.items())
    assert [test["status"] for test in results["tests"]] == ["passed", *["failed"] * 4]
    assert [test["score"] for test in results["tests"]] == [DAY.tasks[0].minutes, 0, 0, 0, 0]
    assert [test["max_score"] for test in results["tests"]] == [task.minutes for task in COURSE.tasks()]
    assert results["score"] == sum(test["score"] for test in results["tests"])
    assert "borrowed" in results["tests"][2]["tags"]


def test_without_names_the_whole_course_counts_in_its_order(checkout):
    done = export(checkout, "--format", "json")
    assert [task["id"] for task in json.loads(done.stdout)["tasks"]] == [task.id for task in COURSE.tasks()]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--format", "csv"], "Invalid value for '--format': 'csv' is not one of 'junit', 'json', 'gradescope'."),
        ([], "Choose a format (junit, json, gradescope):\n    pdm run export --format junit"),
        (
            ["--format", "json", "--day", "1"],
            "--day 1 needs a week:\n    pdm run export --format json --week 1 --day 1",
        ),
        (["--format", "json", "1.9"], "There is no day 9 in week 1; there are days 1 and 2."),
        (["--format", "json", "--out", "no/such/folder.json"], "no/such/folder.json cannot be written: no/such"),
        (
            ["--format", "json", "--out", "src/tiny_llm/basics.py"],
            "src/tiny_llm/basics.py exists and is not an earlier export: name another file, or delete it first.",
        ),
        (["--format", "json", "--out", "src"], "Invalid value for '--out': File 'src' is a directory."),
    ],
)
def test_wrong_use_is_one_line(checkout, args, words):
    done = export(checkout, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(words)
    assert all(line.startswith("    pdm run export ") for line in done.stderr.splitlines()[1:])


def test_a_file_is_written_over_only_if_it_is_an_earlier_export(tmp_path):
    file = tmp_path / "out"
    for form in formats.FORMATS.values():
        file.write_text(form([], SOURCE), encoding="utf-8")
        must_be_writable(file, "export", formats.is_export)
    file.write_bytes(b"")
    must_be_writable(file, "export", formats.is_export)
    must_be_writable(tmp_path / "new", "export", formats.is_export)
    for contents in (
        b"x",
        b"\xff\0",
        b"{}",
        b"[1]",
        b'{"extra_data": 3}',
        b"<?xml",
        b'<?xml version="1.0"?><testsuites/>',
    ):
        file.write_bytes(contents)
        with pytest.raises(UsageError, match="exists and is not an earlier export"):
            must_be_writable(file, "export", formats.is_export)


SOURCE = Provenance("2026-01-01T00:00:00+00:00", {}, {}, "", Commit("", ("tests/\x1b",)), (), {}, "linux")


@given(st.text(), st.sampled_from(["passed", "failed", "not started", "not run", "borrowed"]))
def test_no_text_breaks_a_form(text, status):
    kept = clean(text)
    verdict = Verdict(DAY.tasks[0], status, 0, 1, 2, 1, kept.replace("\n", " "), kept, kept)
    days = [GradedDay(DAY, (verdict,), 0.5)]
    root = ElementTree.fromstring(formats.as_junit(days, SOURCE).encode())
    if kept:
        assert root.findtext(".//system-out") == kept
    (task,) = json.loads(formats.as_json(days, SOURCE))["tasks"]
    assert task["prints"] == kept
    json.loads(formats.as_gradescope(days, SOURCE))


@given(st.text())
def test_clean_keeps_what_can_be_read(text):
    kept = clean(text)
    kept.encode()
    assert all(character.isprintable() or character.isspace() or character in "\u200c\u200d" for character in kept)
    if text.isprintable():
        assert kept == text
