"""The page to chat on: five files, which ask nobody but this server for anything."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from .refusals import Refusal

FOLDER = Path(__file__).with_name("chat_page")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
HEADERS = {
    # What a model writes is shown as text. If some of it became a script all the same, it would not run.
    "Content-Security-Policy": "default-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FILES = {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.suffix in KINDS}


async def page(request: Request) -> Response:
    """The page itself."""
    return _file("index.html")


async def part(request: Request) -> Response:
    """One of the files that it is made of."""
    name = request.path_params["name"]
    if name not in FILES:
        raise Refusal(404, f"The page has no part {name!r:.100}.")
    return _file(name)


def _file(name: str) -> Response:
    return Response(FILES[name], media_type=KINDS[Path(name).suffix], headers=HEADERS)
