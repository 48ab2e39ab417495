"""Kill processes of an agent with kill -9, each at a random moment, and count what was lost or done twice.

    pdm run python benches/killed_agents.py

kills 20 processes that run your code, with `--solution` ours. `--record` kills 100 that run ours, and writes
week7/killed.json.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benches" / "week7" / "killed.json"
SEED = 1
NEEDS = ("7.3.1", "7.3.2", "7.3.3", "7.4.1", "7.4.2", "7.4.3", "7.5.1")


def main() -> None:
    """Run and print, or record."""
    sys.path.insert(0, str(ROOT))
    from tests.week7.killing import killed_runs

    from tiny_llm_course.course.registry import load_course
    from tiny_llm_course.paths import LEARNER, SOLUTION
    from tiny_llm_course.source.code import holds_stub

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--record", action="store_true", help="kill 100 processes of the solution, and write the record"
    )
    parser.add_argument("--solution", action="store_true", help="run our code instead of yours")
    options = parser.parse_args()
    record = options.record
    package = SOLUTION if record or options.solution else LEARNER
    if stubs := [task.label for task in map(load_course().task, NEEDS) if holds_stub(task, package)]:
        sys.exit(f"not started: {stubs[0]} (with --solution, ours runs)")
    with tempfile.TemporaryDirectory() as folder:
        damage = killed_runs(Path(folder), 100 if record else 20, package.parent, SEED)
    if record:
        found = {**dataclasses.asdict(damage), "moments": dict(damage.moments.most_common())}
        RECORD.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
    counts = f"{damage.lost} steps lost, {damage.repeated} repeated, {damage.wrong} files wrong"
    print(f"{damage.kills} processes killed: {counts}, {damage.interrupted} calls reported as interrupted")


if __name__ == "__main__":
    main()
