"""The widget of day 6.5: the simulation in the page has the latencies of the solution's, and it needs no mouse."""

import json
import re

import pytest
from book.generate.week6.fleet_figures import fleet, latency, least_loaded, rank, ttft
from tests.book.widget import Widget

from tiny_llm_course.dev.book.parts import present

pytestmark = pytest.mark.of_the_course


def data():
    """Return the widget's data."""
    text = present("6.5", "fleet-load")
    return json.loads(re.search(r"<script[^>]*>(.*?)</script>", text, re.S)[1])


def test_numbers_of_the_solution(page):
    from tiny_llm_solution.fleet.jobs import Job
    from tiny_llm_solution.fleet.simulation import simulate

    widget = Widget(page, "fleet-load")
    for rate, replicas in ((40, 4), (5, 1), (80, 3), (33, 8)):
        state = widget.change(rate=rate, replicas=replicas)
        jobs = [Job(at / rate, (0,) * prompt, most) for at, prompt, most in data()["jobs"]]
        found = simulate(jobs, fleet(replicas), least_loaded)
        for name, of, percent in (("t50", ttft, 50), ("t95", ttft, 95), ("l50", latency, 50), ("l95", latency, 95)):
            assert state[name] == pytest.approx(rank(of(found), percent)), (rate, replicas, name)


def test_by_keyboard(page):
    widget = Widget(page, "fleet-load")
    before = widget.state()
    widget.focus("#rate")
    after = widget.press("End")
    assert after["rate"] == 80
    assert after["t95"] > before["t95"]
    assert after["use"] > before["use"]
    widget.focus("#replicas")
    assert widget.press("ArrowRight")["replicas"] == 5
    assert page.url == widget.address
