"""The quiz of week 5, day 1."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tiny_llm_course.dev.book.quizzes import Quiz, Record

quiz = Quiz()


@quiz.question(
    "5.1.2",
    "The words are `hez` and `zhe`, each with count 4. The first merge is `h e`. Which pair is merged next?",
    why="The pairs `he z` and `z he` both have count 4. `z` has a smaller id than `he`, the newest token.",
    mistakes={
        "ties-by-text": "As text, `he` comes before `z`, but its id is larger.",
        "counted-once": "After the first merge, `e` and `z` are no longer adjacent.",
    },
)
def next_pair(train: Any) -> str:
    return "`" + " ".join(train({"hez": 4, "zhe": 4}, 2)[1]) + "`"


@quiz.question(
    "5.1.3",
    "The words are `abc` (count 5), `ab` (3), `xbc` (2) and `cx` (4). Which pair is merged fourth?",
    why="After `a b`, `ab c` and `c x`, the pairs `b c` and `x b` tie at 2, and `b` has the smaller id.",
    mistakes={
        "falling-counts-not-pushed": "The count of `b c` fell from 7 to 2, so its old entry is skipped.",
        "old-counts-used": "The pair `b c` was already merged second, with its old count of 7.",
    },
)
def fourth(train: Any) -> str:
    return "`" + " ".join(train({"abc": 5, "ab": 3, "xbc": 2, "cx": 4}, 4)[3]) + "`"


@quiz.question(
    "5.1.4",
    "A tokenizer has 3 merges and the special token `<|end|>`. Which id does `<|end|>` have?",
    why="The characters have the ids 0 to 255, the merges 256 to 258, and the special tokens follow.",
    mistakes={
        "special-ids-too-small": "The merges have the ids 256 to 258, so the next free id is 259.",
        "special-tokens-first": "Then every other id shifts by one, and no embedding matches its token.",
    },
)
def special_id(save: Any) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        save(path, [("t", "h"), ("th", "e"), ("a", "n")], ["<|end|>"])
        return str(json.loads(path.read_text(encoding="utf-8"))["added_tokens"][0]["id"])


@quiz.measured(
    "In our run, the longest text has 64 times as many bytes as the shortest, but the trainers take only about ten "
    "times as long. Why?",
    right="They process distinct words, and most words of a longer text have occurred before.",
    why="The number of distinct words grows 9-fold. The words are counted once, before the first merge.",
    mistakes={
        "They stop after 500 merges.": "So they do for the shortest text. A merge takes longer with more words to "
        "visit.",
        "They read only part of a long text.": "All words are counted, and a rare pair may still be merged.",
        "Most of the time goes into counting.": "Counting takes a fifth of a second at most, and grows 26-fold.",
    },
)
def grows_less(record: Record, cause: str) -> str:
    first, *_, last = record.values()
    distinct, naive, fast, count = (
        float(last[name]) / float(first[name]) for name in ("distinct", "naive: s", "incremental: s", "count: s")
    )
    found = round(distinct) == 9 and 8 < fast < naive < 11 and round(count) == 26 and float(last["count: s"]) < 0.2
    return cause if found else ""
