"""`pdm run doctor` and `pdm run check`: one line for each problem, with its one command, and never a traceback."""

import errno
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.course import requirements
from tiny_llm_course.dev.transcripts import environment
from tiny_llm_course.doctor import doctor, machine
from tiny_llm_course.paths import COURSE


@pytest.fixture(scope="module")
def untouched():
    with fixture() as checkout:
        yield checkout


@pytest.fixture
def checkout(untouched):
    """A checkout that is put back after the test, file by file."""
    before = {file: file.read_bytes() for file in untouched.rglob("*") if file.is_file()}
    yield untouched
    for file in set(untouched.rglob("*")) - set(before):
        if file.is_file() or file.is_symlink():
            file.unlink()
    for file, data in before.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> list[Path | str]:
    """Starts the course as PDM does, in an environment without packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return [folder / "bin" / "python", "-S", "-E", COURSE / "bootstrap.py"]


def run(checkout: Path, command: str, *path: Path, program=None, arguments=(), **more: str):
    settings = environment(checkout)
    program = program or [sys.executable, "-m", "tiny_llm_course"]
    done = subprocess.run(
        [*map(str, program), command, *arguments],
        cwd=checkout,
        env={**settings, "PYTHONPATH": os.pathsep.join([*map(str, path), settings["PYTHONPATH"]]), **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    assert "Traceback" not in done.stdout
    return done


def line_on(name: str, done) -> str:
    """What is said on something: one line."""
    found = [line for line in done.stdout.splitlines() if line[2:].startswith(name)]
    assert len(found) == 1, done.stdout
    line: str = found[0]
    return line


def problems(done) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith("✗")]


def test_a_checkout_without_anything_wrong_in_it(checkout):
    done = run(checkout, "doctor")
    assert done.returncode == 0
    assert line_on("Python", done).startswith("✓ Python     3.")
    assert line_on("MLX", done).startswith("✓ MLX        default device: ")
    assert line_on("files", done).startswith("✓")
    assert line_on("BLAS", done).startswith("✓")
    assert all(line[0] in "✓○✗" for line in done.stdout.splitlines()[:-2])
    # The copy has no git, and the course's own checkout stands behind it on the path.
    assert all(line.split()[1] in ("git", "course") for line in problems(done))
    assert all(line.count(" Fix: ") == 1 for line in problems(done))
    assert done.stdout.splitlines()[-1].endswith("none of which blocks the course. Next: pdm run test 1.1.1")


@pytest.mark.parametrize(
    ("core", "words"),
    [
        ("raise ImportError('no suitable library\\nfound')", "cannot be used"),
        ("import os\nos.abort()", "cannot be used: its process exited with -6"),
        ("import sys\nsys.exit(0)", "cannot be used: its process exited with 0 and no message"),
        ("x = (", "cannot be used: SyntaxError: '(' was never closed"),
        ("", "cannot be used: AttributeError: module 'mlx.core' has no attribute 'default_device'"),
    ],
    ids=["raises", "crashes", "leaves", "syntax", "empty"],
)
def test_a_broken_mlx_is_one_line_and_stops_the_course(checkout, tmp_path, core, words):
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "__init__.py").touch()
    (tmp_path / "mlx" / "core.py").write_text(core, encoding="utf-8")
    done = run(checkout, "doctor", tmp_path)
    assert done.returncode == 1
    assert words in line_on("MLX", done)
    assert line_on("MLX", done).endswith(" Fix: pdm sync --reinstall")
    assert line_on("files", done).startswith("✓")
    assert done.stdout.splitlines()[-1].endswith("First: pdm sync --reinstall")


def test_without_the_packages_it_says_so_and_installs_nothing(checkout, bare):
    done = run(checkout, "doctor", program=bare)
    assert done.returncode == 1
    assert "✗ packages   not installed: mlx, numpy," in done.stdout
    assert "Fix: pdm install" in line_on("packages", done)
    assert line_on("files", done).startswith("✓")


def test_the_first_run_shows_what_it_does_and_keeps_stdout_for_the_command(tmp_path, bare):
    pdm = tmp_path / "pdm"
    pdm.write_text("#!/bin/sh\necho Install idna successful; exit $STATUS\n", encoding="utf-8")
    pdm.chmod(0o755)
    for status, end in (
        ("1", "The course's packages could not be installed; see PDM's output above. To retry: pdm install"),
        ("0", "Run `pdm install`, then `pdm run test`."),
    ):
        env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "STATUS": status}
        done = subprocess.run([*bare, "status"], env=env, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        first, harmless, installed, last = done.stderr.splitlines()
        assert first.startswith("First run: installing the course's packages, about 230 MB")
        assert harmless.startswith("You can ignore PDM's warning about the Python version")
        assert installed == "Install idna successful"
        assert last.endswith(end)


def test_files_that_are_missing_are_named_with_the_command_that_brings_them_back(checkout):
    (checkout / "src" / "tiny_llm" / "spread.py").unlink()
    (checkout / "tests" / "week1" / "test_day2.py").unlink()
    done = run(checkout, "doctor")
    assert done.returncode == 1
    assert [line.partition("Fix: ")[2] for line in problems(done) if " files " in line] == [
        "git restore tests/week1/test_day2.py",
        "pdm run reset 1.1.2",  # this checkout has no git
    ]


def test_doctor_and_the_board_give_the_same_advice_on_a_missing_file_and_it_works(tmp_path):
    with fixture("1.1.1") as checkout:
        file = checkout / "src" / "tiny_llm" / "basics.py"
        git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for step in (["init", "-q"], ["add", "src"], ["commit", "-q", "-m", "mine"]):
            subprocess.run([*git, *step], check=True)
        written = file.read_bytes()
        for advice, back in (("git restore src/tiny_llm/basics.py", written), ("pdm run reset 1.1.1", None)):
            if back is None:
                subprocess.run([*git, "rm", "-q", "--cached", "src/tiny_llm/basics.py"], check=True)
            file.unlink()
            assert line_on("files", run(checkout, "doctor")).endswith(f"Fix: {advice}")
            assert run(checkout, "status").stdout.splitlines()[-1].strip() == advice
            if back is None:
                run(checkout, "reset", arguments=["1.1.1", "--yes"])
                assert 'raise NotImplementedError("1.1.1 Mean")' in file.read_text(encoding="utf-8")
            else:
                subprocess.run(advice.split(), cwd=checkout, check=True)
                assert file.read_bytes() == written


@pytest.mark.parametrize("text", ["", "[[weeks", "\0"])
def test_a_list_of_tasks_that_cannot_be_read(checkout, text):
    (checkout / "src" / "tiny_llm_course" / "course" / "tasks" / "week1.toml").write_text(text, encoding="utf-8")
    done = run(checkout, "doctor")
    assert done.returncode == 1
    assert line_on("files", done).endswith("Fix: git restore src/tiny_llm_course/course/tasks")


@pytest.mark.parametrize(
    ("config", "weights", "words"),
    [
        ('{"model_type": "qwen3"}', b"\0" * (1 << 17), "✓ model      models/tiny-qwen3: qwen3, 0.1 MB"),
        (
            '{"model_type": "qwen3"}',
            b"version https://git-lfs",
            "has only 23 bytes. Fix: git restore models/tiny-qwen3",
        ),
        ('{"model_type": "qwen3"}', None, "cannot be read: FileNotFoundError"),
        ("{", b"\0" * (1 << 17), "cannot be read: JSONDecodeError"),
        ("[]", b"\0" * (1 << 17), "cannot be read: TypeError"),
    ],
)
def test_the_model_that_comes_with_the_course(checkout, config, weights, words):
    folder = checkout / "models" / "tiny-qwen3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config, encoding="utf-8")
    if weights is not None:
        (folder / "model.safetensors").write_bytes(weights)
    done = run(checkout, "doctor")
    assert done.returncode == 0
    assert words in line_on("model", done)


def test_git_and_its_remotes(checkout, tmp_path):
    git = ["git", "-C", str(checkout)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    assert "Fix: git remote add upstream URL" in line_on("git", run(checkout, "doctor"))
    subprocess.run([*git, "remote", "add", "origin", str(tmp_path)], check=True)
    assert line_on("git", run(checkout, "doctor")) == "✓ git        sync uses the remote origin"
    subprocess.run([*git, "remote", "remove", "origin"], check=True)


def test_without_git_and_pdm_on_the_path(checkout, tmp_path):
    done = run(checkout, "doctor", PATH=str(tmp_path))
    assert done.returncode == 0
    assert line_on("pdm", done).endswith("Fix: pipx install 'pdm[locked]'")
    assert line_on("git", done).startswith("✗ git        not on the PATH")


def test_another_copy_of_the_package_on_the_path(checkout, tmp_path):
    (tmp_path / "tiny_llm").mkdir()
    done = run(checkout, "doctor", tmp_path)
    line = f"✗ course     another tiny_llm is on Python's path: {tmp_path / 'tiny_llm'}. Fix: unset PYTHONPATH"
    assert line in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("src/mlx/__init__.py", "✗ src        src/mlx shadows the library mlx, in your code and in the tests."),
        ("src/regex.py", "✗ src        src/regex.py shadows the library regex, in your code and in the tests."),
        ("src/statistics.py", "✗ src        src/statistics.py shadows Python's own statistics, in your code and"),
        ("src/sitecustomize.py", "✗ src        src/sitecustomize.py runs whenever Python starts here, before your"),
        ("src/notes.py", None),
        ("src/regex/notes.txt", None),
        (
            "pytest.ini",
            "✗ pytest     pytest.ini overrides the course's pyproject.toml in your editor; pdm run test ignores",
        ),
        ("tests/week1/conftest.py", "○ pytest     tests/week1/conftest.py is run by your editor's tests; pdm run test"),
    ],
)
def test_what_python_or_pytest_take_for_something_else(checkout, name, words):
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).touch()
    done = run(checkout, "doctor")
    found = [line for line in done.stdout.splitlines() if line[2:].startswith(("src", "pytest"))]
    assert len(found) == (words is not None)
    assert all(line.startswith(words) for line in found)
    stops = name.startswith("src") and words
    assert done.returncode == (1 if stops else 0)
    if stops:
        aside = name.removesuffix("/__init__.py")
        assert done.stdout.endswith(f"First: mv {aside} {aside}.old\n")


@pytest.mark.parametrize("command", ["test", "status", "doctor"])
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("sitecustomize.py", "import os\nos._exit(0)\n"),
        ("sitecustomize/__init__.py", "raise SystemExit"),
        ("usercustomize.py", "1 / 0\n"),
    ],
)
def test_what_would_end_every_python_is_named_before_it_runs(checkout, name, code, command):
    file = checkout / "src" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(code, encoding="utf-8")
    done = run(checkout, command, program=[sys.executable, "-S", COURSE / "bootstrap.py"])
    shown = f"src/{name.removesuffix('/__init__.py')}"
    assert done.returncode == 2
    assert done.stdout == (
        f"{shown} runs whenever Python starts here, before your code and the tests. Move it away:\n"
        f"    mv {shown} {shown}.old\n"
    )


def test_a_command_that_cannot_be_loaded_says_what_is_in_the_way(checkout):
    (checkout / "src" / "mlx").mkdir(exist_ok=True)
    (checkout / "src" / "mlx" / "__init__.py").touch()
    done = run(checkout, "generate", arguments=["x"])
    assert (done.returncode, done.stdout.count("\n")) == (2, 1)
    assert done.stdout.startswith("src/mlx shadows the library mlx, in your code and in the tests. Rename it")


def test_it_imports_neither_torch_nor_mlx_into_itself():
    script = (
        "import sys\nfrom tiny_llm_course.doctor.doctor import examine\nexamine()\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = done.stderr.split()
    assert "tiny_llm_course.doctor.doctor" in loaded
    assert not {"torch", "mlx", "mlx.core", "numpy", "rich", "click"} & set(loaded)


@pytest.mark.skipif(sys.platform == "darwin", reason="not run here: a Mac has Accelerate")
@pytest.mark.parametrize(
    ("libraries", "words"),
    [
        (["/x/mlx_cpu.libs/libblas-bd8a282c.so.3"], "the reference BLAS"),
        (["/x/libblas.so.3", "/y/numpy.libs/libscipy_openblas64_-6bb31eeb.so"], "the reference BLAS"),
        (["/x/libblas.so.3", "/y/libopenblas.so.0"], "OpenBLAS"),
        ([], "not known"),
    ],
)
def test_the_blas_in_words(libraries, words):
    assert machine.blas(libraries).startswith(words)


def test_check_runs_what_ci_runs(checkout, tmp_path):
    done = run(checkout, "check")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (2, ["    git restore .ci/run"])
    assert done.stdout.startswith("There is no .ci/run in this checkout.")
    (checkout / ".ci").mkdir(exist_ok=True)
    (checkout / ".ci" / "run").write_text("echo all of it; exit 7\n", encoding="utf-8")
    done = run(checkout, "check")
    assert (done.returncode, done.stdout) == (1, "all of it\n")
    done = run(checkout, "check", PATH=str(tmp_path))
    assert (done.returncode, done.stdout.splitlines()[1:]) == (2, ["    pdm run test-all"])
    assert done.stdout.startswith("This needs bash")


def test_it_ends_with_the_next_step(monkeypatch, capsys):
    monkeypatch.setattr(doctor.machine, "CHECKS", ())
    monkeypatch.setattr(doctor.checkout, "CHECKS", ())
    monkeypatch.setattr(doctor, "shadowing", lambda: ())
    doctor.examine(lambda: "pdm run test 2.3.1")
    assert capsys.readouterr().out.splitlines()[-1] == "No problems found. Next: pdm run test 2.3.1"


def test_a_full_disk_is_found_by_writing(monkeypatch, tmp_path):
    def full(**where):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(doctor.checkout.tempfile, "TemporaryFile", full)
    found = [line for line in doctor.checkout.writing() if line.name == "writing"]
    assert found[0].text.endswith(" cannot be written: No space left on device.")
    assert found[0].stops


@pytest.mark.parametrize(("command", "there"), [("false", False), ("", True)])
def test_a_compiler_without_half_precision_cannot_simulate(monkeypatch, capsys, command, there):
    requirements.is_here.cache_clear()
    requirements._simulates.cache_clear()
    monkeypatch.setenv("CXX", command)
    names = [line.name for line in doctor.machine.compiler()] if requirements.compiler() else ["C++"]
    assert names == (["C++"] if there else ["C++", "simulator"])
    requirements.is_here.cache_clear()
    requirements._simulates.cache_clear()
