"""Read a checkpoint folder in Hugging Face or MLX form, without mlx-lm or transformers; errors are one line each."""

import dataclasses
from pathlib import Path
from typing import Any

import mlx.core as mx

from ..course.findings import shortened
from ..course.registry import UsageError
from .dimensions import STACKED, axes_of_weights, check_config, check_layers
from .files import LARGEST_NUMBER, TINY, check_number, read_json, read_text
from .tokenizer_file import read_tokens
from .weights import check_claims, open_weights, read_weights, storage_of, with_stacked

# By their names in a generation_config.json: the argument of `make_sampler`, its least and its largest value.
SAMPLING = {
    "temperature": ("temp", 0.0, LARGEST_NUMBER),
    "top_k": ("top_k", 0, LARGEST_NUMBER),
    "top_p": ("top_p", 0.0, 1),
    "min_p": ("min_p", 0.0, 1),
    "repetition_penalty": ("repetition_penalty", TINY, LARGEST_NUMBER),
}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The contents of a folder."""

    folder: Path
    config: dict[str, Any]  # config.json
    weights: dict[str, mx.array]  # by their names in the files; experts are stacked, as mlx-lm does
    tokenizer: Path  # tokenizer.json
    hidden_ids: frozenset[int]  # special tokens, and embedding rows without a token: they print nothing
    chat_template: str | None
    special_tokens: dict[str, str]  # by their names in chat templates: eos_token, ...
    eos_ids: tuple[int, ...]
    sampling: dict[str, float]  # generation_config.json's settings, as arguments of `make_sampler`
    stored_as: str  # the weights, in words: "bfloat16", "4-bit"
    first_ids: tuple[int, ...] = ()  # with which the tokenizer begins every text
    bits: int | None = None  # to quantize them to

    def begun(self, tokens: list[int]) -> list[int]:
        """Return a text's tokens, after those with which each of the model's texts begins, if they are not there."""
        first = list(self.first_ids)
        return tokens if tokens[: len(first)] == first else first + tokens


def read_config(folder: Path) -> dict[str, Any]:
    """Return a folder's config.json; raise UsageError if there is none, or if no engine of the course supports it."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {what}; expected a checkpoint folder with config.json and *.safetensors")
    file = folder / "config.json"
    config = read_json(file)
    if config.get("num_experts") is None and "num_local_experts" in config:  # transformers 5
        config["num_experts"] = config["num_local_experts"]
    check_config(file, config)
    return config


def load_checkpoint(folder: Path, dtype: mx.Dtype | None = None, packed: bool = False) -> Checkpoint:
    """Read a folder, lazily, with weights converted to `dtype`, if given; raise UsageError if a file is unusable.

    Quantized weights are dequantized, or, if `packed`, stay as stored: words, scales and biases.
    """
    config, tokenizer = read_config(folder), folder / "tokenizer.json"
    stored = open_weights(folder)
    check_layers(folder / "config.json", config, stored)
    check_claims(folder / "config.json", stored, config.get("quantization"))
    wanted = axes_of_weights(config, stored)
    words, alike = storage_of(stored, config.get("quantization"))
    if packed and "-bit" in words and not alike:
        supported = "this stage supports 4 or 8 bits and one group size for all; --stage kv-cache supports all"
        raise UsageError(f"{folder} has {words} weights, but {supported}")
    weights = read_weights(folder, stored, wanted, config.get("quantization"), dtype, packed)
    ids, hidden, first = read_tokens(tokenizer, config["vocab_size"])  # the embedding's rows
    settings = read_json(folder / "tokenizer_config.json", required=False)
    template = _chat_template(folder, settings)
    # `eos_token` and so on; each is a string, or an object with `content`.
    named = {name: value for name, value in settings.items() if name.endswith("_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
    special = {name: text for name, text in texts.items() if isinstance(text, str)}
    generation_file = folder / "generation_config.json"
    generation = read_json(generation_file, required=False)
    eos = _eos_ids(folder, config, generation) or tuple(ids[t] for t in [special.get("eos_token")] if t in ids)
    sampling, weights = _sampling(generation_file, generation), with_stacked(weights, STACKED)
    return Checkpoint(folder, config, weights, tokenizer, hidden, template, special, eos, sampling, words, first)


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    """Return the template from its own file or tokenizer_config.json: one, or the default of several."""
    own = folder / "chat_template.jinja"
    if own.exists():
        return read_text(own)
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if not isinstance(template, str | None):
        file, seen = folder / "tokenizer_config.json", shortened(repr(template))
        raise UsageError(f"{file} has chat_template = {seen}, expected a text, or a list with one named default")
    return template


def _eos_ids(folder: Path, config: dict[str, Any], generation: dict[str, Any]) -> tuple[int, ...]:
    """Return every token that ends generation; generation_config.json takes precedence over config.json."""
    for name, table in (("generation_config.json", generation), ("config.json", config)):
        if (ids := table.get("eos_token_id")) is not None:
            ids = ids if isinstance(ids, list) else [ids]
            if not all(type(number) is int and 0 <= number < config["vocab_size"] for number in ids):
                expected = f"expected a token id, or a list of them, below {config['vocab_size']}"
                raise UsageError(f"{folder / name} has eos_token_id = {shortened(repr(ids))}, {expected}")
            return tuple(ids)
    return ()


def _sampling(file: Path, generation: dict[str, Any]) -> dict[str, float]:
    for name, (_, least, most) in SAMPLING.items():
        if generation.get(name) is not None:
            check_number(file, name, generation[name], least, most)
    if not isinstance(sampled := generation.get("do_sample"), bool | None):
        raise UsageError(f"{file} has do_sample = {shortened(repr(sampled))}, expected true or false")
    if sampled is False:
        return {"temp": 0.0}
    return {ours: generation[name] for name, (ours, *_) in SAMPLING.items() if generation.get(name) is not None}
