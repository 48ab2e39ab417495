"""Known programs of task 3.4.1, attention over pages."""

from functools import partial

import mlx.core as mx
import numpy as np
from tests.week3.formulas_day4 import of_others, paged64, pooled

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import most_at_once
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.4.1")


def inputs(seed, length=3, tokens=10, page=4, heads=6, kv_heads=2, dims=8, dtype=mx.float32, spare=0):
    """A group of 3."""
    keys, values, table = pooled(seed, tokens, page, kv_heads, dims, dtype, spare=spare)
    return normals(seed + 2, dtype)(length, heads, dims), keys, values, table, tokens


@known.probe()
def pages_a_single_one(program):
    query, keys, values, _, tokens = inputs(5, 3, 3)
    return program(query, keys, values, [0], tokens)


@known.probe()
def pages_in_order(program):
    query, keys, values, _, tokens = inputs(7, 5, 11)
    return program(query, keys, values, [0, 1, 2], tokens)


known.probe_table(
    one_query=lambda program: program(*inputs(1, 1)),
    whole_ones=lambda program: program(*inputs(2, 1, 12)),
    prompt=lambda program: program(*inputs(3, 9, 9)),
    tokens_before=lambda program: program(*inputs(4, 5, 14)),
    of_one_token=lambda program: program(*inputs(6, 1, 5, page=1)),
    no_group=lambda program: program(*inputs(8, heads=2)),
    given_scale=lambda program: program(*inputs(9), 0.7),
    scale_of_one=lambda program: program(*inputs(10), 1.0),
    scale_of_nothing=lambda program: program(*inputs(14), 0.0),
)


@known.probe(mx.float16)
def pages_scaled_out_of_half(program):
    """A query times scale is more than float16 can hold; its scores are not."""
    query, keys, *rest = inputs(15, dtype=mx.float16)
    return program(64 * query, keys * 2**-13, *rest, 1024.0)


@known.probe()
def pages_nan_behind(program):
    query, keys, values, table, tokens = inputs(11, spare=1)
    free = of_others(keys, table, tokens)
    return program(query, mx.where(free, mx.nan, keys), mx.where(free, mx.nan, values), table, tokens)


known.probe_table(
    mx.float16,
    half=lambda program: program(*inputs(12, dtype=mx.float16)),
)


@known.probe()
def pages_held(program):
    """Whether it holds less than half of the request's keys."""
    given = inputs(13, 1, 4096, 32, 2, 1, 128)
    mx.eval(given[:3])
    taken = most_at_once(partial(program, *given))
    return mx.array(taken < given[1].nbytes // 2)


PAGE = "number, count = table[first // page], min(page, tokens - first)"
TAKEN = "some_keys, some_values = (x[number, :, None, :count] for x in (keys, values))  # H_kv x 1 x count x D"
HEADS = "mx.unflatten(query.swapaxes(0, 1), 0, (kv_heads, -1))"
LAST = "mx.arange(tokens - length, tokens)[:, None]"

known.change(
    "table-ignored",
    ("table[first // page]", "first // page"),
    fact="the first pages of the pool are taken, in its own order, and not those of the table",
    question="With the table [6, 1, 3], where is token 0?",
)
known.change(
    "table-by-token",
    ("table[first // page]", "table[first]"),
    fact="the table is asked for a token, where it has an entry for each page",
    question="Ten tokens in pages of four: how many entries has the table, and which of them is token 8's?",
)
known.change(
    "pages-sorted",
    ("table[first // page]", "sorted(table)[first // page]"),
    fact="the request's pages are read in the order of the pool, and not of the table",
    question="With the table [6, 1, 3], in which page are the first tokens?",
)
known.change(
    "values-without-table",
    (TAKEN, "some_keys, some_values = keys[number, :, None, :count], values[first // page, :, None, :count]"),
    fact="the keys are looked up in the table, and the values are not",
    question="Where is the value of a token, if its key is in page 6 of the pool?",
)
known.change(
    "rest-of-the-last-page",
    ("min(page, tokens - first)", "page"),
    fact="the rest of the last page takes part with weights of 0, and 0 times NaN is NaN",
    question="What do you know of the numbers behind the last token?",
)
known.change(
    "full-pages-only",
    ("range(0, tokens, page)", "range(0, tokens - page + 1, page)"),
    fact="a last page that is not full is left out",
    question="Ten tokens in pages of four: in which page are the last two?",
)
known.change(
    "position-in-page",
    ("mx.arange(first, first + count)", "mx.arange(count)"),
    fact="tokens are counted from the beginning of their page when it is asked whether a query sees them",
    question="Query 0 is of token 5. May it see the second token of the request's third page?",
)
known.change(
    "offset-ignored",
    (LAST, "mx.arange(length)[:, None]"),
    fact="query i sees the tokens 0 to i, as if there were none before the first query",
    question="Three queries, ten tokens: which token is query 0 of?",
)
known.change(
    "next-token-too",
    ("<= last", "<= last + 1"),
    fact="each query sees the token behind its own, too",
    question="May query i look at a token that has not been there when it was?",
)
known.change(
    "not-itself",
    ("<= last", "< last"),
    fact="a query does not see its own token",
    question="One token, one query: how many tokens does it see?",
)
known.change(
    "not-causal",
    ("mx.where(visible, scores, -mx.inf)", "scores"),
    fact="every query sees all tokens",
    question="Three queries: may the first of them see the last token?",
)
known.change(
    "heads-dealt-out",
    (HEADS, "mx.unflatten(query.swapaxes(0, 1), 0, (-1, kv_heads)).swapaxes(0, 1)"),
    ("return running.result().flatten(0, 1)", "return running.result().swapaxes(0, 1).flatten(0, 1)"),
    fact="query head h reads key-value head h % H_kv, as if these were dealt out in turn",
    question="With six query heads and two key-value heads, which one should query head 1 read?",
)
known.change(
    "no-scale",
    ("dims**-0.5 if scale is None else scale", "1.0 if scale is None else scale"),
    fact="the default scale 1/sqrt(D) is missing",
    question="What does scale=None mean?",
)
known.change(
    "scale-or-default",
    ("scale = dims**-0.5 if scale is None else scale", "scale = scale or dims**-0.5"),
    fact="a scale of 0 counts as none, and the default takes its place",
    question="What is `0.0 or 0.25` in Python?",
)
known.change(
    "scaled-in-half",
    (".astype(mx.float32) * scale", " * scale"),
    ("scores = queries @", "scores = queries.astype(mx.float32) @"),
    fact="queries are multiplied by scale in their own dtype, and become float32 only then",
    question="In float16, what is 300 * 300?",
)
known.change(
    "scale-twice",
    ("scores = queries @", "scores = scale * queries @"),
    fact="the scale is applied twice",
    question="Are your queries scaled already when they meet the keys?",
)
known.change(
    "each-page-by-itself",
    ("scores = queries @", "running = OnlineSoftmax(*queries.shape)\nscores = queries @"),
    fact="each page begins anew, and only the last one counts",
    question="What must outlive a page for the next one?",
)
known.change(
    "side-by-side",
    (
        "running = OnlineSoftmax(*queries.shape)",
        "running = OnlineSoftmax(*queries.shape)\n"
        "keys, values = (x[mx.array(table)].swapaxes(0, 1).flatten(1, 2)[None] for x in (keys, values))\n"
        "mx.eval(keys, values)",
    ),
    (TAKEN, "some_keys, some_values = (x[0, :, None, first : first + count] for x in (keys, values))"),
    fact="all pages of the request are copied into one array first: right, but it is the copy that pages are to spare",
    question="How much memory do the request's keys and values take while your code runs?",
)


@known.accepted("all scores first, then the values")
def scores_first(query, keys, values, table, tokens, scale=None):
    length, heads, dims = query.shape
    _, kv_heads, page, _ = keys.shape
    if heads % kv_heads or not length <= tokens <= len(table) * page:
        raise ValueError("sizes")
    scale = dims**-0.5 if scale is None else scale
    queries = mx.unflatten(query.swapaxes(0, 1), 0, (kv_heads, -1)).astype(mx.float32) * scale
    pages = [(table[first // page], slice(0, min(page, tokens - first))) for first in range(0, tokens, page)]
    scores = mx.concatenate(
        [queries @ keys[number, :, None, own].astype(mx.float32).swapaxes(-1, -2) for number, own in pages], axis=-1
    )
    visible = mx.arange(tokens) <= mx.arange(tokens - length, tokens)[:, None]
    weights = mx.softmax(mx.where(visible, scores, -mx.inf), axis=-1)
    attended = mx.zeros(queries.shape)
    for i, (number, own) in enumerate(pages):
        of_page = weights[..., i * page : i * page + own.stop]
        attended = attended + of_page @ values[number, :, None, own].astype(mx.float32)
        mx.eval(attended)
    return attended.flatten(0, 1).swapaxes(0, 1).astype(query.dtype)


known.accepted_change(
    "the last page first",
    ("range(0, tokens, page)", "reversed(range(0, tokens, page))"),
)


@known.accepted("token by token, in NumPy")
def by_token(query, keys, values, table, tokens, scale=None):
    length, heads, _ = query.shape
    _, kv_heads, page, _ = keys.shape
    if heads % kv_heads or not length <= tokens <= len(table) * page:
        raise ValueError("sizes")
    if tokens > 64:  # too slow, and NumPy needs no memory of MLX's for what follows
        return scores_first(query, keys, values, table, tokens, scale)
    arrays = (np.array(x.astype(mx.float32), np.float64) for x in (query, keys, values))
    attended = paged64(*arrays, table, tokens, scale)
    return mx.array(attended.astype(np.float32)).astype(query.dtype)


@known.sized("512 tokens in pages of 64, H 8, H_kv 4, D 64")
def timed(program):
    given = inputs(1, 512, 512, 64, 8, 4, 64)
    return lambda: program(*given)
