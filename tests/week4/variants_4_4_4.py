"""Known programs of task 4.4.4, absorbed projections."""

import mlx.core as mx
from tests.week2.in_parts import Parts, in_parts
from tests.week4.latent_formulas import COMPRESSED, PLAIN, random_layer
from tiny_llm_solution.attention import causal_mask
from tiny_llm_solution.latent_attention.cache import LatentCache
from tiny_llm_solution.latent_attention.config import LatentConfig
from tiny_llm_solution.latent_attention.expanded import LatentAttention

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import most_at_once
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
    # Keys without a position, values and latents are of one size.
    alike=lambda program: run_layer(program, PLAIN, 48, 3, 1, qk_nope_head_dim=6, kv_lora_rank=6),
)
known.probe_table(mx.float16, half=lambda program: run_layer(program, PLAIN, 49, 2, 1, dtype=mx.float16))


@known.probe()
def absorbed_memory(program):
    """Whether half of what the keys of all heads take is held, and whether twice as much is."""
    changes = {"kv_lora_rank": 24, "qk_nope_head_dim": 32, "qk_rope_head_dim": 8, "v_head_dim": 32}
    layer = random_layer(PLAIN, 50, num_attention_heads=32, max_position_embeddings=1024, **changes)
    made, own, draw = program(LatentConfig.from_dict(layer.config), layer.weights), LatentCache(1024), normals(50)
    mx.eval(own.update_and_fetch(draw(1, 512, 24), draw(1, 512, 8)))
    new = draw(1, 1, 20)
    mx.eval(made(new, own))
    taken, keys = most_at_once(lambda: made(new, own)), 512 * 32 * 32 * 4
    return mx.array([taken > keys / 2, taken > 2 * keys])


@known.probe()
def absorbed_refuses(program):
    """Whether two tokens are refused where there is room for one, and how many the cache then holds."""
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
    fact="the scale is 1 / sqrt(C + D_rope), the size of what is multiplied now",
    question="The brackets stand elsewhere, and the scores are the same numbers. What has become of their scale?",
)
known.change(
    "scale-of-one-part",
    (SCALE, "self.config.qk_nope_head_dim**-0.5"),
    fact="the scale is 1 / sqrt(D_nope)",
    question="Over how many features does a score of the expanded form run?",
)
known.change(
    "no-scale",
    (f" * {SCALE}", ""),
    fact="the scores are not scaled",
    question="Which numbers are the scores of the expanded form divided by?",
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
    fact="kv_b_proj is split into the rows of all keys and those of all values",
    question="Which rows of kv_b_proj belong to head 0?",
)
known.change(
    "value-before-key",
    (SPLIT, "self.value_up, self.key_up = mx.split(up, [config.v_head_dim], axis=1)"),
    fact="in each head the first rows of kv_b_proj are taken for the value",
    question="Which of the two comes first in a head's rows?",
)
known.change(
    "key-matrix-of-head-0",
    ("query @ self.key_up,", "query @ self.key_up[:1],"),
    fact="the queries of all heads are multiplied by the key matrix of head 0",
    question="How many key matrices are there?",
)
known.change(
    "value-matrix-of-head-0",
    ("seen @ self.value_up.swapaxes(-1, -2)", "seen @ self.value_up[:1].swapaxes(-1, -2)"),
    fact="what all heads have seen is multiplied by the value matrix of head 0",
    question="How many value matrices are there?",
)
known.change(
    "no-rope-score",
    ("query_rope], axis=-1)", "0 * query_rope], axis=-1)"),
    fact="the part of the scores that knows positions is left out",
    question="Which numbers of a query meet the rope keys?",
)
known.change(
    "rope-part-first",
    ("[query @ self.key_up, query_rope]", "[query_rope, query @ self.key_up]"),
    fact="the part of a query that knows positions stands before the other one",
    question="What comes first in an entry of the cache, and what in your query?",
)
known.change(
    "values-from-the-end",
    ("entries[..., : self.config.kv_lora_rank]", "entries[..., -self.config.kv_lora_rank :]"),
    fact="the last C numbers of an entry are taken for the latent",
    question="What comes first in an entry of the cache?",
)
known.change(
    "positions-from-zero",
    (POSITIONS, "positions = slice(0, length)"),
    fact="every call counts its positions from 0",
    question="Three tokens are in the cache. At which position does the next one stand?",
)
known.change(
    "positions-one-short",
    (POSITIONS, "first = max(0, cache.offset - 1)\npositions = slice(first, first + length)"),
    fact="positions are counted from the last token of the cache, and not from the one behind it",
    question="Three tokens are in the cache, at positions 0, 1 and 2. Which is the next one?",
)
known.change(
    "queries-from-zero",
    ("self.expanded.queries(x, positions)", "self.expanded.queries(x, slice(0, length))"),
    fact="queries are turned from position 0 in every call, and rope keys at their own positions",
    question="A score depends on the distance of a query and a key. At which position does your query stand?",
)
known.change(
    "only-the-new",
    (FETCH, f"{FETCH}[:, -length:]"),
    fact="the new tokens see only each other, and not those in the cache",
    question="What does update_and_fetch give, and how much of it do your queries meet?",
)
known.change(
    "appended-twice",
    (FETCH, f"cache.update_and_fetch(*self.expanded.latents(x, positions))\n{FETCH}"),
    fact="the new tokens are in the cache twice",
    question="How often does your call change the cache?",
)
known.change(
    "not-causal",
    ("+ mask, axis=-1)", ", axis=-1)"),
    fact="tokens of one call see those that come after them",
    question="Which of three new tokens may the first of them see?",
)
known.change(
    "mask-upper-left",
    (
        "mask = causal_mask(length, entries.shape[1], scores.dtype)",
        "mask = mx.triu(mx.full((length, entries.shape[1]), -mx.inf), k=1).astype(scores.dtype)",
    ),
    fact="the mask begins in the upper left corner, as if the new tokens were the first of all",
    question="Three tokens are in the cache and two come. Which keys may the first of these see?",
)
known.change(
    "heads-and-tokens-exchanged",
    ("mx.unflatten(scores, 1, (heads, length))", "mx.unflatten(scores, 1, (length, heads)).swapaxes(1, 2)"),
    (
        "weights.flatten(1, 2) @ latents, 1, (heads, length))",
        "weights.swapaxes(1, 2).flatten(1, 2) @ latents, 1, (heads, length))",
    ),
    fact="the rows of the product are taken as L x H, where they are H x L",
    question="In which order did you flatten heads and tokens, and in which do you take them apart for the mask?",
)
known.change(
    "joined-without-swapping",
    ("attended.swapaxes(1, 2).flatten(2)", "attended.reshape(*x.shape[:2], -1)"),
    fact="the heads are joined without going back behind the length",
    question="Which numbers of your N x H x L x D_v lie side by side, and which ought to?",
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
    fact="the keys and values of every head are computed from the cache in each call",
    question="How many numbers do the keys of all heads take, and where in your code do they come into being?",
)
known.change(
    "entries-copied",
    (
        "scores = query.flatten(1, 2) @ entries.swapaxes(-1, -2)",
        "scores = (query @ mx.concatenate(heads * [entries[:, None]], axis=1).swapaxes(-1, -2)).flatten(1, 2)",
    ),
    fact="each head gets a copy of the entries",
    question="What do the heads have in common when they read the cache?",
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
    fact="tokens beyond max_position_embeddings are refused, but by then they are in the cache",
    question="When RoPE refuses, what is in the cache already?",
)
known.change(
    "float32-result",
    (".flatten(2), self.output)", ".flatten(2), self.output).astype(mx.float32)"),
    fact="the result is float32 although x is not",
    question="Which of your factors is an array of float32: a scale, a mask, or a cast?",
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
