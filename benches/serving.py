"""Measure batched serving on this machine against week 3's bars: `benches/serving.json`.

    pdm run python benches/serving.py [--quick]

Our schedulers serve the model that comes with the course, and one in the shape of Qwen3-0.6B with random weights, on
one CPU. All figures are ratios of what took turns in one run. On a quiet machine, for a minute or two.
"""

import argparse
import datetime
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported, as `serve` does

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402
from decode_engines import SHAPE, random_weights  # noqa: E402

from tiny_llm_course.engine.serving import Limits, load_scheduler  # noqa: E402
from tiny_llm_course.measuring.machine import machine  # noqa: E402

RECORD = Path(__file__).with_suffix(".json")
TOGETHER = 8
LIMITS = Limits(max_num_seqs=TOGETHER, max_num_batched_tokens=32)
PROMPT = 16  # tokens
LONG = 1024
BEHIND, LONGEST = 6, 1800  # prompts, and the tokens of each, that a short one finds


def main() -> None:
    """Measure, print the table, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one turn each, to see that it runs; nothing is written")
    quick = parser.parse_args().quick
    mx.set_default_device(mx.Device(mx.cpu))
    engines = {mode: load_scheduler(None, True, mode, LIMITS) for mode in ("continuous", "chunked", "paged")}
    engines["int8"] = load_scheduler(None, True, "paged", replace(LIMITS, int8=True))
    small = Served({mode: engine.scheduler for mode, engine in engines.items()}, engines["paged"].checkpoint.config)
    found: dict[str, Any] = {"date": datetime.date.today().isoformat(), "machine": machine()}
    found["embedded"] = together(small, 128, 1 if quick else 9) | pages(small, 128, 1 if quick else 9)
    found["embedded"] |= beside_a_prompt(small, 128, 1 if quick else 5)
    shared = load_scheduler(None, True, "paged", Limits(max_num_seqs=TOGETHER))  # the budget of `serve`
    found["embedded"] |= behind_prompts(
        Served({"paged": shared.scheduler}, shared.checkpoint.config), 1 if quick else 5
    )
    large = Served(in_shape(), SHAPE)
    found["shape of Qwen3-0.6B"] = together(large, 8 if quick else 64, 1 if quick else 3)
    found["shape of Qwen3-0.6B"] |= pages(large, 4 if quick else 24, 1 if quick else 5)
    bars = list(against_the_bars(found))
    for row in bars:
        print("{:<72} {:>7} {:>7}  {}".format(*row))
    for model in ("embedded", "shape of Qwen3-0.6B"):
        for what, figure in found[model].items():
            print(f"{model}: {what}: {figure:.3g}")
    if not quick:
        found["bars"] = bars
        RECORD.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class Served:
    """Schedulers for one model, by their modes, and requests for them."""

    def __init__(self, schedulers: dict[str, Any], config: dict[str, Any]) -> None:
        self.schedulers, self._tokens = schedulers, np.random.default_rng(17)
        self._vocabulary: int = config["vocab_size"]

    def request(self, prompt: int, new: int) -> Any:
        """One with a prompt of so many tokens, that writes so many, whatever they are."""
        from tiny_llm_solution.serving.request import Request

        return Request(self._tokens.integers(0, self._vocabulary, prompt).tolist(), new)

    def serve(self, mode: str, slots: int, count: int, new: int) -> float:
        """New tokens a second of some requests that come together."""
        scheduler = self.schedulers[mode]
        scheduler.max_num_seqs = slots
        for _ in range(count):
            scheduler.submit(self.request(PROMPT, new))
        begun = time.perf_counter()
        while scheduler.running or scheduler.waiting:
            scheduler.step()
        return count * new / (time.perf_counter() - begun)

    def gaps(self, mode: str, new: int, long: bool) -> list[float]:
        """Seconds from each token to the next of requests that write together, while a long prompt is read, or none.

        All of them get their tokens in the same steps. So their mean is the TPOT of each, and of all of them the p95.
        """
        scheduler = self.schedulers[mode]
        scheduler.max_num_seqs = TOGETHER
        writing = [self.request(PROMPT, new) for _ in range(TOGETHER - 1)]
        for request in writing:
            scheduler.submit(request)
        while not all(request.output for request in writing):
            scheduler.step()
        if long:
            scheduler.submit(self.request(LONG, 1))
        gaps, last = [], time.perf_counter()
        while any(request in scheduler.running for request in writing):
            scheduler.step()
            last, before = time.perf_counter(), last
            gaps.append(last - before)
        while scheduler.running:
            scheduler.step()
        return gaps

    def first_token(self, mode: str, behind: int) -> tuple[float, float]:
        """Seconds until a short prompt's first token, behind so many long prompts, and until all have ended.

        The short one comes as a step begins, which it has to wait for.
        """
        scheduler, begun = self.schedulers[mode], time.perf_counter()
        for _ in range(behind):
            scheduler.submit(self.request(LONGEST, 4))
        scheduler.step()
        short, arrived, first = self.request(PROMPT, 4), time.perf_counter(), 0.0
        scheduler.step()
        scheduler.submit(short)
        while scheduler.running or scheduler.waiting:
            scheduler.step()
            if short.output and not first:
                first = time.perf_counter() - arrived
        return first, time.perf_counter() - begun


def in_shape() -> dict[str, Any]:
    """Schedulers for random weights in the shape of Qwen3-0.6B, which share one model."""
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.engines import modes
    from tiny_llm_solution.engines.fused import NativeSlots
    from tiny_llm_solution.serving.scheduler import Scheduler

    config = ModelConfig.from_dict(SHAPE)
    weights, limits = (
        random_weights(),
        modes.Limits(max_num_seqs=TOGETHER, max_num_batched_tokens=LIMITS.max_num_batched_tokens),
    )
    paged = modes.paged(config, weights, limits)
    dense = Scheduler(paged.model, NativeSlots(config, TOGETHER, 1024), policy=paged.policy)
    return {"paged": paged, "chunked": dense, "int8": modes.paged(config, weights, replace(limits, int8=True))}


def in_turns(turns: int, programs: dict[Any, Callable[[], float]]) -> dict[Any, list[float]]:
    """What each program gives, a turn that does not count left out."""
    taken: dict[Any, list[float]] = {name: [] for name in programs}
    for turn in range(turns + 1):
        for name, program in programs.items():
            if (figure := program()) and turn:
                taken[name].append(figure)
    return taken


def together(served: Served, new: int, turns: int) -> dict[str, float]:
    """Tokens a second of as many requests at once as there are slots, and of one after another, both ways."""
    programs: dict[Any, Callable[[], float]] = {
        (mode, slots): partial(served.serve, mode, slots, max(2, slots), new)
        for mode in ("paged", "int8")
        for slots in (TOGETHER, 1)
    }
    taken = in_turns(turns, programs)
    found = {}
    for mode, how in (("paged", "float32"), ("int8", "8 bits")):
        rates = {slots: taken[mode, slots] for slots in (TOGETHER, 1)}
        found[f"tokens/s, {TOGETHER} at once, {how}"] = statistics.median(rates[TOGETHER])
        found[f"tokens/s, one at a time, {how}"] = statistics.median(rates[1])
        ratios = [a / b for a, b in zip(rates[TOGETHER], rates[1], strict=True)]
        found[f"{TOGETHER} at once, times one at a time, {how}"] = statistics.median(ratios)
    return found


def pages(served: Served, new: int, turns: int) -> dict[str, float]:
    """The time of one request over pages, beside that over memory in one piece."""
    modes = ("paged", "chunked")
    taken = in_turns(turns, {mode: partial(served.serve, mode, 1, 1, new) for mode in modes})
    ratios = [dense / paged for paged, dense in zip(taken["paged"], taken["chunked"], strict=True)]
    return {"seconds over pages, times those without": statistics.median(ratios)}


def beside_a_prompt(served: Served, new: int, turns: int) -> dict[str, float]:
    """How long those that write wait for their tokens while a long prompt is read, beside how long they do without."""
    taken: dict[str, list[list[float]]] = {"alone": [], "chunked": [], "whole": []}
    for turn in range(turns + 1):  # the first does not count
        for name, mode in (("alone", "chunked"), ("chunked", "chunked"), ("whole", "continuous")):
            if (gaps := served.gaps(mode, new, name != "alone")) and turn:
                taken[name].append(gaps)

    def times(figure: Callable[[list[float]], float], name: str, of: Callable[[list[float]], float]) -> float:
        pairs = zip(taken[name], taken["alone"], strict=True)
        return statistics.median(figure(long) / of(alone) for long, alone in pairs)

    def p95(gaps: list[float]) -> float:
        return float(np.percentile(gaps, 95))

    return {
        "TPOT, prompt in chunks, times that without one": times(statistics.mean, "chunked", statistics.mean),
        "p95 of the times between two tokens, prompt in chunks, times that without one": times(p95, "chunked", p95),
        "longest time between two tokens, prompt in chunks, times the p95 without one": times(max, "chunked", p95),
        "longest time between two tokens, prompt in one piece, times the p95 without one": times(max, "whole", p95),
    }


def behind_prompts(served: Served, turns: int) -> dict[str, float]:
    """TTFT of a short prompt behind long ones, and the time of all, by the policy of each day's task."""
    from tiny_llm_solution.serving.policies import chunked_prefill, shared_prefill

    scheduler, taken = served.schedulers["paged"], dict[str, list[tuple[float, float]]]()
    for turn in range(turns + 1):  # the first does not count
        for policy, behind in ((shared_prefill, 0), (shared_prefill, BEHIND), (chunked_prefill, BEHIND)):
            scheduler.policy = policy
            figures = served.first_token("paged", behind)
            if turn:
                taken.setdefault(f"{policy.__name__} {behind}", []).append(figures)
    alone, shared, chunked = taken.values()

    def times(some: list[tuple[float, float]], others: list[tuple[float, float]], which: int) -> float:
        return statistics.median(a[which] / b[which] for a, b in zip(some, others, strict=True))

    case = f"a prompt of {PROMPT} tokens behind {BEHIND} of {LONGEST}"
    return {
        "TTFT of a prompt alone: ms": 1000 * statistics.median(first for first, _ in alone),
        f"TTFT of {case}, times alone": times(shared, alone, 0),
        f"TTFT of {case}, by age, times alone": times(chunked, alone, 0),
        f"throughput of {case}, times that by age": times(chunked, shared, 1),
    }


def against_the_bars(found: dict[str, Any]) -> Any:
    """What was asked for beside what it is: rows of name, bar, figure and verdict."""
    for model, what, sign, bar in (
        ("shape of Qwen3-0.6B", f"{TOGETHER} at once, times one at a time, float32", ">=", 2.0),
        ("shape of Qwen3-0.6B", f"{TOGETHER} at once, times one at a time, 8 bits", ">=", 2.0),
        ("embedded", "seconds over pages, times those without", "<=", 1.1),
        ("shape of Qwen3-0.6B", "seconds over pages, times those without", "<=", 1.1),
        ("embedded", "TPOT, prompt in chunks, times that without one", "<=", 2.0),
        ("embedded", f"TTFT of a prompt of {PROMPT} tokens behind {BEHIND} of {LONGEST}, times alone", "<=", 5.0),
        (
            "embedded",
            f"throughput of a prompt of {PROMPT} tokens behind {BEHIND} of {LONGEST}, times that by age",
            ">=",
            0.95,
        ),
    ):
        figure = found[model][what]
        reached = figure >= bar if sign == ">=" else figure <= bar
        yield f"{model}: {what}", f"{sign} {bar:g}", f"{figure:.3g}", "reached" if reached else "missed"


if __name__ == "__main__":
    main()
