"""`sync` between real repositories: a course and a learner's clone of it."""

import os
import shutil
import subprocess
import sys

import pytest
from tests.course.course_and_clone import (
    BASICS,
    CONFIG,
    DOC,
    LEARNER,
    SOFTMAX,
    backups,
    commit,
    edited,
    everything,
    git,
    make_clone,
    make_course,
    put,
    read,
    without_settings,
)

from tiny_llm_course.commands.sync import bring_in
from tiny_llm_course.paths import ROOT

pytestmark = pytest.mark.maintainers


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch, tmp_path):
    without_settings(tmp_path, monkeypatch)


@pytest.fixture
def course(tmp_path):
    return make_course(tmp_path / "course")


@pytest.fixture
def clone(course):
    return make_clone(course)


def test_uncommitted_work_is_kept_and_upstreams_changes_come(course, clone, capsys):
    put(clone, basics=edited(BASICS, SOFTMAX))
    commit(course, basics=edited(BASICS, DOC), README_md="one\ntwo\n3\n", new="x = 1\n", config=None)
    bring_in(clone)
    assert read(clone, "basics") == edited(BASICS, SOFTMAX, DOC)
    assert read(clone, "README_md") == "one\ntwo\n3\n"
    assert read(clone, "new") == "x = 1\n"
    assert not (clone / LEARNER / "config.py").exists()
    assert git(clone, "rev-parse", "HEAD") == git(course, "rev-parse", "HEAD")
    assert git(clone, "status", "--porcelain") == f" M {LEARNER}/basics.py"
    assert backups(clone) == {"basics.py": edited(BASICS, SOFTMAX), "config.py": CONFIG}
    printed = capsys.readouterr().out
    assert "origin/main: 1 new commit\n" in printed
    assert f"✓ {LEARNER}/basics.py: updated\n    updated  softmax\n" in printed
    assert "Worth testing again:\n    pdm run test 1.1.1\n" in printed


def test_committed_work_is_joined_by_a_merge(course, clone, capsys):
    commit(clone, basics=edited(BASICS, SOFTMAX), other_txt="2\n")
    put(clone, basics=edited(BASICS, SOFTMAX, ("Project.", "Mine.")))
    commit(course, basics=edited(BASICS, DOC), README_md="1\ntwo\nthree\n")
    bring_in(clone)
    assert git(clone, "show", f"HEAD:{LEARNER}/basics.py") + "\n" == edited(BASICS, SOFTMAX, DOC)
    assert read(clone, "basics") == edited(BASICS, SOFTMAX, DOC, ("Project.", "Mine."))
    assert (read(clone, "README_md"), read(clone, "other_txt")) == ("1\ntwo\nthree\n", "2\n")
    assert len(git(clone, "rev-list", "--parents", "-1", "HEAD").split()) == 3
    assert git(clone, "status", "--porcelain") == f" M {LEARNER}/basics.py"
    assert git(clone, "worktree", "list").count("\n") == 0
    assert "a merge commit joins" in capsys.readouterr().out
    commit(course, basics=edited(BASICS, DOC, ("Project.", "Project x.")))
    bring_in(clone)
    assert read(clone, "basics") == edited(BASICS, SOFTMAX, DOC, ("Project.", "Mine."))
    assert "basics.upstream.py" in backups(clone)


def test_what_is_staged_stays_staged(course, clone):
    put(clone, basics=edited(BASICS, SOFTMAX))
    git(clone, "add", "-A")
    put(clone, basics=edited(BASICS, SOFTMAX, ("# mine", "# better")))
    commit(course, basics=edited(BASICS, DOC))
    bring_in(clone)
    assert git(clone, "show", f":{LEARNER}/basics.py") + "\n" == edited(BASICS, SOFTMAX, DOC)
    assert read(clone, "basics") == edited(BASICS, SOFTMAX, DOC, ("# mine", "# better"))


def test_a_dry_run_changes_nothing_and_says_the_same(course, clone, capsys):
    put(clone, basics=edited(BASICS, SOFTMAX))
    commit(course, basics=edited(BASICS, DOC), other_txt="2\n")
    before = everything(clone)
    bring_in(clone, dry_run=True)
    assert everything(clone) == before
    assert backups(clone) == {}
    dry = capsys.readouterr().out
    assert "updated  softmax" in dry
    assert "Nothing has changed. To sync:\n    pdm run sync\n" in dry
    bring_in(clone)
    assert everything(clone) != before
    assert "updated  softmax" in capsys.readouterr().out


def test_nothing_new(course, clone, capsys):
    put(clone, basics=edited(BASICS, SOFTMAX))
    before = everything(clone)
    bring_in(clone)
    assert everything(clone) == before
    assert "Nothing new in origin/main.\n" in capsys.readouterr().out


def test_a_fork_takes_from_the_remote_upstream(course, clone, tmp_path, capsys):
    git(tmp_path, "clone", "-q", str(clone), "fork")
    git(tmp_path / "fork", "remote", "add", "upstream", str(course))
    git(course, "branch", "-m", "main", "trunk")
    commit(course, other_txt="2\n")
    git(tmp_path / "fork", "switch", "-q", "-c", "my-work")
    bring_in(tmp_path / "fork")
    assert read(tmp_path / "fork", "other_txt") == "2\n"
    assert "upstream/trunk: 1 new commit\n" in capsys.readouterr().out
    assert git(tmp_path / "fork", "branch", "--show-current") == "my-work"


def test_what_is_remembered_stays(course, clone):
    attempts = clone / ".tiny-llm" / "attempts" / "1.1.1.jsonl"
    attempts.parent.mkdir(parents=True)
    attempts.write_text("{}\n", encoding="utf-8")
    put(clone, basics=edited(BASICS, SOFTMAX))
    commit(course, basics=edited(BASICS, DOC))
    bring_in(clone)
    assert attempts.read_text(encoding="utf-8") == "{}\n"


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_line_ends_stay_as_they_are(course, clone, newline):
    mine = edited(BASICS, SOFTMAX).replace("\n", newline)
    put(clone, basics=mine, config=CONFIG.replace("\n", newline))
    commit(course, basics=edited(BASICS, DOC), config=edited(CONFIG, ("return 1", "return 2")))
    bring_in(clone)
    assert read(clone, "basics") == edited(BASICS, SOFTMAX, DOC).replace("\n", newline)
    assert read(clone, "config") == edited(CONFIG, ("return 1", "return 2")).replace("\n", newline)


def test_both_changed_a_given_function(course, clone, capsys):
    put(clone, config=edited(CONFIG, ("return 1", "return 2")))
    theirs = edited(CONFIG, ("return 1", "return 3"))
    commit(course, config=theirs)
    bring_in(clone)
    assert read(clone, "config") == edited(CONFIG, ("return 1", "return 2"))
    assert backups(clone) == {"config.upstream.py": theirs}
    printed = capsys.readouterr().out
    assert f"~ {LEARNER}/config.py: unchanged\n    yours    read\n      upstream changed its body\n" in printed
    named = printed.split("to compare:\n    ")[1].split("\n")[0]
    assert (clone / named).read_text(encoding="utf-8") == theirs


def test_both_made_a_file(course, clone):
    put(clone, cache="def mine() -> int:\n    return 1\n")
    commit(course, cache='def new() -> int:\n    raise NotImplementedError("2.1.1 New")\n')
    bring_in(clone)
    assert "return 1" in read(clone, "cache")
    assert "2.1.1 New" in read(clone, "cache")


def test_a_file_that_upstream_removed_stays_if_it_was_written(course, clone, capsys):
    put(clone, basics=edited(BASICS, SOFTMAX))
    commit(course, basics=None)
    bring_in(clone)
    assert read(clone, "basics") == edited(BASICS, SOFTMAX)
    assert "upstream removed it\n      you wrote in it\n" in capsys.readouterr().out


def test_files_of_the_learners_own_are_no_matter_of_upstreams(course, clone, capsys):
    commit(clone, mine="x = 1\n")
    put(clone, staged="x = 1\n", untracked="x = (\n")
    git(clone, "add", f"{LEARNER}/staged.py")
    commit(course, basics=edited(BASICS, DOC))
    bring_in(clone)
    assert "~" not in capsys.readouterr().out
    assert git(clone, "status", "--porcelain").split() == ["A", f"{LEARNER}/staged.py", "??", f"{LEARNER}/untracked.py"]
    assert [read(clone, name) for name in ("mine", "staged", "untracked")] == ["x = 1\n", "x = 1\n", "x = (\n"]


def test_a_file_that_is_not_python_is_merged_by_lines(course, clone):
    (course / LEARNER / "k.metal").write_text("a\nb\nc\nd\ne\n")
    commit(course)
    bring_in(clone)
    (clone / LEARNER / "k.metal").write_text("mine\nb\nc\nd\ne\n")
    (course / LEARNER / "k.metal").write_text("a\nb\nc\nd\nnew\n")
    commit(course)
    bring_in(clone)
    assert (clone / LEARNER / "k.metal").read_text() == "mine\nb\nc\nd\nnew\n"
    (course / LEARNER / "k.metal").write_text("A\nb\nc\nd\nnew\n")
    commit(course)
    bring_in(clone)
    assert (clone / LEARNER / "k.metal").read_text() == "mine\nb\nc\nd\nnew\n"
    assert backups(clone)["k.upstream.metal"] == "A\nb\nc\nd\nnew\n"


@pytest.mark.parametrize("depth", [1, 2])
def test_a_shallow_clone(course, tmp_path, depth):
    commit(course, other_txt="2\n")
    git(tmp_path, "clone", "-q", "--depth", str(depth), f"file://{course}", "shallow")
    put(tmp_path / "shallow", basics=edited(BASICS, SOFTMAX))
    commit(course, basics=edited(BASICS, DOC))
    bring_in(tmp_path / "shallow")
    assert read(tmp_path / "shallow", "basics") == edited(BASICS, SOFTMAX, DOC)


def test_from_the_command_line(tmp_path):
    """The whole course as a repository: one upstream commit, one sync by the learner."""
    upstream = tmp_path / "whole"
    for name in ("src", "tests/week1", "solutions"):
        shutil.copytree(ROOT / name, upstream / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(upstream, "init", "-q", "-b", "main")
    commit(upstream)
    git(tmp_path, "clone", "-q", str(upstream), "mine")
    mine = tmp_path / "mine"
    shutil.copy(ROOT / "solutions/tiny_llm/basics.py", mine / LEARNER / "basics.py")
    env = {**os.environ, "PYTHONPATH": str(mine / "src"), "PYTHONUTF8": "1"}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tiny_llm_course", "sync", *args]
        return subprocess.run(command, cwd=mine, env=env, capture_output=True, text=True)

    assert "Nothing new" in run().stdout
    test_file = upstream / "tests/week1/test_day1.py"
    test_file.write_text(test_file.read_text(encoding="utf-8") + "\n# more\n", encoding="utf-8")
    commit(upstream)
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "Worth testing again:\n    pdm run test 1.1.1 1.1.3\n" in done.stdout
    done = run("--remote", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "There is no remote nobody. Remotes: origin.\n    pdm run sync\n"
