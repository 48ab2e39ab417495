"""Known programs of task 3.2.1, chunked prefill."""

import mlx.core as mx
from tests.week3.chunking import requests_of, served
from tiny_llm_solution.serving.request import Chunk, Request, next_chunk

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.2.1")

WRITERS = [(5, 4, 8), (3, 1, 3), (2, 2, 3)]


def planned(program, specs, budget):
    """Of each chunk, by its request's number: where it starts, how many tokens it has, and how many are scored."""
    chunks = sorted(program(requests_of(Request, specs), budget), key=lambda chunk: chunk.request.number)
    rows = [(chunk.request.number, chunk.start, len(chunk.tokens), chunk.scored) for chunk in chunks]
    return mx.array(rows or [(-1, 0, 0, 0)]), mx.array([token for chunk in chunks for token in chunk.tokens] or [-1])


def run(program, lengths, most, budget, slots):
    """How many tokens each step reads, for at most 60 steps, and how many tokens each text has."""
    texts, steps = served(program, Request, [[3] * length for length in lengths], most, budget, slots, steps=60)
    return mx.array([sum(step.values()) for step in steps] or [-1]), mx.array([len(text) for text in texts])


@known.probe()
def chunked_refuses(program):
    found = []
    for budget in (0, -2):
        for specs in ([], WRITERS):
            try:
                found.append(len(program(requests_of(Request, specs), budget)))
            except ValueError:
                found.append(-1)
    return mx.array(found)


known.probe_table(
    prompts=lambda program: planned(program, [(10, 0, 0), (4, 0, 0), (7, 0, 0)], 16),
    long_prompt=lambda program: planned(program, [(40, 0, 0), (4, 0, 0)], 8),
    rest=lambda program: planned(program, [(10, 0, 6), (9, 0, 0)], 8),
    all_fits=lambda program: planned(program, [(5, 0, 0), (3, 0, 1), WRITERS[0]], 64),
    writers=lambda program: planned(program, WRITERS, 16),
    no_room_for_prompts=lambda program: planned(program, [*WRITERS, (9, 0, 0)], 3),
    writers_first=lambda program: planned(program, [(40, 0, 0), *WRITERS], 8),
    between=lambda program: planned(program, [(6, 0, 0), WRITERS[0], (40, 0, 3), WRITERS[1], (5, 0, 0)], 12),
    one_token_of_a_prompt=lambda program: planned(program, [(40, 0, 0), (1, 0, 0), (9, 0, 8), WRITERS[0]], 8),
    preempted=lambda program: planned(program, [WRITERS[0], (6, 5, 0), (6, 0, 0)], 8),
    more_writers=lambda program: planned(program, [(5, 4, 8), (3, 2, 4), (9, 0, 0), (2, 7, 8), (3, 2, 4)], 2),
    more_writers_of_equals=lambda program: planned(program, [(5, 3, 7), (3, 3, 5), (9, 3, 11)], 2),
    budget_of_one=lambda program: planned(program, [(5, 0, 0), WRITERS[0]], 1),
    nobody=lambda program: mx.array(len(program([], 4))),
    to_the_end=lambda program: run(program, (1, 30, 4, 9), (5, 2, 3, 3), 6, 3),
    to_the_end_by_one=lambda program: run(program, (3, 2), (2, 2), 1, 2),
)


@known.probe()
def chunked_caller(program):
    """The caller's list and requests, afterwards."""
    running = requests_of(Request, [WRITERS[0], (9, 0, 2), (4, 0, 0)])
    program(running, 8)
    return mx.array([[one.number, one.read, len(one.output)] for one in running])


known.not_timed("a loop over a few dozen requests")

WRITING = "[request for request in running if request.output and request.unread == 1]"
READING = "[request for request in running if request not in writing]"
TURNS = "sorted(writing, key=lambda request: len(request.output))[:budget]"
LEFT = "left = budget - len(chunks)"
COUNT = "count = min(request.unread, left)"
APPEND = "chunks.append(next_chunk(request, count))"
known.change(
    "writers-not-counted",
    (LEFT, "left = budget"),
    fact="the whole budget goes to prompts, and the tokens of those that write come on top",
    question="A budget of 8, and three requests write. How many tokens does your step read?",
)
known.change(
    "all-that-run-counted",
    (LEFT, "left = max(0, budget - len(running))"),
    fact="a token of the budget is put aside for every request that runs, also for those that read a prompt",
    question="Who reads the tokens that you put aside for a request that is not writing yet?",
)
known.change(
    "prompts-first",
    ("for request in turns]", "for request in turns[: max(0, budget - sum(request.unread for request in reading))]]"),
    fact="prompts are served first, and those that write get what is left",
    question="A prompt of 1,000 tokens comes. What do the people see whose texts are being written?",
)
known.change(
    "in-order-of-age",
    (WRITING, "[]"),
    fact="everybody is served in the order of age, whether it reads or writes",
    question="The oldest request reads a long prompt. What is left for those behind it that write?",
)
known.change(
    "youngest-first",
    ("for request in reading:", "for request in reversed(reading):"),
    fact="the youngest prompt is read first",
    question="Short prompts keep coming. When is the old, long one read?",
)
known.change(
    "shortest-first",
    ("for request in reading:", "for request in sorted(reading, key=lambda request: request.unread):"),
    fact="the prompt with the fewest unread tokens is read first, however old the others are",
    question="Short prompts keep coming. When is the old, long one read?",
)
known.change(
    "one-prompt-a-step",
    ("for request in reading:", "for request in reading[:1]:"),
    fact="a step reads of one prompt only, and what the budget has left is not used",
    question="The oldest prompt has two tokens left, and the budget eight. Who reads the other six?",
)
known.change(
    "whole-prompts-that-fit",
    (COUNT, "count = request.unread if request.unread <= left else 0"),
    fact="a prompt is read when it fits into what is left as a whole, and else not at all",
    question="When is a prompt read that is longer than the budget?",
)
known.change(
    "shared-alike",
    (COUNT, "count = min(request.unread, left, max(1, (budget - len(turns)) // len(reading)))"),
    fact="the prompts share what is left in equal parts",
    question="Two prompts of 40 tokens, and a budget of 8. When does the older one have its first token?",
)
known.change(
    "chunk-longer-than-unread",
    (COUNT, "count = left"),
    fact="the oldest prompt takes all that is left of the budget, also if it has fewer unread tokens",
    question="Three tokens of a prompt are unread, and eight are left of the budget. Where does your chunk end?",
)
known.change(
    "one-more",
    (COUNT, "count = min(request.unread, left + 1)"),
    fact="the last prompt gets one token more than the budget has left",
    question="Add up what the chunks of a step hold. Is it ever more than the budget?",
)
known.change(
    "left-not-lowered",
    ("left -= count", "pass"),
    fact="each prompt gets as much as the first one could have",
    question="After the first prompt has taken its part, how much is left for the second?",
)
known.change(
    "empty-chunks",
    ("if count:", "if True:"),
    fact="a request for which nothing is left gets a chunk without tokens",
    question="What does the model do with a chunk that holds no token?",
)
known.change(
    "always-scored",
    (APPEND, "chunks.append(Chunk(request, request.read, request.tokens(request.read, request.read + count), 1))"),
    fact="every piece of a prompt is scored, so that a token is written behind each of them",
    question="Half a prompt is read. Should the model say what follows that half?",
)
known.change(
    "never-scored",
    (APPEND, "chunks.append(Chunk(request, request.read, request.tokens(request.read, request.read + count), 0))"),
    fact="no piece of a prompt is scored, not even the last one",
    question="The last token of a prompt is read. Who asks what comes next?",
)
known.change(
    "scored-if-it-fits-at-once",
    (
        APPEND,
        "chunks.append(Chunk(request, request.read, request.tokens(request.read, request.read + count), "
        "int(count == len(request.prompt))))",
    ),
    fact="a prompt is scored only where one piece holds all of it",
    question="A prompt was read in three pieces. After which of them is the next token asked for?",
)
known.change(
    "from-the-beginning",
    (APPEND, "chunks.append(Chunk(request, 0, request.tokens(0, count), int(count == request.length)))"),
    fact="every piece begins at the first token of the prompt",
    question="Six tokens of a prompt were read a step ago. With which one does this step begin?",
)
known.change(
    "one-unread-is-writing",
    (WRITING, "[request for request in running if request.unread == 1]"),
    fact="a prompt with one unread token is taken for a request that writes, and goes before older prompts",
    question="What has a request that writes, and a prompt of one token has not?",
)
known.change(
    "output-is-writing",
    (WRITING, "[request for request in running if request.output]"),
    fact="whoever has output gets one token, also one that was preempted and reads all of its text again",
    question="A request has five tokens of output, and nothing of it is in memory. How many tokens are unread?",
)
known.change(
    "writers-over-the-budget",
    (TURNS, "writing"),
    (LEFT, "left = max(0, budget - len(chunks))"),
    fact="all that write get their token, also if these are more than the budget has",
    question="The budget is 2, and four requests write. How many tokens may your step read?",
)
known.change(
    "less-than-nothing-left",
    (TURNS, "sorted(writing, key=lambda request: len(request.output))"),
    fact="all that write get their token, and what is left, less than 0, is how many tokens a prompt gets",
    question="The budget is 2, and four requests write. What is left, and what does a prompt do with that?",
)
known.change(
    "oldest-writers-only",
    (TURNS, "writing[:budget]"),
    fact="it is always the oldest that write, where more of them would than the budget has tokens",
    question="The budget is 2, and four requests write. When does the fourth write its next token?",
)
known.change(
    "most-output-first",
    (TURNS, "sorted(writing, key=lambda request: -len(request.output))[:budget]"),
    fact="those with the most output write, where more of them would than the budget has tokens",
    question="Who has just had a token in that way: who is ahead, or who is behind? And in the next step?",
)
known.change(
    "no-writers-beside-prompts",
    (TURNS, "[] if reading else sorted(writing, key=lambda request: len(request.output))[:budget]"),
    fact="as long as there is a prompt to read, nobody writes",
    question="A prompt of 1,000 tokens comes. What do the people see whose texts are being written?",
)
known.change(
    "no-prompts-beside-writers",
    (READING, "[] if writing else [request for request in running if request not in writing]"),
    fact="as long as somebody writes, no prompt is read",
    question="Three requests write 500 tokens each. When has the fourth its first token?",
)
known.change(
    "no-budget-taken",
    ("if budget < 1:", "if False:"),
    fact="a budget of 0 is taken, and nobody is ever served",
    question="What does the docstring say of a budget that is less than 1?",
)
known.change(
    "zero-taken",
    ("if budget < 1:", "if budget < 0:"),
    fact="a budget of 0 is taken, and only one below 0 is refused",
    question="How far does a prompt come in a thousand steps of 0 tokens?",
)


@known.accepted("in-one-go")
def one_loop(running, budget):
    if budget <= 0:
        raise ValueError(f"budget {budget}")
    chunks, prompts, writers = [], [], []
    for place, request in enumerate(running):
        if len(request.output) > 0 and request.read == request.length - 1:
            writers.append((len(request.output), place))
        else:
            prompts.append(request)
    writers.sort()
    for _, place in writers[:budget]:
        request = running[place]
        chunks.append(Chunk(request, request.read, request.tokens(request.read, request.read + 1), 1))
    rest = budget - len(chunks)
    while rest and prompts:
        request = prompts.pop(0)
        take = request.unread if request.unread < rest else rest
        chunks.insert(0, next_chunk(request, take))
        rest -= take
    return chunks
