"""Known programs of task 7.2.2, tool calls in a stream."""

import codecs
import json
from functools import partial

import mlx.core as mx
from tests.week7.streamed import READ, actual_lines, answers, pieces_of
from tiny_llm_solution.tools.parser import CLOSE, HEAD, OPEN, Event
from tiny_llm_solution.tools.tool import ToolCall

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.2.2")


def lines(program, name, size):
    return mx.array(list("\n".join(actual_lines(program, pieces_of(answers()[name], size))).encode()), dtype=mx.int32)


for each in (
    "no call",
    "text between",
    "two calls",
    "two bytes",
    "nested",
    "escapes",
    "two backslashes",
    "a tag in a string",
    "other order",
    "half a tag",
    "a tag at the end",
    "white space at the end",
    "no JSON",
    "a brace too few",
    "a quote too many",
    "a backslash at the end of a line",
    "half a character",
    "no end",
    "not a number",
):
    for pieces in (1, 1000):
        known.probe()(partial(lambda program, name, size: lines(program, name, size), name=each, size=pieces))


@known.sized("100 calls, 7 bytes at a time")
def sized(program):
    pieces = pieces_of((READ * 100).encode(), 7)

    def run():
        parser = program()
        for piece in pieces:
            parser.add(piece)
        parser.finish()

    return run


known.change(
    "tag-in-one-piece",
    (
        "size -= next(size for size in range(len(OPEN) - 1, -1, -1) if text.endswith(OPEN[:size]))",
        "pass",
    ),
    fact="a tag that is cut between two pieces is reported as text",
    question="The text so far ends in `<tool_`. Do you know yet what it is?",
)
known.change(
    "bytes-decoded-alone",
    ("return self._read(self._decoder.decode(data))", 'return self._read(data.decode(errors="replace"))'),
    fact="each piece is decoded by itself, so a character cut in two becomes U+FFFD",
    question="How many bytes does \u00e9 have, and what is the first one alone?",
)
known.change(
    "tag-in-a-string",
    ("if self._in_string:", "if self._in_string and not self.text.endswith(CLOSE):"),
    fact="a `</tool_call>` inside a JSON string ends the call",
    question="A tool writes a file whose text contains </tool_call>. Where does the call end?",
)
known.change(
    "escaped-quotes",
    ('self._escaped = character == "\\\\" and not self._escaped', "self._escaped = False"),
    fact="an escaped quote ends a string",
    question='Which characters of "a\\"b" are inside the string?',
)
known.change(
    "two-backslashes",
    ('self._escaped = character == "\\\\" and not self._escaped', 'self._escaped = character == "\\\\"'),
    fact="the quote after two backslashes counts as escaped",
    question="The string is one backslash. How does JSON write it, and where does it end?",
)
known.change(
    "braces-in-strings",
    (
        'self._escaped = character == "\\\\" and not self._escaped',
        'self._escaped = character == "\\\\" and not self._escaped\nif character in "{}": self._track(character)',
    ),
    fact="braces inside strings are counted",
    question='Where do the arguments {"a": "}"} end?',
)
known.change(
    "decoder-not-ended",
    ('self._read(self._decoder.decode(b"", True))', "list[Event]()"),
    fact="half a character at the end of the answer is lost",
    question="The answer ends after the first of two bytes. What does the decoder still hold?",
)
known.change(
    "one-index",
    ("_Block(len(self.calls))", "_Block(0)"),
    fact="every call has index 0",
    question="A client puts the pieces of arguments together by index. What does it get from two calls?",
)
known.change(
    "brace-of-the-call",
    ("elif self._depth < 2:", "elif self._depth < 1:"),
    fact="the arguments include the brace that closes the whole call",
    question="How many braces are open at the end of the arguments, before the last two are closed?",
)
known.change(
    "white-space-around",
    ("shown = text[:size].rstrip()", "shown = text[:size]"),
    fact="the white space before a call is reported as text",
    question="The template puts a line break before a call. Did the model say it to the user?",
)
known.change(
    "held-text-lost",
    ('events.append(Event("text", self._held))', "pass"),
    fact="text that was held back is lost when the answer ends",
    question="The answer ends with `a <`. When do you know that this is no tag?",
)
known.change(
    "reported-not-checked",
    (
        "if not error:\n    found, error = _parsed(block.text)",
        "if not error and not block.named:\n    found, error = _parsed(block.text)",
    ),
    fact="a call whose name was reported is never checked for errors",
    question="The arguments were streamed, and then a brace is missing. Who notices?",
)
known.change(
    "arguments-at-the-end",
    ("if new := block.new_arguments():", "if block._stop is not None and (new := block.new_arguments()):"),
    fact="the arguments are reported only when they are complete",
    question="A model writes a file of 200 lines. What can a user see meanwhile?",
)
known.change(
    "line-break-in-a-string",
    ('character != "\\n" and (self._escaped', "(self._escaped"),
    fact="a string that was never closed swallows everything up to the next quote",
    question="Can a JSON string contain a line break? What does it mean if one seems to?",
)
known.change(
    "escaped-line-break",
    ('character != "\\n" and (self._escaped or character != \'"\')', "self._escaped or character not in '\"\\n'"),
    fact="a line break after a backslash does not end a string that was never closed",
    question="Which characters may follow a backslash in a JSON string?",
)
known.change(
    "not-a-number",
    ("json.loads(text, parse_constant=_refuse)", "json.loads(text)"),
    fact="NaN and Infinity are accepted, as json.loads does, although JSON has no such numbers",
    question="Which numbers does json.loads read that JSON does not have?",
)
known.change(
    "reported-at-the-closing-tag",
    ("if block.name and not block.named:", "if block is None:"),
    ("if new := block.new_arguments():", 'if new := "":'),
    fact="a call is read as a whole: even its name is reported only at the closing tag",
    question="The model has written a call's name and the first line of a file. Which events should there be?",
)
known.change(
    "white-space-after-a-block",
    ("text = text[size:]", "text = text[size:].lstrip() if closed else text[size:]"),
    ("self._block, self._after_call = None, True", "self._block, self._after_call = None, False"),
    fact="the white space after a block is dropped only in the piece in which the block ends",
    question="The closing tag ends a piece, and the next piece begins with a line break. Is that text?",
)
known.change(
    "wrong-calls-not-listed",
    (
        "self.calls.append(ToolCall(name, arguments, error))",
        "if not error:\n    self.calls.append(ToolCall(name, arguments))",
    ),
    fact="only correct calls are added to `calls`, so the call after a wrong one has the same number",
    question="The first of two blocks is malformed. Which number does the client read with the second?",
)


@known.accepted("reads the answer again")
class ReadsAgain:
    """Parse all of the answer so far after each piece, and return what is new."""

    def __init__(self):
        self.data, self.calls, self.before = b"", [], []

    def add(self, data):
        self.data += data
        return self.update(False)

    def finish(self):
        return self.update(True)

    def update(self, ended):
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(self.data, ended)
        after, self.calls, at = [], [], 0
        while (at := self.text(text, at, after, ended)) is not None:
            if (at := self.block(text, at, after, ended)) is None:
                break
        new = []
        for number, event in enumerate(after):
            if number >= len(self.before):
                new.append(event)
            elif event.text != self.before[number].text:
                new.append(event._replace(text=event.text[len(self.before[number].text) :]))
        self.before = after
        return new

    def text(self, text, at, events, ended):
        opened = text.find(OPEN, at)
        shown = text[at : opened if opened >= 0 else None]
        if self.calls:
            shown = shown.lstrip()
        if opened < 0 and not ended:
            for size in range(len(OPEN) - 1, 0, -1):
                if shown.endswith(OPEN[:size]):
                    shown = shown[:-size]
                    break
        if opened >= 0 or not ended:
            shown = shown.rstrip()
        if shown:
            events.append(Event("text", shown))
        return opened + len(OPEN) if opened >= 0 else None

    def block(self, text, begin, events, ended):
        at, depth, inside, first, stop = begin, 0, False, None, None
        while at < len(text) and not (not inside and text.startswith(CLOSE, at)):
            character = text[at]
            if inside and character == "\\" and text[at + 1 : at + 2] != "\n":
                at += 1
            elif character == '"' or inside:
                inside = character not in '"\n' if inside else True
            elif character in "{[":
                depth += 1
                if depth == 2 and first is None and HEAD.fullmatch(text, begin, at + 1):
                    first = at
            elif character in "]}":
                depth -= 1
                if first is not None and stop is None and depth == 1:
                    stop = at + 1
            elif character == "<" and first is not None and stop is None:
                stop = at
            at += 1
        at = min(at, len(text))
        number, closed = len(self.calls), not inside and text.startswith(CLOSE, at)
        name, arguments, error = "", "", "" if closed else "The answer ends inside the call."
        if first is not None:
            name, arguments = json.loads(HEAD.match(text, begin)[1]), text[first : at if stop is None else stop]
            events += [Event("name", name, number), Event("arguments", arguments, number)]
        if not closed and not ended:
            return None
        found = None
        if closed:
            try:
                found = json.loads(text[begin:at])
                json.dumps(found, allow_nan=False)
            except ValueError:
                error = "The call is not JSON."
            else:
                if type(found) is not dict or type(found.get("name")) is not str or not found["name"]:
                    error = "The call has no name."
                elif type(found.get("arguments")) is not dict:
                    error = "The call has no arguments."
        if first is None and error:
            arguments = text[begin:at].strip()
        elif first is None:
            name, arguments = found["name"], json.dumps(found["arguments"], ensure_ascii=False)
            events += [Event("name", name, number), Event("arguments", arguments, number)]
        events.append(Event("error" if error else "end", error, number))
        self.calls.append(ToolCall(name, arguments, error))
        return at + len(CLOSE) if closed else None
