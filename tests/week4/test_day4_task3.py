"""Task 4.4.3, the latent cache."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.in_parts import Parts, parts_of
from tests.week4.latent_oracles import by_parts, copying_calls, cuts, pair

from tiny_llm.latent_attention import cache
from tiny_llm_course.testkit.again import backwards
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


def all_entries(latent, rope_key, parts, capacity=4):
    """Return the entries of all calls, concatenated. Each call's results are kept while later calls write."""
    made, found, at = cache.LatentCache(capacity), [], 0
    for size in parts:
        piece = slice(at, at + size) if size > 0 else slice(-size)
        new = [x[:, piece] if size > 0 else backwards(x)[:, piece] for x in (latent, rope_key)]
        found.append(made.update_and_fetch(*new))
        mx.eval(found[-1])
        if size > 0:
            at += size
        else:
            made.rewind(-size)
    return mx.concatenate(found, axis=1)


def all_entries64(latent, rope_key, parts, capacity=4, *, r=exact):
    found, at = [], 0
    both = np.concatenate([latent, rope_key], axis=-1)
    other = np.concatenate([latent[::-1, ::-1, ::-1], rope_key[::-1, ::-1, ::-1]], axis=-1)
    for size in parts:
        if size > 0:
            at += size
            found.append(both[:, :at])
        else:
            found += [both[:, :at], other[:, :-size]]
    return r(np.concatenate(found, axis=1))


def cache_agrees(latent, rope_key, parts, capacity=4, *, seed):
    agrees(all_entries, all_entries64, latent, rope_key, Parts(parts), capacity, seed=seed)


@by_dtype
@by_parts
def test_task_3_cache_fetches_all(parts, dtype):
    cache_agrees(*pair(1, 2, 5, dtype=dtype), parts, seed=1)


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 256])
def test_task_3_cache_any_capacity(capacity):
    for parts in ((5, 2), (2, 3, 2), (1,) * 7, (3, -2, 4)):
        cache_agrees(*pair(2, 2, 7), parts, capacity, seed=2)


def test_task_3_cache_doubles_several_times_at_once():
    cache_agrees(*pair(3, 1, 40), (3, 30, 7), seed=3)


@pytest.mark.parametrize("parts", [(-4, 5), (2, -2, 4), (4, -4, 4)], ids=str)
def test_task_3_cache_keeps_what_was_fetched(parts):
    """Entries of an earlier call do not change when a full array is overwritten."""
    cache_agrees(*pair(4, 2, sum(n for n in parts if n > 0)), parts, seed=4)


def test_task_3_cache_sweep():
    for n in sweep(N=9, L=1100, C=130, P=33):
        parts = parts_of(n.seed, n.L)
        cache_agrees(*pair(n.seed, n.N, n.L, n.C, n.P, n.dtype), parts, n.turn(256, 1, 7, 64), seed=n)


@property_test
@given(parts=cuts, junk=st.integers(0, 3), capacity=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_3_cache_any_split(parts, junk, capacity, seed):
    junk = [-min(junk, sum(parts))] if junk else []
    cache_agrees(*pair(seed, 2, sum(parts)), (*parts[:1], *junk, *parts[1:]), capacity, seed=seed)


@by_dtype
def test_task_3_cache_counts(dtype):
    """offset and nbytes are ints, initially 0; unwritten slots do not count."""
    case = f"{dtype}, capacity 4, latent 2 x L x 5, rope_key 2 x L x 4, calls of 2, 1, 4 tokens, rewind(3), rewind(4)"
    with noted(case):
        made, other = cache.LatentCache(4), cache.LatentCache(4)
        counts = [(made.offset, made.nbytes)]
        for length in (2, 1, 4):
            made.update_and_fetch(*pair(5, 2, length, dtype=dtype))
            counts.append((made.offset, made.nbytes))
        for count in (3, 4):
            made.rewind(count)
            counts.append((made.offset, made.nbytes))
        counts.append((other.offset, other.nbytes))
    for name, number in (("offset", 0), ("nbytes", 1)):
        found = [each[number] for each in counts]
        if wrong := next((x for x in found if type(x) is not int), None):
            fail(Kind.TYPE, f"{name} is {type_words(wrong)}, expected an int", case)
        expected = [tokens * (1, 2 * 9 * dtype.size)[number] for tokens in (0, 2, 3, 7, 4, 0, 0)]
        if found != expected:
            fail(Kind.VALUES, f"{name} is wrong", case, f"expected  {expected}", f"got       {found}")


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_task_3_cache_rewind(count):
    """Tokens after a rewind replace the rewound ones."""
    old, new = pair(6, 2, 6), pair(60, 2, 5)
    case = f"float32, latent 2 x 6 x 5, capacity 4, rewind({count}), then latent 2 x 5 x 5, seed 6"
    with noted(case):
        made = cache.LatentCache(4)
        made.update_and_fetch(*old)
        made.rewind(count)
        actual = made.update_and_fetch(*new)
    before, after = (np.concatenate([to_float64(x) for x in two], axis=-1) for two in (old, new))
    expected = np.concatenate([before[:, : 6 - count], after], axis=1)
    compare(actual, expected, mx.float32, 0.0, case, expected.size)


def test_task_3_cache_is_filled_while_entries_are_held():
    """Four tokens fill the capacity; two are rewound, and others replace them, but not in the returned array."""
    old = pair(7, 2, 4)
    case = "float32, latent 2 x 4 x 5, capacity 4, rewind(2), then latent 2 x 2 x 5, seed 7"
    with noted(case):
        made = cache.LatentCache(4)
        actual = made.update_and_fetch(*old)
        mx.eval(actual)
        made.rewind(2)
        mx.eval(made.update_and_fetch(*pair(70, 2, 2)))
    expected = np.concatenate([to_float64(x) for x in old], axis=-1)
    compare(actual, expected, mx.float32, 0.0, f"what the first call gave; {case}", expected.size)


@pytest.mark.parametrize(("calls", "length", "latent", "rope"), [(120, 1, 256, 64), (256, 64, 24, 8)])
def test_task_3_cache_copies_seldom(calls, length, latent, rope):
    """Doubling from 4 slots copies a few times, however many tokens come; growing by a constant copies often."""
    case = f"float32, latent 1 x {length} x {latent}, rope_key 1 x {length} x {rope}, capacity 4, {calls} calls"
    new = pair(8, 1, length, latent, rope)
    with noted(case):
        made = cache.LatentCache(4)
        copied = copying_calls(lambda: made.update_and_fetch(*new), calls, length * 4 * (latent + rope))
    if copied > 6:
        counted = f"{copied} of the last {calls - calls // 3} calls"
        headline = f"{counted} took as much memory as all entries: they copy everything"
        fail(Kind.VALUES, headline, case, "at most   6, as the capacity doubles only once or twice in them")


OTHERS = {
    "another batch": ((1, 2, 5), (1, 2, 4)),
    "another latent": ((2, 2, 1), (2, 2, 4)),
    "another RoPE key": ((2, 2, 5), (2, 2, 2)),
    "exchanged": ((2, 2, 4), (2, 2, 5)),
    "one long, one short": ((2, 2, 6), (2, 2, 3)),
    "fewer RoPE keys": ((2, 2, 5), (2, 1, 4)),
    "RoPE keys of another batch": ((2, 2, 5), (1, 2, 4)),
}


@pytest.mark.parametrize("shapes", OTHERS.values(), ids=OTHERS.keys())
def test_task_3_cache_refuses_other_shapes(shapes):
    """Even if they would broadcast, or add up; afterwards the cache works as before."""
    latent, rope_key = pair(9, 2, 5)
    words = [" x ".join(map(str, shape)) for shape in shapes]
    case = f"float32, latent 2 x 3 x 5 and rope_key 2 x 3 x 4, then latent {words[0]} and rope_key {words[1]}"
    with noted(case):
        made = cache.LatentCache(4)
        made.update_and_fetch(latent[:, :3], rope_key[:, :3])
    with raises_value_error(case):
        mx.eval(made.update_and_fetch(*(mx.ones(shape) for shape in shapes)))
    with noted(case):
        actual = made.update_and_fetch(latent[:, 3:], rope_key[:, 3:])
    expected = np.concatenate([to_float64(latent), to_float64(rope_key)], axis=-1)
    compare(actual, expected, mx.float32, 0.0, f"the next tokens that fit; {case}", expected.size)


@pytest.mark.parametrize("first", [True, False], ids=["first call", "later"])
@pytest.mark.parametrize("which", [(mx.float16, mx.float16), (mx.float32, mx.float16)], ids=["both", "rope_key"])
def test_task_3_cache_refuses_another_dtype(which, first):
    latent, rope_key = pair(10, 2, 2)
    made = cache.LatentCache(4)
    if not first:
        made.update_and_fetch(latent, rope_key)
    elif which[0] == which[1]:
        return
    with raises_value_error(f"latent 2 x 2 x 5 in {which[0]}, rope_key in {which[1]}"):
        mx.eval(made.update_and_fetch(latent.astype(which[0]), rope_key.astype(which[1])))


@pytest.mark.parametrize("change", ["N", "dtype"])
def test_task_3_cache_keeps_its_sizes_when_all_is_rewound(change):
    made = cache.LatentCache(4)
    latent, rope_key = pair(12, 2, 3)
    made.update_and_fetch(latent, rope_key)
    made.rewind(3)
    wrong = (latent[:1], rope_key[:1]) if change == "N" else (latent.astype(mx.float16), rope_key.astype(mx.float16))
    with raises_value_error(f"float32, latent 2 x 3 x 5, rewind(3), then another {change}"):
        mx.eval(made.update_and_fetch(*wrong))


def test_task_3_cache_a_rejected_first_call_fixes_no_sizes():
    """The next call may have other sizes."""
    latent, rope_key = normals(12)(2, 3, 6), normals(13)(2, 3, 2)
    case = "float32, first latent 1 x 3 x 5 and rope_key 1 x 2 x 4, then latent 2 x 3 x 6 and rope_key 2 x 3 x 2"
    made = cache.LatentCache(4)
    with raises_value_error(case):
        mx.eval(made.update_and_fetch(mx.zeros((1, 3, 5)), mx.zeros((1, 2, 4))))
    with noted(case):
        actual = made.update_and_fetch(latent, rope_key)
    expected = np.concatenate([to_float64(latent), to_float64(rope_key)], axis=-1)
    compare(actual, expected, mx.float32, 0.0, case, expected.size)


@pytest.mark.parametrize("count", [6, 260, -1])
def test_task_3_cache_refuses_to_rewind_more_than_there_is(count):
    case = f"float32, latent 2 x 5 x 5, rewind({count})"
    made = cache.LatentCache()
    made.update_and_fetch(*pair(11, 2, 5))
    with raises_value_error(case, str(abs(count)), "5"):
        made.rewind(count)
    with raises_value_error("float32, rewind(1) of an empty cache", "1", "0"):
        cache.LatentCache().rewind(1)
    if made.offset != 5:
        fail(Kind.VALUES, "a rewind that raised has changed offset", case, "expected  5", f"got       {made.offset}")
