"""The page of `pdm run serve` in a real browser: a chat by keyboard, what it shows of the engine, what is refused."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tiny_llm_course.testkit.servers import running_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Route

pytestmark = pytest.mark.of_the_course
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
SERVE = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--memory", "8", "--port", "{port}"]
WILD = "<img src=x onerror=alert(1)> **blue** `a < b` [a link](javascript:alert(1)) [here](https://example.org/)"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server's; the first one on a machine is compiled."""
    with running_server(SERVE, seconds=300) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def chat(browser: "Browser", address: str, request: pytest.FixtureRequest) -> "Iterator[Page]":
    """The page, opened; what goes wrong on it fails the test."""
    width, scheme = getattr(request, "param", (1280, "light"))
    problems: list[str] = []
    # Playwright's own scripts are not allowed either, where a page says so: axe is one of them.
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]

    def stay_here(sent: "Request") -> None:
        if not sent.url.startswith(address):
            problems.append(f"a request: {sent.url}")

    def listen(said: "ConsoleMessage") -> None:
        if "status of 400" not in said.text:  # that a request was refused is told by the browser, too
            problems.append(f"console: {said.text}")

    context.on("request", stay_here)
    page = context.new_page()
    page.on("console", listen)
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("dialog", lambda box: problems.append(f"dialog: {box.message}"))
    page.goto(address)
    page.get_by_text("tiny-qwen3").wait_for()
    yield page
    context.close()
    assert problems == []


def said(page: "Page", text: str, most: int = 20) -> str:
    """Say something, and wait for the answer: it."""
    page.locator("#max_completion_tokens").evaluate("(box, most) => { box.value = most }", most)
    page.locator("#text").focus()
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_selector("#stop[disabled]")
    page.wait_for_function("document.getElementById('status').textContent.includes(' tokens in ')")
    return page.inner_text("#log > li:last-child > div")


@pytest.mark.parametrize("chat", [(1280, "light"), (375, "dark")], indirect=True)
def test_a_chat_by_keyboard(chat: "Page") -> None:
    answer = said(chat, "Once upon a time")
    assert len(answer) > 10
    assert "the first after" in chat.inner_text("#status")
    assert chat.evaluate("document.activeElement.id") == "text"  # the next message can be typed at once
    assert said(chat, "And then?") != ""
    assert chat.locator("#log > li").count() == 4
    assert chat.evaluate("document.documentElement.scrollWidth") <= chat.viewport_size["width"]  # type: ignore[index]
    chat.wait_for_function("document.getElementById('prefix').textContent.includes('Prefix cache')")
    chat.add_script_tag(content=AXE)
    faults = chat.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)")
    assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in faults] == []


@pytest.mark.parametrize("chat", [(1280, "light"), (375, "dark")], indirect=True)
def test_the_page_of_the_api(chat: "Page") -> None:
    chat.get_by_role("link", name="API").click()
    chat.get_by_text("max_completion_tokens").first.wait_for()
    assert chat.evaluate("document.documentElement.scrollWidth") <= chat.viewport_size["width"]  # type: ignore[index]
    chat.add_script_tag(content=AXE)
    faults = chat.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)")
    assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in faults] == []


def test_what_is_said_is_text(chat: "Page") -> None:
    said(chat, WILD, most=1)
    mine = chat.locator("#log > li.user > div").first
    assert "<img src=x onerror=alert(1)>" in mine.inner_text()
    assert mine.locator("img, script").count() == 0
    assert mine.locator("strong").inner_text() == "blue"
    assert mine.locator("code").inner_text() == "a < b"
    assert [link.get_attribute("href") for link in mine.locator("a").all()] == ["https://example.org/"]


def test_a_stop_and_the_engine_s_picture(chat: "Page") -> None:
    chat.locator("#max_completion_tokens").evaluate("box => { box.value = 1200 }")
    # So that it does not end by itself.
    chat.route(
        "**/v1/chat/completions",
        lambda route: route.continue_(post_data=json.dumps({**route.request.post_data_json, "ignore_eos": True})),
    )
    chat.fill("#text", "Once upon a time")
    chat.click("#send")
    chat.wait_for_function("document.querySelector('#slots .busy')?.textContent.includes('has written')")
    chat.wait_for_function("/: [1-9]\\d* in use/.test(document.getElementById('pages-words').textContent)")
    assert chat.locator('#pages i[style*="background"]').count() > 0
    chat.keyboard.press("Escape")
    chat.get_by_text("Stopped.").wait_for()
    chat.wait_for_function("!document.querySelector('#slots .busy')")
    chat.wait_for_function("document.getElementById('pages-words').textContent.includes(': 0 in use')")
    chat.click("#new")
    assert chat.locator("#log > li").count() == 0


def test_it_survives_a_reload(chat: "Page") -> None:
    """The conversation and the settings, until a new chat begins."""
    answer = said(chat, "Once upon a time")
    chat.locator("summary").click()
    chat.fill("#seed", "7")
    chat.reload()
    chat.get_by_text("tiny-qwen3").wait_for()
    assert chat.inner_text("#log > li:last-child > div") == answer
    assert chat.input_value("#seed") == "7"
    assert said(chat, "And then?") != ""
    assert chat.locator("#log > li").count() == 4
    chat.click("#new")
    chat.reload()
    chat.get_by_text("tiny-qwen3").wait_for()
    assert chat.locator("#log > li").count() == 0


def test_it_needs_no_storage(chat: "Page") -> None:
    """Some browsers forbid it."""
    forbidden = "() => { throw new DOMException('The operation is insecure.', 'SecurityError') }"
    chat.add_init_script(f"Object.defineProperty(window, 'sessionStorage', {{ get: {forbidden} }})")
    chat.reload()
    chat.get_by_text("tiny-qwen3").wait_for()
    assert said(chat, "Once upon a time") != ""


def test_a_refusal_is_said(chat: "Page") -> None:
    chat.locator("#max_completion_tokens").evaluate("box => { box.value = 100000 }")
    chat.fill("#text", "Once upon a time")
    chat.click("#send")
    chat.wait_for_function("document.getElementById('status').textContent.startsWith('No answer: ')")
    assert chat.locator("#log > li").count() == 0
    assert chat.input_value("#text") == "Once upon a time"  # it can be sent again


def test_a_server_that_goes_away(chat: "Page") -> None:
    """In the middle of an answer, which stays; and its blocks of code can be scrolled by keyboard."""
    event = {"choices": [{"delta": {"content": "```\n" + "wide " * 200 + "\n```\na " + "`" * 3000 + "x" * 900}}]}
    body = f"data: {json.dumps(event)}\n\n"
    chat.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    chat.fill("#text", "**a** " * 3000)
    chat.keyboard.press("Enter")
    chat.wait_for_function(
        "document.getElementById('status').textContent.startsWith('Broken off: the server has gone')"
    )
    assert chat.locator("#log > li").count() == 2
    chat.locator("#log pre").focus()
    assert chat.evaluate("document.activeElement.tagName") == "PRE"
    assert chat.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("chat", [(640, "light")], indirect=True)
def test_at_200_percent(chat: "Page") -> None:
    """A window of 1280 x 800 is half of that in each direction."""
    chat.set_viewport_size({"width": 640, "height": 400})
    chat.locator("summary").focus()
    chat.keyboard.press("Enter")
    assert chat.evaluate("getComputedStyle(document.getElementById('form')).position") == "static"
    assert chat.evaluate("document.documentElement.scrollWidth") <= 640


def test_a_key_is_asked_for(browser: "Browser", address: str) -> None:
    context = browser.new_context()
    page = context.new_page()

    def models(route: "Route") -> None:
        right = route.request.headers.get("authorization") == "Bearer sesame"
        route.continue_() if right else route.fulfill(status=401, json={"error": {"message": "The key is wrong."}})

    page.route("**/v1/models", models)
    page.goto(address)
    for key in ("open", "sesame"):
        page.get_by_text("The key is wrong.").wait_for()
        assert page.evaluate("document.activeElement.id") == "key"
        page.fill("#key", key)
        page.keyboard.press("Enter")
    page.get_by_text("tiny-qwen3").wait_for()
    page.wait_for_selector("#key-form", state="hidden")
    assert page.evaluate("document.activeElement.id") == "text"
    context.close()
