"""The chat page: five files, which send requests to this server only."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from .refusals import Refusal

FOLDER = Path(__file__).with_name("chat_page")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
HEADERS = {
    # The page shows a model's output as text; if some became a script all the same, it would not run.
    "Content-Security-Policy": "default-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FILES = {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.suffix in KINDS}


async def page(request: Request) -> Response:
    """Return the page."""
    return _file("index.html")


async def part(request: Request) -> Response:
    """Return one of its files."""
    name = request.path_params["name"]
    if name not in FILES:
        raise Refusal(404, f"The page has no part {name!r:.100}.")
    return _file(name)


def _file(name: str) -> Response:
    return Response(FILES[name], media_type=KINDS[Path(name).suffix], headers=HEADERS)
