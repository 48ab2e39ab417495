"""Reference variants of task 1.6.1, the byte alphabet."""

import itertools
import unicodedata

from tests.week1.text_probes import numbers

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.1")


@known.probe()
def alphabet_all(program):
    alphabet = program()
    return numbers(ord(alphabet[byte]) for byte in range(256))


@known.probe()
def alphabet_twice(program):
    return numbers([program() is program()])


known.not_timed("a table of 256 entries")


known.change(
    "plain-chr",
    ("chr(256 + i)", "chr(byte)"),
    fact="every byte maps to the character with its own code point",
    question="What does a terminal show for the characters 10 and 0?",
)
known.change(
    "256-plus-byte",
    ("chr(256 + i)", "chr(256 + byte)"),
    fact="a hidden byte maps to the character 256 + byte",
    question="Counting hidden bytes from 0, what is the number of the newline, 10, of the space, 32, and of 127?",
)
known.change(
    "soft-hyphen",
    ("range(174, 256)", "range(173, 256)"),
    fact="byte 173 is treated as visible",
    question="What does print(chr(173)) show?",
)
known.change(
    "space-visible",
    ("range(33, 127)", "range(32, 127)"),
    fact="the space maps to itself",
    question='What would be the first character of the token " dog"?',
)
known.change(
    "range-ends-left-out",
    ("{*range(33, 127), *range(161, 173), *range(174, 256)}", "{*range(33, 126), *range(161, 172), *range(174, 255)}"),
    fact="bytes 126, 172 and 255, the ends of their ranges, are treated as hidden",
    question="What is the last number of range(33, 126)?",
)
known.change(
    "delete-visible",
    ("range(33, 127)", "range(33, 128)"),
    fact="byte 127 is treated as visible",
    question="Which key does character 127 stand for?",
)
known.change(
    "ascii-only",
    ("{*range(33, 127), *range(161, 173), *range(174, 256)}", "{*range(33, 127)}"),
    fact="only the visible characters of ASCII map to themselves",
    question="Is character 233 visible?",
)
known.change(
    "one-dict-for-all-calls",
    ("def byte_alphabet(", "@functools.cache\ndef byte_alphabet("),
    fact="every call returns the same dict, so a caller who changes it changes it for all others",
    question="A caller removes byte 0 from the dict. What does the next caller get?",
)
known.change(
    "from-257",
    ("chr(256 + i)", "chr(257 + i)"),
    fact="the hidden bytes map to the characters from U+0101 on",
    question="Which character does byte 0 map to?",
)
known.change(
    "126-hidden",
    ("range(33, 127)", "range(33, 126)"),
    fact="byte 126 is treated as hidden",
    question="What is the last number of range(33, 126)?",
)
known.change(
    "172-hidden",
    ("range(161, 173)", "range(161, 172)"),
    fact="byte 172 is treated as hidden",
    question="What is the last number of range(161, 172)?",
)
known.change(
    "255-hidden",
    ("range(174, 256)", "range(174, 255)"),
    fact="byte 255 is treated as hidden",
    question="What is the last number of range(174, 255)?",
)
known.change(
    "160-visible",
    ("range(161, 173)", "range(160, 173)"),
    fact="byte 160 is treated as visible",
    question="What does print(chr(160)) show?",
)


@known.accepted("counter")
def counter():
    alphabet, following = {}, 256
    for byte in range(256):
        shown = 33 <= byte <= 126 or (161 <= byte <= 255 and byte != 173)
        alphabet[byte] = chr(byte if shown else following)
        following += not shown
    return alphabet


@known.accepted("by-unicode-category")
def by_category():
    visible = {byte for byte in range(256) if unicodedata.category(chr(byte)) not in ("Cc", "Cf", "Zs")}
    following = itertools.count(256)
    return {byte: chr(byte if byte in visible else next(following)) for byte in range(256)}
