"""Week 5's training model in stages: in this process, and in two real ones that meet on a ring.

`python -m tests.week6.pipelines FOLDER` is one of the two. It saves its loss and gradients in FOLDER.
"""

import functools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from tests.week6 import stages

from tiny_llm_course.testkit.processes import run_processes
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.variants import load_solution

load_solution()
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.dataset.packing import Rows, pack_documents  # noqa: E402
from tiny_llm_solution.pipeline.stage import Stage  # noqa: E402
from tiny_llm_solution.training.accumulation import accumulate_gradients  # noqa: E402
from tiny_llm_solution.training.model import initial_params, loss_function  # noqa: E402

CONFIG = ModelConfig("qwen3", 8, 3, 12, 2, 1, 6, 11, 1e-6, 1e4, 64, True)
SIZES = (2, 1, 3)  # rows of each micro-batch


@functools.cache
def rows_of() -> Rows:
    """Return packed rows of documents."""
    generator = np.random.default_rng(3)
    documents = [generator.integers(0, 10, n).tolist() for n in (3, 9, 4, 2, 1, 7, 4)]
    return pack_documents(documents, 7, 10)[: sum(SIZES)]


@functools.cache
def training_case() -> tuple[ModelConfig, Any, list[Rows], Any, Callable[[int, int], Stage]]:
    """Return a config, parameters, micro-batches, the loss and gradients of one process, and what makes a stage."""
    ends = np.cumsum(SIZES)
    batches = [rows_of()[int(end) - size : int(end)] for size, end in zip(SIZES, ends, strict=True)]
    params = initial_params(CONFIG, 1, 0.4)
    wanted = accumulate_gradients(mx.value_and_grad(loss_function(CONFIG)), params, batches)
    return CONFIG, params, batches, wanted, lambda rank, ranks: Stage(CONFIG, rank, ranks)


class Roomy:
    """Measures whether sums are evaluated: by the memory that the last backward pass finds in use."""

    count, size = 8, 2**18

    def growth(self, program: Callable[..., Any], case: str) -> int:
        """Return how many bytes more are in use at the last backward pass than at the first."""
        active = []

        class Watched(stages.SmallStage):
            def backward(self, params: Any, x: mx.array, rows: Any, dy: mx.array) -> Any:
                active.append(mx.get_active_memory())
                grads = {"w": params["w"] * dy}
                mx.eval(grads)  # as the real one does
                return mx.array(1.0), grads, x

            def forward(self, params: Any, x: mx.array, rows: Any) -> mx.array:
                return mx.array(1.0)

            def own(self, params: Any) -> Any:
                return params

        def rank_of(group: Any) -> Any:
            params, order = {"w": mx.ones(self.size)}, stages.one_f_one_b(0, 1, self.count)
            mx.eval(params)
            batches = stages.micro_batches(1, *[2] * self.count)
            return program(Watched(0, 1, False), params, batches, order, group)

        stages.finished(lambda: run_ranks(rank_of, 1), case)
        return active[-1] - active[0]


ROOMY = Roomy()


def real_ring(file: str, case: str, ranks: int = 2) -> list[dict[str, mx.array]]:
    """Run the step in real processes, with the package of this file, and return what each has saved."""
    with tempfile.TemporaryDirectory() as name:
        run_processes("tests.week6.pipelines", ranks, name, case=case, package=[Path(file).parents[2]])
        found = [mx.load(str(Path(name, f"{rank}.safetensors"))) for rank in range(ranks)]
        mx.eval(found)
        return found  # type: ignore[return-value]


def work(folder: Path) -> None:
    """Run one rank's part of the step."""
    from tiny_llm_solution.distributed.group import start

    from tiny_llm.pipeline.step import pipeline_step

    group = start("ring")
    _, params, batches, _, make = training_case()
    stage = make(group.rank, group.size)
    order: Any = stages.one_f_one_b(group.rank, group.size, len(batches))
    loss, grads = pipeline_step(stage, stage.own(params), batches, order, group)
    mx.save_safetensors(str(folder / f"{group.rank}.safetensors"), {"loss": loss, **grads})


if __name__ == "__main__":
    work(Path(sys.argv[1]))
