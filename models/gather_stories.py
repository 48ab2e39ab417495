"""Makes the text that the embedded models were trained on, from files of public repositories.

    pdm run python models/gather_stories.py FOLDER --out stories.txt

All of them are parts of TinyStories (Eldan and Li 2023, arXiv 2305.07759), which is under CDLA-Sharing-1.0. Neither the
files nor the text are in this repository; SOURCES says where each file was found. A file that FOLDER lacks is named and
left out. Two files are written: stories.txt, and stories-recased.txt with the stories of a source that has no capitals;
capitals are put back by rule there, and no story of it should be held out to judge a model by.
"""

import argparse
import hashlib
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

END = "<|endoftext|>"
LENGTHS = range(150, 4000)  # characters of a story that is kept: neither a fragment nor several
SAME = 100  # two stories that begin with the same letters, so many of them, are one
# Quotes and dashes as the keyboard has them; the first seven are UTF-8 that was once read as Windows-1252.
PLAIN = {
    "\u00e2\u20ac\u0153": '"', "\u00e2\u20ac\u009d": '"', "\u00e2\u20ac\u2122": "'", "\u00e2\u20ac\u02dc": "'",
    "\u00e2\u20ac\u201d": " - ", "\u00e2\u20ac\u00a6": "...", "\u00e2\u20ac": '"',
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2014": " - ", "\u2013": "-", "\u2026": "...",
    "\u200b": "",
}  # fmt: skip
BEGINNING = re.compile(r"(Once upon a time|Once there (was|were)|There once|Once, there|One day, (a|an|there) )")


def between_marks(text: str) -> list[str]:
    """The last is left out where the file was cut in the middle of a story."""
    parts = text.split(END)
    return parts if text.rstrip().endswith(END) else parts[:-1]


def between_nulls(text: str) -> list[str]:
    """The last is cut."""
    return text.split("\0")[:-1]


def in_json(text: str) -> list[str]:
    """A list under the name "texts"."""
    texts: list[str] = json.loads(text)["texts"]
    return texts


def by_single_newline(text: str) -> list[str]:
    """An empty line divides paragraphs, a line's end without one divides stories; the last may be cut."""
    return re.split(r"(?<!\n)\n(?!\n)", text)[:-1]


def by_first_words(text: str) -> list[str]:
    """Empty lines divide stories and paragraphs alike: a story begins as most do. The first and last are cut."""
    stories: list[list[str]] = [[]]
    for paragraph in re.split(r"\n\n+", text):
        if BEGINNING.match(paragraph):
            stories.append([])
        stories[-1].append(paragraph)
    return ["\n".join(paragraphs) for paragraphs in stories[1:-1]]


@dataclass(frozen=True)
class Source:
    """A file, where it was found, and how it is divided into stories."""

    repository: str
    commit: str
    path: str
    sha256: str  # its beginning
    divide: Callable[[str], Iterable[str]]
    lowercase: bool = False

    @property
    def name(self) -> str:
        """As the file must be called in FOLDER."""
        return f"{self.repository.split('/')[1]}__{Path(self.path).name}"


SOURCES = (
    Source("mines-opt-ml/decoding-gpt", "79274e3", "data/tinystories_10k.txt", "5a19b936d7b5", between_marks),
    Source("maxme1/tiny-stories", "188514c", "assets/tiny-stories.json", "1e7cef311b36", in_json),
    Source("gusjengis/toy-RNN", "e4c7ff8", "data/tinystories_sample.txt", "5352b299dcb1", between_marks),
    Source("ekg/elman", "1fc3afc", "data/tinystories_test.txt", "a8f457b472e6", between_nulls),
    Source("yuninxia/moe-routing-bench", "bb9bb0b", "data/tinystories_val.txt", "5fc1fb0113df", by_first_words),
    Source(
        "Arnoochka/Transformer-Parallelism",
        "911b9e7",
        "tinystories.txt",
        "30c6f2fac206",
        by_single_newline,
        lowercase=True,
    ),
)


def main() -> None:
    """Read what is there, clean it, and write the two files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds the files, named REPOSITORY__FILE")
    parser.add_argument("--out", type=Path, default=Path("stories.txt"), help="default: stories.txt")
    options = parser.parse_args()

    kept: dict[str, tuple[str, bool]] = {}  # by the letters that a story begins with
    for source in SOURCES:
        file = options.folder / source.name
        if not file.is_file():
            print(f"{source.name}: not in {options.folder}, left out", file=sys.stderr)
            continue
        data = file.read_bytes()
        if not hashlib.sha256(data).hexdigest().startswith(source.sha256):
            print(f"{source.name}: differs from the file that the models were trained on", file=sys.stderr)
        before = len(kept)
        for story in map(clean, source.divide(data.decode(errors="ignore"))):
            if len(story) in LENGTHS and story.isascii():
                kept.setdefault(letters(story), (story, source.lowercase))
        print(f"{source.name}: {len(kept) - before} new stories")

    stories = [story for story, lowercase in kept.values() if not lowercase]
    names = capitals(stories)
    recased = [with_capitals(story, names) for story, lowercase in kept.values() if lowercase]
    for file, texts in ((options.out, stories), (options.out.with_stem(f"{options.out.stem}-recased"), recased)):
        if texts:
            file.write_text("".join(f"{text}\n{END}\n" for text in texts), encoding="utf-8")
            print(f"{file}: {len(texts)} stories, {sum(map(len, texts))} characters")


def clean(story: str) -> str:
    """ASCII quotes and dashes, one space between words, one line's end between paragraphs."""
    for odd, plain in PLAIN.items():
        story = story.replace(odd, plain)
    story = unicodedata.normalize("NFKC", story)
    lines = (re.sub(r"\s+", " ", line).strip() for line in story.splitlines())
    return "\n".join(line for line in lines if line)


def letters(story: str) -> str:
    """What tells a story from others, whatever its spelling of capitals and spaces."""
    return re.sub(r"[^a-z]", "", story.lower())[:SAME]


def capitals(stories: list[str]) -> dict[str, str]:
    """The words that are mostly written with a capital within a sentence: names, and I."""
    seen = Counter(found[1] for story in stories for found in re.finditer(r"[a-z,] ([A-Za-z]+)", story))
    return {word.lower(): word for word, n in seen.items() if word[0].isupper() and n > 2 and n > seen[word.lower()]}


def with_capitals(story: str, names: dict[str, str]) -> str:
    """Names, and what follows the beginning of a sentence."""
    named = re.sub(r"[a-z]+", lambda found: names.get(found[0], found[0]), story)
    # Speech within a sentence begins with a capital too: ...said, "It is".
    return re.sub(r'(^|[.!?]"? |[.!?] "|, "|\n"?)([a-z])', lambda found: found[1] + found[2].upper(), named)


if __name__ == "__main__":
    main()
