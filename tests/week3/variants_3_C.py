"""Known programs of the open task of week 3: checks of the acceptance rule, good ones and bad ones."""

from collections import Counter

import mlx.core as mx
import numpy as np
from tests.week3.formulas_day6 import accept64, is_near
from tiny_llm_solution.speculative.acceptance import accept as ours

from tiny_llm_course.testkit.judging import check_verdicts
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.C")


@known.probe()
def programs_let_through(check):
    return check_verdicts(check, of="3.6.1")


known.not_timed("a check is run once for each change of a program")

COMPARED = "assert _found(accept, target, draft) == _due(target, draft)"
NOTHING_LEFT = "assert tuple(accept(*rows, [1], [0.9375, number])) == (0, token)"
WRONG_SIZES = "((two, two, 3), (mx.full((4, 4), 0.25), two, 3), (three, two, 2), (three, two, 4))"
WRONG_DRAFTS = "((1, 4), (3, 4), (2, 3))"
TAKEN = 'raise AssertionError(f"takes {target.shape}, {draft.shape} and {len(uniforms)} uniforms for {tokens} tokens")'


known.change(
    "looks-at-nothing",
    ("for target, draft in _models():", "return\nfor target, draft in _models():"),
    fact="never calls the rule",
    question="What does your check do with `accept`?",
)
known.change(
    "stops-everything",
    ("_due(target, draft), ", "{}, "),
    fact="fails every program, right or wrong",
    question="Has your check ever passed? Which program would show that it can?",
)


@known.wrong(
    "returns-what-it-finds",
    fact="returns the result of its comparison instead of raising",
    question="What happens to the value your check returns?",
)
def returns_what_it_finds(accept):
    target, draft = mx.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]), mx.array([[0.5, 0.25, 0.25]])
    found = [accept(target, draft, [0], [i / 4, 0.1]) for i in range(4)]
    return found == [(1, 0), (0, 2), (0, 2), (0, 2)]


known.change(
    "how-many-stand-only",
    (COMPARED, "count = lambda texts: [sum(s for t, s in texts.items() if len(t) == n) for n in (1, 2, 3)]\n"
     "assert count(_found(accept, target, draft)) == count(_due(target, draft))"),
    fact="checks the number of accepted tokens, never the next token",
    question="A rule returns two values. Which of them does your check look at?",
)  # fmt: skip
known.change(
    "first-token-only",
    (COMPARED, "first = lambda texts: [sum(s for t, s in texts.items() if t[0] == x) for x in range(4)]\n"
     "assert first(_found(accept, target, draft)) == first(_due(target, draft))"),
    fact="checks only how often each token comes first, accepted or resampled",
    question="A rule accepts nothing and samples from the target. How often does each token come first?",
)  # fmt: skip
known.change(
    "one-drafted-only",
    (COMPARED, f"if len(draft) < 2:\n    {COMPARED}"),
    fact="uses drafts of at most one token when it counts",
    question="Which mistakes need a second draft token?",
)
known.change(
    "one-token-left",
    (COMPARED, f"if len(draft) == 2:\n    {COMPARED}"),
    fact="uses only rejections whose residual has a single token",
    question="An unnormalized residual has one token left. Does sample_from care?",
)
known.change(
    "between-the-edges",
    ("judging, last = [i / steps for", "judging, last = [(i + 0.5) / steps for"),
    fact="uses no uniform sample that equals p / q",
    question="If u equals p / q, is the token accepted? And if u and p are both 0?",
)
known.change(
    "something-is-left",
    (NOTHING_LEFT, "assert rows"),
    fact="has no rejection after which the residual max(p - q, 0) is empty",
    question="If q exceeds p only through rounding, what is the sum of the residual?",
)
known.change(
    "nothing-to-refuse",
    (TAKEN, "pass"),
    fact="does not check that wrong sizes raise",
    question="Which errors does the docstring promise?",
)
known.change(
    "rows-of-the-target-not-refused",
    (WRONG_SIZES, "((three, two, 2), (three, two, 4))"),
    fact="tries wrong numbers of uniform samples and wrong drafts, but never a wrong number of target rows",
    question="Which sizes must match, and which of them do you get wrong on purpose?",
)
known.change(
    "draws-not-refused",
    (WRONG_SIZES, "((two, two, 3), (mx.full((4, 4), 0.25), two, 3))"),
    fact="tries wrong rows, but never a wrong number of uniform samples",
    question="Which sizes must match, and which of them do you get wrong on purpose?",
)
known.change(
    "drafts-not-refused",
    (WRONG_DRAFTS, "()"),
    fact="tries wrong numbers of target rows and of uniform samples, but never a wrong draft",
    question="Which sizes must match, and which of them do you get wrong on purpose?",
)
known.change(
    "any-error-will-do",
    ("except ValueError:", "except Exception:"),
    fact="takes any error for the ValueError that the docstring promises",
    question="A rule fails on wrong sizes with an IndexError. Does your check notice?",
)


@known.wrong(
    "one-number-for-all",
    fact="passes the same u for every uniform sample",
    question="If all uniform samples are equal, how would you see which one is used where?",
)
def one_number_for_all(accept):
    agrees_call_by_call(accept, lambda uniforms: [uniforms[0]] * len(uniforms))


@known.wrong(
    "greedy-only",
    fact="uses only one-hot rows, so the result does not depend on the uniform samples",
    question="If every row is certain, which uniform sample has any effect?",
)
def greedy_only(accept):
    eye = mx.eye(5)
    for target, stands in (([1, 2, 4], 2), ([3, 2, 4], 0), ([1, 3, 4], 1)):
        for number in (0.125, 0.875):
            result = accept(eye[mx.array(target)], eye[mx.array([1, 2])], [1, 2], [number] * 3)
            assert tuple(result) == (stands, target[stands])


@known.wrong(
    "of-one-mind-only",
    fact="uses equal target and draft probabilities, so no token is ever rejected",
    question="Which line of the rule runs only if the two models differ?",
)
def of_one_mind_only(accept):
    target, draft, draft_tokens, _ = drawn(1)
    target = mx.concatenate([draft, target[2:]])
    for i in range(16):
        result = accept(target, draft, draft_tokens, [0.9, 0.8, (i + 0.5) / 16])
        assert tuple(result) == ours(target, draft, draft_tokens, [0.9, 0.8, (i + 0.5) / 16])


@known.wrong(
    "too-wide",
    fact="uses a tolerance of 25 percent for every frequency",
    question="How often does your check sample, and how far off may a frequency be by chance?",
)
def too_wide(accept):
    frequencies(accept, texts=200, apart=0.25)


@known.wrong(
    "target-preferred",
    fact="requires that a token with p < q is never accepted",
    question="The draft gives a token 0.5, the target 0.4. Must it never be accepted?",
)
def target_preferred(accept):
    for seed in range(20):
        target, draft, draft_tokens, uniforms = drawn(seed)
        p, q = target[mx.arange(2), mx.array(draft_tokens)], draft[mx.arange(2), mx.array(draft_tokens)]
        likes = [*(p >= q).tolist(), False]
        assert accept(target, draft, draft_tokens, uniforms)[0] == likes.index(False)


def drawn(seed, count=2, vocab=5):
    """Draw two models' rows, the draft tokens, and uniform samples."""
    generator = np.random.default_rng(seed)
    target, draft = (generator.dirichlet(np.ones(vocab), rows).astype(np.float32) for rows in (count + 1, count))
    wide = [np.float64(row) / np.float64(row).sum() for row in draft]
    draft_tokens = [int(generator.choice(vocab, p=row)) for row in wide]
    return mx.array(target), mx.array(draft.reshape(count, vocab)), draft_tokens, generator.random(count + 1).tolist()


def frequencies(accept, texts, apart):
    """Compare the first token's frequencies, with uniform samples of a fixed seed."""
    generator = np.random.default_rng(5)
    target, draft = mx.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]), mx.array([[0.4, 0.3, 0.2, 0.1]])
    found = Counter()
    for token, *uniforms in zip(
        generator.choice(4, texts, p=[0.4, 0.3, 0.2, 0.1]), *generator.random((2, texts)), strict=True
    ):
        stands, then = accept(target, draft, [int(token)], [float(each) for each in uniforms])
        found[int(token) if stands else then] += 1
    assert all(abs(found[x] / texts - p) <= apart for x, p in enumerate((0.1, 0.2, 0.3, 0.4)))


def agrees_call_by_call(accept, changed=list):
    """Check against the formula, with random models, on the edges, with an empty residual, and with invalid sizes."""
    cases = [drawn(seed, seed % 4) for seed in range(60)]
    target, draft = mx.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]]), mx.array([[0.25, 0.5, 0.25]])
    cases += [(target, draft, [0], [0.0, 0.125]), (target, draft, [1], [0.5, 0.125])]
    target, draft = mx.array([[0.5, 0.5], [0.0, 1.0]]), mx.array([[0.5, 0.5625]])
    cases += [(target, draft, [1], [0.9375, number]) for number in (0.125, 0.875)]
    for target, draft, draft_tokens, uniforms in cases:
        uniforms = changed(uniforms)
        wide = [np.array(rows, np.float64) for rows in (target, draft)]
        if not (changed is not list and is_near(*wide, draft_tokens, uniforms)):
            assert tuple(accept(target, draft, draft_tokens, uniforms)) == accept64(*wide, draft_tokens, uniforms)
    target, draft, draft_tokens, uniforms = drawn(0)
    for case in (
        (target[:2], draft, draft_tokens, uniforms),
        (mx.concatenate([target, target]), draft, draft_tokens, uniforms),
        (target, draft[:1], draft_tokens, uniforms),
        (target, mx.concatenate([draft, draft]), draft_tokens, uniforms),
        (target, draft[:, :3], [0, 1], [0.0] * 3),
        (target, draft, draft_tokens, uniforms[:2]),
        (target, draft, draft_tokens, [*uniforms, 0.5]),
        (target[:2], draft, draft_tokens, uniforms[:2]),
        (target[:2], draft[:0], [], uniforms),
    ):
        try:
            accept(*case)
        except ValueError:
            continue
        raise AssertionError("taken")


@known.accepted("call-by-call-in-float64")
def call_by_call(accept):
    agrees_call_by_call(accept)
