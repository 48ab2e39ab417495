"""Reference variants of task 1.7.5, the sampler."""

import mlx.core as mx
from tiny_llm_solution.basics import softmax
from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p, make_sampler, penalize_repetition

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.7.5")


def log_rows(*rows):
    """Logits with these probabilities."""
    return mx.log(mx.array(rows))


FIVE = [0.20, 0.10, 0.30, 0.15, 0.25]
FOUR = [0.15, 0.50, 0.05, 0.30]
LIKELY = mx.array([[60.0, 45.0, 30.0, 0.0]] * 2)
DRAWS = 200  # a token with probability 0.05 is missing from all of them for one in 28,000 samplers


def with_peaks(*logits):
    return mx.concatenate([log_rows(FIVE, FIVE[::-1]), mx.array([logits])])


def ids(sample, logits, tokens):
    return sample(logits, tokens).astype(mx.int32)


def occurring(program, rows, tokens=None, draws=DRAWS, **settings):
    """Return which tokens of each row are ever sampled, rows x tokens."""
    n, size = rows.shape
    tokens = tokens or [[]] * n
    drawn = ids(program(**settings, seed=7), mx.concatenate([rows] * draws), tokens * draws).reshape(draws, n)
    return mx.any(drawn[:, :, None] == mx.arange(size), axis=0).astype(mx.int32)


@known.probe()
def sampler_greedy(program):
    logits, tokens = normals(51)(4, 7), [[0, 1, 2, 3], [5, 6], [], [4, 3, 2]]
    return ids(program(temp=0), logits, tokens), ids(program(temp=0.0, repetition_penalty=4.0), logits, tokens), logits


@known.probe()
def sampler_long_ago(program):
    """Return the most likely token after the penalty; one was used once, before a hundred others."""
    return ids(program(temp=0, repetition_penalty=4.0, seed=7), mx.array([[5.0, 4.0, -1.0]]), [[0, *[2] * 100]])


@known.probe()
def sampler_state(program):
    """Return whether calls repeat each other; 1000 tokens do not agree by chance."""
    logits, tokens = normals(56)(3, 1000, spread=0.1), [[]] * 3

    def calls(sample, number=4):
        return mx.stack([ids(sample, logits, tokens) for _ in range(number)])

    mx.random.seed(561)
    alone, twin = calls(program(seed=5)), calls(program(seed=5))
    other = calls(program(seed=6))
    sample, elder = program(seed=5), program(seed=6)
    program(seed=5)
    parts = []
    for seed in range(4):
        mx.random.seed(seed)
        parts.append(calls(sample, 1))
    mx.random.seed(562)
    left_alone = mx.random.uniform(shape=(3,))
    mx.random.seed(562)
    calls(program(seed=5))
    untouched = mx.array_equal(left_alone, mx.random.uniform(shape=(3,)))
    mx.random.seed(563)
    unseeded = calls(program())
    mx.random.seed(563)
    again = calls(program())
    mx.random.seed(564)
    elsewhere = calls(program())
    mx.random.seed(562)
    ids(program(temp=0), logits, tokens)
    undrawn = mx.array_equal(left_alone, mx.random.uniform(shape=(3,)))
    agree = [
        mx.array_equal(alone, twin), mx.array_equal(alone, other), mx.array_equal(alone, mx.concatenate(parts)),
        mx.array_equal(alone[0], alone[1]), untouched, mx.array_equal(unseeded, again),
        mx.array_equal(unseeded[0], unseeded[1]), undrawn, mx.array_equal(other, calls(elder)),
        mx.array_equal(calls(program(seed=0), 1), calls(program(seed=0), 1)), mx.array_equal(unseeded, elsewhere),
    ]  # fmt: skip
    return mx.stack(agree).astype(mx.int32), mx.array(alone.shape)


known.probe_table(
    # Low and high temperatures, and high ones with a top-p that shows when the temperature is applied.
    temperature=lambda program: tuple(
        occurring(program, log_rows(FOUR), temp=temp, **kept)
        for temp, kept in (
            (0.01, {}),
            (0.01, {"top_p": 0.75}),
            (2.0, {"top_p": 0.55}),
            (2.0, {"top_p": 0.75}),
            (2.0, {"top_k": 3}),
        )
    ),
    two_filters=lambda program: tuple(
        occurring(program, log_rows([0.2, 0.4, 0.1, 0.3]), top_p=0.55, **other)
        for other in ({"top_k": 2}, {"min_p": 0.6})
    ),
    temperature_and_min_p=lambda program: tuple(
        occurring(program, log_rows(FOUR), temp=t, min_p=p) for t, p in ((2.0, 0.5), (2.0, 0.7), (0.5, 0.4))
    ),
    top_p_and_min_p_of_a_flat_row=lambda program: tuple(
        occurring(program, log_rows(FOUR), temp=2.0, top_p=p, min_p=0.65) for p in (0.6, 0.75)
    ),
    hot_without_filters=lambda program: occurring(program, log_rows(FIVE), temp=50.0),
    # Rows that differ in their tokens, with top-k and without a filter: the penalty decides what is kept.
    penalty_first=lambda program: occurring(program, LIKELY, [[0, 0, 0], [1]], 100, repetition_penalty=4.0, top_k=1),
    penalty_alone=lambda program: occurring(program, LIKELY, [[0, 0, 0], [1]], 100, repetition_penalty=4.0),
    plain=lambda program: occurring(program, with_peaks(-20.0, 30.0, -20.0, -20.0, -20.0)),
    one_filter=lambda program: tuple(
        occurring(program, with_peaks(-9.0, 19.0, -9.0, 20.0, -9.0), **{name: value})
        for name, value in (("top_k", 2), ("top_k", 9), ("top_p", 0.5), ("top_p", 0.0), ("min_p", 0.6), ("min_p", 1.0))
    ),
)


@known.probe()
def sampler_keys(program):
    """Return whether a call samples with a key that the next call splits: at first, or after one or two splits.

    Also return whether the calls repeat each other, and whether they do so with the seed's own key.
    """
    logits, sample = normals(57)(3, 1000, spread=0.1), program(seed=5)
    calls, found = [ids(sample, logits, [[]] * 3) for _ in range(2)], []
    for half in (0, 1):
        key = mx.random.key(5)
        for _ in range(3):
            keys = key, mx.random.split(key)[half]
            drawn = [mx.random.categorical(logits, key=one).astype(mx.int32) for one in keys]
            found.append(mx.array_equal(mx.stack(calls), mx.stack(drawn)))
            key = keys[1]
    split_again = mx.any(mx.stack(found).reshape(2, 3), axis=0).astype(mx.int32)
    with_key = mx.random.categorical(logits, key=mx.random.key(5)).astype(mx.int32)
    same = mx.array_equal(*calls)
    repeated = mx.stack([same, same & mx.array_equal(calls[0], with_key)])
    return split_again, repeated.astype(mx.int32)


@known.sized("float32 logits 1 x 32,768, all filters on, one token with probability 1")
def sized(program):
    logits, tokens = normals(1)(1, 32768, spread=3.0), [list(range(0, 32768, 128))]
    logits[0, 1] = 100.0
    sample = program(0.7, 50, 0.9, 0.1, 1.1, seed=0)
    return lambda: sample(logits, tokens).tolist()


# The steps of the solution's sampler.
PENALTY = "if repetition_penalty != 1:\n    logits = penalize_repetition(logits, tokens, repetition_penalty)\n"
GREEDY = "if temp == 0:\n    return mx.argmax(logits, axis=-1)\n"
TEMP = "logits = logits / temp\n"
TOP_K = "if top_k:\n    logits = keep_top_k(logits, top_k)\n"
TOP_P = "if top_p < 1:\n    logits = keep_top_p(logits, top_p)\n"
MIN_P = "if min_p:\n    logits = keep_min_p(logits, min_p)\n"
NEW_KEY = "key, now = mx.random.split(key)"

known.change(
    "temperature-multiplied",
    ("logits / temp", "logits * temp"),
    fact="the logits are multiplied by the temperature",
    question="Does a temperature of 2 spread the probabilities apart, or bring them closer together?",
)
known.change(
    "temperature-left-out",
    (TEMP, ""),
    fact="the temperature is ignored unless it is 0",
    question="Which tokens should be sampled at a temperature of 0.01?",
)
known.change(
    "temperature-last",
    (TEMP + TOP_K + TOP_P + MIN_P, TOP_K + TOP_P + MIN_P + TEMP),
    fact="the temperature is applied after the filters",
    question="Which probabilities does top-p sum: those before the division by the temperature, or after it?",
)
known.change(
    "temperature-on-probabilities",
    ("logits / temp", "softmax(logits, axis=-1) / temp"),
    fact="the probabilities are divided by the temperature instead of the logits",
    question="What do probabilities sum to after division by 2?",
)
known.change(
    "zero-divides",
    (GREEDY, ""),
    fact="the logits are divided by a temperature of 0",
    question="What is 1 / 0 in float32, what is -1 / 0, and which of several infinities is the largest?",
)
known.change(
    "always-greedy",
    ("if temp == 0", "if temp >= 0"),
    fact="the argmax is taken at every temperature",
    question="How often should a token with probability 0.3 be sampled?",
)
known.change(
    "penalty-left-out",
    (PENALTY, ""),
    fact="the repetition penalty is missing",
    question="What does your sampler do with `tokens`?",
)
known.change(
    "penalty-last",
    ("if repetition_penalty != 1", "if temp == 0"),
    (MIN_P, MIN_P + PENALTY),
    fact="the repetition penalty is applied after the filters",
    question="Two tokens are kept and one of them is penalized. Can a third token, now more likely, come back?",
)
known.change(
    "top-k-left-out",
    (TOP_K, ""),
    fact="top_k is ignored",
    question="Which tokens should be sampled with top_k = 2?",
)
known.change(
    "top-p-left-out",
    (TOP_P, ""),
    fact="top_p is ignored",
    question="Which tokens should be sampled with a small top_p?",
)
known.change(
    "min-p-left-out",
    (MIN_P, ""),
    fact="min_p is ignored",
    question="Which tokens should be sampled with min_p = 0.6?",
)
known.change(
    "top-p-before-top-k",
    (TOP_K + TOP_P, TOP_P + TOP_K),
    fact="top-p looks at all tokens instead of only those that top-k kept",
    question="Top-k keeps two tokens of 0.4 and 0.3. What do they sum to after the others are at probability 0?",
)
known.change(
    "min-p-before-top-p",
    (TOP_P + MIN_P, MIN_P + TOP_P),
    fact="min-p is applied before top-p",
    question="Min-p keeps two tokens. Do their probabilities change, and with them the sums of top-p?",
)
known.change(
    "order-of-mlx-lm",
    (TEMP + TOP_K + TOP_P + MIN_P, TOP_P + MIN_P + TOP_K + TEMP),
    fact="the order is mlx-lm's: top-p, min-p, top-k, temperature",
    question="Engines differ in this. Which order does the docstring state?",
)
known.change(
    "top-p-zero-is-off",
    ("if top_p < 1", "if top_p"),
    fact="top_p = 0 disables top-p",
    question="Which is the smallest set whose probabilities sum to 0 or more, if at least one token stays?",
)
known.change(
    "zeros-for-dropped",
    ("if key is None", "logits = mx.where(logits == -mx.inf, 0, logits)\nif key is None"),
    fact="a dropped logit becomes 0 instead of -inf before sampling",
    question="What is the probability of a logit of 0 beside one of -2?",
)
known.change(
    "probabilities-for-logits",
    ("if key is None", "logits = softmax(logits, axis=-1)\nif key is None"),
    fact="mx.random.categorical receives probabilities instead of logits",
    question="categorical applies a softmax itself. What does it make of the probabilities 1 and 0?",
)
known.change(
    "same-key-each-call",
    (NEW_KEY, "now = key"),
    fact="every call samples with the same key",
    question="A key gives the same numbers each time. How do you get a new one for each call?",
)
known.change(
    "new-key-not-kept",
    (NEW_KEY, "_, now = mx.random.split(key)"),
    fact="every call splits the same key, so all calls sample with the same new key",
    question="Which key does the second call split?",
)
known.change(
    "seed-ignored",
    ("None if seed is None else mx.random.key(seed)", "None"),
    fact="the seed is ignored, and every sampler uses MLX's global random state",
    question="Other code draws a random number between two of your calls. Which tokens do you sample then?",
)
known.change(
    "ids-as-columns",
    ("categorical(logits)", "categorical(logits)[:, None]"),
    ("key=now)", "key=now)[:, None]"),
    fact="the ids have shape N x 1 instead of N",
    question="What is the shape of one id for each of N rows?",
)
known.change(
    "seed-zero-is-none",
    ("None if seed is None else mx.random.key(seed)", "mx.random.key(seed) if seed else None"),
    fact="seed 0 is treated as no seed",
    question="What does `if seed` do for 0?",
)
known.change(
    "own-key-without-a-seed",
    (
        "key = None if seed is None else mx.random.key(seed)",
        "import random\nkey = mx.random.key(random.getrandbits(31) if seed is None else seed)",
    ),
    fact="a sampler without a seed makes a random key of its own and ignores MLX's global random state",
    question="A program calls mx.random.seed(12) and then samples without a seed. What should a second run give?",
)
known.change(
    "fixed-key-without-a-seed",
    ("None if seed is None else mx.random.key(seed)", "mx.random.key(0 if seed is None else seed)"),
    fact="a sampler without a seed always starts with the same key",
    question="After which call should two samplers without a seed give the same tokens, and otherwise not?",
)
known.change(
    "global-seed",
    ("mx.random.key(seed)", "mx.random.seed(seed)"),
    fact="the seed is set once on MLX's global random state",
    question="Two samplers alternate. Whose random numbers does each of them use?",
)
known.change(
    "global-seed-each-call",
    (NEW_KEY, "mx.random.seed(seed)"),
    (", key=now", ""),
    fact="every call sets the seed on MLX's global random state",
    question="What does a call sample from a state that is the same each time?",
)
known.change(
    "one-key-for-all-samplers",
    ("key = None", "global key\nkey = None"),
    ("nonlocal key", "global key"),
    fact="all seeded samplers share one key, that of the newest sampler",
    question="Where do you store your key: in the function that you return, or in the module?",
)
known.change(
    "greedy-forgets-the-penalty",
    (PENALTY + GREEDY, GREEDY + PENALTY),
    fact="the repetition penalty is ignored when temp = 0",
    question="At temp = 0, which logits should argmax see?",
)
known.change(
    "kept-half-drawn",
    (NEW_KEY, "key, _ = mx.random.split(key)"),
    ("key=now", "key=key"),
    fact="each call samples with the same half of the split key that the next call splits",
    question="A split gives two keys. Which one do you sample with, which one do you keep, and can one be both?",
)
known.change(
    "drawn-then-split",
    (NEW_KEY, "now = key\nkey, _ = mx.random.split(key)"),
    fact="each call samples with its key first, and then splits the same key",
    question="May a key that has been used for sampling be used for anything else?",
)
known.change(
    "temperature-before-min-p",
    (TEMP + TOP_K + TOP_P + MIN_P, TOP_K + TOP_P + TEMP + MIN_P),
    fact="the temperature is applied after top-k and top-p, and before min-p",
    question="Which probabilities does top-p sum: those before the division by the temperature, or after it?",
)
known.change(
    "min-p-before-temperature",
    (TEMP + TOP_K + TOP_P + MIN_P, MIN_P + TEMP + TOP_K + TOP_P),
    fact="min-p is applied before the temperature",
    question="Which probabilities does min-p compare: those before the division by the temperature, or after it?",
)
# Top-k and min-p commute.
known.change(
    "penalty-of-recent-tokens",
    ("penalize_repetition(logits, tokens,", "penalize_repetition(logits, [row[-20:] for row in tokens],"),
    fact="only the last 20 tokens of a row are penalized",
    question="A row used a token at its beginning, a hundred tokens ago. Is it one of the tokens so far?",
)
known.together("temperature-last", "top-p-before-top-k", makes="order-of-mlx-lm")
known.together("temperature-last", "temperature-on-probabilities", makes="probabilities-for-logits")


def checked(make):
    """The same make_sampler, with the solution's argument checks."""

    def careful(*args, **settings):
        make_sampler(*args, **settings)
        return make(*args, **settings)

    return careful


@known.accepted("gumbel")
@checked
def gumbel(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    """Take the argmax of the logits plus Gumbel noise; the keys are made in advance."""
    keys = None if seed is None else iter(mx.random.split(mx.random.key(seed), 4096))

    def sample(logits, tokens):
        logits = penalize_repetition(logits, tokens, repetition_penalty)
        if temp == 0:
            return mx.argmax(logits, axis=-1)
        logits = logits * (1 / temp)
        logits = keep_top_k(logits, top_k or logits.shape[-1])
        logits = keep_min_p(keep_top_p(logits, top_p), min_p)
        noise = mx.random.gumbel(logits.shape) if keys is None else mx.random.gumbel(logits.shape, key=next(keys))
        return mx.argmax(logits + noise, axis=-1)

    return sample


@known.accepted("inverse-of-the-sums")
@checked
def inverse_of_the_sums(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    """Look a uniform sample per row up in the cumulative probabilities; the n-th call folds n in."""
    number = [0]

    def sample(logits, tokens):
        logits = penalize_repetition(logits, tokens, repetition_penalty)
        if temp == 0:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        logits = logits / temp
        if top_k > 0:
            logits = keep_top_k(logits, top_k)
        sums = mx.cumsum(softmax(keep_min_p(keep_top_p(logits, top_p), min_p), -1), axis=-1)
        number[0] += 1
        keys = {} if seed is None else {"key": mx.random.key(1000003 * (seed + 1) + number[0])}
        uniform = mx.random.uniform(shape=(len(logits), 1), **keys) * sums[:, -1:]
        return mx.argmax(sums > uniform, axis=-1).astype(mx.int32)

    return sample
