"""YAML text -> plain data, and the line of every node.

Numbers and words are those of YAML 1.2's core schema: `1e-5` is a number; `off`, `yes` and a date are words.
Only the parser of ruamel.yaml is used: its events become dicts, lists and scalars here, so no tag can make an
object and no alias can be expanded. What is refused is refused at the first such event.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from netsim.errors import BadInput
from netsim.safe import content, what_is

Place = tuple[str | int, ...]
"""Where a value stands: the keys and indices that lead to it from the top."""

MAX_BYTES = 1_000_000
MAX_DEPTH = 40
MAX_DIGITS = 100

_EMPTY = "top level: the file is empty; write a mapping of `key: value` lines"
_TOO_LONG = f"top level: more than {MAX_BYTES} bytes; keep data in files of their own"
_CORE = "tag:yaml.org,2002:"
_WORDS = {w: v for v in (True, False) for w in (str(v).lower(), str(v), str(v).upper())} | dict.fromkeys(
    ("", "~", "null", "Null", "NULL")
)
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NAME = re.compile(r"[\w-]{1,60}")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# Tags that say what a value is anyway; "" is no tag, "!" is "as written".
_TAGS: dict[str, Any] = {"": object, "!": object, "map": dict, "seq": list, "str": str}
_TAGS |= {"int": int, "float": (int, float), "bool": bool, "null": type(None)}


@dataclass(frozen=True)
class Document:
    """Plain data, and for each place the line (from 1) on which its key or item starts."""

    path: str
    data: Any
    lines: dict[Place, int]

    def copy(self) -> Document:
        """The same document, to be changed by itself."""
        return Document(self.path, deepcopy(self.data), dict(self.lines))

    def override(self, place: Place, origin: Place | None = None) -> None:
        """From now on what stands at this place comes from `origin`, another place in the file; none: from outside."""
        lines: dict[Place, int] = {(): self.line(origin) if origin else 0}
        if origin:
            lines |= {p[len(origin) :]: n for p, n in self.lines.items() if p[: len(origin)] == origin}
        for inner in [p for p in self.lines if p[: len(place)] == place]:
            del self.lines[inner]
        for inner, line in lines.items():
            self.lines[(*place, *inner)] = line

    def holds(self, place: Place) -> bool:
        """Whether something stands at a place, in the file or set from outside."""
        data: Any = self.data
        for step in place:
            inside = isinstance(step, int) and isinstance(data, list) and step < len(data)
            if not inside and not (isinstance(data, dict) and step in data):
                return False
            data = data[step]
        return True

    def line(self, place: Place) -> int:
        """The line of a place, or of its nearest ancestor that stands in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def at(self, place: Place) -> str:
        """How a complaint starts: `FILE:LINE: world.ues[2].height_m`."""
        line = self.line(place)
        where = f"{self.path}:{line}" if line else f"{self.path}: as set from outside"
        return one_line(f"{where}: {dotted(place)}")


def one_line(text: str) -> str:
    """Printable on one line: control characters, line ends and half characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def place_of(path: str) -> Place:
    """`a.b[0].c`, or `a.b.0.c` -> ("a", "b", 0, "c")."""
    steps = re.findall(r"[^.\[\]]+", path)
    return tuple(int(step) if step.isdecimal() and len(step) < 10 else step for step in steps)


def dotted(place: Place) -> str:
    """('world', 'ues', 2) -> `world.ues[2]`; a key that is not a plain name is quoted."""
    parts = [f"[{p}]" if isinstance(p, int) else f".{p}" if _NAME.fullmatch(p) else f".{p[:60]!r}" for p in place]
    return "".join(parts).removeprefix(".") or "top level"


def read(path: str | Path) -> Document:
    """The document in a file.

    Raises
    ------
    BadInput : one line: the file cannot be read, is not UTF-8, or is not YAML of the kind used here.
    """
    return read_text(file_text(path), one_line(str(path)))


def file_text(path: str | Path) -> str:
    """The text of a scenario file. BadInput: it cannot be read, is too long, or is not UTF-8."""
    name = one_line(str(path))
    try:
        raw = content(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise BadInput(f"{name}:1: {_TOO_LONG}") from None
        what = f"cannot be read ({error.strerror or error}); check the file"
        if isinstance(error, FileNotFoundError):
            what = "no such file; check the path"
        if what_is(path) == "folder":
            what = "this is a directory; name a YAML file in it"
        raise BadInput(one_line(f"{name}: {what}")) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise BadInput(f"{name}:{line}: text: {what}") from None


def read_text(text: str, name: str = "<text>") -> Document:
    """The document in a string; `name` stands for the file in messages."""
    name = one_line(name)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise BadInput(f"{name}:1: {_TOO_LONG}")
    builder = _Builder(name, YAML(typ="safe", pure=True).parse(text))
    try:
        data = builder.document()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"character {chr(error.character)!r} is not allowed in YAML; remove it"
        raise BadInput(f"{name}:{line}: text: {what}") from None
    except YAMLError as error:
        raise BadInput(_syntax(error, name)) from None
    except (ValueError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        # The parser turns escapes (\UFFFFFFFF) and directives (%YAML 999...) into numbers without looking.
        line = max(builder.lines.values(), default=1)
        what = f"from here on the parser cannot read an escape or a number ({str(error)[:60]}); correct it"
        raise BadInput(one_line(f"{name}:{line}: syntax: {what}")) from None
    return Document(name, data, builder.lines)


def _syntax(error: YAMLError, name: str) -> str:
    """The parser's complaint in one line."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return one_line(f"{name}:1: syntax: {' '.join(str(error).split())}; correct the YAML")
    mark, opened = error.problem_mark, error.context_mark
    problem = error.problem or "not YAML"
    if "'\\t'" in problem:
        return f"{name}:{mark.line + 1}: column {mark.column + 1}: a tab in the indentation; use spaces"
    if error.context:
        problem += f", {error.context}"
    if opened is not None and "stream" in problem:  # what is never closed is found at the end of the file
        mark = opened
    elif opened is not None and opened.line != mark.line:
        problem += f" that starts on line {opened.line + 1}"
    return one_line(f"{name}:{mark.line + 1}: column {mark.column + 1}: {problem}; correct the YAML")


def _tag(event: Any) -> str:
    """An explicit tag without the core schema's prefix, or empty."""
    return (event.tag or "").removeprefix(_CORE)


class _Builder:
    """Turns the parser's events into plain data; every method takes the event that opens its node."""

    def __init__(self, name: str, stream: Iterator[Any]) -> None:
        self.name = name
        self.stream = stream
        self.lines: dict[Place, int] = {}

    def document(self) -> dict[str, Any]:
        next(self.stream)  # the start of the stream
        start = next(self.stream)
        if isinstance(start, events.StreamEndEvent):
            raise BadInput(f"{self.name}:1: {_EMPTY}")
        if start.version is not None or start.tags:
            raise self._bad(start, (), "%YAML and %TAG lines are not used; remove the line")
        top = next(self.stream)
        data = self._value(top, ())
        if data is None:
            raise BadInput(f"{self.name}:1: {_EMPTY}")
        if not isinstance(data, dict):
            what = "a list" if isinstance(data, list) else "a single value"
            raise self._bad(top, (), f"this is {what}; write a mapping of `key: value` lines")
        next(self.stream)  # the end of the document
        after = next(self.stream)
        if isinstance(after, events.DocumentStartEvent):
            raise self._bad(after, (), "a second document starts here; keep one document in a file")
        return data

    def _bad(self, event: Any, place: Place, what: str) -> BadInput:
        return BadInput(one_line(f"{self.name}:{event.start_mark.line + 1}: {dotted(place)}: {what}"))

    def _admit(self, event: Any, place: Place) -> None:
        """Refuse what could stand for something else, or never end."""
        if isinstance(event, events.AliasEvent):
            raise self._bad(event, place, f"alias *{event.anchor[:60]} is not used here; write it out")
        if event.anchor is not None:
            what = f"anchor &{event.anchor[:60]} is not used here; write it out where it is needed"
            raise self._bad(event, place, what)
        if len(place) >= MAX_DEPTH and not isinstance(event, events.ScalarEvent):
            raise self._bad(event, place[:3], f"nested deeper than {MAX_DEPTH}; write it flatter")
        if _tag(event) not in _TAGS:
            raise self._bad_tag(event, place)

    def _bad_tag(self, event: Any, place: Place) -> BadInput:
        tag = event.tag.replace(_CORE, "!!")[:60]
        return self._bad(event, place, f"tag {tag} does not belong here; write a plain value")

    def _value(self, event: Any, place: Place) -> Any:
        self._admit(event, place)
        value: Any
        if isinstance(event, events.MappingStartEvent):
            value = self._mapping(event, place)
        elif isinstance(event, events.SequenceStartEvent):
            value = self._sequence(place)
        else:
            value = self._scalar(event, place)
        if not isinstance(value, _TAGS[_tag(event)]):
            raise self._bad_tag(event, place)
        return value

    def _mapping(self, start: Any, place: Place) -> dict[str, Any]:
        self.lines.setdefault(place, start.start_mark.line + 1)
        data: dict[str, Any] = {}
        while not isinstance(event := next(self.stream), events.MappingEndEvent):
            key = self._key(event, place)
            here = (*place, key)
            if key in data:
                what = f"key stands twice, first on line {self.lines[here]}; keep one"
                raise self._bad(event, here, what)
            self.lines[here] = event.start_mark.line + 1
            data[key] = self._value(next(self.stream), here)
        return data

    def _key(self, event: Any, place: Place) -> str:
        if not isinstance(event, events.ScalarEvent):
            self._admit(event, place)
            raise self._bad(event, place, "a key is a list or mapping; a key must be a word")
        key = self._value(event, place)
        if not isinstance(key, str):
            shown = event.value[:60] or "(empty)"
            raise self._bad(event, place, f"key {shown} is not a word; write a word, or put it in quotes")
        if key == "<<":
            raise self._bad(event, place, "merge key << is not used here; write the keys out")
        return key

    def _sequence(self, place: Place) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := next(self.stream), events.SequenceEndEvent):
            here = (*place, len(data))
            self.lines[here] = event.start_mark.line + 1
            data.append(self._value(event, here))
        return data

    def _scalar(self, event: Any, place: Place) -> Any:
        tag = _tag(event)
        quoted = not (tag or event.implicit[0])
        value = event.value if quoted or tag in ("str", "!") else self._plain(event, place)
        if isinstance(value, str) and "\0" in value:
            raise self._bad(event, place, "text holds a NUL (\\0), which no name of a file can; remove it")
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            raise self._bad(event, place, "text holds half a character (\\ud800 to \\udfff); remove it")
        return value

    def _plain(self, event: Any, place: Place) -> Any:
        """What an unquoted scalar means in YAML 1.2."""
        text: str = event.value
        if text in _WORDS:
            return _WORDS[text]
        whole, number = _INT.fullmatch(text), _FLOAT.fullmatch(text)
        if (whole or number) and len(text) > MAX_DIGITS:
            raise self._bad(event, place, f"number of {len(text)} characters; use at most {MAX_DIGITS}")
        if whole:
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if _NOT_FINITE.fullmatch(text) or (number and math.isinf(float(text))):
            raise self._bad(event, place, f"number {text} must be finite; write a finite number")
        return float(text) if number else text
