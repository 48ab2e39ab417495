"""Texts to train tokenizers on: the merges that Hugging Face's `tokenizers` learns from them are recorded."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

STORIES, OF_STORIES = "held-out stories", 1200  # models/held-out-stories.txt
RECORDED = Path(__file__).parent / "merges.json"

SHORT = (
    "That is a blue dog. The blue dog digs, and a dog that digs is a big dog. Is that a bug? That's a big blue bug!\n"
)

SCRIPTS = (
    "\u5c0f\u72d7\u5728\u82b1\u56ed\u91cc\u627e\u5230\u4e00\u4e2a\u7ea2\u8272\u7684\u7403\u3002\u5c0f\u72d7\u628a"
    "\u7403\u7ed9\u5c0f\u732b\u3002\n"
    "\u0421\u043e\u0431\u0430\u043a\u0430 \u043d\u0430\u0448\u043b\u0430 \u043a\u0440\u0430\u0441\u043d\u044b"
    "\u0439 \u043c\u044f\u0447, \u0438 \u0441\u043e\u0431\u0430\u043a\u0430 \u0440\u0430\u0434\u0430.\n"
    "\u03a4\u03bf \u03c3\u03ba\u03c5\u03bb\u03af \u03b2\u03c1\u03ae\u03ba\u03b5 \u03c4\u03b7\u03bd \u03bc\u03c0"
    "\u03ac\u03bb\u03b1, \u03ba\u03b1\u03b9 \u03c4\u03bf \u03c3\u03ba\u03c5\u03bb\u03af \u03c7\u03ac\u03c1\u03b7"
    "\u03ba\u03b5.\n"
    "\u0627\u0644\u0643\u0644\u0628 \u0648\u062c\u062f \u0627\u0644\u0643\u0631\u0629 \u0627\u0644\u062d\u0645"
    "\u0631\u0627\u0621.\n"
    "\uac15\uc544\uc9c0\uac00 \ube68\uac04 \uacf5\uc744 \ucc3e\uc558\uc5b4\uc694. \uac15\uc544\uc9c0\ub294 \uae30"
    "\ubee4\uc694.\n"
    "D\xe9j\xe0 vu: le ch\xe2teau o\xf9 na\xeetre, \xc5ngstr\xf6m, e\u0301te\u0301, \xbd \ufb01n, \u212b.\n"
    "\U0001f415\U0001f415\U0001f431 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f "
    "\xa0x\u2028\u3000y\x1cz\ufeff\n"
)


@cache
def ties() -> str:
    """Return words in which nearly every count is shared by many pairs: runs, and every pair of twelve letters."""
    letters = "zyb\u00e9a\u00ffAcdxZ0"
    words = [f"{a}{b}" for a in letters for b in letters]
    words += [letter * n for letter in letters[:6] for n in range(1, 12)]
    draw = random.Random(5)
    words += ["".join(draw.choice("abcd") for _ in range(7)) for _ in range(60)]
    draw.shuffle(words)
    return " ".join(words)


@cache
def texts() -> dict[str, tuple[str, int]]:
    """Return the texts that are in the tests, each with how many merges to learn, by name."""
    page = (Path(__file__).parents[1] / "week1" / "tokenizer_text.txt").read_text(encoding="utf-8")
    return {
        "a short text": (SHORT, 60),
        "ties": (ties(), 400),
        "many scripts": (SCRIPTS * 2 + SCRIPTS[::-1], 600),
        "a page": (page, 700),
    }


@cache
def _file() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return data


@cache
def recorded() -> dict[str, list[tuple[str, str]]]:
    """Return the merges that `tokenizers` learns from each text and from STORIES, by name."""
    return {name: [(a, b) for a, b in (pair.split(" ") for pair in row)] for name, row in _file()["merges"].items()}


def counts_of_stories() -> dict[str, int]:
    """Return the word counts of STORIES, which is not in the tests."""
    return dict(_file()["counts"])
