"""The numbers that stand in the book's sentences, each computed here: those that no session, table or record shows.

A row has the page, the words as they stand in it, and whether they are true. Words that change fail, so that nobody
changes a number without its sum.
"""

import json
import re
import tomllib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week1 import day1, day6, dayC, engine, heads
from book.generate.week2 import day4
from book.generate.week3 import day5
from book.generate.week5 import day1 as training
from book.generate.week5 import day7 as evaluation

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.mistake_diffs import Count, count_programs
from tiny_llm_course.dev.book.parts import present
from tiny_llm_course.paths import BOOK, EMBEDDED_MODEL, MODELS, ROOT, SOLUTION, TESTS
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.variants import load_variants

load_solution()
from tiny_llm_solution.tokenizer import ByteLevelBPE, byte_alphabet, merge_pairs  # noqa: E402

pytestmark = pytest.mark.maintainers
DAYS = [day for day in load_course().week(1).days if not day.is_open]
MINUTES = [sum(task.minutes for task in day.tasks) for day in DAYS]
V = 151936  # Qwen3's vocabulary


def known_mistakes() -> int:
    return sum(len(load_variants(task).wrong_programs) for task in load_course().tasks())


def ranks() -> dict[str, int]:
    """The pairs that day 6's small tokenizer knows."""
    tokenizer = json.loads((TESTS / "week1" / "tokenizer.json").read_text(encoding="utf-8"))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    return {merge: rank for rank, merge in enumerate(merges)}


def last_below_infinity(dtype: mx.Dtype, numbers: range) -> int:
    """The largest whole number whose exponential is finite."""
    return max(n for n in numbers if mx.isfinite(mx.exp(mx.array(n, dtype=dtype))).item())


def first_gap(dtype: mx.Dtype) -> int:
    """The whole number after which the dtype leaves one out."""
    exact: list[float] = np.array(mx.arange(4096).astype(dtype).astype(mx.float32)).tolist()
    return next(int(a) for n, (a, b) in enumerate(pairwise(exact)) if b != n + 1)


def vocabulary() -> int:
    return int(json.loads((EMBEDDED_MODEL / "config.json").read_text(encoding="utf-8"))["vocab_size"])


def registers(tokens: int) -> int:
    """The registers that a tile of so many tokens takes, with two registers of rows."""
    return 2 * tokens + 2 + 1


def loads(tokens: int, rows: int) -> float:
    """A tile's loads per multiply-add."""
    return (tokens + rows) / (tokens * rows)


def largest_tile(limit: int) -> int:
    return max(tokens for tokens in range(limit) if registers(tokens) <= limit)


def evicted_texts() -> list[str]:
    """The text of each page that leaves the tree in the example of week 3 day 5's widget, in order."""
    from tiny_llm_solution.prefix import kv_cache
    from tiny_llm_solution.prefix.node import descendants
    from tiny_llm_solution.prefix.tree import RadixTree

    replay, found, evict = day5.Replay(), list[str](), kv_cache.evict

    def spied(tree: RadixTree, count: int) -> list[int]:
        texts = {
            page: " ".join(replay.words[token] for token in node.tokens[day5.PAGE * i : day5.PAGE * (i + 1)])
            for _, node in descendants(tree.root)
            for i, page in enumerate(node.pages)
        }
        gone: list[int] = evict(tree, count)
        found.extend(texts[page] for page in gone)
        return gone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_cache, "evict", spied)
        for action, number in day5.DEMO:
            replay.act(action, number)
    return found


def mlp_share() -> float:
    """How much of the embedded model's weights is in its MLPs, in percent."""
    sizes = {name: array.size for name, array in heads.model().weights.items()}
    return round(100 * sum(size for name, size in sizes.items() if ".mlp." in name) / sum(sizes.values()), 1)


def pinned(package: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (found,) = (str(words) for words in project["dependencies"] if words.startswith(f"{package}=="))
    return found.partition("==")[2].partition(";")[0].strip()


def predict_themselves() -> float:
    """The percentage of tokens that the final norm and the head turn into themselves, without any layer."""
    weights = heads.model().weights
    embedding = weights["model.embed_tokens.weight"]
    logits = mx.fast.rms_norm(embedding, weights["model.norm.weight"], 1e-6) @ embedding.T
    themselves = mx.sum(mx.argmax(logits, axis=-1) == mx.arange(embedding.shape[0]))
    return 100 * int(themselves) / embedding.shape[0]


def draws() -> int:
    """What the tests of 1.7.5 draw for each row."""
    text = (TESTS / "week1" / "test_day7_task5.py").read_text(encoding="utf-8")
    ((rows, calls),) = re.findall(r"^ROWS, CALLS = (\d+), (\d+)$", text, re.MULTILINE)
    return int(rows) * int(calls)


def grown(step: str) -> Count:
    """What the check of the open task's chapter stops at one of its steps."""
    return count_programs(load_course().open_task(1), dayC.STEPS[step])


def kernels_in(step: str) -> Count:
    """The same of week 2, as it was counted when the book was generated."""
    return as_counted("2.C", step)


def as_counted(day: str, step: str) -> Count:
    """What the check of an open task stops at a step, as it was counted when the book was generated."""
    return Count(*map(int, re.findall(r"\d+", present(day, f"{step}-count"))))


def first_counts() -> list[int]:
    """Return the largest counts of day 5.1's four words, before the first merge."""
    return [count for count in training.counts_at(training.WORDS, [])[1].values() if count >= 4]


def in_sorted_order(word: str) -> list[str]:
    """Return a word's tokens if the embedded model's merges are sorted alphabetically."""
    ranks = {pair: rank for rank, pair in enumerate(sorted(training.embedded_merges()))}
    merged: list[str] = merge_pairs(list(word), ranks)
    return merged


def card() -> str:
    return (EMBEDDED_MODEL / "README.md").read_text(encoding="utf-8")


def text_growth() -> float:
    """Return the ratio of the texts in day 5.1's measurement."""
    rows = json.loads((ROOT / "benches" / "week5" / "day1.json").read_text(encoding="utf-8"))["rows"]
    ratio: float = rows[-1][0] / rows[0][0]
    return ratio


def weights_of(name: str) -> int:
    """The number of weights of one of the two models that ship."""
    return sum(w.size for w in evaluation.model(name).weights.values())


def evaluated(field: str) -> Any:
    """The comparison of both models on the course's items."""
    from tiny_llm_solution.evaluation.intervals import compare_paired

    return compare_paired(*(evaluation.credits(name, field) for name in evaluation.NAMES))


def paired_share(field: str) -> float:
    """The width of the paired interval, divided by that of the unpaired one."""
    low, high = evaluation.apart(*(evaluation.credits(name, field) for name in evaluation.NAMES))
    return float((evaluated(field).high - evaluated(field).low) / (high - low))


def guessing() -> float:
    """How many items are right on average if choices are drawn."""
    return sum(1 / len(item.choices) for item in evaluation.items())


def tokenized_alone() -> list[float]:
    """Both models' right answers, by each score, if choices are tokenized alone."""
    program, spaced = list(evaluation.CASES.values())[-1]
    return [
        sum(evaluation.credits(name, field, program, spaced))
        for name in evaluation.NAMES
        for field in evaluation.FIELDS
    ]


def recorded(week: str, day: str) -> list[list[float]]:
    """The rows of a day's measurement."""
    rows: list[list[float]] = json.loads((ROOT / "benches" / week / f"{day}.json").read_text(encoding="utf-8"))["rows"]
    return rows


SENTENCES: list[tuple[str, str, Callable[[], bool]]] = [
    ("preface.md", "more than two thousand of them", lambda: known_mistakes() > 2000),
    ("setup.md", "mlx[cuda13]==0.32.4", lambda: pinned("mlx") == "0.32.4"),
    ("setup.md", "Four tasks *not started*", lambda: len(DAYS[0].tasks) == 4),
    (
        "teachers.md",
        "leaves an hour for the tasks: enough for days 2 and 4",
        lambda: [day.number for day, minutes in zip(DAYS, MINUTES, strict=True) if minutes <= 60] == [2, 4],
    ),
    ("teachers.md", "or twelve without", lambda: -(-sum(MINUTES) // 60) == 12),
    ("teachers.md", "1 to 3 points", lambda: {t.difficulty for day in DAYS for t in day.tasks} == {1, 2, 3}),
    (
        "week1/day1.md",
        "between `exp(11)` and `exp(12)`",
        lambda: last_below_infinity(mx.float16, range(20)) == 11,
    ),
    ("week1/day1.md", "the model has six layers with six heads each", lambda: heads.habits().shape[:2] == (6, 6)),
    ("week1/day1.md", "show one **head** of 36", lambda: heads.habits()[..., 0].size == 36),
    ("week1/day1.md", "It is head 0 of layer 3", lambda: heads.SHOWN == (3, 0)),
    ("week1/day1.md", "Over 20 sentences", lambda: len(set(heads.SENTENCES)) == 20),
    (
        "week1/day1.md",
        "48 % of the value of `blue`, 40 % of the value of `a`",
        lambda: heads.example().weights[4].round(2).tolist()[2:4] == [0.4, 0.48],
    ),
    (
        "week1/day1.md",
        "head 1, puts even more weight on the previous token in our sentence",
        lambda: heads.heads_of(heads.SENTENCE)[3].weights[1, 4, 3] > 0.95,
    ),
    (
        "week1/day1.md",
        "(layer 2, head 1) it becomes `1.38, 0, 0, 0, 0`",
        lambda: round(heads.heads_of(heads.SENTENCE)[2].scores[1, 0, 0], 2) == 1.38,
    ),
    (
        "week1/day1.md",
        "becomes `3.83, 0, 0, 0, 0`",
        lambda: round(heads.example().scores[0, 0], 2) == 3.83,
    ),
    ("week1/day1.md", "score with `blue` is -2.13", lambda: heads.example().products[2, 3] == -2.13),
    (
        "week1/day1.md",
        "half of the state is `dog` and a quarter is `blue`; a token 19 steps back has a millionth",
        lambda: day1.recurrent_shares()[3:].tolist() == [1 / 4, 1 / 2] and abs(2.0**-20 - 1e-6) < 1e-7,
    ),
    (
        "model.md",
        "the largest magnitude that is shown for *dog* grows from 0.97 to 3.03",
        lambda: (
            [round(float(abs(heads.streams_of(heads.SENTENCE)[i][-1, : engine.COLUMNS]).max()), 2) for i in (1, 6)]
            == [0.97, 3.03]
        ),
    ),
    ("model.md", "in the MLP**, 55.8 %", lambda: mlp_share() == 55.8),
    ("model.md", "15 of a head's 25 scores remain", lambda: np.tril(np.ones((5, 5))).sum() == 15),
    ("week1/day2.md", "every integer above 256", lambda: first_gap(mx.bfloat16) == 256),
    ("week1/day2.md", "nor float16 above 2,048", lambda: first_gap(mx.float16) == 2048),
    ("week1/day4.md", "whose maximum is 65,504", lambda: mx.finfo(mx.float16).max == 65504),
    (
        "week1/day4.md",
        "`exp(89)` is infinite in float32, `exp(12)` in float16",
        lambda: last_below_infinity(mx.float32, range(100)) == 88,
    ),
    (
        "week1/day4.md",
        "number just below 1 is 0.996",
        lambda: mx.array([0.997, 0.9981], dtype=mx.bfloat16).astype(mx.float32).tolist() == [1 - 2**-8, 1.0],
    ),
    ("week1/day5.md", "89 % of the vocabulary's tokens", lambda: round(predict_themselves()) == 89),
    ("week1/day5.md", "74 times as large", lambda: round(V / vocabulary()) == 74),
    ("week1/day6.md", "400 times here", lambda: len(ranks()) == 400),
    ("week1/day7.md", "It samples 2,000 times", lambda: draws() == 2000),
    ("week1/overview.md", "your check stops 24 wrong programs", lambda: grown("oracle").wrong == 24),
    ("week1/checks.md", "For attention there are 24", lambda: grown("oracle").wrong == 24),
    ("week1/checks.md", "of the 24 wrong programs", lambda: grown("oracle").wrong == 24),
    ("week1/checks.md", "Four of the 17 that still pass", lambda: grown("oracle").stopped == 24 - 17),
    ("week1/checks.md", "Nine are left", lambda: grown("bias").stopped == 24 - 9),
    ("week2/overview.md", "your check stops 22 wrong kernels", lambda: kernels_in("runs").wrong == 22),
    ("week2/checks.md", "22 wrong kernels and 5 right ones", lambda: kernels_in("runs")[1::2] == (22, 5)),
    ("week2/checks.md", "How many of the 22", lambda: kernels_in("runs").wrong == 22),
    ("week2/checks.md", "and three are stopped", lambda: kernels_in("runs").stopped == 3),
    ("week2/checks.md", "Twelve pass", lambda: kernels_in("numbers").stopped == 22 - 12),
    (
        "week2/checks.md",
        "the five that are new",
        lambda: kernels_in("sizes").stopped == kernels_in("numbers").stopped + 5,
    ),
    ("week2/checks.md", "One of the two", lambda: kernels_in("moved").stopped == kernels_in("sizes").stopped + 2),
    ("week2/checks.md", "Not one more", lambda: kernels_in("barriers") == kernels_in("banks")),
    ("week2/checks.md", "three others are left", lambda: kernels_in("barriers").stopped == 22 - 4),
    ("week2/checks.md", "so are two that are right", lambda: kernels_in("exact").passed == 5 - 2),
    (
        "week3/overview.md",
        "one file of at most 150 lines, `serving/scheduler.py`",
        lambda: len((SOLUTION / "serving" / "scheduler.py").read_text(encoding="utf-8").splitlines()) <= 150,
    ),
    ("week3/checks.md", "27 wrong programs and 3 correct ones", lambda: as_counted("3.C", "drawn")[1::2] == (27, 3)),
    ("week3/checks.md", "How many of the 27", lambda: as_counted("3.C", "drawn").wrong == 27),
    ("week3/checks.md", "the two that pass here", lambda: as_counted("3.C", "stricter")[::2] == (27 - 2, 0)),
    (
        "week3/checks.md",
        "Two of the four new ones",
        lambda: as_counted("3.C", "four").stopped == as_counted("3.C", "even").stopped + 4,
    ),
    (
        "week3/checks.md",
        "and four that are wrong about the row",
        lambda: as_counted("3.C", "stand").stopped == as_counted("3.C", "edges").stopped + 5,
    ),
    (
        "week3/checks.md",
        "miss three, and these are yours",
        lambda: as_counted("3.C", "stand").stopped + as_counted("3.C", "refused").stopped == 25 - 3,
    ),
    (
        "week2/day4.md",
        "needs two loads per multiply-add, and a tile of 6 tokens and two registers needs 0.67. This is the largest",
        lambda: (loads(1, 1), round(loads(6, 2), 2), largest_tile(16)) == (2, 0.67, 6),
    ),
    (
        "week2/day4.md",
        "a seventh token would need 17. With 32 registers, 14 tokens fit and take 31 of them.",
        lambda: (
            (registers(7), largest_tile(32), registers(14), 32 - registers(12)) == (17, 14, 31, 5)
            and {kind["registers"]: kind["tile"] for kind in day4.processors().values()} == {16: 6, 32: 12}
        ),
    ),
    (
        "week3/day5.md",
        "`It sleeps` is evicted first, then `cat !`, `ball for` and `a red`",
        lambda: evicted_texts() == ["It sleeps", "cat !", "ball for", "a red"],
    ),
    ("week1/day7.md", "its 2,048 tokens", lambda: vocabulary() == 2048),
    ("week1/day7.md", "win one sample in five", lambda: round(10_000 * 0.00002, 6) == 1 / 5),
    ("week5/day1.md", "Four pairs start with the same count", lambda: first_counts() == [4, 4, 4, 4]),
    ("week5/day1.md", "this is a quarter", lambda: round((151_936 - 2_048) * 1_024 / 600e6, 1) in (0.2, 0.3)),
    ("week5/day1.md", "was trained on eleven thousand stories", lambda: "11,126 stories to train on" in card()),
    ("week5/day1.md", "Every id is shifted by three", lambda: len(training.SPECIAL) == 3),
    ("week5/day1.md", "recognize the dog in `Ġd` and `og`", lambda: in_sorted_order("Ġdog") == ["Ġd", "og"]),
    ("week5/day1.md", "the number of bytes grows 64-fold", lambda: text_growth() == 64),
    (
        "week5/day7.md",
        "with a fifth of the weights",
        lambda: round(weights_of("tiny-qwen3-draft") / weights_of("tiny-qwen3"), 1) == 0.2,
    ),
    (
        "week5/day7.md",
        "the paired interval begins at 0, while the p-value is far above 0.05",
        lambda: evaluated("total").low == 0 and evaluated("total").p_value > 0.2,
    ),
    (
        "week5/day7.md",
        "is about half as wide as the *unpaired* interval",
        lambda: all(0.4 < share < 0.65 for share in map(paired_share, evaluation.FIELDS)),
    ),
    (
        "week5/day7.md",
        "Pairing is worth about three times the number of items",
        lambda: all(round(row[3] ** 2) == 3 for row in recorded("week5", "day7")),
    ),
    (
        "week5/day7.md",
        "Accuracy falls to about the level of guessing",
        lambda: all(abs(right - guessing()) < 5 for right in tokenized_alone()),
    ),
    (
        "week1/day6.md",
        "`u e` is known from the start but has rank 53, so `Ġ b`, rank 6, and `Ġb l`, rank 16, are merged before it",
        lambda: [ranks()[pair] for pair in ("u e", "Ġ b", "Ġb l")] == [53, 6, 16],
    ),
    (
        "week1/day6.md",
        "step by step, none of which becomes a single token",
        lambda: all(len([*day6.merge_steps(word)][-1]["boxes"]) > 1 for word in day6.WORDS),
    ),
]


@pytest.mark.parametrize(("page", "words", "holds"), SENTENCES, ids=[f"{row[0]}: {row[1]}" for row in SENTENCES])
def test_a_number_in_a_sentence(page: str, words: str, holds: Callable[[], bool]) -> None:
    text = " ".join((BOOK / "src" / page).read_text(encoding="utf-8").split())
    assert words in text, "the sentence has changed: change it here too"
    assert holds()


def test_the_steps_of_day_6_end_in_the_tokens_and_the_text() -> None:
    """The last boxes of a word are its tokens; the last of a text is all of it, a step for each of its tokens."""
    tokenizer, alphabet = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json"), byte_alphabet()
    for word in day6.WORDS:
        *steps, last = day6.merge_steps(word)
        pieces = ["".join(alphabet[b] for b in tokenizer.token_bytes[i]) for i in tokenizer.encode(word)]
        assert [box["text"] for box in last["boxes"]] == pieces
        for before, after in pairwise([*steps, last]):
            joined = sum("under" in box and bool(box["under"]) for box in before["boxes"])
            assert len(before["boxes"]) - joined == len(after["boxes"])
    for text in day6.TEXTS:
        *_, last = steps = list(day6.stream_steps(text))
        assert "".join(box["text"] for box in last["boxes"]).replace("\N{OPEN BOX}", " ") == text
        assert len(steps) == len(tokenizer.encode(text))


def test_the_gradient_and_the_losses_of_week_5_day_2() -> None:
    """The gradient of three logits, the loss in bits, and a loss on unshifted targets that is worse than ln V."""
    from book.generate.week5 import day2 as packing
    from tiny_llm_solution.dataset.loss import cross_entropy_vjp

    text = (BOOK / "src" / "week5" / "day2.md").read_text(encoding="utf-8")
    gradient = cross_entropy_vjp(mx.log(mx.array([0.5, 0.25, 0.25])), mx.array(1)).tolist()
    assert f"({', '.join(f'{x:g}' for x in gradient)})".replace("-", "\N{MINUS SIGN}") in text
    assert "A loss of 1.386 nats is two bits per token" in text
    assert round(1.386 / np.log(2), 2) == 2
    assert f"With the {vocabulary():,} tokens of the course's model" in text.replace("\n", " ")
    losses = packing.losses_of_the_model()
    assert losses["packed, targets not shifted"] > np.log(vocabulary())
    assert abs(losses["packed, causal mask alone"] - losses["packed, document mask"]) < 0.05


def test_the_numbers_of_day_5_of_week_5_are_its_record_s() -> None:
    """What the chapter says of the training data, of the answers, and of the ranks."""
    folder = MODELS / "good-night"
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    stories = tomllib.loads((folder / "stories.toml").read_text(encoding="utf-8"))
    text = " ".join((BOOK / "src" / "week5" / "day5.md").read_text(encoding="utf-8").split())
    assert (record["examples"], len(stories["stories"]), len(stories["training"])) == (48, 6, 8)
    assert "48 short stories, six for each of eight animals" in text
    assert "frog" in stories["training"]
    assert "cow" in stories["held_out"]
    assert not {*stories["training"]} & {*stories["held_out"]}
    outputs, inputs = record["updates"]["3.self_attn.v_proj"]["shape"]
    least = next(r for r in range(1, outputs) if r * (outputs + inputs) > outputs * inputs)
    assert f"`v_proj` has {outputs} x {inputs} weights, so from r = {least} on" in text
    assert 90e3 < (folder / "adapter_model.safetensors").stat().st_size < 110e3  # "a file of 100 KB"
    found = record["updates"]["3.self_attn.q_proj"]
    assert sum(value**2 for value in found["singular"][:4]) < found["squares"] / 3  # "a small part"
    (half,) = (each["text"] for each in record["answers"]["alpha forgotten"] if each["thing"] == "cow")
    assert "red hat" in half
    assert half.endswith("Good night, cow!")  # "nearly": without "little"
