"""Where the program keeps what it can make again: reference runs and compiled functions."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`netsim` in the user's cache directory (XDG_CACHE_HOME, or ~/.cache)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netsim"
