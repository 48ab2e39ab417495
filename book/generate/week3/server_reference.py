"""The API of `pdm run serve`: every parameter, metric and error code, from the server's own schema."""

from collections.abc import Iterable
from typing import Any

from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.serving.openapi import ENDPOINTS, parameters
from tiny_llm_course.serving.refusals import CODES
from tiny_llm_course.serving.schema import SEEDS, Chat, Completion, GenerationRequest, StreamOptions, Tokenize

# The parameters of both completions and chats, by the question that they answer.
SHARED = {
    "sampling": "temperature top_p top_k min_p repetition_penalty presence_penalty frequency_penalty logit_bias seed",
    "length": "max_completion_tokens min_tokens stop stop_token_ids ignore_eos",
    "answer": "model n stream stream_options response_format skip_special_tokens prompt_logprobs user",
}
METRICS = {
    "work": "tiny_llm:steps vllm:prompt_tokens vllm:generation_tokens vllm:request_success tiny_llm:refused_requests "
    "vllm:num_preemptions",
    "times": "vllm:time_to_first_token tiny_llm:request_first_step vllm:request_time_per_output_token "
    "vllm:e2e_request_latency",
    "load": "vllm:num_requests_running tiny_llm:slots vllm:num_requests_waiting vllm:kv_cache_usage_perc "
    "tiny_llm:pages tiny_llm:free_pages",
    "savings": "vllm:prefix_cache_queries vllm:prefix_cache_hits vllm:spec_decode_num_draft_tokens "
    "vllm:spec_decode_num_accepted_tokens",
}
# What a client can do about an error, by its status.
REMEDIES = {"request": (400, 401, 404), "later": (429, 503), "server": (500, 502)}
GENERATES = ("/v1/", "/tokenize", "/detokenize", "/tokenizer_info")


def reference_parts() -> Parts:
    """Return the tables, each of which answers one question."""
    common = set(GenerationRequest.model_fields) - {"max_tokens"}
    unused = {name for name, *_, effect in parameters(Completion) if effect == "No effect."}
    grouped = _groups(SHARED, common - unused)
    tables = {f"serving-{name}": _parameters(Completion, names) for name, names in grouped.items()}
    tables["serving-unused"] = ", ".join(f"`{name}`" for name in Completion.model_fields if name in unused) + ".\n"
    tables["serving-stream-options"] = _parameters(StreamOptions, set(StreamOptions.model_fields))
    for kind in (Completion, Chat):
        tables[f"serving-{kind.__name__.lower()}"] = _parameters(kind, set(kind.model_fields) - common)
    of_tokens = set(Tokenize.model_fields) - set(Chat.model_fields)
    tables["serving-tokenize"] = _parameters(Tokenize, of_tokens | {"messages"})
    for name, generates in {"generate": True, "operate": False}.items():
        rows = [
            (f"`{path}`", "POST" if body else "GET", returns)
            for path, (returns, body) in ENDPOINTS.items()
            if path.startswith(GENERATES) == generates
        ]
        tables[f"serving-{name}"] = _table(("Endpoint", "Method", "Returns"), rows)
    return tables | _metrics() | _codes()


def _groups(groups: dict[str, str], wanted: set[str]) -> dict[str, list[str]]:
    """Return the names of each group; all of them are wanted, and none is missing."""
    found = {name: names.split() for name, names in groups.items()}
    listed = [each for names in found.values() for each in names]
    assert sorted(listed) == sorted(wanted), sorted({*listed} ^ wanted)
    return found


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = [*head]
    lines = [names, [":--"] * len(names), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _parameters(kind: type[Any], names: Iterable[str]) -> str:
    """Return a table of some parameters: in the order of `names`, or, if that is a set, the required ones first."""
    found = {name: rest for name, *rest in parameters(kind)}
    if isinstance(names, set):
        names = sorted((name for name in found if name in names), key=lambda name: found[name][1] != "required")
    rows = []
    for name in names:
        takes, default, effect = found[name]
        takes = takes.replace(f"an integer from {-SEEDS} to {SEEDS - 1}", "a 64-bit integer")
        said = {"required": "; required", "none": "", "`[]`": "", "`{}`": ""}.get(default, f"; default {default}")
        rows.append((f"`{name}`", takes + said, effect))
    return _table(("Parameter", "Value", "Effect"), rows)


def _metrics() -> Parts:
    from tiny_llm_solution.server.metrics import HELP

    found = {name.removesuffix("_total").removesuffix("_seconds"): name for name in HELP}
    return {
        f"serving-{group}": _table(("Metric", "Meaning"), [(f"`{found[name]}`", HELP[found[name]]) for name in names])
        for group, names in _groups(METRICS, set(found)).items()
    }


def _codes() -> Parts:
    rows = {code: meaning.split(": ", 1) for code, meaning in CODES.items()}
    assert {int(status) for status, _ in rows.values()} <= {each for statuses in REMEDIES.values() for each in statuses}
    return {
        f"serving-errors-{group}": _table(
            ("Code", "Status", "Meaning"),
            [(f"`{code}`", *rest) for code, rest in rows.items() if int(rest[0]) in statuses],
        )
        for group, statuses in REMEDIES.items()
    }
