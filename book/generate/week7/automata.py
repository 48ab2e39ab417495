"""Day 1's drawings of automata: the states of the name's DFA, and the stacks of rules before and after some tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST, width_of
from tiny_llm_course.dev.book.drawing.states import states
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.constrained.automaton import DFA  # noqa: E402

Rules = tuple[str, ...]  # of a stack, the lowest first
Shown = tuple[str, list[Rules], str]  # a text, the stacks after it, and what may follow
HIGH, GAP = 21.0, 4.0  # of a rule's box; between boxes


def dfa_figure(dfa: DFA) -> str:
    """Draw the DFA of the name, its states numbered in the order in which they are reached."""
    numbers, transitions = {0: 0}, list[tuple[int, int, str]]()
    for state in (queue := [0]):
        for target in dict.fromkeys(int(t) for t in dfa.table[state] if t >= 0):
            if target not in numbers:
                numbers[target] = -1
                queue.append(target)
    ends = [state for state in queue if dfa.accepting[state]]
    for number, state in enumerate([*(state for state in queue if state not in ends), *ends]):
        numbers[state] = number
    for state, number in numbers.items():
        for target in {int(t) for t in dfa.table[state] if t >= 0}:
            found = np.flatnonzero(dfa.table[state] == target)
            first, last = chr(found[0]), chr(found[-1])
            label = first if first == last else f"{first}\N{EN DASH}{last}"
            transitions.append((number, numbers[target], label))
    transitions.sort()
    accepting = [str(numbers[state]) for state in ends]

    def draw(canvas: Canvas) -> None:
        shown = [str(number) for number in range(len(numbers))]
        arrows = [(str(start), str(end), label) for start, end, label in transitions]
        if canvas.width <= WIDEST:  # the states in the middle are all alike
            dots = " \N{HORIZONTAL ELLIPSIS}"
            merged = dict.fromkeys(shown[4:8], dots)
            shown = [*shown[:4], dots, *shown[8:]]
            arrows = [(merged.get(start, start), merged.get(end, end), label) for start, end, label in arrows]
            arrows = [each for each in arrows if each[0] != each[1] and each[:2] != (dots, accepting[0])]
        states(canvas, [shown], arrows, lit=accepting)

    about = "; ".join(f"{start} to {end}: {label}" for start, end, label in transitions)
    caption = (
        "The states of the name's DFA, and the bytes that lead from one to the next. From each of the states 3 to 9, "
        "a quote leads to state 10, which has a double border: it is accepting."
    )
    return at_both_widths(draw).figure("dfa-7-1", "A DFA for a name", about, caption)


def after(grammar: Any, names: dict[str, str], text: str) -> Shown:
    """Return a text's last part, the rules on each possible stack, the deepest first, and the bytes that may follow."""
    state = grammar.start
    for byte in text.encode():
        state = int(grammar.pushdown.row(state)[byte])
    found = set[Rules]()
    for stack in grammar.pushdown.sets[state]:
        rules = list[str]()
        while stack:
            rule, _, stack = stack
            rules.insert(0, names.get(rule, rule))
        found.add(tuple(rules))
    allowed = [chr(byte) for byte in np.flatnonzero(grammar.pushdown.row(state) >= 0)]
    digits = len(allowed) == 10
    words = f"{allowed[0]} to {allowed[-1]}" if digits else " or ".join(allowed)
    return text[text.rindex(',"') + 1 :], sorted(found, key=len, reverse=True), words


def stacks_figure(name: str, title: str, texts: Sequence[Shown], caption: str) -> str:
    """Draw the stacks after each text, as boxes on top of each other; those that are possible at once share a frame."""

    def draw(canvas: Canvas) -> None:
        deep = max(len(rules) for _, stacks, _ in texts for rules in stacks)
        box = max(width_of(rule, SMALL) for _, stacks, _ in texts for rules in stacks for rule in rules) + 12
        frames = [len(stacks) * (box + GAP) + GAP for _, stacks, _ in texts]
        per_row = len(texts) if canvas.width > WIDEST else 2
        for start in range(0, len(texts), per_row):
            row = texts[start : start + per_row]
            top = start / per_row * ((HIGH + GAP) * deep + 3 * FONT + 24)
            space = (canvas.width - sum(frames[start : start + per_row])) / len(row)
            x, floor = space / 2, top + (HIGH + GAP) * deep + GAP
            for i, (text, stacks, follows) in enumerate(row):
                frame = frames[start + i]
                for j, rules in enumerate(stacks):
                    for k, rule in enumerate(rules):
                        left, y = x + GAP + j * (box + GAP), floor - (k + 1) * (HIGH + GAP)
                        canvas.rect(left, y, box, HIGH, "ring" if k == len(rules) - 1 else "frame", 3)
                        canvas.text(left + box / 2, y + 15, rule, "small", "middle")
                if len(stacks) > 1:
                    high = (HIGH + GAP) * len(stacks[0]) + GAP
                    canvas.rect(x, floor - high, frame, high, "grid", 4)
                canvas.path([(x, floor), (x + frame, floor)], "line")
                canvas.text(x + frame / 2, floor + FONT + 6, text, "small mono", "middle")
                canvas.text(x + frame / 2, floor + 2 * FONT + 8, f"next: {follows}", "small", "middle")
                if i + 1 < len(row):
                    canvas.path([(x + frame + 8, floor - 12), (x + frame + space - 8, floor - 12)], "line", arrow=True)
                x += frame + space

    about = "; ".join(
        f"after {text}: {' or '.join(' · '.join(rules) for rules in found)}, next {follows}"
        for text, found, follows in texts
    )
    return at_both_widths(draw).figure(name, title, about, caption)
