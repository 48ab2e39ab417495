"""Known programs of task 4.7.3, YaRN."""

import math

import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("4.7.3")


def both(found):
    """Return frequencies and factor as arrays."""
    paces, factor = found
    return paces, mx.array(float(factor))


known.probe_table(
    as_published=lambda program: both(program(64, 10000, 8, 3000)),
    other_betas=lambda program: both(program(32, 300, 2.5, 900, 8, 0.5)),
    not_truncated=lambda program: both(program(64, 10000, 8, 3000, truncate=False)),
    low_below_0=lambda program: both(program(16, 300, 4, 20)),
    low_below_0_not_truncated=lambda program: both(program(16, 300, 4, 20, truncate=False)),
    both_below_0=lambda program: both(program(16, 300, 4, 3)),
    behind_the_last_pair=lambda program: both(program(16, 300, 4, 2000000)),
    wide=lambda program: both(program(16, 300, 4, 900, 1000, 0.001)),
    empty_range=lambda program: both(program(16, 300, 4, 2000000, 10, 9, truncate=False)),
    factor_1=lambda program: both(program(64, 10000, 1, 3000)),
)

known.not_timed("D/2 numbers, computed once")

MIXED = "kept * (1 - share) + divided * share"
SHARE = "(mx.arange(dims // 2, dtype=mx.float32) - low) / max(high - low, 0.001)"
LIMITS = "low, high = max(low, 0), min(high, dims - 1)"
ROUNDED = "low, high = math.floor(low), math.ceil(high)"
PAIR = "dims * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base))"
FACTOR = "0.1 * math.log(factor) + 1"

known.change(
    "kept-and-divided-exchanged",
    (MIXED, "kept * share + divided * (1 - share)"),
    fact="the fast pairs are divided, and the slow ones kept",
    question="Which pairs made many turns in training, so that no angle is new to the model?",
)
known.change(
    "betas-exchanged",
    ("for turns in (beta_fast, beta_slow)", "for turns in (beta_slow, beta_fast)"),
    fact="beta_fast and beta_slow are swapped",
    question="Which pair makes 32 turns: one before or one after the pair that makes one turn?",
)
known.change(
    "turns-without-2-pi",
    (PAIR, "dims * math.log(original_length / turns) / (2 * math.log(base))"),
    fact="a turn is one radian instead of 2 pi",
    question="A pair has rotated by 10 radians. How many turns is that?",
)
known.change(
    "two-pi-turns-not-in-parentheses",
    (PAIR, "dims * math.log(original_length / 2 * math.pi * turns) / (2 * math.log(base))"),
    fact="the length is divided by 2, and then multiplied by pi and the turns: 2 pi r has no parentheses",
    question="What is 8 / 2 * 4 in Python?",
)
known.change(
    "counted-in-features",
    (PAIR, "dims * math.log(original_length / (2 * math.pi * turns)) / math.log(base)"),
    fact="the limits are in features instead of pairs, twice as large",
    question="In base ** (-2i/D), does i count pairs or features?",
)
known.change(
    "not-clamped",
    ("mx.clip(share, 0.0, 1.0)", "share"),
    fact="the ramp is not clamped to 0 and 1",
    question="A pair lies far before low. What is its share, and what its frequency?",
)
known.change(
    "never-rounded",
    (ROUNDED, "pass"),
    fact="low and high are not rounded to whole pairs, although truncate is True",
    question="What does truncate say about low, and what about high?",
)
known.change(
    "always-rounded",
    ("if truncate:", "if True:"),
    fact="low and high are rounded even if truncate is False",
    question="Where does your code use `truncate`?",
)
known.change(
    "rounded-inwards",
    (ROUNDED, "low, high = math.ceil(low), math.floor(high)"),
    fact="low is rounded up and high down, so the ramp covers too few pairs",
    question="Rounding widens the range. Which of the two must become smaller?",
)
known.change(
    "no-limits",
    (LIMITS, "pass"),
    fact="low may be negative, and high above dims - 1",
    question="The training length is so short that no pair makes 32 turns. Which pair is low?",
)
for name, limits, fact, end in (
    ("low-not-limited", "high = min(high, dims - 1)", "low may be negative: only high is limited", "low"),
    ("high-not-limited", "low = max(low, 0)", "high may be above dims - 1: only low is limited", "high"),
):
    known.change(name, (LIMITS, limits), fact=fact, question=f"Which limit does the docstring state for {end}?")
for name, rounded, fact in (
    ("rounded-to-the-nearest", "round(low), round(high)", "low and high are rounded to the nearest pair"),
    ("low-alone-rounded", "math.floor(low), high", "low is rounded to a whole pair, but high is not"),
    ("high-alone-rounded", "low, math.ceil(high)", "high is rounded to a whole pair, but low is not"),
):
    question = "In which direction must low be rounded, and in which high?"
    known.change(name, (ROUNDED, f"low, high = {rounded}"), fact=fact, question=question)
known.change(
    "both-rounded-down",
    (ROUNDED, "low, high = math.floor(low), math.floor(high)"),
    fact="high is rounded down like low, instead of up",
    question="Rounding widens the range. In which direction must high be rounded?",
)
known.change(
    "high-at-most-the-last-pair",
    (LIMITS, "low, high = max(low, 0), min(high, dims // 2 - 1)"),
    fact="high is limited to the last pair, D/2 - 1, instead of D - 1",
    question="Which upper limit does the docstring state for high?",
)
known.change(
    "limited-only-if-truncated",
    (LIMITS, "if truncate:\n    low, high = max(low, 0), min(high, dims - 1)"),
    fact="low and high are limited to 0 and dims - 1 only if truncate is True",
    question="Is low below 0 only after it has been rounded?",
)
known.change(
    "inverses-mixed",
    (MIXED, "1 / ((1 - share) / kept + share / divided)"),
    fact="the inverses of the frequencies are interpolated instead of the frequencies",
    question="Halfway between a frequency of 1 and one of 1/8, what is the result?",
)
known.change(
    "by-turns-themselves",
    (SHARE, "(original_length / math.tau * kept - beta_fast) / (beta_slow - beta_fast)"),
    fact="the ramp is linear in the turns instead of the pair's index",
    question="Between low and high, by how much does the ramp grow from one pair to the next?",
)
known.change(
    "new-length",
    ("for turns in (beta_fast, beta_slow)", "for turns in (beta_fast / factor, beta_slow / factor)"),
    fact="turns are counted over the new length, factor * original_length",
    question="Which angles has the model seen: those of training, or those of the longer sequence?",
)
known.change(
    "larger-base-instead",
    ("linear_frequencies(dims, base, factor)", "linear_frequencies(dims, base * factor ** (dims / (dims - 2)), 1)"),
    fact="the slow pairs use the frequencies of a larger base instead of being divided by the factor",
    question="By what is the frequency of a pair divided that made less than one turn in training?",
)
known.change(
    "no-attention-factor",
    (FACTOR, "1.0"),
    fact="the attention factor is always 1",
    question="What is 0.1 ln 8, and where does it go?",
)
known.change(
    "attention-factor-squared",
    (FACTOR, "(0.1 * math.log(factor) + 1) ** 2"),
    fact="the attention factor is squared: the factor for scores is used for both queries and keys",
    question="A query and a key are both multiplied by it. How often does it enter their score?",
)
known.change(
    "logarithm-of-10",
    (FACTOR, "0.1 * math.log10(factor) + 1"),
    fact="the attention factor uses a base-10 logarithm",
    question="With a factor of e, which is 2.718, what should the attention factor be?",
)
known.change(
    "one-added-to-the-factor",
    (FACTOR, "0.1 * math.log(factor + 1)"),
    fact="1 is added to the factor before the logarithm, instead of to the result",
    question="With a factor of 1, what should the attention factor be?",
)
known.change(
    "no-least-width",
    ("max(high - low, 0.001)", "(high - low)"),
    fact="high - low may be 0, or even negative",
    question="Both limits are below pair 0. What do you divide by?",
)


@known.accepted("pair by pair")
def pair_by_pair(dims, base, factor, original_length, beta_fast=32, beta_slow=1, truncate=True):
    if dims % 2 or factor < 1:
        raise ValueError("dims or factor")

    def limit(turns):
        return math.log(original_length / (turns * math.tau), base) * dims / 2

    low, high = limit(beta_fast), limit(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(0, low), min(dims - 1, high)
    paces = []
    for i in range(dims // 2):
        pace = base ** (-2 * i / dims)
        share = min(1, max(0, (i - low) / max(0.001, high - low)))
        paces.append(pace + share * (pace / factor - pace))
    return mx.array(paces, dtype=mx.float32), 1 + math.log(factor) / 10


@known.accepted("a clamped linear mask")
def falling_mask(dims, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    if dims % 2 == 1 or factor < 1:
        raise ValueError("dims or factor")
    inverse = mx.power(base, mx.arange(0, dims, 2) / dims)
    ends = [dims / 2 / math.log(base) * math.log(original_length / math.tau / b) for b in (beta_fast, beta_slow)]
    low = max(math.floor(ends[0]) if truncate else ends[0], 0)
    high = min(math.ceil(ends[1]) if truncate else ends[1], dims - 1)
    mask = 1 - mx.minimum(1.0, mx.maximum(0.0, (mx.arange(dims // 2) - low) / max(high - low, 1e-3)))
    return mask / inverse + (1 - mask) / (factor * inverse), 0.1 * math.log(factor) + 1.0
