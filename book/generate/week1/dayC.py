"""The check in the chapter of week 1's open task, as it grows."""

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.mistake_diffs import check_steps
from tiny_llm_course.dev.book.parts import Parts

SHAPE = """\
def check_attention(attention):
    query, key, value = mx.ones((2, 3, 6)), mx.ones((2, 6, 6)), mx.ones((2, 6, 6))
    result = attention(query, key, value)
    assert result.shape == (2, 3, 6)
"""
ORACLE = """\
def check_attention(attention):
    query, key, value = (mx.random.normal((2, 1, rows, 6)) for rows in (3, 6, 6))
    expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=6**-0.5)
    result = attention(query, key, value)
    assert result.shape == expected.shape
    assert mx.allclose(result, expected, atol=1e-5)
"""
MASK = """\
def check_attention(attention):
    query, key, value = (mx.random.normal((2, 1, rows, 6)) for rows in (3, 5, 5))
    hidden = mx.array([[0, 0, 0, -mx.inf, -mx.inf], [0, 0, 0, 0, -mx.inf], [0, 0, 0, 0, 0]])
    for mask in (None, hidden):
        expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=6**-0.5, mask=mask)
        result = attention(query, key, value, mask=mask)
        assert result.shape == expected.shape
        assert mx.allclose(result, expected, atol=1e-5)
"""
STEPS = {
    "shape": SHAPE,
    "ones": f"{SHAPE}    assert mx.allclose(result, mx.ones((2, 3, 6)))\n",
    "oracle": ORACLE,
    "sizes": ORACLE.replace("(3, 6, 6)", "(3, 5, 5)"),
    "mask": MASK,
    "bias": MASK.replace("(None, hidden)", "(None, hidden, mx.random.normal((3, 5)))"),
    "exact": ORACLE.replace("mx.allclose(result, expected, atol=1e-5)", "mx.array_equal(result, expected)"),
}


def generated_parts() -> Parts:
    """Return the check of each step, and how many programs it stops."""
    return check_steps(load_course().open_task(1), STEPS)
