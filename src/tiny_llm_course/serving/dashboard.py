"""A dashboard for Grafana that shows the server's metrics: `GET /dashboard.json`, to be imported there."""

from typing import Any

MODEL = 'model_name="$model"'
QUANTILES = (0.5, 0.95, 0.99)


def _quantiles(name: str) -> dict[str, str]:
    rates = f"sum by (le) (rate({name}_bucket{{{MODEL}}}[$__rate_interval]))"
    return {f"p{100 * q:g}": f"histogram_quantile({q}, {rates})" for q in QUANTILES}


def _rate(name: str, label: str = "") -> str:
    return f"sum{label} (rate({name}{{{MODEL}}}[$__rate_interval]))"


# The panels: title, unit, and what each shows by its legend.
PANELS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("Time to first token", "s", _quantiles("vllm:time_to_first_token_seconds")),
    ("Time per output token", "s", _quantiles("vllm:request_time_per_output_token_seconds")),
    ("Latency of whole requests", "s", _quantiles("vllm:e2e_request_latency_seconds")),
    ("Time to the end of the first step", "s", _quantiles("tiny_llm:request_first_step_seconds")),
    (
        "Tokens per second",
        "none",
        {"prompt": _rate("vllm:prompt_tokens_total"), "output": _rate("vllm:generation_tokens_total")},
    ),
    (
        "Requests in the engine",
        "none",
        {
            "running": f"vllm:num_requests_running{{{MODEL}}}",
            "waiting": f"vllm:num_requests_waiting{{{MODEL}}}",
            "slots": f"tiny_llm:slots{{{MODEL}}}",
        },
    ),
    ("KV cache in use", "percentunit", {"pages": f"vllm:kv_cache_usage_perc{{{MODEL}}}"}),
    (
        "Prefix cache and drafts",
        "percentunit",
        {
            "hits": f"{_rate('vllm:prefix_cache_hits_total')} / {_rate('vllm:prefix_cache_queries_total')}",
            "accepted drafts": f"{_rate('vllm:spec_decode_num_accepted_tokens_total')} "
            f"/ {_rate('vllm:spec_decode_num_draft_tokens_total')}",
        },
    ),
    (
        "Requests that end, per second",
        "reqps",
        {"{{finished_reason}}": _rate("vllm:request_success_total", " by (finished_reason)")},
    ),
    (
        "Refused and preempted, per second",
        "reqps",
        {"refused": _rate("tiny_llm:refused_requests_total"), "preempted": _rate("vllm:num_preemptions_total")},
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard, with two panels in a row; its variable `model` lists the models of the data source."""
    source = {"type": "prometheus", "uid": "${source}"}
    models = {"query": "label_values(vllm:num_requests_running, model_name)", "refId": "model"}
    panels = [
        {
            "id": number + 1,
            "title": title,
            "type": "timeseries",
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": number % 2 * 12, "y": number // 2 * 8},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(65 + i), "expr": query, "legendFormat": legend, "datasource": source}
                for i, (legend, query) in enumerate(shown.items())
            ],
        }
        for number, (title, unit, shown) in enumerate(PANELS)
    ]
    variables = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"},
        {"name": "model", "type": "query", "datasource": source, "query": models, "label": "Model", "refresh": 1},
    ]
    return {
        "title": "tiny-llm",
        "uid": "tiny-llm",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }
