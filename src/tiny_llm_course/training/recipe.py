"""A training recipe: everything but the text that determines a model. Read from TOML and validated."""

import dataclasses
import math
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

from ..checkpoints.files import read_text
from ..course.registry import UsageError

MAY_BE_NONE = ("seed", "warmup")


@dataclasses.dataclass(frozen=True)
class Architecture:
    """The model's dimensions, with the names of config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float
    max_position_embeddings: int

    def config(self) -> dict[str, Any]:
        """Return the entries of config.json."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            **dataclasses.asdict(self),
            "hidden_act": "silu",
            "attention_bias": False,
            "tie_word_embeddings": True,
        }


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How the model is trained."""

    seed: int
    steps: int
    rows: int  # in a micro-batch
    micro_batches: int  # in a step
    context: int  # tokens in a row
    learning_rate: float  # peak
    final_share: float  # final learning rate / peak
    warmup: int  # steps
    weight_decay: float
    betas: list[float]
    clip: float  # maximum gradient norm
    chat_share: float  # share of an epoch's stories told as conversations
    every: int  # steps between evaluations, checkpoints and samples


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A model to train."""

    name: str
    architecture: Architecture
    schedule: Schedule


def read_recipe(file: Path, **changes: Any) -> Recipe:
    """Return the recipe in a TOML file, with its schedule overridden by `changes`; UsageError if it is invalid."""
    try:
        table = tomllib.loads(read_text(file))
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    for section in ("model", "schedule"):
        if not isinstance(table.setdefault(section, {}), dict):
            raise UsageError(f"{file}: {section} = {table[section]!r}, expected a table [{section}]")
    table["schedule"] |= changes
    architecture = _fill(Architecture, file, "model", table["model"])
    schedule = _fill(Schedule, file, "schedule", table["schedule"])
    shares = (schedule.final_share, schedule.chat_share)
    uneven = architecture.num_attention_heads % architecture.num_key_value_heads
    rules = {
        "num_attention_heads must be a multiple of num_key_value_heads": not uneven,
        "head_dim must be even": architecture.head_dim % 2 == 0,
        "context must be below max_position_embeddings": schedule.context < architecture.max_position_embeddings,
        "betas must be two numbers below 1": len(schedule.betas) == 2 and max(schedule.betas) < 1,
        "the shares must be at most 1": max(shares) <= 1,
    }
    for rule, kept in rules.items():
        if not kept:
            raise UsageError(f"{file}: {rule}")
    return Recipe(str(table.get("name", file.parent.name)), architecture, schedule)


def _fill(kind: Any, file: Path, section: str, values: dict[str, Any]) -> Any:
    types = get_type_hints(kind)
    if unknown := sorted(set(values) - set(types)):
        raise UsageError(f"{file}: [{section}] has {', '.join(unknown)}; known are {', '.join(types)}")
    if missing := sorted(set(types) - set(values)):
        raise UsageError(f"{file}: [{section}] lacks {', '.join(missing)}")
    for name, value in values.items():
        numbers = value if types[name] == list[float] else [value]
        whole = types[name] is int
        right = isinstance(numbers, list) and all(type(n) in ((int,) if whole else (int, float)) for n in numbers)
        least = 1 if whole and name not in MAY_BE_NONE else 0
        if not right or not all(math.isfinite(n) and n >= least for n in numbers):
            what = "a whole number" if whole else "a number" if numbers is not value else "numbers"
            raise UsageError(f"{file}: [{section}] {name} = {value!r}, expected {what}, not below {least}")
    return kind(**values)
