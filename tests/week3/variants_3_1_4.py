"""Known programs of task 3.1.4, stop strings."""

from tests.week1.text_probes import pieces
from tests.week3.stories import Spelling

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.4")


def run(program, parts, *stops, tail=""):
    """Return what is shown after each piece and at the end, then all of it, and what was found."""
    made = program(Spelling(parts, tail), stops)
    shown = [made.add(token) for token in range(len(parts))]
    return pieces([*shown, made.finish(), made.text, repr(made.found)])


def letters(text):
    return list(text)


@known.probe()
def stop_overlapping(program):
    """The first string to start is not the first to be complete."""
    parts = ["xabcd"], letters("xabcd"), ["xab", "cd"]
    return tuple(run(program, each, "abcd", "bc") for each in parts)


known.probe_table(
    never=lambda program: run(program, ["That", " is", " a", " dog"], "cat"),
    none=lambda program: run(program, ["That", " is"]),
    in_one_piece=lambda program: run(program, ["That is", " a blue dog", " and a cat"], "blue"),
    at_the_start_of_a_piece=lambda program: run(program, ["That is", "\nUser", " asks"], "\nUser"),
    across_pieces=lambda program: run(program, ["That is", " a b", "lu", "e dog"], "a blue"),
    letter_by_letter=lambda program: run(program, letters("a\nUsual\nUse\nUser: b"), "\nUser:"),
    # The text ends within a possible stop string; the last character comes with the end.
    begun=lambda program: (run(program, ["one tw", "o th"], "three", tail="r"), run(program, ["one t"], "three")),
    complete_at_the_end=lambda program: run(program, ["one th", "re"], "three", tail="e"),
    single_letter=lambda program: (run(program, ["ab", "cd", "ef"], "d"), run(program, letters("abd"), "d")),
    # A match that fails starts again within itself.
    repeats=lambda program: (run(program, letters("aaaab"), "aab"), run(program, letters("ababac"), "abac")),
    one_a_prefix=lambda program: (run(program, ["x ab", "cd"], "abc", "ab"), run(program, ["x abcd"], "abc", "ab")),
    same_end=lambda program: (run(program, ["xabc"], "c", "abc", "bc"), run(program, ["xabc"], "bc", "c")),
    later_in_the_list=lambda program: (
        run(program, ["one two three"], "three", "two"),
        run(program, ["one two three"], "two", "three"),
    ),
    two_begun=lambda program: (run(program, letters("xabz"), "abc", "b!"), run(program, letters("xabz"), "b!", "abc")),
)


@known.probe()
def stop_ends(program):
    """Return what `ends` says, and what has been shown by then."""
    parts = ["", "That", " is", " a b", "lue", " dog"]
    made = program(Spelling(parts), ["blue"])
    said = [f"{made.ends(token)} {made.text}" for token in range(len(parts))]
    return pieces([*said, made.finish(), made.text, repr(made.found)])


@known.probe()
def stop_ends_in_one_piece(program):
    """The token that ends the text has characters before the stop string, or none."""
    found = []
    for parts in (["I ", "see blue", " now"], ["blue", "s"]):
        made = program(Spelling(parts), ["blue"])
        found += [f"{made.ends(token)} {made.text}" for token in range(len(parts))]
    return pieces(found)


@known.probe()
def stop_two_texts(program):
    one, other = program(Spelling(["a b", "lu"]), ["blue"]), program(Spelling(["red", "e "]), ["blue"])
    shown = [made.add(token) for token in (0, 1) for made in (one, other)]
    return pieces([*shown, one.finish(), other.finish(), one.text, other.text])


@known.probe()
def stop_empty(program):
    found = []
    for stops in ([""], ["a", ""], []):
        try:
            program(Spelling([]), stops)
            found.append("taken")
        except ValueError:
            found.append("refused")
    return pieces(found)


@known.sized("5,000 pieces, 4 stop strings")
def sized(program):
    parts = ["That", " is", "\nUs", "ual", " dog"] * 1000

    def shown():
        made = program(Spelling(parts), ["\nUser:", "\n\n\n", "###", "<end>"])
        return [*map(made.add, range(len(parts))), made.finish()]

    return shown


known.change(
    "string-shown",
    ("_, end, self.found = min(places)", "end, _, self.found = min(places)"),
    fact="the stop string itself is shown",
    question="Does the text end before the stop string or after it?",
)
known.change(
    "nothing-held",
    ("end = len(text) - max((_begun(text, stop) for stop in self._stops), default=0)", "end = len(text)"),
    fact="nothing is held back, so a stop string is found only within one piece",
    question="The pieces are `blu` and `e`. What has the client seen when the second one comes?",
)
known.change(
    "always-held",
    ("max((_begun(text, stop) for", "max((min(len(text), len(stop) - 1) for"),
    fact="as many characters are held back as the longest stop string might need, whatever they are",
    question="The text ends in `dog`, and the stop string is `blue`. Can `dog` be a prefix of it?",
)
known.change(
    "all-held",
    ("end = len(text) - max((_begun(text, stop) for stop in self._stops), default=0)", "end = 0"),
    fact="nothing is shown before the end",
    question="When should the client see the first word?",
)
known.change(
    "shortest-held",
    ("max((_begun", "min((_begun"),
    fact="only the shortest match is held back when several stop strings have started",
    question="Two stop strings may have started, one of them earlier. How much must not be shown yet?",
)
known.change(
    "first-string-held",
    ("for stop in self._stops), default=0)", "for stop in list(self._stops)[:1]), default=0)"),
    fact="only a prefix of the first stop string is held back",
    question="How many different stop strings may start at the end of the text?",
)
known.change(
    "shortest-beginning",
    ("range(longest, 0, -1)", "range(1, longest + 1)"),
    fact="the shortest matching prefix of a stop string is held back, not the longest",
    question="The stop string is aab, and the text ends in aa. Is one a enough?",
)
known.change(
    "one-letter-not-held",
    ("range(longest, 0, -1)", "range(longest, 1, -1)"),
    fact="a single character that may start a stop string is shown",
    question="The stop string is `three`, and the text ends in t. May the t be shown?",
)
known.change(
    "whole-text-not-held",
    ("min(len(text), len(stop) - 1)", "min(len(text) - 1, len(stop) - 1)"),
    fact="a prefix of a stop string is not recognized if it is the whole text",
    question="A piece is just `bl`, and the stop string is `blue`. How many characters must wait?",
)
known.change(
    "never-flushed",
    ('rest, self._held = self._held, ""', 'rest = ""'),
    fact="held-back characters are lost when the text ends for another reason",
    question="The model ends after `one t`. What should the client see?",
)
known.change(
    "tail-dropped",
    ("shown = self._show(self._detokenizer.finish())", 'shown = ""'),
    fact="what the detokenizer still holds at the end is dropped",
    question="What else holds characters back until the end?",
)
known.change(
    "tail-not-searched",
    ("shown = self._show(self._detokenizer.finish())", 'self._held += self._detokenizer.finish()\nshown = ""'),
    fact="the last characters, at the end, are not searched for a stop string",
    question="Can the last character complete a stop string?",
)
known.change(
    "goes-on",
    ('return "" if self.found else self._show(', "return self._show("),
    fact="the text continues after a stop string",
    question="What should add return after the text has ended?",
)
known.change(
    "rest-flushed",
    ('self._held = ""', "self._held = text[end:]"),
    ('if self.found:\n    return ""', "pass"),
    ("shown = self._show(", 'shown = "" if self.found else self._show('),
    ("if self.found:\n    return shown", "pass"),
    fact="the end flushes the stop string and what follows it in its piece",
    question="What is in your buffer after a stop string was found?",
)
known.change(
    "first-in-the-list",
    ("min(places)", "places[0]"),
    fact="the first stop string in the list wins when a piece has several",
    question="`one two three` comes in one piece. Which of `three` and `two` ends the text?",
)
known.change(
    "first-to-begin",
    ("min(places)", "min(places, key=lambda place: place[1])"),
    fact="of several stop strings in a piece, the one that starts first wins, not the one that ends first",
    question="In `abcd`, which is complete first, character by character: `abcd` or `bc`? And in one piece?",
)
known.change(
    "first-to-begin-in-alphabetical-order",
    ("(at + len(stop), at, stop)", "(at, at, stop)"),
    fact="the stop string that starts first wins, and of those that start together the first in alphabetical order",
    question="In `abcd`, which of `abcd` and `bc` is complete first, character by character?",
)
known.change(
    "first-in-the-list-counts",
    ("min(places)", "min(places, key=lambda place: place[0])"),
    fact="the first in the list wins among stop strings that end at the same character",
    question="`c` and `abc` end at the same character. May the order of the list decide what is shown?",
)
known.change(
    "only-the-end-searched",
    ("(at := text.find(stop)) >= 0", "(at := len(text) - len(stop)) >= 0 and text.endswith(stop)"),
    fact="a stop string is found only at the end of a piece",
    question="`see blue now` comes in one piece, and `blue` is the stop string. Does the buffer end with it?",
)
known.change(
    "whole-buffer-held",
    ("_begun(text, stop) for", "len(text) * stop.startswith(text) for"),
    fact="text is held back only if the whole buffer, with the new piece, begins a stop string",
    question="A piece is `a bl`, and the stop string is `blue`. Does the buffer begin it, and may `bl` be shown?",
)
known.change(
    "shortest-counts",
    ("min(places)", "min(places, key=lambda place: (place[0], -place[1]))"),
    fact="of stop strings that end at the same character, the shortest wins",
    question="`abc` and `c` end at the same character. What may be shown of `xabc`?",
)
known.change(
    "new-piece-only",
    ("(at := text.find(stop)) >= 0", "(at := text.find(stop, len(self._held))) >= 0"),
    fact="only the new piece is searched for stop strings",
    question="Where does a stop string start whose first characters were held back?",
)
known.change(
    "text-unkept",
    ("        self.text += text[:end]\n", ""),
    fact="`text` does not gain what add returns",
    question="A server has only called `ends`. Where does it find the text?",
)
known.change(
    "held-in-text",
    (
        "self.text += text[:end]",
        "self.text = self.text[: len(self.text) + len(piece) - len(text)] + (text[:end] if self.found else text)",
    ),
    ("        self.text += rest\n", ""),
    fact="`text` includes the characters that are held back",
    question="A server sends what was added to `text` after every step. What may it not send yet?",
)
known.change(
    "end-unkept",
    ("        self.text += rest\n", ""),
    fact="`text` does not gain the held-back characters that finish returns",
    question="What should `text` be after all pieces are joined?",
)
known.change(
    "ends-if-nothing-shows",
    ("self.add(token)", "shown = self.add(token)"),
    ("return self.found is not None", "return not shown"),
    fact="`ends` is true whenever there is nothing to show",
    question="For what other reason may a token show nothing?",
)
known.change(
    "ends-if-nothing-shows-as-well",
    ("self.add(token)", "shown = self.add(token)"),
    ("return self.found is not None", "return not shown and self.found is not None"),
    fact="`ends` is false if the ending token also shows characters before the stop string",
    question="`see blue` comes in one piece, and `blue` is the stop string. `see ` is shown. Has the text ended?",
)
known.change(
    "ends-never",
    ("return self.found is not None", "return False"),
    fact="`ends` is never true",
    question="How does the scheduler learn that a stop string was found?",
)
known.change(
    "ends-says-it-once",
    ("self.add(token)", "before = self.found\nself.add(token)"),
    ("return self.found is not None", "return self.found is not before"),
    fact="`ends` is true only for the token that ends the text, not for later ones",
    question="The text has ended, and one more token comes. Has it ended?",
)
known.change(
    "found-is-true",
    ("_, end, self.found = min(places)", "_, end, _ = min(places)\nself.found = True"),
    fact="`found` is True, not the string",
    question="What does the docstring say about `found`?",
)
known.change(
    "shared",
    ("self._stops, self._held = detokenizer", "self._stops, type(self)._held = detokenizer"),
    ("self._held = text[end:]", "type(self)._held = text[end:]"),
    fact="all StopStrings objects share one buffer",
    question="Is your buffer an attribute of the object or of the class?",
)
known.change(
    "empty-taken",
    ('if "" in stops:', "if False:"),
    fact="an empty stop string is accepted and ends every text at once",
    question="Where does the empty string first occur in a text?",
)


@known.accepted("letter-by-letter")
class LetterByLetter:
    """Looks at the end of the text after every character."""

    def __init__(self, detokenizer, stops):
        if any(not stop for stop in stops):
            raise ValueError("empty")
        self.detokenizer, self.stops = detokenizer, sorted(stops, key=len, reverse=True)
        self.text, self.held, self.found = "", "", None

    def add(self, token):
        return "" if self.found is not None else self.take(self.detokenizer.add(token))

    def take(self, piece):
        before = len(self.text)
        for letter in piece:
            self.held += letter
            self.found = next((stop for stop in self.stops if self.complete(stop)), None)
            if self.found is not None:
                self.text += self.held[: -len(self.found)]
                self.held = ""
                break
            while self.held and not any(stop.startswith(self.held) for stop in self.stops):
                count = self.unneeded()
                self.text, self.held = self.text + self.held[:count], self.held[count:]
        return self.text[before:]

    def complete(self, stop):
        return self.held.endswith(stop)

    def unneeded(self):
        """Return how many characters to show of a buffer that begins no stop string."""
        return 1

    def ends(self, token):
        self.add(token)
        return self.found is not None

    def finish(self):
        if self.found is not None:
            return ""
        before = len(self.text)
        self.take(self.detokenizer.finish())
        if self.found is None:
            self.text, self.held = self.text + self.held, ""
        return self.text[before:]


@known.wrong(
    "whole-buffer-compared",
    fact="a stop string is found only if it is the whole buffer, not its end",
    question="`abcd` and `bc` are stop strings, and the buffer holds `abc`. Is one of them complete?",
)
class WholeBufferCompared(LetterByLetter):
    def complete(self, stop):
        return self.held == stop


@known.wrong(
    "whole-buffer-shown",
    fact="the whole buffer is shown as soon as it is no prefix of a stop string, although its end may be one",
    question="The stop string is `aab`, and the buffer holds `aaa`. How many of its characters may be shown?",
)
class WholeBufferShown(LetterByLetter):
    def unneeded(self):
        return len(self.held)
