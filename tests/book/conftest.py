"""The built book in a real browser: built once, served on this machine, one Chromium for all tests.

`page` is a fresh page, in the theme and width that the test's parameters `theme` and `width` name. Addresses are those
of the book: `page.goto("week1/day1.html")`. Whatever goes wrong on the way fails the test at its end: an error in the
console, a file that is missing, a request that would leave this machine (which is stopped). A test that has passed for
the same content is skipped: `tested.py` says how that is known.
"""

import functools
import http.server
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlsplit

import pytest
from tests import tested
from tests.book.browser import launch

from tiny_llm_course.dev.book.page_metadata import build_book
from tiny_llm_course.paths import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

HERE = Path(__file__).parent
BUILT = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
CODE = ("benches", "book", "models", "solutions", "src")
# mdBook puts a hash of a file's content into its name; counted, it would carry a change of one page to all of them.
HASH = re.compile(rb"-[0-9a-f]{8}(?=\.\w)")
GUARDS = 2  # pages that are tested although nothing has changed
RECORDER = pytest.StashKey[tested.Recorder]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--browser-required", action="store_true", help="Fail where no browser can be started.")
    parser.addoption("--fresh-pages", action="store_true", help="Test the pages that have not changed, too.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "of_the_course: compares with what the course's code computes")
    config.stash[RECORDER] = recorder = tested.Recorder(config, HERE)
    config.pluginmanager.register(recorder)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Build the book, and skip what has passed for the same content."""
    own = [item for item in items if item.path.is_relative_to(HERE) and (opens_the_book(item) or of_the_course(item))]
    if not own or config.option.collectonly:
        return
    config.stash[BUILT] = folder = tempfile.TemporaryDirectory(prefix="tiny-llm-book-")
    done = build_book(Path(folder.name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    recorder = config.stash[RECORDER]
    recorder.content = content_of(Path(folder.name))
    if not config.option.fresh_pages:
        units = {item.nodeid: [item] for item in own}
        recorder.skip(units, recorder.content, GUARDS, "--fresh-pages tests it again")


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(BUILT, None):
        folder.cleanup()


def content_of(book: Path) -> tested.Content:
    """What these tests depend on: the files of the built book; their own files; and some on the whole course."""
    own = tested.hashes(HERE)
    code = [tested.hashes(folder) for folder in (*(ROOT / name for name in CODE), *(ROOT / "tests").glob("week*"))]
    versions = {name: version(name) for name in ("mlx", "numpy")}
    pages = {unhashed(name): key for name, key in tested.hashes(book, book, without=HASH).items()}
    parts = pages | {tested.COURSE: tested.hash_of([versions, code])}
    return tested.Content(parts, tested.hash_of([version("playwright"), own]))


def unhashed(path: str) -> str:
    return HASH.sub(b"", path.encode()).decode()


def opens_the_book(item: pytest.Item) -> bool:
    return "book_url" in getattr(item, "fixturenames", ())


def of_the_course(item: pytest.Item) -> bool:
    return item.get_closest_marker("of_the_course") is not None


@pytest.fixture(scope="session")
def book(request: pytest.FixtureRequest) -> Path:
    """The folder of the built book."""
    return Path(request.config.stash[BUILT].name)


class Server(http.server.SimpleHTTPRequestHandler):
    """A server that notes what it is asked for, and does not print it."""

    asked: ClassVar[dict[str, None]] = {}  # in this order

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        self.asked[path if path and not path.endswith("/") else f"{path}index.html"] = None
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(autouse=True)
def loads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Notes what a test loads of the book, and to which group it belongs: the page that it asks for first.

    Tests marked `of_the_course` compare a page with what the course's code computes, or open no page of the book.
    """
    Server.asked = {}
    yield
    pages = [path for path in Server.asked if path.endswith(".html")]
    note = functools.partial(request.config.stash[RECORDER].note, request.node, unit=request.node.nodeid, size=1)
    if of_the_course(request.node):
        note(tested.COURSE, [tested.COURSE])
    elif pages:
        note(pages[0], {unhashed(path) for path in Server.asked})


@pytest.fixture(scope="session")
def book_url(book: Path) -> Iterator[str]:
    """Where the book is served, with a slash at the end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=str(book)))
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
    context.set_default_timeout(120_000)  # a busy machine is no fault of the page
    context.on("request", stay_here)
    context.add_init_script(f"localStorage.setItem('mdbook-theme', '{theme}')")
    page = context.new_page()
    page.on("console", lambda said: problems.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("response", lambda got: problems.append(f"{got.status}: {got.url}") if got.status >= 400 else None)
    yield page
    context.close()
    assert not problems
