"""What a server tells of itself: counters, and how long its users wait, in the text format of Prometheus."""

import time
from collections.abc import Callable, Mapping

from ..serving.request import Request
from ..serving.step import Step

FIRST_TOKEN = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
EACH_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Metrics:
    """Counts what happens, and measures two times of each request.

    TTFT, the time to the first token: from its arrival to the step that gave it its first token. TPOT, the time per
    output token: from there to the step in which it ended, divided by the number of the tokens that came after those of
    the first step. A request without a token has neither, and one whose tokens all came at once has no TPOT.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin with zeros.

        Args:
            clock: gives seconds.
        """
        raise NotImplementedError("3.7.4 How long they wait")

    def arrived(self, request: Request) -> None:
        """A request has been let in."""
        raise NotImplementedError("3.7.4 How long they wait")

    def refused(self) -> None:
        """One has not been let in."""
        raise NotImplementedError("3.7.4 How long they wait")

    def stepped(self, step: Step) -> None:
        """A step has just been done."""
        raise NotImplementedError("3.7.4 How long they wait")

    def left(self, request: Request, reason: str) -> None:
        """A request that arrived is through, or its caller is gone; nothing is kept of it but the reason."""
        raise NotImplementedError("3.7.4 How long they wait")

    def exposition(self, gauges: Mapping[str, float]) -> str:
        """All figures, as Prometheus reads them: `# TYPE name kind`, then `name value` or `name{label="..."} value`.

        Counters, which never fall: `tiny_llm_steps_total`, and likewise `preemptions`, `prompt_tokens` (of those that
        have arrived), `output_tokens` and `refused_requests`; `tiny_llm_requests_total{reason="..."}` for each reason
        that there was. Histograms: `tiny_llm_time_to_first_token_seconds` (buckets FIRST_TOKEN) and
        `tiny_llm_time_per_output_token_seconds` (EACH_TOKEN): for each bucket `NAME_bucket{le="0.01"}`, how many times
        were at most that long; the last one is `le="+Inf"`; then `NAME_sum` and `NAME_count`. Numbers have all their
        digits, and every line ends.

        Args:
            gauges: figures that rise and fall, by their names without `tiny_llm_`.
        """
        raise NotImplementedError("3.7.4 How long they wait")
