"""`pdm run generate "Once upon a time" --mistake 1.1.2:no-scale`: the engine with and without a known mistake."""

import shlex
import sys
from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from ..checkpoints.features import unsupported_features
from ..course.entities import Task
from ..engine import mistakes, talk
from ..engine.broken import STORIES, Bits, Breaker, Comparison, Written
from ..engine.engine import Sampling, configured, load_engine
from ..terminal.beside import SIGN, Parting, beside, parting, signed
from ..terminal.screen import columns, say
from ..testkit.variants import Variant, Variants

SEED = 1
ALIKE = 0.0005  # bits per byte: half of the last digit shown


def generate_with(
    mistake: str, prompt: str, engine: dict[str, Any], most: int | None, sampling: Sampling, typed: dict[str, Any]
) -> int:
    """List the known mistakes of a task, or run an engine with one and without.

    `mistake` is "1.1.2" or "1.1.2:no-scale"; `engine` holds `load_engine`'s arguments, `typed` all typed options, to
    print the command again; `most` is the number of tokens. Raises LearnerError for an unfinished engine, UsageError
    for an unknown name.
    """

    def again(mistake: str, **more: object) -> str:
        return _line(prompt, mistake, {**typed, **more})

    mx.set_default_device(mx.cpu)  # in float32, as when grading: the same text on every machine
    _, config = configured(engine["model"], engine["window"], engine["sinks"])
    lacks = unsupported_features(config)
    task, stage, known, chosen = mistakes.chosen(mistake, engine["solution"], engine["stage"], again, lacks)
    if chosen is None:
        _list(task, known, again)
        return 0
    if sampling.seed is None:
        sampling = sampling._replace(seed=SEED)
    note = talk.note if sys.stderr.isatty() else lambda line: None
    breaker = Breaker(load_engine(**{**engine, "stage": stage.name}), prompt, most, sampling, note)
    talk.note_code(breaker.engine)
    found = breaker.compare(task, chosen.name)
    _show(task, chosen, found)
    say(f"\nTo repeat: {again(f'{task.id}:{chosen.name}', seed=sampling.seed, max_tokens=found.most)}")
    return 0


def _line(prompt: str, mistake: str, options: Mapping[str, object]) -> str:
    quoted = f'"{prompt}"' if not set(prompt) & set('"$`\\!\n') else shlex.quote(prompt)
    words = ["pdm run generate", quoted, "--mistake", shlex.quote(mistake)]
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(f"{value:g}" if isinstance(value, float) else shlex.quote(str(value)))
    return " ".join(words)


def _list(task: Task, known: Variants, again: Any) -> None:
    say(f"{task.label}: {len(known.wrong_programs)} known mistakes\n", bold=True)
    width = max(len(variant.name) for variant in known.wrong_programs)
    for variant in known.wrong_programs:
        say(f"{variant.name:<{min(width, 24)}}  {variant.fact}")
    say(f"\nTo see one: {again(f'{task.id}:{known.wrong_programs[0].name}')}")


def _show(task: Task, mistake: Variant, found: Comparison) -> None:
    say(f"{task.label}, with a known mistake: {mistake.name}\n", bold=True)
    texts = [written.text.translate(talk.CONTROLS) for written in (found.right, found.broken)]
    place = parting(*texts)
    left = f"correct: {_length(found.right)}", signed(texts[0], place)
    right = f"with the mistake: {_length(found.broken)}", signed(texts[1], place)
    say("\n".join([*beside(left, right, columns(sys.stdout)), ""]), cut=True)
    if found.broken.stopped:
        say(f"It stops the engine: {found.broken.stopped}.")
    elif place:
        say(_parting(place))
    say("\n".join(_bits(task, found, place is None and not found.broken.stopped)))
    say(f"\nThe mistake: {mistake.fact}.\n{mistake.question}")


def _length(written: Written) -> str:
    count = f"{written.tokens} token{'s' * (written.tokens != 1)}"
    return f"stopped after {count}" if written.stopped else f"ended after {count}" if written.ended else count


def _parting(place: Parting) -> str:
    begin = f"The texts differ from word {place.number} on ({SIGN})"
    if not place.left or not place.right:
        return f"{begin}, where the {'correct text' if place.right else 'text with the mistake'} ends."
    if place.left == place.right:
        return f'{begin}: the white space before "{place.left}" differs.'
    return f'{begin}: "{place.left}" without the mistake, "{place.right}" with it.'


def _bits(task: Task, found: Comparison, same_text: bool) -> list[str]:
    """Return lines on what the mistake costs and what that means."""
    right, broken = found.bits, found.broken_bits
    measure = f"Bits per byte on {STORIES} held-out stories"
    if broken is None:
        lines = [f"{measure}: {right.per_byte:.3f}. {task.title} does not affect them."]
        if same_text:
            lines.append("The text is the same too: with these settings the engine never takes that path.")
        if same_text and task.id in mistakes.in_sampler():
            lines.append("Others may show it: --temp 2, --top-k 5, --top-p 0.7, --min-p 0.3, --repetition-penalty 2.")
        return lines
    if right.why_not:
        return [f"{measure}: unknown, because {right.why_not}."]
    if broken.why_not:
        why = "" if found.broken.stopped == broken.why_not else f": {broken.why_not}"
        return [f"{measure}: {right.per_byte:.3f} without the mistake, unknown with it{why}."]
    if abs(right.per_byte - broken.per_byte) >= ALIKE:
        cost = f"{measure}: {right.per_byte:.3f} without the mistake, {broken.per_byte:.3f} with it."
        if broken.ahead:
            return [cost, "Not a valid score: the predictions depend on later tokens, so the model sees the answers."]
        uniform = f"worse than a uniform choice among all {found.vocabulary:,} tokens"
        with_it = _choices(broken) if broken.choices < found.vocabulary else uniform
        return [cost, f"Perplexity per token: {_choices(right)} without the mistake; with it, {with_it}."]
    same = [f"{measure}: {right.per_byte:.3f}, with the mistake and without."]
    if same_text:
        same.append("It has no effect here: this engine, on this model, never takes the faulty path.")
    return same


def _choices(bits: Bits) -> str:
    return f"{bits.choices:.1f}" if bits.choices < 20 else f"{bits.choices:,.0f}"
