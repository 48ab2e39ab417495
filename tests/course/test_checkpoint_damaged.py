"""One line for every checkpoint folder with damaged or unsuitable weights."""

import json
import struct
from contextlib import suppress

import mlx.core as mx
import numpy as np
import pytest
from tests.course.checkpoint_folders import quantized, refusal, small
from tests.week1.reference_model import QWEN25

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.course.registry import UsageError

TABLE, HEAD = "model.embed_tokens.weight", "lm_head.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"
NO_MAP = "is damaged, expected a weight_map from weights to files"


@pytest.mark.parametrize("left", [0, 5, 8, 40, 0.05, 0.5, 0.99, -1])
@pytest.mark.parametrize("shards", [1, 2])
def test_a_truncated_file(checkpoint, left, shards):
    folder = checkpoint(small(), shards=shards)
    file = sorted(folder.glob("*.safetensors"))[-1]
    contents = file.read_bytes()
    file.write_bytes(contents[: int(left * len(contents)) if isinstance(left, float) else left])
    assert refusal(folder).startswith(f"{file.name} is ")


def test_a_file_that_is_longer_than_it_says(checkpoint):
    folder = checkpoint(small())
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    assert refusal(folder).startswith("model.safetensors is truncated or damaged: it has ")


def test_a_pointer_instead_of_the_weights(checkpoint):
    folder = checkpoint(small())
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n")
    assert refusal(folder) == ("model.safetensors is a Git LFS pointer, expected the weights: git lfs pull")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-1, 4], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "wide", "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, None]},
        [1],
        None,
    ],
    ids=str,
)
def test_a_header_that_makes_no_sense(checkpoint, entry):
    folder = checkpoint(small())
    header = json.dumps({TABLE: entry}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    assert refusal(folder).startswith("model.safetensors ")


def test_no_damage_to_a_header_escapes_as_another_error(checkpoint):
    folder = checkpoint(small())
    file = folder / "model.safetensors"
    contents = file.read_bytes()
    length = struct.unpack("<Q", contents[:8])[0]
    draw = np.random.default_rng(1)
    for _ in range(150):
        damaged = bytearray(contents)
        for place in draw.integers(0, 8 + length, draw.integers(1, 4)):
            damaged[place] = draw.integers(256)
        file.write_bytes(damaged)
        with suppress(UsageError):  # or else the damage lies in what is not used
            mx.eval(load_checkpoint(folder).weights)


@pytest.mark.parametrize(
    ("index", "line"),
    [
        ("{", "is not JSON: "),
        ("[]", "contains a JSON list, expected an object"),
        ('{"weight_map": ["a"]}', NO_MAP),
        ('{"weight_map": {"a": 3}}', NO_MAP),
        ('{"weight_map": {"a": ["b"]}}', NO_MAP),
    ],
)
def test_a_damaged_index(checkpoint, index, line):
    folder = checkpoint(small(), shards=2)
    (folder / "model.safetensors.index.json").write_text(index)
    assert refusal(folder).startswith(f"model.safetensors.index.json {line}")


def test_an_index_of_nothing(checkpoint):
    folder = checkpoint(small(), shards=2)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    assert refusal(folder) == "FOLDER has no *.safetensors file"


def test_a_missing_shard(checkpoint):
    folder = checkpoint(small(), shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    assert refusal(folder) == ("model-00002-of-00003.safetensors is missing, but model.safetensors.index.json names it")


@pytest.mark.parametrize("name", [QUERY, "model.norm.weight", HEAD])
def test_a_missing_weight(checkpoint, name):
    model = small()
    shape = model.weights[name].shape
    assert refusal(checkpoint(model.without(name))) == f"FOLDER has no weight {name}, expected one of shape {shape}"


def test_a_missing_bias(checkpoint):
    name = "model.layers.1.self_attn.v_proj.bias"
    assert (
        refusal(checkpoint(small(QWEN25).without(name))) == f"FOLDER has no weight {name}, expected one of shape (48,)"
    )


def test_a_wrong_shape(checkpoint):
    folder = checkpoint(small().with_weights(**{QUERY: mx.zeros((64, 96))}))
    assert refusal(folder) == (
        f"model.safetensors: {QUERY} has shape (64, 96), but config.json implies (96, 64): "
        "num_attention_heads * head_dim is 96"
    )


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint8, mx.bool_], ids=str)
def test_weights_that_are_no_fractions(checkpoint, dtype):
    line = refusal(checkpoint(small().with_weights(**{QUERY: mx.zeros((96, 64), dtype)})))
    assert line == (
        f"model.safetensors: {QUERY} is {dtype}, expected float32, float16, bfloat16 or MLX's quantized format"
    )


LAYER = QUERY.removesuffix(".weight")


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (None, f"{QUERY} is quantized, but config.json has no group_size and bits for it"),
        ({"group_size": 32}, f"{QUERY} is quantized, but config.json has no group_size and bits for it"),
        ({"group_size": 32, "bits": 8}, f"{QUERY} cannot be dequantized with group_size = 32 and bits = 8: [deq"),
        ({"group_size": 32, "bits": 5}, f"{QUERY} cannot be dequantized with group_size = 32 and bits = 5: [deq"),
    ],
    ids=str,
)
def test_a_quantization_that_does_not_suit(checkpoint, table, line):
    """Of one matrix, in a model that is plain otherwise."""
    model = small()
    packed = mx.quantize(model.weights[QUERY], group_size=32, bits=4)
    model = model.with_weights(**{QUERY: packed[0], f"{LAYER}.scales": packed[1], f"{LAYER}.biases": packed[2]})
    assert refusal(checkpoint(model, config={"quantization": table})).startswith(f"model.safetensors: {line}")


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"mode": "mxfp4"}, "mode = 'mxfp4' in quantization, expected one of affine"),
        ({"group_size": 0}, "group_size = 0 in quantization, expected one of 16, 32, 64, 128"),
        ({"bits": 16}, "bits = 16 in quantization, expected one of 2, 3, 4, 5, 6, 8"),
        ({LAYER: {"bits": True}}, "bits = True in quantization, expected one of 2, 3, 4, 5, 6, 8"),
        ({"lm_hat": {"bits": 4}}, "quantization of lm_hat, but the files have no lm_hat.scales"),
    ],
    ids=str,
)
@pytest.mark.parametrize("packed", [False, True], ids=["dequantized", "packed"])
def test_a_quantization_that_does_not_exist(checkpoint, table, line, packed):
    model = quantized(small(), 32, 4)
    folder = checkpoint(model, config={"quantization": {**model.config["quantization"], **table}})
    assert refusal(folder, packed) == f"config.json has {line}"


def test_biases_of_another_shape_than_the_scales(checkpoint):
    model = quantized(small(), 32, 4)
    folder = checkpoint(model.with_weights(**{f"{LAYER}.biases": model.weights[f"{LAYER}.biases"][:, :1]}))
    assert refusal(folder) == (
        f"model.safetensors: {LAYER}.biases has shape (96, 1), expected that of the scales, (96, 2)"
    )


def test_quantized_weights_without_their_biases(checkpoint):
    folder = checkpoint(quantized(small(), 32, 4).without(f"{LAYER}.biases"))
    assert refusal(folder) == f"model.safetensors has a quantized {QUERY}, but no {LAYER}.biases"


def test_scales_that_are_no_fractions(checkpoint):
    model = quantized(small(), 32, 4)
    name = f"{LAYER}.scales"
    folder = checkpoint(model.with_weights(**{name: model.weights[name].astype(mx.int32)}))
    assert refusal(folder) == (f"model.safetensors: {name} is mlx.core.int32, expected float32, float16 or bfloat16")
