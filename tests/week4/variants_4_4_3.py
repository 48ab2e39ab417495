"""Known programs of task 4.4.3, the latent cache."""

from functools import partial

import mlx.core as mx
from tests.week4.latent_oracles import copying_calls, pair

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal, refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.4.3")


def fetched(program, *lengths, room=4, dtype=mx.float32, seed=1):
    """Return the entries of every call, all kept to the end, and the counters. A negative length rewinds."""
    draw, made, found = normals(seed, dtype), program(room), []
    for length in lengths:
        if length < 0:
            made.rewind(-length)
            continue
        found.append(made.update_and_fetch(draw(2, length, 5), draw(2, length, 3)))
        mx.eval(found)
    return *found, mx.array(made.offset)


def filled(program, *shape, room=4, dtype=mx.float32):
    """Return a cache of latents of 5 numbers and RoPE keys of 3, after one call."""
    kept = program(room)
    kept.update_and_fetch(mx.ones((*shape, 5), dtype), mx.ones((*shape, 3), dtype))
    return kept


def refused(program, *pairs, dtype=mx.float32):
    """Return whether each pair of shapes raises after 2 x 2 entries, and the offset after that."""
    found = []
    for shapes in pairs:
        kept = filled(program, 2, 2)
        new = [mx.ones(shape, dtype) for shape in shapes]
        found += [refusal(partial(kept.update_and_fetch, *new)), kept.offset]
    return mx.array(found)


def rewound(program, count):
    """Return whether each count raises in a rewind of five entries, and the offset after that."""
    kept = filled(program, 1, 5)
    return mx.array([refusal(lambda: kept.rewind(count)), kept.offset])


known.probe_table(
    pieces=lambda program: fetched(program, 3, 2, 1, 1),
    full_at_once=lambda program: fetched(program, 4, 4, 8, seed=2),
    doubles_twice=lambda program: fetched(program, 3, 10, seed=3),
    one_call=lambda program: fetched(program, 3, seed=4),
    rewound=lambda program: fetched(program, 3, -2, 2, -1, 1, seed=5),
    # Earlier results are kept while others overwrite their slots.
    rewound_when_full=lambda program: fetched(program, 4, -2, 2, seed=6),
    rewound_to_nothing=lambda program: fetched(program, 2, -2, 3, seed=7),
    refuses_batches=lambda program: refused(program, ((1, 2, 5), (1, 2, 3))),
    refuses_widths=lambda program: refused(program, ((2, 2, 3), (2, 2, 5)), ((2, 2, 6), (2, 2, 2))),
    refuses_sums=lambda program: refused(program, ((2, 2, 1), (2, 2, 3)), ((2, 2, 5), (2, 2, 1))),
    refuses_dtypes=lambda program: refused(program, ((2, 2, 5), (2, 2, 3)), dtype=mx.float16),
    refuses_unlike_pairs=lambda program: refused(program, ((2, 2, 5), (2, 1, 3)), ((2, 2, 5), (1, 2, 3))),
    refuses_a_pair_of_two_dtypes=lambda program: mx.array(
        refusal(lambda: program(4).update_and_fetch(mx.ones((2, 2, 5)), mx.ones((2, 2, 3), mx.float16)))
    ),
    refuses_the_first_call=lambda program: refusals(
        partial(lambda kept, shapes: kept.update_and_fetch(*map(mx.ones, shapes)), program(4)),
        [((1, 3, 5), (1, 2, 4)), ((2, 3, 6), (2, 3, 2))],
    ),
    refuses_rewinds=lambda program: tuple(rewound(program, count) for count in (6, -1, 5, 0)),
    bytes_in_float32=lambda program: mx.array(filled(program, 1, 3, room=3).nbytes),
)
known.probe_table(mx.float16, half=lambda program: fetched(program, 3, 2, dtype=mx.float16, seed=8))


@known.probe()
def cache_bytes(program):
    counts, draw = [program(8).nbytes], normals(9, mx.float16)
    for batch in (1, 3):
        made = program(8)
        made.update_and_fetch(draw(batch, 5, 5), draw(batch, 5, 3))
        counts.append(made.nbytes)
        made.rewind(2)
        counts.append(made.nbytes)
    return mx.array(counts)


@known.probe()
def cache_memory(program):
    """Return whether many calls take as much memory as all entries: with single tokens, and with 64 a call."""

    def copied(calls, length, latent, rope):
        new, made = pair(11, 1, length, latent, rope), program(4)
        return copying_calls(lambda: made.update_and_fetch(*new), calls, length * 4 * (latent + rope)) > 8

    return mx.array([copied(60, 1, 256, 64), copied(128, 64, 24, 8)])


@known.sized("256 tokens, one at a time, latent 1 x 1 x 512, RoPE key 1 x 1 x 64")
def sized(program):
    latent, rope_key = normals(1)(1, 1, 512), normals(2)(1, 1, 64)

    def run():
        made = program()
        for _ in range(256):
            entries = made.update_and_fetch(latent, rope_key)
            mx.eval(entries)
        return entries

    return run


COMPARED = "(batch, widths, latent.dtype) != (kept.shape[0], self._widths, kept.dtype)"
GROWN = "kept = mx.concatenate([kept, mx.zeros_like(kept)], axis=1)"
BYTES = "kept.shape[0] * self.offset * kept.shape[2] * kept.dtype.size"

known.change(
    "offset-stays",
    ("self._entries, self.offset = kept, end", "self._entries = kept"),
    fact="offset stays at 0, so every call overwrites the last",
    question="After a call with three tokens, where does the next one write?",
)
known.change(
    "offset-by-one",
    ("self._entries, self.offset = kept, end", "self._entries, self.offset = kept, self.offset + 1"),
    fact="offset advances by 1, however many tokens came",
    question="A prompt of five tokens is cached. What is the position of the next token?",
)
known.change(
    "only-the-new",
    ("return kept[:, :end]", "return kept[:, end - latent.shape[1] : end]"),
    fact="only the new entries are returned",
    question="What must the new queries attend to?",
)
known.change(
    "whole-capacity-returned",
    ("return kept[:, :end]", "return kept[:]"),
    fact="the whole array is returned, including unwritten slots",
    question="How many tokens are cached, and how many slots has the array that you return?",
)
known.change(
    "rope-key-first",
    ("mx.concatenate([latent, rope_key], axis=-1)", "mx.concatenate([rope_key, latent], axis=-1)"),
    fact="the RoPE key precedes the latent in each entry",
    question="Which numbers of an entry are its first C?",
)
known.change(
    "new-before-old",
    (
        "return kept[:, :end]",
        """
        old = end - latent.shape[1]
        return mx.concatenate([kept[:, old:end], kept[:, :old]], axis=1)
        """,
    ),
    fact="the new entries precede the old ones",
    question="In which order did the tokens come, and in which order do you return them?",
)
known.change(
    "growth-loses-the-old",
    (GROWN, "kept = mx.concatenate([mx.zeros_like(kept), mx.zeros_like(kept)], axis=1)"),
    fact="growing the array loses its contents",
    question="When the array is full, you allocate a larger one. What does it contain?",
)
known.change(
    "growth-by-the-token",
    (GROWN, "kept = mx.concatenate([kept, mx.zeros_like(kept[:, :1])], axis=1)"),
    fact="the array grows by a fixed number of tokens instead of doubling, so a long text is copied again and again",
    question="How many numbers has your cache copied when token 10,000 comes?",
)
known.change(
    "growth-by-a-constant",
    (GROWN, "kept = mx.concatenate([kept, mx.zeros((batch, 256, sum(widths)), kept.dtype)], axis=1)"),
    fact="the array grows by a fixed number of slots instead of doubling",
    question="With 256 more slots each time, how often do 16,384 tokens copy the array? And with twice as many?",
)
known.change(
    "doubled-once",
    ("while end > kept.shape[1]:", "if end > kept.shape[1]:"),
    fact="the capacity is doubled once, even if that is not enough",
    question="The capacity is 4, and 13 tokens come. How often must it double?",
)
known.change(
    "fetched-when-full",
    ("return kept[:, :end]", "return kept if end == kept.shape[1] else kept[:, :end]"),
    fact="the cache's own array is returned when full, and later overwritten",
    question="After a rewind you write into an array. What else may still refer to this array?",
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
    question="Six tokens are cached. How many are left after rewind(2)?",
)
known.change(
    "rewind-too-far",
    ("if not 0 <= count <= self.offset:", "if count < 0:"),
    fact="more tokens can be rewound than are cached",
    question="Five tokens are cached. What is your offset after rewind(6)?",
)
known.change(
    "rewind-forwards",
    ("if not 0 <= count <= self.offset:", "if count > self.offset:"),
    fact="a negative count is accepted, and offset advances over unwritten slots",
    question="What does rewind(-1) do to your offset?",
)
known.change(
    "sums-compared",
    (COMPARED, "(batch, sum(widths), latent.dtype) != (kept.shape[0], kept.shape[2], kept.dtype)"),
    fact="only the sum of the two sizes is compared, so latent and RoPE key may be swapped",
    question="A latent of 64 and a RoPE key of 512 numbers: how long is their entry?",
)
known.change(
    "batch-not-compared",
    (COMPARED, "(widths, latent.dtype) != (self._widths, kept.dtype)"),
    fact="another batch size is accepted if it broadcasts",
    question="What does an assignment do with a batch of 1 into an array with a batch of 2?",
)
known.change(
    "dtype-not-compared",
    (COMPARED, "(batch, widths) != (kept.shape[0], self._widths)"),
    fact="entries of another dtype are silently converted",
    question="What does an assignment of float16 numbers into a float32 array do?",
)
known.change(
    "dtypes-of-a-pair-not-compared",
    (
        "(rope_key.shape[:-1], rope_key.dtype) != (latent.shape[:-1], latent.dtype)",
        "rope_key.shape[:-1] != latent.shape[:-1]",
    ),
    fact="a RoPE key whose dtype differs from the latent's is accepted",
    question="What is the dtype of a float32 and a float16 array, concatenated?",
)
known.change(
    "sizes-of-a-rejected-call",
    (
        "if (rope_key.shape",
        """
        if self._entries is None:
            self._widths = latent.shape[-1], rope_key.shape[-1]
            self._entries = mx.zeros((latent.shape[0], self._capacity, sum(self._widths)), latent.dtype)
        if (rope_key.shape""",
    ),
    fact="a rejected first call fixes the sizes, because the cache is allocated before `rope_key` is checked",
    question="The first call raises. Which sizes may the next call have?",
)
known.change(
    "float32-kept",
    ("sum(widths)), latent.dtype)", "sum(widths)))"),
    (COMPARED, "(batch, widths) != (kept.shape[0], self._widths)"),
    fact="entries are stored in float32, whatever their dtype",
    question="What is the default dtype of mx.zeros?",
)
known.change(
    "bytes-of-the-capacity",
    (BYTES, "kept.nbytes"),
    fact="nbytes counts the whole capacity, including unwritten slots",
    question="Which part of the array does a decode step read?",
)
known.change(
    "bytes-of-one-row",
    (BYTES, "self.offset * kept.shape[2] * kept.dtype.size"),
    fact="nbytes counts one row of the batch",
    question="How many rows does the cache hold?",
)
known.change(
    "elements-for-bytes",
    (BYTES, "kept.shape[0] * self.offset * kept.shape[2]"),
    fact="nbytes counts numbers instead of bytes",
    question="How many bytes does a number of your entries take?",
)
known.change(
    "four-bytes-each",
    (BYTES, "kept.shape[0] * self.offset * kept.shape[2] * 4"),
    fact="nbytes counts 4 bytes per number, whatever its dtype",
    question="How many bytes does a float16 number take?",
)
known.change(
    "bytes-of-latents",
    (BYTES, "kept.shape[0] * self.offset * self._widths[0] * kept.dtype.size"),
    fact="nbytes does not count the RoPE keys",
    question="What does a decode step read besides the latents?",
)


@known.accepted("capacity for the new entries, at least doubled")
class AtLeastTwice:
    def __init__(self, room=256):
        self.offset, self.room, self.sizes = 0, room, None
        self.entries = None

    @property
    def nbytes(self):
        return 0 if self.entries is None else self.entries[:, : self.offset].nbytes

    def update_and_fetch(self, latent, rope_key):
        sizes = [(x.shape[0], x.shape[2], x.dtype) for x in (latent, rope_key)]
        if latent.shape[1] != rope_key.shape[1] or sizes[0][::2] != sizes[1][::2]:
            raise ValueError("they differ")
        if self.sizes is not None and sizes != self.sizes:
            raise ValueError("of another kind")
        self.sizes, end, new = sizes, self.offset + latent.shape[1], mx.concatenate([latent, rope_key], axis=2)
        if self.entries is None or end > self.entries.shape[1]:
            room = max(end, self.room if self.entries is None else 2 * self.entries.shape[1])
            larger = mx.zeros((new.shape[0], room, new.shape[2]), new.dtype)
            if self.entries is not None:
                larger[:, : self.offset] = self.entries[:, : self.offset]
            self.entries = larger
        self.entries[:, self.offset : end] = new
        self.offset = end
        return self.entries[:, :end]

    def rewind(self, count):
        if count not in range(self.offset + 1):
            raise ValueError(f"{count} is not in 0 to {self.offset}")
        self.offset -= count
