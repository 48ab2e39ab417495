"""Task 6.5.2, the discrete-event simulation: scenes by hand, and a simulation without a heap."""

import pytest
from tests.week6.fleets import BY_HAND, SCENES, Scene, drawn, fleet_of, jobs_of, least_loaded, simulated

from tiny_llm.fleet import simulation
from tiny_llm.fleet.jobs import Failure, Job, Outcome
from tiny_llm.fleet.replica import Resources, SimulatedReplica
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error


def failures_of(scene):
    return [Failure(*failure) for failure in scene.failures]


def said(scene):
    jobs = "; ".join(f"at {at:g} s {prompt} + {output} tokens" for at, prompt, output in scene.jobs[:4])
    more = f" and {len(scene.jobs) - 4} more" if len(scene.jobs) > 4 else ""
    dies = "".join(f"; {name} fails at {at:g} s until {until:g} s" for at, name, until in scene.failures[:3])
    return f"{scene.replicas} replicas, steps of {scene.step:g} s; {jobs}{more}{dies}"


def run(scene, case, choose=least_loaded, failures=None):
    given = failures_of(scene) if failures is None else failures
    jobs = jobs_of(scene, Job)
    with noted(case):
        found = simulation.simulate(jobs, fleet_of(scene, SimulatedReplica, Resources), choose, given)
    if jobs != jobs_of(scene, Job) or (failures is None and given != failures_of(scene)):
        fail(Kind.INPUT_CHANGED, "the list of jobs or of failures was changed", case)
    return found


def check(scene, case, swept=False):
    found = run(scene, case)
    expected = simulated(
        jobs_of(scene, Job), fleet_of(scene, SimulatedReplica, Resources), least_loaded, failures_of(scene), Outcome
    )
    for number, (wanted, got) in enumerate(zip(expected, found, strict=False)):
        if vars(wanted) != vars(got):
            rows = f"expected  {vars(wanted)}", f"got       {vars(got)}"
            fail(Kind.VALUES, f"the outcome of request {number} is wrong", case, *rows, swept=swept)
    fail_if_different("the number of outcomes is wrong", len(expected), len(found), case)


@pytest.mark.parametrize("name", BY_HAND)
def test_task_2_simulate_by_hand(name):
    """The times of the first and of the last token."""
    case = f"{name}: {said(SCENES[name])}"
    found = [(outcome.first, outcome.end) for outcome in run(SCENES[name], case)]
    fail_if_different("first and last token come at other times", BY_HAND[name], found, case)


@pytest.mark.parametrize("name", SCENES)
def test_task_2_simulate_scene(name):
    check(SCENES[name], f"{name}: {said(SCENES[name])}")


def test_task_2_simulate_choose():
    """The policy sees the views of all replicas, in their order, and the blocks of the prompt."""
    scene, calls = SCENES["no replica left"], []

    def choose(views, blocks):
        calls.append(([view.name for view in views], [view.state for view in views], list(blocks)))
        return least_loaded(views, blocks)

    case = said(scene)
    run(scene._replace(jobs=[(0.0, 40, 3), (1.25, 4, 2)]), case, choose)
    blocks = Job(0.0, (1000,) * 40, 3).blocks
    expected = [(["r0"], ["ready"], blocks), (["r0"], ["dead"], blocks), (["r0"], ["dead"], [])]
    fail_if_different("`choose` was called with other arguments", expected, calls, case)


def test_task_2_simulate_failures_once():
    """`failures` may be an iterator, which can be read once."""
    scene = SCENES["a failure before the first token"]
    case = f"failures is an iterator: {said(scene)}"
    found = run(scene, case, failures=iter(failures_of(scene)))
    expected = BY_HAND["a failure before the first token"]
    fail_if_different(
        "first and last token come at other times", expected, [(each.first, each.end) for each in found], case
    )


def test_task_2_simulate_nothing():
    fail_if_different("there are outcomes", [], run(Scene([]), "no jobs"), "no jobs")


def test_task_2_simulate_refuses():
    scene = Scene([(0.0, 4, 3)], replicas=2, failures=[(1.0, "r0", 2.0), (1.0, "r7", 2.0)])
    with raises_value_error("a failure of r7, in a fleet of r0 and r1", "r7"):
        run(scene, said(scene))


def test_task_2_simulate_deterministic():
    """The same load on a new fleet has the same outcomes."""
    scene = drawn(7, 40)
    case = said(scene)
    fail_if_different("two runs differ", run(scene, case), run(scene, case), case)


def test_task_2_simulate_sweep():
    """Random fleets, loads and failures, with many events at one time; and 12 replicas: sorted, r10 precedes r2."""
    for seed in range(60):
        scene = drawn(seed, 1 + seed % 23)
        check(scene, f"seed {seed}: {said(scene)}", swept=True)
    many = Scene([(0.0, 4, 2)] * 12, replicas=12, shares=0.5)
    check(many, f"replicas that share cores: {said(many)}", swept=True)
