"""The quiz of week 5, day 4."""

import contextlib
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "5.4.1",
    "One micro-batch has 3 targets and a mean loss of 2. The next has 1 target and a loss of 6. Which loss does the "
    "step report?",
    why="Four targets have a total loss of 3 · 2 + 6 = 12, so the mean is 3.",
    mistakes={
        "mean-of-the-means": "The mean of 2 and 6 is 4, but the first loss stands for three of the four targets.",
        "summed": "2 + 6 is 8, but a mean is never larger than the largest loss.",
        "divided-by-the-counts-so-far": "The first loss then has the weight 3/3 instead of 3/4.",
    },
)
def three_and_one(accumulate: Any) -> str:
    from tests.week5 import runs

    losses = iter([mx.array(2.0), mx.array(6.0)])
    loss, _ = accumulate(lambda params, batch: (next(losses), {"w": mx.ones(1)}), {}, runs.micro_batches([3, 1]))
    return numbers(loss)


@quiz.question(
    "5.4.3",
    "A run has 10 steps, and `max_skipped` is 3. Batches 3, 4, 6 and 7 give NaN. After how many steps does the run "
    "end?",
    why="Four steps are skipped, but never three in a row, because batch 5 is good. The run reaches its last step.",
    mistakes={
        "bad-steps-in-all": "Batch 6 is the third bad batch, but batch 5 was good.",
        "skipped-batch-again": "Batch 3 gives NaN every time, so three steps in a row are skipped.",
    },
)
def ends(trainer: Any) -> str:
    from tests.week5 import runs
    from tiny_llm_solution.optimizers.adamw import AdamW
    from tiny_llm_solution.training.checkpoint import Checkpoint
    from tiny_llm_solution.training.loop import Recipe

    loader = runs.Loader(runs.batches(1, 12, dict.fromkeys((2, 3, 5, 6), runs.BROKEN)))
    kept, recipe = runs.InMemory(Checkpoint), Recipe(10, 0.05, max_skipped=3)
    run = trainer(runs.loss_and_grads(runs.values(1)), {"w": mx.zeros(runs.TOKENS)}, loader, AdamW(1.0), recipe, kept)
    with contextlib.suppress(RuntimeError):
        run.run()
    return str(run.step)


@quiz.question(
    "5.4.4",
    "Models with 1, 4 and 16 million parameters end at losses of 4, 3 and 2.5. Which loss does the fitted law predict "
    "for 64 million?",
    why="Each factor of 4 halves the distance to E = 2: 2, 1, 0.5, and then 0.25.",
    mistakes={
        "alpha-one": "With alpha = 1, each factor of 4 in size removes three quarters of the distance to E.",
        "no-entropy": "The best such law, `3.96 * N**-0.176`, misses all three losses and continues toward 0.",
    },
)
def four_times(fit: Any) -> str:
    law = fit([1.0, 4.0, 16.0], [4.0, 3.0, 2.5], 0).law
    return f"{law.E + law.A * 64.0**-law.alpha:.2f}"


@quiz.measured(
    "A step of 16 rows is split into more and more micro-batches. Why does its peak memory fall?",
    right="Only one micro-batch's activations are in memory at a time.",
    why="Activations take memory in proportion to the rows of a micro-batch, and are freed after its backward pass.",
    mistakes={
        "Each micro-batch's gradient is smaller.": "A gradient has the shapes of the parameters, however many rows it "
        "is computed from.",
        "The optimizer's state is split, too.": "AdamW's state has two numbers per parameter. The one update follows "
        "the last micro-batch.",
        "The step takes fewer FLOPs.": "Every row is still computed once, forward and backward, so the FLOPs do not "
        "change.",
    },
)
def why_it_falls(record: Record, reason: str) -> str:
    peaks = [float(cells["peak: MiB"]) for cells in record.values()]
    return reason if peaks == sorted(peaks, reverse=True) else ""
