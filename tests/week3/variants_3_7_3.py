"""Known programs of task 3.7.3, the stream of an answer."""

import json
from functools import partial

import mlx.core as mx
from tests.week3.stream_script import STREAMS, Script, random_script, streamed
from tiny_llm_solution.server.streaming import Piece

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.7.3")

TWO = [(0, [5], "a \u72d7\n", ""), (0, [6], 'a \u72d7\n"b"', "length")]
THREE = [(0, [5], "a", ""), (0, [6], "ab", ""), (0, [7], "abc", "length")]


def lines(script, events, program):
    """Return a script's results, as character codes."""
    return mx.array(list("\n".join(streamed(program, script, events)).encode()))


for script, _ in STREAMS.values():
    known.probe()(partial(lines, script, False))
for script in (
    Script(TWO),
    Script(TWO, last=True),
    Script(TWO[:1], error="EngineFailed", last=True),
    Script(TWO[:1], error="EngineClosed"),
    Script([], error="ValueError"),
    Script(THREE, closes=2),
    *(random_script(seed, 9, 3) for seed in range(4)),
):
    known.probe()(partial(lines, script, True))
known.probe()(partial(lines, Script(THREE, closes=2), False))
known.probe()(partial(lines, Script(TWO[:1], error="EngineFailed"), False))

known.not_timed("it waits for the model all the time")

known.change(
    "never-finished",
    ("text.finish()", "pass"),
    fact="characters held back for a stop string are never sent, even if the text ends without one",
    question='The text ends with "do", and a stop string is "dog". What sends these two characters?',
)
known.change(
    "finished-every-time",
    ("if update.finish_reason:\n    text.finish()", "text.finish()"),
    fact="finish is called for every update, so a possible start of a stop string is sent too early",
    question="What does the docstring of StopStrings say may follow finish?",
)
known.change(
    "all-of-it-again",
    ("gained = text.text[sent[request] :]", "gained = text.text"),
    fact="each piece is the whole text so far",
    question='After "That" comes "That is". What does a client read that concatenates the pieces?',
)
known.change(
    "one-count-for-all",
    ("gained = text.text[sent[request] :]", "gained = text.text[sum(sent.values()) :]"),
    fact="all choices share one count of sent characters",
    question="Two choices have 5 and 3 characters so far. Where does the second one continue?",
)
known.change(
    "counted-when-it-was-sent",
    ("sent[request] += len(gained)", "pass"),
    (
        "yield Piece(request, gained, tokens, reason)",
        "yield Piece(request, gained, tokens, reason)\nsent[request] = len(text.text)",
    ),
    fact="text added while a piece is being sent is never sent",
    question="A character is added while you wait at your yield. Which length do you record afterwards?",
)
known.change(
    "empty-pieces",
    ("if not gained and not update.finish_reason:\n    continue", ""),
    fact="pieces without text are sent",
    question="A character of three bytes comes in three tokens. How many pieces is it?",
)
known.change(
    "last-one-swallowed",
    ("if not gained and not update.finish_reason:", "if not gained:"),
    fact="a choice's last piece is dropped, with its finish reason, if it has no text",
    question="The last token ends the text and is not part of it. How does a client learn that this is the end?",
)
known.change(
    "silent-tokens-lost",
    ("unsent[request] += update.tokens", "unsent[request] = list(update.tokens)"),
    fact="tokens that show nothing are lost",
    question="Two tokens have shown nothing, and the third shows a character. Which piece has the first two tokens?",
)
known.change(
    "tokens-again",
    ("tokens, unsent[request] = unsent[request], []", "tokens = list(unsent[request])"),
    fact="each piece has all tokens so far",
    question="A piece had the tokens 5 and 6, and then comes 7. Which does the next piece have?",
)
known.change(
    "one-list-for-all",
    ("tokens, unsent[request] = unsent[request], []\n", ""),
    (
        "yield Piece(request, gained, tokens, reason)",
        "yield Piece(request, gained, unsent[request], reason)\nunsent[request].clear()",
    ),
    fact="all pieces of a choice share one list of tokens, which is cleared after each",
    question="The receiver keeps a piece. What else has a reference to its list, and clears it?",
)
known.change(
    "tokens-of-the-request",
    (
        "sent = dict.fromkeys(self._texts, 0)",
        "sent, taken = dict.fromkeys(self._texts, 0), dict.fromkeys(self._texts, 0)",
    ),
    (
        "unsent[request] += update.tokens",
        "unsent[request] += request.output[taken[request] :]\ntaken[request] = len(request.output)",
    ),
    fact="a piece has the tokens of request.output, which may already contain those of later updates",
    question="The scheduler is a step ahead of your updates. Which of its tokens does this update report?",
)
known.change(
    "length-where-it-stopped",
    ('"stop" if update.finish_reason and text.found else update.finish_reason', "update.finish_reason"),
    fact='finish_reason is "length" if the last token completes a stop string',
    question="The last token completes a stop string. Was the output cut off?",
)
known.change(
    "stopped-before-the-end",
    (
        '"stop" if update.finish_reason and text.found else update.finish_reason',
        '"stop" if text.found else request.finish_reason',
    ),
    ("if update.finish_reason:\n    text.finish()", "if request.finish_reason:\n    text.finish()"),
    fact="request.finish_reason decides, which the scheduler may have set before this update was read",
    question="The scheduler is a step ahead of your updates. What tells you that these are the last ones?",
)
known.change(
    "stop-before-the-end",
    ('"stop" if update.finish_reason and text.found', '"stop" if text.found'),
    fact='a piece has the finish reason "stop" as soon as a stop string is found, perhaps before the last piece',
    question="A stop string is found, and you are still sending the step before. Which piece is the last?",
)
known.change(
    "reason-of-the-request",
    ('reason = "stop" if update.finish_reason and text.found else update.finish_reason',
     'reason = "stop" if request.finish_reason and text.found else request.finish_reason'),
    fact="a piece has the request's finish_reason, which the scheduler may have set before this update was read",
    question="The scheduler is a step ahead of your updates. Which piece is the last?",
)  # fmt: skip
known.change(
    "left-open",
    (
        "async with aclosing(self._updates) as stream:\n    async for update in stream:",
        "if True:\n    async for update in self._updates:",
    ),
    fact="closing the pieces does not close the updates, and the engine continues to decode",
    question="Your generator is closed while it waits at its yield. What closes the one that it reads?",
)
known.change(
    "events-left-open",
    (
        "async with aclosing(self.pieces()) as pieces:\n    async for piece in pieces:",
        "if True:\n    self._p = pieces = self.pieces()\n    async for piece in pieces:",
    ),
    fact="closing the events does not close the pieces, and the engine continues to decode",
    question="Your events are closed. What happens to the pieces that they read?",
)
known.change(
    "one-line-end",
    ('f"data: {data}\\n\\n"', 'f"data: {data}\\n"'),
    fact="no empty line ends an event, so all of them are one",
    question="How does a client know that an event is complete?",
)
known.change(
    "no-field",
    ('f"data: {data}\\n\\n"', 'f"{data}\\n\\n"'),
    fact="events have no field name, so clients ignore them",
    question="What does an SSE client do with a line that names no field?",
)
known.change(
    "as-python-prints",
    ("_event(json.dumps(shape(piece)))", "_event(str(shape(piece)))"),
    fact="pieces are sent as Python's repr, which is not JSON",
    question="Which quotation marks does JSON use?",
)
known.change(
    "never-done",
    ('yield _event("[DONE]")', "return"),
    fact="[DONE] is not sent",
    question="A connection breaks between two pieces. How does a client distinguish that from the end?",
)
known.change(
    "done-after-an-error",
    ("yield _event(json.dumps(failed(error)))\nreturn", "yield _event(json.dumps(failed(error)))"),
    fact="[DONE] is sent even after an error",
    question="What does [DONE] mean to a client?",
)
known.change(
    "only-done-after-an-error",
    (
        "yield _event(json.dumps(failed(error)))\nreturn",
        'yield _event(json.dumps(failed(error)))\nyield _event("[DONE]")\nreturn',
    ),
    fact="[DONE] follows an error, without the final chunk",
    question="What does [DONE] mean to a client?",
)
known.change(
    "closed-not-caught",
    ("except (EngineFailed, EngineClosed) as error:", "except EngineFailed as error:"),
    fact="an EngineClosed is raised out of the stream, and only an EngineFailed becomes an event",
    question="The server shuts down while an answer is streamed. What does the client read last?",
)
known.change(
    "error-raised",
    ("yield _event(json.dumps(failed(error)))\nreturn", "raise"),
    fact="an engine error is raised out of the stream, and the client sees a broken connection",
    question="The status 200 was sent a second ago. How can the client learn about an error now?",
)
known.change(
    "final-chunk-missing",
    ("if last:\n    yield _event(json.dumps(last()))", ""),
    fact="the final chunk after the pieces is not sent",
    question="The client has asked for usage in its stream. When is it known?",
)
known.change(
    "usage-too-early",
    (
        "try:\n    async with aclosing(self.pieces()) as pieces:",
        "final = last() if last else None\ntry:\n    async with aclosing(self.pieces()) as pieces:",
    ),
    ("json.dumps(last())", "json.dumps(final)"),
    fact="`last` is called before the pieces, so its result counts none of them",
    question="`last` returns the number of tokens sent. How many were sent when you call it?",
)
known.change(
    "usage-after-done",
    ("if last:\n    yield _event(json.dumps(last()))", ""),
    ('yield _event("[DONE]")', 'yield _event("[DONE]")\nif last:\n    yield _event(json.dumps(last()))'),
    fact="the final chunk is sent after [DONE], when clients have stopped reading",
    question="When does a client stop reading?",
)
known.change(
    "swallows-all",
    ("except (EngineFailed, EngineClosed) as error:", "except Exception as error:"),
    fact="every exception becomes an event, even one raised before the stream started",
    question="A request was rejected before a byte was sent. Which status should it get?",
)


@known.accepted("one answer at a time")
class OneAtATime:
    class Answer:
        def __init__(self, text):
            self.text, self.shown, self.tokens = text, "", []

        def take(self, update):
            self.tokens.extend(update.tokens)
            why = update.finish_reason
            if why:
                self.text.finish()
                why = "stop" if self.text.found else why
            new = self.text.text[len(self.shown) :]
            if new == "" and why == "":
                return None
            self.shown = self.shown + new
            piece = Piece(update.request, new, self.tokens, why)
            self.tokens = []
            return piece

    def __init__(self, news, texts):
        self.news = news
        self.answers = {request: self.Answer(text) for request, text in texts.items()}

    async def pieces(self):
        try:
            async for update in self.news:
                piece = self.answers[update.request].take(update)
                if piece is not None:
                    yield piece
        finally:
            await self.news.aclose()

    async def events(self, shape, last, failed):
        items = self.pieces()
        try:
            async for piece in items:
                yield b"data: " + json.dumps(shape(piece), ensure_ascii=False).encode() + b"\n\n"
            if last is not None:
                yield b"data: " + json.dumps(last()).encode() + b"\n\n"
            yield b"data: [DONE]\n\n"
        except Exception as error:
            if type(error).__name__ not in ("EngineFailed", "EngineClosed"):
                raise
            yield b"data: " + json.dumps(failed(error)).encode() + b"\n\n"
        finally:
            await items.aclose()
