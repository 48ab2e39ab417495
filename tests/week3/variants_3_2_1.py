"""Known programs of task 3.2.1, chunked prefill."""

import mlx.core as mx
from tests.week3.chunking import requests_of, served
from tiny_llm_solution.serving.request import Chunk, Request, next_chunk

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.2.1")

WRITERS = [(5, 4, 8), (3, 1, 3), (2, 2, 3)]


def planned(program, specs, token_budget):
    """Return each chunk's start, length and num_logits, by request id."""
    chunks = sorted(program(requests_of(Request, specs), token_budget), key=lambda chunk: chunk.request.request_id)
    rows = [(chunk.request.request_id, chunk.start, len(chunk.tokens), chunk.num_logits) for chunk in chunks]
    return mx.array(rows or [(-1, 0, 0, 0)]), mx.array([token for chunk in chunks for token in chunk.tokens] or [-1])


def run(program, lengths, most, token_budget, slots):
    """Return the tokens per step, for at most 60 steps, and the number of output tokens."""
    texts, steps = served(program, Request, [[3] * length for length in lengths], most, token_budget, slots, steps=60)
    return mx.array([sum(step.values()) for step in steps] or [-1]), mx.array([len(text) for text in texts])


@known.probe()
def chunked_refuses(program):
    found = []
    for token_budget in (0, -2):
        for specs in ([], WRITERS):
            try:
                found.append(len(program(requests_of(Request, specs), token_budget)))
            except ValueError:
                found.append(-1)
    return mx.array(found)


known.probe_table(
    prompts=lambda program: planned(program, [(10, 0, 0), (4, 0, 0), (7, 0, 0)], 16),
    long_prompt=lambda program: planned(program, [(40, 0, 0), (4, 0, 0)], 8),
    rest=lambda program: planned(program, [(10, 0, 6), (9, 0, 0)], 8),
    all_fits=lambda program: planned(program, [(5, 0, 0), (3, 0, 1), WRITERS[0]], 64),
    writers=lambda program: planned(program, WRITERS, 16),
    no_room_for_prompts=lambda program: planned(program, [*WRITERS, (9, 0, 0)], 3),
    writers_first=lambda program: planned(program, [(40, 0, 0), *WRITERS], 8),
    between=lambda program: planned(program, [(6, 0, 0), WRITERS[0], (40, 0, 3), WRITERS[1], (5, 0, 0)], 12),
    one_token_of_a_prompt=lambda program: planned(program, [(40, 0, 0), (1, 0, 0), (9, 0, 8), WRITERS[0]], 8),
    preempted=lambda program: planned(program, [WRITERS[0], (6, 5, 0), (6, 0, 0)], 8),
    more_writers=lambda program: planned(program, [(5, 4, 8), (3, 2, 4), (9, 0, 0), (2, 7, 8), (3, 2, 4)], 2),
    more_writers_of_other_lengths=lambda program: planned(program, [(20, 1, 20), (3, 5, 7), (2, 3, 4)], 1),
    more_writers_of_equals=lambda program: planned(program, [(5, 3, 7), (3, 3, 5), (9, 3, 11)], 2),
    budget_of_one=lambda program: planned(program, [(5, 0, 0), WRITERS[0]], 1),
    nobody=lambda program: mx.array(len(program([], 4))),
    to_the_end=lambda program: run(program, (1, 30, 4, 9), (5, 2, 3, 3), 6, 3),
    to_the_end_by_one=lambda program: run(program, (3, 2), (2, 2), 1, 2),
)


@known.probe()
def chunked_caller(program):
    """Return the caller's list and requests, afterwards."""
    running = requests_of(Request, [WRITERS[0], (9, 0, 2), (4, 0, 0)])
    program(running, 8)
    return mx.array([[one.request_id, one.num_computed_tokens, len(one.output)] for one in running])


known.not_timed("a loop over a few dozen requests")

WRITING = "[request for request in running if request.output and request.num_uncomputed_tokens == 1]"
READING = "[request for request in running if request not in decoding]"
TURNS = "sorted(decoding, key=lambda request: len(request.output))[:token_budget]"
LEFT = "left = token_budget - len(chunks)"
COUNT = "count = min(request.num_uncomputed_tokens, left)"
APPEND = "chunks.append(next_chunk(request, count))"
known.change(
    "writers-not-counted",
    (LEFT, "left = token_budget"),
    fact="the whole budget goes to prompts, and decoding requests get their tokens on top",
    question="The budget is 8, and three requests decode. How many tokens does your step compute?",
)
known.change(
    "all-that-run-counted",
    (LEFT, "left = max(0, token_budget - len(running))"),
    fact="one token of the budget is set aside for every running request, including those in prefill",
    question="A request is still in prefill. What uses the token you set aside for it?",
)
known.change(
    "prompts-first",
    (
        "for request in turns]",
        "for request in turns[: max(0, token_budget - sum(request.num_uncomputed_tokens for request in prefilling))]]",
    ),
    fact="prompts are scheduled first, and decoding requests get what is left",
    question="A prompt of 1,000 tokens comes. What do the clients of the decoding requests see?",
)
known.change(
    "in-order-of-age",
    (WRITING, "[]"),
    fact="requests are scheduled by age alone, whether they prefill or decode",
    question="The oldest request prefills a long prompt. What is left for the younger ones that decode?",
)
known.change(
    "youngest-first",
    ("for request in prefilling:", "for request in reversed(prefilling):"),
    fact="the youngest prompt is scheduled first",
    question="Short prompts keep coming. When is the old, long one computed?",
)
known.change(
    "shortest-first",
    (
        "for request in prefilling:",
        "for request in sorted(prefilling, key=lambda request: request.num_uncomputed_tokens):",
    ),
    fact="the prompt with the fewest uncomputed tokens is scheduled first, whatever its age",
    question="Short prompts keep coming. When is the old, long one computed?",
)
known.change(
    "one-prompt-a-step",
    ("for request in prefilling:", "for request in prefilling[:1]:"),
    fact="a step schedules only one prompt, and the rest of the budget goes unused",
    question="The oldest prompt has two tokens left, and the budget eight. What uses the other six?",
)
known.change(
    "whole-prompts-that-fit",
    (COUNT, "count = request.num_uncomputed_tokens if request.num_uncomputed_tokens <= left else 0"),
    fact="a prompt is scheduled only if all of it fits into the remaining budget",
    question="When is a prompt scheduled that is longer than the budget?",
)
known.change(
    "shared-alike",
    (COUNT, "count = min(request.num_uncomputed_tokens, left, max(1, (token_budget - len(turns)) // len(prefilling)))"),
    fact="the prompts share the remaining budget equally",
    question="Two prompts of 40 tokens, and a budget of 8. When does the older one get its first token?",
)
known.change(
    "shared-token-by-token",
    (
        LEFT,
        f"{LEFT}\n"
        "longest = max((request.num_uncomputed_tokens for request in prefilling), default=0)\n"
        "rounds = [[r for r in prefilling if r.num_uncomputed_tokens > k] for k in range(longest)]\n"
        "shares = [request for each in rounds for request in each][:left]",
    ),
    (COUNT, "count = shares.count(request)"),
    fact="the prompts share the remaining budget equally",
    question="Two prompts of 40 tokens, and a budget of 8. When does the older one get its first token?",
)
known.change(
    "chunk-longer-than-unread",
    (COUNT, "count = left"),
    fact="the oldest prompt takes all of the remaining budget, even if it has fewer uncomputed tokens",
    question="A prompt has three uncomputed tokens, and the budget has eight left. Where does your chunk end?",
)
known.change(
    "one-more",
    (COUNT, "count = min(request.num_uncomputed_tokens, left + 1)"),
    fact="the last prompt gets one token more than the budget has left",
    question="Add up the tokens of a step's chunks. Is the sum ever above the budget?",
)
known.change(
    "left-not-lowered",
    ("left -= count", "pass"),
    fact="each prompt may use the budget that was left for the first one",
    question="After the first prompt has its chunk, how much is left for the second?",
)
known.change(
    "empty-chunks",
    ("if count:", "if True:"),
    fact="a request with no budget left gets a chunk of 0 tokens",
    question="What does the model do with a chunk of 0 tokens?",
)
known.change(
    "always-scored",
    (
        APPEND,
        "start = request.num_computed_tokens\n"
        "chunks.append(Chunk(request, start, request.tokens(start, start + count), 1))",
    ),
    fact="every chunk of a prompt has num_logits 1, so each one generates a token",
    question="Half of a prompt is computed. Should the model predict the token after that half?",
)
known.change(
    "never-scored",
    (
        APPEND,
        "start = request.num_computed_tokens\n"
        "chunks.append(Chunk(request, start, request.tokens(start, start + count), 0))",
    ),
    fact="no chunk of a prompt has num_logits 1, not even the last",
    question="A prompt's last token is computed. What samples the next one?",
)
known.change(
    "scored-if-it-fits-at-once",
    (
        APPEND,
        "start = request.num_computed_tokens\n"
        "chunks.append(Chunk(request, start, request.tokens(start, start + count), "
        "int(count == len(request.prompt))))",
    ),
    fact="a prompt has num_logits 1 only if one chunk holds all of it",
    question="A prompt was computed in three chunks. After which one is the next token sampled?",
)
known.change(
    "from-the-beginning",
    (APPEND, "chunks.append(Chunk(request, 0, request.tokens(0, count), int(count == request.num_tokens)))"),
    fact="every chunk starts at the prompt's first token",
    question="Six tokens of a prompt were computed in the last step. Which one does this step start with?",
)
known.change(
    "one-unread-is-writing",
    (WRITING, "[request for request in running if request.num_uncomputed_tokens == 1]"),
    fact="a prompt with one uncomputed token is treated as decoding and goes before older prompts",
    question="What distinguishes a decoding request from a prompt with one token left?",
)
known.change(
    "output-is-writing",
    (WRITING, "[request for request in running if request.output]"),
    fact="a request with output gets one token, even if it was preempted and must recompute everything",
    question="A request has five output tokens, none of them cached. How many tokens are uncomputed?",
)
known.change(
    "writers-over-the-budget",
    (TURNS, "decoding"),
    (LEFT, "left = max(0, token_budget - len(chunks))"),
    fact="every decoding request gets its token, even if there are more of them than the budget has",
    question="The budget is 2, and four requests decode. How many tokens may your step compute?",
)
known.change(
    "less-than-nothing-left",
    (TURNS, "sorted(decoding, key=lambda request: len(request.output))"),
    fact="every decoding request gets its token, and a prompt gets the negative rest of the budget",
    question="The budget is 2, and four requests decode. What is left, and what does a prompt do with that?",
)
known.change(
    "oldest-writers-only",
    (TURNS, "decoding[:token_budget]"),
    fact="the oldest are always chosen when more requests decode than the budget allows",
    question="The budget is 2, and four requests decode. When does the fourth get its next token?",
)
known.change(
    "youngest-of-equals",
    ("sorted(decoding,", "sorted(reversed(decoding),"),
    fact="of decoding requests with equal output, the youngest goes first",
    question="Two requests have three output tokens each, and one token is left. Which one gets it?",
)
known.change(
    "most-output-first",
    (TURNS, "sorted(decoding, key=lambda request: -len(request.output))[:token_budget]"),
    fact="those with the most output are chosen when more requests decode than the budget allows",
    question="By your rule, which request got the last token, and which gets the next one?",
)
known.change(
    "shortest-sequences-first",
    (TURNS, "sorted(decoding, key=lambda request: request.num_tokens)[:token_budget]"),
    fact="those with the fewest tokens, prompt and output, are chosen when more decode than the budget allows",
    question="One has 1,000 prompt tokens and one output token, the other ten and three. Which goes first?",
)
known.change(
    "no-writers-beside-prompts",
    (TURNS, "[] if prefilling else sorted(decoding, key=lambda request: len(request.output))[:token_budget]"),
    fact="no request decodes while there is a prompt to prefill",
    question="A prompt of 1,000 tokens comes. What do the clients of the decoding requests see?",
)
known.change(
    "no-prompts-beside-writers",
    (READING, "[] if decoding else [request for request in running if request not in decoding]"),
    fact="no prompt is scheduled while any request decodes",
    question="Three requests decode 500 tokens each. When does the fourth get its first token?",
)
known.change(
    "no-budget-taken",
    ("if token_budget < 1:", "if False:"),
    fact="a budget of 0 is accepted, and no request is ever served",
    question="What does the docstring say about a budget below 1?",
)
known.change(
    "zero-taken",
    ("if token_budget < 1:", "if token_budget < 0:"),
    fact="a budget of 0 is accepted, and only a negative one raises",
    question="How far does a prompt get in a thousand steps of 0 tokens?",
)


@known.accepted("in-one-go")
def one_loop(running, token_budget):
    if token_budget <= 0:
        raise ValueError(f"token_budget {token_budget}")
    chunks, prompts, writers = [], [], []
    for place, request in enumerate(running):
        if len(request.output) > 0 and request.num_computed_tokens == request.num_tokens - 1:
            writers.append((len(request.output), place))
        else:
            prompts.append(request)
    writers.sort()
    for _, place in writers[:token_budget]:
        request = running[place]
        chunks.append(
            Chunk(
                request,
                request.num_computed_tokens,
                request.tokens(request.num_computed_tokens, request.num_computed_tokens + 1),
                1,
            )
        )
    rest = token_budget - len(chunks)
    while rest and prompts:
        request = prompts.pop(0)
        take = request.num_uncomputed_tokens if request.num_uncomputed_tokens < rest else rest
        chunks.insert(0, next_chunk(request, take))
        rest -= take
    return chunks
