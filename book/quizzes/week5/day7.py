"""The quiz of week 5, day 7."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "5.7.1",
    "Every token is one character. After any text, the model gives *a* the probability 1/2 and *b* and *é* 1/4 each. "
    "What is the total of the choice *ab*, in nats?",
    why="log(1/2) + log(1/4) is the log of 1/8.",
    mistakes={
        "mean-as-total": "The log of a product is the sum of the logs.",
        "first-token-left-out": "The last position of the prompt predicts *a*.",
        "integers": "All totals between -3 and -2 become the same integer.",
    },
)
def two_tokens(program: Any) -> str:
    letters = "abé"
    row = mx.log(mx.array([0.5, 0.25, 0.25]))
    found = program(
        lambda tokens: mx.broadcast_to(row, (1, tokens.shape[1], 3)),
        lambda text: [letters.index(letter) for letter in text],
        "bb",
        ["ab", "aa"],
    )
    return numbers(found.total[:1].astype(mx.float32))


@quiz.question(
    "5.7.2",
    "One of four samples is correct. What is pass@2?",
    why="Six pairs can be chosen, and three of them contain the correct sample.",
    mistakes={
        "with-replacement": "The two samples differ, so the same wrong sample cannot be tried twice.",
        "first-try": "With a second try, three of six pairs contain the correct sample, not one of four.",
        "any-sample": "Only three of the six pairs contain the correct sample.",
        "all-correct": "One correct sample of the two is enough.",
    },
)
def one_of_four(program: Any) -> str:
    return numbers([program(4, 1, 2)], 4)


@quiz.question(
    "5.7.4",
    "Two models answer 1,006 items. Only the first is right on 5 of them, and only the second on 1. On all others, "
    "they score the same. What is the p-value of the sign test?",
    why="Only six items differ. Of the 64 outcomes, 7 have at most one win for the second model. Twice 7/64 is 0.22.",
    mistakes={
        "ties-counted": "The 1,000 equal items are no evidence for either model.",
        "one-sided": "The second model could have won by the same margin, so that outcome counts too.",
        "without-the-observed": "The sum must include one win as well as none.",
    },
)
def five_to_one(program: Any) -> str:
    first, second = [1.0] * 5 + [0.0] + [1.0] * 1000, [0.0] * 5 + [1.0] + [1.0] * 1000
    return numbers([program(first, second, 0.95, 2, 0).p_value], 3)


@quiz.measured(
    "In our run, the unpaired interval is about 1.8 times as wide as the paired one, for 40 items as for 2,560. Why "
    "does this ratio not change?",
    right="Both widths are proportional to 1 / sqrt(number of items).",
    why="Pairing reduces the variance per item by a constant factor, and the mean of n items divides both variances by "
    "n.",
    mistakes={
        "Both models' accuracies are fixed.": "The accuracies set the difference, not how wide an interval is.",
        "Both intervals have the level 95 %.": "The level widens both alike, but says nothing about how they shrink.",
        "Pairing doubles the number of items.": "Two times the items would give a ratio of 1.4. Pairing adds no items.",
    },
)
def constant_ratio(record: Record, cause: str) -> str:
    return cause if all(1.75 < float(cells["ratio"]) < 1.85 for cells in record.values()) else ""
