"""What pydantic found wrong, as lines that a person can act on: place, value, bound, remedy."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from netsim.errors import BadInput
from netsim.part import Part, UnusablePlugin, descriptions
from scenarios.app.study.describe import bounds, field_type, flow, in_words, members, slot_of, unit, unwrap
from scenarios.app.study.yaml_document import Document, Place, one_line

Model = TypeVar("Model", bound=BaseModel)
LONGEST = 60


@dataclass(frozen=True)
class Spot:
    """Where an error stands: in the file (`place`) and in the model (what is expected there)."""

    place: Place = ()
    expected: Any = None
    """the annotation at this place; None where the model knows nothing of it"""
    owner: Any = None
    """the annotation one step above"""
    union: Spot | None = None
    """the innermost union on the way whose alternatives pydantic tried one by one"""

    def step(self, name: str | int) -> Spot:
        """One element of pydantic's path; tags and labels of unions are not part of the place."""
        base, metadata = unwrap(self.expected)
        slot = slot_of(metadata)
        if slot is not None and name in slot.parts:
            return replace(self, expected=slot.parts[str(name)])
        if len(members(base)) > 1:
            return replace(self, expected=_member(base, str(name)), union=self)
        if name == "[key]":
            return self
        return Spot((*self.place, name), _inside(base, name), self.expected, self.union)

    def unions(self) -> Iterator[Spot]:
        """All unions on the way here, innermost first."""
        if self.union is not None:
            yield self.union
            yield from self.union.unions()

    @property
    def unit(self) -> str:
        """The unit of the nearest key, as `listing.unit` writes it."""
        return unit(next((p for p in reversed(self.place) if isinstance(p, str)), ""))


def _member(union: Any, label: str) -> Any:
    """The alternative that pydantic's label (`float`, `tuple[float, ...]`, `tagged-union[A,B]`) means."""
    word = label.split("[")[0].removeprefix("constrained-")
    for annotation in members(union):
        base, metadata = unwrap(annotation)
        name = getattr(get_origin(base) or base, "__name__", "").lower()
        if word == "tagged-union" if slot_of(metadata) else word.lower() == name:
            return annotation
    return None


def _inside(base: Any, name: str | int) -> Any:
    """What is expected under a key or index of a model, list or mapping; None when unknown."""
    args = get_args(base)
    if isinstance(base, type) and issubclass(base, BaseModel):
        field = base.model_fields.get(str(name))
        return None if field is None else field_type(field)
    if get_origin(base) is dict:
        return args[1]
    if get_origin(base) is tuple and isinstance(name, int) and args[-1] is not Ellipsis:
        return args[name] if name < len(args) else None
    return args[0] if args and isinstance(name, int) else None


def default_of(model: type[BaseModel], data: Any, place: Place) -> dict[str, Any]:
    """What a mapping that is left out at a place starts from: the part that stands there by default, else nothing."""
    expected: Any = model
    default: Any = None
    for name in place:
        base, metadata = unwrap(expected)
        slot = slot_of(metadata)
        if slot is not None:
            base = slot.parts.get(str(data.get("kind")) if isinstance(data, dict) else "")
        field = getattr(base, "model_fields", {}).get(str(name))
        default = (
            None if field is None else field.get_default(call_default_factory=True, validated_data=_beside(base, data))
        )
        expected = _inside(base, name)
        held = (isinstance(data, dict) and name in data) or (isinstance(data, list) and isinstance(name, int))
        data = data[name] if held else None
    if not isinstance(default, Part) or "kind" not in type(default).model_fields:
        return {}
    said: dict[str, Any] = json.loads(default.model_dump_json(exclude_defaults=True))
    return {"kind": default.kind_name()} | said


def _beside(model: Any, data: Any) -> dict[str, Any]:
    """The parts that a mapping names by their kind, with nothing else of them: what a default may depend on."""
    parts = {}
    for name, field in getattr(model, "model_fields", {}).items():
        value = data.get(name) if isinstance(data, dict) else None
        slot = slot_of(unwrap(field_type(field))[1])
        part = slot.parts.get(str(value.get("kind"))) if slot is not None and isinstance(value, dict) else None
        if part is not None:
            parts[name] = part.model_construct()
    return parts


def build(model: type[Model], document: Document) -> Model:
    """The study that a document describes.

    Raises
    ------
    BadInput : one line for each mistake, in the order of the file.
    """
    try:
        return model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        raise BadInput(*explain(error, document, model)) from None


def explain(error: ValidationError, document: Document, model: type[BaseModel]) -> list[str]:
    """One line for each mistake: `FILE:LINE: place: what is wrong; remedy`, in the order of the file.

    Where a value may be one of several types, pydantic complains once per type; that is one mistake here.
    """
    errors = []
    for details in error.errors(include_url=False):
        if details["type"] == "default_factory_not_called":
            continue  # a default that follows from a value of which pydantic has already complained
        if isinstance(cause := details.get("ctx", {}).get("error"), UnusablePlugin):
            return list(cause.lines)
        spot = Spot(expected=model)
        for name in details["loc"]:
            spot = spot.step(name)
        errors.append((spot, details))
    lines = {}
    for spot, details in _without_vain_tries(errors):
        place, text = _describe(spot, details)
        if details["type"] == "value_error":
            place, text = _narrowed(place, text, document)
        lines[one_line(f"{document.at(place)}: {text}")] = document.line(place)
    return sorted(lines, key=lambda line: lines[line])


def _narrowed(place: Place, text: str, document: Document) -> tuple[Place, str]:
    """A validator may start with a path below its own place (`data.cell: ...`): point at that line."""
    path, _, rest = text.partition(": ")
    below = tuple(int(i) if i else key for key, i in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path))
    there = (*place, *below)
    return (there, rest) if rest and below and document.holds(there) else (place, text)


Errors = list[tuple[Spot, ErrorDetails]]


def _without_vain_tries(errors: Errors) -> Errors:
    """Of a union keep the errors of the alternative that was meant; if none was, one error for all of it."""
    kept: Errors = []
    meant = {u.place for s, d in errors for u in s.unions() if u.place != s.place or not _is_type(d)}
    for spot, details in errors:
        if details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]:
            continue  # long enough: pydantic left out the entries that it has already complained about
        if spot.union is None or spot.place != spot.union.place or not _is_type(details):
            kept.append((spot, details))
        elif spot.place not in meant:
            kept.append((spot.union, details))
    return kept


def _is_type(details: ErrorDetails) -> bool:
    """Whether the value is of a wrong type altogether."""
    kind = details["type"]
    return kind.endswith("_type") or kind in ("literal_error", "int_from_float", "none_required")


def _describe(spot: Spot, details: ErrorDetails) -> tuple[Place, str]:
    """The place to point at, and what to say."""
    kind, value = details["type"], details["input"]
    if kind in _SAY:
        return _SAY[kind](spot, value)
    if (name := _renamed_value(spot, value)) is not None:
        return spot.place, f"{value} is renamed to {name}; write {name}"
    if _is_type(details) and spot.expected is not None:
        return spot.place, _expected(spot.expected, value, spot.unit)
    got = f"got {_got(value)}"
    context = details.get("ctx", {})
    if kind in _BOUNDS:
        bound = bounds(unwrap(spot.expected)[1]) or _BOUNDS[kind].format(**context)
        return spot.place, f"must be {bound}{spot.unit}, {got}"
    if kind in ("value_error", "assertion_error"):  # our own validators speak for themselves
        return spot.place, " ".join(str(context["error"]).splitlines())
    ours = _PLAIN.get(kind, details["msg"][:1].lower() + details["msg"][1:])
    return spot.place, f"{ours.format(**context) if kind in _PLAIN else ours}, {got}"


_BOUNDS = {
    "greater_than": "> {gt}",
    "greater_than_equal": ">= {ge}",
    "less_than": "< {lt}",
    "less_than_equal": "<= {le}",
    "multiple_of": "a multiple of {multiple_of}",
}
_PLAIN = {
    "finite_number": "must be finite",
    "too_short": "must have >= {min_length} entries",
    "too_long": "must have <= {max_length} entries",
    "string_too_short": "must have >= {min_length} characters",
    "string_too_long": "must have <= {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
}


def _unknown_key(spot: Spot, value: Any) -> tuple[Place, str]:
    base = unwrap(spot.owner)[0]
    keys = list(getattr(base, "model_fields", {}))
    key = str(spot.place[-1])
    if (name := _renamed(base, key)) is not None:
        return spot.place, f"{key} is renamed to {name}; write {name}"
    return spot.place, f"unknown key {_shown(key)}{nearest(key, keys) or ';'} keys here: {', '.join(keys)}"


def _renamed_value(spot: Spot, value: Any) -> str | None:
    """The word that took the place of this one at this key, if any did."""
    if not spot.place or not isinstance(value, str):
        return None
    return _renamed(unwrap(spot.owner)[0], f"{spot.place[-1]}: {value}")


def _renamed(model: Any, old: str) -> str | None:
    """The new name of what a model, or one that it derives from, calls otherwise now."""
    tables = [vars(c).get("renamed", {}) for c in getattr(model, "__mro__", ()) if issubclass(c, Part)]
    return next((table[old] for table in tables if old in table), None)


def _missing(spot: Spot, value: Any) -> tuple[Place, str]:
    above, key = spot.place[:-1], spot.place[-1]
    if isinstance(key, int):  # a list of fixed length that is too short
        return above, _expected(spot.owner, value, spot.unit)
    said = descriptions(unwrap(spot.owner)[0]).get(str(key), "") if spot.expected is not None else ""
    what = f" ({' '.join(said.split())})" if said else ""
    return above, f"missing key '{key}'{what}; add `{key}:` with {in_words(spot.expected, spot.unit)}"


def _kind(spot: Spot, value: Any) -> tuple[Place, str]:
    slot = slot_of(unwrap(spot.expected)[1])
    kinds = list(slot.parts) if slot else []
    if not isinstance(value, Mapping):
        return spot.place, _expected(spot.expected, value, spot.unit)
    if "kind" not in value:
        return spot.place, f"needs a 'kind'; one of {', '.join(kinds)}"
    kind = value["kind"]
    hint = isinstance(kind, str) and nearest(kind, kinds)
    return (*spot.place, "kind"), f"unknown kind {_shown(kind)}{hint or ';'} kinds here: {', '.join(kinds)}"


_SAY: dict[str, Callable[[Spot, Any], tuple[Place, str]]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "union_tag_invalid": _kind,
    "union_tag_not_found": _kind,
}


def _expected(annotation: Any, value: Any, of: str) -> str:
    remedy = _remedy(annotation, value)
    return f"expected {in_words(annotation, of)}, got {_got(value)}" + (f"; {remedy}" if remedy else "")


def _remedy(annotation: Any, value: Any) -> str:
    """What the writer probably meant; empty when nobody can tell."""
    base, metadata = unwrap(annotation)
    slot, types = slot_of(metadata), [unwrap(a)[0] for a in members(base)]
    entries = [get_args(t)[0] for t in types if get_origin(t) is tuple and get_args(t)[-1] is Ellipsis]
    if slot is not None:
        return f"write {{kind: {value}}}" if isinstance(value, str) and value in slot.parts else ""
    if any(_fits(entry, value) for entry in entries):
        return f"write [{_cut(flow(value))}]"
    if isinstance(value, str):
        number = _number(value)
        return "" if number is not None and not _allowed(metadata, number) else _remedy_for_word(types, value)
    if int in types and isinstance(value, float) and value.is_integer():
        if not _allowed(metadata, value):
            return ""
        return f"write {value:.0f}" if abs(value) < 2**53 else "write a whole number"
    return f"write '{flow(value)}' with quotes" if str in types and type(value) in (int, float) else ""


def _number(text: str) -> float | None:
    """The number that a text is, if it is one as it stands."""
    try:
        return float(text)
    except ValueError:
        return None


def _allowed(metadata: list[Any], value: float) -> bool:
    """Whether a number keeps the bounds of a field."""
    tests = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
    bound = ((test, getattr(m, name, None)) for m in metadata for name, test in tests.items())
    return all(test(value, limit) for test, limit in bound if limit is not None)


def _fits(annotation: Any, value: Any) -> bool:
    """Roughly: whether a value would do as an entry of a list."""
    if isinstance(value, dict):
        return in_words(annotation).startswith("a mapping")
    base = unwrap(annotation)[0]
    return type(value) is base or (base is float and type(value) is int)


def _remedy_for_word(types: list[Any], value: str) -> str:
    switch = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
    if bool in types and value.lower() in switch:
        return f"write {switch[value.lower()]}"
    if {int, float} & set(types) and (number := _NUMBER.fullmatch(value)):
        return "write the number alone" if number[1] else "write it without quotes, commas or _"
    words = [w for t in types if get_origin(t) is Literal for w in get_args(t) if isinstance(w, str)]
    return nearest(value, words).removeprefix("; ")


_NUMBER = re.compile(r"[-+]?\d[\d_.,]*(?:[eE][-+]?\d+)?\s*([A-Za-z%][\w/%]*)?")


def _got(value: Any) -> str:
    """The value with its YAML type."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, str):
        return f"the {'word' if re.fullmatch(r'[A-Za-z][!-~]*', value) else 'text'} {_shown(value)}"
    names = {bool: "the truth value", int: "the number", float: "the number", list: "the list"}
    return f"{names.get(type(value), 'the mapping')} {_shown(value)}"


def _shown(value: Any) -> str:
    """The value as YAML, cut to fit on the line; a float keeps its point."""
    return _cut(repr(value) if type(value) in (str, float) else flow(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def nearest(word: str, words: list[str]) -> str:
    """`; did you mean 'x'?` or nothing."""
    close = get_close_matches(word[:LONGEST].lower().replace(" ", "_"), words, 1, 0.6)
    close = close or [w for w in words if min(len(word), len(w)) > 2 and (word in w or w in word)]
    return f"; did you mean '{close[0]}'?" if close else ""
