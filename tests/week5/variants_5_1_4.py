"""Known programs of task 5.1.4, saving the tokenizer."""

import json

from tests.week5.merge_probes import not_refused, saved
from tests.week5.merging import QWEN
from tests.week5.training_texts import recorded
from tiny_llm_solution.bpe.files import BYTE_LEVEL, LITERAL, split_by
from tiny_llm_solution.tokenizer import GPT2_PATTERN, byte_alphabet

from tiny_llm_course.testkit.variants import Variants

known = Variants("5.1.4")

MERGES = "t+h \u0120+d a+t th+at \u00c3+\u00a9"
END = ("<|end|>",)

known.probe_table(
    merges=lambda program: saved(program, MERGES),
    nothing=lambda program: saved(program, ""),
    in_order=lambda program: saved(program, "a+b c+d"),
    special=lambda program: saved(program, MERGES, ("zz", "<|end|>", "<a>")),
    normalized=lambda program: saved(program, "a+b", END, normalization="NFC"),
    pattern=lambda program: saved(program, "a+b", END, pattern=QWEN),
    order=lambda program: not_refused(program, "th+a t+h"),
    unknown=lambda program: not_refused(program, "t+h th+xy"),
    same_merge=lambda program: not_refused(program, "t+h t+h"),
    same_token=lambda program: not_refused(program, "t+h", ("<a>", "<a>")),
    one_token_of_two_pairs=lambda program: not_refused(program, "a+a aa+a a+aa"),
    token_is_special=lambda program: not_refused(program, "t+h", ("th",)),
)


@known.sized("1,055 merges")
def sized(program):
    from pathlib import Path
    from tempfile import mkdtemp

    path, merges = Path(mkdtemp()) / "tokenizer.json", recorded()["held-out stories"]
    return lambda: program(path, merges, END)


SORTED = "enumerate(sorted(byte_alphabet().values()))"
TOKENIZER = "tokenizer = {"
known.change(
    "special-tokens-first",
    (
        TOKENIZER,
        "vocab = {token: i + len(special_tokens) for token, i in vocab.items()}\n"
        "ids = vocab | {token: i for i, token in enumerate(special_tokens)}\ntokenizer = {",
    ),
    fact="the special tokens have the first ids, and all others move",
    question="Which id has the character ! in the embedded model's tokenizer.json?",
)
known.change(
    "ids-of-bytes",
    (SORTED, "((byte, byte_alphabet()[byte]) for byte in range(256))"),
    fact="the characters' ids are their bytes",
    question="Which character has id 0? And which byte is it?",
)
known.change(
    "merges-sorted",
    ("[list(pair) for pair in merges]", "[list(pair) for pair in sorted(merges)]"),
    fact="the merges are saved in alphabetical order",
    question="What does the index of a pair in `merges` mean to the encoder?",
)
known.change(
    "ids-of-sorted-tokens",
    (TOKENIZER, "vocab = {token: i for i, token in enumerate(sorted(vocab))}\ntokenizer = {"),
    fact="the tokens are sorted before they get their ids",
    question="One more merge is learned. Which ids change?",
)
known.change(
    "special-tokens-in-vocab",
    ('"vocab": vocab', '"vocab": ids'),
    fact="`vocab` lists the special tokens, too",
    question="Which of the two lists may contain a token that no merge makes?",
)
known.change(
    "special-ids-too-small",
    ('"id": ids[token]', '"id": ids[token] - 1'),
    fact="the first special token has the id of the last merge",
    question="There are 256 characters and 5 merges. What is the first id that is free?",
)
known.change(
    "no-normalizer",
    ('{"type": normalization} if normalization else None', "None"),
    fact="the normalization is not saved",
    question="The words were counted after NFC. What does the encoder do with e and a combining accent?",
)
known.change(
    "pattern-not-saved",
    ("split_by(pattern)", "split_by(GPT2_PATTERN)"),
    fact="GPT-2's pattern is saved, whatever the words were counted with",
    question="Which words does the encoder find in 123?",
)
known.change(
    "special-tokens-normalized",
    ("**LITERAL}", '**LITERAL, "normalized": True}'),
    fact="special tokens are to be found in the normalized text",
    question="In which order does `encode` normalize and find special tokens?",
)
known.change(
    "one-entry-for-all",
    (TOKENIZER, "entry = dict(LITERAL)\ntokenizer = {"),
    (
        '{"id": ids[token], "content": token, **LITERAL}',
        'entry.update({"id": ids[token], "content": token}) or entry',
    ),
    fact="all special tokens share one dictionary, so each entry has the id and content of the last one",
    question="How many dictionaries does your loop create for two special tokens?",
)
known.change(
    "order-not-checked",
    ("if piece not in vocab:", "if False:"),
    fact="a merge is saved although one of its pieces is no token at that point",
    question="th and a are merged, and th is no token. Which text would be encoded with this merge?",
)
known.change(
    "later-merges-count",
    ("if piece not in vocab:", 'if piece not in [*vocab, *map("".join, merges)]:'),
    fact="a piece may also be the token of a later merge",
    question="th and a are merged first, then t and h. Is th a token when the first of the two is learned?",
)
known.change(
    "pairs-compared",
    ('_add(vocab, "".join(pair))', 'vocab.setdefault("".join(pair), len(vocab))'),
    (
        "ids = dict(vocab)",
        "if len({*merges}) < len(merges):\n    raise ValueError([*map(''.join, merges)])\nids = dict(vocab)",
    ),
    fact="two equal merges are refused, but not two merges that make the same token from different pieces",
    question="a + aa and aa + a are two pairs. How many tokens do they make?",
)
known.change(
    "twice-not-checked",
    ("if token in ids:", "if False:"),
    fact="a token that is given twice is saved",
    question="Two merges make the same token. How many ids does it get?",
)
known.change(
    "special-tokens-compared-with-each-other",
    (
        "for token in special_tokens:\n    _add(ids, token)",
        "if len({*special_tokens}) < len(special_tokens):\n"
        "    raise ValueError(special_tokens)\n"
        "ids |= {token: len(vocab) + i for i, token in enumerate(special_tokens)}",
    ),
    fact="a special token is compared with the other special tokens only, not with the merged tokens",
    question="A merge makes th, and th is also a special token. How many ids does it have?",
)
known.change(
    "opened-first",
    ("vocab = {character", 'path.write_text("", encoding="utf-8")\nvocab = {character'),
    fact="the file is opened before the arguments are checked, so an error leaves it empty",
    question="The arguments are wrong. What is on the disk afterwards?",
)


@known.accepted("pairs as strings, indented, with more keys")
def as_strings(path, merges, special_tokens=(), pattern=GPT2_PATTERN, normalization=None):
    tokens = sorted(byte_alphabet().values())
    for left, right in merges:
        if left not in tokens or right not in tokens:
            raise ValueError(f"{left!r} or {right!r} is no token")
        tokens.append(left + right)
    size = len(tokens)
    tokens += special_tokens
    if twice := [token for token in tokens if tokens.count(token) > 1]:
        raise ValueError(f"{twice[0]!r} is there twice")
    ids = {token: i for i, token in enumerate(tokens)}
    model = {"type": "BPE", "dropout": None, "merges": [f"{left} {right}" for left, right in merges]}
    data = {
        "model": {**model, "vocab": {token: ids[token] for token in tokens[:size]}},
        "pre_tokenizer": split_by(pattern),
        "decoder": BYTE_LEVEL,
        "post_processor": None,
        "added_tokens": [{**LITERAL, "content": token, "id": ids[token]} for token in special_tokens],
        "normalizer": None if normalization is None else {"type": normalization},
        "version": "1.0",
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=2, ensure_ascii=False)
