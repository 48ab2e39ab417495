"""The quiz of week 1, day 6."""

from typing import Any

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz
from tiny_llm_course.measuring.clock import number
from tiny_llm_course.paths import TESTS

quiz = Quiz()


def _tokenizer() -> Any:
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    return ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json")


@quiz.question(
    "1.6.2",
    "The pairs are `l u` with rank 0, `b l` with 1, `u e` with 2 and `lu e` with 3. What becomes of `b l u e`?",
    why="`l u` was learned first, so it is joined first. That makes `lu e` a pair, which is known.",
    mistakes={
        "leftmost-first": "Rank decides, not the place in the word: `l u` comes before `b l`.",
        "one-round": "After a join there are new neighbours, and the search begins again.",
    },
)
def blue(merge_pairs: Any) -> str:
    ranks = {("l", "u"): 0, ("b", "l"): 1, ("u", "e"): 2, ("lu", "e"): 3}
    return f"`{' '.join(merge_pairs(list('blue'), ranks))}`"


@quiz.question(
    "1.6.2",
    "The pairs are `a a` with rank 0 and `aa a` with rank 1. What becomes of `a a a a a`?",
    why="First `aa aa a`, from left to right. Then only the last two are a known pair.",
    mistakes={
        "one-round": "The second pair, `aa a`, has come into being and is known.",
        "from-the-right": "From the right it is `a aa aa`, and `a aa` is not a known pair.",
        "one-place": "`a a` stands in the word twice, and every place is joined.",
    },
)
def five_letters(merge_pairs: Any) -> str:
    return f"`{' '.join(merge_pairs(list('aaaaa'), {('a', 'a'): 0, ('aa', 'a'): 1}))}`"


@quiz.question(
    "1.6.5",
    "The tokens 314, 267 and 486 are ` blue` and the two halves of a dog emoji. What does the detokenizer give after "
    "each of them?",
    why="A word without an unfinished character is shown at once; the first half of the dog waits for the second.",
    mistakes={
        "token-by-token": "Half a character is no text, so each half became replacement characters.",
        "waits-for-the-end": "Whoever reads along sees nothing until the model is done.",
        "one-late": "` blue` is complete when it comes; nothing is gained by holding it back.",
    },
)
def half_a_dog(detokenizer: Any) -> str:
    stream = detokenizer(_tokenizer())
    return ", then ".join(f"`{piece}`" if (piece := stream.add(token)) else "nothing" for token in (314, 267, 486))


@quiz.measured(
    "The text has 200 tokens, and the next one is wanted. Suppose that an engine had kept the keys and values of all "
    "200: about how long would our run's machine take for the step?",
    right="1",
    why="Then one token is computed, as in the first line. (Its attention reads 200 keys more, which is little here.)",
    mistakes={
        "10": "That is a step which computes ten tokens. Only one is new.",
        "100": "Keeping does not halve the work: it leaves out all of it but that of one token.",
        "200": "That is a step which computes everything anew, as yours does today.",
    },
)
def step_with_a_cache(record: Record, tokens: str) -> str:
    return f"{number(record[tokens]['the next, ms'])} ms"
