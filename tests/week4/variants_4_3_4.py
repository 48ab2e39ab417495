"""Known programs of task 4.3.4, the rolling cache."""

from functools import partial

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal, refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.3.4")


def fetched(program, *lengths, window=3, sinks=1, dtype=mx.float32, seed=1):
    """Return all calls' keys and values, kept to the end; a single token's in any order. Negative lengths rewind."""
    draw, kept, found, alone = normals(seed, dtype), program(window, sinks), [], set()
    for length in lengths:
        if length < 0:
            kept.rewind(-length)
            continue
        both = kept.update_and_fetch(draw(2, 3, length, 5), draw(2, 3, length, 5))
        alone |= {len(found), len(found) + 1} if length == 1 else set()
        found += both
        mx.eval(found)
    return *(mx.sort(x, axis=2) if i in alone else x for i, x in enumerate(found)), mx.array(kept.offset)


def filled(program, *lengths):
    """Return a cache with window 3 and 1 sink, after calls of these lengths."""
    kept = program(3, 1)
    for length in lengths:
        mx.eval(kept.update_and_fetch(*[mx.ones((2, 3, length, 5))] * 2))
    return kept


def rewound(program, lengths, counts):
    """Return whether each count raises in rewind, and the offset after that."""
    found = []
    for count in counts:
        kept = filled(program, *lengths)
        found += [refusal(partial(kept.rewind, count)), kept.offset]
    return mx.array(found)


def refused_when_empty(program):
    """Return whether another batch raises after all tokens were dropped."""
    kept = filled(program, 2)
    kept.rewind(2)
    return refusals(lambda x: kept.update_and_fetch(x, x), [mx.ones((1, 3, 2, 5))])


def refused(program, shape, dtype):
    """Return whether a key and value raise after two tokens, and the offset after that."""
    kept = filled(program, 2)
    return mx.array([refusal(lambda: kept.update_and_fetch(*[mx.ones(shape, dtype)] * 2)), kept.offset])


known.probe_table(
    one_by_one=lambda program: fetched(program, *[1] * 9),
    without_sinks=lambda program: fetched(program, *[1] * 8, sinks=0, seed=2),
    long_prompt=lambda program: fetched(program, 9, 1, 1, seed=3),
    prompts=lambda program: fetched(program, 2, 5, 4, 2, 1, seed=4),
    more_sinks=lambda program: fetched(program, 3, 1, 1, 4, 1, window=2, sinks=4, seed=5),
    room_for_all=lambda program: fetched(program, 3, 1, 2, 1, window=20, sinks=2, seed=6),
    rewound=lambda program: fetched(program, 4, -2, 1, 1, 1, -1, 1, 3, seed=7),
    # An earlier result is kept while another token overwrites its slot.
    rewound_when_full=lambda program: fetched(program, 6, 1, -1, 1, -1, 2, seed=8),
    refuses_rewinds=lambda program: (rewound(program, (2,), (3, -1, 2, 0)), rewound(program, (4,), (5, 4, 1))),
    refuses_to_go_back=lambda program: (rewound(program, (9,), (1, 2, 9)), rewound(program, (1,) * 6, (1, 2, 3))),
    refuses_to_go_back_twice=lambda program: tuple(refusals(filled(program, n).rewind, (1, 1)) for n in (7, 5)),
    refuses_shapes=lambda program: tuple(
        refused(program, shape, dtype)
        for shape, dtype in [((1, 3, 1, 5), mx.float32), ((2, 3, 1, 1), mx.float32), ((2, 3, 1, 5), mx.float16)]
    ),
    refuses_unlike_values=lambda program: refusals(
        lambda value: program(3, 1).update_and_fetch(mx.ones((2, 3, 2, 5)), mx.ones(*value)),
        [((1, 3, 2, 5),), ((2, 3, 2, 1),), ((2, 3, 1, 5),), ((2, 3, 2, 5), mx.float16)],
    ),
    refuses_the_first_call=lambda program: refusals(
        partial(lambda kept, shapes: kept.update_and_fetch(*map(mx.ones, shapes)), program(4)),
        [((1, 2, 3, 4), (1, 2, 2, 4)), ((2, 1, 3, 6), (2, 1, 3, 6))],
    ),
    refuses_others_when_empty=refused_when_empty,
    refuses_what_is_none=lambda program: refusals(lambda sizes: program(*sizes), [(0, 0), (-1, 2), (2, -1)]),
)
known.probe_table(mx.float16, half=lambda program: fetched(program, 3, 4, 1, dtype=mx.float16, seed=9))


@known.probe()
def rolling_memory(program):
    """Return whether it allocates at most twice its capacity."""
    token, found = normals(10)(1, 4, 1, 64), []
    mx.eval(token)
    for length in (1, 512):
        mx.synchronize()
        before = mx.get_active_memory()
        kept = program(64, 4)
        for _ in range(2560 // length if length > 1 else 700):
            mx.eval(kept.update_and_fetch(*[mx.broadcast_to(token, (1, 4, length, 64))] * 2))
        kept.update_and_fetch(token, token)[0].tolist()
        mx.synchronize()
        found.append(mx.get_active_memory() - before <= 4 * 68 * token.nbytes)
    return mx.array(found)


@known.sized("700 tokens, one at a time, key and value 1 x 8 x 1 x 128, window 256, sinks 4")
def sized(program):
    token = normals(1)(1, 8, 1, 128)

    def run():
        kept = program(256, 4)
        for _ in range(700):
            keys, values = kept.update_and_fetch(token, token)
            mx.eval(keys, values)
        return keys

    return run


END = "self._keys, self._values, self.offset = keys, values, end"
RECENT = "range(max(self._sinks, before - self._window + 1), before)"
KEPT = "[p for p in range(before, end) if p < self._sinks or p >= end - self._window]"
PLACE = "position if position < self._sinks else self._sinks + (position - self._sinks) % self._window"
MOST = "self.offset if self._oldest == self._sinks else self.offset - self._window + 1 - self._oldest"
THERE = "keys[:, :, :there], values[:, :, :there]"
known.change(
    "offset-of-what-is-kept",
    (END, "self._keys, self._values, self.offset = keys, values, min(end, self._sinks + self._window)"),
    fact="offset stops growing when the capacity is reached",
    question="A thousand tokens have arrived, and four are kept. What is the position of the next one?",
)
known.change(
    "offset-by-one",
    (END, "self._keys, self._values, self.offset = keys, values, self.offset + 1"),
    fact="offset advances by 1, however many tokens came",
    question="A prompt of five tokens is cached. What is the position of the next token?",
)
known.change(
    "one-too-few",
    ("self._window, self._sinks = window, sinks", "self._window, self._sinks = max(1, window - 1), sinks"),
    fact="one token less than the window is kept",
    question="With a window of 3, how many tokens does the current one see, including itself?",
)
known.change(
    "one-too-many",
    ("self._window, self._sinks = window, sinks", "self._window, self._sinks = window + 1, sinks"),
    fact="one token more than the window is kept",
    question="With a window of 3, how many tokens does the current one see, including itself?",
)
known.change(
    "one-sink-too-many",
    ("self._window, self._sinks = window, sinks", "self._window, self._sinks = window, sinks + 1"),
    ("self._oldest = sinks", "self._oldest = sinks + 1"),
    fact="one sink more than `sinks` is kept",
    question="With one sink, which positions are never evicted?",
)
known.change(
    "no-sinks",
    ("self._window, self._sinks = window, sinks", "self._window, self._sinks = window, 0"),
    ("self._oldest = sinks", "self._oldest = 0"),
    fact="the sinks are evicted like all other tokens",
    question="Which tokens stay, however long the sequence becomes?",
)
for name, written in (
    ("sinks-written-over", KEPT),
    ("sinks-written-over-in-one-ring", "[p for p in range(before, end) if p >= end - self._sinks - self._window]"),
):
    known.change(
        name,
        (PLACE, "position % (self._sinks + self._window)"),
        (KEPT, written),
        ("alone = key.shape[2] == 1", "alone = False"),
        fact="the sinks' slots are part of the ring and are overwritten on wrap-around",
        question="No slot is free. Which one does the next token overwrite?",
    )
known.change(
    "only-what-is-kept",
    ("*recent)], mx.int32)", "*recent)], mx.int32)\ncut = max(0, key.shape[2] - self._window)"),
    ("mx.concatenate([x[:, :, seen], new], axis=2)", "mx.concatenate([x[:, :, seen], new[:, :, cut:]], axis=2)"),
    fact="for a prompt longer than the window, only the kept tokens are returned",
    question="What does the first query of a long prompt attend to?",
)
known.change(
    "cut-before-it-is-returned",
    (
        "return fetched[0], fetched[1]",
        "many = fetched[0].shape[2]\n"
        "left = mx.array([i for i in range(many) if i < self._sinks or i >= many - self._window])\n"
        "return fetched[0][:, :, left], fetched[1][:, :, left]",
    ),
    fact="old and new tokens are cut to the capacity before they are returned",
    question="Two tokens come when the cache is full. Which old tokens does the first of the two see?",
)
known.change(
    "cut-after-it-is-returned",
    ("alone = key.shape[2] == 1", "alone = False"),
    (RECENT, "range(max(self._oldest, before - self._window), before)"),
    fact="all kept tokens are returned with the new ones, one more than the first new one sees",
    question="With a window of 3, how many older tokens does a new one see?",
)
known.change(
    "prompt-before-the-window",
    (RECENT, "range(max(self._sinks, end - self._window), before)"),
    fact="older tokens are cut for the prompt's last token, so its first tokens miss visible keys",
    question="Two tokens come, and the window is 3. How many older tokens does the first of the two see?",
)
known.change(
    "window-before-a-prompt",
    (RECENT, "range(max(self._sinks, before - self._window), before)"),
    fact="for several new tokens, `window` older tokens are returned instead of window - 1",
    question="With a window of 3, how many older tokens does the first of two new ones see?",
)
known.change(
    "window-before-every-call",
    ("alone = key.shape[2] == 1", "alone = False"),
    (RECENT, "range(max(self._sinks, before - self._window), before)"),
    fact="`window` older tokens are returned with the new ones instead of window - 1",
    question="With a window of 3, how many older tokens does a new one see?",
)
known.change(
    "only-the-new",
    ("mx.concatenate([x[:, :, seen], new], axis=2)", "new"),
    (THERE, "key, value"),
    fact="only the new keys and values are returned",
    question="What must the new queries attend to?",
)
known.change(
    "as-they-lie",
    (
        "(*range(min(self._sinks, before)), *recent)]",
        "sorted((*range(min(self._sinks, before)), *recent), key=self._slot)]",
    ),
    fact="for several new tokens, the older ones are returned in slot order, not in order of position",
    question="Token 6 was written over token 3. In which order are the mask's columns?",
)
known.change(
    "whole-capacity-returned",
    ("there = min(end, self._sinks + self._window)", "there = self._sinks + self._window"),
    fact="a single token gets all slots, including unwritten ones",
    question="After the second token, how many slots are written?",
)
known.change(
    "sinks-of-a-prompt-lost",
    (KEPT, "[p for p in range(before, end) if p >= end - self._window - self._sinks * (p < self._sinks)]"),
    fact="of a long prompt, only the last tokens are kept, and the sinks are not among them",
    question="Nine tokens come, with one sink and a window of 3. Which four are kept?",
)
known.change(
    "forgets-nothing",
    (PLACE, "position"),
    ("self._sinks + self._window, dims", "max(4096, self._sinks + self._window), dims"),
    (
        THERE,
        "tuple(mx.concatenate([x[:, :, : min(end, self._sinks)], "
        "x[:, :, max(min(end, self._sinks), end - self._window) : end]], axis=2) for x in (keys, values))",
    ),
    fact="the returned arrays are correct, but nothing is ever evicted",
    question="How many bytes does your cache take after 16 windows, and how many after two?",
)
known.change(
    "keys-for-values",
    ("return fetched[0], fetched[1]", "return fetched[1], fetched[0]"),
    fact="keys and values are returned in the wrong order",
    question="Which of the two does the caller expect first?",
)
known.change(
    "keys-written-twice",
    ("values[:, :, slots] = value[:, :, rows]", "values[:, :, slots] = key[:, :, rows]"),
    fact="the keys are also stored as values",
    question="What do you store in the values?",
)
known.change(
    "the-array-itself",
    (THERE, "(keys, values) if there == keys.shape[2] else (keys[:, :, :there], values[:, :, :there])"),
    fact="the cache's own arrays are returned when full, and later overwritten",
    question="What else refers to the array that you write to?",
)
known.change(
    "rewind-forgets-nothing",
    ("self.offset -= count", "pass"),
    fact="rewind does not lower offset",
    question="Where do tokens go that come after a rewind?",
)
known.change(
    "rewind-to",
    ("self.offset -= count", "self.offset = count"),
    fact="rewind(count) keeps count tokens instead of removing them",
    question="Four tokens are cached. How many are left after rewind(1)?",
)
known.change(
    "rewind-any-number",
    (MOST, "self.offset"),
    fact="tokens can be rewound although the window before them was overwritten",
    question="Nine tokens came, three and a sink are kept. Which does the next token see after rewind(2)?",
)
known.change(
    "rewind-never-when-full",
    (MOST, "self.offset if self._oldest == self._sinks else 0"),
    fact="nothing can be rewound once a token was overwritten",
    question="Three tokens are kept, and the last one is rewound. How many of the others does the next one see?",
)
known.change(
    "rewind-one-again-and-again",
    (MOST, "self.offset if self._oldest == self._sinks else 1"),
    fact="rewind(1) works again and again",
    question="After rewind(1) and no new token, what would a second rewind(1) need?",
)
known.change(
    "rewind-forgets-what-was-lost",
    ("if self._oldest == self._sinks", "if self.offset <= self._sinks + self._window"),
    fact="any number can be rewound as soon as no more tokens are left than fit, although one was overwritten",
    question="With four slots, five tokens come and one is rewound. Which of the remaining four is still stored?",
)
known.change(
    "rewind-too-far",
    (MOST, "10**9 if self._oldest == self._sinks else self.offset - self._window + 1 - self._oldest"),
    fact="more tokens can be rewound than are cached",
    question="Two tokens are cached. What is your offset after rewind(3)?",
)
known.change(
    "rewind-forwards",
    ("if not 0 <= count <= most:", "if count > most:"),
    fact="a negative count is accepted, and offset advances over unwritten slots",
    question="What does rewind(-1) do to your offset?",
)
known.change(
    "shapes-not-compared",
    ("(kept.shape, kept.dtype) != (shape, new.dtype)", "kept.dtype != new.dtype"),
    fact="keys of another shape are accepted if they broadcast",
    question="What does an assignment do with a batch of 1 into an array with a batch of 2?",
)
known.change(
    "dtype-not-compared",
    ("(kept.shape, kept.dtype) != (shape, new.dtype)", "kept.shape != shape"),
    fact="keys of another dtype are silently converted",
    question="What does an assignment of float16 numbers into a float32 array do?",
)
known.change(
    "values-not-compared",
    ("if (value.shape, value.dtype) != (key.shape, key.dtype):", "if value.dtype != key.dtype:"),
    fact="values of another shape than the keys' are accepted",
    question="Five keys come with three values. What should happen?",
)
known.change(
    "dtype-of-values-not-compared",
    ("if (value.shape, value.dtype) != (key.shape, key.dtype):", "if value.shape != key.shape:"),
    fact="values of another dtype than the keys' are accepted in the first call",
    question="The first call has float32 keys and float16 values. What should happen?",
)
known.change(
    "sizes-of-a-rejected-call",
    (
        "if (value.shape, value.dtype) != (key.shape, key.dtype):",
        "self._keys = self._buffer(self._keys, key)\nif (value.shape, value.dtype) != (key.shape, key.dtype):",
    ),
    fact="a rejected first call fixes the sizes, because the cache is allocated before `value` is checked",
    question="The first call raises. Which sizes may the next call have?",
)
known.change(
    "sizes-of-an-empty-cache",
    (
        "self._buffer(self._keys, key), self._buffer(self._values, value)",
        "(self._buffer(x if self.offset else None, new) for x, new in ((self._keys, key), (self._values, value)))",
    ),
    fact="a cache from which all tokens were dropped takes other sizes",
    question="Which call fixes N, H_kv, D and the dtype, and what does a rewind change about them?",
)
known.change(
    "new-before-old",
    ("mx.concatenate([x[:, :, seen], new], axis=2)", "mx.concatenate([new, x[:, :, seen]], axis=2)"),
    fact="several new keys and values precede the old ones",
    question="In which order did the tokens come, and in which order do you return them?",
)
known.change(
    "any-window",
    ("if window < 1:", "if window < -99:"),
    fact="a window of 0 is accepted",
    question="What is kept with a window of 0?",
)


@known.accepted("tokens in a list")
class TokensInAList:
    def __init__(self, window, sinks=0):
        if window <= 0 or sinks < 0:
            raise ValueError(f"window {window}, sinks {sinks}")
        self.offset, self.window, self.sinks = 0, window, sinks
        self.kept = {}  # position: key, value
        self.gone = sinks  # positions below are gone, except for the sinks
        self.like = None

    def update_and_fetch(self, key, value):
        like = (*key.shape[:2], *key.shape[3:], key.dtype)
        if key.shape != value.shape or key.dtype != value.dtype or self.like not in (None, like):
            raise ValueError(f"key {key.shape} {key.dtype}, value {value.shape} {value.dtype}, needed {self.like}")
        self.like, first = like, self.offset
        older = [p for p in sorted(self.kept) if p < first and (p < self.sinks or p > first - self.window)]
        both = [mx.concatenate([*(self.kept[p][i] for p in older), x], axis=2) for i, x in enumerate((key, value))]
        self.offset = end = first + key.shape[2]
        for i in range(key.shape[2]):
            if first + i < self.sinks or first + i >= end - self.window:
                self.kept[first + i] = tuple(mx.contiguous(x[:, :, i : i + 1]) for x in (key, value))
        self.gone = max(self.gone, end - self.window)
        self.kept = {p: pair for p, pair in self.kept.items() if p < end and (p < self.sinks or p >= self.gone)}
        mx.eval(list(self.kept.values()))
        return both[0], both[1]

    def rewind(self, count):
        left = self.offset - count
        if count < 0 or left < 0 or (self.gone > self.sinks and left - self.window + 1 < self.gone):
            most = self.offset if self.gone == self.sinks else self.offset - self.window + 1 - self.gone
            raise ValueError(f"{count} of {self.offset}, but {most}")
        self.offset = left


@known.accepted("the last ones after the sinks, moved up")
class MovedUp:
    def __init__(self, window, sinks=0):
        if window < 1 or sinks < 0:
            raise ValueError(f"{window}, {sinks}")
        self.offset, self.window, self.sinks, self.both, self.furthest = 0, window, sinks, None, 0

    def update_and_fetch(self, key, value):
        if key.shape != value.shape or key.dtype != value.dtype:
            raise ValueError(f"key {key.shape} {key.dtype}, value {value.shape} {value.dtype}")
        new = mx.stack([key, value])
        if self.both is None:
            self.both = new[..., :0, :]
        if (self.both.shape[:3], self.both.shape[4], self.both.dtype) != (new.shape[:3], new.shape[4], new.dtype):
            raise ValueError(f"key {key.shape} {key.dtype}, needed {self.both.shape[1:]} {self.both.dtype}")
        there = self.both.shape[3]
        sinks = min(self.sinks, there)
        first = max(sinks, there - self.window + 1)
        whole = mx.concatenate([self.both[..., :sinks, :], self.both[..., first:, :], new], axis=3)
        self.offset += key.shape[2]
        self.furthest = max(self.furthest, self.offset)
        last = max(self.sinks, whole.shape[3] - self.window)
        self.both = mx.concatenate([whole[..., : self.sinks, :], whole[..., last:, :]], axis=3)
        mx.eval(self.both)
        return whole[0], whole[1]

    def rewind(self, count):
        most = self.offset
        if self.furthest > self.sinks + self.window:
            most = self.offset - self.furthest + 1
        if count < 0 or count > most:
            raise ValueError(f"{count}: at most {most} of {self.offset}")
        self.offset -= count
        if count:
            self.both = self.both[..., : self.both.shape[3] - count, :]
