"""Measure what weight sharing costs in quality, by training: `benches/weight_sharing.json`, for day 6 of week 4.

    pdm run python benches/weight_sharing.py stories.txt --steps 1000 --json benches/weight_sharing.json

Small models that differ in what they share learn from the same rows of the same stories, in the same order, with the
same schedule; models/gather_stories.py makes such a text. They are judged by the stories that come with the course,
which nobody trains on. Beside those that share layers stands one that has as many layers as they have sets of weights.
With more than one --seed all are trained once for each, so that the luck of one run can be seen. PyTorch does the work.
"""

import argparse
import dataclasses
import datetime
import itertools
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from qwen3_torch import INITIAL_SPREAD, Qwen3, Schedule, loss_on, optimizers, share_of_peak
from tokenized import held_out, train_tokenizer
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from tiny_llm_course.checkpoints.held_out import END, HeldOut, Tokens, shipped_stories
from tiny_llm_course.measuring.machine import machine
from tiny_llm_course.training.recipe import Architecture
from tiny_llm_course.training.stories import training_stories

# The embedded model's recipe in small. 4 heads of 32 are not 64.
SHAPE = Architecture(
    vocab_size=1024,
    hidden_size=64,
    num_hidden_layers=6,
    intermediate_size=192,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    rope_theta=1000000.0,
    rms_norm_eps=1e-6,
    max_position_embeddings=512,
)
SCHEDULE = Schedule(
    seed=1,
    steps=300,
    rows=8,
    context=128,
    learning_rate=0.006,
    muon_learning_rate=0.02,
    final_share=0.01,
    warmup=30,
    weight_decay=0.1,
    betas=(0.9, 0.95),
    clip=1.0,
    every=60,
)
CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Scheme:
    """What a model shares."""

    layers: tuple[int, ...]  # whose weights each layer uses
    tied: bool = True


SCHEMES = {
    "nothing shared": Scheme((0, 1, 2, 3, 4, 5), tied=False),
    "tied": Scheme((0, 1, 2, 3, 4, 5)),
    "tied, 3 sets, sequence": Scheme((0, 0, 1, 1, 2, 2)),
    "tied, 3 sets, cycle": Scheme((0, 1, 2, 0, 1, 2)),
    "tied, 1 set": Scheme((0, 0, 0, 0, 0, 0)),
    "tied, 3 layers": Scheme((0, 1, 2)),
}


class Sharing(Qwen3):
    """The model that is trained for the course, with layers that share weights, and a head that may be its own."""

    def __init__(self, scheme: Scheme, spread: float = INITIAL_SPREAD) -> None:
        # What is added to the stream starts smaller the more layers add to it: `Qwen3` sees how many there are.
        super().__init__({**SHAPE.config(), "num_hidden_layers": len(scheme.layers)})
        made, table = self.model.layers, self.model.embed_tokens
        self.model.layers = nn.ModuleList(made[number] for number in scheme.layers)
        # `optimizers` goes by names: what is called so gets a table's optimizer, not that of the layers' matrices.
        self.model.head_embed_tokens = table if scheme.tied else nn.Embedding(SHAPE.vocab_size, SHAPE.hidden_size)
        for each in (table, self.model.head_embed_tokens):
            nn.init.normal_(each.weight, std=spread)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits after every position: B x L to B x L x V."""
        length = tokens.shape[1]
        x = self.model.embed_tokens(tokens)
        future = torch.full((length, length), float("-inf")).triu(1)  # added to the scores: L x S
        for layer in self.model.layers:
            x = layer(x, self.cos[:length], self.sin[:length], future)
        return F.linear(self.model.norm(x), self.model.head_embed_tokens.weight)


def main() -> None:
    """Train all models, print how far each is, and write the record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="the stories, with <|endoftext|> between them")
    parser.add_argument("--steps", type=int, default=SCHEDULE.steps, help=f"of each run (default: {SCHEDULE.steps})")
    parser.add_argument("--seed", type=int, action="append", help="of weights and rows; may be repeated (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record there, run by run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    stories, _ = training_stories((options.text,))
    tokenizer = train_tokenizer(stories, SHAPE.vocab_size)
    judges = held_out(shipped_stories(), tokenizer, SHAPE.max_position_embeddings)
    record: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": {**machine(), "torch": torch.__version__},
        "text": {"stories": len(stories), "bytes": sum(len(story.encode()) for story in stories)},
        "judged_by": {"stories": len(judges.rows), "bytes": judges.bytes},
        "shape": SHAPE.config(),
        "schedule": dataclasses.asdict(dataclasses.replace(SCHEDULE, steps=options.steps)),
        "first_losses": first_losses(judges),
        "runs": [],
    }
    for seed in options.seed or [SCHEDULE.seed]:
        for name, scheme in SCHEMES.items():
            schedule = dataclasses.replace(SCHEDULE, steps=options.steps, seed=seed)
            rows = rows_of(stories, tokenizer, seed)
            record["runs"].append(trained(name, scheme, schedule, rows, judges))
            if options.json:
                options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def first_losses(judges: HeldOut) -> list[dict[str, Any]]:
    """Nats per token before the first step, by how the numbers of the tables are spread."""
    found = []
    for spread in (1.0, INITIAL_SPREAD):
        for name in ("nothing shared", "tied"):
            torch.manual_seed(SCHEDULE.seed)
            nats = loss_on(Sharing(SCHEMES[name], spread), judges.rows, CPU)
            found.append({"model": name, "spread": spread, "nats": round(nats, 2)})
            print(f"{name}, tables of spread {spread}: {nats:.2f} nats a token before the first step", flush=True)
    return found


def trained(name: str, scheme: Scheme, schedule: Schedule, rows: Iterator[Tokens], judges: HeldOut) -> dict[str, Any]:
    """The log of one run."""
    torch.manual_seed(schedule.seed)
    model = Sharing(scheme)
    weights, log, recent = list(model.parameters()), [], []
    steppers, begun = optimizers(model, schedule), time.process_time()
    count = sum(weight.numel() for weight in weights)  # each once, however many layers use it
    for step in range(schedule.steps):
        for stepper in steppers:
            for group in stepper.param_groups:
                group["lr"] = group["peak"] * share_of_peak(step, schedule)
        batch = torch.from_numpy(np.stack([next(rows) for _ in range(schedule.rows)]))
        model.zero_grad()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        clip_grad_norm_(weights, schedule.clip)
        for stepper in steppers:
            stepper.step()
        recent.append(loss.item())
        if (step + 1) % schedule.every == 0 or step + 1 == schedule.steps:
            nats = loss_on(model, judges.rows, CPU)
            bits = judges.bits_per_byte(nats)
            found = {"loss": sum(recent) / len(recent), "held_out_loss": nats, "bits_per_byte": bits}
            log.append({"step": step + 1, **{what: round(number, 4) for what, number in found.items()}})
            print(f"seed {schedule.seed}, {name}, {count:,} weights: {log[-1]}", flush=True)
            recent = []
    seconds = round(time.process_time() - begun)
    facts = {"model": name, **dataclasses.asdict(scheme), "seed": schedule.seed, "weights": count, "seconds": seconds}
    return {**facts, "log": log}


def rows_of(stories: list[str], tokenizer: Tokenizer, seed: int) -> Iterator[Tokens]:
    """Rows of context + 1 tokens that overlap by one, epoch after epoch, each with all stories in its own order."""
    end, context = tokenizer.token_to_id(END), SCHEDULE.context
    plain = [encoding.ids for encoding in tokenizer.encode_batch(stories)]
    for epoch in itertools.count():
        order = list(range(len(plain)))
        random.Random(f"{seed} {epoch}").shuffle(order)
        tokens = np.asarray([end, *(token for index in order for token in (*plain[index], end))])
        starts = np.arange(0, len(tokens) - context, context)
        rows = tokens[starts[:, None] + np.arange(context + 1)]
        yield from np.random.default_rng([seed, epoch]).permutation(rows)


if __name__ == "__main__":
    main()
