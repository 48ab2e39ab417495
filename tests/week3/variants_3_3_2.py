"""Known programs of task 3.3.2, what pages cost."""

import mlx.core as mx
from tests.week1.reference_model import QWEN3
from tiny_llm_solution.config import ModelConfig

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.3.2")


def config(**changes):
    return ModelConfig.from_dict({**QWEN3, "num_hidden_layers": 5, **changes})


def counts(*found):
    return mx.array([int(n) for n in found], mx.int32)


def half(program):
    """Five layers in float16, 4 tokens to a page."""
    return program(config(), 4, mx.float16)


def refused(call, *arguments):
    """Return a call's result, or -1 if it raises."""
    try:
        return call(*arguments)
    except ValueError:
        return -1


def both(found):
    return counts(found.token_bytes, found.page_bytes)


known.probe_table(
    of_a_token=lambda program: both(half(program)),
    of_another_head=lambda program: both(program(config(head_dim=7, num_key_value_heads=2), 1, mx.bfloat16)),
    of_pages=lambda program: counts(*map(half(program).pages_within, (1920, 2000, 3839, 3840, 100000))),
    refuse_a_cap=lambda program: counts(*(refused(half(program).pages_within, cap) for cap in (0, 1919))),
    of_waste=lambda program: counts(*map(half(program).waste, ([5], [5, 7, 1], []))),
    in_float32=lambda program: counts(program(config(), 3).token_bytes, program(config(), 3, mx.float32).page_bytes),
    of_waste_in_full_pages=lambda program: counts(
        half(program).waste([4, 8]), program(config(), 1, mx.float16).waste([3, 1])
    ),
    of_waste_of_no_tokens=lambda program: counts(half(program).waste([0, 5])),
    of_reserved_waste_of_nobody=lambda program: counts(half(program).reserved_waste([], 9)),
    of_reserved_waste=lambda program: counts(
        *map(half(program).reserved_waste, ([5, 24, 1], iter([3]), []), (24, 23, 9))
    ),
    refuse_a_length=lambda program: counts(refused(half(program).reserved_waste, [3, 9, 2], 8)),
)

known.not_timed("a handful of products")

for name, old, new, fact, question in (
    ("keys-alone", "self.token_bytes = 2 * ", "self.token_bytes = ",
     "only keys are counted, not values",
     "What does a layer cache for a token besides its key?"),
    ("heads-of-the-queries", "config.num_key_value_heads", "config.num_attention_heads",
     "keys are counted per query head instead of per KV head",
     "How many query heads share one key?"),
    ("one-layer", "config.num_hidden_layers * ", "",
     "only one layer is counted",
     "How many layers cache keys of their own for the same token?"),
    ("head-dim-computed", "config.head_dim", "(config.hidden_size // config.num_attention_heads)",
     "head_dim is hidden_size / num_attention_heads",
     "What does the config say of head_dim, and what is hidden_size / heads?"),
    ("always-four-bytes", "dtype.size", "4",
     "every element takes four bytes, whatever the dtype",
     "How many bytes does a float16 take?"),
    ("half-precision-by-default", "dtype: mx.Dtype = mx.float32", "dtype: mx.Dtype = mx.float16",
     "the default dtype is float16",
     "What is the default in the signature?"),
    ("rounded-up", "return cap // self.page_bytes", "return -(-cap // self.page_bytes)",
     "the number of pages is rounded up",
     "The limit is one and a half pages. How many pages stay below it?"),
    ("exactly-one-refused", "if cap < self.page_bytes:", "if cap <= self.page_bytes:",
     "a limit of exactly one page raises",
     "Does a page of 1,536 bytes fit into 1,536 bytes?"),
    ("no-page-is-an-answer", "if cap < self.page_bytes:", "if False:",
     "a limit below one page returns 0 pages instead of raising",
     "When would the operator of a server learn that it has no pages?"),
    ("full-pages-waste-a-page", "-length % self.page_size", "self.page_size - length % self.page_size",
     "a request whose last page is full wastes a whole page",
     "Eight tokens are in pages of four. How many slots are empty?"),
    ("a-page-for-no-tokens", "-length % self.page_size", "(-length % self.page_size if length else self.page_size)",
     "a request without tokens has one empty page",
     "How many pages do 0 tokens need?"),
    ("what-is-used-of-the-last-page", "-length % self.page_size", "length % self.page_size",
     "the used slots of the last page are counted, not the empty ones",
     "Five tokens are in pages of four. Which slots of the last page are wasted?"),
    ("waste-of-the-sum", "sum(-length % self.page_size for length in lengths)", "(-sum(lengths) % self.page_size)",
     "the waste is computed from the total number of tokens, as if requests shared their last pages",
     "Which requests' tokens may be in a request's last page?"),
    ("waste-in-tokens", "for length in lengths) * self.token_bytes", "for length in lengths)",
     "the waste of pages is in slots instead of bytes",
     "Which unit does the docstring of waste name?"),
    ("reserved-waste-in-tokens", "return empty * self.token_bytes", "return empty",
     "the waste of reserved arrays is in slots instead of bytes",
     "Which unit does the docstring of reserved_waste name?"),
    ("all-that-is-reserved", "empty += longest - length", "empty += longest",
     "all reserved bytes are counted, including those in use",
     "A request has 24 tokens, and 24 slots are reserved. How many are wasted?"),
    ("exactly-full-refused", "if length > longest:", "if length >= longest:",
     "a request that fills its array exactly raises",
     "24 slots are reserved, and a request has 24 tokens. Is it longer?"),
    ("no-requests-raises", "empty = 0", "lengths = list(lengths)\nmax(lengths)\nempty = 0",
     "reserved_waste raises when there are no requests",
     "There are no requests. How many bytes are wasted, and what is the maximum of an empty list?"),
):  # fmt: skip
    known.change(name, (old, new), fact=fact, question=question)
known.change(
    "iterator-used-up",
    ("empty = 0", "if max(lengths, default=0) > longest:\n    raise ValueError('too long')\nempty = 0"),
    fact="the check uses up an iterator of lengths, so nothing is left to add up",
    question="How often can you iterate over a generator?",
)
known.change(
    "longer-is-taken",
    ("if length > longest:", "if False:"),
    fact="a request that is longer than its array reduces the waste",
    question="How many slots are empty in an array that is too short?",
)


@known.accepted("place-by-place")
class PlaceByPlace:
    def __init__(self, config, page, dtype=mx.float32):
        one = mx.zeros((config.num_key_value_heads, config.head_dim), dtype)
        self.page_size, self.token_bytes = page, 2 * config.num_hidden_layers * one.nbytes
        self.page_bytes = page * self.token_bytes

    def pages_within(self, cap):
        pages = 0
        while (pages + 1) * self.page_bytes <= cap:
            pages += 1
        if not pages:
            raise ValueError(f"{self.page_bytes} bytes for a page, {cap} in all")
        return pages

    def waste(self, lengths):
        return sum((-(-n // self.page_size) * self.page_size - n) * self.token_bytes for n in lengths)

    def reserved_waste(self, lengths, longest):
        lengths = list(lengths)
        if max(lengths, default=0) > longest:
            raise ValueError(f"{max(lengths)} tokens in {longest} places")
        return (longest * len(lengths) - sum(lengths)) * self.token_bytes
