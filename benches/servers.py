"""Measure our server's throughput beside mlx-lm's under one load: `pdm run python benches/servers.py [--json FILE]`.

Both run on this machine, one after the other, with the model that comes with the course, all of whose weights are in
float32 for mlx-lm: the half dtypes are slower for it on a CPU. The requests come over HTTP, AT_ONCE of them at a time.
mlx-lm is used where it is installed: `pdm run dev-setup` brings it. Then short prompts come to our server, alone and
behind six long ones.
"""

import argparse
import datetime
import json
import random
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported, as `serve` does

import mlx.core as mx  # noqa: E402

from tiny_llm_course.checkpoints.held_out import shipped_stories  # noqa: E402
from tiny_llm_course.engine.serving import ServingEngine, load_scheduler  # noqa: E402
from tiny_llm_course.measuring.load.sending import Arrival, Load, arrivals, model_at, send  # noqa: E402
from tiny_llm_course.measuring.machine import in_words, machine  # noqa: E402
from tiny_llm_course.paths import EMBEDDED_MODEL  # noqa: E402
from tiny_llm_course.testkit.servers import running_server  # noqa: E402

AT_ONCE = 8  # requests, as many as our server has slots
ROUNDS = 3  # of AT_ONCE requests
BAR = 2.0
BEHIND, LONG, SHORT = 6, 1800, 16  # long prompts, the tokens of each, and those of a short one
TTFT_BAR = 5.0
PATIENCE = 120.0  # seconds until a server answers
OURS = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--port", "{port}"]
THEIRS = """
import sys
from tiny_llm_course.doctor import blas
blas.load()
sys.argv = ["mlx_lm.server", "--model", sys.argv[1], "--port", sys.argv[2], "--log-level", "ERROR"]
from mlx_lm.server import main
main()
"""


def main() -> int:
    """Measure, print both, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there")
    options = parser.parse_args()
    speller = load_scheduler(None, solution=True)
    rounds = [arrivals(speller, Load(AT_ONCE, seed=seed)) for seed in range(1, ROUNDS + 1)]
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        theirs = [sys.executable, "-c", THEIRS, str(_in_float32(folder)), "{port}"]
        for name, command in (("serve", OURS), (f"mlx_lm.server {version('mlx-lm')}", theirs)):
            with running_server(command, seconds=PATIENCE) as port:
                url = f"http://127.0.0.1:{port}"
                model = model_at(url)
                send(url, model, speller, rounds[0][:2])  # warms up
                outcomes = [send(url, model, speller, load) for load in rounds]
                if command is OURS:
                    alone, behind = (statistics.median(first_tokens(url, model, speller, n)) for n in (0, BEHIND))
            paces = sorted(outcome.throughput for outcome in outcomes)
            failed = sum(len(outcome.answers) - len(outcome.served) for outcome in outcomes)
            rows.append({"name": name, "tokens/s": paces[ROUNDS // 2], "failed": failed})
            pace = f"{paces[ROUNDS // 2]:.0f} tokens/s, {AT_ONCE} requests at once, {failed} without an answer"
            print(f"{name}: {pace}")
    ratio = rows[0]["tokens/s"] / rows[1]["tokens/s"]
    print(f"ratio: {ratio:.1f} (bar: {BAR:g})")
    what = (
        f"TTFT of {SHORT} tokens: {1000 * alone:.0f} ms alone, {1000 * behind:.0f} ms behind {BEHIND} prompts of {LONG}"
    )
    print(f"{what}, {behind / alone:.1f} times as long (bar: {TTFT_BAR:g})")
    print(in_words(machine()))
    if options.json:
        record = {"date": datetime.date.today().isoformat(), "machine": machine(), "rows": rows, "ratio": ratio}
        record |= {"ttft alone": alone, "ttft behind long prompts": behind}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(ratio < BAR or behind > TTFT_BAR * alone)


def first_tokens(url: str, model: str, speller: ServingEngine, behind: int) -> list[float]:
    """Seconds until the first token of short prompts that come one after another, after so many long ones."""
    with speller.learners_code():
        text = speller.tokenizer.encode("\n\n".join(shipped_stories()))
    draw = random.Random(behind)

    def arrival(at: float, count: int) -> Arrival:
        return Arrival(at, tuple(draw.choices(text, k=count)), 4)  # no two have a prefix in common

    load = [arrival(0.0, LONG) for _ in range(behind)] + [arrival(0.3 + 0.3 * i, SHORT) for i in range(10)]
    answers = send(url, model, speller, load).answers[behind:]
    return [answer.tokens[0] - answer.at for answer in answers]


def _in_float32(folder: Path) -> Path:
    """A copy of the model, with weights in float32."""
    shutil.copytree(EMBEDDED_MODEL, folder, dirs_exist_ok=True)
    weights = mx.load(str(EMBEDDED_MODEL / "model.safetensors"))
    assert isinstance(weights, dict)
    floats = {name: weight.astype(mx.float32) for name, weight in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), floats, {"format": "mlx"})
    return folder


if __name__ == "__main__":
    sys.exit(main())
