"""The quiz of week 5, day 2."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "5.2.1",
    "Two documents, 1 2 3 and 4 5, are packed into rows of 4, with 0 as eos. What are the targets of the first row?",
    why="Each token's target is the next token. The eos has no target, because it does not predict the next document.",
    mistakes={
        "targets-not-shifted": "The model would only learn to copy its input.",
        "targets-of-the-next-document": "The token 4 follows the eos, but nothing in this document predicts it.",
        "eos-is-never-a-target": "The target of 3 is the eos, from which a model learns where a text ends.",
    },
)
def first_targets(pack: Any) -> str:
    return numbers(pack([[1, 2, 3], [4, 5]], 4, 0).targets[0].tolist())


@quiz.question(
    "5.2.4",
    "At each of three positions, four tokens have equal logits. One target counts; the other two are -100. What is "
    "the loss?",
    why="The target that counts has probability 1/4, so the mean over one target is -ln(1/4).",
    mistakes={
        "mean-over-all": "1.39 / 3 is 0.46, but two of the three positions do not count.",
        "sign-missing": "The logarithm of 1/4 is negative, but a loss is never below 0.",
    },
)
def one_counts(loss: Any) -> str:
    return numbers(loss(mx.zeros((3, 4)), mx.array([-100, 2, -100])))


@quiz.question(
    "5.2.5",
    "Three tokens have the probabilities 0.5, 0.25 and 0.25, and the second one is the target. What is the gradient of "
    "the loss with respect to their logits?",
    why="It is softmax minus one-hot. A step against it raises the target's logit and lowers the others.",
    mistakes={
        "one-hot-missing": "The target's entry should be 0.25 - 1, or -0.75.",
        "sign-reversed": "The target's entry must be negative, so that a step against the gradient raises its logit.",
    },
)
def three_logits(gradient: Any) -> str:
    return numbers(gradient(mx.log(mx.array([0.5, 0.25, 0.25])), mx.array(1)))


@quiz.measured(
    "In the first run of our table, all documents are equally long, and packing takes more tokens than padding. Why?",
    right="Padding has almost nothing to pad, and packing pads its last row.",
    why="64 documents of 65 tokens are 4,160 tokens, or 16.25 rows of 256, and packing fills the seventeenth row.",
    mistakes={
        "Packing adds an eos to each document.": "Both add it: that is the 65th token of each document.",
        "Packing repeats the beginning of a document that a row's end cuts.": "The document continues in the next row, "
        "and no token is repeated.",
        "Packing inserts a separator, so that no token sees another document.": "The mask hides the other documents. "
        "It takes no tokens.",
    },
)
def more_if_packed(record: Record, cause: str) -> str:
    padded, packed = (int(record["1"][f"{way}: tokens"]) for way in ("padded", "packed"))
    return cause if (padded, packed) == (4160, 17 * 256) else ""
