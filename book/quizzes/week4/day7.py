"""The quiz of week 4, day 7."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "4.7.1",
    "With D = 4 and base 100, two pairs rotate by 1 and by 0.1 per position. What are the frequencies with "
    "interpolation to four times the length?",
    why="All positions are divided by 4. An angle is position times frequency, so both frequencies are divided by 4.",
    mistakes={
        "base-times-factor": "A larger base leaves the first pair unchanged. At position 4, this pair should have the "
        "angle it had at position 1.",
        "faster-instead-of-slower": "Position 4 should look like position 1, so the frequencies must decrease.",
        "square-root": "Dividing the frequencies by 2 is enough only for twice the length.",
    },
)
def four_times(paces: Any) -> str:
    return " and ".join(numbers(pace, 3) for pace in paces(4, 100, 4))


@quiz.question(
    "4.7.2",
    "A model trained on 100 tokens uses dynamic NTK-aware scaling with a factor of 4. The sequence has 90 tokens. By "
    "what is the lowest frequency divided?",
    why="4 · 90 / 100 - 3 is 0.6, but s is clamped to 1, so a sequence that fits is rotated as in training.",
    mistakes={
        "less-than-1": "Divided by 0.6, the frequency would be higher than in training.",
        "never-dynamic": "With fixed scaling, s would be 4. With dynamic scaling, the factor sets how fast s grows.",
        "nothing-taken-off": "Without subtracting 3, s would be 4 at 100 tokens, but it must be 1.",
    },
)
def ninety_tokens(paces: Any) -> str:
    plain, found = 10000 ** (-6 / 8), paces(8, 10000, 4, 90, 100)
    return numbers(mx.array(round(plain / found[-1].item(), 4)))


@quiz.question(
    "4.7.3",
    "With D = 4 and base 100, the two pairs make 5.1 and 0.5 turns over 32 tokens. What are the frequencies with YaRN, "
    "a factor of 2, beta_fast 4 and beta_slow 1?",
    why="The first pair makes more than 4 turns, so its frequency is kept. The second pair makes less than one turn, "
    "so its frequency is divided by 2.",
    mistakes={
        "kept-and-divided-exchanged": "The fast pair has seen every angle in training, so it needs no scaling. The "
        "slow pair does.",
        "turns-without-2-pi": "32 radians are 5.1 turns, not 32. With 32, the frequency of the second pair is only "
        "partly divided.",
    },
)
def two_hands(yarn: Any) -> str:
    return " and ".join(numbers(pace, 3) for pace in yarn(4, 100, 2, 32, 4, 1)[0])


@quiz.measured(
    "In our run, interpolation is worse than no scaling at eight times the training length. Why?",
    right="The steps between neighboring positions are an eighth of those in training.",
    why="All angles are within the known range, but pairs that tell neighbors apart now rotate too little between "
    "them.",
    mistakes={
        "Its angles leave the range seen in training.": "That happens without scaling, to 21 of 32 pairs. Positions "
        "divided by 8 stay within the range.",
        "It slows only the fastest pairs.": "It slows all pairs by the same factor.",
        "It lets a token attend to only 512 others.": "It changes angles and hides no keys. The baseline processes "
        "pieces of 512 tokens.",
    },
)
def worse_than_unscaled(record: Record, cause: str) -> str:
    *_, last = record.values()
    return cause if float(last["interpolation"]) > float(last["unscaled"]) else ""
