"""Known programs of week 6's open task: routing policies, good ones and bad ones."""

from types import SimpleNamespace

import mlx.core as mx
from tests.week6.routing import LOADS, share_of, views
from tiny_llm_solution.fleet import capacity, cost, jobs, replica, simulation
from tiny_llm_solution.router import choice
from tiny_llm_solution.router.replica import Prefixes, Replica

from tiny_llm_course.testkit.variants import Variants

known = Variants("6.C")
FLEET = SimpleNamespace(capacity=capacity, cost=cost, jobs=jobs, replica=replica, simulation=simulation)


def chosen(program):
    """Return which replica is chosen in each case: its place, or -1."""
    found = []
    for rows, blocks, _ in views():
        replicas = [Replica(*row[:4]) for row in rows]
        for each, row in zip(replicas, rows, strict=True):
            each.prefixes = Prefixes()
            each.prefixes.add(row[4])
        one = program(replicas, blocks)
        found.append(-1 if one is None else replicas.index(one))
    return mx.array(found)


def share(name):
    return lambda program: mx.array([share_of(program, name, FLEET, 1)])


known.probe_table(chosen=chosen, **{name.replace(" ", "_"): share(name) for name in LOADS})
known.not_timed("a policy is measured by what the fleet serves")


@known.wrong(
    "least-loaded",
    fact="the replica with the fewest requests is chosen, whatever it has cached",
    question="A prompt's first 14 blocks are in the cache of one replica. What do the others compute?",
)
def least_loaded(replicas, blocks):
    ready = [each for each in replicas if each.state == "ready" and each.running < each.limit]
    return min(ready, key=lambda each: each.running, default=None)


@known.wrong(
    "day-4",
    fact="the policy of day 4 is used as it is",
    question="Which of the four loads does it lose most on, and what does it not look at there?",
)
def day_4(replicas, blocks):
    return choice.choose(replicas, blocks)


@known.wrong(
    "by-hash",
    fact="the first block alone decides: a prefix has one replica, however busy that is",
    question="One prefix of 24 has a quarter of all requests. Who serves them?",
)
def by_hash(replicas, blocks):
    ready = [each for each in replicas if each.state == "ready" and each.running < each.limit]
    return ready[(blocks[0] if blocks else 0) % len(ready)] if ready else None


known.change(
    "prefix-only",
    ("PRICE * replica.running * USUAL / replica.limit", "0.0"),
    fact="only the cached blocks count, and not the load",
    question="A popular prefix is on one replica. How long is its queue?",
)
known.change(
    "fullest-first",
    ("min(ready, key=work, default=None)", "max(ready, key=work, default=None)"),
    fact="the replica with the most work is chosen",
    question="Your number is an amount of work. Which replica should have the prompt?",
)
known.change(
    "state-ignored",
    ('replica.state == "ready" and replica.running < replica.limit', "replica.running < replica.limit"),
    fact="a dead or draining replica may be chosen",
    question="A replica that has just died has no requests running. How attractive is it?",
)
known.change(
    "limit-ignored",
    (" and replica.running < replica.limit]", "]"),
    fact="a full replica may be chosen",
    question="What does a replica at its limit answer?",
)
known.change(
    "raises-without-replicas",
    ("min(ready, key=work, default=None)", "min(ready, key=work)"),
    fact="the policy raises if no replica can take a request",
    question="What is the smallest of no numbers?",
)


@known.accepted("load and cache as a pair of shares")
def shares(replicas, blocks):
    best, least = None, 0.0
    for each in replicas:
        if each.state != "ready" or each.running >= each.limit:
            continue
        missing = len(blocks) - each.prefixes.match(blocks)
        number = 80 * each.running / each.limit + missing
        if best is None or number < least:
            best, least = each, number
    return best


known.accepted_change(
    "a cap below the limit",
    (
        "min(ready, key=work, default=None)",
        "min(ready, key=lambda each: (each.running > 0.9 * each.limit, work(each)), default=None)",
    ),
)

known.accepted_change("all replicas count alike", ("replica.running * USUAL / replica.limit", "replica.running"))
