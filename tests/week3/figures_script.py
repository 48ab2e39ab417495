"""Scripts for a server's metrics: timed calls, and the metrics expected from them."""

import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.week3.engine_room import Chunk, Request, Step

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

# a call is a time, a method, and its arguments


def figures(text: Any) -> dict[str, float]:
    """Return the samples of an exposition in Prometheus' format, by name and label."""

    def fail(headline: str, *lines: str) -> CheckFailed:
        return CheckFailed(Finding(Kind.VALUES, headline, lines))

    if type(text) is not str:
        raise CheckFailed(Finding(Kind.TYPE, f"exposition gave {type(text).__name__}, expected a str"))
    if not text.endswith("\n"):
        raise fail("the last line has no newline", f"got       {text[-40:]!r}")
    kinds, found = dict[str, str](), dict[str, float]()
    for line in text[:-1].split("\n"):
        words = line.split(" ")
        if words[:2] == ["#", "TYPE"] and len(words) == 4:
            kinds[words[2]] = words[3]
            continue
        if words[:2] == ["#", "HELP"]:
            continue
        try:
            name, value = line.rsplit(" ", 1)
            name = re.sub(r'(?<=le=")[^"+]+', lambda bound: str(float(bound[0])), name)  # 1 and 1.0 are the same bound
            number = float(value)
        except ValueError:
            raise fail("a line that Prometheus cannot parse", f"got       {line!r}") from None
        base = name.partition("{")[0]
        families = [base, *(base.removesuffix(end) for end in ("_bucket", "_sum", "_count") if base.endswith(end))]
        if not any(family in kinds for family in families):
            raise fail(f"no # TYPE before {name}", f"got       {line!r}")
        if name in found:
            raise fail(f"{name} is exposed twice")
        found[name] = number
    for base, kind in kinds.items():
        if any(name.startswith(base) for name in found):
            found[f"# {base} is a {kind}"] = 1.0
    return found


def request_of(prompt: int) -> Request:
    """A request with a given number of prompt tokens."""
    return Request([3] * prompt, 99)


class Clock:
    """A clock that the script sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


GAUGES = {"running_requests": 3, "free_pages": 1000005, "prefix_hit_rate": 0.8125}
Call = tuple[float, str, int, int]  # time, event, request, and a number


def measured(metrics: Any, clock: Clock, calls: Sequence[Call], prompts: Sequence[int]) -> Any:
    """Replay these calls and return the exposition. A step is all "new" and "ends" of one time, or an empty "step"."""
    requests = [request_of(prompt) for prompt in prompts]
    number, admitted = 0, set[int]()
    while number < len(calls):
        at, what, who, count = calls[number]
        clock.now, request = at, requests[who]
        number += 1
        if what == "arrived":
            metrics.arrived(request)
        elif what == "refused":
            metrics.rejected()
        elif what == "left":
            metrics.finished(request, ("stop", "length", "cancelled")[count])
        else:
            step = Step()
            number -= 1
            while number < len(calls) and calls[number][0] == at and calls[number][1] in ("new", "ends", "preempted"):
                _, what, who, count = calls[number]
                request = requests[who]
                number += 1
                if what == "preempted":
                    step.preempted.append(request)
                    continue
                if who not in admitted:  # its first step
                    admitted.add(who)
                    step.admitted.append(request)
                step.chunks.append(Chunk(request, 0, [1], 1))
                step.new.append([5] * count)
                request.output += [5] * count
                if what == "ends":
                    step.finished.append(request)
            metrics.stepped(step)
    return metrics.exposition(GAUGES)


def measured_by_formula(
    calls: Sequence[Call], prompts: Sequence[int], first: Sequence[float], each: Sequence[float]
) -> dict[str, float]:
    """The same metrics by formula."""
    arrived, began = dict[int, float](), dict[int, float]()
    after, ttft, tpot, reasons = Counter[int](), list[float](), list[float](), Counter[str]()
    total: Counter[str] = Counter()
    total["steps"] = len({at for at, what, *_ in calls if what in ("new", "ends", "preempted")})
    for at, what, who, count in calls:
        if what == "arrived":
            arrived[who] = at
            total["prompt_tokens"] += prompts[who]
        elif what == "refused":
            total["refused_requests"] += 1
        elif what == "left":
            reasons[("stop", "length", "cancelled")[count]] += 1
            arrived.pop(who, None)
            began.pop(who, None)
        elif what == "preempted":
            total["preemptions"] += 1
        else:
            total["output_tokens"] += count
            if who in began:
                after[who] += count
            elif count and who in arrived:
                began[who] = at
                ttft.append(at - arrived[who])
            if what == "ends" and who in began and after[who]:
                tpot.append((at - began[who]) / after[who])
    names = ("steps", "preemptions", "prompt_tokens", "output_tokens", "refused_requests")
    found: dict[str, float] = {f"tiny_llm_{name}_total": total[name] for name in names}
    found |= {f'tiny_llm_requests_total{{reason="{why}"}}': count for why, count in reasons.items()}
    for name, times, bounds in (
        ("tiny_llm_time_to_first_token_seconds", ttft, first),
        ("tiny_llm_time_per_output_token_seconds", tpot, each),
    ):
        for bound in (*bounds, math.inf):
            label = "+Inf" if bound == math.inf else bound
            found[f'{name}_bucket{{le="{label}"}}'] = sum(seconds <= bound for seconds in times)
        found |= {f"{name}_sum": sum(times), f"{name}_count": len(times), f"# {name} is a histogram": 1.0}
    found |= {f"tiny_llm_{name}": value for name, value in GAUGES.items()}
    found |= {f"# tiny_llm_{name}_total is a counter": 1.0 for name in (*names, *(["requests"] if reasons else []))}
    return found | {f"# tiny_llm_{name} is a gauge": 1.0 for name in GAUGES}


def random_calls(seed: int, requests: int, steps: int) -> tuple[list[Call], list[int]]:
    """Draw requests that arrive, are served and leave. All times are multiples of a quarter of a second."""
    draw = random.Random(seed)
    prompts = [draw.randint(1, 2000) for _ in range(requests)]
    left, at, calls, running = list(range(requests)), 0.0, list[Call](), list[int]()
    for _ in range(steps):
        at += 0.25 * draw.randint(1, 4)
        if left and draw.random() < 0.6:
            running.append(left.pop())
            calls.append((at, "arrived", running[-1], 0))
        if draw.random() < 0.1:
            calls.append((at, "refused", 0, 0))
        at += 0.25 * draw.randint(1, 8)
        over = list[int]()
        for who in running:
            ends = draw.random() < 0.2
            over += [who] * ends
            if not ends and draw.random() < 0.1:
                calls.append((at, "preempted", who, 0))
                continue
            calls.append((at, "ends" if ends else "new", who, draw.choice((0, 1, 1, 1, 3))))
        at += 0.25
        calls += [(at, "left", who, draw.randrange(2)) for who in over]
        running = [who for who in running if who not in over]
    return calls, prompts
