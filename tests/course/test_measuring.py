"""The clock that every measurement uses, and the lines that its tables become."""

import time

import mlx.core as mx
import pytest

from tiny_llm_course.measuring.clock import in_turns, number, peak_memory, seconds
from tiny_llm_course.measuring.machine import in_words, machine
from tiny_llm_course.terminal.tables import in_columns


def test_what_is_compared_takes_turns():
    order = []
    taken = in_turns([lambda: order.append("a"), lambda: order.append("b")], 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [len(times) for times in taken] == [3, 3]


def test_lazy_arrays_are_computed_while_the_clock_runs():
    x = mx.random.normal((1000, 1000))
    mx.eval(x)
    lazy, done = in_turns([lambda: [x @ x @ x @ x], lambda: None], 3)
    assert min(lazy) > 20 * max(done)


def test_the_median_leaves_out_one_disturbed_run_and_the_first():
    waits = iter([0.2, 0.01, 0.2, 0.01, 0.01, *[0.01] * 100])
    (median,) = seconds(lambda: time.sleep(next(waits)))
    assert 0.01 <= median < 0.1


def test_peak_memory_is_what_is_held_at_once():
    assert peak_memory(lambda: mx.zeros((1 << 20,))) == pytest.approx(1 << 22, rel=0.01)
    kept = mx.ones((1 << 20,))
    mx.eval(kept)
    assert peak_memory(lambda: kept) == 0
    assert peak_memory(lambda: [mx.full((1 << 20,), 1.0), mx.full((1 << 20,), 2.0)]) >= 2 << 22


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("top-k 50", "top-k 50"),
        (151936, "151,936"),
        (16, "16"),
        (1.0, "1"),
        (3.14159, "3.14"),
        (48.515, "48.5"),
        (424.4, "424"),
        (1588.6487, "1,589"),
        (0.00979, "0.00979"),
        (0.0000539, "0.00005"),
        (0.0, "0"),
    ],
)
def test_numbers_are_short(cell, text):
    assert number(cell) == text


HEADINGS, ROWS = ("L", "times the row above", "MLX: MiB"), [["256", "-", "0.375"], ["2,048", "3.98", "17"]]


def test_headings_wrap_and_numbers_stand_to_the_right():
    assert in_columns(HEADINGS, ROWS, 80) == [
        "        times",
        "          the",
        "          row    MLX:",
        "    L   above     MiB",
        "─────   ─────   ─────",
        "  256       -   0.375",
        "2,048    3.98      17",
    ]


def test_names_stand_to_the_left():
    assert in_columns(("part", "ms"), [["norms", "1"], ["MLP", "20"]], 80)[2:] == ["norms    1", "MLP     20"]


def test_a_narrow_terminal_gets_narrow_gaps_then_lines():
    assert in_columns(HEADINGS, ROWS, 17)[-1] == "2,048  3.98    17"
    assert in_columns(HEADINGS, ROWS, 16) == [
        "L 256",
        "  times the row above  -",
        "  MLX: MiB  0.375",
        "L 2,048",
        "  times the row above  3.98",
        "  MLX: MiB  17",
    ]


def test_the_machine_in_words():
    words = machine()
    assert all(words.values())
    assert words["device"] == "CPU"
    assert f"MLX {words['mlx']} on the CPU with " in in_words(words)
    assert " on the GPU, Apple M2" in in_words(
        {**{k: v for k, v in words.items() if k != "blas"}, "device": "GPU, Apple M2"}
    )
