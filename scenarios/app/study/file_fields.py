"""Which values of a scenario are names of files: the fields of parts that say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from netsim.part import FILE_NAME
from scenarios.app.study.describe import field_type, members, slot_of, unwrap
from scenarios.app.study.yaml_document import Place


def file_fields(expected: Any, data: Any, place: Place = ()) -> Iterator[Place]:
    """Places in the data of a scenario, read as `expected`, at which the name of a file stands as text.

    expected : the annotation of the value: a part, a slot, a list of them, or a union, of whose words none is a file.
    """
    if data is None:
        return
    base, metadata = unwrap(expected)
    if FILE_NAME in metadata:
        if isinstance(data, str):
            yield place
        return
    slot = slot_of(metadata)
    if slot is not None and isinstance(data, dict):
        kind = data.get("kind")
        base = slot.parts.get(kind) if isinstance(kind, str) else None
    if isinstance(base, type) and issubclass(base, BaseModel) and isinstance(data, dict):
        for name, field in base.model_fields.items():
            yield from file_fields(field_type(field), data.get(name), (*place, name))
    elif get_origin(base) is tuple and isinstance(data, list):
        for i, value in enumerate(data):
            yield from file_fields(get_args(base)[0], value, (*place, i))
    elif len(members(base)) > 1:
        if data in [word for member in members(base) if get_origin(member) is Literal for word in get_args(member)]:
            return
        for member in members(base):
            yield from file_fields(member, data, place)
