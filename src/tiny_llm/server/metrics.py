"""Metrics of a server: counters and latency histograms, in the text format of Prometheus."""

import time
from collections.abc import Callable, Mapping

from ..serving.request import Request
from ..serving.step import Step

WAITING = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
EACH_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
WHOLE_REQUEST = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

# The names are vLLM's where the meaning is the same.
STEPS = "tiny_llm:steps_total"
PREEMPTIONS = "vllm:num_preemptions_total"
PROMPT_TOKENS = "vllm:prompt_tokens_total"
OUTPUT_TOKENS = "vllm:generation_tokens_total"
REFUSED = "tiny_llm:refused_requests_total"
ENDED = "vllm:request_success_total"
TTFT = "vllm:time_to_first_token_seconds"
TPOT = "vllm:request_time_per_output_token_seconds"
FIRST_STEP = "tiny_llm:request_first_step_seconds"
LATENCY = "vllm:e2e_request_latency_seconds"
HELP = {
    STEPS: "Steps of the scheduler.",
    PREEMPTIONS: "Requests that were preempted, to be recomputed later.",
    PROMPT_TOKENS: "Tokens of the prompts of all admitted requests.",
    OUTPUT_TOKENS: "Output tokens.",
    REFUSED: "Requests that were rejected because too many were waiting.",
    ENDED: "Requests that have ended, by reason: stop, length, abort (the client left) or error.",
    TTFT: "From a request's arrival to its first token.",
    TPOT: "Between the tokens of a request: the mean after those of its first step.",
    FIRST_STEP: "From a request's arrival to the end of the step that first admitted it.",
    LATENCY: "From a request's arrival to its last token.",
    "vllm:num_requests_running": "Requests in the batch.",
    "vllm:num_requests_waiting": "Requests in the queue.",
    "vllm:kv_cache_usage_perc": "Share of the pages that requests hold, from 0 to 1; cached prefixes do not count.",
    "vllm:prefix_cache_queries_total": "Tokens that were looked up in the prefix cache.",
    "vllm:prefix_cache_hits_total": "Tokens that were found in it.",
    "vllm:spec_decode_num_draft_tokens_total": "Draft tokens that were verified.",
    "vllm:spec_decode_num_accepted_tokens_total": "Draft tokens that were accepted.",
    "tiny_llm:slots": "Maximum number of requests in the batch.",
    "tiny_llm:pages": "Pages of the KV cache.",
    "tiny_llm:free_pages": "Pages that are free.",
}


class Metrics:
    """Counts events, and measures four latencies of each request.

    TTFT, the time to first token: from its arrival to the step that yielded its first token. TPOT, the time per output
    token: from there to the step in which it finished, divided by the number of tokens after those of the first step.
    A request without a token has neither, and one whose tokens all came in one step has no TPOT. The time to the end of
    its first step, from its arrival to the end of the step that admitted it, is measured once, even if it is preempted
    and admitted again. The latency: from its arrival to the step in which it finished.
    """

    def __init__(self, model_name: str, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start with zeros.

        Args:
            model_name: the label of all metrics.
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

    def exposition(self, others: Mapping[str, float]) -> str:
        """Return all metrics in Prometheus' format.

        Each has one line `# HELP name text`, with its text in HELP, one line `# TYPE name kind`, and then its samples:
        lines `name{labels} value`, where labels are `model_name="..."` and others, separated by commas. In a label's
        value a backslash comes before each backslash and each quote; `\\n` stands for a newline. Numbers are not
        rounded, and every line ends with a newline. The order of metrics, samples and labels is free.

        Counters, which never decrease: STEPS, PREEMPTIONS, PROMPT_TOKENS (of admitted requests), OUTPUT_TOKENS,
        REFUSED, and ENDED with a sample for each reason that occurred, with the label `finished_reason="..."`.
        Histograms: TTFT and FIRST_STEP (with the buckets WAITING), TPOT (EACH_TOKEN), LATENCY (WHOLE_REQUEST). For each
        bucket `NAME_bucket{...,le="0.01"}` is the number of times that were at most that long, and all times count in
        `le="+Inf"`; `NAME_sum` and `NAME_count` are the sum and the number of all times.

        Reading the metrics changes none of them.

        Args:
            others: values of other metrics by name: counters if their names end in "_total", else gauges.
        """
        raise NotImplementedError("3.7.4 Metrics")
