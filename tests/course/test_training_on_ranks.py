"""Data-parallel training: ranks that share the rows of a step compute the losses of one process."""

import subprocess
import sys

import mlx.core as mx
import pytest
from tests.course.test_training import RECIPE, log, stories, weights
from tests.week6.pipelines import training_case

from tiny_llm_course.checkpoints.held_out import END
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.ranks import run_ranks

pytestmark = pytest.mark.maintainers
load_solution()


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_get_the_gradients_of_the_large_batch(ranks):
    """Of rows that count different numbers of targets; with four ranks, some have no row of a micro-batch."""
    from tiny_llm_solution.pipeline.data_parallel import data_parallel
    from tiny_llm_solution.training.accumulation import accumulate_gradients
    from tiny_llm_solution.training.model import loss_function

    config, params, batches, (loss, grads), _ = training_case()
    differentiate = mx.value_and_grad(loss_function(config))
    found, groups = run_ranks(
        lambda group: accumulate_gradients(data_parallel(differentiate, group), params, batches), ranks
    )
    for own_loss, own in found:
        assert own_loss.item() == pytest.approx(loss.item(), rel=1e-5)
        for name, grad in own.items():
            assert mx.allclose(grad, grads[name], rtol=1e-4, atol=1e-6), name
            assert mx.array_equal(grad, found[0][1][name]), "the ranks' parameters would drift apart"
    for group in groups:  # one all-reduce a micro-batch
        assert [call.name for call in group.calls] == ["all_sum"] * len(batches)


def test_train_on_two_ranks_has_the_losses_of_one_process(tmp_path):
    text, recipe = tmp_path / "stories.txt", tmp_path / "recipe.toml"
    text.write_text(f"\n{END}\n".join(stories()), encoding="utf-8")
    recipe.write_text(RECIPE.replace("micro_batches = 1", "micro_batches = 2"), encoding="utf-8")
    program = [sys.executable, "-m", "tiny_llm_course"]
    for name, before in (("one", []), ("two", ["dist", "-n", "2", "--"])):
        typed = ["train", str(text), "--recipe", str(recipe), "--out", str(tmp_path / name), "--solution", "--cpu"]
        done = subprocess.run([*program, *before, *typed], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "rank 1" not in done.stdout
        assert "step 8: loss" in done.stdout
    one, two = log(tmp_path / "one"), log(tmp_path / "two")
    assert [entry["loss"] for entry in two] == pytest.approx([entry["loss"] for entry in one], rel=1e-3)
    assert [entry["targets"] for entry in two] == [entry["targets"] for entry in one]
    assert two[-1]["held_out"] == pytest.approx(one[-1]["held_out"], rel=1e-3)
    assert weights(tmp_path / "two").keys() == weights(tmp_path / "one").keys()
