"""Checkpoints: trees of dictionaries, lists, arrays and plain values as one .npz, never pickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

_ARRAY = "__array__"


def save_tree(path: Path, tree: Any) -> None:
    """Write a tree whole or not at all. Leaves: arrays, numbers, text, booleans, None."""
    arrays: dict[str, np.ndarray] = {}

    def strip(node: Any) -> Any:
        if isinstance(node, np.ndarray):
            arrays[f"a{len(arrays)}"] = node
            return {_ARRAY: f"a{len(arrays) - 1}"}
        if isinstance(node, dict):
            return {str(k): strip(v) for k, v in node.items()}
        if isinstance(node, list | tuple):
            return [strip(v) for v in node]
        return node.item() if isinstance(node, np.generic) else node

    text = json.dumps(strip(tree))
    part = path.with_name(path.name + ".part")
    with part.open("wb") as f:
        np.savez(f, tree=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    part.replace(path)


def load_tree(path: Path) -> Any:
    """The tree that `save_tree` wrote; floats come back to the bit. Raises ValueError if it is damaged."""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(path) as archive:  # numpy would take other things for arrays, and advise to unpickle them
            names = [Path(name).stem for name in archive.namelist()]
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in names}
        tree = json.loads(bytes(arrays.pop("tree")).decode())
    except (OSError, KeyError, EOFError, ValueError, zipfile.BadZipFile, zlib.error):
        raise ValueError(f"{path}: not a checkpoint, or a damaged one") from None

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            if set(node) == {_ARRAY}:
                return arrays[node[_ARRAY]]
            return {k: fill(v) for k, v in node.items()}
        return [fill(v) for v in node] if isinstance(node, list) else node

    return fill(tree)
