"""Addresses of pages that have moved lead to the page that has their text; anchors are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

MOVED = {
    "channel-card": "radio",
    "pages": "reading-results",
    "pseudonyms": "tracking",
    "radio-studies": "radio",
    "reading-leakage": "reading-results",
    "streets": "mobility",
    "studies/cities": "mobility",
    "studies/index": "index",
    "studies/power-environments": "agent",
    "studies/power-results": "studies/power",
    "studies/published-defenses": "defenses",
    "studies/stragglers": "studies/asynchronous",
    "studies/useful-maps": "defenses",
    "tracks": "traces",
    "tuning": "many-runs",
}
"""old page -> the page that has its text"""

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Moved</title>
<meta http-equiv="refresh" content="1; url={to}">
<script>location.replace("{to}" + location.hash)</script>
<a href="{to}">This page has moved.</a>
"""


def write_moved(app: Any, error: Exception | None) -> None:
    """After a build of HTML, write a page that leads on for each that has moved."""
    if error is not None or app.builder.format != "html":
        return
    for old, new in MOVED.items():
        path = Path(app.outdir, f"{old}.html")
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAGE.format(to=os.path.relpath(f"{new}.html", Path(old).parent)))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", write_moved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
