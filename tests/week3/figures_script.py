"""Scripts for a server's metrics: timed calls, and the metrics expected from them."""

import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tests.week3.engine_room import Chunk, Request, Step

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

# a call is a time, a method, and its arguments


MODEL = "tiny-qwen3"
SAMPLE = re.compile(r'([a-z_:0-9]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def sample(name: str, **labels: Any) -> str:
    """Return a sample's name with its labels in order. 1 and 1.0 are the same bound."""
    if "le" in labels:
        labels["le"] = str(float(labels["le"]))
    return name + "".join(f' {label}="{value}"' for label, value in sorted(labels.items()))


def figures(text: Any, model: str = MODEL) -> dict[str, float]:
    """Return the samples of an exposition in Prometheus' format, by name and labels other than the model's."""

    def fail(headline: str, *lines: str) -> CheckFailed:
        return CheckFailed(Finding(Kind.VALUES, headline, lines))

    if type(text) is not str:
        raise CheckFailed(Finding(Kind.TYPE, f"exposition gave {type(text).__name__}, expected a str"))
    if not text.endswith("\n"):
        raise fail("the last line has no newline", f"got       {text[-40:]!r}")
    kinds, helps, found, below = dict[str, str](), dict[str, str](), dict[str, float](), ""
    for line in text[:-1].split("\n"):
        words = line.split(" ")
        if words[0] == "#" and words[1:2] in (["TYPE"], ["HELP"]) and len(words) > 3:
            told = kinds if words[1] == "TYPE" else helps
            if words[2] in told:
                raise fail(f"two lines # {words[1]} of {words[2]}", f"got       {line!r}")
            below, told[words[2]] = words[2], " ".join(words[3:])
            continue
        try:
            base, pairs, value = SAMPLE.fullmatch(line).groups()  # type: ignore[union-attr]
            labels = dict(LABEL.findall(pairs or ""))
            number, given = float(value), labels.pop("model_name", None)
            name = sample(base, **labels)
        except (AttributeError, ValueError):
            raise fail("a line that Prometheus cannot parse", f"got       {line!r}") from None
        families = [base, *(base.removesuffix(end) for end in ("_bucket", "_sum", "_count") if base.endswith(end))]
        if not any(family in kinds for family in families):
            raise fail(f"no # TYPE before {base}", f"got       {line!r}")
        if not any(family in helps for family in families):
            raise fail(f"no # HELP before {base}", f"got       {line!r}")
        if below not in families:
            raise fail(f"a sample of {base} is below the # HELP and # TYPE of {below}", f"got       {line!r}")
        if given != model:
            raise fail(f"another model_name of {base}", f"expected  {model}", f"got       {given}")
        if name in found:
            raise fail(f"{name} is exposed twice")
        found[name] = number
    found |= {f"# HELP {base} {text}": 1.0 for base, text in helps.items()}
    return found | {f"# {base} is a {kind}": 1.0 for base, kind in kinds.items()}


def request_of(prompt: int) -> Request:
    """A request with a given number of prompt tokens."""
    return Request([3] * prompt, 99)


class Clock:
    """A clock that the script sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


OTHERS: Mapping[str, float] = MappingProxyType(
    {
        "vllm:num_requests_running": 3,
        "tiny_llm:free_pages": 1000005,
        "vllm:kv_cache_usage_perc": 0.8125,
        "vllm:prefix_cache_hits_total": 2000001,
    }
)
REASONS = ("stop", "length", "abort")
Call = tuple[float, str, int, int]  # time, event, request, and a number


def measured(metrics: Any, clock: Clock, calls: Sequence[Call], prompts: Sequence[int]) -> Any:
    """Replay these calls and return the exposition. A step is all "new" and "ends" of one time, or an empty "step"."""
    requests = [request_of(prompt) for prompt in prompts]
    number, running = 0, set[int]()
    while number < len(calls):
        at, what, who, count = calls[number]
        clock.now, request = at, requests[who]
        number += 1
        if what == "arrived":
            metrics.arrived(request)
        elif what == "refused":
            metrics.rejected()
        elif what == "left":
            metrics.finished(request, REASONS[count])
        else:
            step = Step()
            number -= 1
            while number < len(calls) and calls[number][0] == at and calls[number][1] in ("new", "ends", "preempted"):
                _, what, who, count = calls[number]
                request = requests[who]
                number += 1
                if what == "preempted":
                    step.preempted.append(request)
                    running.discard(who)
                    continue
                if who not in running:  # its first step, or the first one after a preemption
                    running.add(who)
                    step.admitted.append(request)
                step.chunks.append(Chunk(request, 0, [1], 1))
                step.new.append([5] * count)
                request.output += [5] * count
                if what == "ends":
                    step.finished.append(request)
            metrics.stepped(step)
    return metrics.exposition(OTHERS)


def measured_by_formula(calls: Sequence[Call], prompts: Sequence[int], given: Any) -> dict[str, float]:
    """The same metrics by formula; `given` has the names and the buckets."""
    arrived, began, queued = dict[int, float](), dict[int, float](), set[int]()
    after, reasons, total = Counter[int](), Counter[str](), Counter[str]()
    times = {name: list[float]() for name in (given.TTFT, given.TPOT, given.FIRST_STEP, given.LATENCY)}
    total[given.STEPS] = len({at for at, what, *_ in calls if what in ("new", "ends", "preempted")})
    for at, what, who, count in calls:
        if what == "arrived":
            arrived[who] = at
            queued.add(who)
            total[given.PROMPT_TOKENS] += prompts[who]
        elif what == "refused":
            total[given.REFUSED] += 1
        elif what == "left":
            reasons[REASONS[count]] += 1
            arrived.pop(who, None)
            began.pop(who, None)
            queued.discard(who)
        elif what == "preempted":
            total[given.PREEMPTIONS] += 1
        else:
            total[given.OUTPUT_TOKENS] += count
            if who in queued:
                queued.remove(who)
                times[given.FIRST_STEP].append(at - arrived[who])
            if who in began:
                after[who] += count
            elif count and who in arrived:
                began[who] = at
                times[given.TTFT].append(at - arrived[who])
            if what == "ends" and who in began and after[who]:
                times[given.TPOT].append((at - began[who]) / after[who])
            if what == "ends" and who in arrived:
                times[given.LATENCY].append(at - arrived[who])
    names = (given.STEPS, given.PREEMPTIONS, given.PROMPT_TOKENS, given.OUTPUT_TOKENS, given.REFUSED)
    found: dict[str, float] = {name: total[name] for name in names} | dict(OTHERS)
    found |= {sample(given.ENDED, finished_reason=why): count for why, count in reasons.items()}
    for name, bounds in zip(times, (given.WAITING, given.EACH_TOKEN, given.WAITING, given.WHOLE_REQUEST), strict=True):
        for bound in (*bounds, math.inf):
            found[sample(f"{name}_bucket", le=bound)] = sum(seconds <= bound for seconds in times[name])
        found |= {f"{name}_sum": sum(times[name]), f"{name}_count": len(times[name]), f"# {name} is a histogram": 1.0}
    found |= {f"# HELP {name} {given.HELP[name]}": 1.0 for name in (*names, *OTHERS, given.ENDED, *times)}
    counters = [name for name in (*names, *OTHERS) if name.endswith("_total")]
    found |= {f"# {name} is a counter": 1.0 for name in (*counters, given.ENDED)}
    return found | {f"# {name} is a gauge": 1.0 for name in OTHERS if name not in counters}


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
