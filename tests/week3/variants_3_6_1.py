"""Known programs of task 3.6.1, the acceptance rule."""

import mlx.core as mx
import numpy as np
from tests.week3.formulas_day6 import is_near
from tiny_llm_solution.speculative.chances import pick

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.1")


def drawn(seed, count, vocab, spread=1.0):
    """Probabilities of two models, what the draft has drawn, and numbers that no rounding can push over an edge."""
    generator = np.random.default_rng(seed)
    while True:
        logits = generator.standard_normal((2 * count + 1, vocab)) * spread
        rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        target, draft = np.float32(rows[: count + 1]), np.float32(rows[count + 1 :])
        drafted = [int(generator.choice(vocab, p=np.float64(row) / np.float64(row).sum())) for row in draft]
        draws = generator.random(count + 1).tolist()
        if not is_near(np.float64(target), np.float64(draft), drafted, draws):
            return mx.array(target), mx.array(draft.reshape(count, vocab)), drafted, draws


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
    """The same rows in both, but for the last one."""
    cases = []
    for seed in range(300, 306):
        target, draft, drafted, draws = drawn(seed, 3, 6)
        cases.append((mx.concatenate([draft, target[3:]]), draft, drafted, [*draws[:3], 0.37 + 0.1 * (seed % 6)]))
    return judged(program, *cases)


@known.probe()
def accept_refused_at_once(program):
    """The first token is impossible; the others would stand."""
    target, draft = mx.array([row(0, 5, 3, 2)] * 3), mx.array([row(4, 2, 2, 2), row(1, 3, 3, 3)])
    return judged(program, *((target, draft, [0, 1], [0.1, 0.05, draw]) for draw in (0.05, 0.4, 0.7, 0.9)))


@known.probe()
def accept_certain_draft(program):
    """As of an n-gram: the draft's rows have a single 1."""
    target, draft = mx.array([row(3, 5, 2), row(6, 1, 3), row(1, 1, 8)]), mx.eye(3)[mx.array([1, 0])]
    numbers = [(0.1, 0.2), (0.4, 0.7), (0.6, 0.2), (0.2, 0.5), (0.45, 0.55)]
    draws = [[*pair, draw] for pair in numbers for draw in (0.15, 0.5, 0.85)]
    return judged(program, *((target, draft, [1, 0], each) for each in draws))


@known.probe()
def accept_greedy(program):
    """Both are certain: the draft is right twice, or wrong at once, or in the end."""
    eye = mx.eye(5)
    found = []
    for target in ([1, 2, 4], [3, 2, 4], [1, 3, 4]):
        found.append((eye[mx.array(target)], eye[mx.array([1, 2])], [1, 2], [0.5, 0.6, 0.7]))
    return judged(program, *found)


@known.probe()
def accept_nothing_left(program):
    """What is refused by rounding alone leaves nothing over."""
    target, draft = mx.array([row(4, 5, 1), row(2, 2, 6)]), mx.array([row(4, 6, 1)])
    return judged(program, *((target, draft, [1], [0.95, draw]) for draw in (0.2, 0.6, 0.97)))


@known.probe()
def accept_edges(program):
    """Numbers on the edge itself: 0, and just what p / q is."""
    target, draft = mx.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]]), mx.array([[0.25, 0.5, 0.25]])
    cases = [([0], [0.0, 0.5]), ([1], [0.5, 0.5]), ([1], [0.0, 0.0]), ([2], [0.999, 0.0]), ([2], [0.5, 0.5])]
    return judged(program, *((target, draft, *case) for case in cases))


@known.probe()
def accept_refusals(program):
    target, draft, drafted, draws = drawn(400, 2, 4)
    found = []
    for case in (
        (target[:2], draft, drafted, draws),
        (target, draft[:1], drafted, draws),
        (target, draft, drafted, draws[:2]),
        (target, draft, drafted, [*draws, 0.5]),
        (target, draft[:, :3], [0, 1], [0.0, 0.0, 0.5]),
        (target, draft, drafted[:1], draws),
    ):
        try:
            program(*case)
            found.append(0)
        except ValueError:
            found.append(1)
        except Exception:
            found.append(2)
    return mx.array(found)


@known.sized("four tokens drafted, all of which stand, V 32,768")
def sized(program):
    rows = mx.softmax(mx.random.normal((5, 32768), key=mx.random.key(1)), axis=-1)
    draft, drafted = rows[:4], [5, 70, 900, 12000]
    draws = [0.5, 0.5, 0.5, 0.5, 0.9]
    mx.eval(rows, draft)

    def run():
        for _ in range(20):
            program(rows, draft, drafted, draws)

    return run


RULE = "draws[accepted] * q[accepted] < p[accepted]"

known.change(
    "only-what-the-target-prefers",
    (RULE, "q[accepted] <= p[accepted]"),
    fact="a token stands only if the target gives it at least as much as the draft, and no number is drawn",
    question="The draft gives a token 0.5, the target 0.4. In how many of a hundred such cases should it stand?",
)
known.change(
    "nothing-stands",
    (RULE, "False"),
    ("if accepted < count:", "if False:"),
    fact="no token stands, and the next one is picked of the target's first row",
    question="What has a draft saved, if the target writes each token itself?",
)
known.change(
    "ratio-upside-down",
    (RULE, "draws[accepted] * p[accepted] < q[accepted]"),
    fact="a token stands if the number is below q / p",
    question="A token that the target finds impossible: what is your ratio for it?",
)
known.change(
    "target-alone",
    (RULE, "draws[accepted] < p[accepted]"),
    fact="a token stands if the number is below p, whatever the draft gave it",
    question="Target and draft agree, and both give a token 0.3. How often should it stand?",
)
known.change(
    "all-that-would-stand",
    ("while accepted < count and " + RULE + ":\n    accepted += 1",
     "accepted = sum(u * each < other for u, each, other in zip(draws, q, p))"),
    fact="all tokens that would stand are counted, also those behind one that was refused",
    question="The second token is refused, the third would stand. After which text was the third one drafted?",
)  # fmt: skip
known.change(
    "one-number-for-all",
    (RULE, "draws[0] * q[accepted] < p[accepted]"),
    fact="every token is judged with the first number",
    question="The first token stood because its number was small. What does that say of the second one's number?",
)
known.change(
    "number-used-twice",
    ("pick(row, draws[-1])", "pick(row, draws[accepted])"),
    fact="the next token is picked with the number by which the token before it was refused",
    question="A token is refused when its number is large. Which tokens does a large number pick?",
)
known.change(
    "number-of-the-first-for-the-next",
    ("pick(row, draws[-1])", "pick(row, draws[0])"),
    fact="the next token is picked with the first number",
    question="Which of the k + 1 numbers has judged nothing yet?",
)
known.change(
    "target-row-after-a-refusal",
    ("residual = mx.maximum(row - draft[accepted], 0)", "residual = row"),
    fact="after a refusal the next token is picked of the target's own row",
    question="A token that is drafted too often and refused sometimes: may it come in by the second door, too?",
)
known.change(
    "residual-not-normalised",
    ("row = residual / total if total > 0 else row", "row = residual if total > 0 else row"),
    fact="what is left of p - q is not made to sum to 1",
    question="The residual sums to 0.3, and the number is 0.8. Which token does pick find?",
)
known.change(
    "residual-without-the-floor",
    ("mx.maximum(row - draft[accepted], 0)", "mx.abs(row - draft[accepted])"),
    fact="after a refusal, what the draft has over the target counts, too: |p - q|",
    question="A token has been drafted more often than the target wants it. How much of it is still due?",
)
known.change(
    "residual-upside-down",
    ("row - draft[accepted]", "draft[accepted] - row"),
    fact="after a refusal the next token is picked of what the draft's row has over the target's",
    question="Which tokens has the draft proposed too seldom: those with p > q, or those with q > p?",
)
known.change(
    "refused-token-left-out",
    ("mx.maximum(row - draft[accepted], 0)", "mx.where(mx.arange(row.size) == drafted[accepted], 0, row)"),
    fact="after a refusal the next token is picked of the target's row without the refused token",
    question="The draft could have drawn other tokens in its place. How much of theirs is still due?",
)
known.change(
    "residual-of-the-row-before",
    ("row = target[accepted]  # V", "row = target[max(0, accepted - 1)]"),
    fact="the next token comes from the target's row one too far up",
    question="Two tokens stand. Which of the target's rows has read both of them?",
)
known.change(
    "last-row-but-one",
    ("row = target[accepted]  # V", "row = target[min(accepted, max(0, count - 1))]"),
    fact="the next token is picked of the row that judged the last one, if all stand",
    question="Two tokens were drafted, and both stand. Which row of the target comes after both?",
)
known.change(
    "rows-one-too-far",
    ("target[rows, tokens]", "target[rows + 1, tokens]"),
    fact="each token is judged by the target's row behind it",
    question="Row i of target comes after how many drafted tokens? And is token i among them?",
)
known.change(
    "residual-also-when-all-stand",
    ("if accepted < count:", "if count:"),
    ("row - draft[accepted]", "row - draft[min(accepted, count - 1)]"),
    fact="the draft's last row is taken off the target's last row, also where all tokens stand",
    question="If all tokens stand, what was drafted in the place behind them?",
)
known.change(
    "likeliest-next",
    ("pick(row, draws[-1])", "int(mx.argmax(row))"),
    fact="the next token is the likeliest one, and not drawn",
    question="With which probability should the second likeliest token come?",
)
known.change(
    "always-one-fewer",
    ("return accepted, pick", "return max(0, accepted - 1), pick"),
    fact="one token fewer is counted than stand",
    question="Three tokens stand. Which number do you return?",
)
known.change(
    "nothing-left-not-looked-at",
    ("row = residual / total if total > 0 else row", "row = residual / total"),
    fact="the residual is divided by its sum also where that is 0",
    question="What is 0 / 0, and which token does pick find in it?",
)
known.change(
    "equal-is-enough",
    (RULE, "draws[accepted] * q[accepted] <= p[accepted]"),
    fact="a token stands also where its number is just p / q",
    question="The target finds a token impossible, and the number is 0. Does it stand?",
)
known.change(
    "rows-not-counted",
    ("if target.shape[0] != count + 1 or len(draws) != count + 1:", "if len(draws) != count + 1:"),
    fact="another number of the target's rows is taken",
    question="Which row is the last one, if the target has two rows for two drafted tokens?",
)
known.change(
    "draws-not-counted",
    ("if target.shape[0] != count + 1 or len(draws) != count + 1:", "if target.shape[0] != count + 1:"),
    fact="too few numbers, or too many, are taken",
    question="With two drafted tokens and two numbers: which one is the next token's?",
)
known.change(
    "draft-rows-not-counted",
    ("if draft.shape != (count, target.shape[1]):", "if False:"),
    fact="a draft of another shape than k x V is taken",
    question="Whose probabilities are the rows of a draft, if there are fewer rows than tokens?",
)
known.change(
    "rows-alone-are-counted",
    ("if draft.shape != (count, target.shape[1]):", "if draft.shape[0] != count:"),
    fact="a draft with as many rows as it should have is taken, whatever its vocabulary",
    question="The draft model has 3 tokens, and the target 4. What do you take away from the fourth?",
)


@known.accepted("in numpy")
def in_numpy(target, draft, drafted, draws):
    p, q = np.array(target, np.float64), np.array(draft, np.float64)
    k = len(drafted)
    if p.shape[0] != k + 1 or len(draws) != k + 1:
        raise ValueError(f"{k} tokens, {p.shape[0]} rows, {len(draws)} draws")
    if q.shape != (k, p.shape[1]):
        raise ValueError(f"{q.shape}, expected {(k, p.shape[1])}")
    for i, (token, draw) in enumerate(zip(drafted, draws, strict=False)):
        if draw >= min(1.0, p[i, token] / q[i, token]):
            rest = np.where(p[i] > q[i], p[i] - q[i], 0)
            return i, pick(rest / rest.sum() if rest.any() else p[i], draws[k])
    return k, pick(p[k], draws[k])


@known.accepted("all ratios at once")
def all_ratios_at_once(target, draft, drafted, draws):
    k = len(drafted)
    if not (target.shape[0] == k + 1 == len(draws)) or draft.shape != (k, target.shape[1]):
        raise ValueError(f"{k} tokens, {k + 1} wanted: {target.shape}, {draft.shape}, {len(draws)}")
    if not k:
        return 0, pick(target[0], draws[0])
    at = mx.array(drafted)[:, None]
    ratios = mx.take_along_axis(target[:-1], at, axis=1) / mx.take_along_axis(draft, at, axis=1)  # k x 1
    stands = mx.cumprod((mx.array(draws[:-1]) < ratios[:, 0]).astype(mx.int32))
    accepted = int(mx.sum(stands))
    left = mx.concatenate([draft, mx.zeros((1, draft.shape[1]))])  # nothing was drafted behind the last one
    rest = mx.maximum(target - left, 0)[accepted]
    return accepted, pick(target[accepted] if not mx.any(rest > 0) else rest / mx.sum(rest), draws[-1])
