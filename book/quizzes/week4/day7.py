"""The quiz of week 4, day 7."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "4.7.1",
    "Two pairs rotate by 1 and by 0.1 per position: D = 4, base 100. A sequence may be four times as long. What are "
    "the frequencies with interpolation?",
    why="All positions are divided by 4, and an angle is position times frequency: so both frequencies are divided.",
    mistakes={
        "base-times-factor": "A larger base leaves the first pair unchanged. At position 4 it should have the angle "
        "it had at 1.",
        "faster-instead-of-slower": "Position 4 should look like position 1: the frequencies must fall.",
        "square-root": "Divided by 2, a sequence of twice the length would fit.",
    },
)
def four_times(paces: Any) -> str:
    return " and ".join(numbers(pace, 3) for pace in paces(4, 100, 4))


@quiz.question(
    "4.7.2",
    "Dynamic NTK-aware scaling with a factor of 4, for a model trained on 100 tokens. The sequence has 90. By what "
    "is the lowest frequency divided?",
    why="4 * 90 / 100 - 3 is 0.6, and s is never less than 1: a sequence that fits is processed as in training.",
    mistakes={
        "less-than-1": "Divided by 0.6 the pair would rotate faster than in training, for no reason.",
        "never-dynamic": "4 is the factor of a fixed scaling. In dynamic scaling it says how fast s grows.",
        "nothing-taken-off": "At 100 tokens s would be 4. It must be 1 there, so 3 is subtracted.",
    },
)
def ninety_tokens(paces: Any) -> str:
    plain, found = 10000 ** (-6 / 8), paces(8, 10000, 4, 90, 100)
    return numbers(mx.array(round(plain / found[-1].item(), 4)))


@quiz.question(
    "4.7.3",
    "The two pairs of D = 4 and base 100 make 5.1 turns and 0.5 turns over 32 tokens. YaRN with a factor of 2, "
    "beta_fast 4 and beta_slow 1: what are the frequencies?",
    why="The first makes more than 4 turns and is kept. The second makes less than one and is divided.",
    mistakes={
        "kept-and-divided-exchanged": "The fast pair has seen every angle. Which of the two needs help?",
        "turns-without-2-pi": "32 radians are 5.1 turns. Taken for 32 turns, the second pair is divided by half.",
    },
)
def two_hands(yarn: Any) -> str:
    return " and ".join(numbers(pace, 3) for pace in yarn(4, 100, 2, 32, 4, 1)[0])


@quiz.measured(
    "Eight times the training length, in our own run. Which of these stays nearest to processing in pieces?",
    right="YaRN",
    why="Fast pairs keep their frequency, slow ones stay within the angles they have seen.",
    mistakes={
        "unscaled": "21 of 32 pairs leave the angles they have seen.",
        "interpolation": "All angles have been seen, but the steps between neighbours are an eighth of those in "
        "training.",
        "NTK-aware": "It keeps the first pair and fixes the last one. Those in the middle are slowed too little.",
    },
)
def nearest_to_pieces(record: Record, column: str) -> str:
    *_, last = record.values()
    nearest = min(("unscaled", "interpolation", "NTK-aware", "YaRN"), key=lambda kind: float(last[kind]))
    return column if (column == nearest) == (column == "YaRN") else ""
