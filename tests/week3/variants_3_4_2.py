"""Known programs of task 3.4.2, attention of one token over pages, in C++."""

import mlx.core as mx
import numpy as np
from tests.week3.formulas_day4 import group64, of_others, pooled

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.4.2")


def attended(program, seed, tokens, page, group=3, kv_heads=2, kv_head=1, scale=0.3, spare=0, dims=16):
    keys, values, table = pooled(seed, tokens, page, kv_heads, dims, spare=spare)
    return program(normals(seed + 2)(group, dims), keys, values, table, tokens, kv_head, scale)


known.probe_table(
    whole_pages=lambda program: attended(program, 1, 12, 4),
    part_of_a_page=lambda program: attended(program, 2, 10, 4),
    one_page=lambda program: attended(program, 3, 5, 8),
    room_to_spare=lambda program: attended(program, 4, 13, 4, spare=2),
    one_kv_head=lambda program: attended(program, 5, 10, 4, kv_heads=1, kv_head=0),
    first_kv_head=lambda program: attended(program, 6, 12, 4, kv_head=0),
    one_head=lambda program: attended(program, 7, 12, 4, group=1),
    one_head_part_of_a_page=lambda program: attended(program, 8, 9, 4, group=1),
    scale_of_one=lambda program: attended(program, 9, 11, 4, scale=1.0),
)


@known.probe()
def attend_first_page(program):
    """Page 0 of the pool is the request's only one."""
    keys, values, _ = pooled(10, 4, 4, 1, 16)
    return program(normals(12)(2, 16), keys, values, [0], 4, 0, 0.3)


@known.probe()
def attend_nan_behind(program):
    keys, values, table = pooled(13, 12, 4, 2, 16, spare=1)
    free = of_others(keys, table, 12)
    given = (mx.where(free, mx.nan, pool) for pool in (keys, values))
    return program(normals(15)(3, 16), *given, table, 12, 1, 0.3)


@known.probe()
def attend_nan_in_the_last_page(program):
    keys, values, table = pooled(16, 10, 4, 2, 16)
    free = of_others(keys, table, 10)
    given = (mx.where(free, mx.nan, pool) for pool in (keys, values))
    return program(normals(18)(3, 16), *given, table, 10, 1, 0.3)


PLACE = "(int64_t(table[i]) * kv_heads + kv_head) * page * dims"
SCORES = """
  const int first = i * page, n = std::min(page, tokens - first);
  const int64_t own = place(i), next = place(std::min(i + 1, pages - 1));
  compare_page(queries, group, keys + own, keys + next, n, dims, scale, &scores[first], tokens);
"""
VALUES = """
  const int first = i * page, n = std::min(page, tokens - first);
  const int64_t own = place(i), next = place(std::min(i + 1, pages - 1));
  gather_page(&scores[first], tokens, group, values + own, values + next, n, dims, attended);
"""
SOFTMAX = "for (int h = 0; h < group; ++h) softmax(&scores[h * int64_t(tokens)], tokens);"


def both(old, new):
    """Return the edits for a change in both loops, over keys and over values."""
    return (SCORES, SCORES.replace(old, new)), (VALUES, VALUES.replace(old, new))


def whole_pages(softmax):
    """Return the edits for rows of scores that have a place for each slot of the pages."""
    slots = (
        (old, old.replace("std::min(page, tokens - first)", "page").replace("[first], tokens", "[first], pages * page"))
        for old in (SCORES, VALUES)
    )
    return ("scores(int64_t(group) * tokens)", "scores(int64_t(group) * pages * page)"), *slots, (SOFTMAX, softmax)


known.change(
    "table-ignored",
    ("table[i]", "i"),
    fact="the first pages of the pool are read in pool order, not those of the block table",
    question="With the block table [6, 1, 3], where is token 0?",
)
known.change(
    "page-without-heads",
    (PLACE, "(int64_t(table[i]) + kv_head) * page * dims"),
    fact="the stride between pages is page_size * dims, as if there were one KV head",
    question="How many numbers does a page hold, over all its heads?",
)
known.change(
    "head-0-of-the-page",
    (PLACE, "int64_t(table[i]) * kv_heads * page * dims"),
    fact="the keys and values of KV head 0 are read, whatever the head",
    question="What comes before KV head 1 within a page?",
)
known.change(
    "head-by-head",
    (PLACE, "(int64_t(table[i]) * kv_heads * page + kv_head) * dims"),
    fact="KV head h starts h tokens after the start of its page",
    question="A page is kv_heads x page_size x dims. How far apart do two of its heads start?",
)
known.change(
    "full-pages-only",
    ("(tokens + page - 1) / page", "tokens / page"),
    fact="a partly filled last page is left out, and its tokens' scores stay 0",
    question="Ten tokens in pages of four: how many pages are there?",
)
known.change(
    "a-page-more-than-full",
    ("(tokens + page - 1) / page", "tokens / page + 1"),
    fact="tokens that exactly fill their pages get one more page, past the end of the block table",
    question="Twelve tokens in pages of four: how many pages are there?",
)
known.change(
    "last-page-whole",
    *both("std::min(page, tokens - first)", "page"),
    fact="the last page is read to its end",
    question="Ten tokens in pages of four: how many tokens of the third page are the request's?",
)
known.change(
    "unused-slots-weighed",
    *whole_pages("for (int h = 0; h < group; ++h) softmax(&scores[h * int64_t(pages) * page], pages * page);"),
    fact="the softmax includes the unused slots of the last page",
    question="Ten tokens in pages of four: over how many scores is the softmax?",
)
known.change(
    "unused-slots-times-0",
    *whole_pages(
        """
        for (int h = 0; h < group; ++h) {
          float* row = &scores[h * int64_t(pages) * page];
          softmax(row, tokens);
          std::fill(row + tokens, row + pages * page, 0.0f);
        }
        """
    ),
    fact="the last page's unused slots have weight 0, but their values are still multiplied by it",
    question="A slot holds NaN, left by a finished request. What is 0 times NaN?",
)
known.change(
    "a-page-too-far",
    *both("place(std::min(i + 1, pages - 1))", "place(i + 1)"),
    fact="the block table is indexed one page too far for the last page",
    question="Which entry of the block table follows that of a request's last page?",
)
known.change(
    "values-of-the-next-page",
    (VALUES, VALUES.replace("values + own, values + next", "values + next, values + own")),
    fact="keys are paired with the values of the next page",
    question="A token's key is in page table[i]. In which page is its value?",
)
known.change(
    "values-without-table",
    (VALUES, VALUES.replace("values + own", "values + (int64_t(i) * kv_heads + kv_head) * page * dims")),
    fact="only the keys use the block table, not the values",
    question="A token's key is in page 6 of the pool. Where is its value?",
)
known.change(
    "keys-in-place-of-values",
    (VALUES, VALUES.replace("values + own, values + next", "keys + own, keys + next")),
    fact="keys are summed instead of values",
    question="Which of the two is multiplied by an attention weight?",
)
known.change(
    "one-softmax-for-all-heads",
    (SOFTMAX, "softmax(scores.data(), group * tokens);"),
    fact="one softmax is taken over the scores of all heads",
    question="What is the sum of one head's weights?",
)
known.change(
    "softmax-of-each-page",
    (
        SOFTMAX,
        "for (int h = 0; h < group; ++h)\n"
        "  for (int i = 0; i < pages; ++i)\n"
        "    softmax(&scores[h * int64_t(tokens) + i * page], std::min(page, tokens - i * page));",
    ),
    fact="each page has its own softmax, and the results are added",
    question="What is the sum of one head's weights over all pages?",
)
known.change(
    "heads-a-page-apart",
    (SCORES, SCORES.replace("&scores[first], tokens", "&scores[first], page")),
    (VALUES, VALUES.replace("&scores[first], tokens", "&scores[first], page")),
    fact="the scores of two heads are stored one page apart, so heads overwrite each other",
    question="A head has a score for each of its ten tokens. Where do the next head's scores start?",
)
known.change(
    "heads-n-apart",
    (SCORES, SCORES.replace("&scores[first], tokens", "&scores[first], n")),
    (VALUES, VALUES.replace("&scores[first], tokens", "&scores[first], n")),
    fact="the scores of two heads are n apart, the tokens of one page, so heads overwrite each other",
    question="A head has a score for each of its ten tokens. Where do the next head's scores start?",
)
known.change(
    "no-softmax", (SOFTMAX, ""), fact="the softmax is missing", question="What is the sum of one head's weights?"
)
known.change(
    "no-scale",
    (SCORES, SCORES.replace("dims, scale,", "dims, 1,")),
    fact="the scale is missing",
    question="By what is a score multiplied before the softmax?",
)
known.accepted_change("nothing is prefetched", *both("place(std::min(i + 1, pages - 1))", "own"))
known.accepted_change(
    "values from the last page to the first",
    (VALUES, VALUES.replace("i * page,", "(pages - 1 - i) * page,").replace("place(i)", "place(pages - 1 - i)")),
)


@known.accepted("by NumPy")
def by_numpy(queries, keys, values, table, tokens, kv_head, scale):
    arrays = (np.array(each, np.float64) for each in (queries, keys, values))
    return mx.array(group64(*arrays, table, tokens, kv_head, scale).astype(np.float32))


@known.sized("4 heads of 128 that share keys, 4,096 tokens in pages of 16")
def timed(program):
    keys, values, table = pooled(1, 4096, 16, 2, 128)
    queries = normals(2)(4, 128)
    return lambda: program(queries, keys, values, table, 4096, 1, 0.088)
