"""Day 5's figures, tables and widget: fleets on a simulated clock."""

import json
from collections.abc import Sequence
from typing import Any

from book.generate.week6.fleet_figures import (
    COST,
    GOAL,
    TRAFFIC,
    fleet,
    latency,
    least_loaded,
    rank,
    tpot,
    ttft,
)
from tiny_llm_solution.fleet.capacity import goodput, replicas_needed
from tiny_llm_solution.fleet.cost import StepCost
from tiny_llm_solution.fleet.disaggregated import Link, disaggregate
from tiny_llm_solution.fleet.jobs import Job, Traffic, arrivals, failures
from tiny_llm_solution.fleet.replica import SimulatedReplica
from tiny_llm_solution.fleet.simulation import simulate

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, lines
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.machine import in_words
from tiny_llm_course.paths import ROOT
from tiny_llm_course.testkit.variants import load_variants

RECORD = ROOT / "benches" / "week6" / "fleet.json"
# The running example: ten requests as (arrival, prompt tokens, output tokens), and a cost that is easy to compute.
TEN = [
    (0, 20, 3),
    (0, 10, 2),
    (1, 30, 2),
    (2, 10, 4),
    (4, 20, 2),
    (4, 20, 3),
    (5, 10, 1),
    (7, 30, 3),
    (9, 10, 2),
    (9, 20, 2),
]
BY_HAND = StepCost(1.0, 0.05, 0.25, 0.0)
SLOTS = 2
LEFT, ROW = 34.0, 30.0  # pixels
LOADS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
FOUR = 4  # replicas of the load figure
SEEDS = (1, 2, 3)
NEED = 60.0  # requests per second of the capacity plan


def generated_parts() -> Parts:
    """Return all parts."""
    return {
        "ten": ten(),
        "ten-events": ten_events(),
        "load": load(),
        "capacity": capacity(),
        "split": split(),
        "tail": tail(),
        "thousand": thousand(),
        "compared": compared(),
        "broken": broken(),
        "fleet-load": fleet_load(),
    }


def traced() -> tuple[list[Any], list[tuple[int, float, float, str]], list[Any]]:
    """Run the example; return its jobs, its steps as (replica, begin, end, words), and the outcomes."""
    steps: list[tuple[int, float, float, str]] = []
    clock = [0.0]

    class Watched(SimulatedReplica):  # type: ignore[misc]
        def start_step(self, busy: int) -> Any:
            step = super().start_step(busy)
            steps.append((int(self.name[1:]), clock[0], clock[0] + step.seconds, self.words))
            return step

        def end_step(self) -> Any:
            mine = [end for place, _, end, _ in steps if place == int(self.name[1:])]
            clock[0] = mine[-1]
            return super().end_step()

        def submit(self, number: int, job: Job) -> None:
            clock[0] = max(clock[0], job.arrival)
            super().submit(number, job)

    def replica(name: str) -> Watched:
        def seconds(chunks: Any, busy: int) -> float:
            work = BY_HAND.work(chunks)
            made.words = " + ".join(
                [f"{work.prefilled} tokens"] * bool(work.prefilled) + [f"{work.decoding} dec."] * bool(work.decoding)
            )
            return float(BY_HAND.seconds(work))

        made = Watched(name, seconds, fleet_limits())
        return made

    jobs = [Job(float(at), (n,) * prompt, output) for n, (at, prompt, output) in enumerate(TEN)]
    return jobs, steps, simulate(jobs, [replica("r0"), replica("r1")], least_loaded)


def fleet_limits() -> Any:
    """Return the resources of the example's replicas."""
    from tiny_llm_solution.fleet.replica import Resources

    return Resources(max_num_seqs=SLOTS, prefix_cache=False)


def ten() -> str:
    """Draw the steps of both replicas over time, and below them each request from arrival to its last token."""
    _, steps, outcomes = traced()
    end = max(outcome.end for outcome in outcomes)

    def draw(canvas: Canvas) -> None:
        second = (canvas.width - LEFT - 8) / end

        def x(time: float) -> float:
            return float(LEFT + second * time)

        for place, begin, stop, _ in steps:
            canvas.rect(x(begin) + 1, place * ROW + 2, second * (stop - begin) - 2, ROW - 8, f"fill series-{place}", 3)
        for place in range(2):
            canvas.text(0, place * ROW + ROW / 2 + 3, f"r{place}", "strong")
        top = 2 * ROW + 12
        for n, outcome in enumerate(outcomes):
            y, place = top + n * 17.0, int(outcome.replica[1:])
            canvas.text(0, y + 5, str(n), "small")
            canvas.path([(x(outcome.arrival), y - 5), (x(outcome.arrival), y + 5)], "axis")
            canvas.path([(x(outcome.arrival), y), (x(outcome.first), y)], "grid")
            canvas.path([(x(outcome.first), y), (x(outcome.end), y)], f"line series-{place}")
            canvas.circle(x(outcome.first), y, 4, f"fill series-{place}")
            canvas.circle(x(outcome.end), y, 4, f"fill series-{place}")
        bottom = top + len(outcomes) * 17.0
        canvas.path([(x(0), bottom), (x(end), bottom)], "axis")
        for time in range(0, int(end) + 1, 2):
            canvas.path([(x(time), bottom), (x(time), bottom + 5)], "axis")
            canvas.text(x(time), bottom + SMALL + 7, str(time), "small", "middle")
        canvas.text(x(end), bottom + SMALL + FONT + 9, "seconds", "small", "end")

    about = "Two rows of steps, one for each replica, and ten rows of requests: " + "; ".join(
        f"{n} arrives at {o.arrival:g} s, first token {o.first:g} s, last {o.end:g} s" for n, o in enumerate(outcomes)
    )
    caption = (
        "Above, each box is one step of a replica's scheduler, from its start event to its end event. Below, each row "
        "is a request, from its arrival (a vertical line) to its first and last tokens (dots). Simulated."
    )
    return at_both_widths(draw).figure("ten-6-5", "Ten requests on two replicas", about, caption)


def ten_events() -> str:
    """Return the first steps as a table, with the arithmetic of each."""
    _, steps, _ = traced()
    rows = ["| Replica | Start | The step computes | Cost | End |", "|:--|--:|:--|:--|--:|"]
    for place, begin, stop, words in steps[:6]:
        prefilled = sum(int(part.split()[0]) for part in words.split(" + ") if "tokens" in part)
        decoding = sum(int(part.split()[0]) for part in words.split(" + ") if "dec." in part)
        terms = [
            "1",
            *[f"0.05&nbsp;·&nbsp;{prefilled}"] * bool(prefilled),
            *[f"0.25&nbsp;·&nbsp;{decoding}"] * bool(decoding),
        ]
        said = " and ".join(
            [f"{prefilled} prompt tokens"] * bool(prefilled)
            + [f"{decoding} decoding request{'s' * (decoding > 1)}"] * bool(decoding)
        )
        cost = f"{' + '.join(terms)} = {stop - begin:g}&nbsp;s"
        rows.append(f"| r{place} | {begin:g}&nbsp;s | {said} | {cost} | {stop:g}&nbsp;s |")
    return "\n".join(rows) + "\n"


def saturated(count: int = FOUR) -> float:
    """Return the requests per second that a fleet serves if all of them arrive at once."""
    jobs = arrivals(TRAFFIC._replace(rate=1e9), 1)
    return len(jobs) / float(max(o.end for o in simulate(jobs, fleet(count), least_loaded)))


def load() -> str:
    """Draw TTFT over the load."""
    most = saturated()
    runs = [simulate(arrivals(TRAFFIC._replace(rate=share * most), 1), fleet(FOUR), least_loaded) for share in LOADS]
    series = {f"p{p}": [1000 * rank(ttft(run), p) for run in runs] for p in (50, 95)}

    def draw(canvas: Canvas) -> None:
        named = ("load, as a share of the saturated throughput", "TTFT, ms")
        lines(canvas, LOADS, series, named, _word, logarithmic=False)

    about = f"TTFT of {FOUR} replicas: " + "; ".join(
        f"load {share}, p50 {a:.0f} ms, p95 {b:.0f} ms"
        for share, a, b in zip(LOADS, series["p50"], series["p95"], strict=True)
    )
    caption = (
        f"Each point is a run of {TRAFFIC.requests} Poisson arrivals on {FOUR} replicas. All runs have the same "
        f"requests, with different times between arrivals. A load of 1 is {most:.0f} requests/s, which the fleet "
        f"serves if all requests arrive at once. Simulated."
    )
    return at_both_widths(draw).figure("load-6-5", "Time to first token by load", about, caption)


def _word(value: float) -> str:
    return f"{value:g}" if value < 10 else f"{value:,.0f}"


def runs_of(count: int, seed: int) -> Any:
    """Simulate the capacity plan's traffic."""
    return simulate(arrivals(TRAFFIC._replace(rate=NEED), seed), fleet(count), least_loaded)


def capacity() -> str:
    """Draw the share of requests that meet the goal over the number of replicas, for each seed, and name the plan."""
    tried: list[int] = []

    def run(count: int, seed: int) -> Any:
        tried.append(count)
        return runs_of(count, seed)

    needed = replicas_needed(run, GOAL, 64, seeds=SEEDS)
    assert needed
    *order, last = map(str, dict.fromkeys(tried))
    across = list(range(max(1, needed - 4), needed + 4))
    runs = {count: [runs_of(count, seed) for seed in SEEDS] for count in across}
    series = {
        f"seed {seed}": [100 * sum(map(GOAL.met_by, runs[count][n])) / TRAFFIC.requests for count in across]
        for n, seed in enumerate(SEEDS)
    }
    rates = {count: sum(goodput(run, GOAL) for run in runs[count]) / len(SEEDS) for count in across}

    def draw(canvas: Canvas) -> None:
        lines(canvas, across, series, ("replicas", "requests that meet the goal, %"), _word, logarithmic=False)

    about = "; ".join(
        f"{count} replicas: " + ", ".join(f"{series[f'seed {seed}'][i]:.0f} %" for seed in SEEDS)
        for i, count in enumerate(across)
    )
    caption = (
        f"The load is {NEED:.0f} requests/s. The goal is a TTFT of at most {1000 * GOAL.first:.0f} ms and a TPOT of at "
        f"most {1000 * GOAL.per_token:.0f} ms for 95 % of the requests. The search tries {', '.join(order)} and {last} "
        f"replicas and returns {needed}. The goodput is {rates[needed - 1]:.0f} requests/s with {needed - 1} replicas "
        f"and {rates[needed]:.0f} with {needed}. Simulated."
    )
    return at_both_widths(draw).figure("capacity-6-5", "Capacity: requests that meet the goal", about, caption)


def split() -> str:
    """Compare mixed replicas with prefill and decode replicas."""
    traffic = Traffic(22.0, 300, prompt=(200, 600), output=32.0, longest=96)
    link = Link(0.001, 1e9, 49_152)
    rows = [
        "| Eight replicas | TTFT p50 | TTFT p95 | TPOT p50 | TPOT p95 |",
        "|:--|--:|--:|--:|--:|",
    ]

    def row(name: str, outcomes: Sequence[Any]) -> str:
        figures = [1000 * rank(of(outcomes), p) for of in (ttft, tpot) for p in (50, 95)]
        return (
            f"| {name} | "
            + " | ".join(f"{figure:.0f} ms" if figure >= 20 else f"{figure:.1f} ms" for figure in figures)
            + " |"
        )

    jobs = arrivals(traffic, 1)
    rows.append(row("8 mixed", simulate(jobs, fleet(8), least_loaded)))
    for prefills in (7, 6, 5):
        decodes = fleet(8 - prefills, max_num_seqs=32)
        rows.append(
            row(
                f"{prefills} prefill, {8 - prefills} decode",
                disaggregate(jobs, fleet(prefills), decodes, least_loaded, link),
            )
        )
    return "\n".join(rows) + "\n"


def tail() -> str:
    """Return what failures do to the tail: by the mean time between failures of one replica."""
    count = 8
    jobs = arrivals(TRAFFIC._replace(rate=60.0, requests=1200), 1)
    names, until = [f"r{n}" for n in range(count)], max(job.arrival for job in jobs)
    rows = [
        "| Mean time between failures per replica | Requests resent | Requests lost | TTFT p50 | TTFT p95 | TTFT p99 |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    for every in (None, 60, 20, 7):
        down = failures(names, 1 / every if every else 0.0, until, 2.0, 3)
        found = simulate(jobs, fleet(count), least_loaded, down)
        lost, again = sum(o.end is None for o in found), sum(o.attempts > 1 for o in found)
        figures = " | ".join(f"{1000 * rank(ttft(found), p):.0f} ms" for p in (50, 95, 99))
        rows.append(f"| {f'{every} s' if every else 'no failures'} | {again} | {lost} | {figures} |")
    return "\n".join(rows) + "\n"


def thousand() -> str:
    """Simulate a thousand replicas for a moment, and return what came of it."""
    count, rate = 1000, 8000.0
    jobs = arrivals(TRAFFIC._replace(rate=rate, requests=3000, output=12.0), 1)
    found = simulate(jobs, fleet(count), least_loaded)
    tokens = sum(o.tokens for o in found)
    seconds = max(o.end for o in found)
    figures = f"{1000 * rank(ttft(found), 50):.0f} ms | {1000 * rank(ttft(found), 99):.0f} ms"
    return "\n".join(
        [
            "| Replicas | Requests | Tokens | Simulated time | TTFT p50 | TTFT p99 |",
            "|--:|--:|--:|--:|--:|--:|",
            f"| {count:,} | {len(jobs):,} | {tokens:,} | {seconds:.2f} s | {figures} |",
            "",
        ]
    )


def compared() -> str:
    """Return the record of real and simulated processes as a table."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = ["| Processes | Metric | Measured | Simulated | Difference |", "|--:|:--|--:|--:|--:|"]
    for each in found["rows"]:
        what = each["what"].rpartition(", s")[0]
        figures = (each["measured"], each["simulated"])
        words = [f"{1000 * x:.0f} ms" for x in figures] if what else [f"{x:.0f}" for x in figures]
        rows.append(
            f"| {each['processes']} | {what or each['what']} | {words[0]} | {words[1]} | {100 * each['off']:+.0f} % |"
        )

    def largest(throughput: bool) -> float:
        wanted = "tokens/s" if throughput else "p95"
        return max(100 * abs(float(each["off"])) for each in found["rows"] if wanted in each["what"])

    *slower, slowest = (f"{x:.2f}" for x in found["slower"])
    return "\n".join(
        [
            *rows,
            "",
            f"The largest difference is {largest(True):.0f} % in throughput and {largest(False):.0f} % in a p95. "
            f"While 1, 2, 3 and 4 processes compute, a step takes {', '.join(slower)} and {slowest} times the fitted "
            f"cost, respectively. The median error of one step's prediction is "
            f"{100 * found['median step error']:.0f} %, over {found['steps']:,} steps. "
            f"Measured on {in_words(found['machine'])}.",
            "",
        ]
    )


def broken() -> str:
    """Plan a fleet whose replicas reject requests, with the solution and with a plan that does not count these."""
    known = load_variants(load_course().task("6.5.3"))
    mistake = next(each for each in known.wrong_programs if each.name == "lost-left-out")

    def run(count: int, seed: int) -> Any:
        return simulate(arrivals(TRAFFIC._replace(rate=NEED), seed), fleet(count, limit=3), least_loaded)

    rows = ["| Plan | Replicas | Rejected requests |", "|:--|--:|--:|"]
    for name, program in (("correct", replicas_needed), (f"`{mistake.name}`", mistake.program)):
        count = program(run, GOAL, 64, seeds=SEEDS[:1])
        rejected = sum(o.attempts == 0 for o in run(count, SEEDS[0]))
        rows.append(f"| {name} | {count} | {100 * rejected / TRAFFIC.requests:.0f} % |")
    return "\n".join(rows) + "\n"


def fleet_load() -> str:
    """Return the widget's jobs, which its own simulation serves, and what ours says of the first view."""
    jobs = arrivals(TRAFFIC._replace(requests=160), 1)
    rounded = [(round(job.arrival, 6), len(job.prompt), job.max_tokens) for job in jobs]
    data = {
        "jobs": rounded,
        "cost": [COST.base, COST.prefilled, COST.decoding, COST.cached],
        "slots": 8,
        "budget": 64,
        "rates": [5, 80],
        "replicas": [1, 8],
    }
    rows = []
    for rate in (10, 20, 30, 40, 50, 60):
        run = simulate([Job(a / rate, (0,) * p, n) for a, p, n in rounded], fleet(4), least_loaded)
        rows.append([str(rate), *(number(1000 * rank(of(run), p), 0) for of in (ttft, latency) for p in (50, 95))])
    head = ["requests/s", "TTFT p50, ms", "TTFT p95, ms", "latency p50, ms", "latency p95, ms"]
    return element("fleet-load", data, table(f"{len(jobs)} requests on 4 replicas", head, rows))
