"""Old names of keys, kinds and values are accepted with a warning; files are found from the scenario."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest

from fl.attacks.threat import Threat
from fl.learning import Learning
from netsim.errors import OldName
from netsim.mobility import MOBILITIES
from netsim.part import OneOf, Part
from netsim.setting import WorldSetting
from scenarios.app.cli.commands import main
from scenarios.app.study.describe import build
from scenarios.app.study.load import AskedStudy, rename
from scenarios.app.study.yaml_document import read_text


class Tower(Part):
    """A made-up part whose first key has another name now."""

    kind: Literal["tower"] = "tower"
    position_m: float
    """where"""
    renamed: ClassVar = {"at_m": "position_m"}


class TallTower(Tower):
    """Renamed keys of its base count too, and an old key's values have new names as well."""

    kind: Literal["tall-tower"] = "tall-tower"
    observes: Literal["updates", "model"] = "model"
    """what is seen"""
    renamed: ClassVar = {"sees": "observes", "observes: rows": "updates"}


Towers = Annotated[Tower, OneOf("tower", Tower, TallTower, renamed={"high-tower": "tall-tower"})]


class Town(Part):
    """A made-up study."""

    main: Towers | Literal["none"] = "none"
    towers: tuple[Towers, ...] = ()


def renamed(text):
    """The study of a text and what was warned of."""
    document = read_text(text, "town.yaml")
    with pytest.warns(OldName) as warned:
        rename(document, model=Town)
    return build(Town, document), [str(one.message) for one in warned]


def test_old_names_of_keys_kinds_and_values_become_the_new_ones():
    study, warned = renamed("towers:\n- kind: high-tower\n  at_m: 3.0\n  sees: rows\n- {kind: tower, at_m: 4.0}\n")
    assert study == Town(towers=(TallTower(position_m=3.0, observes="updates"), Tower(position_m=4.0)))
    ending = "; the old name goes in the next version"
    assert warned == [
        f"town.yaml:2: `kind: high-tower` is now `kind: tall-tower`{ending}",
        f"town.yaml:4: `sees` is now `observes`{ending}",
        f"town.yaml:4: `observes: rows` is now `observes: updates`{ending}",
        f"town.yaml:3: `at_m` is now `position_m`{ending}",  # once, though two towers have it
    ]


def test_the_slot_may_be_a_member_of_a_union():
    study, warned = renamed("main: {kind: high-tower, at_m: 1.0}\n")
    assert study.main == TallTower(position_m=1.0) and len(warned) == 2


def test_a_mistake_below_an_old_key_keeps_its_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(WorldSetting, "renamed", {"station_list": "base_stations"})
    file = tmp_path / "s.yaml"
    file.write_text("title: x\nworld:\n  station_list:\n  - {name: a, position_m: [0, x]}\n")
    with pytest.warns(OldName, match="s.yaml:3: `station_list` is now `base_stations`"):
        assert main(["validate", str(file)]) == 2
    assert "s.yaml:4: world.base_stations[0].position_m[1]: expected a number" in capsys.readouterr().err


def test_an_old_name_beside_the_new_one_is_unknown():
    document = read_text("towers: [{kind: tower, at_m: 3.0, position_m: 4.0}]")
    rename(document, model=Town)
    assert document.data["towers"][0] == {"kind": "tower", "at_m": 3.0, "position_m": 4.0}


@pytest.fixture
def old_names(monkeypatch):
    """Old names of real parts."""
    monkeypatch.setattr(Learning, "renamed", {"every_s": "round_s", "spy": "threat"}, raising=False)
    monkeypatch.setattr(Threat, "renamed", {"looks_at": "sees", "sees: everything": "rows"}, raising=False)
    monkeypatch.setattr(MOBILITIES, "renamed", {"wander": "random-waypoint"})


@pytest.mark.parametrize(
    ("path", "value", "place", "new"),
    [
        ("learning.every_s", 60, ("learning", "round_s"), 60),
        ("learning.spy", {"looks_at": "everything"}, ("learning", "threat", "sees"), "rows"),
        ("learning.spy.looks_at", "everything", ("learning", "threat", "sees"), "rows"),
        ("world.ues.mobility", {"kind": "wander"}, ("world", "ues", "mobility", "kind"), "random-waypoint"),
        ("world.ues.mobility.kind", "wander", ("world", "ues", "mobility", "kind"), "random-waypoint"),
    ],
)
def test_values_that_are_set_may_have_old_names(old_names, path, value, place, new):
    with pytest.warns(OldName) as warned:
        document = AskedStudy.of("campus", {path: value}).document
    assert document.value(place) == new and str(warned[0].message).startswith(f"--set {path}")


def test_a_sweep_may_vary_an_old_name(old_names, tmp_path):
    text = "title: x\nvary:\n  values:\n    learning.every_s: [60, -1]\nworld: {}\nlearning: {}\n"
    (tmp_path / "s.yaml").write_text(text)
    with pytest.warns(OldName, match=r"s.yaml:4: .*`every_s` is now `round_s`"):
        asked = AskedStudy.of(tmp_path / "s.yaml")
        asked.changed({"learning.every_s": -1}, {"learning.every_s": ("vary", "values", "learning.every_s")}).document  # noqa: B018


def test_the_program_prints_one_line(tmp_path):
    code = (
        "import sys; from netsim.setting import WorldSetting; from scenarios.app.cli.start import main;"
        "WorldSetting.renamed = {'lasts_s': 'duration_s'}; sys.argv[1:] = ['validate', sys.argv[1]]; sys.exit(main())"
    )
    file = tmp_path / "s.yaml"
    file.write_text(
        "title: x\nworld:\n  lasts_s: 60\n  city: {kind: open-field, width_m: 400, height_m: 300}\n"
        "  base_stations: [{name: a, position_m: [100, 100]}]\n"
        "  ues: {count: 4, mobility: {kind: random-waypoint}, measurement_period_s: 5}\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False)
    assert ended.stderr == f"warning: {file}:3: `lasts_s` is now `duration_s`; the old name goes in the next version\n"
    assert ended.returncode == 0


def test_names_of_files_count_from_the_scenario_wherever_a_part_takes_one(tmp_path, monkeypatch):
    monkeypatch.setenv("SOMEWHERE", "/data")
    text = """
        title: files
        world:
          city: {kind: footprints, file: houses.geojson}
          base_stations: {kind: cell-file, file: cells.csv}
          ues: {mobility: {kind: replay, trace: sub/trace.csv}}
        power: {kind: ddpg, policy: ../policy}
        learning: {round_s: 60, learner: {kind: image-net}, data: {kind: images, folder: "${SOMEWHERE}/images"}}
    """
    (tmp_path / "s.yaml").write_text(text)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    data = AskedStudy.of(tmp_path / "s.yaml").document.data
    assert data["world"]["city"]["file"] == str(tmp_path / "houses.geojson")
    assert data["world"]["base_stations"]["file"] == str(tmp_path / "cells.csv")
    assert data["world"]["ues"]["mobility"]["trace"] == str(tmp_path / "sub" / "trace.csv")
    assert data["power"]["policy"] == str(tmp_path.parent / "policy")
    assert data["learning"]["data"]["folder"] == "/data/images"
    typed = AskedStudy.of(tmp_path / "s.yaml", {"world.city.file": "other.geojson"}).document.data
    assert typed["world"]["city"]["file"] == str(elsewhere / "other.geojson")  # from the command line


# -- what the product says of itself

ROOT = Path(__file__).parents[2]
TOLD = {"netsim", "fl", "rl", "scenarios", "docs", "README.md"}
CHANGED = {"changelog.md"}
WORDS = {"first", "adapt", "overlap", "query"}  # of plain English, and a slot
OLD = ("observes: rows", "observes: sum", "at_m", "near_m", "air")


def old_names_of(kind):
    """Old key, kind or `key: value` -> new one, of all parts and slots."""
    found = dict(vars(kind).get("renamed") or {})
    for part in kind.__subclasses__():
        found |= old_names_of(part)
    return found


def saying(path):
    """Texts of a file with their lines: all of a page, docstrings and messages of a module, no tables of old names."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [(n, line) for n, line in enumerate(text.split("\n"), 1)]
    strings = [node for node in ast.walk(ast.parse(text)) if isinstance(getattr(node, "value", None), str)]
    return [(one.lineno, one.value) for one in strings if not re.fullmatch(r"\S+|\w+: \w+", one.value)]


def advice(names):
    """Where a text gives old names as names: in quotes, after a dot, as keys with a value, or `sees VALUE`."""
    words = "|".join(re.escape(name) for name in names if ": " not in name)
    found = [rf"(?<![\w-])[`'\"]({words})[`'\"]|(?<=[a-z])\.({words})\b(?![.(]\w)|(?<![\w. -])({words}):"]
    found.append(rf"\b({words}): [{{\[]")
    for key, _, value in (name.partition(": ") for name in names if ": " in name):
        found.append(rf"\b(?:sees?|{key}:?) ({value})s?\b(?! of| alone)|\b{key}=\W?({value})\b")
    return re.compile("|".join(found))


def test_no_message_docstring_or_page_uses_an_old_name():
    old = {name: new for name, new in old_names_of(Part).items() if name not in WORDS}
    old |= {"all-at-once": "simultaneous", "unit-votes": "neuron-votes"}
    assert {"sees", "observes: rows", "observes: sum", "at_m", "near_m", "air"} <= set(old)
    files = [file for top in sorted(TOLD) for file in [ROOT / top, *(ROOT / top).rglob("*")]]
    files = [file for file in files if file.suffix in {".py", ".md", ".yaml"} and file.name not in CHANGED]
    files = [file for file in files if "generated" not in file.parts]  # pages made from tables
    told = advice(old)
    found = [f"{file}:{line}: {at[0]}" for file in files for line, text in saying(file) for at in told.finditer(text)]
    assert len(files) > 300 and found == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("let the threat see rows or sum", "rows"),
        ("an analyst sees sums", "sum"),
        ("set learning.threat.at_m to a place", "at_m"),
        ("Scores of `near_m` metres", "near_m"),
        ("take air: {} for its defaults", "air"),
        ("world.radio.air: recorded rounds", "air"),
    ],
)
def test_advice_by_an_old_name_is_found(text, name):
    assert next(filter(None, advice(OLD).search(text).groups())) == name
    assert not advice(set(OLD) - {name, f"observes: {name}"}).search(text)
