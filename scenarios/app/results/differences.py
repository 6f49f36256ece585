"""The keys in which studies differ, as dotted paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.app.study.describe import flow

_NOT_COMPARED = ("seed", "vary")  # what tells runs of one label apart, and what a sweep is made from
MISSING = object()


@dataclass(frozen=True)
class Difference:
    """A dotted path, and the value of each study; MISSING where a study has no such key."""

    path: str
    values: Sequence[Any]

    @property
    def changed(self) -> list[bool]:
        """Which values are not that of the first study."""
        return [value != self.values[0] for value in self.values]

    @property
    def texts(self) -> list[str]:
        """The values for people."""
        return [told(value) for value in self.values]


def told(value: Any) -> str:
    """A value in a line; of a part its kind and what is set of it, of several parts one after another."""
    if value is MISSING or value is None:
        return "none" if value is None else "–"
    if isinstance(value, Mapping):
        kind = [str(value["kind"])] if "kind" in value else []
        inside = ", ".join(f"{k} {told(v)}" for k, v in value.items() if k != "kind" and v is not None)
        return " ".join([*kind, *([f"({inside})"] if inside else [])])
    if isinstance(value, list | tuple):
        sign = "; " if any(isinstance(v, Mapping) for v in value) else ", "
        return sign.join(map(told, value)) or "none"
    return flow(value)


def differences(studies: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """The keys in which resolved studies differ, in the order of the studies.

    A part of another kind, or a list of other parts, is one difference; of equal kinds their keys are compared.
    """
    shared = [{k: v for k, v in study.items() if k not in _NOT_COMPARED} for study in studies]
    return list(_differing("", shared))


def _differing(path: str, values: Sequence[Any]) -> Iterator[Difference]:
    first = values[0]
    if all(value == first for value in values):
        return
    if _kinds(values):
        for key in dict.fromkeys(key for value in values for key in value):
            yield from _differing(f"{path}.{key}" if path else str(key), [v.get(key, MISSING) for v in values])
    elif _lists(values) and all(_kinds(items) for items in zip(*values, strict=True)):
        for k, items in enumerate(zip(*values, strict=True)):
            yield from _differing(f"{path}.{k}", items)
    else:
        yield Difference(path, list(values))


def _kinds(values: Sequence[Any]) -> bool:
    """Whether all are mappings, and parts of one kind."""
    return all(isinstance(v, Mapping) for v in values) and len({str(v.get("kind")) for v in values}) == 1


def _lists(values: Sequence[Any]) -> bool:
    """Whether all are lists of one length."""
    return all(isinstance(v, list) for v in values) and len(set(map(len, values))) == 1
