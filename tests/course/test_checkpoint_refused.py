"""One line for every checkpoint folder that lacks a file, or asks for what the engine does not have."""

import json
import os
import time

import pytest
from tests.course.checkpoint_folders import ROWS, put_json, refusal, small, tokenizer_table

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint


def change(file, **entries):
    """Change entries of a JSON file; None removes one."""
    table = json.loads(file.read_text()) | entries
    put_json(file, {name: value for name, value in table.items() if value is not None})


def test_no_folder(tmp_path):
    assert refusal(tmp_path / "none") == (
        "FOLDER does not exist; expected a checkpoint folder with config.json and *.safetensors"
    )
    (tmp_path / "file").write_text("{}")
    assert refusal(tmp_path / "file").startswith("FOLDER is not a folder; expected a checkpoint folder")


def test_an_empty_folder(tmp_path):
    assert refusal(tmp_path) == "config.json is missing"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("config.json", "config.json is missing"),
        ("tokenizer.json", "tokenizer.json is missing"),
        ("model.safetensors", "FOLDER has no *.safetensors file"),
    ],
)
def test_a_missing_file(checkpoint, name, line):
    folder = checkpoint(small())
    (folder / name).unlink()
    assert refusal(folder) == line


JSON_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]


@pytest.mark.parametrize("name", JSON_FILES)
@pytest.mark.parametrize(
    ("contents", "what"),
    [
        (b"", "is not JSON: Expecting value"),
        (b'{"a": ', "is not JSON: Expecting value"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is not JSON"),
        (b"[1, 2]", "contains a JSON list, expected an object"),
        (b"null", "contains a JSON NoneType, expected an object"),
        (b'{"a": "\xff"}', "is not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
    ],
    ids=["empty", "cut", "lfs", "array", "null", "latin-1", "deep"],
)
def test_a_damaged_json_file(checkpoint, name, contents, what):
    folder = checkpoint(small())
    (folder / name).write_bytes(contents)
    assert refusal(folder).startswith(f"{name} {what}")


@pytest.mark.parametrize("name", [*JSON_FILES, "model.safetensors", "chat_template.jinja"])
def test_a_folder_instead_of_a_file(checkpoint, name):
    folder = checkpoint(small())
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    assert refusal(folder) == f"{name} cannot be read: Is a directory"


@pytest.mark.parametrize("name", [*JSON_FILES, "model.safetensors", "chat_template.jinja"])
def test_what_is_no_file_is_not_waited_for(checkpoint, name):
    """Nobody writes to the pipe, and /dev/zero has no end."""
    file = checkpoint(small()) / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    assert refusal(file.parent) == f"{name} is a pipe, expected a file"
    file.unlink()
    file.symlink_to("/dev/zero")
    assert refusal(file.parent) == f"{name} is a device, expected a file"


def test_a_json_file_without_end(checkpoint):
    file = checkpoint(small()) / "tokenizer.json"
    os.truncate(file, 1 << 29)  # sparse
    assert refusal(file.parent) == f"tokenizer.json has {1 << 29} bytes, expected at most {1 << 28}"


HUGE = 10**9


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        (
            {"vocab_size": HUGE},
            f"embed_tokens.weight has shape ({ROWS}, 64), but config.json implies ({HUGE}, 64): vocab_size is {HUGE}",
        ),
        ({"hidden_size": HUGE}, f"({ROWS}, 64), but config.json implies ({ROWS}, {HUGE}): hidden_size is {HUGE}"),
        ({"intermediate_size": HUGE}, f"(160, 64), but config.json implies ({HUGE}, 64): intermediate_size is {HUGE}"),
        (
            {"num_hidden_layers": HUGE},
            f"config.json has num_hidden_layers = {HUGE}, but the files have the weights of 2",
        ),
        ({"num_hidden_layers": 1}, "config.json has num_hidden_layers = 1, but the files have the weights of 2"),
        ({"num_attention_heads": 3 * HUGE}, f"(96, 64), but config.json implies ({48 * HUGE}, 64): num_attention_hea"),
        ({"num_key_value_heads": 2}, "num_key_value_heads * head_dim is 32"),
        ({"head_dim": HUGE}, f"implies ({6 * HUGE}, 64): num_attention_heads * head_dim is {6 * HUGE}"),
        ({"head_dim": None}, "config.json has hidden_size = 64, expected a multiple of its 6 heads"),
        (
            {"max_position_embeddings": HUGE},
            f"config.json has max_position_embeddings = {HUGE}, expected a whole number",
        ),
        ({"vocab_size": 10**30}, "expected a whole number above 0 and below 2**62"),
        ({"rope_theta": float("inf")}, "config.json has rope_theta = inf, expected a number above 0 and below 2**62"),
    ],
    ids=str,
)
def test_a_config_that_contradicts_the_weights_is_refused_before_anything_is_built(checkpoint, entries, line):
    folder = checkpoint(small())
    change(folder / "config.json", **entries)
    began = time.monotonic()
    assert line in refusal(folder)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        (
            {"model_type": "gemma3_text"},
            "has model_type 'gemma3_text', expected 'qwen3' (Qwen3), 'qwen2' (Qwen2 and Qwen2.5), "
            "'qwen3_moe' (Qwen3-MoE), 'llama' (Llama 3), 'mistral' (Mistral)",
        ),
        ({"model_type": None}, "has model_type None, expected 'qwen3' (Qwen3), 'qwen2' (Qwen2 and Qwen2.5)"),
        ({"model_type": ["qwen3"]}, "has model_type ['qwen3'], expected"),
        ({"hidden_size": None, "rms_norm_eps": None}, "lacks hidden_size, rms_norm_eps"),
        ({"rope_theta": None}, "lacks rope_theta"),
        ({"max_position_embeddings": None}, "lacks max_position_embeddings"),
        ({"hidden_size": "64"}, "has hidden_size = '64', expected a whole number above 0"),
        ({"hidden_size": 64.0}, "has hidden_size = 64.0, expected a whole number above 0"),
        ({"num_hidden_layers": -1}, "has num_hidden_layers = -1, expected a whole number above 0"),
        ({"num_attention_heads": 0}, "has num_attention_heads = 0, expected a whole number above 0"),
        ({"num_key_value_heads": 4}, "has 6 heads and 4 key-value heads, expected a divisor of 6"),
        ({"head_dim": 7}, "has head_dim = 7, expected an even number: RoPE rotates pairs"),
        ({"rms_norm_eps": True}, "has rms_norm_eps = True, expected a number above 0"),
        ({"rope_theta": float("nan")}, "has rope_theta = nan, expected a number above 0"),
        ({"hidden_act": "gelu"}, "has hidden_act 'gelu', but this engine supports 'silu' only"),
        ({"tie_word_embeddings": "false"}, "has tie_word_embeddings = 'false', expected true or false"),
        ({"layer_types": "full_attention"}, "has layer_types = 'full_attention', expected a list"),
        ({"quantization": "4 bits"}, "has quantization = '4 bits', expected an object"),
        ({"quantization": {"bits": 4}}, "has quantization, but no weight is quantized; expected weights with scales"),
        ({"attention_bias": True}, "has attention_bias true, but this engine's Qwen3 has no biases"),
        ({"mlp_bias": True}, "has mlp_bias true, but this engine's Qwen3 has no biases"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "has weights quantized by 'gptq', expected MLX's format or none",
        ),
        ({"eos_token_id": "<|im_end|>"}, "has eos_token_id = ['<|im_end|>'], expected a token id, or a list of them"),
    ],
    ids=str,
)
def test_a_config_that_does_not_suit(checkpoint, entries, line):
    folder = checkpoint(small())
    change(folder / "config.json", **entries)
    assert refusal(folder).startswith(f"config.json {line}")


@pytest.mark.parametrize(
    "entries",
    [
        {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        {"rope_scaling": {"type": "default"}},
        {"sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 1},
        {"layer_types": ["full_attention"] * 2},
        {"hidden_act": "silu", "attention_bias": False, "quantization_config": None},
    ],
    ids=str,
)
def test_a_config_that_suits_in_other_words(checkpoint, entries):
    folder = checkpoint(small())
    change(folder / "config.json", **entries)
    load_checkpoint(folder)


def test_a_generation_config_that_does_not_suit(checkpoint):
    folder = checkpoint(small())
    for name, value, expected in [
        ("temperature", "hot", "a number of at least 0 and below 2**62"),
        ("temperature", -1, "a number of at least 0 and below 2**62"),
        ("top_k", float("nan"), "a whole number of at least 0 and below 2**62"),
        ("top_k", 1.5, "a whole number of at least 0 and below 2**62"),
        ("top_p", 2, "a number of at least 0 and at most 1"),
        ("repetition_penalty", 0, "a number above 0 and below 2**62"),
        ("do_sample", "no", "true or false"),
    ]:
        put_json(folder / "generation_config.json", {name: value})
        assert refusal(folder) == f"generation_config.json has {name} = {value!r}, expected {expected}"
    for ids in (ROWS, -1, [1, ROWS]):
        put_json(folder / "generation_config.json", {"eos_token_id": ids})
        seen = ids if isinstance(ids, list) else [ids]
        expected = f"expected a token id, or a list of them, below {ROWS}"
        assert refusal(folder) == f"generation_config.json has eos_token_id = {seen}, {expected}"


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        ({"model": None}, "has no vocabulary, expected model.vocab with an id for each token"),
        ({"model": {"type": "BPE", "vocab": {}}, "added_tokens": []}, "has no vocabulary"),
        ({"model": {"type": "BPE", "vocab": {"a": "b"}}}, "has no vocabulary"),
        ({"added_tokens": [{"content": "x"}]}, "has no vocabulary"),
        ({"added_tokens": False}, "has no vocabulary"),
        ({"added_tokens": [{"content": "x", "id": -1}]}, f"has token -1, but the model's vocab_size is {ROWS}"),
        ({"added_tokens": [{"content": "x", "id": ROWS}]}, f"has token {ROWS}, but the model's vocab_size is {ROWS}"),
        ({"pre_tokenizer": None}, "describes another kind of tokenizer, expected byte-level BPE"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "describes another kind of tokenizer, expected byte-level BPE"),
        ({"model": {**tokenizer_table()["model"], "type": "Unigram"}}, "describes another kind of tokenizer"),
        ({"model": {**tokenizer_table()["model"], "byte_fallback": True}}, "has byte_fallback, as SentencePiece has, "),
        ({"post_processor": {"type": "TemplateProcessing"}}, "describes another kind of tokenizer"),
        ({"model": {**tokenizer_table()["model"], "merges": None}}, "describes another kind of tokenizer"),
        ({"model": {**tokenizer_table()["model"], "merges": [1]}}, "describes another kind of tokenizer"),
        ({"normalizer": True}, "describes another kind of tokenizer"),
        ({"normalizer": {"type": "Lowercase"}}, "has normalizer 'Lowercase', expected NFC, NFD, NFKC, NFKD or nothing"),
    ],
)
def test_a_tokenizer_that_does_not_suit(checkpoint, entries, line):
    folder = checkpoint(small())
    change(folder / "tokenizer.json", **entries)
    assert refusal(folder).startswith(f"tokenizer.json {line}")
