"""No silent loss: a model keeps its precision unless quantization is asked for, and what runs is said."""

import mlx.core as mx
import pytest
from tests.course.checkpoint_folders import quantized, small

from tiny_llm_course.checkpoints.weights import open_weights, storage_of
from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.engine import stages
from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.engine.serving import load_scheduler

WIDE = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
LAST = stages.runnable(load_course().stages(), True)[-1].name  # it packs
MODE = [mode.name for mode in load_course().modes() if not mode.asked][-1]
TOKENS = mx.array([[3, 1, 4, 1, 5]])
HEAD = "lm_head"


def model(kind):
    """A model whose matrices are stored in some way."""
    plain = small(dtype=mx.bfloat16, intermediate_size=192, **WIDE)
    finer = {HEAD: {"group_size": 64, "bits": 8}} if kind == "mixed" else {}
    if kind == "plain":
        return plain
    packed = quantized(plain, 64, int(kind) if kind.isdigit() else 4, **finer)
    if kind == "partly":
        packed = packed.with_weights(**{f"{HEAD}.weight": plain.weights[f"{HEAD}.weight"]})
        packed = packed.without(f"{HEAD}.scales").without(f"{HEAD}.biases")
    return packed


@pytest.mark.parametrize(
    ("kind", "bits", "stage", "runs"),
    [
        ("plain", None, "kv-cache", "float32 weights made from bfloat16"),
        ("plain", 4, LAST, "4-bit weights made from bfloat16"),
        ("plain", 8, LAST, "8-bit weights made from bfloat16"),
        ("4", None, LAST, "4-bit weights as stored"),
        ("8", None, LAST, "8-bit weights as stored"),
        ("3", None, "kv-cache", "float32 weights made from 3-bit"),
        ("mixed", None, "kv-cache", "float32 weights made from 4-bit and 8-bit"),
        ("partly", None, "kv-cache", "float32 weights made from 4-bit and bfloat16"),
    ],
)
def test_the_default_keeps_the_precision_of_the_weights(checkpoint, kind, bits, stage, runs):
    folder = str(checkpoint(model(kind)))
    engine = load_engine(folder, True, "float32", bits=bits)
    assert engine.runs == f"{stage}, {runs}"
    exact = load_engine(folder, True, "float32", "kv-cache").logits(TOKENS)[:, -1:]
    error = mx.abs(engine.logits(TOKENS)[:, -1:] - exact).max() / mx.abs(exact).max()
    assert (error <= 1e-5) == (bits is None)
    served = load_scheduler(folder, True, dtype="float32", bits=bits)
    assert served.runs == f"{MODE}, {runs}"
    assert not (served.fused and stage == "kv-cache")


def test_the_included_model_is_there_to_be_quantized():
    assert load_engine(None, True, "float32").runs == f"{LAST}, 4-bit weights made from bfloat16"
    assert load_engine("models/tiny-qwen3", True, "float32", "kv-cache").runs.endswith("made from bfloat16")


def test_a_named_stage_that_quantizes_says_so(checkpoint):
    engine = load_engine(str(checkpoint(model("plain"))), True, "float32", "quantized")
    assert engine.runs == "quantized, 4-bit weights made from bfloat16"


@pytest.mark.parametrize("load", [load_engine, load_scheduler])
def test_bits_are_for_full_precision_only(checkpoint, load):
    folder = checkpoint(model("4"))
    with pytest.raises(UsageError) as refused:
        load(str(folder), True, dtype="float32", bits=4)
    assert str(refused.value) == f"{folder} has 4-bit weights; --bits quantizes weights of full precision only."
    folder = checkpoint(small(hidden_size=96, vocab_size=272))
    with pytest.raises(UsageError, match="has hidden_size = 96, but --bits needs a multiple of 64"):
        load(str(folder), True, dtype="float32", bits=4)


def test_bits_need_a_stage_that_quantizes(checkpoint):
    with pytest.raises(UsageError, match=r"^--bits needs a stage that quantizes, .*; kv-cache does not\.$"):
        load_engine(str(checkpoint(model("plain"))), True, "float32", "kv-cache", bits=8)


def test_matrices_whose_rows_are_not_whole_groups_are_as_mlx_leaves_them(checkpoint):
    plain = model("plain")
    down = {f"model.layers.{i}.mlp.down_proj.weight": mx.zeros((128, 40), mx.bfloat16) for i in range(2)}
    packed = quantized(plain, 64, 4)
    for name in down:
        layer = name.removesuffix(".weight")
        packed = packed.with_weights(**{name: down[name]}).without(f"{layer}.scales").without(f"{layer}.biases")
    assert storage_of(open_weights(checkpoint(packed)), {"group_size": 64, "bits": 4}) == ("4-bit", True)
