"""Task 5.4.3, the training loop, checked against its formula on a small problem, against PyTorch, and by resuming."""

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5 import runs
from tests.week5.formulas_day4 import train64

from tiny_llm.optimizers.adamw import AdamW
from tiny_llm.training import checkpoint, loop
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes

RECIPE = {
    "steps": 12, "learning_rate": 0.05, "warmup": 3, "floor": 0.01, "micro_batches": 1, "max_norm": 0.6,
    "spike_factor": 4.0, "spike_window": 4, "max_skipped": 3, "evaluate_every": 100, "save_every": 100, "until": 12,
}  # fmt: skip


def built(w, values, batches, recipe, kept=None, evaluate=None, loss_and_grads=None, loader=None):
    settings = {name: value for name, value in recipe.items() if name not in ("until", "decay")}
    kept = runs.InMemory(checkpoint.Checkpoint) if kept is None else kept
    optimizer = AdamW(1.0, (0.9, 0.99), weight_decay=recipe.get("decay", 0.0), no_decay=lambda name, param: False)
    loader = runs.Loader(batches) if loader is None else loader
    loss_and_grads = loss_and_grads or runs.loss_and_grads(values)
    return loop.Trainer(loss_and_grads, {"w": w}, loader, optimizer, loop.Recipe(**settings), kept, evaluate)


def check_skipped(steps, expected, case):
    """Check which steps are skipped if the loss and the norm of the gradients at each step are these."""
    left = iter(steps)

    def loss_and_grads(params, batch):
        loss, norm = next(left)
        return mx.array(loss), {"w": mx.where(mx.arange(runs.TOKENS) == 0, norm, 0.0)}

    with noted(case):
        trainer = built(*problem(21), RECIPE | {"max_norm": 100.0}, loss_and_grads=loss_and_grads)
        found = [trainer.advance().skipped for _ in steps]
    fail_if_different("which steps are skipped", expected, found, case)


def trained(w, values, batches, recipe):
    """Return the parameters after some steps."""
    trainer = built(w, values, batches, recipe)
    for _ in range(recipe["until"]):
        trainer.advance()
    return trainer.params["w"]


def log_of(name):
    """Return one field of the log, and its formula."""

    def program(w, values, batches, recipe):
        trainer = built(w, values, batches, recipe)
        for _ in range(recipe["until"]):
            trainer.advance()
        return mx.array([float(getattr(report, name)) for report in trainer.log])

    def formula(w, values, batches, recipe, *, r=exact):
        return np.array([float(entry[name]) for entry in run64(w, values, batches, recipe, r=r)["log"]])

    return program, formula


def run64(w, values, batches, recipe, *, r=exact):
    arrays = [(np.array(tokens, np.float64), np.array(targets, np.float64)) for tokens, targets in batches]
    return train64(w, values, arrays, recipe, recipe.get("decay", 0.0), r=r)


def params64(w, values, batches, recipe, *, r=exact):
    return run64(w, values, batches, recipe, r=r)["w"]


class Shown(list[Any]):
    """A list of batches that a failing case shows in a few words."""

    def __str__(self):
        return f"{len(self)} micro-batches"

    def __deepcopy__(self, memo):
        return Shown(self)


def problem(seed, count=12, bad=None, length=6):
    return normals(seed)(runs.TOKENS), runs.values(seed), Shown(runs.batches(seed, count, bad, length))


@pytest.mark.parametrize("micro_batches", [1, 2, 3])
def test_task_3_loop_formula(micro_batches):
    """Accumulation, clipping, schedule and AdamW, twelve steps of them."""
    agrees(trained, params64, *problem(1), RECIPE | {"micro_batches": micro_batches}, seed=1)


def test_task_3_loop_first_step():
    """The first step is number 1: with a warm-up of 3, its rate is a third of the peak."""
    agrees(trained, params64, *problem(2), RECIPE | {"until": 1}, seed=2)


def test_task_3_loop_weight_decay():
    agrees(trained, params64, *problem(3), RECIPE | {"decay": 0.5}, seed=3)


@pytest.mark.parametrize("name", ["step", "loss", "norm", "learning_rate", "targets", "skipped"])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_task_3_loop_log(micro_batches, name):
    """Each step's report: the loss before the update, the norm before clipping."""
    agrees(*log_of(name), *problem(4), RECIPE | {"micro_batches": micro_batches}, seed=4)


BAD = {"NaN": runs.BROKEN, "infinity": runs.INFINITE, "spike": runs.SPIKE}


@pytest.mark.parametrize("kind", BAD)
def test_task_3_loop_skips_bad_steps(kind):
    """The seventh batch is bad: its step changes neither the parameters nor the optimizer's state."""
    w, values, batches = problem(5, bad={6: BAD[kind]})
    agrees(trained, params64, w, values, batches, RECIPE, seed=5)
    program, formula = log_of("skipped")
    agrees(program, formula, w, values, batches, RECIPE, seed=5)


def test_task_3_loop_skips_nan_at_once():
    """NaN in the first step: no window of norms is needed. The loss alone, or the norm alone, is bad, too."""
    agrees(trained, params64, *problem(6, bad={0: runs.BROKEN}), RECIPE, seed=6)
    for bad in (math.nan, math.inf):
        check_skipped([(bad, 1.0)], [True], f"1 step with a loss of {bad} and a norm of 1")
        check_skipped([(1.0, bad)], [True], f"1 step with a loss of 1 and a norm of {bad}")


def test_task_3_loop_spike_before_the_window_is_full():
    """A spike in the second step is no spike: there are too few norms to compare it with. It is only clipped."""
    agrees(trained, params64, *problem(7, bad={1: runs.SPIKE}), RECIPE, seed=7)


def test_task_3_loop_median_of_applied_steps():
    """Two spikes in a row: the first one's norm is not in the median. A norm at the limit is not a spike."""
    w, values, batches = problem(8, bad={6: runs.SPIKE, 7: runs.SPIKE, 9: runs.SPIKE})
    agrees(*log_of("skipped"), w, values, batches, RECIPE, seed=8)
    agrees(trained, params64, w, values, batches, RECIPE, seed=8)
    norms = [2.0, 2.0, 2.0, 2.0, 8.0, 8.5]
    case = f"steps with the norms {norms}, spike_factor 4, spike_window 4"
    check_skipped([(1.0, norm) for norm in norms], [False, False, False, False, False, True], case)


def test_task_3_loop_optimizer_counts_updates():
    """AdamW's step is the number of updates, not of steps."""
    case = "12 steps, of which 2 are skipped"
    trainer = built(*problem(9, bad={5: runs.BROKEN, 8: runs.BROKEN}), RECIPE)
    with noted(case):
        trainer.run()
    fail_if_different("optimizer_state['step']", 10, int(trainer.optimizer_state["step"].item()), case)
    fail_if_different("step", 12, trainer.step, case)


def test_task_3_loop_pytorch(pytorch):
    """torch.optim.AdamW, clip_grad_norm_ and the same schedule."""
    w, values, batches = problem(10)
    tokens = mx.concatenate([each for each, _ in batches])
    targets = mx.concatenate([each for _, each in batches])

    def run(torch, w, values, tokens, targets):
        w = w.clone().requires_grad_(True)
        optimizer = torch.optim.AdamW([w], lr=1.0, betas=(0.9, 0.99), weight_decay=0.0)
        for step in range(1, 13):
            rate = 0.05 * step / 3 if step < 3 else 0.01 + 0.04 * (1 + math.cos(math.pi * (step - 3) / 9)) / 2
            optimizer.param_groups[0]["lr"] = rate
            counted = targets[step - 1] != runs.IGNORE
            errors = w[tokens[step - 1][counted].long()] - values[targets[step - 1][counted].long()]
            optimizer.zero_grad()
            (errors.square().mean() / 2).backward()
            torch.nn.utils.clip_grad_norm_([w], 0.6)
            optimizer.step()
        return w.detach()

    expected = pytorch(run, w, values, tokens, targets)
    agrees(trained, params64, w, values, batches, RECIPE, seed=10, expected=expected)


def test_task_3_loop_diverged():
    """Three bad steps in a row, 5 to 7: the run stops, and step 7 is not saved."""
    w, values, batches = problem(11, bad=dict.fromkeys(range(4, 12), runs.BROKEN))
    kept, case = runs.InMemory(checkpoint.Checkpoint), "12 steps, from step 5 all NaN, max_skipped 3, save_every 1"
    trainer = built(w, values, batches, RECIPE | {"save_every": 1}, kept)
    with raises_error(RuntimeError, case, "3", "7"):  # Diverged is one
        trainer.run()
    fail_if_different("the saved steps", [1, 2, 3, 4, 5, 6], kept.saved, case)


def test_task_3_loop_bad_steps_not_in_a_row():
    """Six bad steps, the first two among them, never three in a row: the run continues."""
    w, values, batches = problem(12, bad=dict.fromkeys((0, 1, 3, 4, 6, 7), runs.BROKEN))
    case = "12 steps, steps 1, 2, 4, 5, 7 and 8 NaN, max_skipped 3"
    trainer = built(w, values, batches, RECIPE)
    with noted(case):
        fail_if_different("run()", True, trainer.run(), case)
    fail_if_different("step", 12, trainer.step, case)


def test_task_3_loop_evaluates():
    """Every 5 steps and after the last one, the new parameters."""
    seen, case = [], "12 steps, evaluate_every 5"

    def evaluate(params):
        seen.append(to_float64(params["w"]).tolist())
        return float(len(seen))

    trainer = built(*problem(13), RECIPE | {"evaluate_every": 5}, evaluate=evaluate)
    with noted(case):
        after = [to_float64((trainer.advance(), trainer.params["w"])[1]).tolist() for _ in range(12)]
    held_out = {report.step: report.held_out for report in trainer.log if report.held_out is not None}
    fail_if_different("the evaluated steps and their losses", {5: 1.0, 10: 2.0, 12: 3.0}, held_out, case)
    fail_if_different("the evaluated parameters", [after[4], after[9], after[11]], seen, case)


def test_task_3_loop_saves():
    """Every 5 steps and after the last one; a finished run saves nothing more."""
    kept, case = runs.InMemory(checkpoint.Checkpoint), "12 steps, save_every 5"
    trainer = built(*problem(14), RECIPE | {"save_every": 5}, kept)
    with noted(case):
        fail_if_different("run()", True, trainer.run(), case)
        fail_if_different("the saved steps", [5, 10, 12], kept.saved, case)
        fail_if_different("run() again", True, trainer.run(), f"{case}, run twice")
    fail_if_different("the saved steps", [5, 10, 12], kept.saved, f"{case}, run twice")


def test_task_3_loop_stops():
    """on_step sees every report, and stops the run after step 4, which is saved."""
    kept, seen, case = runs.InMemory(checkpoint.Checkpoint), [], "12 steps, on_step returns True at step 4"

    def on_step(report):
        seen.append((report.step, kept.saved[-1:]))
        return report.step == 4

    trainer = built(*problem(15), RECIPE | {"save_every": 2}, kept)
    with noted(case):
        fail_if_different("run()", False, trainer.run(on_step), case)
    fail_if_different("the saved steps", [2, 4], kept.saved, case)
    fail_if_different(
        "the steps that on_step saw, and what was saved then", [(1, []), (2, []), (3, [2]), (4, [2])], seen, case
    )


def test_task_3_loop_stopped_at_the_last_step():
    """If on_step stops the run after its last step, that step has been reached all the same."""
    kept, case = runs.InMemory(checkpoint.Checkpoint), "12 steps, on_step returns True at step 12"
    trainer = built(*problem(22), RECIPE, kept)
    with noted(case):
        fail_if_different("run()", True, trainer.run(lambda report: report.step == 12), case)
    fail_if_different("the saved steps, each counted once", [12], sorted({*kept.saved}), case)


def state_of(trainer, loader):
    """Return everything that a step depends on."""
    arrays = {**trainer.params, **trainer.optimizer_state}
    log = [dataclasses.astuple(report) for report in trainer.log]
    return {name: np.array(a).tolist() for name, a in arrays.items()}, repr(log), trainer.step, loader.state()


def check_resume(stop, recipe, inputs, case, folder=None):
    """Compare a run that is stopped after a step and continued in a new trainer with one that is not."""
    loaders = [runs.Loader(inputs[2]) for _ in range(2)]  # of the uninterrupted run, and of the resumed one
    with noted(case):
        whole = built(*inputs, recipe, loader=loaders[0])
        whole.run()
        kept = checkpoint.Checkpoints(folder) if folder else runs.InMemory(checkpoint.Checkpoint)
        first = built(*inputs, recipe, kept)
        first.run(lambda report: report.step == stop)
        w, values, batches = inputs
        # Other initial parameters: they must not be used.
        second = built(w + 1, values, batches, recipe, kept, loader=loaders[1])
        at, ends = second.step, second.run()
    fail_if_different("the step of the new trainer", stop, at, case)
    fail_if_different("run() of the new trainer", True, ends, case)
    names = ("parameters and optimizer state", "log", "step", "position in the data")
    for name, expected, actual in zip(names, state_of(whole, loaders[0]), state_of(second, loaders[1]), strict=True):
        fail_if_different(f"after the resumed run: {name}", expected, actual, case)


@pytest.mark.parametrize("stop", [1, 2, 5, 7, 11])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_task_3_loop_resumes(micro_batches, stop):
    """Stopped after a step, and continued by a new trainer: bit for bit the uninterrupted run, spikes included."""
    inputs = problem(16, bad={4: runs.BROKEN, 9: runs.SPIKE, 16: runs.SPIKE})
    recipe = RECIPE | {"micro_batches": micro_batches}
    check_resume(stop, recipe, inputs, f"12 steps of {micro_batches} micro-batches, stopped after step {stop}")


def test_task_3_loop_resumes_from_files():
    """The same with checkpoints on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = problem(17, bad={3: runs.INFINITE})
        check_resume(6, RECIPE, inputs, "12 steps, stopped after step 6, checkpoints in files", Path(folder))


@pytest.mark.parametrize("stop", [5, 6])
def test_task_3_loop_diverges_as_uninterrupted(stop):
    """Three bad steps in a row, 5 to 7, and a resume between them: the resumed run stops at step 7 as well."""
    w, values, batches = problem(23, bad=dict.fromkeys(range(4, 12), runs.BROKEN))
    kept = runs.InMemory(checkpoint.Checkpoint)
    case = f"12 steps, from step 5 all NaN, max_skipped 3, resumed after step {stop}"
    first = built(w, values, batches, RECIPE, kept)
    with noted(case):
        first.run(lambda report: report.step == stop)
        second = built(w, values, batches, RECIPE, kept)
    with raises_error(RuntimeError, case, "3", "7"):
        second.run()
    fail_if_different("the step at which the resumed run stops", 7, second.step, case)
    fail_if_different("the saved steps", [stop], kept.saved, case)


def test_task_3_loop_reports_damaged_checkpoints():
    case = "a checkpoint with one skipped message"
    kept = runs.InMemory(checkpoint.Checkpoint)
    first = built(*problem(18), RECIPE, kept)
    with noted(case):
        first.run(lambda report: report.step == 3)
        fail_if_different("skipped_checkpoints", (), tuple(first.skipped_checkpoints), "no checkpoint")
        kept.latest = dataclasses.replace(kept.latest, skipped=("step-9.json: cut off",))
        second = built(*problem(18), RECIPE, kept)
    fail_if_different("skipped_checkpoints", ("step-9.json: cut off",), tuple(second.skipped_checkpoints), case)


def test_task_3_loop_changes_no_argument():
    """The initial parameters are the caller's."""
    w, values, batches = problem(19)
    before, params = to_float64(w), {"w": w}
    optimizer = AdamW(1.0)
    kept = runs.InMemory(checkpoint.Checkpoint)
    recipe = loop.Recipe(5, 0.05)
    with noted("5 steps"):
        loop.Trainer(runs.loss_and_grads(values), params, runs.Loader(batches), optimizer, recipe, kept).run()
    compare(params["w"], before, mx.float32, 0.0, "5 steps: the caller's params afterwards", 5)
    fail_if_different("the names in the caller's params", ["w"], list(params), "5 steps")


def test_task_3_loop_sweep():
    for n in sizes(S=20, M=4, W=6, L=9):
        recipe = RECIPE | {
            "steps": n.S + 2, "until": n.S + 2, "warmup": n.turn(0, 1, 2), "micro_batches": n.M, "spike_window": n.W,
            "max_norm": n.turn(0.6, 100.0), "floor": n.turn(0.0, 0.02), "max_skipped": 50,
        }  # fmt: skip
        bad = n.turn({}, {2: runs.BROKEN}, {3: runs.SPIKE, 5: runs.INFINITE})
        agrees(trained, params64, *problem(n.seed, n.S + 2, bad, n.L + 1), recipe, seed=n)


@property_test
@given(stop=st.integers(1, 7), micro_batches=st.integers(1, 3), seed=st.integers(0, 50))
def test_task_3_loop_resumes_anywhere(stop, micro_batches, seed):
    inputs = problem(seed, 9, {5: runs.SPIKE})
    recipe = RECIPE | {"steps": 8, "micro_batches": micro_batches}
    check_resume(stop, recipe, inputs, f"8 steps of {micro_batches} micro-batches, stopped after {stop}, seed {seed}")


def test_task_3_loop_constant_memory():
    """Parameters and state are evaluated in each step: 300 steps need no more memory than 30."""
    w, values, batches = problem(20)
    peaks = []
    for steps in (30, 300):
        trainer = built(w, values, batches, RECIPE | {"steps": steps, "max_skipped": 1000})
        with noted(f"{steps} steps"):
            mx.reset_peak_memory()
            before = mx.get_active_memory()
            trainer.run()
        peaks.append(mx.get_peak_memory() - before)
    if peaks[1] > 3 * peaks[0] + 20000:
        lines = (f"expected  about {peaks[0]} bytes, as for 30 steps", f"got       {peaks[1]} bytes")
        fail(Kind.VALUES, "the memory grows with the number of steps", "300 steps", *lines)
