"""tokenizer.json: the file in which a trained tokenizer is stored beside its model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..tokenizer import GPT2_PATTERN, byte_alphabet

# The parts of the file that do not depend on the training.
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
LITERAL = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def split_by(pattern: str) -> dict[str, Any]:
    """Return the file's `pre_tokenizer`: words by the pattern, each then written in the byte alphabet."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL]}


def save_tokenizer(
    path: Path,
    merges: Sequence[tuple[str, str]],
    special_tokens: Sequence[str] = (),
    pattern: str = GPT2_PATTERN,
    normalization: str | None = None,
) -> None:
    """Write a tokenizer.json that `ByteLevelBPE.from_file` and Hugging Face's `tokenizers` load, with the same ids.

    Ids: 0 to 255 are the characters of `byte_alphabet` in the order of their code points, then comes one token per
    merge, in the order of the merges, and last the special tokens in their order.

    The file is one JSON object with these keys:

    - `version`: "1.0".
    - `added_tokens`: for each special token an object with its `id`, its `content`, and the keys of LITERAL.
    - `normalizer`: an object whose `type` is the normalization, or null.
    - `pre_tokenizer`: what `split_by` returns.
    - `decoder`: BYTE_LEVEL.
    - `model`: its `type`, "BPE"; `vocab`, the id of each token that is not special; and `merges`, a list of pairs,
      each a list of two texts, or both in one text with a space between.

    Args:
        path: the file to write, in UTF-8. A file that exists is replaced.
        merges: as returned by `train_bpe`.
        special_tokens: strings that become one token each, wherever they occur.
        pattern: the regular expression with which the words were counted.
        normalization: the Unicode form with which the words were counted, or None.

    Raises:
        ValueError: a token is given twice, or a merge uses a piece that is neither one of the 256 characters nor the
            token of an earlier merge. The message states the token or the piece. Nothing is written.

    Source: Hugging Face's `tokenizers`.
    """
    raise NotImplementedError("5.1.4 Saving the tokenizer")
