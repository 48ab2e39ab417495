"""`pdm run attention "That is a blue dog"`: what each head of a model looks at, as heat maps."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...course.registry import UsageError
from ...doctor import blas
from ...terminal.screen import USUAL, columns, say
from ...terminal.tables import PLAIN, SHADES, legend, maps, width_of
from .. import out_file
from ..options import OUT_FILE, dtype_option, model_option

if TYPE_CHECKING:
    from ...engine.attending import Looks
    from ...engine.engine import Engine


@click.command(short_help="See what each head of a model looks at.")
@click.argument("text")
@click.option("--solution", is_flag=True, help="Run our engine instead of yours.")
@model_option
@dtype_option
@click.option("--layer", type=click.IntRange(min=0), help="This layer alone; the first one is 0.")
@click.option("--head", type=click.IntRange(min=0), help="This head of each layer alone; the first one is 0.")
@click.option("--numbers", is_flag=True, help="Numbers in place of shades.")
@click.option("--svg", type=OUT_FILE, metavar="FILE", help="Draw the maps there.")
@click.option("--html", type=OUT_FILE, metavar="FILE", help="Write a page there, on which each head can be looked at.")
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser; without --html, one of its own.")
def attention(
    text: str,
    solution: bool,
    model: str | None,
    dtype: str | None,
    layer: int | None,
    head: int | None,
    numbers: bool,
    svg: Path | None,
    html: Path | None,
    opened: bool,
) -> int:
    """Show what each head of a model looks at: pdm run attention "That is a blue dog".

    The weights are those of your engine of week 1, as your task 4.2.4 gives them.
    """
    from .pictures import MARK, OWN, drawing, page

    if opened and not html:
        html = OWN
        html.parent.mkdir(exist_ok=True)
    if svg:
        out_file.must_be_writable(svg, "drawing", out_file.is_drawing)
    if html:
        out_file.must_be_writable(html, "page of heads", lambda contents: MARK.encode() in contents[:200])
    blas.load()
    from ...course.registry import load_course
    from ...engine.attending import look
    from ...engine.engine import load_engine

    engine = load_engine(model, solution, dtype, load_course().stages()[0].name)
    counts = engine.checkpoint.config["num_hidden_layers"], engine.checkpoint.config["num_attention_heads"]
    layers, heads = _chosen("layer", layer, counts[0]), _chosen("head", head, counts[1])
    looks = look(engine, text)
    lines = _lines(looks, layers, heads, numbers, bool(svg or html))
    drawn = drawing(looks, layers, heads, text) if svg else ""
    _say(engine, text, looks, lines, numbers)
    if svg:
        out_file.write(svg, drawn)
    if html:
        out_file.write(html, page(looks, text, engine.checkpoint.folder.resolve().name, (layers[0], heads[0])))
        if not opened:
            say(f"The page of all heads: {html}")
        else:
            import webbrowser

            shown = webbrowser.open(html.resolve().as_uri())
            say(f"The page of all heads{', now in your browser' if shown else ', for your browser'}: {html}")
    return 0


def _chosen(what: str, number: int | None, count: int) -> list[int]:
    if number is not None and number >= count:
        raise UsageError(f"There is no {what} {number}: the model has {what}s 0 to {count - 1}.")
    return list(range(count)) if number is None else [number]


def _lines(looks: "Looks", layers: list[int], heads: list[int], numbers: bool, in_a_file: bool) -> list[str]:
    """The maps, layer by layer.

    Raises:
        UsageError: they do not fit the terminal, and nothing else is asked for.
    """
    width = columns(sys.stdout) or USUAL
    names, shades = looks.names, _shades()
    lines: list[str] = []
    for layer in layers:
        tables = [(f"head {head}", looks.weights[layer, head].tolist()) for head in heads]
        found = maps(tables, names, width, numbers, shades)
        if not found:
            side, room = width_of(names, f"head {heads[-1]}", numbers)
            line = f"A map of {len(names)} tokens takes {side + 2 + room} columns, and there are {width}."
            if in_a_file:
                return [line]
            raise UsageError(f"{line} Make the text shorter, or look at a page: --html FILE, or --open.")
        lines += [f"Layer {layer}", *found, ""]
    return lines[:-1]


def _say(engine: "Engine", text: str, looks: "Looks", lines: list[str], numbers: bool) -> None:
    from ...course.selection import in_brief
    from ...engine.talk import CONTROLS
    from ...paths import ROOT

    layers, heads, count = looks.weights.shape[:3]
    what = f"{count} token{'s' * (count != 1)}, {layers} layers of {heads} heads"
    code = engine.package.relative_to(ROOT).as_posix()
    say(f'"{text.translate(CONTROLS)}": {what}  ({engine.checkpoint.folder.resolve().name}, {code})', bold=True)
    if engine.borrowed:
        say(f"⇢ on the reference, as you have borrowed them: {in_brief(engine.borrowed)}", dim=True, err=True)
    say()
    for line in lines:
        say(line, cut=True)
    if len(lines) > 1:
        shades = _shades()
        say()
        dot = "·" if shades == SHADES else "-"
        say(f"A row is a token that looks, a column one that it looks at; a row sums to 1; {dot} is hidden.")
        if not numbers:
            say(f"Shades: {legend(shades)}. Numbers: --numbers.")


def _shades() -> str:
    """Blocks, where the output has letters for them."""
    try:
        f"{SHADES}·".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return PLAIN
    return SHADES
