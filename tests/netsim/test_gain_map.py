"""Path gains of a file: a law that is known at every point, read back from a grid; and what is
refused."""

import csv
import json

import numpy as np
from noticed import lines
from numpy import (
    arange,
    bool_,
    full,
    hypot,
    int64,
    isnan,
    load,
    log10,
    meshgrid,
    moveaxis,
    nan,
    repeat,
    savez,
    stack,
    zeros,
)
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from refused import catch_line
from rows import read_yaml
from tabled import cases

from netsim.rng import Streams
from netsim.ues import Indoors
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting
from scenarios.app.study.describe import build_model
from scenarios.app.study.yaml_document import parse_document

SITES = {"a": (100.0, 100.0), "b": (300.0, 200.0)}


def axis(length_m, step_m=2.5):
    return arange(-step_m / 2, length_m + step_m, step_m)


def loss_db(at_m, height_m=1.5):
    """Of both sites (n, 2), whose antennas are 25 m high, by the formula."""
    d = stack(
        [hypot(norm(at_m - site, axis=-1), 25.0 - height_m) for site in SITES.values()],
        -1,
    )
    return 50.0 + 32.0 * log10(d / 10.0)


def centres(heights=(1.5,)):
    grid = meshgrid(heights, axis(300), axis(400), indexing="ij")
    return stack(grid[::-1], axis=-1)


def npz(path, heights=(1.5,), cells=("a", "b"), hole=None):
    place = centres(heights)
    loss = stack([loss_db(place[k, ..., :2], z) for k, z in enumerate(heights)])
    gain = 10 ** (-moveaxis(loss, -1, 0) / 10)
    if hole is not None:
        gain[:, :, hole(place[0])] = 0.0
    single = len(heights) == 1
    savez(
        path,
        path_gain=gain[:, 0] if single else gain,
        cell_centers=place[0] if single else place,
        cells=list(cells),
    )
    return str(path)


def table(path, loss=False, skip=None, extra=()):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["cell", "x_m", "y_m", "path_loss_db" if loss else "path_gain_db"])
        place = centres()[0].reshape(-1, 3)
        for (x, y, _), losses in zip(place.tolist(), loss_db(place[:, :2]).tolist(), strict=True):
            for cell, value in zip(SITES, losses, strict=True):
                if (cell, x, y) != skip:
                    rows.writerow([cell, x, y, value if loss else -value])
        rows.writerows(extra)
    return str(path)


def world(path_loss, stations=None, ues=None, city=None, **radio):
    stations = stations or [
        {"name": name, "position_m": list(place)} for name, place in SITES.items()
    ]
    document = read_yaml("""
        duration_s: 60, tick_s: 10, city: {kind: open-field, width_m: 400, height_m: 300},
        ues: {count: 20, mobility: {kind: random-waypoint}, measurement_period_s: 5}
    """)
    document["city"] = city or document["city"]
    document["base_stations"] = stations
    document["ues"] |= ues or {}
    document["radio"] = {"path_loss": path_loss} | radio
    return build_world(
        build_model(WorldSetting, parse_document(json.dumps(document), "world")), Streams(3), 60.0
    )


PLACE_M = default_rng(7).uniform([0, 0], [400, 300], (500, 2))


@mark.parametrize(
    "write", [npz, table, lambda path: table(path, loss=True)], ids=["npz", "gains", "losses"]
)
def test_a_grid_of_a_law_gives_the_law(tmp_path, write):
    name = "g.npz" if write is npz else "g.csv"
    mapped = world({"kind": "map", "file": write(tmp_path / name)})
    law = world({"kind": "log-distance", "exponent": 3.2})
    assert abs(mapped.budget.rsrp_dbm(PLACE_M) - law.budget.rsrp_dbm(PLACE_M)).max() < 0.1
    assert_allclose(mapped.budget.rsrp_dbm(PLACE_M), 15.0 - loss_db(PLACE_M), atol=0.1)
    assert mapped.notices == law.notices == ()


def test_between_points_it_is_linear_in_decibels_and_beyond_them_the_nearest(tmp_path):
    budget = world({"kind": "map", "file": npz(tmp_path / "g.npz")}).budget
    x = axis(400)[90]
    y = axis(300)[20]
    corner_m = np.array([[x, y], [x + 2.5, y], [x, y + 2.5], [x + 2.5, y + 2.5]])
    expected = np.array([0.3 * 0.75, 0.7 * 0.75, 0.3 * 0.25, 0.7 * 0.25]) @ -loss_db(corner_m)
    actual = budget.rsrp_dbm(np.array([[x + 1.75, y + 0.625]]))[0]
    assert_allclose(actual, 15.0 + expected, rtol=1e-12)
    far, edge = budget.rsrp_dbm(np.array([[-500.0, 50.0], [axis(400)[0], 50.0]]))
    assert (far == edge).all()
    assert isnan(budget.rsrp_dbm(full((1, 2), nan))).all()


def test_floors_take_the_heights_of_the_file(tmp_path):
    budget = world({"kind": "map", "file": npz(tmp_path / "g.npz", (1.5, 4.5, 10.5))}).budget
    ue = arange(4)
    floor = np.array([0, 1, 2, 7])
    inside = Indoors(ue, ue, floor, zeros(4), zeros(4, int64), zeros(4, bool_))
    node = repeat([[axis(400)[60], axis(300)[30]]], 4, axis=0)
    height = lambda z: loss_db(node[0], z)  # noqa: E731
    expected = [height(1.5), height(4.5), (height(4.5) + height(10.5)) / 2, height(10.5)]
    assert_allclose(15.0 - budget.rsrp_dbm(node, inside), expected, rtol=1e-12)


def test_ues_in_buildings_without_gains_of_their_floors_are_said(tmp_path):
    """Of a town, whose people live on floors: of a single plane, of a table without heights, not of
    all floors."""
    for write, is_said in (
        (npz, True),
        (table, True),
        (lambda path: npz(path, (1.5, 30.0)), False),
    ):
        file = write(tmp_path / ("g.csv" if write is table else "g.npz"))
        city = {"kind": "grid", "width_m": 400, "height_m": 300}
        built = world(
            {"kind": "map", "file": file}, ues={"mobility": {"kind": "resident"}}, city=city
        )
        assert any("outdoor gains" in message for message in lines(built.notices)) == is_said
        assert not built.setting.radio.sight_is_modelled


def test_places_that_no_path_reaches_are_uncovered_and_counted(tmp_path):
    path = npz(
        tmp_path / "g.npz",
        cells=("a", "b"),
        hole=lambda place: (place[..., 0] > 200) & (place[..., 1] > 100),
    )
    single = world({"kind": "map", "file": path, "uncovered_gain_db": -180})
    share = (axis(400) > 200).mean() * (axis(300) > 100).mean()
    expected = [f"path loss: {path}: {100 * share:.3g} % of its gains are none or 0, -180 dB there"]
    assert lines(single.notices) == expected
    neighbour, within, deep = single.budget.rsrp_dbm(
        np.array([[199.9, 150.0], [200.1, 150.0], [300.0, 200.0]])
    )
    assert (deep == -165.0).all()
    assert (within == -165.0).all()
    # not half of the hole
    assert_allclose(neighbour, 15.0 - loss_db(np.array([199.0, 150.0])), atol=0.2)
    missing = world({"kind": "map", "file": table(tmp_path / "g.csv", skip=("a", 98.75, 98.75))})
    assert (
        f"{100 / (2 * len(axis(400)) * len(axis(300))):.3g} % of its gains"
        in lines(missing.notices)[0]
    )


def test_antennas_are_in_the_gains_unless_they_are_not(tmp_path):
    path = npz(tmp_path / "g.npz")
    sectors = [
        {"name": n, "position_m": list(place), "azimuth_deg": 30} for n, place in SITES.items()
    ]
    plain = world({"kind": "map", "file": path}).budget.rsrp_dbm(PLACE_M)
    within = world({"kind": "map", "file": path}, sectors).budget.rsrp_dbm(PLACE_M)
    added = world(
        {"kind": "map", "file": path, "includes_antenna": False}, sectors
    ).budget.rsrp_dbm(PLACE_M)
    law = {"kind": "log-distance", "exponent": 3.2}
    pattern = world(law, sectors).budget.rsrp_dbm(PLACE_M) - world(law).budget.rsrp_dbm(PLACE_M)
    assert (within == plain).all()
    assert abs(pattern).max() > 5
    assert_allclose(added - plain, pattern, atol=1e-9)


def test_cells_without_gains_are_refused_and_gains_without_cells_counted(tmp_path):
    path = npz(tmp_path / "g.npz")
    assert "no gains of c; its cells are a, b" in catch_line(
        world, {"kind": "map", "file": path}, [{"name": "c", "position_m": [10, 10]}]
    )
    single = world({"kind": "map", "file": path}, [{"name": "b", "position_m": list(SITES["b"])}])
    assert lines(single.notices)[0].endswith("cells that are no base station and left out: 1")
    assert_allclose(single.budget.rsrp_dbm(PLACE_M)[:, 0], 15.0 - loss_db(PLACE_M)[:, 1], atol=0.1)


@mark.parametrize(
    "radio, ues, reason",
    cases("""
    {"shadowing": {"kind": "iid"}}, {}, "radio.shadowing: path loss map"
    {"penetration": {"kind": "tr38901"}}, {}, "radio.penetration: path loss map"
    {}, {"indoor": {}}, "ues.indoor: path loss map"
    {}, {"height_m": 3.0}, "ues.height_m 3"
"""),
)
def test_what_would_count_obstacles_twice_is_refused(tmp_path, radio, ues, reason):
    path = npz(tmp_path / "g.npz")
    assert reason in catch_line(world, {"kind": "map", "file": path}, None, ues, **radio)


def _arrays(path, **changes):
    with load(npz(path)) as stored:
        arrays = {**stored, **changes}
    savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return str(path)


TURNED = centres()[0] @ np.array([[0.8, 0.6, 0], [-0.6, 0.8, 0], [0, 0, 1]])
BAD_ARRAYS = {
    "cells": (None, "there is no cells"),
    "path_gain": (full((2, 122, 162), -90.0), "linear gains are 0 to 1"),
    "cell_centers": (TURNED, "its points are no grid"),
}


@mark.parametrize("name, value, reason", [(k, *v) for k, v in BAD_ARRAYS.items()], ids=BAD_ARRAYS)
def test_arrays_that_are_no_map_are_refused(tmp_path, name, value, reason):
    path = _arrays(tmp_path / "g.npz", **{name: value})
    assert reason in catch_line(world, {"kind": "map", "file": path})
    (tmp_path / "small.npz").write_bytes(b"no zip")
    assert "small.npz: damaged" in catch_line(
        world, {"kind": "map", "file": str(tmp_path / "small.npz")}
    )
    far = _arrays(tmp_path / "g.npz", cell_centers=centres()[0] + [150.0, 0, 0])
    assert "area is x 0 to 400 m" in catch_line(world, {"kind": "map", "file": far})


def test_tables_that_are_no_map_are_refused(tmp_path):
    path = table(tmp_path / "g.csv", extra=[["a", 98.75, 98.75, -60]])
    lines = 1 + 2 * len(axis(400)) * len(axis(300))
    law = {"kind": "map", "file": path}
    assert f"g.csv: line {lines + 1}: its cell has a gain" in catch_line(world, law)
    table(tmp_path / "g.csv", extra=[["a", 500.0, 99.0, 60]])
    assert "path_gain_db: '60' is not a number in [-400, 0]" in catch_line(world, law)
    (tmp_path / "g.csv").write_text("cell,x_m,y_m,gain\na,1,2,-60\n")
    assert "none, or more than one, of the columns" in catch_line(world, law)
    rows = "".join(f"a,{k},{k * k % 97},-60\n" for k in range(60))
    (tmp_path / "g.csv").write_text("cell,x_m,y_m,path_gain_db\n" + rows)
    assert "its points are no grid" in catch_line(world, law)


def test_a_run_that_learns_over_it_is_the_run_over_the_law(tiny, tmp_path):
    """The grid is a thousand times finer than the noise of measurements, so nothing that is learnt
    differs."""
    from scenarios.app.result import run
    from scenarios.app.results.folder import read_record_table

    path = npz(tmp_path / "g.npz")
    changes = {"world.radio.shadowing": {"kind": "none"}, "world.radio.handover": {}}
    laws = {"map": {"kind": "map", "file": path}, "law": {"kind": "log-distance", "exponent": 3.2}}
    for name, law in laws.items():
        run(tiny(changes | {"world.radio.path_loss": law}), tmp_path / name)
    for name in ("ues", "tracks"):
        expected = (tmp_path / "law" / f"{name}.csv").read_bytes()
        assert (tmp_path / "map" / f"{name}.csv").read_bytes() == expected
    moved = [read_record_table(tmp_path / name, "handovers")["target"].tolist() for name in laws]
    assert moved[0] == moved[1]
    mapped, law = (read_record_table(tmp_path / name, "coverage") for name in laws)
    assert_allclose(mapped["rsrp_dbm"].astype(float), law["rsrp_dbm"].astype(float), atol=0.1)
    eavesdropper = {"viewpoint": "eavesdropper", "position_m": [50, 50]}
    extra = changes | {
        "learning.threat": eavesdropper,
        "world.radio.uplink": {"kind": "noma", "decoding": "error-free"},
    }
    over_map = extra | {"world.radio.path_loss": laws["map"]}
    refusal = catch_line(tiny, over_map)
    assert "known for base stations only" in refusal
    assert "name a transmitter of its file" in refusal
    # the second site is no base station but her antenna: as her antenna there over the law
    extra["world.base_stations"] = [{"name": "a", "position_m": list(SITES["a"])}]
    over_map |= extra
    heard = {}
    for name, threat in (
        ("law", {"position_m": list(SITES["b"])}),
        ("map", {"transmitter": "b"}),
        ("both", {"transmitter": "b", "position_m": list(SITES["b"])}),
    ):
        threat = eavesdropper | {"position_m": None, "height_m": 25} | threat
        run(
            tiny(
                extra
                | {
                    "world.radio.path_loss": laws[name.replace("both", "map")],
                    "learning.threat": threat,
                }
            ),
            tmp_path / f"ear-{name}",
        )
        heard[name] = read_record_table(tmp_path / f"ear-{name}", "eavesdropper")
    for name in ("map", "both"):
        assert_allclose(heard[name]["sinr_db"], heard["law"]["sinr_db"], atol=0.1)
        assert isnan(heard[name]["los"].astype(float)).all()  # obstacles are in the gains
    assert_array_equal(heard["both"]["distance_m"], heard["law"]["distance_m"])
    assert isnan(heard["map"]["distance_m"].astype(float)).all()
    assert (heard["law"]["los"] == 1).all()
    named = {"learning.threat": eavesdropper | {"transmitter": "c"}}
    unknown = tiny(over_map | named)
    assert "has no gains of c; its cells are a, b" in catch_line(run, unknown, tmp_path / "c")
    assert "log-distance has no file of transmitters" in catch_line(tiny, extra | named)
    server = {"learning.threat": {"transmitter": "b"}}
    assert "the server has no antenna of its own" in catch_line(tiny, over_map | server)
