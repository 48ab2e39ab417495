"""Reference variants of task 1.6.5, streaming text."""

import codecs

from tests.week1.text_probes import pieces, small
from tiny_llm_solution.tokenizer import ByteLevelBPE, StreamingDetokenizer

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.5")


def ids_of(text):
    return small(ByteLevelBPE).encode(text)


def streamed(program, ids, **skip):
    """Return the pieces after each token, and at the end."""
    detokenizer = program(small(program), **skip)
    return pieces([*(detokenizer.add(i) for i in ids), detokenizer.finish()])


known.probe_table(
    text=lambda program: streamed(program, ids_of("that is a d\u00e9j\u00e0 \U0001f415\u72d7\n \u00ea dog")),
    unfinished=lambda program: (streamed(program, [*ids_of("a"), *ids_of("\U0001f415")[:2]]), streamed(program, [])),
    specials=lambda program: tuple(
        streamed(program, [301, *ids_of("dog"), 300, *ids_of("\u00e9")], **skip)
        for skip in ({}, {"skip_special_tokens": False})
    ),
    special_inside=lambda program: streamed(program, [*ids_of("\U0001f415")[:2], 301, *ids_of("\U0001f415")[2:]]),
)


@known.probe()
def stream_two(program):
    bpe, halves = small(program), ids_of("\u72d7")
    one, other = program(bpe), program(bpe)
    shown = [d.add(i) for i in halves for d in (one, other)]
    return pieces([*shown, one.finish(), other.finish()])


@known.probe()
def stream_invalid_in_the_middle(program):
    """Return what is shown after an invalid byte followed by complete characters."""
    detokenizer, shown = program(small(program)), ""
    parts = []
    for letter in ("a", "b", "c"):
        for token in (*ids_of(letter), *ids_of("\U0001f415")[-1:], *ids_of(letter)):
            shown += detokenizer.add(token)
        parts.append(shown)
    return pieces(parts)


@known.sized("10 texts of 800 tokens")
def sized(program):
    bpe, ids = small(program), (ids_of("that is a d\u00e9j\u00e0 \U0001f415\n") * 50)[:800]

    def shown():
        detokenizer = program(bpe)
        return [*map(detokenizer.add, ids), detokenizer.finish()]

    return lambda: [shown() for _ in range(10)]


known.change(
    "token-by-token",
    ("self.decoder.decode(self.tokenizer.token_bytes[token])", "self.tokenizer.decode([token])"),
    fact="each token is decoded separately",
    question="The first of a dog emoji's two tokens has arrived. What can be shown already?",
)


class HoldsBack(StreamingDetokenizer):
    """Show the held-back text at the end."""

    text = ""

    def finish(self):
        return self.text + super().finish()


@known.wrong(
    "waits-for-the-end",
    fact="nothing is shown before finish()",
    question="When should the user see the first word?",
)
class WaitsForTheEnd(HoldsBack):
    def add(self, token):
        self.text += super().add(token)
        return ""


@known.wrong(
    "waits-for-a-space",
    fact="text is held back until the next space",
    question="Which characters of the token dog are incomplete?",
)
class WaitsForASpace(HoldsBack):
    def add(self, token):
        self.text += super().add(token)
        cut = self.text.rfind(" ") + 1
        shown, self.text = self.text[:cut], self.text[cut:]
        return shown


@known.wrong(
    "all-text-again",
    fact="every call returns the whole text so far instead of only the new part",
    question="What should the pieces give when they are concatenated?",
)
class AllTextAgain(HoldsBack):
    def add(self, token):
        self.text += super().add(token)
        return self.text


known.change(
    "tail-dropped",
    ('self.decoder.decode(b"", final=True)', '""'),
    fact="an incomplete character is dropped at the end",
    question="What does decode return for the first token of a dog emoji alone?",
)
known.change(
    "specials-shown",
    ("set(tokenizer.special_tokens.values()) if skip_special_tokens else set()", "set()"),
    fact="special tokens are shown even when they should be skipped",
    question="What is the default of skip_special_tokens?",
)
known.change(
    "specials-hidden",
    (" if skip_special_tokens else set()", ""),
    fact="special tokens are never shown, even with skip_special_tokens=False",
    question="What does skip_special_tokens=False mean?",
)
known.change(
    "shared",
    ("self.decoder: Any =", "type(self).decoder ="),
    fact="all detokenizers share one buffer",
    question="Is your buffer an attribute of the instance, or of the class?",
)


@known.wrong(
    "one-late",
    fact="each piece is shown one token late",
    question="When a token has completed a character, what is there to wait for?",
)
class OneLate(HoldsBack):
    def add(self, token):
        shown, self.text = self.text, super().add(token)
        return shown


@known.wrong(
    "complete-held-back",
    fact="complete characters are held back while the token ends inside another character",
    question="A token is a space and the first byte of e-acute. Which of the two can be shown?",
)
class CompleteHeldBack(HoldsBack):
    def add(self, token):
        self.text += super().add(token)
        if self.decoder.getstate()[0]:
            return ""
        shown, self.text = self.text, ""
        return shown


@known.wrong(
    "stuck-at-an-invalid-byte",
    fact="text is held back until all bytes so far are valid UTF-8, so one invalid byte blocks everything after it",
    question="A byte arrives that cannot start a character. Which later byte could complete it?",
)
class StuckAtAnInvalidByte(StreamingDetokenizer):
    data = b""

    def add(self, token):
        self.data += b"" if token in self.skipped else self.tokenizer.token_bytes[token]
        try:
            shown = self.data.decode()
        except UnicodeDecodeError:
            return ""
        self.data = b""
        return shown

    def finish(self):
        return self.data.decode(errors="replace")


@known.wrong(
    "stuck-behind-an-invalid-byte",
    fact="the longest valid beginning of the bytes is shown, so an invalid byte in front blocks everything after it",
    question="After byte 255, the tokens of `dog` arrive. When can the user see them?",
)
class StuckBehindAnInvalidByte(StreamingDetokenizer):
    data = b""

    def add(self, token):
        self.data += b"" if token in self.skipped else self.tokenizer.token_bytes[token]
        for end in range(len(self.data), max(-1, len(self.data) - 4), -1):
            try:
                shown = self.data[:end].decode()
            except UnicodeDecodeError:
                continue
            self.data = self.data[end:]
            return shown
        return ""

    def finish(self):
        return self.data.decode(errors="replace")


known.change(
    "special-ends-the-character",
    ('return ""', 'return self.decoder.decode(b"", final=True)'),
    fact="a skipped special token ends the incomplete character before it",
    question="A skipped token arrives between a dog emoji's two tokens. What does decode return for all three?",
)


class Holding(StreamingDetokenizer):
    """Show the bytes up to a cut, and keep the others."""

    data = b""

    def add(self, token):
        self.data += b"" if token in self.skipped else self.tokenizer.token_bytes[token]
        cut = self.cut(self.data)
        shown, self.data = self.data[:cut], self.data[cut:]
        return shown.decode(errors="replace")

    def finish(self):
        return self.data.decode(errors="replace")


@known.wrong(
    "only-the-last-byte",
    fact="only the last byte can be held back, so two or three bytes of a longer character become U+FFFD",
    question="How many bytes of a dog emoji can be there before the last one arrives?",
)
class OnlyTheLastByte(Holding):
    def cut(self, data):
        return len(data) - (data[-1:] >= b"\xc0")


@known.wrong(
    "waits-for-ascii",
    fact="all bytes above 127 at the end are held back, so complete characters wait for an ASCII one",
    question="Both bytes of e-acute are there. Which later byte could change them?",
)
class WaitsForASCII(Holding):
    def cut(self, data):
        return len(data.rstrip(bytes(range(128, 256))))


@known.wrong(
    "strict",
    fact="invalid UTF-8 bytes raise an error instead of becoming U+FFFD",
    question="What should the user see in place of an invalid byte?",
)
class Strict(StreamingDetokenizer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="strict")


known.change(
    "errors-ignored",
    ('errors="replace"', 'errors="ignore"'),
    fact="invalid UTF-8 bytes are dropped instead of becoming U+FFFD",
    question="What should the user see in place of an invalid byte?",
)


@known.accepted("decode-all-again")
class DecodeAllAgain(StreamingDetokenizer):
    """Decode everything at every step, and hold back each trailing U+FFFD."""

    def __init__(self, tokenizer, skip_special_tokens=True):
        super().__init__(tokenizer, skip_special_tokens)
        self.ids, self.shown = [], 0

    def add(self, token):
        if token not in self.skipped:
            self.ids.append(token)
        text = self.tokenizer.decode(self.ids).rstrip("\ufffd")
        piece, self.shown = text[self.shown :], max(self.shown, len(text))
        return piece

    def finish(self):
        return self.tokenizer.decode(self.ids)[self.shown :]


@known.accepted("keeps-the-unfinished-bytes")
class KeepsTheUnfinishedBytes(StreamingDetokenizer):
    """Look for the start of an incomplete character in the last three bytes."""

    def __init__(self, tokenizer, skip_special_tokens=True):
        super().__init__(tokenizer, skip_special_tokens)
        self.kept = b""

    def add(self, token):
        data = self.kept + (b"" if token in self.skipped else self.tokenizer.token_bytes[token])
        cut = len(data)
        for back in range(1, min(3, len(data)) + 1):
            lead = data[-back]
            if lead >= 0xC0:
                need = 2 + (lead >= 0xE0) + (lead >= 0xF0)
                if back < need:
                    cut -= back
                break
        self.kept = data[cut:]
        return data[:cut].decode(errors="replace")

    def finish(self):
        return self.kept.decode(errors="replace")
