"""RoPE scaling as `transformers` computes it from a config: an oracle for day 7."""

from typing import Any

LAYERS: dict[str, Any] = {"num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 8}


def config_of(dims: int, base: float, positions: int, scaling: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json of a model with two heads, as far as RoPE is concerned."""
    table = {"rope_theta": base, **scaling}
    return {"head_dim": dims, "rope_theta": base, "max_position_embeddings": positions, "rope_parameters": table}


def frequencies_of(torch: Any, dims: int, base: float, positions: int, scaling: dict[str, Any], length: int) -> Any:
    """Return the frequencies, D/2, followed by the attention factor."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = _llama(dims, base, positions, scaling)
    paces, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"), seq_len=length)
    return torch.cat([paces, torch.tensor([float(factor)])])


def turned_of(torch: Any, x: Any, dims: int, base: float, positions: int, scaling: dict[str, Any], first: int) -> Any:
    """Rotate x, N x L x H x D, as the queries of a Llama whose tokens start at a position."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    rope = LlamaRotaryEmbedding(_llama(dims, base, positions, scaling))
    cos, sin = rope(x, torch.arange(first, first + x.shape[1])[None])
    return apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=2)[0]


def _llama(dims: int, base: float, positions: int, scaling: dict[str, Any]) -> Any:
    from transformers import LlamaConfig

    config = config_of(dims, base, positions, scaling)
    return LlamaConfig(**LAYERS, hidden_size=2 * dims, num_attention_heads=2, **config)
