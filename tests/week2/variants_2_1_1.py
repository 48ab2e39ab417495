"""Reference variants of task 2.1.1, the cache."""

from functools import partial

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusal, refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.1.1")


def fetched(program, *lengths, block=4, dtype=mx.float32, seed=1):
    """Return keys and values of every call, all kept to the end. A negative length is a rewind."""
    draw, kept, found = normals(seed, dtype), program(block), []
    for length in lengths:
        if length < 0:
            kept.rewind(-length)
            continue
        found += kept.update_and_fetch(draw(2, 3, length, 5), draw(2, 3, length, 5))
        mx.eval(found)
    return *found, mx.array(kept.offset)


def refused(program, shape, dtype=mx.float32, value=None):
    """Return whether a key and value are rejected after keys of 2 x 3 x 2 x 5, and the token count afterwards."""
    kept = program(4)
    kept.update_and_fetch(mx.ones((2, 3, 2, 5)), mx.ones((2, 3, 2, 5)))
    return mx.array(
        [refusal(lambda: kept.update_and_fetch(mx.ones(shape, dtype), mx.ones(value or shape, dtype))), kept.offset]
    )


def emptied(program):
    """Return a cache after five tokens have been rewound."""
    kept = program(4)
    kept.update_and_fetch(mx.ones((1, 2, 5, 3)), mx.ones((1, 2, 5, 3)))
    kept.rewind(5)
    return kept


def rewound(program, count):
    """Return whether rewinding `count` of five tokens raises, and the token count afterwards."""
    kept = program(4)
    kept.update_and_fetch(mx.ones((1, 2, 5, 3)), mx.ones((1, 2, 5, 3)))
    return mx.array([refusal(lambda: kept.rewind(count)), kept.offset])


known.probe_table(
    pieces=lambda program: fetched(program, 3, 2, 4, 1, 9),
    # The arrays are full after the first call and after the third.
    whole_blocks=lambda program: fetched(program, 4, 1, 3, 4, seed=2),
    one_call=lambda program: fetched(program, 3, seed=3),
    rewound=lambda program: fetched(program, 6, -3, 2, -1, 1, seed=4),
    # Earlier fetches are kept while their slots are overwritten.
    rewound_when_full=lambda program: fetched(program, 4, -2, 2, seed=5),
    rewound_to_nothing=lambda program: fetched(program, 2, -2, 3, seed=6),
    refuses_shapes=lambda program: tuple(
        refused(program, shape) for shape in ((1, 3, 2, 5), (2, 1, 2, 5), (2, 3, 2, 1), (2, 3, 1, 5))
    ),
    refuses_dtypes=lambda program: refused(program, (2, 3, 1, 5), mx.float16),
    refuses_a_value=lambda program: refused(program, (2, 3, 2, 5), value=(2, 3, 1, 5)),
    refuses_unlike_values=lambda program: refusals(
        lambda value: program(4).update_and_fetch(mx.ones((2, 3, 2, 5)), value),
        [*map(mx.ones, [(1, 3, 2, 5), (2, 3, 2, 1), (2, 3, 1, 5)]), mx.ones((2, 3, 2, 5), mx.float16)],
    ),
    refuses_the_first_call=lambda program: refusals(
        partial(lambda kept, shapes: kept.update_and_fetch(*map(mx.ones, shapes)), program(4)),
        [((1, 2, 3, 4), (1, 2, 2, 4)), ((2, 1, 3, 6), (2, 1, 3, 6))],
    ),
    refuses_rewinds=lambda program: tuple(rewound(program, count) for count in (6, -1, 5, 0)),
    refuses_when_emptied=lambda program: refusals(
        lambda shape: emptied(program).update_and_fetch(mx.ones(shape), mx.ones(shape)),
        [(1, 2, 2, 3), (2, 2, 2, 3), (1, 2, 2, 4)],
    ),
)
known.probe_table(mx.float16, half=lambda program: fetched(program, 3, 2, dtype=mx.float16, seed=7))


@known.probe()
def cache_caller(program):
    """Return the caller's arrays after their slots have been overwritten."""
    draw, kept = normals(8), program(4)
    key, value = draw(1, 2, 4, 3), draw(1, 2, 4, 3)
    kept.update_and_fetch(key, value)
    kept.rewind(2)
    mx.eval(kept.update_and_fetch(draw(1, 2, 2, 3), draw(1, 2, 2, 3)))
    return key, value


@known.probe()
def cache_memory(program):
    """Return whether only new blocks copy the cache (0), a few other calls do (1), many (2), or every call (3)."""
    token, kept, copied = normals(9)(1, 4, 1, 64), program(16), 0
    for number in range(48):
        taken = peak_bytes(lambda: kept.update_and_fetch(token, token))
        copied += number >= 16 and taken > number * token.nbytes
    return mx.array(sum(copied > most for most in (2, 6, 31)))


@known.probe()
def cache_memory_after_a_rewind(program):
    """Return whether a call copies the cache although a rewind has left enough slots."""
    token, kept = normals(10)(1, 4, 1, 64), program(16)
    for _ in range(30):
        mx.eval(kept.update_and_fetch(token, token))
    kept.rewind(4)
    return mx.array(peak_bytes(lambda: kept.update_and_fetch(token, token)) > 26 * token.nbytes)


@known.sized("256 tokens, one at a time, key and value 1 x 8 x 1 x 128")
def sized(program):
    token = normals(1)(1, 8, 1, 128)

    def run():
        kept = program()
        for _ in range(256):
            keys, values = kept.update_and_fetch(token, token)
            mx.eval(keys, values)
        return keys

    return run


END = "end = self.offset + key.shape[2]"
GROWTH = "-(-end // self._block) * self._block - capacity"
COMPARED = "(kept.shape, kept.dtype) != ((batch, heads, capacity, dims), new.dtype)"
UNLIKE = "if (value.shape, value.dtype) != (key.shape, key.dtype):"
RETURNED = "return keys[:, :, :end], values[:, :, :end]"
known.change(
    "offset-stays",
    ("self._keys, self._values, self.offset = keys, values, end", "self._keys, self._values = keys, values"),
    fact="offset stays at 0, so every call overwrites the one before",
    question="After a call with three tokens, where does the next one start writing?",
)
known.change(
    "offset-by-one",
    ("self.offset = keys, values, end", "self.offset = keys, values, self.offset + 1"),
    fact="offset advances by 1, regardless of the number of tokens",
    question="A prompt of five tokens has been prefilled. What is the position of the next token?",
)
known.change(
    "only-the-new",
    (RETURNED, "return key, value"),
    fact="only the new keys and values are returned",
    question="Which keys do the new queries attend to?",
)
known.change(
    "whole-capacity-returned",
    (RETURNED, "return keys, values"),
    fact="the whole arrays are returned, including the slots that have not been written yet",
    question="How many tokens does your cache hold, and how many slots does the returned array have?",
)
known.change(
    "growth-loses-the-old",
    ("mx.concatenate([kept, more], axis=2)", "mx.zeros((batch, heads, capacity + more.shape[2], dims), new.dtype)"),
    fact="the cached tokens are lost whenever the arrays grow",
    question="When the arrays are full, you allocate larger ones. What do they contain?",
)
known.change(
    "growth-by-the-token",
    (GROWTH, "end - capacity"),
    fact="every call copies the whole cache, not only the new tokens",
    question="How many numbers does your cache copy when token 1,000 arrives?",
)
known.change(
    "one-block-only",
    (GROWTH, "self._block"),
    fact="the arrays grow by a single block, even when the new tokens need more",
    question="Ten tokens arrive, and block is 4. How many blocks do they need?",
)
for name, case, when in (("first-block-only", "kept is None", "first"), ("next-block-only", "capacity", "last")):
    known.change(
        name,
        (GROWTH, f"(self._block if {case} else {GROWTH})"),
        fact=f"the {when} growth is a single block, even when the new tokens need more",
        question="Ten tokens arrive, and block is 4. How many blocks do they need?",
    )
known.change(
    "copied-when-exactly-full",
    ("end <= capacity", "end < capacity"),
    fact="the cache is copied when the new tokens fill its arrays exactly",
    question="The arrays have 16 slots, and token 16 arrives. Is there a slot for it?",
)
known.change(
    "keys-for-values",
    (RETURNED, "return values[:, :, :end], keys[:, :, :end]"),
    fact="keys and values are returned in swapped order",
    question="Which of the two does the caller expect first?",
)
known.change(
    "keys-written-twice",
    ("values[:, :, self.offset : end] = value", "values[:, :, self.offset : end] = key"),
    fact="the keys are written into the values as well",
    question="What do you write into the values?",
)
known.change(
    "one-array-for-both",
    (END, END + "\nif self._keys is None:\n    self._keys = self._values = self._grow(None, key, end)"),
    fact="the initial arrays of keys and values are one array, so the values overwrite the keys",
    question="After `a = b = mx.zeros(3)`, what is in b after a[0] = 1?",
)
known.change(
    "caller-s-array",
    ("more = mx.zeros(", "if kept is None:\n    return new\nmore = mx.zeros("),
    fact="the first array passed in is kept and later modified in place",
    question="Who else holds a reference to the array that you keep, and what does x[...] = do to it?",
)
known.change(
    "fetched-when-full",
    (RETURNED, "return tuple(x if end == x.shape[2] else x[:, :, :end] for x in (keys, values))"),
    fact="the cache returns its own arrays when they are full, and later modifies them in place",
    question="After a rewind you write into an array. Which caller may still hold that array?",
)
for name, axis, end, fact, question in (
    (
        "never-truncated",
        *(2, ""),
        "every call concatenates to all earlier keys and values, including those that rewind has dropped",
        "After rewind(2), which tokens do your arrays still hold?",
    ),
    (
        "joined-as-tokens",
        *(2, "self.offset"),
        "every call concatenates the new keys and values to the cached ones, and so copies the whole cache",
        "To add one token to 1,000, how many tokens does your concatenation copy?",
    ),
    (
        "joined-as-heads",
        *(1, "self.offset"),
        "new keys and values are concatenated along the heads instead of the tokens",
        "A cache of 2 x 3 x 4 x 5 gets one more token. What is its shape afterwards?",
    ),
    (
        "joined-as-features",
        *(3, "self.offset"),
        "new keys and values are concatenated along the features instead of the tokens",
        "A cache of 2 x 3 x 4 x 5 gets one more token. What is its shape afterwards?",
    ),
):
    edits = [
        (
            f"{x}s[:, :, self.offset : end] = {x}",
            f"{x}s = {x} if self._{x}s is None else mx.concatenate([self._{x}s[:, :, :{end}], {x}], {axis})",
        )
        for x in ("key", "value")
    ]
    known.change(name, *edits, (RETURNED, "return keys, values"), fact=fact, question=question)
known.change(
    "rewind-forgets-nothing",
    ("self.offset -= count", "pass"),
    fact="rewind does not change offset",
    question="Where are the tokens written that arrive after a rewind?",
)
known.change(
    "rewind-to",
    ("self.offset -= count", "self.offset = count"),
    fact="rewind(count) keeps count tokens instead of dropping them",
    question="The cache holds six tokens. How many remain after rewind(2)?",
)
known.change(
    "rewind-too-far",
    ("if not 0 <= count <= self.offset:", "if count < 0:"),
    fact="rewind accepts more tokens than the cache holds",
    question="The cache holds five tokens. What is your offset after rewind(6)?",
)
known.change(
    "rewind-as-far-as-it-goes",
    ("if not 0 <= count <= self.offset:", "if count < 0:"),
    ("self.offset -= count", "self.offset = max(0, self.offset - count)"),
    fact="rewinding more tokens than the cache holds empties it without an error",
    question="A caller rewinds six tokens of five. Is the rest of its bookkeeping likely to be right?",
)
known.change(
    "rewind-forwards",
    ("if not 0 <= count <= self.offset:", "if count > self.offset:"),
    fact="a negative count is accepted, and offset advances over unwritten slots",
    question="What does rewind(-1) do to your offset?",
)
known.change(
    "rewind-never-all",
    ("0 <= count <= self.offset", "0 <= count < self.offset"),
    fact="the first token cannot be rewound",
    question="May a cache become empty?",
)
known.change(
    "shapes-not-compared",
    (COMPARED, "kept.dtype != new.dtype"),
    fact="keys of a different shape are accepted wherever they broadcast",
    question="What does an assignment do with a batch of 1 into an array for a batch of 2?",
)
known.change(
    "offset-moved-too-soon",
    ("wanted = f", "self.offset = end\nwanted = f"),
    fact="a rejected call advances offset",
    question="A call raises an error. At which position do you write the next key?",
)
known.change(
    "dtype-not-compared",
    (COMPARED, "kept.shape != (batch, heads, capacity, dims)"),
    fact="keys of a different dtype are silently converted",
    question="What does an assignment do with float16 numbers into a float32 array?",
)
known.change(
    "values-not-compared",
    (UNLIKE, "if value.dtype != key.dtype:"),
    fact="values whose shape differs from the keys' are accepted",
    question="Five keys arrive with three values. What should happen?",
)
known.change(
    "value-dtype-not-compared",
    ("(value.shape, value.dtype) != (key.shape, key.dtype)", "value.shape != key.shape"),
    fact="values whose dtype differs from the keys' are accepted",
    question="Keys arrive in float32, and values in float16. What should happen?",
)
known.change(
    "sizes-of-a-rejected-call",
    (UNLIKE, f"self._keys = self._grow(self._keys, key, key.shape[2])\n{UNLIKE}"),
    fact="a rejected first call fixes the sizes, because the cache is allocated before `value` is checked",
    question="The first call raises. Which sizes may the next call have?",
)
known.change(
    "checked-after-the-write",
    (UNLIKE, "if False:"),
    (COMPARED, "False"),
    ("keys, values = self._grow", "keys, values = self._keys, self._values = self._grow"),
    (
        RETURNED,
        "if (key.shape, key.dtype) != (value.shape, value.dtype) or (*key.shape[:2], *key.shape[3:], key.dtype) != (\n"
        "    *keys.shape[:2], *keys.shape[3:], keys.dtype\n"
        "):\n"
        "    raise ValueError([(x.shape, x.dtype) for x in (key, value, keys)])\n"
        f"{RETURNED}",
    ),
    fact="key and value are checked only after they have been written",
    question="A call raises. What has it already changed in the cache?",
)
known.change(
    "values-compared-in-the-first-call",
    (UNLIKE, f"if self._keys is None and {UNLIKE.removeprefix('if ')}"),
    fact="value is compared with key in the first call only",
    question="The cache holds five tokens. Two keys arrive, with one value. What does the assignment do?",
)
known.change(
    "sizes-forgotten-when-empty",
    (END, f"if self.offset == 0:\n    self._keys = self._values = None\n{END}"),
    fact="an empty cache accepts any sizes, even if earlier tokens fixed them",
    question="All tokens are rewound. Which call fixes the sizes?",
)
known.change(
    "float32-kept",
    ("- capacity, dims), new.dtype)", "- capacity, dims))"),
    (COMPARED, "kept.shape != (batch, heads, capacity, dims)"),
    fact="keys and values are stored in float32, whatever their dtype",
    question="What is the default dtype of mx.zeros?",
)
known.change(
    "new-before-old",
    ("keys[:, :, :end], values[:, :, :end]", "tuple(mx.roll(x[:, :, :end], key.shape[2], 2) for x in (keys, values))"),
    fact="the new keys and values are placed before the old ones",
    question="In what order did the tokens arrive, and in what order do you return them?",
)
known.change(
    "offset-moved-first",
    ("if (value.shape, value.dtype)", "self.offset += key.shape[2]\nif (value.shape, value.dtype)"),
    (END, "end = self.offset"),
    ("keys[:, :, self.offset : end] = key", "keys[:, :, end - key.shape[2] : end] = key"),
    ("values[:, :, self.offset : end] = value", "values[:, :, end - key.shape[2] : end] = value"),
    fact="offset advances before value is compared with key",
    question="A call is rejected because value does not match key. What is offset afterwards?",
)


@known.accepted("doubling")
class Doubling:
    def __init__(self, block=256):
        self.offset, self.room, self.block = 0, 0, block
        self.kept = self.like = None

    def update_and_fetch(self, key, value):
        like = [(*x.shape[:2], *x.shape[3:], x.dtype) for x in (key, value)]
        if key.shape != value.shape or like[0] != like[1] or (self.kept is not None and like[0] != self.like):
            raise ValueError(f"key {key.shape} {key.dtype}, value {value.shape} {value.dtype}, cache {self.like}")
        self.like = like[0]
        end = self.offset + key.shape[2]
        while self.room < end:
            self.room = max(2 * self.room, self.block)
        if self.kept is None or self.kept[0].shape[2] < self.room:
            larger = [mx.zeros((*x.shape[:2], self.room, x.shape[3]), x.dtype) for x in (key, value)]
            if self.kept is not None:
                for new, old in zip(larger, self.kept, strict=True):
                    new[:, :, : old.shape[2]] = old
            self.kept = larger
        for whole, x in zip(self.kept, (key, value), strict=True):
            whole[..., self.offset : end, :] = x
        self.offset = end
        return tuple(whole[..., :end, :] for whole in self.kept)

    def rewind(self, count):
        if count < 0 or count > self.offset:
            raise ValueError(f"{count} of {self.offset}")
        self.offset -= count


@known.accepted("keys-and-values-in-one")
class KeysAndValuesInOne:
    def __init__(self, block=256):
        self.offset, self.block, self.both = 0, block, None

    def update_and_fetch(self, key, value):
        if key.shape != value.shape or key.dtype != value.dtype:
            raise ValueError(f"key is {key.shape} {key.dtype}, value is {value.shape} {value.dtype}")
        (batch, heads, length, dims), end = key.shape, self.offset + key.shape[2]
        if self.both is None:
            self.both = mx.zeros((2, batch, heads, 0, dims), key.dtype)
        if (self.both.dtype, self.both.shape[1:3], self.both.shape[4]) != (key.dtype, (batch, heads), dims):
            raise ValueError(f"{key.shape} {key.dtype} does not fit {self.both.shape} {self.both.dtype}")
        while self.both.shape[3] < end:
            more = mx.zeros((2, batch, heads, self.block, dims), key.dtype)
            self.both = mx.concatenate([self.both, more], axis=3)
        self.both[:, :, :, self.offset : end] = mx.stack([key, value])
        self.offset += length
        return self.both[0, :, :, : self.offset], self.both[1, :, :, : self.offset]

    def rewind(self, count):
        if count not in range(self.offset + 1):
            raise ValueError(f"{count} is not in 0 to {self.offset}")
        self.offset -= count
