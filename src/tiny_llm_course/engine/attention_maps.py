"""Capture the attention weights of every layer while an engine reads a text."""

from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from ..course.registry import UsageError, load_course, with_commands
from ..paths import SOLUTION
from ..programs.packages import LearnerError, installed, program
from ..testkit.cases import shape_words, type_words
from ..testkit.rounding import EPSILON, close
from .engine import Engine
from .talk import CONTROLS

WITH_WEIGHTS, ATTENTION = "4.2.4", "1.3.2"  # the task that returns the weights, and the one whose calls it gets
MOST = 64  # tokens in a picture


class AttentionMaps(NamedTuple):
    """The attention weights of a whole text."""

    tokens: tuple[str, ...]  # as they are written, with the space before them
    weights: NDArray[np.float32]  # layers x H x L x L: a row is a query token
    logits: mx.array  # L x V

    @property
    def names(self) -> list[str]:
        """The tokens as labels."""
        return [visible(token) for token in self.tokens]


def visible(token: str) -> str:
    """Return a token as a label: without the space before a word, with symbols for control characters."""
    shown = token.translate(CONTROLS).translate({9: 0x2409, 10: 0x240A})
    return shown.removeprefix(" ") or "␣" * len(shown) or "∅"


def attention_maps(engine: Engine, text: str) -> AttentionMaps:
    """Run an engine over a text and return all attention weights; raise UsageError if the text is empty or too long.

    Task 4.2.4 gets each layer's queries, keys and values. Raise LearnerError if its output is not the engine's.
    """
    tokens = engine.encode(text)
    if not tokens:
        raise UsageError("The text is empty, but attention needs at least one token.")
    if len(tokens) > (most := min(MOST, engine.context_length)):
        raise UsageError(f"The text has {len(tokens)} tokens, and a picture holds at most {most}.")
    course, package = load_course(), engine.package_name
    target = course.task(ATTENTION).program
    found: list[mx.array] = []
    with engine.learners_code():
        own, asked = program(target, package), program(course.task(WITH_WEIGHTS).program, package)

        def watched(query: mx.array, key: mx.array, value: mx.array, *args: Any, **kwargs: Any) -> mx.array:
            output: mx.array = own(query, key, value, *args, **kwargs)
            found.append(_checked(asked(query, key, value, *args, **kwargs), query, output, len(found), engine))
            return output

        with installed(target, watched, package):
            logits = engine.logits(mx.array([tokens]))
        words = tuple(engine.tokenizer.decode([token]) for token in tokens)
    layers: int = engine.checkpoint.config["num_hidden_layers"]
    if len(found) != layers:
        what = f"{len(found)} of {layers} layers have called attention:scaled_dot_product_attention_grouped"
        raise LearnerError(f"{what}, so there are no weights of the others.")
    return AttentionMaps(words, np.array(mx.concatenate(found)), logits[0])


def _checked(answer: Any, query: mx.array, output: mx.array, layer: int, engine: Engine) -> mx.array:
    """Return the weights, 1 x H x L x L in float32, if they have that shape and belong to the engine's output."""
    wanted = (*query.shape[:-1], query.shape[-2])
    if not isinstance(answer, tuple) or len(answer) != 2:
        what = f"returned {type_words(answer)}, expected a tuple: output, weights"
    elif not all(type(each) is mx.array for each in answer) or answer[1].shape != wanted:
        shape = shape_words(answer[1].shape) if type(answer[1]) is mx.array else type_words(answer[1])
        what = f"returned weights that are {shape}, expected {shape_words(wanted)}"
    elif not close(answer[0], output, 16 * EPSILON[output.dtype]):
        what = f"returns another output in layer {layer} than task {ATTENTION}: these are not the engine's weights"
    else:
        weights: mx.array = answer[1].astype(mx.float32)
        mx.eval(weights)
        return weights
    more = () if engine.package == SOLUTION else ("What the tests say:", f"pdm run test {ATTENTION} {WITH_WEIGHTS}")
    raise LearnerError(with_commands(f"Task {WITH_WEIGHTS} {what}", *more))
