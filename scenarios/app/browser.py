"""A page shown in a browser, where there is one."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path


def show_page(page: Path) -> bool:
    """Open a page in the browser; whether one took it."""
    if not has_window(os.environ):
        return False
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False


def has_window(environment: Mapping[str, str]) -> bool:
    """Whether a browser may have a window: one in the terminal cannot draw the page, and would take its place."""
    of_linux = sys.platform not in ("darwin", "win32")
    return not of_linux or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
