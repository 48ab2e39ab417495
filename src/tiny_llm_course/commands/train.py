"""The command that makes a model: `pdm run train`."""

from importlib.util import find_spec
from pathlib import Path

import click

from ..course.registry import UsageError
from ..paths import EMBEDDED_MODEL, ROOT

# The trainer's; grading and running a model need neither.
NEEDED = {"torch": "PyTorch", "tokenizers": "tokenizers"}


@click.command(short_help="Make a model from a text file.")
@click.argument("text", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--also",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="More text, of which nothing is held out.",
)
@click.option(
    "--recipe",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=EMBEDDED_MODEL / "recipe.toml",
    help="The model's measures and the schedule (default: models/tiny-qwen3/recipe.toml).",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to make.")
@click.option("--steps", type=click.IntRange(min=1), help="Instead of the recipe's.")
@click.option("--seed", type=click.IntRange(min=0), help="Instead of the recipe's.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "mps"]), help="Default: the GPU, where there is one.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes on a CPU (default: one less than its cores).")
@click.option(
    "--teacher",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A trained model's folder: learn its tokenizer and its predictions too.",
)
def train(
    text: Path,
    also: tuple[Path, ...],
    recipe: Path,
    out: Path,
    steps: int | None,
    seed: int | None,
    device: str | None,
    workers: int | None,
    teacher: Path | None,
) -> int:
    """Train a model from scratch: pdm run train stories.txt --out my-model.

    TEXT holds stories with <|endoftext|> between them; one in 32 is held out to judge by. Ctrl-C stops a run, and the
    same command goes on from where it was. PyTorch does the work.
    """
    if missing := [name for module, name in NEEDED.items() if find_spec(module) is None]:
        fix = "pdm run pip install " + " ".join(module for module in NEEDED if find_spec(module) is None)
        raise UsageError(f"Training needs {' and '.join(missing)}, not installed here: {fix}")
    if out.resolve().is_relative_to(EMBEDDED_MODEL.parent):
        where = EMBEDDED_MODEL.parent.relative_to(ROOT).as_posix()
        raise UsageError(f"--out {out} is in {where}, which holds the course's own models: name another folder")
    from ..training.command import train as run
    from ..training.recipe import read_recipe

    changes = {name: value for name, value in (("steps", steps), ("seed", seed)) if value is not None}
    return run(read_recipe(recipe, **changes), (text, *also), out, device, workers, teacher)
