"""A scenario as text, with what every key means beside it: taken from the models, so it is what the program checks.

Comments are the descriptions, types, bounds and units of the fields; a part is introduced by the first sentence of its
class, with the other kinds of its slot.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from netsim.part import OneOf, Part, descriptions
from scenarios.app.study.describe import field_type, flow, in_words, members, slot_of, summary_of, unit, unwrap
from scenarios.app.study.study import Study

WIDTH = 100


def template(values: Mapping[str, Any], left_out: Collection[str] = ()) -> str:
    """YAML of a scenario with these values, key by key below its comment.

    left_out : names of keys that are written as comments, to be taken in by whoever edits the file.
    """
    return "\n".join(_mapping(Study, values, 0, left_out)) + "\n"


def _mapping(model: type[BaseModel], values: Mapping[str, Any], depth: int, left_out: Collection[str]) -> Iterator[str]:
    for key, value in values.items():
        if key == "kind":
            yield f"{_pad(depth)}kind: {value}"
            continue
        field = model.model_fields[key]
        said = " ".join(descriptions(model).get(key, "").split())
        lines = list(_entry(key, field, said, value, depth, left_out))
        yield from ("", *lines) if depth == 0 and isinstance(value, Mapping) else lines


def _entry(key: str, field: FieldInfo, said: str, value: Any, depth: int, left_out: Collection[str]) -> Iterator[str]:
    """A key with its comment above and its value; where it is left out, its value as comments as well."""
    base, metadata = unwrap(field_type(field))
    plain = not isinstance(value, Mapping) and (not isinstance(value, list) or not any(map(_holds_more, value)))
    yield from _comment(f"{said}; {in_words(field_type(field), unit(key))}" if plain and said else said, depth)
    text = [f"{_pad(depth)}{key}: {flow(value)}"] if plain else [f"{_pad(depth)}{key}:"]
    if not plain:
        text += _inner(base, slot_of(metadata), value, depth + 1, left_out)
    yield from (_commented(line, depth) for line in text) if key in left_out else text


def _holds_more(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def _inner(base: Any, slot: OneOf | None, value: Any, depth: int, left_out: Collection[str]) -> Iterator[str]:
    """A part, a list of parts, or a mapping with keys of its own."""
    slot, base = _alternative(base, slot, isinstance(value, list))
    if isinstance(value, list):
        inner, metadata = unwrap(get_args(base)[0])
        for item in value:
            first, *rest = [line for line in _inner(inner, slot_of(metadata), item, 0, left_out)]
            yield from _listed([first, *rest], depth)
    elif slot is not None:
        part = slot.parts[value["kind"]]
        yield from _comment(_part_words(part, slot), depth)
        yield from _mapping(part, value, depth, left_out)
    else:
        yield from _mapping(base, value, depth, left_out)


def _alternative(base: Any, slot: OneOf | None, is_list: bool) -> tuple[OneOf | None, Any]:
    """Of a list or a slot, the one that is written."""
    if slot is not None or len(members(base)) == 1:
        return slot, base
    for member in members(base):
        inner, metadata = unwrap(member)
        if (slot_of(metadata) is None) == is_list:
            return slot_of(metadata), inner
    return slot, base


def _listed(lines: list[str], depth: int) -> Iterator[str]:
    """The lines of an item: a dash before the first one that is no comment."""
    dash = "- "
    for line in lines:
        comment = line.lstrip().startswith("#")
        yield f"{_pad(depth)}{'' if comment and dash == '- ' else dash}{line}"
        dash = dash if comment and dash == "- " else "  "


def _part_words(part: type[Part], slot: OneOf) -> str:
    others = [kind for kind in slot.parts if kind != part.kind_name()]
    more = f" Other kinds: {', '.join(others)} (netsim list {slot.slot})." if others else ""
    return f"{summary_of(part)}{more}"


def _comment(text: str, depth: int) -> Iterator[str]:
    room = WIDTH - 2 * depth - 2
    return (f"{_pad(depth)}# {line}" for line in textwrap.wrap(text, room, break_on_hyphens=False))


def _commented(line: str, depth: int) -> str:
    """A line that is taken in again by taking away its `# `; explanations have a second one."""
    return f"{_pad(depth)}# {line[2 * depth :]}"


def _pad(depth: int) -> str:
    return "  " * depth
