"""Known programs of task 3.6.1, the acceptance rule."""

import mlx.core as mx
import numpy as np
from tests.week3.formulas_day6 import is_near
from tiny_llm_solution.speculative.probabilities import sample_from

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.1")


def drawn(seed, count, vocab, spread=1.0):
    """Draw two models' rows, draft tokens, and uniform samples that no rounding can push over an edge."""
    generator = np.random.default_rng(seed)
    while True:
        logits = generator.standard_normal((2 * count + 1, vocab)) * spread
        rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        target, draft = np.float32(rows[: count + 1]), np.float32(rows[count + 1 :])
        draft_tokens = [int(generator.choice(vocab, p=np.float64(row) / np.float64(row).sum())) for row in draft]
        uniforms = generator.random(count + 1).tolist()
        if not is_near(np.float64(target), np.float64(draft), draft_tokens, uniforms):
            return mx.array(target), mx.array(draft.reshape(count, vocab)), draft_tokens, uniforms


def judged(program, *cases):
    return mx.array([program(*case) for case in cases])


def row(*numbers):
    return [each / 10 for each in numbers]


known.probe_table(
    many=lambda program: judged(program, *(drawn(seed, 1 + seed % 4, 6) for seed in range(24))),
    one=lambda program: judged(program, *(drawn(seed, 1, 5, 1.5) for seed in range(100, 116))),
    none_drafted=lambda program: judged(program, *(drawn(seed, 0, 6) for seed in range(200, 206))),
)


@known.probe()
def accept_all_stand(program):
    """The same rows in both, except for the last one."""
    cases = []
    for seed in range(300, 306):
        target, draft, draft_tokens, uniforms = drawn(seed, 3, 6)
        cases.append(
            (mx.concatenate([draft, target[3:]]), draft, draft_tokens, [*uniforms[:3], 0.37 + 0.1 * (seed % 6)])
        )
    return judged(program, *cases)


@known.probe()
def accept_refused_at_once(program):
    """The first token has p = 0; the others would be accepted."""
    target, draft = mx.array([row(0, 5, 3, 2)] * 3), mx.array([row(4, 2, 2, 2), row(1, 3, 3, 3)])
    return judged(program, *((target, draft, [0, 1], [0.1, 0.05, draw]) for draw in (0.05, 0.4, 0.7, 0.9)))


@known.probe()
def accept_certain_draft(program):
    """As from an n-gram drafter: the draft's rows are one-hot."""
    target, draft = mx.array([row(3, 5, 2), row(6, 1, 3), row(1, 1, 8)]), mx.eye(3)[mx.array([1, 0])]
    numbers = [(0.1, 0.2), (0.4, 0.7), (0.6, 0.2), (0.2, 0.5), (0.45, 0.55)]
    uniforms = [[*pair, draw] for pair in numbers for draw in (0.15, 0.5, 0.85)]
    return judged(program, *((target, draft, [1, 0], each) for each in uniforms))


@known.probe()
def accept_greedy(program):
    """Both are one-hot: the draft is right twice, or wrong at once, or at the end."""
    eye = mx.eye(5)
    found = []
    for target in ([1, 2, 4], [3, 2, 4], [1, 3, 4]):
        found.append((eye[mx.array(target)], eye[mx.array([1, 2])], [1, 2], [0.5, 0.6, 0.7]))
    return judged(program, *found)


@known.probe()
def accept_nothing_left(program):
    """A rejection due to rounding alone leaves no residual."""
    target, draft = mx.array([row(4, 5, 1), row(2, 2, 6)]), mx.array([row(4, 6, 1)])
    return judged(program, *((target, draft, [1], [0.95, draw]) for draw in (0.2, 0.6, 0.97)))


@known.probe()
def accept_edges(program):
    """Uniform samples on the edge: 0, and exactly p / q."""
    target, draft = mx.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]]), mx.array([[0.25, 0.5, 0.25]])
    cases = [([0], [0.0, 0.5]), ([1], [0.5, 0.5]), ([1], [0.0, 0.0]), ([2], [0.999, 0.0]), ([2], [0.5, 0.5])]
    return judged(program, *((target, draft, *case) for case in cases))


@known.probe()
def accept_refusals(program):
    target, draft, draft_tokens, uniforms = drawn(400, 2, 4)
    found = []
    for case in (
        (target[:2], draft, draft_tokens, uniforms),
        (target, draft[:1], draft_tokens, uniforms),
        (target, draft, draft_tokens, uniforms[:2]),
        (target, draft, draft_tokens, [*uniforms, 0.5]),
        (target, draft[:, :3], [0, 1], [0.0, 0.0, 0.5]),
        (target, draft, draft_tokens[:1], uniforms),
        (target[:2], draft, draft_tokens, uniforms[:2]),
        (target[:2], draft[:0], [], uniforms[:1]),
        (target[:1], draft[:0], [], uniforms[:2]),
        (target[:1], draft[:1], [], uniforms[:1]),
    ):
        try:
            program(*case)
            found.append(0)
        except ValueError:
            found.append(1)
        except Exception:
            found.append(2)
    return mx.array(found)


@known.sized("four tokens draft_tokens, all of which are accepted, V 32,768")
def sized(program):
    rows = mx.softmax(mx.random.normal((5, 32768), key=mx.random.key(1)), axis=-1)
    draft, draft_tokens = rows[:4], [5, 70, 900, 12000]
    uniforms = [0.5, 0.5, 0.5, 0.5, 0.9]
    mx.eval(rows, draft)

    def run():
        for _ in range(20):
            program(rows, draft, draft_tokens, uniforms)

    return run


RULE = "uniforms[accepted] * q[accepted] < p[accepted]"

known.change(
    "only-what-the-target-prefers",
    (RULE, "q[accepted] <= p[accepted]"),
    fact="a draft token is accepted only if p >= q, without any sampling",
    question="The draft gives a token 0.5, the target 0.4. In how many of a hundred such cases should it be accepted?",
)
known.change(
    "nothing-stands",
    (RULE, "False"),
    ("if accepted < count:", "if False:"),
    fact="every draft token is rejected, and the next token is sampled from the target's first row",
    question="What has the draft saved if the target samples every token itself?",
)
known.change(
    "ratio-upside-down",
    (RULE, "uniforms[accepted] * p[accepted] < q[accepted]"),
    fact="a draft token is accepted if u < q / p",
    question="The target gives a token probability 0. What is your ratio for it?",
)
known.change(
    "target-alone",
    (RULE, "uniforms[accepted] < p[accepted]"),
    fact="a draft token is accepted if u < p, whatever q is",
    question="Target and draft both give a token 0.3. How often should it be accepted?",
)
known.change(
    "all-that-would-stand",
    ("while accepted < count and " + RULE + ":\n    accepted += 1",
     "accepted = sum(u * each < other for u, each, other in zip(uniforms, q, p))"),
    fact="every token that passes its test is counted, including those after the first rejection",
    question="The second token is rejected, the third would pass. After which sequence was the third one drafted?",
)  # fmt: skip
known.change(
    "one-number-for-all",
    (RULE, "uniforms[0] * q[accepted] < p[accepted]"),
    fact="every draft token is tested with the first uniform sample",
    question="The first token was accepted because its u was small. What does that say about the second one's u?",
)
known.change(
    "number-used-twice",
    ("sample_from(row, uniforms[-1])", "sample_from(row, uniforms[accepted])"),
    fact="the next token is sampled with the u that rejected the token before it",
    question="A token is rejected when its u is large. Which tokens does a large u select?",
)
known.change(
    "number-of-the-first-for-the-next",
    ("sample_from(row, uniforms[-1])", "sample_from(row, uniforms[0])"),
    fact="the next token is sampled with the first uniform sample",
    question="Which of the k + 1 uniform samples has not been used yet?",
)
known.change(
    "target-row-after-a-refusal",
    ("residual = mx.maximum(row - draft[accepted], 0)", "residual = row"),
    fact="after a rejection the next token is sampled from the target's own row",
    question="A token is drafted too often and sometimes rejected. May it then be sampled as the replacement?",
)
known.change(
    "residual-not-normalized",
    ("row = residual / total if total > 0 else row", "row = residual if total > 0 else row"),
    fact="the residual max(p - q, 0) is not normalized to sum to 1",
    question="The residual sums to 0.3, and u is 0.8. Which token does sample_from return?",
)
known.change(
    "residual-without-the-floor",
    ("mx.maximum(row - draft[accepted], 0)", "mx.abs(row - draft[accepted])"),
    fact="after a rejection the residual is |p - q| instead of max(p - q, 0)",
    question="The draft proposes a token more often than the target wants it. How much of it is still due?",
)
known.change(
    "residual-upside-down",
    ("row - draft[accepted]", "draft[accepted] - row"),
    fact="after a rejection the residual is max(q - p, 0)",
    question="Which tokens has the draft proposed too seldom: those with p > q, or those with q > p?",
)
known.change(
    "refused-token-left-out",
    ("mx.maximum(row - draft[accepted], 0)", "mx.where(mx.arange(row.size) == draft_tokens[accepted], 0, row)"),
    fact="after a rejection the next token is sampled from the target's row without the rejected token",
    question="The draft could have sampled other tokens instead. How much of their probability is still due?",
)
known.change(
    "residual-of-the-row-before",
    ("row = target[accepted]  # V", "row = target[max(0, accepted - 1)]"),
    fact="the next token is sampled from the target's row one too early",
    question="Two tokens are accepted. Which of the target's rows is conditioned on both?",
)
known.change(
    "last-row-but-one",
    ("row = target[accepted]  # V", "row = target[min(accepted, max(0, count - 1))]"),
    fact="the next token is sampled from the row that tested the last one when all are accepted",
    question="Two tokens were drafted and accepted. Which row of the target follows both?",
)
known.change(
    "rows-one-too-far",
    ("target[rows, tokens]", "target[rows + 1, tokens]"),
    fact="each draft token is tested with the target's row after its own",
    question="How many draft tokens precede the target's row i? Is token i among them?",
)
known.change(
    "residual-also-when-all-stand",
    ("if accepted < count:", "if count:"),
    ("row - draft[accepted]", "row - draft[min(accepted, count - 1)]"),
    fact="the draft's last row is subtracted from the target's last row even if all tokens are accepted",
    question="If all tokens are accepted, what was drafted for the position after them?",
)
known.change(
    "likeliest-next",
    ("sample_from(row, uniforms[-1])", "int(mx.argmax(row))"),
    fact="the next token is the argmax instead of a sample",
    question="With what probability should the second likeliest token come?",
)
known.change(
    "nothing-left-not-looked-at",
    ("row = residual / total if total > 0 else row", "row = residual / total"),
    fact="the residual is divided by its sum even if that is 0",
    question="What is 0 / 0, and which token does sample_from find in it?",
)
known.change(
    "equal-is-enough",
    (RULE, "uniforms[accepted] * q[accepted] <= p[accepted]"),
    fact="a draft token is also accepted if u equals p / q",
    question="The target gives a token probability 0, and u is 0. Is it accepted?",
)
known.change(
    "rows-not-counted",
    ("if target.shape[0] != count + 1 or len(uniforms) != count + 1:", "if len(uniforms) != count + 1:"),
    fact="a wrong number of target rows is accepted",
    question="The target has two rows for two draft tokens. Which one is the last row?",
)
known.change(
    "draws-not-counted",
    ("if target.shape[0] != count + 1 or len(uniforms) != count + 1:", "if target.shape[0] != count + 1:"),
    fact="a wrong number of uniform samples is accepted",
    question="With two draft tokens and two uniform samples: which one is for the next token?",
)
known.change(
    "draft-rows-not-counted",
    ("if draft.shape != (count, target.shape[1]):", "if False:"),
    fact="a draft whose shape is not k x V is accepted",
    question="If the draft has fewer rows than tokens, whose probabilities are they?",
)
known.change(
    "nothing-drafted-nothing-counted",
    (
        "count = len(draft_tokens)",
        "count = len(draft_tokens)\nif not count:\n    return 0, sample_from(target[0], uniforms[-1])",
    ),
    fact="no size is validated if there are no draft tokens",
    question="Nothing was drafted, and target has two rows. Which of them follows the sequence?",
)
known.change(
    "rows-and-draws-compared",
    ("if target.shape[0] != count + 1 or len(uniforms) != count + 1:", "if target.shape[0] != len(uniforms):"),
    fact="rows and uniform samples are compared with each other, and not with the number of draft tokens",
    question="With two draft tokens, two rows of the target and two samples, which row follows both tokens?",
)
known.change(
    "another-error",
    ('raise ValueError(f"{count} draft', 'raise AssertionError(f"{count} draft'),
    ('raise ValueError(f"the draft', 'raise AssertionError(f"the draft'),
    fact="wrong sizes raise an error other than ValueError",
    question="Which type of error does the docstring promise, and which one does `assert` raise?",
)
known.change(
    "rows-alone-are-counted",
    ("if draft.shape != (count, target.shape[1]):", "if draft.shape[0] != count:"),
    fact="a draft with k rows is accepted, whatever its vocabulary",
    question="The draft model has 3 tokens, and the target 4. What do you subtract from the fourth?",
)


@known.accepted("in numpy")
def in_numpy(target, draft, draft_tokens, uniforms):
    p, q = np.array(target, np.float64), np.array(draft, np.float64)
    k = len(draft_tokens)
    if p.shape[0] != k + 1 or len(uniforms) != k + 1:
        raise ValueError(f"{k + 1} expected: {p.shape[0]} rows, {len(uniforms)} uniforms")
    if q.shape != (k, p.shape[1]):
        raise ValueError(f"{q.shape}, expected {(k, p.shape[1])}")
    for i, (token, draw) in enumerate(zip(draft_tokens, uniforms, strict=False)):
        if draw >= min(1.0, p[i, token] / q[i, token]):
            rest = np.where(p[i] > q[i], p[i] - q[i], 0)
            return i, sample_from(rest / rest.sum() if rest.any() else p[i], uniforms[k])
    return k, sample_from(p[k], uniforms[k])


@known.accepted("all ratios at once")
def all_ratios_at_once(target, draft, draft_tokens, uniforms):
    k = len(draft_tokens)
    if not (target.shape[0] == k + 1 == len(uniforms)) or draft.shape != (k, target.shape[1]):
        raise ValueError(f"{k} tokens, {k + 1} expected: {target.shape}, {draft.shape}, {len(uniforms)}")
    if not k:
        return 0, sample_from(target[0], uniforms[0])
    at = mx.array(draft_tokens)[:, None]
    ratios = mx.take_along_axis(target[:-1], at, axis=1) / mx.take_along_axis(draft, at, axis=1)  # k x 1
    stands = mx.cumprod((mx.array(uniforms[:-1]) < ratios[:, 0]).astype(mx.int32))
    accepted = int(mx.sum(stands))
    left = mx.concatenate([draft, mx.zeros((1, draft.shape[1]))])  # nothing was drafted after the last one
    rest = mx.maximum(target - left, 0)[accepted]
    return accepted, sample_from(target[accepted] if not mx.any(rest > 0) else rest / mx.sum(rest), uniforms[-1])
