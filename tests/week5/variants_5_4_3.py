"""Known programs of task 5.4.3, the training loop."""

import mlx.core as mx
from tests.week5 import runs
from tiny_llm_solution.optimizers.adamw import AdamW
from tiny_llm_solution.training.checkpoint import Checkpoint
from tiny_llm_solution.training.loop import Recipe

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.4.3")
known.not_timed("the time of a step is the model's")

SETTINGS = {
    "steps": 10, "learning_rate": 0.05, "warmup": 3, "floor": 0.01, "max_norm": 0.6, "spike_factor": 4.0,
    "spike_window": 4, "max_skipped": 3, "evaluate_every": 4, "save_every": 100,
}  # fmt: skip


def build(program, seed, bad=None, kept=None, evaluate=None, loader=None, **changes):
    kept = runs.InMemory(Checkpoint) if kept is None else kept
    optimizer = AdamW(1.0, (0.9, 0.99), weight_decay=0.1, no_decay=lambda name, param: False)
    loader = runs.Loader(runs.batches(seed, 12, bad)) if loader is None else loader
    recipe = Recipe(**{**SETTINGS, **changes})
    params = {"w": normals(seed)(runs.TOKENS)}
    return program(runs.loss_and_grads(runs.values(seed)), params, loader, optimizer, recipe, kept, evaluate)


def everything(trainer):
    """Return parameters, state and log as arrays."""
    log = [[each.step, each.loss, each.norm, each.learning_rate, each.targets, each.skipped] for each in trainer.log]
    return trainer.params["w"], trainer.optimizer_state["m.w"], trainer.optimizer_state["step"], mx.array(log)


def run(program, *args, **changes):
    trainer = build(program, *args, **changes)
    trainer.run()
    return everything(trainer)


def resumed(stop, bad=None, **changes):
    """Return a probe: a run that is stopped, and continued by a new trainer."""

    def probe(program):
        kept = runs.InMemory(Checkpoint)
        build(program, 20, bad, kept, **changes).run(lambda report: report.step == stop)
        loader = runs.Loader(runs.batches(20, 12, bad))
        second = build(program, 20, bad, kept, loader=loader, **changes)
        start = second.step
        second.run()
        return mx.array(start), *everything(second), mx.array(loader.number)

    return probe


known.probe_table(
    plain=lambda program: run(program, 1),
    micro=lambda program: run(program, 2, micro_batches=3),
    not_clipped=lambda program: run(program, 3, max_norm=100.0),
    nan=lambda program: run(program, 4, {6: runs.BROKEN}),
    infinite=lambda program: run(program, 5, {6: runs.INFINITE}),
    nan_first=lambda program: run(program, 6, {0: runs.BROKEN}),
    spike=lambda program: run(program, 7, {6: runs.SPIKE}),
    early_spike=lambda program: run(program, 8, {1: runs.SPIKE}),
    spikes=lambda program: run(program, 9, {5: runs.SPIKE, 6: runs.SPIKE, 8: runs.SPIKE}),
    bad_ones_apart=lambda program: run(program, 10, dict.fromkeys((3, 4, 6, 7), runs.BROKEN)),
    resumed=resumed(4),
    resumed_micro=resumed(3, micro_batches=2),
    resumed_after_a_spike=resumed(6, {4: runs.BROKEN, 7: runs.SPIKE}),
)


@known.probe()
def loop_diverges(program):
    kept = runs.InMemory(Checkpoint)
    trainer = build(program, 11, dict.fromkeys(range(4, 12), runs.BROKEN), kept, save_every=1)
    try:
        trainer.run()
        how = 0
    except RuntimeError:  # Diverged, of the program's own package
        how = 1
    return mx.array([how, trainer.step, *kept.saved])


@known.probe()
def loop_diverges_after_a_resume(program):
    """Stop a run between bad steps, and return the step at which the resumed one has diverged."""
    kept, bad = runs.InMemory(Checkpoint), dict.fromkeys((5, 6, 7), runs.BROKEN)
    build(program, 16, bad, kept).run(lambda report: report.step == 7)
    second = build(program, 16, bad, kept)
    try:
        second.run()
    except RuntimeError:  # Diverged, of the program's own package
        return mx.array(second.step)
    return mx.array(0)


@known.probe()
def loop_saves(program):
    kept = runs.InMemory(Checkpoint)
    trainer = build(program, 12, None, kept, save_every=4)
    first = trainer.run()
    saved = list(kept.saved)
    again = trainer.run()
    return mx.array([first, again]), mx.array(saved), mx.array(kept.saved)


@known.probe()
def loop_stops(program):
    kept, seen = runs.InMemory(Checkpoint), []
    trainer = build(program, 13, None, kept)
    ended = trainer.run(lambda report: seen.append(len(kept.saved)) or report.step == 5)
    last = build(program, 13).run(lambda report: report.step == SETTINGS["steps"])
    return mx.array([bool(ended), bool(last)]), mx.array(seen), mx.array(kept.saved)


@known.probe()
def loop_evaluates(program):
    """Return the parameters at each evaluation, and the steps that have one in the log."""
    seen = []
    trainer = build(program, 14, evaluate=lambda params: seen.append(params["w"]) or float(len(seen)))
    trainer.run()
    return mx.stack(seen), mx.array([-1.0 if report.held_out is None else report.held_out for report in trainer.log])


@known.probe()
def loop_damaged(program):
    kept = runs.InMemory(Checkpoint)
    build(program, 15, None, kept).run(lambda report: report.step == 2)
    kept.latest = Checkpoint(
        *(getattr(kept.latest, name) for name in ("step", "params", "optimizer_state", "progress")), ("x",)
    )
    return mx.array(len(build(program, 15, None, kept).skipped_checkpoints))


BAD = "norm > self.recipe.spike_factor * statistics.median(recent)"
RECENT = "recent = [report.norm for report in self.log if not report.skipped][-self.recipe.spike_window :]"
RATE = "rate = warmup_cosine(step, recipe.learning_rate, recipe.warmup, recipe.steps, recipe.floor)"
UPDATE = "self.params, self.optimizer_state = self.optimizer.update(self.params, grads, self.optimizer_state, rate)"
known.change(
    "steps-from-zero",
    (RATE, RATE.replace("(step,", "(step - 1,")),
    fact="the schedule counts steps from 0, so the first step has the learning rate 0",
    question="Which number has the first update in the docstring of warmup_cosine?",
)
known.change(
    "not-clipped",
    (
        "grads, norm = clip_by_global_norm(grads, recipe.max_norm)",
        "_, norm = clip_by_global_norm(grads, recipe.max_norm)",
    ),
    fact="the norm is computed, but the gradients are not clipped",
    question="Which of the two results of clip_by_global_norm goes into the update?",
)
known.change(
    "nan-passes",
    ("if not (math.isfinite(loss) and math.isfinite(norm)):\n    return True", "pass"),
    fact="only spikes are looked for, and NaN is larger than nothing",
    question="What is `nan > 5.0`, and what is a parameter after one update with NaN?",
)
known.change(
    "spikes-pass",
    (BAD, "False"),
    fact="only NaN and infinity are skipped, never a spike",
    question="A gradient is a thousand times as long as usual, and is clipped. Which direction does it have, and "
    "in how much of m and v is it?",
)
known.change(
    "skipped-norms-in-the-median",
    (RECENT, RECENT.replace(" if not report.skipped", "")),
    fact="the norms of skipped steps count in the median, too",
    question="Three spikes follow one another. What is the median of the window then?",
)
known.change(
    "spikes-in-the-median",
    (
        RECENT,
        """window = self.log[-self.recipe.spike_window :]
recent = [report.norm for report in window if math.isfinite(report.norm)]""",
    ),
    (
        "return len(recent) == self.recipe.spike_window and",
        "return len(window) == self.recipe.spike_window and recent and",
    ),
    fact="the median is over the last steps, skipped spikes included, and only NaN and infinity are left out",
    question="A spike is skipped. Is its norm one that your parameters were updated with?",
)
known.change(
    "skipped-steps-in-the-window",
    (RECENT, "recent = [report.norm for report in self.log[-self.recipe.spike_window :] if not report.skipped]"),
    fact="skipped steps use up the window, so no spike is found in the steps after one",
    question="The window is 4, and one of the last 4 steps was skipped. How many norms are left?",
)
known.change(
    "skipped-state-updated",
    (
        "if not skipped:",
        """before = self.params
if True:""",
    ),
    (
        "mx.eval(self.params, self.optimizer_state)",
        """self.params = before if skipped else self.params
mx.eval(self.params, self.optimizer_state)""",
    ),
    fact="a skipped step still updates the optimizer's state",
    question="The parameters are saved from a NaN. What is m after it, and what does the next update do?",
)  # fmt: skip
known.change(
    "skipped-batch-again",
    ("held_out = None", "if skipped:\n    self.loader.load_state(before)\nheld_out = None"),
    ("batches = [next(self.loader)", "before = self.loader.state()\nbatches = [next(self.loader)"),
    fact="a skipped step's batches are used again in the next step",
    question="A batch gives NaN. What does it give the second time?",
)
known.change(
    "bad-steps-in-all",
    (
        """recent = self.log[-self.recipe.max_skipped :]
if len(recent) == self.recipe.max_skipped and all(report.skipped for report in recent):""",
        """recent = [report for report in self.log if report.skipped]
if len(recent) >= self.recipe.max_skipped:""",
    ),
    fact="the run stops after `max_skipped` skipped steps in all, whether or not they are in a row",
    question="One step in a thousand is skipped. Has a run diverged after ten thousand steps?",
)  # fmt: skip
known.change(
    "skips-counted-from-a-resume",
    ("self.step, self.params, self.log = 0, params, list[Report]()",
     "self.step, self.params, self.log, self.in_a_row = 0, params, list[Report](), 0"),
    ("self.step = step\nreturn report",
     "self.in_a_row = self.in_a_row + 1 if skipped else 0\nself.step = step\nreturn report"),
    ("if len(recent) == self.recipe.max_skipped and all(report.skipped for report in recent):",
     "if self.in_a_row >= self.recipe.max_skipped:"),
    fact="a resumed run counts the skipped steps in a row from 0 again",
    question="Two steps were skipped, and the run was killed. Which skip in a row is the next one?",
)  # fmt: skip
known.change(
    "loader-not-resumed",
    ('loader.load_state(latest.progress["loader"])', "pass"),
    fact="a resumed run starts again at the first batch",
    question="The run was killed after half of the data. Which half does it see now?",
)
known.change(
    "optimizer-not-resumed",
    ("self.step, self.params, self.optimizer_state = latest.step, latest.params, latest.optimizer_state",
     "self.step, self.params, self.optimizer_state = latest.step, latest.params, optimizer.init(latest.params)"),
    fact="m and v are lost",
    question="How long is AdamW's first update after m and v are set to zero?",
)  # fmt: skip
known.change(
    "step-not-resumed",
    ("self.step, self.params, self.optimizer_state = latest.step, latest.params, latest.optimizer_state",
     "self.params, self.optimizer_state = latest.params, latest.optimizer_state"),
    fact="a resumed run counts from step 0 again",
    question="Which learning rate does the first step of the new process have?",
)  # fmt: skip
known.change(
    "last-step-not-saved",
    ("if stop or self.step == self.recipe.steps or self.step % self.recipe.save_every == 0:",
     "if stop or self.step % self.recipe.save_every == 0:"),
    fact="the last step is saved only if it is a multiple of `save_every`",
    question="A run has 4,600 steps and saves every 500. Which step's model do you serve?",
)  # fmt: skip
known.change(
    "stop-not-saved",
    ("if stop or self.step == self.recipe.steps or", "if self.step == self.recipe.steps or"),
    fact="a run that on_step stops is not saved",
    question="You press Ctrl-C after 499 steps. Where does the next run start?",
)
known.change(
    "stopped-is-not-the-end",
    ("if stop:\n    break", "if stop:\n    return False"),
    fact="`run` returns False whenever on_step stops it, even after the last step",
    question="on_step returns True after the last step. Was that step reached?",
)
known.change(
    "log-lost",
    ('self.log = [Report(**entry) for entry in latest.progress["log"]]', "pass"),
    fact="a resumed run starts with an empty log",
    question="Over which norms is the median taken in the first step after a resume?",
)
known.change(
    "parameters-lost",
    ("= latest.step, latest.params, latest.optimizer_state", "= latest.step, params, latest.optimizer_state"),
    fact="a resumed run starts with the initial parameters",
    question="Which parameters does the trainer have after it has loaded a checkpoint?",
)
known.change(
    "spikes-from-the-first-step",
    ("return len(recent) == self.recipe.spike_window and", "return bool(recent) and"),
    fact="spikes are looked for before there are `spike_window` updates",
    question="After two updates, of how many norms is the median?",
)
known.change(
    "mean-of-the-norms",
    ("statistics.median(recent)", "statistics.fmean(recent)"),
    fact="a norm is compared with the mean of the last norms instead of their median",
    question="One large norm was not skipped. What does it do to the mean, and what to the median?",
)
known.accepted_change(
    "norms collected in a loop",
    (
        RECENT,
        """recent = []
for report in self.log:
    if not report.skipped:
        recent.append(report.norm)
recent = recent[-self.recipe.spike_window :]""",
    ),
)
