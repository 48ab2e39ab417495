"""Week 4, day 4: what a token leaves behind, latent attention expanded, its cache, and absorbed projections.

Attention is held to the formula in float64, to MLX's own operators and to the DeepSeek-V3 layer of `transformers`, on
the same weights. What is counted is held to arrays that exist.
"""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.counting import same_counts
from tests.week2.in_parts import Parts, in_parts, parts_of
from tests.week4.latent_formulas import COMPRESSED, PLAIN, absorbed64, expanded64, latents64, queries64, random_layer

from tiny_llm.latent_attention import absorbed, cache, expanded, sizes
from tiny_llm.latent_attention.config import LatentConfig
from tiny_llm_course.testkit.again import backwards, built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less, most_at_once
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes as all_sizes
from tiny_llm_course.testkit.sizes import sweep

by_query = pytest.mark.parametrize("base", [PLAIN, COMPRESSED], ids=["q_proj", "q_a_proj"])
by_parts = pytest.mark.parametrize("parts", [(5,), (3, 2), (1, 1, 1, 1, 1), (2, -3, 3)], ids=str)
cuts = st.lists(st.integers(1, 3), min_size=1, max_size=4)


# Task 1, what a token leaves behind

LLAMA = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "torch_dtype": "float16"}
QWEN = {
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "torch_dtype": "bfloat16",
}
GEMMA = {**QWEN, "hidden_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 18, "head_dim": 256}
GEMMA = {**GEMMA, "num_key_value_heads": 1}
DEEPSEEK = {
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}
OF_NAME = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


def kept(config, in_full):
    """What one layer keeps of a token: arrays."""
    dtype = OF_NAME[config.get("torch_dtype") or config.get("dtype") or "float32"]
    heads = config["num_attention_heads"]
    if config.get("kv_lora_rank") is not None and not in_full:
        shapes = [(config["kv_lora_rank"],), (config["qk_rope_head_dim"],)]
    elif config.get("kv_lora_rank") is not None:
        shapes = [(heads, config[f"{name}_head_dim"]) for name in ("qk_nope", "qk_rope", "v")]
    else:
        dims = config["hidden_size"] // heads if config.get("head_dim") is None else config["head_dim"]
        shapes = 2 * [(heads if config.get("num_key_value_heads") is None else config["num_key_value_heads"], dims)]
    return [mx.zeros(shape, dtype) for shape in shapes]


def counted(config, kind, in_full=False, swept=False):
    """The size must be that of the arrays."""
    words = ", ".join(f"{name} {value}" for name, value in config.items())
    case = f"{words}{', expanded' * in_full}"
    given = dict(config)
    with noted(case):
        found = sizes.cache_size(given, True) if in_full else sizes.cache_size(given)
    arrays = kept(config, in_full)
    layers = config["num_hidden_layers"]
    elements, nbytes = sum(x.size for x in arrays), layers * sum(x.nbytes for x in arrays)
    same_counts(found, sizes.CacheSize, {"elements": elements, "bytes": nbytes}, case, layers, swept)
    if found.kind != kind:
        fail(Kind.VALUES, "another kind", case, f"expected  {kind}", f"got       {found.kind}", size=layers)
    if given != config:
        fail(Kind.INPUT_CHANGED, "the caller's `config` was changed", case, size=layers)


@pytest.mark.parametrize(
    ("config", "kind"), [(LLAMA, "MHA"), (QWEN, "GQA"), (GEMMA, "MQA"), (DEEPSEEK, "MLA")], ids=["7B", "Q", "G", "V3"]
)
def test_task_1_size_of_known_models(config, kind):
    """The measures of Llama-2-7B, Qwen3-0.6B, Gemma-2B and DeepSeek-V3."""
    counted(config, kind)


@pytest.mark.parametrize("name", ["num_key_value_heads", "head_dim", "torch_dtype", "q_lora_rank"])
@pytest.mark.parametrize("config", [QWEN, DEEPSEEK], ids=["Q", "V3"])
def test_task_1_size_without_an_entry(config, name):
    """None means the same as an entry that is missing."""
    rest = {key: value for key, value in config.items() if key != name}
    kind = "MLA" if config is DEEPSEEK else "MHA" if name == "num_key_value_heads" else "GQA"
    counted(rest, kind)
    counted({**rest, name: None}, kind)


def test_task_1_size_no_latent():
    """Some files name what their model does not have."""
    counted({**QWEN, "kv_lora_rank": None, "qk_rope_head_dim": None, "v_head_dim": None}, "GQA")


@pytest.mark.parametrize("dtype", [*OF_NAME, None])
@pytest.mark.parametrize("name", ["torch_dtype", "dtype"])
def test_task_1_size_dtypes(name, dtype):
    for config, kind in ((QWEN, "GQA"), (DEEPSEEK, "MLA")):
        rest = {key: value for key, value in config.items() if key != "torch_dtype"}
        counted({**rest, name: dtype}, kind)


def test_task_1_size_expanded():
    """Keys and values of every head, where there is a latent, and no change where there is none."""
    counted(DEEPSEEK, "MLA", in_full=True)
    counted({**DEEPSEEK, "v_head_dim": 96}, "MLA", in_full=True)
    for config, kind in ((LLAMA, "MHA"), (QWEN, "GQA"), (GEMMA, "MQA")):
        counted(config, kind, in_full=True)


@pytest.mark.parametrize(("heads", "kv_heads", "kind"), [(1, 1, "MHA"), (2, 1, "MQA"), (2, 2, "MHA"), (6, 3, "GQA")])
def test_task_1_size_kinds(heads, kv_heads, kind):
    counted({**QWEN, "num_attention_heads": heads, "num_key_value_heads": kv_heads}, kind)


@pytest.mark.parametrize("dtype", ["int8", "float64", "fp8"])
def test_task_1_size_refuses_other_dtypes(dtype):
    with raises_value_error(f"torch_dtype {dtype}", dtype):
        sizes.cache_size({**QWEN, "torch_dtype": dtype})


def test_task_1_size_sweep():
    for n in all_sizes(K=20, G=20, D=4200, X=20, C=4200, T=130):
        config = {"hidden_size": n.K * n.G * n.D + n.X - 1, "num_attention_heads": n.K * n.G, "num_hidden_layers": n.T}
        config |= {"dtype": n.turn("bfloat16", "float32", "float16")}
        grouped = {**config, "num_key_value_heads": n.K, "head_dim": n.turn(n.D, None)}
        counted(grouped, "MHA" if n.G == 1 else "MQA" if n.K == 1 else "GQA", swept=True)
        latent = {"kv_lora_rank": n.C, "qk_nope_head_dim": n.D, "qk_rope_head_dim": 2 * n.X, "v_head_dim": n.G}
        counted({**grouped, **latent}, "MLA", n.turn(False, True), swept=True)


# Task 2, expanded


def of(layer):
    return LatentConfig.from_dict(layer.config)


def seen_from(method, number):
    """One of the two arrays that a method gives, of tokens from a position on."""

    @built
    def part(x, layer, first=0):
        made = expanded.LatentAttention(of(layer), layer.weights)
        return lambda x, first: getattr(made, method)(x, slice(first, first + x.shape[1]))[number]

    return part


def seen_from64(formula, number, heads):
    def part64(x, layer, first=0, *, r=exact):
        found = formula(x, layer, first, r=r)[number]
        return np.ascontiguousarray(found.swapaxes(1, 2)) if heads else found

    return part64


PARTS = {
    "query without a position": (seen_from("queries", 0), seen_from64(queries64, 0, True)),
    "query with a position": (seen_from("queries", 1), seen_from64(queries64, 1, True)),
    "latent": (seen_from("latents", 0), seen_from64(latents64, 0, False)),
    "rope key": (seen_from("latents", 1), seen_from64(latents64, 1, False)),
}
by_part = pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())


@built
def attended(x, layer):
    made = expanded.LatentAttention(of(layer), layer.weights)
    return lambda x: made(x)


def stream(seed, layer, batch=2, length=8):
    return normals(seed, layer.dtype)(batch, length, layer.config["hidden_size"])


@by_dtype
@by_query
@by_part
def test_task_2_expanded_parts(part, base, dtype):
    """Queries and latents by themselves, of tokens that begin the text and of later ones."""
    layer = random_layer(base, 1, dtype)
    for first in (0, 5):
        agrees(*part, stream(1, layer), layer, first, seed=1)


@by_part
def test_task_2_expanded_parts_far_on(part):
    """The last positions that the config allows, and another theta."""
    layer = random_layer(COMPRESSED, 2, rope_theta=10000.0)
    agrees(*part, stream(2, layer), layer, 88, seed=2)


@by_dtype
@by_query
@pytest.mark.parametrize("batch", [1, 2])
def test_task_2_expanded_formula(batch, base, dtype):
    layer = random_layer(base, 3, dtype)
    agrees(attended, expanded64, stream(3, layer, batch), layer, seed=3)


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 1},
        {"v_head_dim": 5},
        {"v_head_dim": 9},
        {"qk_nope_head_dim": 4},
        {"kv_lora_rank": 20},
        {"hidden_size": 18},
        {"rope_theta": 10.0},
        {"qk_rope_head_dim": 2},
    ],
    ids=str,
)
@by_query
def test_task_2_expanded_other_config(base, change):
    layer = random_layer(base, 4, **change)
    agrees(attended, expanded64, stream(4, layer), layer, seed=4)


def without(layer, part):
    """A layer in which one part of every score is 0, or every value."""
    c, w = layer.config, layer.weights
    nope, rope, latent = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["kv_lora_rank"]
    heads, values = c["num_attention_heads"], c["v_head_dim"]
    down, up = w["self_attn.kv_a_proj_with_mqa.weight"], w["self_attn.kv_b_proj.weight"]
    if part == "rope":
        return layer.with_weights(kv_a_proj_with_mqa=mx.where(mx.arange(latent + rope)[:, None] < latent, down, 0))
    is_key = (mx.arange(heads * (nope + values)) % (nope + values) < nope)[:, None]
    return layer.with_weights(kv_b_proj=mx.where(is_key if part == "nope" else ~is_key, 0, up))


@by_query
@pytest.mark.parametrize("part", ["rope", "nope"])
def test_task_2_expanded_one_part_silent(part, base):
    """With zeros for the rope key, or for every other key, the second product or the first is seen alone."""
    layer = without(random_layer(base, 5), part)
    agrees(attended, expanded64, stream(5, layer), layer, seed=5)


@by_query
def test_task_2_expanded_latents_of_one_length(base):
    """x of any length gives the same latent: it is normed. Only the rope key, which is not, is silent here."""
    layer = without(random_layer(base, 6), "rope")
    for longer in (0.01, 100.0):
        agrees(attended, expanded64, longer * stream(6, layer), layer, seed=6)


@by_query
def test_task_2_expanded_first_token(base):
    """It sees itself alone: no score matters."""
    layer = random_layer(base, 7)
    agrees(attended, expanded64, stream(7, layer, 2, 1), layer, seed=7)


@by_query
def test_task_2_expanded_leaves_other_weights_alone(base):
    """A layer's dictionary holds its MLP, too, and the names without `self_attn.` are somebody else's."""
    layer = random_layer(base, 8)
    names = [name.removeprefix("self_attn.") for name in layer.weights]
    others = {"mlp.gate_proj.weight": mx.ones((3, 3)), **{name: mx.ones((2, 2)) for name in names}}
    fuller = type(layer)(layer.config, others | layer.weights)
    x = stream(8, layer)
    agrees(attended, expanded64, x, fuller, seed=8, expected=expanded64(to_float64(x), layer))


@by_query
def test_task_2_expanded_is_what_the_config_says(base):
    """The other sort of query's weights lie in the same dictionary; q_lora_rank decides."""
    other = COMPRESSED if base is PLAIN else PLAIN
    layer = random_layer(base, 9)
    fuller = type(layer)(layer.config, random_layer(other, 90).weights | layer.weights)
    x = stream(9, layer)
    agrees(attended, expanded64, x, fuller, seed=9, expected=expanded64(to_float64(x), layer))


@by_query
def test_task_2_expanded_needs_every_weight(base):
    layer = random_layer(base, 10)
    for name in layer.weights:
        part = {other: w for other, w in layer.weights.items() if other != name}
        with raises_error(KeyError, f"building a layer of {layer}, without {name}"):
            expanded.LatentAttention(of(layer), part)


def test_task_2_expanded_refuses_more_tokens_than_the_config_allows():
    layer = random_layer(PLAIN, 11, max_position_embeddings=4)
    attended(stream(11, layer, 1, 4), layer)
    with raises_value_error(f"float32, x 1 x 5 x 20, {layer}, max_position_embeddings 4"):
        mx.eval(attended(stream(11, layer, 1, 5), layer))


def of_operators(x, layer):
    """The same of MLX's own operators; a value is made as wide as a key with zeros, and cut again."""
    c, w = layer.config, {name.split(".")[1]: w for name, w in layer.weights.items()}
    heads, nope, dims = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    theta, values = c["rope_theta"], c["v_head_dim"]

    def turned(y):
        return mx.fast.rope(y, dims, traditional=True, base=theta, scale=1.0, offset=0)

    def split(y):
        return mx.split(mx.unflatten(y, -1, (heads, -1)).swapaxes(1, 2), [nope], axis=-1)

    given = x
    if c["q_lora_rank"] is not None:
        given = mx.fast.rms_norm(x @ w["q_a_proj"].T, w["q_a_layernorm"], 1e-6)
    query, query_rope = split(given @ (w["q_proj"] if c["q_lora_rank"] is None else w["q_b_proj"]).T)
    latent, key_rope = mx.split(x @ w["kv_a_proj_with_mqa"].T, [c["kv_lora_rank"]], axis=-1)
    key, value = split(mx.fast.rms_norm(latent, w["kv_a_layernorm"], 1e-6) @ w["kv_b_proj"].T)
    key = mx.concatenate([key, mx.repeat(turned(key_rope[:, None]), heads, axis=1)], axis=-1)
    query = mx.concatenate([query, turned(query_rope)], axis=-1)
    value = mx.concatenate([value, mx.zeros((*value.shape[:-1], nope + dims - values))], axis=-1)
    y = mx.fast.scaled_dot_product_attention(query, key, value, scale=(nope + dims) ** -0.5, mask="causal")
    return y[..., :values].swapaxes(1, 2).flatten(2) @ w["o_proj"].T


@by_query
def test_task_2_expanded_mlx(base):
    layer = random_layer(base, 12)
    x = stream(12, layer)
    agrees(attended, expanded64, x, layer, seed=12, expected=to_float64(of_operators(x, layer)))


def deepseek(torch, x, config, weights):
    """The attention of DeepSeek-V3 as `transformers` has it, with these weights."""
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding

    rope = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    given = {name: value for name, value in config.items() if name != "rope_theta"}
    given |= {"num_key_value_heads": config["num_attention_heads"], "num_hidden_layers": 1, "rope_parameters": rope}
    theirs = DeepseekV3Config(**given, attn_implementation="eager")
    layer, length = DeepseekV3Attention(theirs, 0).eval(), x.shape[1]
    layer.load_state_dict({name.removeprefix("self_attn."): w for name, w in weights.items()}, strict=True)
    mask = torch.triu(torch.full((1, 1, length, length), float("-inf")), diagonal=1)
    with torch.no_grad():
        angles = DeepseekV3RotaryEmbedding(theirs)(x, torch.arange(length)[None])
        return layer(x, angles, mask)[0]


@by_query
def test_task_2_expanded_pytorch(pytorch, base):
    layer = random_layer(base, 13)
    x = stream(13, layer)

    def theirs(torch, x, **weights):
        return deepseek(torch, x, layer.config, weights)

    expected = pytorch(theirs, x, **layer.weights)
    agrees(attended, expanded64, x, layer, seed=13, expected=expected)


def layer_of(n):
    """A layer of a sweep's sizes."""
    measures = {
        "num_attention_heads": n.H,
        "kv_lora_rank": n.C,
        "qk_nope_head_dim": n.D,
        "qk_rope_head_dim": 2 * n.P,
        "v_head_dim": n.V,
        "hidden_size": n.E,
        "q_lora_rank": n.turn(None, n.C + 1, n.D),
        "rope_theta": n.turn(10000.0, 500.0, 1000000.0),
        "max_position_embeddings": n.L + 5,
    }
    return random_layer(PLAIN, n.seed, n.dtype, **measures)


def test_task_2_expanded_sweep():
    for n in sweep(N=5, L=130, E=65, H=9, C=65, D=33, P=17, V=33):
        layer = layer_of(n)
        x = stream(n.seed, layer, n.N, n.L) * max(n.spread, 0.03)
        agrees(attended, expanded64, x, layer, seed=n)


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_2_expanded_keeps_the_past(length, changed, seed):
    """Other tokens from some position on leave every earlier output."""
    changed = min(changed, length - 1)
    layer = random_layer(COMPRESSED, seed)
    x = stream(seed, layer, 1, length)
    agrees(attended, expanded64, x, layer, seed=seed)
    noise = mx.where(mx.arange(length)[:, None] < changed, 0.0, 5.0)
    first, second = attended(x, layer), attended(x + noise, layer)
    case = f"float32, x 1 x {length} x 20, {layer}, x changed from {changed} on, seed {seed}"
    compare(second[:, :changed], to_float64(first)[:, :changed], mx.float32, 1e-5, case, x.size)


@property_test
@given(first=st.integers(1, 60), seed=st.integers(0, 99))
def test_task_2_expanded_scores_depend_on_the_distance(first, seed):
    """Queries and rope keys further on in the text have the same products."""
    layer = random_layer(PLAIN, seed)
    x = stream(seed, layer, 1, 4)
    for part in PARTS.values():
        agrees(*part, x, layer, first, seed=seed)
    made = expanded.LatentAttention(of(layer), layer.weights)

    def products(start):
        where = slice(start, start + 4)
        return made.queries(x, where)[1] @ made.latents(x, where)[1][:, None].swapaxes(-1, -2)

    case = f"float32, x 1 x 4 x 20, {layer}, positions from {first} against positions from 0, seed {seed}"
    compare(products(first), to_float64(products(0)), mx.float32, 1e-4, case, x.size)


# Task 3, the cache


def all_entries(latent, rope_key, parts, room=4):
    """The entries of all fetches, one behind the other. Those of each call are held while later ones write."""
    made, found, at = cache.LatentCache(room), [], 0
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


def all_entries64(latent, rope_key, parts, room=4, *, r=exact):
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


def cache_agrees(latent, rope_key, parts, room=4, *, seed):
    agrees(all_entries, all_entries64, latent, rope_key, Parts(parts), room, seed=seed)


def pair(seed, batch, length, latent=5, rope=4, dtype=mx.float32):
    draw = normals(seed, dtype)
    return draw(batch, length, latent), draw(batch, length, rope)


@by_dtype
@by_parts
def test_task_3_cache_fetches_all(parts, dtype):
    cache_agrees(*pair(1, 2, 5, dtype=dtype), parts, seed=1)


@pytest.mark.parametrize("room", [1, 2, 3, 5, 256])
def test_task_3_cache_any_room(room):
    for parts in ((5, 2), (2, 3, 2), (1,) * 7, (3, -2, 4)):
        cache_agrees(*pair(2, 2, 7), parts, room, seed=2)


def test_task_3_cache_doubles_several_times_at_once():
    cache_agrees(*pair(3, 1, 40), (3, 30, 7), seed=3)


@pytest.mark.parametrize("parts", [(-4, 5), (2, -2, 4), (4, -4, 4)], ids=str)
def test_task_3_cache_keeps_what_was_fetched(parts):
    """Entries of an earlier call stay as they were when others are written where they were, in a full array."""
    cache_agrees(*pair(4, 2, sum(n for n in parts if n > 0)), parts, seed=4)


def test_task_3_cache_sweep():
    for n in sweep(N=9, L=1100, C=130, P=33):
        parts = parts_of(n.seed, n.L)
        cache_agrees(*pair(n.seed, n.N, n.L, n.C, n.P, n.dtype), parts, n.turn(256, 1, 7, 64), seed=n)


@property_test
@given(parts=cuts, junk=st.integers(0, 3), room=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_3_cache_any_split(parts, junk, room, seed):
    junk = [-min(junk, sum(parts))] if junk else []
    cache_agrees(*pair(seed, 2, sum(parts)), (*parts[:1], *junk, *parts[1:]), room, seed=seed)


@by_dtype
def test_task_3_cache_counts(dtype):
    """offset and nbytes are whole numbers, 0 at first; what nobody has written does not count."""
    case = f"{dtype}, room 4, latent 2 x L x 5, rope_key 2 x L x 4, calls of 2, 1 and 4 tokens, then rewind(3) and (4)"
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
    """What comes after a rewind stands where the forgotten ones stood."""
    old, new = pair(6, 2, 6), pair(60, 2, 5)
    case = f"float32, latent 2 x 6 x 5, room 4, rewind({count}), then latent 2 x 5 x 5, seed 6"
    with noted(case):
        made = cache.LatentCache(4)
        made.update_and_fetch(*old)
        made.rewind(count)
        actual = made.update_and_fetch(*new)
    before, after = (np.concatenate([to_float64(x) for x in two], axis=-1) for two in (old, new))
    expected = np.concatenate([before[:, : 6 - count], after], axis=1)
    compare(actual, expected, mx.float32, 0.0, case, expected.size)


def test_task_3_cache_is_filled_while_entries_are_held():
    """Four tokens fill the room; two are forgotten, and others take their places: not in what was fetched."""
    old = pair(7, 2, 4)
    case = "float32, latent 2 x 4 x 5, room 4, rewind(2), then latent 2 x 2 x 5, seed 7"
    with noted(case):
        made = cache.LatentCache(4)
        actual = made.update_and_fetch(*old)
        mx.eval(actual)
        made.rewind(2)
        mx.eval(made.update_and_fetch(*pair(70, 2, 2)))
    expected = np.concatenate([to_float64(x) for x in old], axis=-1)
    compare(actual, expected, mx.float32, 0.0, f"what the first call gave; {case}", expected.size)


def test_task_3_cache_copies_seldom():
    """Of 120 tokens, one at a time with room for 4, five need a copy of what is there."""
    latent, rope_key = normals(8)(1, 1, 256), normals(80)(1, 1, 64)
    case = "float32, latent 1 x 1 x 256, rope_key 1 x 1 x 64, room 4, 120 calls"
    copied = 0
    with noted(case):
        made = cache.LatentCache(4)
        for number in range(120):
            taken = most_at_once(lambda: made.update_and_fetch(latent, rope_key))
            copied += number >= 40 and taken > number * 4 * 320
    if copied > 6:
        headline = f"{copied} of the last 80 calls took as much memory as all entries: what is there is copied"
        fail(Kind.VALUES, headline, case, "at most   6, as the room is doubled only once in them")


OTHERS = {
    "another batch": ((1, 2, 5), (1, 2, 4)),
    "another latent": ((2, 2, 1), (2, 2, 4)),
    "another rope key": ((2, 2, 5), (2, 2, 2)),
    "exchanged": ((2, 2, 4), (2, 2, 5)),
    "one long, one short": ((2, 2, 6), (2, 2, 3)),
    "fewer rope keys": ((2, 2, 5), (2, 1, 4)),
    "rope keys of another batch": ((2, 2, 5), (1, 2, 4)),
}


@pytest.mark.parametrize("shapes", OTHERS.values(), ids=OTHERS.keys())
def test_task_3_cache_refuses_other_shapes(shapes):
    """Also such as would broadcast, or fit together; afterwards it goes on as if nothing had been."""
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


@pytest.mark.parametrize("count", [6, 260, -1])
def test_task_3_cache_refuses_to_rewind_more_than_there_is(count):
    case = f"float32, latent 2 x 5 x 5, rewind({count})"
    made = cache.LatentCache()
    made.update_and_fetch(*pair(11, 2, 5))
    with raises_value_error(case, str(abs(count)), "5"):
        made.rewind(count)
    if made.offset != 5:
        fail(Kind.VALUES, "a refused rewind has changed offset", case, "expected  5", f"got       {made.offset}")


# Task 4, absorbed projections


@built
def by_latents(x, layer, parts):
    made = absorbed.AbsorbedLatentAttention(of(layer), layer.weights)

    def run(x):
        own = cache.LatentCache(4)
        return in_parts(lambda part: made(part, own), own.rewind, x, parts)

    return run


@by_dtype
@by_query
@by_parts
def test_task_4_absorbed_formula(parts, base, dtype):
    layer = random_layer(base, 21, dtype)
    agrees(by_latents, absorbed64, stream(21, layer, 2, 5), layer, Parts(parts), seed=21)


@by_dtype
@by_query
def test_task_4_absorbed_is_expanded(base, dtype):
    """The formula that it is held to here is that of the layer with keys and values in full."""
    layer = random_layer(base, 22, dtype)
    x = stream(22, layer, 2, 5)
    expected = expanded64(to_float64(x), layer)
    agrees(by_latents, absorbed64, x, layer, Parts((2, 1, 2)), seed=22, expected=expected)


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 1},
        {"v_head_dim": 5},
        {"v_head_dim": 9},
        {"qk_nope_head_dim": 7},
        {"kv_lora_rank": 5},
        {"rope_theta": 10.0},
        {"qk_rope_head_dim": 2},
    ],
    ids=str,
)
def test_task_4_absorbed_other_config(change):
    layer = random_layer(COMPRESSED, 23, **change)
    agrees(by_latents, absorbed64, stream(23, layer, 2, 5), layer, Parts((3, 1, 1)), seed=23)


@pytest.mark.parametrize("part", ["rope", "nope"])
def test_task_4_absorbed_one_part_silent(part):
    layer = without(random_layer(PLAIN, 24), part)
    agrees(by_latents, absorbed64, stream(24, layer, 2, 5), layer, Parts((2, 3)), seed=24)


@by_query
def test_task_4_absorbed_first_token(base):
    """It sees itself alone: only the way of its value counts."""
    layer = random_layer(base, 25)
    agrees(by_latents, absorbed64, stream(25, layer, 2, 1), layer, Parts((1,)), seed=25)


def test_task_4_absorbed_long():
    """More tokens than there is room for at first, and every position that the config allows."""
    layer = random_layer(PLAIN, 26, max_position_embeddings=300, num_attention_heads=2)
    agrees(by_latents, absorbed64, stream(26, layer, 1, 300), layer, Parts((200, 1, 57, 42)), seed=26)


def test_task_4_absorbed_mlx():
    layer = random_layer(COMPRESSED, 27)
    x = stream(27, layer, 2, 5)
    expected = to_float64(of_operators(x, layer))
    agrees(by_latents, absorbed64, x, layer, Parts((2, 1, 2)), seed=27, expected=expected)


@by_query
def test_task_4_absorbed_pytorch(pytorch, base):
    layer = random_layer(base, 28)
    x = stream(28, layer, 2, 5)

    def theirs(torch, x, **weights):
        return deepseek(torch, x, layer.config, weights)

    expected = pytorch(theirs, x, **layer.weights)
    agrees(by_latents, absorbed64, x, layer, Parts((3, 1, 1)), seed=28, expected=expected)


def test_task_4_absorbed_sweep():
    for n in sweep(N=5, L=130, E=65, H=9, C=65, D=33, P=17, V=33):
        layer = layer_of(n)
        x = stream(n.seed, layer, n.N, n.L) * max(n.spread, 0.03)
        agrees(by_latents, absorbed64, x, layer, parts_of(n.seed + n.L, n.L), seed=n)


@property_test
@given(parts=cuts, junk=st.integers(0, 3), seed=st.integers(0, 99))
def test_task_4_absorbed_any_split(parts, junk, seed):
    """However the tokens come, and whatever was read and rewound, what comes out is the same."""
    junk = [-min(junk, sum(parts))] if junk else []
    layer = random_layer(COMPRESSED, seed)
    whole = Parts((*parts[:1], *junk, *parts[1:]))
    agrees(by_latents, absorbed64, stream(seed, layer, 1, sum(parts)), layer, whole, seed=seed)


class Counting:
    """A learner's cache that notes the bytes of every array that it hands out."""

    def __init__(self, own):
        self.own, self.read = own, []

    @property
    def offset(self):
        return self.own.offset

    def update_and_fetch(self, latent, rope_key):
        entries = self.own.update_and_fetch(latent, rope_key)
        self.read.append(entries.nbytes)
        return entries


@by_dtype
def test_task_4_absorbed_reads_the_cache_once(dtype):
    """A decode step reads as many bytes as the latent cache holds: one latent and one rope key for each token."""
    layer = random_layer(PLAIN, 29, dtype)
    case = f"{dtype}, {layer}, x 2 x 6 x 20, then one token in each of three calls"
    with noted(case):
        made, own = absorbed.AbsorbedLatentAttention(of(layer), layer.weights), cache.LatentCache(4)
        counting = Counting(own)
        for length in (6, 1, 1, 1):
            mx.eval(made(stream(29, layer, 2, length), counting))
    expected = [2 * tokens * (7 + 4) * dtype.size for tokens in (6, 7, 8, 9)]
    if counting.read != expected:
        headline = "another number of bytes is read from the cache"
        fail(Kind.VALUES, headline, case, f"expected  {expected}", f"got       {counting.read}")
    if own.offset != 9:
        fail(Kind.VALUES, "the cache's offset is wrong", case, "expected  9", f"got       {own.offset}")


def test_task_4_absorbed_computes_no_keys():
    """32 heads: a key of 32 numbers for each of 1,024 tokens would take 4.2 MB, and what is cached takes 131 KB."""
    changes = {"kv_lora_rank": 24, "qk_nope_head_dim": 32, "qk_rope_head_dim": 8, "v_head_dim": 32}
    layer = random_layer(PLAIN, 30, num_attention_heads=32, max_position_embeddings=2048, **changes)
    case = f"float32, {layer}, x 1 x 1 x 20 after 1,024 tokens, seed 30"
    with noted(case):
        made, own = absorbed.AbsorbedLatentAttention(of(layer), layer.weights), cache.LatentCache(2048)
        mx.eval(own.update_and_fetch(*pair(30, 1, 1024, 24, 8)))
        new = stream(30, layer, 1, 1)
        mx.eval(made(new, own))
    holds_less(lambda: made(new, own), 1024 * 32 * 32 * 2, "half of what the keys of all heads take", case=case)


@by_query
def test_task_4_absorbed_two_texts_in_turn(base):
    """One layer, two caches: neither text hears of the other."""
    layer = random_layer(base, 31)
    x = stream(31, layer, 2, 5)
    case = f"float32, two texts of x 1 x 5 x 20 in turn, {layer}, parts 2 + 1 + 2, seed 31"
    found = [[], []]
    with noted(case):
        made = absorbed.AbsorbedLatentAttention(of(layer), layer.weights)
        caches = [cache.LatentCache(4) for _ in range(2)]
        for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
            for row in range(2):
                found[row].append(made(x[row : row + 1, part], caches[row]))
    expected = absorbed64(to_float64(x), layer)
    for row in range(2):
        actual = mx.concatenate(found[row], axis=1)
        compare(actual, expected[row : row + 1], mx.float32, 1e-4, f"text {row}; {case}", actual.size)


@by_query
def test_task_4_absorbed_needs_every_weight(base):
    layer = random_layer(base, 32)
    for name in layer.weights:
        part = {other: w for other, w in layer.weights.items() if other != name}
        with raises_error(KeyError, f"building a layer of {layer}, without {name}"):
            absorbed.AbsorbedLatentAttention(of(layer), part)


def test_task_4_absorbed_refuses_more_tokens_than_the_config_allows():
    """With those that the cache holds; and it holds no more than before."""
    layer = random_layer(PLAIN, 33, max_position_embeddings=4)
    case = f"float32, {layer}, max_position_embeddings 4, calls of 3 and 2 tokens"
    with noted(case):
        made, own = absorbed.AbsorbedLatentAttention(of(layer), layer.weights), cache.LatentCache(4)
        made(stream(33, layer, 1, 3), own)
    with raises_value_error(case):
        mx.eval(made(stream(33, layer, 1, 2), own))
    if own.offset != 3:
        fail(Kind.VALUES, "tokens that were refused are in the cache", case, "expected  3", f"got       {own.offset}")
    with noted(f"{case}, then one of 1"):
        mx.eval(made(stream(33, layer, 1, 1), own))
