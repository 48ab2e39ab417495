"""Reset: the stub is back, all else is as it was byte for byte, and nothing is lost."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.course.checkouts import FIXTURE, fixture, stubs_of_the_course
from tests.course.terminal import Terminal

from tiny_llm_course.commands import reset
from tiny_llm_course.course.entities import Target
from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.dev.transcripts import Edit, run
from tiny_llm_course.paths import REGISTRY, ROOT, SOLUTION
from tiny_llm_course.source.package import stub_package
from tiny_llm_course.source.reset import is_python, reset_target
from tiny_llm_course.source.text import decorated_line, definitions, end_line

STUBS_OF_THE_FIXTURE = stub_package(
    FIXTURE / "solutions" / "tiny_llm", load_course(FIXTURE / REGISTRY.relative_to(ROOT))
)
TARGETS = [task.target for task in load_course().tasks() if task.target.is_python]
REMARKS = ["", "# mine", "def mine():\n    return 'ü'", "x = 1; y = 2", "\f", "    ", "'''text\n  of two lines'''"]


def text_of(folder: Path, target: Target) -> str:
    return (folder / target.file).read_text(encoding="utf-8")


def blocks(source: str) -> list[tuple[str, str]]:
    """A solution cut at its functions and methods: each with its name, and what is between with none."""
    lines, found, done = source.split("\n"), [], 0
    spans = [(name, decorated_line(node) - 1, end_line(node)) for name, node in definitions(ast.parse(source).body)]
    for name, first, last in spans:
        if any(first > other_first and last <= other_last for _, other_first, other_last in spans):
            continue
        found += [("", "\n".join(lines[done:first])), (name, "\n".join(lines[first:last]))]
        done = last
    return [*found, ("", "\n".join(lines[done:]))]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    target=st.sampled_from([target for target in TARGETS if "." not in target.name]),
    remarks=st.lists(st.sampled_from(REMARKS), min_size=40, max_size=40),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    bom=st.sampled_from(["", "\ufeff"]),
    head=st.booleans(),
)
def test_all_else_stays_byte_for_byte(target, remarks, end, bom, head):
    """Whatever stands around the definition: it alone is replaced, with the line ends of the file."""
    parts = blocks(text_of(SOLUTION, target))
    parts = parts if head else [part for part in parts if part[0]]  # then a definition is the first line
    around = [(name, f"{text}\n{remark}") for (name, text), remark in zip(parts, remarks, strict=False)]
    stub = dict(blocks(stubs_of_the_course()[target.file]))[target.name]
    mine = dict(parts)[target.name]
    source = "\n".join(text for _, text in around)
    wanted = "\n".join(stub + text[len(mine) :] if name == target.name else text for name, text in around)
    source, wanted = (bom + text.replace("\n", end) for text in (source, wanted))
    result, missing = reset_target(source, stubs_of_the_course()[target.file], target.name)
    assert (result.encode(), missing) == (wanted.encode(), "")
    assert reset_target(result, stubs_of_the_course()[target.file], target.name) == (result, ""), "once is enough"


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_solved_file_with_every_target_reset_holds_the_stubs(target):
    """Each target by itself, also when it was deleted before: its stub is what the generator made."""
    stub = stubs_of_the_course()[target.file]
    for deleted in (False, True):
        source = text_of(SOLUTION, target)
        if deleted:
            node = dict(definitions(ast.parse(source).body))[target.name]
            lines = source.split("\n")
            del lines[decorated_line(node) - 1 : end_line(node)]
            source = "\n".join(lines)
        result, missing = reset_target(source, stub, target.name)
        assert missing == (target.name if deleted else "")
        ours, generated = (dict(definitions(ast.parse(text).body))[target.name] for text in (result, stub))
        assert ast.dump(ours) == ast.dump(generated)
        order = [
            name
            for name in dict(definitions(ast.parse(stub).body))
            if name in dict(definitions(ast.parse(result).body))
        ]
        assert [name for name, _ in definitions(ast.parse(result).body) if name in order] == order


def test_a_missing_class_comes_back_whole():
    target = Target("tokenizer", "ByteLevelBPE.encode")
    source = re.sub(r"class ByteLevelBPE.*?(?=\nclass )", "", text_of(SOLUTION, target), flags=re.DOTALL)
    assert "ByteLevelBPE:" not in source
    result, missing = reset_target(source, stubs_of_the_course()["tokenizer.py"], target.name)
    assert missing == "ByteLevelBPE"
    assert is_python(result)
    assert 'raise NotImplementedError("1.6.3 Encoding")' in result


def test_a_class_indented_by_tabs_keeps_its_tabs():
    target = Target("tokenizer", "ByteLevelBPE.encode")
    source = "class ByteLevelBPE:\n\tdef encode(self, text):\n\t\treturn 1\n\n\tdef mine(self):\n\t\treturn 2\n"
    result, _ = reset_target(source, stubs_of_the_course()["tokenizer.py"], target.name)
    assert is_python(result)
    assert result.startswith("class ByteLevelBPE:\n\tdef encode(self, text: str) -> list[int]:\n\t")
    assert result.endswith("\n\n\tdef mine(self):\n\t\treturn 2\n")


def test_an_attempt_left_as_a_comment_goes_with_the_body():
    source = "def linear(x):\n    return x\n    # return x @ w\n\n\n# about silu\ndef silu(x):\n    return x"
    result, _ = reset_target(source, stubs_of_the_course()["basics.py"], "linear")
    assert "# return" not in result
    assert result.endswith('raise NotImplementedError("1.1.3 Linear")\n\n\n# about silu\ndef silu(x):\n    return x')


# --- the command


@pytest.fixture
def checkout():
    with fixture("1.1.1", "1.1.2", "1.1.3", "1.2.1") as folder:
        yield folder


def learners(checkout, name="basics.py"):
    return checkout / "src/tiny_llm" / name


def backups(checkout):
    return sorted(path for path in (checkout / ".tiny-llm/backups").rglob("*") if path.is_file())


def test_a_task_goes_back_and_the_backup_comes_back(checkout):
    before = learners(checkout).read_bytes()
    done = run("reset 1.1.1 --yes", checkout)
    (copy,) = backups(checkout)
    place = copy.relative_to(checkout).as_posix()
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "src/tiny_llm/basics.py: mean (1.1.1 Mean) will be a stub again.",
            "To restore your file:",
            f"  cp {place} src/tiny_llm/basics.py",
            "Next: pdm run test 1.1.1",
        ],
    )
    assert re.fullmatch(r"\.tiny-llm/backups/\d{8}-\d{6}/basics\.py", place)
    assert copy.read_bytes() == before
    assert "○ 1.1.1 Mean: not started" in run("test 1.1.1", checkout).stdout
    learners(checkout).write_bytes(copy.read_bytes())
    assert run("test 1.1.1 1.1.3", checkout).returncode == 0


def test_a_day_and_no_backup_is_ever_overwritten(checkout):
    for name in ("1.1.1", "1.1.3", "1.1"):
        assert run(f"reset {name} --yes", checkout).returncode == 0
    assert [copy.name for copy in backups(checkout)].count("basics.py") == 2
    assert learners(checkout).read_bytes() == STUBS_OF_THE_FIXTURE["basics.py"].encode()


def test_a_stub_is_left_as_it_is(checkout):
    done = run("reset 1.2.2 --yes", checkout)
    assert (done.returncode, done.stdout) == (
        0,
        "1.2.2: already a stub, nothing to reset.\n",
    )
    assert not (checkout / ".tiny-llm").exists()


def test_windows_line_ends_stay(checkout):
    file = learners(checkout)
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    run("reset 1.1.1 --yes", checkout)
    assert b'raise NotImplementedError("1.1.1 Mean")\r\n' in file.read_bytes()
    assert not re.search(rb"(?<!\r)\n", file.read_bytes())
    assert run("reset 1.1.1 --yes", checkout).stdout.startswith("1.1.1: already a stub")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(b"\ndef (\n", "is not Python"), (b"\n\0", "is not Python"), (b"\n# \xff\n", "is not UTF-8")],
)
def test_a_file_that_is_not_python_goes_back_whole(checkout, damage, reason):
    file = learners(checkout)
    file.write_bytes(before := file.read_bytes() + damage)
    done = run("reset 1.1.1 --yes", checkout)
    assert done.returncode == 0
    assert done.stdout.startswith(
        f"src/tiny_llm/basics.py {reason}: the whole file becomes its stub, with 1.1.1, 1.1.3.\n"
    )
    assert file.read_bytes() == STUBS_OF_THE_FIXTURE["basics.py"].encode()
    assert [copy.read_bytes() for copy in backups(checkout)] == [before]


def test_what_is_gone_comes_back(checkout):
    file = learners(checkout)
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("def line")].rstrip() + "\n", encoding="utf-8")
    done = run("reset 1.1.3 --yes", checkout)
    assert done.stdout.startswith(
        "src/tiny_llm/basics.py: line (1.1.3 Line) is missing: it will be restored, as a stub.\n"
    )
    assert file.read_text(encoding="utf-8").count("\n\n\ndef ") == 2
    assert run("test 1.1.1", checkout).returncode == 0
    file.unlink()
    done = run("reset 1.1.3 --yes", checkout)
    assert done.stdout.startswith("src/tiny_llm/basics.py is missing: it will be restored, as stubs.\nNext: ")
    assert file.read_bytes() == STUBS_OF_THE_FIXTURE["basics.py"].encode()


def test_without_a_terminal_it_asks_for_a_yes(checkout):
    before = learners(checkout).read_bytes()
    done = run("reset 1.1.1", checkout)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-2:] == [
        "There is no terminal to ask on, so nothing was changed. To reset without asking:",
        "    pdm run reset 1.1.1 --yes",
    ]
    assert learners(checkout).read_bytes() == before
    assert not (checkout / ".tiny-llm").exists()


@pytest.mark.parametrize(("key", "status", "changed"), [("y\n", 0, True), ("\n", 1, False), ("\x03", 130, False)])
def test_it_asks(checkout, key, status, changed):
    before = learners(checkout).read_bytes()
    with Terminal("reset", "1.1.1", checkout=checkout) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type(key)
        assert terminal.end() == status
    assert (learners(checkout).read_bytes() != before) is changed
    assert "Traceback" not in terminal.screen


def test_no_backup_no_reset(checkout):
    (checkout / ".tiny-llm").write_bytes(b"")
    before = learners(checkout).read_bytes()
    done = run("reset 1.1.1 --yes", checkout)
    assert (done.returncode, learners(checkout).read_bytes()) == (2, before)
    assert done.stdout.splitlines()[-2].startswith("No backup could be made in .tiny-llm/backups (")
    assert done.stdout.endswith("\n    pdm run doctor\n")


def test_a_file_that_may_not_be_written_is_told_before_anything_is_done(tmp_path, monkeypatch):
    """A superuser may write to any file, so that the system's answer is given here."""
    monkeypatch.setattr(reset.os, "access", lambda place, mode: False)
    monkeypatch.setattr(reset, "back_up", None)
    monkeypatch.setattr(reset, "LEARNER", SOLUTION)
    file = (SOLUTION / "basics.py").relative_to(ROOT).as_posix()
    with pytest.raises(UsageError) as refused:
        reset.reset.main(["1.1.1", "--yes"], standalone_mode=False)
    wrong = f"{file} cannot be written, so nothing was changed. To allow it:"
    assert str(refused.value) == f"{wrong}\n    chmod u+w {file}"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("reset 1.1.9 --yes", "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2, 1.1.3.\n"),
        ("reset", "Name a task or a day to reset:\n    pdm run reset 1.1.1\n"),
    ],
)
def test_wrong_use_is_one_line(checkout, typed, line):
    done = run(typed, checkout)
    assert (done.returncode, done.stdout) == (2, line)


def test_a_one_line_class_takes_no_method_so_the_file_goes_back_whole():
    with fixture(edits=(Edit("spread.py", "\n\nclass Standardizer: pass\n"),)) as folder:
        done = run("reset 1.2.1 --yes", folder)
        assert "does not take the stub where it would stand: the whole file becomes its stub, with 1.1.2" in done.stdout
        assert learners(folder, "spread.py").read_bytes() == STUBS_OF_THE_FIXTURE["spread.py"].encode()
