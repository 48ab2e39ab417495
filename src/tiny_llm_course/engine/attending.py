"""What the heads of an engine look at: the weights of every layer's attention, while it reads a text."""

import dataclasses
from typing import Any

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

WITH_WEIGHTS, ATTENTION = "4.2.4", "1.3.2"  # the task that gives the weights, and the one in whose place it is asked
MOST = 64  # tokens that a picture can hold


@dataclasses.dataclass(frozen=True)
class Looks:
    """The weights of a whole text."""

    tokens: tuple[str, ...]  # as they are written, with the space before them
    weights: NDArray[np.float32]  # layers x H x L x L: a row is a token that looks
    logits: mx.array  # L x V, of the engine as it is

    @property
    def names(self) -> list[str]:
        """The tokens as labels."""
        return [visible(token) for token in self.tokens]


def visible(token: str) -> str:
    """A token as a label: without the space before a word, and with signs for what moves the cursor."""
    shown = token.translate(CONTROLS).translate({9: 0x2409, 10: 0x240A})
    return shown.removeprefix(" ") or "␣" * len(shown) or "∅"


def look(engine: Engine, text: str) -> Looks:
    """Let an engine read a text, and keep the weights of all heads.

    In each layer its own attention goes on, and task 4.2.4's is given the same queries, keys and values. What that
    gives as its output must be what the engine's own gives: otherwise its weights are not those of the engine.

    Raises:
        UsageError: the text is empty or has more tokens than a picture can hold.
        LearnerError: the learner's code is not finished, or gives weights that are not the engine's.
    """
    tokens = engine.encode(text)
    if not tokens:
        raise UsageError("The text is empty, but heads need at least one token to look at.")
    if len(tokens) > (most := min(MOST, engine.context_length)):
        raise UsageError(f"The text has {len(tokens)} tokens, and a picture has room for {most}.")
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
        raise LearnerError(
            f"{len(found)} of {layers} layers have called attention:scaled_dot_product_attention_grouped, "
            "so that there are no weights of the others."
        )
    return Looks(words, np.array(mx.concatenate(found)), logits[0])


def _checked(answer: Any, query: mx.array, output: mx.array, layer: int, engine: Engine) -> mx.array:
    """The weights, 1 x H x L x L in float32, if they are numbers of that shape and belong to the engine's output."""
    wanted = (*query.shape[:-1], query.shape[-2])
    what = ""
    if not isinstance(answer, tuple) or len(answer) != 2:
        what = f"gave {type_words(answer)}, expected a tuple: output, weights"
    elif not all(type(each) is mx.array for each in answer) or answer[1].shape != wanted:
        shape = shape_words(answer[1].shape) if type(answer[1]) is mx.array else type_words(answer[1])
        what = f"gave weights that are {shape}, expected {shape_words(wanted)}"
    elif not close(answer[0], output, 16 * EPSILON[output.dtype]):
        what = f"gives another output in layer {layer} than task {ATTENTION}: these are not the engine's weights"
    if what:
        more = () if engine.package == SOLUTION else ("What the tests say:", f"pdm run test {ATTENTION} {WITH_WEIGHTS}")
        raise LearnerError(with_commands(f"Task {WITH_WEIGHTS} {what}", *more))
    weights: mx.array = answer[1].astype(mx.float32)
    mx.eval(weights)
    return weights
