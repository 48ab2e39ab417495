"""Time to parse a streamed call: with a state that is kept, and by reading all of the answer again for each piece."""

import json
from functools import partial

from tiny_llm.tools.parser import ToolCallParser
from tiny_llm_course.measuring.clock import Table, seconds

PIECE = 4  # bytes; a token has about as many

# What the book draws of the table.
CHART = ("lines", "ms to parse an answer in pieces", ("kept: ms", "again: ms"))


def measure(quick: bool = False) -> Table:
    """Parse an answer that writes a file; each answer is four times as long as the one before."""
    rows = []
    for size in (250, 500) if quick else (500, 2000, 8000):
        data = answer(size)
        pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
        kept, again = seconds(partial(parse, pieces), partial(parse_again, pieces))
        rows.append((len(data), len(pieces), 1e3 * kept, 1e3 * again, 1e6 * kept / len(pieces), again / kept))
    return Table(
        ("bytes", "pieces", "kept: ms", "again: ms", "kept, a piece: us", "ratio"),
        tuple(rows),
        f"With {rows[-1][1]:,} pieces, reading the answer again for each takes {rows[-1][5]:.0f} times as long as "
        "keeping a state.",
    )


def answer(size: int) -> bytes:
    """Return an answer with a call whose arguments have about so many characters."""
    arguments = {"path": "dog.py", "text": ('print("That is a blue dog.")\n' * size)[:size]}
    call = {"name": "write_file", "arguments": arguments}
    return f"I write it.\n<tool_call>\n{json.dumps(call)}\n</tool_call>".encode()


def parse(pieces: list[bytes]) -> object:
    """Parse the pieces as they arrive."""
    parser = ToolCallParser()
    return [event for piece in pieces for event in parser.add(piece)]


def parse_again(pieces: list[bytes]) -> object:
    """Parse the whole answer so far after each piece."""
    return [ToolCallParser().add(b"".join(pieces[: number + 1])) for number in range(len(pieces))]
