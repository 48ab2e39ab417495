"""Known programs of the open task of week 3: checks of the acceptance rule, good ones and bad ones."""

from collections import Counter

import mlx.core as mx
import numpy as np
from tests.week3.formulas_day6 import accept64, is_near
from tiny_llm_solution.speculative.acceptance import accept as ours

from tiny_llm_course.testkit.judging import let_through
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.C")


@known.probe()
def programs_let_through(check):
    return let_through(check, of="3.6.1")


known.not_timed("a check is run once for each change of a program")

COMPARED = "assert _found(accept, target, draft) == _due(target, draft)"
NOTHING_LEFT = "assert tuple(accept(*rows, [1], [0.9375, number])) == (0, token)"
WRONG_SIZES = "((two, two, 3), (mx.full((4, 4), 0.25), two, 3), (three, two, 2), (three, two, 4))"
WRONG_DRAFTS = "((1, 4), (3, 4), (2, 3))"
TAKEN = 'raise AssertionError(f"takes {target.shape}, {draft.shape} and {len(draws)} draws for two tokens")'


known.change(
    "looks-at-nothing",
    ("for target, draft in _models():", "return\nfor target, draft in _models():"),
    fact="never calls the rule",
    question="What does your check do with `accept`?",
)
known.change(
    "stops-everything",
    ("_due(target, draft), ", "{}, "),
    fact="stops every program, right or wrong",
    question="Has your check ever passed? Which program would show that it can?",
)


@known.wrong(
    "returns-what-it-finds",
    fact="compares, and returns whether the numbers agree",
    question="Who looks at what your check returns?",
)
def returns_what_it_finds(accept):
    target, draft = mx.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]), mx.array([[0.5, 0.25, 0.25]])
    found = [accept(target, draft, [0], [i / 4, 0.1]) for i in range(4)]
    return found == [(1, 0), (0, 2), (0, 2), (0, 2)]


known.change(
    "how-many-stand-only",
    (COMPARED, "count = lambda texts: [sum(s for t, s in texts.items() if len(t) == n) for n in (1, 2, 3)]\n"
     "assert count(_found(accept, target, draft)) == count(_due(target, draft))"),
    fact="counts how many tokens stand, and never looks at the one that comes next",
    question="A rule gives two things. Which of them does your check look at?",
)  # fmt: skip
known.change(
    "first-token-only",
    (COMPARED, "first = lambda texts: [sum(s for t, s in texts.items() if t[0] == x) for x in range(4)]\n"
     "assert first(_found(accept, target, draft)) == first(_due(target, draft))"),
    fact="counts how often each token comes first, whether it stood or came behind one that did not",
    question="A rule lets nothing stand, and draws of the target. How often does each token come?",
)  # fmt: skip
known.change(
    "one-drafted-only",
    (COMPARED, f"if len(draft) < 2:\n    {COMPARED}"),
    fact="drafts one token at most, where it counts",
    question="Which mistakes need a token behind another one?",
)
known.change(
    "one-token-left",
    (COMPARED, f"if len(draft) == 2:\n    {COMPARED}"),
    fact="refuses only where a single other token is left over",
    question="What is left over does not sum to 1. If it is one token, does pick mind?",
)
known.change(
    "between-the-edges",
    ("judging, last = [i / steps for", "judging, last = [(i + 0.5) / steps for"),
    fact="gives numbers that never are just p / q",
    question="Is p / q below p / q, and is 0 below 0?",
)
known.change(
    "something-is-left",
    (NOTHING_LEFT, "assert rows"),
    fact="knows no refusal after which nothing is left of p - q",
    question="Which number is p - q summed up to, where only rounding made q the larger one?",
)
known.change(
    "nothing-to-refuse",
    (TAKEN, "pass"),
    fact="is content when sizes are taken that must be refused",
    question="Which errors does the docstring promise?",
)
known.change(
    "rows-of-the-target-not-refused",
    (WRONG_SIZES, "((three, two, 2), (three, two, 4))"),
    fact="gives a wrong number of draws, and wrong drafts, and never a wrong number of the target's rows",
    question="Which sizes must agree with each other, and which of them do you make wrong?",
)
known.change(
    "draws-not-refused",
    (WRONG_SIZES, "((two, two, 3), (mx.full((4, 4), 0.25), two, 3))"),
    fact="gives wrong rows, and never a wrong number of draws",
    question="Which sizes must agree with each other, and which of them do you make wrong?",
)
known.change(
    "drafts-not-refused",
    (WRONG_DRAFTS, "()"),
    fact="gives a wrong number of the target's rows, and of draws, and never a wrong draft",
    question="Which sizes must agree with each other, and which of them do you make wrong?",
)


@known.wrong(
    "one-number-for-all",
    fact="gives one and the same number for everything that is drawn",
    question="If all numbers are equal, who sees which of them is used for what?",
)
def one_number_for_all(accept):
    agrees_call_by_call(accept, lambda draws: [draws[0]] * len(draws))


@known.wrong(
    "greedy-only",
    fact="gives rows with a single 1, with which nothing is left to chance",
    question="Where all is certain, which number that is drawn has any say?",
)
def greedy_only(accept):
    eye = mx.eye(5)
    for target, stands in (([1, 2, 4], 2), ([3, 2, 4], 0), ([1, 3, 4], 1)):
        for number in (0.125, 0.875):
            result = accept(eye[mx.array(target)], eye[mx.array([1, 2])], [1, 2], [number] * 3)
            assert tuple(result) == (stands, target[stands])


@known.wrong(
    "of-one-mind-only",
    fact="lets target and draft say the same, so that nothing is ever refused",
    question="Which line of the rule runs only where the two models differ?",
)
def of_one_mind_only(accept):
    target, draft, drafted, _ = drawn(1)
    target = mx.concatenate([draft, target[2:]])
    for i in range(16):
        result = accept(target, draft, drafted, [0.9, 0.8, (i + 0.5) / 16])
        assert tuple(result) == ours(target, draft, drafted, [0.9, 0.8, (i + 0.5) / 16])


@known.wrong(
    "too-wide",
    fact="allows every share to be a quarter off",
    question="How often does your check draw, and how far off may a share be by luck after that?",
)
def too_wide(accept):
    frequencies(accept, texts=200, apart=0.25)


@known.wrong(
    "target-preferred",
    fact="demands that what the target likes less than the draft never stands",
    question="The draft gives a token 0.5, the target 0.4. Must it never stand?",
)
def target_preferred(accept):
    for seed in range(20):
        target, draft, drafted, draws = drawn(seed)
        p, q = target[mx.arange(2), mx.array(drafted)], draft[mx.arange(2), mx.array(drafted)]
        likes = [*(p >= q).tolist(), False]
        assert accept(target, draft, drafted, draws)[0] == likes.index(False)


def drawn(seed, count=2, vocab=5):
    """Rows of two models, what the draft has drawn, and numbers."""
    generator = np.random.default_rng(seed)
    target, draft = (generator.dirichlet(np.ones(vocab), rows).astype(np.float32) for rows in (count + 1, count))
    wide = [np.float64(row) / np.float64(row).sum() for row in draft]
    drafted = [int(generator.choice(vocab, p=row)) for row in wide]
    return mx.array(target), mx.array(draft.reshape(count, vocab)), drafted, generator.random(count + 1).tolist()


def frequencies(accept, texts, apart):
    """How often the first token is what, with drawn numbers of a fixed seed."""
    generator = np.random.default_rng(5)
    target, draft = mx.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]), mx.array([[0.4, 0.3, 0.2, 0.1]])
    found = Counter()
    for token, *draws in zip(
        generator.choice(4, texts, p=[0.4, 0.3, 0.2, 0.1]), *generator.random((2, texts)), strict=True
    ):
        stands, then = accept(target, draft, [int(token)], [float(each) for each in draws])
        found[int(token) if stands else then] += 1
    assert all(abs(found[x] / texts - p) <= apart for x, p in enumerate((0.1, 0.2, 0.3, 0.4)))


def agrees_call_by_call(accept, changed=list):
    """Against the formula, with drawn models, on the edges, where nothing is left, and where it must refuse."""
    cases = [drawn(seed, seed % 4) for seed in range(60)]
    target, draft = mx.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]]), mx.array([[0.25, 0.5, 0.25]])
    cases += [(target, draft, [0], [0.0, 0.125]), (target, draft, [1], [0.5, 0.125])]
    target, draft = mx.array([[0.5, 0.5], [0.0, 1.0]]), mx.array([[0.5, 0.5625]])
    cases += [(target, draft, [1], [0.9375, number]) for number in (0.125, 0.875)]
    for target, draft, drafted, draws in cases:
        draws = changed(draws)
        wide = [np.array(rows, np.float64) for rows in (target, draft)]
        if not (changed is not list and is_near(*wide, drafted, draws)):
            assert tuple(accept(target, draft, drafted, draws)) == accept64(*wide, drafted, draws)
    target, draft, drafted, draws = drawn(0)
    for case in (
        (target[:2], draft, drafted, draws),
        (mx.concatenate([target, target]), draft, drafted, draws),
        (target, draft[:1], drafted, draws),
        (target, mx.concatenate([draft, draft]), drafted, draws),
        (target, draft[:, :3], [0, 1], [0.0] * 3),
        (target, draft, drafted, draws[:2]),
        (target, draft, drafted, [*draws, 0.5]),
    ):
        try:
            accept(*case)
        except ValueError:
            continue
        raise AssertionError("taken")


@known.accepted("call-by-call-in-float64")
def call_by_call(accept):
    agrees_call_by_call(accept)
