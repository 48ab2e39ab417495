"""The quiz of week 1, day 6."""

from typing import Any

from tiny_llm_course.dev.book.quizzes import Quiz, Record
from tiny_llm_course.measuring.clock import number
from tiny_llm_course.paths import TESTS

quiz = Quiz()


def _tokenizer() -> Any:
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    return ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json")


@quiz.question(
    "1.6.2",
    "The pairs are `l u` with rank 0, `b l` with 1, `u e` with 2 and `lu e` with 3. What does `b l u e` become?",
    why="`l u` was learned first, so it is merged first. That creates `lu e`, which is a known pair.",
    mistakes={
        "leftmost-first": "The rank decides, not the position in the word, so `l u` is merged before `b l`.",
        "one-round": "The first merge creates the pair `lu e`, which is known, so it must be merged too.",
    },
)
def blue(merge_pairs: Any) -> str:
    ranks = {("l", "u"): 0, ("b", "l"): 1, ("u", "e"): 2, ("lu", "e"): 3}
    return f"`{' '.join(merge_pairs(list('blue'), ranks))}`"


@quiz.question(
    "1.6.2",
    "The pairs are `a a` with rank 0 and `aa a` with rank 1. What does `a a a a a` become?",
    why="The first round makes `aa aa a`, from left to right. Then only the last two pieces form a known pair.",
    mistakes={
        "one-round": "After the first round, the pair `aa a` exists and is known.",
        "from-the-right": "Merging from the right makes `a aa aa`, and `a aa` is not a known pair.",
        "one-place": "`a a` occurs twice, and every occurrence is merged.",
    },
)
def five_letters(merge_pairs: Any) -> str:
    return f"`{' '.join(merge_pairs(list('aaaaa'), {('a', 'a'): 0, ('aa', 'a'): 1}))}`"


@quiz.question(
    "1.6.5",
    "The tokens 314, 267 and 486 are ` blue` and the two halves of a dog emoji. What does the detokenizer return "
    "after each of them?",
    why="A word without an unfinished character is shown immediately. The first half of the emoji is held back until "
    "the second half arrives.",
    mistakes={
        "token-by-token": "Half a character is not text, so each half becomes replacement characters.",
        "waits-for-the-end": "The user would see nothing until the model is done.",
        "one-late": "` blue` is complete when it arrives, so there is no reason to hold it back.",
    },
)
def half_a_dog(detokenizer: Any) -> str:
    stream = detokenizer(_tokenizer())
    return ", then ".join(f"`{piece}`" if (piece := stream.add(token)) else "nothing" for token in (314, 267, 486))


@quiz.measured(
    "The sequence has 200 tokens. If an engine had cached the keys and values of all tokens but the newest, about how "
    "long would the step for the next token take in our run?",
    right="1",
    why="The step computes one token, as in the row for 1 token. (Its attention reads more keys, but that takes little "
    "time.)",
    mistakes={
        "10": "That step computes ten tokens, but only one token is new.",
        "100": "Caching does not halve the work: it removes all of the work except that of one token.",
        "200": "That step recomputes everything, as your engine does today.",
    },
)
def step_with_a_cache(record: Record, tokens: str) -> str:
    return f"{number(record[tokens]['next token: ms'])} ms"
