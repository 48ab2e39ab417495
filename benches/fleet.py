"""Compare the simulator of week 6, day 5 with 1, 2 and 4 real processes: `benches/week6/fleet.json`.

    pdm run python benches/fleet.py [--quick]

Each process runs our scheduler with the model that comes with the course, on one thread. The cost model is fitted to
the steps of one process alone. This machine has fewer cores than the largest fleet has processes, so other requests
measure how much longer a step takes while 1, 2, 3 or 4 processes compute. Then the same requests go to the real fleet
and to the simulated one, in turn to each process. Two loads: all requests at once, for the throughput, and Poisson
arrivals, for the latencies. A machine's speed drifts: each load follows one of the same kind with other requests, and
the simulated steps are as much slower as the steps of that one were. On a quiet machine it takes about seven minutes.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent / "week6" / "fleet.json"
PROCESSES = (1, 2, 4)
BUSY = 0.5  # Poisson arrivals, as a share of the simulated throughput with all requests at once
REQUESTS = 48  # per process and load, up to two processes; the same in all for more
ROUNDS = 3  # of each real run; the median of their figures counts
SETTLES = 8  # corrections of the simulated speed
PREFIXES, SHARED = 4, 64
VOCABULARY = 2048  # of the model
LIMITS: Any = {"max_num_seqs": 8, "max_num_batched_tokens": 64, "page_size": 16}


def main() -> None:
    """Measure, print the table, and write the record; or be one process of the fleet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few requests, to see that it runs; nothing is written")
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        serve()
        return
    from tiny_llm_course.measuring.machine import machine

    found = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        **compare(10 if options.quick else REQUESTS, 1 if options.quick else ROUNDS),
    }
    for row in found["rows"]:
        print(
            "{processes} processes, {what:<24} measured {measured:8.3f}  simulated {simulated:8.3f}  {off:+.1%}".format(
                **row
            )
        )
    if not options.quick:
        RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


class Process:
    """A process of the fleet; when it is ready, it says so, and answers a line of jobs by what became of them."""

    def __init__(self) -> None:
        alone = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | alone,
        )
        self.ready = False

    def wait_until_ready(self) -> None:
        """Wait until it has loaded its model again."""
        if not self.ready:
            self.ready = self.answer()["ready"]

    def ask(self, jobs: Sequence[Sequence[Any]], begin: float) -> None:
        """Send (arrival, prompt, max_tokens) of each job, and the time of the clock at which arrivals count from 0."""
        assert self.process.stdin
        self.ready = False
        self.process.stdin.write(json.dumps({"jobs": jobs, "begin": begin}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return its next line."""
        assert self.process.stdout
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


def serve() -> None:
    """Answer each line of jobs with their times and the steps."""
    from tiny_llm_course.doctor import blas

    blas.load()  # before MLX is imported, as `serve` does
    import mlx.core as mx

    from tiny_llm_course.engine.serving import Limits, load_scheduler

    mx.set_default_device(mx.Device(mx.cpu))

    def load() -> Any:
        return load_scheduler(None, True, "prefix", Limits(**LIMITS), kernels=False)  # the kernels use all cores

    play(load(), [(0.0, [9] * 80, 20)] * 4, time.time())  # warms up
    while True:
        engine = load()  # with an empty prefix cache
        print(json.dumps({"ready": True}), flush=True)
        if not (line := sys.stdin.readline()):
            return
        asked = json.loads(line)
        print(json.dumps(play(engine, asked["jobs"], asked["begin"])), flush=True)


def play(engine: Any, jobs: Sequence[Sequence[Any]], begin: float) -> dict[str, Any]:
    """Submit requests at their times, and step while there are any; return their times, and each step's."""
    scheduler, coming = engine.scheduler, list(jobs)[::-1]
    request, cost = engine.part("serving.request", "Request"), engine.part("fleet.cost", "StepCost")
    sent, steps = list[Any](), list[Any]()
    times: dict[Any, list[float]] = {}
    while coming or scheduler.running or len(scheduler.waiting):
        now = time.time() - begin
        while coming and coming[-1][0] <= now:
            _, prompt, most = coming.pop()
            sent.append(request(prompt, most))
            scheduler.submit(sent[-1])
            times[sent[-1]] = []
        if not (scheduler.running or len(scheduler.waiting)):
            time.sleep(max(0.0, coming[-1][0] - now))
            continue
        step = scheduler.step()
        ended = time.time() - begin
        for chunk, new in zip(step.chunks, step.new, strict=True):
            times[chunk.request] += [ended] * len(new)
        steps.append((cost.work(step.chunks), ended - now))
    return {"times": [(times[one][0], times[one][-1]) for one in sent], "steps": steps}


def compare(requests: int, rounds: int) -> dict[str, Any]:
    """Fit the cost, and run real and simulated fleets on the same requests."""
    from tiny_llm_course.programs.packages import load_solution

    load_solution()
    from tiny_llm_solution.fleet.cost import StepCost, Work
    from tiny_llm_solution.fleet.jobs import Job, Traffic, arrivals
    from tiny_llm_solution.fleet.replica import Resources, SimulatedReplica
    from tiny_llm_solution.fleet.simulation import simulate

    def load(rate: float, count: int, seed: int) -> list[Any]:
        jobs = arrivals(Traffic(rate, count, output=24.0, prefixes=PREFIXES, shared=SHARED), seed)
        return [Job(job.arrival, tuple(token % VOCABULARY for token in job.prompt), job.max_tokens) for job in jobs]

    def real(jobs: Sequence[Any], count: int) -> list[dict[str, Any]]:
        for process in processes:  # also those that will be idle: none may still load its model
            process.wait_until_ready()
        begin = time.time() + 0.2
        for number, process in enumerate(processes[:count]):
            process.ask([(job.arrival, job.prompt, job.max_tokens) for job in jobs[number::count]], begin)
        return [process.answer() for process in processes[:count]]

    def simulated(jobs: Sequence[Any], count: int, speed: float = 1.0) -> tuple[list[tuple[float, float]], float]:
        """Return the first and last token's time of each job, and the seconds of all steps."""
        seconds = list[float]()

        def duration(chunks: Any, busy: int) -> float:
            seconds.append(cost.seconds(cost.work(chunks)) * slower[busy - 1] * speed)
            return seconds[-1]

        fleet = [SimulatedReplica(str(n), duration, Resources(8, 64, 4096, 16)) for n in range(count)]
        turn = iter(range(len(jobs)))
        outcomes = simulate(jobs, fleet, lambda views, blocks: views[next(turn) % count])
        return [(outcome.first or 0.0, outcome.end or 0.0) for outcome in outcomes], sum(seconds)

    def both(rate: float, amount: int, count: int) -> tuple[Any, list[Any], list[Any]]:
        """Return jobs, the times of each real run, and those simulated at the speed of another run just before it."""
        other, jobs = load(rate, amount, 30 + count), load(rate, amount, 20 + count)
        runs, fleets = list[Any](), list[Any]()
        for _ in range(rounds):
            busy = sum(seconds for one in real(other, count) for _, seconds in one["steps"])
            runs.append(whole(real(jobs, count), amount))
            speed = 1.0
            for _ in range(SETTLES):  # longer steps overlap more, which makes them longer again
                speed *= busy / simulated(other, count, speed)[1]
            fleets.append(simulated(jobs, count, speed)[0])
        return jobs, runs, fleets

    processes = [Process() for _ in range(max(PROCESSES))]
    try:
        # Both loads: the first has the large steps, the second the small ones, and those after a pause.
        first = real(load(1e9, requests, 1), 1)[0]
        rate = BUSY * requests / max(end for _, end in first["times"])
        second = real(load(rate, requests, 2), 1)[0]
        steps = [(Work(*work), seconds) for run in (first, second) for work, seconds in run["steps"]]
        cost = StepCost.fit(steps)
        errors = [abs(cost.seconds(work) / seconds - 1) for work, seconds in steps]
        crowds = [real(load(1e9, count * requests // 2, 3), count) for count in range(1, 1 + PROCESSES[-1])]
        slower = [slowdown(cost, Work, crowd) for crowd in crowds]
        rows = list[dict[str, Any]]()
        for count in PROCESSES:
            amount = requests * min(count, 2)
            jobs, runs, fleets = both(1e9, amount, count)
            tokens = sum(job.max_tokens for job in jobs)
            measured, expected = (
                statistics.median(tokens / max(end for _, end in run) for run in each) for each in (runs, fleets)
            )
            rows.append(row(count, "tokens/s, all at once", measured, expected))
            jobs, runs, fleets = both(BUSY * expected * amount / tokens, amount, count)
            for what, of in LATENCIES.items():
                for share in (0.5, 0.95):
                    figures = [statistics.median(of(jobs, run, share) for run in each) for each in (runs, fleets)]
                    rows.append(row(count, f"{what} p{100 * share:.0f}, s", *figures))
    finally:
        for process in processes:
            assert process.process.stdin
            process.process.stdin.close()
            process.process.wait()
    return {
        "cost": vars(cost),
        "steps": len(steps),
        "median step error": statistics.median(errors),
        "slower": slower,
        "rows": rows,
    }


def slowdown(cost: Any, work: Any, run: Sequence[dict[str, Any]]) -> float:
    """Return how many times longer than the cost model says a step takes while all processes of a run compute.

    Only steps before the first process has finished count: until then, all of them compute.
    """
    until = min(max(end for _, end in one["times"]) for one in run)
    measured = predicted = 0.0
    for one in run:
        clock = 0.0
        for counts, seconds in one["steps"]:
            if (clock := clock + seconds) <= until:
                measured, predicted = measured + seconds, predicted + cost.seconds(work(*counts))
    return measured / predicted


def whole(answers: Sequence[dict[str, Any]], count: int) -> list[tuple[float, float]]:
    """Return the times of all jobs in their order."""
    return [answers[number % len(answers)]["times"][number // len(answers)] for number in range(count)]


def rank(numbers: Sequence[float], share: float) -> float:
    """Return a percentile by nearest rank."""
    return sorted(numbers)[max(0, -int(-share * len(numbers) // 1) - 1)]


LATENCIES: dict[str, Callable[..., float]] = {
    "TTFT": lambda jobs, times, share: rank([t[0] - j.arrival for j, t in zip(jobs, times, strict=True)], share),
    "latency": lambda jobs, times, share: rank([t[1] - j.arrival for j, t in zip(jobs, times, strict=True)], share),
}


def row(count: int, what: str, measured: float, simulated: float) -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "processes": count,
        "what": what,
        "measured": measured,
        "simulated": simulated,
        "off": simulated / measured - 1,
    }


if __name__ == "__main__":
    main()
