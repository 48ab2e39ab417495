"""Preferences and rewards beyond the graded tests: whole steps of DPO and GRPO on a small model, with the scheduler."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.maintainers
mx.set_default_device(mx.cpu)
load_solution()
PROMPTS = [[1, 2, 3], [4, 5]]
END, WANTED = 15, 7


def small_model():
    """Return the config and weights of a random model, and an untrained adapter."""
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.lora.adapter import Adapter, init_lora
    from tiny_llm_solution.training.model import initial_params

    config = ModelConfig("qwen3", 32, 2, 48, 4, 2, 8, 16, 1e-6, 1e4, 64, True)
    params = initial_params(config, 0, 0.3)
    return config, params, Adapter(init_lora(params, 4, ("q_proj", "v_proj", "o_proj", "down_proj"), 0), 8.0)


def recipe(**changes):
    from tiny_llm_solution.preferences.training import GRPORecipe

    return replace(GRPORecipe((END,), 0, group_size=6, max_tokens=8), **changes)


def test_grpo_raises_the_reward():
    from tiny_llm_solution.optimizers.adamw import AdamW
    from tiny_llm_solution.preferences.training import grpo_round

    config, params, adapter = small_model()
    before = {name: np.array(w) for name, w in params.items()}
    optimizer = AdamW(2e-2, weight_decay=0.0)
    state, means = optimizer.init(adapter.weights), []

    def reward(_, completion):
        return completion.tokens.count(WANTED) / len(completion.tokens)

    for number in range(12):
        adapter, state, report = grpo_round(
            config, params, adapter, optimizer, state, PROMPTS, reward, recipe(beta=0.0), 1000 * number
        )
        means.append(np.mean(report.rewards))
        assert report.gap < 1e-3  # sampler and trainer are the same model
        assert [len(report.losses), len(report.kl), len(report.norms)] == [2, 2, 2]
    assert np.mean(means[-3:]) > np.mean(means[:3]) + 0.2
    assert all(np.array_equal(before[name], np.array(w)) for name, w in params.items())


def test_equal_rewards_and_the_first_update():
    from tiny_llm_solution.optimizers.adamw import AdamW
    from tiny_llm_solution.preferences.training import grpo_round

    config, params, adapter = small_model()
    optimizer = AdamW(1e-2, weight_decay=0.0)
    _, _, report = grpo_round(
        config, params, adapter, optimizer, optimizer.init(adapter.weights), PROMPTS, lambda *_: 1.0, recipe(), 0
    )
    # The policy is sampler and reference: ratios of 1, no distance, and nothing to learn.
    assert report.losses[0] == report.clipped[0] == 0
    assert report.kl[0] == pytest.approx(0, abs=1e-6)
    assert report.norms[0] == pytest.approx(0, abs=1e-6)


def test_the_reference_holds_the_policy():
    from tiny_llm_solution.optimizers.adamw import AdamW
    from tiny_llm_solution.preferences.training import grpo_round

    def distance(beta):
        config, params, adapter = small_model()
        optimizer = AdamW(2e-2, weight_decay=0.0)
        state = optimizer.init(adapter.weights)
        for number in range(8):
            adapter, state, report = grpo_round(
                config, params, adapter, optimizer, state, PROMPTS,
                lambda _, completion: float(WANTED in completion.tokens), recipe(beta=beta), 1000 * number,
            )  # fmt: skip
        return report.kl[-1]

    assert distance(2.0) < distance(0.0) / 2


def test_dpo_separates_pairs():
    from tiny_llm_solution.optimizers.adamw import AdamW
    from tiny_llm_solution.preferences.sampling import Completion
    from tiny_llm_solution.preferences.training import dpo_step

    config, params, adapter = small_model()
    pairs = [
        (Completion(prompt, [WANTED, 3, END], [0.0] * 3, True), Completion(prompt, [9, 9], [0.0] * 2, False))
        for prompt in PROMPTS
    ]
    optimizer = AdamW(1e-2, weight_decay=0.0)
    state, losses = optimizer.init(adapter.weights), []
    for _ in range(10):
        adapter, state, found = dpo_step(config, params, adapter, optimizer, state, pairs, 0, 0.5)
        losses.append(found)
    assert losses[0].loss.item() == pytest.approx(np.log(2), abs=1e-5)
    assert losses[0].accuracy.item() == 0
    assert losses[-1].accuracy.item() == 1
    assert losses[-1].loss.item() < 0.4


def test_a_batch_of_completions():
    from tiny_llm_solution.preferences.sampling import Completion
    from tiny_llm_solution.preferences.training import completion_batch

    both = [Completion([1, 2, 3], [4, END], [-0.5, -0.25], True), Completion([5], [6], [-1.0], False)]
    (tokens, targets), sampled = completion_batch(both, 0)
    assert tokens.tolist() == [[1, 2, 3, 4, END], [5, 6, 0, 0, 0]]
    assert targets.tolist() == [[-100, -100, 4, END, -100], [6, -100, -100, -100, -100]]
    assert sampled.tolist() == [[0, 0, -0.5, -0.25, 0], [-1.0, 0, 0, 0, 0]]


def test_preempted_requests_get_the_same_completions():
    from tiny_llm_solution.paged.kv_cache import PagedKVCache
    from tiny_llm_solution.paged.storage import PagedArrays
    from tiny_llm_solution.preferences.sampling import sample_groups
    from tiny_llm_solution.serving.kv_cache import DenseKVCache
    from tiny_llm_solution.serving.ragged import RaggedModel
    from tiny_llm_solution.serving.scheduler import Scheduler

    config, params, _ = small_model()
    model, preempted = RaggedModel(config, params), []

    class Counting(Scheduler):
        def step(self):
            step = super().step()
            preempted.extend(step.preempted)
            return step

    def sampled(kv_cache):
        return sample_groups(lambda sampler: Counting(model, kv_cache, sampler=sampler), PROMPTS, 4, 1.0, 12, (END,), 3)

    plenty = sampled(DenseKVCache(2))
    few = sampled(PagedKVCache(PagedArrays(2, 12, 4, 2, 8, mx.float32)))
    assert preempted
    flat = [[each for group in groups for each in group] for groups in (plenty, few)]
    for one, other in zip(*flat, strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
    assert len({tuple(one.tokens) for one in flat[0]}) == 8


def test_rewards():
    from tiny_llm_solution.preferences.rewards import count_mentions, mention_reward, story_reward

    text = "A Cow met two cows. The cowboy left."
    assert count_mentions(text, "cow") == mention_reward(text, "cow") == 2
    assert story_reward(text, "cow", ended=True) == 1
    assert story_reward(text, "cow", ended=False) == story_reward(text, "cow", ended=True, longest=7) == 0.5
    assert story_reward(text, "frog", ended=False) == 0
