"""Week 2, day 1, task 1: the cache."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.in_parts import Parts, by_parts, cuts, junk, parts_of, with_junk

from tiny_llm.qwen3_cached import cache
from tiny_llm_course.testkit.again import backwards
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


def fetches(number):
    """Return the keys, 0, or the values, 1, of all fetches, concatenated: N x H_kv x (S + S' + ..) x D.

    The arrays of each call are kept alive while later calls write.
    """

    def all_fetches(key, value, parts, block=4):
        kept, found, at = cache.KVCache(block), [], 0
        for size in parts:
            piece = slice(at, at + size) if size > 0 else slice(-size)
            new = [x[:, :, piece] if size > 0 else backwards(x)[:, :, piece] for x in (key, value)]
            found.append(kept.update_and_fetch(*new)[number])
            mx.eval(found[-1])
            if size > 0:
                at += size
            else:
                kept.rewind(-size)
        return mx.concatenate(found, axis=2)

    return all_fetches


def fetches64(number):
    def by_formula(key, value, parts, block=4, *, r=exact):
        x, found, at = (key, value)[number], [], 0
        for size in parts:
            if size > 0:
                at += size
                found.append(x[:, :, :at])
            else:
                found += [x[:, :, :at], x[::-1, ::-1, ::-1, ::-1][:, :, :-size]]
        return r(np.concatenate(found, axis=2))

    return by_formula


key_fetches, value_fetches, key_fetches64, value_fetches64 = fetches(0), fetches(1), fetches64(0), fetches64(1)


def cache_agrees(key, value, parts, block=4, *, seed):
    agrees(key_fetches, key_fetches64, key, value, Parts(parts), block, seed=seed)
    agrees(value_fetches, value_fetches64, key, value, Parts(parts), block, seed=seed)


def pair(seed, *shape, dtype=mx.float32):
    draw = normals(seed, dtype)
    return draw(*shape), draw(*shape)


@by_dtype
@by_parts
def test_task_1_cache_fetches_all(parts, dtype):
    cache_agrees(*pair(1, 2, 3, 5, 6, dtype=dtype), parts, seed=1)


@pytest.mark.parametrize("block", [1, 2, 3, 5, 256])
def test_task_1_cache_any_block(block):
    """Includes a block as long as the first keys, and one longer than all."""
    for parts in ((5, 2), (2, 3, 2), (1,) * 7, (3, -2, 4)):
        cache_agrees(*pair(2, 2, 3, 7, 4), parts, block, seed=2)


def test_task_1_cache_several_blocks_at_once():
    cache_agrees(*pair(3, 1, 2, 40, 3), (3, 30, 7), seed=3)


@pytest.mark.parametrize("parts", [(-4, 5), (2, -2, 4), (4, -4, 4)], ids=str)
def test_task_1_cache_keeps_earlier_fetches(parts):
    """Keys and values of an earlier call do not change when a full block is overwritten after a rewind."""
    cache_agrees(*pair(4, 2, 3, sum(n for n in parts if n > 0), 5), parts, seed=4)


def test_task_1_cache_sweep():
    for n in sweep(N=9, K=20, L=1100, D=257):
        parts = parts_of(n.seed, n.L)
        cache_agrees(*pair(n.seed, n.N, n.K, n.L, n.D, dtype=n.dtype), parts, n.turn(256, 1, 7, 64), seed=n)


@property_test
@given(parts=cuts, junk=junk, block=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_1_cache_any_split(parts, junk, block, seed):
    junk = junk[0], min(junk[1], sum(parts))
    cache_agrees(*pair(seed, 2, 3, sum(parts), 4), with_junk(parts, junk), block, seed=seed)


def test_task_1_cache_counts():
    """offset is an int that starts at 0; two caches are independent."""
    case = "block 4, calls of 2, 1 and 4 tokens, then rewind(3), rewind(0) and rewind(4)"
    with noted(case):
        kept, other = cache.KVCache(4), cache.KVCache(4)
        counts = [kept.offset]
        for length in (2, 1, 4):
            kept.update_and_fetch(*pair(5, 1, 2, length, 3))
            counts.append(kept.offset)
        for count in (3, 0, 4):
            kept.rewind(count)
            counts.append(kept.offset)
        counts.append(other.offset)
    if wrong := next((x for x in counts if type(x) is not int), None):
        fail(Kind.TYPE, f"offset is {type_words(wrong)}, expected an int", case)
    if counts != (expected := [0, 2, 3, 7, 4, 4, 0, 0]):
        fail(Kind.VALUES, "offset is wrong", case, f"expected  {expected}", f"got       {counts}")


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_task_1_cache_rewind(count):
    """New tokens after a rewind take the positions of the dropped ones."""
    key, value = pair(6, 2, 3, 6, 4)
    more_keys, more_values = pair(60, 2, 3, 5, 4)
    case = f"float32, key 2 x 3 x 6 x 4, block 4, rewind({count}), then key 2 x 3 x 5 x 4, seed 6"
    with noted(case):
        kept = cache.KVCache(4)
        kept.update_and_fetch(key, value)
        kept.rewind(count)
        keys, values = kept.update_and_fetch(more_keys, more_values)
    for name, actual, old, new in (("keys", keys, key, more_keys), ("values", values, value, more_values)):
        expected = np.concatenate([to_float64(old)[:, :, : 6 - count], to_float64(new)], axis=2)
        compare(actual, expected, mx.float32, 0.0, f"{name}; {case}", expected.size)


def test_task_1_cache_leaves_the_caller_s_arrays():
    """Four tokens fill a block, and two are replaced after a rewind: the caller's array must not change."""
    given = pair(7, 2, 3, 4, 5)
    before = [to_float64(x) for x in given]
    case = "float32, key 2 x 3 x 4 x 5, block 4, rewind(2), then key 2 x 3 x 2 x 5, seed 7"
    with noted(case):
        kept = cache.KVCache(4)
        kept.update_and_fetch(*given)
        kept.rewind(2)
        mx.eval(kept.update_and_fetch(*pair(70, 2, 3, 2, 5)))
    for name, x, numbers in zip(("key", "value"), given, before, strict=True):
        if not np.array_equal(to_float64(x), numbers):
            line = "x[...] = changes an MLX array in place, for every reference to it"
            fail(Kind.INPUT_CHANGED, f"the caller's `{name}` of an earlier call was changed", case, line)


def test_task_1_cache_grows_by_blocks():
    """For 96 tokens, one at a time in blocks of 16, only a few calls copy the cache."""
    token = normals(8)(1, 4, 1, 64)
    case = "float32, key and value 1 x 4 x 1 x 64, block 16, 96 calls"
    copied = 0
    with noted(case):
        kept = cache.KVCache(16)
        for number in range(96):
            taken = peak_bytes(lambda: kept.update_and_fetch(token, token))
            copied += number >= 16 and taken > number * token.nbytes
    if copied > 5:
        headline = f"{copied} of the last 80 calls allocated as much as all keys: the cache is copied"
        fail(Kind.VALUES, headline, case, "at most   5, one for each new block")


def test_task_1_cache_rewind_copies_nothing():
    """After a rewind, tokens that fit into the capacity are appended without a copy of the earlier ones."""
    token = normals(8)(1, 4, 1, 64)
    case = "float32, key and value 1 x 4 x 1 x 64, block 16, 40 calls, rewind(8), 8 calls"
    with noted(case):
        kept = cache.KVCache(16)
        for _ in range(40):
            mx.eval(kept.update_and_fetch(token, token))
        kept.rewind(8)
        taken = [peak_bytes(lambda: kept.update_and_fetch(token, token)) for _ in range(8)]
    if max(taken) > 32 * token.nbytes:
        fail(Kind.VALUES, "a call after a rewind allocated as much as all keys: the cache is copied", case)


def test_task_1_cache_capacity_follows_block():
    """A block of 400 tokens is filled without a copy."""
    draw = normals(13)
    first, token = draw(1, 4, 250, 64), draw(1, 4, 1, 64)
    case = "float32, key and value 1 x 4 x 250 x 64, block 400, then 40 calls of one token each"
    with noted(case):
        kept = cache.KVCache(400)
        mx.eval(kept.update_and_fetch(first, first))
        taken = [peak_bytes(lambda: kept.update_and_fetch(token, token)) for _ in range(40)]
    if max(taken) > 250 * token.nbytes:
        fail(Kind.VALUES, "a call within the first block allocated as much as all keys: the cache is copied", case)


OTHERS = {
    "another batch": (1, 3, 2, 4),
    "other heads": (2, 1, 2, 4),
    "another D": (2, 3, 2, 1),
}


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS.keys())
def test_task_1_cache_refuses_other_shapes(shape):
    """Includes shapes that would broadcast; a rejected call does not change the cache."""
    key, value = pair(9, 2, 3, 6, 4)
    case = f"float32, key 2 x 3 x 5 x 4, then key {' x '.join(map(str, shape))}"
    for block in (4, 3):  # with space left, and almost none
        with noted(case):
            kept = cache.KVCache(block)
            kept.update_and_fetch(key[:, :, :5], value[:, :, :5])
        with raises_value_error(case):
            mx.eval(kept.update_and_fetch(mx.ones(shape), mx.ones(shape)))
        with noted(case):
            keys, values = kept.update_and_fetch(key[:, :, 5:], value[:, :, 5:])
        compare(keys, to_float64(key), mx.float32, 0.0, f"the next keys that fit; {case}", key.size)
        compare(values, to_float64(value), mx.float32, 0.0, f"the next values that fit; {case}", key.size)


def test_task_1_cache_refuses_another_dtype():
    key, value = pair(10, 2, 3, 2, 4)
    kept = cache.KVCache(4)
    kept.update_and_fetch(key, value)
    with raises_value_error(case := "float32, key 2 x 3 x 2 x 4, then the same in float16"):
        mx.eval(kept.update_and_fetch(key.astype(mx.float16), value.astype(mx.float16)))
    unchanged(kept, 2, case)


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS.keys())
def test_task_1_cache_keeps_its_sizes_after_dropping_all_tokens(shape):
    """The first call fixes them, even if its tokens are rewound."""
    key, value = pair(14, 2, 3, 5, 4)
    case = f"float32, key 2 x 3 x 5 x 4, rewind(5), and new ones of {' x '.join(map(str, shape))}"
    with noted(case):
        kept = cache.KVCache(4)
        kept.update_and_fetch(key, value)
        kept.rewind(5)
    with raises_value_error(case):
        mx.eval(kept.update_and_fetch(mx.ones(shape), mx.ones(shape)))
    unchanged(kept, 0, case)


MESSAGES = {
    "another batch": ((7, 3, 1, 4), mx.float32, ("7", "2")),
    "other heads": ((2, 7, 1, 4), mx.float32, ("7", "3")),
    "another D": ((2, 3, 1, 7), mx.float32, ("7", "4")),
    "another dtype": ((2, 3, 1, 4), mx.float16, ("float16", "float32")),
}


@pytest.mark.parametrize("what", MESSAGES)
def test_task_1_cache_message_states_what_was_given_and_what_is_needed(what):
    shape, dtype, words = MESSAGES[what]
    kept = cache.KVCache(4)
    kept.update_and_fetch(*pair(15, 2, 3, 5, 4))
    case = f"float32, key 2 x 3 x 5 x 4, then key and value {' x '.join(map(str, shape))} of {dtype_word(dtype)}"
    with raises_value_error(case, *words):
        mx.eval(kept.update_and_fetch(mx.ones(shape, dtype), mx.ones(shape, dtype)))
    case = f"float32, key 2 x 3 x 1 x 4, value {' x '.join(map(str, shape))} of {dtype_word(dtype)}"
    with raises_value_error(case, *words):
        mx.eval(kept.update_and_fetch(mx.ones((2, 3, 1, 4)), mx.ones(shape, dtype)))


def unchanged(kept, count, case):
    """Check that a rejected call has left offset as it was."""
    if kept.offset != count:
        headline = "a rejected call has changed offset"
        fail(Kind.VALUES, headline, case, f"expected  {count}", f"got       {kept.offset}")


@pytest.mark.parametrize("shape", [(2, 3, 1, 4), (1, 3, 2, 4), (2, 3, 2, 1), (2, 3, 2, 4)], ids=str)
def test_task_1_cache_refuses_values_that_differ_from_keys(shape):
    """In shape, or else in dtype."""
    kept, dtype = cache.KVCache(4), mx.float16 if shape == (2, 3, 2, 4) else mx.float32
    case = f"float32, key 2 x 3 x 2 x 4, value {' x '.join(map(str, shape))} of {dtype_word(dtype)}"
    with raises_value_error(case):
        mx.eval(kept.update_and_fetch(mx.ones((2, 3, 2, 4)), mx.ones(shape, dtype)))
    unchanged(kept, 0, case)
    kept.update_and_fetch(*pair(16, 2, 3, 5, 4))
    with raises_value_error(f"{case}, after 5 tokens"):
        mx.eval(kept.update_and_fetch(mx.ones((2, 3, 2, 4)), mx.ones(shape, dtype)))
    unchanged(kept, 5, f"{case}, after 5 tokens")


@pytest.mark.parametrize(("length", "dtype"), [(2, mx.float32), (3, mx.float16)], ids=["shape", "dtype"])
def test_task_1_cache_a_rejected_first_call_fixes_no_sizes(length, dtype):
    """The next call may have other sizes."""
    key, value = pair(12, 2, 1, 3, 6)
    wrong = f"value 1 x 2 x {length} x 4 of {dtype_word(dtype)}"
    case = f"float32, key 1 x 2 x 3 x 4, {wrong}, which raises; then a valid call: both 2 x 1 x 3 x 6"
    kept = cache.KVCache(4)
    with raises_value_error(case):
        mx.eval(kept.update_and_fetch(mx.zeros((1, 2, 3, 4)), mx.zeros((1, 2, length, 4), dtype)))
    with noted(case):
        keys, values = kept.update_and_fetch(key, value)
    for name, actual, x in (("keys", keys, key), ("values", values, value)):
        compare(actual, to_float64(x), mx.float32, 0.0, f"{name}; {case}", x.size)


@pytest.mark.parametrize("count", [6, 260, -1])
def test_task_1_cache_refuses_to_rewind_more_than_there_is(count):
    case = f"float32, key 2 x 3 x 5 x 4, rewind({count})"
    kept = cache.KVCache()
    kept.update_and_fetch(*pair(11, 2, 3, 5, 4))
    with raises_value_error(case, str(abs(count)), "5"):
        kept.rewind(count)
    if kept.offset != 5:
        fail(Kind.VALUES, "a rejected rewind has changed offset", case, "expected  5", f"got       {kept.offset}")
