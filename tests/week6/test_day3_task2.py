"""Task 6.3.2, a training step over stages, against its formula in float64, and week 5's training in one process."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6 import stages
from tests.week6.formulas_day3 import EMBEDDING, step64
from tests.week6.pipelines import ROOMY, real_ring, training_case

from tiny_llm.pipeline import step
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.rounding import to_float64

ORDERS = {"1F1B": stages.one_f_one_b, "GPipe": stages.gpipe}
COUNTS = (3, 1, 4, 2, 5)  # of counted targets, by micro-batch


def case_of(ranks, counts, order="1F1B", tied=True, seed=1):
    kind = "a tied embedding" if tied else "an lm_head of its own"
    return f"{ranks} ranks, {order}, micro-batches with {counts} counted targets, {kind}, seed {seed}"


def stepped(ranks, counts, order="1F1B", tied=True, seed=1):
    """Run a step of the small model, and return it with what it needs."""
    params, batches = stages.small_params(seed, tied), stages.micro_batches(seed, *counts)
    case = case_of(ranks, counts, order, tied, seed)
    orders = [ORDERS[order](rank, ranks, len(counts)) for rank in range(ranks)]
    with noted(case):
        found = stages.finished(lambda: stages.step_over_ranks(step.pipeline_step, params, batches, orders), case)
    return found, params, batches, case


def same_step(found, params, batches, case, digits=2.0**-18):
    """Compare each rank's loss and gradients with the formula's."""
    arrays = [(to_float64(batch.tokens), to_float64(batch.targets)) for batch in batches]
    loss, grads = step64({name: to_float64(w) for name, w in params.items()}, arrays)
    for rank, (own_loss, own) in enumerate(zip(found.losses, found.grads, strict=True)):
        names = sorted(found.stages[rank].own(params))
        fail_if_different("wrong names of the gradients", names, sorted(own), f"{case}, rank {rank}")
        for name in names:
            allowed = digits * max(1.0, float(np.abs(grads[name]).max()))
            compare(own[name], grads[name], mx.float32, allowed, f"{case}, rank {rank}, {name}", grads[name].size)
        allowed = digits * max(1.0, abs(loss))
        compare(own_loss, np.array(loss), mx.float32, allowed, f"{case}, rank {rank}, the loss", 1)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_task_2_step_formula(ranks, order, tied):
    same_step(*stepped(ranks, COUNTS, order, tied))


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_task_2_step_three_and_one(ranks):
    """Two micro-batches that count 3 targets and 1, as in the chapter."""
    same_step(*stepped(ranks, (3, 1), seed=2))


@pytest.mark.parametrize("counts", [(0, 3, 2), (2, 0), (0, 0, 0)], ids=str)
def test_task_2_step_without_targets(counts):
    """A micro-batch of padding alone weighs nothing, and nothing is divided by zero."""
    for ranks in (1, 2, 3):
        same_step(*stepped(ranks, counts, seed=3))


@pytest.mark.parametrize("counts", [(4,), (4, 4), (2, 2, 2)], ids=str)
def test_task_2_step_few_micro_batches(counts):
    """No more micro-batches than stages."""
    for ranks in (2, 3, 4):
        same_step(*stepped(ranks, counts, seed=4))


def test_task_2_step_copies_are_equal():
    """Both copies of the embedding get the same gradient, bit for bit, so that they remain equal."""
    for ranks in (2, 3, 4):
        found, *_, case = stepped(ranks, COUNTS, seed=5)
        first, last = (to_float64(found.grads[rank][EMBEDDING]) for rank in (0, -1))
        fail_if_different("the copies' gradients differ", first.tolist(), last.tolist(), case)


@pytest.mark.parametrize("order", ORDERS)
def test_task_2_step_runs_the_order(order):
    """Each stage runs the passes that it is given. On the last stage, forward passes may be left out."""
    for ranks in (1, 2, 3):
        found, *_, case = stepped(ranks, COUNTS, order, seed=6)
        for rank, stage in enumerate(found.stages):
            wanted = "".join("FB"[not each.forward] for each in ORDERS[order](rank, ranks, len(COUNTS)))
            ran = "".join(stage.ran)
            if ran != wanted and not (stage.last and ran == wanted.replace("F", "")):
                lines = (f"expected  {wanted}", f"got       {ran}")
                fail(Kind.VALUES, "wrong order of the passes", f"{case}, rank {rank}", *lines)


def test_task_2_step_frees_inputs():
    """1F1B holds at most P - rank micro-batches, and one input that has arrived early."""
    for ranks in (2, 3):
        found, *_, case = stepped(ranks, (2,) * 9, seed=7)
        for rank, stage in enumerate(found.stages):
            most = ranks - rank + 1
            if stage.most_alive > most and not stage.first:
                lines = (f"expected  at most {most}", f"got       {stage.most_alive}")
                fail(Kind.VALUES, "too many inputs are held", f"{case}, rank {rank}", *lines)


def test_task_2_step_evaluates_each_pass():
    """When the last backward pass begins, gradients of 1 MB are in memory once, not once for each micro-batch."""
    case = "1 rank, 8 micro-batches, gradients of 2**18 float32 numbers"
    grown = ROOMY.growth(step.pipeline_step, case)
    if grown > 4 * 2**20:
        lines = ("expected  at most 4 MiB more than at the first pass", f"got       {grown / 2**20:.0f} MiB more")
        fail(Kind.VALUES, "the sums are not evaluated after each backward pass", case, *lines)


def test_task_2_step_messages():
    """One activation to the right and one gradient to the left for each micro-batch, and no more arrays than that."""
    for ranks in (2, 3, 4):
        found, _, batches, case = stepped(ranks, COUNTS, tied=False, seed=8)
        for rank, group in enumerate(found.groups):
            wanted = 4 * stages.SIZE * sum(b.tokens.size for b in batches) * ((rank > 0) + (rank < ranks - 1))
            headline = "wrong number of bytes sent"
            fail_if_different(headline, wanted, stages.sent_bytes(group), f"{case}, rank {rank}")


def test_task_2_step_changes_no_argument():
    params, batches = stages.small_params(9, True), stages.micro_batches(9, *COUNTS)
    kept = {name: to_float64(w) for name, w in params.items()}
    orders = [stages.one_f_one_b(rank, 2, len(COUNTS)) for rank in range(2)]
    case = case_of(2, COUNTS, seed=9)
    with noted(case):
        stages.finished(lambda: stages.step_over_ranks(step.pipeline_step, params, batches, orders), case)
    for name, before in kept.items():
        compare(params[name], before, mx.float32, 0.0, f"{case}, {name} afterwards", before.size)


@pytest.mark.parametrize("ranks", [2, 3])
def test_task_2_step_of_the_training_model(ranks):
    """Week 5's model, packed rows of documents, and `accumulate_gradients` in one process."""
    config, params, batches, (loss, grads), make = training_case()
    case = f"{ranks} ranks, a Qwen3 of {config.num_hidden_layers} layers, {len(batches)} micro-batches of packed rows"

    def rank_of(group):
        stage = make(group.rank, group.size)
        order = stages.one_f_one_b(group.rank, group.size, len(batches))
        return step.pipeline_step(stage, stage.own(params), batches, order, group)

    with noted(case):
        found, _ = stages.finished(lambda: run_ranks(rank_of, ranks), case)
    for rank, (own_loss, own) in enumerate(found):
        same_as_one_process(own_loss, own, loss, grads, f"{case}, rank {rank}")


def same_as_one_process(own_loss, own, loss, grads, case):
    compare(own_loss, to_float64(loss), mx.float32, 2.0**-18, f"{case}, the loss", 1)
    for name, grad in own.items():
        wanted = to_float64(grads[name])
        allowed = 2.0**-17 * max(1.0, float(np.abs(wanted).max()))
        compare(grad, wanted, mx.float32, allowed, f"{case}, {name}", wanted.size)


def test_task_2_step_sweep():
    for number, (ranks, size, counts) in enumerate([
        (1, 1, (1,)), (2, 2, (1, 1)), (3, 5, (2, 3, 4)), (5, 4, (3, 0, 1, 2)), (8, 2, (1,) * 12), (2, 65, (6, 3)),
        (3, 8, (20, 1, 7)), (4, 3, (2,) * 17),
    ]):  # fmt: skip
        sizes = {"size": size, "layers": max(3, ranks)}
        for tied in (True, False):
            params = stages.small_params(number, tied, vocab=stages.VOCAB + number, **sizes)
            batches = stages.micro_batches(number, *counts)
            orders = [stages.one_f_one_b(rank, ranks, len(counts)) for rank in range(ranks)]
            case = case_of(ranks, counts, tied=tied, seed=number)
            with noted(case):
                found = stages.finished(
                    lambda p=params, b=batches, o=orders, s=sizes: stages.step_over_ranks(
                        step.pipeline_step, p, b, o, **s
                    ),
                    case,
                )
            same_step(found, params, batches, case, digits=2.0**-16)


@property_test
@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=5), ranks=st.integers(1, 4))
def test_task_2_step_any_counts(counts, ranks):
    same_step(*stepped(ranks, tuple(counts), seed=len(counts)))


@needs("port")
def test_task_2_step_on_a_real_ring():
    """Two processes over `mx.distributed`."""
    config, _, batches, (loss, grads), _ = training_case()
    case = f"2 processes, a Qwen3 of {config.num_hidden_layers} layers, {len(batches)} micro-batches"
    same_step(*stepped(1, (2,)))  # in this process first: an error has a traceback here
    for rank, own in enumerate(real_ring(step.__file__, case)):
        same_as_one_process(own.pop("loss"), own, loss, grads, f"{case}, rank {rank}")
