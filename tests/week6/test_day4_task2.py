"""Week 6, day 4, task 2: forwarding.

Nothing is timed and nothing sleeps: the event loop's clock advances when nothing else is left to do.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.virtual_time import play
from tests.week6.forward_scenes import SCENES, expected_of
from tests.week6.forwarding import THREE, TWO, Rig, alone, by_formula, events_of, random_scene, run_scene, scene_of
from tests.week6.replicas import fleet, prompt_of

from tiny_llm.router import forward
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_pieces


def said(scene):
    text, scripts, attempts, _ = scene
    tries = "" if attempts is None else f", attempts {attempts}"
    return f"{text}; the replicas' scripts {' '.join(map(repr, scripts))}{tries}"


@pytest.mark.parametrize("name", SCENES)
def test_task_2_forward_scene(name):
    """Check what each replica and each client gets, and when."""
    scene, _ = SCENES[name]
    case = f"{name}: {said(scene)}"
    found = again(lambda: scene_of(forward.forward, scene), case)
    same_pieces(found, expected_of(name), case, "lines")


SCRIPTS = ["ab", "!", "4", "abc!", "a", "2", "a!", "~"[:0]]


def test_task_2_forward_sweep():
    """One request, and each script at each replica."""
    for n in sizes(R=6, S=20, T=4):
        fleets = ", ".join(f"ready {(i * n.S) % 3}/16 *" for i in range(n.R))
        scripts = [SCRIPTS[(n.seed + i * n.T) % len(SCRIPTS)] or "/" for i in range(n.R)]
        scene = fleets, [each if each != "/" else "ab" for each in scripts], n.T, [(0.0, "A", {"blocks": n.S % 7})]
        case = said(scene)
        with noted(case):
            lines = scene_of(forward.forward, scene)
        received, tried = by_formula(scene)
        got = [line.partition(", busy")[0] for line in lines if " reads " in line]
        same_pieces(got, received, case, "events")
        same_pieces([line.split()[2] for line in lines if " gets " in line], tried, case, "replicas")


@property_test
@given(seed=st.integers(0, 100_000), replicas=st.integers(1, 4), clients=st.integers(1, 8))
def test_task_2_forward_ends_once(seed, replicas, clients):
    """Whatever fails when: each request ends once, no client gets a token twice, and no count is left."""
    scene = random_scene(seed, replicas, clients)
    case = said(scene)
    broken = []
    with noted(case):
        rig = play(run_scene(forward.forward, scene), case)
    names = sorted(end.split()[0] for end in rig.ends)
    broken += [f"ended {names}"] * (names != sorted(chr(65 + i) for i in range(clients)))
    broken += [end for end in rig.ends if "raised" in end]
    broken += [rig.counts()] * (rig.open != 0 or any(r.running for r in rig.replicas))
    for name in names:
        got = [line.split(" reads ")[1] for line in rig.log if f" {name} reads " in line]
        tokens = [each for each in got if not each.startswith("Failure")]
        whole_answer = [f"{name}{letter}" for letter in "abc"[: len(tokens)]]
        broken += [f"{name} received {got}"] * (tokens != whole_answer or len(got) > len(tokens) + 1)
    if broken:
        fail(Kind.VALUES, "a request or a count is wrong", case, *(f"got       {each:.100}" for each in broken[:3]))


def test_task_2_forward_reports_to_health():
    """A replica that dies by a report gets no retry, and the others see it at once."""
    scene = alone(THREE, "! ! ab")
    case = f"{said(scene)}; the first report sets r1 dead"

    async def whole():
        rig = Rig(forward.forward, fleet(THREE, prompt_of(9)), scene[1], None)
        report = rig.report

        def marks(replica, outcome):
            report(replica, outcome)
            rig.replicas[1].state = "dead"

        rig.report = marks
        await rig.client("A")
        return rig

    with noted(case):
        rig = play(whole(), case)
    same_pieces(rig.sent, ["r0", "r2"], case, "replicas")


def test_task_2_forward_takes_any_request():
    """A request is passed on as it is."""
    case, seen = "a request that is a dict", []

    async def whole():
        async def send(replica, request):
            seen.append(request)
            yield {"index": 0}

        events = await events_of(forward.forward(body := {"prompt": "a"}, [], fleet(TWO, []), send, lambda *_: None))
        return [event async for event in events] == [{"index": 0}] and seen[0] is body

    with noted(case):
        if not play(whole(), case):
            fail(Kind.VALUES, "the request or its event was changed", case)
