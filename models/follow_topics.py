"""Makes models/on-topic, an adapter with which the embedded model's stories are about what the request names.

    pdm run python models/follow_topics.py stories.txt --also stories-recased.txt --out models/on-topic

Rejection sampling fine-tuning: in each round the model, with the adapter so far, answers requests for stories; the
answers that end and name their subject often enough become the training examples. Answers are sampled at temperature 1
and without a filter, so that training on them changes what decides whether an answer is kept, and little else. Stories
that the model wrote without a request are mixed in, to keep its other text as it was. The subjects are those of the
training stories without those of the held-out ones, by which benches/embedded_model.py judges the adapter.
"""
# ruff: noqa: E402

import argparse
import itertools
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported

import mlx.core as mx
import numpy as np

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.embedded import embedded_checkpoint
from tiny_llm_course.training.conversations import TALK, topics, words_for_things
from tiny_llm_course.training.stories import training_stories

load_solution()
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.lora.adapter import Adapter, Params, init_lora, merge_lora
from tiny_llm_solution.lora.files import save_adapter
from tiny_llm_solution.lora.finetune import batch_examples, finetune
from tiny_llm_solution.lora.sft import chat_example
from tiny_llm_solution.optimizers.adamw import AdamW
from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel
from tiny_llm_solution.tokenizer import ByteLevelBPE

RANK, ALPHA, NAMES, SEED = 16, 32.0, ("q_proj", "k_proj", "v_proj", "o_proj"), 1
ROUNDS, LEARNING_RATE = 9, 1.5e-3
SUBJECTS, SAMPLES, KEPT = 32, 4, 2  # of a round; answers per subject; most of them that are kept
MENTIONS = 3  # of the subject in an answer that is kept
BATCH, PLAIN = 16, 4  # of a step: answers, and stories without a request
PLAIN_SAMPLES = 300  # of which the stories are used; the others are conversations, or too long
LONGEST = 240  # tokens of an answer


def main() -> None:
    """Train, and write the folder after each round."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", type=Path, help="the stories, of which some are held out")
    parser.add_argument("--also", type=Path, action="append", default=[], help="more stories to train on")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    run = Run(subjects((options.text, *options.also)), options.out)
    optimizer = AdamW(LEARNING_RATE, weight_decay=0.0)
    for adapter, loss in finetune(run.config, run.params, run.adapter, run.batches(options.rounds), optimizer):
        run.adapter = adapter
        run.rounds[-1]["losses"].append(loss.item())


def subjects(texts: tuple[Path, ...]) -> list[str]:
    """Return the subjects of the training stories that no held-out story has, such as "a frog", sorted."""
    seen, unseen = training_stories(texts)
    things = words_for_things(seen)
    ours, judges = ({about for story in part for about in topics(story, things)} for part in (seen, unseen))
    return sorted(about for about in ours - judges if about.count(" ") == 1)


class Run:
    """The model, the adapter so far, and the report of each round."""

    def __init__(self, subjects: list[str], out: Path) -> None:
        """Load the embedded model and create an untrained adapter."""
        self.checkpoint = embedded_checkpoint()
        self.params, self.config = self.checkpoint.weights, ModelConfig.from_dict(self.checkpoint.config)
        self.end, self.end_of_text = self.checkpoint.config["eos_token_id"]
        self.tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
        self.subjects, self.out, self.draw = subjects, out, random.Random(SEED)
        self.adapter = Adapter(init_lora(self.params, RANK, NAMES, SEED), ALPHA)
        self.rounds: list[dict[str, Any]] = []

    def template(self, messages: list[dict[str, str]], generate: bool) -> str:
        """Return the conversation in the model's chat template."""
        assert self.checkpoint.chat_template
        tokens = self.checkpoint.special_tokens
        return render_chat(self.checkpoint.chat_template, messages, tokens, add_generation_prompt=generate)

    def batches(self, rounds: int) -> Iterator[tuple[mx.array, mx.array]]:
        """Yield the batches of all rounds; each round samples with the adapter that the earlier batches have made."""
        examples: list[tuple[list[int], list[int]]] = []
        plain = itertools.cycle(self.plain_stories())
        for number, prompts in zip(range(rounds), self.prompts(), strict=False):
            asked = [about for about in prompts for _ in range(SAMPLES)]
            params = merge_lora(self.params, self.adapter)
            answers = self.sample(params, [prompts[about] for about in asked], seed=1000 + number)
            kept: dict[str, list[str]] = {}
            follows = 0
            for about, tokens in zip(asked, answers, strict=True):
                story = self.tokenizer.decode(tokens[:-1])
                found = len(re.findall(rf"\b{about.split()[1]}(?:s|es)?\b", story.lower()))
                follows += found >= 2
                if found >= MENTIONS and tokens[-1] == self.end:
                    kept.setdefault(about, []).append(story)
            for about, stories in kept.items():
                for story in self.draw.sample(stories, min(KEPT, len(stories))):
                    request = self.draw.choice(TALK["requests"]).format(about)
                    messages = [{"role": "user", "content": request}, {"role": "assistant", "content": story}]
                    examples.append(chat_example(messages, self.tokenizer, self.template, self.end))
            count = sum(min(KEPT, len(stories)) for stories in kept.values())
            self.rounds.append({"answers": len(asked), "follow": follows, "kept": count, "losses": []})
            print(f"round {number + 1}: {follows} of {len(asked)} follow, {count} kept", file=sys.stderr, flush=True)
            self.draw.shuffle(examples)
            while len(examples) >= BATCH:
                yield batch_examples([*examples[:BATCH], *itertools.islice(plain, PLAIN)], self.end_of_text)
                del examples[:BATCH]
            self.save()

    def prompts(self) -> Iterator[dict[str, list[int]]]:
        """Yield the subjects of a round and their prompts, which have one length so that they form one batch."""
        by_length: dict[int, dict[str, list[int]]] = {}
        while True:
            for about in self.draw.sample(self.subjects, len(self.subjects)):
                request = [{"role": "user", "content": f"Write a story about {about}."}]
                prompt = self.tokenizer.encode(self.template(request, True))
                group = by_length.setdefault(len(prompt), {})
                group[about] = prompt
                if len(group) == SUBJECTS:
                    yield by_length.pop(len(prompt))

    def plain_stories(self) -> list[tuple[list[int], list[int]]]:
        """Return examples of stories that the model writes without a request; all their tokens count in the loss."""
        mark = self.end_of_text
        found = self.sample(self.params, [[mark]] * PLAIN_SAMPLES, seed=SEED)
        return [([mark, *story[:-1]], story) for story in found if story[-1] == mark]

    def sample(self, params: Params, prompts: list[list[int]], seed: int) -> list[list[int]]:
        """Return answers at temperature 1, up to the end token or LONGEST tokens. The prompts have the same length."""
        model, key = Qwen3CachedModel(self.config, params), mx.random.key(seed)
        caches, new = model.new_caches(), mx.array(prompts)
        rows: list[Any] = []  # of the tokens that all answers got in a step
        open_rows = mx.ones(len(prompts), dtype=mx.bool_)
        while len(rows) < LONGEST and mx.any(open_rows).item():
            key, now = mx.random.split(key)
            tokens = mx.random.categorical(model(new, caches)[:, -1], key=now)
            open_rows = open_rows & (tokens != self.end) & (tokens != self.end_of_text)
            rows.append(np.array(tokens))
            new = tokens[:, None]
        answers = np.stack(rows, axis=1).tolist()
        ends = {self.end, self.end_of_text}
        stops = [next((i for i, token in enumerate(row) if token in ends), LONGEST - 1) for row in answers]
        return [row[: stop + 1] for row, stop in zip(answers, stops, strict=True)]

    def save(self) -> None:
        """Write the adapter in PEFT's form, in bfloat16, and the record of the rounds."""
        narrow = Adapter({name: w.astype(mx.bfloat16) for name, w in self.adapter.weights.items()}, ALPHA)
        save_adapter(self.out, narrow, "peft")
        record = {"subjects": len(self.subjects), "rounds": self.rounds}
        (self.out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
