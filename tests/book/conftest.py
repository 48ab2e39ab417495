"""The built book in a real browser: built once, served on this machine, one Chromium for all tests.

`page` is a fresh page, in the theme and width that the test's parameters `theme` and `width` name. Addresses are those
of the book: `page.goto("week1/day1.html")`. Whatever goes wrong on the way fails the test at its end: an error in the
console, a file that is missing, a request that would leave this machine (which is stopped). A test that has passed for
the same content is skipped: `tested.py` says how that is known.
"""

import datetime
import functools
import http.server
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

import pytest
from tests.book import tested
from tests.book.browser import launch

from tiny_llm_course.dev.book.mdbook import build_book

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

HERE = Path(__file__).parent
BUILT = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
CONTENT = pytest.StashKey[tested.Content]()
PROPERTY = "tested"  # of a test that has run: its group, and what it loaded


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--browser-required", action="store_true", help="Fail where no browser can be started.")
    parser.addoption("--fresh-pages", action="store_true", help="Test the pages that have not changed, too.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "of_the_course: compares with what the course's code computes")
    config.pluginmanager.register(Recorder(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Build the book, and skip what has passed for the same content."""
    own = [item for item in items if item.path.is_relative_to(HERE) and (opens_the_book(item) or of_the_course(item))]
    if not own or config.option.collectonly:
        return
    config.stash[BUILT] = folder = tempfile.TemporaryDirectory(prefix="tiny-llm-book-")
    done = build_book(Path(folder.name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    config.stash[CONTENT] = content = tested.Content.of(Path(folder.name))
    if config.option.fresh_pages:
        return
    record = tested.Record()
    valid, guards = record.valid(content), record.guards()
    for item in own:
        if item.nodeid in valid and item.nodeid not in guards:
            day = datetime.date.fromisoformat(valid[item.nodeid])
            item.add_marker(pytest.mark.skip(f"as tested on {day.day} {day:%B %Y} (--fresh-pages tests it again)"))


def opens_the_book(item: pytest.Item) -> bool:
    return "book_url" in getattr(item, "fixturenames", ())


def of_the_course(item: pytest.Item) -> bool:
    return item.get_closest_marker("of_the_course") is not None


class Recorder:
    """Collects which tests have passed, in whatever process, and keeps it at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.sent: tested.Content | None = None  # by pytest-xdist's processes, each of which builds the book
        self.ran: dict[str, tested.Run] = {}
        self.failed: set[str] = set()
        self.skipped: set[str] = set()  # where there is no browser

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            (self.failed if report.failed else self.skipped).add(report.nodeid)
        properties: dict[str, Any] = dict(report.user_properties)
        if report.when == "teardown" and PROPERTY in properties and report.nodeid not in self.skipped:
            group, loads = properties[PROPERTY]
            self.ran[report.nodeid] = tested.Run(group, loads, report.nodeid not in self.failed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if "book" in node.workeroutput:
            self.sent = tested.Content(*node.workeroutput["book"])

    def pytest_sessionfinish(self) -> None:
        content = self.config.stash.get(CONTENT, self.sent)
        if folder := self.config.stash.get(BUILT, None):
            folder.cleanup()
        if content and hasattr(self.config, "workeroutput"):
            self.config.workeroutput["book"] = tuple(content)
        elif content and self.ran:
            tested.keep(self.ran, content)


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
    """Notes what a test loads of the book, and to which group it belongs: the page that it asks for first."""
    Server.asked = {}
    yield
    pages = [path for path in Server.asked if path.endswith(".html")]
    if of_the_course(request.node) or pages:
        group = tested.COURSE if of_the_course(request.node) else pages[0]
        request.node.user_properties.append((PROPERTY, (group, sorted(Server.asked))))


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
