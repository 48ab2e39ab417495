"""Known programs of task 3.4.1, attention over pages."""

from functools import partial

import mlx.core as mx
import numpy as np
from tests.week2.formulas_day7 import far_below_zero
from tests.week3.formulas_day4 import evaluated_graphs, of_others, paged64, pending_operations, pooled

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.4.1")


def inputs(seed, length=3, tokens=10, page=4, heads=6, kv_heads=2, dims=8, dtype=mx.float32, spare=0):
    """A group of 3."""
    keys, values, block_table = pooled(seed, tokens, page, kv_heads, dims, dtype, spare=spare)
    return normals(seed + 2, dtype)(length, heads, dims), keys, values, block_table, tokens


known.probe_table(
    a_single_page=lambda program: program(*inputs(5, 3, 3)[:3], [0], 3),
    in_order=lambda program: program(*inputs(7, 5, 11)[:3], [0, 1, 2], 11),
    one_query=lambda program: program(*inputs(1, 1)),
    whole_ones=lambda program: program(*inputs(2, 1, 12)),
    prompt=lambda program: program(*inputs(3, 9, 9)),
    tokens_before=lambda program: program(*inputs(4, 5, 14)),
    of_one_token=lambda program: program(*inputs(6, 1, 5, page=1)),
    no_group=lambda program: program(*inputs(8, heads=2)),
    given_scale=lambda program: program(*inputs(9), 0.7),
    scale_of_one=lambda program: program(*inputs(10), 1.0),
    scale_of_nothing=lambda program: program(*inputs(14), 0.0),
    page_twice=lambda program: program(*inputs(16)[:3], [2, 0, 2], 10),
    page_twice_behind=lambda program: program(*inputs(16)[:3], [2, 1, 0, 2], 10),
    negative_page=lambda program: program(*inputs(16)[:3], [2, -1, 0], 10),
    negative_page_behind=lambda program: program(*inputs(16)[:3], [2, 1, 0, -1], 10),
)


def scaled(times, more, added=0):
    query, keys, *rest = inputs(15, dtype=mx.float16)
    return times * query + added, more * keys + added, *rest


@known.probe()
def pages_scores_far_below_zero(program):
    query, keys, *rest = inputs(17, 6)
    return program(*far_below_zero(query, keys), *rest, 1.0)


@known.probe()
def pages_nan_behind(program):
    query, keys, values, block_table, tokens = inputs(11, spare=1)
    free = of_others(keys, block_table, tokens)
    return program(query, mx.where(free, mx.nan, keys), mx.where(free, mx.nan, values), block_table, tokens)


known.probe_table(
    mx.float16,
    half=lambda program: program(*inputs(12, dtype=mx.float16)),
    # A query times scale exceeds float16, and its scores do not; or the other way round.
    query_beyond_half=lambda program: program(*scaled(64, 2**-13), 1024.0),
    scores_beyond_half=lambda program: program(*scaled(256, 256), 2.0**-17),
    large_scores=lambda program: program(*scaled(1, 2**-4, 32), 0.25),
)


@known.probe()
def pages_held(program):
    """Return whether it allocates less than half of the request's float32 keys, and evaluates page by page."""
    given = inputs(13, 1, 4096, 32, 2, 1, 128)
    little = allocates_little(program, given)
    with evaluated_graphs() as sizes:
        left = pending_operations(program(*given))
    return mx.array([little, left < 100 and max(sizes, default=0) < 500])


@known.probe()
def pages_held_in_float16(program):
    return mx.array(allocates_little(program, inputs(13, 1, 4096, 32, 2, 1, 128, mx.float16)))


def allocates_little(program, given):
    mx.eval(given[:3])
    return peak_bytes(partial(program, *given)) < 4096 * 128 * 4 // 2


PAGE = "number, count = block_table[first // page], min(page, tokens - first)"
TAKEN = "some_keys, some_values = (x[number, :, None, :count] for x in (keys, values))  # H_kv x 1 x count x D"
HEADS = "mx.unflatten(query.swapaxes(0, 1), 0, (kv_heads, -1))"
LAST = "mx.arange(tokens - length, tokens)[:, None]"

known.change(
    "table-ignored",
    ("block_table[first // page]", "first // page"),
    fact="the first pages of the pool are read in pool order, not those of the block table",
    question="With the block table [6, 1, 3], where is token 0?",
)
known.change(
    "table-by-token",
    ("block_table[first // page]", "block_table[first]"),
    fact="the block table is indexed by token instead of by page",
    question="Ten tokens in pages of four: how many entries has the block table, and which of them is token 8's?",
)
known.change(
    "pages-sorted",
    ("block_table[first // page]", "sorted(block_table)[first // page]"),
    fact="the request's pages are read in pool order instead of block-table order",
    question="With the block table [6, 1, 3], in which page are the first tokens?",
)
known.change(
    "values-without-table",
    (TAKEN, "some_keys, some_values = keys[number, :, None, :count], values[first // page, :, None, :count]"),
    fact="only the keys use the block table, not the values",
    question="A token's key is in page 6 of the pool. Where is its value?",
)
known.change(
    "rest-of-the-last-page",
    ("min(page, tokens - first)", "page"),
    fact="unused slots of the last page get weight 0, and 0 times NaN is NaN",
    question="What do you know about the contents of the slots after the last token?",
)
known.change(
    "full-pages-only",
    ("range(0, tokens, page)", "range(0, tokens - page + 1, page)"),
    fact="a partly filled last page is left out",
    question="Ten tokens in pages of four: in which page are the last two?",
)
known.change(
    "last-page-by-remainder",
    ("min(page, tokens - first)", "(page if first + page < tokens else tokens % page)"),
    fact="the last page has tokens % page tokens, so none if it is full",
    question="Eight tokens in pages of four: how many of them are in the last page?",
)
known.change(
    "position-in-page",
    ("mx.arange(first, first + count)", "mx.arange(count)"),
    fact="the mask uses a token's offset within its page instead of its position",
    question="Query 0 is token 5. May it attend to the second token of the request's third page?",
)
known.change(
    "offset-ignored",
    (LAST, "mx.arange(length)[:, None]"),
    fact="query i attends to tokens 0 to i, as if none were cached before the first query",
    question="Three queries, ten tokens: which token is query 0?",
)
known.change(
    "next-token-too",
    ("<= last", "<= last + 1"),
    fact="each query also attends to the token after its own",
    question="May query i attend to a token that did not exist yet when query i was computed?",
)
known.change(
    "not-itself",
    ("<= last", "< last"),
    fact="a query does not attend to its own token",
    question="One token, one query: how many tokens does it attend to?",
)
known.change(
    "not-causal",
    ("mx.where(visible, scores, -mx.inf)", "scores"),
    fact="the causal mask is missing",
    question="Three queries: may the first of them attend to the last token?",
)
known.change(
    "heads-dealt-out",
    (HEADS, "mx.unflatten(query.swapaxes(0, 1), 0, (-1, kv_heads)).swapaxes(0, 1)"),
    ("return running.result().flatten(0, 1)", "return running.result().swapaxes(0, 1).flatten(0, 1)"),
    fact="query head h uses KV head h % H_kv",
    question="With six query heads and two KV heads, which one should query head 1 use?",
)
known.change(
    "heads-split-otherwise",
    (HEADS, "mx.unflatten(query.swapaxes(0, 1), 0, (-1, kv_heads)).swapaxes(0, 1)"),
    fact="the query heads are split as group x H_kv, but joined as H_kv x group",
    question="With six query heads and two KV heads, which query head's result does your output store as head 1?",
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
    fact="a scale of 0 is replaced by the default",
    question="What is `0.0 or 0.25` in Python?",
)
known.change(
    "scaled-in-half",
    (".astype(mx.float32) * scale", " * scale"),
    ("scores = queries @", "scores = queries.astype(mx.float32) @"),
    fact="queries are scaled in their own dtype and converted to float32 afterwards",
    question="In float16, what is 300 * 300?",
)
known.change(
    "scores-in-half",
    (".astype(mx.float32) * scale", ""),
    ("queries @ some_keys.astype(mx.float32).swapaxes(-1, -2)", "scale * (queries @ some_keys.swapaxes(-1, -2))"),
    fact="queries and keys are multiplied in their own dtype, and only the scores are converted to float32",
    question="In float16, what is 256 * 256, and what is left of it when it is scaled afterwards?",
)
known.change(
    "masked-scores-in-half",
    ("mx.where(visible, scores, -mx.inf)", "mx.where(visible, scores, -mx.inf).astype(query.dtype)"),
    fact="the masked scores are rounded to the query's dtype before the softmax",
    question="What is 1,000.2 in float16, and what does that do to a weight?",
)
known.change(
    "each-page-by-itself",
    ("scores = queries @", "running = OnlineSoftmax(*queries.shape)\nscores = queries @"),
    fact="the running softmax restarts at every page, so only the last page counts",
    question="What must be carried over from one page to the next?",
)
known.change(
    "nothing-evaluated",
    ("mx.eval(running.result())", "running.result()"),
    fact="no page is evaluated before the next one, so MLX's graph grows with the number of pages",
    question="MLX is lazy. When your loop has ended, which of its operations have been computed?",
)
known.change(
    "unknown-pages",
    ("[number for number in own if not 0 <= number < pages]", "[]"),
    fact="a page that the pool does not have is not rejected with its number",
    question="Which pages of a pool does page -1 of a block table, or a page after the last, name?",
)
known.change(
    "whole-table-checked",
    ("block_table[: -(-tokens // page)]", "block_table"),
    fact="entries of the block table after the last token's page are validated, too",
    question="What do you know about the entries of a block table that no token needs yet?",
)
known.change(
    "page-twice",
    ("if len(set(own)) < len(own):", "if False:"),
    fact="a block table with the same page twice is not rejected",
    question="Can a page of four slots hold a request's tokens 0 to 3 and 8 to 11?",
)
known.change(
    "page-twice-anywhere",
    ("len(set(own)) < len(own)", "len(set(block_table)) < len(block_table)"),
    fact="a page that occurs again after the last token's page is rejected, too",
    question="Ten tokens in pages of four: which entries of a block table of four are the request's pages?",
)
known.change(
    "scale-twice",
    ("scores = queries @", "scores = scale * queries @"),
    fact="the scale is applied twice",
    question="Are your queries already scaled when they are multiplied by the keys?",
)
known.change(
    "pool-in-float32",
    (
        "running = OnlineSoftmax(*queries.shape)",
        "running = OnlineSoftmax(*queries.shape)\nkeys, values = keys.astype(mx.float32), values.astype(mx.float32)",
    ),
    fact="the whole pool is converted to float32, which copies all pages of all requests in float16",
    question="The pool has 4,096 tokens in float16. How many of them are in your longest float32 array?",
)
known.change(
    "hidden-at-minus-10000",
    ("visible, scores, -mx.inf)", "visible, scores, -1e4)"),
    fact="a hidden key has a score of -10,000, or another finite number, instead of -inf",
    question="All visible scores of a query are -20,000. How large is the weight of a hidden key?",
)
known.change(
    "side-by-side",
    (
        "running = OnlineSoftmax(*queries.shape)",
        "running = OnlineSoftmax(*queries.shape)\n"
        "keys, values = (x[mx.array(block_table)].swapaxes(0, 1).flatten(1, 2)[None] for x in (keys, values))\n"
        "mx.eval(keys, values)",
    ),
    (TAKEN, "some_keys, some_values = (x[0, :, None, first : first + count] for x in (keys, values))"),
    fact="all pages of the request are gathered into one array first: correct, but paging exists to avoid this copy",
    question="How much memory do copies of the request's keys and values take while your code runs?",
)


def check(query, keys, block_table, tokens):
    (length, heads, _), (pages, kv_heads, page, _) = query.shape, keys.shape
    own = block_table[: -(-tokens // page)]
    if (
        heads % kv_heads
        or not length <= tokens <= len(block_table) * page
        or len(set(own) & {*range(pages)}) < len(own)
    ):
        raise ValueError(f"heads, tokens or block table {block_table}")


@known.accepted("all scores first, then the values")
def scores_first(query, keys, values, block_table, tokens, scale=None):
    length, _, dims = query.shape
    _, kv_heads, page, _ = keys.shape
    check(query, keys, block_table, tokens)
    scale = dims**-0.5 if scale is None else scale
    queries = mx.unflatten(query.swapaxes(0, 1), 0, (kv_heads, -1)).astype(mx.float32) * scale
    pages = [(block_table[first // page], slice(0, min(page, tokens - first))) for first in range(0, tokens, page)]
    of_pages = []
    for number, own in pages:
        of_pages.append(queries @ keys[number, :, None, own].astype(mx.float32).swapaxes(-1, -2))
        mx.eval(of_pages[-1])
    scores = mx.concatenate(of_pages, axis=-1)
    visible = mx.arange(tokens) <= mx.arange(tokens - length, tokens)[:, None]
    weights = mx.softmax(mx.where(visible, scores, -mx.inf), axis=-1)
    attended = mx.zeros(queries.shape)
    for i, (number, own) in enumerate(pages):
        of_page = weights[..., i * page : i * page + own.stop]
        attended = attended + of_page @ values[number, :, None, own].astype(mx.float32)
        mx.eval(attended)
    return attended.flatten(0, 1).swapaxes(0, 1).astype(query.dtype)


known.accepted_change("the last page first", ("range(0, tokens, page)", "reversed(range(0, tokens, page))"))


@known.accepted("token by token, in NumPy")
def by_token(query, keys, values, block_table, tokens, scale=None):
    check(query, keys, block_table, tokens)
    if tokens > 64:  # too slow, and NumPy needs no MLX memory for what follows
        return scores_first(query, keys, values, block_table, tokens, scale)
    arrays = (np.array(x.astype(mx.float32), np.float64) for x in (query, keys, values))
    attended = paged64(*arrays, block_table, tokens, scale)
    return mx.array(attended.astype(np.float32)).astype(query.dtype)


@known.sized("512 tokens in pages of 64, H 8, H_kv 4, D 64")
def timed(program):
    given = inputs(1, 512, 512, 64, 8, 4, 64)
    return lambda: program(*given)
