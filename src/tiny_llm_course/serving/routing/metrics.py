"""The metrics of all replicas with the label `replica`, and the router's own, in the text format of Prometheus."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fleet import Fleet

STATES = ("starting", "ready", "draining", "dead")
HELP = {
    "tiny_llm:replica_state": ("gauge", "1 for the state that a replica is in."),
    "tiny_llm:replica_running": ("gauge", "Requests that were sent to a replica and have not ended."),
    "tiny_llm:replica_limit": ("gauge", "The maximum of these."),
    "tiny_llm:replica_restarts_total": ("counter", "Processes that replaced one that had ended."),
    "tiny_llm:replica_requests_total": ("counter", "Requests by how they ended: answered, failed or rejected."),
}


def with_label(texts: Mapping[str, str]) -> str:
    """Join the metrics of replicas: each sample gets its replica's name, each family stays together."""
    families: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for name, text in texts.items():
        family = ""
        for line in text.splitlines():
            if line.startswith("# "):
                family = line.split()[2]
                heading = families.setdefault(family, [])
                if line not in heading:
                    heading.append(line)
            elif line:
                metric, _, value = line.rpartition(" ")
                metric, brace, labels = metric.partition("{")
                labels = f'replica="{name}",{labels}' if brace else f'replica="{name}"}}'
                samples.setdefault(family, []).append(f"{metric}{{{labels} {value}")
    return "".join(f"{line}\n" for family, head in families.items() for line in (*head, *samples.get(family, [])))


def router_metrics(fleet: "Fleet") -> str:
    """Return the router's own metrics."""
    rows: dict[str, list[tuple[str, int]]] = {name: [] for name in HELP}
    for member in fleet.members.values():
        replica, label = member.replica, f'replica="{member.replica.name}"'
        rows["tiny_llm:replica_state"] += [(f'{label},state="{s}"', int(s == replica.state)) for s in STATES]
        rows["tiny_llm:replica_running"].append((label, replica.running))
        rows["tiny_llm:replica_limit"].append((label, replica.limit))
        rows["tiny_llm:replica_restarts_total"].append((label, member.restarts))
        ends = member.outcomes.items()
        rows["tiny_llm:replica_requests_total"] += [(f'{label},outcome="{how}"', count) for how, count in ends]
    lines = []
    for name, (kind, text) in HELP.items():
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{{{labels}}} {value}" for labels, value in rows[name]]
    return "".join(f"{line}\n" for line in lines)
