"""Pages of ours in a real browser: nothing is fetched, and nothing is said on the console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_INK = """name => {
    const canvas = document.getElementById(`replay-${name}`);
    const copy = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height});
    const own = copy.getContext("2d", {willReadFrequently: true});
    own.drawImage(canvas, 0, 0);
    const {data} = own.getImageData(0, 0, canvas.width, canvas.height);
    let sum = 0;
    for (let i = 0; i < data.length; i += 1) sum = (sum * 31 + data[i]) % 2147483647;
    return sum;
}"""


@contextmanager
def started() -> Iterator[Any]:
    """A browser of this machine, or a skip with the reason."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: no browser here"
    )
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed: no browser here")
    with playwright.sync_playwright() as control:
        browser = control.chromium.launch(executable_path=program, args=list(QUIET))
        yield browser
        browser.close()


class Pages:
    """Opens pages of files in one browser, and keeps what they complain of and ask for."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.contexts: list[Any] = []
        self.complaints: list[str] = []

    def __call__(
        self, file: Path, width: int = 1280, height: int = 900, dark: bool = False, **more: Any
    ) -> Any:
        """The page of a file, loaded, in a window of this size; more: what playwright's
        `new_context` takes."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            **more,
        )
        self.contexts.append(context)
        page = context.new_page()
        own = file.resolve().as_uri()
        page.on("console", lambda message: self.complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self._asked(request.url, own))
        page.goto(own)
        return page

    def _asked(self, url: str, own: str) -> None:
        if url.split("#")[0] != own and not url.startswith(("data:", "blob:")):
            self.complaints.append(f"request: {url}")

    def close(self) -> None:
        """Close all pages; fails if one of them said or fetched anything."""
        for context in self.contexts:
            context.close()
        assert self.complaints == []


def violations(page: Any, context: str | None = None, serious: bool = False) -> Any:
    """Rules of accessibility that a page, or a part of it, breaks, each with the elements; or only
    the serious ones."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing"
    ).Axe()
    found = axe.run(
        page, context=context, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]}
    ).response["violations"]
    grave = [v for v in found if not serious or v["impact"] in ("serious", "critical")]
    return {v["id"]: [n["html"][:200] for n in v["nodes"]] for v in grave}


def with_replay(page: Any) -> Any:
    """A page once its replay stands, which `replay` then is in the page."""
    page.evaluate("netsim.replay.then((replay) => { window.replay = replay; })")
    return page


def state(page: Any) -> Any:
    """What the replay shows."""
    return page.evaluate("replay.state()")


def settled(page: Any) -> None:
    """Wait until everything that was asked for has been painted."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def ink(page: Any, name: str) -> Any:
    """A number that tells pictures of a layer of the map apart."""
    settled(page)
    return page.evaluate(_INK, name)
