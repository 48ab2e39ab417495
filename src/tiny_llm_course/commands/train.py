"""`pdm run train`: train a model."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ..course.registry import UsageError
from ..paths import EMBEDDED_MODEL, ROOT

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
RECIPE = "Architecture and training schedule (default: models/tiny-qwen3/recipe.toml)."
NEEDED = {"torch": "PyTorch", "tokenizers": "tokenizers"}  # only for training


@click.command()
@click.argument("text", type=FILE)
@click.option("--also", multiple=True, type=FILE, help="More training text; none of it is held out.")
@click.option("--recipe", type=FILE, default=EMBEDDED_MODEL / "recipe.toml", help=RECIPE)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The output folder.")
@click.option("--steps", type=click.IntRange(min=1), help="Override the recipe's.")
@click.option("--seed", type=click.IntRange(min=0), help="Override the recipe's.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "mps"]), help="Default: the GPU, if there is one.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes on a CPU (default: cores - 1).")
@click.option(
    "--teacher",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A trained model's folder, for distillation; its tokenizer is used.",
)
def train(
    text: Path, also: tuple[Path, ...], recipe: Path, out: Path, steps: int | None, seed: int | None, **options: Any
) -> int:
    """Train a model from scratch: pdm run train stories.txt --out my-model.

    TEXT holds stories separated by <|endoftext|>; one in 32 is held out for evaluation. Ctrl-C stops a run, and the
    same command resumes it. Training uses PyTorch.
    """
    if missing := [name for module, name in NEEDED.items() if find_spec(module) is None]:
        fix = "pdm run pip install " + " ".join(module for module in NEEDED if find_spec(module) is None)
        raise UsageError(f"Training needs {' and '.join(missing)}, which is not installed here: {fix}")
    if out.resolve().is_relative_to(EMBEDDED_MODEL.parent):
        where = EMBEDDED_MODEL.parent.relative_to(ROOT).as_posix()
        raise UsageError(f"--out {out} is in {where}, which holds the course's own models: choose another folder")
    from ..training.command import train as run
    from ..training.recipe import read_recipe

    changes = {name: value for name, value in (("steps", steps), ("seed", seed)) if value is not None}
    return run(read_recipe(recipe, **changes), (text, *also), out, **options)
