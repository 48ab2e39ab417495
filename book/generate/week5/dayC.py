"""The check in the chapter of week 5's open task, as it grows."""

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.mistake_diffs import check_steps
from tiny_llm_course.dev.book.parts import Parts

QUOTIENT = """\
def check_cross_entropy_vjp(cross_entropy_vjp):
    logits = mx.random.normal((4, 7), key=mx.random.key(0))
    targets = mx.array([3, 0, 6, 3])
    gradient = np.array(cross_entropy_vjp(logits, targets))

    def loss(x):
        return np.mean([np.log(np.exp(row).sum()) - row[t] for row, t in zip(x, targets.tolist())])

    x, step = np.array(logits, np.float64), 1e-3
    for place in np.ndindex(x.shape):
        nudge = np.zeros_like(x)
        nudge[place] = step
        slope = (loss(x + nudge) - loss(x - nudge)) / (2 * step)
        assert abs(gradient[place] - slope) <= 1e-5
"""
SINGLE = QUOTIENT.replace("(4, 7)", "(1, 7)").replace("[3, 0, 6, 3]", "[3]")
COARSE = QUOTIENT.replace("np.array(logits, np.float64)", "np.array(logits)").replace("1e-3", "np.float32(1e-5)")
IGNORED = """\
def check_cross_entropy_vjp(cross_entropy_vjp):
    logits = mx.random.normal((4, 7), key=mx.random.key(0))
    for ignore_index in (-100, 3):
        targets = mx.array([ignore_index, 0, 6, ignore_index])
        gradient = cross_entropy_vjp(logits, targets, ignore_index)
        alone = cross_entropy_vjp(logits[1:3], targets[1:3])
        assert not mx.any(gradient[0]) and not mx.any(gradient[3])
        assert mx.allclose(gradient[1:3], alone)
    logits[0] = mx.nan
    assert not mx.any(mx.isnan(cross_entropy_vjp(logits, targets, 3)))
    assert not mx.any(cross_entropy_vjp(logits[1:], mx.full(3, -100)))
"""
HALF = """\
def check_cross_entropy_vjp(cross_entropy_vjp):
    logits = mx.random.normal((4, 7), key=mx.random.key(0)).astype(mx.float16)
    targets = mx.array([3, 0, 6, 3])
    gradient = cross_entropy_vjp(logits, targets)
    expected = cross_entropy_vjp(logits.astype(mx.float32), targets)
    assert gradient.dtype == mx.float16
    assert mx.array_equal(gradient, expected.astype(mx.float16))
"""
STEPS = {"quotient": QUOTIENT, "single": SINGLE, "coarse": COARSE, "ignored": IGNORED, "half": HALF}


def generated_parts() -> Parts:
    """Return the check of each step, and how many programs it stops."""
    return check_steps(load_course().open_task(5), STEPS)
