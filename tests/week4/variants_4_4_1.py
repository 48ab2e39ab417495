"""Known programs of task 4.4.1, the cache size of a token."""

import mlx.core as mx
from tiny_llm_solution.latent_attention.sizes import BYTES, CacheSize

from tiny_llm_course.testkit.variants import Variants

known = Variants("4.4.1")

KINDS = ["MHA", "GQA", "MQA", "MLA"]

# All dimensions differ, and D is not E / H.
PLAIN = {"hidden_size": 120, "num_attention_heads": 12, "num_hidden_layers": 7}
WITHOUT_DTYPE = {**PLAIN, "num_key_value_heads": 4, "head_dim": 16}
GROUPED = {**WITHOUT_DTYPE, "torch_dtype": "bfloat16"}
LATENT = {"kv_lora_rank": 21, "qk_nope_head_dim": 15, "qk_rope_head_dim": 6, "v_head_dim": 13}


def counted(program, config, *options):
    """Kind, elements and bytes."""
    found = program(dict(config), *options)
    kind = KINDS.index(found.kind) if found.kind in KINDS else -1
    return mx.array([kind, found.elements, found.bytes])


def other_dtype(program):
    try:
        return counted(program, {**GROUPED, "torch_dtype": "int8"})
    except ValueError as error:
        return mx.array("int8" in str(error))


known.probe_table(
    grouped=lambda program: counted(program, GROUPED),
    plain=lambda program: counted(program, PLAIN),
    multi_head=lambda program: counted(program, {**GROUPED, "num_key_value_heads": 12}),
    multi_query=lambda program: counted(program, {**GROUPED, "num_key_value_heads": 1}),
    of_one_head=lambda program: counted(program, {**GROUPED, "num_attention_heads": 1, "num_key_value_heads": 1}),
    # As in DeepSeek's configs: as many KV heads as heads.
    latent=lambda program: counted(program, {**PLAIN, **LATENT, "num_key_value_heads": 12, "torch_dtype": "float16"}),
    latent_with_groups=lambda program: counted(program, {**GROUPED, **LATENT}),
    latent_expanded=lambda program: counted(program, {**GROUPED, **LATENT}, True),
    grouped_expanded=lambda program: counted(program, GROUPED, True),
    no_head_dim=lambda program: counted(program, {**GROUPED, "head_dim": None}),
    no_kv_heads=lambda program: counted(program, {**GROUPED, "num_key_value_heads": None}),
    no_latent=lambda program: counted(program, {**GROUPED, **dict.fromkeys(LATENT)}),
    newer_dtype=lambda program: tuple(counted(program, {**WITHOUT_DTYPE, "dtype": each}) for each in ("float16", None)),
    both_dtypes=lambda program: counted(program, {**WITHOUT_DTYPE, "torch_dtype": None, "dtype": "bfloat16"}),
    other_dtype=other_dtype,
)

known.not_timed("a few numbers are multiplied")

LATENT_SUM = 'present["kv_lora_rank"] + present["qk_rope_head_dim"]'
KEY = 'present["qk_nope_head_dim"] + present["qk_rope_head_dim"]'
DIMS = 'present.get("head_dim", present["hidden_size"] // heads)'

known.change(
    "latent-twice",
    (LATENT_SUM, 'present["kv_lora_rank"] * 2 + present["qk_rope_head_dim"]'),
    fact="the latent counts twice, once for keys and once for values",
    question="What are a head's key and value computed from, and how many of these must be cached?",
)
known.change(
    "null-torch-dtype-wins",
    (
        'present.get("torch_dtype", present.get("dtype", "float32"))',
        'config.get("torch_dtype", config.get("dtype")) or "float32"',
    ),
    fact="dtype is not read if torch_dtype is null",
    question='What does config.get("torch_dtype", other) return if torch_dtype is null?',
)
known.change(
    "no-rope-key",
    (LATENT_SUM, 'present["kv_lora_rank"]'),
    fact="the RoPE key is missing",
    question="Can the rotated key be computed from the latent?",
)
known.change(
    "rope-key-for-each-head",
    (LATENT_SUM, 'present["kv_lora_rank"] + heads * present["qk_rope_head_dim"]'),
    fact="the RoPE key counts once per head",
    question="How many rows of kv_a_proj_with_mqa produce RoPE keys, and how many heads share them?",
)
known.change(
    "latent-for-each-head",
    (LATENT_SUM, 'heads * present["kv_lora_rank"] + present["qk_rope_head_dim"]'),
    fact="the latent counts once per head",
    question="How many rows of kv_a_proj_with_mqa produce latents, and how many heads share them?",
)
known.change(
    "latent-ignored",
    ('if "kv_lora_rank" in present:', 'if "kv_lora_rank" in present and heads != kv_heads:'),
    fact="a model with a latent is classified as MHA if num_key_value_heads equals the number of heads",
    question="Which entry of DeepSeek-V3's config determines what is cached, and which is only there by convention?",
)
known.change(
    "latent-ignored-with-groups",
    ('if "kv_lora_rank" in present:', 'if "kv_lora_rank" in present and kv_heads == heads:'),
    fact="a model with a latent is classified as GQA or MQA if it has fewer KV heads than heads",
    question="What does a model with kv_lora_rank cache, and does num_key_value_heads change that?",
)
known.change(
    "always-expanded",
    ("if expanded:", "if True:"),
    fact="keys and values of every head are counted for a latent model, even if expanded is False",
    question="What does a cache of latents hold, and what is computed from it?",
)
known.change(
    "never-expanded",
    ("if expanded:", "if False:"),
    fact="expanded has no effect",
    question="How many numbers has one head's key, and how many its value?",
)
known.change(
    "expanded-without-rope",
    (KEY, 'present["qk_nope_head_dim"]'),
    fact="an expanded key lacks its RoPE part",
    question="How many parts has a key, and how wide is each?",
)
known.change(
    "expanded-values-as-keys",
    ('(key + present["v_head_dim"])', "2 * key"),
    fact="an expanded value counts as many numbers as a key",
    question="Which entry is the width of a value?",
)
known.change(
    "rope-key-shared-when-expanded",
    (KEY, 'present["qk_nope_head_dim"]'),
    ('(key + present["v_head_dim"])', '(key + present["v_head_dim"]) + present["qk_rope_head_dim"]'),
    fact="expanded keys share one RoPE key",
    question="An expanded cache holds ordinary keys. What does each head's key contain?",
)
known.change(
    "keys-alone",
    ("elements = 2 * kv_heads", "elements = kv_heads"),
    fact="only keys are counted, not values",
    question="What do later tokens need besides the keys?",
)
known.change(
    "all-heads",
    ("elements = 2 * kv_heads", "elements = 2 * heads"),
    fact="keys and values are counted per query head, even if several heads share them",
    question="How many distinct keys has a token in a layer?",
)
known.change(
    "head-dim-computed",
    (DIMS, 'present["hidden_size"] // heads'),
    fact="D is always hidden_size // H, even if the config has head_dim",
    question="For Qwen3-0.6B, hidden_size // H is 64. How wide is its head?",
)
known.change(
    "none-counts",
    ("if value is not None", ""),
    fact="an entry that is None counts as present",
    question='What does config.get("head_dim", 64) return if the file says null?',
)
known.change(
    "none-as-kv-heads",
    ('present.get("num_key_value_heads", heads)', 'config.get("num_key_value_heads", heads)'),
    fact="num_key_value_heads counts as present even if it is None",
    question='What does config.get("num_key_value_heads", 16) return if the file says null?',
)
known.change(
    "none-as-head-dim",
    (DIMS, DIMS.replace("present", "config", 1)),
    fact="head_dim counts as present even if it is None",
    question='What does config.get("head_dim", 64) return if the file says null?',
)
known.change(
    "none-as-latent",
    ('if "kv_lora_rank" in present:', 'if "kv_lora_rank" in config:'),
    fact="a model is treated as MLA even if its kv_lora_rank is None",
    question='What does `"kv_lora_rank" in config` return if the file says null?',
)
known.change(
    "one-kv-head-if-missing",
    ('present.get("num_key_value_heads", heads)', 'present.get("num_key_value_heads", 1)'),
    fact="a config without num_key_value_heads is classified as MQA",
    question="Which models are so old that their configs lack this entry?",
)
known.change(
    "one-layer",
    ('present["num_hidden_layers"] * elements', "elements"),
    fact="the bytes are those of a single layer",
    question="How many caches has a model?",
)
known.change(
    "always-float32",
    ('present.get("torch_dtype", present.get("dtype", "float32"))', '"float32"'),
    fact="every number takes four bytes",
    question="Which dtype does the config give for the weights?",
)
known.change(
    "newer-dtype-unread",
    ('present.get("torch_dtype", present.get("dtype", "float32"))', 'present.get("torch_dtype", "float32")'),
    fact="the newer key `dtype` is ignored",
    question="What are the two keys under which a config may store the dtype?",
)
known.change(
    "unknown-dtype-taken",
    ("if dtype not in BYTES:", "if False:"),
    ("BYTES[dtype])", "BYTES.get(dtype, 4))"),
    fact="an unknown dtype counts as float32",
    question="How many bytes does a number take if its dtype is not in your table?",
)
known.change(
    "one-is-always-mqa",
    (
        '"MHA" if kv_heads == heads else "MQA" if kv_heads == 1 else "GQA"',
        '"MQA" if kv_heads == 1 else "MHA" if kv_heads == heads else "GQA"',
    ),
    fact="a model with one head is classified as MQA",
    question="With a single head, which heads share keys?",
)


@known.accepted("table-of-shapes")
def table_of_shapes(config, expanded=False):
    def entry(name, default=None):
        return default if config.get(name) is None else config[name]

    heads = entry("num_attention_heads")
    if latent := entry("kv_lora_rank"):
        rope = entry("qk_rope_head_dim")
        each = {"key": config["qk_nope_head_dim"] + rope, "value": config["v_head_dim"]} if expanded else {}
        kind, elements = "MLA", sum(heads * size for size in each.values()) if expanded else latent + rope
    else:
        pairs, dims = entry("num_key_value_heads", heads), entry("head_dim") or config["hidden_size"] // heads
        kind = {heads: "MHA"}.get(pairs, "GQA" if pairs > 1 else "MQA")
        elements = 2 * pairs * dims
    dtype = entry("torch_dtype") or entry("dtype", "float32")
    if dtype not in BYTES:
        raise ValueError(f"{dtype} is unknown")
    return CacheSize(kind, elements, elements * entry("num_hidden_layers") * BYTES[dtype])
