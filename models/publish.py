r"""Rewrites the cards of the embedded models and of the adapter on-topic: README.md and, for a model, loss.svg.

    pdm run python benches/embedded_model.py stories.txt --also stories-recased.txt --json models/bench.json
    pdm run python benches/embedded_model.py stories.txt --also stories-recased.txt --adapter models/on-topic \
        --json models/bench.json
    pdm run python models/publish.py

A card is made of record.json beside it, which says how the model was made, and of bench.json, which says how good the
models are.
"""

import json
from pathlib import Path
from typing import Any

from card import ON_TOPIC, adapter_card, card
from loss_curve import loss_curve

HERE = Path(__file__).parent


def main() -> None:
    """Rewrite all cards."""
    bench = json.loads((HERE / "bench.json").read_text(encoding="utf-8"))
    for folder in (*sorted(file.parent for file in HERE.glob("tiny-*/record.json")), HERE / ON_TOPIC):
        for name, text in files_of_card(folder, bench).items():
            (folder / name).write_text(text, encoding="utf-8")
            print(folder / name)


def files_of_card(folder: Path, bench: dict[str, Any]) -> dict[str, str]:
    """README.md and loss.svg of a model's folder; README.md of the adapter's."""
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    if folder.name == ON_TOPIC:
        return {"README.md": adapter_card(record, bench)}
    return {"README.md": card(record, bench), "loss.svg": loss_curve(record)}


if __name__ == "__main__":
    main()
