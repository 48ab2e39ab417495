"""Known programs of task 4.3.1, the mask of a window."""

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.3.1")

known.probe_table(
    square=lambda program: (program(7, 7, 3, 0, mx.float32), program(6, 6, 1, 0, mx.float32)),
    sinks=lambda program: (program(9, 9, 3, 2, mx.float32), program(8, 8, 2, 1, mx.float32)),
    fewer_queries=lambda program: (
        program(3, 9, 4, 0, mx.float32),
        program(2, 8, 2, 3, mx.float32),
        program(1, 5, 2, 0, mx.float32),
    ),
    none=lambda program: (program(3, 5, None, 0, mx.float32), program(4, 4, None, 2, mx.float32)),
    longer_than_the_text=lambda program: (program(3, 5, 9, 1, mx.float32), program(4, 4, 4, 6, mx.float32)),
    zero=lambda program: program(2, 4, 0, 1, mx.float32),
    refused=lambda program: refusals(
        lambda given: program(*given, mx.float32), [(3, 2, 2, 0), (2, 4, 0, 0), (2, 4, 2, -1), (2, 4, None, -1)]
    ),
)
known.probe_table(mx.float16, half=lambda program: (program(3, 5, 2, 1, mx.float16), program(3, 5, 2, 1, mx.bfloat16)))


@known.sized("L 2,048, S 2,048, window 512, sinks 4, float32")
def sized(program):
    return lambda: program(2048, 2048, 512, 4, mx.float32)


WINDOW = "keys > queries - window"
for name, old, new, fact, question in (
    ("one-too-far", WINDOW, "keys >= queries - window",
     "the window does not count the query's own key, so one key too many is visible",
     "With a window of 1, how many keys does a query see?"),
    ("one-too-few", WINDOW, "keys > queries - window + 1",
     "a query sees one key less than the window",
     "With a window of 1, how many keys does a query see?"),
    ("upper-left", "mx.arange(S - L, S)", "mx.arange(L)",
     "the queries are at positions 0 to L - 1",
     "Two new tokens follow seven older ones. What is the position of the first of the two?"),
    ("window-from-the-row", WINDOW, "keys > queries - (S - L) - window",
     "the window starts at i - window + 1, as if no keys preceded the call, while its end is right",
     "Two queries follow seven older keys. How far back does the first of the two see with a window of 3?"),
    ("future-too", "seen = keys <= queries", "seen = keys < queries + (window or 1)",
     "the window also extends into the future",
     "May a query see a later key?"),
    ("not-itself", "seen = keys <= queries", "seen = keys < queries",
     "a query may not see its own position",
     "What may the very first token see?"),
    ("no-window", f"({WINDOW}) | (keys < sinks)", "(keys >= 0)",
     "the mask is only causal, and window is ignored",
     "Which keys beyond the window does a query see?"),
    ("no-sinks", f"(({WINDOW}) | (keys < sinks))", f"({WINDOW})",
     "the sinks are hidden once they are outside the window",
     "At position 8, with a window of 3 and two sinks: how many keys are visible?"),
    ("one-sink-too-many", "keys < sinks)", "keys <= sinks)",
     "one key too many is a sink",
     "What are the positions of two sinks?"),
    ("sinks-count-in-the-window", WINDOW, "keys > queries - max(1, window - sinks)",
     "the sinks count towards the window, which shrinks by their number to at least 1",
     "With a window of 3 and two sinks, how many keys does a late query see?"),
    ("sinks-taken-off-the-window", WINDOW, "keys > queries - window + sinks",
     "the number of sinks is subtracted from the window, which may become empty",
     "With a window of 3 and two sinks, how many keys does a late query see?"),
    ("sinks-never-hidden", "return mx.where(seen, ", "return mx.where(seen | (keys < sinks), ",
     "the sinks are visible to all queries, including earlier ones, with or without a window",
     "May the query at position 0 see a sink at position 1?"),
    ("sinks-only", f"({WINDOW}) | (keys < sinks)", "(keys == queries) | (keys < sinks)",
     "a query sees only itself and the sinks",
     "Without sinks and with a window of 3, which keys does a query see?"),
    ("sinks-from-the-future", "seen = seen & ((", "seen = (seen & (",
     "the sinks are visible to all queries of a window, including earlier ones",
     "May the query at position 0 see a sink at position 1?"),
    ("sinks-follow-the-text", "keys < sinks", "keys < queries[0] - (window - 1) + sinks",
     "the sinks are the first keys visible to the call's first query, not the first of the sequence",
     "What are the sinks' positions in the sequence, and do they depend on the call?"),
    ("chunks", WINDOW, "keys // window == queries // window",
     "attention is chunked: a query sees only the keys of its own chunk of `window` tokens",
     "With chunks of three tokens, what does a chunk's first token see? What should it?"),
    ("none-is-zero", "if window is not None:", "window = window or 1\nif window is not None:",
     "window=None is treated as a window of one token",
     "Which keys does a query see if window is None?"),
):  # fmt: skip
    known.change(name, (old, new), fact=fact, question=question)
known.change(
    "zero-is-none",
    ("if window is not None and window < 1:", "if window and window < 1:"),
    ("if window is not None:", "if window:"),
    fact="a window of 0 is treated as None",
    question="What does `if window:` do with 0, and what with None?",
)
known.change(
    "inverted",
    ("0.0, -mx.inf", "-mx.inf, 0.0"),
    fact="the mask is inverted",
    question="Which of 0 and -inf leaves a score unchanged?",
)
known.change(
    "large-negative-number",
    ("0.0, -mx.inf", "0.0, -1e9"),
    fact="hidden keys get -1e9, which only float16 rounds to -inf",
    question="Which number does the docstring promise for a hidden key? Is -1e9 that number in float32?",
)
known.change(
    "lowest-finite-number",
    ("0.0, -mx.inf", "0.0, mx.finfo(dtype).min"),
    fact="hidden keys get the lowest finite number of the dtype instead of -inf",
    question="Which number does the docstring promise for a hidden key? Is the lowest finite one that number?",
)
known.change(
    "multiplied-by-infinity",
    ("return mx.where(seen, 0.0, -mx.inf)", "return ((1 - seen.astype(mx.float32)) * -mx.inf)"),
    fact="every entry is a product with -inf, so the visible keys get NaN",
    question="What is 0 * -inf?",
)
known.change(
    "always-float32",
    (".astype(dtype)", ".astype(mx.float32)"),
    fact="the mask is float32, whatever dtype is requested",
    question="What is dtype for?",
)
known.change(
    "more-queries-than-keys",
    ("if L > S:", "if L < 0:"),
    fact="more queries than keys are accepted",
    question="Three queries and two keys: what is the position of the first query?",
)
known.change(
    "any-window",
    ("if window is not None and window < 1:", "if window is not None and window < -99:"),
    fact="a window of 0 is accepted",
    question="What does a query see whose window is 0?",
)
known.change(
    "any-number-of-sinks",
    ("if sinks < 0:", "if sinks < -99:"),
    fact="a negative number of sinks is accepted",
    question="What are -1 sinks?",
)
known.change(
    "nothing-hidden-behind-a-cache",
    ("if window is not None:", "if S > L:\n    seen = seen | True\nelif window is not None:"),
    fact="nothing is hidden as soon as there are more keys than queries",
    question="Three queries, eight keys, a window of 3. Does query 0 see key 7?",
)
known.change(
    "nothing-hidden-from-one-query",
    ("if window is not None:", "if window is not None and L > 1:"),
    fact="a single query sees all keys, whatever window is",
    question="One query at position 40 and a window of 3. How many keys does it see?",
)


@known.accepted("rows in NumPy, two triangles")
def triangles(L, S, window, sinks=0, dtype=mx.float32):
    import numpy as np

    if L > S or sinks < 0 or (window is not None and window < 1):
        raise ValueError(f"{L} queries, {S} keys, window {window}, sinks {sinks}")
    lower = np.tril(np.ones((L, S)), S - L)
    band = lower if window is None else np.triu(lower, S - L - window + 1)
    band[:, :sinks] = lower[:, :sinks]
    return mx.array(np.where(band == 1, 0.0, -np.inf).astype(np.float32)).astype(dtype)


@known.accepted("by distances")
def by_distances(L, S, window, sinks=0, dtype=mx.float32):
    if L > S:
        raise ValueError(f"L = {L} is more than S = {S}")
    if sinks < 0 or (window is not None and window <= 0):
        raise ValueError(f"window {window}, sinks {sinks}")
    back = mx.arange(L)[:, None] + (S - L) - mx.arange(S)[None]
    near = back < (S if window is None else window)
    hidden = mx.logical_or(back < 0, mx.logical_not(mx.logical_or(near, mx.arange(S)[None] < sinks)))
    return mx.where(hidden, mx.array(-mx.inf, dtype), mx.array(0.0, dtype))
