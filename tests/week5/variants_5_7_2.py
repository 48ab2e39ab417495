"""Known programs of task 5.7.2, pass@k."""

import math

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.7.2")


def results(program, *cases):
    return mx.array([program(*case) for case in cases])


known.probe_table(
    some=lambda program: results(program, (5, 2, 2), (6, 1, 3), (7, 3, 2)),
    one_try=lambda program: results(program, (5, 2, 1), (8, 1, 1)),
    none_correct=lambda program: results(program, (5, 0, 2)),
    few_wrong=lambda program: results(program, (5, 4, 2), (7, 4, 4)),
    all_tries=lambda program: results(program, (5, 1, 5), (6, 2, 6)),
    many=lambda program: results(program, (10_000, 7, 5000), (2000, 30, 1000)),
    too_few=lambda program: refusals(lambda k: results(program, (5, 2, k)), [6, 100]),
    refused=lambda program: refusals(lambda case: results(program, case), [(5, 2, 0), (5, -1, 2), (5, 6, 2)]),
)
known.together("probability-of-failure", "correct-and-wrong-exchanged", makes="all-correct")
known.not_timed("a quotient of two integers")

RETURN = "return (math.comb(samples, k) - without) / math.comb(samples, k)"
K = "if not 1 <= k <= samples:"
known.change(
    "with-replacement",
    (RETURN, "return 1 - (1 - correct / samples) ** k"),
    fact="the share of correct samples is taken for the probability, as if k samples were drawn with replacement",
    question="One of two samples is correct, and both are tried. Can they both be wrong?",
)
known.change(
    "probability-of-failure",
    (RETURN, "return without / math.comb(samples, k)"),
    fact="the result is the probability that all k samples are wrong",
    question="What should the result be if all samples are correct?",
)
known.change(
    "all-correct",
    (RETURN, "return math.comb(correct, k) / math.comb(samples, k)"),
    fact="the result is the probability that all k samples are correct",
    question="One of three tried samples is correct. Has the problem been solved?",
)
known.change(
    "proportional",
    (RETURN, "return min(1.0, k * correct / samples)"),
    fact="the probability grows in proportion to k, up to 1",
    question="Two tries may both be correct. How often do you count such a pair?",
)
known.change(
    "first-try",
    (RETURN, "return correct / samples"),
    fact="the result is pass@1, whatever k is",
    question="Where does your code use k?",
)
known.change(
    "any-sample",
    (RETURN, "return float(correct > 0)"),
    fact="the result is whether any of all samples is correct",
    question="Of 200 samples one is correct. Would you find it in 10 tries?",
)
known.change(
    "k-lowered",
    (
        K,
        "k = min(k, samples)\nif k < 1:",
    ),
    fact="k is lowered to the number of samples if that is smaller",
    question="With three samples per problem, what does your pass@100 measure?",
)
known.change(
    "certain-is-zero",
    (RETURN, "return 0.0 if samples - correct < k else (math.comb(samples, k) - without) / math.comb(samples, k)"),
    fact="the result is 0 if fewer than k samples are wrong",
    question="One of five samples is wrong, and two are tried. Can both be wrong?",
)
known.change(
    "float-binomials",
    (RETURN, "return 1 - float(without) / float(math.comb(samples, k))"),
    fact="the binomial coefficients are converted to floats",
    question="What is the largest float, and how many digits has C(2000, 1000)?",
)
known.change(
    "correct-and-wrong-exchanged",
    ("math.comb(samples - correct, k)", "math.comb(correct, k)"),
    fact="the number of correct samples is taken for the number of wrong ones",
    question="How many of the n samples are wrong, if c are correct?",
)


@known.accepted("a product of k or of c factors")
def product(samples, correct, k):
    if k < 1 or k > samples:
        raise ValueError(f"k is {k}, but there are {samples} samples")
    if correct < 0 or correct > samples:
        raise ValueError(f"{correct} of {samples} samples are correct")
    if samples - correct < k:
        return 1.0
    return 1.0 - math.prod(1 - k / i for i in range(samples - correct + 1, samples + 1))


@known.accepted("by ordered tries")
def ordered(samples, correct, k):
    if not 1 <= k <= samples or not 0 <= correct <= samples:
        raise ValueError(f"k is {k}, and {correct} of {samples} samples are correct")
    failed = 1.0
    for tried in range(k):
        failed *= max(0, samples - correct - tried) / (samples - tried)
    return 1.0 - failed
