"""Checkpoints: trees of dictionaries, lists, arrays and plain values as one .npz, never pickled, with their digest.

A run remembers many thousand small arrays, and a member of an .npz costs more than they hold: the small ones of a type
are one member, one after another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from netsim.safe import OURS_MOST_BYTES, opened, replacing, size_text

Value = TypeVar("Value")

REBUILT: dict[str, bool] = {"rebuilt": True}
"""Metadata of a field that a tree leaves out: a resumed run builds it again."""

GROWS: dict[str, bool] = {"grows": True}
"""Metadata of a field whose array has entries from the start, and more later."""


def to_tree(value: Any) -> Any:
    """The tree of a value: dataclasses become dictionaries, without their fields marked `REBUILT`.

    A dictionary whose keys are no strings becomes a list of pairs [key, value].
    """
    kind: Any = type(value)
    if (names := _remembered(kind)) is not None:
        return {name: to_tree(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: to_tree(each) for key, each in value.items()}
        return [[to_tree(key), to_tree(each)] for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [to_tree(each) for each in value]
    return value


@cache
def _remembered(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass that a tree has; None for any other type."""
    return tuple(f.name for f in fields(kind) if not f.metadata.get("rebuilt")) if is_dataclass(kind) else None


def from_tree(tree: Any, like: Value) -> Value:
    """The value that `to_tree` made this tree of; it has the type of `like`.

    Where a field is annotated `Any`, its type is that of the same field of `like`; fields marked `REBUILT` are those of
    `like`. A plain dictionary in `like` takes whatever dictionary the tree has, as it stands. Arrays have the annotated
    kind of numbers; where `like` has one with entries, the type and shape of that one. So an array that grows begins
    empty, with as many dimensions as later, or its field is marked `GROWS`. Arrays of a dataclass with a true class
    attribute `equal_rows` have equally many rows; those that its class attribute `shapes` names have that shape, None
    for any. All numbers of the fields that its class attribute `bounds` names lie from the lower to the upper bound
    given there.

    Raises
    ------
    ValueError : one line: the place in the tree, and what was expected there.
    """
    return cast(Value, _value(tree, Any, like, ""))


def from_tree_as(tree: Any, kind: type[Value]) -> Value:
    """As `from_tree`, for a dataclass without fields annotated `Any`."""
    return cast(Value, _value(tree, kind, None, ""))


def _value(tree: Any, hint: Any, like: Any, place: str) -> Any:
    """The value at one place, of the annotated type, or of the type of `like` where there is none."""
    hint = type(like) if hint is Any else hint
    origin, options = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return _one_of(tree, options, like, place)
    if is_dataclass(hint):
        return _dataclass(tree, cast(type, hint), like, place)
    if origin is dict and options:
        return _dictionary(tree, options, like, place)
    if origin is dict and like is not None:  # of a part that keeps a plain dictionary, or of entries with known types
        return _plain(tree, dict, place)
    if origin in (list, tuple):
        return _sequence(tree, origin, options, place)
    if origin is Literal:
        return _checked(tree, tree in options, f"one of {list(options)}", place)
    if origin is float:
        return float(_plain(tree, (int, float), place))
    if origin is np.ndarray:
        return _array(tree, options, like, place)
    return _plain(tree, origin, place)


def _array(tree: Any, options: tuple[Any, ...], like: Any, place: str) -> Any:
    """An array of the annotated kind of numbers, that may stand where `like` stood."""
    _plain(tree, np.ndarray, place)
    number = get_args(options[1])[0] if options else np.generic
    kind = next((kind for kind in _KINDS if issubclass(get_origin(number) or number, kind)), np.generic)
    _checked(tree, tree.dtype.kind in _KINDS.get(kind, tree.dtype.kind), f"an array of {kind.__name__} numbers", place)
    if isinstance(like, np.ndarray):
        _checked(tree, tree.ndim == like.ndim, f"an array of {like.ndim} dimensions", place)
        if like.size:
            _checked(tree, tree.dtype == like.dtype, f"an array of {like.dtype}", place)
            _checked(tree, tree.shape == like.shape, f"an array of shape {like.shape}", place)
    return tree


_KINDS = {np.bool_: "b", np.integer: "iu", np.floating: "fiu", np.complexfloating: "cfiu"}
"""annotated numbers -> kinds of arrays that hold no more than they"""


def _dataclass(tree: Any, kind: type, like: Any, place: str) -> Any:
    """A dataclass: every field that is not rebuilt, and no other."""
    known = fields(kind)
    names = {f.name for f in known if not f.metadata.get("rebuilt")}
    _checked(tree, isinstance(tree, dict) and set(tree) == names, f"the fields {sorted(names)}", place)
    hints, values = _hints(kind), {}
    for f in known:
        old = getattr(like, f.name, None)
        if f.name not in names:
            values[f.name] = old
            continue
        shaped = None if f.metadata.get("grows") and isinstance(old, np.ndarray) else old
        values[f.name] = _value(tree[f.name], hints[f.name], shaped, f"{place}.{f.name}")
    for name, shape in getattr(kind, "shapes", {}).items():
        found = np.shape(np.asarray(values[name]))
        same = len(shape) == len(found) and all(n in (None, m) for n, m in zip(shape, found, strict=True))
        _checked(tree, same, f"an array of shape {shape}", f"{place}.{name}")
    for name, (least, most) in getattr(kind, "bounds", {}).items():
        value = values[name]
        held = value.values() if isinstance(value, dict) else [value]
        fits = all(((numbers >= least) & (numbers <= most)).all() for numbers in map(np.asarray, held))
        _checked(tree, fits, f"numbers from {least:g} to {most:g}", f"{place}.{name}")
    if getattr(kind, "equal_rows", False):
        rows = {name: value.shape[:1] for name, value in values.items() if isinstance(value, np.ndarray)}
        _checked(tree, len(set(rows.values())) <= 1, f"as many rows in each of {sorted(rows)}", place)
    return kind(**values)


_hints = cache(get_type_hints)
"""Field -> annotation of a dataclass."""


def _dictionary(tree: Any, options: tuple[Any, ...], like: Any, place: str) -> dict[Any, Any]:
    """A dictionary with annotated keys and values; where values are `Any`, with the keys of `like`."""
    key_type, value_type = options
    if key_type is not str:
        pairs = tree if tree != {} else []
        _checked(pairs, isinstance(pairs, list) and all(_is_pair(p) for p in pairs), "pairs", place)
        each = [(_value(k, key_type, None, place), v) for k, v in pairs]
    else:
        each = list(_plain(tree, dict, place).items())
    like = like if isinstance(like, dict) else {}
    if value_type is Any:
        _checked(tree, [k for k, _ in each] == list(like), f"the entries {list(like)}", place)
    return {k: _value(v, value_type, like.get(k), f"{place}.{k}") for k, v in each}


def _is_pair(tree: Any) -> bool:
    return isinstance(tree, list) and len(tree) == 2


def _sequence(tree: Any, origin: type, options: tuple[Any, ...], place: str) -> Any:
    """A list, or a tuple of any or of a fixed length."""
    _plain(tree, list, place)
    if origin is list or (len(options) == 2 and options[1] is Ellipsis):
        kinds = [options[0]] * len(tree)
    else:
        kinds = list(options)
    _checked(tree, len(kinds) == len(tree), f"{len(kinds)} entries", place)
    return origin(
        _value(each, kind, None, f"{place}[{i}]") for i, (each, kind) in enumerate(zip(tree, kinds, strict=True))
    )


def _one_of(tree: Any, options: tuple[Any, ...], like: Any, place: str) -> Any:
    """A value that may be None, or one of several types, of which the first that fits counts."""
    if tree is None and NoneType in options:
        return None
    for i, option in enumerate(some := [o for o in options if o is not NoneType]):
        try:
            return _value(tree, option, like, place)
        except ValueError:
            if i == len(some) - 1:
                raise
    raise ValueError(f"{_named(place)} is not None")


def _plain(tree: Any, kind: Any, place: str) -> Any:
    """A value of one of the types that a tree holds as they are."""
    fits = isinstance(tree, kind) and not (isinstance(tree, bool) and kind is not bool)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return _checked(tree, fits, " or ".join(k.__name__ for k in kinds), place)


def _checked(tree: Any, fits: bool, expected: str, place: str) -> Any:
    if not fits:
        raise ValueError(f"{_named(place)} is not {expected}")
    return tree


def _named(place: str) -> str:
    return place.lstrip(".") or "the tree"


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
