"""Known programs of task 4.5.1, the router."""

import mlx.core as mx
from tests.week4.routing import table_of

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.5.1")


def inputs(seed, dtype=mx.float32, leading=(2, 3), size=5, experts=7):
    draw = normals(seed, dtype)
    return draw(*leading, size), draw(experts, size)


def table(program, drawn, top_k, *normalize):
    x, gate = drawn
    return tuple(table_of(*program(x, gate, top_k, each), len(gate)) for each in normalize)


known.probe_table(
    normalized=lambda program: table(program, inputs(1), 3, True),
    as_they_are=lambda program: table(program, inputs(2), 3, False),
    square=lambda program: table(program, inputs(4, size=7), 2, True),
    to_one=lambda program: table(program, inputs(5), 1, True, False),
    to_all=lambda program: table(program, inputs(6), 7, False),
    one_token=lambda program: table(program, (inputs(3)[0][0, 0], inputs(3)[1]), 2, True, False),
)
known.probe_table(
    mx.float16,
    half=lambda program: table(program, inputs(7, mx.float16), 3, True),
    half_with_float32=lambda program: table(program, (inputs(10, mx.float16)[0], inputs(10)[1]), 3, True),
)


@known.probe()
def ties(program):
    """Each token's sorted experts' weights: two of four equal ones are among its three."""
    gate = mx.array([1.0, 2.0, 1.0, 0.0, 1.0, 1.0])[:, None]
    return tuple(mx.sort(each) for each in table(program, (mx.ones((2, 1)), gate), 3, True, False))


@known.probe(mx.bfloat16)
def route_close(program):
    """In bfloat16 all scores are 4,096. Sorted, because a tie may be broken either way."""
    gate = mx.array([[4096.0, 0.5], [4096.0, 2.25], [4096.0, 0.0], [4096.0, 1.5]]).astype(mx.bfloat16)
    x = mx.array([1.0, 1.0]).astype(mx.bfloat16)
    return tuple(mx.sort(*table(program, (x, gate), top_k, False)) for top_k in (1, 2))


@known.probe()
def rounded_once(program):
    """Return whether a weight is off by more than one rounding, with scores that bfloat16 represents."""
    gate = mx.round(normals(8)(40, 40) * 8) / 8
    found = table(program, (mx.eye(40).astype(mx.bfloat16), gate.astype(mx.bfloat16)), 40, False)[0]
    exact = mx.softmax(gate.T, axis=-1)
    return mx.array(mx.max(mx.abs(found - exact) / exact).item() > 1.5 * 2**-8)


@known.probe()
def rounded_once_in_float16(program):
    """Return whether a normalized weight is off by more than half a unit in the last place."""
    x, gate = inputs(9, mx.float16, (64,))
    found = table(program, (x, gate), 3, True)[0]
    exact = table(known.solution.program, (x.astype(mx.float32), gate.astype(mx.float32)), 3, True)[0]
    return mx.array(mx.max(mx.abs(found - exact) - 0.6 * 2**-10 * exact).item() > 0)


@known.sized("8,192 tokens, E 128, 128 experts, top_k 8, float32")
def sized(program):
    x, gate = inputs(1, leading=(8192,), size=128, experts=128)
    return lambda: program(x, gate, 8, True)


SCORES = "linear(x.astype(mx.float32), gate.astype(mx.float32))"
known.change(
    "always-normalized",
    ("if normalize:", "if True:"),
    fact="a token's weights always sum to one, whatever `normalize` is, as in a softmax over the chosen scores",
    question="Two probabilities of 0.3 are chosen, and normalize is False. What do the weights sum to?",
)
known.change(
    "never-normalized",
    ("if normalize:", "if False:"),
    fact="`normalize` is ignored, and the weights are the probabilities among all experts",
    question="Two experts have 0.4 and 0.2, and the weights are normalized. What are they?",
)
known.change(
    "least-likely",
    ("mx.argpartition(-scores,", "mx.argpartition(scores,"),
    fact="the experts with the lowest scores are chosen",
    question="At which end of argpartition's result are the largest numbers?",
)
known.change(
    "partitioned-one-too-far",
    ("kth=top_k - 1", "kth=top_k"),
    fact="kth is top_k, which is out of range if all experts are chosen",
    question="With six experts and top_k 6, what is the largest valid kth?",
)
known.change(
    "scores-as-weights",
    ("mx.take_along_axis(probabilities,", "mx.take_along_axis(scores,"),
    fact="the softmax is missing, and the weights are the scores",
    question="Can a score be below zero? And a weight?",
)
known.change(
    "sigmoid",
    ("softmax(scores, axis=-1)", "mx.sigmoid(scores)"),
    fact="each score goes through a sigmoid, as in some other models, instead of a softmax over all experts",
    question="Before any expert is chosen, do all experts' weights sum to one?",
)
known.change(
    "softmax-over-tokens",
    ("softmax(scores, axis=-1)", "softmax(scores, axis=0)"),
    fact="the softmax runs over tokens instead of a token's experts",
    question="Which weights should sum to one: a token's, or an expert's?",
)
known.change(
    "normalized-over-all-tokens",
    ("mx.sum(weights, axis=-1, keepdims=True)", "mx.sum(weights)"),
    fact="the weights are divided by their sum over all tokens instead of each token's own",
    question="Two tokens come, and the weights are normalized. Which of the four should sum to one?",
)
known.change(
    "weights-sorted-alone",
    ("mx.take_along_axis(probabilities, indices, axis=-1)", "mx.sort(probabilities, axis=-1)[..., -top_k:]"),
    fact="the weights are sorted by themselves, so they are not in the order of the indices",
    question="Which of a token's weights belongs to its first index?",
)
known.change(
    "in-the-input-dtype",
    (SCORES, "linear(x, gate)"),
    fact="the scores and their softmax are computed in x's dtype instead of float32",
    question="Which bfloat16 numbers are next to 4,096? Which of two scores between them is larger?",
)
known.change(
    "converted-after-the-product",
    (SCORES, "linear(x, gate).astype(mx.float32)"),
    fact="the scores are computed in x's dtype and only then converted to float32",
    question="Two scores become the same bfloat16 number. Can a later conversion to float32 separate them?",
)
known.change(
    "rounded-before-the-sum",
    (
        "mx.take_along_axis(probabilities, indices, axis=-1)",
        "mx.take_along_axis(probabilities, indices, axis=-1).astype(x.dtype)",
    ),
    fact="the probabilities are converted to x's dtype before they are divided by their sum",
    question="In which dtype is the sum of the chosen probabilities, and how often is each weight rounded?",
)
known.change(
    "float32-weights",
    ("weights.astype(x.dtype)", "weights"),
    fact="the weights are float32 although x is not",
    question="What should be the dtype of the weights?",
)
known.change(
    "weights-in-gate's-dtype",
    ("weights.astype(x.dtype)", "weights.astype(gate.dtype)"),
    fact="the weights are in gate's dtype instead of x's",
    question="x is float16 and gate float32. By which of the two do your weights get their dtype?",
)
known.change(
    "found-by-score",
    (
        "mx.argpartition(-scores, kth=top_k - 1, axis=-1)[..., :top_k]",
        "mx.argmax(scores[..., None, :] == mx.topk(scores, top_k, axis=-1)[..., None], axis=-1)",
    ),
    fact="an expert is found by its score, so a token has one of several equal experts more than once",
    question="Two of a token's experts have equal scores. Which index do you find for each?",
)
known.change(
    "not-transposed-when-square",
    (SCORES, "x.astype(mx.float32) @ (gate.T if gate.shape[0] != gate.shape[1] else gate).astype(mx.float32)"),
    fact="the gate is transposed only if the shapes would not match otherwise",
    question="With as many experts as features, both products have the same shape. Which one compares x with rows?",
)


@known.accepted("sorted, with a softmax of its own for each case")
def sorted_scores(x, gate, top_k, normalize):
    if top_k < 1 or top_k > len(gate):
        raise ValueError(f"top_k is {top_k}, and there are {len(gate)} experts")
    scores = mx.einsum("...e,xe->...x", x.astype(mx.float32), gate.astype(mx.float32))
    indices = mx.argsort(scores, axis=-1)[..., ::-1][..., :top_k]
    top = mx.take_along_axis(scores, indices, axis=-1)
    below = mx.logsumexp(top if normalize else scores, axis=-1, keepdims=True)
    return indices.astype(mx.int32), mx.exp(top - below).astype(x.dtype)


known.accepted_change(
    "chosen by their probabilities",
    (
        "mx.argpartition(-scores, kth=top_k - 1, axis=-1)[..., :top_k]",
        "mx.argsort(-probabilities, axis=-1)[..., :top_k]",
    ),
)
