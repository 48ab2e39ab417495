"""Measure the embedded models' quality on held-out stories.

    pdm run python benches/embedded_model.py
    pdm run python benches/embedded_model.py stories.txt --also stories-recased.txt

The first judges them by the stories that come with the course, models/held-out-stories.txt; the second also by those
that were held out of the texts that they were trained on (models/gather_stories.py makes these). There, beside them
stands what counting can do: a 5-gram model with Kneser-Ney smoothing, fed with the same stories. `--other` names
further models to judge. Prints tables: bits per byte, which leaves the tokenizer out of the comparison, and the rest.
The models run in the course's own engine, solved. What the file of `--json` has of the part that was not judged stays.

Another model may have been trained on stories that are held out here, and then knows them. `--others-text` names what
it was trained on: a second table judges all by the stories that are new to it as well.

With `--requests`, mlx-lm lets the model answer as many requests for a story about a thing that the held-out stories are
about, at the model's own temperature, and counts the answers that name the thing at least twice.

With `--adapter`, only the embedded model with this adapter is judged, and the requests are answered with it.
"""

import argparse
import hashlib
import json
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import mlx.core as mx
import numpy as np
from kneser_ney import KneserNey
from tokenized import held_out
from tokenizers import Tokenizer

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.checkpoints.held_out import HeldOut, shipped_stories
from tiny_llm_course.engine.broken import as_rows, mark_of, nats_per_token
from tiny_llm_course.engine.engine import Engine
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.training.conversations import topics, words_for_things
from tiny_llm_course.training.stories import read_stories, training_stories
from tiny_llm_course.training.stories import unseen as not_in

ORDER = 5
LONGEST = 500  # tokens of an answer


def main() -> None:
    """Judge, print the table, and write the JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, nargs="?", help="the stories, of which some are held out")
    parser.add_argument("--also", type=Path, action="append", default=[], help="more stories to count n-grams in")
    parser.add_argument("--other", type=Path, action="append", default=[], help="the folder of another model")
    parser.add_argument("--others-text", type=Path, action="append", default=[], help="stories the others learned from")
    parser.add_argument("--requests", type=int, default=60, help="how many requests to answer (default: 60)")
    parser.add_argument("--adapter", type=Path, help="the folder of a LoRA adapter for the embedded model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()

    folders = [EMBEDDED_MODEL, MODELS / "tiny-qwen3-draft", *options.other]
    for folder in folders:
        if not folder.is_dir():
            parser.error(f"{folder} is no folder of a model")
    mx.set_default_device(mx.cpu)
    if options.adapter and not options.text:
        parser.error("--adapter needs the stories: the requests are about what the held-out ones are about")
    known = options.json and options.json.exists()
    before: dict[str, Any] = json.loads(options.json.read_text(encoding="utf-8")) if known else {}
    shipped = shipped_stories()
    figures: dict[str, Any]
    if options.adapter:
        figures = {"adapters": before.get("adapters", {}) | {options.adapter.name: judged_with_adapter(options)}}
    else:
        figures = {"shipped": compared(f"{len(shipped)} stories of the course", [], shipped, folders)}
        figures |= judged_by_text(options, folders, parser.error) if options.text else {}
    if options.json:
        options.json.write_text(json.dumps(before | figures, indent=1) + "\n", encoding="utf-8")


def judged_with_adapter(options: argparse.Namespace) -> dict[str, Any]:
    """What the embedded model does with an adapter merged into it, in float32."""
    load_solution()
    from tiny_llm_solution.lora.adapter import merge_lora
    from tiny_llm_solution.lora.files import load_adapter

    seen, unseen = training_stories((options.text, *options.also))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / options.adapter.name
        shutil.copytree(EMBEDDED_MODEL, folder)
        weights = merge_lora(load_checkpoint(EMBEDDED_MODEL, mx.float32).weights, load_adapter(options.adapter))
        mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "pt"})
        shipped = shipped_stories()
        figures = {
            "shipped": compared(f"{len(shipped)} stories of the course", [], shipped, [folder]),
            **compared(f"{len(unseen)} held-out stories", [], unseen, [folder]),
            "requests": answered(seen, unseen, options.requests, folder),
        }
    figures["sha256"] = hashlib.sha256((options.adapter / "adapter_model.safetensors").read_bytes()).hexdigest()
    return figures


def judged_by_text(
    options: argparse.Namespace, folders: list[Path], refuse: Callable[[str], NoReturn]
) -> dict[str, Any]:
    """What the stories tell that are held out of a text to train on."""
    seen, unseen = training_stories((options.text, *options.also))
    print(f"\n{len(seen)} stories to count in")
    figures = compared(f"{len(unseen)} held-out stories", seen, unseen, folders)
    if options.others_text:
        new = not_in(unseen, [story for file in options.others_text for story in read_stories(file)])
        if not new:
            refuse("the others have seen all held-out stories: --others-text would leave none to judge by")
        figures["new_to_all"] = compared(f"{len(new)} of them, which the others have not seen", seen, new, folders)
    if options.requests:
        figures["requests"] = answered(seen, unseen, options.requests, EMBEDDED_MODEL)
    return figures


def compared(title: str, seen: list[str], unseen: list[str], folders: list[Path]) -> dict[str, Any]:
    """A table: counting, where there are stories to count in, and each model."""
    print(f"\n{title}, {sum(len(story.encode()) for story in unseen)} bytes")
    print(f"{'':22} {'weights':>10} {'MB':>6} {'bytes/token':>12} {'nats/token':>11} {'bits/byte':>10}")
    rows = []
    for judge in [*[partial(counted, seen)] * bool(seen), *(partial(judged, folder) for folder in folders)]:
        rows.append(judge(unseen))
        show(rows[-1])
    return {"held_out": len(unseen), "models": rows}


def counted(seen: list[str], unseen: list[str]) -> dict[str, Any]:
    """The n-gram model, over the embedded model's tokens."""
    tokenizer = Tokenizer.from_file(str(EMBEDDED_MODEL / "tokenizer.json"))
    judges = held_out(unseen, tokenizer, sys.maxsize)
    model = KneserNey(held_out(seen, tokenizer, sys.maxsize).rows, tokenizer.get_vocab_size(), ORDER)
    nats = float(np.concatenate([-np.log(model.probabilities(row)) for row in judges.rows]).mean())
    return row(f"{ORDER}-gram, Kneser-Ney", sum(len(level.grams) for level in model.levels), None, judges, nats)


def judged(folder: Path, unseen: list[str]) -> dict[str, Any]:
    """A model in the course's engine, in float32."""
    engine = Engine(load_checkpoint(folder, mx.float32), solution=True, stage="kv-cache")
    judges = as_rows(engine, unseen, mark_of(engine))
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    weights = sum(w.size for w in engine.checkpoint.weights.values())
    found = row(folder.name, weights, size, judges, nats_per_token(engine, judges.rows))
    return found | {"sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()}


def row(name: str, weights: int, size: int | None, judges: HeldOut, nats: float) -> dict[str, Any]:
    """A line of the table."""
    return {
        "name": name,
        "weights": weights,
        "bytes": size,
        "bytes_per_token": judges.bytes / sum(len(r) - 1 for r in judges.rows),
        "nats_per_token": nats,
        "bits_per_byte": judges.bits_per_byte(nats),
    }


def show(row: dict[str, Any]) -> None:
    """Print a line of the table as soon as it is known."""
    size = f"{row['bytes'] / 1e6:6.2f}" if row["bytes"] else f"{'-':>6}"
    print(
        f"{row['name']:22} {row['weights']:10,} {size} {row['bytes_per_token']:12.3f} {row['nats_per_token']:11.3f} "
        f"{row['bits_per_byte']:10.3f}",
        flush=True,
    )


def answered(seen: list[str], unseen: list[str], count: int, folder: Path) -> dict[str, Any]:
    """How often an answer to "Write a story about X." is about X."""
    from mlx_lm import load, stream_generate
    from mlx_lm.sample_utils import make_sampler

    things = words_for_things(seen)
    asked_for = sorted({about for story in unseen for about in topics(story, things) if about.count(" ") == 1})
    asked_for = random.Random(0).sample(asked_for, min(count, len(asked_for)))
    checkpoint = load_checkpoint(folder)
    assert checkpoint.chat_template
    model, tokenizer = load(str(folder))[:2]
    model.set_dtype(mx.float32)
    mx.random.seed(0)
    sampler = make_sampler(checkpoint.sampling["temp"], min_p=checkpoint.sampling["min_p"])
    follows, ends = 0, 0
    for about in asked_for:
        prompt = render_chat(checkpoint.chat_template, [{"role": "user", "content": f"Write a story about {about}."}])
        pieces = list(stream_generate(model, tokenizer, tokenizer.encode(prompt), max_tokens=LONGEST, sampler=sampler))
        story = "".join(piece.text for piece in pieces).lower()
        follows += len(re.findall(rf"\b{about.split()[1]}(?:s|es)?\b", story)) >= 2
        ends += pieces[-1].finish_reason == "stop"
    print(f"{follows} of {len(asked_for)} requested stories name their thing twice or more, {ends} end by themselves")
    return {"asked": len(asked_for), "follow": follows, "end": ends}


if __name__ == "__main__":
    main()
