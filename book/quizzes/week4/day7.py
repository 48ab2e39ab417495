"""The quiz of week 4, day 7."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "4.7.1",
    "Two hands turn by 1 and by 0.1 a position: D = 4, base 100. A text may be four times as long. What are the "
    "paces by interpolation?",
    why="All positions are divided by 4, and a turn is position times pace: both paces are.",
    mistakes={
        "base-times-factor": "A larger base leaves the first hand alone. At 4 it should stand where it stood at 1.",
        "faster-instead-of-slower": "Position 4 is to look like position 1: the hands must turn more slowly.",
        "square-root": "By 2, a text of twice the length would fit.",
    },
)
def four_times(paces: Any) -> str:
    return " and ".join(numbers(pace, 3) for pace in paces(4, 100, 4))


@quiz.question(
    "4.7.2",
    "Dynamic NTK-aware scaling with a factor of 4, for a model trained on 100 tokens. The text has 90. By what is the "
    "slowest pace divided?",
    why="4 * 90 / 100 - 3 is 0.6, and s is never less than 1: what fits is read as in training.",
    mistakes={
        "less-than-1": "Divided by 0.6 the hand would turn faster than in training, for no reason.",
        "never-dynamic": "4 is the factor of a fixed scaling. Dynamic, it says how fast s grows.",
        "nothing-taken-off": "At 100 tokens s would be 4. It must be 1 there: 3 is taken off.",
    },
)
def ninety_tokens(paces: Any) -> str:
    plain, found = 10000 ** (-6 / 8), paces(8, 10000, 4, 90, 100)
    return numbers(mx.array(round(plain / found[-1].item(), 4)))


@quiz.question(
    "4.7.3",
    "The two hands of D = 4 and base 100 make 5.1 turns and 0.5 turns over 32 tokens. YaRN, a factor of 2, beta_fast 4 "
    "and beta_slow 1: what are the paces?",
    why="The first makes more than 4 turns and stays. The second makes less than one and is divided.",
    mistakes={
        "kept-and-divided-exchanged": "The fast hand has met every angle. Which of the two needs help?",
        "turns-without-2-pi": "32 radians are 5.1 turns. Taken for 32 turns, the second hand is divided by half.",
    },
)
def two_hands(yarn: Any) -> str:
    return " and ".join(numbers(pace, 3) for pace in yarn(4, 100, 2, 32, 4, 1)[0])


@quiz.measured(
    "Eight times the training length, in our own run. Which of these stays nearest to reading in pieces?",
    right="YaRN",
    why="Fast hands keep their steps, slow ones stay where they have been.",
    mistakes={
        "as trained": "21 of 32 hands leave what they have seen.",
        "interpolation": "All hands are where they have been, but their steps are an eighth of those in training.",
        "NTK-aware": "It keeps the first hand and rescues the last one. Those in the middle are divided by too little.",
    },
)
def nearest_to_pieces(record: Record, column: str) -> str:
    *_, last = record.values()
    nearest = min(("as trained", "interpolation", "NTK-aware", "YaRN"), key=lambda kind: float(last[kind]))
    return column if (column == nearest) == (column == "YaRN") else ""
