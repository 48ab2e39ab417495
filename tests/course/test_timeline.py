"""The timeline of a scheduler's steps: its rows, and the lines that they are drawn as."""

import re

import pytest
from tests.week3.chunking import next_token

from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.serving.policies import chunked_prefill, unchunked_prefill  # noqa: E402
from tiny_llm_solution.serving.request import Chunk, Request  # noqa: E402
from tiny_llm_solution.serving.step import Step  # noqa: E402
from tiny_llm_solution.serving.timeline import MARKS, Row, render, timeline  # noqa: E402


def run_of(plan, budget, *texts, slots=4):
    """The steps in which texts are served, each told as the step before which it comes, its prompt, its tokens."""
    waiting = [(came, Request([1] * prompt, most, request_id=i)) for i, (came, prompt, most) in enumerate(texts)]
    came, running, steps = {request: at for at, request in waiting}, [], []
    while waiting or running:
        step = Step()
        while waiting and waiting[0][0] <= len(steps) and len(running) < slots:
            step.admitted.append(waiting.pop(0)[1])
            running.append(step.admitted[-1])
        step.chunks = plan(running, budget)
        for chunk in step.chunks:
            request = chunk.request
            request.num_computed_tokens = chunk.end
            step.new.append([next_token(request.tokens(0, chunk.end))] * chunk.num_logits)
            request.output += step.new[-1]
            if len(request.output) == request.max_tokens:
                request.finish_reason = "length"
                step.finished.append(request)
                running.remove(request)
        steps.append(step)
    return steps, came


def states(*run):
    return [row.states for row in timeline(*run)]


def test_whole_prompts():
    assert states(*run_of(unchunked_prefill, 8, (0, 2, 5), (2, 20, 2))) == ["pdddf", "  pf "]


def test_a_prompt_in_pieces():
    """Seven tokens a step beside one that writes: 7, 7 and 6 of 20."""
    assert states(*run_of(chunked_prefill, 8, (0, 2, 7), (2, 20, 3))) == ["pdddddf", "  pppdf"]


def test_who_waits_for_a_slot():
    """The third waits in the queue until the first has ended, and reads what the second leaves of the budget."""
    run = run_of(chunked_prefill, 4, (0, 1, 3), (0, 12, 2), (1, 4, 1), slots=2)
    assert states(*run) == ["pdf  ", "ppppf", " wwpf"]


def test_who_waits_in_a_slot():
    """The first prompt takes all of the budget."""
    assert states(*run_of(chunked_prefill, 4, (0, 8, 1), (0, 3, 1))) == ["pf ", "wwf"]


def test_without_arrivals_everybody_was_there():
    steps, _ = run_of(unchunked_prefill, 8, (0, 2, 4), (2, 3, 1))
    assert states(steps) == ["pddf", "wwf "]


def chunk(request, start, count, scored):
    return Chunk(request, start, [1] * count, scored)


def test_put_back_and_read_again():
    """What was written is read again with the prompt, in two pieces: no piece of that is writing."""
    one, other = Request([1] * 3, 9, request_id=0), Request([1] * 2, 9, request_id=1)
    other.output = [1, 1]
    steps = [
        Step([chunk(one, 0, 3, 1), chunk(other, 0, 2, 1)], [[1], [1]], [one, other]),
        Step([chunk(one, 3, 1, 1), chunk(other, 2, 1, 1)], [[1], [1]]),
        Step([chunk(one, 4, 1, 1)], [[1]], preempted=[other]),
        Step([chunk(one, 5, 1, 1)], [[1]]),
        Step([chunk(one, 6, 1, 1), chunk(other, 0, 3, 0)], [[1], []], [other]),
        Step([chunk(other, 3, 1, 1)], [[1]], finished=[one]),
        Step([chunk(other, 4, 1, 1)], [[1]]),
    ]
    one.finish_reason = "length"
    assert states(steps) == ["pddddf ", "pdxwppd"]


def test_cancelled():
    """One while it writes, one in the queue; who has not ended goes on waiting."""
    one, two, three = (Request([1], 9, request_id=number) for number in range(3))
    one.finish_reason = two.finish_reason = "cancelled"
    steps = [Step([chunk(one, 0, 1, 1)], [[1]], [one]), Step([chunk(one, 1, 1, 1)], [[1]]), Step()]
    assert states(steps, {two: 0, three: 1}) == ["pd ", "   ", " ww"]


def test_nothing():
    assert timeline([]) == []
    assert render([]) == []


def test_lines():
    rows = timeline(*run_of(chunked_prefill, 8, (0, 2, 7), (2, 20, 3)))
    wait, read, write, back, end = (mark for mark, _ in MARKS.values())
    assert render(rows, ["writer", "long"]) == [
        "        0",
        f"writer  {read}{write * 5}{end}",
        f"long      {read * 3}{write}{end}",
        f"{read} prefills   {write} decodes   {end} finishes",
    ]
    assert render(rows)[1].startswith("request 0  ")
    assert len({wait, read, write, back, end}) == 5


@pytest.mark.parametrize("width", [30, 47, 79, 200])
def test_no_line_is_too_long(width):
    run = run_of(chunked_prefill, 8, (0, 2, 150), (2, 90, 30), (3, 4, 40), slots=2)
    rows = timeline(*run)
    lines = render(rows, ["a name that is far too long", "b", "c"], width)
    assert max(map(len, lines)) <= width
    assert not any(re.search(r"\x1b|\s$", line) for line in lines)
    marks = {mark: letter for letter, (mark, _) in MARKS.items()}
    for row, name in zip(rows, ("a name that is f", "b", "c"), strict=True):
        parts = [line[18:] for line in lines if line.startswith(f"{name:<16}  ")]
        found = "".join(marks.get(mark, mark) for part in parts for mark in part)
        assert found.replace(" ", "") == row.states.replace(" ", "")


def test_parts_begin_at_round_steps():
    lines = render([Row(Request([1], 1, request_id=7), "p" + "d" * 44)], width=36)
    assert [line.split() for line in lines if line.startswith(" ")] == [["0", "10"], ["20", "30"], ["40"]]
    assert sum(line.startswith("request 7") for line in lines) == 3
