"""Known programs of task 3.1.5, the scheduler's step."""

import mlx.core as mx
from tests.week3.stories import Notebook, Places, Teller, add_up, count_up, ends_of, greedy, numbers_of
from tiny_llm_solution.serving.plans import whole_prompts
from tiny_llm_solution.serving.queue import FirstComeFirstServed
from tiny_llm_solution.serving.request import Request, next_chunk
from tiny_llm_solution.serving.scheduler import Scheduler

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.5")


def run(program, requests, steps, *, follow=add_up, memory=None, late=(), events=None, fails=(), **options):
    """A fixed number of steps, and how far all have come; `late` says before which step a request is submitted."""
    options = {"choose": greedy, "slots": 3, **options}
    scheduler = Scheduler(Teller(follow, fails=fails), memory or Notebook(), **options)
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
    """One that has been put back: its output is read with its prompt, and goes on."""
    requests = simple(5, 3)

    def put_back(scheduler):
        one = scheduler.running.pop()
        scheduler.memory.release(one)
        one.read = 0
        scheduler.waiting.put_back(one)

    return run(program, requests, 6, events={2: put_back})


def in_parts(running, budget):
    """Two tokens of each at most, the youngest first."""
    return [next_chunk(one, min(2, one.unread)) for one in reversed(running)]


def nobody(running, budget):
    return []


def youngest_first(running, budget):
    return whole_prompts(running[::-1], budget)


def budgeted(running, budget):
    """As many requests as the budget says."""
    return whole_prompts(running[:budget], budget)


class Last(FirstComeFirstServed):
    """The last one is the next."""

    def __init__(self):
        super().__init__()
        self.charged = []

    def next(self):
        return self._waiting[-1]

    def charge(self, request, tokens):
        self.charged.append((request.number, tokens))


def charged(program, *requests_and_steps, **options):
    """What the queue that lets in the last one first is charged, beside all else."""
    queue = Last()
    return run(program, *requests_and_steps, waiting=queue, **options), mx.array(queue.charged)


def fails_once():
    calls = []

    def choose(logits, chunks):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("cannot choose")
        return greedy(logits, chunks)

    return choose


def guesses(running, budget):
    """What is unread, and two guesses behind the last token."""
    chunks = whole_prompts(running, budget)
    return [type(each)(each.request, each.start, [*each.tokens, 5, 5], 3) for each in chunks]


def first_guess_right(logits, chunks):
    """Of three scored tokens, the first is taken, or the first two, in turns by their request."""
    return [tokens[: 1 + chunk.request.number] for tokens, chunk in zip(greedy(logits, chunks), chunks, strict=True)]


def five(text):
    return 5


@known.probe()
def step_guesses_past_the_end(program):
    requests = [Request([3], 2), Request([4], 9, stop=lambda token: token == 5), Request([4], 9, eos_ids=(5,))]
    return run(program, requests, 3, follow=five, plan=guesses, choose=first_guess_right)


@known.probe()
def step_cancelled_meanwhile(program):
    """When the first has got its second token, somebody cancels the second, and the third at its own."""
    requests, held = simple(4, 4, 4, 4), []

    def second(token):
        if len(requests[0].output) == 2 and not requests[1].finished:
            held[0].cancel(requests[1])
        return False

    def third(token):
        if len(requests[2].output) == 2:
            held[0].cancel(requests[2])
        return False

    requests[0].stop, requests[2].stop = second, third
    return run(program, requests, 5, events={0: held.append})


@known.probe()
def step_reserves(program):
    """What room is reserved for."""
    memory = Notebook()
    run(program, [Request([3, 4, 5], 2), Request([6], 3)], 4, memory=memory)
    return mx.array(memory.asked)


known.probe_table(
    nobody=lambda program: run(program, [], 2),
    one=lambda program: run(program, simple(3), 5),
    one_token=lambda program: run(program, simple(1, 2), 3),
    five_in_three_slots=lambda program: run(program, simple(4, 1, 2, 3, 1), 8),
    one_slot=lambda program: run(program, simple(2, 2), 5, slots=1),
    static=lambda program: run(program, simple(4, 1, 2, 3, 1), 9, static=True),
    late=lambda program: run(program, simple(4, 2, 2), 6, late=[(1, 1), (2, 3)]),
    # Three slots, and memory for two.
    little_memory=lambda program: run(program, simple(3, 2, 2, 1), 7, memory=Notebook(2)),
    # Three wait for several steps, in which memory has no room.
    little_memory_for_many=lambda program: run(program, simple(3, 4, 2, 2, 1), 9, memory=Notebook(2)),
    # The tokens count up from the prompt's, and 9 or 6 ends a text.
    eos=lambda program: run(program, simple(9, 9, 9, prompt=1, eos_ids=(9, 6)), 7, follow=count_up),
    eos_at_once=lambda program: run(
        program, [Request([8], 5, eos_ids=(9,)), Request([7], 5, eos_ids=(9,))], 3, follow=count_up
    ),
    # What stops it is the token that is the last one anyway.
    stop_with_the_last=lambda program: run(
        program, [Request([3], 2, stop=lambda token: token == 5)], 3, follow=count_up
    ),
    in_parts=lambda program: run(
        program, [Request([3, 4, 5, 6, 7], 2), Request([3], 3), Request([2, 2, 2], 1)], 6, plan=in_parts
    ),
    without_a_plan=lambda program: run(program, simple(2, 2), 2, plan=nobody),
    budget=lambda program: run(program, simple(2, 2, 2), 5, plan=budgeted, budget=2),
    # The second call of the model fails, half way.
    error=lambda program: run(program, simple(3, 3), 6, fails=(2,)),
    error_at_first=lambda program: run(program, simple(2, 2), 5, fails=(1,), late=[(1, 1)]),
    choice_fails=lambda program: run(program, simple(3, 3), 6, choose=fails_once()),
    # Three tokens are scored, of which one is taken of the first request, two of the second, three of the third.
    guesses=lambda program: run(program, simple(4, 4, 9), 4, follow=five, plan=guesses, choose=first_guess_right),
    # Two requests grow until there is no room for both: the younger is put back.
    no_room=lambda program: run(program, simple(4, 4), 6, memory=Places(6)),
    no_room_for_itself=lambda program: run(program, simple(4, 4), 6, memory=Places(7)),
    no_room_after_the_youngest=lambda program: run(program, simple(4, 4), 6, memory=Places(7), plan=youngest_first),
    other_queue=lambda program: charged(program, simple(1, 2, 3, 2), 6, slots=2),
    # All that was read is charged, also what was read in vain.
    guesses_charged=lambda program: charged(
        program, simple(4, 4, 9), 4, follow=five, plan=guesses, choose=first_guess_right
    ),
    # A step that fails is not charged.
    error_charged=lambda program: charged(program, simple(3, 3), 6, fails=(1, 3)),
)


@known.sized("128 requests of 1 to 8 tokens, in 8 slots, with a model that says always the same")
def sized(program):
    logits = mx.zeros((8, 16))

    class Room(Notebook):
        def begin(self, request):
            request.read = 0
            return True

        def shorten(self, request, length):
            pass

        def release(self, request):
            pass

    def serve():
        scheduler = Scheduler(
            lambda chunks, memory: logits[: len(chunks)], Room(), choose=lambda logits, chunks: [[3]] * len(chunks)
        )
        for number in range(128):
            scheduler.submit(Request([3], 1 + number % 8))
        while scheduler.running or len(scheduler.waiting):
            program(scheduler)

    return serve


known.change(
    "only-when-all-are-done",
    ("self.static and bool(self.running)", "bool(self.running)"),
    fact="nobody is let in before all that run have ended",
    question="A slot is free, and somebody waits. What for?",
)
known.change(
    "never-static",
    ("self.static and bool(self.running)", "False"),
    fact="a free slot is filled at once, also where static is asked for",
    question="What does static=True say about those that wait?",
)
known.change(
    "static-lets-in-one",
    ("and not closed:", "and not (self.static and self.running):"),
    fact="in static mode one request is let in at a time, since from then on somebody runs",
    question="Static, three slots, and nobody runs. How many of five requests that wait come in together?",
)
known.change(
    "one-at-a-time-let-in",
    ("and not closed:", "and not closed and not step.admitted:"),
    fact="one request at most is let in before each step",
    question="Two slots are free and two requests wait. How many steps may the second wait?",
)
known.change(
    "one-slot-too-many",
    ("len(self.running) < self.slots", "len(self.running) <= self.slots"),
    fact="one request more runs than there are slots",
    question="How many requests run at most, with slots=3?",
)
known.change(
    "one-slot-too-few",
    ("len(self.running) < self.slots", "len(self.running) < max(1, self.slots - 1)"),
    fact="one slot always stays free, if there are several",
    question="How many requests run at most, with slots=3?",
)
known.change(
    "memory-unasked",
    ("if not self.memory.begin(request):\n    break", "self.memory.begin(request)"),
    fact="a request is let in although memory says that there is no room",
    question="What does begin say, and who listens?",
)
known.change(
    "memory-never-begun",
    ("if not self.memory.begin(request):", "if False:"),
    fact="memory is never told that a request begins",
    question="How does memory know a request when its first chunk comes?",
)
known.change(
    "left-in-the-queue",
    ("self.waiting.remove(request)", "pass"),
    fact="a request that is let in stays in the queue, and is let in again",
    question="After a request was let in, who is the next one in the queue?",
)
known.change(
    "order-of-arrival-lost",
    ("insort(self.running, request, key=lambda one: one.number)", "self.running.append(request)"),
    fact="those that run stand in the order in which they were let in, and not in that of their numbers",
    question="The queue may let a younger one in first. Who is the oldest of those that run?",
)
known.change(
    "admitted-untold",
    ("step.admitted.append(request)", "pass"),
    fact="the step does not say who was let in",
    question="Which of a Step's five lists do you fill?",
)
known.change(
    "own-plan",
    ("self.plan(self.running, self.budget)", "whole_prompts(self.running, self.budget)"),
    fact="everything that is unread is read, whatever the plan says",
    question="Who decides how many tokens a step reads?",
)
known.change(
    "budget-unsaid",
    ("self.plan(self.running, self.budget)", "self.plan(self.running, 10**9)"),
    fact="the plan is not told the budget",
    question="Which two things does a plan look at?",
)
known.change(
    "unreserved",
    ("self.memory.reserve(chunk.request, len(chunk.tokens))", "True"),
    fact="no room is reserved",
    question="Where do the keys of a chunk go, if memory has no room for them?",
)
known.change(
    "no-room-unheard",
    ("or self.make_room(chunk, step):", "or True:"),
    fact="room is asked for, and a chunk is read whatever the answer is",
    question="What does reserve say, and what is there to be done if it says no?",
)
known.change(
    "room-for-who-was-put-back",
    ("if chunk.request not in self.running:", "if False:"),
    fact="room is asked for a chunk whose request was put back a moment ago",
    question="The plan was made before anybody was put back. Whose chunks in it still count?",
)
known.change(
    "put-back-and-read",
    ("step.chunks = [chunk for chunk in step.chunks if chunk.request in self.running]", "pass"),
    fact="what had its turn in a step is read, also if its request was put back after that",
    question="Somebody is put back after room was made for its chunk. Where are its keys now?",
)
known.change(
    "own-choice",
    ("self.choose(logits, step.chunks)", "sample_rows(logits, step.chunks)"),
    fact="sample_rows chooses, whoever else is asked to",
    question="What is the argument `choose` for?",
)
known.change(
    "not-rolled-back",
    ("for request in self.running:", "for request in []:"),
    fact="after an error memory keeps what the step has read",
    question="The model fails after the first layer. What does memory hold of the chunks, and what does `read` say?",
)
known.change(
    "error-swallowed",
    ("raise\n", "pass"),
    fact="an error of the model is swallowed",
    question="Who should hear of an error, if not the caller?",
)
known.change(
    "eos-in-the-text",
    ("if request.finished or token in request.eos_ids:", "if request.finished:"),
    ("if request.stop and", "if token in request.eos_ids or request.stop and"),
    fact="a token that ends the text is a part of it",
    question="Should a reader see <|im_end|>?",
)
known.change(
    "eos-ignored",
    ("if request.finished or token in request.eos_ids:", "if request.finished:"),
    fact="no token ends a text",
    question="What should happen when the model says 9, and eos_ids holds it?",
)
known.change(
    "stop-unasked",
    ("if request.stop and request.stop(token):", "if False:"),
    fact="`stop` is not asked",
    question="Who else may say that a text ends?",
)
known.change(
    "length-before-stop",
    ("if request.stop and", "if len(request.output) < request.max_tokens and request.stop and"),
    fact="`stop` is not told the last token of max_tokens",
    question="A server hears of each token through `stop`. What is missing at the end of its text?",
)
known.change(
    "stop-told-of-eos",
    ("if request.finished or", "ended = request.stop and request.stop(token)\nif request.finished or"),
    ("if request.stop and request.stop(token):", "if ended:"),
    fact="`stop` is told a token of eos_ids, too, before it is known to be one",
    question="A token of eos_ids is no part of the text. Who should hear of it?",
)
known.change(
    "removed-before-begun",
    ("break\n", "self.waiting.remove(request)\nself.waiting.add(request)\nbreak"),
    fact="a request for which memory has no room leaves the queue, and comes in again behind all others",
    question="The next one cannot be let in yet. Which place in the queue has it in the next step?",
)
known.change(
    "new-lacks-who-was-cancelled",
    ("step.new.append(new)", "pass"),
    ("request.read = min(", "step.new.append(new)\nrequest.read = min("),
    fact="`new` has no list for a chunk whose request was cancelled in the step",
    question="Three chunks were read, and `new` has two lists. Which of the chunks has none?",
)
known.change(
    "cancelled-is-finished",
    ("continue\n", "step.finished.append(request)\ncontinue"),
    fact="the step's `finished` also has those that were cancelled in the middle of it",
    question="What does the comment behind Step's `finished` say of requests that were cancelled?",
)
known.change(
    "read-in-vain-not-charged",
    ("self.waiting.charge(request, len(chunk.tokens))", "self.waiting.charge(request, request.read - chunk.start)"),
    fact="tokens that were read in vain are not charged",
    question="Three tokens are read, and two of them were wrong guesses. How many has the model worked on?",
)
known.change(
    "charged-before-the-model-runs",
    (
        "logits = self.model(step.chunks, self.memory)",
        """
        for chunk in step.chunks:
            self.waiting.charge(chunk.request, len(chunk.tokens))
        logits = self.model(step.chunks, self.memory)
        """,
    ),
    ("        self.waiting.charge(request, len(chunk.tokens))\n", ""),
    fact="all chunks are charged before the model runs, also if it fails then",
    question="The model fails, and the next step reads the same tokens again. How often has their user paid?",
)
known.change(
    "last-step-not-charged",
    ("self.waiting.charge(", "if not reason:\n    self.waiting.charge("),
    fact="the step in which a request ends is not charged",
    question="A prompt of 1,000 tokens is read, and its only token is written. What has its user had?",
)
known.change(
    "stop-token-left-out",
    ("request.output.append(token)", "pass"),
    ('return tokens[: count + 1], "stop"', 'return tokens[:count], "stop"'),
    ("if len(request.output)", "request.output.append(token)\nif len(request.output)"),
    fact="the token at which `stop` says that the text ends is left out of the output",
    question="Which tokens does the output hold: also those of a stop string, or not?",
)
known.change(
    "one-token-too-many",
    ("len(request.output) >= request.max_tokens", "len(request.output) > request.max_tokens"),
    fact="a text gets one token more than max_tokens",
    question="How many tokens should max_tokens=1 give?",
)
known.change(
    "one-token-too-few",
    ("len(request.output) >= request.max_tokens", "len(request.output) >= max(1, request.max_tokens - 1)"),
    fact="a text gets one token less than max_tokens, if that is more than one",
    question="How many tokens should max_tokens=2 give?",
)
known.change(
    "prompt-counted",
    ("len(request.output) >= request.max_tokens", "request.length >= request.max_tokens"),
    fact="the prompt's tokens count towards max_tokens",
    question="With a prompt of 2 tokens and max_tokens=4, how many should follow?",
)
known.change(
    "never-enough",
    ("if len(request.output) >= request.max_tokens:", "if False:"),
    fact="a text goes on past max_tokens",
    question="When does a text end that has no end?",
)
known.change(
    "length-is-stop",
    ('return tokens[: count + 1], "length"', 'return tokens[: count + 1], "stop"'),
    fact="a text that has reached max_tokens says that it was stopped",
    question="What are the words for the ways in which a text can end?",
)
known.change(
    "new-with-eos",
    ('return tokens[:count], "stop"', 'return tokens[: count + (not request.finished)], "stop"'),
    fact="the step says that a text has gained the token that ended it",
    question="Which tokens has a text gained that ends at a token of eos_ids?",
)
known.change(
    "read-with-the-new",
    ("min(chunk.end - max(0, chunk.scored - len(tokens)), request.length)", "request.length"),
    fact="`read` counts the new token, which the model has not seen yet",
    question="Which tokens of a request does the model read next?",
)
known.change(
    "read-stays",
    ("request.read = min(chunk.end - max(0, chunk.scored - len(tokens)), request.length)", "pass"),
    fact="`read` stays as it was",
    question="How does the next step know what has been read?",
)
known.change(
    "wrong-guesses-kept",
    ("min(chunk.end - max(0, chunk.scored - len(tokens)), request.length)", "chunk.end"),
    fact="all of a chunk counts as read, also where fewer tokens were chosen than were scored",
    question="Three tokens are scored and one is chosen. Were the two behind it the text's?",
)
known.change(
    "memory-not-shortened",
    ("if request.read < chunk.end:", "if False:"),
    fact="what was read in vain stays in memory",
    question="`read` says less than memory holds. Where do the next tokens go?",
)
known.change(
    "uncharged",
    ("self.waiting.charge(request, len(chunk.tokens))", "pass"),
    fact="the queue is not told how much was read",
    question="How can a queue be fair that knows nothing of what was done?",
)
known.change(
    "charged-for-new",
    ("self.waiting.charge(request, len(chunk.tokens))", "self.waiting.charge(request, len(tokens))"),
    fact="the queue is told how many tokens are new, and not how many were read",
    question="What does a long prompt cost: the tokens that it gives, or those that it has?",
)
known.change(
    "finished-keeps-its-slot",
    ("self._leave(request, reason)", "request.finished = reason"),
    fact="a request that has ended goes on running, and its slot stays taken",
    question="When does a slot become free?",
)
known.change(
    "memory-kept",
    ("self._leave(request, reason)", "request.finished = reason\nself.running.remove(request)"),
    fact="a request that has ended keeps its memory",
    question="Who gives the memory of a request back that has ended?",
)
known.change(
    "finished-untold",
    ("step.finished.append(request)", "pass"),
    fact="the step does not say who has ended",
    question="Which of a Step's five lists do you fill?",
)
known.change(
    "leaves-at-the-next-step",
    ("self._leave(request, reason)", "request.finished = reason"),
    (
        "step, closed = Step(), self.static and bool(self.running)",
        """
        for one in [one for one in self.running if one.finished]:
            self.running.remove(one)
            self.memory.release(one)
        step, closed = Step(), self.static and bool(self.running)
        """,
    ),
    fact="who has ended leaves when the next step begins",
    question="A request ends in this step. When is its memory free?",
)
known.change(
    "cancelled-ones-go-on",
    ("if request.finished:  # somebody", "if False:  # somebody"),
    ("if request.finished or token", "if token"),
    fact="who is cancelled while the step runs goes on as if nothing had been",
    question="`stop` is code of somebody else. What may it do to the scheduler?",
)


@known.accepted("with-helpers")
def with_helpers(self):
    """In another order of words, with a slot count."""
    step = type_of_step()()
    free = 0 if self.static and self.running else self.slots - len(self.running)
    while free > 0 and len(self.waiting):
        request = self.waiting.next()
        if self.memory.begin(request) is False:
            free = 0
            continue
        free -= 1
        self.waiting.remove(request)
        step.admitted.append(request)
        self.running.append(request)
        self.running.sort(key=lambda one: one.number)
    for chunk in list(self.plan(self.running, self.budget)):
        if chunk.request in self.running and (
            self.memory.reserve(chunk.request, len(chunk.tokens)) or self.make_room(chunk, step)
        ):
            step.chunks.append(chunk)
    step.chunks[:] = [each for each in step.chunks if each.request in self.running]
    if len(step.chunks) == 0:
        return step
    try:
        logits = self.model(step.chunks, self.memory)
        mx.eval(logits)
        chosen = self.choose(logits, step.chunks)
    except Exception:
        for chunk in step.chunks:
            self.memory.shorten(chunk.request, chunk.start)
        raise
    for chunk, tokens in zip(step.chunks, chosen, strict=True):
        one, new, why = chunk.request, [], ""
        step.new.append(new)
        for token in tokens:
            if one.finished:
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
        if one.finished:
            continue
        wrong = chunk.scored - len(tokens) if chunk.scored else 0
        one.read = min(chunk.end - wrong, len(one.prompt) + len(one.output))
        self.memory.shorten(one, one.read)
        self.waiting.charge(one, len(chunk.tokens))
        if why:
            one.finished = why
            self.running.remove(one)
            self.memory.release(one)
            step.finished.append(one)
    return step


def type_of_step():
    """The package's own Step."""
    from tiny_llm_solution.serving.step import Step

    return Step
