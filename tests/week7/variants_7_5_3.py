"""Known programs of task 7.5.3, branches on a shared prefix."""

import mlx.core as mx
from tests.week7.branching import FAMILIES, STEM, FakeScheduler, pages
from tiny_llm_solution.agent.branches import Exploration
from tiny_llm_solution.serving.request import Chunk, Request
from tiny_llm_solution.serving.step import Step

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.5.3")


def explored(program, prompts, *, page=4, budget=1000, seqs=100, tokens=3, before=(), cached=(), lost=()):
    scheduler = FakeScheduler(Request, Chunk, Step, page, budget, seqs, lost)
    for prompt in cached:
        scheduler.cached |= pages(prompt, page)
    for prompt in before:
        scheduler.submit(Request(prompt, 6))
    found = program(scheduler, [Request(list(prompt), tokens, user="branch") for prompt in prompts], page)
    text = "\n".join([*scheduler.log, f"{found.steps} {found.prompt_tokens} {found.prefilled_tokens}"])
    return mx.array(list(text.encode()), dtype=mx.int32)


known.probe_table(
    **{f"family_{i}": lambda program, name=name: explored(program, FAMILIES[name]) for i, name in enumerate(FAMILIES)},
    **{
        f"budget_{budget}": lambda program, budget=budget: explored(program, FAMILIES["three branches"], budget=budget)
        for budget in (1, 5)
    },
    little=lambda program: explored(program, FAMILIES["branches of branches"], seqs=2),
    one_token=lambda program: explored(program, FAMILIES["three branches"], tokens=1),
    many_tokens=lambda program: explored(program, FAMILIES["three branches"], tokens=9),
    others=lambda program: explored(program, FAMILIES["three branches"], before=[[*STEM, 7], [8] * 9]),
    cached=lambda program: explored(program, FAMILIES["three branches"], cached=[STEM]),
    preempted=lambda program: explored(program, FAMILIES["three branches"], lost=(2,)),
)


@known.sized("60 branches of 300 tokens")
def sized(program):
    prompts = [[*range(300), i % 5, i] for i in range(60)]
    return lambda: explored(program, prompts, page=16)


known.change(
    "all-at-once",
    ("if all(count <= computed or other.finish_reason for other, count in shared):", "if True:"),
    fact="all requests are submitted at once",
    question="None of them has computed anything when they are admitted. What can each of them reuse?",
)
known.change(
    "one-by-one",
    ("count <= computed or other.finish_reason", "other.finish_reason"),
    fact="each request waits until the one before it has finished",
    question="The prefix is computed after the first step. What do the other branches wait for?",
)
known.change(
    "waits-for-the-whole-prompt",
    ("min(count, other.num_computed_tokens)", "count * (other.num_computed_tokens >= len(other.prompt))"),
    fact="a request waits until the other's whole prompt is computed",
    question="They share 3 pages of 40. When are these 3 computed?",
)
known.change(
    "waits-for-those-that-reuse",
    ("count <= computed or other.finish_reason", "count <= other.num_computed_tokens or other.finish_reason"),
    fact="a request also waits for one that was just submitted and reuses the same pages",
    question="The first branch has computed the prefix. Do the third and the second one depend on each other?",
)
known.change(
    "tokens-not-pages",
    ("return common // page_size * page_size", "return common"),
    fact="a request waits for shared tokens that do not fill a page",
    question="Which tokens of a page that is shared in part does a cache reuse?",
)
known.change(
    "last-token-too",
    ("zip(request.prompt[:-1], other.prompt, strict=False)", "zip(request.prompt, other.prompt, strict=False)"),
    ("min(len(request.prompt) - 1, len(other.prompt))", "min(len(request.prompt), len(other.prompt))"),
    fact="a request waits for a page that it cannot reuse, because it has its own last token",
    question="Why does a cache never reuse a prompt's last token?",
)
known.change(
    "only-the-first",
    ("for other in sent]", "for other in sent[:1]]"),
    fact="a request is compared with the first one alone",
    question="Two families of branches run. Whose prefix may still be missing?",
)
known.change(
    "one-a-step",
    ("waiting.remove(request)", "waiting.remove(request)\nbreak"),
    fact="at most one request is submitted before each step",
    question="The prefix is computed, and seven branches wait. In how many steps do they all run?",
)
known.change(
    "outputs-count",
    ("max(0, min(chunk.end, len(chunk.request.prompt)) - chunk.start)", "len(chunk.tokens)"),
    fact="decoded tokens count as prefilled",
    question="A chunk is at position 20 of a request with a prompt of 14 tokens. Is it prefill?",
)
known.change(
    "others-count",
    ("own = [chunk for chunk in step.chunks if chunk.request in sent]", "own = step.chunks"),
    fact="chunks of other requests in the scheduler are counted",
    question="Whose tokens are in a step's chunks?",
)
known.change(
    "removed-while-iterating",
    ("for request in list(waiting):", "for request in waiting:"),
    fact="requests are removed from the list that the loop iterates over, so the one after each is skipped",
    question="The first of three items is removed in its own iteration. Which item comes next?",
)
known.change(
    "first-alone-then-all-that-are-ready",
    (
        "for request in list(waiting):",
        "before = list(sent)\nfor request in list(waiting if steps else waiting[:1]):",
    ),
    ("for other in sent]", "for other in before]"),
    fact="the first request is submitted alone, and later all that are ready, without regard to each other",
    question="The first two prompts begin with different tokens. What does the second request wait for?",
)
known.change(
    "first-alone",
    ("for request in list(waiting):", "for request in list(waiting if steps else waiting[:1]):"),
    fact="no request but the first is submitted before the first step, even one that shares nothing with it",
    question="The first two prompts begin with different tokens. What does the second request wait for?",
)
known.change(
    "first-in-first-out",
    (
        "if all(count <= computed or other.finish_reason for other, count in shared):",
        "if not all(count <= computed or other.finish_reason for other, count in shared):\n    break\nif True:",
    ),
    fact="a request that waits holds back all requests after it",
    question="The second request waits for the first, and the third shares nothing with either. May it run?",
)
known.change(
    "whole-chunks-count",
    (
        "max(0, min(chunk.end, len(chunk.request.prompt)) - chunk.start)",
        "len(chunk.tokens) * (chunk.start < len(chunk.request.prompt))",
    ),
    fact="a chunk that starts in the prompt counts entirely, even its tokens of the output",
    question="A request was preempted after two new tokens. Which tokens does its next chunk contain?",
)


@known.accepted("by sets of pages")
def by_pages(scheduler, requests, page_size):
    def pages_of(tokens):
        return {tuple(tokens[:end]) for end in range(page_size, len(tokens) + 1, page_size)}

    wanted = {request: pages_of(request.prompt[:-1]) for request in requests}
    own = {request: pages_of(request.prompt) for request in requests}
    sent, queue, steps, computed = [], list(requests), 0, 0
    while queue or not all(request.finish_reason for request in sent):
        rest = []
        for request in queue:
            done = {page for other in sent for page in own[other] if len(page) <= other.num_computed_tokens}
            coming = set().union(*(own[other] for other in sent if not other.finish_reason))
            if wanted[request] & coming - done:
                rest.append(request)
            else:
                scheduler.submit(request)
                sent.append(request)
        queue = rest
        for chunk in scheduler.step().chunks:
            if chunk.request in wanted:
                computed += len(range(chunk.start, min(chunk.end, len(chunk.request.prompt))))
        steps += 1
    return Exploration(steps, sum(len(request.prompt) for request in requests), computed)
