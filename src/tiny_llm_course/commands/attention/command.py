"""`pdm run attention "That is a blue dog"`: each head's attention weights, as heat maps."""

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...course.registry import UsageError, load_course
from ...course.selection import in_brief
from ...doctor import blas
from ...paths import ROOT
from ...terminal.screen import USUAL, columns, say
from ...terminal.tables import PLAIN, SHADES, legend, maps, width_of
from .. import out_file
from ..options import OUT_FILE, dtype_option, model_option

if TYPE_CHECKING:
    from ...engine.attention_maps import AttentionMaps


@click.command()
@click.argument("text")
@click.option("--solution", is_flag=True, help="Run our engine instead of yours.")
@model_option
@dtype_option
@click.option("--layer", type=click.IntRange(min=0), help="Only this layer, counted from 0.")
@click.option("--head", type=click.IntRange(min=0), help="Only this head of each layer, counted from 0.")
@click.option("--numbers", is_flag=True, help="Print numbers instead of shades.")
@click.option("--svg", type=OUT_FILE, metavar="FILE", help="Write the maps to FILE as SVG.")
@click.option("--html", type=OUT_FILE, metavar="FILE", help="Write an interactive page of all heads to FILE.")
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser; without --html, a default file.")
def attention(
    text: str, layer: int | None, head: int | None, numbers: bool, svg: Path | None, html: Path | None, **options: Any
) -> int:
    """Show the attention weights of each head: pdm run attention "That is a blue dog".

    The weights come from your engine of week 1, through your task 4.2.4.
    """
    from .pictures import MARK, OWN, drawing, page

    opened = options.pop("opened")
    if opened and not html:
        html = OWN
        html.parent.mkdir(exist_ok=True)
    if svg:
        out_file.must_be_writable(svg, "drawing", out_file.is_drawing)
    if html:
        out_file.must_be_writable(html, "page of heads", lambda contents: MARK.encode() in contents[:200])
    blas.load()
    from ...engine.attention_maps import attention_maps
    from ...engine.engine import load_engine
    from ...engine.talk import CONTROLS

    engine = load_engine(**options, stage=load_course().stages()[0].name)
    config, name = engine.checkpoint.config, engine.checkpoint.folder.resolve().name
    layers = _chosen("layer", layer, config["num_hidden_layers"])
    heads = _chosen("head", head, config["num_attention_heads"])
    looks = attention_maps(engine, text)
    lines = _lines(looks, layers, heads, numbers, bool(svg or html))
    drawn = drawing(looks, layers, heads, text) if svg else ""
    count = len(looks.tokens)
    what = f"{count} token{'s' * (count != 1)}, {len(looks.weights)} layers of {looks.weights.shape[1]} heads"
    code = engine.package.relative_to(ROOT).as_posix()
    say(f'"{text.translate(CONTROLS)}": {what}  ({name}, {code})', bold=True)
    if engine.borrowed:
        say(f"⇢ running on the reference, because borrowed: {in_brief(engine.borrowed)}", dim=True, err=True)
    say("\n" + "\n".join(lines), cut=True)
    if len(lines) > 1:
        shades = _shades()
        masked = "·" if shades == SHADES else "-"
        say(f"\nA row is a query token, a column a key token; a row sums to 1; {masked} is masked.")
        if not numbers:
            say(f"Shades: {legend(shades)}. Numbers: --numbers.")
    if svg:
        out_file.write(svg, drawn)
    if html:
        out_file.write(html, page(looks, text, name, (layers[0], heads[0])))
        shown = opened and webbrowser.open(html.resolve().as_uri())
        say(f"The page of all heads{', now in your browser' if shown else ''}: {html}")
    return 0


def _chosen(what: str, number: int | None, count: int) -> list[int]:
    if number is not None and number >= count:
        raise UsageError(f"There is no {what} {number}: the model has {what}s 0 to {count - 1}.")
    return list(range(count)) if number is None else [number]


def _lines(looks: "AttentionMaps", layers: list[int], heads: list[int], numbers: bool, in_a_file: bool) -> list[str]:
    """Return the maps, layer by layer; raise UsageError if they do not fit the terminal and no file is written."""
    width = columns(sys.stdout) or USUAL
    names, shades = looks.names, _shades()
    lines: list[str] = []
    for layer in layers:
        tables = [(f"head {head}", looks.weights[layer, head].tolist()) for head in heads]
        found = maps(tables, names, width, numbers, shades)
        if not found:
            side, room = width_of(names, f"head {heads[-1]}", numbers)
            line = f"A map of {len(names)} tokens needs {side + 2 + room} columns; the terminal has {width}."
            if in_a_file:
                return [line]
            raise UsageError(f"{line} Use a shorter text, or a page: --html FILE, or --open.")
        lines += [f"Layer {layer}", *found, ""]
    return lines[:-1]


def _shades() -> str:
    """Return block characters if the output's encoding has them, else ASCII."""
    try:
        f"{SHADES}·".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return PLAIN
    return SHADES
