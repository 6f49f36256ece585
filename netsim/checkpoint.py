"""Checkpoints: trees of dictionaries, lists, arrays and plain values as one .npz, never pickled,
with their digest.

A run remembers many thousand small arrays, and a member of an .npz costs more than they hold: the
small ones of a type are one member, one after another. No state of random numbers is kept: they
follow from seed and round (`netsim.rng`).
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from netsim.errors import squeeze_text
from netsim.safe import OURS_MOST_BYTES, format_size, open_regular, open_replacement
from netsim.units import ByteArray, Texts

Value = TypeVar("Value")

REBUILT = {"rebuilt": True}
"""Metadata of a field that a tree leaves out: a resumed run builds it again."""


def to_tree(value: object) -> Any:
    """The tree of a value: dataclasses become dictionaries, without their fields marked `REBUILT`.

    A dictionary whose keys are no strings becomes a list of pairs [key, value].
    """
    kind: Any = type(value)
    if (names := _list_stored_fields(kind)) is not None:
        return {name: to_tree(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: to_tree(entry) for key, entry in value.items()}
        return [[to_tree(key), to_tree(entry)] for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [to_tree(entry) for entry in value]
    return value


@cache
def _list_stored_fields(kind: type[object]) -> Texts | None:
    """The fields of a dataclass that a tree has; None for any other type."""
    if is_dataclass(kind):
        return tuple(f.name for f in fields(kind) if not f.metadata.get("rebuilt"))
    return None


def from_tree(tree: object, like: Value) -> Value:
    """The value that `to_tree` made this tree of; it has the type of `like`.

    Where a field is annotated `Any`, its type is that of the same field of `like`; fields marked
    `REBUILT` are those of `like`. A plain dictionary in `like` takes whatever dictionary the tree
    has, as it stands. Arrays have the annotated kind of numbers. All numbers of the fields that the
    class attribute `bounds` of a dataclass names lie from the lower to the upper bound given there.

    Raises
    ------
    ValueError : one line: the place in the tree, and what was expected there.
    """
    return _read_value(tree, type(like), like, "")


def from_tree_as(tree: object, kind: type[Value]) -> Value:
    """As `from_tree`, for a dataclass without fields annotated `Any`."""
    return _read_value(tree, kind, None, "")


def _read_value(tree: object, hint: object, like: object, place: str) -> Any:
    """The value at one place, of the annotated type, or of the type of `like` where there is
    none.
    """
    hint = resolve_alias(type(like) if hint is Any else hint)
    origin = get_origin(hint) or hint
    options = get_args(hint)
    if origin in (Union, UnionType):
        return _read_union(tree, options, like, place)
    if is_dataclass(hint):
        return _read_dataclass(tree, cast(type, hint), like, place)
    if origin is dict and options:
        return _read_dictionary(tree, options, like, place)
    if origin in (list, tuple):
        return _read_sequence(tree, origin, options, place)
    if origin is Literal:
        return _check_leaf(tree, tree in options, f"one of {list(options)}", place)
    if origin is float:
        return float(_read_plain(tree, (int, float), place))
    if origin is np.ndarray:
        return _read_array(tree, options, like, place)
    return _read_plain(tree, origin, place)


def resolve_alias(hint: object) -> Any:
    """The type that an alias of a later Python stands for; `NDArray` is one where numpy is 2.5 or
    newer.
    """
    alias = getattr(get_origin(hint), "__value__", None)
    if alias is None:
        return hint
    return alias[get_args(hint)]


def _read_array(tree: object, options: tuple[object, ...], like: object, place: str) -> Any:
    """An array of the annotated kind of numbers, with as many dimensions as that of `like`."""
    array = _read_plain(tree, np.ndarray, place)
    if isinstance(like, np.ndarray):
        _check_leaf(array, array.ndim == like.ndim, f"an array of {like.ndim} dimensions", place)
    number = get_args(options[1])[0] if options else np.generic
    kind = next(
        (kind for kind in _KINDS if issubclass(get_origin(number) or number, kind)), np.generic
    )
    return _check_leaf(
        array,
        array.dtype.kind in _KINDS.get(kind, array.dtype.kind),
        f"an array of {kind.__name__}",
        place,
    )


_KINDS = {np.bool_: "b", np.integer: "iu", np.floating: "fiu", np.complexfloating: "cfiu"}
"""annotated numbers -> kinds of arrays that hold no more than they"""


def _read_dataclass(tree: object, kind: type, like: object, place: str) -> Any:
    names = _list_stored_fields(kind) or ()
    hints = _hints(kind)
    fits = isinstance(tree, dict) and set(tree) == set(names)
    entries = _check_leaf(tree, fits, f"the fields {sorted(names)}", place)
    values = {f.name: getattr(like, f.name, None) for f in fields(kind)}
    for name in names:
        values[name] = _read_value(entries[name], hints[name], values[name], f"{place}.{name}")
    for name, (low, high) in getattr(kind, "bounds", {}).items():
        value = values[name]
        held = value.values() if isinstance(value, dict) else [value]
        arrays = map(np.asarray, held)
        fits = all(((numbers >= low) & (numbers <= high)).all() for numbers in arrays)
        _check_leaf(tree, fits, f"numbers from {low:g} to {high:g}", f"{place}.{name}")
    return kind(**values)


_hints = cache(get_type_hints)
"""Field -> annotation of a dataclass."""


def _read_dictionary(
    tree: object, options: tuple[object, ...], like: object, place: str
) -> dict[object, object]:
    """A dictionary with annotated keys and values; where values are `Any`, with the keys of
    `like`.
    """
    key_type, value_type = options
    if key_type is not str:
        pairs = tree if tree != {} else []
        fits = isinstance(pairs, list) and all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        )
        kinds = [
            (_read_value(k, key_type, None, place), v)
            for k, v in _check_leaf(pairs, fits, "pairs", place)
        ]
    else:
        kinds = list(_read_plain(tree, dict, place).items())
    like = like if isinstance(like, dict) else {}
    if value_type is Any:
        _check_leaf(tree, [k for k, _ in kinds] == list(like), f"the entries {list(like)}", place)
    return {k: _read_value(v, value_type, like.get(k), f"{place}.{k}") for k, v in kinds}


def _read_sequence(tree: object, origin: type, options: tuple[object, ...], place: str) -> Any:
    entries = _read_plain(tree, list, place)
    if origin is list or options[1:] == (Ellipsis,):
        kinds = [options[0]] * len(entries)
    else:
        kinds = list(options)
    _check_leaf(tree, len(kinds) == len(entries), f"{len(kinds)} entries", place)
    return origin(
        _read_value(entry, kind, None, f"{place}[{i}]")
        for i, (entry, kind) in enumerate(zip(entries, kinds, strict=True))
    )


def _read_union(tree: object, options: tuple[object, ...], like: object, place: str) -> Any:
    """A value that may be None, or one of several types, of which the first that fits counts."""
    if tree is None and NoneType in options:
        return None
    *first, last = (option for option in options if option is not NoneType)
    for option in first:
        with suppress(ValueError):
            return _read_value(tree, option, like, place)
    return _read_value(tree, last, like, place)


def _read_plain(tree: object, kind: Any, place: str) -> Any:
    """A value of one of the types that a tree holds as they are."""
    fits = isinstance(tree, kind) and not (isinstance(tree, bool) and kind is not bool)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return _check_leaf(tree, fits, " or ".join(k.__name__ for k in kinds), place)


def _check_leaf(tree: object, fits: bool, expected: str, place: str) -> Any:
    if not fits:
        raise ValueError(f"{place.lstrip('.') or 'the tree'} is not {expected}")
    return tree


_ARRAY = "__array__"


def save_tree(path: Path, tree: object) -> None:
    """Write a tree whole or not at all. Leaves: arrays, numbers, text, booleans, None."""
    import zipfile

    pieces = list[ByteArray]()
    text = np.frombuffer(json.dumps(_strip_arrays(tree, pieces)).encode(), np.uint8)
    arrays = {"tree": [text], "data": pieces, "digest": [_compute_digest(text, pieces)]}
    with open_replacement(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, parts in arrays.items():  # an .npz, without an array of all pieces
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                header = {"descr": "|u1", "fortran_order": False, "shape": (sum(map(len, parts)),)}
                np.lib.format.write_array_header_1_0(entry, header)
                for part in parts:
                    entry.write(part.data)


def _strip_arrays(node: object, pieces: list[ByteArray]) -> Any:
    """The tree without its arrays, whose bytes are appended to pieces; a closure would keep them,
    as a cycle.
    """
    if isinstance(node, np.ndarray):
        # sums depend on it
        order: Literal["F", "C"] = (
            "F" if node.flags.f_contiguous and not node.flags.c_contiguous else "C"
        )
        pieces.append(node.ravel(order).view(np.uint8))
        return {_ARRAY: [node.dtype.str, node.shape, order]}
    if isinstance(node, dict):
        return {str(k): _strip_arrays(v, pieces) for k, v in node.items()}
    if isinstance(node, list | tuple):
        return [_strip_arrays(v, pieces) for v in node]
    if isinstance(node, np.generic):
        return node.item()
    return node


def load_tree(path: Path) -> Any:
    """The tree that `save_tree` wrote; floats come back to the bit. Raises ValueError if it is
    damaged.
    """
    damaged = ValueError(f"{path}: not a checkpoint, or a damaged one")
    try:
        stored = read_arrays(path)
    except ValueError:
        raise damaged from None
    if set(stored) != {"tree", "data", "digest"}:
        raise damaged
    if not np.array_equal(stored["digest"], _compute_digest(stored["tree"], [stored["data"]])):
        raise damaged
    return _fill_arrays(json.loads(stored["tree"].tobytes()), [stored["data"]])


def _fill_arrays(node: object, rest: list[ByteArray]) -> Any:
    """The tree with its arrays, taken from the bytes that are left."""
    if isinstance(node, list):
        return [_fill_arrays(v, rest) for v in node]
    if not isinstance(node, dict):
        return node
    if set(node) != {_ARRAY}:
        return {k: _fill_arrays(v, rest) for k, v in node.items()}
    kind, shape, order = node[_ARRAY]
    size = prod(shape) * np.dtype(kind).itemsize
    values = rest[0][:size]
    rest[0] = rest[0][size:]
    return values.copy().view(kind).reshape(shape, order=order)


def read_arrays(path: Path, is_ours: bool = True) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz, own: in a folder of ours. Raises ValueError: the file, and why it
    cannot be read.
    """
    import zipfile

    try:
        with open_regular(path, OURS_MOST_BYTES, is_ours) as file:
            with zipfile.ZipFile(file) as archive:  # numpy would take other things for arrays
                if sum(info.file_size for info in archive.infolist()) > OURS_MOST_BYTES:
                    raise ValueError(f"unpacks to more than {format_size(OURS_MOST_BYTES)}")
                names = [Path(name).stem for name in archive.namelist()]
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in names}
        if no_arrays := [
            name for name, array in arrays.items() if not isinstance(array, np.ndarray)
        ]:
            raise ValueError(f"{no_arrays[0][:60]} is no array")
        return arrays
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except (
        Exception
    ) as error:  # what damaged bytes make of zipfile, zlib and numpy has no common type
        raise ValueError(f"{path}: damaged ({squeeze_text(error, 120)})") from None


def _compute_digest(tree: ByteArray, data: list[ByteArray]) -> ByteArray:
    """SHA-256 (32,) of the text of a tree and the bytes of its arrays."""
    digest = hashlib.sha256(tree.tobytes())
    for part in data:
        digest.update(part.data)
    return np.frombuffer(digest.digest(), np.uint8)
