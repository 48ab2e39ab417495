"""Cost per token of a twelve-layer model as fewer of its layers are stored."""

from collections.abc import Callable

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.weight_sharing.counting import count_shared
from tiny_llm.weight_sharing.model import SharedLayersModel
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "weights and time per token", ("weights: MiB", "decode step: ms"))

LAYERS = 12
CONTEXT = 64  # tokens prefilled before the decode step
SCHEMES = ((12, "sequence"), (3, "sequence"), (3, "cycle"), (1, "cycle"))


def measure(quick: bool = False) -> Table:
    """Measure a decode step for the same dimensions and different numbers of stored layers."""
    config = _config(*((64, 160) if quick else (512, 1408)))
    models = [_model(config, distinct, order) for distinct, order in SCHEMES]
    prompt = mx.arange(CONTEXT)[None] % config.vocab_size
    times = seconds(*(_step(model, prompt) for model in models))
    rows = []
    for (distinct, order), taken in zip(SCHEMES, times, strict=True):
        counts = count_shared(config, distinct)
        name = f"{distinct}, {order}" if 1 < distinct < LAYERS else str(distinct)
        sizes = (4 * counts.stored / 2**20, 4 * counts.cached / 1024, counts.macs / 1e6)
        rows.append((name, *sizes, 1e3 * taken))
    (_, all_stored, *_, slow), *_, (_, one_stored, *_, fast) = rows
    return Table(
        ("stored layers", "weights: MiB", "KV cache: KiB per token", "million MACs", "decode step: ms"),
        tuple(rows),
        f"Storing one layer instead of twelve takes {all_stored / one_stored:.1f} times less memory, and a decode step "
        f"takes {fast / slow:.2f} times as long; KV cache size and MACs are the same in all rows.",
    )


def _config(size: int, inner: int) -> ModelConfig:
    """Return a config with the proportions of a small Qwen3."""
    return ModelConfig(
        model_type="qwen3",
        hidden_size=size,
        num_hidden_layers=LAYERS,
        intermediate_size=inner,
        num_attention_heads=size // 64,
        num_key_value_heads=max(1, size // 128),
        head_dim=64,
        vocab_size=2048,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        max_position_embeddings=256,
        tie_word_embeddings=True,
    )


def _model(config: ModelConfig, distinct: int, order: str) -> SharedLayersModel:
    """Return a model with random float32 weights."""
    c = config
    size, inner = c.hidden_size, c.intermediate_size
    queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    matrices = {
        "self_attn.q_proj": (queries, size),
        "self_attn.k_proj": (keys, size),
        "self_attn.v_proj": (keys, size),
        "self_attn.o_proj": (size, queries),
        "mlp.gate_proj": (inner, size),
        "mlp.up_proj": (inner, size),
        "mlp.down_proj": (size, inner),
    }
    norms = {"input_layernorm": size, "post_attention_layernorm": size}
    norms |= {"self_attn.q_norm": c.head_dim, "self_attn.k_norm": c.head_dim}
    weights = {"model.embed_tokens.weight": 0.02 * mx.random.normal((c.vocab_size, size))}
    weights["model.norm.weight"] = mx.ones(size)
    for number in range(distinct):
        prefix = f"model.layers.{number}."
        weights |= {f"{prefix}{name}.weight": 0.02 * mx.random.normal(shape) for name, shape in matrices.items()}
        weights |= {f"{prefix}{name}.weight": mx.ones(count) for name, count in norms.items()}
    mx.eval(weights)
    return SharedLayersModel(config, weights, distinct, order)


def _step(model: SharedLayersModel, prompt: mx.array) -> Callable[[], mx.array]:
    """Return a decode step after the prompt that is rolled back afterwards."""
    caches = model.new_caches()
    mx.eval(model(prompt, caches))

    def step() -> mx.array:
        logits = model(prompt[:, -1:], caches)
        for cache in caches:
            cache.rewind(1)
        return logits

    return step
