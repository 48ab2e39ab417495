"""Metrics of a server: counters and latency histograms, in the text format of Prometheus."""

import time
from collections.abc import Callable, Mapping

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
        raise NotImplementedError("3.7.4 Metrics")

    def arrived(self, request: Request) -> None:
        """Record a request that was admitted to the server."""
        raise NotImplementedError("3.7.4 Metrics")

    def rejected(self) -> None:
        """Record a request that was rejected."""
        raise NotImplementedError("3.7.4 Metrics")

    def stepped(self, step: Step) -> None:
        """Record a step that has just finished."""
        raise NotImplementedError("3.7.4 Metrics")

    def finished(self, request: Request, reason: str) -> None:
        """Record that an admitted request has ended, or that its caller is gone; keep only the reason."""
        raise NotImplementedError("3.7.4 Metrics")

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
        raise NotImplementedError("3.7.4 Metrics")
