"""Two processes that generate a text together, over the ring of `mx.distributed`.

`python -m tests.week6.two_processes FOLDER` is one of them: it reads its weights from the folder, and prints tokens.
"""

import json
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
from tests.week1.reference_model import ReferenceModel
from tests.week6.sharded import parts, vocabulary_of

import tiny_llm
from tiny_llm_course.testkit.processes import run_processes

SIZE = 2


def texts_of_ranks(model: ReferenceModel, prompt: list[int], count: int, case: str) -> list[list[int]]:
    """Return the greedy tokens of each process; a process that fails or hangs fails the check."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        for rank in range(SIZE):
            mx.save_safetensors(str(folder / f"{rank}.safetensors"), parts(model.weights, model.config, rank, SIZE))
        (folder / "run.json").write_text(json.dumps({"config": model.config, "prompt": prompt, "count": count}))
        package = [Path(tiny_llm.__file__).parents[1]]
        said = run_processes("tests.week6.two_processes", SIZE, str(folder), case=case, package=package)
        return [json.loads(text) for text in said]


def work(folder: Path) -> None:
    """Generate, and print the tokens."""
    from tiny_llm.config import ModelConfig
    from tiny_llm.distributed.group import start
    from tiny_llm.qwen3_cached.generate import generate_cached
    from tiny_llm.tensor_parallel.model import TensorParallelModel
    from tiny_llm.tensor_parallel.sampling import make_parallel_sampler

    mx.set_default_device(mx.cpu)
    group, run = start("ring"), json.loads((folder / "run.json").read_text())
    config, own = ModelConfig.from_dict(run["config"]), vocabulary_of(run["config"], group.rank, SIZE)
    weights = mx.load(str(folder / f"{group.rank}.safetensors"))
    assert isinstance(weights, dict)
    sampler = make_parallel_sampler(group, own, config.vocab_size, temp=0)
    model = TensorParallelModel(config, weights, group)
    print(list(generate_cached(model, run["prompt"], run["count"], sampler=sampler)))


if __name__ == "__main__":
    work(Path(sys.argv[1]))
