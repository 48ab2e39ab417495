"""Read a saved tokenizer.json back and compare it with what the arguments say."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.week5.merging import LETTERS, Pairs

from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
LITERAL = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def expected_ids(merges: Pairs, special: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the ids of the ordinary tokens and of the special ones."""
    tokens = [*sorted(LETTERS.values()), *map("".join, merges)]
    vocab = {token: i for i, token in enumerate(tokens)}
    return vocab, {token: len(tokens) + i for i, token in enumerate(special)}


def read_back(path: Path, case: str) -> dict[str, Any]:
    """Return the object in a file."""
    if not path.is_file():
        fail(Kind.VALUES, f"no file {path.name} was written", case)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        fail(Kind.VALUES, f"the file is not one JSON object in UTF-8: {error}", case)
    if type(data) is not dict:
        fail(Kind.TYPE, "the file is not a JSON object", case)
    return data


def same_file(
    data: dict[str, Any], merges: Pairs, special: Sequence[str], pattern: str, form: str | None, case: str
) -> None:
    """Check the parts of a file, the simplest first."""
    model = data.get("model") if type(data.get("model")) is dict else {}
    assert isinstance(model, dict)
    vocab, added = expected_ids(merges, special)
    fail_if_different("wrong `version`", "1.0", data.get("version"), case)
    fail_if_different("wrong `type` of the model", "BPE", model.get("type"), case)
    _same_vocab(model.get("vocab"), vocab, case)
    pairs = model.get("merges")
    pairs = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in pairs] if pairs else pairs
    if pairs != list(map(tuple, merges)):
        fail(
            Kind.VALUES,
            "wrong `merges` in the model",
            case,
            f"expected  {len(merges)}, in their order",
            size=len(merges),
        )
    wanted = [{"id": i, "content": token, **LITERAL} for token, i in added.items()]
    found = data.get("added_tokens")
    if type(found) is list and len(found) == len(wanted):
        for mine, right in zip(found, wanted, strict=True):
            fail_if_different(f"wrong entry of the special token {right['content']!r}", right, mine, case)
    fail_if_different("wrong `added_tokens`", wanted, found, case)
    fail_if_different("wrong `normalizer`", {"type": form} if form else None, data.get("normalizer"), case)
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    steps = {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL]}
    fail_if_different("wrong `pre_tokenizer`", steps, data.get("pre_tokenizer"), case)
    fail_if_different("wrong `decoder`", BYTE_LEVEL, data.get("decoder"), case)


def _same_vocab(actual: object, expected: dict[str, int], case: str) -> None:
    if type(actual) is not dict:
        fail(Kind.TYPE, "the model's `vocab` is not an object", case)
    for token in [*expected, *actual]:
        if expected.get(token) != actual.get(token):
            lines = (f"expected  {expected.get(token, 'none')}", f"got       {actual.get(token, 'none')}")
            fail(Kind.VALUES, f"wrong id of the token {token!a} in `vocab`", case, *lines, size=len(expected))
