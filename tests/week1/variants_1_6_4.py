"""Reference variants of task 1.6.4, decoding."""

import codecs

from tests.week1.text_probes import numbers, small
from tiny_llm_solution.tokenizer import ByteLevelBPE, byte_alphabet

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.4")


def as_bytes(text):
    if not isinstance(text, str):
        raise TypeError("not a text")
    return numbers(text.encode())


def ids_of(text):
    return small(ByteLevelBPE).encode(text)


DOG = ids_of("\U0001f415")
SPELLED = small(ByteLevelBPE, special_tokens={}).encode("a<|end|>")  # in ordinary tokens


def decoded(program, ids, **skip):
    return as_bytes(program(small(program), ids, **skip))


known.probe_table(
    decode_text=lambda program: decoded(
        program, ids_of(" that is a d\u00e9j\u00e0 \U0001f415\n\u72d7 <|end|>dog<|end|> <|e ")
    ),
    skip=lambda program: (
        decoded(program, ids_of("<|end|> that is<|e d\u00e9<|end|>"), skip_special_tokens=True),
        decoded(program, [*DOG[:1], 301, *DOG[1:]]),
    ),
    skip_within=lambda program: decoded(program, [*DOG[:1], 301, *DOG[1:]], skip_special_tokens=True),
    broken=lambda program: tuple(
        decoded(program, ids) for ids in (DOG[:3], DOG[1:], [*ids_of("a"), *DOG[:2], *ids_of("a"), *DOG[2:]], [])
    ),
    iterator=lambda program: tuple(decoded(program, make(ids_of("a dog"))) for make in (list, iter)),
    # A special token whose characters are in the byte alphabet, too.
    other_specials=lambda program: as_bytes(program(small(program, special_tokens={"<|\u00e9|>": 300}), [300])),
    special_of_id_0=lambda program: as_bytes(
        program(small(program, special_tokens={"<|end|>": 0}), [40, 0, 41], skip_special_tokens=True)
    ),
    spelled=lambda program: decoded(program, SPELLED, skip_special_tokens=True),
)


@known.probe()
def unknown(program):
    """Return whether an unknown id raises KeyError, however it is raised, and otherwise the text."""
    ids = [*ids_of("a"), 999, *ids_of("dog")]
    refused = refusals(lambda given: decoded(program, given), [ids], KeyError)
    return refused if refused.item() else (refused, decoded(program, ids))


@known.sized("51,000 tokens")
def sized(program):
    bpe, ids = small(program), ids_of("that is a d\u00e9j\u00e0 \U0001f415\n") * 3000
    return lambda: program(bpe, ids)


known.change(
    "token-by-token",
    ('b"".join(self.token_bytes[i]', '"".join(self.token_bytes[i].decode(errors="replace")'),
    ('.decode("utf-8", errors="replace")', ""),
    fact="each token's bytes are decoded separately and the strings are joined",
    question="A dog emoji is four bytes in two tokens. What does the first token decode to alone?",
)
known.change(
    "errors-ignored",
    ('errors="replace"', 'errors="ignore"'),
    fact="invalid UTF-8 bytes are dropped instead of becoming U+FFFD",
    question="Which `errors` does bytes.decode need to mark an invalid byte?",
)
for name, edit, fact in (
    ("always-skipped", (" if skip_special_tokens else set()", ""), "special tokens are always skipped"),
    (
        "never-skipped",
        ("if skip_special_tokens", "if False"),
        "special tokens are kept even when they should be skipped",
    ),
    ("skip-inverted", ("if skip_special_tokens", "if not skip_special_tokens"), "skip_special_tokens is inverted"),
):
    known.change(name, edit, fact=fact, question="What does skip_special_tokens=False mean, and what does True mean?")
# The tokens as vocabulary strings.
TOKEN_OF = "token_of = {i: token for table in (self.vocab, self.special_tokens) for token, i in table.items()}"
WRITTEN = (
    'return b"".join(self.token_bytes[i]',
    f'{TOKEN_OF}\nreturn "".join(token_of[i]',
)
known.change(
    "letters-shown",
    WRITTEN,
    ('.decode("utf-8", errors="replace")', ""),
    fact="the tokens are joined as vocabulary strings, in the byte alphabet, without mapping back to bytes",
    question="Which byte does the character U+0120 map to?",
)
known.change(
    "only-the-space",
    WRITTEN,
    ('.decode("utf-8", errors="replace")', '.replace("\u0120", " ")'),
    fact="only U+0120 is mapped back, to a space, and the other characters of the byte alphabet stay",
    question="What happens to a newline, and to the two bytes of e-acute?",
)
known.change(
    "stripped",
    ('errors="replace")', 'errors="replace").strip()'),
    fact="white space at both ends of the text is lost",
    question='What should decode return for the token " dog"?',
)
known.change(
    "unknown-left-out",
    ("self.token_bytes[i]", 'self.token_bytes.get(i, b"")'),
    fact="an unknown token id is skipped",
    question="What should token 999 of a vocabulary of 300 do?",
)
known.change(
    "unknown-as-fffd",
    ("self.token_bytes[i]", 'self.token_bytes.get(i, "\\ufffd".encode())'),
    fact="an unknown token id becomes U+FFFD",
    question="What does the docstring promise for token 999 of a vocabulary of 300?",
)
known.change(
    "skipped-from-an-id-on",
    ("if i not in special", "if not special or i < len(self.vocab)"),
    fact="every id from the size of the vocabulary on is skipped, instead of the ids in `special_tokens`",
    question="Special tokens may have any ids. Where are they listed?",
)
known.change(
    "errors-strict",
    ('errors="replace"', 'errors="strict"'),
    fact="invalid UTF-8 bytes raise an error instead of becoming U+FFFD",
    question="Which `errors` does bytes.decode need to continue?",
)
known.change(
    "specials-unknown",
    ("self.token_bytes[i]", "{number: self.token_bytes[number] for number in self.vocab.values()}[i]"),
    fact="special tokens are looked up only in the vocabulary",
    question="Where does the tokenizer keep the tokens that are not in the vocabulary?",
)
known.change(
    "specials-through-the-alphabet",
    (
        'return b"".join(self.token_bytes[i]',
        f"{TOKEN_OF}\nbyte_of = {{letter: byte for byte, letter in self.alphabet.items()}}\n"
        'return b"".join(bytes(byte_of[letter] for letter in token_of[i])',
    ),
    fact="special tokens are converted from the byte alphabet to bytes, like the tokens of the vocabulary",
    question="A token of the vocabulary is written in the byte alphabet. How is a special token written?",
)
for name, removed in (
    ("specials-removed-from-the-text", 'text = self.specials.sub("", text)'),
    ("specials-replaced-in-the-text", 'for token in self.special_tokens:\n        text = text.replace(token, "")'),
):
    known.change(
        name,
        ('return b"".join(', 'text = b"".join('),
        (" if i not in special)", ")"),
        ('errors="replace")', f'errors="replace")\nif special:\n    {removed}\nreturn text'),
        fact="the text of special tokens is deleted from the decoded string, instead of their ids from the list",
        question="A special token comes between the two tokens of an emoji. What is the text if it is skipped?",
    )
known.change(
    "joined-by-spaces",
    ('b"".join(', 'b" ".join('),
    fact="a space is inserted between the tokens",
    question='Which token of " that is" already contains the space?',
)
known.change(
    "first-space-lost",
    ('errors="replace")', 'errors="replace").removeprefix(" ")'),
    fact="a space at the start of the text is lost",
    question="Is the space before a word part of its token?",
)
known.change(
    "ids-read-twice",
    ("special = set(", "for i in ids:\n    self.token_bytes[i]\nspecial = set("),
    fact="the ids are iterated twice, and the first loop exhausts an iterator",
    question="What does a second loop over the same generator see?",
)


@known.wrong(
    "runs-between-specials",
    fact="the bytes before and after a special token are decoded separately even if it is skipped",
    question="A special token comes between the two tokens of an emoji. What is the text if it is skipped?",
)
def runs_between_specials(self, ids, skip_special_tokens=False):
    names, run, text = {i: token for token, i in self.special_tokens.items()}, b"", ""
    for i in ids:
        if i in names:
            text += run.decode(errors="replace") + ("" if skip_special_tokens else names[i])
            run = b""
        else:
            run += self.token_bytes[i]
    return text + run.decode(errors="replace")


@known.accepted("incremental")
def incremental(self, ids, skip_special_tokens=False):
    decoder, special = codecs.getincrementaldecoder("utf-8")("replace"), set(self.special_tokens.values())
    text = "".join(decoder.decode(self.token_bytes[i]) for i in ids if not (skip_special_tokens and i in special))
    return text + decoder.decode(b"", True)


@known.accepted("through-the-alphabet")
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
