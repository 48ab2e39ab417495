"""Known programs of task 3.6.4, drafts in the scheduler's loop."""

import mlx.core as mx
import numpy as np
from tests.week3.speculating import Notes, Scripted, Told, mixed, random_logits, table
from tiny_llm_solution.serving.policies import unchunked_prefill
from tiny_llm_solution.serving.request import Chunk, Request, SamplingParams, next_chunk
from tiny_llm_solution.serving.scheduler import Scheduler
from tiny_llm_solution.speculative.acceptance import accept
from tiny_llm_solution.speculative.drafter import Draft
from tiny_llm_solution.speculative.probabilities import VERIFY, probabilities, uniforms

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.4")

VOCAB = 7
PENALIZED = {"temp": 1.0, "repetition_penalty": 2.5, "seed": 4}
FILTERED = {"temp": 0.8, "top_k": 4, "seed": 9}


def guesses(logits, sampled=False, fewer=0):
    """A drafter's proposal: the argmax of some logits, or one-hot tokens with their own rows."""

    def propose(text, count):
        tokens, rows = [], []
        for _ in range(max(0, count - fewer)):
            numbers = logits([*text, *tokens])
            rows.append(np.exp(numbers) / np.exp(numbers).sum())
            chance = np.random.default_rng([len(text), len(tokens)]).random()
            drawn = int(np.searchsorted(np.cumsum(rows[-1]), chance)) if sampled else int(np.argmax(numbers))
            tokens.append(min(drawn, len(numbers) - 1))
        return tokens, rows if sampled and rows else None

    return propose


def request_of(prompt, output, settings, most=50):
    made = Request(list(prompt), most, SamplingParams(**settings))
    made.output, made.num_computed_tokens = list(output), len(prompt) + len(output) - 1
    return made


def in_pieces(running, budget):
    """At most three tokens of each."""
    return [next_chunk(request, min(3, request.num_uncomputed_tokens)) for request in running]


def without_the_first(running, budget):
    """Nothing of the first request."""
    return [next_chunk(request, request.num_uncomputed_tokens) for request in running[1:]]


def chunk_table(chunks):
    return table([[chunk.start, chunk.num_logits, *chunk.tokens] for chunk in chunks], 9)


def planned(program, budgets, *, most=(50, 50, 50), inner=None, fewer=0, unread=1):
    """Return a policy's chunks, the drafter's arguments, and the inner policy's budgets."""
    drafter, noted = Scripted(Draft, guesses(random_logits(1, VOCAB), fewer=fewer)), []

    def noting(running, budget):
        noted.append(budget)
        return inner(running, budget)

    speculation = program(drafter, 3, noting) if inner else program(drafter, 3)
    requests = [
        request_of([1, 2], [3], {}, most[0]),
        request_of([4], [5, 6], {}, most[1]),
        request_of([2], [], {}, most[2]),
    ]
    requests[2].num_computed_tokens, requests[2].prompt = 0, [2, 5, 1, 1][: unread + 1]
    tables = [chunk_table(speculation.plan(requests[: 3 if unread else 2], budget)) for budget in budgets]
    order = [each == "keep" for each in drafter.order]
    return *tables, table(drafter.asked, 3), mx.array(drafter.kept), mx.array(order), mx.array(noted)


def chosen(program, settings, *, seed, sampled=True, missing=(), rounds=1):
    """Return what is sampled after scheduling, for random logits; some chunks are missing."""
    drafter = Scripted(Draft, guesses(random_logits(seed, VOCAB, spread=0.7), sampled))
    speculation, found = program(drafter, 3), []
    requests = [request_of([1, 2, i], [i, 3], each) for i, each in enumerate(settings)]
    for number in range(rounds):
        chunks = speculation.plan(requests, 100)
        chunks = [chunk for i, chunk in enumerate(chunks) if i not in missing]
        told = mixed(random_logits(seed, VOCAB, spread=0.7), random_logits(seed + 50, VOCAB))
        rows = [
            told([*chunk.request.tokens(0, chunk.start), *chunk.tokens][: chunk.end - behind])
            for chunk in chunks
            for behind in reversed(range(chunk.num_logits))
        ]
        found += speculation.sample(mx.array(np.array(rows, np.float32)), chunks)
        for request in requests:
            request.params = SamplingParams(**{**vars(request.params), "seed": number + 20})
    return table(found, 4), mx.array([speculation.num_draft_tokens, speculation.num_accepted_tokens])


def served(
    program, prompts, settings, *, seed, count=3, budget=30, limit=9, eos=(), inner=None, sampled=True, off=False
):
    """Return all outputs, each step's computed and new tokens, and the cached lengths after it."""
    large = random_logits(seed, VOCAB, spread=1.2)
    small = random_logits(seed + 9, VOCAB) if off else mixed(large, random_logits(seed + 9, VOCAB))
    drafter, kv_cache = Scripted(Draft, guesses(small, sampled)), Notes(lenient=True)
    speculation = program(drafter, count, inner) if inner else program(drafter, count)
    loop = Scheduler(
        Told(large),
        kv_cache,
        max_num_seqs=2,
        max_num_batched_tokens=budget,
        policy=speculation.plan,
        sampler=speculation.sample,
    )
    requests = [Request(list(p), limit, SamplingParams(**s), eos) for p, s in zip(prompts, settings, strict=True)]
    for each in requests:
        loop.submit(each)
    read, held = [], []
    for _ in range(40):
        if not loop.running and not loop.waiting:
            break
        step = loop.step()
        read.append([len(chunk.tokens) for chunk in step.chunks])
        held.append(kv_cache.lengths)
    return (
        table([r.output for r in requests], limit),
        table(read, 2),
        table(held, 2),
        mx.array([speculation.num_draft_tokens]),
    )


@known.probe()
def loop_choice_penalized(program):
    """The same logits everywhere, of which the penalty leaves a different token each time; the drafter knows."""
    drafter = Scripted(Draft, lambda text, count: ([0, 1, 2][:count], None))
    speculation, found = program(drafter, 3), []
    for penalty in (1.2, 2.0, 5.0):
        request = request_of([3], [4], {"repetition_penalty": penalty})
        chunks = speculation.plan([request], 100)
        found += speculation.sample(mx.array([[7.0, 6.5, 6.0, 5.5, 5.0, 4.5]] * chunks[0].num_logits), chunks)
    return table(found, 4)


@known.probe()
def loop_choice_penalized_text(program):
    """Nothing is drafted, and the penalty lowers the request's own tokens."""
    speculation, found = program(Scripted(Draft, lambda text, count: ([], None)), 3), []
    for penalty in (1.0, 1.2, 5.0):
        chunks = speculation.plan([request_of([0], [1], {"repetition_penalty": penalty})], 100)
        found += speculation.sample(mx.array([[7.0, 6.5, 6.0, 5.5, 5.0, 4.5]] * chunks[0].num_logits), chunks)
    return table(found, 4)


known.probe_table(
    budgets=lambda program: planned(program, [100, 9, 6, 5, 3, 1, 40]),
    last_tokens=lambda program: planned(program, [100, 6], most=(2, 4, 1)),
    few_proposed=lambda program: planned(program, [100, 7], fewer=2),
    pieces_of_a_prompt=lambda program: planned(program, [100, 8], inner=in_pieces, unread=3),
    one_left_out=lambda program: planned(program, [100, 8, 4], inner=without_the_first),
    nothing_wanted=lambda program: planned(program, [2, 100, 2], most=(50, 3, 50), unread=0),
    choice=lambda program: chosen(
        program, [{"seed": 1}, FILTERED, PENALIZED, {"temp": 1.0, "seed": 2}], seed=1, rounds=4
    ),
    choice_alone=lambda program: chosen(program, [{"temp": 1.0, "seed": 6}], seed=2, rounds=6),
    choice_certain=lambda program: chosen(
        program, [PENALIZED, {"temp": 1.0, "seed": 3}], seed=3, sampled=False, rounds=4
    ),
    choice_missing=lambda program: chosen(
        program, [{"seed": 1}, FILTERED, {"seed": 2}], seed=4, missing=(0,), rounds=2
    ),
    # Greedy, with a drafter that is often right; the third request waits.
    texts=lambda program: served(program, [[1, 2], [3], [4, 5, 6]], [{}, {}, {}], seed=5, sampled=False),
    texts_drawn=lambda program: served(
        program, [[1, 2, 3, 4, 5], [3]], [FILTERED, PENALIZED], seed=6, inner=in_pieces, eos=(6,)
    ),
)


known.not_timed("the models take nearly all of the time")

known.change(
    "budget-left-aside",
    ("min(self.num_speculative_tokens, needed, left)", "min(self.num_speculative_tokens, needed)"),
    fact="as many tokens are drafted as num_speculative_tokens, whatever the token budget",
    question="The budget is 5, and two requests decode. How many tokens does your step compute?",
)
known.change(
    "budget-for-each",
    ("left -= count", "pass"),
    fact="each request may use all of the remaining budget",
    question="Three tokens are left, and the first request takes them. What is left for the second?",
)
known.change(
    "own-tokens-not-counted",
    ("left = token_budget - sum(len(chunk.tokens) for chunk in chunks)", "left = token_budget"),
    fact="only draft tokens count against the budget",
    question="Two requests decode, and the budget is 2. Is any budget left for a draft?",
)
known.change(
    "past-max-tokens",
    ("min(self.num_speculative_tokens, needed, left)", "min(self.num_speculative_tokens, left)"),
    fact="the draft length ignores how many tokens max_tokens still allows",
    question="A request may generate one more token. Which draft token can be of use?",
)
known.change(
    "one-too-many",
    ("len(chunk.request.output) - 1", "len(chunk.request.output)"),
    fact="as many tokens are drafted as max_tokens still allows, and the step adds one more",
    question="Three tokens may still be generated. If two draft tokens are accepted, how many does the step return?",
)
known.change(
    "prompt-counts-as-output",
    ("len(chunk.request.output) - 1", "chunk.request.num_tokens - 1"),
    fact="the prompt's tokens count towards max_tokens, so fewer tokens are drafted",
    question="The prompt has ten tokens, the output one, and max_tokens is 8. How many may still be generated?",
)
known.change(
    "within-a-prompt",
    ("if chunk.num_logits and count > 0:", "if count > 0:"),
    fact="tokens are also drafted after a prefill chunk that does not end the prompt",
    question="After `Once upon` the prompt continues. Whose tokens are next?",
)
known.change(
    "scored-as-before",
    ("chunk.num_logits + len(drafted)", "chunk.num_logits"),
    fact="chunks contain draft tokens but still request logits for one row",
    question="After how many of the chunk's tokens must the target model predict the next one?",
)
known.change(
    "drafted-tokens-scored",
    ("chunk.num_logits + len(drafted)", "len(drafted) or chunk.num_logits"),
    fact="num_logits is the number of draft tokens, without the row before them",
    question="Which row decides whether the first draft token is accepted?",
)
known.change(
    "scored-as-wanted",
    (
        "self._drafts = dict(zip(wanted, drafts, strict=True))",
        "self._drafts, self._wanted = dict(zip(wanted, drafts, strict=True)), wanted",
    ),
    ("chunk.num_logits + len(drafted)", "chunk.num_logits + self._wanted.get(chunk.request, 0)"),
    fact="num_logits counts the requested draft tokens, even if the drafter proposed fewer",
    question="Three draft tokens were requested, and one was proposed. After how many tokens are logits needed?",
)
known.change(
    "scored-as-wanted-if-any",
    (
        "self._drafts = dict(zip(wanted, drafts, strict=True))",
        "self._drafts, self._wanted = dict(zip(wanted, drafts, strict=True)), wanted",
    ),
    ("chunk.num_logits + len(drafted)", "chunk.num_logits + (self._wanted[chunk.request] if drafted else 0)"),
    fact="num_logits counts the requested draft tokens, even if only some of them were proposed",
    question="Three draft tokens were requested, and one was proposed. After how many tokens are logits needed?",
)
known.change(
    "negative-count",
    ("if chunk.num_logits and count > 0:", "if chunk.num_logits and count:"),
    fact="the drafter gets a negative count when the chunks exceed the budget",
    question="Three requests decode with a budget of 2. How many draft tokens does the first get?",
)
known.change(
    "draft-in-front",
    ("chunk.tokens + drafted", "drafted + chunk.tokens"),
    fact="the draft tokens precede the chunk's own tokens",
    question="Which token is already part of the output, and what is its position?",
)
known.change(
    "retain-not-called",
    ("self.drafter.retain(running)", "pass"),
    fact="the drafter's retain is never called",
    question="How does a draft model learn that a request has finished?",
)
known.change(
    "retain-after-propose",
    ("self.drafter.retain(running)", "pass"),
    ("drafts, strict=True))", "drafts, strict=True))\nself.drafter.retain(running)"),
    fact="the drafter's retain is called only after propose",
    question="A request has finished, and another needs its slots in the draft's KV cache. When are they free?",
)
known.change(
    "asked-one-by-one",
    ("self.drafter.propose(list(wanted), list(wanted.values())) if wanted else []",
     "[self.drafter.propose([each], [count])[0] for each, count in wanted.items()]"),
    fact="propose is called once per request instead of once per step",
    question="A draft model computes one token of eight requests in one call. How many calls does it need here?",
)  # fmt: skip
known.change(
    "last-chunk-first",
    (
        """
        for chunk in chunks:
            needed = chunk.request.max_tokens - len(chunk.request.output) - 1
        """,
        """
        for chunk in reversed(chunks):
            needed = chunk.request.max_tokens - len(chunk.request.output) - 1
        """,
    ),
    fact="the budget is handed out from the last chunk to the first",
    question="Which has waited longer: the first running request, or the last?",
)
known.change(
    "drafts-of-earlier-steps",
    ("self._drafts = dict(zip(wanted, drafts, strict=True))", "self._drafts.update(zip(wanted, drafts, strict=True))"),
    fact="an earlier step's draft is appended again if nothing new is proposed",
    question="After which sequence was that draft proposed?",
)
known.change(
    "no-token-besides",
    ("return [*draft.tokens[:accepted], token]", "return draft.tokens[:accepted] or [token]"),
    fact="the token after the accepted ones is returned only if none was accepted",
    question="All four are accepted, and the target model has predicted the token after them. How many tokens is that?",
)
known.change(
    "all-drafted-given",
    ("[*draft.tokens[:accepted], token]", "[*draft.tokens, token]"),
    fact="all draft tokens are returned, accepted or not",
    question="What is the first number that accept returns?",
)
known.change(
    "greedy-without-params",
    ("own = target[at", "own = (target if chunk.request.params.temp else logits)[at"),
    fact="greedy requests use the argmax of the raw logits, without their repetition penalty",
    question="temp is 0, and the penalty is 2. Which token is the likeliest then?",
)
known.change(
    "penalty-sees-the-text-alone",
    ("chunk.tokens[: end - chunk.start]", "chunk.tokens[: len(chunk.tokens) - chunk.num_logits + 1]"),
    fact="the penalty ignores the draft tokens before a row",
    question="Without drafts, which tokens would precede the third one when it is sampled?",
)
known.change(
    "penalty-sees-the-verified-token",
    ("chunk.tokens[: end - chunk.start]", "chunk.tokens[: end - chunk.start + 1]"),
    fact="each row's penalty also sees the draft token that the row verifies",
    question="Without drafts, which tokens would precede the first one when it is sampled?",
)
known.change(
    "penalty-sees-the-whole-draft",
    ("chunk.tokens[: end - chunk.start]", "chunk.tokens"),
    fact="every row's penalty sees all draft tokens, including later ones",
    question="Without drafts, which tokens would precede the first one when it is sampled?",
)
known.change(
    "params-of-the-first",
    ("[chunk.request.params for chunk, _ in rows]", "[rows[0][0].request.params for _ in rows]"),
    fact="all requests are verified with the first request's params",
    question="Whose params belong to which row?",
)
known.change(
    "temperature-alone",
    (
        "[chunk.request.params for chunk, _ in rows]",
        "[type(c.request.params)(temp=c.request.params.temp) for c, _ in rows]",
    ),
    fact="the target's probabilities lack the filters and the penalty",
    question="top_k is 4. Which tokens can your target rows produce?",
)
known.change(
    "first-rows-for-all",
    ("target[at : (at := at + chunk.num_logits)]", "target[: chunk.num_logits]"),
    fact="every chunk is verified with the first chunk's rows",
    question="Where do the second chunk's rows start?",
)
known.change(
    "one-number-for-all",
    ("len(request.output), chunk.num_logits, VERIFY)", "len(request.output), 1, VERIFY) * chunk.num_logits"),
    fact="one uniform sample verifies all of a chunk's tokens and samples the next one",
    question="How many uniform samples does accept take, and may they depend on each other?",
)
known.change(
    "numbers-of-the-drafter",
    ("chunk.num_logits, VERIFY)", "chunk.num_logits, VERIFY - 1)"),
    fact="tokens are verified with the same uniform samples that drafted them",
    question="A token was selected because u is large. What happens if the same u verifies it?",
)
known.change(
    "position-in-the-sequence",
    ("len(request.output), chunk.num_logits, VERIFY)", "request.num_tokens, chunk.num_logits, VERIFY)"),
    fact="uniforms is called with the number of the sequence's tokens, prompt included",
    question="The prompt has five tokens. At which position of the output is the first new token?",
)
known.change(
    "position-0",
    ("len(request.output), chunk.num_logits, VERIFY)", "0, chunk.num_logits, VERIFY)"),
    fact="every step of a request verifies with the same uniform samples",
    question="The first u of a request is 0.9. How often does it accept a token with p / q of 0.8?",
)
known.change(
    "drafts-by-index",
    (
        "return [self._with_draft(chunk) for chunk in chunks]",
        """
        self._in_order = [self._drafts.get(chunk.request, Draft()) for chunk in chunks]
        return [self._with_draft(chunk) for chunk in chunks]
        """,
    ),
    ("self._verify(own, chunk) if", "self._verify(own, chunk, self._in_order[len(chosen)]) if"),
    ("target: mx.array, chunk: Chunk) -> list[int]:", "target: mx.array, chunk: Chunk, draft: Draft) -> list[int]:"),
    ("request, draft = chunk.request, self._drafts.get(chunk.request, Draft())", "request = chunk.request"),
    fact="a chunk is verified with the draft of the plan's chunk with the same index, whichever chunks are missing",
    question="The plan's first request was preempted. Whose chunk is the first one in sample, and whose draft?",
)
known.change(
    "drafts-taken-for-certain",
    ("draft.rows(target.shape[1])", "Draft(draft.tokens).rows(target.shape[1])"),
    fact="every draft token is verified as if its draft probability were 1",
    question="A token was drafted with 0.3, and the target gives it 0.3. How often should it be accepted?",
)
known.change(
    "counted-with-the-plan",
    ("self.num_draft_tokens += len(draft.tokens)\n", ""),
    (
        "return [self._with_draft(chunk) for chunk in chunks]",
        """
        self.num_draft_tokens += sum(len(draft.tokens) for draft in self._drafts.values())
        return [self._with_draft(chunk) for chunk in chunks]
        """,
    ),
    fact="num_draft_tokens counts what was scheduled, even if it was never verified",
    question="A request is preempted between scheduling and sampling. Was its draft verified?",
)


known.accepted_change(
    "propose called without requests too",
    (
        "self.drafter.propose(list(wanted), list(wanted.values())) if wanted else []",
        "self.drafter.propose(list(wanted), list(wanted.values()))",
    ),
)


@known.accepted("judged chunk by chunk")
class ChunkByChunk:
    def __init__(self, drafter, num_speculative_tokens=4, inner=unchunked_prefill):
        self.drafter, self.num_speculative_tokens, self.inner = drafter, num_speculative_tokens, inner
        self.num_draft_tokens, self.num_accepted_tokens, self.pending = 0, 0, {}

    def plan(self, running, budget):
        self.drafter.retain(running)
        chunks, asked = self.inner(running, budget), []
        for chunk in chunks:
            budget -= len(chunk.tokens)
        for chunk in chunks:
            request = chunk.request
            share = max(0, min(budget, self.num_speculative_tokens, request.max_tokens - 1 - len(request.output)))
            if chunk.num_logits == 1 and share:
                asked.append((request, share))
                budget -= share
        self.pending = {}
        if asked:
            requests, counts = map(list, zip(*asked, strict=True))
            for request, draft in zip(requests, self.drafter.propose(requests, counts), strict=True):
                self.pending[request] = draft
        found = []
        for chunk in chunks:
            if draft := self.pending.get(chunk.request):
                chunk = Chunk(chunk.request, chunk.start, [*chunk.tokens, *draft.tokens], 1 + len(draft.tokens))
            found.append(chunk)
        return found

    def sample(self, logits, chunks):
        found = []
        for chunk in chunks:
            own, logits = logits[: chunk.num_logits], logits[chunk.num_logits :]
            found.append([])
            if chunk.num_logits:
                request = chunk.request
                text = request.prompt + request.output
                drafted = chunk.tokens[len(text) - chunk.start :]
                seen = [text + drafted[:i] for i in range(chunk.num_logits)]
                target = probabilities(own, [request.params] * chunk.num_logits, seen)
                draft = self.pending[request].rows(target.shape[1]) if drafted else mx.zeros((0, target.shape[1]))
                draws = uniforms(request.params.seed, len(request.output), chunk.num_logits, VERIFY)
                count, token = accept(target, draft, drafted, draws)
                self.num_draft_tokens += len(drafted)
                self.num_accepted_tokens += count
                found[-1] = [*drafted[:count], token]
        return found
