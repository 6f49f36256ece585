"""What a part, a default or a value says in words, and mistakes in documents, a line each."""

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from netsim.errors import BadInput, cut_text, join_choices, suggest_nearest
from netsim.part import HELD, OneOf, Part, Section, UnusablePlugin, read_descriptions
from netsim.texts import read_template
from netsim.units import TextPair
from scenarios.app.study import Fields, Value
from scenarios.app.study.yaml_document import Document, Place, get_value_at, has_step, parse_place

Metadata = list[object]
"""what stands beside the type in `Annotated`"""


@cache
def _read_words() -> Any:
    """Read the macros that say what a value must be, and what is wrong with one."""
    helpers = (
        find_slot,
        get_args,
        get_origin,
        join_choices,
        list_union_members,
        quote_value,
        read_descriptions,
        suggest_nearest,
        to_flow_yaml,
        unwrap_annotation,
    )
    names: Fields = {helper.__name__: helper for helper in helpers}
    names |= {"Literal": Literal, "Ellipsis": Ellipsis, "lists": (tuple, list, set, frozenset)}
    return read_template(__package__, "words.txt").make_module(names)


def find_unit(name: str) -> str:
    """Return the unit that a key's suffix names; empty when it has none."""
    return _read_words().unit(name)


def get_field_type(field: FieldInfo) -> Any:
    """Return the annotation of a field with what pydantic took out of it (bounds, `OneOf`) put
    back.
    """
    if field.metadata:
        return Annotated[field.annotation, *field.metadata]
    return field.annotation


def unwrap_annotation(annotation: object) -> tuple[Any, Metadata]:
    """Return the type under `Annotated` and `| None`, and all metadata on the way."""
    metadata = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *marks = get_args(annotation)
            for mark in marks:
                metadata += mark.metadata if isinstance(mark, FieldInfo) else [mark]
                annotation = mark.part if isinstance(mark, Section) else annotation
            continue
        alternatives = list_union_members(annotation)
        if len(alternatives) != 1 or alternatives[0] is annotation:
            return annotation, metadata
        annotation = alternatives[0]


def list_union_members(annotation: object) -> tuple[Any, ...]:
    """Return the alternatives of a union, but None; the type itself when it is none."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(a for a in get_args(annotation) if a is not type(None))
    return (annotation,)


def collect_metadata(annotation: object) -> Metadata:
    """Return what stands beside a type, then beside the members of a union."""
    base, metadata = unwrap_annotation(annotation)
    for member in list_union_members(base):
        metadata += unwrap_annotation(member)[1]
    return metadata


def list_literals(annotation: object) -> list[object]:
    """Return the values of a literal, or of those in a union."""
    members = list_union_members(unwrap_annotation(annotation)[0])
    return [word for m in members if get_origin(m) is Literal for word in get_args(m)]


def find_slot(metadata: Metadata) -> OneOf | None:
    """Return the slot, when the annotation is one."""
    return next((m for m in metadata if isinstance(m, OneOf)), None)


def find_meant_type(annotation: object, data: Value) -> Any:
    """Return the type that a value was meant as: of a slot the part of its kind, of a union the
    member of its form.
    """
    base, metadata = unwrap_annotation(annotation)
    slot = find_slot(metadata)
    if slot is not None:
        return slot.parts.get(str(slot.find_kind(data)))
    members = list_union_members(base)
    if len(members) < 2:
        return base
    types = [find_meant_type(member, data) for member in members]
    forms = (tuple, list) if isinstance(data, list) else (dict,)
    fits = (
        t
        for t in types
        if get_origin(t) in forms or (isinstance(data, dict) and hasattr(t, "model_fields"))
    )
    return next(fits, None)


def find_annotation(annotation: object, data: Value, place: Sequence[str | int]) -> Any:
    """Return the annotation at a place below one, in a value that was meant as that; None where
    there is none.
    """
    for step in place:
        base = find_meant_type(annotation, data)
        fields = getattr(base, "model_fields", {})
        args = get_args(base)
        if fields:
            annotation = get_field_type(fields[step]) if step in fields else None
        elif get_origin(base) is dict:
            annotation = args[1]
        elif get_origin(base) is tuple and isinstance(step, int):
            item = 0 if args[-1] is Ellipsis else step
            annotation = args[item] if item < len(args) else None
        else:
            return None
        data = get_value_at(data, (step,))
    return annotation


def find_owner(model: type[BaseModel], data: Value, place: Place) -> Any:
    """Return the type that the value which has this place was meant as."""
    return find_meant_type(find_annotation(model, data, place[:-1]), get_value_at(data, place[:-1]))


def describe_type(annotation: object, unit: str = "") -> str:
    """Return what a value must be: `a number above 0`, `a list of 2, each a number`, `a mapping
    with kind a or b`; with the unit of its numbers `a number above 0 (metres)`.
    """
    return _read_words().describe(annotation, unit)


def to_flow_yaml(value: Value) -> str:
    """Return a value as one line of YAML."""
    if isinstance(value, BaseModel):
        kind = {"kind": value.kind} if hasattr(value, "kind") else {}
        value = kind | {name: entry for name, entry in value if name in value.model_fields_set}
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{to_flow_yaml(k)}: {to_flow_yaml(v)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, (tuple, list, set, frozenset)):
        return "[" + ", ".join(map(to_flow_yaml, value)) + "]"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"  # bounds read `> 0` and `<= 1e+09`, not `> 0.0`
    if isinstance(value, str):
        plain = re.fullmatch(r"[^\W\d][\w./+-]*", value) and value.lower() not in (
            "true",
            "false",
            "null",
        )
        return value if plain else repr(value)
    return json.dumps(value, default=str)


def read_part_title(part: type[BaseModel]) -> str:
    """Return the first paragraph of what a part is."""
    # not inspect.getdoc, which inherits the base's words
    doc = (part.__doc__ or "").strip().split("\n\n")[0]
    # the formula that follows is for readers of the code
    return re.sub("::$", ".", " ".join(doc.split()))


def walk_sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the model and every mapping under it that is no slot: dotted path and model, depth
    first.
    """
    yield path, model
    for name, field in model.model_fields.items():
        for inner, mark in find_nested_models(field):
            yield from walk_sections(inner, f"{path}.{name}{mark}".lstrip("."))


def find_nested_models(field: FieldInfo) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield mappings with keys of their own that a field holds, outside of slots; `[]` marks a list
    of them.
    """
    base, metadata = unwrap_annotation(get_field_type(field))
    if find_slot(metadata) is not None:
        return
    for member in list_union_members(base):
        for annotation, mark in (
            (member, ""),
            *((item, "[]") for item in get_args(unwrap_annotation(member)[0])),
        ):
            inner, inner_metadata = unwrap_annotation(annotation)
            if (
                find_slot(inner_metadata) is None
                and isinstance(inner, type)
                and issubclass(inner, BaseModel)
            ):
                yield inner, mark


def describe_keys(part: type[BaseModel]) -> list[TextPair]:
    """Return each key of a part with its type, bounds, unit and default, and what it is; then its
    example and reference.
    """
    rows = []
    about = read_descriptions(part)
    for name, field in part.model_fields.items():
        value = field.get_default(call_default_factory=True, validated_data={})
        default = "required" if field.is_required() else f"default {to_flow_yaml(value)}"
        meaning = describe_type(get_field_type(field), find_unit(name))
        description = about.get(name, "")
        rows.append((name, f"{meaning}; {default}\n{description}".rstrip()))
    if issubclass(part, Part):
        rows += [
            ("(example)", to_flow_yaml(part.example) if part.example else ""),
            ("(reference)", part.reference),
        ]
    return [(name, text) for name, text in rows if text and name != "kind"]


class _Schema(GenerateJsonSchema):
    """What models say of their fields; no titles made from field names, for an editor shows the
    name anyway.
    """

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        model = super().model_schema(schema)
        for name, text in read_descriptions(cast("type[BaseModel]", schema["cls"])).items():
            model["properties"][name] |= {"description": text}
        return model


def build_json_schema(model: type[BaseModel]) -> Fields:
    """Return the JSON schema of a study (draft 2020-12), by which an editor completes and checks
    keys.

    A slot is a `oneOf` with a discriminator; each of its parts has a constant `kind`, which is
    required even though the Python class has a default for it.
    """
    schema = model.model_json_schema(schema_generator=_Schema)
    for definition in schema.get("$defs", {}).values():
        if "const" in definition.get("properties", {}).get("kind", {}):
            definition["properties"]["kind"].pop("default", None)
            definition["required"] = ["kind", *definition.get("required", [])]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": model.__name__,
    } | schema


Model = TypeVar("Model", bound=BaseModel)
_OUTSIDE = ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of")
_LIKE_TYPES = ("literal_error", "int_from_float", "none_required")


class Mistake:
    """One complaint of pydantic: where it stands in the document, and what its sentence is made of.

    place : the value that is complained of; of a missing key the mapping that lacks it. at : the
    same, or that key.
    """

    def __init__(self, details: ErrorDetails, document: Document, model: type[BaseModel]) -> None:
        self.details = details
        self.document = document
        self.value = details["input"]
        loc = details["loc"]
        self.place = self.key_place = _find_place(loc, document.data)
        kind = details["type"]
        self.is_type = kind.endswith("_type") or kind in _LIKE_TYPES
        if kind == "missing" and isinstance(loc[-1], str):
            self.key_place = (*self.place, loc[-1])
        elif kind == "missing" or (
            kind.startswith("union_tag") and not isinstance(self.value, Mapping)
        ):
            self.is_type = True  # a list of fixed length that is too short, or no part at all
        self.expected = find_annotation(model, document.data, self.key_place)
        self.kind = "bound" if kind in _OUTSIDE else kind
        if self.is_type:
            self.kind = "unknown" if self.expected is None else "type"
        self.owner = find_owner(model, document.data, self.key_place)
        self.key = str(self.key_place[-1]) if self.key_place else ""
        self.context = details.get("ctx", {})
        self.is_set = not document.find_line(self.place) and not isinstance(self.value, dict | list)

    @property
    def choices(self) -> list[str]:
        """The keys, kinds or words that could stand there."""
        if self.kind == "extra_forbidden":
            return list(self.owner.model_fields)
        if self.kind.startswith("union_tag"):
            slots = [mark for mark in collect_metadata(self.expected) if isinstance(mark, OneOf)]
            return [kind for slot in slots for kind in slot.parts]
        return [word for word in list_literals(self.expected) if isinstance(word, str)]

    def to_line(self) -> tuple[int, str]:
        """Return the line of the file, and what to print."""
        place = self.place
        text = _read_words().sentence(self)
        if self.kind == "value_error":
            # of a validator that starts with a path below its own place
            path, _, rest = text.partition(": ")
            inner_place = (*place, *parse_place(path))
            if rest and inner_place != place and self.document.holds(inner_place):
                place = inner_place
                text = rest
        if self.kind == "union_tag_invalid":
            place = (*place, "kind")
        place_text = self.document.format_place(place)
        if self.kind in ("type", "bound") and self.is_set:
            place_text = f"{place_text}={quote_value(self.value)}"
        return self.document.find_line(place), f"{place_text}: {text}"


def _find_place(loc: Sequence[str | int], data: Value) -> Place:
    """Return where in the data an error stands; tags and labels of unions, and keys that are
    missing, are left out.
    """
    place: Place = ()
    tagged = None
    for name in loc:
        if isinstance(data, dict) and data.get("kind") == name and tagged != place:
            tagged = place
        elif has_step(data, name):
            place = (*place, name)
            data = data[name]
    return place


def build_model(model: type[Model], document: Document) -> Model:
    """Return the study that a document describes.

    Raises BadInput: one line for each mistake, in the order of the file.
    """
    held: list[Part] = []

    def hold(part: Part) -> Fields:
        held.append(part)
        return {"kind": HELD, "held": len(held) - 1}

    try:
        text = json.dumps(document.data, default=hold)
        return model.model_validate_json(text, strict=True, context=held)
    except ValidationError as error:
        raise BadInput(*explain_mistakes(error, document, model)) from None


def explain_mistakes(
    error: ValidationError, document: Document, model: type[BaseModel]
) -> list[str]:
    """Return one line per mistake: `FILE:LINE: place: problem; remedy`, in the order of the file.

    Where a value may be one of several types, pydantic complains once per type; that is one mistake
    here.
    """
    mistakes = []
    for details in error.errors(include_url=False):
        if isinstance(cause := details.get("ctx", {}).get("error"), UnusablePlugin):
            return list(cause.lines)
        if details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]:
            # long enough: pydantic left out the entries that it has already complained about
            continue
        if (
            details["type"] != "default_factory_not_called"
        ):  # a default that follows from a value with a mistake
            mistakes.append(Mistake(details, document, model))
    better = {
        m.place[:n]
        for m in mistakes
        for n in range(len(m.place) + (not m.is_type or m.kind == "missing"))
    }
    lines = {
        text: number
        for number, text in (
            m.to_line() for m in mistakes if not m.is_type or m.place not in better
        )
    }
    return sorted(lines, key=lambda text: lines[text])


def find_default(model: type[BaseModel], data: Value, place: Place) -> Fields:
    """Return what a mapping that is left out at a place starts from: the part that stands there by
    default, else nothing.
    """
    above = get_value_at(data, place[:-1])
    owner = find_owner(model, data, place)
    field = getattr(owner, "model_fields", {}).get(str(place[-1]))
    if field is None:
        return {}
    default = field.get_default(
        call_default_factory=True, validated_data=_construct_neighbours(owner, above)
    )
    if not isinstance(default, Part) or "kind" not in type(default).model_fields:
        return {}
    return {
        "kind": default.kind_name(),
        **json.loads(default.model_dump_json(exclude_defaults=True)),
    }


def _construct_neighbours(model: object, data: Value) -> Fields:
    """Return the parts that a mapping names by their kind, with nothing else of them: what a
    default may depend on.
    """
    values = data if isinstance(data, dict) else {}
    parts = {
        name: find_meant_type(find_annotation(model, values, (name,)), value)
        for name, value in values.items()
    }
    return {
        name: part.model_construct() for name, part in parts.items() if hasattr(part, "kind_name")
    }


def quote_value(value: Value) -> str:
    """Return the value as YAML, cut to fit on the line; words stand in quotes."""
    if isinstance(value, str | float):
        return cut_text(repr(value))
    return cut_text(to_flow_yaml(value))
