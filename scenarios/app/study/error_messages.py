"""What pydantic found wrong, as lines that a person can act on: place, problem, value, remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from netsim.errors import BadInput
from netsim.part import Part, UnusablePlugin, descriptions
from scenarios.app.study import Fields
from scenarios.app.study.describe import bounds, field_at, flow, in_words, inside, members, slots_of, unit, unwrap
from scenarios.app.study.yaml_document import Document, Place, place_of, value_at

Model = TypeVar("Model", bound=BaseModel)
LONGEST = 60

SAYS = {
    "missing": "missing key '{0.key}'{0.about}; add `{0.key}:` with {0.words}",
    "extra_forbidden": "unknown key {0.typed}{0.near_or_stop} keys here: {0.listed}",
    "union_tag_invalid": "unknown kind {0.typed}{0.near_or_stop} kinds here: {0.listed}",
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
"""the sentence of each of pydantic's error types, of {0}: a `Mistake`, and of pydantic's own context"""
_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of")
_LIKE_TYPES = ("literal_error", "int_from_float", "none_required")


class Mistake:
    """One complaint of pydantic: where it stands in the document, and what its sentence is made of.

    place : the value that is complained of; of a missing key the mapping that lacks it. at : the same, or that key.
    """

    def __init__(self, details: ErrorDetails, document: Document, model: type[BaseModel]) -> None:
        self.details, self.document, self.value = details, document, details["input"]
        self.place = self.at = _place(details["loc"], document.data)
        kind = details["type"]
        self.is_type = kind.endswith("_type") or kind in _LIKE_TYPES
        if kind == "missing" and isinstance(details["loc"][-1], str):
            self.at = (*self.place, details["loc"][-1])
        elif kind == "missing" or (kind.startswith("union_tag") and not isinstance(self.value, Mapping)):
            self.is_type = True  # a list of fixed length that is too short, or no part at all
        self.kind = "type" if self.is_type else "bound" if kind in _BOUNDS else kind
        self.expected = field_at(model, document.data, self.at)
        self.owner = inside(field_at(model, document.data, self.at[:-1]), document.value(self.at[:-1]))
        self.key = str(self.at[-1]) if self.at else ""
        self.unit = unit(next((step for step in reversed(self.at) if isinstance(step, str)), ""))
        self.is_set = not document.line(self.place) and not isinstance(self.value, dict | list)

    @property
    def about(self) -> str:
        """What the missing key is, in brackets."""
        text = " ".join(descriptions(self.owner).get(self.key, "").split())
        return f" ({text})" if text else ""

    @property
    def words(self) -> str:
        return in_words(self.expected, self.unit)

    @property
    def bounds(self) -> str:
        return bounds(unwrap(self.expected)[1]) or bounds([SimpleNamespace(**self.details["ctx"])])

    @property
    def got(self) -> str:
        return "" if self.is_set else f", got {shown(self.value)}"

    @property
    def word(self) -> Any:
        """The key, kind or value that is not among the choices."""
        if self.kind == "extra_forbidden":
            return self.key
        return self.value["kind"] if self.kind == "union_tag_invalid" else self.value

    @property
    def typed(self) -> str:
        return shown(self.word)

    @cached_property
    def choices(self) -> list[str]:
        """The keys, kinds or words that could stand there."""
        if self.kind == "extra_forbidden":
            return list(self.owner.model_fields)
        if self.kind.startswith("union_tag"):
            return [kind for slot in slots_of(self.expected) for kind in slot.parts]
        literals = (t for t in members(unwrap(self.expected)[0]) if get_origin(t) is Literal)
        return [word for literal in literals for word in get_args(literal) if isinstance(word, str)]

    @property
    def listed(self) -> str:
        return ", ".join(self.choices)

    @property
    def near(self) -> str:
        return nearest(self.word, self.choices) if isinstance(self.word, str) else ""

    @property
    def near_or_stop(self) -> str:
        return self.near or ";"

    def line(self) -> tuple[int, str]:
        """The line of the file, and what to print."""
        place, context = self.place, self.details.get("ctx", {})
        kind = "unknown" if self.kind == "type" and self.expected is None else self.kind
        text = SAYS[kind].format(self, **context) if kind in SAYS else f"{self.details['msg']}, got {shown(self.value)}"
        if kind == "value_error":
            text = " ".join(text.splitlines())
            path, _, rest = text.partition(": ")  # of a validator that starts with a path below its own place
            there = (*place, *place_of(path))
            if rest and there != place and self.document.holds(there):
                place, text = there, rest
        if kind == "union_tag_invalid":
            place = (*place, "kind")
        where = self.document.at(place)
        if kind in ("type", "bound") and self.is_set:
            where = f"{where}={shown(self.value)}"
        return self.document.line(place), f"{where}: {text}"


def _place(loc: Sequence[str | int], data: Any) -> Place:
    """Where in the data an error stands; tags and labels of unions, and keys that are missing, are left out."""
    place: Place = ()
    tagged = None
    for name in loc:
        if isinstance(data, dict) and data.get("kind") == name and tagged != place:
            tagged = place
        elif (isinstance(data, dict) and name in data) or (isinstance(data, list) and name in range(len(data))):
            place, data = (*place, name), data[name]  # type: ignore[index]
    return place


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
    """One line per mistake: `FILE:LINE: place: problem; remedy`, in the order of the file.

    Where a value may be one of several types, pydantic complains once per type; that is one mistake here.
    """
    mistakes = []
    for details in error.errors(include_url=False):
        if isinstance(cause := details.get("ctx", {}).get("error"), UnusablePlugin):
            return list(cause.lines)
        if details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]:
            continue  # long enough: pydantic left out the entries that it has already complained about
        if details["type"] != "default_factory_not_called":  # a default that follows from a value with a mistake
            mistakes.append(Mistake(details, document, model))
    better = {m.place[:n] for m in mistakes for n in range(len(m.place) + (not m.is_type or m.kind == "missing"))}
    lines = {text: at for at, text in (m.line() for m in mistakes if not m.is_type or m.place not in better)}
    return sorted(lines, key=lambda text: lines[text])


def default_of(model: type[BaseModel], data: Any, place: Place) -> Fields:
    """What a mapping that is left out at a place starts from: the part that stands there by default, else nothing."""
    above = value_at(data, place[:-1])
    owner = inside(field_at(model, data, place[:-1]), above)
    field = getattr(owner, "model_fields", {}).get(str(place[-1]))
    if field is None:
        return {}
    default = field.get_default(call_default_factory=True, validated_data=_beside(owner, above))
    if not isinstance(default, Part) or "kind" not in type(default).model_fields:
        return {}
    return {"kind": default.kind_name(), **json.loads(default.model_dump_json(exclude_defaults=True))}


def _beside(model: Any, data: Any) -> Fields:
    """The parts that a mapping names by their kind, with nothing else of them: what a default may depend on."""
    values = data if isinstance(data, dict) else {}
    parts = {name: inside(field_at(model, values, (name,)), value) for name, value in values.items()}
    return {name: part.model_construct() for name, part in parts.items() if hasattr(part, "kind_name")}


def shown(value: Any) -> str:
    """The value as YAML, cut to fit on the line; words stand in quotes."""
    return cut(repr(value) if isinstance(value, str | float) else flow(value))


def cut(text: str) -> str:
    """A text of at most 60 characters."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def nearest(word: str, words: Sequence[str]) -> str:
    """`; did you mean 'x'?` of the word that is most like this one, or nothing."""
    close = get_close_matches(word[:LONGEST].lower().replace(" ", "_"), words, 1, 0.6)
    close += [w for w in words if min(len(word), len(w)) > 2 and (word in w or w in word)]
    return f"; did you mean '{close[0]}'?" if close else ""
