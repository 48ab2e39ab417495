"""How much ranks can send before any of them receives: `python benches/week6/buffers.py` records it for the book."""

import json
import re
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
NAME = "send_first.py"


def measured(mib: int) -> str:
    """Return "" if two ranks can both send so much before they receive, or else the launcher's message."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, NAME)
        file.write_text(PROGRAM, encoding="utf-8")
        try:
            launch(
                [sys.executable, str(file), str(mib)], 2, timeout=5.0, environment={"PYTHONPATH": str(SOLUTION.parent)}
            )
        except RanksFailed as failed:
            return str(failed)
    return ""


def main() -> None:
    """Record which sizes pass, and the message of the largest one."""
    found = {mib: measured(mib) for mib in SIZES}
    record = {
        **circumstances(SOLUTION, False),
        "program": PROGRAM,
        "passed": {str(mib): not message for mib, message in found.items()},
        "message": found[SIZES[-1]],
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(re.sub(r"^", "    ", json.dumps(record["passed"])), record["message"], sep="\n")


if __name__ == "__main__":
    main()
