"""Task 5.2.3, the loader, checked row by row against the packing of each shard, and against an uninterrupted run."""

import itertools
import json
import random

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day2 import FIELDS, epoch64, epochs64, order, pack64
from tests.week5.packed import EOS, numbered, on_disk, shard_paths, table

from tiny_llm.dataset import loader
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes

THREE = (5, 1, 8)  # documents of three shards


def words(counts, batch, length, seed):
    numbers = ", ".join(map(str, counts))
    several = f"{len(counts)} shards, their names in descending order, of {numbers} documents"
    several = several if len(counts) > 1 else f"1 shard of {numbers} documents"
    return f"{several}, batch {batch}, length {length}, seed {seed}"


def make(counts=THREE, batch=2, length=4, seed=3):
    return loader.ShardedLoader(shard_paths(*counts), batch, length, EOS, seed)


def follows(batches, rows, first, batch, case):
    """Check that the next batches are these rows, by field."""
    for number, got in enumerate(batches):
        start = first + number * batch
        for name in FIELDS:
            actual = getattr(got, name, None)
            if type(actual) is not mx.array:
                fail(Kind.TYPE, f"{name} of a batch is {type_words(actual)}, expected an mx.array", case)
            expected = rows[name][start : start + batch]
            compare(
                actual.astype(mx.float32), expected, mx.float32, 0.0, f"{case}, batch {number}: {name}", expected.size
            )


def rows_of(counts=THREE, length=4, seed=3, epochs=2):
    return epochs64(numbered(*counts), length, EOS, seed, epochs)


def taken(loading, count):
    """Take batches, and evaluate them here, so that an exception has the case of the call."""
    batches = [next(loading) for _ in range(count)]
    mx.eval([getattr(each, name) for each in batches for name in FIELDS])
    return batches


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 16, 40])
def test_task_3_loader_two_epochs(batch):
    """Three shards of unequal sizes, in batches that span shards and epochs."""
    case, rows = words(THREE, batch, 4, 3), rows_of(epochs=5)
    steps = max(1, 2 * len(epoch64(numbered(*THREE), 4, EOS, 3, 0)["tokens"]) // batch)
    with noted(case):
        batches = taken(make(batch=batch), steps)
    follows(batches, rows, 0, batch, case)


def test_task_3_loader_goes_on_to_the_next_shard():
    """One row per shard and batch: the second batch is from another shard."""
    counts = (1, 1, 1)
    case = words(counts, 1, 8, 0)
    with noted(case):
        batches = taken(make(counts, 1, 8, 0), 6)
    follows(batches, rows_of(counts, 8, 0), 0, 1, case)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_task_3_loader_one_shard(seed):
    """Two epochs of one shard: the second one has another order."""
    case, rows = words((9,), 2, 3, seed), rows_of((9,), 3, seed, 3)
    with noted(case):
        batches = taken(make((9,), 2, 3, seed), len(rows["tokens"]) // 3)
    follows(batches, rows, 0, 2, case)


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_task_3_loader_every_document_once(epoch):
    """Each document of all shards is once in the tokens of an epoch, from its first token to its eos."""
    case = f"{words(THREE, 1, 4, 3)}, epoch {epoch}"
    lengths = [len(epoch64(numbered(*THREE), 4, EOS, 3, each)["tokens"]) for each in range(3)]
    with noted(case):
        batches = taken(make(batch=1), sum(lengths[: epoch + 1]))[sum(lengths[:epoch]) :]
        ids = np.concatenate([np.array(each.document_ids) for each in batches]).flatten()
        tokens = np.concatenate([np.array(each.tokens) for each in batches]).flatten()[ids >= 0]
    ends = np.flatnonzero(tokens == EOS) + 1
    found = sorted(part.tolist() for part in np.split(tokens, ends[:-1]))
    expected = sorted([*document, EOS] for shard in numbered(*THREE) for document in shard)
    missing = [document for document in expected if found.count(document) != 1]
    if missing:
        count = found.count(missing[0])
        what = f"a document is {count} times in epoch {epoch}, expected once"
        fail(Kind.VALUES, what, case, f"document  {missing[0]}", size=len(tokens))
    fail_if_different(f"other documents in epoch {epoch}", len(expected), len(found), case, len(tokens))


def test_task_3_loader_orders():
    """The same seed gives the same rows; another seed or epoch gives another order."""
    case, count = words((12, 12), 1, 4, 3), len(epoch64(numbered(12, 12), 4, EOS, 3, 0)["tokens"])

    def epoch_of(seed, which=0):
        return [each.tokens.tolist() for each in taken(make((12, 12), 1, 4, seed), count * (which + 1))[-count:]]

    with noted(case):
        first, again, later, other = epoch_of(3), epoch_of(3), epoch_of(3, 1), epoch_of(4)
    if first != again:
        fail(Kind.VALUES, "two loaders with the same seed return different rows", case)
    if first == later:
        fail(Kind.VALUES, "the second epoch has the same order as the first", case)
    if first == other:
        fail(Kind.VALUES, "another seed returns the same order", case)


def test_task_3_loader_leaves_global_randomness_alone():
    """Neither Python's nor NumPy's global generator is used, seeded or advanced."""
    case = words(THREE, 2, 4, 3)
    random.seed(1), np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    with noted(case):
        batches = taken(make(), 6)
    if (random.getstate(), np.random.get_state()[1].tolist()) != before:
        fail(Kind.VALUES, "a global random generator has changed", case)
    follows(batches, rows_of(), 0, 2, case)


def restored(state):
    """Return what a file of JSON gives back."""
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", [3, 8])
def test_task_3_loader_resumes_at_every_step(length, batch):
    """A new loader continues from each state of two epochs, through JSON, as the first loader does."""
    case, rows = words(THREE, batch, length, 3), rows_of(length=length, epochs=6)
    steps = 2 * len(epoch64(numbered(*THREE), length, EOS, 3, 0)["tokens"]) // batch + 1
    with noted(case):
        running, states = make(batch=batch, length=length), []
        for _ in range(steps):
            states.append(restored(running.state()))
            next(running)
    for step, state in enumerate(states):
        at = f"{case}, resumed before batch {step} from {state}"
        with noted(at):
            resumed = make(batch=batch, length=length)
            resumed.load_state(state)
            batches = taken(resumed, 4)
        follows(batches, rows, step * batch, batch, at)


def test_task_3_loader_rewinds():
    """A loader that has run on loads its own earlier states: of another shard, of another epoch."""
    case, rows = words(THREE, 2, 4, 3), rows_of(epochs=4)
    with noted(case):
        running, states = make(), []
        for _ in range(20):
            states.append(running.state())
            next(running)
    for step in (19, 0, 12, 3, 11, 1):
        with noted(case):
            running.load_state(states[step])
            batches = taken(running, 3)
        follows(batches, rows, 2 * step, 2, f"{case}, rewound to batch {step}")


def test_task_3_loader_resumes_in_the_next_epoch():
    """One shard, so that only the epoch differs between the state and the rows that the loader has packed."""
    counts, case = (9,), words((9,), 1, 3, 3)
    rows, size = rows_of(counts, 3, 3, 3), len(epoch64(numbered(9), 3, EOS, 3, 0)["tokens"])
    with noted(case):
        running = make(counts, 1, 3)
        taken(running, size + 2)
        state = running.state()
        other = make(counts, 1, 3)
        taken(other, 2)
        other.load_state(state)
        fail_if_different("`epoch` after load_state", 1, other.epoch, case)
        batches = taken(other, 3)
    follows(batches, rows, size + 2, 1, f"{case}, resumed in epoch 1")


@pytest.mark.parametrize("batch", [1, 3, 7])
def test_task_3_loader_resumes_with_another_batch_size(batch):
    case, rows = f"{words(THREE, 2, 4, 3)}, resumed with batch {batch}", rows_of(epochs=4)
    with noted(case):
        running = make()
        taken(running, 5)
        resumed = make(batch=batch)
        resumed.load_state(running.state())
        batches = taken(resumed, 3)
    follows(batches, rows, 10, batch, case)


def test_task_3_loader_state_is_a_row():
    """Along two epochs, the state names the next row: its epoch, its place in the order of shards, its number there."""
    case = words(THREE, 1, 4, 3)
    shards, expected = numbered(*THREE), []
    for epoch in range(2):
        for place, shard in enumerate(order(3, 3, epoch)):
            count = len(pack64(shards[shard], 4, EOS)["tokens"])
            expected += [
                {"seed": 3, "length": 4, "shards": 3, "epoch": epoch, "shard": place, "row": row}
                for row in range(count)
            ]
    with noted(case):
        running = make(batch=1)
        for number, wanted in enumerate(expected):
            epoch, state = running.epoch, running.state()  # in this order: state() may move to the next row
            if not isinstance(state, dict):
                fail(Kind.TYPE, f"the state is {type_words(state)}, expected a dict", case)
            fail_if_different(f"wrong state before batch {number}", wanted, restored(state), case)
            fail_if_different(f"wrong epoch before batch {number}", wanted["epoch"], epoch, case)
            next(running)


def test_task_3_loader_state_is_a_copy():
    """A state that was taken does not change with the loader, nor the loader with it."""
    case, rows = words(THREE, 2, 4, 3), rows_of()
    with noted(case):
        running = make()
        taken(running, 3)
        state = running.state()
        kept = dict(state)
        batches = taken(running, 2)
        fail_if_different("a state has changed as the loader ran on", kept, state, case)
        running.state().update(epoch=7, row=0, shard=0)
        batches += taken(running, 2)
        resumed = make()
        resumed.load_state(state)
        taken(resumed, 4)
        fail_if_different("load_state's argument was changed", kept, state, case)
    follows(batches, rows, 6, 2, case)


@pytest.mark.parametrize(("name", "value"), [("seed", 4), ("length", 5), ("shards", 2)])
def test_task_3_loader_refuses_another_run(name, value):
    """The error states both values, and the loader then continues as before."""
    case, rows = f"{words(THREE, 2, 4, 3)}, a state with {name} {value}", rows_of()
    with noted(case):
        running = make()
        taken(running, 2)
        state = {**make().state(), "epoch": 1, "shard": 1, "row": 1, name: value}
    with raises_value_error(case, name, str(value), str({"seed": 3, "length": 4, "shards": 3}[name])):
        running.load_state(state)
    with noted(case):
        batches = taken(running, 3)
    follows(batches, rows, 4, 2, f"{case}, after the error")


def test_task_3_loader_iterates():
    """`for batch in loader` goes through it: iter returns the loader itself, which does not start again."""
    case, rows = words(THREE, 2, 4, 3), rows_of()
    with noted(case):
        running = make()
        if iter(running) is not running:
            fail(Kind.VALUES, "iter() of a loader is another object, expected the loader itself", case)
        batches = list(itertools.islice(running, 2)) + list(itertools.islice(running, 2))
    follows(batches, rows, 0, 2, case)


def test_task_3_loader_reads_a_shard_when_it_is_needed(tmp_path):
    """No file is read by the constructor."""
    counts = (2, 3)
    case = f"{words(counts, 1, 4, 3)}, the files are written after the loader was made"
    paths = [tmp_path / "shard-1.npy", tmp_path / "shard-0.npy"]
    with noted(case):
        running = loader.ShardedLoader(paths, 1, 4, EOS, 3)
        on_disk(numbered(*counts), tmp_path)
        batches = taken(running, 3)
    follows(batches, rows_of(counts), 0, 1, case)


def test_task_3_loader_reads_no_shard_before_its_first_row(tmp_path):
    """The second shard's file is written after all rows of the first one but the last."""
    counts = (4, 5)
    case = f"{words(counts, 1, 4, 3)}, the second shard of epoch 0 is written after the rows of the first but one"
    shards, (first, second) = numbered(*counts), order(2, 3, 0)
    paths, later = on_disk(shards, tmp_path), tmp_path / "later.npy"
    paths[second].rename(later)
    with noted(case):
        running = loader.ShardedLoader(paths, 1, 4, EOS, 3)
        batches = taken(running, len(pack64(shards[first], 4, EOS)["tokens"]) - 1)
        later.rename(paths[second])
        batches += taken(running, 3)
    follows(batches, rows_of(counts), 0, 1, case)


def test_task_3_loader_sweep():
    for n in sizes(S=5, D=20, B=20, L=65):
        counts = tuple(1 + (n.D * (number + 1) + n.seed) % (n.D + 2) for number in range(n.S))
        case = words(counts, n.B, n.L, n.seed)
        with noted(case):
            batches = taken(make(counts, n.B, n.L, n.seed), 3)
        size = len(epoch64(numbered(*counts), n.L, EOS, n.seed, 0)["tokens"])
        rows = rows_of(counts, n.L, n.seed, 1 + -(-3 * n.B // max(1, size)) + 1)
        follows(batches, rows, 0, n.B, case)


@property_test
@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=4), batch=st.integers(1, 5), step=st.integers(0, 12))
def test_task_3_loader_interrupted_is_uninterrupted(counts, batch, step):
    """Stopped after any number of steps and resumed, the batches are those of a run without a stop."""
    case = f"{words(counts, batch, 4, 3)}, resumed after {step} batches"
    with noted(case):
        whole = taken(make(tuple(counts), batch), step + 4)[step:]
        running = make(tuple(counts), batch)
        taken(running, step)
        resumed = make(tuple(counts), batch)
        resumed.load_state(restored(running.state()))
        for number, (mine, theirs) in enumerate(zip(taken(resumed, 4), whole, strict=True)):
            at = f"{case}, batch {number}"
            compare(table(mine).astype(mx.float32), to_float64(table(theirs)), mx.float32, 0.0, at, mine.tokens.size)


@pytest.mark.parametrize(("count", "batch"), [(0, 2), (3, 0), (3, -1)])
def test_task_3_loader_refuses_other_numbers(count, batch):
    with raises_value_error(f"{count} shards, batch_size {batch}", str(count), str(batch)):
        loader.ShardedLoader(shard_paths(*THREE)[:count], batch, 4, EOS)


def test_task_3_loader_refuses_a_shard_without_eos(tmp_path):
    """A file that was cut off, or tokens of another tokenizer."""
    paths = on_disk([[[1, 2, 3], [4, 5]]], tmp_path, end=False)
    with raises_value_error("a shard that does not end with eos 9", "shard-0.npy"):
        next(loader.ShardedLoader(paths, 1, 4, EOS))
