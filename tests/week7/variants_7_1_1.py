"""Known programs of task 7.1.1, regular expressions to automata over bytes."""

import mlx.core as mx
from tests.week7.grammars import own, run

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("7.1.1")


def verdicts(program, pattern, *texts):
    """Return for each text, or bytes, whether the automaton accepts it."""
    dfa = program(own(program, "pattern").parse_regex(pattern))
    return mx.array([run(dfa, list(text.encode() if isinstance(text, str) else text)) for text in texts], mx.float32)


def calls(program, build, *sequences):
    """Return for each sequence of bytes and rules whether the automaton accepts it, and the most calls of one state."""
    dfa = program(build(own(program, "expression")))
    most = max(len(each) for each in dfa.calls)
    return mx.array([most, *(run(dfa, list(symbols)) for symbols in sequences)], mx.float32)


known.probe_table(
    words=lambda program: verdicts(program, "dog|dig", "dog", "dig", "dg", "do", ""),
    star=lambda program: verdicts(program, "(ab)*", "", "ab", "abab", "aba", "b"),
    star_in_choice=lambda program: verdicts(program, "a*|b", "", "aa", "b", "ab", "bb"),
    choice_of_stars=lambda program: verdicts(program, "(?:a*|b*)c", "c", "aac", "bc", "abc", "bac"),
    star_in_star=lambda program: verdicts(program, "(a*b)*", "", "a", "b", "aab", "aba"),
    optional=lambda program: verdicts(program, "(a*b)?a*", "aab", "aaba", "aa", "abb", ""),
    counts=lambda program: verdicts(program, "a{2,3}", "", "a", "aa", "aaa", "aaaa"),
    at_least=lambda program: verdicts(program, "a{2,}", "a", "aa", "aaaaa"),
    plus=lambda program: verdicts(program, "a+b", "b", "ab", "aab"),
    exactly=lambda program: verdicts(program, "a{2}", "a", "aa", "aaa"),
    none=lambda program: verdicts(program, "a{0}b{0,2}", "", "a", "b", "bb", "bbb"),
    empty=lambda program: verdicts(program, "", "", "a"),
    two_ways=lambda program: verdicts(program, "(ab|a)(bc|c)", "abc", "abbc", "ac", "ab"),
    accent=lambda program: verdicts(program, "[a-é]", "a", "z", "é", "\x80", "ê", b"\xe9", b"\xc3"),
    wide=lambda program: verdicts(
        program, "[\u0700-\u0911]", "\u06ff", "\u0700", "\u07ff", "\u0800", "\u0911", "\u0912"
    ),
    inner=lambda program: verdicts(
        program, "[\u0950-\u0a10]", "\u094f", "\u0950", "\u097f", "\u0980", "\u0a00", "\u0a10", "\u0a11", "\u0a50"
    ),
    planes=lambda program: verdicts(
        program, "[\ufff0-\U00010fff]", "\uffef", "\ufff0", "\uffff", "\U00010000", "\U00010fff", "\U00011000"
    ),
    complement=lambda program: verdicts(
        program, "[^a]", "a", "b", "é", "犬", "\U0001f438", b"\xff", b"\xed\xa0\x80", b"\xed\xbf\xbf"
    ),
    surrogates=lambda program: verdicts(
        program, "[\ud700-\ue100]", "\ud7ff", b"\xed\xa0\x80", b"\xed\xbf\xbf", "\ue000", "\ue101"
    ),
    longer=lambda program: verdicts(
        program, "[^b]", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", "a"
    ),
    kanji=lambda program: verdicts(program, "犬+", "犬", "犬犬", b"\xe7\x8a", "狗"),
    one_call=lambda program: calls(program, lambda e: e.Call("x"), ["x"], [], ["x", "x"], ["y"]),
    two_calls=lambda program: calls(program, lambda e: e.Choice((e.Call("x"), e.Call("y"))), ["x"], ["y"], ["x", "y"]),
    same_rule=lambda program: calls(
        program,
        lambda e: e.Choice((e.Sequence((e.Call("x"), e.literal("a"))), e.Sequence((e.Call("x"), e.literal("b"))))),
        ["x", 97],
        ["x", 98],
        ["x"],
    ),
    call_or_byte=lambda program: calls(program, lambda e: e.Choice((e.Call("x"), e.literal("a"))), ["x"], [97], []),
    many=lambda program: mx.array(
        [refusal(lambda: program(own(program, "pattern").parse_regex("(?:a|b)*a(?:a|b){16}"))), 0]
    ),
)


@known.sized("a class of all characters, 0 to 40 times")
def sized(program):
    part = own(program, "pattern").parse_regex('[^"]{0,40}')
    return lambda: program(part)


LOOP = """
            loop = self.state()  # apart from `start`, which other options may leave
            self.empty[start].append(loop)
"""
FRAGMENT = """def fragment(self, part):
    if isinstance(part, Call | Chars) or part == Sequence(()):
        self.add(part, start := self.state(), end := self.state())
        return start, end
    if isinstance(part, Sequence) or isinstance(part, Repeat) and part.most is None:
        parts = part.parts if isinstance(part, Sequence) else [part.part] * max(part.least, 1)
        pieces = [self.fragment(each) for each in parts]
        for (_, last), (first, _) in itertools.pairwise(pieces):
            self.empty[last].append(first)
        first, last = pieces[-1]
        if isinstance(part, Repeat):
            self.empty[last].append(first)
            self.empty[first] += [] if part.least else [last]
        return pieces[0][0], last
    start, end = self.state(), self.state()
    options = part.options if isinstance(part, Choice) else [part.part] * part.most
    at = start
    for i, each in enumerate(options):
        first, last = self.fragment(each)
        self.empty[at].append(first)
        if isinstance(part, Choice):
            self.empty[last].append(end)
        else:
            self.empty[at] += [end] if i >= part.least else []
            at = last
    self.empty[at] += [end] if isinstance(part, Repeat) else []
    return start, end

def _repeat("""
known.change(
    "characters-as-bytes",
    (
        "for sequence in _utf8_ranges(first, last):",
        "for sequence in [[(first, min(last, 255))]] if first < 256 else []:",
    ),
    fact="a character is one byte, the one with its code point",
    question="How many bytes does é take in UTF-8, and is one of them E9?",
)
known.change(
    "surrogates-left-in",
    ("if first <= 0xDFFF and last >= 0xD800:", "if False:"),
    (
        "zip(chr(first).encode(), chr(last).encode(), strict=True)",
        'zip(chr(first).encode(errors="surrogatepass"), chr(last).encode(errors="surrogatepass"), strict=True)',
    ),
    fact="surrogates are accepted as if they were characters",
    question="Which code points have no UTF-8 encoding?",
)
known.change(
    "ranges-not-cut",
    ("if last > 0x7F and first & ~low != last & ~low:", "if False:"),
    fact="the bytes of the first and the last character of a class are paired to ranges, without cutting the class",
    question="From E0 A5 90 to E0 A8 90: may A9 follow A5? And which last bytes may follow A6?",
)
known.change(
    "lengths-not-cut",
    (
        "zip(chr(first).encode(), chr(last).encode(), strict=True)",
        "zip(chr(first).encode(), chr(last).encode(), strict=False)",
    ),
    ("if first <= limit < last:", "if False:"),
    fact="a class is not cut where the number of bytes changes",
    question="The class from a to é begins with one byte and ends with two. Which sequences has it?",
)
known.change(
    "loop-without-its-own-state",
    (LOOP, "            loop = start\n"),
    fact="the loop of a repetition is at its start state, which it shares with the other options of a choice",
    question="After an a of a*|b, may a b follow?",
)
known.change(
    "repetition-without-its-own-ends",
    (
        "nfa.add(expression, start, end)",
        "first, last = nfa.fragment(expression)\nnfa.empty[start].append(first)\nnfa.empty[last].append(end)",
    ),
    ("def _repeat(", FRAGMENT),
    fact="a repetition only links the first and last states of its part, which an inner repetition may share",
    question="(a*b)* and its a* begin in the same state. Where may your automaton go after an a?",
)
known.change(
    "start-without-closure",
    ("first = nfa.closure({start})", "first = frozenset({start})"),
    fact="the first set lacks the states that empty moves reach",
    question="Is the empty text one of a*?",
)
known.change(
    "one-target",
    ("row[low:high] = number(targets)", "row[low:high] = number({min(targets)})"),
    fact="of several targets of a byte only one is kept",
    question="In (ab|a)(bc|c), after an a: in how many places are you?",
)
known.change(
    "same-call-twice",
    (
        "calls.append(tuple((rule, number(targets)) for rule, targets in after.items()))",
        "calls.append(tuple((rule, number({t})) for rule, targets in after.items() for t in targets))",
    ),
    fact="a rule that is called from two places of a set is two calls",
    question="xa|xb, where x is a rule: in which states are you after x?",
)
known.change(
    "repeats-once-too-often",
    (
        "for _ in range((part.most or 0) - part.least):",
        "for _ in range((part.most or 0) - part.least + (part.most is not None)):",
    ),
    fact="a repetition may have one part more than its upper bound",
    question="How many optional copies follow the two of a{2,3}?",
)
known.change(
    "most-after-least",
    ("for _ in range((part.most or 0) - part.least):", "for _ in range(part.most or 0):"),
    fact="`most` is the number of optional parts that follow the first `least` ones",
    question="Is aaa a text of a{1,2}?",
)
known.change(
    "last-byte-of-a-range-missing",
    ("{last + 1 for _, last, _ in ranges}", "{last for _, last, _ in ranges}"),
    fact="the last byte of each range is left out",
    question="A range is from first to last, both included. Where does the next piece begin?",
)
known.change(
    "no-limit",
    ("if len(queue) == MOST_STATES:", "if False:"),
    fact="an automaton of any number of states is built",
    question="How many states has the automaton of (a|b)*a(a|b){20}?",
)
known.accepted_change(
    "byte by byte",
    ("for low, high in itertools.pairwise(cuts):", "for low, high in ((byte, byte + 1) for byte in range(256)):"),
)
known.accepted_change(
    "an empty move at the end of a class",
    (
        "self.ranges[at].append((*sequence[-1], end))",
        "self.ranges[at].append((*sequence[-1], last := self.state()))\nself.empty[last].append(end)",
    ),
)
