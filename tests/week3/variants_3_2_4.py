"""Known programs of task 3.2.4, the budget divided between the oldest prompt and the shortest."""

import mlx.core as mx
from tests.week3.chunking import requests_of
from tests.week3.variants_3_2_1 import WRITERS, planned, run
from tiny_llm_solution.serving.policies import chunked_prefill
from tiny_llm_solution.serving.request import Request, next_chunk

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.2.4")


@known.probe()
def shared_refuses(program):
    try:
        return mx.array(len(program(requests_of(Request, WRITERS), 0)))
    except ValueError:
        return mx.array(-1)


known.probe_table(
    three=lambda program: planned(program, [(40, 0, 0), (30, 0, 0), (3, 0, 0)], 8),
    odd=lambda program: planned(program, [(40, 0, 0), (30, 0, 0), (20, 0, 0)], 9),
    small_oldest=lambda program: planned(program, [(2, 0, 0), (30, 0, 0), (40, 0, 0)], 8),
    small_others=lambda program: planned(program, [(40, 0, 0), (1, 0, 0), (2, 0, 0)], 12),
    equals=lambda program: planned(program, [(40, 0, 0), (6, 0, 0), (6, 0, 0)], 8),
    nearly_done=lambda program: planned(program, [(40, 0, 0), (6, 0, 0), (30, 0, 28)], 8),
    beside_decoding=lambda program: planned(program, [*WRITERS, (40, 0, 0), (20, 0, 0), (4, 0, 0)], 12),
    one_left=lambda program: planned(program, [*WRITERS, (40, 0, 0), (4, 0, 0)], 4),
    preempted=lambda program: planned(program, [(40, 0, 0), (6, 5, 0), (9, 0, 0)], 10),
    too_many=lambda program: planned(program, [(4, 5, 8), (4, 1, 4), (4, 2, 5), (40, 0, 0)], 2),
    none=lambda program: mx.array(len(program([], 4))),
    to_the_end=lambda program: run(program, (30, 9, 1, 4), (2, 2, 5, 3), 6, 4),
)

known.not_timed("a loop over a few dozen requests")

FEWEST_FIRST = "sorted(decoding, key=lambda each: len(each.output))"
DECODED, NO_CHUNKS = "chunks = chunked_prefill(decoding, token_budget)", "chunks = chunked_prefill([], token_budget)"
LEFT = "left = token_budget - len(chunks)"
HALF = "half = min(oldest.num_uncomputed_tokens, left - left // 2)"
SORTED = "sorted(others, key=lambda request: request.num_uncomputed_tokens)"
UNUSED = "unused = token_budget - sum(len(chunk.tokens) for chunk in chunks)"
known.change(
    "output-is-decoding",
    ("request.output and request.num_uncomputed_tokens == 1", "request.output"),
    (DECODED, f"{NO_CHUNKS} + [next_chunk(x, 1) for x in {FEWEST_FIRST}[:token_budget]]"),
    fact="a request with output counts as decoding, even if a preemption has left it many tokens to compute",
    question="A preempted request has output and twenty uncomputed tokens. How many tokens may it get in one step?",
)  # fmt: skip
known.change(
    "oldest-decode-first",
    (DECODED, f"{NO_CHUNKS} + [next_chunk(each, 1) for each in decoding[:token_budget]]"),
    fact="of more decoding requests than the budget, the oldest get their tokens",
    question="Five requests decode, and the budget is three. Which three does chunked_prefill choose, and why?",
)
known.change(
    "oldest-first",
    (HALF, "half = min(oldest.num_uncomputed_tokens, left)"),
    fact="the oldest prompt takes all that it can use, as with chunked_prefill",
    question="A prompt of 1,800 tokens is being prefilled. How long does one of 16 tokens wait?",
)
known.change(
    "shortest-first",
    (
        "oldest, *others = prefilling",
        "oldest, *others = sorted(prefilling, key=lambda one: -one.num_uncomputed_tokens)",
    ),
    (HALF, "half = 0"),
    fact="all of the budget goes to the shortest prompts, and none is kept for the oldest",
    question="Short prompts keep coming. When is the old, long one computed?",
)
known.change(
    "shared-alike",
    (HALF, "half = max(1, left // len(prefilling))"),
    (SORTED, "others"),
    ("left - half)", "left - half) if False else [next_chunk(r, min(half, r.num_uncomputed_tokens)) for r in others]"),
    fact="all prompts get equal parts of the budget",
    question="Six prompts of 1,800 tokens share the budget equally. When does the first of them finish?",
)
known.change(
    "half-of-the-whole",
    (HALF, "half = min(oldest.num_uncomputed_tokens, left, token_budget - token_budget // 2)"),
    fact="the oldest prompt gets half of the whole budget, not of what the decoding requests leave",
    question="The budget is 12, and three requests decode. What is half of what they leave?",
)
known.change(
    "rounded-down",
    (HALF, "half = min(oldest.num_uncomputed_tokens, left // 2)"),
    fact="half of the budget is rounded down",
    question="One token is left for prompts. Does the oldest prompt get it?",
)
known.change(
    "others-by-age",
    (SORTED, "others"),
    fact="the other half is given to the prompts by age, not to the shortest",
    question="Two long prompts are older than a short one. When is the short one's turn?",
)
known.change(
    "longest-first",
    (SORTED, "sorted(others, key=lambda request: -request.num_uncomputed_tokens)"),
    fact="the other half is given to the longest prompts first",
    question="A prompt of 3 tokens and one of 30 wait. Which can finish in this step?",
)
known.change(
    "by-length-of-prompt",
    (SORTED, "sorted(others, key=lambda request: len(request.prompt))"),
    fact="prompts are sorted by their lengths, not by their uncomputed tokens",
    question="28 of a prompt's 30 tokens are computed. Is it shorter or longer than a new one of 6?",
)
known.change(
    "youngest-of-equals",
    (SORTED, "sorted(reversed(others), key=lambda request: request.num_uncomputed_tokens)"),
    fact="of equally short prompts the youngest goes first",
    question="Two prompts have 6 uncomputed tokens each. Which one came first?",
)
known.change(
    "rest-unused",
    (UNUSED, "unused = half"),
    fact="the oldest prompt gets no more than its half, even if no prompt needs the other",
    question="A single prompt of 40 tokens, and a budget of 8. How many tokens does your step compute?",
)
known.change(
    "half-kept",
    (HALF, "half = left - left // 2"),
    fact="half of the budget is kept for the oldest prompt, even if it needs less",
    question="The oldest prompt has 2 uncomputed tokens, and the budget is 8. Who uses the other six?",
)
known.change(
    "decodes-not-counted",
    (LEFT, "left = token_budget"),
    (UNUSED, "unused = token_budget - sum(len(chunk.tokens) for chunk in chunks if chunk.request not in decoding)"),
    fact="the whole budget goes to prompts, and decoding requests get their tokens on top",
    question="The budget is 12, and three requests decode. How many tokens does your step compute?",
)


@known.accepted("counts-first")
def by_counts(running, token_budget):
    decoding = {request for request in running if request.output and request.num_uncomputed_tokens == 1}
    chunks = chunked_prefill([request for request in running if request in decoding], token_budget)
    prompts = [request for request in running if request not in decoding]
    left, counts = token_budget - len(chunks), dict.fromkeys(prompts, 0)
    shortest = sorted(prompts[1:], key=lambda request: request.num_uncomputed_tokens)
    for request, most in [
        *((one, (left + 1) // 2) for one in prompts[:1]),
        *((one, left) for one in [*shortest, *prompts[:1]]),
    ]:
        more = min(most, left, request.num_uncomputed_tokens - counts[request])
        counts[request] += more
        left -= more
    return [*chunks, *(next_chunk(request, count) for request, count in counts.items() if count)]
