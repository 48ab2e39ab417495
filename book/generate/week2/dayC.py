"""The check in the chapter of week 2's open task, as it grows."""

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.mistake_diffs import check_steps
from tiny_llm_course.dev.book.parts import Parts

RUNS = """\
def check_rms_norm(rms_norm):
    out, counts = rms_norm(mx.ones((2, 64)), mx.ones((64,)), 1e-5)
    assert out.shape == (2, 64)
"""
NUMBERS = """\
def check_rms_norm(rms_norm):
    x, weight = mx.random.normal((2, 64)), mx.random.normal((64,))
    out, counts = rms_norm(x, weight, 1e-5)
    assert mx.allclose(out, mx.fast.rms_norm(x, weight, 1e-5), atol=1e-5)
"""
SIZES = """\
def check_rms_norm(rms_norm):
    for size in (20, 64, 1024):
        x, weight = mx.random.normal((2, size)), mx.random.normal((size,))
        out, counts = rms_norm(x, weight, 1e-5)
        assert mx.allclose(out, mx.fast.rms_norm(x, weight, 1e-5), atol=1e-5)
"""
MOVED = f'{SIZES}        assert size < 64 or counts["moved"] <= 4 * x.nbytes\n'
BANKS = f'{MOVED}        assert counts["bank_conflicts"] == 0\n'
STEPS = {
    "runs": RUNS,
    "numbers": NUMBERS,
    "sizes": SIZES,
    "moved": MOVED,
    "banks": BANKS,
    "barriers": f'{BANKS}        assert counts["barriers"] <= 9 * len(x)\n',
    "exact": f'{BANKS}        assert counts["barriers"] == len(x)\n',
}


def generated_parts() -> Parts:
    """Return the check of each step, and how many programs it stops."""
    return check_steps(load_course().open_task(2), STEPS)
