"""`pdm run train`: train a model."""

from pathlib import Path

import click

from ..course.registry import UsageError
from ..doctor import blas
from ..paths import EMBEDDED_MODEL, ROOT

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DEFAULT = Path(__file__).parents[1] / "training" / "recipe.toml"


@click.command()
@click.argument("text", type=FILE)
@click.option("--also", multiple=True, type=FILE, help="More training text; none of it is held out.")
@click.option("--recipe", type=FILE, default=DEFAULT, help="Model and schedule (default: a million weights).")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The output folder.")
@click.option("--steps", type=click.IntRange(min=1), help="Override the recipe's.")
@click.option("--seed", type=click.IntRange(min=0), help="Override the recipe's.")
@click.option("--solution", is_flag=True, help="Train with our code instead of yours.")
@click.option("--cpu", is_flag=True, help="Train on the CPU even if there is a GPU.")
def train(
    text: Path, also: tuple[Path, ...], recipe: Path, out: Path, solution: bool, cpu: bool, **changes: int | None
) -> int:
    """Train a model from scratch with your code of week 5: pdm run train stories.txt --out my-model.

    TEXT holds stories separated by <|endoftext|>; one in 32 is held out for evaluation. Ctrl-C stops a run, and the
    same command resumes it.
    """
    if out.resolve().is_relative_to(EMBEDDED_MODEL.parent):
        where = EMBEDDED_MODEL.parent.relative_to(ROOT).as_posix()
        raise UsageError(f"--out {out} is in {where}, which holds the course's own models: choose another folder")
    blas.load()
    import mlx.core as mx

    from ..training.command import train as run
    from ..training.recipe import read_recipe

    if cpu:
        mx.set_default_device(mx.cpu)
    typed = {name: value for name, value in changes.items() if value is not None}
    return run(read_recipe(recipe, **typed), (text, *also), out, solution)
