"""Known programs of task 5.6.5, groups of samples."""

import mlx.core as mx
from tests.week5.toy_engine import END, PROMPTS, ToyScheduler, table_of
from tiny_llm_solution.preferences.sampling import Completion
from tiny_llm_solution.serving.request import Request, SamplingParams
from tiny_llm_solution.serving.sampling import sample_rows

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.6.5")
LONGEST = 10


def run(program, seed, group_size=3, temp=1.0, max_tokens=6, end=0.5, dtype=mx.float32, prompts=PROMPTS, **options):
    """Return tokens and log-probabilities, padded, whether each has ended, and what the schedulers did."""
    table, made = table_of(seed, dtype, options.pop("spread", 1.5), end), []
    table = table.astype(options.pop("converted", dtype))

    def new_scheduler(sampler):
        made.append(ToyScheduler(table, sampler, **options))
        return made[-1]

    groups = program(new_scheduler, [list(p) for p in prompts], group_size, temp, max_tokens, {END}, 7)
    flat = [each for group in groups for each in group]
    tokens = mx.array([(each.tokens + [-1] * LONGEST)[:LONGEST] for each in flat])
    logs = mx.array([(list(each.logprobs) + [0.0] * LONGEST)[:LONGEST] for each in flat])
    ended = mx.array([each.ended for each in flat])
    return tokens, logs, ended, mx.array([len(made), max(each.most for each in made)])


known.probe_table(
    several=lambda program: run(program, 1),
    one_prompt=lambda program: run(program, 2, 4, prompts=PROMPTS[:1]),
    cool=lambda program: run(program, 3, temp=0.5),
    ends_soon=lambda program: run(program, 4, end=3.0),
    never_ends=lambda program: run(program, 5, end=-50.0),
    at_the_limit=lambda program: run(program, 7, 5, max_tokens=2, end=1.5),
    few_seats=lambda program: run(program, 8, seats=2),
    one_seat=lambda program: run(program, 12, seats=1),
    parts=lambda program: run(program, 9, part=2),
    small_parts=lambda program: run(program, 13, part=1, prompts=[[5, 9, 2], [1, 3]]),  # no logits in the first step
    equal_prompts=lambda program: run(program, 10, prompts=[[2, 4], [2, 4]]),
    refused=lambda program: refusals(
        lambda given: program(lambda sampler: ToyScheduler(table_of(1), sampler), PROMPTS, *given, 3, {END}, 0),
        [(3, 0.0), (3, -1.0), (0, 1.0)],
    ),
)


@known.probe()
def of_float16_logits(program):
    """Return whether the log-probabilities differ from those of the same logits in float32; how far, is rounding."""
    given = {"dtype": mx.float16, "spread": 30.0, "temp": 3.0}
    tokens, logs, *others = run(program, 11, **given)
    _, exact, *_ = run(program, 11, **given, converted=mx.float32)
    return tokens, mx.max(mx.abs(logs - exact)) > 1e-4, *others


known.not_timed("nearly all of the time is the engine's")


SEEDS = "range(seed + i * group_size, seed + (i + 1) * group_size)"
WIDE = "wide = logits.astype(mx.float32) / temp  # R x V"
TOKENS = "tokens, logprobs = [token for token, _ in recorded], [logprob for _, logprob in recorded]"
COMPLETION = 'Completion(request.prompt, tokens, logprobs, request.finish_reason == "stop")'
SUBMIT = (
    "for request in (request for group in groups for request in group):\n"
    "    recorded[request] = []\n"
    "    scheduler.submit(request)\n"
    "while scheduler.running or scheduler.waiting:\n"
    "    scheduler.step()"
)
known.change(
    "one-seed-for-all",
    (SEEDS, "[seed] * group_size"),
    fact="all completions have the same seed, so those of a group are copies",
    question="What are the advantages of eight equal completions?",
)
known.change(
    "seeds-of-the-group",
    (SEEDS, "range(seed, seed + group_size)"),
    fact="the seeds depend on the place in the group only, and are the same for every prompt",
    question="The same prompt occurs twice in a batch. Which completions does the second one get?",
)
known.change(
    "seeds-by-prompt",
    (SEEDS, "range(seed + i, seed + i + group_size)"),
    fact="the seeds of neighboring prompts overlap: prompt i starts at seed + i",
    question="Which seed has completion 1 of prompt 0? And completion 0 of prompt 1?",
)
known.change(
    "end-token-lost",
    (
        COMPLETION,
        'Completion(request.prompt, request.output, logprobs[: len(request.output)], request.finish_reason == "stop")',
    ),
    fact="the end token is not part of the completion",
    question="The scheduler does not append the end token to the output. How does the model learn to stop?",
)
known.change(
    "temperature-left-out",
    (WIDE, "wide = logits.astype(mx.float32)"),
    fact="the log-probabilities are those at a temperature of 1",
    question="Which logits, divided by what, did the sampler compare?",
)
known.change(
    "not-normalized",
    ("axis=-1).squeeze(-1) - mx.logsumexp(wide, axis=-1)", "axis=-1).squeeze(-1)"),
    fact="logits are recorded instead of log-probabilities",
    question="What does exp of all your recorded numbers of one row sum to?",
)
known.change(
    "likeliest-token",
    ("chosen = mx.take_along_axis(wide, labels[:, None], axis=-1).squeeze(-1)", "chosen = mx.max(wide, axis=-1)"),
    fact="the log-probability of the likeliest token is recorded, not that of the sampled one",
    question="At a temperature of 1, is the sampled token always the likeliest one?",
)
known.change(
    "in-the-model's-dtype",
    (WIDE, "wide = logits / temp"),
    fact="the log-probabilities are computed in the dtype of the logits",
    question="How many digits has a float16 near -30?",
)
known.change(
    "ended-if-short",
    (COMPLETION, COMPLETION.replace('request.finish_reason == "stop"', "len(tokens) < request.max_tokens")),
    fact="a completion whose end token is the last one it may have counts as cut off",
    question="max_tokens is 2, and the second token is the end token. Has the completion ended?",
)
known.change(
    "group-after-group",
    (
        SUBMIT,
        "for group in groups:\n"
        "    for request in group:\n"
        "        recorded[request] = []\n"
        "        scheduler.submit(request)\n"
        "    while scheduler.running or scheduler.waiting:\n"
        "        scheduler.step()",
    ),
    fact="the groups are sampled one after the other, not in one batch",
    question="How many requests does a step compute if the scheduler has the requests of one prompt only?",
)
known.change(
    "scheduler-for-each-group",
    ("scheduler = new_scheduler(sample)", "pass"),
    (
        SUBMIT,
        "for group in groups:\n"
        "    scheduler = new_scheduler(sample)\n"
        "    for request in group:\n"
        "        recorded[request] = []\n"
        "        scheduler.submit(request)\n"
        "    while scheduler.running or scheduler.waiting:\n"
        "        scheduler.step()",
    ),
    fact="each group is sampled by a scheduler of its own",
    question="Three prompts with eight completions each: how many requests does each of your steps compute?",
)
known.change(
    "waiting-forgotten",
    (
        "while scheduler.running or scheduler.waiting:\n    scheduler.step()",
        "scheduler.step()\nwhile scheduler.running:\n    scheduler.step()",
    ),
    fact="the loop ends as soon as no request runs, although some may wait",
    question="With one seat, what is running after the first request has ended?",
)
known.change(
    "temperature-not-checked",
    ("if not temp > 0:", "if False:"),
    fact="a temperature of 0 is not refused",
    question="At a temperature of 0, how do the completions of a group differ?",
)
known.change(
    "steps-without-logits",
    ("if rows:", "mx.logsumexp(logits, axis=-1, keepdims=True)\nif rows:"),
    fact="log-probabilities are also computed in a step without a row of logits, which raises an error",
    question="All chunks of a step are the middle of a prompt. What is the shape of the logits?",
)
known.change(
    "recorded-by-position",
    ("for (request, token), logprob in zip(rows, found, strict=True):",
     "for request, (_, token), logprob in zip(recorded, rows, found):"),
    fact="samples are recorded by their position in the batch instead of by request",
    question="The first request ends before the others. Whose is the first row of the next step?",
)  # fmt: skip
for name, loop, logprob in (
    ("row-for-every-chunk", "for chunk, new, logprob in zip(chunks, sampled, found):", "logprob"),
    ("row-for-every-chunk-by-index",
     "logs = wide - mx.logsumexp(wide, axis=-1, keepdims=True)\n"
     "for i, (chunk, new) in enumerate(zip(chunks, sampled, strict=True)):",
     "logs[i, new[0]].item()"),
):  # fmt: skip
    known.change(
        name,
        ("for (request, token), logprob in zip(rows, found, strict=True):", loop),
        ("recorded[request].append((token, logprob))",
         f"if new:\n    recorded[chunk.request].append((new[0], {logprob}))"),
        fact="a chunk in the middle of a prompt is taken to have a row of logits, so later chunks get other rows",
        question="Three chunks, and the second one is the middle of a prompt. How many rows of logits are there?",
    )  # fmt: skip


@known.accepted("with requests that remember")
def with_lists(new_scheduler, prompts, group_size, temp, max_tokens, eos_ids, seed):
    if temp <= 0 or group_size < 1:
        raise ValueError(f"temp {temp}, group_size {group_size}")
    logs, ends = {}, {}

    def sample(logits, chunks):
        found = sample_rows(logits, chunks)
        row = 0
        for chunk, new in zip(chunks, found, strict=True):
            if chunk.num_logits:
                scores = logits[row].astype(mx.float32) / temp
                number = id(chunk.request)
                logs.setdefault(number, []).append((scores[new[0]] - mx.logsumexp(scores)).item())
                if new[0] in eos_ids:
                    ends[number] = new
                row += 1
        return found

    engine, seeds = new_scheduler(sample), iter(range(seed, seed + len(prompts) * group_size))
    groups = [
        [Request(list(p), max_tokens, SamplingParams(temp, seed=next(seeds)), eos_ids) for _ in range(group_size)]
        for p in prompts
    ]
    for group in groups:
        for one in group:
            engine.submit(one)
    while engine.waiting or engine.running:
        engine.step()
    return [
        [Completion(one.prompt, one.output + ends.get(id(one), []), logs[id(one)], id(one) in ends) for one in group]
        for group in groups
    ]


known.accepted_change(
    "by indexing",
    (
        "chosen = mx.take_along_axis(wide, labels[:, None], axis=-1).squeeze(-1) - mx.logsumexp(wide, axis=-1)",
        "chosen = wide[mx.arange(len(rows)), labels] - mx.logsumexp(wide, axis=-1)",
    ),
)
