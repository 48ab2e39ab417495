"""A round of GRPO and a step of DPO on a LoRA adapter. The reference model is the same model without the adapter."""

import dataclasses
from collections.abc import Callable, Collection, Sequence

import mlx.core as mx

from ..config import ModelConfig
from ..dataset.packing import IGNORE
from ..lora.adapter import Adapter, LoRAParts, Params
from ..lora.finetune import Batch, batch_examples
from ..optimizers.adamw import AdamW, State
from ..optimizers.clipping import clip_by_global_norm
from ..qwen3_cached.model import Qwen3CachedModel
from ..serving.kv_cache import DenseKVCache
from ..serving.ragged import RaggedModel
from ..serving.scheduler import Scheduler
from ..serving.step import Sampler
from .advantages import group_advantages
from .dpo import PreferenceLoss, dpo_loss
from .grpo import PolicyLoss, grpo_loss
from .logprobs import token_logprobs
from .sampling import Completion, sample_groups

Reward = Callable[[int, Completion], float]  # of a completion of the prompt with this number


@dataclasses.dataclass(frozen=True)
class GRPORecipe:
    """The settings of a round."""

    eos_ids: Collection[int]
    padding: int  # the token that fills short rows
    group_size: int = 8
    temp: float = 1.0
    max_tokens: int = 100
    updates: int = 2  # optimizer steps on the same completions
    clip: float = 0.2
    beta: float = 0.04
    max_norm: float = 1.0


@dataclasses.dataclass(frozen=True)
class GRPOReport:
    """What happened in a round."""

    groups: list[list[Completion]]
    rewards: list[list[float]]
    gap: float  # the largest difference of a token's log-probability between sampler and trainer, before the updates
    losses: list[float]  # of each update, before it, as are the next three
    kl: list[float]
    clipped: list[float]
    norms: list[float]  # of the gradients, before clipping


def grpo_round(
    config: ModelConfig,
    params: Params,
    adapter: Adapter,
    optimizer: AdamW,
    state: State,
    prompts: Sequence[list[int]],
    reward: Reward,
    recipe: GRPORecipe,
    seed: int,
) -> tuple[Adapter, State, GRPOReport]:
    """Sample groups with the serving engine, reward them, and update the adapter; return it, the state and a report."""

    def new_scheduler(sampler: Sampler) -> Scheduler:
        model = RaggedModel(config, {**params, **adapter.weights}, LoRAParts(adapter.alpha))
        count = len(prompts) * recipe.group_size
        return Scheduler(model, DenseKVCache(config.num_hidden_layers), max_num_seqs=count, sampler=sampler)

    groups = sample_groups(
        new_scheduler, prompts, recipe.group_size, recipe.temp, recipe.max_tokens, recipe.eos_ids, seed
    )
    rewards = [[reward(i, completion) for completion in group] for i, group in enumerate(groups)]
    advantages = group_advantages(mx.array(rewards)).flatten()
    (tokens, targets), sampled = completion_batch([each for group in groups for each in group], recipe.padding)
    batch, mask = (tokens, targets), targets != IGNORE
    reference = policy_logprobs({}, config, params, 1.0, batch, recipe.temp)
    before = policy_logprobs(adapter.weights, config, params, adapter.alpha, batch, recipe.temp)
    gap = mx.max(mx.abs(before - sampled))  # both are 0 outside the completions
    mx.eval(reference, gap)

    def loss_of(weights: Params) -> tuple[mx.array, PolicyLoss]:
        logprobs = policy_logprobs(weights, config, params, adapter.alpha, batch, recipe.temp)
        found = grpo_loss(logprobs, sampled, reference, advantages, mask, recipe.clip, recipe.beta)
        return found.loss, found

    weights, numbers = adapter.weights, []
    for _ in range(recipe.updates):
        (_, found), grads = mx.value_and_grad(loss_of)(weights)
        grads, norm = clip_by_global_norm(grads, recipe.max_norm)
        weights, state = optimizer.update(weights, grads, state)
        mx.eval(weights, state, found, norm)
        numbers.append([float(each.item()) for each in (*found, norm)])  # type: ignore[arg-type]
    columns = (list(column) for column in zip(*numbers, strict=True))
    return Adapter(weights, adapter.alpha), state, GRPOReport(groups, rewards, float(gap.item()), *columns)  # type: ignore[arg-type]


def dpo_step(
    config: ModelConfig,
    params: Params,
    adapter: Adapter,
    optimizer: AdamW,
    state: State,
    pairs: Sequence[tuple[Completion, Completion]],
    padding: int,
    beta: float = 0.1,
    max_norm: float = 1.0,
) -> tuple[Adapter, State, PreferenceLoss]:
    """Take one step of DPO on pairs (chosen, rejected); return the adapter, the state, and the loss before the step."""
    batch, _ = completion_batch([pair[which] for which in (0, 1) for pair in pairs], padding)
    count = len(pairs)
    reference = mx.sum(policy_logprobs({}, config, params, 1.0, batch), axis=-1)  # 2 B: first the chosen
    mx.eval(reference)

    def loss_of(weights: Params) -> tuple[mx.array, PreferenceLoss]:
        sums = mx.sum(policy_logprobs(weights, config, params, adapter.alpha, batch), axis=-1)
        found = dpo_loss(sums[:count], sums[count:], reference[:count], reference[count:], beta)
        return found.loss, found

    (_, found), grads = mx.value_and_grad(loss_of)(adapter.weights)
    grads, _ = clip_by_global_norm(grads, max_norm)
    weights, state = optimizer.update(adapter.weights, grads, state)
    mx.eval(weights, state, found)
    return Adapter(weights, adapter.alpha), state, found


def completion_batch(completions: Sequence[Completion], padding: int) -> tuple[Batch, mx.array]:
    """Return tokens and targets, N x L each, so that only completions count, and the sampler's log-probabilities."""
    examples, rows = [], []
    for each in completions:
        before = len(each.prompt) - 1  # the last token of the prompt predicts the first one of the completion
        examples.append((each.prompt + each.tokens, [IGNORE] * before + each.tokens + [IGNORE]))
        rows.append([0.0] * before + each.logprobs + [0.0])
    longest = max(map(len, rows))
    return batch_examples(examples, padding), mx.array([row + [0.0] * (longest - len(row)) for row in rows])


def policy_logprobs(
    weights: Params, config: ModelConfig, params: Params, alpha: float, batch: Batch, temp: float = 1.0
) -> mx.array:
    """Return the targets' log-probabilities under the model with an adapter's weights, or without any: N x L."""
    model = Qwen3CachedModel(config, {**params, **weights}, LoRAParts(alpha))
    tokens, targets = batch
    return token_logprobs(model(tokens, all_positions=True), targets, temp)
