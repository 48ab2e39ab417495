"""Where a browser is: Playwright's own, or one that is installed."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

# Names on the PATH, then where macOS keeps programs.
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


def program(playwright: "Playwright") -> str | None:
    """The file of Chromium or Chrome; None where there is none."""
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else next(filter(None, map(shutil.which, BROWSERS)), None)


def launch(playwright: "Playwright") -> "Browser | None":
    """Start it, without a sandbox, because root can have none; the pages are our own, and find no other machine."""
    file = program(playwright)
    args = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    return playwright.chromium.launch(executable_path=file, args=args) if file else None
