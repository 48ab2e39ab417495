"""Known programs of task 4.4.4, absorbed projections."""

import mlx.core as mx
from tests.week2.in_parts import Parts, in_parts
from tests.week4.latent_formulas import COMPRESSED, PLAIN, random_layer
from tests.week4.latent_oracles import products_with
from tiny_llm_solution.attention import causal_mask
from tiny_llm_solution.latent_attention.cache import LatentCache
from tiny_llm_solution.latent_attention.config import LatentConfig
from tiny_llm_solution.latent_attention.expanded import LatentAttention

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.4.4")


def run_layer(program, base, seed, *parts, dtype=mx.float32, **changes):
    layer = random_layer(base, seed, dtype, **changes)
    x = normals(seed, dtype)(2, sum(n for n in parts if n > 0), layer.config["hidden_size"])
    made, own = program(LatentConfig.from_dict(layer.config), layer.weights), LatentCache(4)
    return in_parts(lambda part: made(part, own), own.rewind, x, Parts(parts)), mx.array(own.offset)


known.probe_table(
    whole=lambda program: run_layer(program, PLAIN, 41, 5),
    parts=lambda program: run_layer(program, COMPRESSED, 42, 3, 1, 2),
    one_by_one=lambda program: run_layer(program, PLAIN, 43, 1, 1, 1, 1),
    first_token=lambda program: run_layer(program, PLAIN, 44, 1),
    rewound=lambda program: run_layer(program, PLAIN, 45, 2, -2, 2, 1),
    one_head=lambda program: run_layer(program, PLAIN, 46, 2, 2, num_attention_heads=1),
    # C = D_nope: an entry is as wide as a query.
    as_wide_as_a_key=lambda program: run_layer(program, PLAIN, 47, 2, 2, kv_lora_rank=5),
    # keys without RoPE, values and latents have one size
    alike=lambda program: run_layer(program, PLAIN, 48, 3, 1, qk_nope_head_dim=6, kv_lora_rank=6),
)
known.probe_table(mx.float16, half=lambda program: run_layer(program, PLAIN, 49, 2, 1, dtype=mx.float16))


@known.probe()
def absorbed_memory(program):
    """Return whether 0.3, 0.8 and 2 times the memory of all heads' keys are allocated.

    A slice of the entries that is copied for each head takes about 0.5 times that memory.
    """
    changes = {"kv_lora_rank": 24, "qk_nope_head_dim": 32, "qk_rope_head_dim": 8, "v_head_dim": 32}
    layer = random_layer(PLAIN, 50, num_attention_heads=32, max_position_embeddings=1024, **changes)
    made, own, draw = program(LatentConfig.from_dict(layer.config), layer.weights), LatentCache(1024), normals(50)
    mx.eval(own.update_and_fetch(draw(1, 512, 24), draw(1, 512, 8)))
    new = draw(1, 1, 20)
    mx.eval(made(new, own))
    taken, keys = peak_bytes(lambda: made(new, own)), 512 * 32 * 32 * 4
    return mx.array([taken > share * keys for share in (0.3, 0.8, 2)])


@known.probe()
def absorbed_memory_of_two(program):
    """The same for a call of two tokens."""
    changes = {"kv_lora_rank": 24, "qk_nope_head_dim": 32, "qk_rope_head_dim": 8, "v_head_dim": 32}
    layer = random_layer(PLAIN, 50, num_attention_heads=32, max_position_embeddings=1024, **changes)
    made, own, draw = program(LatentConfig.from_dict(layer.config), layer.weights), LatentCache(1024), normals(50)
    mx.eval(own.update_and_fetch(draw(1, 512, 24), draw(1, 512, 8)))
    new = draw(1, 2, 20)
    mx.eval(made(new, own))
    taken, keys = peak_bytes(lambda: made(new, own)), 512 * 32 * 32 * 4
    return mx.array(taken > 0.8 * keys)


class Keeping(LatentCache):
    """A cache that keeps the array that it has returned."""

    entries = None

    def update_and_fetch(self, latent, rope_key):
        self.entries = super().update_and_fetch(latent, rope_key)
        return self.entries


@known.probe()
def absorbed_products(program):
    """Return whether eight heads need more products with the entries than two."""
    found = []
    for heads in (2, 8):
        layer, own = random_layer(PLAIN, 52, num_attention_heads=heads), Keeping(4)
        result = program(LatentConfig.from_dict(layer.config), layer.weights)(normals(52)(1, 3, 20), own)
        found.append(products_with(own.entries, result))
    return mx.array(found[1] > found[0])


@known.probe()
def absorbed_refuses(program):
    """Return whether two tokens raise if only one position is left, and how many the cache then holds."""
    layer = random_layer(PLAIN, 51, max_position_embeddings=4)
    made, own, x = program(LatentConfig.from_dict(layer.config), layer.weights), LatentCache(4), normals(51)(1, 3, 20)
    made(x, own)
    return mx.array([refusal(lambda: made(x[:, :2], own)), own.offset])


@known.sized("one token after 2,048, E 256, H 16, C 128, D_nope 64, D_rope 32, D_v 64")
def sized(program):
    measures = {"num_attention_heads": 16, "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32}
    layer = random_layer(PLAIN, 1, hidden_size=256, v_head_dim=64, max_position_embeddings=4096, **measures)
    made, own, draw = program(LatentConfig.from_dict(layer.config), layer.weights), LatentCache(4096), normals(1)
    mx.eval(own.update_and_fetch(draw(1, 2048, 128), draw(1, 2048, 32)))
    new = draw(1, 1, 256)

    def run():
        found = made(new, own)
        own.rewind(1)
        return found

    return run


POSITIONS = "positions = slice(cache.offset, cache.offset + length)"
SPLIT = "self.key_up, self.value_up = mx.split(up, [config.qk_nope_head_dim], axis=1)"
SCALE = "self.config.query_dim**-0.5"
FETCH = "entries = cache.update_and_fetch(*self.expanded.latents(x, positions))"

known.change(
    "scale-of-an-entry",
    (SCALE, "self.config.entry_dim**-0.5"),
    fact="the scale is 1/sqrt(C + D_rope), the width of the product as it is computed now",
    question="The product is reassociated, and the scores are the same numbers. Does their scale change?",
)
known.change(
    "scale-of-one-part",
    (SCALE, "self.config.qk_nope_head_dim**-0.5"),
    fact="the scale is 1/sqrt(D_nope)",
    question="Over how many features does a score of the expanded form run?",
)
known.change(
    "no-scale",
    (f" * {SCALE}", ""),
    fact="the scale is missing",
    question="By what are the scores of the expanded form divided?",
)
known.change(
    "keys-before-values",
    (
        SPLIT,
        """
        heads, every = config.num_attention_heads, up.flatten(0, 1)
        key_up, value_up = mx.split(every, [heads * config.qk_nope_head_dim], axis=0)
        self.key_up, self.value_up = (mx.unflatten(w, 0, (heads, -1)) for w in (key_up, value_up))
        """,
    ),
    fact="kv_b_proj is split into all heads' keys, then all heads' values",
    question="Which rows of kv_b_proj are head 0's?",
)
known.change(
    "value-before-key",
    (SPLIT, "self.value_up, self.key_up = mx.split(up, [config.v_head_dim], axis=1)"),
    fact="each head's first rows of kv_b_proj are read as the value",
    question="Which of the two comes first in a head's rows?",
)
known.change(
    "key-matrix-of-head-0",
    ("query @ self.key_up,", "query @ self.key_up[:1],"),
    fact="all heads' queries are multiplied by head 0's key matrix",
    question="How many key matrices are there?",
)
known.change(
    "value-matrix-of-head-0",
    ("seen @ self.value_up.swapaxes(-1, -2)", "seen @ self.value_up[:1].swapaxes(-1, -2)"),
    fact="all heads' attention outputs are multiplied by head 0's value matrix",
    question="How many value matrices are there?",
)
known.change(
    "no-rope-score",
    ("query_rope], axis=-1)", "0 * query_rope], axis=-1)"),
    fact="the RoPE part of the scores is missing",
    question="Which numbers of a query are multiplied by the RoPE keys?",
)
known.change(
    "rope-part-first",
    ("[query @ self.key_up, query_rope]", "[query_rope, query @ self.key_up]"),
    fact="the RoPE part of a query precedes the other part",
    question="What comes first in a cache entry, and what in your query?",
)
known.change(
    "values-from-the-end",
    ("entries[..., : self.config.kv_lora_rank]", "entries[..., -self.config.kv_lora_rank :]"),
    fact="the last C numbers of an entry are read as the latent",
    question="What comes first in a cache entry?",
)
known.change(
    "positions-from-zero",
    (POSITIONS, "positions = slice(0, length)"),
    fact="every call's positions start at 0",
    question="Three tokens are cached. What is the position of the next one?",
)
known.change(
    "positions-one-short",
    (POSITIONS, "first = max(0, cache.offset - 1)\npositions = slice(first, first + length)"),
    fact="positions start at the last cached token's, one too early",
    question="Three tokens are cached, at positions 0, 1 and 2. Which position is next?",
)
known.change(
    "queries-from-zero",
    ("self.expanded.queries(x, positions)", "self.expanded.queries(x, slice(0, length))"),
    fact="queries are rotated from position 0 in every call, RoPE keys at their own positions",
    question="A score depends on the distance of query and key. What is your query's position?",
)
known.change(
    "queries-after-the-update",
    (
        "self.expanded.queries(x, positions)",
        "self.expanded.queries(x, slice(cache.offset + length, cache.offset + 2 * length))",
    ),
    fact="queries are rotated by the offset after the update, L positions too far",
    question="What is cache.offset before update_and_fetch, and what is it afterwards?",
)
known.change(
    "only-the-new",
    (FETCH, f"{FETCH}[:, -length:]"),
    fact="the new tokens attend only to each other, not to the cached ones",
    question="What does update_and_fetch return, and how much of it do your queries use?",
)
known.change(
    "appended-twice",
    (FETCH, f"cache.update_and_fetch(*self.expanded.latents(x, positions))\n{FETCH}"),
    fact="the new tokens are cached twice",
    question="How often does your call change the cache?",
)
known.change(
    "not-causal",
    ("+ mask, axis=-1)", ", axis=-1)"),
    fact="the causal mask is missing among the tokens of one call",
    question="Which of three new tokens may the first attend to?",
)
known.change(
    "causal-in-the-first-call-only",
    ("entries.shape[1], scores.dtype)", "entries.shape[1], scores.dtype) if positions.start == 0 else 0.0"),
    fact="the causal mask is missing once the cache holds earlier tokens",
    question="Two tokens come after three cached ones. May the first of the two attend to the second?",
)
known.change(
    "mask-upper-left",
    (
        "mask = causal_mask(length, entries.shape[1], scores.dtype)",
        "mask = mx.triu(mx.full((length, entries.shape[1]), -mx.inf), k=1).astype(scores.dtype)",
    ),
    fact="the mask is aligned to the upper left corner, as if the new tokens were the first",
    question="Three tokens are cached and two come. Which keys may the first of these attend to?",
)
known.change(
    "mask-before-the-heads",
    ("mx.unflatten(scores, 1, (heads, length)) + mask", "mx.unflatten(scores + mask, 1, (heads, length))"),
    fact="the L x S mask is added to the scores of H * L rows",
    question="Which shape do the scores need before an L x S mask applies to each head?",
)
known.change(
    "heads-and-tokens-exchanged",
    ("mx.unflatten(scores, 1, (heads, length))", "mx.unflatten(scores, 1, (length, heads)).swapaxes(1, 2)"),
    (
        "weights.flatten(1, 2) @ latents, 1, (heads, length))",
        "weights.swapaxes(1, 2).flatten(1, 2) @ latents, 1, (heads, length))",
    ),
    fact="the product's rows are read as L x H, but they are H x L",
    question="In which order did you flatten heads and tokens, and in which do you unflatten them for the mask?",
)
known.change(
    "joined-without-swapping",
    ("attended.swapaxes(1, 2).flatten(2)", "attended.reshape(*x.shape[:2], -1)"),
    fact="the heads are joined without swapping heads and length back",
    question="Which numbers of your N x H x L x D_v are contiguous, and which should be?",
)
known.change(
    "keys-and-values-computed",
    (
        "query = mx.concatenate([query @ self.key_up, query_rope], axis=-1)",
        "keys, values = (latents[:, None] @ w.swapaxes(-1, -2) for w in (self.key_up, self.value_up))",
    ),
    (
        "query.flatten(1, 2) @ entries.swapaxes(-1, -2) * ",
        "(query @ keys.swapaxes(-1, -2) + query_rope @ entries[:, None, :, self.config.kv_lora_rank :]"
        ".swapaxes(-1, -2)).flatten(1, 2) * ",
    ),
    ("seen = mx.unflatten(weights.flatten(1, 2) @ latents, 1, (heads, length))", "seen = weights @ values"),
    ("seen @ self.value_up.swapaxes(-1, -2)", "seen"),
    fact="every head's keys and values are recomputed from the cache in each call",
    question="How many numbers do all heads' keys take, and where does your code compute them?",
)
SERVE = "latents = entries[..., : self.config.kv_lora_rank]  # also serve as the values"
known.change(
    "keys-and-values-of-several-tokens",
    (
        SERVE,
        f"""
        {SERVE}
        if length > 1:
            keys, values = (latents[:, None] @ w.swapaxes(-1, -2) for w in (self.key_up, self.value_up))
            rope_keys = entries[:, None, :, self.config.kv_lora_rank :]
            scores = query @ keys.swapaxes(-1, -2) + query_rope @ rope_keys.swapaxes(-1, -2)
            scores = scores * self.config.query_dim**-0.5 + causal_mask(length, entries.shape[1], scores.dtype)
            return linear((softmax(scores, axis=-1) @ values).swapaxes(1, 2).flatten(2), self.output)
        """,
    ),
    fact="a call of several tokens computes every head's keys and values from the cache",
    question="Two tokens follow 1,024 others. Which arrays do you compute for the 1,024?",
)
known.change(
    "entries-copied",
    (
        "scores = query.flatten(1, 2) @ entries.swapaxes(-1, -2)",
        "scores = (query @ mx.concatenate(heads * [entries[:, None]], axis=1).swapaxes(-1, -2)).flatten(1, 2)",
    ),
    fact="the entries are copied once per head",
    question="What do the heads share when they use the cache?",
)
for name, sums in (
    ("product-for-each-head", "(w @ entries)[..., : self.config.kv_lora_rank]"),
    ("product-and-copy-for-each-head", "w @ latents"),
):
    known.change(
        name,
        (
            "query.flatten(1, 2) @ entries.swapaxes(-1, -2)",
            "mx.concatenate([q @ entries.swapaxes(-1, -2) for q in query.swapaxes(0, 1)], axis=1)",
        ),
        ("weights.flatten(1, 2) @ latents", f"mx.concatenate([{sums} for w in weights.swapaxes(0, 1)], axis=1)"),
        fact="each head has its own products with the entries, so they are loaded once per head",
        question="How many rows has the product of one head, and how many would that of all heads have?",
    )
known.change(
    "refused-too-late",
    (
        POSITIONS,
        f"""
        {POSITIONS}
        if positions.stop > self.config.max_position_embeddings:
            first = slice(0, length)
            cache.update_and_fetch(*self.expanded.latents(x, first))
        """,
    ),
    fact="tokens beyond max_position_embeddings raise only after they were cached",
    question="When RoPE raises, what is already cached?",
)
known.change(
    "float32-result",
    (".flatten(2), self.output)", ".flatten(2), self.output).astype(mx.float32)"),
    fact="the result is float32 although x is not",
    question="Which of your operands is a float32 array: a scale, a mask, or a converted one?",
)


@known.accepted("two products, in float32")
class TwoProducts:
    """Scores as the sum of two products; the value matrices are folded into the output's."""

    def __init__(self, config, weights):
        self.config, self.expanded = config, LatentAttention(config, weights)
        up = weights["self_attn.kv_b_proj.weight"].reshape(config.num_attention_heads, -1, config.kv_lora_rank)
        self.key_up, value_up = up[:, : config.qk_nope_head_dim], up[:, config.qk_nope_head_dim :]
        output = weights["self_attn.o_proj.weight"].reshape(config.hidden_size, config.num_attention_heads, -1)
        self.out = mx.einsum("ehv,hvc->ehc", output.astype(mx.float32), value_up.astype(mx.float32))

    def __call__(self, x, cache):
        c, before = self.config, cache.offset
        positions = slice(before, before + x.shape[1])
        query, query_rope = (y.astype(mx.float32) for y in self.expanded.queries(x, positions))
        entries = cache.update_and_fetch(*self.expanded.latents(x, positions)).astype(mx.float32)
        latents, rope_keys = entries[..., : c.kv_lora_rank], entries[..., c.kv_lora_rank :]
        query = mx.einsum("bhld,hdc->bhlc", query, self.key_up.astype(mx.float32))
        scores = mx.einsum("bhlc,bsc->bhls", query, latents) + mx.einsum("bhlr,bsr->bhls", query_rope, rope_keys)
        scores = scores / c.query_dim**0.5 + causal_mask(x.shape[1], entries.shape[1], mx.float32)
        seen = mx.einsum("bhls,bsc->bhlc", mx.softmax(scores, axis=-1), latents)
        return mx.einsum("bhlc,ehc->ble", seen, self.out).astype(x.dtype)
