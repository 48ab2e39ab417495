"""What is said of a function in C++ that touches memory which it must not, or that does not end."""

import numpy as np
import pytest

from memory_watch.building import Source, build
from memory_watch.compiling import DoesNotCompile
from memory_watch.library import Fresh, Library
from tiny_llm_course.course.requirements import compiler
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.kernels import KEPT
from tiny_llm_course.testkit.marks import needs

pytestmark = needs("compiler")
FILE = SOLUTION / "kernels" / "trial.cpp"  # which need not be there
TEXT = """#include <cstring>
#include <thread>
#include <vector>
#include "pool.h"
extern "C" void trial(const float* x, float* y, int n) {
CODE
}
"""
LOOP = "pool().run(n, 2, [&](int first, int last) { for (int i = first; i < last; ++i) BODY });"
SHARED = "shared memory in one chunk, and another chunk writes it: a race"


def outcome(code, checked=True):
    """What y becomes, and what is said, of code whose first line is line 6; x has 6 numbers, 0 to 5, and y has 6."""
    source = Source(TEXT.replace("CODE", code), FILE)
    library = Library(build(source, compiler(), KEPT, checked), source)
    (y,), fault = library.call("trial", [np.arange(6, dtype=np.float32), Fresh((6,)), 6])
    if fault is None:
        return y, ""
    line = f"{fault.lines[-1].number} " if fault.lines else ""
    assert all(each.file == FILE or each.file.suffix == ".h" for each in fault.lines)
    return y, f"{line}{fault.what}"


FAULTS = {
    "y[0] = x[n];": "6 reads x[6], and x has 6 elements",
    "y[0] = x[-1];": "6 reads x[-1], and x has 6 elements",
    "for (int i = 0; i < n; ++i)\n  y[i + 1] = x[i];": "7 writes y[6], and y has 6 elements",
    "y[100000000] = 1;": "6 writes y[100000000], and y has 6 elements",
    "y[0] += 1;": "6 reads y[0] before anything has been written there",
    "const_cast<float*>(x)[1] = 1;": "6 writes x[1], which is an input",
    "y[0] = x[n / (n - 6)];": "6 divides an integer by zero",
    "std::vector<float> a(4);\ny[0] = a[n];": "7 reads past the 16 bytes that it has allocated",
    "OwnLines a(4);\ny[0] = a[n];": "7 reads past the 16 bytes that it has allocated",
    "float* nowhere = nullptr;\ny[0] = nowhere[n];": "7 touches memory that is not there",
    "std::memcpy(y, x, 4 * n + 4);": "6 reads x[6], and x has 6 elements",
    "std::memset(y, 0, 4 * n + n);": "6 writes y[6], and y has 6 elements",
    "for (;;) y[0] = x[0];": "6 seems not to end: it has touched memory 20 million times",
    "for (int i = 1; i < n; ++i) y[i] = x[i];": "trial leaves y[0] unwritten",
    "for (int i = 0; i < n; i += 2) y[i] = x[i];": "trial leaves y[1] unwritten, and 2 more of y",
    'throw std::runtime_error("no");': "throws no",
    LOOP.replace("BODY", "y[0] = x[i];"): "6 writes y[0] in one chunk, and another chunk writes it: a race",
    LOOP.replace("BODY", "y[i] = i ? y[i - 1] : 0;"): "6 reads y[1] in one chunk, and another chunk writes it: a race",
    "float sum = 0;\n"
    + LOOP.replace(
        "BODY", "y[i] = sum += x[i];"
    ): "7 reads shared memory in one chunk, and another chunk writes it: a race",
    "std::vector<float> a(1);\n"
    + LOOP.replace("BODY", "{ a[0] = x[i]; y[i] = a[0]; }"): "7 writes shared memory in one chunk, and another chunk "
    "writes it: a race",
    # Blocks side by side, of which all but the last are given back and taken again: their neighbors stay known.
    "float* a[99];\nfor (auto& block : a) block = new float[10002];\n"
    "for (int i = 97; i >= 0; --i) { delete[] a[i]; a[i] = new float[10002]; }\n"
    + LOOP.replace("BODY", "{ a[49][0] = x[i]; y[i] = a[49][0]; }"): "9 writes shared memory in one chunk, and another "
    "chunk writes it: a race",
}
COPY = "for (int i = 0; i < n; ++i) y[i] = x[i];"
RIGHT = {
    "plain": COPY,
    "by the library": "std::vector<float> a(x, x + n);\nstd::copy(a.begin(), a.end(), y);",
    "a constant number of bytes": "std::memcpy(y, x, 12);\nstd::memcpy(y + 3, x + 3, 12);",
    "chunks": LOOP.replace("BODY", "y[i] = x[i];"),
    "a variable for each thread": "thread_local float a;\n" + LOOP.replace("BODY", "{ a = x[i]; y[i] = a; }"),
    "a vector for each thread": "thread_local std::vector<float> a;\n"
    + LOOP.replace("BODY", "{ a.assign(1, x[i]); y[i] = a[0]; }"),
    "a variable for each chunk": LOOP.replace("BODY", "{ float a = x[i]; float* b = &a; y[i] = *b; }"),
    "a vector for each chunk": LOOP.replace("BODY", "{ std::vector<float> a(9, x[i]); y[i] = a[8]; }"),
    "memory that is given back": LOOP.replace(
        "BODY", "{ float* a = (float*)malloc(4); *a = x[i]; y[i] = *a; free(a); }"
    ),
    "places apart": "std::vector<float> a(n);\n" + LOOP.replace("BODY", "a[i] = x[i];") + COPY.replace("x[i]", "a[i]"),
    "an atomic sum": "std::vector<float> a(n);\nstatic int turns = 0;\n"
    + LOOP.replace("BODY", "{ __atomic_fetch_add(&turns, 1, __ATOMIC_SEQ_CST); y[i] = x[i]; }"),
    "one loop after another": LOOP.replace("BODY", "y[i] = x[n - 1 - i];")
    + LOOP.replace("BODY", "if (i < n / 2) std::swap(y[i], y[n - 1 - i]);").replace("n, 2", "n, n"),
}


@pytest.mark.parametrize(("code", "said"), FAULTS.items(), ids=FAULTS.values())
def test_what_is_wrong_is_told_with_its_line(code, said):
    assert outcome(code)[1] == said


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_of_what_is_right_nothing_is_said(code):
    y, said = outcome(code)
    assert said == ""
    np.testing.assert_array_equal(y, np.arange(6, dtype=np.float32))


def test_the_fast_build_has_guard_zones_and_tells_signals():
    assert outcome(COPY, checked=False)[1] == ""
    assert outcome("y[100000] = 1;", checked=False)[1] == "6 touches y[100000], and y has 6 elements"
    assert outcome("y[6] = 1;" + COPY, checked=False)[1] == "writes y[6], and y has 6 elements"
    assert outcome("y[0] = x[n / (n - 6)];", checked=False)[1] == "6 divides an integer by zero"
    assert outcome('throw std::runtime_error("no");', checked=False)[1] == "throws no"


def test_what_a_thread_of_the_pool_throws_is_thrown_by_run():
    thrown = LOOP.replace("BODY", 'throw std::runtime_error("from a thread");')
    for checked in (True, False):
        assert outcome(f"pool(3);\n{thrown}" if not checked else thrown, checked)[1] == "throws from a thread"


def test_chunks_that_do_work_and_loads_are_counted():
    """An empty loop beside the work, or one that only copies what was computed before, has no chunk that counts."""
    own = "std::vector<float> a(x, x + n);\n"
    for code, chunks, loads in (
        (COPY, 0, (6, 24)),
        (LOOP.replace("BODY", "y[i] = x[i];"), 3, (6, 24)),
        (COPY + LOOP.replace("BODY", ";"), 0, (6, 24)),
        (own + LOOP.replace("BODY", "y[i] = a[i];"), 0, (1, 24)),
        ("std::memcpy(y, x, 12);\nstd::memcpy(y + 3, x + 3, 12);", 0, (2, 24)),
    ):
        source = Source(TEXT.replace("CODE", code), FILE)
        library = Library(build(source, compiler(), KEPT, True), source)
        library.call("trial", [np.arange(6, dtype=np.float32), Fresh((6,)), 6])
        assert (library.chunks, library.loads[0]) == (chunks, loads)


def test_what_does_not_compile_is_told_in_the_file_s_lines():
    with pytest.raises(DoesNotCompile, match=r"trial\.cpp:6:\d+: error: 'z' was not declared"):
        outcome("y[0] = z;")


def test_arguments_must_be_the_function_s():
    source = Source(TEXT.replace("CODE", COPY), FILE)
    library = Library(build(source, compiler(), KEPT, True), source)
    with pytest.raises(ValueError, match=r"defines no extern \"C\" void other\(\.\.\.\); there is trial"):
        library.call("other", [])
    with pytest.raises(ValueError, match="trial takes 3 arguments, not 1"):
        library.call("trial", [6])
    with pytest.raises(ValueError, match="x is not contiguous"):
        library.call("trial", [np.zeros(12, np.float32)[::2], Fresh((6,)), 6])
