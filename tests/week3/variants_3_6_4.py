"""Known programs of task 3.6.4, drafts in the scheduler's loop."""

import mlx.core as mx
import numpy as np
from tests.week3.speculating import Notes, Scripted, Told, mixed, random_logits, table
from tiny_llm_solution.serving.plans import whole_prompts
from tiny_llm_solution.serving.request import Chunk, Request, SamplingParams, next_chunk
from tiny_llm_solution.serving.scheduler import Scheduler
from tiny_llm_solution.speculative.acceptance import accept
from tiny_llm_solution.speculative.chances import JUDGING, probabilities, uniforms
from tiny_llm_solution.speculative.drafts import Draft

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.4")

VOCAB = 7
PENALISED = {"temp": 1.0, "repetition_penalty": 2.5, "seed": 4}
FILTERED = {"temp": 0.8, "top_k": 4, "seed": 9}


def guesses(logits, sampled=False, fewer=0):
    """What a drafter proposes: by greedy choices of some logits, or certain ones with rows of their own."""

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
    made.output, made.read = list(output), len(prompt) + len(output) - 1
    return made


def in_pieces(running, budget):
    """Three tokens of each at most."""
    return [next_chunk(request, min(3, request.unread)) for request in running]


def without_the_first(running, budget):
    """Nothing of the first one."""
    return [next_chunk(request, request.unread) for request in running[1:]]


def chunk_table(chunks):
    return table([[chunk.start, chunk.scored, *chunk.tokens] for chunk in chunks], 9)


def planned(program, budgets, *, most=(50, 50, 50), inner=None, fewer=0, unread=1):
    """The chunks of a plan, what the drafter was asked, whom it was to keep, and the budgets of the inner plan."""
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
    requests[2].read, requests[2].prompt = 0, [2, 5, 1, 1][: unread + 1]
    tables = [chunk_table(speculation.plan(requests[: 3 if unread else 2], budget)) for budget in budgets]
    order = [each == "keep" for each in drafter.order]
    return *tables, table(drafter.asked, 3), mx.array(drafter.kept), mx.array(order), mx.array(noted)


def chosen(program, settings, *, seed, sampled=True, missing=(), rounds=1):
    """What is chosen after a plan, for logits that are drawn; some chunks are missing."""
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
            for behind in reversed(range(chunk.scored))
        ]
        found += speculation.choose(mx.array(np.array(rows, np.float32)), chunks)
        for request in requests:
            request.params = SamplingParams(**{**vars(request.params), "seed": number + 20})
    return table(found, 4), mx.array([speculation.drafted, speculation.accepted])


def served(
    program, prompts, settings, *, seed, count=3, budget=30, limit=9, eos=(), inner=None, sampled=True, off=False
):
    """All texts, what each step has read and gained, and what memory has after it."""
    large = random_logits(seed, VOCAB, spread=1.2)
    small = random_logits(seed + 9, VOCAB) if off else mixed(large, random_logits(seed + 9, VOCAB))
    drafter, memory = Scripted(Draft, guesses(small, sampled)), Notes(lenient=True)
    speculation = program(drafter, count, inner) if inner else program(drafter, count)
    loop = Scheduler(Told(large), memory, slots=2, budget=budget, plan=speculation.plan, choose=speculation.choose)
    requests = [Request(list(p), limit, SamplingParams(**s), eos) for p, s in zip(prompts, settings, strict=True)]
    for each in requests:
        loop.submit(each)
    read, held = [], []
    for _ in range(40):
        if not loop.running and not loop.waiting:
            break
        step = loop.step()
        read.append([len(chunk.tokens) for chunk in step.chunks])
        held.append(memory.lengths)
    return table([r.output for r in requests], limit), table(read, 2), table(held, 2), mx.array([speculation.drafted])


@known.probe()
def loop_choice_penalised(program):
    """The same logits everywhere, of which the penalty leaves another token each time; the drafter knows."""
    drafter = Scripted(Draft, lambda text, count: ([0, 1, 2][:count], None))
    speculation, found = program(drafter, 3), []
    for penalty in (1.2, 2.0, 5.0):
        request = request_of([3], [4], {"repetition_penalty": penalty})
        chunks = speculation.plan([request], 100)
        found += speculation.choose(mx.array([[7.0, 6.5, 6.0, 5.5, 5.0, 4.5]] * chunks[0].scored), chunks)
    return table(found, 4)


@known.probe()
def loop_choice_penalised_text(program):
    """Nothing is drafted, and the penalty lowers what the text has."""
    speculation, found = program(Scripted(Draft, lambda text, count: ([], None)), 3), []
    for penalty in (1.0, 1.2, 5.0):
        chunks = speculation.plan([request_of([0], [1], {"repetition_penalty": penalty})], 100)
        found += speculation.choose(mx.array([[7.0, 6.5, 6.0, 5.5, 5.0, 4.5]] * chunks[0].scored), chunks)
    return table(found, 4)


known.probe_table(
    budgets=lambda program: planned(program, [100, 9, 6, 5, 3, 1, 40]),
    last_tokens=lambda program: planned(program, [100, 6], most=(2, 4, 1)),
    few_proposed=lambda program: planned(program, [100, 7], fewer=2),
    pieces_of_a_prompt=lambda program: planned(program, [100, 8], inner=in_pieces, unread=3),
    one_left_out=lambda program: planned(program, [100, 8, 4], inner=without_the_first),
    nothing_wanted=lambda program: planned(program, [2, 100, 2], most=(50, 3, 50), unread=0),
    choice=lambda program: chosen(
        program, [{"seed": 1}, FILTERED, PENALISED, {"temp": 1.0, "seed": 2}], seed=1, rounds=4
    ),
    choice_alone=lambda program: chosen(program, [{"temp": 1.0, "seed": 6}], seed=2, rounds=6),
    choice_certain=lambda program: chosen(
        program, [PENALISED, {"temp": 1.0, "seed": 3}], seed=3, sampled=False, rounds=4
    ),
    choice_missing=lambda program: chosen(
        program, [{"seed": 1}, FILTERED, {"seed": 2}], seed=4, missing=(0,), rounds=2
    ),
    # Greedy, with a drafter that is often right; the third request waits.
    texts=lambda program: served(program, [[1, 2], [3], [4, 5, 6]], [{}, {}, {}], seed=5, sampled=False),
    texts_drawn=lambda program: served(
        program, [[1, 2, 3, 4, 5], [3]], [FILTERED, PENALISED], seed=6, inner=in_pieces, eos=(6,)
    ),
)


known.not_timed("the models take nearly all of the time")

known.change(
    "budget-left-aside",
    ("min(self.count, needed, left)", "min(self.count, needed)"),
    fact="as many tokens are drafted as count says, whatever the budget is",
    question="The budget is 5, and two requests write. How many tokens does your step read?",
)
known.change(
    "budget-for-each",
    ("left -= count", "pass"),
    fact="each request may take all that the budget leaves",
    question="Three tokens are left, and the first request takes them. What is left for the second?",
)
known.change(
    "own-tokens-not-counted",
    ("left = budget - sum(len(chunk.tokens) for chunk in chunks)", "left = budget"),
    fact="only drafted tokens count against the budget",
    question="Two requests write, and the budget is 2. Is there any room for a draft?",
)
known.change(
    "chunks-counted-for-tokens",
    ("left = budget - sum(len(chunk.tokens) for chunk in chunks)", "left = budget - len(chunks)"),
    fact="of the budget each chunk takes one token, also one that reads a prompt",
    question="A budget of 8, and a chunk that reads 6 tokens of a prompt. How many are left for drafts?",
)
known.change(
    "past-max-tokens",
    ("min(self.count, needed, left)", "min(self.count, left)"),
    fact="drafts are as long as ever, however few tokens the request may still write",
    question="One token is still to be written. Which drafted token can be of use?",
)
known.change(
    "one-too-many",
    ("len(chunk.request.output) - 1", "len(chunk.request.output)"),
    fact="as many tokens are drafted as may still be written, and the step gives one more",
    question="Three tokens may still be written. If two drafted ones stand, how many does the step give?",
)
known.change(
    "within-a-prompt",
    ("if chunk.scored and count > 0:", "if count > 0:"),
    fact="tokens are drafted behind a piece of a prompt, too",
    question="Behind `Once upon` the prompt goes on. Whose tokens stand there?",
)
known.change(
    "scored-as-before",
    ("chunk.scored + len(drafted)", "chunk.scored"),
    fact="chunks have drafted tokens, and still one row is asked for",
    question="Behind how many tokens of the chunk must the large model say what comes next?",
)
known.change(
    "drafted-tokens-scored",
    ("chunk.scored + len(drafted)", "len(drafted) or chunk.scored"),
    fact="scored is the number of drafted tokens, and the row in front of them is not asked for",
    question="Which row says whether the first drafted token stands?",
)
known.change(
    "draft-in-front",
    ("chunk.tokens + drafted", "drafted + chunk.tokens"),
    fact="the drafted tokens stand in front of the chunk's own",
    question="Which token was written already, and at which position does it stand?",
)
known.change(
    "drafter-not-told",
    ("self.drafter.keep(running)", "pass"),
    fact="the drafter is never told who is running",
    question="How does a draft model learn that a request has ended?",
)
known.change(
    "told-afterwards",
    ("self.drafter.keep(running)", "pass"),
    ("drafts, strict=True))", "drafts, strict=True))\nself.drafter.keep(running)"),
    fact="the drafter is told who is running only after it was asked",
    question="A request has ended, and another one needs its room in the small model's memory. When is it free?",
)
known.change(
    "chunks-alone-kept",
    ("self.drafter.keep(running)", "pass"),
    ("left = budget - sum(", "self.drafter.keep([chunk.request for chunk in chunks])\nleft = budget - sum("),
    fact="the drafter forgets every request of which this step reads nothing",
    question="A request waits for its turn for one step. Must the small model read all of its text again then?",
)
known.change(
    "drafts-before-prompts",
    ("self.inner(running, budget)", "self.inner(running, budget - self.count * len(running))"),
    fact="the inner plan is given less than the budget, so that drafts have room",
    question="A token of a prompt must be read, and a guess may be wrong. Which of them comes first?",
)
known.change(
    "asked-for-nothing",
    ("count = min(self.count, needed, left)", "count = max(0, min(self.count, needed, left))"),
    ("if chunk.scored and count > 0:", "if chunk.scored:"),
    fact="the drafter is asked for 0 tokens, too",
    question="What has a drafter to do for a request that may have no token?",
)
known.change(
    "asked-one-by-one",
    ("self.drafter.draft(list(wanted), list(wanted.values())) if wanted else []",
     "[self.drafter.draft([each], [count])[0] for each, count in wanted.items()]"),
    fact="the drafter is asked for each request by itself",
    question="A draft model reads one token of eight requests in one step. How many steps does it need here?",
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
    fact="the last chunk gets its share of the budget first",
    question="Who has waited longer: the first request that runs, or the last?",
)
known.change(
    "drafts-of-earlier-steps",
    ("self._drafts = dict(zip(wanted, drafts, strict=True))", "self._drafts.update(zip(wanted, drafts, strict=True))"),
    fact="the draft of an earlier step stands behind the chunk once more if nothing is drafted",
    question="Behind which text was that draft written?",
)
known.change(
    "no-token-besides",
    ("return [*draft.tokens[:accepted], token]", "return draft.tokens[:accepted] or [token]"),
    fact="the token behind those that stand is given only where none stands",
    question="All four stand, and the large model has said what comes behind them. How many tokens is that?",
)
known.change(
    "all-drafted-given",
    ("[*draft.tokens[:accepted], token]", "[*draft.tokens, token]"),
    fact="all drafted tokens are given, whether they stand or not",
    question="What does accept's first number say?",
)
known.change(
    "greedy-without-params",
    ("own = target[at", "own = (target if chunk.request.params.temp else logits)[at"),
    fact="greedy requests take the likeliest tokens of the logits, without their repetition penalty",
    question="temp is 0, and the penalty is 2. Which token is the likeliest then?",
)
known.change(
    "penalty-sees-the-text-alone",
    ("chunk.tokens[: end - chunk.start]", "chunk.tokens[: len(chunk.tokens) - chunk.scored + 1]"),
    fact="the penalty does not see the drafted tokens in front of a row",
    question="Written one by one, which tokens would have been there when the third one is chosen?",
)
known.change(
    "penalty-sees-the-whole-draft",
    ("chunk.tokens[: end - chunk.start]", "chunk.tokens"),
    fact="in every row the penalty sees all drafted tokens, also those behind it",
    question="Written one by one, which tokens would have been there when the first one is chosen?",
)
known.change(
    "params-of-the-first",
    ("[chunk.request.params for chunk, _ in rows]", "[rows[0][0].request.params for _ in rows]"),
    fact="all requests are judged with the params of the first",
    question="Whose params belong to which row?",
)
known.change(
    "temperature-alone",
    (
        "[chunk.request.params for chunk, _ in rows]",
        "[type(c.request.params)(temp=c.request.params.temp) for c, _ in rows]",
    ),
    fact="the target's probabilities are those before the filters and the penalty",
    question="Top-k is 4. Which tokens can come into the text through your target's rows?",
)
known.change(
    "first-rows-for-all",
    ("target[at : (at := at + chunk.scored)]", "target[: chunk.scored]"),
    fact="every chunk is judged by the rows of the first one",
    question="Where do the second chunk's rows begin?",
)
known.change(
    "one-number-for-all",
    ("len(request.output), chunk.scored, JUDGING)", "len(request.output), 1, JUDGING) * chunk.scored"),
    fact="all tokens of a chunk are judged, and the next one is picked, with one number",
    question="How many numbers does accept take, and may they know of each other?",
)
known.change(
    "a-place-for-each-number",
    (
        "draws = uniforms(request.params.seed, len(request.output), chunk.scored, JUDGING)",
        """
        seed, place = request.params.seed, len(request.output)
        draws = [uniforms(seed, place + i, 1, JUDGING)[0] for i in range(chunk.scored)]
        """,
    ),
    fact="each token is judged with a number of its own place",
    question="The second token is refused, and the next step judges another one there. Is its number a new one?",
)
known.change(
    "numbers-of-the-drafter",
    ("chunk.scored, JUDGING)", "chunk.scored, JUDGING - 1)"),
    fact="tokens are judged with the numbers with which they were drafted",
    question="A token was drawn because its number is large. What happens to it if the same number judges it?",
)
known.change(
    "place-in-the-whole-text",
    ("uniforms(request.params.seed, len(request.output)", "uniforms(request.params.seed, request.length"),
    fact="places are counted from the beginning of the prompt",
    question="Which place has the first token of the output?",
)
known.change(
    "drafts-taken-for-certain",
    ("draft.rows(target.shape[1])", "Draft(draft.tokens).rows(target.shape[1])"),
    fact="every draft is judged as if its tokens had been certain",
    question="A token was drafted with 0.3, and the target gives it 0.3. How often should it stand?",
)
known.change(
    "given-for-accepted",
    ("self.accepted += accepted", "self.accepted += accepted + 1"),
    fact="the token behind the draft is counted as an accepted one",
    question="If nothing that was drafted stands, what should the acceptance rate be?",
)
known.change(
    "counted-with-the-plan",
    ("self.drafted += len(draft.tokens)\n", ""),
    (
        "return [self._with_draft(chunk) for chunk in chunks]",
        """
        self.drafted += sum(len(draft.tokens) for draft in self._drafts.values())
        return [self._with_draft(chunk) for chunk in chunks]
        """,
    ),
    fact="drafted counts what was planned, also where it was never judged",
    question="A request is put back between plan and choose. Who has judged its draft?",
)
known.change(
    "asked-for-counted",
    ("self.drafted += len(draft.tokens)", "self.drafted += self.count"),
    fact="drafted counts what could have been drafted, and not what was",
    question="How many tokens were judged, if the drafter had none to give?",
)


known.accepted_change(
    "asked also for nobody",
    (
        "self.drafter.draft(list(wanted), list(wanted.values())) if wanted else []",
        "self.drafter.draft(list(wanted), list(wanted.values()))",
    ),
)


@known.accepted("judged chunk by chunk")
class ChunkByChunk:
    def __init__(self, drafter, count=4, inner=whole_prompts):
        self.drafter, self.count, self.inner = drafter, count, inner
        self.drafted, self.accepted, self.pending = 0, 0, {}

    def plan(self, running, budget):
        self.drafter.keep(running)
        chunks, asked = self.inner(running, budget), []
        for chunk in chunks:
            budget -= len(chunk.tokens)
        for chunk in chunks:
            request = chunk.request
            share = max(0, min(budget, self.count, request.max_tokens - 1 - len(request.output)))
            if chunk.scored == 1 and share:
                asked.append((request, share))
                budget -= share
        self.pending = {}
        if asked:
            requests, counts = map(list, zip(*asked, strict=True))
            for request, draft in zip(requests, self.drafter.draft(requests, counts), strict=True):
                self.pending[request] = draft
        found = []
        for chunk in chunks:
            if draft := self.pending.get(chunk.request):
                chunk = Chunk(chunk.request, chunk.start, [*chunk.tokens, *draft.tokens], 1 + len(draft.tokens))
            found.append(chunk)
        return found

    def choose(self, logits, chunks):
        found = []
        for chunk in chunks:
            own, logits = logits[: chunk.scored], logits[chunk.scored :]
            found.append([])
            if chunk.scored:
                request = chunk.request
                text = request.prompt + request.output
                drafted = chunk.tokens[len(text) - chunk.start :]
                seen = [text + drafted[:i] for i in range(chunk.scored)]
                target = probabilities(own, [request.params] * chunk.scored, seen)
                draft = self.pending[request].rows(target.shape[1]) if drafted else mx.zeros((0, target.shape[1]))
                draws = uniforms(request.params.seed, len(request.output), chunk.scored, JUDGING)
                count, token = accept(target, draft, drafted, draws)
                self.drafted += len(drafted)
                self.accepted += count
                found[-1] = [*drafted[:count], token]
        return found
