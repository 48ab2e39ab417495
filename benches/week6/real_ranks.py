"""Real ranks for the book: an all-reduce, and how much ranks can send before any of them receives.

`python benches/week6/real_ranks.py` records both.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tiny_llm_course.measuring.machine import circumstances
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.ranks import RanksFailed, launch

RECORD = Path(__file__).with_suffix(".json")
SIZES = (1, 2, 4, 8, 16, 32, 64)  # MiB
PROGRAM = """import sys

import mlx.core as mx
from tiny_llm.distributed.group import start

group = start()
x = mx.ones(int(sys.argv[1]) << 18)  # MiB of float32
group.send(x, group.right)
group.receive(x.shape, x.dtype, group.left)
print("received", sys.argv[1], "MiB")
"""
EXAMPLE = """import mlx.core as mx
from tiny_llm.distributed.group import start
from tiny_llm.distributed.ring import all_reduce

group = start()
x = mx.array([1.0, 2.0, 3.0]) * 10**group.rank
print(all_reduce(x, group).tolist(), group.all_sum(x).tolist())
"""
NAMES = "work.py", "send_first.py"


def example(file: Path) -> str:
    """Return what `dist` prints of the example on four ranks."""
    file.write_text(EXAMPLE, encoding="utf-8")
    command = [sys.executable, "-m", "tiny_llm_course", "dist", "-n", "4", "--solution", "--", "python", str(file)]
    path = os.pathsep.join([str(SOLUTION.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    return "\n".join(sorted(done.stdout.splitlines()))


def send_first(file: Path, mib: int) -> str:
    """Return "" if two ranks can both send so much before they receive, or else the launcher's message."""
    file.write_text(PROGRAM, encoding="utf-8")
    ours = {"PYTHONPATH": str(SOLUTION.parent)}
    try:
        launch([sys.executable, str(file), str(mib)], 2, timeout=5.0, environment=ours)
    except RanksFailed as failed:
        return str(failed)
    return ""


def main() -> None:
    """Record the example, which sizes pass, and the message of the largest one."""
    with tempfile.TemporaryDirectory() as folder:
        work, first = (Path(folder, name) for name in NAMES)
        printed, found = example(work), {mib: send_first(first, mib) for mib in SIZES}
    record = {
        **circumstances(SOLUTION, False),
        "example": EXAMPLE,
        "printed": printed,
        "program": PROGRAM,
        "passed": {str(mib): not message for mib, message in found.items()},
        "message": found[SIZES[-1]],
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(printed, json.dumps(record["passed"]), record["message"], sep="\n")


if __name__ == "__main__":
    main()
