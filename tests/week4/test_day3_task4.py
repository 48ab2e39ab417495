"""Task 4.3.4, the rolling cache, checked against dense attention with the mask, around the window's length."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.in_parts import Parts
from tests.week4.formulas_day3 import sees, window64, windowed64

from tiny_llm.local_attention import cache
from tiny_llm_course.testkit.again import backwards
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


def can_forget(offset, count, window, sinks):
    """Return whether the given number of junk tokens can be cached and rewound."""
    return count == 1 or offset + count <= sinks + window


def parts_around(seed, length, window, sinks):
    """A sequence in calls: all at once, one by one, or random, some with junk that is cached and rewound."""
    generator, parts, at = np.random.default_rng(seed), [], 0
    while at < length:
        size = (length, 1, int(generator.integers(1, window + 3)), int(generator.integers(1, 4)))[seed % 4]
        if (
            (junk := min(length, int(generator.integers(0, 4))))
            and seed % 4 > 1
            and can_forget(at, junk, window, sinks)
        ):
            parts.append(-junk)
        parts.append(min(size, length - at))
        at += parts[-1]
    return Parts(parts)


def calls(key, value, window, sinks, parts):
    """Yield the keys and values that the learner's cache returns for each call, with the call's first position."""
    kept, at = cache.RollingCache(window, sinks), 0
    for size in parts:
        if size < 0:
            mx.eval(kept.update_and_fetch(backwards(key)[:, :, :-size], backwards(value)[:, :, :-size]))
            kept.rewind(-size)
            continue
        keys, values = kept.update_and_fetch(key[:, :, at : at + size], value[:, :, at : at + size])
        yield at, size, keys, values
        at += size


def fetches(number):
    """Return the keys, 0, or the values, 1, of all calls, concatenated; those of a single token sorted.

    Each call's results are kept while later calls write.
    """

    def all_fetches(key, value, window, sinks, parts):
        found = []
        for _, size, *both in calls(key, value, window, sinks, parts):
            found.append((size, both[number]))
            mx.eval(both[number])
        return mx.concatenate([mx.sort(x, axis=2) if size == 1 else x for size, x in found], axis=2)

    return all_fetches


def fetches64(number):
    def by_formula(key, value, window, sinks, parts, *, r=exact):
        x, found, at = (key, value)[number], [], 0
        for size in parts:
            if size > 0:
                seen = [j for j in range(at + size) if j >= at or sees(at, j, window, sinks)]
                found.append(np.sort(x[:, :, seen], axis=2) if size == 1 else x[:, :, seen])
                at += size
        return r(np.concatenate(found, axis=2))

    return by_formula


key_fetches, value_fetches, key_fetches64, value_fetches64 = fetches(0), fetches(1), fetches64(0), fetches64(1)


def rolled(query, key, value, window, sinks, parts):
    """Attention over each call's results, by MLX's operator, with the mask that the docstring names."""
    found = []
    for at, size, keys, values in calls(key, value, window, sinks, parts):
        mask = mx.array(window64(size, keys.shape[2], window, sinks).astype(np.float32)).astype(query.dtype)
        some = query[:, :, at : at + size]
        scale = query.shape[-1] ** -0.5
        found.append(mx.fast.scaled_dot_product_attention(some, keys, values, scale=scale, mask=mask))
        mx.eval(found[-1])
    return mx.concatenate(found, axis=2)


def rolled64(query, key, value, window, sinks, parts, *, r=exact):
    """The dense form with the mask, for the whole sequence at once."""
    return windowed64(query, key, value, window, sinks, r=r)


def rolls(window, sinks, parts, *, seed, batch=2, heads=3, dims=5, dtype=mx.float32):
    """Check the results in every dtype, and in float32 also the attention over them."""
    length, draw = sum(size for size in parts if size > 0), normals(seed, dtype)
    key, value = draw(batch, heads, length, dims), draw(batch, heads, length, dims)
    agrees(key_fetches, key_fetches64, key, value, window, sinks, Parts(parts), seed=seed)
    agrees(value_fetches, value_fetches64, key, value, window, sinks, Parts(parts), seed=seed)
    if dtype == mx.float32:
        query = draw(batch, 2 * heads, length, dims)
        agrees(rolled, rolled64, query, key, value, window, sinks, Parts(parts), seed=seed)


by_parts = pytest.mark.parametrize("parts", [(9,), (1,) * 9, (4, 5), (2, 1, 5, 1), (1, 7, 1), (-1, 4, -1, 5)], ids=str)
by_kept = pytest.mark.parametrize(
    ("window", "sinks"), [(3, 0), (3, 1), (2, 3), (1, 0), (1, 2), (4, 4), (20, 0), (20, 3)]
)


@by_dtype
@by_parts
def test_task_4_rolling_fetches(parts, dtype):
    rolls(3, 1, parts, seed=1, dtype=dtype)


@by_kept
@by_parts
def test_task_4_rolling_windows(parts, window, sinks):
    rolls(window, sinks, parts, seed=2)


@pytest.mark.parametrize("length", range(1, 14))
@pytest.mark.parametrize("sinks", [0, 2])
def test_task_4_rolling_lengths_around_the_window(length, sinks):
    """A window of 5: a prompt of every length, and then one token at a time."""
    rolls(5, sinks, (length, 1, 1, 1), seed=3)


@pytest.mark.parametrize("first", [1, 4, 5, 6, 11])
def test_task_4_rolling_a_prompt_after_a_prompt(first):
    """Both shorter or longer than a window of 5."""
    for second in (2, 4, 5, 6, 12):
        rolls(5, 1, (first, second, 1, 3), seed=4)


def test_task_4_rolling_many_rounds():
    rolls(4, 2, (1,) * 40, seed=5)


@pytest.mark.parametrize("third", range(3))
def test_task_4_rolling_sweep(third):
    for n in itertools.islice(sweep(N=9, K=20, L=300, D=70, W=300), third, None, 3):
        window, sinks = n.W, n.turn(0, 4, n.L, 1)
        parts = parts_around(n.seed, n.L, window, sinks)
        if len(parts) > 40:
            parts = Parts((n.L - 9, *[1] * 9))
        rolls(window, sinks, parts, seed=n.seed, batch=n.N, heads=n.K, dims=n.D, dtype=n.dtype)


@property_test
@given(
    length=st.integers(1, 16), window=st.integers(1, 7), sinks=st.integers(0, 4), ways=st.integers(0, 3),
    seed=st.integers(0, 20),
)  # fmt: skip
def test_task_4_rolling_any_split(length, window, sinks, ways, seed):
    """However a sequence is split into calls, and whatever was cached and rewound, it equals the dense form."""
    rolls(window, sinks, parts_around(4 * seed + ways, length, window, sinks), seed=seed)


def test_task_4_rolling_counts():
    """offset is a plain int, the number of all tokens that came, however many are kept; two caches are independent."""
    case = "window 3, sinks 1, calls of 2, 5, 1 and 1 tokens, then rewind(1) and rewind(0)"
    with noted(case):
        kept, other = cache.RollingCache(3, 1), cache.RollingCache(3)
        counts = [kept.offset]
        for length in (2, 5, 1, 1):
            kept.update_and_fetch(normals(6)(1, 2, length, 3), normals(7)(1, 2, length, 3))
            counts.append(kept.offset)
        for count in (1, 0):
            kept.rewind(count)
            counts.append(kept.offset)
        counts.append(other.offset)
    if wrong := next((x for x in counts if type(x) is not int), None):
        fail(Kind.TYPE, f"offset is {type_words(wrong)}, expected an int", case)
    if counts != (expected := [0, 2, 7, 8, 9, 8, 8, 0]):
        fail(Kind.VALUES, "offset is wrong", case, f"expected  {expected}", f"got       {counts}")


def test_task_4_rolling_rotated_keys():
    """Queries and keys rotated by MLX's RoPE at the cache's offset: evicted tokens count as positions."""
    window, sinks, draw = 4, 1, normals(8)
    query, key, value = draw(1, 4, 12, 8), draw(1, 2, 12, 8), draw(1, 2, 12, 8)

    def turn(x, offset):
        return mx.fast.rope(x, 8, traditional=False, base=100.0, scale=1.0, offset=offset)

    case = "float32, query 1 x 4 x 12 x 8, window 4, sinks 1, parts 6 + 1 + 1 + 4, rotated by offset, seed 8"
    found, at = [], 0
    with noted(case):
        kept = cache.RollingCache(window, sinks)
        for size in (6, 1, 1, 4):
            some, offset = slice(at, at + size), kept.offset
            keys, values = kept.update_and_fetch(turn(key[:, :, some], offset), value[:, :, some])
            mask = mx.array(window64(size, keys.shape[2], window, sinks).astype(np.float32))
            turned = turn(query[:, :, some], offset)
            found.append(mx.fast.scaled_dot_product_attention(turned, keys, values, scale=8**-0.5, mask=mask))
            at += size
    whole = (to_float64(x) for x in (turn(query, 0), turn(key, 0), value))
    compare(mx.concatenate(found, axis=2), windowed64(*whole, window, sinks), mx.float32, 1e-5, case, query.size)


def test_task_4_rolling_memory_is_bounded():
    """A cache takes as much memory after 16 windows as after two."""
    window, sinks, token = 64, 4, normals(9)(1, 4, 1, 64)
    prompt = normals(10)(1, 4, 8 * window, 64)
    mx.eval(token, prompt)
    room = 2 * (sinks + window) * token.nbytes
    for words, size, count in (("one by one", 1, 16 * window), ("in prompts of 512", 8 * window, 2)):
        case = f"float32, key and value 1 x 4 x 1 x 64, window {window}, sinks {sinks}, {16 * window} tokens {words}"
        with noted(case):
            mx.synchronize()
            before = mx.get_active_memory()
            kept = cache.RollingCache(window, sinks)
            for _ in range(count):
                mx.eval(kept.update_and_fetch(*[token if size == 1 else prompt] * 2))
            kept.update_and_fetch(token, token)[0].tolist()
            mx.eval(vars(kept))  # what waits to be computed still holds what has been evicted
            mx.synchronize()
            held = mx.get_active_memory() - before
        if held > 2 * room:
            headline = f"the cache holds {held // 1024:,} KiB, as if nothing was evicted"
            fail(
                Kind.VALUES,
                headline,
                case,
                f"at most   {2 * room // 1024:,} KiB: twice what sinks + window tokens take",
            )


def test_task_4_rolling_leaves_the_caller_s_arrays():
    """The first tokens fill the capacity; later ones overwrite them, but not in the caller's array."""
    given = normals(11)(2, 3, 4, 5), normals(12)(2, 3, 4, 5)
    before = [to_float64(x) for x in given]
    case = "float32, key 2 x 3 x 4 x 5, window 3, sinks 1, then five single tokens, seed 11"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(*given))
        for _ in range(5):
            mx.eval(kept.update_and_fetch(mx.ones((2, 3, 1, 5)), mx.ones((2, 3, 1, 5))))
    for name, x, numbers in zip(("key", "value"), given, before, strict=True):
        if not np.array_equal(to_float64(x), numbers):
            line = "x[...] = changes an MLX array in place, for every reference to it"
            fail(Kind.INPUT_CHANGED, f"the caller's `{name}` of an earlier call was changed", case, line)


OTHERS = {
    "another batch": (1, 3, 1, 4),
    "other heads": (2, 1, 1, 4),
    "another D": (2, 3, 1, 1),
}


def differing(given, needed):
    """Return the sizes that an error's message must state: those of the axis in which two shapes differ."""
    return next((str(got), str(size)) for got, size in zip(given, needed, strict=True) if got != size)


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS.keys())
def test_task_4_rolling_refuses_other_shapes(shape):
    """Even if they would broadcast, and where no earlier token is returned; afterwards the cache works as before."""
    key, value = normals(13)(2, 3, 6, 4), normals(14)(2, 3, 6, 4)
    for window, sinks, seen in ((3, 1, [0, 3, 4, 5]), (1, 0, [5])):
        case = f"float32, key 2 x 3 x 5 x 4, window {window}, sinks {sinks}, then key {' x '.join(map(str, shape))}"
        with noted(case):
            kept = cache.RollingCache(window, sinks)
            mx.eval(kept.update_and_fetch(key[:, :, :5], value[:, :, :5]))
        with raises_value_error(case, *differing(shape, (2, 3, 1, 4))):
            mx.eval(kept.update_and_fetch(mx.ones(shape), mx.ones(shape)))
        with noted(case):
            keys, values = kept.update_and_fetch(key[:, :, 5:], value[:, :, 5:])
        for name, actual, x in (("keys", keys, key), ("values", values, value)):
            expected, words = np.sort(to_float64(x)[:, :, seen], axis=2), f"the next {name} that fit, sorted; {case}"
            compare(mx.sort(actual, axis=2), expected, mx.float32, 0.0, words, key.size)


@pytest.mark.parametrize("change", ["N", "dtype"])
def test_task_4_rolling_keeps_its_sizes_when_all_is_rewound(change):
    kept, key = cache.RollingCache(3, 1), normals(22)(2, 3, 3, 4)
    mx.eval(kept.update_and_fetch(key, key))
    kept.rewind(3)
    wrong = key[:1] if change == "N" else key.astype(mx.float16)
    with raises_value_error(f"float32, key 2 x 3 x 3 x 4, window 3, sinks 1, rewind(3), then another {change}"):
        mx.eval(kept.update_and_fetch(wrong, wrong))


def test_task_4_rolling_refuses_another_dtype():
    kept, key = cache.RollingCache(3, 1), normals(15)(2, 3, 2, 4)
    mx.eval(kept.update_and_fetch(key, key))
    with raises_value_error("float32, key 2 x 3 x 2 x 4, then the same in float16", "float16", "float32"):
        mx.eval(kept.update_and_fetch(key.astype(mx.float16), key.astype(mx.float16)))


@pytest.mark.parametrize("shape", [(2, 3, 1, 4), (1, 3, 2, 4), (2, 3, 2, 1)], ids=str)
def test_task_4_rolling_refuses_values_that_differ_from_keys(shape):
    case = f"float32, key 2 x 3 x 2 x 4, value {' x '.join(map(str, shape))}"
    with raises_value_error(case, *differing(shape, (2, 3, 2, 4))):
        mx.eval(cache.RollingCache(3, 1).update_and_fetch(mx.ones((2, 3, 2, 4)), mx.ones(shape)))


@pytest.mark.parametrize("dtypes", [(mx.float32, mx.float16), (mx.bfloat16, mx.float32)], ids=str)
def test_task_4_rolling_refuses_values_of_another_dtype(dtypes):
    """In the first call, too."""
    key, value = (mx.ones((2, 3, 2, 4), dtype) for dtype in dtypes)
    words = list(map(dtype_word, dtypes))
    with raises_value_error("key 2 x 3 x 2 x 4 in {}, value of the same shape in {}".format(*words), *words):
        mx.eval(cache.RollingCache(3, 1).update_and_fetch(key, value))


def test_task_4_rolling_a_rejected_later_call_overwrites_nothing():
    """The keys of two tokens fit, their values do not; the next two tokens still see the cached ones."""
    key, value = normals(20)(2, 3, 7, 4), normals(21)(2, 3, 7, 4)
    case = "float32, window 3, sinks 1, five tokens, then key 2 x 3 x 2 x 4 and value 2 x 3 x 2 x 1"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(key[:, :, :5], value[:, :, :5]))
    with raises_value_error(case):
        mx.eval(kept.update_and_fetch(mx.ones((2, 3, 2, 4)), mx.ones((2, 3, 2, 1))))
    with noted(case):
        keys, values = kept.update_and_fetch(key[:, :, 5:], value[:, :, 5:])
    for name, actual, x in (("keys", keys, key), ("values", values, value)):
        expected = to_float64(x)[:, :, [0, 3, 4, 5, 6]]
        compare(actual, expected, mx.float32, 0.0, f"{name} of the next two tokens; {case}", key.size)


def test_task_4_rolling_a_rejected_first_call_fixes_no_sizes():
    """The next call may have other sizes."""
    key, value = normals(18)(2, 1, 3, 6), normals(19)(2, 1, 3, 6)
    case = (
        "float32, window 4, key 1 x 2 x 3 x 4, value 1 x 2 x 2 x 4, which raises; then a valid call: both 2 x 1 x 3 x 6"
    )
    kept = cache.RollingCache(4)
    with raises_value_error(case):
        mx.eval(kept.update_and_fetch(mx.zeros((1, 2, 3, 4)), mx.zeros((1, 2, 2, 4))))
    with noted(case):
        keys, values = kept.update_and_fetch(key, value)
    for name, actual, x in (("keys", keys, key), ("values", values, value)):
        compare(actual, to_float64(x), mx.float32, 0.0, f"{name}; {case}", x.size)


# a window of 3 with one sink: the calls, the rewind, and the largest possible rewind
REWINDS = [((2,), 3, 2), ((2,), -1, 2), ((5,), 2, 1), ((1,) * 9, 2, 1), ((9, 1), 10, 1), ((9,), -2, 1)]


@pytest.mark.parametrize(("parts", "count", "most"), REWINDS, ids=str)
def test_task_4_rolling_refuses_to_rewind_too_far(parts, count, most):
    case = f"float32, window 3, sinks 1, calls of {Parts(parts)} tokens, rewind({count})"
    with noted(case):
        kept, total = cache.RollingCache(3, 1), sum(parts)
        for size in parts:
            mx.eval(kept.update_and_fetch(mx.ones((1, 2, size, 3)), mx.ones((1, 2, size, 3))))
    with raises_value_error(case, str(abs(count)), str(most)):
        kept.rewind(count)
    if kept.offset != total:
        fail(
            Kind.VALUES,
            "a rewind that raised has changed offset",
            case,
            f"expected  {total}",
            f"got       {kept.offset}",
        )


@pytest.mark.parametrize(("count", "again"), [(7, 1), (5, 1), (5, 2)])
def test_task_4_rolling_rewinds_once(count, again):
    """Overwritten tokens are gone: one token can be rewound, then none, and after the next token one again.

    Of five tokens one is left over, and after the rewind there are no more than fit: the overwritten one is still gone.
    """
    key, last = normals(16)(1, 2, count + 2, 3), slice(count - 1, count)
    case = f"float32, window 3, sinks 1, {count} tokens, rewind(1)"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(key[:, :, :count], key[:, :, :count]))
        kept.rewind(1)
    with raises_value_error(f"{case}, rewind({again})", str(again), "0"):
        kept.rewind(again)
    case += f", rewind({again}), which raises, token {count - 1}, rewind(1)"
    with noted(case):
        mx.eval(kept.update_and_fetch(key[:, :, last], key[:, :, last]))
        kept.rewind(1)
    case += f", tokens {count - 1} to {count + 1}"
    with noted(case):
        keys, _ = kept.update_and_fetch(key[:, :, count - 1 :], key[:, :, count - 1 :])
    expected = to_float64(key)[:, :, [0, *range(count - 3, count + 2)]]
    compare(keys, expected, mx.float32, 0.0, case, key.size)


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_task_4_rolling_rewinds_all_that_fits(count):
    """Nothing is overwritten while there is capacity: any number can be rewound."""
    key, more = normals(17)(2, 3, 4, 5), normals(18)(2, 3, 4, 5)
    case = f"float32, key 2 x 3 x 4 x 5, window 3, sinks 1, rewind({count}), then 4 tokens, seed 17"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(key, key))
        kept.rewind(count)
        keys, _ = kept.update_and_fetch(more, more)
    before = 4 - count
    seen = [j for j in range(before) if sees(before, j, 3, 1)]
    expected = np.concatenate([to_float64(key)[:, :, seen], to_float64(more)], axis=2)
    compare(keys, expected, mx.float32, 0.0, case, key.size)


@pytest.mark.parametrize(("window", "sinks"), [(0, 0), (-1, 2), (2, -3)])
def test_task_4_rolling_refuses_invalid_windows(window, sinks):
    with raises_value_error(f"RollingCache({window}, {sinks})", str(min(window, sinks))):
        cache.RollingCache(window, sinks)
