"""Known programs of task 6.5.2, the discrete-event simulation."""

import mlx.core as mx
from tests.week6.fleets import SCENES, Scene, drawn, fleet_of, jobs_of, least_loaded, simulated
from tiny_llm_solution.fleet.jobs import Failure, Job, Outcome, Traffic, arrivals
from tiny_llm_solution.fleet.replica import Resources, SimulatedReplica

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.5.2")


def run(program, scene, given=list):
    fleet = fleet_of(scene, SimulatedReplica, Resources)
    return program(jobs_of(scene, Job), fleet, least_loaded, given(Failure(*each) for each in scene.failures))


def numbers(program, scene, given=list):
    """Return a row for each request; -1 is never."""

    def row(outcome):
        times = [-1 if time is None else time for time in (outcome.first, outcome.end)]
        return [outcome.arrival, *times, outcome.attempts, int(outcome.replica[1:] or -1)]

    return mx.array([row(outcome) for outcome in run(program, scene, given)])


known.probe_table(
    one=lambda program: numbers(program, SCENES["one request"]),
    together=lambda program: numbers(program, SCENES["two requests at one time"]),
    step_end=lambda program: numbers(program, SCENES["a request when a step ends"]),
    cores=lambda program: numbers(program, SCENES["replicas that share cores"]),
    full=lambda program: numbers(program, SCENES["no place for a request"]),
    before=lambda program: numbers(program, SCENES["a failure before the first token"]),
    after=lambda program: numbers(program, SCENES["a failure after the first token"]),
    at_step_end=lambda program: numbers(program, SCENES["a failure when the last token comes"]),
    short=lambda program: numbers(program, SCENES["a short failure"]),
    busy=lambda program: numbers(program, SCENES["a failure of busy replicas that share cores"]),
    several=lambda program: numbers(program, SCENES["two requests fail together"]),
    others_arrive=lambda program: numbers(program, SCENES["a retry when others arrive"]),
    restarts=lambda program: numbers(program, SCENES["a retry when a replica restarts"]),
    dead=lambda program: numbers(program, SCENES["a failure of a dead replica"]),
    iterator=lambda program: numbers(program, SCENES["a failure before the first token"], iter),
    random=lambda program: numbers(program, drawn(3, 20)),
    refused=lambda program: refusals(
        lambda name: run(program, Scene([(0.0, 4, 3)], failures=[(1.0, name, 2.0)])), ["r0", "r5"]
    ),
)


@known.sized("40 requests on 4 replicas")
def sized(program):
    jobs = arrivals(Traffic(20.0, 40, output=12.0))
    return lambda: program(
        jobs,
        [SimulatedReplica(f"r{n}", lambda chunks, busy: 0.01, Resources(prefix_cache=False)) for n in range(4)],
        least_loaded,
    )


known.change(
    "one-event-at-a-time",
    ("while events and events[0][0] == now:", "for _ in range(1):"),
    fact="steps start after every event, although others happen at the same time",
    question="Two requests arrive at 0 s. How many are in the first step?",
)
known.change(
    "ties-as-pushed",
    (
        "heapq.heappush(events, (at, kind, next(numbers), what))",
        "heapq.heappush(events, (at, next(numbers), kind, what))",
    ),
    ("_, kind, _, what = heapq.heappop(events)", "_, _, kind, what = heapq.heappop(events)"),
    fact="events of one time happen in the order in which they were pushed",
    question="The last token comes at 2 s, and the replica fails at 2 s. Does the client have its answer?",
)
known.change(
    "dead-step-ends",
    ("elif what[0].current is what[1]:", "elif what[0].current:"),
    fact="the end of a step whose replica has failed ends the step that the replica runs after its restart",
    question="The replica failed during a step and runs another one now. Whose end is in the heap?",
)
known.change(
    "failed-still-busy",
    ("busy -= what.current is not None\n", ""),
    fact="a replica that failed in a step counts as busy forever",
    question="How many replicas compute after one of two has failed?",
)
known.change(
    "sent-again-after-tokens",
    ("if outcomes[number].first is None:\n    send(number)", "send(number)"),
    fact="requests with a token are sent again after a failure, too",
    question="The client has read half of an answer. What does it get from the second replica?",
)
known.change(
    "starts-over",
    (
        "if outcomes[number].first is None:\n    send(number)",
        "outcomes[number].first = None\nsend(number)",
    ),
    fact="requests with a token start over after a failure, with another first token",
    question="The client has read half of an answer. What does it do with a second beginning?",
)
known.change(
    "sent-again-last",
    (
        "if outcomes[number].first is None:\n    send(number)",
        "if outcomes[number].first is None:\n    schedule(now, ARRIVAL, number)",
    ),
    fact="a request that is sent again waits for the restarts and arrivals of the same time",
    question="A failure and an arrival have the same time. Which of the two requests does the router see first?",
)
known.change(
    "restart-with-its-failure",
    (
        "schedule(failure.at, FAILURE, by_name[failure.replica])\n"
        "schedule(failure.until, RESTART, by_name[failure.replica])",
        "schedule(failure.at, FAILURE, (by_name[failure.replica], failure.until))",
    ),
    (
        "busy -= what.current is not None\n",
        'what, until = what\nif what.view.state == "dead":\n    continue\n'
        "schedule(until, RESTART, what)\nbusy -= what.current is not None\n",
    ),
    fact="a failure of a dead replica has no restart",
    question="A replica dies until 9 s, and its second failure ends at 2 s. When is it ready?",
)
known.change(
    "failures-read-twice",
    ("for failure in failures:\n", "if not {failure.replica for failure in failures} <= by_name.keys():\n"
     '    raise ValueError("r5, r7: no such replica")\nfor failure in failures:\n'),
    fact="`failures` is read twice, although an iterator is empty the second time",
    question="What does a second loop over a generator see?",
)  # fmt: skip
known.change(
    "never-sent-again",
    ("left, held[what.name] = sorted(held[what.name]), set()", "left, held[what.name] = (), set()"),
    fact="all requests of a replica that fails are lost",
    question="A request waits, and its replica fails. What has its client seen so far?",
)
known.change(
    "arrives-again",
    (
        "if outcomes[number].first is None:\n    send(number)",
        "if outcomes[number].first is None:\n    outcomes[number].arrival = now\n    send(number)",
    ),
    fact="the arrival of a request that is sent again is the time of the failure",
    question="Since when has the user been waiting?",
)
known.change(
    "last-token-is-first",
    ("outcome.first = now if outcome.first is None else outcome.first", "outcome.first = now"),
    fact="`first` is the time of the latest token",
    question="Which of a request's tokens is its first one?",
)
known.change(
    "token-at-start",
    (
        "outcome.first = now if outcome.first is None else outcome.first",
        "outcome.first = now - what[1].seconds if outcome.first is None else outcome.first",
    ),
    fact="the first token comes when its step begins",
    question="When does a step know its tokens?",
)
known.change(
    "no-choice",
    ("if chosen := choose(views, jobs[number].blocks):", "chosen = choose(views, jobs[number].blocks)\nif True:"),
    fact="a policy that chooses no replica is not expected",
    question="All replicas are full. What does the policy return?",
)
known.change(
    "busy-without-itself",
    ("busy += 1\nstep = by_name[name].start_step(busy)", "step = by_name[name].start_step(busy)\nbusy += 1"),
    fact="a replica that starts a step does not count itself as busy",
    question="A single replica computes. How many share the cores?",
)
known.change(
    "all-starters-are-busy",
    (
        "for name in sorted(touched, key=order.__getitem__):\n    if by_name[name].can_start:\n        busy += 1\n",
        "starts = [name for name in sorted(touched, key=order.__getitem__) if by_name[name].can_start]\n"
        "busy += len(starts)\nfor name in starts:\n    if True:\n",
    ),
    fact="replicas that start steps at one time all count each other as busy",
    question="Two idle replicas start, r0 before r1. How many run a step when r0 starts?",
)
known.change(
    "rejections-are-attempts",
    (
        "if chosen := choose(views, jobs[number].blocks):",
        "chosen = choose(views, jobs[number].blocks)\nif not chosen:\n    outcomes[number].attempts += 1\nelse:",
    ),
    fact="a request that no replica takes has an attempt more",
    question="How many replicas was a rejected request sent to?",
)
known.change(
    "unknown-replica",
    ("if failure.replica not in by_name:", "if False:"),
    fact="the failure of an unknown replica is a KeyError",
    question="What does a reader of the error learn about the replica?",
)


@known.accepted("without a heap")
def without_a_heap(jobs, replicas, choose, failures=()):
    failures = list(failures)
    if unknown := {failure.replica for failure in failures} - {replica.name for replica in replicas}:
        raise ValueError(f"unknown: {unknown}")
    return simulated(jobs, replicas, choose, failures, Outcome)


known.accepted_change(
    "all replicas are looked at",
    ("for name in sorted(touched, key=order.__getitem__):", "for name in by_name:"),
)
known.written(
    "without the walrus",
    (
        "if chosen := choose(views, jobs[number].blocks):",
        "chosen = choose(views, jobs[number].blocks)\nif chosen is not None:",
    ),
)
