"""Checkpoints: trees of dictionaries, lists, arrays and plain values as one .npz, never pickled, with their digest.

A run remembers many thousand small arrays, and a member of an .npz costs more than they hold: the small ones of a type
are one member, one after another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.safe import OURS_MOST_BYTES, opened, replacing, size_text

_ARRAY = "__array__"
_COLUMNS = "F"  # after the shape of an array that is held column by column
_SMALL_BYTES = 65_536  # up to which an array shares a member with others of its type


def save_tree(path: Path, tree: Any) -> None:
    """Write a tree whole or not at all. Leaves: arrays, numbers, text, booleans, None."""
    arrays: dict[str, NDArray[Any]] = {}
    small: dict[str, list[NDArray[Any]]] = {}
    filled: dict[str, int] = {}

    def strip(node: Any) -> Any:
        if isinstance(node, np.ndarray):
            if node.nbytes <= _SMALL_BYTES:
                kind, at = node.dtype.str, filled.get(node.dtype.str, 0)
                by_column = node.flags.f_contiguous and not node.flags.c_contiguous  # as numpy's own files have it
                small.setdefault(kind, []).append(node.ravel("F" if by_column else "C"))
                filled[kind] = at + node.size
                return {_ARRAY: [kind, at, *node.shape, *([_COLUMNS] if by_column else [])]}
            arrays[f"a{len(arrays)}"] = node
            return {_ARRAY: f"a{len(arrays) - 1}"}
        if isinstance(node, dict):
            return {str(k): strip(v) for k, v in node.items()}
        if isinstance(node, list | tuple):
            return [strip(v) for v in node]
        return node.item() if isinstance(node, np.generic) else node

    stripped = json.dumps([strip(tree), list(small)])
    arrays |= {f"s{i}": np.concatenate(pieces) for i, pieces in enumerate(small.values())}
    arrays["tree"] = np.frombuffer(stripped.encode(), dtype=np.uint8)
    with replacing(path) as file:
        np.savez(file, digest=_digest(arrays), **arrays)  # type: ignore[arg-type]


def load_tree(path: Path) -> Any:
    """The tree that `save_tree` wrote; floats come back to the bit. Raises ValueError if it is damaged."""
    damaged = ValueError(f"{path}: not a checkpoint, or a damaged one")
    try:
        arrays = read_arrays(path)
    except ValueError:
        raise damaged from None
    digest, text = arrays.pop("digest", None), arrays.get("tree")
    if digest is None or text is None or not np.array_equal(digest, _digest(arrays)):
        raise damaged

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            if set(node) == {_ARRAY}:
                return array(node[_ARRAY])
            return {k: fill(v) for k, v in node.items()}
        return [fill(v) for v in node] if isinstance(node, list) else node

    def array(of: Any) -> Any:
        if isinstance(of, str):
            return arrays[of]
        kind, at, *shape = of
        by_column = _COLUMNS in shape[-1:]
        shape = shape[:-1] if by_column else shape
        return small[kind][at : at + prod(shape)].reshape(shape, order="F" if by_column else "C")

    try:
        tree, kinds = json.loads(text.tobytes().decode())
        small = {kind: arrays[f"s{i}"] for i, kind in enumerate(kinds)}
        return fill(tree)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz in a folder of ours. Raises ValueError: the file, and why it cannot be read."""
    import zipfile

    try:
        with opened(path, OURS_MOST_BYTES, own=True) as file:
            with zipfile.ZipFile(file) as archive:  # numpy would take other things for arrays
                if sum(info.file_size for info in archive.infolist()) > OURS_MOST_BYTES:
                    raise ValueError(f"unpacks to more than {size_text(OURS_MOST_BYTES)}")
                names = [Path(name).stem for name in archive.namelist()]
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in names}
        if other := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{other[0][:60]} is no array")
        return arrays
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # what damaged bytes make of zipfile, zlib and numpy has no common type
        raise ValueError(f"{path}: damaged ({' '.join(str(error).split())[:120]})") from None


def _digest(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """SHA-256 (32,) of names, types, shapes and numbers."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {arrays[name].shape} ".encode())
        digest.update(array.data if array.size else b"")
    return np.frombuffer(digest.digest(), dtype=np.uint8)
