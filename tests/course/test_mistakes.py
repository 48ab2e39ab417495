"""`generate --mistake`: which mistakes there are for whom, and what an engine with one of them does."""

import math
from collections.abc import Callable

import pytest
from tests.course.checkpoint_folders import small
from tests.course.terminal import Terminal

from tiny_llm_course.commands.mistake import SEED
from tiny_llm_course.course.entities import Task
from tiny_llm_course.course.file_paths import chapter_path
from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.course.suggestions import nearest
from tiny_llm_course.dev.book.mistake_diffs import mistake_diff, mistake_parts
from tiny_llm_course.dev.transcripts import Scenario, checkout_for, run
from tiny_llm_course.engine import broken, mistakes, stages
from tiny_llm_course.engine.broken import STORIES, Breaker, Comparison
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.engine.mistakes import in_bits, in_engine
from tiny_llm_course.learner import progress
from tiny_llm_course.programs.packages import SOLUTION_NAME, LearnerError, installed, program
from tiny_llm_course.terminal.beside import SIGN, WIDE, beside, parting, signed
from tiny_llm_course.testkit.outcomes import outcome
from tiny_llm_course.testkit.variants import load_variants

DRAFT = "models/tiny-qwen3-draft"
USED = in_engine(stages.choose(None, True))
Compare = Callable[[str], Comparison]


def again(mistake: str) -> str:
    return f"pdm run generate Once --mistake {mistake}"


@pytest.fixture
def compare(checkpoint, monkeypatch) -> Compare:
    """`compare("1.1.2:no-scale")` runs a small random model, 12 tokens of text and one story."""
    monkeypatch.setattr(broken, "STORIES", 1)
    folder = checkpoint(small(max_position_embeddings=2048))

    def run(mistake: str) -> Comparison:
        task, stage, _, variant = mistakes.chosen(mistake, True, None, again)
        assert variant is not None
        engine = load_engine(str(folder), True, "float32", stage.name)
        return Breaker(engine, "Once", 12, Sampling(temp=0.8, seed=1), lambda line: None).compare(task, variant.name)

    return run


def test_a_mistake_in_the_model_costs_bits_and_the_right_engine_is_there_again(compare):
    first, second = compare("1.1.2:no-scale"), compare("1.5.3:no-final-norm")
    for found in (first, second):
        assert found.right.text == first.right.text
        assert found.bits == first.bits
        assert found.right.tokens == found.broken.tokens == found.most == 12
        assert math.isfinite(found.broken_bits.per_byte)
        assert abs(found.broken_bits.per_byte - found.bits.per_byte) > 1e-4
    assert second.broken.text != second.right.text


@pytest.mark.parametrize(("mistake", "ahead"), [("1.5.3:no-causal-mask", True), ("1.1.2:no-scale", False)])
def test_whoever_reads_the_answers_is_told(compare, mistake, ahead):
    assert compare(mistake).broken_bits.ahead is ahead


def test_one_that_this_engine_never_meets_changes_nothing(compare):
    found = compare("1.3.3:no-biases")
    assert found.broken == found.right
    assert found.broken_bits.per_byte == pytest.approx(found.bits.per_byte)


@pytest.mark.parametrize("mistake", ["1.7.5:temperature-multiplied", "1.6.6:first-position", "1.6.5:tail-dropped"])
def test_what_chooses_and_shows_tokens_has_no_part_in_the_bits(compare, mistake):
    assert compare(mistake).broken_bits is None


def test_one_that_stops_the_engine_says_with_which_error_and_where(compare):
    found = compare("1.1.2:truth-of-the-mask")
    assert found.broken.stopped.startswith("ValueError: ")
    assert ", at solutions/tiny_llm/attention.py:" in found.broken.stopped
    assert found.broken_bits.why_not == found.broken.stopped
    assert found.broken.tokens == 0


def test_logits_that_are_no_numbers(compare):
    found = compare("1.3.1:zero-times-infinity")
    assert found.broken.stopped == "the logits are NaN or infinite"
    assert found.broken_bits.why_not == "the logits are NaN or infinite"


def test_tokens_that_spell_something_else_have_no_bits(compare):
    found = compare("1.6.3:spaces-lost")
    assert found.broken_bits.why_not == "its tokens do not spell the stories"


@pytest.mark.parametrize("mistake", ["1.6.3:no-merges", "1.6.3:specials-as-text"])
def test_other_tokens_that_spell_the_same_have_bits(compare, mistake):
    assert math.isfinite(compare(mistake).broken_bits.per_byte)


def test_a_text_without_an_end_is_ended(compare):
    assert compare("1.6.6:eos-ignored").broken.tokens <= 12 + 101


@pytest.mark.parametrize("task", [task for task in load_course().tasks() if task.id in USED], ids=lambda task: task.id)
def test_a_mistake_can_take_the_place_of_what_it_calls(task: Task):
    """Where it is written as a program of its own, and is put into the package that it is made of."""
    known = load_variants(task)
    before = vars(program(task.program, SOLUTION_NAME)).copy() if "." not in task.program.name else None
    for mistake in known.wrong_programs:
        if not mistake.edits:
            alone = outcome(known.probes[0].run, mistake.program)
            with installed(task.program, mistake.program, SOLUTION_NAME):
                assert program(task.program, SOLUTION_NAME) is mistake.program
                inside = outcome(known.probes[0].run, mistake.program)
            assert type(inside) is type(alone), mistake.name
            assert "Recursion" not in repr(inside), mistake.name
    assert before is None or vars(program(task.program, SOLUTION_NAME)) == before


def test_which_tasks_an_engine_uses():
    stage = stages.choose("week1", True)
    assert {"1.1.1", "1.5.3", "1.6.3", "1.6.5", "1.7.4"} <= in_engine(stage)
    assert not {"1.1.4", "1.6.4", "1.6.7"} & in_engine(stage)
    assert {"1.1.1", "1.5.3", "1.6.2", "1.6.3"} <= in_bits(stage)
    assert not {"1.6.5", "1.6.6", "1.7.1", "1.7.5"} & in_bits(stage)


def test_the_first_stage_that_uses_the_task():
    """So that a recorded story stays as it is when a faster stage comes."""
    for task, stage in {"1.1.2": "week1", "1.5.2": "week1", "2.1.2": "kv-cache"}.items():
        assert mistakes.chosen(task, True, None, again)[1].name == stage
    assert mistakes.chosen("1.1.2", True, "kv-cache", again)[1].name == "kv-cache"


def test_open_for_a_task_that_has_passed(monkeypatch):
    monkeypatch.setattr(progress, "status_of", lambda task: "passed" if task == "1.1.2" else None)
    assert mistakes.chosen("1.1.2:no-scale", False, None, again)[3].name == "no-scale"
    with pytest.raises(
        LearnerError, match=r"^1\.1\.1 Softmax has not passed yet, .*\n    pdm run test 1\.1\.1\n"
    ) as told:
        mistakes.chosen("1.1.1", False, None, again)
    assert str(told.value).endswith("\n    pdm run generate Once --mistake 1.1.1 --solution")
    assert mistakes.chosen("1.1.1", True, None, again)[3] is None


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("1.1.4", "1.1.4 Multi-head attention: the engine does not use it"),
        ("1.1.2:no_scle", "1.1.2 has no known mistake 'no_scle'. Did you mean no-scale?\n    pdm run generate Once"),
        ("1.1.2:zzz", "1.1.2 has no known mistake 'zzz'. All of them:\n    pdm run generate Once --mistake 1.1.2"),
        ("1.1", "1.1 is a day, and generate --mistake takes one task of it: 1.1.1 Softmax, "),
        ("1.9.1", "There is no day 9 in week 1"),
        ("softmax", "'softmax' is not a task. A task is named like 1.1.2"),
        ("", "generate --mistake takes a task. You may mean 1.1.1 Softmax:"),
    ],
)
def test_what_there_is_not(wanted, told):
    with pytest.raises(UsageError) as error:
        mistakes.chosen(wanted, True, None, again)
    assert str(error.value).startswith(told)


def test_names_in_other_spellings():
    known = ["angles-in-the-input's-dtype", "no-scale", "w_down-transposed"]
    typed = ["No Scale", "w-down transposed", "angles-in-the-inputs-dtype", "xyz"]
    assert [nearest(name, known) for name in typed] == [known[1], known[2], known[0], ""]


def test_the_list_is_names_and_facts(typed):
    code, out, _ = typed("generate", "Once", "--mistake", "1.1.2", "--solution", "--temp", "0.5")
    known = load_variants(load_course().task("1.1.2")).wrong_programs
    assert code == 0
    for variant in known:
        assert f"{variant.name} " in out
        assert f"  {variant.fact}\n" in out
    last = 'To see one: pdm run generate "Once" --mistake 1.1.2:no-scale --solution --temp 0.5\n'
    assert out.endswith(last)


def test_the_command_shows_both_and_can_be_repeated(typed):
    words = ("--solution", "--model", DRAFT, "--max-tokens", 9, "--temp", 0.7, "--top-k", 0)
    code, out, err = typed("generate", "Once upon a time", "--mistake", "1.1.2:no-scale", *words)
    assert (code, err) == (0, "")
    assert out.startswith(
        "1.1.2 Scaled dot-product attention, with a known mistake: no-scale\n\ncorrect: 9 tokens\n\n    Once upon"
    )
    assert "\n\nwith the mistake: 9 tokens\n\n    Once upon a time" in out
    assert out.count(SIGN) == 3
    assert f"\nBits per byte on {STORIES} held-out stories: " in out
    assert "\nThe mistake: the default scale 1/sqrt(D) is missing.\n" in out
    options = f"--solution --model {DRAFT} --max-tokens 9 --temp 0.7 --top-k 0 --seed {SEED}"
    assert out.endswith(f'To repeat: pdm run generate "Once upon a time" --mistake 1.1.2:no-scale {options}\n')
    assert typed("generate", "--mistake", "1.1.2:no-scale", *words)[1] == out


def test_two_columns_on_a_wide_terminal():
    words = ("generate", "Once", "--mistake", "1.1.2:no-scale", "--solution", "--model", DRAFT, "--max-tokens", "6")
    with Terminal(*words, columns=100) as terminal:
        assert terminal.end() == 0
    lines = terminal.screen.splitlines()
    assert "The right engine writes ..." in lines
    assert any(line.startswith("correct: 6 tokens ") and "| with the mistake: 6 tokens" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_where_two_texts_part():
    assert parting("a b c", "a b c\n") is None
    assert parting("a b c", "a x c") == (2, "b", "x")
    assert parting("a b", "a b c") == (3, "", "c")
    assert parting("a b", "a\nb") == (2, "b", "b")
    assert signed("a b c", parting("a b c", "a x c")) == f"a {SIGN}b c"
    assert signed("a\nb", parting("a\nb", "a x")) == f"a\n{SIGN}b"
    assert signed("a b", parting("a b", "a b c")) == f"a b {SIGN}"
    assert signed("a b", None) == "a b"


def test_beside_and_below():
    left, right = ("right", "one two " * 9), ("wrong", "three\nfour")
    wide = beside(left, right, WIDE)
    assert wide[0] == f"{'right':43} | wrong"
    assert wide[2] == f"{'one two ' * 5 + 'one':43} | three"
    assert all(len(line) <= WIDE for line in wide)
    narrow = beside(left, right, WIDE - 1)
    assert narrow[:3] == ["right", "", f"    {('one two ' * 9).strip()}"]
    assert narrow[-2:] == ["    three", "    four"]
    assert all(len(line) <= 30 for line in beside(left, right, 30))
    assert max(map(len, beside(("a", "word " * 40), ("b", ""), None))) <= 80


def test_a_learners_own_engine():
    """The mistake is made of the learner's file, in which an import has another name than in ours."""
    everything = tuple(task.id for task in load_course().tasks())
    words = f'generate "Once" --mistake 1.1.1:sum-of-everything --model {DRAFT} --max-tokens 5'
    with checkout_for(Scenario("own", (), everything, ())) as checkout:
        file = checkout / "src" / "tiny_llm" / "basics.py"
        text = file.read_text(encoding="utf-8").replace("mx.", "nx.").replace("core as mx", "core as nx")
        file.write_text(text, encoding="utf-8")
        refused = run(words, checkout)
        assert (refused.returncode, refused.stdout.splitlines()[1]) == (1, "    pdm run test 1.1.1")
        assert run("test 1.1.1", checkout).returncode == 0
        done = run(words, checkout)
    assert done.returncode == 0, done.stdout
    assert "\nwith the mistake: " in done.stdout
    assert "It stops the engine" not in done.stdout
    assert done.stdout.rstrip().endswith("--max-tokens 5 --seed 1")


def test_a_chapter_shows_what_the_mistakes_change_that_it_records():
    parts = {(day, anchor): text for day in load_course().days() for anchor, text in mistake_parts(day).items()}
    assert parts
    for (day, anchor), text in parts.items():
        assert f"generated/{day.name}.md:{anchor}}}}}" in chapter_path(day).read_text(encoding="utf-8")
        assert {line[:2] for line in text.splitlines()[1:-1]} >= {"- ", "+ "}
    moved = mistake_diff(load_course().task("1.7.5"), "temperature-last").splitlines()
    assert moved[2:-1] == [
        "- logits = logits / temp",
        "  if top_k:",
        "  ...",
        "      logits = keep_min_p(logits, min_p)",
        "+ logits = logits / temp",
        "  if key is None:",
    ]
    with pytest.raises(ValueError, match=r"1\.5\.3 has no known mistake 'head-dim-from-hidden' that is a change"):
        mistake_diff(load_course().task("1.5.3"), "head-dim-from-hidden")
