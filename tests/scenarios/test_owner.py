"""The log of one person: places that he states stand in no file, and boxes are those of a fixed
grid."""

import re
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from math import pi
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, approx, fixture, mark, raises

from netsim.errors import BadInput
from netsim.maps import unproject_m
from netsim.mobility.replay import Replay
from netsim.traces.table import Label
from scenarios.app.cli.commands import main
from scenarios.app.cli.options import join_command_line
from scenarios.app.cli.outcome import parse_origin_deg
from scenarios.app.results.owner import tabulate_owner
from scenarios.app.results.read import open_finished_run

ORIGIN_DEG = (52.013, 4.357)
HOME = "52.0123456,4.3654321"
STUDY = """
title: A log
world:
  city: {kind: open-field}
  ues: {mobility: {kind: replay, trace: log.csv}}
learning:
  round_s: 86400
  data: {kind: measured}
  learner: {kind: rsrp-net, hidden: [8]}
  attacks: [{kind: closed-form}]
  references: {central: false}
"""


def make_run(named_m, side_m=2000.0, **places_m):
    """A run of one UE as `tabulate_owner` reads it."""
    ues = {
        f"{what}_{axis}_m": np.array([places_m.get(what, (np.nan, np.nan))[k]])
        for what in ("home", "work", "densest")
        for k, axis in enumerate("xy")
    }
    x, y = np.array(named_m, dtype=float).reshape(-1, 2).T
    return SimpleNamespace(
        tables={"named": {"x_m": x, "y_m": y}, "ues": ues},
        manifest=SimpleNamespace(area_m=[0, 0, side_m, side_m], origin_deg=list(ORIGIN_DEG)),
        hit_radius_m=100.0,
    )


def test_a_place_is_found_within_the_radius_unless_chance_finds_it():
    named_m = [[500, 500], [900, 500]]
    rows = tabulate_owner(
        {
            "wide": make_run(named_m, home=(560, 580), work=(900, 601)),
            "narrow": make_run(named_m, side_m=1000.0, home=(560, 580)),
            "no home": make_run(named_m, densest=(500, 400)),
            "silent": make_run([], home=(0, 0)),
        },
        {},
    )
    # 1 - (1 - pi 100^2 / 2000^2)^2
    assert float(rows[0][1]) == approx(100 * (1 - (1 - pi / 400) ** 2), rel=0.05)
    assert rows[0][2:] == ["100", "found", "101", ""]
    assert rows[1][1:] == ["6.2", "100", "", "–", ""]
    assert rows[2][2:4] == ["100", "found"]
    assert rows[3][1:4] == ["0", "∞", ""]


def test_a_stated_place_counts_in_place_of_stays():
    place_m = np.array([[250.0, 0.0]])
    stated = {"home": unproject_m(place_m, ORIGIN_DEG)}
    run = make_run([[0, 0], [250, 40]], home=(0, 0), work=(0, 0))
    ((_, _, home, found, work, _),) = tabulate_owner({"a": run}, stated)
    assert float(home) == approx(40, abs=0.1)
    assert (found, work) == ("found", "0.000" if work.startswith("0.0") else "0")


@fixture(scope="module")
def played(tmp_path_factory):
    """The folder of a log of three days, and what its replay printed."""
    folder = tmp_path_factory.mktemp("log")
    words = [*write_log(folder, (0.0, 0.0)), "--home", HOME, f"--work={HOME}"]
    with MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr("sys.argv", ["netsim", *words])
        assert main(words) == 0
    return folder, printed.getvalue()


def write_log(folder, shift_deg):
    time_s = np.arange(0, 3 * 86_400, 1800.0)
    rng = np.random.default_rng(1)
    at_deg = ORIGIN_DEG + np.array(shift_deg) + rng.normal(0, 1e-3, (len(time_s), 2))
    rows = [
        f"{1.7e9 + t:.0f},{lat:.6f},{lon:.6f}" for t, (lat, lon) in zip(time_s, at_deg, strict=True)
    ]
    (folder / "log.csv").write_text("time_s,lat,lon\n" + "\n".join(rows) + "\n")
    (folder / "study.yaml").write_text(STUDY)
    words = ["replay", str(folder / "log.csv"), "--scenario", str(folder / "study.yaml")]
    return [*words, "--quiet", "--out", str(folder / "out")]


def test_boxes_are_played_and_what_is_stated_stands_in_no_file(played):
    folder, printed = played
    table = printed[printed.index("looked for in") :].splitlines()
    boxes = ["district-6-km", "city-25-km", "region-125-km"]
    assert [line.split()[0] for line in table[1:5]] == [*boxes, "its"]
    assert "follows from the log" in table[4]
    sides_m = []
    for box, side_deg in zip(boxes, (0.05, 0.2, 1.0), strict=True):
        run = open_finished_run(folder / "out/boxes" / box)
        mobility = run.study["world"]["ues"]["mobility"]
        south, west, north, east = mobility["area_deg"]
        assert_allclose([north - south, east - west], side_deg)
        corner = np.array([south, west]) / side_deg
        assert_allclose(corner, corner.round(), atol=1e-6)
        assert south <= ORIGIN_DEG[0] <= north
        assert west <= ORIGIN_DEG[1] <= east
        assert mobility["extent"] == "stated"
        sides_m.append(run.manifest.area_m[3] - run.manifest.area_m[1])
    assert_allclose(sides_m, [1.2 * 5_565, 1.2 * 22_260, 1.2 * 111_300], rtol=0.01)
    for path in filter(Path.is_file, folder.rglob("*")):
        assert not re.search(rb"\.0123456|\.3654321", path.read_bytes()), path


def test_a_box_does_not_move_with_the_log(played, tmp_path):
    folder, _ = played
    assert main(write_log(tmp_path, (0.003, -0.004))) == 0
    for box in ("district-6-km", "city-25-km", "region-125-km"):
        areas = [
            open_finished_run(f / "out/boxes" / box).manifest.area_m for f in (folder, tmp_path)
        ]
        assert_allclose(*areas, rtol=1e-9)


def test_with_a_stated_area_there_are_no_boxes(tmp_path, capsys):
    assert main([*write_log(tmp_path, (0.0, 0.0)), "--area-deg", "52,4.3,52.05,4.4"]) == 0
    assert "the stated area" in capsys.readouterr().out
    assert not (tmp_path / "out/boxes").exists()


@mark.parametrize("typed", [["--home", "1,2"], ["--home=1,2"], ["--home=1, 2"], ["--work", "1,2"]])
def test_a_command_is_kept_without_the_places_of_its_owner(typed, monkeypatch):
    monkeypatch.setattr("sys.argv", ["netsim", "replay", "log.csv", *typed, "--seed", "3"])
    assert not re.search(r"1|2", line := join_command_line())
    assert line.endswith("... --seed 3") or line.endswith("...' --seed 3")


def test_places_that_are_none_are_refused(tmp_path, capsys):
    with raises(BadInput, match=r"^--home 91,0: latitude is -90 to 90"):
        parse_origin_deg("91,0", "--home")
    words = write_log(tmp_path, (0.0, 0.0))
    path = tmp_path / "log.csv"
    header, *rows = path.read_text().splitlines()
    rows = [f"{row},u{k % 2}" for k, row in enumerate(rows)]
    path.write_text("\n".join([f"{header},user", *rows]))
    assert main([*words, "--home", "1,2"]) == 2
    assert "has several users" in capsys.readouterr().err


def test_places_that_the_phone_names_are_the_truth(tmp_path, capsys, monkeypatch):
    words = [
        *write_log(tmp_path, (0.0, 0.0)),
        "--area-deg",
        "52,4.3,52.05,4.4",
        "--truth",
        "labels",
    ]
    assert main(words) == 2
    assert "names no home and no workplace" in capsys.readouterr().err
    read_fixes = Replay.read_fixes
    far = Label("all", "home", ORIGIN_DEG[0] + 0.5, ORIGIN_DEG[1])
    monkeypatch.setattr(Replay, "read_fixes", lambda self: replace(read_fixes(self), labels=(far,)))
    assert main(words) == 0
    row = capsys.readouterr().out.strip().splitlines()[-1]
    assert 40_000 < float(row.split()[4].replace(",", "")) < 70_000
