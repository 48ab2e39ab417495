"""Known programs of task 3.1.5, the scheduler's step."""

import mlx.core as mx
from tests.week3.stories import Notebook, Places, Teller, add_up, count_up, ends_of, greedy, numbers_of
from tiny_llm_solution.serving.policies import unchunked_prefill
from tiny_llm_solution.serving.queue import FirstComeFirstServed
from tiny_llm_solution.serving.request import Request, next_chunk
from tiny_llm_solution.serving.scheduler import Scheduler

from tiny_llm_course.testkit.methods import completed
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.5")


def run(program, requests, steps, *, follow=add_up, kv_cache=None, late=(), events=None, fails=(), **options):
    """Run a fixed number of steps; return the requests' state. `late` says before which step a request is submitted."""
    options = {"sampler": greedy, "max_num_seqs": 3, **options}
    scheduler = completed(Scheduler, program)(Teller(follow, fails=fails), kv_cache or Notebook(), **options)
    found, times = [], {**dict.fromkeys(range(len(requests)), 0), **dict(late)}
    for number in range(steps):
        for who, at in times.items():
            if at == number:
                scheduler.submit(requests[who])
        if events and number in events:
            events[number](scheduler)
        try:
            found += [-5, *numbers_of(program(scheduler))]
        except RuntimeError:
            found += [-6]
    return mx.array([*found, *ends_of(requests, scheduler)])


def simple(*lengths, prompt=2, **options):
    return [Request([3 + i] * prompt, length, **options) for i, length in enumerate(lengths)]


@known.probe()
def step_stop(program):
    told = [[], []]

    def stops(number):
        def stop(token):
            told[number].append(token)
            return token == 6

        return stop

    requests = [Request([3], 9, stop=stops(0), eos_ids=(8,)), Request([6], 9, stop=stops(1), eos_ids=(8,))]
    return run(program, requests, 5, follow=count_up), mx.array([*told[0], -1, *told[1]])


@known.probe()
def step_begun_anew(program):
    """A preempted request: its output is recomputed with its prompt, and continues."""
    requests = simple(5, 3)

    def put_back(scheduler):
        one = scheduler.running.pop()
        scheduler.kv_cache.release(one)
        one.num_computed_tokens = 0
        scheduler.waiting.requeue(one)

    return run(program, requests, 6, events={2: put_back})


def in_parts(running, budget):
    """At most two tokens of each, the youngest first."""
    return [next_chunk(one, min(2, one.num_uncomputed_tokens)) for one in reversed(running)]


def nobody(running, budget):
    return []


def youngest_first(running, budget):
    return unchunked_prefill(running[::-1], budget)


def budgeted(running, budget):
    """As many requests as the budget says."""
    return unchunked_prefill(running[:budget], budget)


class Last(FirstComeFirstServed):
    """The last one is next."""

    def __init__(self):
        super().__init__()
        self.charged = []

    def peek(self):
        return self._waiting[-1]

    def charge(self, request, tokens):
        self.charged.append((request.request_id, tokens))


def charged(program, *requests_and_steps, **options):
    """Return the charges of a last-in-first-out queue, with everything else."""
    queue = Last()
    return run(program, *requests_and_steps, queue=queue, **options), mx.array(queue.charged)


def fails_once():
    calls = []

    def choose(logits, chunks):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("cannot choose")
        return greedy(logits, chunks)

    return choose


def guesses(running, budget):
    """All uncomputed tokens, and two draft tokens after the last."""
    chunks = unchunked_prefill(running, budget)
    return [type(each)(each.request, each.start, [*each.tokens, 5, 5], 3) for each in chunks]


def counting(running, budget):
    """All uncomputed tokens, and two draft tokens after the last, which count up."""
    chunks = unchunked_prefill(running, budget)
    return [type(c)(c.request, c.start, [*c.tokens, c.tokens[-1] + 1, c.tokens[-1] + 2], 3) for c in chunks]


def first_guess_right(logits, chunks):
    """Accept the first of three rows, or the first two, alternating by request."""
    return [
        tokens[: 1 + chunk.request.request_id] for tokens, chunk in zip(greedy(logits, chunks), chunks, strict=True)
    ]


def five(text):
    return 5


@known.probe()
def step_guesses_past_the_end(program):
    requests = [Request([3], 2), Request([4], 9, stop=lambda token: token == 5), Request([4], 9, eos_ids=(5,))]
    return run(program, requests, 3, follow=five, policy=guesses, sampler=first_guess_right)


@known.probe()
def step_cancelled_meanwhile(program):
    """When the first gets its second token, the second is cancelled, and the third at its own."""
    requests, held = simple(4, 4, 4, 4), []

    def second(token):
        if len(requests[0].output) == 2 and not requests[1].finish_reason:
            held[0].cancel(requests[1])
        return False

    def third(token):
        if len(requests[2].output) == 2:
            held[0].cancel(requests[2])
        return False

    requests[0].stop, requests[2].stop = second, third
    return run(program, requests, 5, events={0: held.append})


@known.probe()
def step_cancelled_by_a_later_one(program):
    """At the third one's second token, the first, which has its last, and the second are cancelled."""
    requests, held = simple(2, 4, 4), []

    def stop(token):
        if len(requests[2].output) == 2:
            held[0].cancel(requests[0])
            held[0].cancel(requests[1])
        return False

    requests[2].stop = stop
    return run(program, requests, 5, events={0: held.append})


@known.probe()
def step_ends_within_several_tokens(program):
    """The second of three tokens ends an output: `stop`, the last of max_tokens, EOS, and cancelled by `stop`."""
    told, held = [], []

    def stop(token):
        told.append(token)
        return token == 5

    def cancels(token):
        if token == 12:
            held[0].cancel(requests[3])
        return token == 12

    requests = [Request([3], 9, stop=stop), Request([6], 2, stop=stop), Request([8], 9, eos_ids=(10,), stop=stop)]
    requests.append(Request([10], 9, stop=cancels))
    found = run(program, requests, 2, follow=count_up, policy=counting, max_num_seqs=4, events={0: held.append})
    return found, mx.array(told)


@known.probe()
def step_reserves(program):
    """Return the counts passed to reserve."""
    kv_cache = Notebook()
    run(program, [Request([3, 4, 5], 2), Request([6], 3)], 4, kv_cache=kv_cache)
    return mx.array(kv_cache.asked)


known.probe_table(
    nobody=lambda program: run(program, [], 2),
    one=lambda program: run(program, simple(3), 5),
    one_token=lambda program: run(program, simple(1, 2), 3),
    five_in_three_slots=lambda program: run(program, simple(4, 1, 2, 3, 1), 8),
    one_slot=lambda program: run(program, simple(2, 2), 5, max_num_seqs=1),
    static=lambda program: run(program, simple(4, 1, 2, 3, 1), 9, static=True),
    late=lambda program: run(program, simple(4, 2, 2), 6, late=[(1, 1), (2, 3)]),
    # Three slots, and KV capacity for two.
    little_memory=lambda program: run(program, simple(3, 2, 2, 1), 7, kv_cache=Notebook(2)),
    # Three wait for several steps without KV capacity.
    little_memory_for_many=lambda program: run(program, simple(3, 4, 2, 2, 1), 9, kv_cache=Notebook(2)),
    # The tokens count up from the prompt's, and 9 or 6 is EOS.
    eos=lambda program: run(program, simple(9, 9, 9, prompt=1, eos_ids=(9, 6)), 7, follow=count_up),
    eos_at_once=lambda program: run(
        program, [Request([8], 5, eos_ids=(9,)), Request([7], 5, eos_ids=(9,))], 3, follow=count_up
    ),
    # `stop` is True for the token that is the last anyway.
    stop_with_the_last=lambda program: run(
        program, [Request([3], 2, stop=lambda token: token == 5)], 3, follow=count_up
    ),
    in_parts=lambda program: run(
        program, [Request([3, 4, 5, 6, 7], 2), Request([3], 3), Request([2, 2, 2], 1)], 6, policy=in_parts
    ),
    without_a_plan=lambda program: run(program, simple(2, 2), 2, policy=nobody),
    max_num_batched_tokens=lambda program: run(program, simple(2, 2, 2), 5, policy=budgeted, max_num_batched_tokens=2),
    # The second call of the model fails, half-way.
    error=lambda program: run(program, simple(3, 3), 6, fails=(2,)),
    error_at_first=lambda program: run(program, simple(2, 2), 5, fails=(1,), late=[(1, 1)]),
    choice_fails=lambda program: run(program, simple(3, 3), 6, sampler=fails_once()),
    # Of three rows, one is accepted for the first request, two for the second, three for the third.
    guesses=lambda program: run(program, simple(4, 4, 9), 4, follow=five, policy=guesses, sampler=first_guess_right),
    # Two requests grow until capacity runs out: the younger is preempted.
    no_room=lambda program: run(program, simple(4, 4), 6, kv_cache=Places(6)),
    no_room_for_itself=lambda program: run(program, simple(4, 4), 6, kv_cache=Places(7)),
    no_room_after_the_youngest=lambda program: run(program, simple(4, 4), 6, kv_cache=Places(7), policy=youngest_first),
    other_queue=lambda program: charged(program, simple(1, 2, 3, 2), 6, max_num_seqs=2),
    # All computed tokens are charged, including rejected ones.
    guesses_charged=lambda program: charged(
        program, simple(4, 4, 9), 4, follow=five, policy=guesses, sampler=first_guess_right
    ),
    # A failed step is not charged.
    error_charged=lambda program: charged(program, simple(3, 3), 6, fails=(1, 3)),
)


@known.sized("128 requests of 1 to 8 tokens, in 8 max_num_seqs, with a model of constant logits")
def sized(program):
    logits = mx.zeros((8, 16))

    class Room(Notebook):
        def admit(self, request):
            request.num_computed_tokens = 0
            return True

        def truncate(self, request, length):
            pass

        def release(self, request):
            pass

    def serve():
        scheduler = completed(Scheduler, program)(
            lambda chunks, kv_cache: logits[: len(chunks)], Room(), sampler=lambda logits, chunks: [[3]] * len(chunks)
        )
        for number in range(128):
            scheduler.submit(Request([3], 1 + number % 8))
        while scheduler.running or len(scheduler.waiting):
            program(scheduler)

    return serve


CANCELLED = "if request.finish_reason:  # cancelled by its `stop`: its KV cache is freed already\n    continue"
known.change(
    "only-when-all-are-done",
    ("self.static and bool(self.running)", "bool(self.running)"),
    fact="no request is admitted until all running ones have finished",
    question="A slot is free and a request waits. What does it wait for?",
)
known.change(
    "never-static",
    ("self.static and bool(self.running)", "False"),
    fact="a free slot is filled at once, even with static=True",
    question="What does static=True mean for the waiting requests?",
)
known.change(
    "one-slot-too-many",
    ("len(self.running) < self.max_num_seqs", "len(self.running) <= self.max_num_seqs"),
    fact="one request more than max_num_seqs runs",
    question="With max_num_seqs=3, how many requests may run?",
)
known.change(
    "one-slot-too-few",
    ("len(self.running) < self.max_num_seqs", "len(self.running) < max(1, self.max_num_seqs - 1)"),
    fact="one slot always stays free if there are several",
    question="With max_num_seqs=3, how many requests may run?",
)
known.change(
    "memory-unasked",
    ("if not self.kv_cache.admit(request):\n    break", "self.kv_cache.admit(request)"),
    fact="a request is admitted although the KV cache has no capacity for it",
    question="What does admit return, and where do you use it?",
)
known.change(
    "order-of-arrival-lost",
    ("insort(self.running, request, key=lambda one: one.request_id)", "self.running.append(request)"),
    fact="running is in the order of admission instead of the order of request ids",
    question="The queue may release a younger request first. Which running request is the oldest?",
)
known.change(
    "unreserved",
    ("self.kv_cache.reserve(chunk.request, len(chunk.tokens))", "True"),
    fact="no KV slots are reserved",
    question="Where are a chunk's keys stored if the KV cache has no slots for them?",
)
known.change(
    "reserve-result-ignored",
    ("or self.preempt_until_reserved(chunk, step):", "or True:"),
    fact="a chunk runs whatever reserve returned",
    question="What does reserve return, and what must happen if that is False?",
)
known.change(
    "preempted-since-and-still-run",
    (
        "step.chunks = [chunk for chunk in step.chunks if chunk.request in self.running]  # drop those preempted since",
        "pass",
    ),
    fact="a chunk whose request is preempted after its slots were reserved still runs",
    question="The last chunk of the plan is the oldest request's and needs the youngest's slots. What of its chunk?",
)
known.change(
    "preempted-and-reserved-again",
    ("if chunk.request not in self.running:\n    continue  # preempted for an older request", "pass"),
    fact="slots are reserved for a request that was preempted earlier in the step",
    question="The first chunk has preempted the third chunk's request. What does the KV cache hold of it now?",
)
known.change(
    "not-rolled-back",
    ("for request in self.running:", "for request in []:"),
    fact="after an error the KV cache keeps the failed step's tokens",
    question="The model fails after the first layer. How many tokens are cached, and what is num_computed_tokens?",
)
known.change(
    "eos-in-the-text",
    ("if request.finish_reason or token in request.eos_ids:", "if request.finish_reason:"),
    ("if request.stop and", "if token in request.eos_ids or request.stop and"),
    fact="the EOS token is appended to the output",
    question="Should the user see <|im_end|>?",
)
known.change(
    "stop-unasked",
    ("if request.stop and request.stop(token):", "if False:"),
    fact="`stop` is never called",
    question="What else may end a request's output?",
)
known.change(
    "first-token-only",
    ("new, reason = _append_tokens", "tokens = tokens[:1]\nnew, reason = _append_tokens"),
    fact="only the first of a step's tokens is appended to an output",
    question="The sampler returns three tokens for one chunk. How many has the request gained?",
)
known.change(
    "length-before-stop",
    ("if request.stop and", "if len(request.output) < request.max_tokens and request.stop and"),
    fact="`stop` is not called for the last token of max_tokens",
    question="A server gets each token through `stop`. What does its stream lack at the end?",
)
known.change(
    "read-in-vain-not-charged",
    (
        "self.waiting.charge(request, len(chunk.tokens))",
        "self.waiting.charge(request, request.num_computed_tokens - chunk.start)",
    ),
    fact="rejected tokens are not charged",
    question="Three tokens are computed, and two were rejected draft tokens. How many has the model processed?",
)
known.change(
    "new-tokens-charged",
    ("self.waiting.charge(request, len(chunk.tokens))", "self.waiting.charge(request, len(new))"),
    fact="the queue is charged the new tokens instead of the chunk's tokens",
    question="A prompt of 500 tokens is computed in one step. How many tokens has the model processed for its request?",
)
known.change(
    "stop-token-left-out",
    ("request.output.append(token)", "pass"),
    ('return tokens[: count + 1], "stop"', 'return tokens[:count], "stop"'),
    ("if len(request.output)", "request.output.append(token)\nif len(request.output)"),
    fact="the token for which `stop` returns True is missing from the output",
    question="Which tokens are part of the output: also those of a stop string?",
)
known.change(
    "stop-token-removed",
    (
        'return tokens[: count + 1], "stop"',
        'if request.finish_reason:\n    return tokens[: count + 1], "stop"\n'
        'request.output.pop()\nreturn tokens[:count], "stop"',
    ),
    fact="the token for which `stop` returns True is removed from the output again",
    question="`stop` ends the output after a token. Which token is the last of the output?",
)
known.change(
    "one-token-too-many",
    ("len(request.output) >= request.max_tokens", "len(request.output) > request.max_tokens"),
    fact="the output has one token more than max_tokens",
    question="How many tokens does max_tokens=1 allow?",
)
known.change(
    "new-with-eos",
    ('return tokens[:count], "stop"', 'return tokens[: count + (not request.finish_reason)], "stop"'),
    fact="the step's `new` includes the EOS token",
    question="Which new tokens has a request that ends with an EOS token?",
)
known.change(
    "new-without-empty-lists",
    ("step.new.append(new)", "if tokens:\n    step.new.append(new)"),
    fact="the step's `new` has no list for a chunk from which no token is sampled",
    question="A step computes part of a prompt, and one token of another request. How many lists has its `new`?",
)
known.change(
    "read-with-the-new",
    ("min(kept, request.num_tokens)", "request.num_tokens"),
    fact="num_computed_tokens counts the new token, which the model has not processed yet",
    question="Which tokens of a request does the model compute next?",
)
known.change(
    "read-stays",
    ("request.num_computed_tokens = min(kept, request.num_tokens)", "pass"),
    fact="num_computed_tokens is never advanced",
    question="How does the next step know which tokens are computed?",
)
known.change(
    "rejected-drafts-kept",
    ("min(kept, request.num_tokens)", "chunk.end"),
    fact="the whole chunk counts as computed, even if fewer tokens were sampled than num_logits",
    question="Three rows have logits, and one token is returned. Are the two after it part of the request?",
)
known.change(
    "memory-not-shortened",
    ("if request.num_computed_tokens < chunk.end:", "if False:"),
    fact="rejected tokens stay in the KV cache",
    question="num_computed_tokens is less than what the KV cache holds. Where do the next tokens go?",
)
known.change(
    "uncharged",
    ("self.waiting.charge(request, len(chunk.tokens))", "pass"),
    fact="the queue's charge is never called",
    question="How can a queue be fair if it does not know what was served?",
)
known.change(
    "finished-keeps-its-slot",
    ("self._leave(request, reason)", "request.finish_reason = reason"),
    fact="a finished request stays in running and keeps its slot",
    question="When does a slot become free?",
)
known.change(
    "memory-kept",
    ("self._leave(request, reason)", "request.finish_reason = reason\nself.running.remove(request)"),
    fact="a finished request keeps its KV cache",
    question="What frees the KV cache of a finished request?",
)
known.change(
    "finished-not-reported",
    ("step.finished.append(request)", "pass"),
    fact="the step does not report the finished requests",
    question="Which of Step's five lists do you fill?",
)
known.change(
    "cancelled-ones-go-on",
    ("if request.finish_reason:  # cancelled", "if False:  # cancelled"),
    ("if request.finish_reason or token", "if token"),
    fact="a request cancelled during the step continues as if it had not been",
    question="`stop` is the caller's code. What may it do to the scheduler?",
)
known.change(
    "cancelled-by-another",
    (
        "if request.finish_reason or token in request.eos_ids:",
        "if request.finish_reason and count or token in request.eos_ids:",
    ),
    fact="a request that another one's `stop` cancels during the step still gets a token",
    question="A's `stop` cancels B, whose tokens of this step come next. How many of them does B get?",
)
known.change(
    "finished-after-all-tokens",
    (
        """
        for chunk, tokens in zip(step.chunks, self.sampler(logits, step.chunks), strict=True):
            request = chunk.request
            new, reason = _append_tokens(request, tokens)
            step.new.append(new)
        """,
        """
        sampled = self.sampler(logits, step.chunks)
        ends = [_append_tokens(chunk.request, tokens) for chunk, tokens in zip(step.chunks, sampled)]
        step.new += [new for new, _ in ends]
        for chunk, tokens, (new, reason) in zip(step.chunks, sampled, ends):
            request = chunk.request
        """,
    ),
    fact="a finished request leaves only after all requests have got their tokens, and may be cancelled until then",
    question="A gets its last token, and then B's `stop` cancels A. Which finish_reason should A have?",
)
known.change(
    "new-of-the-cancelled",
    ("step.new.append(new)", "step.new.append(tokens if request.finish_reason and not new else new)"),
    fact="the step's `new` also has tokens of a request that was cancelled before it could get them",
    question="`new` lists the tokens that were appended to each output. Which were appended to a cancelled one's?",
)
known.change(
    "eos-ignored",
    ("if request.finish_reason or token in request.eos_ids:", "if request.finish_reason:"),
    fact="EOS tokens do not end the output",
    question="What should happen when the model predicts 9 and eos_ids contains it?",
)
known.change(
    "always-length",
    ('return tokens[:count], "stop"', 'return tokens[:count], "length"'),
    ('return tokens[: count + 1], "stop"', 'return tokens[: count + 1], "length"'),
    fact='finish_reason is "length" even where EOS or `stop` ends the output',
    question="How does the sender tell an answer that is complete from one that max_tokens has cut off?",
)
known.change(
    "prompt-counted",
    ("len(request.output) >= request.max_tokens", "request.num_tokens >= request.max_tokens"),
    fact="the prompt's tokens count towards max_tokens",
    question="With a prompt of 2 tokens and max_tokens=4, how many tokens may be generated?",
)
known.change(
    "cancelled-in-finished",
    ("new, reason = _append_tokens", "before = request.finish_reason\nnew, reason = _append_tokens"),
    (CANCELLED, CANCELLED.replace("continue", "if not before:\n        step.finished.append(request)\n    continue")),
    fact="a request cancelled by its own `stop` is in the step's `finished`",
    question="Which requests does Step's `finished` not contain?",
)


@known.accepted("with-helpers")
def with_helpers(self):
    """Phrased differently, with a slot count."""
    step = type_of_step()()
    free = 0 if self.static and self.running else self.max_num_seqs - len(self.running)
    while free > 0 and len(self.waiting):
        request = self.waiting.peek()
        if self.kv_cache.admit(request) is False:
            free = 0
            continue
        free -= 1
        self.waiting.remove(request)
        step.admitted.append(request)
        self.running.append(request)
        self.running.sort(key=lambda one: one.request_id)
    for chunk in list(self.policy(self.running, self.max_num_batched_tokens)):
        if chunk.request in self.running and (
            self.kv_cache.reserve(chunk.request, len(chunk.tokens)) or self.preempt_until_reserved(chunk, step)
        ):
            step.chunks.append(chunk)
    step.chunks[:] = [each for each in step.chunks if each.request in self.running]
    if len(step.chunks) == 0:
        return step
    try:
        logits = self.model(step.chunks, self.kv_cache)
        mx.eval(logits)
        chosen = self.sampler(logits, step.chunks)
    except Exception:
        for chunk in step.chunks:
            self.kv_cache.truncate(chunk.request, chunk.start)
        raise
    for chunk, tokens in zip(step.chunks, chosen, strict=True):
        one, new, why = chunk.request, [], ""
        step.new.append(new)
        for token in tokens:
            if one.finish_reason:
                break
            if token in one.eos_ids:
                why = "stop"
                break
            new.append(token)
            one.output.append(token)
            why = "stop" if one.stop is not None and one.stop(token) else why
            why = why or ("length" if len(one.output) == one.max_tokens else "")
            if why:
                break
        if one.finish_reason:
            continue
        wrong = chunk.num_logits - len(tokens) if chunk.num_logits else 0
        one.num_computed_tokens = min(chunk.end - wrong, len(one.prompt) + len(one.output))
        self.kv_cache.truncate(one, one.num_computed_tokens)
        self.waiting.charge(one, len(chunk.tokens))
        if why:
            one.finish_reason = why
            self.running.remove(one)
            self.kv_cache.release(one)
            step.finished.append(one)
    return step


def type_of_step():
    """The package's own Step."""
    from tiny_llm_solution.serving.step import Step

    return Step
