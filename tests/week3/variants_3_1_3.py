"""Known programs of task 3.1.3, sampling by rows."""

import mlx.core as mx
from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p, penalize_repetition
from tiny_llm_solution.serving.request import Chunk, Request, SamplingParams
from tiny_llm_solution.serving.sampling import noise

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.3")

MANY = {"temp": 1.5, "top_k": 12, "top_p": 0.9, "min_p": 0.02}


def run(program, seed, *rows, dtype=mx.float32, size=29, shift=0.0):
    """Chosen tokens, -1 between, of rows: params, lengths of prompt and output, and whether it is scored."""
    chunks = []
    for number, (params, begun, written, scored) in enumerate(rows):
        prompt = [(3 * number + i) % size for i in range(begun)]
        one = Request(
            prompt, 99, SamplingParams(**params), output=[(5 * number + 2 * i) % size for i in range(written)]
        )
        one.read = max(0, one.length - 1 - number % 2)
        chunks.append(Chunk(one, one.read, one.tokens(one.read, one.length), int(scored)))
    mx.random.seed(seed)
    logits = normals(seed, dtype)(sum(chunk.scored for chunk in chunks), size, spread=2.0) + shift
    found = program(logits.astype(dtype), chunks)
    flat = [number for tokens in found for number in (*tokens, -1)]
    if any(type(number) is not int for number in flat):
        raise TypeError("a token is an int")
    return mx.array([len(found), *flat]), mx.random.uniform(shape=(2,))


@known.probe()
def rows_penalized(program):
    """The penalty is so large that a used token is never taken; the second row has none."""
    rows = [({"repetition_penalty": 50.0}, 8, 6, True), ({}, 8, 6, True), ({"repetition_penalty": 1.4}, 0, 14, True)]
    return tuple(each for seed in (5, 6, 7) for each in run(program, seed, *rows, size=17))


@known.probe()
def rows_penalized_and_drawn(program):
    """Most tokens are used: some rows draw of all that the penalty leaves, some of the two likeliest."""
    own = {"temp": 0.5, "repetition_penalty": 50.0}
    rows = [({**own, "top_k": 2 * (number % 2), "seed": number}, 8, 4, True) for number in range(6)]
    return tuple(each for seed in (20, 21) for each in run(program, seed, *rows, size=17))


@known.probe()
def rows_drawn(program):
    rows = [({"temp": 1.0, "seed": number}, 2, 3 + number, True) for number in range(6)]
    return run(program, 8, *rows)


@known.probe()
def rows_mixed(program):
    """Some draw, some do not, and each in its own way."""
    params = [
        {},
        {**MANY, "seed": 1},
        {"temp": 0.3, "seed": 2},
        {"top_k": 1},
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
    # The same seed and the same place: the same noise.
    alike=lambda program: run(program, 9, *[({"temp": 9.0, "seed": 5}, 2, 3, True)] * 6),
    # MLX's global state decides.
    unseeded=lambda program: run(program, 13, *[({"temp": 4.0}, 2, 3, True)] * 6),
)


@known.probe()
def rows_strict(program):
    """What is ruled out would be drawn often."""
    params = [
        {"temp": 8.0, name: value, "seed": seed}
        for seed in range(3)
        for name, value in [("top_k", 2), ("top_p", 0.1), ("min_p", 0.9)]
    ]
    return run(program, 14, *[(each, 3, 2, True) for each in params])


@known.probe(mx.float16)
def rows_half(program):
    """Numbers that float16 cannot tell apart once they are divided."""
    params = [{"temp": 0.9, "seed": seed} for seed in range(12)]
    return run(program, 15, *[(each, 3, 2, True) for each in params], dtype=mx.float16, size=3000, shift=30.0)


@known.sized("8 rows of 151,936 logits, none of which is drawn")
def sized(program):
    logits = normals(1)(8, 151936)
    chunks = [Chunk(Request([1], 9), 0, [1], 1) for _ in range(8)]
    return lambda: [program(logits, chunks) for _ in range(4)]


PENALIZED = "logits = penalized(logits.astype(mx.float32), rows)"

known.change(
    "dealt-to-the-first",
    (
        "return [[next(tokens)] if chunk.scored else [] for chunk in chunks]",
        "return [[token] for token in tokens] + [[] for chunk in chunks if not chunk.scored]",
    ),
    fact="the first chunks get the tokens, whoever was scored",
    question="The second of three chunks is within its prompt. Whose is the second row?",
)
known.change(
    "unscored-left-out",
    ("[[next(tokens)] if chunk.scored else [] for chunk in chunks]", "[[token] for token in tokens]"),
    ("return [[] for _ in chunks]", "return []"),
    fact="chunks that were not scored have no list at all",
    question="How many lists are there for five chunks, of which two are within their prompts?",
)
known.change(
    "nobody-nothing",
    ("return [[] for _ in chunks]", "return []"),
    fact="there are no lists at all where no chunk is scored",
    question="How many lists are there for two chunks within their prompts?",
)
known.change(
    "always-greedy",
    ("if any(each.temp for each in params):", "if False:"),
    fact="the likeliest token is taken, whatever temp says",
    question="What does a temp of 1 ask for?",
)
known.change(
    "all-draw",
    ("chosen = mx.where(mx.array([each.temp > 0 for each in params]), drawn, chosen)", "chosen = drawn"),
    fact="as soon as one row draws, all do",
    question="What should a row with temp 0 get, if its neighbour has temp 1?",
)
known.change(
    "all-or-nobody",
    ("if any(each.temp", "if all(each.temp"),
    fact="nobody draws as long as one row takes the likeliest token",
    question="What should a row with temp 1 get, if its neighbour has temp 0?",
)
known.change(
    "first-row-s-settings",
    ("filtered(logits, params)", "filtered(logits, params[:1] * len(params))"),
    fact="all rows are filtered by the settings of the first",
    question="Whose temp is the second row divided by?",
)
known.change(
    "not-filtered",
    ("filtered(logits, params) + ", "logits + "),
    fact="noise is added to the logits as they are, without temperature and filters",
    question="What does `filtered` do, and who calls it?",
)
known.change(
    "one-noise-for-all",
    ("noise(seeds, logits", "noise(seeds[:1], logits"),
    fact="all rows draw with the noise of the first",
    question="Whose seed does the second row draw with?",
)
known.change(
    "seed-alone",
    ("(request.params.seed, len(request.output))", "(request.params.seed, 0)"),
    fact="every draw of a request has the same number, so that its noise is the same for each token",
    question="A request draws its third token and its fourth. What is different in their keys?",
)
known.change(
    "place-in-the-text",
    ("len(request.output))", "request.length)"),
    fact="the prompt's tokens are counted in the number of a draw",
    question="Which draw is the first: that of the token behind the prompt, or one before?",
)
known.change(
    "place-by-read",
    ("len(request.output))", "request.read)"),
    fact="the number of a draw is how much of the request has been read before the step",
    question="A request is begun anew after three tokens. What does its `read` say when the fourth is drawn?",
)
known.change(
    "place-by-row",
    ("len(request.output)) for request in rows", "row) for row, request in enumerate(rows)"),
    fact="the number of a draw is the row",
    question="Does a request stand in the same row in every step?",
)
# The first row's number is 0, and so is that of all who draw with its noise.
known.together("one-noise-for-all", "place-by-row", makes="seed-alone")
known.change(
    "seed-ignored",
    ("(request.params.seed, len", "(None, len"),
    fact="seeds are not used",
    question="What makes the key of a draw?",
)
known.change(
    "none-is-zero",
    ("(request.params.seed, len", "(request.params.seed or 0, len"),
    fact="a request without a seed draws with the seed 0",
    question="Two requests without a seed and with the same prompt: should they get the same text?",
)
known.change(
    "zero-is-none",
    ("(request.params.seed, len", "(request.params.seed or None, len"),
    fact="a request with the seed 0 draws as if it had none",
    question="What is `0 or None` in Python?",
)
known.change(
    "no-penalty",
    ("penalized(logits.astype(mx.float32), rows)", "logits.astype(mx.float32)"),
    fact="nothing is done against repetition",
    question="Which of the given functions do you not use?",
)
known.change(
    "penalty-not-for-the-likeliest",
    (PENALIZED, f"plain = logits.astype(mx.float32)\n{PENALIZED}"),
    ("chosen = mx.argmax(logits, axis=-1)", "chosen = mx.argmax(plain, axis=-1)"),
    fact="only rows that draw are penalized, and not those that take the likeliest token",
    question="A request asks for temp 0 and for a penalty. Which of the two is done?",
)
known.change(
    "penalty-not-for-who-draws",
    (PENALIZED, f"plain = logits.astype(mx.float32)\n{PENALIZED}"),
    ("filtered(logits, params)", "filtered(plain, params)"),
    fact="only rows that take the likeliest token are penalized, and not those that draw",
    question="A request asks for temp 1 and for a penalty. Which of the two is done?",
)
known.change(
    "penalty-after-the-filters",
    (PENALIZED, f"plain = logits.astype(mx.float32)\n{PENALIZED}"),
    ("filtered(logits, params)", "penalized(filtered(plain, params), rows)"),
    fact="the penalty comes after temperature and filters, where a row draws",
    question="top_k is 2, and the two likeliest tokens are used already. Which two may be drawn?",
)
known.change(
    "penalty-for-all",
    (
        "logits = penalized(logits.astype(mx.float32), rows)",
        """
        first = [request for request in rows if request.params.repetition_penalty != 1][:1] * len(rows)
        logits = penalized(logits.astype(mx.float32), first or rows)
        """,
    ),
    fact="as soon as one request has a penalty, its penalty and its tokens are every row's",
    question="Whose tokens are made less likely in the second row?",
)


@known.accepted("row-by-row")
def row_by_row(logits, chunks):
    """With the filters of week 1, a row at a time."""
    found, row = [], 0
    for chunk in chunks:
        if not chunk.scored:
            found.append([])
            continue
        one, p = chunk.request, chunk.request.params
        own, row = logits[row : row + 1].astype(mx.float32), row + 1
        own = penalize_repetition(own, [one.prompt + one.output], p.repetition_penalty)
        if p.temp:
            own = own / p.temp
            own = keep_top_k(own, p.top_k) if p.top_k else own
            own = keep_min_p(keep_top_p(own, p.top_p), p.min_p)
            own = own + noise([(p.seed, len(one.output))], own.shape[1])
        found.append([int(mx.argmax(own))])
    return found
