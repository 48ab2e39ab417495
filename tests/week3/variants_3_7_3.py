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
    """What comes of a script, as the numbers of its characters."""
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
    fact="what was held back for a stop string is never shown, also when the text ends without one",
    question='The text ends with "do", and a stop string is "dog". Who sends these two letters?',
)
known.change(
    "finished-every-time",
    ("if news.finished:\n    text.finish()", "text.finish()"),
    fact="finish is called with all news, so that what is held back is shown before it is known to be no stop string",
    question="What does the docstring of StopStrings say may come after finish?",
)
known.change(
    "all-of-it-again",
    ("gained = text.text[sent[request] :]", "gained = text.text"),
    fact="each piece is the whole text so far",
    question='After "That" comes "That is". What does somebody read who puts the pieces together?',
)
known.change(
    "one-count-for-all",
    ("gained = text.text[sent[request] :]", "gained = text.text[sum(sent.values()) :]"),
    fact="what was sent is counted for all answers together",
    question="Two answers have 5 and 3 characters so far. Where does the second one go on?",
)
known.change(
    "counted-when-it-was-sent",
    ("sent[request] += len(gained)", "pass"),
    ("text.found else news.finished)", "text.found else news.finished)\nsent[request] = len(text.text)"),
    fact="what a text gains while a piece of it is being sent is never sent",
    question="A letter is added while you wait at your yield. Which length do you note down afterwards?",
)
known.change(
    "empty-pieces",
    ("if not gained and not news.finished:\n    continue", ""),
    fact="pieces without text are sent",
    question="A character of three bytes comes in three tokens. How many pieces is it?",
)
known.change(
    "last-one-swallowed",
    ("if not gained and not news.finished:", "if not gained:"),
    fact="an answer's last piece is left out if it has no text, and its reason with it",
    question="The last token ends the text and is not part of it. How does a client hear that it is the end?",
)
known.change(
    "silent-tokens-lost",
    ("unsent[request] += news.tokens", "unsent[request] = list(news.tokens)"),
    fact="tokens that show nothing are lost",
    question="Two tokens have shown nothing, and the third one shows a character. Whose tokens are the first two?",
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
    ("gained, tokens, ", "gained, unsent[request], "),
    ("text.found else news.finished)", "text.found else news.finished)\nunsent[request].clear()"),
    fact="all pieces of an answer have the same list of tokens, which is emptied behind each of them",
    question="A piece is kept by whoever has got it. Who else has its list, and clears it?",
)
known.change(
    "length-where-it-stopped",
    ('"stop" if news.finished and text.found else news.finished', "news.finished"),
    fact="an answer whose last token completes a stop string has ended by its length",
    question="The last token completes a stop string. Has the client got all that the model had to say?",
)
known.change(
    "stopped-before-the-end",
    ('"stop" if news.finished and text.found else news.finished', '"stop" if text.found else request.finished'),
    ("if news.finished:\n    text.finish()", "if request.finished:\n    text.finish()"),
    fact="request.finished decides, which the scheduler may have set a step before the news of it",
    question="The scheduler is a step ahead of your news. Who says that these are the last ones?",
)
known.change(
    "stop-before-the-end",
    ('"stop" if news.finished and text.found', '"stop" if text.found'),
    fact='a piece says "stop" as soon as a stop string was found, perhaps before the last piece',
    question="A stop string is found, and you still send the step before. Which piece is the last?",
)
known.change(
    "left-open",
    (
        "async with aclosing(self._news) as stream:\n    async for news in stream:",
        "if True:\n    async for news in self._news:",
    ),
    fact="who closes the pieces leaves the news open, and the engine writes on",
    question="Your generator is closed while it waits at its yield. Who closes the one that it reads?",
)
known.change(
    "events-left-open",
    (
        "async with aclosing(self.pieces()) as pieces:\n    async for piece in pieces:",
        "if True:\n    self._p = pieces = self.pieces()\n    async for piece in pieces:",
    ),
    fact="who closes the events leaves the pieces open, and the engine writes on",
    question="Your events are closed. What becomes of the pieces that they read?",
)
known.change(
    "one-line-end",
    ('f"data: {data}\\n\\n"', 'f"data: {data}\\n"'),
    fact="no empty line ends an event, so that all of them are one",
    question="By what does a reader know that an event is complete?",
)
known.change(
    "no-field",
    ('f"data: {data}\\n\\n"', 'f"{data}\\n\\n"'),
    fact="events have no field name, and a reader passes them over",
    question="What does a reader of Server-Sent Events do with a line that names no field?",
)
known.change(
    "as-python-prints",
    ("_event(json.dumps(shape(piece)))", "_event(str(shape(piece)))"),
    fact="pieces are sent as Python prints them, which is no JSON",
    question="Which quotation marks has JSON?",
)
known.change(
    "never-done",
    ('yield _event("[DONE]")', "return"),
    fact="[DONE] does not come",
    question="A connection breaks between two pieces. How does a client tell that from the end?",
)
known.change(
    "done-after-an-error",
    ("yield _event(json.dumps(failed(error)))\nreturn", "yield _event(json.dumps(failed(error)))"),
    fact="after an error, the stream ends as if all was well",
    question="What does [DONE] say to a client?",
)
known.change(
    "error-raised",
    ("yield _event(json.dumps(failed(error)))\nreturn", "raise"),
    fact="an error of the engine is raised out of the stream, and the client sees it break off",
    question="The status 200 was sent a second ago. How does the client hear of an error now?",
)
known.change(
    "nothing-behind",
    ("if last:\n    yield _event(json.dumps(last()))", ""),
    fact="what is to come behind the pieces does not come",
    question="The client has asked for usage in its stream. When is it known?",
)
known.change(
    "usage-after-done",
    ("if last:\n    yield _event(json.dumps(last()))", ""),
    ('yield _event("[DONE]")', 'yield _event("[DONE]")\nif last:\n    yield _event(json.dumps(last()))'),
    fact="what is to come behind the pieces comes after [DONE], where nobody reads any more",
    question="When does a client stop reading?",
)
known.change(
    "swallows-all",
    ("except (EngineFailed, EngineClosed) as error:", "except Exception as error:"),
    fact="every exception is told in an event, also those that say that nothing could begin",
    question="A request was refused before a byte was sent. Which status should it get?",
)


@known.accepted("one answer at a time")
class OneAtATime:
    class Answer:
        def __init__(self, text):
            self.text, self.shown, self.tokens = text, "", []

        def take(self, news):
            self.tokens.extend(news.tokens)
            why = news.finished
            if why:
                self.text.finish()
                why = "stop" if self.text.found else why
            new = self.text.text[len(self.shown) :]
            if new == "" and why == "":
                return None
            self.shown = self.shown + new
            piece = Piece(news.request, new, self.tokens, why)
            self.tokens = []
            return piece

    def __init__(self, news, texts):
        self.news = news
        self.answers = {request: self.Answer(text) for request, text in texts.items()}

    async def pieces(self):
        try:
            async for news in self.news:
                piece = self.answers[news.request].take(news)
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
