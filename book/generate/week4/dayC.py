"""The check in the chapter of week 4's open task, as it grows."""

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.mistake_diffs import check_steps
from tiny_llm_course.dev.book.parts import Parts

OPERATOR = """\
def check_masked_attention(attention):
    query, key, value = (mx.random.normal((2, 3, rows, 6)) for rows in (4, 5, 5))
    stairs = mx.tri(4, 5, 1) == 1
    for mask in (None, stairs):
        expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=6**-0.5, mask=mask)
        assert mx.allclose(attention(query, key, value, mask), expected, atol=1e-5)
"""
BLIND = OPERATOR.replace("mx.tri(4, 5, 1) == 1", "mx.tri(4, 5, -1) == 1")
ZEROS = """\
def check_masked_attention(attention):
    query, key, value = (mx.random.normal((2, 3, rows, 6)) for rows in (4, 5, 5))
    stairs = mx.tri(4, 5, -1) == 1
    for mask in (None, stairs):
        expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=6**-0.5, mask=mask)
        if mask is not None:
            expected = mx.where(mx.any(mask, axis=-1, keepdims=True), expected, 0.0)
        distance = mx.max(mx.abs(attention(query, key, value, mask) - expected))
        if distance > 1e-5:
            raise AssertionError(f"{distance.item()} apart")
"""
AT_MOST = ZEROS.replace(
    """        if distance > 1e-5:
            raise AssertionError(f"{distance.item()} apart")
""",
    "        assert distance <= 1e-5\n",
)
NUMBERS = """\
def check_masked_attention(attention):
    query, key, value = (mx.random.normal((2, 3, rows, 6)) for rows in (4, 5, 5))
    bias = mx.random.normal((4, 5))
    hides, some = mx.where(mx.tri(4, 5, -1) == 1, bias, -mx.inf), mx.maximum(bias, 0.0)
    for mask in (None, mx.tri(4, 5, -1) == 1, hides, some):
        expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=6**-0.5, mask=mask)
        if mask is not None:
            sees = mask if mask.dtype == mx.bool_ else mask > -mx.inf
            expected = mx.where(mx.any(sees, axis=-1, keepdims=True), expected, 0.0)
        assert mx.max(mx.abs(attention(query, key, value, mask) - expected)) <= 1e-5
"""
EQUAL = NUMBERS.replace(
    "    query, key, value = (mx.random.normal((2, 3, rows, 6)) for rows in (4, 5, 5))\n",
    "    query, key, value = (mx.random.normal((2, 4, 4, 6)) for _ in range(3))\n",
).replace("4, 5", "4, 4")
REFUSED = """\
def check_masked_attention(attention):
    for mask in (mx.ones((1, 4, 5)) == 1, mx.ones((4, 5), mx.int32)):
        try:
            attention(mx.ones((4, 6)), mx.ones((5, 6)), mx.ones((5, 6)), mask)
        except ValueError:
            continue
        raise AssertionError(f"takes a mask of {mask.shape}, {mask.dtype}")
"""
STEPS = {
    "operator": OPERATOR,
    "blind": BLIND,
    "zeros": ZEROS,
    "at-most": AT_MOST,
    "numbers": NUMBERS,
    "equal": EQUAL,
    "refused": REFUSED,
}


def generated_parts() -> Parts:
    """Return the check of each step, and how many programs it stops."""
    return check_steps(load_course().open_task(4), STEPS)
