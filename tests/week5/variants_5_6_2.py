"""Known programs of task 5.6.2, the DPO loss."""

import mlx.core as mx
from tests.week5.preferred import pairs
from tiny_llm_solution.preferences.dpo import PreferenceLoss

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.6.2")


def run(program, seed, beta=0.1, dtype=mx.float32, count=5):
    return tuple(program(*pairs(seed, dtype, count), beta))


def moved(program, shift):
    chosen, *others = pairs(4)
    return tuple(program(chosen + shift, *others, 1.0))


def size_of_the_loss(program, shift):
    """Return whether the loss is finite, and whether it is large: where it has a bound, each program has its own."""
    loss = moved(program, shift)[0]
    return mx.isfinite(loss), loss > 500


def slopes(program, shift):
    chosen, *others = pairs(5)
    return tuple(mx.grad(lambda *x: program(*x, 0.3).loss, (0, 1, 2, 3))(chosen + shift, *others))


known.probe_table(
    several=lambda program: run(program, 1),
    one=lambda program: run(program, 2, count=1),
    other_beta=lambda program: run(program, 3, 0.3),
    untrained=lambda program: tuple(program(*pairs(6)[:2], *pairs(6)[:2], 0.1)),
    above=lambda program: moved(program, 1000.0),
    below=lambda program: moved(program, -1000.0)[1:],
    loss_below=lambda program: size_of_the_loss(program, -1000.0),
    gradient=lambda program: slopes(program, 0.0),
    gradient_below=lambda program: slopes(program, -1000.0),
    gradient_above=lambda program: slopes(program, 1000.0),
    gradient_untrained=lambda program: tuple(
        mx.grad(lambda *x: program(*x, 0.3).loss, (0, 1, 2, 3))(*pairs(8)[:2], *pairs(8)[:2])
    ),
    refused=lambda program: refusals(
        lambda given: program(*map(mx.zeros, given[0]), given[1]),
        [(((3,), (4,), (3,), (3,)), 0.1), (((3,), (3,), (3,), (1,)), 0.1), (((3, 4),) * 4, 0.1), (((3,),) * 4, 0.0)],
    ),
    refused_if_broadcast=lambda program: refusals(
        lambda shapes: program(*map(mx.zeros, shapes)), [((3,), (3,), (1,), (1,)), ((3,), (1,), (3,), (1,))]
    ),
    half=lambda program: run(program, 7, dtype=mx.float16, count=64),
)


@known.sized("64 x 1,024 pairs, float32")
def sized(program):
    arrays = pairs(1, count=65536)
    return lambda: list(program(*arrays))


MARGIN = "margin = chosen_rewards - rejected_rewards"
LOSSES = "losses = mx.logaddexp(0.0, -margin)"
known.change(
    "without-the-reference",
    (MARGIN, "margin = beta * (wide[0] - wide[1])"),
    fact="the loss compares the policy's log-probabilities without the reference's",
    question="A short answer is more likely than a long one, whatever the model prefers. What removes this?",
)
known.change(
    "beta-left-out-of-the-loss",
    (MARGIN, "margin = (chosen_rewards - rejected_rewards) / beta"),
    fact="the loss is that of beta = 1: only the rewards are multiplied by beta",
    question="What is the loss of a pair whose rewards differ by 0.2?",
)
known.change(
    "exchanged",
    (MARGIN, "margin = rejected_rewards - chosen_rewards"),
    fact="the rejected answer is treated as the chosen one",
    question="Which of the two should become more likely as the loss falls?",
)
known.change(
    "overflow",
    (LOSSES, "losses = -mx.log(mx.sigmoid(margin))"),
    fact="the loss is infinite for a pair that is wrong by far: log of a sigmoid that is 0, or exp of a large number",
    question="What is sigmoid(-1000) in float32? And exp(1000)?",
)
known.change(
    "summed",
    ("mx.mean(losses)", "mx.sum(losses)"),
    fact="the losses of the pairs are summed, not averaged",
    question="What happens to the size of a step if the batch has twice as many pairs?",
)
known.change(
    "overflow-in-the-other-branch",
    (LOSSES, "losses = mx.where(margin < 0, mx.log1p(mx.exp(margin)) - margin, mx.log1p(mx.exp(-margin)))"),
    fact="the branch of mx.where that is not taken overflows, and its gradient of 0 times infinity is NaN",
    question="mx.where passes a gradient to both of its branches. What does the other one make of a gradient of 0?",
)
known.change(
    "overflow-beyond-a-threshold",
    (LOSSES, "losses = mx.where(margin < -20, -margin, mx.log1p(mx.exp(-margin)))"),
    fact="mx.where replaces the infinite loss of a pair that is wrong by far, but its gradient is still NaN",
    question="The branch that mx.where does not take gets a gradient of 0. What is 0 times exp(1000)?",
)
known.change(
    "bounded-loss",
    (LOSSES, "losses = -mx.log(mx.maximum(mx.sigmoid(margin), 1e-12))"),
    fact="the sigmoid is kept above a small number, so a pair that is wrong by far has a bounded loss and no gradient",
    question="Two pairs are wrong, by 100 and by 1,000. Which of them should have the larger loss?",
)
known.change(
    "flat-at-ties",
    (LOSSES, "losses = mx.maximum(-margin, 0.0) + mx.log1p(mx.exp(-mx.abs(margin)))"),
    fact="the gradient of a pair with equal rewards is 0, as mx.maximum and mx.abs have no slope at 0",
    question="Before the first step, all margins are 0. Which direction does the first step take?",
)
known.change(
    "rewards-without-gradient",
    (MARGIN, "margin = mx.stop_gradient(chosen_rewards - rejected_rewards)"),
    fact="the loss depends on the log-probabilities only through mx.stop_gradient, so its gradients are 0",
    question="Which numbers are only logged, and which ones must lead the gradient to the policy?",
)
known.change(
    "rewards-in-half-precision",
    ("beta * (wide[0] - wide[2])", "(beta * (chosen - reference_chosen)).astype(mx.float32)"),
    ("beta * (wide[1] - wide[3])", "(beta * (rejected - reference_rejected)).astype(mx.float32)"),
    fact="the rewards are computed in the dtype of the log-probabilities, and only the result is converted to float32",
    question="Which digits of beta times a difference does bfloat16 keep?",
)
known.change(
    "ties-are-right",
    ("(margin > 0)", "(margin >= 0)"),
    fact="a pair with equal rewards counts as right",
    question="What should the accuracy be before the first step, when all rewards are 0?",
)
known.change(
    "accuracy-of-the-policy",
    ("(margin > 0)", "(wide[0] > wide[1])"),
    fact="the accuracy compares the policy's log-probabilities instead of the rewards",
    question="Both models find the chosen answer less likely, the policy only a little. Is the pair right?",
)
known.change(
    "rewards-without-beta",
    (
        "PreferenceLoss(mx.mean(losses), chosen_rewards, rejected_rewards,",
        "PreferenceLoss(mx.mean(losses), chosen_rewards / beta, rejected_rewards / beta,",
    ),
    fact="the rewards are returned without the factor beta",
    question="By which number is the difference of two log-probabilities multiplied to be a reward?",
)
known.change(
    "shapes-not-checked",
    ("if chosen.ndim != 1 or not chosen.size or any(shape != chosen.shape for shape in shapes):", "if False:"),
    fact="log-probabilities that are not one number per answer are not refused",
    question="What happens if the caller has not summed over the tokens?",
)
known.change(
    "references-not-compared",
    ("any(shape != chosen.shape for shape in shapes)", "shapes[1] != shapes[0] or shapes[3] != shapes[2]"),
    fact="the references' shape is not compared with that of the policy's log-probabilities",
    question="Three pairs come with references of shape (1,). What does the subtraction do?",
)
known.change(
    "answers-not-compared",
    ("any(shape != chosen.shape for shape in shapes)", "shapes[2] != shapes[0] or shapes[3] != shapes[1]"),
    fact="chosen and rejected answers are each compared with their own reference, but not with each other",
    question="There are three chosen answers and one rejected. How many pairs are that?",
)


@known.accepted("the stable formula by hand, pair by pair")
def by_hand(chosen, rejected, reference_chosen, reference_rejected, beta=0.1):
    arrays = chosen, rejected, reference_chosen, reference_rejected
    if any(x.ndim != 1 or x.shape != chosen.shape or not x.size for x in arrays) or beta <= 0:
        raise ValueError(f"shapes {[x.shape for x in arrays]}, beta {beta}")
    c, j, rc, rj = (x.astype(mx.float32) for x in arrays)
    rewards = (c - rc) * beta, (j - rj) * beta
    margin = rewards[0] - rewards[1]
    losses = mx.where(margin < 0, -margin, 0.0) + mx.log1p(mx.exp(-mx.where(margin < 0, -margin, margin)))
    return PreferenceLoss(mx.sum(losses) / len(losses), *rewards, mx.sum(margin > 0) / len(losses))


known.accepted_change(
    "as a logsumexp",
    (LOSSES, "losses = mx.logsumexp(mx.stack([mx.zeros_like(margin), -margin]), axis=0)"),
)
