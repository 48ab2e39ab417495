"""Known programs of task 3.1.3, sampling by rows."""

import mlx.core as mx
from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p, penalize_repetition
from tiny_llm_solution.serving.request import Chunk, Request, SamplingParams
from tiny_llm_solution.serving.sampling import gumbel_noise

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.3")

MANY = {"temp": 1.5, "top_k": 12, "top_p": 0.9, "min_p": 0.02}


def run(program, seed, *rows, dtype=mx.float32, size=29, shift=0.0, state=None):
    """Return the chosen tokens, -1 between, of rows: params, prompt length, output length, has logits."""
    chunks = []
    for number, (params, begun, written, scored) in enumerate(rows):
        prompt = [(3 * number + i) % size for i in range(begun)]
        one = Request(
            prompt, 99, SamplingParams(**params), output=[(5 * number + 2 * i) % size for i in range(written)]
        )
        one.num_computed_tokens = max(0, one.num_tokens - 1 - number % 2)
        chunks.append(
            Chunk(one, one.num_computed_tokens, one.tokens(one.num_computed_tokens, one.num_tokens), int(scored))
        )
    mx.random.seed(seed if state is None else state)
    logits = normals(seed, dtype)(sum(chunk.num_logits for chunk in chunks), size, spread=2.0) + shift
    found = program(logits.astype(dtype), chunks)
    flat = [number for tokens in found for number in (*tokens, -1)]
    if any(type(number) is not int for number in flat):
        raise TypeError("a token is an int")
    return mx.array([len(found), *flat]), mx.random.uniform(shape=(2,))


@known.probe()
def rows_penalized(program):
    """The penalty is so large that a used token is never chosen; the second row has none."""
    rows = [({"repetition_penalty": 50.0}, 8, 6, True), ({}, 8, 6, True), ({"repetition_penalty": 1.4}, 0, 14, True)]
    return tuple(each for seed in (5, 6, 7) for each in run(program, seed, *rows, size=17))


@known.probe()
def rows_penalized_and_drawn(program):
    """Most tokens are used: some rows sample from all that the penalty leaves, some from the two likeliest."""
    own = {"temp": 0.5, "repetition_penalty": 50.0}
    rows = [({**own, "top_k": 2 * (number % 2), "seed": number}, 8, 4, True) for number in range(6)]
    return tuple(each for seed in (20, 21) for each in run(program, seed, *rows, size=17))


@known.probe()
def rows_mixed(program):
    """Some rows sample, some do not, each with its own settings."""
    params = [
        {"seed": 9},  # greedy rows may get noise, too
        {**MANY, "seed": 1},
        {"temp": 0.3, "seed": 2},
        {"top_k": 1, "seed": 4},
        {"temp": 5.0, "seed": 3},
        {"temp": 2.0, "top_k": 2, "seed": 7},
    ]
    return tuple(each for seed in (10, 11, 12) for each in run(program, seed, *[(each, 3, 2, True) for each in params]))


known.probe_table(
    greedy=lambda program: run(program, 1, ({}, 2, 0, True), ({}, 3, 4, True), ({}, 1, 1, True)),
    one=lambda program: run(program, 2, ({}, 2, 3, True)),
    some_unscored=lambda program: run(
        program, 3, ({}, 2, 0, True), ({}, 5, 0, False), ({}, 3, 4, True), ({}, 4, 0, False), ({}, 1, 1, True)
    ),
    none_scored=lambda program: run(program, 4, ({}, 2, 0, False), ({"temp": 1.0, "seed": 3}, 5, 0, False)),
    drawn=lambda program: run(program, 8, *[({"temp": 1.0, "seed": n}, 2, 3 + n, True) for n in range(6)]),
    # The same seed and the same index: the same noise.
    alike=lambda program: run(program, 9, *[({"temp": 9.0, "seed": 5}, 2, 3, True)] * 6),
)


@known.probe()
def unseeded(program):
    """MLX's global state is used, for each row in any order: another state gives other tokens."""
    rows = [({"temp": 4.0}, 2, 3, True)] * 6
    first, other = (run(program, 13, *rows, state=state)[0] for state in (13, 14))
    return mx.array([*first.shape, mx.array_equal(first, other).item()])


@known.probe()
def rows_strict(program):
    """Tokens that the filters exclude would be sampled often."""
    params = [
        {"temp": 8.0, name: value, "seed": seed}
        for seed in range(3)
        for name, value in [("top_k", 2), ("top_p", 0.1), ("min_p", 0.9)]
    ]
    return run(program, 14, *[(each, 3, 2, True) for each in params])


@known.probe(mx.float16)
def rows_half(program):
    """Numbers that float16 cannot distinguish once they are divided."""
    params = [{"temp": 0.9, "seed": seed} for seed in range(12)]
    return run(program, 15, *[(each, 3, 2, True) for each in params], dtype=mx.float16, size=3000, shift=30.0)


@known.probe(mx.float16)
def rows_penalized_half(program):
    """All tokens are penalized, after which float16 cannot distinguish some of the largest."""
    return run(program, 16, *[({"repetition_penalty": 1.1}, 999, 0, True)] * 60, dtype=mx.float16, size=999, shift=30.0)


@known.sized("8 greedy rows of 151,936 logits")
def sized(program):
    logits = normals(1)(8, 151936)
    chunks = [Chunk(Request([1], 9), 0, [1], 1) for _ in range(8)]
    return lambda: [program(logits, chunks) for _ in range(4)]


PENALIZED = "logits = apply_repetition_penalty(logits.astype(mx.float32), rows)"

known.change(
    "dealt-to-the-first",
    (
        "return [[next(tokens)] if chunk.num_logits else [] for chunk in chunks]",
        "return [[token] for token in tokens] + [[] for chunk in chunks if not chunk.num_logits]",
    ),
    fact="the tokens go to the first chunks, whichever chunks have logits",
    question="The second of three chunks is in the middle of its prompt. Whose is the second row?",
)
for name, paired in (
    ("zipped-with-all-chunks", "[[token] if chunk.num_logits else [] for chunk, token in zip(chunks, tokens)]"),
    ("numbered-with-all-chunks", "[[found[i]] if chunk.num_logits else [] for i, chunk in enumerate(chunks)]"),
):
    known.change(
        name,
        ("[[next(tokens)] if chunk.num_logits else [] for chunk in chunks]", paired),
        fact="row i is paired with chunk i, as if every chunk had a row",
        question="The first of three chunks is in the middle of its prompt. Which row is the second chunk's?",
    )
known.change(
    "unscored-left-out",
    ("[[next(tokens)] if chunk.num_logits else [] for chunk in chunks]", "[[token] for token in tokens]"),
    ("return [[] for _ in chunks]", "return []"),
    fact="chunks without logits get no list",
    question="How many lists are there for five chunks, of which two are in the middle of their prompts?",
)
known.change(
    "unscored-left-out-beside-others",
    ("[[next(tokens)] if chunk.num_logits else [] for chunk in chunks]", "[[token] for token in tokens]"),
    fact="chunks without logits get no list if another chunk has some",
    question="How many lists are there for five chunks, of which two are in the middle of their prompts?",
)
known.change(
    "no-lists-without-logits",
    ("return [[] for _ in chunks]", "return []"),
    fact="the result has no lists when no chunk has logits",
    question="How many lists are there for two chunks in the middle of their prompts?",
)
known.change(
    "filtered-without-rows",
    ("if not rows:\n    return [[] for _ in chunks]\n", ""),
    (PENALIZED, f"{PENALIZED}\nfiltered = apply_filters(logits, params)"),
    ("apply_filters(logits, params) + gumbel", "filtered + gumbel"),
    fact="apply_filters is called even though no chunk has logits",
    question="All chunks of a step end within their prompts. What is the largest top_k of no requests?",
)
known.change(
    "always-greedy",
    ("if any(each.temp for each in params):", "if False:"),
    fact="every row is greedy, whatever temp says",
    question="What does a temp of 1 mean?",
)
known.change(
    "all-draw",
    ("chosen = mx.where(mx.array([each.temp > 0 for each in params]), drawn, chosen)", "chosen = drawn"),
    fact="all rows sample as soon as one does",
    question="What should a row with temp 0 get if its neighbor has temp 1?",
)
known.change(
    "one-greedy-all-greedy",
    ("if any(each.temp", "if all(each.temp"),
    fact="all rows are greedy as soon as one is",
    question="What should a row with temp 1 get if its neighbor has temp 0?",
)
known.change(
    "first-row-s-settings",
    ("apply_filters(logits, params)", "apply_filters(logits, params[:1] * len(params))"),
    fact="all rows use the first row's temperature and filters",
    question="By whose temp is the second row divided?",
)
known.change(
    "not-filtered",
    ("apply_filters(logits, params) + ", "logits + "),
    fact="noise is added to the raw logits, without temperature and filters",
    question="What does apply_filters do, and where is it called?",
)
known.change(
    "noise-times-temp",
    (
        "apply_filters(logits, params) + gumbel_noise(seeds, logits.shape[-1])",
        "apply_filters(logits, params) + mx.array([[each.temp] for each in params]) * "
        "gumbel_noise(seeds, logits.shape[-1])",
    ),
    fact="the noise is multiplied by temp although apply_filters has divided the logits by it",
    question="A temp of 4 divides the logits by 4. By how much does your noise then outweigh them?",
)
known.change(
    "one-noise-for-all",
    ("gumbel_noise(seeds, logits", "gumbel_noise(seeds[:1], logits"),
    fact="all rows use the first row's noise",
    question="Whose seed does the second row use?",
)
known.change(
    "seed-alone",
    ("(request.params.seed, len(request.output))", "(request.params.seed, 0)"),
    fact="every token of a request uses the same sample index, so its noise never changes",
    question="A request samples its third token and its fourth. How do their keys differ?",
)
known.change(
    "place-in-the-text",
    ("len(request.output))", "request.num_tokens)"),
    fact="the sample index also counts the prompt's tokens",
    question="What is the index of the first token after the prompt?",
)
known.change(
    "place-by-read",
    ("len(request.output))", "request.num_computed_tokens)"),
    fact="the sample index is the number of tokens computed before the step",
    question="A request is preempted after three tokens. What is num_computed_tokens when it samples the fourth?",
)
known.change(
    "place-by-row",
    ("len(request.output)) for request in rows", "row) for row, request in enumerate(rows)"),
    fact="the sample index is the row",
    question="Is a request in the same row in every step?",
)
# The first row's index is 0, and so is that of every row that uses its noise.
known.together("one-noise-for-all", "place-by-row", makes="seed-alone")
known.change(
    "seed-ignored",
    ("(request.params.seed, len", "(None, len"),
    fact="seeds are ignored",
    question="What is the random key made of?",
)
known.change(
    "none-is-zero",
    ("(request.params.seed, len", "(request.params.seed or 0, len"),
    fact="a request without a seed uses seed 0",
    question="Two requests have no seed and the same prompt. Should they get the same text?",
)
known.change(
    "zero-is-none",
    ("(request.params.seed, len", "(request.params.seed or None, len"),
    fact="seed 0 counts as no seed",
    question="What is `0 or None` in Python?",
)
known.change(
    "no-penalty",
    ("apply_repetition_penalty(logits.astype(mx.float32), rows)", "logits.astype(mx.float32)"),
    fact="the repetition penalty is missing",
    question="Which of the given functions do you not use?",
)
known.change(
    "penalty-in-half",
    (PENALIZED, f"half = logits.dtype\n{PENALIZED}.astype(half).astype(mx.float32)"),
    fact="the repetition penalty is computed in the logits' dtype, and only the result is converted to float32",
    question="What is 10 / 1.1 in float16, and is a logit of 9.09375 larger?",
)
known.change(
    "penalty-not-for-the-likeliest",
    (PENALIZED, f"plain = logits.astype(mx.float32)\n{PENALIZED}"),
    ("chosen = mx.argmax(logits, axis=-1)", "chosen = mx.argmax(plain, axis=-1)"),
    fact="greedy rows get no repetition penalty",
    question="A request has temp 0 and a penalty. Which of the two applies?",
)
known.change(
    "penalty-not-for-who-draws",
    (PENALIZED, f"plain = logits.astype(mx.float32)\n{PENALIZED}"),
    ("apply_filters(logits, params)", "apply_filters(plain, params)"),
    fact="sampled rows get no repetition penalty",
    question="A request has temp 1 and a penalty. Which of the two applies?",
)
known.change(
    "penalty-after-the-filters",
    (PENALIZED, f"plain = logits.astype(mx.float32)\n{PENALIZED}"),
    ("apply_filters(logits, params)", "apply_repetition_penalty(apply_filters(plain, params), rows)"),
    fact="sampled rows get the penalty after temperature and filters",
    question="top_k is 2, and the two likeliest tokens were used already. Which two may be sampled?",
)
known.change(
    "penalty-for-all",
    (
        "logits = apply_repetition_penalty(logits.astype(mx.float32), rows)",
        """
        first = [request for request in rows if request.params.repetition_penalty != 1][:1] * len(rows)
        logits = apply_repetition_penalty(logits.astype(mx.float32), first or rows)
        """,
    ),
    fact="one request's penalty and tokens apply to every row",
    question="Whose tokens are penalized in the second row?",
)


@known.accepted("row-by-row")
def row_by_row(logits, chunks):
    """With the filters of week 1, one row at a time."""
    found, row = [], 0
    for chunk in chunks:
        if not chunk.num_logits:
            found.append([])
            continue
        one, p = chunk.request, chunk.request.params
        own, row = logits[row : row + 1].astype(mx.float32), row + 1
        own = penalize_repetition(own, [one.prompt + one.output], p.repetition_penalty)
        if p.temp:
            own = own / p.temp
            own = keep_top_k(own, p.top_k) if p.top_k else own
            own = keep_min_p(keep_top_p(own, p.top_p), p.min_p)
            own = own + gumbel_noise([(p.seed, len(one.output))], own.shape[1])
        found.append([int(mx.argmax(own))])
    return found
