"""Known programs of task 4.5.4, the experts' load."""

import mlx.core as mx
from tiny_llm_solution.experts.load import Load

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.5.4")


def choices(seed, dtype=mx.float32, leading=(3, 4), experts=5, top_k=2):
    probabilities = mx.softmax(normals(seed)(*leading, experts), axis=-1)
    return mx.argsort(-probabilities, axis=-1)[..., :top_k], probabilities.astype(dtype)


def figures(program, *inputs):
    found = program(*inputs)
    return found.tokens.astype(mx.float32), found.share, found.imbalance, found.auxiliary_loss


known.probe_table(
    of_all=lambda program: figures(program, *choices(1)),
    one_expert_each=lambda program: figures(program, *choices(2, top_k=1)),
    one_token=lambda program: figures(program, *choices(5, leading=())),
    narrow=lambda program: figures(program, *choices(6, mx.bfloat16, (3000,), 3)),
    padded=lambda program: figures(program, *choices(3), mx.array([[1] * 4, [0, 1, 1, 1], [0, 0, 0, 1]]) == 1),
    last_idle=lambda program: figures(program, mx.array([[1, 2], [2, 0], [3, 1]]), choices(7, leading=(3,))[1]),
    idle=lambda program: figures(program, mx.array([[1, 2], [4, 1], [2, 1], [1, 4]]), choices(4, leading=(4,))[1]),
)


@known.sized("16,384 tokens, 4 of 64 experts each, float32")
def sized(program):
    inputs = choices(1, leading=(16384,), experts=64, top_k=4)
    return lambda: list(figures(program, *inputs))


COUNTS = "mx.ones(indices.shape[:-1], mx.bool_) if mask is None else mask"
CHOSEN = "chosen = indices[..., None]"
known.change(
    "padding-counted",
    (COUNTS, "mx.ones(indices.shape[:-1], mx.bool_)"),
    fact="padding tokens are counted",
    question="What does a router do with padding? Is that load that matters?",
)
known.change(
    "mask-inverted",
    (COUNTS, "mx.ones(indices.shape[:-1], mx.bool_) if mask is None else ~mask"),
    fact="only padding tokens are counted",
    question="Does True in the mask mean that a token counts, or that it is hidden?",
)
known.change(
    "padding-in-the-mean",
    ("mx.where(counts[..., None], probabilities.astype(mx.float32), 0.0)", "probabilities.astype(mx.float32)"),
    fact="padding is not counted as tokens, but its probabilities are in the sum for the mean",
    question="Over which tokens is the mean probability taken?",
)
known.change(
    "shares-over-padding",
    ("tokens / (number * indices.shape[-1])", "tokens / (counts.size * indices.shape[-1])"),
    fact="the shares divide the counted tokens by the number of all tokens, including padding",
    question="Half of the tokens are padding. What do the shares sum to?",
)
known.change(
    "last-idle-experts-left-out",
    (
        "share = tokens / (number",
        "tokens = tokens[: mx.max(mx.where(tokens > 0, mx.arange(experts), 0)).item() + 1]\nshare = tokens / (number",
    ),
    fact="the counts end at the last expert with tokens, so idle experts after it have no entry",
    question="Six experts, and no token goes to the last one. How many entries has tokens?",
)
known.change(
    "mean-over-padding",
    ("axis=0) / number", "axis=0) / counts.size"),
    fact="the sum of the counted probabilities is divided by the number of all tokens",
    question="Three of twelve tokens are padding. By what is the sum over the other nine divided?",
)
known.change(
    "mean-of-all-tokens",
    ("mx.where(counts[..., None], probabilities.astype(mx.float32), 0.0)", "probabilities.astype(mx.float32)"),
    ("axis=0) / number", "axis=0) / counts.size"),
    fact="the mean probability is that of all tokens, including padding",
    question="The counts leave padding out. Over which tokens is the mean probability taken?",
)
known.together("padding-in-the-mean", "mean-over-padding", makes="mean-of-all-tokens")
known.written("max by mean", ("experts * mx.max(share)", "mx.max(tokens) / mx.mean(tokens)"))
known.change(
    "shares-sum-to-k",
    ("(number * indices.shape[-1])", "number"),
    fact="the shares sum to k instead of one",
    question="Eight tokens go to two experts each. How many assignments is that?",
)
known.change(
    "first-choice-alone",
    (CHOSEN, "chosen = indices[..., :1, None]"),
    ("(number * indices.shape[-1])", "number"),
    fact="only each token's first expert is counted",
    question="A token goes to experts 2 and 0. For which of them is it load?",
)
known.change(
    "first-choice-of-k",
    (CHOSEN, "chosen = indices[..., :1, None]"),
    fact="only each token's first expert is counted, and the shares sum to 1/k",
    question="Eight tokens go to two experts each. How many assignments do you count?",
)
known.together("shares-sum-to-k", "first-choice-of-k", makes="first-choice-alone")
known.change(
    "imbalance-is-a-share",
    ("experts * mx.max(share)", "mx.max(share)"),
    fact="the load imbalance is the largest share, which is 1/X instead of 1 for an even load",
    question="Four experts are equally loaded. What is the share of each, and what is the imbalance?",
)
known.change(
    "imbalance-of-the-busy",
    ("experts * mx.max(share)", "mx.sum(tokens > 0) * mx.max(share)"),
    fact="experts without tokens are left out of the mean load",
    question="One of four experts gets every token. What would an even spread give it?",
)
known.change(
    "loss-without-x",
    ("experts * mx.sum(share * mean)", "mx.sum(share * mean)"),
    fact="the loss is the sum of share times mean probability, without the factor X",
    question="Four experts, each with a share and a mean probability of a quarter. What is that sum?",
)
known.change(
    "loss-times-k",
    ("experts * mx.sum(share * mean)", "experts * indices.shape[-1] * mx.sum(share * mean)"),
    fact="the loss is k times as large, as that of transformers",
    question="Every token goes to two experts, and the load is even. What is your loss?",
)
known.change(
    "loss-of-shares-alone",
    ("mx.sum(share * mean)", "mx.sum(share * share)"),
    fact="the loss is made of squared shares, without the probabilities",
    question="How does a share change if a score changes slightly? And a probability?",
)
known.change(
    "summed-in-the-narrow-dtype",
    ("probabilities.astype(mx.float32)", "probabilities"),
    fact="the probabilities are summed in their own dtype, even in bfloat16",
    question="What is 256 + 0.5 in bfloat16?",
)


@known.accepted("expert by expert, in Python")
def one_by_one(indices, probabilities, mask=None):
    experts, k = probabilities.shape[-1], indices.shape[-1]
    keep = [True] * (indices.size // k) if mask is None else mask.flatten().tolist()
    if not any(keep):
        raise ValueError("no token counts")
    rows = [row for row, each in zip(indices.reshape(-1, k).tolist(), keep, strict=True) if each]
    tokens = mx.array([sum(row.count(e) for row in rows) for e in range(experts)])
    share = tokens / mx.sum(tokens)
    own = mx.array([i for i, each in enumerate(keep) if each])
    mean = mx.mean(probabilities.reshape(-1, experts).astype(mx.float32)[own], axis=0)
    return Load(tokens, share, mx.max(share) / mx.mean(share), experts * mx.inner(share, mean))
