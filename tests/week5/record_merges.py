"""Record the merges that Hugging Face's `tokenizers` learns: `python tests/week5/record_merges.py`.

They are committed as `merges.json`. `tests/course/test_bpe_against_tokenizers.py` checks that they are current.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.week5.merging import words_formula
from tests.week5.training_texts import OF_STORIES, RECORDED, STORIES, texts


def learned(text: str, merges: int, pre_tokenizer: Any = None, normalizer: Any = None) -> list[tuple[str, str]]:
    """Return the merges that `tokenizers` learns from one text, split as by GPT-2."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=256 + merges, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    return [(a, b) for a, b in json.loads(tokenizer.to_str())["model"]["merges"]]


def rows() -> dict[str, Any]:
    """Return what the file records: the merges of each text, and the word counts of the stories."""
    stories = (Path(__file__).parents[2] / "models" / "held-out-stories.txt").read_text(encoding="utf-8")
    every = {**texts(), STORIES: (stories, OF_STORIES)}
    merges = {name: [" ".join(pair) for pair in learned(*given)] for name, given in every.items()}
    return {"merges": merges, "counts": words_formula([stories])}


def main() -> None:
    """Write the file."""
    parts = rows()
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in parts["merges"].items()]
    merges = "{\n" + ",\n".join(lines) + "\n}"
    RECORDED.write_text(f'{{"merges": {merges},\n"counts": {json.dumps(parts["counts"])}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
