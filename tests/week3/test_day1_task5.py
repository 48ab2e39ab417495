"""Week 3, day 1, task 5: the scheduler's step.

Each request must get what it gets alone, from a model whose tokens are known in advance.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, random_model
from tests.week3.stories import (
    REASONS,
    VOCAB,
    Notebook,
    Places,
    Teller,
    add_up,
    alone,
    count_up,
    greedy,
)

from tiny_llm.config import ModelConfig
from tiny_llm.serving import kv_cache, policies, queue, ragged, request, scheduler
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import same_ids, same_pieces, same_text


class Ledger(Notebook):
    """Records each request's num_computed_tokens at its release: a prefix cache keeps that many tokens."""

    def __init__(self, room=None, case=""):
        super().__init__(room, case)
        self.computed = {}

    def release(self, request):
        super().release(request)
        self.computed[request] = request.num_computed_tokens


def serving(requests, case, max_num_seqs=3, follow=add_up, room=None, late=None, fails=(), **options):  # noqa: RET503
    """Step until all requests have finished; return the scheduler and the requests of each step."""
    kept = Ledger(room, case)
    with noted(case):
        made = scheduler.Scheduler(
            Teller(follow, case, fails), kept, max_num_seqs=max_num_seqs, **{"sampler": greedy, **options}
        )
        steps, late = [], late or [0] * len(requests)
        for number in range(400):
            for one, at in zip(requests, late, strict=True):
                if at == number:
                    made.submit(one)
            steps.append(made.step())
            if number >= max(late, default=0) and all(one.finish_reason for one in requests):
                return made, steps
    fail(
        Kind.VALUES,
        "after 400 steps not all requests have finished",
        case,
        f"finished  {[one.finish_reason for one in requests]}",
    )


def who(requests, some):
    """Return names, in the order of the requests."""
    names = {id(one): chr(65 + number) for number, one in enumerate(requests)}
    return "".join(names[id(one)] for one in some)


def plays(requests, expected, case, **options):
    """Check the requests in each step, that all get what they get alone, and that nothing is left over."""
    made, steps = serving(requests, case, **options)
    rows = [who(requests, [chunk.request for chunk in step.chunks]) for step in steps]
    same_pieces(rows, expected, f"the requests in each step; {case}")
    lists = [len(step.new) for step in steps]
    same_ids(lists, [len(step.chunks) for step in steps], f"the number of lists in each step's new; {case}")
    ended_alone(requests, case, options.get("follow", add_up))
    left_empty(made, case)
    return made, steps


def ended_alone(requests, case, follow=add_up):
    for number, one in enumerate(requests):
        expected = alone(follow, one.prompt, one.max_tokens, tuple(one.eos_ids))
        same_ids(one.output, expected, f"the output of {chr(65 + number)}; {case}")
        why = "length" if len(expected) == one.max_tokens else "stop"
        if one.finish_reason != why:
            fail(Kind.VALUES, "wrong `finish_reason`", case, f"expected  {why}", f"got       {one.finish_reason}")


def new_tokens(steps, request):
    """Return a request's tokens in the `new` of all steps."""
    pairs = [pair for step in steps for pair in zip(step.chunks, step.new, strict=True)]
    return [token for chunk, tokens in pairs if chunk.request is request for token in tokens]


def left_empty(made, case):
    if made.running or len(made.waiting) or made.kv_cache.texts:
        lines = f"running {len(made.running)}, waiting {len(made.waiting)}, in the KV cache {len(made.kv_cache.texts)}"
        fail(Kind.VALUES, "all requests have finished, and something is left", case, lines)


def asked(*lengths, prompt=2, **options):
    return [request.Request([3 + i] * prompt, length, **options) for i, length in enumerate(lengths)]


def test_task_5_step_five_in_three_slots():
    """A finished request leaves at once, and the next one is admitted in the next step."""
    plays(asked(4, 1, 2, 3, 1), ["ABC", "ACD", "ADE", "AD"], "5 requests of 4, 1, 2, 3, 1 tokens, 3 slots")


def test_task_5_step_static():
    """No request is admitted before all have finished."""
    expected = ["ABC", "AC", "A", "A", "DE", "D", "D"]
    plays(asked(4, 1, 2, 3, 1), expected, "5 requests of 4, 1, 2, 3, 1 tokens, 3 slots, static", static=True)


def test_task_5_step_one_slot():
    plays(asked(2, 1, 2), ["A", "A", "B", "C", "C"], "3 requests of 2, 1, 2 tokens, 1 slot", max_num_seqs=1)


def test_task_5_step_more_slots_than_requests():
    plays(asked(2, 3), ["AB", "AB", "B"], "2 requests of 2, 3 tokens, 8 slots", max_num_seqs=8)


def test_task_5_step_cache_is_full():
    """The KV cache has capacity for two."""
    plays(asked(3, 2, 2, 1), ["AB", "AB", "AC", "CD"], "4 requests of 3, 2, 2, 1 tokens, a KV cache for 2", room=2)


def test_task_5_step_stays_next_in_the_queue():
    """A request that the KV cache cannot admit stays next in the queue, however many steps it takes."""
    expected = ["AB", "AB", "AB", "BC", "CD", "DE"]
    plays(asked(3, 4, 2, 2, 1), expected, "5 requests of 3, 4, 2, 2, 1 tokens, a KV cache for 2", room=2)


def test_task_5_step_late_arrivals():
    """A request that arrives while others run joins them."""
    case = "3 requests of 4, 2, 2 tokens, which arrive before steps 0, 1 and 3"
    plays(asked(4, 2, 2), ["A", "AB", "AB", "AC", "C"], case, late=[0, 1, 3])


def test_task_5_step_no_requests():
    case = "a step without requests"
    with noted(case):
        step = scheduler.Scheduler(Teller(add_up, case), Notebook(), sampler=greedy).step()
    if done := [name for name, some in vars(step).items() if some]:
        fail(Kind.VALUES, "a step without requests reports something", case, f"got       {', '.join(done)}")


def test_task_5_step_reports():
    """The admitted requests, the computed tokens, the new tokens, and the finished requests."""
    case, requests = "3 requests of 2, 1, 1 tokens, prompts of 2, 2, 3 tokens, 2 slots", asked(2, 1)
    requests.append(request.Request([9, 9, 9], 1))
    _, steps = serving(requests, case, max_num_seqs=2)
    same_pieces([who(requests, step.admitted) for step in steps], ["AB", "C"], f"the admitted requests; {case}")
    same_pieces([who(requests, step.finished) for step in steps], ["B", "AC"], f"the finished requests; {case}")
    read = [[f"{who(requests, [each.request])} {each.start}..{each.end - 1}" for each in step.chunks] for step in steps]
    expected = ["A 0..1, B 0..1", "A 2..2, C 0..2"]
    same_pieces(list(map(", ".join, read)), expected, f"which positions are computed; {case}")
    new = [token for step in steps for tokens in step.new for token in tokens]
    (first, second), (other, *_) = (alone(add_up, requests[i].prompt, 2) for i in (0, 1))
    same_ids(new, [first, other, second, *alone(add_up, [9, 9, 9], 1)], f"the new tokens of both steps; {case}")


@pytest.mark.parametrize("eos", [(9,), (6, 9), (4,), (5,)], ids=str)
def test_task_5_step_eos(eos):
    """An EOS token ends the output and is not part of it; it may be the first one."""
    case = f"prompts [3], [4], [8], the tokens count up, eos_ids {eos}, max_tokens 7"
    requests = [request.Request([begun], 7, eos_ids=eos) for begun in (3, 4, 8)]
    made, steps = serving(requests, case, follow=count_up)
    ended_alone(requests, case, count_up)
    left_empty(made, case)
    for number, one in enumerate(requests):
        same_ids(new_tokens(steps, one), one.output, f"the new tokens of {chr(65 + number)} in all steps; {case}")


def test_task_5_step_stop():
    """`stop` is called with each token except EOS; the token for which it returns True is the last of the output."""
    case, told = "prompts [3], [6], the tokens count up, stop at 6, eos_ids (8,)", [[], []]

    def stop_of(number):
        def stop(token):
            told[number].append(token)
            return token == 6

        return stop

    requests = [request.Request([begun], 9, stop=stop_of(i), eos_ids=(8,)) for i, begun in enumerate((3, 6))]
    made, _ = serving(requests, case, follow=count_up)
    left_empty(made, case)
    for number, expected in enumerate(([4, 5, 6], [7])):
        same_ids(requests[number].output, expected, f"the output of {chr(65 + number)}; {case}")
        same_ids(told[number], expected, f"the tokens passed to the stop of {chr(65 + number)}; {case}")
        if requests[number].finish_reason != "stop":
            fail(
                Kind.VALUES,
                "wrong `finish_reason`",
                case,
                "expected  stop",
                f"got       {requests[number].finish_reason}",
            )


def test_task_5_step_stop_gets_the_last_token():
    """Also the last of max_tokens: a detokenizer gets its tokens through `stop`."""
    case, told = "prompt [3], 2 tokens, which count up, and a stop that is never True", []
    requests = [request.Request([3], 2, stop=told.append)]
    serving(requests, case, follow=count_up)
    same_ids(told, [4, 5], f"the tokens passed to stop; {case}")


def test_task_5_step_after_preemption():
    """A preempted request recomputes its prompt and its output, and continues unchanged."""
    case, requests = "2 requests of 5, 3 tokens; after 2 steps the second is preempted", asked(5, 3)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), sampler=greedy)
        for one in requests:
            made.submit(one)
        made.step()
        made.step()
        made.running.remove(requests[1])
        made.kv_cache.release(requests[1])
        requests[1].num_computed_tokens = 0
        made.waiting.requeue(requests[1])
        while not all(one.finish_reason for one in requests) and made.model.calls < 20:
            made.step()
    ended_alone(requests, case)
    left_empty(made, case)


def halves(running, budget):
    """At most two tokens of each, the youngest first."""
    return [request.next_chunk(one, min(2, one.num_uncomputed_tokens)) for one in reversed(running)]


def test_task_5_step_other_policy():
    """The policy decides what runs; it gets the running requests, oldest first, and the token budget."""
    requests = [request.Request([3, 4, 5, 6, 7], 2), request.Request([3], 3), request.Request([2, 2, 2], 1)]
    plays(
        requests,
        ["CBA", "CBA", "BA", "A"],
        "prompts of 5, 1, 3 tokens, a policy of at most 2 tokens of each",
        policy=halves,
    )
    plays(
        asked(2, 2, 2),
        ["AB", "AB", "C", "C"],
        "3 requests of 2 tokens, a policy of `budget` requests, budget 2",
        policy=lambda running, budget: policies.unchunked_prefill(running[:budget], budget),
        max_num_batched_tokens=2,
    )


class Charged(queue.FirstComeFirstServed):
    """Records the charges: number, tokens, number, tokens."""

    def __init__(self):
        super().__init__()
        self.charged = []

    def charge(self, one, tokens):
        self.charged += [one.request_id, tokens]


class LastFirst(Charged):
    """The request that arrived last is next."""

    def peek(self):
        return self._waiting[-1]


def test_task_5_step_other_queue():
    """The queue decides which request is next, and is charged. Running requests are in order of their ids."""
    case, waiting = "4 requests of 1, 2, 3, 2 tokens, 2 slots, the last one first", LastFirst()
    plays(asked(1, 2, 3, 2), ["CD", "CD", "BC", "AB"], case, max_num_seqs=2, queue=waiting)
    expected = [2, 2, 3, 2, 2, 1, 3, 1, 1, 2, 2, 1, 0, 2, 1, 1]
    same_ids(waiting.charged, expected, f"the charges (request, tokens); {case}")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_task_5_step_model_error(number):
    """The caller gets the error. The KV cache is unchanged, nothing is charged, and the next step continues."""
    case, requests = f"2 requests of 4, 3 tokens, call {number} of the model fails half-way", asked(4, 3)
    with noted(case):
        waiting = Charged()
        made = scheduler.Scheduler(Teller(add_up, case, [number]), Notebook(None, case), sampler=greedy, queue=waiting)
        for one in requests:
            made.submit(one)
        for _ in range(number - 1):
            made.step()
        before = list(waiting.charged)
    with raises_error(RuntimeError, case, "the model has failed"):
        made.step()
    held = [len(made.kv_cache.texts.get(one, [])) for one in requests]
    same_ids(held, [one.num_computed_tokens for one in requests], f"cached tokens; {case}")
    same_ids(waiting.charged, before, f"the charges (request, tokens) after the failed step; {case}")
    with noted(case):
        while not all(one.finish_reason for one in requests) and made.model.calls < 20:
            made.step()
    ended_alone(requests, case)
    left_empty(made, case)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_task_5_step_draft_tokens(taken):
    """A policy with two draft tokens after the last token, of which the first are right: those are accepted.

    The queue is charged for all computed tokens, including the rejected ones.
    """

    def guess(running, budget):
        chunks = []
        for each in policies.unchunked_prefill(running, budget):
            guessed = alone(add_up, each.request.tokens(0, each.end), taken - 1)
            wrong = [5] * (3 - taken)
            chunks.append(request.Chunk(each.request, each.start, [*each.tokens, *guessed, *wrong], 3))
        return chunks

    def choose(logits, chunks):
        return [tokens[:taken] for tokens in greedy(logits, chunks)]

    case = f"2 requests of 4, 7 tokens, num_logits 3 in each step, {taken} returned"
    requests, waiting = asked(4, 7), Charged()
    expected = ["AB"] * -(-4 // taken) + ["B"] * (-(-7 // taken) - -(-4 // taken))
    _, steps = plays(requests, expected, case, policy=guess, sampler=choose, queue=waiting)
    due = [number for step in steps for each in step.chunks for number in (each.request.request_id, len(each.tokens))]
    same_ids(waiting.charged, due, f"the charges (request, tokens); {case}")


def drafted(running, budget):
    """All uncomputed tokens, and two draft tokens after the last, which count up."""
    return [
        request.Chunk(each.request, each.start, [*each.tokens, each.tokens[-1] + 1, each.tokens[-1] + 2], 3)
        for each in policies.unchunked_prefill(running, budget)
    ]


def test_task_5_step_ends_within_several_tokens():
    """A step samples three tokens of each request: nothing happens after the one that ends the output."""
    case = "3 tokens a step, which count up: stop at 5, eos_ids (9,), max_tokens 2, and none of these"
    told = [[], [], [], []]

    def stop_of(number):
        def stop(token):
            told[number].append(token)
            return token == 5

        return stop

    requests = [
        request.Request([begun], most, stop=stop_of(i), eos_ids=(9,))
        for i, (begun, most) in enumerate(((3, 8), (7, 8), (11, 2), (13, 4)))
    ]
    made, steps = serving(requests, case, max_num_seqs=4, follow=count_up, policy=drafted)
    left_empty(made, case)
    for number, expected in enumerate(([4, 5], [8], [12, 13], [14, 15, 16, 17])):
        same_ids(requests[number].output, expected, f"the output of {chr(65 + number)}; {case}")
        same_ids(told[number], expected, f"the tokens passed to the stop of {chr(65 + number)}; {case}")
    computed = [made.kv_cache.computed[one] for one in requests]
    same_ids(computed, [3, 2, 3, 5], f"`num_computed_tokens` when each request's KV cache is released; {case}")
    same_pieces(
        [one.finish_reason for one in requests], ["stop", "stop", "length", "length"], f"`finish_reason`; {case}"
    )
    same_pieces([who(requests, step.finished) for step in steps], ["ABC", "D"], f"the finished requests; {case}")
    same_ids(
        [token for new in steps[0].new for token in new],
        [4, 5, 8, 12, 13, 14, 15, 16],
        f"the new tokens of the first step; {case}",
    )


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("most", [2, 9])
def test_task_5_step_cancelled_by_its_own_stop(most, ends):
    """A's `stop` cancels A at its second token, which may also be the last one: nothing is done twice."""
    case = f"max_tokens {most}, 3 tokens a step; A's stop cancels A at its 2nd token and returns {ends}"
    requests = [request.Request([3], most), request.Request([9], 4)]
    with noted(case):
        made = scheduler.Scheduler(Teller(count_up, case), Notebook(None, case), sampler=greedy, policy=drafted)

        def stop(token):
            if token == 5:
                made.cancel(requests[0])
            return ends and token == 5

        requests[0].stop = stop
        for one in requests:
            made.submit(one)
        steps = [made.step() for _ in range(3)]
    left_empty(made, case)
    same_pieces([one.finish_reason for one in requests], ["cancelled", "length"], f"`finish_reason`; {case}")
    same_ids(requests[0].output, [4, 5], f"the output of A; {case}")
    same_ids(requests[1].output, [10, 11, 12, 13], f"the output of B; {case}")
    same_ids(
        [token for new in steps[0].new for token in new],
        [4, 5, 10, 11, 12],
        f"the new tokens of the first step; {case}",
    )
    same_pieces([who(requests, step.finished) for step in steps], ["", "B", ""], f"the finished requests; {case}")


def test_task_5_step_cancelled_during_a_step():
    """`stop` is the caller's code: A's cancels B during a step, C's cancels C."""
    case, requests = "4 requests of 4 tokens, 4 slots; at A's 2nd token B is cancelled, at C's 2nd C", asked(4, 4, 4, 4)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), max_num_seqs=4, sampler=greedy)

        def of_a(token):
            if len(requests[0].output) == 2:
                made.cancel(requests[1])
            return False

        def of_c(token):
            if len(requests[2].output) == 2:
                made.cancel(requests[2])
            return False

        requests[0].stop, requests[2].stop = of_a, of_c
        for one in requests:
            made.submit(one)
        steps = [made.step() for _ in range(6)]
    left_empty(made, case)
    counts = [len(step.new) for step in steps]
    same_ids(counts, [len(step.chunks) for step in steps], f"number of lists in `new`, one per chunk; {case}")
    same_ids([len(one.output) for one in requests], [4, 1, 2, 4], f"number of output tokens of each; {case}")
    for number, one in enumerate(requests):
        new = new_tokens(steps, one)
        same_ids(new, one.output, f"the new tokens of {chr(65 + number)} in all steps; {case}")
    told = [one.finish_reason for one in requests]
    same_pieces(told, ["length", "cancelled", "cancelled", "length"], f"`finish_reason`; {case}")
    ended = [who(requests, step.finished) for step in steps]
    same_pieces(ended, ["", "", "", "AD", "", ""], f"`finish_reason` of each step; {case}")


def test_task_5_step_cancelled_by_a_later_one():
    """C's `stop` cancels A and B, whose tokens came before C's: A's was its last, so A has finished already."""
    case, requests = "3 requests of 2, 4, 4 tokens; at C's 2nd token A and B are cancelled", asked(2, 4, 4)
    ran = []
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), sampler=greedy)

        def stop(token):
            if len(requests[2].output) == 2:
                ran.append(who(requests, made.running))
                made.cancel(requests[0])
                made.cancel(requests[1])
            return False

        requests[2].stop = stop
        for one in requests:
            made.submit(one)
        steps = [made.step() for _ in range(5)]
    left_empty(made, case)
    same_pieces(ran, ["BC"], f"the running requests when C's stop is called; {case}")
    same_ids([len(one.output) for one in requests], [2, 2, 4], f"number of output tokens of each; {case}")
    told = [one.finish_reason for one in requests]
    same_pieces(told, ["length", "cancelled", "length"], f"`finish_reason`; {case}")
    ended = [who(requests, step.finished) for step in steps]
    same_pieces(ended, ["", "A", "", "C", ""], f"the finished requests; {case}")


def test_task_5_step_cancelled_between_steps():
    """A running and a waiting request are cancelled: slot and KV cache are free in the next step."""
    case, requests = "4 requests of 4 tokens, 2 slots; after a step A and C are cancelled", asked(4, 4, 4, 4)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), max_num_seqs=2, sampler=greedy)
        for one in requests:
            made.submit(one)
        made.step()
        made.cancel(requests[0])
        made.cancel(requests[2])
        step = made.step()
    read = who(requests, [chunk.request for chunk in step.chunks])
    same_text(read, "BD", f"the requests in the second step; {case}")


def test_task_5_step_reserves():
    """Slots are reserved for each chunk's tokens."""
    case = "prompts of 3 and 1 tokens, max_tokens 2 and 3"
    made, _ = serving([request.Request([3, 4, 5], 2), request.Request([6], 3)], case)
    same_ids(made.kv_cache.asked, [3, 1, 1, 1, 1], f"the counts passed to reserve; {case}")


def puts_back(self, chunk, step):
    """What `preempt_until_reserved` promises, implemented here: the step is graded before it is."""
    while True:
        youngest = self.running.pop()
        self.kv_cache.release(youngest)
        youngest.num_computed_tokens = 0
        self.waiting.requeue(youngest)
        step.preempted.append(youngest)
        if youngest is chunk.request:
            return False
        if self.kv_cache.reserve(chunk.request, len(chunk.tokens)):
            return True


@pytest.mark.parametrize(("order", "places"), [("oldest", 6), ("oldest", 7), ("youngest", 7)])
def test_task_5_step_no_capacity_for_a_chunk(order, places):
    """A reserves before B or after it, and B is preempted: its chunk must not run in that step."""
    case, requests = f"2 prompts of 2 tokens, max_tokens 4, {places} KV slots, the {order} first", asked(4, 4)

    def plan(running, budget):
        return policies.unchunked_prefill(running if order == "oldest" else running[::-1], budget)

    class Made(scheduler.Scheduler):
        preempt_until_reserved = puts_back

    with noted(case):
        made, rows = Made(Teller(add_up, case), Places(places, case), sampler=greedy, policy=plan), []
        for one in requests:
            made.submit(one)
        while not all(one.finish_reason for one in requests) and len(rows) < 40:
            rows.append(who(requests, [chunk.request for chunk in made.step().chunks]))
    both = "AB" if order == "oldest" else "BA"
    same_pieces(rows, [both, both, "A", "A", "B", "B"], f"the requests in each step; {case}")
    ended_alone(requests, case)
    left_empty(made, case)


def simulated(lengths, arrivals, max_num_seqs, static):
    """Return the requests of each step, by counting alone."""
    left, waiting, running, rows = dict(enumerate(lengths)), [], [], []
    for step in range(400):
        waiting += [i for i, at in enumerate(arrivals) if at == step]
        if not (static and running):
            while waiting and len(running) < max_num_seqs:
                running.append(waiting.pop(0))
        running.sort()
        rows.append("".join(chr(65 + i) for i in running))
        for i in running:
            left[i] -= 1
        running = [i for i in running if left[i]]
        if step >= max(arrivals) and not any(left.values()):
            return rows
    return rows


def test_task_5_step_sweep():
    for n in sizes(R=20, T=20, S=9):
        draw = np.random.default_rng(n.seed)
        lengths = draw.integers(1, n.T + 1, n.R).tolist()
        requests = [request.Request(draw.integers(2, VOCAB, int(draw.integers(1, 6))).tolist(), m) for m in lengths]
        case = f"{n.R} requests of up to {n.T} tokens, {n.S} slots, seed {n.seed}"
        expected = simulated(lengths, [0] * n.R, n.S, bool(n.turn(False, True)))
        plays(requests, expected, case, max_num_seqs=n.S, static=bool(n.turn(False, True)))


@property_test
@given(
    many=st.lists(
        st.tuples(st.lists(st.integers(2, VOCAB - 1), min_size=1, max_size=4), st.integers(1, 5), st.integers(0, 8)),
        min_size=1,
        max_size=7,
    ),
    max_num_seqs=st.integers(1, 4),
    static=st.booleans(),
)
def test_task_5_step_any_arrivals(many, max_num_seqs, static):
    """Any arrivals, prompts and lengths: each request gets what it gets alone, and nothing is left over."""
    requests = [request.Request(list(prompt), length) for prompt, length, _ in many]
    # ids are in order of arrival
    late = sorted(at for _, _, at in many)
    expected = simulated([length for _, length, _ in many], late, max_num_seqs, static)
    case = (
        f"lengths {[length for _, length, _ in many]}, arriving at steps {late}, {max_num_seqs} slots, static {static}"
    )
    plays(requests, expected, case, max_num_seqs=max_num_seqs, static=static, late=late)


@property_test
@given(seed=st.integers(0, 99), max_num_seqs=st.integers(1, 4), temp=st.sampled_from([0.0, 1.0]))
def test_task_5_step_with_your_model(seed, max_num_seqs, temp):
    """Your model, KV cache and sampling: in any batch, each request gets the tokens that it gets alone."""
    model, draw = random_model(QWEN3, 11), np.random.default_rng(seed)
    config = ModelConfig.from_dict(model.config)
    case = f"float32, {model}, {max_num_seqs} slots, temp {temp}, seed {seed}"
    prompts = [draw.integers(0, 29, int(draw.integers(1, 7))).tolist() for _ in range(4)]
    found = []
    for many in (max_num_seqs, 1):
        requests = [
            request.Request(list(prompt), 2 + i, request.SamplingParams(temp=temp, seed=i))
            for i, prompt in enumerate(prompts)
        ]
        with noted(case):
            made = scheduler.Scheduler(
                ragged.RaggedModel(config, model.weights), kv_cache.DenseKVCache(2), max_num_seqs=many
            )
            for one in requests:
                made.submit(one)
            for _ in range(20):
                made.step()
        found.append([token for one in requests for token in [*one.output, -REASONS.index(one.finish_reason)]])
    same_ids(found[0], found[1], f"all outputs, against one at a time; {case}")
