"""The quiz of week 5, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "5.6.2",
    "The policy's log-probabilities are -10 nats for the chosen answer and -21 for the rejected answer. The "
    "reference's are -13 and -20, and beta is 0.5. What is the DPO loss?",
    why="The rewards are 0.5 · 3 = 1.5 and 0.5 · -1 = -0.5, and -log(sigmoid(2)) is 0.13.",
    mistakes={
        "without-the-reference": "The margin is then 0.5 · 11 = 5.5, but the reference already finds the chosen "
        "answer more likely.",
        "beta-left-out-of-the-loss": "The log-ratios differ by 4, but the rewards by only 0.5 · 4 = 2.",
        "exchanged": "The margin is then -2 instead of 2.",
    },
)
def one_pair(program: Any) -> str:
    arrays = (mx.array([x]) for x in (-10.0, -21.0, -13.0, -20.0))
    return numbers([program(*arrays, 0.5).loss.item()], 3)


@quiz.question(
    "5.6.3",
    "Two prompts have two answers each, with rewards 1 and 0, and 5 and 3. What are the four advantages?",
    why="Each group has its own mean and standard deviation, so the scale of its rewards does not matter.",
    mistakes={
        "one-group": "Both answers to the first prompt would get a negative advantage, although one of them is better.",
        "not-scaled": "The first prompt's 0.5 and -0.5 must still be divided by the standard deviation, 0.71.",
        "of-the-population": "With G - 1 = 1 instead of G = 2, the deviation of the first group is 0.71, not 0.5.",
        "best-so-far": "Then no answer could have a positive advantage.",
    },
)
def two_groups(program: Any) -> str:
    return numbers(program(mx.array([[1.0, 0.0], [5.0, 3.0]])))


@quiz.question(
    "5.6.4",
    "A token of a bad answer (A = -1) is now twice as likely as when it was sampled. With clip = 0.2 and beta = 0, "
    "what is its loss?",
    why="min(2 * -1, 1.2 * -1) is -2, so the loss is 2, and its gradient makes the token less likely.",
    mistakes={
        "clipped-both-ways": "1.2 · -1 is larger than 2 · -1, and the objective takes the smaller value.",
        "ratio-inverted": "The ratio should be 2, but here it is 1/2, which is clipped to 0.8.",
    },
)
def a_wrong_move(program: Any) -> str:
    sampler = mx.array([[-3.0]])
    policy, mask = sampler + mx.log(mx.array(2.0)), mx.array([[True]])
    return numbers([program(policy, sampler, sampler, mx.array([-1.0]), mask, 0.2, 0.0).loss.item()])
