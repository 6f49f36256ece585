"""What a part, a default or a value says in words, and mistakes in documents, a line each."""

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from netsim.errors import LONGEST, BadInput, join_choices, suggest_nearest
from netsim.part import HELD, OneOf, Part, Section, UnusablePlugin, read_descriptions
from scenarios.app.study import Fields, Value
from scenarios.app.study.yaml_document import Document, Place, get_value_at, has_step, parse_place

Metadata = list[object]
"""what stands beside the type in `Annotated`"""
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
    "gt": "above {}",
    "ge": "at least {}",
    "lt": "below {}",
    "le": "at most {}",
    "multiple_of": "a multiple of {}",
}


def find_unit(name: str) -> str:
    """Return the unit that a key's suffix names, with a space before it; empty when it has none."""
    return next((f" {words}" for suffix, words in UNITS.items() if name.endswith(suffix)), "")


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
    annotation = find_annotation(model, data, place[:-1])
    return find_meant_type(annotation, get_value_at(data, place[:-1]))


def describe_bounds(metadata: Metadata) -> str:
    """Return `> 0 and <= 100`, or empty."""
    limits = [(word, getattr(m, name, None)) for m in metadata for name, word in _BOUNDS.items()]
    return " and ".join(
        word.format(to_flow_yaml(value)) for word, value in limits if value is not None
    )


def describe_type(annotation: object, unit: str = "") -> str:
    """Return what a value must be: `a number above 0`, `a list of 2 numbers`, `a mapping with kind
    a or b`.

    `of` is the unit of its numbers: `a number above 0 (metres)`.
    """
    base, metadata = unwrap_annotation(annotation)
    slot = find_slot(metadata)
    alternatives = list_union_members(base)
    origin = get_origin(base)
    if slot is not None:
        words = f"a mapping with kind {join_choices(list(slot.parts))}"
    elif len(alternatives) > 1:
        words = " or ".join(map(describe_type, alternatives))
    elif origin is Literal:
        words = join_choices(
            [repr(v) if isinstance(v, str) else to_flow_yaml(v) for v in get_args(base)]
        )
    elif origin in (tuple, list, set, frozenset):
        words = _describe_list(get_args(base), metadata)
    elif hasattr(base, "model_fields"):
        words = f"a mapping of {', '.join(base.model_fields)}"
    else:
        words = f"{_SIMPLE.get(origin or base, 'a value')} {describe_bounds(metadata)}".rstrip()
    if unit:
        return f"{words} ({unit.strip()})"
    return words


def _describe_list(args: tuple[object, ...], metadata: Metadata) -> str:
    """Return `a list, each a number`, `a list of 2, each a number`, or `a list of 2: a number,
    text`.
    """
    items = args[:1] if args[-1] is Ellipsis else args
    kinds = list(dict.fromkeys(map(describe_type, items)))
    count = f" of {len(items)}" if len(items) > 1 else ""
    min_length = max((getattr(m, "min_length", None) or 0 for m in metadata), default=0)
    count_text = f" of at least {min_length}" if min_length else count
    if len(kinds) == 1:
        return f"a list{count_text}, each {kinds[0]}"
    return f"a list{count_text}: {', '.join(kinds)}"


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


def describe_keys(part: type[BaseModel]) -> list[tuple[str, str]]:
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

SAYS = {
    "missing": "missing key '{0.key}'{0.about}; add `{0.key}:` with {0.words}",
    "extra_forbidden": "unknown key {0.typed}{0.near_or_stop} keys here: {0.listed}",
    "union_tag_invalid": "unknown kind {0.typed}{0.near_or_stop} kinds here: {0.listed}; or "
    "install its package: pip install -e FOLDER",
    "union_tag_not_found": "needs a 'kind'; one of {0.listed}",
    "bound": "must be {0.bounds}{0.unit}{0.got}",
    "type": "expected {0.words}{0.got}{0.near}",
    "value_error": "{error}",
    "finite_number": "must be finite{0.got}",
    "too_short": "must have at least {min_length} entries{0.got}",
    "too_long": "must have at most {max_length} entries{0.got}",
    "string_too_short": "must have at least {min_length} characters{0.got}",
    "string_too_long": "must have at most {max_length} characters{0.got}",
    "string_pattern_mismatch": "must match {pattern}{0.got}",
}
"""the sentence of each of pydantic's error types, of {0}: a `Mistake`, and of pydantic's own
context"""
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
        self.kind = "type" if self.is_type else "bound" if kind in _OUTSIDE else kind
        self.expected = find_annotation(model, document.data, self.key_place)
        self.owner = find_owner(model, document.data, self.key_place)
        self.key = str(self.key_place[-1]) if self.key_place else ""
        key = next((step for step in reversed(self.key_place) if isinstance(step, str)), "")
        self.unit = find_unit(key)
        self.is_set = not document.find_line(self.place) and not isinstance(self.value, dict | list)

    @property
    def about(self) -> str:
        """What the missing key is, in brackets."""
        text = " ".join(read_descriptions(self.owner).get(self.key, "").split())
        return f" ({text})" if text else ""

    @property
    def words(self) -> str:
        return describe_type(self.expected, self.unit)

    @property
    def bounds(self) -> str:
        stated = describe_bounds(unwrap_annotation(self.expected)[1])
        return stated or describe_bounds([SimpleNamespace(**self.details["ctx"])])

    @property
    def got(self) -> str:
        if self.is_set:
            return ""
        return f", got {quote_value(self.value)}"

    @property
    def word(self) -> Value:
        """The key, kind or value that is not among the choices."""
        if self.kind == "extra_forbidden":
            return self.key
        if self.kind == "union_tag_invalid":
            return self.value["kind"]
        return self.value

    @property
    def typed(self) -> str:
        return quote_value(self.word)

    @cached_property
    def choices(self) -> list[str]:
        """The keys, kinds or words that could stand there."""
        if self.kind == "extra_forbidden":
            return list(self.owner.model_fields)
        if self.kind.startswith("union_tag"):
            slots = [mark for mark in collect_metadata(self.expected) if isinstance(mark, OneOf)]
            return [kind for slot in slots for kind in slot.parts]
        return [word for word in list_literals(self.expected) if isinstance(word, str)]

    @property
    def listed(self) -> str:
        return ", ".join(self.choices)

    @property
    def near(self) -> str:
        if isinstance(self.word, str):
            return suggest_nearest(self.word, self.choices)
        return ""

    @property
    def near_or_stop(self) -> str:
        return self.near or ";"

    def to_line(self) -> tuple[int, str]:
        """Return the line of the file, and what to print."""
        place = self.place
        context = self.details.get("ctx", {})
        kind = "unknown" if self.kind == "type" and self.expected is None else self.kind
        if kind in SAYS:
            text = SAYS[kind].format(self, **context)
        else:
            text = f"{self.details['msg']}, got {quote_value(self.value)}"
        if kind == "value_error":
            text = " ".join(text.splitlines())
            # of a validator that starts with a path below its own place
            path, _, rest = text.partition(": ")
            inner_place = (*place, *parse_place(path))
            if rest and inner_place != place and self.document.holds(inner_place):
                place = inner_place
                text = rest
        if kind == "union_tag_invalid":
            place = (*place, "kind")
        place_text = self.document.format_place(place)
        if kind in ("type", "bound") and self.is_set:
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


def cut_text(text: str) -> str:
    """Return a text of at most 60 characters."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 3]}..."
