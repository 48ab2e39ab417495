"""What a round of GRPO takes: sampling a group one by one or in one batch, and the updates."""

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.lora.adapter import Adapter, LoRAParts, Params, init_lora
from tiny_llm.preferences.grpo import grpo_loss
from tiny_llm.preferences.logprobs import token_logprobs
from tiny_llm.preferences.sampling import Completion, sample_groups
from tiny_llm.preferences.training import completion_batch, policy_logprobs
from tiny_llm.serving.kv_cache import DenseKVCache
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm.serving.step import Sampler
from tiny_llm.training.model import initial_params
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "one part of a round", ("time: ms",))

PROMPT = list(range(5, 15))


def measure(quick: bool = False) -> Table:
    """Measure the parts of one round of a random model: eight completions of one prompt."""
    size, layers, group, length = (64, 2, 4, 8) if quick else (256, 2, 8, 32)
    config = _config(size, layers)
    params = initial_params(config, 0)
    adapter = Adapter(init_lora(params, 4, ("q_proj", "v_proj"), 0), 8.0)
    model = RaggedModel(config, {**params, **adapter.weights}, LoRAParts(adapter.alpha))

    def sampled(seats: int) -> list[Completion]:
        def new_scheduler(sampler: Sampler) -> Scheduler:
            return Scheduler(model, DenseKVCache(layers), max_num_seqs=seats, sampler=sampler)

        return sample_groups(new_scheduler, [PROMPT], group, 1.0, length, (), 0)[0]

    completions = sampled(group)
    batch, logprobs = completion_batch(completions, 0)
    mask = batch[1] >= 0
    own = policy_logprobs(adapter.weights, config, params, adapter.alpha, batch)
    # The sampler and the trainer compute the same model, and the first update starts at ratios of 1.
    assert mx.allclose(own, logprobs, atol=1e-3)
    assert mx.allclose(token_logprobs(mx.zeros((1, 4)), mx.array([0])), -mx.log(mx.array([4.0])))
    advantages = mx.arange(group) - group / 2

    def update() -> object:
        def loss_of(weights: Params) -> mx.array:
            found = policy_logprobs(weights, config, params, adapter.alpha, batch)
            return grpo_loss(found, logprobs, own, advantages, mask).loss

        return list(mx.grad(loss_of)(adapter.weights).values())

    parts = {
        "sampling, one request at a time": lambda: [each.logprobs[0] for each in sampled(1)],
        f"sampling, {group} requests in a batch": lambda: [each.logprobs[0] for each in sampled(group)],
        "reference log-probabilities": lambda: policy_logprobs({}, config, params, 1.0, batch),
        "loss and gradients": update,
    }
    taken = dict(zip(parts, seconds(*parts.values()), strict=True))
    tokens = group * length
    alone, together, forward, step = taken.values()
    return Table(
        ("part of a round", "time: ms", "ms per token"),
        tuple((name, 1e3 * time, 1e3 * time / tokens) for name, time in taken.items()),
        f"Batched, sampling is {alone / together:.1f} times as fast as one request at a time. The loss with its "
        f"gradients takes {step / forward:.1f} times as long as the reference's forward pass.",
    )


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
