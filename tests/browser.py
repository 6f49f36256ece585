"""Pages of ours in a real browser: nothing is fetched, and nothing is said on the console."""

import shutil
from contextlib import contextmanager

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
def start_browser():
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

    def __init__(self, browser):
        self.browser = browser
        self.contexts = []
        self.complaints = []

    def __call__(self, file, width=1280, height=900, dark=False, **options):
        """The page of a file, loaded, in a window of this size; more: what playwright's
        `new_context` takes."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            **options,
        )
        self.contexts.append(context)
        page = context.new_page()
        own_rows = file.resolve().as_uri()
        page.on("console", lambda message: self.complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self._record_request(request.url, own_rows))
        page.goto(own_rows)
        return page

    def _record_request(self, url, own_rows):
        if url.split("#")[0] != own_rows and not url.startswith(("data:", "blob:")):
            self.complaints.append(f"request: {url}")

    def close(self):
        """Close all pages; fails if one of them said or fetched anything."""
        for context in self.contexts:
            context.close()
        assert self.complaints == []


def violations(page, context=None, serious=False):
    """Rules of accessibility that a page, or a part of it, breaks, each with the elements; or only
    the serious ones."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing"
    ).Axe()
    result = axe.run(
        page, context=context, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]}
    ).response["violations"]
    grave = [v for v in result if not serious or v["impact"] in ("serious", "critical")]
    return {v["id"]: [n["html"][:200] for n in v["nodes"]] for v in grave}


def with_replay(page):
    """A page once its replay stands, which `replay` then is in the page."""
    page.evaluate("netsim.replay.then((replay) => { window.replay = replay; })")
    return page


def state(page):
    """What the replay shows."""
    return page.evaluate("replay.state()")


def read_state(page, key):
    """One value of what the replay shows."""
    return state(page)[key]


def wait_until_painted(page):
    """Wait until everything that was asked for has been painted."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def ink(page, name):
    """A number that tells pictures of a layer of the map apart."""
    wait_until_painted(page)
    return page.evaluate(_INK, name)
