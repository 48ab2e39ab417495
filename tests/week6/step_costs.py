"""Steps for task 6.5.1: their chunks, their work and their recorded durations."""

import random

import numpy as np

# Chunks as (prompt tokens, output tokens, start, tokens), and the work of all of them together.
SCENES = {
    "a prompt": ([(5, 0, 0, 5)], (5, 0, 0)),
    "a chunk in the middle of a prompt": ([(90, 0, 32, 20)], (20, 0, 32)),
    "a chunk of one token in the middle of a prompt": ([(90, 0, 32, 1)], (1, 0, 32)),
    "a decoding request": ([(5, 3, 7, 1)], (0, 1, 7)),
    "the first token of the output": ([(5, 1, 5, 1)], (0, 1, 5)),
    "a prompt of one token": ([(1, 0, 0, 1)], (1, 0, 0)),
    "the last token of a prompt, whose rest was cached": ([(17, 0, 16, 1)], (1, 0, 16)),
    "the same after the step: the request has output": ([(17, 1, 16, 1)], (1, 0, 16)),
    "a preempted request: prompt and output again": ([(6, 4, 0, 10)], (10, 0, 0)),
    "the rest of a preempted request, in its output": ([(6, 5, 8, 3)], (3, 0, 8)),
    "two that decode, a prompt and a chunk": (
        [(4, 2, 5, 1), (9, 9, 17, 1), (30, 0, 0, 30), (64, 0, 16, 8)],
        (38, 2, 38),
    ),
    "no chunks": ([], (0, 0, 0)),
}


def chunks_of(rows, request, chunk):
    """Build chunks with the classes of `serving.request`."""
    found = []
    for prompt, output, start, tokens in rows:
        owner = request([1] * prompt, 64, output=[2] * output)
        found.append(chunk(owner, start, [1] * tokens, int(start + tokens >= prompt)))
    return found


def recorded(seed, count, coefficients, noise=0.0):
    """Return steps as (work, seconds): half of them decode, the others prefill as well."""
    draw, found = random.Random(seed), []
    for number in range(count):
        decoding = draw.randint(0, 9)
        prefilled = draw.randint(1, 70) if number % 2 or not decoding else 0
        work = prefilled, decoding, decoding * draw.randint(4, 900) + draw.randint(0, 300)
        seconds = float(np.dot(coefficients, (1, *work)))
        found.append((work, seconds * (1 + noise * draw.uniform(-1, 1))))
    return found


def slopes(steps, coefficients):
    """Return how the squared relative error changes with each coefficient, each relative to its column's size.

    At the minimum over coefficients of at least 0, each slope is 0, or positive where the coefficient is 0.
    """
    seconds = np.array([seconds for _, seconds in steps])
    terms = np.array([(1, *work) for work, _ in steps]) / seconds[:, None]
    sizes = np.maximum(np.linalg.norm(terms, axis=0), 1e-300)
    return (terms.T @ (terms @ np.array(coefficients) - 1)) / sizes / np.sqrt(len(steps))


MODELS = {  # base, prefilled, decoding, cached
    "a small model on a CPU": (4e-3, 4e-4, 5e-4, 2e-6),
    "a large model on a GPU": (2e-2, 3e-5, 1e-4, 8e-8),
    "steps of seconds": (3.0, 0.25, 0.5, 1e-3),
    "arithmetic alone": (0.0, 1e-3, 1e-3, 0.0),
}
# A decoding step of 1 ms per request less than the rest suggests: without a bound, a coefficient is negative.
BENT = [((0, 1, 40), 0.010), ((0, 4, 160), 0.009), ((16, 0, 0), 0.020), ((64, 2, 90), 0.050), ((64, 8, 700), 0.046)]
UNEVEN = [((0, 1, 10), 0.001), ((0, 2, 30), 0.0016), ((64, 0, 0), 0.1), ((64, 4, 500), 0.14), ((32, 3, 100), 0.06)]
# Of the four unbounded coefficients, the most negative one is that of a term of the best model.
MISLEADING = [((44, 1, 56), 0.042), ((36, 7, 152), 0.028), ((44, 4, 40), 0.031), ((12, 0, 288), 0.029)]
EMPTY_CACHE = [((8, 0, 0), 0.005), ((16, 0, 0), 0.008), ((40, 0, 0), 0.018)]  # no step decodes: two columns are 0
