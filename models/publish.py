"""Makes the folders of the embedded models from finished runs of `pdm run train`, with their cards.

    pdm run python models/publish.py RUN        takes over a run's model and record, and lets it write samples
    pdm run python benches/embedded_model.py stories.txt --also stories-recased.txt --json models/bench.json
    pdm run python models/publish.py            writes the cards anew

in this order. A card (README.md, with loss.svg) is made of record.json beside it, which says how the model was made,
and of bench.json, which says how good the models are.
"""

import argparse
import json
import platform
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
from card import card
from loss_curve import loss_curve

from tiny_llm_course.engine.engine import Sampling, load_engine

HERE = Path(__file__).parent
FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
PROMPT = "Once upon a time"
SEEDS = range(1, 6)  # the first five: nobody chose them
LONGEST = 400  # tokens of a sample


def main() -> None:
    """Copy a run, or write the cards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", help="the --out folder of a finished run")
    options = parser.parse_args()
    if options.run:
        publish(options.run)
        return
    bench = json.loads((HERE / "bench.json").read_text(encoding="utf-8"))
    for folder in sorted(file.parent for file in HERE.glob("*/record.json")):
        for name, text in files_of_card(folder, bench).items():
            (folder / name).write_text(text, encoding="utf-8")
            print(folder / name)


def files_of_card(folder: Path, bench: dict[str, Any]) -> dict[str, str]:
    """README.md and loss.svg of a model's folder."""
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    return {"README.md": card(record, bench), "loss.svg": loss_curve(record)}


def publish(run: Path) -> None:
    """Copy the model and its record, and add samples to the record."""
    record = json.loads((run / "training" / "record.json").read_text(encoding="utf-8"))
    folder = HERE / record["name"]
    for name in FILES:
        shutil.copyfile(run / name, folder / name)
    engine = load_engine(str(folder), solution=True, dtype="float32", stage="kv-cache")
    record["samples_by"] = f"{platform.system()} {platform.machine()}, in float32 on the CPU"
    record["samples"] = {}
    mx.set_default_device(mx.cpu)
    for seed in SEEDS:
        prompt = engine.encode(PROMPT)
        answer = engine.answer(prompt, LONGEST, engine.sampler(Sampling(seed=seed)))
        record["samples"][seed] = PROMPT + "".join(answer.pieces)
        print(f"seed {seed}: {answer.summary()}", flush=True)
    (folder / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
