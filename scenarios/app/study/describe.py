"""What may stand in a study: types in plain words, the parts of a slot as text, and a schema for editors."""

from __future__ import annotations

import json
import re
import textwrap
import types
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from netsim.part import OneOf, Part, Section, descriptions
from scenarios.app.study.yaml_document import value_at

WIDTH = 100
UNITS = {  # suffix -> words; the longer suffix first, so that `speed_m_s` is not taken for seconds
    "_per_m": "per metre",
    "_per_s": "per second",
    "_per_j": "per joule",
    "_m_s": "metres per second",
    "_percent": "percent",
    "_bits": "bits",
    "_bps": "bits per second",
    "_dbm": "dBm",
    "_dbi": "dBi",
    "_rad": "radians",
    "_db": "dB",
    "_per_hz": "bit/s/Hz",
    "_hz": "hertz",
    "_m": "metres",
    "_s": "seconds",
    "_w": "watts",
    "_j": "joules",
}
_SIMPLE = {
    float: ("a number", "numbers"),
    int: ("a whole number", "whole numbers"),
    bool: ("true or false", "truth values"),
    str: ("text", "texts"),
    Path: ("a file name", "file names"),
    dict: ("a mapping", "mappings"),
}
_BOUNDS = {
    "gt": "above {}", "ge": "at least {}", "lt": "below {}", "le": "at most {}", "multiple_of": "a multiple of {}",
}  # fmt: skip


def unit(name: str) -> str:
    """The unit that a key's suffix names, with a space before it; empty when it has none."""
    return next((f" {words}" for suffix, words in UNITS.items() if name.endswith(suffix)), "")


def field_type(field: FieldInfo) -> Any:
    """The annotation of a field with what pydantic took out of it (bounds, `OneOf`) put back."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """The type under `Annotated` and `| None`, and all metadata on the way."""
    metadata: list[Any] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += [m for x in more for m in (x.metadata if isinstance(x, FieldInfo) else [x])]
            section = next((m for m in more if isinstance(m, Section)), None)
            annotation = annotation if section is None else section.part
            continue
        some = [a for a in members(annotation) if a is not type(None)]
        if len(some) != 1 or some[0] is annotation:
            return annotation, metadata
        annotation = some[0]


def members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union; the type itself when it is none."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def slot_of(metadata: list[Any]) -> OneOf | None:
    """The slot, when the annotation is one."""
    return next((m for m in metadata if isinstance(m, OneOf)), None)


def slots_of(annotation: Any) -> list[OneOf]:
    """The slots whose parts may stand where this is expected: of a union, those of all its members."""
    base, metadata = unwrap(annotation)
    found = [slot_of(metadata), *(slot_of(unwrap(member)[1]) for member in members(base))]
    return [slot for slot in found if slot is not None]


def inside(annotation: Any, data: Any) -> Any:
    """The type that a value was meant as: of a slot the part of its kind, of a union the member of its form."""
    base, metadata = unwrap(annotation)
    slot = slot_of(metadata)
    if slot is not None:
        kind = slot.kind_of(data)
        return slot.parts.get(kind) if isinstance(kind, str) else None
    if len(members(base)) < 2:
        return base
    found = [inside(member, data) for member in members(base)]
    forms = (tuple, list) if isinstance(data, list) else (dict,)
    fits = (t for t in found if get_origin(t) in forms or (isinstance(data, dict) and hasattr(t, "model_fields")))
    return next(fits, None)


def field_at(annotation: Any, data: Any, place: Sequence[str | int]) -> Any:
    """The annotation at a place below one, in a value that was meant as that; None where there is none."""
    for step in place:
        base = inside(annotation, data)
        fields, args = getattr(base, "model_fields", {}), get_args(base)
        if fields:
            annotation = field_type(fields[step]) if step in fields else None
        elif get_origin(base) is dict:
            annotation = args[1]
        elif get_origin(base) is tuple and isinstance(step, int):
            item = 0 if args[-1] is Ellipsis else step
            annotation = args[item] if item < len(args) else None
        else:
            return None
        data = value_at(data, (step,))
    return annotation


def choice(options: list[str]) -> str:
    """`a, b or c`."""
    return " or ".join([", ".join(options[:-1]), options[-1]] if len(options) > 1 else options)


def bounds(metadata: list[Any]) -> str:
    """`> 0 and <= 100`, or empty."""
    limits = [(word, getattr(m, name, None)) for m in metadata for name, word in _BOUNDS.items()]
    return " and ".join(word.format(flow(value)) for word, value in limits if value is not None)


def in_words(annotation: Any, of: str = "") -> str:
    """What a value must be: `a number above 0`, `a list of 2 numbers`, `a mapping with kind a or b`.

    `of` is the unit of its numbers: `a number above 0 (metres)`.
    """
    base, metadata = unwrap(annotation)
    slot, some, origin = slot_of(metadata), [a for a in members(base) if a is not type(None)], get_origin(base)
    if slot is not None:
        words = f"a mapping with kind {choice(list(slot.parts))}"
    elif len(some) > 1:
        words = " or ".join(map(in_words, some))
    elif origin is Literal:
        words = choice([repr(v) if isinstance(v, str) else flow(v) for v in get_args(base)])
    elif origin in (tuple, list, set, frozenset):
        words = _list_in_words(get_args(base), metadata)
    elif hasattr(base, "model_fields"):
        words = f"a mapping of {', '.join(base.model_fields)}"
    else:
        words = f"{_SIMPLE.get(origin or base, ('a value',))[0]} {bounds(metadata)}".rstrip()
    return f"{words} ({of.strip()})" if of else words


def _list_in_words(args: tuple[Any, ...], metadata: list[Any]) -> str:
    items = args[:1] if args[-1] is Ellipsis else args
    count = f"{len(items)} " if len(items) > 1 else ""
    if len(set(map(in_words, items))) > 1:
        return f"a list of {count.strip()}: {', '.join(map(in_words, items))}"
    base, inner = unwrap(items[0])
    each = f"{_SIMPLE[base][1]} {bounds(inner)}" if base in _SIMPLE else f"entries, each {in_words(items[0])}"
    least = max((getattr(m, "min_length", None) or 0 for m in metadata), default=0)
    return f"a list of {count}{each}".rstrip() + (f", at least {least}" if least else "")


def flow(value: Any) -> str:
    """A value as one line of YAML."""
    if isinstance(value, BaseModel):
        kind = {"kind": value.kind} if hasattr(value, "kind") else {}
        given = [name for name in type(value).model_fields if name in value.model_fields_set]  # a set has no order
        value = kind | {name: getattr(value, name) for name in given}
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (tuple, list, set, frozenset)):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"  # bounds read `> 0` and `<= 1e+09`, not `> 0.0`
    if isinstance(value, str):
        plain = re.fullmatch(r"[^\W\d][\w./+-]*", value) and value.lower() not in ("true", "false", "null")
        return value if plain else repr(value)
    return json.dumps(value, default=str)


def list_slots(slots: Mapping[str, OneOf]) -> str:
    """One line for each slot: its name and its kinds."""
    return _table({name: ", ".join(slot.parts) for name, slot in slots.items()}, 2)


def list_titles(titles: Mapping[str, str]) -> str:
    """One entry for each scenario: its name and what it shows."""
    return _table({f"  {name}": title for name, title in titles.items()}, 2)


def list_slot(slot: str, one_of: OneOf) -> str:
    """All parts of a slot: what each is, its parameters, the smallest example, and where it comes from."""
    parts = one_of.parts
    return "\n\n".join([f"{slot}: {len(parts)} kinds", *(_part(k, p) for k, p in parts.items())])


def list_kind(kind: str, slots: Mapping[str, OneOf]) -> str:
    """The parts of this kind, under each slot that has one: its parameters, example and source."""
    found = {slot: one_of.parts[kind] for slot, one_of in slots.items() if kind in one_of.parts}
    return "\n\n".join(f"slot {slot}\n\n{_part(kind, part)}" for slot, part in found.items())


def summary_of(part: type[Part]) -> str:
    """The first paragraph of what a part is."""
    doc = (part.__doc__ or "").strip().split("\n\n")[0]  # not inspect.getdoc, which inherits the base's words
    return re.sub("::$", ".", " ".join(doc.split()))  # the formula that follows is for readers of the code


def _part(kind: str, part: type[Part]) -> str:
    """A title, then for each parameter its type with bounds, unit and default, and what it is on a line of its own."""
    rows, about = {}, descriptions(part)
    for name, field in part.model_fields.items():
        value = field.get_default(call_default_factory=True, validated_data={})
        default = "required" if field.is_required() else f"default {flow(value)}"
        rows[f"  {name}"] = f"{in_words(field_type(field), unit(name))}; {default}\n{about.get(name, '')}"
    rows |= {"  (example)": flow(part.example) if part.example else "", "  (reference)": part.reference}
    rows.pop("  kind", None)
    title = textwrap.fill(": ".join(filter(None, (kind, summary_of(part)))), WIDTH, subsequent_indent="  ")
    return "\n".join(filter(None, (title, _table({name: text for name, text in rows.items() if text}, 2))))


def _table(rows: Mapping[str, str], apart: int) -> str:
    """Names and texts in two columns, each line of a text wrapped beside its name."""
    left = max(map(len, rows), default=0) + apart
    lines = []
    for name, text in rows.items():
        wrapped = [row for line in text.splitlines() for row in textwrap.wrap(line, max(WIDTH - left, 20))] or [""]
        lines += [f"{head:<{left}}{row}".rstrip() for head, row in zip_longest([name], wrapped, fillvalue="")]
    return "\n".join(lines)


class _Schema(GenerateJsonSchema):
    """What models say of their fields; no titles made from field names, for an editor shows the name anyway."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made, model = super().model_schema(schema), cast("type[BaseModel]", schema["cls"])
        for name, text in descriptions(model).items():
            made["properties"][name] |= {"description": text}
        return made


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a study (draft 2020-12), by which an editor completes and checks keys.

    A slot is a `oneOf` with a discriminator; each of its parts has a constant `kind`, which is required even
    though the Python class has a default for it.
    """
    schema = model.model_json_schema(schema_generator=_Schema)
    for definition in schema.get("$defs", {}).values():
        if "const" in definition.get("properties", {}).get("kind", {}):
            definition["properties"]["kind"].pop("default", None)
            definition["required"] = ["kind", *definition.get("required", [])]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": model.__name__} | schema
