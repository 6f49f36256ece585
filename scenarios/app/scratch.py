"""Folders for files that are not kept."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(prefix: str, place: Path | None = None) -> Generator[Path, None, None]:
    """Create a folder of this prefix, and remove it at the end. place : it lies there; None: with temporary files."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as name:
        yield Path(name)
