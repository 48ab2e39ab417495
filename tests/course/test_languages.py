"""Targets outside Python: a C++ and a Metal file with marks, from the solution to the learner's file and back."""

import subprocess

import pytest

from tiny_llm_course.course.entities import Day, Target, Task, Week
from tiny_llm_course.course.registry import Course
from tiny_llm_course.course.registry_check import OTHER_LANGUAGES
from tiny_llm_course.course.results import TaskResult
from tiny_llm_course.grading import exceptions
from tiny_llm_course.learner.sync.files import merge_file
from tiny_llm_course.learner.sync.git import Git
from tiny_llm_course.source import code
from tiny_llm_course.source.code import holds_stub, is_within, region, where
from tiny_llm_course.source.excerpts import NoSuchCode, code_of
from tiny_llm_course.source.languages import CPP, LANGUAGES, METAL, language_of
from tiny_llm_course.source.package import differences, stub_package, write_stubs

AXPY = """\
#include <stdexcept>
#include "shapes.h"

namespace tiny {

// y = a * x + y, element by element.
void axpy(float a, const float* x,
          float* y, size_t n) {
  // --- your code: axpy
  for (size_t i = 0; i < n; i++) {
    y[i] += a * x[i];
  }
  // --- end
}

int half(int n) {
  // --- your code: half
  return n / 2;
  // --- end
}

}  // namespace tiny
"""
AXPY_STUB = """\
  // --- your code: axpy
  throw std::runtime_error("2.4.1 Axpy");
  // --- end
}

int half(int n) {
  // --- your code: half
  throw std::runtime_error("2.4.2 The \\"half\\"");
  // --- end
}
"""
SOFTMAX = (
    "// x [N] to y [N]\nuint i = thread_position_in_grid.x;\n// --- your code: softmax\ny[i] = x[i];\n// --- end\n"
)
SOLVED = {
    "extension/axpy.cpp": AXPY,
    "extension/shapes.h": "// --- given\n#define WIDTH 8\n",
    "kernels/__init__.py": "",
    "kernels/softmax.metal": SOFTMAX,
    "kernels/softmax.py": "".join(f"def {name}(x):\n    return x\n\n\n" for name in ("softmax", "axpy", "half")),
    "table.bin": "\udcff\r\n",
}


def task(task_id, title, target, program):
    program = Target.parse(f"kernels.softmax:{program}")
    return Task(task_id, title, Target.parse(target), "task", (), 10, 1, (), (), 2, int(task_id[2]), program)


TASKS = (
    task("2.4.1", "Axpy", "extension/axpy.cpp:axpy", "axpy"),
    task("2.4.2", 'The "half"', "extension/axpy.cpp:half", "half"),
    task("2.5.1", "Softmax", "kernels/softmax.metal:softmax", "softmax"),
)
COURSE = Course((Week(2, "Kernels", (Day(2, 4, "Axpy", "day.md", TASKS),)),))


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode(errors="surrogateescape"))
    return folder


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A learner's package of stubs, and a registry of its tasks."""
    for module in (code, exceptions):
        monkeypatch.setattr(module, "load_course", lambda: COURSE)
    write_stubs(write(tmp_path / "solved", SOLVED), tmp_path / "tiny_llm", COURSE)
    return tmp_path / "tiny_llm"


def edit(package, file, old, new):
    text = (package / file).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (package / file).write_text(text.replace(old, new), encoding="utf-8")


def test_the_registry_and_the_languages_know_the_same_files():
    assert LANGUAGES.keys() == {".py", *OTHER_LANGUAGES}
    assert language_of("README.md") is None


def test_the_stub_has_one_statement_for_each_part(package, tmp_path):
    text = (package / "extension/axpy.cpp").read_text(encoding="utf-8")
    assert AXPY_STUB in text
    assert text.split("// ---")[0] == AXPY.split("// ---")[0]
    metal = (package / "kernels/softmax.metal").read_text(encoding="utf-8")
    assert metal == SOFTMAX.replace("y[i] = x[i];", '#error "2.5.1 Softmax"')
    assert (package / "table.bin").read_bytes() == b"\xff\r\n"
    assert differences(tmp_path / "solved", package, COURSE) == []
    kept = stub_package(tmp_path / "solved", COURSE, ["2.4.1"])["extension/axpy.cpp"]
    assert "y[i] += a * x[i];" in kept
    assert "n / 2" not in kept


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("extension/axpy.cpp", "code: half", "code: halves", "there is no // --- your code: half, which is the target"),
        ("extension/axpy.cpp", "  return n / 2;\n  // --- end\n", "", "half has no end"),
        ("extension/axpy.cpp", "  return n", "  // --- end\n  return n", "line 20: '// --- end' where nothing has"),
        ("extension/axpy.cpp", "code: half", "code: axpy", "line 17: axpy begins twice"),
        (
            "extension/axpy.cpp",
            "namespace tiny {",
            "// --- your code",
            "a mark is not written as // --- your code: NAME",
        ),
        ("extension/shapes.h", "// --- given", "", "no task writes in it: if all of it is given, a line // --- given"),
        (
            "extension/shapes.h",
            "// --- given",
            "// --- your code: x\n// --- end",
            "x is marked as the learner's, and is",
        ),
        ("table.bin", "\r", "// --- your code: x", "it is marked, and no language that a learner writes in"),
    ],
)
def test_no_solved_part_reaches_a_learner(tmp_path, file, old, new, complaint):
    assert SOLVED[file].count(old) == 1
    write(tmp_path, SOLVED | {file: SOLVED[file].replace(old, new)})
    with pytest.raises(ValueError, match=f"^{file}: ") as refused:
        stub_package(tmp_path, COURSE)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("body", "is_stub"),
    [
        ('throw std::runtime_error("2.4.1 Axpy");', True),
        ('float b = a;\n  throw std::runtime_error( "2.4.1 Axpy" );', True),
        ('if (n == 0) return;\n  throw std::runtime_error("2.4.1 Axpy");', True),
        ('// throw std::runtime_error("2.4.1 Axpy");', False),
        ('y[0] = a;\n  return;\n  throw std::runtime_error("2.4.1 Axpy");', False),
        ('throw std::runtime_error("2.4.2 Axpy");', False),
        ("", False),
    ],
)
def test_a_stub_is_recognized(package, body, is_stub):
    assert all(holds_stub(each, package) for each in TASKS)
    edit(package, "extension/axpy.cpp", 'throw std::runtime_error("2.4.1 Axpy");', body)
    assert holds_stub(TASKS[0], package) == is_stub
    assert holds_stub(TASKS[1], package)


def test_what_stops_the_compiler_is_a_stub_wherever_it_stands(package):
    edit(package, "kernels/softmax.metal", "#error", "return;\n#error")
    assert holds_stub(TASKS[2], package)
    edit(package, "kernels/softmax.metal", "#error", "// #error")
    assert not holds_stub(TASKS[2], package)


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("extension/axpy.cpp", '("2.4.1 Axpy");', '("2.4.1 Axpy"); // mine /*', []),
        ("extension/axpy.cpp", 'throw std::runtime_error("2.4.1 Axpy");', "y [0]\n+=  a;", ["2.4.1"]),
        ("extension/axpy.cpp", "element by element.", "one by one.", []),
        ("extension/axpy.cpp", '"2.4.1 Axpy"', '"2.4.1  Axpy"', ["2.4.1"]),
        ("extension/axpy.cpp", "namespace tiny {", "namespace tiny { int n = 1;", ["2.4.1", "2.4.2"]),
        ("extension/shapes.h", "WIDTH 8", "WIDTH 16", ["2.4.1", "2.4.2"]),
        ("extension/shapes.h", "WIDTH 8", "WIDTH   8 /* eight\n */", []),
        ("kernels/softmax.py", "def softmax(x):", "def softmax(x, y=1):", ["2.5.1"]),
        ("extension/axpy.cpp", "  // --- your code: half\n", "", ["2.4.1", "2.4.2"]),
    ],
)
def test_a_fingerprint_is_of_the_part_and_of_what_is_given(package, file, old, new, changed):
    before = [code.fingerprint(each, package) for each in TASKS]
    edit(package, file, old, new)
    after = [code.fingerprint(each, package) for each in TASKS]
    assert [each.id for each, was, now in zip(TASKS, before, after, strict=True) if was != now] == changed


def test_layout_is_not_what_tells_two_programs_apart(package):
    for body, file in (
        ("y[0]+=a-- - -x[0];", "one"),
        ("y [0] += a-- -  -x[ 0 ] ;", "same"),
        ("y[0]+=a - --x[0];", "no"),
    ):
        write(package.parent / file, {"extension/axpy.cpp": AXPY.replace("y[i] += a * x[i];", body)})
    one, same, other = (code.fingerprint(TASKS[0], package.parent / file) for file in ("one", "same", "no"))
    assert one == same != other


def test_where_it_is(package):
    assert where(TASKS[0].target, package.as_posix()) == f"{package}/extension/axpy.cpp:10"
    assert where(TASKS[2].target, package.as_posix()) == f"{package}/kernels/softmax.metal:4"
    assert is_within(f"{package}/extension/axpy.cpp:10", TASKS[0], package)
    assert not is_within(f"{package}/extension/axpy.cpp:14", TASKS[0], package)
    assert TaskResult(TASKS[0]).is_in("src/tiny_llm/extension/axpy.cpp")
    assert region(TASKS[2].target, package) == '#error "2.5.1 Softmax"'
    assert region(TASKS[0].target, package.parent / "solved").count("\n") == 2
    assert code_of(package.parent / "solved", TASKS[0].target).startswith("for (size_t i")
    with pytest.raises(NoSuchCode, match=r"axpy\.cpp has no part that is marked other"):
        code_of(package, Target("extension/axpy.cpp", "other"))


def test_the_book_shows_the_head():
    head = (
        "// y = a * x + y, element by element.\nvoid axpy(float a, const float* x,\n          float* y, size_t n) {\n"
    )
    assert CPP.listing(AXPY, "axpy") == head
    assert METAL.listing(SOFTMAX, "softmax") == "".join(SOFTMAX.splitlines(keepends=True)[:2])
    assert CPP.signatures(AXPY, "half") == {"half": "int half(int n) {\n"}


def test_reset_puts_back_one_part_and_leaves_every_other_byte():
    stub = stub_of(AXPY)
    mine = AXPY.replace("\n", "\r\n").replace("y[i] +=", "y[i] -=")
    after, missing = CPP.reset(mine, stub, "half")
    assert (after, missing) == (mine.replace("return n / 2;", 'throw std::runtime_error("2.4.2 The \\"half\\"");'), "")
    assert CPP.reset(after, stub, "half") == (after, "")
    with pytest.raises(ValueError, match="has lost a mark"):
        CPP.reset(mine.replace("// --- end", ""), stub, "half")


def stub_of(text):
    return CPP.stub(text, {each.target.name: each for each in TASKS[:2]}, (), ())


WRITTEN = ('  throw std::runtime_error("2.4.1 Axpy");', "  // mine\n  y[0] = a;")


@pytest.mark.parametrize(
    ("mine", "new", "wanted", "kept"),
    [
        ((), (), (), ""),
        (WRITTEN, (), WRITTEN, ""),
        (WRITTEN, ("element by element", "one by one"), (*WRITTEN, "element by element", "one by one"), ""),
        (WRITTEN, ("2.4.1 Axpy", "2.4.1 Sum"), WRITTEN, ""),
        ((), ("2.4.1 Axpy", "2.4.1 Sum"), ("2.4.1 Axpy", "2.4.1 Sum"), ""),
        (
            ("<stdexcept>", "<cmath>"),
            ("int half", "long half"),
            ("<stdexcept>", "<cmath>", "int half", "long half"),
            "",
        ),
        (("int half", "short half"), ("int half", "long half"), ("int half", "short half"), "the whole file"),
        ((*WRITTEN, "// --- your code: half", ""), ("<stdexcept>", "<cmath>"), "by lines", ""),
        (WRITTEN, ("code: axpy", "code: sum"), WRITTEN, "axpy"),
    ],
)
def test_a_merge_keeps_what_is_written_and_takes_what_is_given(tmp_path, mine, new, wanted, kept):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    base = stub_of(AXPY)
    wanted = (*mine, *new) if wanted == "by lines" else wanted
    mine, new, wanted = (changed(base, *edits).encode() for edits in (mine, new, wanted))
    result, merged = merge_file(Git(tmp_path), "extension/axpy.cpp", base.encode(), mine, new)
    assert result == wanted
    assert [one.name for one in merged.kept] == [kept] * bool(kept)
    as_windows, _ = merge_file(Git(tmp_path), "extension/axpy.cpp", base.encode(), mine.replace(b"\n", b"\r\n"), new)
    assert as_windows.replace(b"\r\n", b"\n") == wanted


def changed(text, *edits):
    for old, put in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, put)
    return text


@pytest.mark.parametrize(
    ("error", "blocker"),
    [
        (RuntimeError("2.4.1 Axpy"), "2.4.1"),
        (
            RuntimeError('Unable to build:\nprogram_source:12:2: error: "2.5.1 Softmax"\n#error "2.5.1 Softmax"'),
            "2.5.1",
        ),
        (RuntimeError('kernel.cpp:3:2: error: #error "2.5.1 Softmax"'), "2.5.1"),
        (RuntimeError("2.9.1 Other"), ""),
        (ValueError("2.4.1 Axpy"), ""),
        (NotImplementedError("2.4.1"), "2.4.1"),
    ],
)
def test_what_a_stub_raises_is_not_started(package, error, blocker):
    assert exceptions.finding_of(error, package).blocker == blocker
