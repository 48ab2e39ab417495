"""Week 6, day 4, task 3: the health of a replica."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6.health_script import observed, observed_by_formula, random_script, script

from tiny_llm.router import health
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_pieces

# what happens, and the last line of what is seen
SCENES = {
    "one passed probe": ("pass", "pass: starting, 0/8"),
    "two passed probes": ("pass*2", "pass: ready, 0/8"),
    "a failed probe in between": ("pass miss pass", "pass: starting, 0/8"),
    "a slow start": ("miss*9 pass*2", "pass: ready, 0/8"),
    "three failed probes": ("pass*2 miss*3", "miss: dead, 0/8, no prefixes"),
    "failed probes that are not in a row": ("pass*2 miss*2 pass miss*2", "miss: ready, 0/8"),
    "three failed requests": ("pass*2 fail*3", "fail: dead, 0/8, no prefixes"),
    "failed requests with an answer in between": ("pass*2 fail*2 ok fail*2", "fail: ready, 0/8"),
    "failed requests with passed probes in between": (
        "pass*2 fail pass fail pass fail",
        "fail: dead, 0/8, no prefixes",
    ),
    "failed probes with answers in between": ("pass*2 miss ok miss ok miss", "miss: dead, 0/8, no prefixes"),
    "failed probes and requests, two each": ("pass*2 miss fail miss fail", "fail: ready, 0/8"),
    "failures before it was ready": ("fail*2 pass*2 fail", "fail: ready, 0/8"),
    "failures while it starts": ("fail*5 miss*5", "miss: starting, 0/8"),
    "requests still run when it dies": ("pass*2 run=3 exit", "exit: dead, 3/8, no prefixes"),
    "it dies and comes back": ("pass*2 miss*3 pass*2", "pass: ready, 0/8"),
    "one passed probe after its death": ("pass*2 miss*3 pass", "pass: dead, 0/8, no prefixes"),
    "failures before its death do not count": ("pass*2 fail*2 exit pass*2 fail", "fail: ready, 0/8"),
    "late failures of a dead replica": ("pass*2 fail*5 pass*2 fail*2", "fail: ready, 0/8"),
    "a new process": ("pass*2 exit start pass*2", "pass: ready, 0/8"),
    "a passed probe before the new process": ("pass*2 exit pass start pass", "pass: starting, 0/8, no prefixes"),
    "a start that was not needed": ("pass*2 start", "start: ready, 0/8"),
    "draining": ("pass*2 run=2 drain", "drain: draining, 2/8"),
    "drained": ("pass*2 run=2 drain run=0", "run=0: draining, 0/8, drained"),
    "ready and idle is not drained": ("pass*2", "pass: ready, 0/8"),
    "probes while it drains": ("pass*2 run=2 drain pass*5", "pass: draining, 2/8"),
    "it dies while it drains": ("pass*2 run=2 drain miss*3", "miss: dead, 2/8, no prefixes"),
    "requests fail while it drains": ("pass*2 run=5 drain fail*3", "fail: dead, 5/8, no prefixes"),
    "drained before it was ready": ("drain pass*3", "pass: draining, 0/8, drained"),
    "a dead replica is not drained": ("pass*2 exit drain", "drain: dead, 0/8, no prefixes"),
    "it exits while it starts": ("pass exit pass", "pass: dead, 0/8, no prefixes"),
    "the process of a dead replica exits": ("pass*2 miss*3 pass exit pass", "pass: dead, 0/8, no prefixes"),
    "a limit from before its exit": ("pass*2 run=3 miss*3 full exit pass*2", "pass: ready, 3/8"),
    "a rejection": ("pass*2 run=5 full", "full: ready, 5/4"),
    "a rejection of the only one": ("pass*2 run=1 full", "full: ready, 1/1"),
    "a rejection above the limit": ("pass*2 run=5 full run=7 full", "full: ready, 7/4"),
    "answers after a rejection": ("pass*2 run=5 full ok*3", "ok: ready, 5/7"),
    "more answers than the limit": ("pass*2 run=5 full ok*9", "ok: ready, 5/8"),
    "many answers": ("pass*2 ok*12", "ok: ready, 0/8"),
    "a rejection is no failure": ("pass*2 run=5 fail*2 full", "full: ready, 5/4"),
    "rejections between failures": ("pass*2 run=5 fail full fail full fail", "fail: dead, 5/8, no prefixes"),
    "a limit from before its death": ("pass*2 run=3 full exit start pass*2", "pass: ready, 3/8"),
}


def said(words):
    return "the events " + " ".join(words)


@pytest.mark.parametrize("name", SCENES)
def test_task_3_health_scene(name):
    """Check the state after each event."""
    text, last = SCENES[name]
    words = script(text)
    expected = observed_by_formula(words)
    assert expected[-1] == last
    found = again(lambda: observed(health.Health, words), f"{name}: {said(words)}")
    same_pieces(found, expected, f"{name}: {said(words)}", "states")


@pytest.mark.parametrize(("up", "down"), [(1, 1), (3, 2), (2, 5)])
def test_task_3_health_counts(up, down):
    """`up` and `down` are arguments."""
    words = script("pass*3 fail*5 pass*3 miss*5 pass*3")
    case = f"up {up}, down {down}; {said(words)}"
    found = again(lambda: observed(health.Health, words, up=up, down=down), case)
    same_pieces(found, observed_by_formula(words, up=up, down=down), case, "states")


def test_task_3_health_sweep():
    for n in sizes(E=131, L=20):
        words = random_script(n.seed, n.E)
        case = f"limit {n.L}; {said(words)}"[:400]
        found = again(lambda words=words, limit=n.L: observed(health.Health, words, limit), case)
        same_pieces(found, observed_by_formula(words, n.L), case, "states")


@property_test
@given(seed=st.integers(0, 100_000), length=st.integers(1, 60))
def test_task_3_health_any_events(seed, length):
    """Whatever happens, the state is that of the docstring."""
    words = random_script(seed, length)
    same_pieces(observed(health.Health, words), observed_by_formula(words), said(words), "states")
