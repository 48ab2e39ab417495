"""A training recipe: everything but the text that determines a model. Read from TOML and validated."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..checkpoints.files import read_text
from ..course.registry import UsageError

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Beta = Annotated[float, Field(ge=0, lt=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Architecture(_Table):
    """The model's dimensions, with the names of config.json."""

    vocab_size: Count
    hidden_size: Count
    num_hidden_layers: Count
    intermediate_size: Count
    num_attention_heads: Count
    num_key_value_heads: Count
    head_dim: Annotated[int, Field(ge=2, multiple_of=2)]
    rope_theta: Positive
    rms_norm_eps: Positive
    max_position_embeddings: Count

    def config(self) -> dict[str, Any]:
        """Return the entries of config.json."""
        fixed = {"hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": True}
        return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **self.model_dump(), **fixed}


class Schedule(_Table):
    """How the model is trained."""

    seed: Whole
    steps: Count
    rows: Count  # in a micro-batch
    micro_batches: Count  # in a step
    context: Count  # tokens in a row
    learning_rate: Positive  # peak
    final_share: Share  # final learning rate / peak
    warmup: Whole  # steps
    weight_decay: Positive
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)]
    clip: Positive  # maximum gradient norm
    chat_share: Share  # share of an epoch's stories told as conversations
    every: Count  # steps between evaluations, checkpoints and samples


class Recipe(_Table):
    """A model to train."""

    name: str
    architecture: Architecture = Field(alias="model")
    schedule: Schedule

    @model_validator(mode="after")
    def _agrees(self) -> "Recipe":
        if self.architecture.num_attention_heads % self.architecture.num_key_value_heads:
            raise ValueError("num_attention_heads must be a multiple of num_key_value_heads")
        if self.schedule.context >= self.architecture.max_position_embeddings:
            raise ValueError("context must be below max_position_embeddings")
        return self


def read_recipe(file: Path, **changes: Any) -> Recipe:
    """Return the recipe in a TOML file, with its schedule overridden by `changes`; UsageError if it is invalid."""
    try:
        table = {"name": file.parent.name} | tomllib.loads(read_text(file))
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    if isinstance(table.get("schedule"), dict):
        table["schedule"] |= changes
    try:
        return Recipe.model_validate(table)
    except ValidationError as error:
        first = min(
            error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden"
        )  # a misspelt key
        where = " ".join(f"[{part}]" if not i else str(part) for i, part in enumerate(first["loc"]))
        given = f" = {first['input']!r:.60}" if len(first["loc"]) > 1 and first["type"] != "missing" else ""
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(": ".join(filter(None, [str(file), f"{where}{given}", reason]))) from None
