"""A study: a scenario file, read, checked and built; every part frozen, every unmet need refused."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from fl.defenses.noise_switch import NoiseSwitch
from fl.learning import Learning
from netsim.errors import BadInput
from netsim.part import Part
from netsim.radio.power import Full, Power
from netsim.radio.shared_band import SharedBand
from netsim.safe import what_is
from netsim.setting import WorldSetting
from rl.power import Ddpg
from rl.settings import Train
from scenarios.document import Document, Place, one_line, read, read_text
from scenarios.messages import build, default_of, nearest
from scenarios.plan import Plan, check_plannable
from scenarios.powers import POWERS

SCHEMA_VERSION = 1
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Variant(Part):
    """One named variant of a sweep: values that replace those of the scenario, by dotted path."""

    label: str = Field(min_length=1, max_length=60)
    """what tables and figures call it"""
    curve: str | None = Field(default=None, min_length=1, max_length=40)
    """the line it belongs to where privacy is set against utility (a mechanism's name); none: undefended"""
    strength: float | None = None
    """its place on that line, which runs in the order of strength"""
    set: dict[str, Any] = Field(default_factory=dict)
    """dotted path: value"""

    @model_validator(mode="after")
    def _on_a_curve(self) -> Self:
        if self.strength is not None and not self.mechanism:
            raise ValueError(f"strength: {self.strength:g} stands on no curve; name the curve, or leave strength out")
        if self.strength is None and self.mechanism:
            raise ValueError(f"curve: {self.curve!r} runs in the order of strength; give a strength: NUMBER")
        return self

    @property
    def mechanism(self) -> str:
        """The curve; empty for an undefended variant."""
        return "" if self.curve in (None, "none") else str(self.curve)


class Vary(Part):
    """What `netsim sweep` compares: every combination of variants, seeds and value lists."""

    seed: tuple[Seed, ...] | None = Field(default=None, min_length=1)
    """seeds; none: the scenario's own"""
    values: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """dotted path: list of values, crossed with each other"""
    variants: tuple[Variant, ...] | None = Field(default=None, min_length=1)
    """named variants, crossed with seeds and values; none: the scenario as written"""

    @model_validator(mode="after")
    def _once(self) -> Self:
        if not (self.seed or self.values or self.variants):
            raise ValueError("nothing varies: give seed, values or variants, or leave vary out")
        for seed, times in Counter(self.seed or ()).items():
            if times > 1:
                raise ValueError(f"seed: {seed} stands {times} times")
        for label, times in Counter(v.label for v in self.variants or ()).items():
            if times > 1:
                raise ValueError(f"variants: the label {label!r} stands {times} times")
        return self


class Study(Part):
    """A whole scenario."""

    title: str = Field(min_length=1, max_length=300)
    """what it shows, in a sentence"""
    paper: str | None = None
    """the publication whose setting this is"""
    seed: Seed = 0
    """all randomness comes from it"""
    world: WorldSetting
    """where we are"""
    power: Annotated[Power, POWERS] = Full()
    """who sends with how much"""
    learning: Learning
    """what is learnt and by whom it is attacked"""
    plan: Plan | None = None
    """powers, switch and noise that a reference run finds beforehand; power is then that of the reference"""
    vary: Vary | None = None
    """what a sweep compares"""
    train: Train | None = None
    """what `netsim train` learns"""

    @model_validator(mode="after")
    def _cells(self) -> Self:
        cell, names = getattr(self.learning.data, "cell", "all"), [b.name for b in self.world.listed_stations]
        if cell not in ("all", "busiest", "strongest") and names and cell not in names:
            raise ValueError(
                f"learning.data.cell: no base station is called {cell!r}{nearest(cell, names) or ';'} "
                f"there are: {', '.join(names[:10])}"
            )
        return self

    @model_validator(mode="after")
    def _plannable(self) -> Self:
        waiting = [d for d in self.learning.defenses if isinstance(d, NoiseSwitch) and d.waits]
        if waiting and self.plan is None:
            raise ValueError(
                f"learning.defenses: {waiting[0].label} with mode: planned has no round; give until_round, or a plan: "
                "section that finds it"
            )
        if waiting and self.plan is not None and self.plan.criterion == "top-up":
            raise ValueError("plan.criterion: with top-up nothing switches; take device or aggregate, or mode: top-up")
        if self.plan is not None:
            check_plannable(self.world.radio.uplink)
        return self

    @model_validator(mode="after")
    def _learnt(self) -> Self:
        """Refuse a policy that cannot be read, or that is for another number of UEs."""
        if not isinstance(self.power, Ddpg):
            return self
        try:
            self.power.learnt()
        except BadInput as error:
            raise ValueError(f"power.policy: {error}") from None
        if self.world.ues.mobility.kind_name() != "replay":  # a trace says how many only once it is read
            self.power.check(self.world.ues.count)
        uplink = self.world.radio.uplink
        if not isinstance(uplink, SharedBand) or uplink.decoding != "noisy":
            raise ValueError(
                "power: a policy weighs channel noise against artificial noise; set world.radio.uplink to noma or oma "
                "with decoding: noisy"
            )
        return self

    @model_validator(mode="after")
    def _sendable(self) -> Self:
        uplink, defenses = self.world.radio.uplink, self.learning.defenses
        promised = any("bound" in d.offers for d in defenses)
        if uplink.needs_bound and not promised:
            raise ValueError(
                f"world.radio.uplink: {uplink.kind_name()} with noisy decoding scales updates by the bound of their "
                "norm: put a clip among learning.defenses, give norm_bound, or set decoding: error-free"
            )
        if uplink.kind_name() == "ideal" and self.learning.threat.viewpoint == "eavesdropper":
            raise ValueError(
                "learning.threat: with an ideal uplink nothing is on the air for an eavesdropper to hear; take "
                "world.radio.uplink noma or oma"
            )
        if uplink.kind_name() != "ideal" and self.world.base_stations == ():
            raise ValueError(
                f"world.radio.uplink: {uplink.kind_name()} needs base stations; list them, or take a layout such as "
                "base_stations: {kind: hexagonal, inter_site_m: 500}"
            )
        return self


def load(
    source: str | Path, overrides: dict[str, Any] | None = None, origins: Mapping[str, Place] | None = None
) -> Study:
    """The study of a scenario file, or of a bundled scenario by its name (`campus`).

    overrides : dotted path -> value, set before anything is checked.
    origins : where in the file a value of `overrides` stands, for those that do not come from outside.
    Raises BadInput with one line per mistake.
    """
    return Scenario(source).study(overrides, origins)


class Scenario:
    """The text of a scenario, read once, and the studies that it says with this or that value replaced."""

    def __init__(self, source: str | Path) -> None:
        self.folder = find(source).parent
        self._text = read(find(source))

    def document(
        self, overrides: Mapping[str, Any] | None = None, origins: Mapping[str, Place] | None = None
    ) -> Document:
        """The text as data, overrides applied and file names made absolute."""
        document = self._text.copy()
        for key, value in (overrides or {}).items():
            set_value(document, key, value, (origins or {}).get(key))
        _absolute(document, self.folder)
        return document

    def study(self, overrides: Mapping[str, Any] | None = None, origins: Mapping[str, Place] | None = None) -> Study:
        """The checked study; BadInput with one line per mistake."""
        return build(Study, self.document(overrides, origins))

    @contextmanager
    def placed(
        self, overrides: Mapping[str, Any] | None = None, origins: Mapping[str, Place] | None = None
    ) -> Generator[None, None, None]:
        """What only shows when a study is prepared names its key; here it gets the file and the line."""
        try:
            yield
        except BadInput as error:
            document = self.document(overrides, origins)
            raise BadInput(*(_placed(line, document) for line in error.lines)) from None


def _placed(line: str, document: Document) -> str:
    """A complaint that starts with the path of a key, with where that stands before it; others stay."""
    path, colon, rest = line.partition(": ")
    if not colon or not _PATH.fullmatch(path) or path.split(".")[0] not in ("world", "learning", "power", "plan"):
        return line
    return f"{document.at(_place(path))}: {rest}"


def bundled() -> dict[str, Path]:
    """The scenarios that come with the program: name -> file."""
    root = Path(str(resources.files("scenarios")))
    found = {str(p.relative_to(root).with_suffix("")): p for p in sorted(root.rglob("*.yaml"))}
    return {name: path for name, path in found.items() if name != "claims"}  # which is no scenario


def title_of(path: Path) -> str:
    """The title of a scenario file, without reading the rest of it."""
    found = re.search(r"^title:.*(?:\n[ \t]+.*)*", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return "" if found is None else str(read_text(found[0], str(path)).data["title"])


def find(source: str | Path) -> Path:
    """The file of a scenario given by path or bundled name."""
    path, names = Path(source), bundled()
    if path.suffix in (".yaml", ".yml") or what_is(path) == "file":
        return path
    if str(source) in names:
        return names[str(source)]
    if what_is(path) in ("folder", "other"):
        what = "a folder" if what_is(path) == "folder" else "no regular file but a device, a pipe or a socket"
        raise BadInput(one_line(f"{source}: is {what}; give the path of a scenario file, or a bundled name"))
    raise BadInput(
        f"{source}: no such file and no bundled scenario{nearest(str(source), list(names)) or ';'} "
        f"bundled are: {', '.join(names)}"
    )


def parse_value(text: str) -> Any:
    """A value from the command line, read as YAML (`1e-3`, `[8, 8]`, `off`)."""
    return read_text(f"value: {text}", "--set").data["value"]


def set_value(document: Document, path: str, value: Any, origin: Place | None = None) -> None:
    """Replace the value at a dotted path (`learning.attacks[1].starts`) in place.

    A mapping on the way that is left out starts as the part that stands there by default. `origin`: where in the file
    the value stands; none: it comes from outside.
    """
    where = f"--set {path}" if origin is None else document.at(origin)
    if not _PATH.fullmatch(path):
        raise BadInput(one_line(f"{where}: {path!r} is no path; write names with one dot between them, as a.b[0].c"))
    place = _place(path)
    data = document.data
    for i, step in enumerate(place[:-1]):
        missing = isinstance(data, dict) and isinstance(step, str) and step not in data
        if missing and not isinstance(place[i + 1], int):
            data[step] = default_of(Study, document.data, place[: i + 1])
        data = _inside(data, step, where)
    last = place[-1]
    key = isinstance(data, dict) and isinstance(last, str)
    index = isinstance(data, list) and isinstance(last, int) and last < len(data)
    if key or index:
        data[last] = value
        document.override(place, origin)
    else:
        raise BadInput(f"{where}: there is nothing at {path!r} to replace")


_PATH = re.compile(r"[^.\[\]]+(\[\d+\])*(\.[^.\[\]]+(\[\d+\])*)*")


def _place(path: str) -> Place:
    """`a.b[0].c` -> ("a", "b", 0, "c")."""
    return tuple(int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path))


def _inside(data: Any, step: str | int, where: str) -> Any:
    try:
        return data[step]
    except (KeyError, IndexError, TypeError):
        raise BadInput(f"{where}: there is nothing at {step!r}; check the path") from None


def _absolute(document: Document, folder: Path) -> None:
    """Paths of files: environment variables filled in, relative to the scenario file, or where the command runs."""
    for *place, key in (
        ("world", "ues", "mobility", "trace"),
        ("world", "city", "file"),
        ("world", "base_stations", "file"),
        ("learning", "data", "folder"),
        ("power", "policy"),
    ):
        data = document.data
        for step in place:
            data = data.get(step) if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(data.get(key), str):
            continue
        text = data[key]
        for name in re.findall(r"\$\{(\w+)\}", text):
            if name not in os.environ:
                raise BadInput(
                    f"{document.at((*place, key))}: the environment variable {name} is not set; set it to the "
                    "folder that holds the file"
                )
            text = text.replace(f"${{{name}}}", os.environ[name])
        outside = not document.line((*place, key))  # a path on the command line
        data[key] = str(((Path.cwd() if outside else folder) / text).resolve())
