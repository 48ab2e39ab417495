"""Known programs of task 3.6.3, a draft model."""

import mlx.core as mx
from tests.week3.speculating import Writers, random_logits, table
from tiny_llm_solution.serving.request import Chunk, Request, SamplingParams
from tiny_llm_solution.speculative.draft_model import DraftModel
from tiny_llm_solution.speculative.drafter import Draft
from tiny_llm_solution.speculative.probabilities import DRAFT, probabilities, sample_from, uniforms

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.3")

VOCAB = 9
WARM = {"temp": 1.0, "seed": 5}
FILTERED = {"temp": 0.7, "top_k": 5, "top_p": 0.9, "seed": 8}
PENALIZED = {"temp": 1.2, "repetition_penalty": 3.0, "min_p": 0.05, "seed": 3}


def drafted(program, prompts, settings, script, *, seed=1, room=None, keep=None, eos=()):
    """Return all draft tokens, their probabilities, the token counts of each model call, and the cached lengths."""
    writers = Writers(
        program, Request, SamplingParams, prompts, settings, random_logits(seed, VOCAB), room, lenient=True, eos_ids=eos
    )
    tokens, rows, counted = [], [mx.zeros((0, VOCAB))], []
    for number, (counts, stands) in enumerate(script):
        if number == keep:
            writers.drafter.retain(writers.requests[1:])
            counted.append(writers.kv_cache.lengths)
        drafts = writers.draft(counts)
        for each in drafts:
            tokens.append([] if each is None else each.tokens)
            rows += [] if each is None or each.probabilities is None else [each.probabilities]
        counted.append([sum(writers.kv_cache.promised.values()), *writers.kv_cache.lengths])
        writers.write(drafts, stands, VOCAB)
    counted.append([request.num_computed_tokens for request in writers.requests])
    counted.append([len(request.prompt) for request in writers.requests])
    return table(tokens, 5), mx.concatenate(rows), table(writers.model.calls, 4), table(counted, 4)


@known.probe()
def draft_three(program):
    """Three requests with their own settings, and different counts."""
    prompts, settings = [[1, 2], [3, 4, 5, 6], [7]], [{}, WARM, {"temp": 0.5, "top_k": 3, "seed": 6}]
    script = [([2, 3, 1], 1), ([0, 2, 3], 2), ([None, 1, 2], 0), ([2, 2, 2], 1)]
    return drafted(program, prompts, settings, script, seed=4)


@known.probe()
def draft_asked_again(program):
    """Nothing is generated between two drafts."""
    writers = Writers(program, Request, SamplingParams, [[1, 2, 3]], [WARM], random_logits(5, VOCAB), lenient=True)
    found = [writers.draft([count])[0].tokens for count in (3, 3, 1)]
    return table(found, 5), table(writers.model.calls, 2)


@known.probe()
def draft_of_what_is_found(program):
    """The first two tokens of each sequence are cached already."""
    settings = [[1, 2, 3, 4], [5, 6]], [{}, WARM]
    writers = Writers(program, Request, SamplingParams, *settings, random_logits(7, VOCAB), lenient=True, found=2)
    found = [each.tokens for each in writers.draft([2, 3])]
    return table(found, 5), table(writers.model.calls, 2), mx.array(writers.kv_cache.lengths)


known.probe_table(
    sampled=lambda program: drafted(program, [[4, 2]], [FILTERED], [([4], 2), ([4], 4), ([3], 0)], seed=2),
    penalized=lambda program: drafted(program, [[4, 2, 4]], [PENALIZED], [([5], 3), ([4], 4)], seed=3),
    greedy=lambda program: drafted(
        program, [[1, 2, 3]], [{}], [([4], 0), ([0], 0), ([0], 0), ([3], 1), ([2], 2), ([1], 1)]
    ),
    let_go=lambda program: drafted(
        program, [[1, 2], [3, 4]], [{}, WARM], [([2, 2], 1), ([2, 2], 2), ([1, 2], 0)], seed=6, keep=1
    ),
    # Token 7 ends an output.
    ends=lambda program: drafted(program, [[1, 2, 3], [4, 5]], [{}, {}], [([5, 4], 0), ([4, 4], 1)], seed=7, eos=[7]),
    # There is capacity for the first request, but not for a long draft of the second, or for a third.
    little_room=lambda program: drafted(
        program, [[1, 2, 3], [4, 5], [6]], [{}, {}, {}], [([2, 9, 2], 1), ([2, 2, 1], 1)], seed=7, room=9
    ),
)


known.not_timed("the draft model takes nearly all of the time")

known.change(
    "last-token-alone",
    (
        "own.prompt, own.num_computed_tokens = text, right",
        "own.prompt, own.num_computed_tokens = text, len(text) - 1 if own.num_computed_tokens else right",
    ),
    fact="only the sequence's last token is computed, even if the last draft token was never computed either",
    question="All of the draft `a b c` was accepted, then `x`. Which of these four are in the draft model's KV cache?",
)
known.change(
    "refused-tokens-kept",
    (" and own.prompt[right] == text[right]", ""),
    fact="the KV cache is truncated to the length of the sequence alone, whether or not its tokens are the sequence's",
    question="`dog sat down` was drafted; without drafts, the output became `cat ran off`. What is in your KV cache?",
)
known.change(
    "memory-not-shortened",
    ("if right < own.num_computed_tokens:\n    self.kv_cache.truncate(own, right)", "pass"),
    fact="the KV cache is never truncated, so rejected tokens stay before the next ones",
    question="You lower num_computed_tokens. How does the KV cache learn of it?",
)
known.change(
    "reads-all-anew",
    ("while right < min(own.num_computed_tokens, len(text) - 1) and own.prompt[right] == text[right]:", "while False:"),
    fact="every draft recomputes the whole sequence",
    question="How many of 500 tokens are new since the last draft?",
)
known.change(
    "accepted-tokens-dropped",  # max_tokens, which nothing else uses here, holds the length before the draft
    ("Request(list(text), request.max_tokens)", "Request(list(text), len(text))"),
    ("min(own.num_computed_tokens, len(text) - 1)", "min(own.num_computed_tokens, len(text) - 1, own.max_tokens)"),
    (
        "own.prompt, own.num_computed_tokens = text, right",
        "own.max_tokens, own.prompt, own.num_computed_tokens = len(text), text, right",
    ),
    fact="a whole draft is removed from the KV cache, even the tokens that were accepted",
    question="Two of four draft tokens were accepted. Which tokens does the draft model compute next?",
)
known.change(
    "found-and-read-anew",
    ("self._ours[request] = own", "own.num_computed_tokens = 0\nself._ours[request] = own"),
    fact="prefix tokens that the KV cache found on admission are recomputed",
    question="A prefix cache sets num_computed_tokens to what it found. How much is left to compute?",
)
known.change(
    "last-token-not-read-again",
    ("min(own.num_computed_tokens, len(text) - 1)", "min(own.num_computed_tokens, len(text))"),
    fact="the model is called with no tokens if the whole sequence is already computed",
    question="After which token do you need logits, and which token must the call contain for that?",
)
known.change(
    "probabilities-before-the-filters",
    ("for i, chunk, row in zip(writing, chunks, found, strict=True):",
     "for i, chunk, row, plain in zip(writing, chunks, found, mx.softmax(logits, axis=-1), strict=True):"),
    ("rows[i].append(row)", "rows[i].append(plain)"),
    fact="the draft's probabilities are those before temperature and filters",
    question="top_k is 1. With what probability was the token sampled?",
)  # fmt: skip
known.change(
    "temperature-alone",
    (
        "[requests[i].params for i in writing]",
        "[type(requests[i].params)(temp=requests[i].params.temp) for i in writing]",
    ),
    fact="the request's temperature applies, but none of its filters",
    question="Which of the request's params does the target model sample with?",
)
known.change(
    "likeliest-always",
    ("sample_from(row, draw)", "int(mx.argmax(row))"),
    fact="the argmax is drafted, while the probabilities claim that it was sampled",
    question="If you always draft the same token, with what probability was it sampled?",
)
known.change(
    "one-place-for-all",
    ("len(requests[i].output) + number", "len(requests[i].output)"),
    fact="all tokens of a draft use the uniform sample of its first position",
    question="What does `uniforms` return for the same seed and the same position?",
)
known.change(
    "all-numbers-at-once",
    (
        "(draw,) = uniforms(requests[i].params.seed, len(requests[i].output) + number, 1, DRAFT)",
        "draw = uniforms(requests[i].params.seed, len(requests[i].output), counts[i], DRAFT)[number]",
    ),
    fact="all uniform samples of a draft come from one call at its first position",
    question="The third draft token is rejected, and drafted again in the next step. Does it get the same u?",
)
known.change(
    "place-in-the-whole-text",
    ("len(requests[i].output) + number", "requests[i].num_tokens + number"),
    fact="positions are counted from the start of the prompt",
    question="What is the position of the first output token?",
)
known.change(
    "numbers-of-the-judge",
    ("1, DRAFT)", "1, DRAFT + 1)"),
    fact="tokens are drafted with the same uniform samples that verify them",
    question="A token was selected because u is large. What happens if the same u verifies it?",
)
known.change(
    "penalty-without-the-draft",
    ("[chunk.request.prompt for chunk in chunks]", "[requests[i].tokens(0, requests[i].num_tokens) for i in writing]"),
    fact="the repetition penalty ignores the draft tokens so far",
    question="The second draft token is verified after the first. Which tokens will the target's penalty see?",
)
known.change(
    "params-of-the-first",
    ("[requests[i].params for i in writing]", "[requests[writing[0]].params for i in writing]"),
    fact="all drafts use the first request's params",
    question="Whose params belong to which row?",
)
known.change(
    "params-by-row",
    ("[requests[i].params for i in writing]", "[requests[row].params for row in range(len(writing))]"),
    fact="row i of a call uses the params of request i, even if an earlier request is not in the call",
    question="The first of three requests wants no more tokens. Whose row is the first one then?",
)
known.change(
    "one-position-too-far",
    ("len(requests[i].output) + number, 1", "len(requests[i].output) + number + 1, 1"),
    fact="each draft token is sampled with the uniform sample of the position after its own",
    question="Nothing has been generated yet. Which position has the first draft token?",
)
known.change(
    "past-the-end",
    ("ended[i] = drawn[i][-1] in requests[i].eos_ids", "pass"),
    fact="drafts go on after an end token",
    question="The draft model proposes a token of `eos_ids`. Which tokens after it can be used?",
)
known.change(
    "end-token-left-out",
    (
        "ended[i] = drawn[i][-1] in requests[i].eos_ids\nchunk.request.num_computed_tokens = chunk.end",
        """
        ended[i] = drawn[i][-1] in requests[i].eos_ids
        chunk.request.num_computed_tokens = chunk.end
        if ended[i]:
            del drawn[i][-1], rows[i][-1]
            continue
        """,
    ),
    fact="a draft ends before an end token instead of with it",
    question="The target would accept the end token. If the draft lacks it, how many more steps does the request take?",
)
known.change(
    "rows-past-the-end",
    ("ended[i] = drawn[i][-1] in requests[i].eos_ids", "pass"),
    (
        "return [Draft(tokens, mx.stack(own)) if tokens else Draft() for tokens, own in zip(drawn, rows, strict=True)]",
        """
        for request, tokens in zip(requests, drawn):
            ends = [after for after, token in enumerate(tokens, 1) if token in request.eos_ids]
            del tokens[ends[0] if ends else len(tokens) :]
        return [Draft(tokens, mx.stack(own)) if tokens else Draft() for tokens, own in zip(drawn, rows, strict=True)]
        """,
    ),
    fact="the tokens after an end token are dropped, and their rows of probabilities are not",
    question="A draft has two tokens. How many rows of probabilities does `accept` take with it?",
)
known.change(
    "no-drafts-unless-all-fit",
    (
        "drawn: list[list[int]] = [[] for _ in requests]",
        """
        if any(own is None for own, count in zip(ours, counts, strict=True) if count):
            return [Draft() for _ in requests]
        drawn: list[list[int]] = [[] for _ in requests]
        """,
    ),
    fact="no request gets a draft if the KV cache lacks capacity for one of them",
    question="There is no capacity for the second request. Why should that affect the first?",
)
known.change(
    "largest-count-for-all",
    ("if number < count and not ended[i]]", "if not ended[i]]"),
    fact="every request gets as many draft tokens as the largest count",
    question="One request wants two tokens, the other four. Which requests are in the third call?",
)
known.change(
    "room-not-asked-for",
    ("return own if self.kv_cache.reserve(own, own.num_uncomputed_tokens + count - 1) else None", "return own"),
    fact="no KV slots are reserved",
    question="What tells you whether a page is free for your tokens?",
)
known.change(
    "room-for-the-unread-alone",
    ("own.num_uncomputed_tokens + count - 1", "own.num_uncomputed_tokens"),
    fact="slots are reserved for the uncomputed tokens only, not for the draft tokens",
    question="Of four draft tokens, how many does the draft model compute itself?",
)
known.change(
    "nothing-let-go",
    ("self.kv_cache.release(self._ours.pop(request))", "pass"),
    fact="retain releases no request",
    question="After a thousand requests, how many does your KV cache hold?",
)
known.change(
    "forgotten-but-not-released",
    ("self.kv_cache.release(self._ours.pop(request))", "self._ours.pop(request)"),
    fact="retain forgets a request without releasing its KV cache",
    question="You no longer know the request. Does the KV cache know that it may free its pages?",
)


@known.wrong(
    "one-after-the-other",
    fact="each request has its own model calls",
    question="What does one model call for eight requests cost, and what do eight calls cost?",
)
class OneAfterTheOther(DraftModel):
    together = DraftModel.propose

    def propose(self, requests, counts):
        return [self.together([request], [count])[0] for request, count in zip(requests, counts, strict=True)]


@known.wrong(
    "reads-the-last-one-too",
    fact="the draft model also computes the last draft token, whose logits are never used",
    question="Four tokens are wanted. How many calls of the model does that take?",
)
class ReadsTheLastOneToo(DraftModel):
    plain = DraftModel.propose

    def propose(self, requests, counts):
        found = self.plain(requests, [count + 1 if count else 0 for count in counts])
        pairs = zip(found, counts, strict=True)
        return [Draft(each.tokens[:n], each.probabilities[:n]) if each.tokens else each for each, n in pairs]


@known.accepted("counts beside the requests")
class CountsBeside:
    def __init__(self, model, kv_cache):
        self.model, self.kv_cache, self.held = model, kv_cache, {}

    def propose(self, requests, counts):
        drafts = [([], []) for _ in requests]
        texts = [request.prompt + request.output for request in requests]
        wanted = dict(enumerate(counts))
        for i, request in enumerate(requests):
            if not counts[i]:
                continue
            if request not in self.held:
                before = request.num_computed_tokens
                begun = self.kv_cache.admit(request)
                found, request.num_computed_tokens = request.num_computed_tokens, before
                if not begun:
                    wanted[i] = 0
                    continue
                self.held[request] = texts[i][:found]
            held = self.held[request]
            same = next(
                (at for at, pair in enumerate(zip(held, texts[i], strict=False)) if pair[0] != pair[1]), len(held)
            )
            same = min(same, len(texts[i]) - 1)
            if same != len(held):
                self.kv_cache.truncate(request, same)
            self.held[request] = texts[i][:same]
            if not self.kv_cache.reserve(request, len(texts[i]) + counts[i] - 1 - same):
                wanted[i] = 0
        while any(wanted.values()):
            writing = [i for i in wanted if wanted[i]]
            chunks = []
            for i in writing:
                held = self.held[requests[i]]
                chunks.append(Chunk(requests[i], len(held), texts[i][len(held) :], 1))
            found = probabilities(
                self.model(chunks, self.kv_cache), [requests[i].params for i in writing], [texts[i] for i in writing]
            )
            for row, i in enumerate(writing):
                self.held[requests[i]] = list(texts[i])
                place = len(requests[i].output) + len(drafts[i][0])
                token = sample_from(found[row], uniforms(requests[i].params.seed, place, 1, DRAFT)[0])
                drafts[i][0].append(token)
                drafts[i][1].append(found[row])
                texts[i].append(token)
                wanted[i] = 0 if token in requests[i].eos_ids else wanted[i] - 1
        return [Draft(tokens, mx.stack(rows)) if tokens else Draft() for tokens, rows in drafts]

    def retain(self, running):
        for request in list(self.held):
            if request not in running:
                del self.held[request]
                self.kv_cache.release(request)
