"""Memory and time of a training step: all weights, or adapters of several ranks."""

from collections.abc import Callable

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.dataset.loss import cross_entropy
from tiny_llm.lora.adapter import Params, init_lora
from tiny_llm.lora.finetune import adapter_loss
from tiny_llm.lora.layer import LoRALinear
from tiny_llm.optimizers.adamw import AdamW
from tiny_llm.qwen3_cached.model import Qwen3CachedModel
from tiny_llm_course.measuring.clock import Table, peak_memory, seconds

# What the book draws of the table.
CHART = ("bars", "", ("moments: MiB", "peak: MiB", "step: ms"))

ATTENTION, EVERY = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")


def measure(quick: bool = False) -> Table:
    """Measure one AdamW step of a random model on the same tokens, with different weights trained."""
    config = _config(*((64, 2) if quick else (256, 3)))
    params = _weights(config)
    # An adapter whose B is zero changes nothing, so all ways start at the same model.
    w = params["model.layers.0.self_attn.q_proj.weight"]
    assert mx.array_equal(LoRALinear(w, mx.ones((2, w.shape[1])), mx.zeros((w.shape[0], 2)), 16.0).merged(), w)
    tokens = mx.arange(64).reshape(2, 32) % config.vocab_size
    ways = {"all weights": params}
    ways |= {f"r = {rank}": init_lora(params, rank, ATTENTION + EVERY, 0) for rank in ((2,) if quick else (32, 8, 2))}
    optimizer, steps, held = AdamW(1e-3), [], []
    for name, trained in ways.items():
        state = optimizer.init(trained)
        mx.eval(trained, state)
        steps.append(_step(config, params, trained, state, optimizer, (tokens, tokens), name == "all weights"))
        own = [*state.values(), *params.values(), *(trained.values() if name != "all weights" else ())]
        held.append(sum(array.nbytes for array in own))
    peaks = [mine + peak_memory(step) for mine, step in zip(held, steps, strict=True)]
    rows = tuple(
        (name, sum(w.size for w in trained.values()) / 1e6, _mebibytes(trained) * 2, peak / 2**20, 1e3 * taken)
        for (name, trained), peak, taken in zip(ways.items(), peaks, seconds(*steps), strict=True)
    )
    (_, _, _, whole, slow), *_, (_, _, _, least, fast) = rows
    return Table(
        ("trained", "million trained", "moments: MiB", "peak: MiB", "step: ms"),
        rows,
        f"The adapter of the lowest rank needs {least / whole:.2f} times the memory of full fine-tuning, and a step "
        f"takes {fast / slow:.2f} times as long: what is saved is the optimizer's state and the weights' gradients.",
    )


def _step(
    config: ModelConfig,
    params: Params,
    trained: Params,
    state: Params,
    optimizer: AdamW,
    batch: tuple[mx.array, mx.array],
    full: bool,
) -> Callable[[], object]:
    """Return one step, which leaves the weights and the optimizer's state as they are."""

    def loss_of(weights: Params) -> mx.array:
        if not full:
            return adapter_loss(weights, config, params, 16.0, batch)
        return cross_entropy(Qwen3CachedModel(config, weights)(batch[0], all_positions=True), batch[1])

    def step() -> object:
        loss, grads = mx.value_and_grad(loss_of)(trained)
        weights, new = optimizer.update(trained, grads, state)
        return [loss, *weights.values(), *new.values()]

    return step


def _mebibytes(weights: Params) -> float:
    return sum(w.nbytes for w in weights.values()) / 2**20


def _config(size: int, layers: int) -> ModelConfig:
    """Return a config with the proportions of the course's model."""
    return ModelConfig(
        model_type="qwen3",
        hidden_size=size,
        num_hidden_layers=layers,
        intermediate_size=9 * size // 4,
        num_attention_heads=6 * size // 256 or 2,
        num_key_value_heads=2 * size // 256 or 1,
        head_dim=64,
        vocab_size=2048,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        max_position_embeddings=256,
        tie_word_embeddings=True,
    )


def _weights(config: ModelConfig) -> Params:
    """Return random float32 weights."""
    size, dims = config.hidden_size, config.head_dim
    queries, keys = config.num_attention_heads * dims, config.num_key_value_heads * dims
    inner = config.intermediate_size
    shapes = {"q": (queries, size), "k": (keys, size), "v": (keys, size), "o": (size, queries)}
    matrices = {f"self_attn.{x}_proj": shape for x, shape in shapes.items()}
    matrices |= {"mlp.gate_proj": (inner, size), "mlp.up_proj": (inner, size), "mlp.down_proj": (size, inner)}
    weights = {"model.embed_tokens.weight": mx.random.normal((config.vocab_size, size), key=mx.random.key(0)) * 0.02}
    for number in range(config.num_hidden_layers):
        prefix = f"model.layers.{number}."
        for i, (name, shape) in enumerate(matrices.items()):
            drawn = mx.random.normal(shape, key=mx.random.key(10 * number + i + 1))
            weights[f"{prefix}{name}.weight"] = drawn * shape[1] ** -0.5
        for name, count in (("input_layernorm", size), ("post_attention_layernorm", size)):
            weights[f"{prefix}{name}.weight"] = mx.ones(count)
        for x in "qk":
            weights[f"{prefix}self_attn.{x}_norm.weight"] = mx.ones(dims)
    weights["model.norm.weight"] = mx.ones(size)
    mx.eval(weights)
    return weights
