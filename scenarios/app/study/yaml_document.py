"""YAML text -> plain data and the line of every node; plain values -> YAML.

Numbers and words are those of YAML 1.2's core schema: `1e-5` is a number; `off`, `yes` and a date
are words. Only the parser of ruamel.yaml is used: its nodes become dicts, lists and scalars here,
so no tag can make an object and no alias can be expanded.
"""

from __future__ import annotations

import errno
import math
import re
from copy import deepcopy
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from netsim.errors import BadInput, squeeze_text
from netsim.safe import read_content
from scenarios.app.study import Fields, Record, Value

Place = tuple[str | int, ...]
"""Where a value stands: the keys and indices that lead to it from the top."""

MAX_BYTES = 1_000_000
MAX_DEPTH = 40
MAX_DIGITS = 100

_EMPTY = "top level: the file is empty; write a mapping of `key: value` lines"
_TOO_LONG = f"top level: more than {MAX_BYTES} bytes; keep data in files of their own"
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?((\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|\.inf|\.nan)")
_TAGS = ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
_NAME = re.compile(r"[\w-]{1,60}")


@dataclass(frozen=True)
class Document:
    """Plain data, and for each place the line (from 1) on which its key or item starts.

    outside : how complaints call a place that stands in no file.
    """

    path: str
    data: Value
    lines: dict[Place, int]
    outside: str = "--set {}"

    def copy(self) -> Document:
        """Return the same document, to be changed by itself."""
        return replace(self, data=deepcopy(self.data), lines=dict(self.lines))

    def override(self, place: Place, origin: Place | None) -> None:
        """From now on what stands at this place comes from `origin`, another place in the file;
        none: from outside.
        """
        lines: dict[Place, int] = {(): self.find_line(origin) if origin else 0}
        if origin:
            lines |= {
                p[len(origin) :]: n for p, n in self.lines.items() if p[: len(origin)] == origin
            }
        for inner in [p for p in self.lines if p[: len(place)] == place]:
            del self.lines[inner]
        for inner, line in lines.items():
            self.lines[(*place, *inner)] = line

    def holds(self, place: Place) -> bool:
        """Return whether something stands at a place, in the file or set from outside."""
        return self.get_value(place, self) is not self

    def get_value(self, place: Place, default: Value = None) -> Value:
        """Return what stands at a place, or the default."""
        return get_value_at(self.data, place, default)

    def find_line(self, place: Place) -> int:
        """Return the line of a place, or of its nearest ancestor that stands in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def format_place(self, place: Place) -> str:
        """Return how a complaint starts: `FILE:LINE: world.ues[2].height_m`, or `--set
        world.ues[2].height_m`, as `outside` has it.
        """
        if line := self.find_line(place):
            return f"{self.path}:{line}: {format_dotted(place)}"
        return self.outside.format(format_dotted(place))


def has_step(data: Value, step: str | int) -> bool:
    """Return whether a mapping has a key, or a list an index; nothing else has either."""
    return (isinstance(data, dict) and step in data) or (
        isinstance(data, list) and step in range(len(data))
    )


def get_value_at(data: Value, place: Place, default: Value = None) -> Value:
    """Return what stands at a place of plain data, or the default."""
    for step in place:
        if not has_step(data, step):
            return default
        data = data[step]
    return data


def parse_place(path: str) -> Place:
    """`a.b[0].c`, or `a.b.0.c` -> ("a", "b", 0, "c")."""
    return tuple(
        int(step) if step.isdecimal() and len(step) < 10 else step
        for step in re.findall(r"[^.\[\]]+", path)
    )


def format_dotted(place: Place) -> str:
    """('world', 'ues', 2) -> `world.ues[2]`; a key that is not a plain name is quoted."""
    parts = [
        f"[{p}]" if isinstance(p, int) else f".{p}" if _NAME.fullmatch(p) else f".{p[:60]!r}"
        for p in place
    ]
    return "".join(parts).removeprefix(".") or "top level"


def read_document(path: str | Path) -> Document:
    """Return the document in a file.

    Raises BadInput: the file cannot be read, is not UTF-8, or is not YAML of the kind used here.
    """
    return parse_document(read_file_text(path), str(path))


def read_file_text(path: str | Path) -> str:
    """Return the text of a scenario file. BadInput: it cannot be read, is too long, or is not
    UTF-8.
    """
    try:
        raw = read_content(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise BadInput(f"{path}:1: {_TOO_LONG}") from None
        problem = f"cannot be read ({error.strerror or error}); check the path"
        raise BadInput(f"{path}: {problem}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise BadInput(f"{path}:{line}: text: {problem}") from None


def parse_document(text: str, path: str = "<text>") -> Document:
    """Return the document in a string; `path` stands for the file in messages."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise BadInput(f"{path}:1: {_TOO_LONG}")
    try:
        top = YAML(typ="safe", pure=True).compose(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"text: character {chr(error.character)!r} is not allowed in YAML; remove it"
    except MarkedYAMLError as error:
        line, problem = _describe_syntax_error(error)
    except RecursionError:
        line = 1
        problem = f"top level: nested deeper than {MAX_DEPTH}; write it flatter"
    except (YAMLError, ValueError, OverflowError) as error:
        # The parser turns escapes (\\UFFFFFFFF) and directives (%YAML 999...) into numbers without
        # looking.
        line = 1
        problem = (
            f"syntax: an escape or a number cannot be read ({squeeze_text(error, 60)}); correct it"
        )
    else:
        if top is None or (isinstance(top, ScalarNode) and not top.value):
            raise BadInput(f"{path}:1: {_EMPTY}")
        reader = _Reader(path, {})
        data = reader.read_value(top, ())
        if not isinstance(data, dict):
            problem = "a list" if isinstance(data, list) else "a single value"
            raise reader.make_error(
                top, (), f"this is {problem}; write a mapping of `key: value` lines"
            )
        return Document(path, data, reader.lines)
    raise BadInput(f"{path}:{line}: {problem}")


def _describe_syntax_error(error: MarkedYAMLError) -> tuple[int, str]:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "not YAML"
    if (
        error.context_mark is not None and "stream" in problem
    ):  # what is never closed is found at the end of the file
        mark = error.context_mark
    if mark is None:
        return 1, f"syntax: {problem}; correct the YAML"
    if error.context:
        problem += f", {error.context}"
    return mark.line + 1, f"column {mark.column + 1}: {problem}; correct the YAML"


@dataclass
class _Reader:
    """Turns the parser's tree into plain data, and notes lines."""

    path: str
    lines: dict[Place, int]

    def make_error(self, node: Node, place: Place, problem: str) -> BadInput:
        """Return a complaint about a node."""
        return BadInput(
            f"{self.path}:{node.start_mark.line + 1}: {format_dotted(place)}: {problem}"
        )

    def read_value(self, node: Node, place: Place) -> Value:
        """Return the value of a node; what could stand for something else is refused."""
        self.lines.setdefault(place, node.start_mark.line + 1)
        if node.anchor is not None:  # without which there are no aliases
            raise self.make_error(
                node,
                place,
                f"anchor &{node.anchor[:60]} is not used here; write it out where needed",
            )
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if tag not in _TAGS:
            raise self.make_error(
                node, place, f"tag {tag[:60]} does not belong here; write a plain value"
            )
        if len(place) > MAX_DEPTH:
            raise self.make_error(
                node, place[:3], f"nested deeper than {MAX_DEPTH}; write it flatter"
            )
        if isinstance(node, SequenceNode):
            return [self.read_value(item, (*place, i)) for i, item in enumerate(node.value)]
        if isinstance(node, MappingNode):
            return self.read_mapping(node, place)
        return self.read_scalar(node, place)

    def read_mapping(self, node: Node, place: Place) -> Fields:
        """Return the keys and values of a mapping."""
        data = {}
        for key_node, value_node in node.value:
            key = self.read_scalar(key_node, place) if isinstance(key_node, ScalarNode) else None
            if not isinstance(key, str):
                word = key_node.value[:60] if isinstance(key_node, ScalarNode) else "..."
                raise self.make_error(
                    key_node, place, f"key {word!r} is no word; write a word, or put it in quotes"
                )
            inner = (*place, key)
            if key in data:
                raise self.make_error(
                    key_node,
                    inner,
                    f"key stands twice, first on line {self.lines[inner]}; keep one",
                )
            self.lines[inner] = key_node.start_mark.line + 1
            data[key] = self.read_value(value_node, inner)
        return data

    def read_scalar(self, node: Node, place: Place) -> Value:
        """Return what a scalar means in YAML 1.2; one in quotes is text."""
        text = node.value
        if re.search("[\0\ud800-\udfff]", text):
            raise self.make_error(
                node, place, "text holds NUL or half a character, which no name can; remove it"
            )
        value = text if node.style else parse_scalar(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.make_error(
                node, place, f"number {text[:60]} must be finite; write a finite number"
            )
        return value


def parse_scalar(text: str) -> Value:
    """Return what a scalar without quotes means in YAML 1.2."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INT.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))
    return text


def dump_yaml(values: Record) -> str:
    """Return plain values as YAML, in their order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 110
    yaml.sort_base_mapping_type_on_output = False
    out = StringIO()
    yaml.dump(dict(values), out)
    return out.getvalue()
