"""a file or a bundled name -> Study"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netsim.errors import BadInput, suggest_nearest
from netsim.part import CODE_NAME, FILE_NAME, Part, split_code_name
from netsim.safe import describe_file_kind
from scenarios.app.study import Record, Value
from scenarios.app.study.describe import (
    build_model,
    collect_metadata,
    find_annotation,
    find_default,
    find_slot,
    list_literals,
    unwrap_annotation,
)
from scenarios.app.study.python_values import refuse_held_parts, to_data
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import (
    Document,
    Place,
    has_step,
    parse_document,
    parse_place,
    read_file_text,
)

Source = str | Path | Record | Part
"""a scenario: a file, a bundled name, its keys, or a study"""


def load(source: Source, overrides: Record = MappingProxyType({})) -> Study:
    """Return the study of a scenario file, of a bundled scenario by its name (`campus`), or of keys
    and values.

    overrides : dotted path -> value, set before anything is checked; parts may stand as objects,
    wherever YAML has a mapping with a kind, or as the kind alone. Raises BadInput with one line
    per mistake.
    """
    return Scenario.from_source(source, overrides, "load({})").study


@dataclass(frozen=True)
class Scenario:
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
    def from_source(
        cls,
        source: Source,
        overrides: Record = MappingProxyType({}),
        outside: str = Document.outside,
    ) -> Scenario:
        """Of a file, of a bundled scenario by its name, or of values of Python; outside : how
        complaints call the place of a value that stands in no file.
        """
        if isinstance(source, str | Path):
            path = find_scenario(source)
            text = read_file_text(path)
            refuse_held_parts(text, path)
            document = replace(parse_document(text, str(path)), outside=outside)
        else:
            document = Document("", to_data(source, outside), {(): 0}, outside)
        return cls(document, {key: to_data(overrides[key], outside, key) for key in overrides})

    @cached_property
    def document(self) -> Document:
        """The text as data, overrides applied and file names made absolute."""
        document = self.text.copy()
        for key, value in deepcopy(
            dict(self.overrides)
        ).items():  # later ones may change what earlier ones set
            set_value(document, key, value, self.origins.get(key))
        _expand_kinds(document)
        _resolve_files(document, Path(document.path).parent)
        return document

    @cached_property
    def study(self) -> Study:
        """The checked study; BadInput with one line per mistake.

        Where no attack is named that is made for what the threat grants, `fused` is one of them:
        where `attacks` is left out, or all of them read sums as updates of one UE.
        """
        study = build_model(Study, self.document)
        more = self.document.copy()
        section = more.data.get("learning") or {}
        if not _lacks_attack(study, "attacks" in section):
            return study
        section["attacks"] = [*section.get("attacks", []), {"kind": "fused"}]
        try:
            return build_model(Study, more)
        except BadInput:  # it does not fit: the study is as it is written
            return study

    def with_changes(
        self, overrides: Record, origins: Mapping[str, Place] = MappingProxyType({})
    ) -> Scenario:
        """Return the same scenario with more changes."""
        return Scenario(self.text, {**self.overrides, **overrides}, origins)

    @contextmanager
    def locate_errors(self) -> Generator[None]:
        """What only shows when a study is prepared names its key; here it gets the file and the
        line.
        """
        try:
            yield
        except BadInput as error:
            format_place = self.document.format_place
            lines = [
                _OF_KEY.sub(lambda key: f"{format_place(parse_place(key[1]))}: ", line)
                for line in error.lines
            ]
            raise BadInput(*lines) from None


def _lacks_attack(study: Study, names_attacks: bool) -> bool:
    """Whether people live where the seed draws them, and no attack is named that is made for what
    the attacker sees of them.
    """
    learning = study.learning
    mobility = study.world.ues.mobility
    if learning is None or mobility.replays or not mobility.has_homes:
        return False
    if not names_attacks:
        return True
    only_single = not any(attack.reads_sums for attack in learning.attacks)
    return bool(learning.attacks) and only_single and learning.threat.observes == "aggregate"


def list_bundled() -> dict[str, Path]:
    """Return the scenarios that come with the program: name -> file."""
    root = Path(str(resources.files("scenarios")))
    files = {
        str(path.relative_to(root).with_suffix("")): path for path in sorted(root.rglob("*.yaml"))
    }
    # which has no scenarios
    return {name: path for name, path in files.items() if not name.startswith("app/")}


def read_title(path: Path) -> str:
    """Return the title of a scenario file, without reading the rest of it."""
    match = re.search(
        r"^title:.*(?:\n[ \t]+.*)*", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    if match is None:
        return ""
    return str(parse_document(match[0], str(path)).data["title"])


def find_scenario(source: str | Path) -> Path:
    """Return the file of a scenario given by path or bundled name."""
    path = Path(source)
    names = list_bundled()
    if path.suffix in (".yaml", ".yml") or describe_file_kind(path) == "file":
        return path
    if str(source) in names:
        return names[str(source)]
    raise BadInput(
        f"{source}: no scenario file and no bundled scenario"
        f"{suggest_nearest(str(source), names)}; give the path of a YAML file, or a name that "
        "`netsim list` shows"
    )


def parse_value(text: str, name: str = "--set") -> Value:
    """Return a value from the command line, read as YAML (`1e-3`, `[8, 8]`, `off`); name : of what,
    in complaints.
    """
    try:
        return parse_document(f"value: {text}", name).data["value"]
    except BadInput as error:
        raise BadInput(error.lines[0].replace(f"{name}:1: value", name)) from None


def set_value(document: Document, path: str, value: Value, origin: Place | None = None) -> None:
    """Replace the value at a dotted path (`learning.attacks[1].starts`, or with `.1`) in place.

    A mapping on the way that is left out starts as the part that stands there by default. `origin`:
    where in the file the value stands; none: it comes from outside.
    """
    place_text = document.outside.format(path) if origin is None else document.format_place(origin)
    if not _PATH.fullmatch(path):
        raise BadInput(
            f"{place_text}: {path!r} is no path; write names with one dot between them, as a.b[0].c"
        )
    above: Place = ()
    steps = parse_place(path)
    for step, after in pairwise(steps):
        data = document.get_value(above)
        if (
            isinstance(data, dict)
            and isinstance(step, str)
            and step not in data
            and not isinstance(after, int)
        ):
            data[step] = find_default(Study, document.data, (*above, step))
        above = (*above, step)
    data = document.get_value(above)
    last = steps[-1]
    if not has_step(data, last) and not (isinstance(data, dict) and isinstance(last, str)):
        raise BadInput(f"{place_text}: there is nothing at {path!r} to replace; check the path")
    data[last] = value
    document.override(steps, origin)


_PATH = re.compile(r"[^.\[\]]+(\[\d+\])*(\.[^.\[\]]+(\[\d+\])*)*")
_OF_KEY = re.compile(r"^((?:world|learning|power|plan)(?:\[\d+\]|\.[^.:\[\]]+)*): ")


def walk_data(
    expected: object, data: Value, place: Place = ()
) -> Iterator[tuple[Place, Any, Value]]:
    """Yield each place in the data of a scenario, read as `expected`: the place, its annotation and
    its value.
    """
    yield place, expected, data
    steps: Iterable[tuple[str | int, Value]] = ()
    if isinstance(data, dict):
        steps = list(data.items())
    elif isinstance(data, list):
        steps = enumerate(data)
    for step, value in steps:
        yield from walk_data(find_annotation(expected, data, (step,)), value, (*place, step))


def find_file_places(data: Value) -> Iterator[Place]:
    """Yield places in the data of a scenario at which the name of a file stands as text."""
    for place, expected, value in walk_data(Study, data):
        if isinstance(value, str):
            marks = collect_metadata(expected)
            is_file = FILE_NAME in marks or (CODE_NAME in marks and split_code_name(value)[0])
            if is_file and value not in list_literals(expected):
                yield place


def _expand_kinds(document: Document) -> None:
    """Make a mapping of each kind that stands alone where a part does, and in no file."""
    for place, expected, value in list(walk_data(Study, document.data)):
        is_ours = isinstance(value, str) and not document.find_line(place)
        if is_ours and find_slot(unwrap_annotation(expected)[1]):
            document.get_value(place[:-1])[place[-1]] = {"kind": value}


def _resolve_files(document: Document, folder: Path) -> None:
    """Paths of files: environment variables filled in, relative to the scenario file, or where the
    command runs.
    """
    for place in list(find_file_places(document.data)):
        text = document.get_value(place)
        place_text = document.format_place(place)
        if not text.strip():
            raise BadInput(f"{place_text}: the name is empty; give that of a file or a folder")
        for name in re.findall(r"\$\{(\w+)\}", text):
            if not os.environ.get(name):  # a variable that is set to nothing names no folder
                raise BadInput(
                    f"{place_text}: the environment variable {name} is not set; set it to the "
                    f"folder that holds the file"
                )
            text = text.replace(f"${{{name}}}", os.environ[name])
        base = folder if document.find_line(place) else Path.cwd()  # a path on the command line
        document.get_value(place[:-1])[place[-1]] = str((base / text).resolve())
