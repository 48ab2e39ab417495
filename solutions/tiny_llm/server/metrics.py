"""Metrics of a server: counters and latency histograms, in the text format of Prometheus."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ..serving.request import Request
from ..serving.step import Step

FIRST_TOKEN = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
EACH_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Metrics:
    """Counts events, and measures two latencies of each request.

    TTFT, the time to first token: from its arrival to the step that yielded its first token. TPOT, the time per output
    token: from there to the step in which it finished, divided by the number of tokens after those of the first step.
    A request without a token has neither, and one whose tokens all came in one step has no TPOT.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start with zeros.

        Args:
            clock: returns seconds.
        """
        self._clock = clock
        self._arrivals: dict[Request, float] = {}
        self._first: dict[Request, tuple[float, int]] = {}  # the time of the first tokens, and how many came then
        self._ttft, self._tpot = _Histogram(FIRST_TOKEN), _Histogram(EACH_TOKEN)
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()

    def arrived(self, request: Request) -> None:
        """Record a request that was admitted to the server."""
        self._arrivals[request] = self._clock()
        self._counts["prompt_tokens"] += len(request.prompt)

    def rejected(self) -> None:
        """Record a request that was rejected."""
        self._counts["refused_requests"] += 1

    def stepped(self, step: Step) -> None:
        """Record a step that has just finished."""
        now = self._clock()
        self._counts["steps"] += 1
        self._counts["preemptions"] += len(step.preempted)
        for chunk, tokens in zip(step.chunks, step.new, strict=True):
            request = chunk.request
            self._counts["output_tokens"] += len(tokens)
            if tokens and request in self._arrivals and request not in self._first:
                self._ttft.add(now - self._arrivals[request])
                self._first[request] = now, len(tokens)
        for request in step.finished:
            began, count = self._first.get(request, (now, len(request.output)))
            if later := len(request.output) - count:
                self._tpot.add((now - began) / later)

    def finished(self, request: Request, reason: str) -> None:
        """Record that an admitted request has ended, or that its caller is gone; keep only the reason."""
        self._arrivals.pop(request, None)
        self._first.pop(request, None)
        self._reasons[reason] += 1

    def exposition(self, gauges: Mapping[str, float]) -> str:
        """Return all metrics in Prometheus format: `# TYPE name kind`, then `name value` or `name{label="..."} value`.

        Counters, which never decrease: `tiny_llm_steps_total`, and likewise `preemptions`, `prompt_tokens` (of the
        admitted requests), `output_tokens` and `refused_requests`; `tiny_llm_requests_total{reason="..."}` for each
        reason that occurred. Histograms: `tiny_llm_time_to_first_token_seconds` (buckets FIRST_TOKEN) and
        `tiny_llm_time_per_output_token_seconds` (EACH_TOKEN): for each bucket `NAME_bucket{le="0.01"}`, the number of
        times that were at most that long; the last one is `le="+Inf"`; then `NAME_sum` and `NAME_count`. Numbers are
        not rounded, and every line ends with a newline.

        Args:
            gauges: values that rise and fall, by their names without `tiny_llm_`.
        """
        lines = []
        for name in ("steps", "preemptions", "prompt_tokens", "output_tokens", "refused_requests"):
            lines += [f"# TYPE tiny_llm_{name}_total counter", f"tiny_llm_{name}_total {self._counts[name]}"]
        lines.append("# TYPE tiny_llm_requests_total counter")
        lines += [f'tiny_llm_requests_total{{reason="{why}"}} {count}' for why, count in sorted(self._reasons.items())]
        lines += self._ttft.lines("tiny_llm_time_to_first_token_seconds")
        lines += self._tpot.lines("tiny_llm_time_per_output_token_seconds")
        for name, value in gauges.items():
            lines += [f"# TYPE tiny_llm_{name} gauge", f"tiny_llm_{name} {value}"]
        return "".join(f"{line}\n" for line in lines)


class _Histogram:
    """Counts durations per bucket, and adds them up."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._sum = bounds, 0.0
        self._counts = [0] * (len(bounds) + 1)  # of each bucket alone; the last one is unbounded

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str) -> list[str]:
        found, so_far = [f"# TYPE {name} histogram"], 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            so_far += count  # buckets are cumulative
            found.append(f'{name}_bucket{{le="{bound}"}} {so_far}')
        return [*found, f"{name}_sum {self._sum}", f"{name}_count {so_far}"]
