"""Week 3, day 7, task 4: the metrics.

The clock advances only when a script says so. The metrics are checked against the formula.
"""

import math

import pytest
from tests.week3.engine_room import Chunk, Step, asked
from tests.week3.figures_script import MODEL, OTHERS, Clock, figures, measured, measured_by_formula, random_calls

from tiny_llm.server import metrics
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_text


def check_figures(calls, prompts, case):
    def run():
        clock = Clock()
        return measured(metrics.Metrics(MODEL, clock), clock, calls, prompts)

    found = figures(again(run, case))
    expected = measured_by_formula(calls, prompts, metrics)
    if missing := sorted(expected.keys() - found.keys()):
        count = "a metric is" if len(missing) == 1 else f"{len(missing)} metrics are"
        fail(Kind.VALUES, f"{count} missing", case, *(f"missing   {name}" for name in missing[:3]))
    if strange := sorted(found.keys() - expected.keys()):
        count = "a metric" if len(strange) == 1 else f"{len(strange)} metrics"
        fail(Kind.VALUES, f"{count} too many", case, *(f"got       {name}" for name in strange[:3]))
    for name, value in expected.items():
        if not math.isclose(found[name], value, rel_tol=1e-9, abs_tol=1e-9):
            fail(Kind.VALUES, f"{name} is wrong", case, f"expected  {value:.10g}", f"got       {found[name]:.10g}")


def test_task_4_metrics_nothing_yet():
    check_figures([], [1], "no requests")


def test_task_4_metrics_one_request():
    """It arrives at 10 s, is scheduled at 10.5 s, and has 5 tokens at 12.5 s."""
    calls = [(10.0, "arrived", 0, 0), (10.5, "new", 0, 1)]
    calls += [(10.5 + 0.5 * i, "new", 0, 1) for i in (1, 2, 3)] + [(12.5, "ends", 0, 1), (12.5, "left", 0, 1)]
    check_figures(calls, [7], "a request of 7 tokens at 10 s, tokens at 10.5, 11, 11.5, 12 and 12.5 s")


def test_task_4_metrics_a_prompt_in_chunks():
    calls = [(1.0, "arrived", 0, 0), (2.0, "new", 0, 0), (3.0, "new", 0, 0), (4.0, "new", 0, 1), (6.0, "ends", 0, 1)]
    check_figures(calls, [900], "a request at 1 s, steps at 2 and 3 s without a token, tokens at 4 and 6 s")


def test_task_4_metrics_several_tokens_in_a_step():
    calls = [(1.0, "arrived", 0, 0), (2.0, "new", 0, 3), (4.0, "new", 0, 4), (5.0, "ends", 0, 2)]
    check_figures(calls, [5], "a request at 1 s, 3 tokens at 2 s, 4 at 4 s, 2 at 5 s")


@pytest.mark.parametrize("count", [0, 1, 4])
def test_task_4_metrics_all_in_one_step(count):
    calls = [(1.0, "arrived", 0, 0), (2.0, "ends", 0, count), (2.0, "left", 0, 0)]
    check_figures(calls, [5], f"a request at 1 s that ends at 2 s with {count} tokens")


def test_task_4_metrics_ends_without_another_token():
    """Two tokens, and a step later the EOS token, which is not part of the output."""
    calls = [(1.0, "arrived", 0, 0), (2.0, "new", 0, 1), (3.0, "new", 0, 1), (6.0, "ends", 0, 0)]
    check_figures(calls, [5], "a request at 1 s, tokens at 2 and 3 s, EOS at 6 s")


def test_task_4_metrics_on_the_bounds():
    """A time equal to a bucket's bound is in that bucket."""
    calls = []
    for number, seconds in enumerate((0.25, 0.5, 0.75, 1.0)):
        begin = 64.0 * number
        calls += [(begin, "arrived", number, 0), (begin + seconds, "new", number, 1)]
        calls += [(begin + 2 * seconds, "ends", number, 1)]
    check_figures(calls, [1] * 4, "four requests whose times are 0.25, 0.5, 0.75 and 1 s")


def test_task_4_metrics_leaving_early():
    """One leaves before its first token, another one after it, and a third is preempted once."""
    calls = [(0.0, "arrived", 0, 0), (0.0, "arrived", 1, 0), (0.0, "arrived", 2, 0), (1.0, "new", 1, 1)]
    calls += [(1.5, "left", 0, 2), (1.5, "left", 1, 2), (2.0, "preempted", 2, 0), (3.0, "new", 2, 1)]
    calls += [(3.5, "refused", 0, 0), (5.0, "ends", 2, 1), (5.0, "left", 2, 0)]
    check_figures(calls, [4, 5, 6], "three requests at 0 s: two leave at 1.5 s, one is preempted at 2 s")


def test_task_4_metrics_step_reported_late():
    """Two leave before the step is reported in which they got a token, for one of them the first."""
    calls = [
        (0.0, "arrived", 0, 0),
        (0.0, "arrived", 1, 0),
        (1.0, "new", 0, 1),
        (1.5, "left", 0, 2),
        (1.5, "left", 1, 2),
    ]
    calls += [(2.0, "new", 0, 1), (2.0, "new", 1, 1)]
    check_figures(calls, [4, 5], "two requests at 0 s leave at 1.5 s, and a step with both is reported at 2 s")


def test_task_4_metrics_preempted_between_tokens():
    """A preempted request keeps its output and its first token: it only recomputes them."""
    calls = [(0.0, "arrived", 0, 0), (1.0, "new", 0, 1), (2.0, "new", 0, 2), (3.0, "preempted", 0, 0)]
    calls += [(4.0, "new", 0, 0), (5.0, "new", 0, 1), (9.0, "ends", 0, 1)]
    check_figures(calls, [4], "a request at 0 s: tokens at 1, 2 and 2 s, preempted at 3 s, tokens at 5 and 9 s")


def test_task_4_metrics_two_preempted():
    """One step preempts two requests, and a later one preempts one of them again."""
    calls = [(0.0, "arrived", 0, 0), (0.0, "arrived", 1, 0), (0.0, "arrived", 2, 0)]
    calls += [(1.0, "new", 0, 1), (1.0, "preempted", 1, 0), (1.0, "preempted", 2, 0), (2.0, "preempted", 2, 0)]
    check_figures(calls, [4, 5, 6], "three requests at 0 s: two are preempted at 1 s, and one of them again at 2 s")


def test_task_4_metrics_large_numbers():
    """All digits of a counter, and of a gauge."""
    check_figures([(0.0, "arrived", 0, 0)], [1000005], "a prompt of 1,000,005 tokens")


def test_task_4_metrics_admitted_again():
    """Its queue time ends at 1 s, and not when it is admitted again."""
    calls = [(0.0, "arrived", 0, 0), (1.0, "new", 0, 0), (2.0, "preempted", 0, 0), (9.0, "new", 0, 1)]
    check_figures(
        [*calls, (10.0, "ends", 0, 1)], [4], "a request at 0 s, admitted at 1 s, preempted at 2 s, and at 9 s"
    )


def test_task_4_metrics_exposed_twice():
    """Reading the metrics changes nothing, neither when they are read again nor in what is recorded after that."""
    calls, prompts = random_calls(5, 9, 20)
    case, clock = "9 requests, 20 steps, seed 5, and two readings after each other", Clock()
    with noted(case):
        subject = metrics.Metrics(MODEL, clock)
        first, second = measured(subject, clock, calls, prompts), subject.exposition(OTHERS)
    same_text(second, first, f"the second reading; {case}")


def test_task_4_metrics_labels():
    """A quote, a backslash and a newline are escaped."""
    name = 'my "model"\\v1\n'
    text = again(lambda: metrics.Metrics(name).exposition({}), repr(name))
    figures(text, r"my \"model\"\\v1\n")


def test_task_4_metrics_keeps_nothing():
    """A thousand requests that came and left take no memory."""
    case = "1,000 requests that arrive and leave, some of them served"
    with noted(case):
        subject = metrics.Metrics(MODEL)
        for number in range(1000):
            request = asked(number)
            subject.arrived(request)
            if number % 3:
                subject.stepped(_step_of(request))
            subject.finished(request, "stop")
            if number % 3 == 2:  # it has left during a step, which was its first and its last
                subject.stepped(_step_of(request, [request]))
    held = sum(len(v) for v in vars(subject).values() if isinstance(v, dict | list | set))
    if held > 100:
        fail(Kind.VALUES, "requests that have left are kept", case, f"got       {held} entries in its dicts")


def _step_of(request, ends=()):
    return Step([Chunk(request, 0, [1], 1)], [[5]], admitted=[*ends], finished=[*ends])


def test_task_4_metrics_sweep():
    for n in sizes(R=64, S=131):
        check_figures(*random_calls(n.seed, n.R, n.S), f"{n.R} requests, {n.S} steps, seed {n.seed}")
