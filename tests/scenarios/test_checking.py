"""`validate` refuses what `run` refuses, in the same words; what files say steers no terminal and
no spreadsheet."""

import csv
import time

from conftest import write_tiny
from pytest import fixture, mark, raises

from netsim.errors import BadInput
from netsim.record import guard_cell, unguard_cell
from scenarios.app.cli import options
from scenarios.app.cli.commands import main
from scenarios.app.report.report import write_report
from scenarios.app.run.sweep import Sweep, resolve_points
from scenarios.app.study.describe import build_model
from scenarios.app.study.load import Scenario, parse_value
from scenarios.app.study.study import to_study_yaml
from scenarios.app.study.yaml_document import read_file_text

GOOD_CELLS = "radio,mcc,net,area,cell,unit,lon,lat\nLTE,1,1,1,1,0,0.001,0.001\n"
CELLS = {"kind": "cell-file", "file": "cells.csv"}
PLACED = CELLS | {"origin_lat": 0.0, "origin_lon": 0.0}


def write_study(folder, **changes):
    """The small study as a file, with changes by path: `__` stands for a dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return write_tiny(folder / "study.yaml", dotted)


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
        parse_value("[{name: a, position_m: [100, 100]}]"),
        parse_value(
            "{learning__data: {kind: images, folder: nowhere}, "
            "learning__learner: {kind: torch, module: cnn}, learning__attacks: []}"
        ),
        None,
        "nowhere",
    ),
}


@mark.parametrize("stations, changes, cells, reason", WRONG.values(), ids=WRONG)
def test_validate_says_what_run_says(
    tmp_path, out, capsys, stations, changes, cells, reason, refuse_command
):
    if cells is not None:
        (tmp_path / "cells.csv").write_text(cells)
    path = write_study(tmp_path, world__base_stations=stations, **changes)
    assert main(["validate", str(path)]) == 2
    checked = capsys.readouterr()
    assert reason in checked.err
    assert refuse_command(f"run {path} --out {out} --quiet") == checked.err
    assert not out.exists()


def test_what_shows_when_the_world_is_built_has_file_and_line(tmp_path, refuse_command):
    path = write_study(
        tmp_path,
        world__base_stations={"kind": "uniform", "count": 2, "height_m": 400},
        world__radio__path_loss={"kind": "uma"},
    )
    line = path.read_text().splitlines().index('   "path_loss": {') + 1
    assert refuse_command(f"validate {path}").startswith(
        f"netsim: {path}:{line}: world.radio.path_loss: uma holds"
    )


def test_validate_and_sweep_build_the_world_of_every_setting_first(tmp_path, out, refuse_command):
    variants = parse_value(
        "[{label: low, set: {}}, {label: high, set: {world.base_stations.height_m: 400}}]"
    )
    path = write_study(
        tmp_path,
        world__base_stations={"kind": "uniform", "count": 2, "height_m": 25},
        world__radio__path_loss={"kind": "uma"},
        vary={"seed": [1, 2], "variants": variants},
    )
    printed = refuse_command(f"validate {path}")
    assert printed.startswith("netsim: vary, 'high': ")
    assert "world.radio.path_loss: uma holds" in printed
    assert refuse_command(f"sweep {path} --out {out} --quiet --jobs 1") == printed
    assert not out.exists()


def test_all_goes_through_every_run(tmp_path, run_command, monkeypatch):
    seen = []

    def check(study, thorough, resources=None):
        seen.append((study.seed, thorough))
        return ()

    for module in ("setup", "sweep"):
        monkeypatch.setattr(f"scenarios.app.run.{module}.check_study", check)
    path = write_study(tmp_path, seed=9, vary={"seed": [4, 5, 6]})
    run_command(f"validate {path}")
    assert seen == [(9, False), (4, False)]
    run_command(f"validate {path} --all")
    assert seen[2:] == [(9, True), (4, True), (5, True), (6, True)]


def test_the_studies_of_a_sweep_are_those_that_are_loaded_one_by_one(tmp_path):
    path = write_study(
        tmp_path,
        vary=parse_value("{seed: [7, 3], values: {learning.learner.learning_rate: [0.1, 0.2]}}"),
    )
    scenario = Scenario.from_source(path, {"learning.round_s": 30})
    result = resolve_points(scenario)
    assert [p.seed for p, _ in result] == [7, 3, 7, 3]
    for point, study in result:
        assert to_study_yaml(study) == to_study_yaml(
            scenario.with_changes(point.overrides, point.origins).study
        )


@fixture
def counts(monkeypatch):
    """Names of the studies that are built, and of the files that are read."""
    seen = {"built": [], "read": []}

    def building(model, document):
        seen["built"].append(document.path)
        return build_model(model, document)

    def reading(path):
        seen["read"].append(str(path))
        return read_file_text(path)

    monkeypatch.setattr("scenarios.app.study.load.build_model", building)
    monkeypatch.setattr("scenarios.app.study.load.read_file_text", reading)
    return seen


def test_a_study_is_read_once_and_built_once_for_each_setting(counts, tmp_path, run_command):
    path = write_study(
        tmp_path,
        vary=parse_value("{seed: [7, 3], values: {learning.learner.learning_rate: [0.1, 0.2]}}"),
    )
    run_command(f"validate {path}")
    assert counts == {"built": [str(path)] * 3, "read": [str(path)]}  # itself, and two rates
    run_command(f"run {path} --out {tmp_path}/out --quiet")
    assert (len(counts["built"]), len(counts["read"])) == (4, 2)


def test_changes_add_up_and_late_refusals_are_placed(counts, tmp_path):
    path = write_study(tmp_path, seed=9)
    scenario = Scenario.from_source(path, {"learning.round_s": 30})
    second = scenario.with_changes({"seed": 5})
    path.unlink()
    assert (scenario.study.seed, second.study.seed, second.study.round_s) == (9, 5, 30)
    assert scenario.study is scenario.study
    assert len(counts["built"]) == 2
    with (
        raises(BadInput, match=rf"^{path}:\d+: world.tick_s: too long$"),
        scenario.locate_errors(),
    ):
        raise BadInput("world.tick_s: too long")
    with (
        raises(BadInput, match=r"^--set learning.round_s: too long$"),
        scenario.locate_errors(),
    ):
        raise BadInput("learning.round_s: too long")


def test_thousands_of_seeds_are_checked_in_seconds(tmp_path, refuse_command, run_command):
    path = write_study(tmp_path, vary={"seed": list(range(5000))})
    began = time.process_time()
    assert "5,000 runs" in run_command(f"validate {path}")
    assert time.process_time() - began < 20
    path = write_study(tmp_path, vary=parse_value("{seed: [1, 2, -3]}"))
    assert "vary.seed[2]: must be at least 0" in refuse_command(f"validate {path}")
    path = write_study(
        tmp_path,
        vary={"seed": list(range(400)), "values": {"learning.round_s": list(range(1, 400))}},
    )
    assert "vary: 159,600 combinations, at most 100,000" in refuse_command(f"validate {path}")


STEERING = "red \x1b[31m, a bell \x07 and\u202eback"


def test_what_files_say_does_not_steer_the_terminal(tmp_path, capsys):
    path = write_study(tmp_path, title=STEERING, world__duration_s=60)
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 0
    assert main(["validate", str(path)]) == 0
    assert main(["validate", str(path), "--set", "learning.learner.kind=\x1b[2J"]) == 2
    assert main(["validate", str(path), "--\x1b[2J"]) == 2
    printed = capsys.readouterr()
    assert "\\x1b[31m" in printed.out
    assert "\\u202e" in printed.out
    assert all(line.isprintable() for line in (printed.out + printed.err).splitlines())


def test_complaints_have_a_length_that_can_be_read(capsys):
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


@mark.parametrize(
    "text, cell",
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
    assert guard_cell(text) == cell
    assert unguard_cell(cell) == text


def test_labels_of_a_sweep_are_no_formulas_in_its_tables(tmp_path, out):
    label = "=cmd|' /C calc'!A0"
    variants = [
        {"label": label, "set": {}, "curve": "@x", "strength": 1},
        {"label": "as written", "set": {}},
    ]
    path = write_study(tmp_path, world__duration_s=60, vary={"variants": variants})
    Sweep(Scenario.from_source(path), out, 1, lambda *_: None).play()
    write_report(out)
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
