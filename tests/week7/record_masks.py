"""Record the token masks that llguidance computes: `python tests/week7/record_masks.py`.

They are committed as `masks.npz`. `tests/course/test_masks_against_llguidance.py` checks that they are current, where
llguidance is installed. It is configured as our grammar is: no white space between the parts of a value, and no forced
tokens: otherwise, where one text is possible, its masks allow only the token that its tokenizer would choose.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.week7.random_schemas import draw_schema

MODEL = Path(__file__).parents[2] / "models" / "tiny-qwen3" / "tokenizer.json"
RECORD = Path(__file__).with_name("masks.npz")
SIZE, END, STEPS, BYTES = (
    2048,
    2047,
    24,
    257,
)  # of the embedded model's vocabulary; the vocabulary of bytes has an end, too
PET = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 30},
        "kind": {"enum": ["cat", "dog", "caterpillar"]},
        "friends": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["name", "kind"],
    "additionalProperties": False,
}


def schemas() -> list[Any]:
    """Return the schemas: some for one keyword each, then random ones."""
    plain = ["string", "integer", "number", "boolean", "null", "array", "object"]
    found: list[Any] = [PET, *({"type": kind} for kind in plain), {"type": "string", "minLength": 2, "maxLength": 5}]
    found += [{"type": "integer", "minimum": low, "maximum": high} for low, high in ((-120, 7), (9, 1005), (0, 0))]
    return found + [draw_schema(random.Random(seed)) for seed in range(1000, 1030)]


def grammar_of(schema: Any) -> str:
    """Return a schema as llguidance takes it."""
    options = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
    text = json.dumps({**schema, "x-guidance": options}, ensure_ascii=False)
    return f'%llguidance {{"no_forcing": true}}\nstart: %json {text}'


class ByteTokenizer:
    """A token for each byte, and one that ends a text."""

    eos_token_id, bos_token_id, special_token_ids = BYTES - 1, None, (BYTES - 1,)
    tokens = (*(bytes([n]) for n in range(BYTES - 1)), b"<end>")

    def __call__(self, text: bytes | str) -> list[int]:
        """Return the tokens of a text."""
        return list(text if isinstance(text, bytes) else text.encode())


def tokenizers() -> dict[str, Any]:
    """Return llguidance's tokenizers for the two vocabularies."""
    import llguidance

    tokens = llguidance.LLTokenizer(MODEL.read_text(encoding="utf-8"), n_vocab=SIZE, eos_token=END)
    letters = llguidance.LLTokenizer(llguidance.TokenizerWrapper(ByteTokenizer()), n_vocab=BYTES)
    return {"tokens": tokens, "bytes": letters}


def walk(tokenizer: Any, schema: Any, size: int, end: int, seed: int) -> Iterator[tuple[int, Any]]:
    """Yield the masks of a random text, each with the token that follows it, or -1 at the end."""
    import llguidance

    matcher, rng = llguidance.LLMatcher(tokenizer, grammar_of(schema)), random.Random(seed)
    assert not matcher.is_error(), matcher.get_error()
    for _ in range(STEPS):
        mask = np.frombuffer(matcher.compute_bitmask(), np.uint32)[: -(-size // 32)]
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little", count=size)).tolist()
        token = rng.choice(allowed)
        yield (-1 if token == end else token), mask
        if token == end:
            break
        assert matcher.consume_token(token)


def record() -> dict[str, Any]:
    """Return what is recorded: for each vocabulary the schema, the next token and the mask of each step."""
    found: dict[str, Any] = {}
    for name, tokenizer in tokenizers().items():
        size, end = (SIZE, END) if name == "tokens" else (BYTES, BYTES - 1)
        steps = [(n, *step) for n, one in enumerate(schemas()) for step in walk(tokenizer, one, size, end, n)]
        found[f"{name}_schema"] = np.array([each[0] for each in steps], np.int16)
        found[f"{name}_next"] = np.array([each[1] for each in steps], np.int16)
        found[f"{name}_mask"] = np.stack([each[2] for each in steps])
    return found


if __name__ == "__main__":
    np.savez_compressed(RECORD, **record())
