"""Checkpoint folders as they come from the Hub, small and random, for the tests of loading, generating and chatting."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from tests.week1.reference_model import QWEN3, ReferenceModel, random_model

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.tokenizer import byte_alphabet  # noqa: E402

ROWS = 272  # of the embedding: more than the tokenizer has tokens, as in Qwen's checkpoints
# For `random_model`: the inputs of every matrix come in groups of 32, as quantization needs.
SIZES = {"hidden_size": 96, "intermediate_size": 160, "head_dim": 16, "vocab_size": ROWS}
QWEN3_SIZES = {**SIZES, "hidden_size": 64}
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def small(base: dict[str, Any] = QWEN3, seed: int = 1, dtype: mx.Dtype = mx.float32, **changes: Any) -> ReferenceModel:
    """A random model that such a folder can hold."""
    return random_model(base, seed, dtype, **{**(QWEN3_SIZES if base is QWEN3 else SIZES), **changes})


def tokenizer_table() -> dict[str, Any]:
    """A small tokenizer.json: all bytes, three merges, and added tokens as Qwen3 has them (<think> is text)."""
    merges = [["t", "h"], ["th", "e"], ["Ġ", "the"]]
    tokens = [*byte_alphabet().values(), *("".join(pair) for pair in merges)]
    added = {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True, "<think>": False}
    return {
        "added_tokens": [
            {"id": len(tokens) + i, "content": text, "special": special, "normalized": False}
            for i, (text, special) in enumerate(added.items())
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges},
    }


def quantized(model: ReferenceModel, group_size: int, bits: int, **other: dict[str, Any]) -> ReferenceModel:
    """A model as mlx-lm quantizes it: every matrix, the embedding too; `other` by the end of a layer's name."""
    table: dict[str, Any] = {"group_size": group_size, "bits": bits}
    weights: dict[str, mx.array] = {}
    for name, weight in model.weights.items():
        layer = name.removesuffix(".weight")
        if weight.ndim < 2:
            weights[name] = weight
            continue
        settings = next((own for end, own in other.items() if layer.endswith(end)), None)
        if settings:
            table[layer] = settings
        settings = settings or {"group_size": group_size, "bits": bits}
        packed = mx.quantize(weight, group_size=settings["group_size"], bits=settings["bits"])
        weights |= {name: packed[0], f"{layer}.scales": packed[1], f"{layer}.biases": packed[2]}
    return ReferenceModel(model.config | {"quantization": table, "quantization_config": table}, weights)


def write_checkpoint(
    folder: Path,
    model: ReferenceModel,
    *,
    shards: int = 1,
    config: dict[str, Any] | None = None,
    tokenizer_config: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
) -> Path:
    """A folder as it comes from the Hub."""
    folder.mkdir()
    put_json(folder / "config.json", model.config | (config or {}))
    put_json(folder / "tokenizer.json", tokenizer_table())
    if tokenizer_config is not None:
        put_json(folder / "tokenizer_config.json", tokenizer_config)
    if generation is not None:
        put_json(folder / "generation_config.json", generation)
    if shards == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), model.weights)
        return folder
    names = sorted(model.weights)
    places: dict[str, str] = {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        mx.save_safetensors(str(folder / file), {name: model.weights[name] for name in names[i::shards]})
        places |= dict.fromkeys(names[i::shards], file)
    put_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    return folder


def chatting(folder: Path, context: int, template: str = CHAT_TEMPLATE) -> Path:
    """A model with a chat template, whose answers have no end."""
    settings = {"chat_template": template}
    return write_checkpoint(folder, small(), config={"max_position_embeddings": context}, tokenizer_config=settings)


def put_json(file: Path, contents: Any) -> None:
    file.write_text(json.dumps(contents, ensure_ascii=False), encoding="utf-8")


def refusal(folder: Path, packed: bool = False) -> str:
    """The one line with which a folder is refused."""
    with pytest.raises(UsageError) as caught:
        load_checkpoint(folder, packed=packed)
    line = str(caught.value)
    assert "\n" not in line
    assert str(folder) in line, "it names the file"
    return line.replace(f"{folder}/", "").replace(str(folder), "FOLDER")
