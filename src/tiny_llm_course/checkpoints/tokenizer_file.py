"""Check a tokenizer.json before the learner's tokenizer reads it, which is not to blame for the file."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import regex

from ..course.findings import shortened
from ..course.registry import UsageError
from .files import read_json

NORMAL_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
ALPHABET = frozenset(map(chr, [*range(33, 127), *range(161, 173), *range(174, 324)]))  # GPT-2's, for the 256 bytes
SAMPLE = "".join(map(chr, range(128))) + "é日🙂\u2003"  # characters that a pattern must not skip
CONDITIONS = ("lstrip", "rstrip", "single_word", "normalized")


def read_tokens(file: Path, vocab_size: int) -> tuple[dict[str, int], frozenset[int], tuple[int, ...]]:
    """Return a byte-level BPE tokenizer's ids by token, the ids that print nothing, and those that begin every text."""
    data = read_json(file)
    try:
        added = data.get("added_tokens", [])
        pairs = [*dict(data["model"]["vocab"]).items(), *((token["content"], token["id"]) for token in added)]
        ids, tokens = dict(pairs), {number: token for token, number in pairs}
        if not data["model"]["vocab"] or {(type(token), type(n)) for token, n in pairs} != {(str, int)} or "" in ids:
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file} has no vocabulary, expected model.vocab with an id for each token") from error
    if odd := {min(tokens), max(tokens)} - set(range(vocab_size)):
        raise UsageError(f"{file} has token {min(odd)}, but the model's vocab_size is {vocab_size}")
    for token, number in pairs:
        if ids[token] != number or tokens[number] != token:
            what = f"the token {shortened(repr(token))} or its id {number} twice"
            raise UsageError(f"{file} has {what}, expected one id for each token, and one token for each id")
    try:
        what, first = next(_faults(data), ""), _first(data.get("post_processor"), ids)
    except (AttributeError, KeyError, TypeError, ValueError):
        what = "describes another kind of tokenizer, expected byte-level BPE"
    if what:
        raise UsageError(f"{file} {what}")
    shown = set(tokens) - {token["id"] for token in added if token.get("special")}
    return ids, frozenset(range(vocab_size)) - shown, first


def _first(step: dict[str, Any] | None, ids: dict[str, int]) -> tuple[int, ...]:
    """Return the tokens that a post_processor puts before a text, such as Llama 3's <|begin_of_text|>."""
    steps = [step, *step.get("processors", [])] if step else []
    template: list[Any] = next((each["single"] for each in steps if each["type"] == "TemplateProcessing"), [])
    before = itertools.takewhile(lambda piece: "SpecialToken" in piece, template)
    return tuple(ids[piece["SpecialToken"]["id"]] for piece in before)


def _faults(data: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a tokenizer.json; raise a built-in error if it has another form."""
    model, added = data["model"], data.get("added_tokens", [])
    "".join(token["content"] for token in added).encode()
    if model.get("byte_fallback"):
        yield "has byte_fallback, as SentencePiece has, expected byte-level BPE: Qwen, Llama 3, Mistral NeMo and others"
    steps = data["pre_tokenizer"].get("pretokenizers", [data["pre_tokenizer"]])
    splits, last = [step for step in steps if step["type"] == "Split"], steps[-1]
    if model["type"] != "BPE" or last["type"] != "ByteLevel":
        raise ValueError
    if (form := (data.get("normalizer") or {"type": NORMAL_FORMS[0]})["type"]) not in NORMAL_FORMS:
        yield f"has normalizer {form!r}, expected {', '.join(NORMAL_FORMS)} or nothing"
    for token in sorted(ALPHABET - model["vocab"].keys()):
        yield f"has no token {token!r}, expected one for each of the 256 bytes"
    for token in (token for token in model["vocab"] if not ALPHABET.issuperset(token)):
        yield f"has the token {shortened(repr(token))}, expected GPT-2's characters for bytes"
    merges = set[tuple[str, ...]]()
    for merge in model["merges"]:
        pair = tuple(merge.split(" ") if isinstance(merge, str) else merge)
        if len(pair) != 2 or not model["vocab"].keys() >= {*pair, "".join(pair)}:
            yield f"has the merge {shortened(repr(merge))}, expected two tokens that spell a third one"
        if pair in merges:
            yield f"has the merge {shortened(repr(merge))} twice, expected each once"
        merges.add(pair)
    for token, name in ((token, name) for token in added for name in ("special", *CONDITIONS)):
        if type(value := token.get(name, False)) is not bool:
            seen = f"{name} = {shortened(repr(value))} for the token {shortened(repr(token['content']))}"
            yield f"has {seen}, expected true or false"
    isolates = all(step.get("behavior") == "Isolated" and not step.get("invert") for step in splits)
    is_alone = steps == [*splits[:1], last] and last.get("use_regex", True) != bool(splits)
    for what, is_there in {
        "a pre_tokenizer other than ByteLevel, or one isolating Split before it": not (isolates and is_alone),
        "add_prefix_space": last.get("add_prefix_space"),
        f"added tokens with {', '.join(CONDITIONS)}": any(each.get(name) for each in added for name in CONDITIONS),
    }.items():
        if is_there:
            yield f"has {what}, which this engine does not support"
    for pattern in (step["pattern"]["Regex"] for step in splits):
        with contextlib.suppress(regex.error):
            if not (words := regex.compile(pattern)).groups and all(map(words.fullmatch, SAMPLE)):
                continue
        what = f"has the regular expression {shortened(repr(pattern))}"
        yield f"{what}, expected a valid one without groups that skips no character"
