"""Task 4.4.1, the cache size of a token, checked against arrays that exist."""

import mlx.core as mx
import pytest
from tests.week2.counting import same_counts

from tiny_llm.latent_attention import sizes
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.sizes import sizes as all_sizes

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
    """Return what one layer caches for a token, as arrays."""
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
    """Check that the size is that of the arrays."""
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
        fail(Kind.VALUES, "wrong `kind`", case, f"expected  {kind}", f"got       {found.kind}", size=layers)
    if given != config:
        fail(Kind.INPUT_CHANGED, "the caller's `config` was changed", case, size=layers)


@pytest.mark.parametrize(
    ("config", "kind"), [(LLAMA, "MHA"), (QWEN, "GQA"), (GEMMA, "MQA"), (DEEPSEEK, "MLA")], ids=["7B", "Q", "G", "V3"]
)
def test_task_1_size_of_known_models(config, kind):
    """The dimensions of Llama-2-7B, Qwen3-0.6B, Gemma-2B and DeepSeek-V3."""
    counted(config, kind)


@pytest.mark.parametrize("name", ["num_key_value_heads", "head_dim", "torch_dtype", "q_lora_rank"])
@pytest.mark.parametrize("config", [QWEN, DEEPSEEK], ids=["Q", "V3"])
def test_task_1_size_without_an_entry(config, name):
    """None means the same as a missing entry."""
    rest = {key: value for key, value in config.items() if key != name}
    kind = "MLA" if config is DEEPSEEK else "MHA" if name == "num_key_value_heads" else "GQA"
    counted(rest, kind)
    counted({**rest, name: None}, kind)


def test_task_1_size_no_latent():
    """Some configs name what their model does not have."""
    counted({**QWEN, "kv_lora_rank": None, "qk_rope_head_dim": None, "v_head_dim": None}, "GQA")


@pytest.mark.parametrize("dtype", [*OF_NAME, None])
@pytest.mark.parametrize("name", ["torch_dtype", "dtype"])
def test_task_1_size_dtypes(name, dtype):
    for config, kind in ((QWEN, "GQA"), (DEEPSEEK, "MLA")):
        rest = {key: value for key, value in config.items() if key != "torch_dtype"}
        counted({**rest, name: dtype}, kind)


@pytest.mark.parametrize(("name", "other"), [("torch_dtype", "dtype"), ("dtype", "torch_dtype")])
def test_task_1_size_of_the_dtype_that_is_not_null(name, other):
    """A config with both names, one of them null."""
    rest = {key: value for key, value in QWEN.items() if key != "torch_dtype"}
    counted({**rest, name: None, other: "bfloat16"}, "GQA")


def test_task_1_size_expanded():
    """Every head's keys and values if there is a latent, and no change if there is none."""
    counted(DEEPSEEK, "MLA", in_full=True)
    counted({**DEEPSEEK, "v_head_dim": 96}, "MLA", in_full=True)
    counted({**DEEPSEEK, "num_key_value_heads": 1}, "MLA", in_full=True)
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
