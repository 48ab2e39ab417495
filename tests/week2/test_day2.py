"""Week 2, day 2: an honest stopwatch, the bytes and operations of a step, the roofline.

No check depends on how fast this machine is. The stopwatch is given a clock that stands still until a program runs and
sees what has been computed whenever it is read. What is counted is held to arrays that exist and products that are
computed, and to what PyTorch counts.
"""

import itertools
import math
import time

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, QWEN25, random_model
from tests.week2.counting import computed, is_a, moved, same_counts
from tests.week2.stopwatch import FORMS, Stopwatch, expected_events

from tiny_llm.config import ModelConfig
from tiny_llm.measure import accounting, roofline, timing
from tiny_llm.measure.step import Flops, Step, Storage, Traffic
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact
from tiny_llm_course.testkit.sizes import sizes

by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])


def fail(kind, headline, case, *lines, size=0, swept=False):
    raise CheckFailed(Finding(kind, headline, lines, case, size, swept=swept))


# Task 1, the stopwatch


def timed(seconds, watch_settings=None, started=False, swept=False, **settings):
    """Time a foretold program; what happened must be what `timed` promises."""
    words = [f"runs of {', '.join(f'{s:g}' for s in seconds[:8])} s"]
    words += [f"{name} {value:g}" for name, value in settings.items()]
    if watch_settings and "form" in watch_settings:
        words.append(f"each gives {watch_settings['form']}")
    watch = Stopwatch(seconds, **(watch_settings or {}))
    words += ["the result takes long"] * watch.long
    words += ["each run starts more work, which it does not give"] * watch.leaves
    words += ["work was started before"] * started
    watch.case = case = ", ".join(words)
    if started:
        watch.start_something()
    with noted(case):
        found = timing.timed(watch.program, clock=watch.clock, **settings)
    size = len(watch.events)
    if not is_a(found, timing.Timing):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a Timing", case, size=size, swept=swept)
    of = {"least_seconds": 0.5, "least_runs": 3, "warm_up": 1, **settings}
    if watch.events != (expected := expected_events(seconds, **of)):
        lines = (f"expected  {in_order(expected)}", f"got       {in_order(watch.events)}")
        headline = "the program is run and the clock read in another order"
        fail(Kind.VALUES, headline, case, *lines, size=size, swept=swept)
    for number, count in enumerate(watch.uncomputed):
        if count:
            what = "warmed up has not been computed" if not number and of["warm_up"] else "a run gave is not computed"
            headline = f"what {what} when the clock is read: {count} array{'s' * (count != 1)}"
            line = "MLX computes nothing before it is asked to, and mx.async_eval only starts it"
            fail(Kind.VALUES, headline, case, f"at        reading {number + 1}", line, size=size, swept=swept)
    for number, busy in enumerate(watch.busy):
        if busy and (number % 2 == 0 or not watch.leaves):
            when = "before the run" if number % 2 == 0 else "after the run"
            headline = f"MLX is still computing when the clock is read {when}"
            fail(Kind.VALUES, headline, case, f"at        reading {number + 1}", size=size, swept=swept)
    return found, of


def in_order(events):
    """`run, clock, run, clock` of a list of events, cut where it gets long."""
    return ", ".join(events[:14]) + (f", ... ({len(events)} in all)" if len(events) > 14 else "")


def figures(seconds, **settings):
    """The four figures of a foretold program."""
    found, _ = timed(seconds, **settings)
    if type(found.runs) is not int:
        fail(Kind.TYPE, f"runs is {type_words(found.runs)}, expected an int", "")
    return mx.array([found.median, found.fastest, found.slowest, found.runs], mx.float32)


def figures64(seconds, least_seconds=0.5, least_runs=3, warm_up=1, *, r=exact):
    events = expected_events(seconds, least_seconds, least_runs, warm_up)
    taken = [seconds[(warm_up + i) % len(seconds)] for i in range(events.count("clock") // 2)]
    return r(np.array([np.median(taken), min(taken), max(taken), len(taken)]))


def test_task_1_timed_defaults():
    """One run to warm up, then three, or as many as half a second takes."""
    agrees(figures, figures64, (4.0, 1.0, 0.5, 2.0), seed=1, dtype=mx.float32)
    agrees(figures, figures64, (0.125,), seed=1, dtype=mx.float32)


@pytest.mark.parametrize("warm_up", [0, 1, 2])
@pytest.mark.parametrize("least_runs", [1, 2, 5])
def test_task_1_timed_counts_runs(least_runs, warm_up):
    """Each run takes another time; those that warm up take longest."""
    seconds = (64.0, 32.0, 3.0, 0.5, 8.0, 1.0, 2.0)
    agrees(figures, figures64, seconds, seed=2, dtype=mx.float32, least_runs=least_runs, warm_up=warm_up)


@pytest.mark.parametrize("least_seconds", [0.0, 0.75, 1.0, 4.0])
def test_task_1_timed_goes_on_for_long_enough(least_seconds):
    """At 0.75 and 1.0 the runs' seconds meet it exactly; a warm-up of 2 s does not count."""
    seconds = (2.0, 0.25, 0.125, 0.375, 0.25)
    agrees(figures, figures64, seconds, seed=3, dtype=mx.float32, least_seconds=least_seconds, least_runs=1)


def test_task_1_timed_median_leaves_out_one_slow_run():
    agrees(figures, figures64, (1.0, 1.0, 100.0, 2.0, 1.5), seed=4, dtype=mx.float32, least_runs=5)
    agrees(figures, figures64, (1.0, 1.0, 100.0, 2.0, 1.5), seed=4, dtype=mx.float32, least_runs=4)


@pytest.mark.parametrize("form", FORMS)
def test_task_1_timed_computes_everything(form):
    """Whatever a run gives, all arrays in it have been computed when its time is taken."""
    timed((0.25, 0.5), {"form": form})


@pytest.mark.parametrize("form", ["an array", "a list of two arrays"])
def test_task_1_timed_waits_for_the_end(form):
    """What takes long has ended, and not only been started."""
    timed((0.25, 0.5), {"form": form, "long": True}, least_runs=2)


@pytest.mark.parametrize("warm_up", [0, 1])
def test_task_1_timed_waits_for_what_was_started_before(warm_up):
    timed((0.25, 0.5), {"form": "a number"}, started=True, warm_up=warm_up, least_runs=2)


def test_task_1_timed_waits_for_what_a_run_leaves_behind():
    """What a run has started and not given would be counted in the next one."""
    timed((0.25, 0.5), {"form": "None", "leaves": True}, least_runs=3)


def test_task_1_timed_by_its_own_clock():
    """Without a clock, what passes is seconds."""
    case = "a program that sleeps for 0.02 s, no clock given, least_runs 2, least_seconds 0"
    with noted(case):
        found = timing.timed(lambda: time.sleep(0.02), least_runs=2, least_seconds=0)
    if not 0.02 <= found.fastest <= found.median <= found.slowest < 20:
        fail(Kind.VALUES, "the seconds are wrong", case, "expected  0.02 or a little more", f"got       {found}")


def test_task_1_timed_refuses_no_runs():
    watch = Stopwatch((1.0,))
    with raises_value_error("least_runs 0", "0"):
        timing.timed(watch.program, least_runs=0, clock=watch.clock)


def test_task_1_timed_sweep():
    for n in sizes(R=20, W=4, C=9):
        seconds = tuple(np.random.default_rng(n.seed).integers(8, 64, n.C) / 32)
        seconds = tuple(map(float, seconds))
        least = n.turn(0.0, 0.5, 4.0)
        settings = {"least_seconds": least, "least_runs": n.R, "warm_up": n.W}
        agrees(figures, figures64, seconds, seed=n, dtype=mx.float32, **settings)


# Task 2, bytes


def counted_bytes(model, storage, length, offset, batch, swept=False):
    case = f"{model}, {in_words(storage)}, L {length}, offset {offset}, N {batch}"
    step = Step(ModelConfig.from_dict(model.config), length, offset, batch)
    with noted(case):
        found = accounting.traffic(step, storage)
    expected = moved(model, storage, length, offset, batch)
    same_counts(found, Traffic, expected, case, length * batch + offset, swept)


def in_words(storage):
    if storage.bits is None:
        return f"{storage.size} bytes a number"
    packed = f"{storage.bits} bits in groups of {storage.group_size}, scales of {storage.scale_size} bytes"
    return f"{packed}, other numbers of {storage.size}"


WIDE = {"hidden_size": 128, "intermediate_size": 384, "head_dim": 64, "num_attention_heads": 6, "vocab_size": 37}
STORAGES = [
    Storage(bits=4),
    Storage(bits=8, group_size=32),
    Storage(2, bits=4, group_size=128, scale_size=2),
    Storage(4, bits=4, group_size=64, scale_size=2),
    Storage(2, bits=6, group_size=32, scale_size=4),
]


@by_head
@by_architecture
@pytest.mark.parametrize("size", [4, 2])
def test_task_2_traffic_one_token(base, tied, size):
    counted_bytes(random_model(base, 1, tie_word_embeddings=tied), Storage(size), 1, 0, 1)


@by_head
@by_architecture
@pytest.mark.parametrize(("length", "offset", "batch"), [(5, 0, 1), (1, 7, 1), (3, 4, 1), (1, 0, 5), (2, 3, 5)])
def test_task_2_traffic_steps(base, tied, length, offset, batch):
    counted_bytes(random_model(base, 2, tie_word_embeddings=tied), Storage(), length, offset, batch)


@by_head
@by_architecture
@pytest.mark.parametrize("storage", STORAGES, ids=in_words)
def test_task_2_traffic_quantized(base, tied, storage):
    """As `mx.quantize` packs the matrices."""
    model = random_model(base, 3, **WIDE, tie_word_embeddings=tied)
    counted_bytes(model, storage, 1, 2, 1)
    counted_bytes(model, storage, 3, 2, 5)


def test_task_2_traffic_of_known_models():
    """Qwen3-0.6B in bfloat16 and in 4 bits, for one token after 127: numbers that a checkpoint's files have, too."""
    config = ModelConfig("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, 1e-6, 1e6, 40960, True)
    cache = {"cache_read": 128 * 114688, "cache_written": 114688}
    for storage, weights in ((Storage(2), 1_192_101_888), (Storage(2, 4, 64, 2), 335_372_864)):
        case = f"Qwen3-0.6B, {in_words(storage)}, L 1, offset 127, N 1"
        with noted(case):
            found = accounting.traffic(Step(config, 1, 127), storage)
        same_counts(found, Traffic, {"weights": weights, **cache}, case, 128)


def test_task_2_traffic_sweep():
    for n in sizes(N=9, L=1100, S=4200, K=4, G=4, P=8):
        measures = {
            "num_attention_heads": n.K * n.G,
            "num_key_value_heads": n.K,
            "head_dim": 2 * n.P,
            "num_hidden_layers": n.turn(2, 1, 3),
            "tie_word_embeddings": n.turn(True, False),
        }
        base = n.turn(QWEN3, QWEN25, QWEN3)
        counted_bytes(random_model(base, n.seed, **measures), Storage(n.turn(2, 4)), n.L, n.S - 1, n.N, swept=True)
        wide = {**WIDE, "num_attention_heads": 2 * n.K, "num_key_value_heads": n.K}
        counted_bytes(random_model(base, n.seed, **wide), n.turn(*STORAGES), n.L, n.S - 1, n.N, swept=True)


@property_test
@given(length=st.integers(1, 9), offset=st.integers(0, 9), batch=st.integers(1, 4))
def test_task_2_traffic_one_at_a_time(length, offset, batch):
    """One token after the other: as much is written, and the weights are read again for each."""
    config = ModelConfig.from_dict(QWEN3)
    case = f"Qwen3, L {length}, offset {offset}, N {batch}, against as many steps of one token"
    with noted(case):
        whole = accounting.traffic(Step(config, length, offset, batch), Storage())
        steps = [accounting.traffic(Step(config, 1, offset + i, batch), Storage()) for i in range(length)]
    row = 4 * config.hidden_size * batch
    again = (length - 1) * (steps[0].weights - row)
    expected = {
        "weights": sum(step.weights for step in steps) - again,
        "cache_read": steps[-1].cache_read,
        "cache_written": sum(step.cache_written for step in steps),
    }
    same_counts(whole, Traffic, expected, case, length)


# Task 3, operations


def counted_flops(config, length, offset, batch, swept=False):
    model = random_model(config, 0) if not swept else None
    letters = {"E": "hidden_size", "H": "num_attention_heads", "H_kv": "num_key_value_heads", "D": "head_dim"}
    words = ", ".join(f"{letter} {config[name]}" for letter, name in letters.items())
    case = f"{model or f'Qwen3 ({words})'}, L {length}, offset {offset}, N {batch}"
    with noted(case):
        found = accounting.flops(Step(ModelConfig.from_dict(config), length, offset, batch))
    same_counts(found, Flops, computed(config, length, offset, batch), case, length * batch + offset, swept)


@by_architecture
def test_task_3_flops_one_token(base):
    counted_flops(base, 1, 0, 1)


@by_head
@by_architecture
@pytest.mark.parametrize(("length", "offset", "batch"), [(1, 7, 1), (5, 0, 1), (3, 4, 1), (1, 0, 5), (2, 3, 5)])
def test_task_3_flops_steps(base, tied, length, offset, batch):
    counted_flops({**base, "tie_word_embeddings": tied}, length, offset, batch)


def by_pytorch(torch, sizes, seen):
    """What PyTorch counts while a layer of these sizes, and a head, work on one token after `seen` - 1 others."""
    from torch.utils.flop_counter import FlopCounterMode

    size, heads, pairs, dims, inner, vocabulary = sizes
    functional, found, x = torch.nn.functional, [], torch.zeros(1, size)

    def projections():
        for outputs in (heads * dims, pairs * dims, pairs * dims):
            functional.linear(x, torch.zeros(outputs, size))
        functional.linear(torch.zeros(1, heads * dims), torch.zeros(size, heads * dims))

    def attention():
        weights = torch.zeros(heads, 1, dims) @ torch.zeros(heads, dims, seen)
        return weights @ torch.zeros(heads, seen, dims)

    def mlp():
        for _ in ("gate", "up"):
            functional.linear(x, torch.zeros(inner, size))
        functional.linear(torch.zeros(1, inner), torch.zeros(size, inner))

    def head():
        functional.linear(x, torch.zeros(vocabulary, size))

    for part in (projections, attention, mlp, head):
        with FlopCounterMode(display=False) as counter:
            part()
        found.append(counter.get_total_flops())
    return torch.tensor(found)


@pytest.mark.parametrize("seen", [1, 6])
def test_task_3_flops_pytorch(pytorch, seen):
    config = ModelConfig.from_dict({**QWEN3, "num_hidden_layers": 1})
    letters = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
    counts = pytorch(by_pytorch, tuple(QWEN3[name] for name in (*letters, "vocab_size")), seen)
    expected = dict(zip(("projections", "attention", "mlp", "head"), map(int, counts), strict=True))
    case = f"Qwen3 with 1 layer, L 1, offset {seen - 1}, N 1, against PyTorch's FlopCounterMode"
    with noted(case):
        found = accounting.flops(Step(config, 1, seen - 1))
    same_counts(found, Flops, expected, case, seen)


def test_task_3_flops_of_known_models():
    """Qwen3-0.6B: close to two for each weight, 0.88 billion of them without the rest of a prompt's head."""
    config = ModelConfig("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, 1e-6, 1e6, 40960, True)
    for step, parts in (
        (Step(config, 1, 127), (352321536, 29360128, 528482304, 311164928)),
        (Step(config, 128), (45097156608, 1893728256, 67645734912, 311164928)),
    ):
        case = f"Qwen3-0.6B, L {step.length}, offset {step.offset}, N 1"
        with noted(case):
            found = accounting.flops(step)
        expected = dict(zip(("projections", "attention", "mlp", "head"), parts, strict=True))
        same_counts(found, Flops, expected, case, 128)


def test_task_3_flops_sweep():
    for n in sizes(N=4, L=17, S=70, K=4, G=4, P=4):
        measures = {
            "num_attention_heads": n.K * n.G,
            "num_key_value_heads": n.K,
            "head_dim": 2 * n.P,
            "num_hidden_layers": n.turn(2, 1, 3),
            "tie_word_embeddings": n.turn(True, False),
        }
        counted_flops({**n.turn(QWEN3, QWEN25, QWEN3), **measures}, n.L, n.S - 1, n.N, swept=True)


@property_test
@given(parts=st.lists(st.integers(1, 5), min_size=1, max_size=4), offset=st.integers(0, 6), batch=st.integers(1, 3))
def test_task_3_flops_any_split(parts, offset, batch):
    """However a text is cut into calls, everything but the heads is computed once."""
    config = ModelConfig.from_dict(QWEN3)
    case = f"Qwen3, parts {' + '.join(map(str, parts))} after {offset}, N {batch}, against all in one call"
    starts = itertools.accumulate(parts[:-1], initial=offset)
    with noted(case):
        whole = accounting.flops(Step(config, sum(parts), offset, batch))
        calls = [accounting.flops(Step(config, size, at, batch)) for size, at in zip(parts, starts, strict=True)]
    expected = {name: sum(getattr(call, name) for call in calls) for name in ("projections", "attention", "mlp")}
    same_counts(whole, Flops, {**expected, "head": calls[0].head}, case, sum(parts))


# Task 4, the roofline


MACHINES = [(32.0, 128.0), (128.0, 32.0), (3e10, 2.5e11)]
by_machine = pytest.mark.parametrize("limits", MACHINES, ids=str)


def same_value(actual, expected, what, case, size=0, swept=False):
    if type(actual) is not type(expected):
        wanted = type_words(expected)
        fail(Kind.TYPE, f"{what} gave {type_words(actual)}, expected {wanted}", case, size=size, swept=swept)
    close = math.isclose(actual, expected, rel_tol=1e-9) if isinstance(expected, float) else actual == expected
    if not close:
        lines = (f"expected  {expected}", f"got       {actual}")
        fail(Kind.VALUES, f"{what} is wrong", case, *lines, size=size, swept=swept)


def judged(bandwidth, rate, flops, size, seconds, swept=False):
    """Everything that the roofline says of some work."""
    case = f"bandwidth {bandwidth:g}, rate {rate:g}, FLOPs {flops}, bytes {size}, seconds {seconds:g}"
    with noted(case):
        roof = roofline.Roofline(bandwidth, rate)
        found = {
            "ridge": roof.ridge(),
            "least_seconds": roof.least_seconds(flops, size),
            "limit": roof.limit(flops, size),
        }
        reached = roof.reached(flops, size, seconds)
    moving, computing = size / bandwidth, flops / rate
    expected = {
        "ridge": rate / bandwidth,
        "least_seconds": max(moving, computing),
        "limit": "arithmetic" if computing > moving else "memory",
    }
    for what, value in expected.items():
        same_value(found[what], value, what, case, swept=swept)
    if not is_a(reached, roofline.Reached):
        fail(Kind.TYPE, f"reached gave {type_words(reached)}, expected a Reached", case, swept=swept)
    same_value(reached.bandwidth, size / bandwidth / seconds, "the bandwidth that was reached", case, swept=swept)
    same_value(reached.rate, flops / rate / seconds, "the rate that was reached", case, swept=swept)


@by_machine
@pytest.mark.parametrize(("flops", "size"), [(1000, 10), (10, 1000), (512, 128), (128, 512), (8, 8), (0, 24), (24, 0)])
def test_task_4_roofline_formula(limits, flops, size):
    """Among them work that takes equally long to move and to compute."""
    judged(*limits, flops, size, 160.0)


def turned(bandwidth, rate, work, most, words, swept=False):
    case = f"bandwidth {bandwidth:g}, rate {rate:g}, {words}, most {most}"
    steps = ((n, *work(n)) for n in range(1, most + 1))
    expected = next((n for n, flops, size in steps if flops / rate > size / bandwidth), None)
    with noted(case):
        found = roofline.Roofline(bandwidth, rate).turn(work, most)
    if type(found) is not type(expected) or found != expected:
        lines = (f"expected  {expected}", f"got       {type_words(found) if type(found) is not int else found}")
        fail(Kind.VALUES, "turn is wrong", case, *lines, size=most, swept=swept)


@pytest.mark.parametrize(("fixed", "each"), [(40, 0), (40, 1), (0, 1), (39, 0), (1000, 0), (40, 10)], ids=str)
def test_task_4_roofline_turn(fixed, each):
    """Work of n has 8 n FLOPs, and a number of bytes that is fixed, or grows with it, or both."""
    for most in (0, 1, 10, 11, 20):
        turned(2.0, 8.0, lambda n: (8 * n, fixed + each * n), most, f"FLOPs 8 n, bytes {fixed} + {each} n")


@by_machine
def test_task_4_roofline_turn_of_a_model(limits):
    """The rows of a batch of decode steps: weights are shared, caches are not."""
    config = {**QWEN3, "tie_word_embeddings": True}
    model = random_model(config, 1)

    def work(rows):
        return sum(computed(config, 1, 3, rows).values()), sum(moved(model, Storage(2), 1, 3, rows).values())

    table = {n: work(n) for n in range(1, 13)}
    turned(limits[0], limits[1], table.__getitem__, 12, "FLOPs and bytes of n rows of a small Qwen3")


@pytest.mark.parametrize("limits", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -2.0)], ids=str)
def test_task_4_roofline_refuses_no_machine(limits):
    with raises_value_error(f"bandwidth {limits[0]:g}, rate {limits[1]:g}"):
        roofline.Roofline(*limits)


def test_task_4_roofline_sweep():
    for n in sizes(F=4200, B=4200, S=20):
        for bandwidth, rate in ((4.0, 8.0), (8.0, 4.0), (3e9, 7e10)):
            judged(bandwidth, rate, n.F, n.B, n.S / 4, swept=True)
        fixed = n.B
        turned(1.0, 2.0, lambda k, fixed=fixed: (3 * k, fixed), n.F, f"FLOPs 3 n, bytes {fixed}", swept=True)


@property_test
@given(flops=st.integers(1, 10**12), size=st.integers(1, 10**12), limits=st.sampled_from(MACHINES))
def test_task_4_roofline_no_faster_than_the_least(flops, size, limits):
    """In the least time, the larger of both shares is 1, and nothing exceeds it."""
    case = f"bandwidth {limits[0]:g}, rate {limits[1]:g}, FLOPs {flops}, bytes {size}, in the least seconds"
    with noted(case):
        roof = roofline.Roofline(*limits)
        reached = roof.reached(flops, size, roof.least_seconds(flops, size))
    same_value(float(max(reached.bandwidth, reached.rate)), 1.0, "the larger share", case)
