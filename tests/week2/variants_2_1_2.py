"""Reference variants of task 2.1.2, attention with a cache."""

import mlx.core as mx
from tests.week1.reference_model import QWEN3, QWEN25, random_model
from tests.week2.doubling import Doubling, halved
from tests.week2.in_parts import Parts, in_parts
from tiny_llm_solution.attention import scaled_dot_product_attention_grouped
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.positional_encoding import RoPE
from tiny_llm_solution.qwen3_cached.cache import KVCache
from tiny_llm_solution.qwen3_cached.parts import DENSE

from tiny_llm_course.testkit.inputs import causal, normals
from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.1.2")


def run_attention(program, base, seed, *lengths, dtype=mx.float32, batch=2, extra=None, doubling=False):
    """Return the layer's output and its cache's token count; `doubling` uses doubling parts and halved matrices."""
    model = random_model(base, seed, dtype).with_weights(**(extra or {}))
    config, weights = ModelConfig.from_dict(model.config), (halved(model) if doubling else model).layer(0)
    layer, kept = program(config, weights, *[Doubling()] * doubling), KVCache(4)
    x = normals(seed, dtype)(batch, sum(n for n in lengths if n > 0), config.hidden_size)
    found = in_parts(lambda part: layer(part, kept), kept.rewind, x, Parts(lengths))
    return found, mx.array(kept.offset)


known.probe_table(
    whole=lambda program: run_attention(program, QWEN3, 31, 5),
    parts=lambda program: run_attention(program, QWEN3, 32, 3, 1, 2),
    one_by_one=lambda program: run_attention(program, QWEN3, 33, 1, 1, 1, 1),
    first_token=lambda program: run_attention(program, QWEN3, 34, 1, batch=1),
    biases=lambda program: run_attention(program, QWEN25, 35, 2, 3),
    rewound=lambda program: run_attention(program, QWEN25, 36, 2, -2, 2, 1),
    with_the_other_s_weights=lambda program: run_attention(
        program, QWEN3, 37, 2, 2, extra=random_model({**QWEN25, "hidden_size": 12, "head_dim": 8}, 370).weights
    ),
    by_other_parts=lambda program: run_attention(program, QWEN25, 40, 2, 1, doubling=True),
)
known.probe_table(mx.float16, half=lambda program: run_attention(program, QWEN3, 38, 2, 1, 1, dtype=mx.float16))


@known.probe()
def two_sequences(program):
    """Return the outputs of two sequences, one after the other, by one layer."""
    model = random_model(QWEN3, 42)
    layer, x = program(ModelConfig.from_dict(model.config), model.layer(0)), normals(42)(1, 3, 12)
    return tuple(layer(x[:, start:], kept) for kept in (KVCache(4), KVCache(4)) for start in (0, 2))


@known.probe()
def attention_refuses(program):
    """Return whether two tokens are rejected with one position left, and the cache's token count afterwards."""
    model = random_model(QWEN3, 39, max_position_embeddings=4)
    layer, kept = program(ModelConfig.from_dict(model.config), model.layer(0)), KVCache(4)
    x = normals(39)(1, 3, 12)
    layer(x, kept)
    return mx.array([refusal(lambda: layer(x[:, :2], kept)), kept.offset])


@known.probe()
def attention_stores(program):
    """Return the shapes of what the cache is given, and the bytes of an element."""
    model, given = random_model(QWEN3, 41, mx.float16), []

    class Recording(KVCache):
        def update_and_fetch(self, key, value):
            given.extend(x for v in (key, value) for x in (*v.shape, v.dtype.size))
            return super().update_and_fetch(key, value)

    layer, kept = program(ModelConfig.from_dict(model.config), model.layer(0)), Recording(4)
    mx.eval(layer(normals(41, mx.float16)(2, 3, model.config["hidden_size"]), kept))
    return mx.array(given)


@known.sized("one token after 2,048, E 512, H 8, H_kv 4, D 128")
def sized(program):
    measures = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128}
    model = random_model(QWEN3, 1, num_hidden_layers=1, max_position_embeddings=4096, **measures)
    layer = program(ModelConfig.from_dict(model.config), model.layer(0))
    draw, kept = normals(1), KVCache()
    mx.eval(kept.update_and_fetch(draw(1, 4, 2048, 128), draw(1, 4, 2048, 128)))
    new = draw(1, 1, 512)

    def run():
        found = layer(new, kept)
        kept.rewind(1)
        return found

    return run


known.change(
    "positions-from-zero",
    ("slice(cache.offset, cache.offset + x.shape[1])", "slice(0, x.shape[1])"),
    fact="the positions of every call start at 0",
    question="Three tokens are in the cache. What is the position of the next one?",
)
known.change(
    "positions-one-short",
    ("cache.offset, cache.offset +", "max(0, cache.offset - 1), max(0, cache.offset - 1) +"),
    fact="the new positions start at the cache's last token instead of after it",
    question="Three tokens are in the cache, at positions 0, 1 and 2. Which is the next one?",
)
known.change(
    "positions-after-the-update",
    ("(cache.offset, cache.offset + x.shape[1])", "(cache.offset + x.shape[1], cache.offset + 2 * x.shape[1])"),
    fact="offset is read after update_and_fetch, so every position is too large by L",
    question="What is offset before update_and_fetch, and what is it afterwards?",
)
known.change(
    "positions-counted-by-the-layer",
    ("self.head_dim = config.head_dim", "self.head_dim = config.head_dim\nself.position = 0"),
    (
        "positions = slice(cache.offset, cache.offset + x.shape[1])",
        "if cache.offset + x.shape[1] > self.rope.seq_len:\n    raise ValueError(cache.offset)\n"
        "positions = slice(self.position, self.position + x.shape[1])\nself.position += x.shape[1]",
    ),
    fact="the layer counts the tokens itself, through all sequences and past every rewind",
    question="The layer serves a second sequence. At which position does your count start?",
)
known.change(
    "query-not-moved",
    ("self.rope(query, positions)", "self.rope(query)"),
    fact="queries are rotated from position 0 in every call, while keys get their own positions",
    question="A score depends on the distance between query and key. Which position do you give the query?",
)
known.change(
    "key-not-moved",
    ("self.rope(key, positions)", "self.rope(key)"),
    fact="keys are rotated from position 0 in every call, while queries get their own positions",
    question="Which positions are encoded in the keys that your cache stores?",
)
known.change(
    "keys-without-rope",
    ("self.rope(key, positions)", "key"),
    fact="keys are cached without RoPE",
    question="What must happen to a key before a query is multiplied by it?",
)
known.change(
    "queries-without-rope",
    ("self.rope(query, positions)", "query"),
    fact="RoPE is not applied to the queries",
    question="Which two arrays does RoPE rotate?",
)
known.change(
    "keys-rotated-twice",
    ("keys, values, mask", "self.rope(keys.swapaxes(1, 2)).swapaxes(1, 2), values, mask"),
    fact="the keys that the cache returns are rotated a second time",
    question="How many times has a cached key been rotated when the third token after it arrives?",
)
known.change(
    "cache-unread",
    ("keys, values = cache.update_and_fetch", "cache.update_and_fetch"),
    ("keys, values, mask", "key.swapaxes(1, 2), value.swapaxes(1, 2), mask"),
    fact="the new queries attend only to the new keys and values, not to what the cache returns",
    question="What do you do with the two arrays that update_and_fetch returns?",
)
known.change(
    "no-mask",
    (', mask="causal"', ""),
    fact="there is no mask, so a new token sees later tokens of the same call",
    question="Two tokens arrive in one call. May the first see the second?",
)
known.change(
    "mask-upper-left",
    (', mask="causal"', ", mask=mx.where(mx.arange(keys.shape[2]) <= mx.arange(x.shape[1])[:, None], 0.0, -mx.inf)"),
    fact="the mask starts in the upper left corner, so the first new token sees only the first key",
    question="Three tokens are in the cache, and one arrives. Which of the four may it see?",
)
known.change(
    "mask-of-the-new",
    (', mask="causal"', ", mask=mx.where(mx.arange(x.shape[1]) <= mx.arange(x.shape[1])[:, None], 0.0, -mx.inf)"),
    fact="the mask covers only the new tokens, L x L",
    question="How many columns does the mask have if two tokens arrive and three are cached?",
)
known.change(
    "mask-in-the-first-call",
    ('mask="causal"', 'mask="causal" if cache.offset == x.shape[1] else None'),
    fact="only the first call is masked",
    question="A second chunk of three tokens arrives. May its first token see its last?",
)
known.change(
    "keys-as-values",
    ("value.swapaxes(1, 2))", "key.swapaxes(1, 2))"),
    fact="keys are cached in place of the values",
    question="What does attention average: keys or values?",
)
known.change(
    "cached-twice",
    ("attended = ", "keys, values = cache.update_and_fetch(key.swapaxes(1, 2), value.swapaxes(1, 2))\nattended = "),
    fact="every new token is appended to the cache twice",
    question="How many keys should the cache hold after a first call with two tokens?",
)
known.change(
    "norms-left-out",
    ("if self.q_norm and self.k_norm:", "if False:"),
    fact="queries and keys are not normalized",
    question="Which of Qwen3's weights does your layer never use?",
)
known.change(
    "norm-after-rope",
    ("query, key = self.q_norm(query), self.k_norm(key)", "pass"),
    (
        "keys, values = cache",
        "if self.q_norm and self.k_norm:\n    query, key = self.q_norm(query), self.k_norm(key)\nkeys, values = cache",
    ),
    fact="queries and keys are normalized after RoPE",
    question="Which comes first in your layer of week 1: the norm or RoPE?",
)
known.change(
    "one-norm-for-both",
    ("self.k_norm(key)", "self.q_norm(key)"),
    fact="the keys are normalized with q_norm's weight",
    question="Which two norms does the attention of a Qwen3 layer have?",
)
known.change(
    "whatever-weights-there-are",
    (" if qwen3 else None", ' if f"self_attn.{x}_norm.weight" in weights else None'),
    ("bias=not qwen3", 'bias=f"self_attn.{x}_proj.bias" in weights'),
    fact="norms and biases are used whenever the weights contain them, and the config's model_type is ignored",
    question="What decides whether there are biases: the config, or the contents of the dictionary?",
)
known.change(
    "biases-left-out",
    (", bias=not qwen3", ""),
    fact="the biases of Qwen2.5 are not added",
    question="Which of Qwen2.5's weights does your layer never use?",
)
known.change(
    "theta-default",
    ("config.max_position_embeddings, config.rope_theta", "config.max_position_embeddings"),
    fact="RoPE uses its default base instead of the config's theta",
    question="Where does RoPE's base come from?",
)
known.change(
    "eps-default",
    ('_norm.weight"], config.rms_norm_eps', '_norm.weight"]'),
    fact="the norms of queries and keys use a fixed eps instead of the config's",
    question="Where does the eps of the norms come from?",
)
known.change(
    "head-dim-from-hidden",
    ("self.head_dim = config.head_dim", "self.head_dim = config.hidden_size // config.num_attention_heads"),
    fact="head_dim is computed as hidden_size / num_attention_heads",
    question="What is hidden_size / num_attention_heads here, and what does the config give as head_dim?",
)
known.change(
    "parts-left-alone",
    ("self.output = parts.", "self.output = DENSE."),
    ("[parts.projection", "[DENSE.projection"),
    fact="the projections read the checkpoint's weights directly, and `parts` is ignored",
    question="What is the constructor's third argument for?",
)
known.change(
    "output-without-parts",
    ("self.output = parts.", "self.output = DENSE."),
    fact="the output projection reads the checkpoint's weight directly instead of using `parts`",
    question="How many projections does attention have, and how many of yours does `parts` create?",
)
known.change(
    "refused-too-late",
    (
        "query, key = self.rope(query",
        "if positions.stop > self.rope.seq_len:\n    cache.update_and_fetch(key.swapaxes(1, 2), value.swapaxes(1, 2))\n"
        "query, key = self.rope(query",
    ),
    fact="tokens beyond max_position_embeddings raise an error only after they are in the cache",
    question="When RoPE raises, what is in the cache already?",
)
known.change(
    "query-after-the-update",
    ("query, key = self.rope(query, positions), self.rope(key, positions)", "key = self.rope(key, positions)"),
    ("attended = ", "query = self.rope(query, slice(cache.offset, cache.offset + x.shape[1]))\nattended = "),
    fact="the query is rotated after update_and_fetch, so its positions are too large by L",
    question="Which value does cache.offset have when you rotate the key, and which when you rotate the query?",
)


known.change(
    "heads-repeated-in-the-cache",
    (
        "positions = slice",
        "group = query.shape[2] // key.shape[2]\n"
        "key, value = mx.repeat(key, group, axis=2), mx.repeat(value, group, axis=2)\n"
        "positions = slice",
    ),
    fact="each key-value head is repeated for all of its query heads before it is cached",
    question="How many heads does the cache store for a model with 16 query heads and 8 key-value heads?",
)


@known.accepted("mask-as-an-array")
class MaskAsAnArray:
    """Heads that share keys are adjacent, and the mask is an array."""

    def __init__(self, config, weights, parts=DENSE):
        self.config, self.rope = config, RoPE(config.head_dim, config.max_position_embeddings, config.rope_theta)
        biases, norms = ("", "qk") if config.model_type == "qwen3" else ("qkv", "")
        self.project = {name: parts.projection(weights, f"self_attn.{name}_proj", name in biases) for name in "qkvo"}
        self.norms = {name: weights[f"self_attn.{name}_norm.weight"] for name in norms}

    def heads(self, x, name, offset):
        y = self.project[name](x).reshape(*x.shape[:2], -1, self.config.head_dim)
        if name in self.norms:
            y = mx.fast.rms_norm(y, self.norms[name], self.config.rms_norm_eps)
        y = y if name == "v" else self.rope(y, slice(offset, offset + x.shape[1]))
        return y.transpose(0, 2, 1, 3)

    def __call__(self, x, cache):
        c, offset = self.config, cache.offset
        query, key, value = (self.heads(x, name, offset) for name in "qkv")
        keys, values = cache.update_and_fetch(key, value)
        batch, _, length, dims = query.shape
        grouped = query.reshape(batch, c.num_key_value_heads, -1, length, dims)
        scores = grouped @ keys[:, :, None].swapaxes(-1, -2) * dims**-0.5 + causal(length, keys.shape[2], x.dtype)
        y = mx.softmax(scores, axis=-1, precise=True) @ values[:, :, None]
        y = y.reshape(batch, -1, length, dims).transpose(0, 2, 1, 3)
        return self.project["o"](y.reshape(batch, length, -1))


@known.accepted("turned-when-they-are-read")
class TurnedWhenTheyAreRead(MaskAsAnArray):
    """The cache holds keys without RoPE; each call rotates all of them."""

    def __call__(self, x, cache):
        offset, rope = cache.offset, self.rope
        query = self.heads(x, "q", offset)
        self.rope = lambda y, positions: y
        key, value = self.heads(x, "k", offset), self.heads(x, "v", offset)
        self.rope = rope
        keys, values = cache.update_and_fetch(key, value)
        keys = rope(keys.swapaxes(1, 2)).swapaxes(1, 2)
        y = scaled_dot_product_attention_grouped(query, keys, values, mask="causal")
        return self.project["o"](y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))
