"""`sync` between real repositories: a course and a learner's clone of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_llm_course.git import Git, GitError
from tiny_llm_course.paths import REGISTRY, ROOT
from tiny_llm_course.registry import UsageError
from tiny_llm_course.sync import bring_in

BASICS = '''"""Basics."""

import mlx.core as mx


def softmax(x: mx.array, axis: int) -> mx.array:
    """Sum to one."""
    raise NotImplementedError("1.1.1 Softmax")


def linear(x: mx.array, w: mx.array) -> mx.array:
    """Project."""
    raise NotImplementedError("1.1.3 Linear")
'''
SOFTMAX = ('raise NotImplementedError("1.1.1 Softmax")', "# mine\n    return mx.softmax(x, axis=axis)")
DOC = ("Sum to one.", "Sum to one along an axis.")
CONFIG = '"""Config."""\n\nKNOWN = ("qwen3",)\n\n\ndef read() -> int:\n    """Read."""\n    return 1\n'
LEARNER = "src/tiny_llm"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch, tmp_path):
    (tmp_path / "gitconfig").write_text("[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def put(root: Path, **files: str | None) -> None:
    """Write files; `basics` is one of the package, `README_md` one outside."""
    for name, content in files.items():
        path = root / (name.replace("_", ".") if "_" in name else f"{LEARNER}/{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_text(content, encoding="utf-8", newline="")


def commit(root: Path, **files: str | None) -> None:
    put(root, **files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "change")


def read(root: Path, name: str) -> str:
    path = root / (name.replace("_", ".") if "_" in name else f"{LEARNER}/{name}.py")
    return path.read_bytes().decode()


def edited(text: str, *edits: tuple[str, str]) -> str:
    for find, new in edits:
        assert find in text
        text = text.replace(find, new)
    return text


def everything(root: Path) -> dict[str, bytes]:
    """All files of the work tree but backups, git's status, and where it stands."""
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not {".git", ".tiny-llm"} & set(path.relative_to(root).parts)
    }
    return (
        files
        | {"status": git(root, "status", "--porcelain=v1", "--branch").split("...")[0].encode()}
        | {
            "index": git(root, "ls-files", "-s").encode(),
            "head": git(root, "rev-parse", "HEAD").encode(),
        }
    )


def backups(root: Path) -> dict[str, str]:
    folder = root / ".tiny-llm" / "backups"
    return {
        path.relative_to(folder).parts[-1]: path.read_bytes().decode() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def course(tmp_path):
    root = tmp_path / "course"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    registry = {"src/tiny_llm_course/tasks.toml": REGISTRY.read_text(encoding="utf-8")}
    (root / "src/tiny_llm_course").mkdir(parents=True)
    for path, content in registry.items():
        (root / path).write_text(content, encoding="utf-8")
    (root / ".gitignore").write_text(".tiny-llm/\n")
    commit(root, basics=BASICS, config=CONFIG, README_md="one\ntwo\nthree\n", other_txt="1\n")
    return root


@pytest.fixture
def clone(course, tmp_path):
    git(tmp_path, "clone", "-q", str(course), "clone")
    return tmp_path / "clone"


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
    assert "one commit joins" in capsys.readouterr().out
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
    assert "Nothing is changed. For good: pdm run sync\n" in dry
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
    assert (
        f"~ {LEARNER}/config.py: as you have it\n    yours    read\n             upstream changed its body\n" in printed
    )
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
    assert "upstream removed it\n             you wrote in it\n" in capsys.readouterr().out


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
    (edited_outside, "git stash push -- other.txt"),
    (untracked_outside, "Upstream brings notes.txt"),
    (conflict, "git checkout origin/main -- other.txt && git commit"),
    (unfinished, "A merge is not finished here"),
    (no_name, "git config user.name"),
    (no_clone, "This folder is no clone"),
    (unrelated, "no commit in common"),
]


@pytest.mark.parametrize(("state", "words"), REFUSED, ids=[state.__name__ for state, _ in REFUSED])
def test_what_cannot_be_done_is_one_line_and_changes_nothing(course, clone, state, words):
    commit(course, basics=edited(BASICS, DOC), other_txt="2\n")
    state(course, clone)
    before = everything(clone) if (clone / ".git").exists() else None
    with pytest.raises(UsageError) as refused:
        bring_in(clone)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    if before:
        assert everything(clone) == before
        assert git(clone, "worktree", "list").count("\n") == 0


def test_the_ways_out_that_the_refusals_name_work(course, clone):
    put(clone, basics=edited(BASICS, SOFTMAX), README_md="mine\ntwo\nthree\n")
    commit(course, basics=edited(BASICS, DOC), README_md="one\ntwo\n3\n")
    with pytest.raises(UsageError, match=r"git stash push -- README\.md"):
        bring_in(clone)
    git(clone, "stash", "push", "--", "README.md")
    bring_in(clone)
    git(clone, "stash", "pop")
    assert read(clone, "README_md") == "mine\ntwo\n3\n"
    assert read(clone, "basics") == edited(BASICS, SOFTMAX, DOC)
    git(clone, "commit", "-q", "-m", "mine", "--", "README.md")
    commit(course, README_md="ours\ntwo\n3\n")
    with pytest.raises(UsageError, match=r"same lines of README\.md"):
        bring_in(clone)
    git(clone, "checkout", "origin/main", "--", "README.md")
    git(clone, "commit", "-q", "-m", "As upstream", "--", "README.md")
    bring_in(clone)
    assert read(clone, "README_md") == "ours\ntwo\n3\n"


@pytest.mark.parametrize("depth", [1, 2])
def test_a_shallow_clone(course, tmp_path, depth):
    commit(course, other_txt="2\n")
    git(tmp_path, "clone", "-q", "--depth", str(depth), f"file://{course}", "shallow")
    put(tmp_path / "shallow", basics=edited(BASICS, SOFTMAX))
    commit(course, basics=edited(BASICS, DOC))
    bring_in(tmp_path / "shallow")
    assert read(tmp_path / "shallow", "basics") == edited(BASICS, SOFTMAX, DOC)


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


def test_from_the_command_line(tmp_path):
    """The whole course as a repository: one upstream commit, one sync by the learner."""
    upstream = tmp_path / "whole"
    for name in ("src", "tests", "solutions"):
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
    assert done.stderr == "There is no remote nobody. Remotes: origin.\n"
