"""Known programs of task 5.1.1, counting words."""

import unicodedata

import regex
from tests.week1.text_probes import TEXT
from tests.week5.merge_probes import counted
from tests.week5.merging import QWEN
from tiny_llm_solution.tokenizer import GPT2_PATTERN, byte_alphabet

from tiny_llm_course.testkit.variants import Variants

known = Variants("5.1.1")

ACCENTS = ["e\u0301te\u0301 \u00e9 \ufb01n \u00bd", "x\u00a0y"]


def counts(program, texts, *special, **settings):
    return counted(program(texts, special_tokens=special, **settings))


known.probe_table(
    one_text=lambda program: counts(program, ["a dog and a dog"]),
    spaces=lambda program: counts(program, [" a  dog\n\n", "dog's 12!"]),
    several_texts=lambda program: counts(program, ["blue", "dog", "blue ", "dog"]),
    bytes=lambda program: counts(program, ["\u00e9t\u00e9 \U0001f415 \x7f"]),
    special=lambda program: counts(program, ["dog<|end|>dog <|end|> dog", "<|end|>"], "<|end|>"),
    special_characters=lambda program: counts(program, ["end < dog > |", "a.b acb"], "<|end|>", "a.b"),
    special_alone=lambda program: counts(program, ["dog", "a"], "<|end|>"),
    overlapping=lambda program: counts(program, ["a<|e<|end|>b", "dogs dog"], "<|e", "<|e<|end|>", "do", "dog"),
    overlapping_in_another_order=lambda program: counts(program, ["a<|e<|end|>b", "dogs"], "<|e<|end|>", "dog", "do"),
    normalized=lambda program: (counts(program, ACCENTS, normalization="NFC"), counts(program, ACCENTS)),
    compatible=lambda program: counts(program, ACCENTS, normalization="NFKC"),
    decomposed_special=lambda program: counts(program, ["ae\u0301b", "\u00e9"], "e\u0301", normalization="NFC"),
    accent_after_special=lambda program: counts(program, ["e<|end|>\u0301"], "<|end|>", normalization="NFC"),
    pattern=lambda program: counts(program, ["That's 123 DOG'S\n\n x"], pattern=QWEN),
    few_words=lambda program: counts(program, ["a-b c"], pattern="[a-z]"),
)


@known.sized("100 kB of text")
def sized(program):
    texts = [TEXT] * (100_000 // len(TEXT))
    return lambda: program(texts, QWEN, ["<|end|>"], "NFC")


FOR = "for part in splitter.specials.split(text) if splitter.specials else [text]:"
SPLIT = "splitter.specials.split(text)"
FORM = "unicodedata.normalize(normalization, part) if normalization else part"
known.change(
    "texts-joined",
    ("for text in texts:", 'for text in ["".join(texts)]:'),
    fact="the texts are joined before they are split, so a word may span two of them",
    question='The texts are "blue" and "dog". Which words are counted?',
)
known.change(
    "special-tokens-counted",
    ("if part not in splitter.special_tokens:", "if True:"),
    fact="special tokens are split into words and counted",
    question="Which merges would be learned from ten thousand <|end|>? Will the encoder ever use them?",
)
known.change(
    "not-split-at-special-tokens",
    (FOR, "for part in [text]:"),
    fact="the text is not split at special tokens",
    question='Which words are in "dog <|end|> dog" if <|end|> is a special token?',
)
known.change(
    "special-tokens-deleted",
    (FOR, 'for part in [splitter.specials.sub("", text) if splitter.specials else text]:'),
    fact="special tokens are deleted, so the texts before and after them are joined",
    question='Which words are in "dog<|end|>dog"?',
)
known.change(
    "special-tokens-as-expressions",
    (SPLIT, '__import__("regex").split("|".join(special_tokens), text)'),
    fact='special tokens are used as regular expressions, in which | means "or" and . matches any character',
    question="Which strings does the regular expression <|end|> match?",
)
known.change(
    "shortest-special-token-first",
    (
        SPLIT,
        '__import__("regex").split("|".join(sorted(map(__import__("regex").escape, special_tokens), key=len)), text)',
    ),
    fact="the shortest of several special tokens that match at the same place wins",
    question='The special tokens are <|e and <|e<|end|>. Which one is in "<|e<|end|>"?',
)
known.change(
    "special-tokens-in-the-given-order",
    (SPLIT, '__import__("regex").split("|".join(map(__import__("regex").escape, special_tokens)), text)'),
    fact="of several special tokens that match at the same place, the first in `special_tokens` wins, not the longest",
    question='The special tokens are <|e and <|e<|end|>, in this order. Which one is in "<|e<|end|>"?',
)
known.change(
    "not-normalized",
    (FORM, "part"),
    fact="the text is not normalized",
    question="Are e with a combining accent and the single character \u00e9 one word, or two?",
)
known.change(
    "normalized-first",
    (
        "for text in texts:",
        "for text in texts:\n    text = unicodedata.normalize(normalization, text) if normalization else text",
    ),
    fact="the text is normalized before special tokens are found in it",
    question="A special token contains e with a combining accent. Is it still in the text after NFC?",
)
known.change(
    "words-normalized",
    (f"part = {FORM}", "form = normalization"),
    (
        "counts.update(splitter.words.findall(part))",
        "counts.update(unicodedata.normalize(form, w) if form else w for w in splitter.words.findall(part))",
    ),
    fact="the text is split into words first, and then each word is normalized",
    question="How many words does the pattern find in e followed by a combining accent? And after NFC?",
)
known.change(
    "pattern-ignored",
    ("pattern, normalization)", "GPT2_PATTERN, normalization)"),
    fact="the words are always those of GPT-2's pattern",
    question="How many words is 123 for GPT-2's pattern, and for Qwen's?",
)
known.change(
    "characters-instead-of-bytes",
    (
        '{"".join(splitter.alphabet[byte] for byte in word.encode()): count for word, count in counts.items()}',
        "dict(counts)",
    ),
    fact="the words are returned as they are, not written as bytes in the characters of `byte_alphabet`",
    question='How is " dog" written in the byte alphabet?',
)
BYTES = '"".join(splitter.alphabet[byte] for byte in word.encode())'
for name, replaced, which in (
    ("only-the-space-replaced", 'word.replace(" ", "\\u0120")', "the space is"),
    (
        "only-white-space-replaced",
        'word.replace(" ", "\\u0120").replace("\\n", "\\u010a")',
        "spaces and line feeds are",
    ),
):
    known.change(
        name,
        (BYTES, replaced),
        fact=f"only {which} written in the byte alphabet, and all other characters remain as they are",
        question="Which bytes does \u00e9 have in UTF-8, and how is each of them written?",
    )
known.change(
    "code-points-as-bytes",
    (BYTES, '"".join(splitter.alphabet[ord(character)] for character in word)'),
    fact="each character's code point is looked up as if it were a byte, without encoding the word as UTF-8",
    question="How many bytes does a dog emoji have in UTF-8, and what is its code point?",
)
known.change(
    "texts-stripped",
    ("for text in texts:", "for text in map(str.strip, texts):"),
    fact="white space at both ends of every text is removed",
    question='How many words are in "dog " and a line feed, as the encoder splits them?',
)
known.change(
    "parts-stripped",
    ("splitter.words.findall(part)", "splitter.words.findall(part.strip())"),
    fact="white space is removed before and after every special token, as well as at the ends of every text",
    question='Which words does the encoder find in "<|end|> dog" after the special token?',
)
known.change(
    "split-at-spaces",
    ("splitter.words.findall(part)", "part.split()"),
    fact="the text is split at white space, which is lost, and not by `pattern`",
    question="The encoder's words begin with their space. Which pairs with that space are learned?",
)


@known.accepted("with expressions of its own")
def own_expressions(texts, pattern=GPT2_PATTERN, special_tokens=(), normalization=None):
    alphabet, found = byte_alphabet(), {}
    ends = regex.compile("|".join(map(regex.escape, sorted(special_tokens, key=len, reverse=True))) or r"(?!)")
    compiled = regex.compile(pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}"))
    for text in texts:
        for part in ends.split(text):
            if normalization is not None:
                part = unicodedata.normalize(normalization, part)
            for match in compiled.finditer(part):
                word = "".join(map(alphabet.__getitem__, match[0].encode("utf-8")))
                found[word] = found.get(word, 0) + 1
    return found


known.accepted_change(
    "ASCII is not normalized",
    (f"part = {FORM}", f"part = part if part.isascii() else {FORM}"),
)
