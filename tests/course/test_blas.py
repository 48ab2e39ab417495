"""NumPy's OpenBLAS in the place of MLX's own: right for all shapes, left aside where it must be, unknown to grading."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.dev.transcripts import Edit, environment
from tiny_llm_course.doctor import blas, machine
from tiny_llm_course.paths import ROOT
from tiny_llm_course.testkit.marks import needs

linux = pytest.mark.skipif(sys.platform != "linux", reason="not run here: a Mac has Accelerate")
REFERENCE = machine.REFERENCE
STORY = ["generate", "Once upon a time", "--solution", "--seed", "6", "--max-tokens", "16"]


def python(code: str, *arguments: object, **more: str) -> str:
    """What a fresh Python prints, in which MLX is not imported."""
    command = [sys.executable, "-c", f"from tiny_llm_course.doctor import blas\n{code}", *map(str, arguments)]
    done = subprocess.run(command, env={**environment(ROOT), **more}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# Rows, columns and what is summed over, against float64: vectors, odd sizes, and one that is worth two threads.
PRODUCTS = """
import itertools
blas.load()
assert blas.in_use().startswith("OpenBLAS 0."), blas.in_use()
import mlx.core as mx, numpy as np
random = np.random.default_rng(1)

def array(*shape):
    return random.standard_normal(shape).astype(np.float32)

def check(what, found, wanted, k):
    assert found.shape == wanted.shape, (what, found.shape)
    off = np.abs(np.array(found) - wanted).max(initial=0)
    assert off <= 1e-6 * (k + 10), (what, off)

def by_both(what, x, w, k):
    check(what, x @ w, np.array(x, np.float64) @ np.array(w, np.float64), k)

sizes = [(1, 1, 1), (1, 7, 1), (1, 1, 9), (5, 1, 3), (1, 576, 256), (1, 65, 129), (2, 3, 5), (9, 64, 50), (33, 17, 129),
         (130, 2, 65), (512, 512, 513)]
for (m, n, k), flat in itertools.product(sizes, ["", "x", "w", "xw"]):
    x = mx.array(array(k, m)).T if "x" in flat else mx.array(array(m, k))
    w = mx.array(array(n, k)).T if "w" in flat else mx.array(array(k, n))
    by_both((m, n, k, flat), x, w, k)
for m in (1, 4):
    for heads in ((3,), (2, 3)):
        by_both(("batch", m), mx.array(array(*heads, m, 20)), mx.array(array(*heads, 20, 31)), 20)
        by_both(("shared", m), mx.array(array(*heads, m, 20)), mx.array(array(20, 31)), 20)
        by_both(("keys", m), mx.array(array(*heads, m, 20)), mx.array(array(*heads, 31, 20)).swapaxes(-1, -2), 20)
    apart = mx.array(array(12, 6, 40))[:, 2, :]
    by_both(("apart", m), apart[:m, 5:25], mx.array(array(40, 90))[::2, 10:47], 20)
    by_both(("steps", m), apart[:m, ::2], mx.array(array(20, 90))[:, ::3], 20)
    x, w, c = array(m, 20), array(20, 31), array(m, 31)
    found = mx.addmm(mx.array(c), mx.array(x), mx.array(w), alpha=-1.5, beta=0.25)
    check(("addmm", m), found, 0.25 * c - 1.5 * x.astype(np.float64) @ w, 20)
    check(("nothing", m), mx.zeros((m, 0)) @ mx.zeros((0, 3)), np.zeros((m, 3)), 0)
print(blas.in_use())
"""


@linux
@needs("compiler")
def test_products_of_every_shape_are_right():
    assert python(PRODUCTS).startswith("OpenBLAS 0.")


@linux
@needs("compiler")
def test_many_threads_at_once():
    code = """
blas.load()
import mlx.core as mx
streams = [mx.new_stream(mx.cpu) for _ in range(4)]
small, large = mx.ones((40, 60)), mx.ones((520, 520))
found = [mx.matmul(x, x.T, stream=stream) for _ in range(5) for stream in streams for x in (small, large)]
mx.eval(found)
print(sorted({(x.shape[0], x.min().item(), x.max().item()) for x in found}), blas.in_use()[:8])
"""
    assert python(code) == "[(40, 60.0, 60.0), (520, 520.0, 520.0)] OpenBLAS\n"


IN_USE = "blas.load()\nprint(blas.in_use()[:8])"


@linux
@needs("compiler")
def test_it_is_built_once(tmp_path):
    def kept() -> list[tuple[Path, int]]:
        return [(file, file.stat().st_mtime_ns) for file in tmp_path.rglob("*")]

    code = f"import pathlib, sys\nblas.KEPT = pathlib.Path(sys.argv[1], 'kept')\n{IN_USE}"
    assert python(code, tmp_path) == "OpenBLAS\n"
    before = kept()
    assert [file.suffix for file, _ in before] == ["", ".so"]
    assert python(code, tmp_path) == "OpenBLAS\n"
    assert kept() == before


@linux
@needs("compiler")
@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("", {"TINY_LLM_BLAS": "0"}),
        ("", {"CXX": "none"}),
        ("blas.KEPT = blas.KEPT / 'another'", {"CXX": "false"}),
        ("blas.KEPT = blas.SOURCE / 'read-only'", {}),
        ("blas.find_spec = lambda name: None", {}),
        ("blas.KEPT = blas.COURSE\nblas._built = lambda: blas.SOURCE", {}),
        ("import mlx.core", {}),
        ("blas.sys.platform = 'darwin'", {}),
    ],
    ids=["off", "no-compiler", "it-fails", "cannot-be-kept", "another-numpy", "damaged", "too-late", "macos"],
)
def test_without_one_thing_mlx_multiplies_itself(code, more):
    assert python(f"{code}\n{IN_USE}", **more) == "\n"


@linux
@needs("compiler")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("gemm(layout, trans_a, trans_b", "gemm(layout, NO_TRANS, trans_b"),
        ("gemv(layout, NO_TRANS, n, k, alpha, b, ldb", "gemv(layout, NO_TRANS, n, k, alpha, b, k"),
        ("a, step, beta, c, 1", "a, 1, beta, c, 1"),
        ("a, step, beta, c, 1", "a, step, 1, c, 1"),
        ("k, alpha, a, lda", "k, 1, a, lda"),
    ],
)
def test_a_library_that_multiplies_wrongly_is_left_aside(right, wrong, tmp_path):
    code = f"from pathlib import Path\nimport sys\nblas.SOURCE, blas.KEPT = map(Path, sys.argv[1:])\n{IN_USE}"
    text = blas.SOURCE.read_text(encoding="utf-8")
    assert right in text
    for source, said in ((text, "OpenBLAS\n"), (text.replace(right, wrong), "\n")):
        (tmp_path / "x.cpp").write_text(source, encoding="utf-8")
        assert python(code, tmp_path / "x.cpp", tmp_path / "kept") == said


@linux
@needs("compiler")
def test_grading_does_not_know_of_it_and_bench_measures_with_it():
    trap = "if 'blas/sgemm-' in open('/proc/self/maps').read():\n        raise OSError('the fast one')\n    total ="
    with fixture("1.1.1", "1.1.2", edits=(Edit("basics.py", trap, "total ="),)) as checkout:
        graded, measured = (run(checkout, *command) for command in (["test"], ["bench", "1.1"]))
    assert graded.returncode == 0, graded.stdout
    assert (measured.returncode, "OSError: the fast one" in measured.stderr) == (1, True), measured


def run(checkout: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tiny_llm_course", *words],
        cwd=checkout,
        env={**environment(checkout), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )


@linux
@needs("compiler")
def test_a_story_is_the_same_with_it_and_without():
    told = [run(ROOT, *STORY, TINY_LLM_BLAS=switch) for switch in ("1", "0")]
    assert [done.returncode for done in told] == [0, 0]
    assert told[0].stdout == told[1].stdout != ""


@linux
@needs("compiler")
def test_a_measurement_says_which_it_was():
    with fixture() as checkout:
        fast, own = (run(checkout, "bench", "1.1", "--solution", "--quick", TINY_LLM_BLAS=s).stdout for s in "10")
    assert " on the CPU with OpenBLAS 0." in fast.splitlines()[-1]
    assert own.splitlines()[-1].endswith(f" on the CPU with {REFERENCE}")


@pytest.mark.parametrize(
    ("fast", "own", "settings", "words"),
    [
        (
            "OpenBLAS 0.3.31 of NumPy",
            REFERENCE,
            {},
            "OpenBLAS 0.3.31 of NumPy for generate, chat and bench; tests are ",
        ),
        ("", "Accelerate, Apple's own", {"CXX": "none"}, "Accelerate, Apple's own"),
        ("", REFERENCE, {"TINY_LLM_BLAS": "0"}, f"{REFERENCE}, as TINY_LLM_BLAS=0 asks"),
        ("", REFERENCE, {"CXX": "none"}, f"{REFERENCE}: with a C++ compiler"),
        ("", REFERENCE, {"CXX": sys.executable}, f"{REFERENCE}: NumPy's OpenBLAS could not be used instead; "),
    ],
)
def test_doctor_says_which_it_is_and_why(fast, own, settings, words, monkeypatch):
    monkeypatch.delenv("TINY_LLM_BLAS", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert machine.blas_in_words(fast, own).startswith(words)
