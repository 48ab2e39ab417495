"""The quiz of week 7, day 1."""

from typing import Any

from tests.week7.grammars import derives, own, run
from tests.week7.pushing import expression

from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "7.1.1",
    "The class `[a-é]` is compiled to an automaton over bytes. Which of these does it accept: `61`, `C3 A9`, `E9`?",
    why="The letters a and é are `61` and `C3 A9` in UTF-8; `E9` is é's code point, not its bytes.",
    mistakes={
        "characters-as-bytes": "Then a token with the byte E9 would be allowed, and the text would not be valid UTF-8.",
        "last-byte-of-a-range-missing": "A9 is the last byte of its range, and ranges include their last byte.",
    },
)
def bytes_of_a_class(program: Any) -> str:
    dfa = program(own(program, "pattern").parse_regex("[a-é]"))
    found = [data.hex(" ").upper() for data in (b"\x61", "é".encode(), b"\xe9") if run(dfa, list(data))]
    return ", ".join(f"`{each}`" for each in found) or "none of them"


@quiz.question(
    "7.1.3",
    "An object has the properties a, b and c, in this order, and only b is required. All values are 1. How many "
    "texts does the grammar derive?",
    why='b is required, and a and c are optional: `{"b":1}` alone, with a, with c, or with both.',
    mistakes={
        "all-optional": "Then the texts without b are derived as well.",
        "required-skipped": "The texts that begin with c lack b, which comes before c.",
        "first-property-needed": "Then no text begins with b.",
    },
)
def texts_of_an_object(program: Any) -> str:
    one = {"enum": [1]}
    rules = program({"properties": {"a": one, "b": one, "c": one}, "required": ["b"]})
    names = [[name for name, bit in zip("abc", (4, 2, 1), strict=True) if n & bit] for n in range(8)]
    texts = ["{" + ",".join(f'"{name}":1' for name in some) + "}" for some in names]
    return str(sum(derives(rules["#"], text, rules) for text in texts))


@quiz.question(
    "7.1.4",
    "A list is `[`, integers separated by commas, and `]`. An integer is a separate rule. The text so far is `[1`. "
    "Which of the characters `0`, `,` and `]` may follow?",
    why="The integer may continue, or end. If it ends, the list continues after the call, with a comma or a bracket.",
    mistakes={
        "never-returns-early": "An integer that may continue may also end.",
        "returns-at-once": "An integer that may end may also continue.",
        "returns-before-the-call": "The list continues after the integer, so a comma may follow.",
    },
)
def after_a_digit(program: Any) -> str:
    rules = {"#": r"\[(?:<n>(?:,<n>)*)?\]", "n": "0|[1-9][0-9]*"}
    compile_rule = own(program, "automaton").compile_rule
    compiled = {name: compile_rule(expression(text, lambda m: own(program, m))) for name, text in rules.items()}
    made = program(compiled, "#")
    state = made.start
    for byte in b"[1":
        state = int(made.row(state)[byte])
    found = [letter for letter in "0,]" if state >= 0 and made.row(state)[ord(letter)] >= 0]
    return " ".join(f"`{letter}`" for letter in found) or "none of them"
