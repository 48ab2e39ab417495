"""Day 6's figures and widget: a group and its advantages, recorded runs of DPO and GRPO, and a hacked reward.

All numbers are from rewards.json, which `benches/rewards.py` recorded.
"""

import functools
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, lines
from tiny_llm_course.dev.book.drawing.canvas import FONT, WIDEST
from tiny_llm_course.dev.book.drawing.states import states
from tiny_llm_course.dev.book.html import element, number, quotes, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.preferences.advantages import group_advantages  # noqa: E402
from tiny_llm_solution.preferences.dpo import dpo_loss  # noqa: E402
from tiny_llm_solution.preferences.grpo import grpo_loss  # noqa: E402

RECORD = Path(__file__).with_name("rewards.json")
WINDOW = 5  # rounds that a curve's point is the mean of
EPS, CLIP, BETA = 1e-4, 0.2, 0.1
CHOSEN, REJECTED = 6, 1  # of the group: the running example, "answer 7" and "answer 2"
RATIOS = (1.5, 0.5)
RUNS = {"before": "before training", "dpo": "DPO", "grpo": "GRPO"}
HACKS = {"hacked": "β = 0", "held": "β = 0.5"}


def generated_parts() -> Parts:
    """Return the figures, the tables, the quotes and the widget."""
    return {
        "group": group(),
        "loop": loop(),
        "pair": pair(),
        "pair-logprobs": pair_logprobs(),
        "gains": gains(),
        "dpo-steps": dpo_steps(),
        "reward-curve": curve("grpo", "mean reward", "reward"),
        "judged": judged(),
        "answers": answers((2,), "before", "grpo"),
        "mention-curve": curve("hacked", "mentions per answer", "mentions"),
        "hacked-answers": answers((0, 1), "hacked"),
        "held": held(),
        "group-advantage": group_advantage(),
    }


@functools.cache
def record() -> dict[str, Any]:
    """Return what was recorded."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


@functools.cache
def advantages() -> list[float]:
    """Return the advantages of the recorded group."""
    found: list[float] = group_advantages(mx.array([row["reward"] for row in completions()])).tolist()
    return found


def completions() -> list[dict[str, Any]]:
    """Return the recorded group."""
    found: list[dict[str, Any]] = record()["group"]["completions"]
    return found


def group() -> str:
    """Draw the rewards and advantages of a group, and begin each of its stories."""
    rows = completions()
    largest = max(abs(a) for a in advantages())

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > WIDEST
        step, text = (30.0, 250.0) if wide else (48.0, 0.0)
        unit = (canvas.width - text - 150) / 2 / largest
        zero = text + 120 + largest * unit
        canvas.text(text, FONT, "reward", "strong")
        canvas.text(zero, FONT, "advantage", "strong", "middle")
        for i, (row, a) in enumerate(zip(rows, advantages(), strict=True)):
            y = 2 * FONT + i * step
            times = "once" if row["mentions"] == 1 else f"{row['mentions']} times"
            words = f"{i + 1}: {row['words']} words, {'ends' if row['ended'] else 'cut off'}, {row['thing']} {times}"
            canvas.text(0, y + (14 if wide else 10), words, "small")
            top = y if wide else y + 16
            canvas.rect(text, top, 60 * max(row["reward"], 0.02), 18, "fill" if row["reward"] else "hollow")
            canvas.text(text + 66, top + 14, f"{row['reward']:g}")
            left = min(zero, zero + a * unit)
            canvas.rect(left, top, max(1.0, abs(a) * unit), 18, "fill" if a > 0 else "hollow")
            beside, anchor = (zero - 6, "end") if a > 0 else (zero + 6, "start")
            canvas.text(beside, top + 14, number(a), anchor=anchor)
        canvas.path([(zero, 2 * FONT - 4), (zero, 2 * FONT + len(rows) * step)], "line")

    told = "; ".join(f"{row['reward']:g} and {number(a)}" for row, a in zip(rows, advantages(), strict=True))
    caption = (
        f"Eight answers of day 5's model to <em>Tell me a story about a {record()['group']['thing']}.</em>, sampled at "
        "temperature 1: their length, whether they end, and how often they name the cow. The advantage is the reward "
        "minus the mean of the group, in standard deviations."
    )
    about = f"Rewards and advantages of eight answers: {told}."
    return at_both_widths(draw).figure("group-5-6", "A group, its rewards and its advantages", about, caption)


def loop() -> str:
    """Draw a round of GRPO with the numbers of the recorded group."""
    rewards, words = ([row[key] for row in completions()] for key in ("reward", "words"))
    counts = [f"{rewards.count(reward)} of {reward:g}" for reward in sorted(set(rewards), reverse=True)]
    apart = [number(a) for a in sorted({round(a, 4) for a in advantages()}, reverse=True)]
    boxes = (
        "policy\ntells stories",
        f"{len(rewards)} answers\n{min(words)} to {max(words)} words",
        f"advantages\n{' or '.join(apart)}",
        f"rewards\n{', '.join(counts)}",
    )
    ways = [
        (boxes[0], boxes[1], "sample"),
        (boxes[1], boxes[3], "score"),
        (
            boxes[3],
            boxes[2],
            f"minus {number(float(np.mean(rewards)))},\nover {number(float(np.std(rewards, ddof=1)))}",
        ),
        (boxes[2], boxes[0], f"gradient: answer {CHOSEN + 1}\nmore likely, {REJECTED + 1} less"),
    ]
    canvas = at_both_widths(lambda canvas: states(canvas, [boxes[:2], boxes[2:]], ways, step=80))
    about = "; ".join(f"{start} to {end}: {label}".replace("\n", " ") for start, end, label in ways)
    caption = "A round of GRPO, with the numbers of the group above. The updated policy samples the next group."
    return canvas.figure("loop-5-6", "A round of GRPO", about, caption)


def shortened(text: str, limit: int = 300) -> str:
    """Return a text's first words, in printable characters."""
    plain = " ".join(
        "".join(c if c.isprintable() else " " for c in text.replace("\N{REPLACEMENT CHARACTER}", "?")).split()
    )
    return plain if len(plain) <= limit else plain[:limit].rsplit(" ", 1)[0] + " ..."


def pair() -> str:
    """Quote the two answers of the running example."""
    found = []
    for i in (CHOSEN, REJECTED):
        row = completions()[i]
        heading = f"answer {i + 1}, {row['words']} words, reward {row['reward']:g}"
        found.append((heading, shortened(row["text"])))
    return quotes(found)


def pair_logprobs() -> str:
    """List the two answers' log-probabilities before and after DPO, and their implicit rewards."""
    before, after = (record()["dpo"]["logprobs"][when] for when in ("before", "after"))
    numbers = [mx.array([each[i]]) for each in (after, before) for i in (CHOSEN, REJECTED)]
    found = dpo_loss(*numbers, beta=BETA)
    rewards = found.chosen_rewards.item(), found.rejected_rewards.item()
    rows = [
        [f"{i + 1}, {word}", number(before[i]), number(after[i]), number(after[i] - before[i]), number(reward, 3)]
        for i, word, reward in zip((CHOSEN, REJECTED), ("chosen", "rejected"), rewards, strict=True)
    ]
    caption = "Log-probabilities of whole answers, in nats, before and after ten steps of DPO"
    head = ["answer", "reference (before)", "policy (after)", "change", f"implicit reward, β = {BETA}"]
    return table(caption, head, rows) + "\n"


def gains() -> str:
    """List the gain of a token of each of the two answers, for a ratio above and one below the clipping range."""
    rows = []
    for i in (CHOSEN, REJECTED):
        a = advantages()[i]
        for ratio in RATIOS:
            sampled, mask = mx.array([[-1.0]]), mx.array([[True]])
            found = grpo_loss(sampled + mx.log(mx.array(ratio)), sampled, sampled, mx.array([a]), mask, CLIP, 0.0)
            clipped = min(max(ratio, 1 - CLIP), 1 + CLIP)
            gradient = "0" if found.clipped.item() else f"{'raises' if a > 0 else 'lowers'} the ratio"
            cells = (ratio * a, clipped * a, -found.loss.item())
            rows.append([f"answer {i + 1}, ratio {ratio:g}", *map(number, cells), gradient])
    caption = f"The gain of one token, for \N{GREEK SMALL LETTER EPSILON} = {CLIP}, from unrounded advantages"
    head = ["answer and ratio", "ratio \N{MIDDLE DOT} advantage", "clipped ratio \N{MIDDLE DOT} advantage"]
    head += ["gain: the smaller", "gradient"]
    return table(caption, head, rows) + "\n"


def dpo_steps() -> str:
    """List the steps of DPO."""
    keys = ("loss", "chosen", "rejected")
    rows = [
        [str(i), *(number(step[key], 3) for key in keys), f"{100 * step['accuracy']:g} %"]
        for i, step in enumerate(record()["dpo"]["steps"], 1)
    ]
    caption = (
        f"DPO on {record()['dpo']['pairs']} pairs: values before the update of each step. The implicit rewards are "
        "means over the step's pairs."
    )
    return table(caption, ["step", "loss", "chosen reward", "rejected reward", "margins above 0"], rows) + "\n"


def smooth(values: Sequence[float]) -> list[float]:
    """Return the means of successive windows."""
    return [float(np.mean(values[i : i + WINDOW])) for i in range(0, len(values), WINDOW)]


def curve(which: str, label: str, name: str) -> str:
    """Draw a run's reward over its rounds."""
    run, words = record()[which], {"grpo": "short stories, β = 0.1", "hacked": "mentions, β = 0"}[which]
    count = len(run["rounds"])
    across = [min(i + WINDOW, count) for i in range(0, count, WINDOW)]
    values = smooth([row["reward"] for row in run["rounds"]])
    canvas = at_both_widths(
        lambda canvas: lines(canvas, across, {words: values}, ("round", label), lambda x: f"{x:g}", logarithmic=False)
    )
    about = f"{words}: from {number(values[0])} to {number(values[-1])}"
    caption = (
        f"{words[0].upper()}{words[1:]}. Each point is the mean of {WINDOW} rounds of 16 answers. The {count} rounds "
        f"took {run['seconds'] / 60:.0f} minutes on a busy machine ({escape(record()['machine']['processor'])})."
    )
    return canvas.figure(f"{name}-5-6", f"{label[0].upper()}{label[1:]} by round", f"{about}.", caption)


def judged() -> str:
    """List what each run does on things that it was not trained on."""
    rows = []
    for which, words in RUNS.items():
        found = record()[which] if which == "before" else record()[which]["after"]
        shares = (f"{100 * found[key]:.0f} %" for key in ("named", "in time"))
        rows.append([words, number(found["reward"]), *shares])
    caption = "48 answers about six animals that no run was trained on, sampled at temperature 1"
    return table(caption, ["model", "mean reward", "names the animal", "ends within 40 words"], rows) + "\n"


def answers(which_samples: tuple[int, ...], *names: str) -> str:
    """Quote some answers of some runs."""
    words = {"before": "before training", "grpo": "after GRPO", "hacked": "rewarded for mentions"}
    found = []
    for which in names:
        samples = (record()[which] if which == "before" else record()[which]["after"])["samples"]
        for row in (samples[i] for i in which_samples):
            heading = f"{words[which]}, {row['thing']}, {row['words']} words"
            found.append((heading, shortened(row["text"])))
    return quotes(found)


def held() -> str:
    """Compare the hacked reward without and with a distance to the reference, after the same rounds."""
    count = len(record()["held"]["rounds"])
    rows = []
    for which, words in HACKS.items():
        last = record()[which]["rounds"][count - WINDOW : count]
        rows.append([words, *(number(float(np.mean([row[key] for row in last]))) for key in ("reward", "kl"))])
    caption = f"Runs rewarded for mentions: means of rounds {count - WINDOW + 1} to {count}"
    return table(caption, ["run", "mentions per answer", "KL, nats per token"], rows) + "\n"


def group_advantage() -> str:
    """Return the widget, and a table of the recorded group."""
    rows = [
        [str(i + 1), f"{row['reward']:g}", number(a)]
        for i, (row, a) in enumerate(zip(completions(), advantages(), strict=True))
    ]
    data = {"rewards": [row["reward"] for row in completions()], "eps": EPS, "clip": CLIP, "chosen": CHOSEN}
    head = ["answer", "reward", "advantage"]
    return element("group-advantage", data, table("The recorded group", head, rows))
