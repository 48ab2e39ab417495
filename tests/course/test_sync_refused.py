"""`sync` where it cannot be done, or breaks off: one line, and everything is as it was."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.course.course_and_clone import (
    BASICS,
    DOC,
    LEARNER,
    SOFTMAX,
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

from tiny_llm_course.commands import sync
from tiny_llm_course.commands.sync import bring_in
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.learner.sync.git import Git, GitError

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


def detach(course, clone):
    git(clone, "switch", "-q", "--detach")


def no_remote(course, clone):
    git(clone, "remote", "remove", "origin")


def away(course, clone):
    git(clone, "remote", "set-url", "origin", str(clone / "away"))


def broken(course, clone):
    put(clone, basics=edited(BASICS, ("def linear(", "def linear((")))


def not_utf8(course, clone):
    (clone / LEARNER / "basics.py").write_bytes(b"x = '\xff'\n")


def edited_outside(course, clone):
    put(clone, other_txt="mine\n")


def untracked_outside(course, clone):
    put(clone, notes_txt="mine\n")
    commit(course, notes_txt="theirs\n")


def conflict(course, clone):
    commit(clone, other_txt="mine\n")


def unfinished(course, clone):
    conflict(course, clone)
    git(clone, "fetch", "-q")
    subprocess.run(["git", "merge", "-q", "origin/main"], cwd=clone, capture_output=True)


def unmerged(course, clone):
    """A stash that did not fit."""
    put(clone, README_md="mine\n")
    git(clone, "stash")
    commit(clone, README_md="another\n")
    subprocess.run(["git", "stash", "pop"], cwd=clone, capture_output=True)


def no_name(course, clone):
    commit(clone, README_md="mine\n")
    git(clone, "config", "user.useConfigOnly", "true")
    Path(os.environ["GIT_CONFIG_GLOBAL"]).write_text("", encoding="utf-8")


def no_clone(course, clone):
    shutil.rmtree(clone / ".git")


def unrelated(course, clone):
    shutil.rmtree(clone / ".git")
    git(clone, "init", "-q", "-b", "main")
    commit(clone, mine_txt="1\n")
    git(clone, "remote", "add", "origin", str(course))


REFUSED = [
    (detach, "git switch -c"),
    (no_remote, "git remote add upstream URL"),
    (away, "origin cannot be reached"),
    (broken, f"{LEARNER}/basics.py:11 is not Python"),
    (not_utf8, f"{LEARNER}/basics.py is not Python (it is not UTF-8)"),
    (edited_outside, "\n    git stash push -- other.txt\n    pdm run sync\n    git stash pop"),
    (untracked_outside, "\n    mv notes.txt notes.txt.mine\n    pdm run sync"),
    (
        conflict,
        '\n    git checkout origin/main -- other.txt\n    git commit -m "As upstream" -- other.txt\n    pdm run sync\n',
    ),
    (unmerged, "There are conflicts in README.md. Resolve them, then:\n    git add -- README.md\n    pdm run sync"),
    (unfinished, "A merge is in progress here"),
    (no_name, "git config user.name"),
    (no_clone, "This folder is not a clone of the course"),
    (unrelated, "no commit in common"),
]


@pytest.mark.parametrize(("state", "words"), REFUSED, ids=[state.__name__ for state, _ in REFUSED])
def test_what_cannot_be_done_is_one_line_and_commands_and_changes_nothing(course, clone, state, words):
    commit(course, basics=edited(BASICS, DOC), other_txt="2\n")
    state(course, clone)
    before = everything(clone) if (clone / ".git").exists() else None
    with pytest.raises(UsageError) as refused:
        bring_in(clone)
    said = str(refused.value)
    assert words in said
    what, *more = said.splitlines()
    assert len(re.sub(r"\(.*\)", "", what)) <= 120
    assert not re.search(r"git (add|checkout|clone|commit|config|fetch|merge|remote|stash|switch)\b|pdm run", what)
    assert more
    assert all(line.endswith(":") or re.match(r" {4}(git|pdm|mv|cp) \S", line) for line in more)
    if before:
        assert everything(clone) == before
        assert git(clone, "worktree", "list").count("\n") == 0


def typed_out(course, clone, said: str, heading: str) -> None:
    """Type the commands below a heading (or below what is wrong), as a shell takes them."""
    lines = said.splitlines()
    start = next(number for number, line in enumerate(lines) if heading in line)
    for line in lines[start + 1 :]:
        if not line.startswith("    "):
            break
        if line.strip() == "pdm run sync":
            bring_in(clone)
        else:
            subprocess.run(line, shell=True, cwd=clone, check=True, capture_output=True)


def refusal(clone) -> str:
    with pytest.raises(UsageError) as refused:
        bring_in(clone)
    return str(refused.value)


def test_the_ways_out_that_the_refusals_name_work(course, clone):
    put(clone, basics=edited(BASICS, SOFTMAX), README_md="mine\ntwo\nthree\n")
    commit(course, basics=edited(BASICS, DOC), README_md="one\ntwo\n3\n")
    typed_out(course, clone, refusal(clone), "You changed README.md")
    assert read(clone, "README_md") == "mine\ntwo\n3\n"
    assert read(clone, "basics") == edited(BASICS, SOFTMAX, DOC)
    git(clone, "commit", "-q", "-m", "mine", "--", "README.md")
    commit(course, README_md="ours\ntwo\n3\n")
    typed_out(course, clone, refusal(clone), "To take upstream's")
    assert read(clone, "README_md") == "ours\ntwo\n3\n"


def test_a_file_that_is_in_the_way_is_moved_by_the_command(course, clone):
    untracked_outside(course, clone)
    typed_out(course, clone, refusal(clone), "Upstream adds notes.txt")
    assert (read(clone, "notes_txt"), (clone / "notes.txt.mine").read_text()) == ("theirs\n", "mine\n")


@pytest.mark.parametrize("state", [untracked_outside, edited_outside, detach, no_remote])
def test_the_commands_work_from_the_folder_that_they_are_printed_in(course, clone, state, monkeypatch):
    commit(course, other_txt="2\n")
    state(course, clone)
    monkeypatch.setattr(sync, "ROOT", clone)
    texts = []
    for folder in (clone, clone / "src"):
        monkeypatch.chdir(folder)
        with pytest.raises(UsageError) as refused:
            sync.sync.callback(False, None)
        texts.append(str(refused.value).splitlines())
    at_the_top, below = texts
    assert below == [at_the_top[0], "    cd ..", *at_the_top[1:]]


def test_a_message_of_the_courses_own_commands_needs_no_folder(course, clone, monkeypatch):
    broken(course, clone)
    commit(course, basics=edited(BASICS, DOC))
    monkeypatch.setattr(sync, "ROOT", clone)
    monkeypatch.chdir(clone / "src")
    with pytest.raises(UsageError) as refused:
        sync.sync.callback(False, None)
    assert str(refused.value).splitlines()[1:] == ["    pdm run sync"]


def test_a_branch_can_be_made_where_there_is_none(course, clone):
    commit(course, other_txt="2\n")
    detach(course, clone)
    said = refusal(clone)
    typed_out(course, clone, said, "Create a branch here")
    bring_in(clone)
    assert (read(clone, "other_txt"), git(clone, "branch", "--show-current")) == ("2\n", "my-work")


def test_a_history_of_its_own_goes_on_in_a_new_clone(course, clone):
    commit(course, other_txt="2\n")
    unrelated(course, clone)
    put(clone, basics=edited(BASICS, SOFTMAX))
    typed_out(course, clone, refusal(clone), "no commit in common")
    anew = clone.parent / "tiny-llm-new"
    assert (read(anew, "other_txt"), read(anew, "basics")) == ("2\n", edited(BASICS, SOFTMAX))


@pytest.mark.parametrize("step", ["read-tree", "update-index", "update-ref"])
@pytest.mark.parametrize("error", [GitError("the disk is full"), KeyboardInterrupt()], ids=["failure", "Ctrl-C"])
def test_a_sync_that_breaks_off_leaves_everything_as_it_was(course, clone, step, error, monkeypatch):
    put(clone, basics=edited(BASICS, SOFTMAX))
    commit(clone, README_md="mine\ntwo\nthree\n")
    put(clone, basics=edited(BASICS, SOFTMAX, ("Project.", "Mine.")))
    commit(course, basics=edited(BASICS, DOC), config=None, new="x = 1\n", other_txt="2\n", more_txt="new\n")
    before = everything(clone)
    run = Git.run

    def breaking(self, *args, **kwargs):
        output = run(self, *args, **kwargs)
        if args[0] == step and not kwargs.get("index") and "--refresh" not in args:
            raise error
        return output

    monkeypatch.setattr(Git, "run", breaking)
    with pytest.raises((UsageError, KeyboardInterrupt)):
        bring_in(clone)
    monkeypatch.undo()
    if step == "update-ref":  # it was done before it was said to have failed
        git(clone, "update-ref", "HEAD", before["head"].decode())
    assert everything(clone) == before
