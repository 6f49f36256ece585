"""a file or a bundled name -> Study"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

from netsim.errors import BadInput
from netsim.part import FILE_NAME
from netsim.safe import what_is
from scenarios.app.study import Record, Value
from scenarios.app.study.describe import build, default_of, field_at, members, nearest, unwrap
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import Document, Place, place_of, read, read_text


def load(source: str | Path, overrides: Record = MappingProxyType({})) -> Study:
    """The study of a scenario file, or of a bundled scenario by its name (`campus`).

    overrides : dotted path -> value, set before anything is checked. Raises BadInput with one line
    per mistake.
    """
    return AskedStudy.of(source, overrides).study


@dataclass(frozen=True)
class AskedStudy:
    """A study as it is asked for: the text of a scenario, read once, with changes; it is built
    once.

    text : of the file, with its lines. overrides : dotted path -> value, set before anything is
    checked. origins : where in the file a value of `overrides` stands, for those that do not come
    from outside.
    """

    text: Document
    overrides: Record = field(default_factory=dict)
    origins: Mapping[str, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, source: str | Path, overrides: Record = MappingProxyType({})) -> AskedStudy:
        """Of a file, or of a bundled scenario by its name."""
        return cls(read(find(source)), overrides)

    @cached_property
    def document(self) -> Document:
        """The text as data, overrides applied and file names made absolute."""
        document = self.text.copy()
        for key, value in deepcopy(
            dict(self.overrides)
        ).items():  # later ones may change what earlier ones set
            set_value(document, key, value, self.origins.get(key))
        _absolute(document, Path(document.path).parent)
        return document

    @cached_property
    def study(self) -> Study:
        """The checked study; BadInput with one line per mistake."""
        return build(Study, self.document)

    def changed(
        self, more: Record, origins: Mapping[str, Place] = MappingProxyType({})
    ) -> AskedStudy:
        """The same scenario with more changes."""
        return AskedStudy(self.text, {**self.overrides, **more}, origins)

    @contextmanager
    def placed(self) -> Generator[None, None, None]:
        """What only shows when a study is prepared names its key; here it gets the file and the
        line.
        """
        try:
            yield
        except BadInput as error:
            at = self.document.at
            lines = [
                _OF_KEY.sub(lambda key: f"{at(place_of(key[1]))}: ", line) for line in error.lines
            ]
            raise BadInput(*lines) from None


def bundled() -> dict[str, Path]:
    """The scenarios that come with the program: name -> file."""
    root = Path(str(resources.files("scenarios")))
    folders = [
        path for path in root.iterdir() if path.is_dir() and path.name != "app"
    ]  # which has no scenarios
    files = [*root.glob("*.yaml"), *(path for folder in folders for path in folder.rglob("*.yaml"))]
    return {str(path.relative_to(root).with_suffix("")): path for path in sorted(files)}


def title_of(path: Path) -> str:
    """The title of a scenario file, without reading the rest of it."""
    match = re.search(
        r"^title:.*(?:\n[ \t]+.*)*", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    if match is None:
        return ""
    return str(read_text(match[0], str(path)).data["title"])


def find(source: str | Path) -> Path:
    """The file of a scenario given by path or bundled name."""
    path = Path(source)
    names = bundled()
    if path.suffix in (".yaml", ".yml") or what_is(path) == "file":
        return path
    if str(source) in names:
        return names[str(source)]
    what = f"no scenario file and no bundled scenario{nearest(str(source), names)}"
    raise BadInput(
        f"{source}: {what}; give the path of a YAML file, or a name that `netsim list` shows"
    )


def parse_value(text: str, name: str = "--set") -> Value:
    """A value from the command line, read as YAML (`1e-3`, `[8, 8]`, `off`); name : of what, in
    complaints.
    """
    try:
        return read_text(f"value: {text}", name).data["value"]
    except BadInput as error:
        raise BadInput(error.lines[0].replace(f"{name}:1: value", name)) from None


def set_value(document: Document, path: str, value: Value, origin: Place | None = None) -> None:
    """Replace the value at a dotted path (`learning.attacks[1].starts`, or with `.1`) in place.

    A mapping on the way that is left out starts as the part that stands there by default. `origin`:
    where in the file the value stands; none: it comes from outside.
    """
    where = f"--set {path}" if origin is None else document.at(origin)
    if not _PATH.fullmatch(path):
        raise BadInput(
            f"{where}: {path!r} is no path; write names with one dot between them, as a.b[0].c"
        )
    above: Place = ()
    steps = place_of(path)
    for step, after in pairwise(steps):
        data = document.value(above)
        if (
            isinstance(data, dict)
            and isinstance(step, str)
            and step not in data
            and not isinstance(after, int)
        ):
            data[step] = default_of(Study, document.data, (*above, step))
        above = (*above, step)
    data = document.value(above)
    last = steps[-1]
    is_index = isinstance(data, list) and isinstance(last, int) and last < len(data)
    if not is_index and not (isinstance(data, dict) and isinstance(last, str)):
        raise BadInput(f"{where}: there is nothing at {path!r} to replace; check the path")
    data[last] = value
    document.override(steps, origin)


_PATH = re.compile(r"[^.\[\]]+(\[\d+\])*(\.[^.\[\]]+(\[\d+\])*)*")
_OF_KEY = re.compile(r"^((?:world|learning|power|plan)(?:\[\d+\]|\.[^.:\[\]]+)*): ")


def nodes(expected: object, data: Value, place: Place = ()) -> Iterator[tuple[Place, Any, Value]]:
    """Each place in the data of a scenario, read as `expected`: the place, its annotation and its
    value.
    """
    yield place, expected, data
    steps = (
        list(data.items())
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for step, value in steps:
        yield from nodes(field_at(expected, data, (step,)), value, (*place, step))


def file_fields(data: Value) -> Iterator[Place]:
    """Places in the data of a scenario at which the name of a file stands as text."""
    for place, expected, value in nodes(Study, data):
        if isinstance(value, str):
            base, metadata = unwrap(expected)
            words = [
                word
                for member in members(base)
                if get_origin(member) is Literal
                for word in get_args(member)
            ]
            files = [metadata, *(unwrap(member)[1] for member in members(base))]
            if value not in words and any(FILE_NAME in one for one in files):
                yield place


def _absolute(document: Document, folder: Path) -> None:
    """Paths of files: environment variables filled in, relative to the scenario file, or where the
    command runs.
    """
    for place in list(file_fields(document.data)):
        text = document.value(place)
        where = document.at(place)
        if not text.strip():
            raise BadInput(f"{where}: the name is empty; give that of a file or a folder")
        for name in re.findall(r"\$\{(\w+)\}", text):
            if not os.environ.get(name):  # a variable that is set to nothing names no folder
                raise BadInput(
                    f"{where}: the environment variable {name} is not set; set it to the "
                    f"folder that holds the file"
                )
            text = text.replace(f"${{{name}}}", os.environ[name])
        beside = folder if document.line(place) else Path.cwd()  # a path on the command line
        document.value(place[:-1])[place[-1]] = str((beside / text).resolve())
