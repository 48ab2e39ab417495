"""Known programs of task 4.7.3, YaRN."""

import math

import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("4.7.3")


def both(found):
    """Paces and factor as arrays."""
    paces, factor = found
    return paces, mx.array(float(factor))


known.probe_table(
    as_published=lambda program: both(program(64, 10000, 8, 3000)),
    other_betas=lambda program: both(program(32, 300, 2.5, 900, 8, 0.5)),
    not_truncated=lambda program: both(program(64, 10000, 8, 3000, truncate=False)),
    low_below_0=lambda program: both(program(16, 300, 4, 20)),
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
    fact="the fast pairs are divided, and the slow ones stay as they are",
    question="Which hands have gone round many times in training, so that no angle is new to the model?",
)
known.change(
    "betas-exchanged",
    ("for turns in (beta_fast, beta_slow)", "for turns in (beta_slow, beta_fast)"),
    fact="beta_fast and beta_slow have changed places",
    question="Which pair makes 32 turns: one before or one behind the pair that makes one turn?",
)
known.change(
    "turns-without-2-pi",
    (PAIR, "dims * math.log(original_length / turns) / (2 * math.log(base))"),
    fact="a turn is taken for one radian",
    question="A pair has moved by 10 radians. How many times has it gone round?",
)
known.change(
    "counted-in-features",
    (PAIR, "dims * math.log(original_length / (2 * math.pi * turns)) / math.log(base)"),
    fact="the limits are numbers of features, twice those of pairs",
    question="In base ** (-2i/D), does i count pairs or features?",
)
known.change(
    "not-clamped",
    ("mx.clip(share, 0.0, 1.0)", "share"),
    fact="the share goes on below 0 and above 1",
    question="A pair lies far before low. What is its share, and what its pace?",
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
    fact="low and high are rounded also where truncate is False",
    question="Where does your code look at `truncate`?",
)
known.change(
    "rounded-inwards",
    (ROUNDED, "low, high = math.ceil(low), math.floor(high)"),
    fact="low is rounded up and high down: the mixture covers too few pairs",
    question="Rounding makes the range wider. Which of the two must then become smaller?",
)
known.change(
    "no-limits",
    (LIMITS, "pass"),
    fact="low may be less than 0, and high more than dims - 1",
    question="A training so short that no pair makes 32 turns: which pair is low?",
)
known.change(
    "inverses-mixed",
    (MIXED, "1 / ((1 - share) / kept + share / divided)"),
    fact="the inverses of the paces are mixed, and not the paces",
    question="Half of a pace of 1 and half of one of 1/8: what is that, and what is half of 1 and half of 8?",
)
known.change(
    "by-turns-themselves",
    (SHARE, "(original_length / math.tau * kept - beta_fast) / (beta_slow - beta_fast)"),
    fact="the share grows evenly with the turns, and not from pair to pair",
    question="Between low and high, by how much does the share grow from one pair to the next?",
)
known.change(
    "new-length",
    ("for turns in (beta_fast, beta_slow)", "for turns in (beta_fast / factor, beta_slow / factor)"),
    fact="the turns are counted over the new length, factor * original_length",
    question="Which angles has the model seen: those of the training, or those of the text that comes?",
)
known.change(
    "larger-base-instead",
    ("linear_frequencies(dims, base, factor)", "linear_frequencies(dims, base * factor ** (dims / (dims - 2)), 1)"),
    fact="paces that should be divided by the factor are those of a larger base",
    question="By what is the pace of a pair divided that has made less than one turn in training?",
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
    fact="the attention factor is squared: what belongs to the scores is given to queries and to keys",
    question="A query and a key are both multiplied by it. How often does their score then have it?",
)
known.change(
    "logarithm-of-10",
    (FACTOR, "0.1 * math.log10(factor) + 1"),
    fact="the attention factor is made of a logarithm to base 10",
    question="With a factor of e, which is 2.718, what should the attention factor be?",
)
known.change(
    "attention-factor-turned-over",
    (FACTOR, "1 / (0.1 * math.log(factor) + 1)"),
    fact="the attention factor is turned over, so that it is less than 1",
    question="More keys share one softmax. Should scores become larger or smaller, to keep it as sharp?",
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


@known.accepted("a mask that falls")
def falling_mask(dims, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):
    if dims % 2 == 1 or factor < 1:
        raise ValueError("dims or factor")
    inverse = mx.power(base, mx.arange(0, dims, 2) / dims)
    ends = [dims / 2 / math.log(base) * math.log(original_length / math.tau / b) for b in (beta_fast, beta_slow)]
    low = max(math.floor(ends[0]) if truncate else ends[0], 0)
    high = min(math.ceil(ends[1]) if truncate else ends[1], dims - 1)
    mask = 1 - mx.minimum(1.0, mx.maximum(0.0, (mx.arange(dims // 2) - low) / max(high - low, 1e-3)))
    return mask / inverse + (1 - mask) / (factor * inverse), 0.1 * math.log(factor) + 1.0
