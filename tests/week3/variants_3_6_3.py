"""Known programs of task 3.6.3, a draft model."""

import mlx.core as mx
from tests.week3.speculating import Writers, random_logits, table
from tiny_llm_solution.serving.request import Chunk, Request, SamplingParams
from tiny_llm_solution.speculative.chances import DRAFTING, pick, probabilities, uniforms
from tiny_llm_solution.speculative.draft import DraftModel
from tiny_llm_solution.speculative.drafts import Draft

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.6.3")

VOCAB = 9
WARM = {"temp": 1.0, "seed": 5}


def drafted(program, prompts, settings, script, *, seed=1, room=None, keep=None):
    """The tokens of all drafts, their probabilities, what each call of the model had, and what memory has."""
    writers = Writers(
        program, Request, SamplingParams, prompts, settings, random_logits(seed, VOCAB), room=room, lenient=True
    )
    tokens, rows, counted = [], [mx.zeros((0, VOCAB))], []
    for number, (counts, stands) in enumerate(script):
        if number == keep:
            writers.drafter.keep(writers.requests[1:])
            counted.append(writers.memory.lengths)
        drafts = writers.draft(counts)
        for each in drafts:
            tokens.append([] if each is None else each.tokens)
            rows += [] if each is None or each.probabilities is None else [each.probabilities]
        counted.append([sum(writers.memory.promised.values()), *writers.memory.lengths])
        writers.write(drafts, stands, VOCAB)
    counted.append([request.read for request in writers.requests])
    counted.append([len(request.prompt) for request in writers.requests])
    return table(tokens, 5), mx.concatenate(rows), table(writers.model.calls, 4), table(counted, 4)


@known.probe()
def draft_sampled(program):
    settings = {"temp": 0.7, "top_k": 5, "top_p": 0.9, "seed": 8}
    return drafted(program, [[4, 2]], [settings], [([4], 2), ([4], 4), ([3], 0)], seed=2)


@known.probe()
def draft_penalised(program):
    settings = {"temp": 1.2, "repetition_penalty": 3.0, "min_p": 0.05, "seed": 3}
    return drafted(program, [[4, 2, 4]], [settings], [([5], 3), ([4], 4)], seed=3)


@known.probe()
def draft_three(program):
    """Three requests with settings of their own, and counts that differ."""
    prompts, settings = [[1, 2], [3, 4, 5, 6], [7]], [{}, WARM, {"temp": 0.5, "top_k": 3, "seed": 6}]
    script = [([2, 3, 1], 1), ([0, 2, 3], 2), ([None, 1, 2], 0), ([2, 2, 2], 1)]
    return drafted(program, prompts, settings, script, seed=4)


@known.probe()
def draft_asked_again(program):
    """Nothing is written between two drafts."""
    writers = Writers(program, Request, SamplingParams, [[1, 2, 3]], [WARM], random_logits(5, VOCAB), lenient=True)
    found = [writers.draft([count])[0].tokens for count in (3, 3, 1)]
    return table(found, 5), table(writers.model.calls, 2)


@known.probe()
def draft_of_what_is_found(program):
    """Memory has the first two tokens of each text already."""
    settings = [[1, 2, 3, 4], [5, 6]], [{}, WARM]
    writers = Writers(program, Request, SamplingParams, *settings, random_logits(7, VOCAB), lenient=True, found=2)
    found = [each.tokens for each in writers.draft([2, 3])]
    return table(found, 5), table(writers.model.calls, 2), mx.array(writers.memory.lengths)


known.probe_table(
    greedy=lambda program: drafted(
        program, [[1, 2, 3]], [{}], [([4], 0), ([0], 0), ([0], 0), ([3], 1), ([2], 2), ([1], 1)]
    ),
    let_go=lambda program: drafted(
        program, [[1, 2], [3, 4]], [{}, WARM], [([2, 2], 1), ([2, 2], 2), ([1, 2], 0)], seed=6, keep=1
    ),
    # There is room for the first request, and not for a long draft of the second, or for a third.
    little_room=lambda program: drafted(
        program, [[1, 2, 3], [4, 5], [6]], [{}, {}, {}], [([2, 9, 2], 1), ([2, 2, 1], 1)], seed=7, room=9
    ),
)


known.not_timed("the small model takes nearly all of the time")

known.change(
    "refused-tokens-kept",
    (" and own.prompt[right] == text[right]", ""),
    fact="memory keeps what it has of a draft, whether or not the text has taken it",
    question="`blue dog sat` was drafted, and `blue cat` was written. Which token does your memory have behind `blue`?",
)
known.change(
    "memory-not-shortened",
    ("if right < own.read:\n    self.memory.shorten(own, right)", "pass"),
    fact="memory is never shortened, and what was refused stays in front of the next tokens",
    question="You lower `read`. Who tells memory?",
)
known.change(
    "reads-all-anew",
    ("while right < min(own.read, len(text) - 1) and own.prompt[right] == text[right]:", "while False:"),
    fact="every draft begins by reading the whole text",
    question="How many of 500 tokens are new since the last draft?",
)
known.change(
    "found-and-read-anew",
    ("self._ours[request] = own", "own.read = 0\nself._ours[request] = own"),
    fact="what memory finds of a text that it lets in is read once more",
    question="A memory that remembers says in `read` what it has found. How much is left to read?",
)
known.change(
    "last-token-not-read-again",
    ("min(own.read, len(text) - 1)", "min(own.read, len(text))"),
    fact="the model is called with no token if all of the text has been read already",
    question="After which token do you want logits, and which token must be in the call for that?",
)
known.change(
    "probabilities-before-the-filters",
    ("for i, chunk, row in zip(writing, chunks, found, strict=True):",
     "for i, chunk, row, plain in zip(writing, chunks, found, mx.softmax(logits, axis=-1), strict=True):"),
    ("rows[i].append(row)", "rows[i].append(plain)"),
    fact="the probabilities in the draft are those before temperature and filters",
    question="With which probability was the token drawn that top-k left alone in its row?",
)  # fmt: skip
known.change(
    "temperature-alone",
    (
        "[requests[i].params for i in writing]",
        "[type(requests[i].params)(temp=requests[i].params.temp) for i in writing]",
    ),
    fact="the request's temperature is used, and none of its filters",
    question="Which of the request's params does the large model choose with?",
)
known.change(
    "likeliest-always",
    ("pick(row, draw)", "int(mx.argmax(row))"),
    fact="the likeliest token is drafted, while the probabilities say that it was drawn",
    question="If a token is always the one that you draft, with which probability was it drawn?",
)
known.change(
    "one-place-for-all",
    ("len(requests[i].output) + number", "len(requests[i].output)"),
    fact="all tokens of a draft are drawn with the number of its first place",
    question="What does `uniforms` give for the same seed and the same place?",
)
known.change(
    "all-numbers-at-once",
    (
        "(draw,) = uniforms(requests[i].params.seed, len(requests[i].output) + number, 1, DRAFTING)",
        "draw = uniforms(requests[i].params.seed, len(requests[i].output), counts[i], DRAFTING)[number]",
    ),
    fact="all numbers of a draft are drawn at its first place, as many as there are tokens",
    question="The draft's third token is refused, and drafted again in the next step. Is its number the same one?",
)
known.change(
    "place-in-the-whole-text",
    ("len(requests[i].output) + number", "requests[i].length + number"),
    fact="places are counted from the beginning of the prompt",
    question="Which place has the first token of the output?",
)
known.change(
    "numbers-of-the-judge",
    ("1, DRAFTING)", "1, DRAFTING + 1)"),
    fact="tokens are drawn with the numbers by which they will be judged",
    question="A token was drawn because its number is large. What happens to it if the same number judges it?",
)
known.change(
    "penalty-without-the-draft",
    ("[chunk.request.prompt for chunk in chunks]", "[requests[i].tokens(0, requests[i].length) for i in writing]"),
    fact="the penalty does not see the tokens that were drafted before",
    question="The draft's second token is judged behind its first one. What will the large model's penalty see?",
)
known.change(
    "params-of-the-first",
    ("[requests[i].params for i in writing]", "[requests[writing[0]].params for i in writing]"),
    fact="all drafts are drawn with the params of the first request",
    question="Whose params belong to which row?",
)
known.change(
    "params-by-row",
    ("[requests[i].params for i in writing]", "[requests[row].params for row in range(len(writing))]"),
    fact="row i of a call is drawn with the params of request i, also where a request before it has no turn",
    question="The first of three requests wants no more tokens. Whose row is the first one then?",
)
known.change(
    "smallest-count-for-all",
    ("max(counts, default=0)", "min((count for count in counts if count), default=0)"),
    fact="every request gets as few tokens as the one that wants the fewest",
    question="One wants two tokens and the other four. How many calls does the other one need?",
)
known.change(
    "nobody-without-room-for-all",
    (
        "drawn: list[list[int]] = [[] for _ in requests]",
        """
        if any(own is None for own, count in zip(ours, counts, strict=True) if count):
            return [Draft() for _ in requests]
        drawn: list[list[int]] = [[] for _ in requests]
        """,
    ),
    fact="nobody gets a draft where memory has no room for one of the requests",
    question="There is no room for the second request. What does the first one have to do with that?",
)
known.change(
    "largest-count-for-all",
    ("if own and number < counts[i]]", "if own]"),
    fact="every request gets as many tokens as the one that wants most",
    question="One wants two tokens and the other four. Who takes part in the third call?",
)
known.change(
    "room-not-asked-for",
    ("return own if self.memory.reserve(own, own.unread + count - 1) else None", "return own"),
    fact="no room is reserved in memory",
    question="Who says whether a page is free for your tokens?",
)
known.change(
    "room-for-the-unread-alone",
    ("own.unread + count - 1", "own.unread"),
    fact="room is reserved for the text's unread tokens, and not for the drafted ones",
    question="Of four drafted tokens, how many does the small model read itself?",
)
known.change(
    "room-for-one-too-many",
    ("own.unread + count - 1", "own.unread + count"),
    fact="room is reserved for the last drafted token, too, which is never read",
    question="After which of the drafted tokens does nobody ask the small model what comes next?",
)
known.change(
    "nothing-let-go",
    ("self.memory.release(self._ours.pop(request))", "pass"),
    fact="keep lets nobody go",
    question="After a thousand requests, how many has your memory got?",
)
known.change(
    "forgotten-but-not-released",
    ("self.memory.release(self._ours.pop(request))", "self._ours.pop(request)"),
    fact="keep forgets the request, and memory keeps its tokens",
    question="You no longer know the request. Does memory know that it may forget it, too?",
)


@known.wrong(
    "one-after-the-other",
    fact="each request has its own calls of the model",
    question="What does a step of the model cost for eight tokens of eight requests, and what do eight steps cost?",
)
class OneAfterTheOther(DraftModel):
    together = DraftModel.draft

    def draft(self, requests, counts):
        return [self.together([request], [count])[0] for request, count in zip(requests, counts, strict=True)]


@known.wrong(
    "reads-the-last-one-too",
    fact="the small model reads the last drafted token as well, after which nobody asks it anything",
    question="Four tokens are wanted. How many calls of the model does that take?",
)
class ReadsTheLastOneToo(DraftModel):
    plain = DraftModel.draft

    def draft(self, requests, counts):
        found = self.plain(requests, [count + 1 if count else 0 for count in counts])
        pairs = zip(found, counts, strict=True)
        return [Draft(each.tokens[:n], each.probabilities[:n]) if each.tokens else each for each, n in pairs]


@known.accepted("counts beside the requests")
class CountsBeside:
    def __init__(self, model, memory):
        self.model, self.memory, self.held = model, memory, {}

    def draft(self, requests, counts):
        drafts = [([], []) for _ in requests]
        texts = [request.prompt + request.output for request in requests]
        wanted = dict(enumerate(counts))
        for i, request in enumerate(requests):
            if not counts[i]:
                continue
            if request not in self.held:
                before = request.read
                begun = self.memory.begin(request)
                found, request.read = request.read, before
                if not begun:
                    wanted[i] = 0
                    continue
                self.held[request] = texts[i][:found]
            held = self.held[request]
            same = next(
                (at for at, pair in enumerate(zip(held, texts[i], strict=False)) if pair[0] != pair[1]), len(held)
            )
            same = min(same, len(texts[i]) - 1)
            if same != len(held):
                self.memory.shorten(request, same)
            self.held[request] = texts[i][:same]
            if not self.memory.reserve(request, len(texts[i]) + counts[i] - 1 - same):
                wanted[i] = 0
        while any(wanted.values()):
            writing = [i for i in wanted if wanted[i]]
            chunks = []
            for i in writing:
                held = self.held[requests[i]]
                chunks.append(Chunk(requests[i], len(held), texts[i][len(held) :], 1))
            found = probabilities(
                self.model(chunks, self.memory), [requests[i].params for i in writing], [texts[i] for i in writing]
            )
            for row, i in enumerate(writing):
                self.held[requests[i]] = list(texts[i])
                place = len(requests[i].output) + len(drafts[i][0])
                token = pick(found[row], uniforms(requests[i].params.seed, place, 1, DRAFTING)[0])
                drafts[i][0].append(token)
                drafts[i][1].append(found[row])
                texts[i].append(token)
                wanted[i] -= 1
        return [Draft(tokens, mx.stack(rows)) if tokens else Draft() for tokens, rows in drafts]

    def keep(self, running):
        for request in list(self.held):
            if request not in running:
                del self.held[request]
                self.memory.release(request)
