"""`pdm run generate "Once upon a time" --mistake 1.1.2:no-scale`: the engine with a known mistake, beside itself."""

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..terminal.beside import SIGN, Parting, beside, parting, signed
from ..terminal.screen import columns, say

if TYPE_CHECKING:
    from ..course.nouns import Task
    from ..engine.broken import Bits, Comparison, Written
    from ..engine.engine import Sampling
    from ..testkit.variants import Variant, Variants

SEED = 1
ALIKE = 0.0005  # bits per byte: the last digit that is shown


def generate_with(
    mistake: str,
    prompt: str,
    engine: Mapping[str, Any],
    most: int | None,
    sampling: "Sampling",
    typed: Mapping[str, Any],
) -> int:
    """List the known mistakes of a task, or run an engine with one and without.

    Args:
        mistake: "1.1.2" or "1.1.2:no-scale".
        prompt: what is continued.
        engine: the arguments of `load_engine`.
        most: tokens of a text; None for the default.
        sampling: how they are chosen.
        typed: all options that were typed, to type again.

    Raises:
        LearnerError: the learner's engine is not there yet, or does not work.
        UsageError: there is no such task, mistake, model or stage.
    """
    import dataclasses

    import mlx.core as mx

    from ..engine import mistakes

    def again(mistake: str, **more: object) -> str:
        return _line(prompt, mistake, {**typed, **more})

    mx.set_default_device(mx.cpu)  # in float32, as tasks are graded: the same story on every machine
    from ..checkpoints.beyond import beyond
    from ..engine.engine import configured, load_engine

    _, config = configured(engine["model"], engine["window"], engine["sinks"])
    task, stage, known, chosen = mistakes.chosen(mistake, engine["solution"], engine["stage"], again, beyond(config))
    if chosen is None:
        _list(task, known, again)
        return 0
    from ..engine import broken, talk

    if sampling.seed is None:
        sampling = dataclasses.replace(sampling, seed=SEED)
    note = talk.note if sys.stderr.isatty() else lambda line: None
    breaker = broken.Breaker(load_engine(**{**engine, "stage": stage.name}), prompt, most, sampling, note)
    talk.note_code(breaker.engine)
    found = breaker.compare(task, chosen.name)
    _show(task, chosen, found)
    say()
    say(f"Again: {again(f'{task.id}:{chosen.name}', seed=sampling.seed, max_tokens=found.most)}")
    return 0


def _line(prompt: str, mistake: str, options: Mapping[str, object]) -> str:
    quoted = f'"{prompt}"' if not set(prompt) & set('"$`\\!\n') else shlex.quote(prompt)
    words = ["pdm run generate", quoted, "--mistake", shlex.quote(mistake)]
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(f"{value:g}" if isinstance(value, float) else shlex.quote(str(value)))
    return " ".join(words)


def _list(task: "Task", known: "Variants", again: Any) -> None:
    say(f"{task.label}: what {len(known.wrong_programs)} known mistakes make of it", bold=True)
    say()
    width = max(len(variant.name) for variant in known.wrong_programs)
    for variant in known.wrong_programs:
        say(f"{variant.name:<{min(width, 24)}}  {variant.fact}")
    say()
    say(f"To see one: {again(f'{task.id}:{known.wrong_programs[0].name}')}")


def _show(task: "Task", mistake: "Variant", found: "Comparison") -> None:
    from ..engine.talk import CONTROLS

    say(f"{task.label}, with a known mistake: {mistake.name}", bold=True)
    say()
    texts = [written.text.translate(CONTROLS) for written in (found.right, found.broken)]
    place = parting(*texts)
    left = f"right: {_length(found.right)}", signed(texts[0], place)
    right = f"with the mistake: {_length(found.broken)}", signed(texts[1], place)
    for line in beside(left, right, columns(sys.stdout)):
        say(line, cut=True)
    say()
    if found.broken.stopped:
        say(f"It stops the engine: {found.broken.stopped}.")
    elif place:
        say(_parting(place))
    for line in _bits(task, found, place is None and not found.broken.stopped):
        say(line)
    say()
    say(f"The mistake: {mistake.fact}.")
    say(mistake.question)


def _length(written: "Written") -> str:
    count = f"{written.tokens} token{'s' * (written.tokens != 1)}"
    return f"stopped after {count}" if written.stopped else f"ended after {count}" if written.ended else count


def _parting(place: Parting) -> str:
    begin = f"The texts part at word {place.number} ({SIGN})"
    if not place.left or not place.right:
        return f"{begin}, where the {'right one' if place.right else 'one with the mistake'} ends."
    if place.left == place.right:
        return f'{begin}: in the white space before "{place.left}".'
    return f'{begin}: "{place.left}" is right, "{place.right}" comes of the mistake.'


def _bits(task: "Task", found: "Comparison", same_text: bool) -> list[str]:
    """What the mistake costs, and what that means."""
    from ..engine.broken import STORIES
    from ..engine.mistakes import in_sampler

    right, broken = found.bits, found.broken_bits
    measure = f"Bits per byte on {STORIES} held-out stories"
    if broken is None:
        lines = [f"{measure}: {_number(right)}. {task.title} has no part in them."]
        if same_text:
            lines.append("The text is the same, too: with these settings the engine never goes that way.")
        if same_text and task.id in in_sampler():
            lines.append("Others may show it: --temp 2, --top-k 5, --top-p 0.7, --min-p 0.3, --repetition-penalty 2.")
        return lines
    if right.why_not:
        return [f"{measure}: not known, as {right.why_not}."]
    if broken.why_not:
        again = found.broken.stopped == broken.why_not
        return [f"{measure}: {_number(right)} right, none with the mistake{'' if again else f': {broken.why_not}'}."]
    if abs(right.per_byte - broken.per_byte) >= ALIKE:
        cost = f"{measure}: {_number(right)} right, {_number(broken)} with the mistake."
        if broken.ahead:
            return [
                cost,
                "That flatters it: what it says of a token depends on later ones, so it has read the answers.",
            ]
        return [
            cost,
            f"The right engine guesses as if among {_choices(right)} equally likely tokens, this one "
            f"{_choices_of(broken, found.vocabulary)}.",
        ]
    same = [f"{measure}: {_number(right)}, with the mistake and without."]
    if same_text:
        same.append("It does not show here: this engine, on this model, never goes the way that is wrong.")
    return same


def _number(bits: "Bits") -> str:
    return f"{bits.per_byte:.3f}"


def _choices_of(bits: "Bits", vocabulary: int) -> str:
    return f"among {_choices(bits)}" if bits.choices < vocabulary else f"worse than blindly among all {vocabulary:,}"


def _choices(bits: "Bits") -> str:
    return f"{bits.choices:.1f}" if bits.choices < 20 else f"{bits.choices:,.0f}"
