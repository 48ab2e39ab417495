"""Speculative decoding in float64: the acceptance rule, the n-gram lookup, and the effect of filters."""

import numpy as np

from tiny_llm_course.testkit.rounding import Array64


def pick64(row: Array64, draw: float) -> int:
    """Return the first token at which the running sum exceeds u, or the last possible one if the sum stays below."""
    above = np.flatnonzero(np.cumsum(row) > draw)
    return int(above[0] if len(above) else np.flatnonzero(row)[-1])


def next_row64(target: Array64, draft: Array64, drafted: list[int], draws: list[float]) -> tuple[int, Array64]:
    """Return the number of accepted tokens, and the distribution of the next one."""
    for i, token in enumerate(drafted):
        if not draws[i] < target[i, token] / draft[i, token]:
            rest = np.clip(target[i] - draft[i], 0, None)
            return i, rest / rest.sum() if rest.sum() else target[i]
    return len(drafted), target[-1]


def accept64(target: Array64, draft: Array64, drafted: list[int], draws: list[float]) -> tuple[int, int]:
    """Return the number of accepted tokens, and the next one."""
    accepted, row = next_row64(target, draft, drafted, draws)
    return accepted, pick64(row, draws[-1])


def is_near(target: Array64, draft: Array64, drafted: list[int], draws: list[float], margin: float = 3e-5) -> bool:
    """Return whether rounding could decide otherwise."""
    ratios = [target[i, token] / draft[i, token] for i, token in enumerate(drafted)]
    _, row = next_row64(target, draft, drafted, draws)
    edges = np.cumsum(row)[:-1]
    near = [abs(draw - ratio) < margin for draw, ratio in zip(draws, ratios, strict=False)]
    return any(near) or bool((np.abs(edges - draws[-1]) < margin).any())


def lookup64(tokens: list[int], count: int, longest: int = 3, shortest: int = 1) -> list[int]:
    """Return the match whose longest suffix n-gram agrees with the end of the sequence; of equals, the latest."""
    best, place = 0, 0
    for end in range(1, len(tokens)):  # the tokens before `end`, compared with the end of the sequence
        same = 0
        while same < min(longest, end) and tokens[end - 1 - same] == tokens[-1 - same]:
            same += 1
        if same >= max(best, shortest):
            best, place = same, end
    return tokens[place : place + count] if best else []


def probabilities64(
    logits: Array64,
    seen: list[int],
    *,
    temp: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
) -> Array64:
    """Return one token's distribution, V numbers: penalty, temperature, top-k, top-p, min-p, as on week 1's day 7."""
    x = np.array(logits, np.float64)
    for token in set(seen):
        x[token] = x[token] / repetition_penalty if x[token] > 0 else x[token] * repetition_penalty
    if not temp:
        certain: Array64 = np.eye(len(x))[int(np.argmax(x))]
        return certain
    x = x / temp
    if top_k:
        x[x < np.sort(x)[::-1][min(top_k, len(x)) - 1]] = -np.inf
    if top_p < 1:
        order = np.argsort(-x, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(_softmax(x)[order])[:-1]])
        x[order[(before >= top_p) & (np.arange(len(x)) > 0)]] = -np.inf
    likely = _softmax(x)
    x[likely < min_p * likely.max()] = -np.inf
    return _softmax(x)


def _softmax(x: Array64) -> Array64:
    e: Array64 = np.exp(x - x.max())
    return np.asarray(e / e.sum(), np.float64)
