"""Known programs of task 1.6.3, encoding."""

import unicodedata

from tests.week1.text_probes import TEXT, learned, numbers, small
from tiny_llm_solution.tokenizer import ByteLevelBPE, merge_pairs

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.3")
encode = ByteLevelBPE.encode  # under a name of its own: a mistake may take the method's place


ACCENTS = "e\u0301 \u00e9 \ufb01 \u00bd", "\u00e9\u0301"


def encoded(program, texts, **settings):
    bpe = small(program, **settings)
    return tuple(numbers(program(bpe, text)) for text in texts)


known.probe_table(
    words=lambda program: encoded(
        program, ["that is  a dog ", " dogs\n\tis", "This isn't s s", "d\u00e9j\u00e0 \U0001f415 \u72d7", ""]
    ),
    decomposed_specials=lambda program: encoded(program, ["is e\u0301 is"], special_tokens={"e\u0301": 300}),
    another_pattern=lambda program: encoded(program, ["that is a dog"], pattern=r"\s|\S"),
    without_specials=lambda program: encoded(program, ["<|end|> dog"], special_tokens={}),
    normalised=lambda program: (*encoded(program, ACCENTS), *encoded(program, ACCENTS, normalization=None)),
    specials=lambda program: encoded(
        program,
        ["that<|end|> is<|end|>a", "<|end|><|e<|end|>", "<|END|><|End|>", "dog<|end|>dog", " <|end|> \n<|e d"],
    ),
    overlapping_specials=lambda program: encoded(
        program,
        ["is <|a|>> is", "a|>>that", "<|a|>>>>that"],
        special_tokens={"<|a": 300, "a|>>": 301, ">>that": 302},
    ),
    # Merges that would join what GPT-2's pattern keeps apart: a word, a number, a mark, an apostrophe.
    words_that_touch=lambda program: encoded(
        program,
        ["dog!", "a1", "isn't", "is  dog", "that's! 1a"],
        merges="d+o do+g g+! dog+! a+1 n+' '+t \u0120+\u0120 s+!",
    ),
)


@known.sized("5 kB of text, none of its words remembered")
def sized(program):
    bpe, text = learned(program), TEXT + TEXT.upper()

    def run():
        bpe.encode_word.cache_clear()
        return program(bpe, text)

    return run


known.change(
    "not-normalised",
    ("part = unicodedata.normalize(self.normalization, part)", "pass"),
    fact="the text is not normalised",
    question="Is e followed by a combining accent the same text as the one character e-acute?",
)
known.change(
    "always-nfc",
    ("if self.normalization:", "if True:"),
    ("normalize(self.normalization, part)", 'normalize("NFC", part)'),
    fact="the text is always brought to NFC, whatever the tokenizer's `normalization` is",
    question="What should happen if `normalization` is None?",
)
known.change(
    "nfkc",
    ("normalize(self.normalization, part)", 'normalize("NFKC", part)'),
    fact="the text is brought to NFKC, which takes ligatures and fractions apart",
    question="Which form does `normalization` name?",
)
known.change(
    "normalised-first",
    ("for part in", "if self.normalization:\n    text = unicodedata.normalize(self.normalization, text)\nfor part in"),
    fact="the whole text is normalised before special tokens are looked for",
    question="A special token is found as it stands. What if it was written in another form?",
)
known.change(
    "specials-as-text",
    ("self.specials.split(text) if self.specials else [text]", "[text]"),
    ("part in self.special_tokens", "False"),
    fact="special tokens are split into words and bytes like any text",
    question="How many ids should <|end|> give?",
)
known.change(
    "shortest-special",
    (
        "self.specials.split(text)",
        'regex.split("(" + "|".join(map(regex.escape, sorted(self.special_tokens, key=len))) + ")", text)',
    ),
    fact="of two special tokens that begin at the same place, the shorter one is taken",
    question="If <|e and <|end|> are both special, which one begins the text <|end|>?",
)


@known.wrong(
    "longest-special-first",
    fact="of two special tokens that overlap, the longer one is taken, even where the other one begins before it",
    question="If ab and bcd are both special, which one does a reader from the left meet first in abcd?",
)
def longest_special_first(self, text):
    found = max((s for s in self.special_tokens if s in text), key=len, default=None)
    if found is None:
        return encode(self, text)
    before, _, after = text.partition(found)
    number = self.special_tokens[found]
    return [*longest_special_first(self, before), number, *longest_special_first(self, after)]


known.change(
    "specials-in-any-case",
    (
        "ids: list[int] = []",
        """
        ids: list[int] = []
        for special in self.special_tokens:
            text = regex.sub(regex.escape(special), special, text, flags=regex.IGNORECASE)
        """,
    ),
    fact="a special token is also found in capitals",
    question="Is <|END|> the token <|end|>?",
)
known.change(
    "specials-dropped",
    ("ids.append(self.special_tokens[part])", ""),
    fact="special tokens separate the text, but give no ids",
    question="What does re.split keep when the pattern has a group?",
)
known.change(
    "no-words",
    ("self.words.findall(part)", "[part]"),
    fact="the text is not split into words, so that tokens reach over two of them",
    question="May a token hold the end of one word and the space before the next?",
)
known.change(
    "spaces-lost",
    ("self.encode_word(word)", "self.encode_word(word.strip())"),
    fact="the white space around words is lost",
    question='Which ids should " dog" and "dog" give? Does decoding bring back the space?',
)
known.change(
    "stripped",
    ("self.words.findall(part)", "self.words.findall(part.strip())"),
    fact="white space at both ends of the text, or beside a special token, is lost",
    question='What should decode(encode("dog ")) give?',
)
known.change(
    "per-character",
    ("self.words.findall(part)", "part"),
    fact="each character is encoded by itself",
    question='How many ids should "dog" give if d+o and do+g are pairs?',
)
known.change(
    "no-merges",
    ("self.encode_word(word)", "self.vocab[self.alphabet[byte]] for byte in word.encode()"),
    fact="each byte is a token, and nothing is merged",
    question="Where does your encode use `ranks`?",
)
known.change(
    "fixed-pattern",
    ("self.words.findall(part)", "regex.findall(GPT2_PATTERN, part)"),
    fact="words are split by GPT-2's pattern, whatever the tokenizer's own pattern is",
    question="What is kept in `self.words`?",
)
known.change(
    "words-between-spaces",
    ("self.words.findall(part)", 'regex.findall(r" ?\\S+|\\s+", part)'),
    fact="words are split at white space only, so that a word and the mark or digit behind it are one",
    question='How many words does the tokenizer\'s pattern find in "dog!"?',
)
known.change(
    "words-without-spaces",
    ("self.words.findall(part)", 'regex.findall(r"\\w+|[^\\w\\s]+|\\s+", part)'),
    fact="the space before a word is a word of its own",
    question='Which ids should " dog" give if there is a token for it, space included?',
)

known.change(
    "normalised-by-none",
    ("if self.normalization:", "if True:"),
    fact="unicodedata.normalize is called even if `normalization` is None",
    question="Which form is text brought to if `normalization` is None?",
)
known.change(
    "split-at-no-specials",
    ("self.specials.split(text) if self.specials else [text]", "self.specials.split(text)"),
    fact="the text is split at special tokens even if there are none, and `specials` is None",
    question="What is `self.specials` if a tokenizer has no special tokens?",
)


@known.accepted("scan")
def scan(self, text):
    ids = []
    begin = i = 0
    while i < len(text):
        found = max((s for s in self.special_tokens if text.startswith(s, i)), key=len, default="")
        if found:
            ids += [*part_ids(self, text[begin:i]), self.special_tokens[found]]
            begin = i + len(found)
        i += len(found) or 1
    return ids + part_ids(self, text[begin:])


def part_ids(self, text):
    """The ids of text without special tokens."""
    text = unicodedata.normalize(self.normalization, text) if self.normalization else text
    return [i for word in self.words.findall(text) for i in self.encode_word(word)]


@known.accepted("finditer-and-merge")
def finditer_and_merge(self, text):
    ids = []
    for part in self.specials.split(text) if self.specials else [text]:
        if part in self.special_tokens:
            ids += [self.special_tokens[part]]
        else:
            part = unicodedata.normalize(self.normalization, part) if self.normalization else part
            for match in self.words.finditer(part):
                letters = [self.alphabet[byte] for byte in match[0].encode()]
                ids += map(self.vocab.__getitem__, merge_pairs(letters, self.ranks))
    return ids
