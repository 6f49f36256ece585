"""The folder of files that can be made again: reference runs and compiled functions."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from functools import lru_cache
from pathlib import Path


def cache_folder() -> Path:
    """`netsim` in the user's cache directory (XDG_CACHE_HOME, or ~/.cache)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netsim"


@lru_cache(maxsize=8)
def code_digest(*packages: str) -> str:
    """SHA-256 of the source files of packages, with their names; they are read once a process, and nothing is imported.

    What is kept under it is made again after any change of the code, also between releases.
    """
    digest = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        for place in sorted(spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(place).rglob("*.py")):
                digest.update(f"{package}/{path.relative_to(place)}\n".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
