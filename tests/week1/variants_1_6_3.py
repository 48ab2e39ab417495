"""Reference variants of task 1.6.3, encoding."""

import unicodedata

from tests.week1.text_probes import TEXT, learned, numbers, small
from tiny_llm_solution.tokenizer import ByteLevelBPE, merge_pairs

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.3")
encode = ByteLevelBPE.encode  # saved, since a variant may replace the method


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
    normalized=lambda program: (*encoded(program, ACCENTS), *encoded(program, ACCENTS, normalization=None)),
    # Its normal form is another single character.
    angstrom_sign=lambda program: encoded(program, ["\u212b"]),
    specials=lambda program: encoded(
        program,
        ["that<|end|> is<|end|>a", "<|end|><|e<|end|>", "<|END|><|End|>", "dog<|end|>dog", " <|end|> \n<|e d"],
    ),
    overlapping_specials=lambda program: encoded(
        program,
        ["is <|a|>> is", "a|>>that", "<|a|>>>>that"],
        special_tokens={"<|a": 300, "a|>>": 301, ">>that": 302},
    ),
    listed_specials=lambda program: encoded(
        program, ["<|end|><|end|> a", "<|end"], special_tokens={"<|end|>": 301, "<|e": 300, "<|end|><|end|>": 302}
    ),
    # "abc" is a token, but its merges end in a + bc.
    ignore_merges=lambda program: encoded(program, ["abc ab dog"], merges="b+c a+b ab+c", ignore_merges=True),
    merges=lambda program: encoded(program, ["abc ab dog"], merges="b+c a+b ab+c"),
    special_of_id_0=lambda program: encoded(program, ["a<|end|>dog"], special_tokens={"<|end|>": 0}),
    # Merges across GPT-2's word boundaries: a word, a number, a punctuation mark, an apostrophe.
    words_that_touch=lambda program: encoded(
        program,
        ["dog!", "a1", "isn't", "is  dog", "that's! 1a"],
        merges="d+o do+g g+! dog+! a+1 n+' '+t \u0120+\u0120 s+!",
    ),
)


@known.sized("5 kB of text, without cached words")
def sized(program):
    bpe, text = learned(program), TEXT + TEXT.upper()

    def run():
        bpe.encode_word.cache_clear()
        return program(bpe, text)

    return run


known.change(
    "not-normalized",
    ("part = unicodedata.normalize(self.normalization, part)", "pass"),
    fact="the text is not normalized",
    question="Is e followed by a combining accent the same text as the one character e-acute?",
)
known.change(
    "always-nfc",
    ("if self.normalization:", "if True:"),
    ("normalize(self.normalization, part)", 'normalize("NFC", part)'),
    fact="the text is always normalized to NFC, and `normalization` is ignored",
    question="What should happen when `normalization` is None?",
)
known.change(
    "nfkc",
    ("normalize(self.normalization, part)", 'normalize("NFKC", part)'),
    fact="the text is normalized to NFKC, which decomposes ligatures and fractions",
    question="Which form does `normalization` name?",
)
known.change(
    "normalized-first",
    ("for part in", "if self.normalization:\n    text = unicodedata.normalize(self.normalization, text)\nfor part in"),
    fact="the text is normalized before special tokens are matched",
    question="Special tokens are matched exactly as given. What if one is written in another normalization form?",
)
known.change(
    "words-normalized",
    ("part = unicodedata.normalize(self.normalization, part)", "pass"),
    (
        "self.encode_word(word)",
        "self.encode_word(unicodedata.normalize(self.normalization, word) if self.normalization else word)",
    ),
    fact="each word is normalized, but the text is split into words before",
    question="Into which words does the pattern split an e followed by a combining accent?",
)
known.change(
    "special-of-id-0",
    ("if part in self.special_tokens:", "if self.special_tokens.get(part):"),
    fact="a special token whose id is 0 is encoded like ordinary text",
    question="Is 0 true or false in Python, and is it an id?",
)
known.change(
    "specials-as-text",
    ("self.specials.split(text) if self.specials else [text]", "[text]"),
    ("part in self.special_tokens", "False"),
    fact="special tokens are split into words and bytes like ordinary text",
    question="How many ids should <|end|> give?",
)
known.change(
    "shortest-special",
    (
        "self.specials.split(text)",
        'regex.split("(" + "|".join(map(regex.escape, sorted(self.special_tokens, key=len))) + ")", text)',
    ),
    fact="of two special tokens that start at the same position, the shorter one is matched",
    question="If <|e and <|end|> are both special, which one matches at the start of <|end|>?",
)


@known.wrong(
    "longest-special-first",
    fact="of two overlapping special tokens, the longer one is matched even when the other starts earlier",
    question="If ab and bcd are both special, which one does a scan from the left find first in abcd?",
)
def longest_special_first(self, text):
    found = max((s for s in self.special_tokens if s in text), key=len, default=None)
    if found is None:
        return encode(self, text)
    before, _, after = text.partition(found)
    number = self.special_tokens[found]
    return [*longest_special_first(self, before), number, *longest_special_first(self, after)]


@known.wrong(
    "specials-one-by-one",
    fact="the text is split at one special token after another, in the order of `special_tokens`",
    question="The text is <|end|>, and the special tokens are <|e and <|end|>, in this order. Which ids do you get?",
)
def specials_one_by_one(self, text):
    found = next((s for s in self.special_tokens if s in text), None)
    if found is None:
        return encode(self, text)
    before, _, after = text.partition(found)
    return [*specials_one_by_one(self, before), self.special_tokens[found], *specials_one_by_one(self, after)]


known.change(
    "first-listed-special",
    ("self.specials.split(text)", 'regex.split("(" + "|".join(map(regex.escape, self.special_tokens)) + ")", text)'),
    fact="of two special tokens that start at the same position, the one listed first is matched",
    question="In which order does a regular expression try the alternatives of a|ab?",
)
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
    fact="special tokens are matched without regard to case",
    question="Is <|END|> the token <|end|>?",
)
known.change(
    "specials-dropped",
    ("ids.append(self.special_tokens[part])", ""),
    fact="special tokens split the text, but produce no ids",
    question="What does re.split keep when the pattern has a group?",
)
known.change(
    "no-words",
    ("self.words.findall(part)", "[part]"),
    fact="the text is not split into words, so tokens span word boundaries",
    question="May a token contain the end of one word and the space before the next?",
)
known.change(
    "spaces-lost",
    ("self.encode_word(word)", "self.encode_word(word.strip())"),
    fact="the white space around words is lost",
    question='Which ids should " dog" and "dog" produce? Does decoding restore the space?',
)
known.change(
    "stripped",
    ("self.words.findall(part)", "self.words.findall(part.strip())"),
    fact="white space is lost at both ends of the text and next to special tokens",
    question='What should decode(encode("dog ")) return?',
)
known.change(
    "blank-parts-skipped",
    ("if part in self.special_tokens:", "if not part.strip():\n    continue\nif part in self.special_tokens:"),
    fact="a text of only white space gives no ids, whether alone or between special tokens",
    question='What should decode(encode("  ")) return?',
)
known.change(
    "ignore-merges-forgotten",
    (
        "self.encode_word(word)",
        """
        self.vocab[piece] for piece in merge_pairs([self.alphabet[byte] for byte in word.encode()], self.ranks)
        """,
    ),
    fact="a word that is a token as a whole is merged from its bytes even if `ignore_merges` is set",
    question="What does the constructor's docstring say about `ignore_merges`?",
)
known.change(
    "whole-words-always",
    (
        "self.encode_word(word)",
        """
        (self.vocab[text],)
        if (text := "".join(self.alphabet[byte] for byte in word.encode())) in self.vocab
        else self.encode_word(word)
        """,
    ),
    fact="a word that is a token as a whole is not merged, even if `ignore_merges` is not set",
    question="A word is also a token. When do its merges decide which ids it gets?",
)
known.change(
    "per-character",
    ("self.words.findall(part)", "part"),
    fact="each character is encoded separately",
    question='How many ids should "dog" produce if d+o and do+g are known pairs?',
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
    fact="words are split by GPT-2's pattern, and the tokenizer's own pattern is ignored",
    question="What is stored in `self.words`?",
)
known.change(
    "words-between-spaces",
    ("self.words.findall(part)", 'regex.findall(r" ?\\S+|\\s+", part)'),
    fact="words are split only at white space, so a word keeps the punctuation or digit after it",
    question='How many words does the tokenizer\'s pattern find in "dog!"?',
)
known.change(
    "words-without-spaces",
    ("self.words.findall(part)", 'regex.findall(r"\\w+|[^\\w\\s]+|\\s+", part)'),
    fact="the space before a word becomes a separate word",
    question='Which ids should " dog" produce if there is a token for it, space included?',
)

known.change(
    "normalized-by-none",
    ("if self.normalization:", "if True:"),
    fact="unicodedata.normalize is called even when `normalization` is None",
    question="Which form should be used when `normalization` is None?",
)
known.change(
    "split-at-no-specials",
    ("self.specials.split(text) if self.specials else [text]", "self.specials.split(text)"),
    fact="the text is split at special tokens even when `specials` is None",
    question="What is `self.specials` for a tokenizer without special tokens?",
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
    """Return the ids of text without special tokens."""
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
                whole = self.ignore_merges and "".join(letters) in self.vocab
                pieces = ["".join(letters)] if whole else merge_pairs(letters, self.ranks)
                ids += map(self.vocab.__getitem__, pieces)
    return ids
