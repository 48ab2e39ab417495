"""Day 6's known programs: the mistakes that learners make, right programs in other words, and the probes.

Probes give arrays: ids as they are, text as its UTF-8 bytes, pieces as bytes with a 256 behind each.
"""

import codecs
import itertools
import sys
import unicodedata

import mlx.core as mx

from tiny_llm_course.packages import load_solution
from tiny_llm_course.variants import Variants

load_solution()
from tiny_llm_solution import tokenizer as solved  # noqa: E402
from tiny_llm_solution.generate import generate_tokens, greedy  # noqa: E402
from tiny_llm_solution.tokenizer import ByteLevelBPE, StreamingDetokenizer, byte_alphabet, merge_pairs  # noqa: E402

day = Variants()


def numbers(values):
    return mx.array(list(values), dtype=mx.int32)


def as_bytes(text):
    if not isinstance(text, str):
        raise TypeError("not a text")
    return numbers(text.encode())


def pieces(texts):
    return numbers(itertools.chain.from_iterable([*text.encode(), 256] for text in texts))


# 1.6.1 the byte alphabet


@day.probe("1.6.1")
def alphabet_all(program):
    alphabet = program()
    return numbers(ord(alphabet[byte]) for byte in range(256))


def letters(visible, first=256):
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(first + i) for i, byte in enumerate(hidden)}


VISIBLE = {*range(33, 127), *range(161, 173), *range(174, 256)}


@day.wrong(
    "1.6.1", "plain-chr",
    fact="every byte stands for the character of its own number",
    question="What does a terminal show for the characters 10 and 0?",
)  # fmt: skip
def plain_chr():
    return {byte: chr(byte) for byte in range(256)}


@day.wrong(
    "1.6.1", "256-plus-byte",
    fact="a hidden byte stands for the character 256 + byte",
    question="Counting hidden bytes from 0, which number has the newline, 10, and which the space, 32? And 127?",
)  # fmt: skip
def shifted_by_256():
    return {byte: chr(byte) if byte in VISIBLE else chr(256 + byte) for byte in range(256)}


@day.wrong(
    "1.6.1", "soft-hyphen",
    fact="byte 173 counts as visible",
    question="What does print(chr(173)) show?",
)  # fmt: skip
def soft_hyphen():
    return letters(VISIBLE | {173})


@day.wrong(
    "1.6.1", "space-visible",
    fact="the space stands for itself",
    question="What would be the first letter of the token \" dog\"?",
)  # fmt: skip
def space_visible():
    return letters(VISIBLE | {32})


@day.wrong(
    "1.6.1", "range-ends-left-out",
    fact="bytes 126, 172 and 255, the ends of their ranges, count as hidden",
    question="Which is the last number of range(33, 126)?",
)  # fmt: skip
def range_ends():
    return letters(VISIBLE - {126, 172, 255})


@day.wrong(
    "1.6.1", "delete-visible",
    fact="byte 127 counts as visible",
    question="Which key of a keyboard is character 127?",
)  # fmt: skip
def delete_visible():
    return letters(VISIBLE | {127})


@day.wrong(
    "1.6.1", "ascii-only",
    fact="only the visible characters of ASCII stand for themselves",
    question="Is character 233 visible?",
)  # fmt: skip
def ascii_only():
    return letters(set(range(33, 127)))


@day.wrong(
    "1.6.1", "from-257",
    fact="the hidden bytes stand for the characters from U+0101 on",
    question="Which character does byte 0 stand for?",
)  # fmt: skip
def from_257():
    return letters(VISIBLE, 257)


@day.accepted("1.6.1", "counter")
def counter():
    alphabet, following = {}, 256
    for byte in range(256):
        shown = 33 <= byte <= 126 or (161 <= byte <= 255 and byte != 173)
        alphabet[byte] = chr(byte if shown else following)
        following += not shown
    return alphabet


@day.accepted("1.6.1", "by-unicode-category")
def by_category():
    visible = {byte for byte in range(256) if unicodedata.category(chr(byte)) not in ("Cc", "Cf", "Zs")}
    return letters(visible)


# 1.6.2 merging pairs


def ranked(text):
    return {tuple(pair.split("+")): rank for rank, pair in enumerate(text.split())}


@day.probe("1.6.2")
def merge_words(program):
    ranks = ranked("l+u u+e b+l lu+e b+lue d+o do+g bl+u o+o")
    return tuple(pieces(program(list(word), ranks)) for word in ("blue", "ublublu", "doog", "dogdog", "cat", ""))


@day.probe("1.6.2")
def merge_repeated(program):
    ranks = ranked("a+a aa+aa aa+b")
    return tuple(pieces(program(list(word), ranks)) for word in ("aaa", "aaaa", "aaaaaaab", "aab"))


@day.probe("1.6.2")
def merge_table_in_another_order(program):
    return pieces(program(list("blue"), {("b", "l"): 1, ("u", "e"): 2, ("l", "u"): 0}))


@day.probe("1.6.2")
def merge_input_afterwards(program):
    symbols = list("dog")
    program(symbols, ranked("d+o"))
    return pieces(symbols)


def join(symbols, pair):
    """Every place of a pair, from left to right."""
    return merge_pairs(symbols, {pair: 0})


def known(symbols, ranks):
    return [pair for pair in itertools.pairwise(symbols) if pair in ranks]


@day.wrong(
    "1.6.2", "leftmost-first",
    fact="the pair that stands first in the word is joined first",
    question="Which of two pairs that both stand in the word was learned first?",
)  # fmt: skip
def leftmost_first(symbols, ranks):
    while found := known(symbols, ranks):
        symbols = join(symbols, found[0])
    return list(symbols)


@day.wrong(
    "1.6.2", "highest-rank-first",
    fact="the pair learned last is joined first",
    question="Does rank 0 mean that a pair was learned first, or last?",
)  # fmt: skip
def highest_first(symbols, ranks):
    while found := known(symbols, ranks):
        symbols = join(symbols, max(found, key=ranks.__getitem__))
    return list(symbols)


@day.wrong(
    "1.6.2", "one-round",
    fact="only the first pair is joined, and then no other",
    question="After d and o have become do, can do and g be joined?",
)  # fmt: skip
def one_round(symbols, ranks):
    found = known(symbols, ranks)
    return join(symbols, min(found, key=ranks.__getitem__)) if found else list(symbols)


@day.wrong(
    "1.6.2", "one-place",
    fact="a pair is joined in one place only, although it stands in several",
    question="In dogdog, how often do d and o stand side by side?",
)  # fmt: skip
def one_place(symbols, ranks):
    symbols, left = list(symbols), dict(ranks)
    while found := known(symbols, left):
        pair = min(found, key=left.__getitem__)
        i = list(itertools.pairwise(symbols)).index(pair)
        symbols[i : i + 2] = ["".join(pair)]
        del left[pair]
    return symbols


@day.wrong(
    "1.6.2", "longest-piece",
    fact="the longest piece of the table that fits is cut off from the left, without going by rank",
    question="If l+u was learned before b+l, which pieces of blue are there after the first join?",
)  # fmt: skip
def longest_piece(symbols, ranks):
    word, table, result = "".join(symbols), {a + b for a, b in ranks}, []
    while word:
        size = next((n for n in range(len(word), 1, -1) if word[:n] in table), 1)
        result.append(word[:size])
        word = word[size:]
    return result


@day.wrong(
    "1.6.2", "joined-twice",
    fact="a piece is joined with the one before it and with the one behind it at once, so that aaa becomes aa aa",
    question="How many letters do aa and aa have together, and how many has aaa?",
)  # fmt: skip
def joined_twice(symbols, ranks):
    symbols = list(symbols)
    for _ in range(8):  # it may never end
        found = known(symbols, ranks)
        if not found:
            break
        first, second = min(found, key=ranks.__getitem__)
        result, i = [], 0
        while i < len(symbols):
            if symbols[i : i + 2] == [first, second]:
                result.append(first + second)
                # The second piece stays if it begins the same pair again.
                i += 1 if symbols[i + 1 : i + 3] == [first, second] else 2
            else:
                result.append(symbols[i])
                i += 1
        symbols = result
    return symbols


@day.wrong(
    "1.6.2", "from-the-right",
    fact="the places of a pair are joined from right to left, so that aaa becomes a aa",
    question="In aaa the pair a+a stands twice. Which place comes first in reading order?",
)  # fmt: skip
def from_the_right(symbols, ranks):
    symbols = list(symbols)
    while found := known(symbols, ranks):
        first, second = min(found, key=ranks.__getitem__)
        i = len(symbols) - 2
        while i >= 0:
            if symbols[i : i + 2] == [first, second]:
                symbols[i : i + 2] = [first + second]
            i -= 1
    return symbols


@day.wrong(
    "1.6.2", "order-of-the-table",
    fact="the pairs are tried in the order of the dictionary, whatever their ranks are",
    question="What do the numbers in `ranks` say?",
)  # fmt: skip
def order_of_the_table(symbols, ranks):
    symbols = list(symbols)
    for pair in ranks:
        symbols = join(symbols, pair)
    return symbols


@day.wrong(
    "1.6.2", "input-changed",
    fact="the caller's list is joined in place",
    question="What is in `symbols` after the call?",
)  # fmt: skip
def input_changed(symbols, ranks):
    symbols[:] = merge_pairs(symbols, ranks)
    return symbols


@day.accepted("1.6.2", "one-at-a-time")
def one_at_a_time(symbols, ranks):
    symbols = list(symbols)
    while True:
        pairs = [(ranks.get(pair, len(ranks)), i) for i, pair in enumerate(itertools.pairwise(symbols))]
        rank, i = min(pairs, default=(len(ranks), 0))
        if rank == len(ranks):
            return symbols
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


@day.accepted("1.6.2", "rank-by-rank")
def rank_by_rank(symbols, ranks):
    symbols = list(symbols)
    for first, second in sorted(ranks, key=ranks.__getitem__):
        i = 0
        while i + 1 < len(symbols):
            if symbols[i] == first and symbols[i + 1] == second:
                symbols[i : i + 2] = [first + second]
            i += 1
    return symbols


# 1.6.3 encoding and 1.6.4 decoding


def small(program=None, specials=None, normalization="NFC", pattern=solved.GPT2_PATTERN):
    """The 256 bytes, eleven merges and three special tokens.

    The tokenizer is of the class that the program's own file knows, so that a learner's encode meets the learner's
    merge_pairs; a known program meets the solution's.
    """
    known_class = (
        getattr(sys.modules.get(program.__module__), "ByteLevelBPE", ByteLevelBPE) if program else ByteLevelBPE
    )
    pairs = "t+h th+a \u0120+i \u0120i+s d+o do+g \u0120+dog \u00c3+\u00a9 s+\u0120 \u00c2+\u0142 \u0120+\u00c3"
    merges = [tuple(pair.split("+")) for pair in pairs.split()]
    tokens = [*byte_alphabet().values(), *map("".join, merges)]
    vocab = {token: i for i, token in enumerate(sorted(tokens))}
    specials = {"<|e": 300, "<|end|>": 301, "dog<|end|>": 302} if specials is None else specials
    return known_class(vocab, merges, specials, pattern, normalization)


def encoded(program, texts, **settings):
    bpe = small(program, **settings)
    return tuple(numbers(program(bpe, text)) for text in texts)


@day.probe("1.6.3")
def encode_words(program):
    return encoded(
        program, ["that is  a dog ", " dogs\n\tis", "This isn't s s", "d\u00e9j\u00e0 \U0001f415 \u72d7", ""]
    )


@day.probe("1.6.3")
def encode_normalised(program):
    texts = ["e\u0301 \u00e9 \ufb01 \u00bd", "\u00e9\u0301"]
    return *encoded(program, texts), *encoded(program, texts, normalization=None)


@day.probe("1.6.3")
def encode_specials(program):
    texts = ["that<|end|> is<|end|>a", "<|end|><|e<|end|>", "<|END|><|End|>", "dog<|end|>dog", " <|end|> \n<|e d"]
    return encoded(program, texts)


@day.probe("1.6.3")
def encode_overlapping_specials(program):
    specials = {"<|a": 300, "a|>>": 301, ">>that": 302}
    return encoded(program, ["is <|a|>> is", "a|>>that", "<|a|>>>>that"], specials=specials)


@day.probe("1.6.3")
def encode_decomposed_specials(program):
    return encoded(program, ["is e\u0301 is"], specials={"e\u0301": 300})


@day.probe("1.6.3")
def encode_another_pattern(program):
    return encoded(program, ["that is a dog"], pattern=r"\s|\S")


@day.probe("1.6.3")
def encode_without_specials(program):
    return encoded(program, ["<|end|> dog"], specials={})


def part_ids(self, text, form=None):
    """The ids of text without special tokens."""
    form = form or self.normalization
    text = unicodedata.normalize(form, text) if form else text
    return [i for word in self.words.findall(text) for i in self.encode_word(word)]


def encode_with(self, text, part=part_ids, specials=None):
    """The solution in steps that a mistake can replace."""
    split = specials or self.specials
    ids: list[int] = []
    for piece in split.split(text) if split else [text]:
        ids.extend([self.special_tokens[piece]] if piece in self.special_tokens else part(self, piece))
    return ids


@day.wrong(
    "1.6.3", "not-normalised",
    fact="the text is not normalised",
    question="Is e followed by a combining accent the same text as the one character e-acute?",
)  # fmt: skip
def not_normalised(self, text):
    return encode_with(self, text, lambda self, t: [i for w in self.words.findall(t) for i in self.encode_word(w)])


@day.wrong(
    "1.6.3", "always-nfc",
    fact="the text is always brought to NFC, whatever the tokenizer's `normalization` is",
    question="What should happen if `normalization` is None?",
)  # fmt: skip
def always_nfc(self, text):
    return encode_with(self, text, lambda self, t: part_ids(self, t, "NFC"))


@day.wrong(
    "1.6.3", "nfkc",
    fact="the text is brought to NFKC, which takes ligatures and fractions apart",
    question="Which form does `normalization` name?",
)  # fmt: skip
def nfkc(self, text):
    return encode_with(self, text, lambda self, t: part_ids(self, t, self.normalization and "NFKC"))


@day.wrong(
    "1.6.3", "normalised-first",
    fact="the whole text is normalised before special tokens are looked for",
    question="A special token is found as it stands. What if it was written in another form?",
)  # fmt: skip
def normalised_first(self, text):
    text = unicodedata.normalize(self.normalization, text) if self.normalization else text
    return encode_with(self, text)


@day.wrong(
    "1.6.3", "specials-as-text",
    fact="special tokens are split into words and bytes like any text",
    question="How many ids should <|end|> give?",
)  # fmt: skip
def specials_as_text(self, text):
    return part_ids(self, text)


@day.wrong(
    "1.6.3", "shortest-special",
    fact="of two special tokens that begin at the same place, the shorter one is taken",
    question="If <|e and <|end|> are both special, which one begins the text <|end|>?",
)  # fmt: skip
def shortest_special(self, text):
    shortest_first = sorted(self.special_tokens, key=len)
    split = solved.regex.compile("(" + "|".join(map(solved.regex.escape, shortest_first)) + ")")
    return encode_with(self, text, specials=split if shortest_first else None)


@day.wrong(
    "1.6.3", "longest-special-first",
    fact="of two special tokens that overlap, the longer one is taken, even where the other one begins before it",
    question="If ab and bcd are both special, which one does a reader from the left meet first in abcd?",
)  # fmt: skip
def longest_special_first(self, text):
    found = max((s for s in self.special_tokens if s in text), key=len, default=None)
    if found is None:
        return part_ids(self, text)
    before, _, after = text.partition(found)
    number = self.special_tokens[found]
    return [*longest_special_first(self, before), number, *longest_special_first(self, after)]


@day.wrong(
    "1.6.3", "specials-in-any-case",
    fact="a special token is also found in capitals",
    question="Is <|END|> the token <|end|>?",
)  # fmt: skip
def specials_in_any_case(self, text):
    for special in self.special_tokens:
        text = solved.regex.sub(solved.regex.escape(special), special, text, flags=solved.regex.IGNORECASE)
    return encode_with(self, text)


@day.wrong(
    "1.6.3", "specials-dropped",
    fact="special tokens separate the text, but give no ids",
    question="What does re.split keep when the pattern has a group?",
)  # fmt: skip
def specials_dropped(self, text):
    return [i for i in encode_with(self, text) if i not in self.special_tokens.values()]


@day.wrong(
    "1.6.3", "no-words",
    fact="the text is not split into words, so that tokens reach over two of them",
    question="May a token hold the end of one word and the space before the next?",
)  # fmt: skip
def no_words(self, text):
    def part(self, t):
        t = unicodedata.normalize(self.normalization, t) if self.normalization else t
        return self.encode_word(t) if t else ()

    return encode_with(self, text, part)


@day.wrong(
    "1.6.3", "spaces-lost",
    fact="the white space around words is lost",
    question="Which ids should \" dog\" and \"dog\" give? Does decoding bring back the space?",
)  # fmt: skip
def spaces_lost(self, text):
    def part(self, t):
        t = unicodedata.normalize(self.normalization, t) if self.normalization else t
        return [i for word in self.words.findall(t) if word.strip() for i in self.encode_word(word.strip())]

    return encode_with(self, text, part)


@day.wrong(
    "1.6.3", "stripped",
    fact="white space at both ends of the text, or beside a special token, is lost",
    question="What should decode(encode(\"dog \")) give?",
)  # fmt: skip
def stripped(self, text):
    return encode_with(self, text, lambda self, t: part_ids(self, t.strip()))


@day.wrong(
    "1.6.3", "per-character",
    fact="each character is encoded by itself",
    question="How many ids should \"dog\" give if d+o and do+g are pairs?",
)  # fmt: skip
def per_character(self, text):
    def part(self, t):
        t = unicodedata.normalize(self.normalization, t) if self.normalization else t
        return [i for character in t for i in self.encode_word(character)]

    return encode_with(self, text, part)


@day.wrong(
    "1.6.3", "no-merges",
    fact="each byte is a token, and nothing is merged",
    question="Where does your encode use `ranks`?",
)  # fmt: skip
def no_merges(self, text):
    def part(self, t):
        t = unicodedata.normalize(self.normalization, t) if self.normalization else t
        return [self.vocab[self.alphabet[byte]] for byte in t.encode()]

    return encode_with(self, text, part)


@day.wrong(
    "1.6.3", "fixed-pattern",
    fact="words are split by GPT-2's pattern, whatever the tokenizer's own pattern is",
    question="What is kept in `self.words`?",
)  # fmt: skip
def fixed_pattern(self, text):
    def part(self, t):
        t = unicodedata.normalize(self.normalization, t) if self.normalization else t
        return [i for word in small().words.findall(t) for i in self.encode_word(word)]

    return encode_with(self, text, part)


@day.accepted("1.6.3", "scan")
def scan(self, text):
    ids: list[int] = []
    begin = i = 0
    while i < len(text):
        found = max((s for s in self.special_tokens if text.startswith(s, i)), key=len, default="")
        if found:
            ids += [*part_ids(self, text[begin:i]), self.special_tokens[found]]
            begin = i + len(found)
        i += len(found) or 1
    return ids + part_ids(self, text[begin:])


@day.accepted("1.6.3", "finditer-and-merge")
def finditer_and_merge(self, text):
    def part(self, t):
        t = unicodedata.normalize(self.normalization, t) if self.normalization else t
        for match in self.words.finditer(t):
            for token in merge_pairs([self.alphabet[b] for b in match[0].encode()], self.ranks):
                yield self.vocab[token]

    return encode_with(self, text, part)


def ids_of(text):
    return small().encode(text)


def decoded(program, ids, **skip):
    return as_bytes(program(small(program), ids, **skip))


@day.probe("1.6.4")
def decode_text(program):
    return decoded(program, ids_of(" that is a d\u00e9j\u00e0 \U0001f415\n\u72d7 <|end|>dog<|end|> <|e "))


@day.probe("1.6.4")
def decode_skip(program):
    ids = ids_of("<|end|> that is<|e d\u00e9<|end|>")
    dog = ids_of("\U0001f415")
    return decoded(program, ids, skip_special_tokens=True), decoded(program, [*dog[:1], 301, *dog[1:]])


@day.probe("1.6.4")
def decode_skip_within(program):
    dog = ids_of("\U0001f415")
    return decoded(program, [*dog[:1], 301, *dog[1:]], skip_special_tokens=True)


@day.probe("1.6.4")
def decode_broken(program):
    dog, a = ids_of("\U0001f415"), ids_of("a")
    return tuple(decoded(program, ids) for ids in (dog[:3], dog[1:], a + dog[:2] + a + dog[2:], dog[:0]))


@day.probe("1.6.4")
def decode_unknown(program):
    try:
        return decoded(program, [*ids_of("a"), 999, *ids_of("dog")])
    except KeyError:
        return numbers([-1])


def decode_bytes(self, ids, skip=False, errors="replace"):
    special = set(self.special_tokens.values()) if skip else set()
    return b"".join(self.token_bytes[i] for i in ids if i not in special).decode(errors=errors)


@day.wrong(
    "1.6.4", "token-by-token",
    fact="each token's bytes are decoded by themselves and the texts are joined",
    question="A dog emoji is four bytes in two tokens. Which text is the first token alone?",
)  # fmt: skip
def token_by_token(self, ids, skip_special_tokens=False):
    return "".join(decode_bytes(self, [i], skip_special_tokens) for i in ids)


@day.wrong(
    "1.6.4", "errors-ignored",
    fact="bytes that are not UTF-8 are left out instead of becoming U+FFFD",
    question="Which `errors` does bytes.decode need to show that something was there?",
)  # fmt: skip
def errors_ignored(self, ids, skip_special_tokens=False):
    return decode_bytes(self, ids, skip_special_tokens, "ignore")


@day.wrong(
    "1.6.4", "backslashes",
    fact="bytes that are not UTF-8 are written as backslash codes",
    question="Which `errors` does bytes.decode need for U+FFFD?",
)  # fmt: skip
def backslashes(self, ids, skip_special_tokens=False):
    return decode_bytes(self, ids, skip_special_tokens, "backslashreplace")


@day.wrong(
    "1.6.4", "always-skipped",
    fact="special tokens are always left out",
    question="What does skip_special_tokens=False ask for?",
)  # fmt: skip
def always_skipped(self, ids, skip_special_tokens=False):
    return decode_bytes(self, ids, True)


@day.wrong(
    "1.6.4", "never-skipped",
    fact="special tokens are kept, also when they should be left out",
    question="What does skip_special_tokens=True ask for?",
)  # fmt: skip
def never_skipped(self, ids, skip_special_tokens=False):
    return decode_bytes(self, ids)


@day.wrong(
    "1.6.4", "skip-turned-around",
    fact="special tokens are left out when they should be kept, and kept when they should be left out",
    question="What does skip_special_tokens=False ask for?",
)  # fmt: skip
def skip_turned_around(self, ids, skip_special_tokens=False):
    return decode_bytes(self, ids, not skip_special_tokens)


def names(self, ids, skip):
    by_id = {i: token for token, i in [*self.vocab.items(), *self.special_tokens.items()]}
    special = set(self.special_tokens.values()) if skip else set()
    return "".join(by_id[i] for i in ids if i not in special)


@day.wrong(
    "1.6.4", "letters-shown",
    fact="the tokens are joined as the vocabulary writes them, in the letters of the alphabet",
    question="Which byte does the letter U+0120 stand for?",
)  # fmt: skip
def letters_shown(self, ids, skip_special_tokens=False):
    return names(self, ids, skip_special_tokens)


@day.wrong(
    "1.6.4", "only-the-space",
    fact="only U+0120 is turned back, into a space, and the other letters of the alphabet stay",
    question="What becomes of a newline, and of the two bytes of e-acute?",
)  # fmt: skip
def only_the_space(self, ids, skip_special_tokens=False):
    return names(self, ids, skip_special_tokens).replace("\u0120", " ")


@day.wrong(
    "1.6.4", "stripped",
    fact="white space at both ends of the text is lost",
    question="What should decode give for the token \" dog\"?",
)  # fmt: skip
def decode_stripped(self, ids, skip_special_tokens=False):
    return decode_bytes(self, ids, skip_special_tokens).strip()


@day.wrong(
    "1.6.4", "unknown-left-out",
    fact="a token that does not exist is left out",
    question="What should token 999 of a vocabulary of 300 give?",
)  # fmt: skip
def unknown_left_out(self, ids, skip_special_tokens=False):
    return decode_bytes(self, [i for i in ids if i in self.token_bytes], skip_special_tokens)


@day.accepted("1.6.4", "incremental")
def incremental(self, ids, skip_special_tokens=False):
    decoder, special = codecs.getincrementaldecoder("utf-8")("replace"), set(self.special_tokens.values())
    text = "".join(decoder.decode(self.token_bytes[i]) for i in ids if not (skip_special_tokens and i in special))
    return text + decoder.decode(b"", True)


@day.accepted("1.6.4", "through-the-alphabet")
def through_the_alphabet(self, ids, skip_special_tokens=False):
    byte_of = {letter: byte for byte, letter in byte_alphabet().items()}
    token_of = {i: token for token, i in self.vocab.items()}
    special, data = {i: token for token, i in self.special_tokens.items()}, bytearray()
    for i in ids:
        if i in special:
            data += b"" if skip_special_tokens else special[i].encode()
        else:
            data += bytes(byte_of[letter] for letter in token_of[i])
    return str(data, "utf-8", "replace")


# 1.6.5 streaming text


def streamed(program, ids, **skip):
    """What is shown after each token, and at the end."""
    detokenizer = program(small(program), **skip)
    return pieces([*(detokenizer.add(i) for i in ids), detokenizer.finish()])


@day.probe("1.6.5")
def stream_text(program):
    return streamed(program, ids_of("that is a d\u00e9j\u00e0 \U0001f415\u72d7\n \u00ea dog"))


@day.probe("1.6.5")
def stream_specials(program):
    ids = [301, *ids_of("dog"), 300, *ids_of("\u00e9")]
    return streamed(program, ids), streamed(program, ids, skip_special_tokens=False)


@day.probe("1.6.5")
def stream_unfinished(program):
    return streamed(program, [*ids_of("a"), *ids_of("\U0001f415")[:2]]), streamed(program, [])


@day.probe("1.6.5")
def stream_two(program):
    bpe, halves = small(program), ids_of("\u72d7")
    one, other = program(bpe), program(bpe)
    shown = [d.add(i) for i in halves for d in (one, other)]
    return pieces([*shown, one.finish(), other.finish()])


class Streaming(StreamingDetokenizer):
    """The solution in steps that a mistake can replace."""

    errors = "replace"

    def __init__(self, tokenizer, skip_special_tokens=True):
        super().__init__(tokenizer, self.skips(skip_special_tokens))
        self.decoder = codecs.getincrementaldecoder("utf-8")(self.errors)

    def skips(self, asked):
        return asked


@day.wrong(
    "1.6.5", "token-by-token",
    fact="each token is decoded by itself",
    question="The first of a dog emoji's two tokens has come. What can already be shown?",
)  # fmt: skip
class TokenByToken(Streaming):
    def add(self, token):
        return "" if token in self.skipped else self.tokenizer.decode([token])

    def finish(self):
        return ""


@day.wrong(
    "1.6.5", "waits-for-the-end",
    fact="nothing is shown before finish()",
    question="When should the reader see the first word?",
)  # fmt: skip
class WaitsForTheEnd(Streaming):
    text = ""

    def add(self, token):
        self.text += super().add(token)
        return ""

    def finish(self):
        return self.text + super().finish()


@day.wrong(
    "1.6.5", "waits-for-a-space",
    fact="text is held back until the next space",
    question="Which characters of the token dog are incomplete?",
)  # fmt: skip
class WaitsForASpace(Streaming):
    text = ""

    def add(self, token):
        self.text += super().add(token)
        cut = self.text.rfind(" ") + 1
        shown, self.text = self.text[:cut], self.text[cut:]
        return shown

    def finish(self):
        return self.text + super().finish()


@day.wrong(
    "1.6.5", "all-text-again",
    fact="every call gives the whole text so far, and not only what is new",
    question="What should the pieces give when they are joined?",
)  # fmt: skip
class AllTextAgain(Streaming):
    text = ""

    def add(self, token):
        self.text += super().add(token)
        return self.text

    def finish(self):
        return self.text + super().finish()


@day.wrong(
    "1.6.5", "tail-dropped",
    fact="a character that was begun and not completed is dropped at the end",
    question="What does decode give for the first token of a dog emoji alone?",
)  # fmt: skip
class TailDropped(Streaming):
    def finish(self):
        return ""


@day.wrong(
    "1.6.5", "specials-shown",
    fact="special tokens are shown, also when they should not be",
    question="What is the default of skip_special_tokens?",
)  # fmt: skip
class SpecialsShown(Streaming):
    def skips(self, asked):
        return False


@day.wrong(
    "1.6.5", "specials-hidden",
    fact="special tokens are never shown, also when they are asked for",
    question="What does skip_special_tokens=False ask for?",
)  # fmt: skip
class SpecialsHidden(Streaming):
    def skips(self, asked):
        return True


@day.wrong(
    "1.6.5", "shared",
    fact="all detokenizers share one buffer",
    question="Is your buffer an attribute of the object, or of the class?",
)  # fmt: skip
class Shared(Streaming):
    def __init__(self, tokenizer, skip_special_tokens=True):
        super().__init__(tokenizer, skip_special_tokens)
        self.tokenizer.__dict__.setdefault("common", self.decoder)
        self.decoder = self.tokenizer.common


@day.wrong(
    "1.6.5", "one-late",
    fact="each piece is shown one token late",
    question="When a token has completed a character, what is there to wait for?",
)  # fmt: skip
class OneLate(Streaming):
    late = ""

    def add(self, token):
        shown, self.late = self.late, super().add(token)
        return shown

    def finish(self):
        return self.late + super().finish()


@day.wrong(
    "1.6.5", "complete-held-back",
    fact="characters that are complete are held back while the token ends inside another one",
    question="A token is a space and the first byte of e-acute. Which of the two can be shown?",
)  # fmt: skip
class CompleteHeldBack(Streaming):
    text = ""

    def add(self, token):
        self.text += super().add(token)
        if self.decoder.getstate()[0]:
            return ""
        shown, self.text = self.text, ""
        return shown

    def finish(self):
        return self.text + super().finish()


@day.accepted("1.6.5", "decode-all-again")
class DecodeAllAgain(Streaming):
    """Decodes everything at every step, and holds back each U+FFFD at the end."""

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


@day.accepted("1.6.5", "keeps-the-unfinished-bytes")
class KeepsTheUnfinishedBytes(Streaming):
    """Looks at the last three bytes for the beginning of a character that needs more."""

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


# 1.6.6 generating tokens


class Model:
    """A model whose answer depends on all tokens so far; notes their numbers."""

    def __init__(self, follow, vocab=11, dtype=mx.float32):
        self.follow, self.vocab, self.dtype, self.lengths = follow, vocab, dtype, []

    def __call__(self, tokens):
        ids = tokens[0].tolist()
        self.lengths.append(len(ids))
        best = mx.array([self.follow(ids[: i + 1]) for i in range(len(ids))])
        fixed = mx.sin(mx.arange(self.vocab) * 2.0) + mx.arange(len(ids))[:, None]
        return mx.where(mx.arange(self.vocab) == best[:, None], 20.0, fixed)[None].astype(self.dtype)


def add_up(ids):
    return (3 * sum(ids) + len(ids)) % 11


def taken(program, prompt, max_tokens, follow=add_up, **options):
    iterator = program(Model(follow), prompt, max_tokens, **options)
    if not hasattr(iterator, "__next__"):
        raise TypeError("not an iterator")
    return numbers(itertools.islice(iterator, 40))


@day.probe("1.6.6")
def tokens_plain(program):
    prompt = [3, 1, 4]
    tokens = taken(program, prompt, 6)
    return tokens, numbers(prompt), taken(program, [2], 0), taken(program, [2], 1)


def count_up(ids):
    return (ids[-1] + 1) % 11


@day.probe("1.6.6")
def tokens_end(program):
    many = [(), (8,), [9, 6], [6, 9], (4,), (3,), (0,)]
    return tuple(taken(program, [5, 3], 9, count_up, eos_ids=eos) for eos in many)


@day.probe("1.6.6")
def tokens_context(program):
    return tuple(
        taken(program, [5, 3], n, count_up, context_length=c) for n, c in ((9, 5), (9, 3), (9, 2), (2, 9), (2, 4))
    )


@day.probe("1.6.6")
def tokens_refused(program):
    outcomes = []
    for prompt, context_length in (([], None), ([1, 2, 3], 2)):
        try:
            iterator = program(Model(count_up), prompt, 3, context_length=context_length)
        except ValueError:
            outcomes.append(1)
            continue
        try:
            outcomes.append(20 + sum(1 for _ in itertools.islice(iterator, 40)))
        except ValueError:
            outcomes.append(2)
        except Exception:
            outcomes.append(3)
    return numbers(outcomes)


@day.probe("1.6.6")
def tokens_lazy(program):
    model = Model(count_up)
    iterator, calls = program(model, [3], 4), []
    for _ in range(4):
        next(iterator, None)
        calls.append(len(model.lengths))
    return numbers(calls)


@day.probe("1.6.6", mx.float16)
def tokens_sampler(program):
    seen = []

    def least(logits, tokens):
        seen.append(logits)
        seen.extend(numbers(row) for row in tokens)
        return mx.argmin(logits, axis=-1)

    tokens = numbers(program(Model(add_up, dtype=mx.float16), [3, 5], 3, sampler=least))
    return *seen, tokens


def generation(
    step=None, stop=None, refuse=True, room=None, tokens_in=list, begin=(), cast=mx.float32, fed=None, told=None
):
    """The solution with parts that a mistake can replace."""

    def checked(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
        if refuse and (not prompt or (context_length is not None and len(prompt) > context_length)):
            raise ValueError
        limit = max_tokens if context_length is None else min(max_tokens, context_length - len(prompt))
        limit = room(max_tokens, context_length, len(prompt)) if room else limit
        return run(model, prompt, limit, eos_ids, sampler)

    def run(model, prompt, limit, eos_ids, sampler):
        tokens = tokens_in(prompt)
        first = len(tokens)
        if begin:
            yield from tokens
        for _ in range(limit):
            logits = model(mx.array([fed(tokens) if fed else tokens]))
            logits = (step or last)(logits, first).astype(cast or logits.dtype)
            token = sampler(logits, [list(told(tokens, first) if told else tokens)]).item()
            ends = stop(token, eos_ids) if stop else token in eos_ids
            if ends == "shown":
                yield token
            if ends:
                return
            yield token
            tokens.append(token)

    def last(logits, first):
        return logits[:, -1]

    return checked


def wrong_generation(name, fact, question, **parts):
    day.wrong("1.6.6", name, fact=fact, question=question)(generation(**parts))


wrong_generation(
    "eos-yielded", "the token that ends the text is yielded too",
    "Should a reader see <|im_end|>?",
    stop=lambda token, eos: "shown" if token in eos else "",
)  # fmt: skip
wrong_generation(
    "first-eos-only", "only the first of the eos_ids ends the text",
    "Which of [9, 6] end the text?",
    stop=lambda token, eos: token in list(eos)[:1],
)  # fmt: skip
wrong_generation(
    "eos-ignored", "no token ends the text",
    "What should happen when the model says the token 8, and eos_ids is (8,)?",
    stop=lambda token, eos: False,
)  # fmt: skip
wrong_generation(
    "zero-ends", "token 0 ends the text although it is not one of the eos_ids",
    "Is 0 true or false in Python, and is it a token?",
    stop=lambda token, eos: not token or token in eos,
)  # fmt: skip
wrong_generation(
    "one-too-many", "one token more than max_tokens is yielded",
    "How many tokens should max_tokens=0 give?",
    room=lambda most, context, n: (most if context is None else min(most, context - n)) + 1,
)  # fmt: skip
wrong_generation(
    "one-too-few", "one token less than max_tokens is yielded",
    "How many tokens should max_tokens=1 give?",
    room=lambda most, context, n: (most if context is None else min(most, context - n)) - 1,
)  # fmt: skip
wrong_generation(
    "prompt-counted", "the prompt's tokens count towards max_tokens",
    "With a prompt of 3 tokens and max_tokens=6, how many should be yielded?",
    room=lambda most, context, n: (most if context is None else min(most, context)) - n,
)  # fmt: skip
wrong_generation(
    "context-ignored", "the text goes on when the context length is reached",
    "The model takes 5 tokens. How many may follow a prompt of 2?",
    room=lambda most, context, n: most,
)  # fmt: skip
wrong_generation(
    "context-without-prompt", "only the continuation counts towards the context length, and not the prompt",
    "The model takes 5 tokens. How many may follow a prompt of 2?",
    room=lambda most, context, n: most if context is None else min(most, context),
)  # fmt: skip
wrong_generation(
    "first-position", "the next token is chosen from the first position's logits",
    "Which position's logits say what follows the last token?",
    step=lambda logits, first: logits[:, 0],
)  # fmt: skip
wrong_generation(
    "prompts-last-position", "the next token is always chosen from the position of the prompt's last token",
    "Where in the logits stands what follows the newest token?",
    step=lambda logits, first: logits[:, first - 1],
)  # fmt: skip
wrong_generation(
    "last-token-only", "the model is given only the newest token, and not those before it",
    "What does the model need in order to know what came before?",
    fed=lambda tokens: tokens[-1:],
)  # fmt: skip
wrong_generation(
    "prompt-yielded", "the prompt's tokens are yielded before the new ones",
    "Which tokens are the continuation?",
    begin=(True,),
)  # fmt: skip
wrong_generation(
    "prompt-changed", "the new tokens are appended to the caller's prompt",
    "What is in `prompt` after the call?",
    tokens_in=lambda prompt: prompt,
)  # fmt: skip
wrong_generation(
    "logits-not-float32", "the sampler is given the logits in the model's dtype",
    "Which dtype does the docstring promise to the sampler?",
    cast=None,
)  # fmt: skip
wrong_generation(
    "sampler-without-prompt", "the sampler is told the new tokens only, and not the prompt's",
    "Which tokens does a penalty against repetition look at?",
    told=lambda tokens, first: tokens[first:],
)  # fmt: skip
wrong_generation(
    "sampler-told-the-prompt", "the sampler is told the prompt's tokens only, and not the new ones",
    "Which tokens does a penalty against repetition look at?",
    told=lambda tokens, first: tokens[:first],
)  # fmt: skip


@day.wrong(
    "1.6.6", "refused-late",
    fact="a prompt that cannot be continued is refused when the first token is asked for, not at the call",
    question="When does the body of a function that contains `yield` begin to run?",
)  # fmt: skip
def refused_late(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    yield from generate_tokens(
        model, prompt, max_tokens, eos_ids=eos_ids, context_length=context_length, sampler=sampler
    )


@day.wrong(
    "1.6.6", "all-at-once",
    fact="all tokens are computed before the first one is yielded",
    question="How often has the model been called when the first token comes?",
)  # fmt: skip
def all_at_once(model, prompt, max_tokens, **options):
    return iter(list(generate_tokens(model, prompt, max_tokens, **options)))


@day.wrong(
    "1.6.6", "sampler-ignored",
    fact="the most likely token is taken, whatever the sampler says",
    question="Who chooses the token?",
)  # fmt: skip
def sampler_ignored(model, prompt, max_tokens, *, sampler=greedy, **options):
    def both(logits, tokens):
        sampler(logits, tokens)
        return greedy(logits, tokens)

    return generate_tokens(model, prompt, max_tokens, sampler=both, **options)


day.accepted("1.6.6", "in-steps")(generation())


@day.accepted("1.6.6", "recursion-free-closure")
def inner_function(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    if len(prompt) == 0:
        raise ValueError("empty")
    if context_length is not None and context_length < len(prompt):
        raise ValueError("too long")
    history = mx.array(prompt, dtype=mx.uint32)[None]

    def following():
        nonlocal history
        produced = 0
        while produced < max_tokens and (context_length is None or history.shape[1] < context_length):
            logits = model(history)[0, -1:, :].astype(mx.float32)
            token = sampler(logits, history.tolist())
            if int(token[0]) in eos_ids:
                break
            yield int(token[0])
            produced += 1
            history = mx.concatenate([history, token.astype(mx.uint32)[None]], axis=1)

    return following()


# 1.6.7 generating text

SCRIPT = [
    *(small().encode(" that \U0001f415 is")),
    301,
    *small().encode("d\u00e9"),
    300,
    *small().encode("a\u72d7")[:2],
]


def told(program, number, prompt="that is", script=SCRIPT, **options):
    bpe = small(program)
    before = len(bpe.encode(prompt))
    model = Model(lambda ids: script[min(max(0, len(ids) - before), len(script) - 1)], 310)
    iterator = program(model, bpe, prompt, number, **options)
    if not hasattr(iterator, "__next__"):
        raise TypeError("not an iterator")
    return pieces(piece for piece in itertools.islice(iterator, 60) if piece)


@day.probe("1.6.7")
def text_plain(program):
    return told(program, len(SCRIPT)), told(program, 4), told(program, 0)


@day.probe("1.6.7")
def text_limits(program):
    ends = told(program, 40, eos_ids=[300, 301]), told(program, 40, script=[*SCRIPT[:7], 300], eos_ids=[301, 300])
    return *ends, told(program, 20, context_length=len(small().encode("that is")) + 3)


@day.probe("1.6.7")
def text_sampler(program):
    return told(program, 3, sampler=lambda logits, tokens: mx.array([small().encode("dog")[0]]))


@day.probe("1.6.7")
def text_prompt(program):
    """What the model is given for a prompt with a special token."""
    bpe, model = small(program), Model(lambda ids: 5, 310)
    list(program(model, bpe, "<|end|>that is", 2))
    return numbers(model.lengths)


@day.probe("1.6.7")
def text_lazy(program):
    model, bpe, calls = Model(lambda ids: SCRIPT[len(ids) - 1], 310), small(program), []
    for piece in itertools.islice(program(model, bpe, "a", 8), 40):
        calls += [len(model.lengths)] if piece else []
    return numbers(calls)


@day.probe("1.6.7")
def text_refused(program):
    outcomes = []
    for prompt, context_length in (("", None), ("that is a dog", 2)):
        try:
            iterator = program(Model(lambda ids: 5, 310), small(program), prompt, 3, context_length=context_length)
        except ValueError:
            outcomes.append(1)
            continue
        try:
            outcomes.append(20 + len(list(itertools.islice(iterator, 40))))
        except ValueError:
            outcomes.append(2)
    return numbers(outcomes)


def text_generation(detokenizer=StreamingDetokenizer, keep=(), shown=(), specials=True):
    """The solution with parts that a mistake can replace; `keep` names the options that get through."""

    def program(model, tokenizer, prompt, max_tokens, **options):
        options = {name: value for name, value in options.items() if name in keep}
        ids = tokenizer.encode(prompt) if specials else part_ids(tokenizer, prompt)
        return run(generate_tokens(model, ids, max_tokens, **options), detokenizer(tokenizer), prompt)

    def run(ids, stream, prompt):
        if shown:
            yield prompt
        yield from filter(None, map(stream.add, ids))
        yield from filter(None, [stream.finish()])

    return program


OPTIONS = ("eos_ids", "context_length", "sampler")


def wrong_text(name, fact, question, keep=OPTIONS, **parts):
    day.wrong("1.6.7", name, fact=fact, question=question)(text_generation(keep=keep, **parts))


wrong_text(
    "token-by-token", "each token is decoded by itself",
    "What is shown for a character that takes two tokens?",
    detokenizer=TokenByToken,
)  # fmt: skip
wrong_text(
    "specials-shown", "special tokens are shown",
    "Which tokens should a reader of the answer not see?",
    detokenizer=SpecialsShown,
)  # fmt: skip
wrong_text(
    "tail-dropped", "a character that is not complete when the text ends is dropped",
    "Who calls finish()?",
    detokenizer=TailDropped,
)  # fmt: skip
wrong_text(
    "all-text-again", "each piece is the whole text so far",
    "What should the pieces give when they are joined?",
    detokenizer=AllTextAgain,
)  # fmt: skip
wrong_text(
    "all-at-once", "the whole text comes in one piece at the end",
    "When should the reader see the first word?",
    detokenizer=WaitsForTheEnd,
)  # fmt: skip
wrong_text(
    "prompt-shown", "the prompt is shown before the answer",
    "Is the prompt a part of the continuation?",
    shown=(True,),
)  # fmt: skip
wrong_text(
    "eos-not-passed", "eos_ids does not reach the generation of tokens",
    "Which of your arguments end up in generate_tokens?",
    keep=("context_length", "sampler"),
)  # fmt: skip
wrong_text(
    "context-not-passed", "context_length does not reach the generation of tokens",
    "Which of your arguments end up in generate_tokens?",
    keep=("eos_ids", "sampler"),
)  # fmt: skip
wrong_text(
    "sampler-not-passed", "the sampler does not reach the generation of tokens",
    "Which of your arguments end up in generate_tokens?",
    keep=("eos_ids", "context_length"),
)  # fmt: skip


@day.wrong(
    "1.6.7", "refused-late",
    fact="a prompt that cannot be continued is refused when the first piece is asked for, not at the call",
    question="When does the body of a function that contains `yield` begin to run?",
)  # fmt: skip
def text_refused_late(*arguments, **options):
    yield from text_generation(keep=OPTIONS)(*arguments, **options)


day.accepted("1.6.7", "in-steps")(text_generation(keep=OPTIONS))


@day.accepted("1.6.7", "decode-all-again")
def text_by_decoding(model, tokenizer, prompt, max_tokens, **options):
    ids = generate_tokens(model, tokenizer.encode(prompt), max_tokens, **options)

    def run():
        so_far, shown = [], ""
        for token in ids:
            so_far.append(token)
            text = tokenizer.decode(so_far, skip_special_tokens=True).rstrip("\ufffd")
            yield text[len(shown) :]
            shown = text
        yield tokenizer.decode(so_far, skip_special_tokens=True)[len(shown) :]

    return run()
