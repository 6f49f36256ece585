"""What may stand in a study: types in plain words, the keys of a part as text, and a schema for editors."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from netsim.part import OneOf, Part, Section, descriptions
from scenarios.app.study import Fields
from scenarios.app.study.yaml_document import value_at

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
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text",
    Path: "a file name",
    dict: "a mapping",
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
        words = f"{_SIMPLE.get(origin or base, 'a value')} {bounds(metadata)}".rstrip()
    return f"{words} ({of.strip()})" if of else words


def _list_in_words(args: tuple[Any, ...], metadata: list[Any]) -> str:
    """`a list, each a number`, `a list of 2, each a number`, or `a list of 2: a number, text`."""
    items = args[:1] if args[-1] is Ellipsis else args
    kinds = list(dict.fromkeys(map(in_words, items)))
    count = f" of {len(items)}" if len(items) > 1 else ""
    least = max((getattr(m, "min_length", None) or 0 for m in metadata), default=0)
    some = f" of at least {least}" if least else count
    return f"a list{some}, each {kinds[0]}" if len(kinds) == 1 else f"a list{some}: {', '.join(kinds)}"


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


def title_of_part(part: type[Part]) -> str:
    """The first paragraph of what a part is."""
    doc = (part.__doc__ or "").strip().split("\n\n")[0]  # not inspect.getdoc, which inherits the base's words
    return re.sub("::$", ".", " ".join(doc.split()))  # the formula that follows is for readers of the code


def keys_of(part: type[Part]) -> list[tuple[str, str]]:
    """Each key of a part with its type, bounds, unit and default, and what it is; then its example and reference."""
    rows, about = [], descriptions(part)
    for name, field in part.model_fields.items():
        value = field.get_default(call_default_factory=True, validated_data={})
        default = "required" if field.is_required() else f"default {flow(value)}"
        rows.append((name, f"{in_words(field_type(field), unit(name))}; {default}\n{about.get(name, '')}".rstrip()))
    rows += [("(example)", flow(part.example) if part.example else ""), ("(reference)", part.reference)]
    return [(name, text) for name, text in rows if text and name != "kind"]


class _Schema(GenerateJsonSchema):
    """What models say of their fields; no titles made from field names, for an editor shows the name anyway."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made, model = super().model_schema(schema), cast("type[BaseModel]", schema["cls"])
        for name, text in descriptions(model).items():
            made["properties"][name] |= {"description": text}
        return made


def json_schema(model: type[BaseModel]) -> Fields:
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
