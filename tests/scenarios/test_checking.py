"""`validate` refuses what `run` refuses, in the same words; what files say steers no terminal and
no spreadsheet."""

import csv
import json
import time

import pytest
from conftest import TINY

from netsim.errors import BadInput
from netsim.record import guarded, unguarded
from scenarios.app.cli import options
from scenarios.app.cli.commands import main
from scenarios.app.report.report import report
from scenarios.app.result import run
from scenarios.app.run.sweep import Sweep, checked_points
from scenarios.app.study.describe import build
from scenarios.app.study.load import AskedStudy
from scenarios.app.study.study import Study, study_yaml
from scenarios.app.study.yaml_document import read, read_text

GOOD_CELLS = "radio,mcc,net,area,cell,unit,lon,lat\nLTE,1,1,1,1,0,0.001,0.001\n"
CELLS = {"kind": "cell-file", "file": "cells.csv"}
PLACED = CELLS | {"origin_lat": 0.0, "origin_lon": 0.0}


def written(folder, **changes):
    """The small study as a file, with changes by dotted path."""
    document = json.loads(json.dumps(TINY))
    for path, value in changes.items():
        *above, last = path.split("__")
        data = document
        for step in above:
            data = data.setdefault(step, {})
        data[last] = value
    path = folder / "study.yaml"
    path.write_text(json.dumps(document, indent=1))
    return path


WRONG = {
    "no such column": (
        PLACED,
        {},
        "lon\n",
        "cells.csv: no columns lon and lat, or x_m and y_m; the file has lon",
    ),
    "no such file": (PLACED, {}, None, "cells.csv: cannot be read"),
    "no origin": (CELLS, {}, GOOD_CELLS, "where is the plane's origin?"),
    "masts of a file too high": (
        PLACED | {"height_m": 400},
        {"world__radio__path_loss": {"kind": "uma"}},
        GOOD_CELLS,
        "world.radio.path_loss: uma holds for base stations",
    ),
    "no such cell": (
        PLACED,
        {"learning__data": {"kind": "measured", "cell": "x"}},
        GOOD_CELLS,
        "no cell 'x' here",
    ),
    "no such images": (
        [{"name": "a", "position_m": [100, 100]}],
        {
            "learning__data": {"kind": "images", "folder": "nowhere"},
            "learning__learner": {"kind": "image-net"},
            "learning__attacks": [],
        },
        None,
        "nowhere",
    ),
}


@pytest.mark.parametrize(("stations", "changes", "cells", "why"), WRONG.values(), ids=WRONG)
def test_validate_says_what_run_says(tmp_path, capsys, stations, changes, cells, why):
    if cells is not None:
        (tmp_path / "cells.csv").write_text(cells)
    path = written(tmp_path, world__base_stations=stations, **changes)
    assert main(["validate", str(path)]) == 2
    checked = capsys.readouterr()
    assert checked.out == ""
    assert len(checked.err.splitlines()) == 1
    assert why in checked.err
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    assert capsys.readouterr().err == checked.err
    assert not (tmp_path / "out").exists()


def test_what_shows_when_the_world_is_built_has_file_and_line(tmp_path, capsys):
    path = written(
        tmp_path,
        world__base_stations={"kind": "uniform", "count": 2, "height_m": 400},
        world__radio__path_loss={"kind": "uma"},
    )
    line = path.read_text().splitlines().index('   "path_loss": {') + 1
    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().err.startswith(
        f"netsim: {path}:{line}: world.radio.path_loss: uma holds"
    )


def test_validate_and_sweep_build_the_world_of_every_setting_first(tmp_path, capsys):
    variants = [
        {"label": "low", "set": {}},
        {"label": "high", "set": {"world.base_stations.height_m": 400}},
    ]
    path = written(
        tmp_path,
        world__base_stations={"kind": "uniform", "count": 2, "height_m": 25},
        world__radio__path_loss={"kind": "uma"},
        vary={"seed": [1, 2], "variants": variants},
    )
    assert main(["validate", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("netsim: vary, 'high': ")
    assert "world.radio.path_loss: uma holds" in said
    assert main(["sweep", str(path), "--out", str(tmp_path / "out"), "--quiet", "--jobs", "1"]) == 2
    assert capsys.readouterr().err == said
    assert not (tmp_path / "out").exists()


def test_all_goes_through_every_run(tmp_path, capsys, monkeypatch):
    seen = []

    def check(study, thorough, how=None):
        seen.append((study.seed, thorough))
        return ()

    for module in ("setup", "sweep"):
        monkeypatch.setattr(f"scenarios.app.run.{module}.check", check)
    path = written(tmp_path, seed=9, vary={"seed": [4, 5, 6]})
    assert main(["validate", str(path)]) == 0
    assert seen == [(9, False), (4, False)]
    assert main(["validate", str(path), "--all"]) == 0
    assert seen[2:] == [(9, True), (4, True), (5, True), (6, True)]


def test_the_studies_of_a_sweep_are_those_that_are_loaded_one_by_one(tmp_path):
    path = written(
        tmp_path, vary={"seed": [7, 3], "values": {"learning.learner.learning_rate": [0.1, 0.2]}}
    )
    asked = AskedStudy.of(path, {"learning.round_s": 30})
    found = checked_points(asked)
    assert [p.seed for p, _ in found] == [7, 3, 7, 3]
    for point, study in found:
        assert study_yaml(study) == study_yaml(asked.changed(point.overrides, point.origins).study)


@pytest.fixture
def counted(monkeypatch):
    """Names of the studies that are built, and of the files that are read."""
    seen = {"built": [], "read": []}

    def building(model, document):
        seen["built"].append(document.path)
        return build(model, document)

    def reading(path):
        seen["read"].append(str(path))
        return read(path)

    monkeypatch.setattr("scenarios.app.study.load.build", building)
    monkeypatch.setattr("scenarios.app.study.load.read", reading)
    return seen


def test_a_study_is_read_once_and_built_once_for_each_setting(counted, tmp_path):
    path = written(
        tmp_path, vary={"seed": [7, 3], "values": {"learning.learner.learning_rate": [0.1, 0.2]}}
    )
    assert main(["validate", str(path)]) == 0
    assert counted == {"built": [str(path)] * 3, "read": [str(path)]}  # itself, and two rates
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert (len(counted["built"]), len(counted["read"])) == (4, 2)


def test_changes_add_up_and_late_refusals_are_placed(counted, tmp_path):
    path = written(tmp_path, seed=9)
    asked = AskedStudy.of(path, {"learning.round_s": 30})
    other = asked.changed({"seed": 5})
    path.unlink()
    assert (asked.study.seed, other.study.seed, other.study.round_s) == (9, 5, 30)
    assert asked.study is asked.study
    assert len(counted["built"]) == 2
    with pytest.raises(BadInput, match=rf"^{path}:\d+: world.tick_s: too long$"), asked.placed():
        raise BadInput("world.tick_s: too long")
    with pytest.raises(BadInput, match=r"^--set learning.round_s: too long$"), asked.placed():
        raise BadInput("learning.round_s: too long")


def test_thousands_of_seeds_are_checked_in_seconds(tmp_path, capsys):
    path = written(tmp_path, vary={"seed": list(range(5000))})
    began = time.process_time()
    assert main(["validate", str(path)]) == 0
    assert "5,000 runs" in capsys.readouterr().out
    assert time.process_time() - began < 20
    path = written(tmp_path, vary={"seed": [1, 2, -3]})
    assert main(["validate", str(path)]) == 2
    assert "vary.seed[2]: must be at least 0" in capsys.readouterr().err
    path = written(
        tmp_path,
        vary={"seed": list(range(400)), "values": {"learning.round_s": list(range(1, 400))}},
    )
    assert main(["validate", str(path)]) == 2
    assert "vary: 159,600 combinations, at most 100,000" in capsys.readouterr().err


STEERING = "red \x1b[31m, a bell \x07 and\u202eback"


def test_what_files_say_does_not_steer_the_terminal(tmp_path, capsys):
    path = written(tmp_path, title=STEERING, world__duration_s=60)
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 0
    assert main(["validate", str(path)]) == 0
    assert main(["validate", str(path), "--set", "learning.learner.kind=\x1b[2J"]) == 2
    assert main(["validate", str(path), "--\x1b[2J"]) == 2
    said = capsys.readouterr()
    assert "\\x1b[31m" in said.out
    assert "\\u202e" in said.out
    assert all(line.isprintable() for line in (said.out + said.err).splitlines())


def test_complaints_have_a_length_that_can_be_read(capsys, monkeypatch):
    assert main(["validate", "x" * 30_000]) == 2
    assert main(["validate", "campus", "--" + "y" * 30_000]) == 2
    for line in capsys.readouterr().err.splitlines():
        assert len(line) < options.LONGEST + 100
        assert "characters ...]" in line
        assert line[-20:].isprintable()
    options.complain([f"mistake {i}" for i in range(4000)])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "netsim: mistake 0"
    assert lines[-1] == "netsim: and 3,950 more"
    assert len(lines) == 51


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+1+2", "'+1+2"),
        ("-A1", "'-A1"),
        ("\t=1", "'\t=1"),
        ("'=1", "''=1"),
        ("-5", "-5"),
        ("+49123", "+49123"),
        ("-1e-3", "-1e-3"),
        ("'-5", "'-5"),
        ("'quoted'", "'quoted'"),
        ("", ""),
        ("1=1", "1=1"),
    ],
)
def test_text_is_no_formula_to_a_spreadsheet_and_comes_back_as_it_was(text, cell):
    assert guarded(text) == cell
    assert unguarded(cell) == text


def test_labels_of_a_sweep_are_no_formulas_in_its_tables(tmp_path, tiny):
    label = "=cmd|' /C calc'!A0"
    variants = [
        {"label": label, "set": {}, "curve": "@x", "strength": 1},
        {"label": "as written", "set": {}},
    ]
    path = written(tmp_path, world__duration_s=60, vary={"variants": variants})
    out = tmp_path / "out"
    Sweep(AskedStudy.of(path), out, 1, lambda *_: None).play()
    report(out)
    for table in out.rglob("*.csv"):
        cells = [cell for row in csv.reader(table.read_text().splitlines()) for cell in row]
        bad = [c for c in cells if c[:1] in ("=", "@", "+") or (c[:1] == "-" and not _number(c))]
        assert not bad, table
    assert label.replace("'", "&#39;") in (out / "report.html").read_text()


def _number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_a_study_from_python_is_refused_alike(tmp_path):
    from netsim.errors import BadInput

    changed = json.loads(json.dumps(TINY))
    changed["world"]["base_stations"] = {"kind": "uniform", "count": 2, "height_m": 400}
    changed["world"]["radio"]["path_loss"] = {"kind": "uma"}
    study = build(Study, read_text(json.dumps(changed)))
    with pytest.raises(BadInput, match=r"world\.radio\.path_loss: uma holds"):
        run(study, tmp_path / "out")
