"""Record the runs of chapter 5.6: DPO and GRPO on the embedded model, and a reward that is hacked.

    pdm run python benches/rewards.py book/generate/week5/rewards.json

All runs train LoRA adapters of the embedded model with the solution's code, on requests for stories about animals. The
first run samples, scores and pairs the completions that DPO learns from; nothing is fetched. What is recorded are
figures and samples; a run that the file has already is not repeated.
"""
# ruff: noqa: E402

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.measuring.machine import machine
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.embedded import embedded_checkpoint

load_solution()

from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.lora.adapter import Adapter, LoRAParts, Params, init_lora, merge_lora
from tiny_llm_solution.lora.files import load_adapter
from tiny_llm_solution.optimizers.adamw import AdamW
from tiny_llm_solution.preferences.rewards import count_mentions, mention_reward, story_reward
from tiny_llm_solution.preferences.sampling import Completion, sample_groups
from tiny_llm_solution.preferences.training import GRPORecipe, completion_batch, dpo_step, grpo_round, policy_logprobs
from tiny_llm_solution.serving.kv_cache import DenseKVCache
from tiny_llm_solution.serving.ragged import RaggedModel
from tiny_llm_solution.serving.scheduler import Scheduler
from tiny_llm_solution.tokenizer import ByteLevelBPE

RANK, ALPHA, SEED = 8, 16.0, 0
NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")
REQUEST = "Tell me a story about a {}."
TRAINING = ("bear", "sheep", "bug", "fox", "bee", "elephant", "puppy", "kitten", "goat", "owl", "snake", "whale")
HELD_OUT = ("cow", "horse", "lion", "monkey", "turtle", "duck")
PROMPTS = 2  # per round
LONGEST = 40  # words of a story
SAMPLES = 8  # per held-out thing, before and after a run
PAIRS, EPOCHS, PER_STEP = 4, 2, 8  # of DPO: pairs per thing, and per step


class World:
    """The model, its tokenizer and the requests."""

    def __init__(self) -> None:
        checkpoint = embedded_checkpoint()
        self.params = merge_lora(checkpoint.weights, load_adapter(MODELS / "good-night"))
        self.config = ModelConfig.from_dict(checkpoint.config)
        self.tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
        end, padding = checkpoint.config["eos_token_id"]
        self.recipe: dict[str, Any] = {"eos_ids": (end, padding), "padding": padding}

        def prompt(thing: str) -> list[int]:
            messages = [{"role": "user", "content": REQUEST.format(thing)}]
            text = render_chat(checkpoint.chat_template or "", messages, checkpoint.special_tokens)
            return list(self.tokenizer.encode(text))

        self.prompts = {thing: prompt(thing) for thing in TRAINING + HELD_OUT}

    def text(self, completion: Completion) -> str:
        """Return a completion's text, without the end token."""
        return str(self.tokenizer.decode(completion.tokens[: -1 if completion.ended else None])).strip()

    def new_adapter(self) -> Adapter:
        """Return an untrained adapter."""
        return Adapter(init_lora(self.params, RANK, NAMES, SEED), ALPHA)

    def sample(self, adapter: Adapter, things: Sequence[str], count: int, seed: int) -> Any:
        """Return groups of completions of a trained model."""
        recipe = GRPORecipe(**self.recipe)
        model = RaggedModel(self.config, {**self.params, **adapter.weights}, LoRAParts(adapter.alpha))
        return sample_groups(
            lambda sampler: Scheduler(
                model, DenseKVCache(self.config.num_hidden_layers), max_num_seqs=48, sampler=sampler
            ),
            [self.prompts[thing] for thing in things],
            count, recipe.temp, recipe.max_tokens, recipe.eos_ids, seed,
        )  # fmt: skip

    def group(self, thing: str) -> dict[str, Any]:
        """Sample one group, and say what the reward sees of each completion."""
        (group,) = self.sample(self.new_adapter(), [thing], 8, 30_000)
        return {"thing": thing, "completions": [self.row(thing, each) for each in group]}

    def logprobs(self, adapter: Adapter, thing: str) -> dict[str, list[float]]:
        """Return the log-probability of each completion of a group, in nats, before training and with an adapter."""
        (group,) = self.sample(self.new_adapter(), [thing], 8, 30_000)
        batch, _ = completion_batch(group, self.recipe["padding"])
        weights: dict[str, Params] = {"before": {}, "after": adapter.weights}
        found = {}
        for name, each in weights.items():
            sums = policy_logprobs(each, self.config, self.params, adapter.alpha, batch).sum(axis=-1)
            found[name] = [round(float(value), 3) for value in sums.tolist()]
        return found

    def row(self, thing: str, completion: Completion) -> dict[str, Any]:
        """Return a completion's text, and what the rewards count in it."""
        text = self.text(completion)
        return {
            "thing": thing,
            "text": text,
            "ended": completion.ended,
            "words": len(text.split()),
            "mentions": count_mentions(text, thing),
            "reward": story_reward(text, thing, completion.ended, LONGEST),
        }

    def judged(self, adapter: Adapter) -> dict[str, Any]:
        """Sample stories about held-out things, and count what the rewards count."""
        groups = self.sample(adapter, HELD_OUT, SAMPLES, 10_000)
        rows = [self.row(thing, each) for thing, group in zip(HELD_OUT, groups, strict=True) for each in group]
        return {
            "reward": statistics.fmean(row["reward"] for row in rows),
            "named": statistics.fmean(row["mentions"] > 0 for row in rows),
            "in time": statistics.fmean(row["ended"] and row["words"] <= LONGEST for row in rows),
            "mentions": statistics.fmean(row["mentions"] for row in rows),
            "samples": [row for i, row in enumerate(rows) if i % SAMPLES < 2],
        }


def grpo_run(world: World, reward: Callable[[str, str, bool], float], beta: float, rounds: int, rate: float) -> Any:
    """Train with GRPO, and return what happened in each round."""
    optimizer = AdamW(rate, weight_decay=0.0)
    adapter = world.new_adapter()
    state, recipe = optimizer.init(adapter.weights), GRPORecipe(beta=beta, **world.recipe)
    order = random.Random(SEED)
    found: dict[str, Any] = {"beta": beta, "rounds": [], "learning_rate": rate}
    start = time.perf_counter()
    for number in range(rounds):
        things = order.sample(TRAINING, PROMPTS)

        def rewarded(i: int, completion: Completion, things: list[str] = things) -> float:
            return reward(world.text(completion), things[i], completion.ended)

        adapter, state, report = grpo_round(
            world.config, world.params, adapter, optimizer, state, [world.prompts[thing] for thing in things],
            rewarded, recipe, seed=1_000_000 + 1000 * number,
        )  # fmt: skip
        completions = [each for group in report.groups for each in group]
        row = {
            "reward": statistics.fmean(r for group in report.rewards for r in group),
            "flat": sum(len(set(group)) == 1 for group in report.rewards),
            "tokens": statistics.fmean(len(each.tokens) for each in completions),
            "gap": report.gap, "kl": report.kl[-1], "clipped": report.clipped[-1], "norm": report.norms[0],
        }  # fmt: skip
        found["rounds"].append({key: float(f"{value:.4g}") for key, value in row.items()})
        print(number, found["rounds"][-1], f"{time.perf_counter() - start:.0f} s", flush=True)
    found["seconds"] = round(time.perf_counter() - start)
    found["after"] = world.judged(adapter)
    return found


def dpo_run(world: World) -> Any:
    """Sample pairs from the model as it was, train with DPO, and return what happened in each step."""
    groups = world.sample(world.new_adapter(), TRAINING, 16, 20_000)
    pairs: list[tuple[Completion, Completion]] = []
    example: dict[str, Any] = {}
    for thing, group in zip(TRAINING, groups, strict=True):
        scored = [(story_reward(world.text(each), thing, each.ended, LONGEST), each) for each in group]
        best = [each for reward, each in scored if reward == max(reward for reward, _ in scored)]
        worst = [each for reward, each in scored if reward == min(reward for reward, _ in scored)]
        if len({reward for reward, _ in scored}) > 1:
            pairs += list(zip(best, worst, strict=False))[:PAIRS]
            example = example or {
                "thing": thing, "chosen": world.text(best[0]), "rejected": world.text(worst[0]),
                "rewards": [max(reward for reward, _ in scored), min(reward for reward, _ in scored)],
            }  # fmt: skip
    optimizer, adapter = AdamW(1e-3, weight_decay=0.0), world.new_adapter()
    state, steps, order = optimizer.init(adapter.weights), [], random.Random(SEED)
    start = time.perf_counter()
    for _ in range(EPOCHS):
        order.shuffle(pairs)
        for first in range(0, len(pairs), PER_STEP):
            adapter, state, loss = dpo_step(
                world.config, world.params, adapter, optimizer, state, pairs[first : first + PER_STEP],
                world.recipe["padding"],
            )  # fmt: skip
            row = {
                "loss": loss.loss.item(), "accuracy": loss.accuracy.item(),
                "chosen": loss.chosen_rewards.mean().item(), "rejected": loss.rejected_rewards.mean().item(),
            }  # fmt: skip
            steps.append({key: float(f"{value:.4g}") for key, value in row.items()})
            print(steps[-1], flush=True)
    seconds = round(time.perf_counter() - start)
    found = {"pairs": len(pairs), "example": example, "steps": steps, "seconds": seconds}
    return {**found, "logprobs": world.logprobs(adapter, HELD_OUT[0]), "after": world.judged(adapter)}


def main() -> None:
    """Do the runs that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("json", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", nargs="*", help="names of runs (default: all)")
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {"machine": machine()}
    world = World()

    def short_story(text: str, thing: str, ended: bool) -> float:
        return float(story_reward(text, thing, ended, LONGEST))

    def mentions(text: str, thing: str, _: bool) -> float:
        return float(mention_reward(text, thing))

    runs: dict[str, Callable[[], Any]] = {
        "group": lambda: world.group(HELD_OUT[0]),
        "before": lambda: world.judged(world.new_adapter()),
        "grpo": lambda: grpo_run(world, short_story, 0.1, options.rounds, 1e-3),
        "hacked": lambda: grpo_run(world, mentions, 0.0, options.rounds // 2, 2e-3),
        "dpo": lambda: dpo_run(world),
        "held": lambda: grpo_run(world, mentions, 0.5, options.rounds // 2, 2e-3),
    }
    for name, run in runs.items():
        if name not in found and name in (options.only or runs):
            found[name] = run()
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
