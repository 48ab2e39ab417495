"""Two processes that generate a text together, over the ring of `mx.distributed`.

`python -m tests.week6.two_processes FOLDER` is one of them; MLX finds its rank and the addresses in the environment.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SIZE = 2
SECONDS = 15.0


def texts_of_ranks(model: Any, prompt: list[int], count: int, case: str) -> list[list[int]]:
    """Return the greedy tokens of each process; report a process that fails or hangs as a failure of this case."""
    import mlx.core as mx
    from tests.week6.sharded import parts

    import tiny_llm
    from tiny_llm_course.testkit.errors import Kind, fail

    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        for rank in range(SIZE):
            mx.save_safetensors(str(folder / f"{rank}.safetensors"), parts(model.weights, model.config, rank, SIZE))
        (folder / "run.json").write_text(json.dumps({"config": model.config, "prompt": prompt, "count": count}))
        (folder / "hosts.json").write_text(json.dumps([[f"127.0.0.1:{port}"] for port in _free_ports()]))
        path = os.pathsep.join(map(str, (Path(tiny_llm.__file__).parents[1], ROOT, ROOT / "src")))
        shared = os.environ | {"PYTHONPATH": path, "MLX_HOSTFILE": str(folder / "hosts.json"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.week6.two_processes", str(folder)]
        running = [
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**shared, "MLX_RANK": str(rank)},
            )
            for rank in range(SIZE)
        ]
        said = []
        try:
            for rank, process in enumerate(running):
                out, errors = process.communicate(timeout=SECONDS)
                if process.returncode:
                    last = (errors.strip().splitlines() or ["no message"])[-1]
                    fail(Kind.RAISED, f"rank {rank} failed: {last}", case)
                said.append(json.loads(out.splitlines()[-1]))
        except subprocess.TimeoutExpired:
            fail(Kind.STOPPED, f"rank {len(said)} has not ended after {SECONDS:g} seconds", case)
        finally:
            for process in running:
                process.kill()
                process.communicate()
        return said


def _free_ports() -> list[int]:
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(SIZE)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def work(folder: Path) -> None:
    """Generate, and print the tokens."""
    import mlx.core as mx

    from tiny_llm.config import ModelConfig
    from tiny_llm.distributed.group import start
    from tiny_llm.qwen3_cached.generate import generate_cached
    from tiny_llm.tensor_parallel.model import TensorParallelModel
    from tiny_llm.tensor_parallel.sampling import make_parallel_sampler

    mx.set_default_device(mx.cpu)
    group, run = start("ring"), json.loads((folder / "run.json").read_text())
    config = ModelConfig.from_dict(run["config"])
    weights = mx.load(str(folder / f"{group.rank}.safetensors"))
    assert isinstance(weights, dict)
    own = range(config.vocab_size * group.rank // SIZE, config.vocab_size * (group.rank + 1) // SIZE)
    sampler = make_parallel_sampler(group, own, config.vocab_size, temp=0)
    model = TensorParallelModel(config, weights, group)
    print(list(generate_cached(model, run["prompt"], run["count"], sampler=sampler)))


if __name__ == "__main__":
    work(Path(sys.argv[1]))
