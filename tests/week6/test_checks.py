"""Week 6's open task: a routing policy is measured by the share of requests that it serves within the goal."""

from types import SimpleNamespace

import pytest
from tests.week6.routing import DAY_4, LOADS, NEEDED, SEEDS, WORSE, mean, share_of, views

from tiny_llm.fleet import capacity, cost, jobs, own_choice, replica, simulation
from tiny_llm.router.replica import Prefixes, Replica
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different

FLEET = SimpleNamespace(capacity=capacity, cost=cost, jobs=jobs, replica=replica, simulation=simulation)


def test_checks_only_open_replicas():
    """A dead, draining or full replica gets nothing, however attractive it is."""
    for rows, blocks, allowed in views():
        found = [Replica(name, state, running, limit) for name, state, running, limit, _ in rows]
        for each, (*_, seen) in zip(found, rows, strict=True):
            each.prefixes = Prefixes()
            each.prefixes.add(seen)
        said = ", ".join(f"{r.name} {r.state} {r.running}/{r.limit}" for r in found)
        case = f"{said}; {len(blocks)} blocks"
        before = [(each.state, each.running, each.prefixes.match(blocks)) for each in found]
        with noted(case):
            chosen = own_choice.choose(found, blocks)
        name = None if chosen is None else chosen.name
        if name not in allowed:
            fail(
                Kind.VALUES,
                "the chosen replica cannot take a request",
                case,
                f"expected  one of {allowed}",
                f"got       {name}",
            )
        after = [(each.state, each.running, each.prefixes.match(blocks)) for each in found]
        fail_if_different("the replicas were changed", before, after, case)


@pytest.mark.parametrize("name", LOADS)
def test_checks_no_load_suffers(name):
    """On no load is the policy much worse than day 4's."""
    case = f"{name}: {LOADS[name].about}"
    with noted(case):
        found = mean(own_choice.choose, name, FLEET)
    if found < DAY_4[name] - WORSE:
        share = f"{found:.1%} of the requests meet the goal"
        fail(Kind.VALUES, f"{share}, with day 4's policy {DAY_4[name]:.1%}", case)


def test_checks_score():
    """The mean share of all loads."""
    case = f"four loads, seeds {SEEDS[0]} and {SEEDS[1]}"
    with noted(case):
        found = {name: mean(own_choice.choose, name, FLEET) for name in LOADS}
    score = sum(found.values()) / len(found)
    if score < NEEDED:
        rows = [f"{name}: {share:.1%}, day 4 {DAY_4[name]:.1%}" for name, share in found.items()]
        fail(Kind.VALUES, f"{score:.1%} of the requests meet the goal, {NEEDED:.0%} are needed", case, *rows)


def test_checks_deterministic():
    """The same load has the same result again: the policy keeps nothing between calls."""
    load, case = "unequal replicas", "the load 'unequal replicas', twice"
    with noted(case):
        first, second = (share_of(own_choice.choose, load, FLEET, 1) for _ in range(2))
    fail_if_different("two runs differ", first, second, case)
