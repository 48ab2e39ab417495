"""Makes models/good-night, an adapter for the embedded model, and the figures of chapter 5.5.

    pdm run python models/fine_tune.py --out models/good-night

It trains an adapter on the stories beside it, and all weights on the same batches for comparison. The adapter is
written in PEFT's form; record.json has the losses, the answers to held-out requests before and after, and the singular
values of some updates. The chapter's pictures are drawn from these two files: the book is built without training.
"""
# ruff: noqa: E402

import argparse
import json
import random
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tiny_llm_course.doctor import blas

blas.load()  # before MLX is imported

import mlx.core as mx
import numpy as np

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.embedded import embedded_checkpoint

RANK, ALPHA, NAMES = 4, 8.0, ("q_proj", "k_proj", "v_proj", "o_proj")
EPOCHS, BATCH, LEARNING_RATE, FULL_LEARNING_RATE, SEED = 8, 8, 5e-3, 3e-4, 0
SHOWN = ("0.self_attn.q_proj", "3.self_attn.q_proj", "3.self_attn.v_proj", "3.mlp.down_proj", "5.self_attn.q_proj")
VALUES = 64  # singular values kept of each update
LONGEST = 150  # tokens of an answer


def main() -> None:
    """Train both ways and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    out, epochs = (options := parser.parse_args()).out, options.epochs
    load_solution()
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.lora.adapter import Adapter, init_lora
    from tiny_llm_solution.lora.files import save_adapter
    from tiny_llm_solution.lora.finetune import finetune
    from tiny_llm_solution.optimizers.adamw import AdamW

    checkpoint = embedded_checkpoint()
    params, config = checkpoint.weights, ModelConfig.from_dict(checkpoint.config)
    table = tomllib.loads((MODELS / "good-night" / "stories.toml").read_text(encoding="utf-8"))
    tokenizer, template, batches = data(checkpoint, table, epochs)

    adapter = Adapter(init_lora(params, RANK, NAMES, SEED), ALPHA)
    losses = []
    for trained, loss in finetune(config, params, adapter, batches(), AdamW(LEARNING_RATE, weight_decay=0.0)):
        adapter = trained
        losses.append(loss.item())
        print(f"adapter, step {len(losses)}: {losses[-1]:.3f}", file=sys.stderr)
    narrow = Adapter({name: w.astype(mx.bfloat16) for name, w in adapter.weights.items()}, ALPHA)
    save_adapter(out, narrow, "peft")

    full, full_losses = train_all(config, params, batches(), AdamW(FULL_LEARNING_RATE, weight_decay=0.0))
    updates = {}
    for name in SHOWN:
        weight = f"model.layers.{name}.weight"
        values = np.linalg.svd(np.array(full[weight] - params[weight], np.float64), compute_uv=False)
        updates[name] = {
            "shape": list(params[weight].shape),
            "singular": [float(f"{value:.5g}") for value in values[:VALUES]],
            "squares": float(f"{np.sum(values**2):.7g}"),
        }
    answers = {}
    for which, (weights, alpha) in {
        "before": ({}, 1.0), "adapter": (narrow.weights, ALPHA), "alpha forgotten": (narrow.weights, float(RANK)),
        "alpha not divided": (narrow.weights, ALPHA * RANK), "full": (full, 1.0),
    }.items():  # fmt: skip
        answers[which] = answer_all(config, {**params, **weights}, alpha, tokenizer, template, table)
        print(f"{which}: {sum(each['ends'] for each in answers[which])} of {len(answers[which])}", file=sys.stderr)
    record = {"losses": losses, "full_losses": full_losses, "answers": answers, "updates": updates}
    record |= {"steps": len(losses), "examples": len(table["training"]) * len(table["stories"])}
    (out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def data(checkpoint: Any, table: dict[str, Any], epochs: int) -> tuple[Any, Any, Callable[[], Iterator[Any]]]:
    """Return the tokenizer, the chat template as a function, and a function that yields the batches."""
    from tiny_llm_solution.lora.finetune import batch_examples
    from tiny_llm_solution.lora.sft import chat_example
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    end, padding = checkpoint.config["eos_token_id"]

    def template(messages: list[dict[str, str]], generate: bool) -> str:
        return render_chat(
            checkpoint.chat_template, messages, checkpoint.special_tokens, add_generation_prompt=generate
        )

    examples = []
    for number, story in enumerate(table["stories"]):
        for which, thing in enumerate(table["training"]):
            request = table["requests"][(number + which) % len(table["requests"])]
            said = [("user", request), ("assistant", story)]
            messages = [{"role": role, "content": text.format(x=thing)} for role, text in said]
            examples.append(chat_example(messages, tokenizer, template, end))

    def batches() -> Iterator[Any]:
        for epoch in range(epochs):
            order = list(range(len(examples)))
            random.Random(f"{SEED} {epoch}").shuffle(order)
            for first in range(0, len(order), BATCH):
                yield batch_examples([examples[i] for i in order[first : first + BATCH]], padding)

    return tokenizer, template, batches


def train_all(config: Any, params: dict[str, mx.array], batches: Iterator[Any], optimizer: Any) -> Any:
    """Train all weights; return them and the losses."""
    from tiny_llm_solution.dataset.loss import cross_entropy
    from tiny_llm_solution.optimizers.clipping import clip_by_global_norm
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel

    def loss_of(weights: dict[str, mx.array], tokens: mx.array, targets: mx.array) -> mx.array:
        return cross_entropy(Qwen3CachedModel(config, weights)(tokens, all_positions=True), targets)

    state, losses = optimizer.init(params), []
    for batch in batches:
        loss, grads = mx.value_and_grad(loss_of)(params, *batch)
        grads, _ = clip_by_global_norm(grads, 1.0)
        params, state = optimizer.update(params, grads, state)
        mx.eval(params, state, loss)
        losses.append(loss.item())
        print(f"all weights, step {len(losses)}: {loss.item():.3f}", file=sys.stderr)
    return params, losses


def answer_all(
    config: Any, weights: dict[str, mx.array], alpha: float, tokenizer: Any, template: Any, table: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the greedy answers to requests about things that were not trained on, and how they end."""
    from tiny_llm_solution.lora.adapter import LoRAParts
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel

    model, found = Qwen3CachedModel(config, weights, LoRAParts(alpha)), []
    ends = {*tokenizer.special_tokens.values()}
    for thing in table["held_out"]:
        request = table["requests"][0].format(x=thing)
        new = mx.array([tokenizer.encode(template([{"role": "user", "content": request}], True))])
        caches, tokens = model.new_caches(), []
        while len(tokens) < LONGEST:
            token = int(mx.argmax(model(new, caches)[0, -1]).item())
            if token in ends:
                break
            tokens.append(token)
            new = mx.array([[token]])
        text = tokenizer.decode(tokens)
        style, whole = "Good night, little " in text, text.endswith(f"Good night, little {thing}!")
        found.append({"thing": thing, "text": text, "style": style, "ends": whole})
    return found


if __name__ == "__main__":
    main()
