"""The dimensions of a layer of multi-head latent attention, read from a checkpoint's config.json."""

import dataclasses
from typing import Any

# For the norms of both latents: DeepSeek's layers use this value, whatever rms_norm_eps the config has.
NORM_EPS = 1e-6


@dataclasses.dataclass(frozen=True)
class LatentConfig:
    """The dimensions of a layer of multi-head latent attention, under the names of config.json.

    A query, and an expanded key, has two parts: D_nope features without position, and D_rope that RoPE rotates.
    """

    hidden_size: int  # E
    num_attention_heads: int  # H
    kv_lora_rank: int  # C, the latent of a token
    qk_nope_head_dim: int  # D_nope
    qk_rope_head_dim: int  # D_rope, even
    v_head_dim: int  # D_v
    q_lora_rank: int | None  # Q, the latent of a query; None if queries are projected from x directly
    rope_theta: float
    max_position_embeddings: int

    @property
    def query_dim(self) -> int:
        """D_nope + D_rope: the features of one head's query."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def entry_dim(self) -> int:
        """C + D_rope: the numbers cached per token."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @staticmethod
    def from_dict(config: dict[str, Any]) -> "LatentConfig":
        """Read the contents of a config.json, ignoring other entries.

        Raises:
            ValueError: an entry is missing, or one needs what these layers do not have: biases, scaled RoPE, or RoPE on
                halves.
        """
        rope = config.get("rope_parameters") or {}
        scaling = config.get("rope_scaling") or {}
        known = {"q_lora_rank": None, **config}
        if known.get("rope_theta") is None:  # newer files have it in rope_parameters
            known["rope_theta"] = rope.get("rope_theta")
        names = [field.name for field in dataclasses.fields(LatentConfig)]
        if missing := [name for name in names if name != "q_lora_rank" and known.get(name) is None]:
            raise ValueError(f"config.json lacks {', '.join(missing)}")
        sort = scaling.get("rope_type", scaling.get("type", rope.get("rope_type", "default")))
        for name, value, wanted in [
            ("attention_bias", config.get("attention_bias", False), False),
            ("rope_interleave", config.get("rope_interleave", True), True),
            ("the sort of RoPE", sort, "default"),
        ]:
            if value != wanted:
                raise ValueError(f"{name} is {value!r}, but these layers know only {wanted!r}")
        return LatentConfig(**{name: known[name] for name in names})
