"""The log of one person: places that he states stand in no file, and boxes are those of a fixed
grid."""

import re
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import date
from io import StringIO
from math import pi
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, approx, fixture, mark, raises

from netsim.clock import Clock
from netsim.errors import BadInput
from netsim.maps import project_lon_lat, unproject_m
from netsim.mobility.replay import Replay
from netsim.traces.table import Label
from scenarios.app.cli.commands import main
from scenarios.app.cli.options import join_command_line
from scenarios.app.cli.outcome import parse_origin_deg
from scenarios.app.results.owner import describe_owner, find_truth_deg, tabulate_owner
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
  references: {central: false, kriging_samples: 0}
"""


def make_run(named_m, side_m=2000.0):
    """A run of one UE as `tabulate_owner` reads it."""
    x, y = np.array(named_m, dtype=float).reshape(-1, 2).T
    return SimpleNamespace(
        tables={"named": {"x_m": x, "y_m": y}},
        manifest=SimpleNamespace(area_m=[0, 0, side_m, side_m], origin_deg=list(ORIGIN_DEG)),
        hit_radius_m=100.0,
    )


def put(**truth_m):
    """Places as `tabulate_owner` takes them."""
    return {
        what: unproject_m(np.array(at_m, dtype=float).reshape(-1, 2), ORIGIN_DEG)
        for what, at_m in truth_m.items()
    }


def test_a_place_is_found_within_the_radius_unless_chance_finds_it():
    named_m = [[500, 500], [900, 500]]
    truth_deg = put(home=(560, 579), work=(900, 601), places=[(0, 0), (900, 560), (560, 570)])
    runs = {
        "wide": make_run(named_m),
        "narrow": make_run(named_m, side_m=1000.0),
        "silent": make_run([]),
    }
    wide, narrow, silent = tabulate_owner(runs, truth_deg)
    # 1 - (1 - pi 100^2 / 2000^2)^2
    assert wide["chance_percent"] == approx(100 * (1 - (1 - pi / 400) ** 2))
    assert [wide["home_m"], wide["work_m"]] == approx([np.hypot(60, 79), 101], abs=0.1)
    assert [wide["home_verdict"], wide["work_verdict"]] == ["found", ""]
    assert wide["places"] == "2, 3"
    assert narrow["home_verdict"] == "by chance"
    assert (silent["chance_percent"], silent["home_m"], silent["places"]) == (0, np.inf, "")
    lines = describe_owner(wide)
    assert "99.2 m from the nearest named place, found" in lines[0]
    assert "101 m" in lines[1] and "not found" in lines[1]
    assert lines[2].endswith("named no. 2, 3")
    (row,) = tabulate_owner({"": make_run(named_m)}, put(home=(0, 0), work=(np.nan, np.nan)))
    assert "not seen in the log; --work LAT,LON" in describe_owner(row | {"places": ""})[1]


def make_trace(time_h, east_m):
    """A log of one user from Monday on, hours and metres."""
    return SimpleNamespace(
        position_m=np.column_stack([east_m, np.zeros(len(east_m))]),
        time_s=3600.0 * np.array(time_h),
        origin_deg=ORIGIN_DEG,
        local=SimpleNamespace(build_clock=lambda until_s: Clock(date(2026, 1, 5))),
    )


def test_the_place_of_most_time_stands_for_a_home_that_is_not_known():
    nights = np.arange(0, 96, 0.5)
    # home by night is where he is for six hours of a day, and 18 are spent elsewhere
    east_m = np.where(nights % 24 < 6, 0.0, 3000.0)
    truth_m = {
        what: project_lon_lat(at_deg, ORIGIN_DEG)
        for what, at_deg in find_truth_deg(make_trace(nights, east_m)).items()
    }
    assert_allclose(truth_m["home"], [[0, 0]], atol=0.1)
    assert_allclose(truth_m["work"], [[3000, 0]], atol=0.1)
    assert_allclose(truth_m["places"], [[3000, 0], [0, 0]], atol=0.1)
    days = nights % 24 >= 6
    at_deg = find_truth_deg(make_trace(nights[days], east_m[days]))
    assert_allclose(project_lon_lat(at_deg["home"], ORIGIN_DEG), [[3000, 0]], atol=0.1)
    assert np.isnan(at_deg["work"]).all()


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


def open_box(folder, box):
    (path,) = (folder / "out/boxes").glob(f"{box}_*")
    return open_finished_run(path)


def test_boxes_are_played_and_what_is_stated_stands_in_no_file(played):
    folder, printed = played
    answer = printed[printed.index("what is learnt of you, most in ") :].splitlines()
    assert re.match(
        r" *your home .*: [\d.,]+ m from the nearest named place, (not )?found", answer[1]
    )
    table = printed[printed.index("looked for in") :].splitlines()
    boxes = ["city-25-km", "district-6-km", "region-65-km"]
    assert [line.split()[0] for line in table[1:5]] == [*boxes, "its"]
    assert "follows from the log" in table[4]
    sides_m = []
    home_deg = np.array(HOME.split(","), float)
    for box, side_deg in zip(boxes, (0.2, 0.05, 0.5), strict=True):
        run = open_box(folder, box)
        mobility = run.study["world"]["ues"]["mobility"]
        south, west, north, east = mobility["area_deg"]
        assert_allclose([north - south, east - west], side_deg)
        corner = np.array([south, west]) / (side_deg / 2)
        assert_allclose(corner, corner.round(), atol=1e-6)
        away_deg = np.abs(np.array([south, west]) + side_deg / 2 - home_deg)
        assert (away_deg <= 0.26 * side_deg).all()
        assert mobility["extent"] == "stated"
        sides_m.append(run.manifest.area_m[3] - run.manifest.area_m[1])
    assert_allclose(sides_m, [1.2 * 22_260, 1.2 * 5_565, 1.2 * 55_650], rtol=0.01)
    for path in filter(Path.is_file, folder.rglob("*")):
        assert not re.search(rb"\.0123456|\.3654321", path.read_bytes()), path


def test_a_box_does_not_move_with_the_log(played, tmp_path):
    folder, _ = played
    assert main(write_log(tmp_path, (-0.003, -0.004))) == 0
    for box in ("city-25-km", "district-6-km", "region-65-km"):
        areas = [open_box(f, box).manifest.area_m for f in (folder, tmp_path)]
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
    write_log(tmp_path, (0.0, 0.0))
    assert main([*words, "--home", "52.2,4.357"]) == 2
    assert "no fix of" in capsys.readouterr().err


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
    (far_m,) = re.findall(r"your home .*: ([\d,]+) m from .*, not found", capsys.readouterr().out)
    assert 40_000 < float(far_m.replace(",", "")) < 70_000
