"""Week 3, day 1, task 5: the scheduler's step.

Each request is expected to get what it gets alone, of a model whose tokens are known in advance.
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
from tiny_llm.serving import memory, plans, queue, ragged, request, scheduler
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import same_ids, same_pieces, same_text


def serving(requests, case, slots=3, follow=add_up, room=None, late=None, fails=(), **options):  # noqa: RET503
    """Play until all are done: the scheduler, and its steps."""
    kept = Notebook(room, case)
    with noted(case):
        made = scheduler.Scheduler(Teller(follow, case, fails), kept, slots=slots, **{"choose": greedy, **options})
        steps, late = [], late or [0] * len(requests)
        for number in range(400):
            for one, at in zip(requests, late, strict=True):
                if at == number:
                    made.submit(one)
            steps.append(made.step())
            if number >= max(late, default=0) and all(one.finished for one in requests):
                return made, steps
    fail(
        Kind.VALUES,
        "after 400 steps not all requests have ended",
        case,
        f"finished  {[one.finished for one in requests]}",
    )


def who(requests, some):
    """Names, in the order of the requests."""
    names = {id(one): chr(65 + number) for number, one in enumerate(requests)}
    return "".join(names[id(one)] for one in some)


def plays(requests, expected, case, **options):
    """Check who is read in each step, that all get what they get alone, and that nothing is left behind."""
    made, steps = serving(requests, case, **options)
    rows = [who(requests, [chunk.request for chunk in step.chunks]) for step in steps]
    same_pieces(rows, expected, f"who is read in each step; {case}")
    ended_alone(requests, case, options.get("follow", add_up))
    left_empty(made, case)
    return made, steps


def ended_alone(requests, case, follow=add_up):
    for number, one in enumerate(requests):
        expected = alone(follow, one.prompt, one.max_tokens, tuple(one.eos_ids))
        same_ids(one.output, expected, f"the output of {chr(65 + number)}; {case}")
        why = "length" if len(expected) == one.max_tokens else "stop"
        if one.finished != why:
            fail(Kind.VALUES, "wrong `finished`", case, f"expected  {why}", f"got       {one.finished}")


def left_empty(made, case):
    if made.running or len(made.waiting) or made.memory.texts:
        lines = f"running {len(made.running)}, waiting {len(made.waiting)}, in memory {len(made.memory.texts)}"
        fail(Kind.VALUES, "all requests have ended, and something is left", case, lines)


def asked(*lengths, prompt=2, **options):
    return [request.Request([3 + i] * prompt, length, **options) for i, length in enumerate(lengths)]


def test_task_5_step_five_in_three_slots():
    """Who has ended leaves at once, and the next one comes in with the next step."""
    plays(asked(4, 1, 2, 3, 1), ["ABC", "ACD", "ADE", "AD"], "5 requests of 4, 1, 2, 3, 1 tokens, 3 slots")


def test_task_5_step_static():
    """Nobody comes in before all have ended."""
    expected = ["ABC", "AC", "A", "A", "DE", "D", "D"]
    plays(asked(4, 1, 2, 3, 1), expected, "5 requests of 4, 1, 2, 3, 1 tokens, 3 slots, static", static=True)


def test_task_5_step_one_slot():
    plays(asked(2, 1, 2), ["A", "A", "B", "C", "C"], "3 requests of 2, 1, 2 tokens, 1 slot", slots=1)


def test_task_5_step_more_slots_than_requests():
    plays(asked(2, 3), ["AB", "AB", "B"], "2 requests of 2, 3 tokens, 8 slots", slots=8)


def test_task_5_step_memory_is_full():
    """Memory has room for two."""
    plays(asked(3, 2, 2, 1), ["AB", "AB", "AC", "CD"], "4 requests of 3, 2, 2, 1 tokens, memory for 2", room=2)


def test_task_5_step_waits_where_it_was():
    """For whom memory has no room, that stays the next one, however many steps it takes."""
    expected = ["AB", "AB", "AB", "BC", "CD", "DE"]
    plays(asked(3, 4, 2, 2, 1), expected, "5 requests of 3, 4, 2, 2, 1 tokens, memory for 2", room=2)


def test_task_5_step_late_ones():
    """Who comes while others run is read with them."""
    case = "3 requests of 4, 2, 2 tokens, which come before steps 0, 1 and 3"
    plays(asked(4, 2, 2), ["A", "AB", "AB", "AC", "C"], case, late=[0, 1, 3])


def test_task_5_step_nobody():
    case = "a step without requests"
    with noted(case):
        step = scheduler.Scheduler(Teller(add_up, case), Notebook(), choose=greedy).step()
    if done := [name for name, some in vars(step).items() if some]:
        fail(Kind.VALUES, "a step of nobody has done something", case, f"got       {', '.join(done)}")


def test_task_5_step_says_what_it_did():
    """Who was let in, which tokens were read, which are new, and who has ended."""
    case, requests = "3 requests of 2, 1, 1 tokens, prompts of 2, 2, 3, 2 slots", asked(2, 1)
    requests.append(request.Request([9, 9, 9], 1))
    _, steps = serving(requests, case, slots=2)
    same_pieces([who(requests, step.admitted) for step in steps], ["AB", "C"], f"who is let in; {case}")
    same_pieces([who(requests, step.finished) for step in steps], ["B", "AC"], f"who has ended; {case}")
    read = [[f"{who(requests, [each.request])} {each.start}..{each.end - 1}" for each in step.chunks] for step in steps]
    expected = ["A 0..1, B 0..1", "A 2..2, C 0..2"]
    same_pieces(list(map(", ".join, read)), expected, f"which positions are read; {case}")
    new = [token for step in steps for tokens in step.new for token in tokens]
    (first, second), (other, *_) = (alone(add_up, requests[i].prompt, 2) for i in (0, 1))
    same_ids(new, [first, other, second, *alone(add_up, [9, 9, 9], 1)], f"the new tokens of both steps; {case}")


@pytest.mark.parametrize("eos", [(9,), (6, 9), (4,), (5,)], ids=str)
def test_task_5_step_end_of_text(eos):
    """A token of eos_ids ends a text, and is no part of it; it may be the first one."""
    case = f"prompts [3], [4], [8], the tokens count up, eos_ids {eos}, max_tokens 7"
    requests = [request.Request([begun], 7, eos_ids=eos) for begun in (3, 4, 8)]
    made, steps = serving(requests, case, follow=count_up)
    ended_alone(requests, case, count_up)
    left_empty(made, case)
    for number, one in enumerate(requests):
        new = [
            t
            for step in steps
            for chunk, tokens in zip(step.chunks, step.new, strict=True)
            if chunk.request is one
            for t in tokens
        ]
        same_ids(new, one.output, f"the new tokens of {chr(65 + number)} in all steps; {case}")


def test_task_5_step_stop():
    """`stop` is told each token, but not one of eos_ids; that at which it says True is the last of the output."""
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
        same_ids(told[number], expected, f"what the stop of {chr(65 + number)} is told; {case}")
        if requests[number].finished != "stop":
            fail(Kind.VALUES, "wrong `finished`", case, "expected  stop", f"got       {requests[number].finished}")


def test_task_5_step_stop_is_told_the_last_token():
    """Also that which is the last of max_tokens: whoever turns tokens into text hears of them through `stop`."""
    case, told = "prompt [3], 2 tokens, which count up, and a stop that never stops", []
    requests = [request.Request([3], 2, stop=told.append)]
    serving(requests, case, follow=count_up)
    same_ids(told, [4, 5], f"what stop is told; {case}")


def test_task_5_step_begun_anew():
    """One that was put back reads its prompt and its output again, and goes on as if nothing had been."""
    case, requests = "2 requests of 5, 3 tokens; after 2 steps the second is put back", asked(5, 3)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), choose=greedy)
        for one in requests:
            made.submit(one)
        made.step()
        made.step()
        made.running.remove(requests[1])
        made.memory.release(requests[1])
        requests[1].read = 0
        made.waiting.put_back(requests[1])
        while not all(one.finished for one in requests) and made.model.calls < 20:
            made.step()
    ended_alone(requests, case)
    left_empty(made, case)


def halves(running, budget):
    """Two tokens of each at most, the youngest first."""
    return [request.next_chunk(one, min(2, one.unread)) for one in reversed(running)]


def test_task_5_step_by_another_plan():
    """The plan says who is read, and how much; it is told those that run, the oldest first, and the budget."""
    requests = [request.Request([3, 4, 5, 6, 7], 2), request.Request([3], 3), request.Request([2, 2, 2], 1)]
    plays(requests, ["CBA", "CBA", "BA", "A"], "prompts of 5, 1, 3 tokens, a plan of 2 of each at most", plan=halves)
    plays(
        asked(2, 2, 2),
        ["AB", "AB", "C", "C"],
        "3 requests of 2 tokens, a plan that takes `budget` requests, budget 2",
        plan=lambda running, budget: plans.whole_prompts(running[:budget], budget),
        budget=2,
    )


class Charged(queue.FirstComeFirstServed):
    """Writes down who is charged, and how much: number, tokens, number, tokens."""

    def __init__(self):
        super().__init__()
        self.charged = []

    def charge(self, one, tokens):
        self.charged += [one.number, tokens]


class LastFirst(Charged):
    """The last one that came is the next."""

    def next(self):
        return self._waiting[-1]


def test_task_5_step_by_another_queue():
    """The queue says who is next, and is told what was read. Those that run are in the order of their numbers."""
    case, waiting = "4 requests of 1, 2, 3, 2 tokens, 2 slots, the last one first", LastFirst()
    plays(asked(1, 2, 3, 2), ["CD", "CD", "BC", "AB"], case, slots=2, waiting=waiting)
    expected = [2, 2, 3, 2, 2, 1, 3, 1, 1, 2, 2, 1, 0, 2, 1, 1]
    same_ids(waiting.charged, expected, f"who is charged, and how much; {case}")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_task_5_step_the_model_fails(number):
    """The error reaches the caller. Memory is as it was, nobody is charged for the step, and the next one goes on."""
    case, requests = f"2 requests of 4, 3 tokens, call {number} of the model fails half way", asked(4, 3)
    with noted(case):
        waiting = Charged()
        made = scheduler.Scheduler(Teller(add_up, case, [number]), Notebook(None, case), choose=greedy, waiting=waiting)
        for one in requests:
            made.submit(one)
        for _ in range(number - 1):
            made.step()
        before = list(waiting.charged)
    with raises_error(RuntimeError, case, "the model has failed"):
        made.step()
    held = [len(made.memory.texts.get(one, [])) for one in requests]
    same_ids(held, [one.read for one in requests], f"how many tokens memory has, against `read`; {case}")
    same_ids(waiting.charged, before, f"who is charged, and how much, when the step has failed; {case}")
    with noted(case):
        while not all(one.finished for one in requests) and made.model.calls < 20:
            made.step()
    ended_alone(requests, case)
    left_empty(made, case)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_task_5_step_guesses(taken):
    """A plan that reads two guesses behind the last token, of which the first are right: those tokens are taken.

    The queue is charged for all that was read, also for what was read in vain.
    """

    def guess(running, budget):
        chunks = []
        for each in plans.whole_prompts(running, budget):
            guessed = alone(add_up, each.request.tokens(0, each.end), taken - 1)
            wrong = [5] * (3 - taken)
            chunks.append(request.Chunk(each.request, each.start, [*each.tokens, *guessed, *wrong], 3))
        return chunks

    def choose(logits, chunks):
        return [tokens[:taken] for tokens in greedy(logits, chunks)]

    case = f"2 requests of 4, 7 tokens, 3 scored in each step, {taken} taken"
    requests, waiting = asked(4, 7), Charged()
    expected = ["AB"] * -(-4 // taken) + ["B"] * (-(-7 // taken) - -(-4 // taken))
    _, steps = plays(requests, expected, case, plan=guess, choose=choose, waiting=waiting)
    due = [number for step in steps for each in step.chunks for number in (each.request.number, len(each.tokens))]
    same_ids(waiting.charged, due, f"who is charged, and how much; {case}")


def test_task_5_step_cancelled_meanwhile():
    """`stop` is somebody else's code: that of A cancels B within a step, that of C cancels C."""
    case, requests = "4 requests of 4 tokens, 4 slots; at A's 2nd token B is cancelled, at C's 2nd C", asked(4, 4, 4, 4)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), slots=4, choose=greedy)

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
    same_ids(counts, [len(step.chunks) for step in steps], f"how many lists `new` has, one for each chunk; {case}")
    same_ids([len(one.output) for one in requests], [4, 1, 2, 4], f"how many tokens each has; {case}")
    told = [one.finished for one in requests]
    same_pieces(told, ["length", "cancelled", "cancelled", "length"], f"`finished`; {case}")
    ended = [who(requests, step.finished) for step in steps]
    same_pieces(ended, ["", "", "", "AD", "", ""], f"`finished` of each step; {case}")


def test_task_5_step_cancelled_between():
    """One that runs and one that waits are cancelled: slot and memory are free in the next step."""
    case, requests = "4 requests of 4 tokens, 2 slots; after a step A and C are cancelled", asked(4, 4, 4, 4)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), slots=2, choose=greedy)
        for one in requests:
            made.submit(one)
        made.step()
        made.cancel(requests[0])
        made.cancel(requests[2])
        step = made.step()
    read = who(requests, [chunk.request for chunk in step.chunks])
    same_text(read, "BD", f"who is read in the second step; {case}")


def test_task_5_step_reserves():
    """Room is reserved for each chunk's tokens."""
    case = "a prompt of 3 tokens with 2 to follow, one of 1 with 3"
    made, _ = serving([request.Request([3, 4, 5], 2), request.Request([6], 3)], case)
    same_ids(made.memory.asked, [3, 1, 1, 1, 1], f"how many tokens room was asked for; {case}")


def puts_back(self, chunk, step):
    """What `make_room` promises, written here: the step is graded before it is."""
    while True:
        youngest = self.running.pop()
        self.memory.release(youngest)
        youngest.read = 0
        self.waiting.put_back(youngest)
        step.preempted.append(youngest)
        if youngest is chunk.request:
            return False
        if self.memory.reserve(chunk.request, len(chunk.tokens)):
            return True


@pytest.mark.parametrize(("order", "places"), [("oldest", 6), ("oldest", 7), ("youngest", 7)])
def test_task_5_step_no_room_for_a_chunk(order, places):
    """A asks for room before B or after it, and B is put back: a step reads nothing of who was put back in it."""
    case, requests = f"2 prompts of 2 tokens, 4 to follow, {places} places, the {order} first", asked(4, 4)

    def plan(running, budget):
        return plans.whole_prompts(running if order == "oldest" else running[::-1], budget)

    class Made(scheduler.Scheduler):
        make_room = puts_back

    with noted(case):
        made, rows = Made(Teller(add_up, case), Places(places, case), choose=greedy, plan=plan), []
        for one in requests:
            made.submit(one)
        while not all(one.finished for one in requests) and len(rows) < 40:
            rows.append(who(requests, [chunk.request for chunk in made.step().chunks]))
    both = "AB" if order == "oldest" else "BA"
    same_pieces(rows, [both, both, "A", "A", "B", "B"], f"who is read in each step; {case}")
    ended_alone(requests, case)
    left_empty(made, case)


def simulated(lengths, arrivals, slots, static):
    """Who is read in each step, by counting alone."""
    left, waiting, running, rows = dict(enumerate(lengths)), [], [], []
    for step in range(400):
        waiting += [i for i, at in enumerate(arrivals) if at == step]
        if not (static and running):
            while waiting and len(running) < slots:
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
        plays(requests, expected, case, slots=n.S, static=bool(n.turn(False, True)))


@property_test
@given(
    many=st.lists(
        st.tuples(st.lists(st.integers(2, VOCAB - 1), min_size=1, max_size=4), st.integers(1, 5), st.integers(0, 8)),
        min_size=1,
        max_size=7,
    ),
    slots=st.integers(1, 4),
    static=st.booleans(),
)
def test_task_5_step_any_arrivals(many, slots, static):
    """Whoever comes when, with whatever prompt and length: each gets what it gets alone, and nothing is left."""
    requests = [request.Request(list(prompt), length) for prompt, length, _ in many]
    # Numbers go by arrival.
    late = sorted(at for _, _, at in many)
    expected = simulated([length for _, length, _ in many], late, slots, static)
    case = (
        f"lengths {[length for _, length, _ in many]}, which come before steps {late}, {slots} slots, static {static}"
    )
    plays(requests, expected, case, slots=slots, static=static, late=late)


@property_test
@given(seed=st.integers(0, 99), slots=st.integers(1, 4), temp=st.sampled_from([0.0, 1.0]))
def test_task_5_step_with_your_model(seed, slots, temp):
    """Your model, memory and sampling: any batch gives each request the tokens that it gets alone."""
    model, draw = random_model(QWEN3, 11), np.random.default_rng(seed)
    config = ModelConfig.from_dict(model.config)
    case = f"float32, {model}, {slots} slots, temp {temp}, seed {seed}"
    prompts = [draw.integers(0, 29, int(draw.integers(1, 7))).tolist() for _ in range(4)]
    found = []
    for many in (slots, 1):
        requests = [
            request.Request(list(prompt), 2 + i, request.SamplingParams(temp=temp, seed=i))
            for i, prompt in enumerate(prompts)
        ]
        with noted(case):
            made = scheduler.Scheduler(ragged.RaggedModel(config, model.weights), memory.DenseMemory(2), slots=many)
            for one in requests:
                made.submit(one)
            for _ in range(20):
                made.step()
        found.append([token for one in requests for token in [*one.output, -REASONS.index(one.finished)]])
    same_ids(found[0], found[1], f"all outputs, against one at a time; {case}")
