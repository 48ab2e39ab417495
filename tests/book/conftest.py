"""The built book in a real browser: built once, served on this machine, one Chromium for all tests.

`page` is a fresh page, in the theme and width that the test's parameters `theme` and `width` name. Addresses are those
of the book: `page.goto("week1/day1.html")`. Whatever goes wrong on the way fails the test at its end: an error in the
console, a file that is missing, a request that would leave this machine (which is stopped).
"""

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.book.browser import launch

from tiny_llm_course.dev.book.mdbook import build_book

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--browser-required", action="store_true", help="Fail where no browser can be started.")


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built book."""
    folder = tmp_path_factory.mktemp("book")
    done = build_book(folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that does not print what it is asked for."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def book_url(book: Path) -> Iterator[str]:
    """Where the book is served, with a slash at the end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(book)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> "Iterator[Browser]":
    """Chromium, or Chrome; where there is none, the tests say so."""
    give_up = pytest.fail if request.config.getoption("--browser-required", default=False) else pytest.skip
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("not run here: Playwright is not installed (pdm run dev-setup)")
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        if chromium is None:
            give_up("not run here: Chromium is not installed")
        yield chromium
        chromium.close()


@pytest.fixture
def theme() -> str:
    """mdBook's theme: `@pytest.mark.parametrize("theme", ["light", "navy"])` for both."""
    return "light"


@pytest.fixture
def width() -> int:
    """How wide the window is, in pixels; a phone has 375."""
    return 1280


@pytest.fixture
def problems() -> list[str]:
    """What went wrong on the page so far."""
    return []


@pytest.fixture
def page(browser: "Browser", book_url: str, theme: str, width: int, problems: list[str]) -> "Iterator[Page]":
    """A page of a reader who has never been here; it ends with the check that there were no problems."""

    def stay_here(request: "Request") -> None:
        if not request.url.startswith((book_url, "data:", "blob:")):
            problems.append(f"a request leaves this machine: {request.url}")

    context = browser.new_context(
        base_url=book_url, viewport={"width": width, "height": 900}, reduced_motion="reduce", service_workers="block"
    )
    context.set_default_timeout(30_000)  # a busy machine is no fault of the page
    context.on("request", stay_here)
    context.add_init_script(f"localStorage.setItem('mdbook-theme', '{theme}')")
    page = context.new_page()
    page.on("console", lambda said: problems.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("response", lambda got: problems.append(f"{got.status}: {got.url}") if got.status >= 400 else None)
    yield page
    context.close()
    assert not problems
