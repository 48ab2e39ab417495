"""SwiGLU in NumPy float64, and whether a kernel rounds its result once."""

import numpy as np

from tiny_llm_course.testkit.rounding import exact, in_float32, rounding, to_float64


def swiglu64(x, *, r=exact):
    wide, size = in_float32(r), x.shape[-1] // 2
    gate, up = x[..., :size], x[..., size:]
    return r(wide(wide(gate * wide(np.exp(-np.logaddexp(0, -gate)))) * up))


def not_nearest(kernel, x):
    """Return the share of elements that are not the closest numbers of x's dtype to the formula's."""
    return float(np.mean(to_float64(kernel(x)) != rounding(x.dtype)(swiglu64(to_float64(x)))))
