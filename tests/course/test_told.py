"""What a learner is told of a mistake: nothing that the checks contradict, with a case in which it shows."""

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, run

pytestmark = pytest.mark.maintainers
NAMED = "equals what you get when"


def edit(file: str, find: str, put: str) -> Edit:
    return Edit(file, put, find)


def graded(*edits: Edit, task: str, solved: tuple[str, ...] = ()) -> str:
    """What is printed of a task of the small course, solved with its needs and then edited."""
    with fixture(*(solved or (task,)), edits=edits) as checkout:
        return run(f"test {task}", checkout).stdout


def test_two_mistakes_at_once_are_named_with_both_questions():
    screen = graded(
        edit("basics.py", "y = x * slope", "y = x + slope"), edit("basics.py", "y + offset", "y - offset"), task="1.1.3"
    )
    assert f"Two mistakes at once: your output {NAMED} the offset is subtracted, and the slope is added." in screen
    assert screen.count("?\n") == 2


def test_a_mistake_is_named_although_the_known_program_passes_some_checks():
    """The one that is tried there is not written in the learner's files, and need not be."""
    screen = graded(edit("basics.py", "y + offset", "y - offset"), task="1.1.3")
    assert f"Your output {NAMED} the offset is subtracted." in screen
    assert "8 of 8" not in screen


def test_a_claim_that_the_checks_contradict_is_told_of_one_case():
    """The probe is float32; the checks see that the program loses float16 besides, which the known one does not."""
    screen = graded(edit("basics.py", "y = x * slope", "y = (x + slope).astype(mx.float32)"), task="1.1.3")
    assert "of 8 checks failed" in screen
    assert f"In this case, your output {NAMED} the slope is added. It may not explain every failing case." in screen


def test_what_a_single_case_shows_is_not_told():
    """Only with an offset, and in float32, is the program as wrong as the one that leaves the offset out."""
    screen = graded(
        edit("basics.py", "return y if offset is None else y + offset", "return y.astype(mx.float32)"), task="1.1.3"
    )
    assert "of 8 checks failed" in screen
    assert NAMED not in screen


def test_a_known_mistake_that_explains_a_part_of_the_cases_of_a_kind_is_not_told():
    """In the narrow dtypes the program is wrong in another way."""
    factor = "(1 if x.dtype == mx.float32 else 2) + (x.ndim == 2)"
    screen = graded(edit("basics.py", "y = x * slope", f"y = x + slope * ({factor})"), task="1.1.3")
    assert "values differ" in screen
    assert NAMED not in screen


def test_a_claim_is_told_with_a_case_in_which_it_shows():
    """Without an offset the program is right: the smallest case of all would not do."""
    screen = graded(edit("basics.py", "return y if offset is None else y + offset", "return y"), task="1.1.3")
    assert "x 2 x 3 x 4, slope 4, offset 4" in screen
    assert f"Your output {NAMED} the offset is left out." in screen


def test_a_mistake_that_stops_the_program_is_named_in_other_words():
    screen = graded(
        edit("spread.py", "x - mean(x, axis)", "x - mean(x, axis).squeeze(axis)"),
        task="1.1.2",
        solved=("1.1.1", "1.1.2"),
    )
    assert "raised ValueError" in screen
    assert "Your program fails like one in which the mean has lost the axis that it was taken along." in screen
    assert NAMED not in screen


def test_a_mistake_beside_an_unknown_one_is_told_of_its_own_cases():
    """A vector's variance is wrong in another way, too."""
    screen = graded(
        edit(
            "spread.py",
            "return mean(centered * centered, axis)",
            "return mean(mx.abs(centered), axis) * (7 if x.ndim == 1 else 1)",
        ),
        task="1.1.2",
        solved=("1.1.1", "1.1.2"),
    )
    claim = f"In this case, your output {NAMED} the distances from the mean are not squared."
    assert f"{claim}\n" in screen, "no check takes a vector: it explains every failing case"


FAULT = edit(
    "spread.py",
    "return mean(centered * centered, axis)",
    "return mean(centered * centered, axis) * (2 if x.ndim == 2 and x.shape[-1] > 4 else 1)",
)


def test_a_green_task_that_a_later_one_blames_is_green_no_more():
    """Until it is changed. The later task shows the case that proves it."""
    with fixture("1.1.1", "1.1.2", "1.1.3", "1.2.1", edits=(FAULT,)) as checkout:
        assert "3 of 3 tasks passed" in run("test 1.1", checkout).stdout
        screen = run("test 1.2.1", checkout).stdout
        assert "this task is right, 1.1.2 which it uses is not" in screen
        assert "      case      float32, x 1 x 5" in screen
        assert "code src/tiny_llm/spread.py:9\n" in screen
        board = run("status --week 1", checkout).stdout
        assert "✗ 1.1.2 Variance: passes its own checks, but 1.2.1 shows that it is wrong" in board
        assert board.endswith("Next: fix 1.1.2 Variance, src/tiny_llm/spread.py:9\n      pdm run test 1.2.1\n")
        assert "✗ 1.2.1 Standard scores: fails because of 1.1.2" in board
        assert "1.1.2 Variance: passed" in run("test 1.1.2", checkout).stdout
        assert "✗ 1.1.2 Variance" in run("status --week 1", checkout).stdout, "its own checks know no better"
        file = checkout / "src/tiny_llm/spread.py"
        file.write_text(file.read_text(encoding="utf-8").replace(FAULT.put, FAULT.find), encoding="utf-8")
        board = run("status --week 1", checkout).stdout
        assert "~ 1.1.2 Variance: changed since it passed" in board
        assert "~ 1.2.1 Standard scores: failed because of 1.1.2, changed since" in board


STUB = "1.6.7"


def of_the_course(tasks: str, *edits: Edit, days: tuple[str, ...]) -> str:
    """What is printed of tasks of the course itself, of which some days are solved and then edited."""
    solved = tuple(task.id for task in load_course().tasks() if task.id.rpartition(".")[0] in days and task.id != STUB)
    with checkout_for(Scenario("told", (), solved, edits)) as checkout:
        return run(f"test {tasks}", checkout).stdout


def test_a_stub_that_an_earlier_mistake_keeps_from_being_reached_is_not_started():
    screen = of_the_course(STUB, edit("tokenizer.py", "range(33, 127)", "range(33, 126)"), days=("1.6",))
    assert "○ 1.6.7 Generating text: not started, and would wait for 1.6.1 The byte alphabet" in screen
    assert "KeyError" not in screen


# Programs that were once called by the name of a mistake that they do not have.
MISTAKEN = {
    "another-eps": (
        "1.3.3",
        edit("qwen3.py", "q_norm, k_norm, rms_norm_eps", "q_norm, k_norm, 1e-4"),
        "eps is always",
        ("1.1", "1.2", "1.3"),
    ),
    "temperature-after-top-p-alone": (
        "1.7.5",
        edit(
            "sampler.py",
            "        logits = logits / temp\n        if top_k:\n            logits = keep_top_k(logits, top_k)\n"
            "        if top_p < 1:\n            logits = keep_top_p(logits, top_p)\n",
            "        if top_k:\n            logits = keep_top_k(logits, top_k)\n"
            "        if top_p < 1:\n            logits = keep_top_p(logits, top_p)\n        logits = logits / temp\n",
        ),
        "the temperature is applied after the filters",
        ("1.1", "1.7"),
    ),
    "words-between-spaces": (
        "1.6.3",
        edit("tokenizer.py", "self.words.findall(part)", 'regex.findall(r" ?\\S+|\\s+", part)'),
        "GPT-2's pattern",
        ("1.6",),
    ),
    "an-invalid-byte": (
        "1.6.5",
        edit(
            "tokenizer.py",
            "        text: str = self.decoder.decode(self.tokenizer.token_bytes[token])\n        return text\n",
            "        self.held = getattr(self, 'held', b'') + self.tokenizer.token_bytes[token]\n        try:\n"
            "            text = self.held.decode()\n        except UnicodeDecodeError:\n            return ''\n"
            "        self.held = b''\n        return text\n",
        ),
        "complete characters are held back",
        ("1.6",),
    ),
    "a-mask-for-one-row": (
        "1.1.4",
        edit(
            "attention.py",
            "mask=mask,\n        )\n        #",
            "mask=None if len(query) > 1 else mask,\n        )\n        #",
        ),
        "the mask is not passed to the attention",
        ("1.1",),
    ),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_mistake_that_the_program_does_not_have_is_not_named(name):
    task, change, fact, days = MISTAKEN[name]
    screen = of_the_course(task, change, days=days)
    assert f"✗ {task} " in screen
    assert fact not in screen
