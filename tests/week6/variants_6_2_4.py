"""Known programs of task 6.2.4, sampling without all logits."""

import math

import mlx.core as mx

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.ranks import RanksStopped, run_ranks
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.2.4")


def finished(run, size):
    """Run ranks; of ranks that wait for each other, the shapes do not matter, as each program packs its arrays."""
    try:
        return run_ranks(run, size)
    except RanksStopped:
        raise RuntimeError("the ranks wait for each other") from None


def chosen(program, logits, size=2, calls=3, **options):
    """Return the tokens that each rank chooses, call by call."""
    return sampled(program, logits, size, calls, **options)[0]


def sampled(program, logits, size, calls, **options):
    """Return these tokens, and how many numbers each rank gives to its group."""
    vocab_size = logits.shape[1]

    def run(group):
        own = range(vocab_size * group.rank // size, vocab_size * (group.rank + 1) // size)
        sampler = program(group, own, vocab_size, **options)
        return mx.stack([sampler(logits[:, own.start : own.stop], [[]] * len(logits)) for _ in range(calls)])

    results, groups = finished(run, size)
    return mx.stack(results).astype(mx.int32), mx.array(
        [sum(math.prod(call.shape) for call in group.calls) for group in groups]
    )


def gathers(program, **options):
    """Return whether each rank calls all_gather more than once for a choice."""

    def run(group):
        own = range(6 * group.rank, 6 * group.rank + 6)
        return program(group, own, 12, **options)(random_logits(10, 2, 12)[:, own.start : own.stop], [[], []])

    groups = finished(run, 2)[1]
    return mx.array([sum(call.name == "all_gather" for call in group.calls) > 1 for group in groups])


def few_tokens(program):
    """Return what two ranks choose that have one token and seven."""
    logits = random_logits(11, 3, 8)

    def run(group):
        own = (range(1), range(1, 8))[group.rank]
        return program(group, own, 8, top_k=3)(logits[:, own.start : own.stop], [[]] * 3)

    return mx.stack(finished(run, 2)[0]).astype(mx.int32)


def random_logits(seed, rows, count, spread=1.0):
    return drawn(seed, (rows, count))[0] * spread


TIES = [[2.0, 7, 1, 7, 0, 7], [7, 7, 7, 7, 7, 7], [1, 2, 7, 7, 2, 1]]
known.probe_table(
    greedy=lambda program: chosen(program, random_logits(1, 6, 13), 3, 1, temp=0),
    ties=lambda program: chosen(program, mx.array(TIES), 3, 1, temp=0),
    samples=lambda program: chosen(program, random_logits(2, 4, 13), 2, 5, seed=3),
    cold=lambda program: chosen(program, random_logits(3, 5, 13), 3, 4, temp=0.4, seed=1),
    hot=lambda program: chosen(program, random_logits(4, 5, 12, 3.0), 4, 4, temp=2.5),
    uneven=lambda program: chosen(program, random_logits(5, 4, 14), 4, 4, seed=2),
    top_k=lambda program: chosen(program, random_logits(6, 4, 13, 0.2), 2, 8, top_k=3, seed=4),
    top_1=lambda program: chosen(program, random_logits(7, 4, 13), 3, 4, top_k=1),
    top_many=lambda program: chosen(program, random_logits(8, 3, 14, 0.3) - 1, 4, 8, top_k=6, seed=5),
    top_ties=lambda program: chosen(program, mx.array([[1.0, 3, 2, 2, 2, 0, 3, 1]]), 2, 20, top_k=3, seed=6),
    exchanges=lambda program: gathers(program, temp=0),
    exchanges_sampled=gathers,
    exchanges_top_k=lambda program: gathers(program, temp=0, top_k=3),
    half=lambda program: chosen(program, (mx.arange(6000) == 4099)[None].astype(mx.float16), 2, 1, temp=0),
    few=few_tokens,
    numbers=lambda program: sampled(program, random_logits(9, 2, 64), 2, 2, temp=0)[1] > 8,
    numbers_sampled=lambda program: sampled(program, random_logits(9, 2, 64), 2, 2)[1] > 8,
)


@known.sized("8 rows of 32,000 logits on 2 ranks, top-k 20")
def sized(program):
    logits = random_logits(1, 8, 32000)
    return lambda: chosen(program, logits, 2, 1, top_k=20)


NOISE = "noise = mx.random.gumbel((len(logits), vocab_size), key=now)\n"
ADDED = "logits + noise[:, vocabulary.start : vocabulary.stop]"
WINNER = "winner = mx.argmax(pairs[..., 0], axis=0)"
known.change(
    "ids-within-the-rank",
    ("(best + vocabulary.start)", "best"),
    fact="a token's id is counted from the first token of its rank",
    question="The largest logit is the first one of rank 1. Which token is it in the vocabulary?",
)
known.change(
    "last-of-equal-ranks",
    (WINNER, "winner = len(pairs) - 1 - mx.argmax(pairs[::-1, :, 0], axis=0)"),
    fact="the last rank wins if several have equally large logits",
    question="Tokens 1 and 5 have equal logits, on ranks 0 and 2. Which one does mx.argmax return in one process?",
)
known.change(
    "ids-in-the-logits-dtype",
    ("(best + vocabulary.start).astype(mx.float32)", "(best + vocabulary.start).astype(logits.dtype)"),
    fact="token ids are converted to the logits' dtype, which rounds large ids in half precision",
    question="Which is the first id that float16 cannot represent?",
)
known.change(
    "largest-id",
    (WINNER, "winner = mx.argmax(pairs[..., 1], axis=0)"),
    fact="the winner is the rank with the largest token id, not the one with the largest logit",
    question="Which of the two numbers of a pair decides?",
)
known.change(
    "noise-of-own-shape",
    (NOISE, "noise = mx.random.gumbel(logits.shape, key=now)\n"),
    (ADDED, "logits + noise"),
    fact="each rank's noise has the shape of its own logits, so that all ranks add the same numbers",
    question="Two ranks use the same key and the same shape. How independent is their noise?",
)
known.change(
    "key-of-the-rank",
    (NOISE, "noise = mx.random.gumbel((len(logits), vocab_size), key=mx.random.split(now, group.size)[group.rank])\n"),
    fact="each rank has a key of its own, so that the samples depend on the number of ranks",
    question="With the same seed, must 1 rank and 2 ranks generate the same text? Which noise has token 0 in each?",
)
known.change(
    "same-noise-in-every-call",
    ("key, now = mx.random.split(key)", "now = mx.random.split(key)[1]"),
    fact="every call adds the same noise",
    question="The logits are equal in two calls. How often are the tokens?",
)
known.change(
    "keys-swapped",
    ("key, now = mx.random.split(key)", "now, key = mx.random.split(key)"),
    fact="the first key of mx.random.split generates the noise, and the second one is kept",
    question="In which order does the docstring name the two keys?",
)
known.change(
    "key-not-split",
    ("key, now = mx.random.split(key)", "now, key = key, mx.random.split(key)[0]"),
    fact="the noise comes from the key itself, before it is split",
    question="Which of the two keys of mx.random.split does the docstring use for the noise?",
)
known.change(
    "top-k-of-the-rank",
    (
        "logits >= _kth_largest(group, top_k, logits)",
        "logits >= mx.sort(logits, axis=-1)[:, -min(top_k, logits.shape[-1]), None]",
    ),
    fact="each rank keeps the k largest of its own logits",
    question="How many tokens remain in all, with 4 ranks?",
)
known.change(
    "kth-dropped",
    ("logits >= _kth_largest", "logits > _kth_largest"),
    fact="tokens equal to the k-th largest are dropped",
    question="With k = 1, how many tokens remain?",
)
known.change(
    "padded-with-zeros",
    ("constant_values=-mx.inf", "constant_values=0.0"),
    fact="a rank with fewer than k tokens sends zeros for those that it lacks",
    question="All logits are negative. Which is larger, the best of them or a zero?",
)
known.change(
    "own-tokens-only",
    ("[(0, 0), (0, short)]", "[(0, 0), (0, 0)]"),
    fact="a rank with fewer than k tokens sends fewer numbers than the others, although all_gather needs equal shapes",
    question="Rank 0 has one token, rank 1 has seven, and k is 3. Which shape does each pass to all_gather?",
)
known.change(
    "top-k-of-greedy",
    (
        "if temp == 0:\n    return _argmax(group, vocabulary, logits)",
        """
        if temp == 0:
            if 0 < top_k < vocab_size:
                logits = mx.where(logits >= _kth_largest(group, top_k, logits), logits, -mx.inf)
            return _argmax(group, vocabulary, logits)
        """,
    ),
    fact="the k largest logits are exchanged for greedy decoding, too",
    question="Can the largest logit be one that top-k drops?",
)
known.change(
    "temperature-multiplies",
    ("logits = logits / temp", "logits = logits * temp"),
    fact="the logits are multiplied by the temperature",
    question="At a low temperature, should the likeliest token win more often or less?",
)
known.change(
    "noise-scaled-too",
    (ADDED, "logits + noise[:, vocabulary.start : vocabulary.stop] / temp"),
    fact="the noise is divided by the temperature, like the logits, which leaves the samples those of temperature 1",
    question="Does dividing all numbers by 2 change which one is the largest?",
)
known.change(
    "all-logits-exchanged",
    (
        "return _argmax(group, vocabulary, logits)\n",
        "return mx.argmax(gather_logits(group, vocabulary, vocab_size, logits), axis=-1)\n",
    ),
    fact="greedy decoding exchanges all V logits",
    question="How many numbers does a rank send for each row? How many does it need to send?",
)
known.change(
    "two-gathers",
    (
        "group.all_gather(pairs[None])",
        "mx.concatenate([group.all_gather(each[None]) for each in mx.split(pairs, 2, axis=-1)], axis=-1)",
    ),
    fact="numbers and token ids are exchanged in two all_gathers for each choice",
    question="A message takes 20 us, however small it is. How long do two messages of 4 bytes take, and one of 8?",
)


@known.accepted("two maxima")
def by_two_maxima(group, vocabulary, vocab_size, *, temp=1.0, top_k=0, seed=0):
    """First the largest number, then the smallest id that has it."""
    keys = [mx.random.key(seed)]

    def largest(x):
        own = mx.max(x, axis=-1)
        best = group.all_max(own)
        id_of = mx.argmax(x, axis=-1).astype(mx.int32) + vocabulary.start
        return -group.all_max(mx.where(own == best, -id_of, -vocab_size))

    def sample(logits, tokens):
        if temp == 0:
            return largest(logits)
        x = logits / temp
        if 0 < top_k < vocab_size:
            mine = -mx.sort(-x, axis=-1)[:, :top_k]
            mine = mx.concatenate([mine, mx.full((len(x), top_k - mine.shape[1]), -mx.inf)], axis=-1)
            both = mx.concatenate(mx.split(group.all_gather(mine), group.size), axis=-1)
            x = mx.where(x < (-mx.sort(-both, axis=-1))[:, top_k - 1 : top_k], -mx.inf, x)
        following, now = mx.random.split(keys.pop())
        keys.append(following)
        return largest(x + mx.random.gumbel((len(x), vocab_size), key=now)[:, vocabulary.start : vocabulary.stop])

    return sample
