"""What pydantic found wrong, as lines that a person can act on: place, problem, value, remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from netsim.errors import BadInput
from netsim.part import Part, UnusablePlugin, descriptions
from scenarios.app.study.describe import bounds, field_at, flow, in_words, inside, members, slots_of, unit, unwrap
from scenarios.app.study.yaml_document import Document, Place, one_line, plain, value_at

Model = TypeVar("Model", bound=BaseModel)
LONGEST = 60

SAYS = {
    "missing": "missing key '{0.key}'{0.about}; add `{0.key}:` with {0.words}",
    "extra_forbidden": "unknown key {0.shown_key}{0.near_key} keys here: {0.keys}",
    "union_tag_invalid": "unknown kind {0.shown_kind}{0.near_kind} kinds here: {0.kinds}",
    "union_tag_not_found": "needs a 'kind'; one of {0.kinds}",
    "bound": "must be {0.bounds}{0.unit}{0.got}",
    "type": "expected {0.words}{0.got}{0.remedy}",
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
_SWITCH = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


class Mistake:
    """One complaint of pydantic: where it stands in the document, and what its sentence is made of."""

    def __init__(self, details: ErrorDetails, document: Document, model: type[BaseModel]) -> None:
        self.details, self.document, self.model, self.value = details, document, model, details["input"]
        self.place = _place(details["loc"], document.data)
        kind = details["type"]
        self.is_type = kind.endswith("_type") or kind in _LIKE_TYPES
        if kind == "missing":
            self.missing = details["loc"][-1]
            self.is_type = isinstance(self.missing, int)  # a list of fixed length that is too short
        if kind.startswith("union_tag") and not isinstance(self.value, Mapping):
            self.is_type = True
        self.kind = "type" if self.is_type else "bound" if kind in _BOUNDS else kind

    @cached_property
    def expected(self) -> Any:
        """The annotation at the place, or of the key that is missing there; None where the model has none."""
        place = self.place if self.kind != "missing" else (*self.place, self.missing)
        return field_at(self.model, self.document.data, place)

    @property
    def owner(self) -> Any:
        """The model whose keys are meant."""
        above = self.place if self.kind == "missing" else self.place[:-1]
        return inside(field_at(self.model, self.document.data, above), self.document.value(above))

    @property
    def key(self) -> str:
        """The key that is missing, or the last one on the way."""
        return str(self.missing if self.kind == "missing" else self.place[-1] if self.place else "")

    @property
    def about(self) -> str:
        """What the missing key is, in brackets."""
        text = " ".join(descriptions(self.owner).get(self.key, "").split())
        return f" ({text})" if text else ""

    @property
    def words(self) -> str:
        return in_words(self.expected, self.unit)

    @property
    def unit(self) -> str:
        steps = (*self.place, self.missing) if self.kind == "missing" else self.place
        return unit(next((step for step in reversed(steps) if isinstance(step, str)), ""))

    @property
    def bounds(self) -> str:
        return bounds(unwrap(self.expected)[1]) or bounds([SimpleNamespace(**self.details["ctx"])])

    @property
    def shown_key(self) -> str:
        return shown(self.key)

    @property
    def keys(self) -> str:
        return ", ".join(self.owner.model_fields)

    @property
    def near_key(self) -> str:
        return nearest(self.key, list(self.owner.model_fields)) or ";"

    @cached_property
    def _slot_kinds(self) -> list[str]:
        return [kind for slot in slots_of(self.expected) for kind in slot.parts]

    @property
    def kinds(self) -> str:
        return ", ".join(self._slot_kinds)

    @property
    def shown_kind(self) -> str:
        return shown(self.value["kind"])

    @property
    def near_kind(self) -> str:
        kind = self.value["kind"]
        return (nearest(kind, self._slot_kinds) if isinstance(kind, str) else "") or ";"

    @property
    def is_set(self) -> bool:
        """Whether a single value was set from outside, so that the line starts with it."""
        return not self.document.line(self.place) and self.kind in SAYS and not isinstance(self.value, dict | list)

    @property
    def got(self) -> str:
        return "" if self.is_set else f", got {shown(self.value)}"

    @property
    def remedy(self) -> str:
        """The first value that would do, of those that the writer may have meant; empty where none does."""
        for meant in _meant(self.expected, self.value):
            try:
                TypeAdapter(self.expected).validate_json(json.dumps(meant), strict=True)
            except ValueError:
                continue
            if isinstance(meant, str):
                return f"; did you mean '{meant}'?" if isinstance(self.value, str) else f"; write '{meant}' with quotes"
            return f"; write {cut(flow(meant))}"
        return ""

    def line(self) -> tuple[int, str]:
        """The line of the file, and what to print."""
        place, context = self.place, self.details.get("ctx", {})
        if self.kind == "type" and self.expected is None:
            self.kind = "unknown"
        says = SAYS.get(self.kind)
        text = says.format(self, **context) if says else f"{self.details['msg']}{self.got}"
        if self.kind == "value_error":
            text = " ".join(text.splitlines())
            path, _, rest = text.partition(": ")  # of a validator that starts with a path below its own place
            there = (*place, *(int(i) if i else key for key, i in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)))
            if rest and there != place and self.document.holds(there):
                place, text = there, rest
        if self.kind == "union_tag_invalid":
            place = (*place, "kind")
        where = self.document.at(place)
        if self.kind in ("type", "bound") and self.is_set:
            where = f"{where}={shown(self.value)}"
        return self.document.line(place), one_line(f"{where}: {text}")


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


def default_of(model: type[BaseModel], data: Any, place: Place) -> dict[str, Any]:
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


def _beside(model: Any, data: Any) -> dict[str, Any]:
    """The parts that a mapping names by their kind, with nothing else of them: what a default may depend on."""
    values = data if isinstance(data, dict) else {}
    parts = {name: inside(field_at(model, values, (name,)), value) for name, value in values.items()}
    return {name: part.model_construct() for name, part in parts.items() if hasattr(part, "kind_name")}


def _meant(annotation: Any, value: Any) -> Iterator[Any]:
    """What a writer of this value may have meant."""
    yield from ([value], {"kind": value})
    if isinstance(value, str):
        yield plain(value.split()[0] if value.split() else "")
        yield from (switch for word, switch in _SWITCH.items() if word == value.lower())
        words = [w for t in members(unwrap(annotation)[0]) if get_origin(t) is Literal for w in get_args(t)]
        yield from _close(value, [word for word in words if isinstance(word, str)])
    elif isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        yield int(value)
    elif type(value) in (int, float):
        yield flow(value)


def shown(value: Any) -> str:
    """The value as YAML, cut to fit on the line; words stand in quotes."""
    return cut(repr(value) if isinstance(value, str | float) else flow(value))


def cut(text: str) -> str:
    """A text of at most 60 characters."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def nearest(word: str, words: Sequence[str]) -> str:
    """`; did you mean 'x'?` or nothing."""
    return "".join(f"; did you mean '{close}'?" for close in _close(word, words))


def _close(word: str, words: Sequence[str]) -> list[str]:
    """The word that is most like this one, if any is."""
    close = get_close_matches(word[:LONGEST].lower().replace(" ", "_"), words, 1, 0.6)
    return close or [w for w in words if min(len(word), len(w)) > 2 and (word in w or w in word)][:1]
