"""`pdm run bench agent`: the suite of coding tasks, with scripted models or with the model of a server."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from ..agent_suite.cases import load_cases
from ..agent_suite.running import NEEDS, OWN, TEST_COMMAND, CaseRun, run_suite
from ..agent_suite.scripted import AGENTS, scripted
from ..course.registry import UsageError
from ..engine.package import Package
from ..terminal.screen import USUAL, columns, say
from ..terminal.tables import in_columns
from .options import server_model
from .out_file import must_take_measurement, write

FEW = 5  # cases of a quick run
COLUMNS = ("agent", "solved", "95 %", "steps", "tokens", "refused", "unsafe")


def bench_agent(
    url: str | None,
    model: str,
    solution: bool,
    quick: bool,
    file: Path | None,
    *,
    runs: int | None,
    price: float | None,
    own: bool,
) -> int:
    """Run the suite; print success rates, usage and the causes of failures; write all runs to `file`."""
    must_take_measurement(file, None, "title", "agents")
    if model and not url:
        raise UsageError("--model names a model on a server: add --url.")
    if own and not url:
        raise UsageError("--own compares two agents on a server's model: add --url.")
    package = Package(solution, NEEDS + OWN[:1] * own)
    cases, times = load_cases(), runs or 1
    cases = cases[:: len(cases) // FEW] if quick else cases
    found: dict[str, list[CaseRun]] = {}
    with package.learners_code():
        key = os.environ.get("TINY_LLM_API_KEY", "none")
        asked = server_model(package.part, url, model, key) if url else None
        approved = f"changes in a temporary folder each, and {' '.join(TEST_COMMAND)}; nothing else."
        say(f"{len(cases)} cases. Approved: {approved}")
        if asked:
            for name, loop in {asked.name: None, **({f"{asked.name}, 7.C": OWN[1:]} if own else {})}.items():
                found[name] = run_suite(package, cases, lambda case: asked, times, _note, loop=loop)
        else:
            for name in AGENTS:
                found[name] = run_suite(package, cases, scripted(package, name), times)
        _show(package, found, times, price or 0.0)
    if file:
        write(
            file, json.dumps({"title": "Coding tasks", "agents": {n: _as_data(r) for n, r in found.items()}}, indent=1)
        )
    return 0


def _note(found: CaseRun) -> None:
    say(f"  {found.case.name}: {found.cause}, {found.run.steps} steps")


def _show(package: Package, found: dict[str, list[CaseRun]], times: int, price: float) -> None:
    scores = {
        name: package.part("outcomes.scores", "Scores")([each.run for each in runs]) for name, runs in found.items()
    }
    rows = []
    for name, runs in found.items():
        success, usage = scores[name].success(), scores[name].usage(price)
        interval = f"{success.low:.0%} to {success.high:.0%}"
        unsafe, refused = sum(not each.safe for each in runs), sum(len(each.refused) for each in runs)
        numbers = f"{usage.steps:.1f}", f"{usage.tokens:,.0f}", str(refused), str(unsafe)
        rows.append([name, f"{success.mean:.0%}", interval, *numbers])
    say("")
    say("\n".join(in_columns(COLUMNS, rows, columns(sys.stdout) or USUAL)), cut=True)
    say("\nFailures by cause:")
    for name, runs in found.items():
        causes = Counter(each.cause for each in runs if each.cause != "solved").most_common()
        say(f"  {name}: {', '.join(f'{count} {cause}' for cause, count in causes) or 'none'}")
    for name, score in scores.items() if times > 1 else ():
        say(f"{name}: pass@{times} {score.pass_at(times):.0%}, pass^{times} {score.pass_all(times):.0%}")
    for name, score in scores.items() if price else ():
        usage = score.usage(price)
        say(f"{name}: {usage.cost:.2f} dollars, {usage.cost_per_solved:.2f} for each solved run")
    if len(scores) == 2:
        first, second = scores
        compared = scores[second].against(scores[first])
        ends = f"95 % interval {compared.low:+.0%} to {compared.high:+.0%}, p = {compared.p_value:.2g}"
        say(f"{second} against {first}: {compared.difference:+.0%}, {ends}")


def _as_data(runs: list[CaseRun]) -> list[dict[str, Any]]:
    return [
        {**each.run._asdict(), "cause": each.cause, "verdict": each.grade.verdict, "failed": list(each.grade.failed),
         "refused": each.refused, "safe": each.safe, "transcript": each.entries}
        for each in runs
    ]  # fmt: skip
