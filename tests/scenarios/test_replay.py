"""The data of the replay: exact within stated steps, true to the tables, and what is left out is
said."""

import base64
import gzip
import json
import re
import shutil
from dataclasses import replace
from math import nan

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rows import read_yaml
from uploads import change_rows, upload, write_uploads

from netsim.checkpoint import read_arrays
from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.report import replay
from scenarios.app.report.charts import QUANTITIES, Chart
from scenarios.app.report.plot import Chapter
from scenarios.app.report.replay import (
    build_replay_chapter,
    collect_replay_tables,
    find_needed_rows,
    simplify_tracks,
)
from scenarios.app.results.read import load_finished_run


def unpack(text):
    """Header, and tables of columns as the page reads them."""
    raw = gzip.decompress(base64.b64decode(text))
    first = 4 + int.from_bytes(raw[:4], "little")
    head = json.loads(raw[4:first])
    tables = {}
    for item in head["arrays"]:
        table, column = item["name"].split(".")
        tables.setdefault(table, {})[column] = np.frombuffer(
            raw, f"<{item['type']}", item["size"], first + item["at"]
        )
    return head["meta"], tables


def in_page(folder):
    loaded = load_finished_run(folder)
    return loaded, *unpack(build_replay_chapter(loaded).data["replay-data"])


# -- tracks


def walk(n=400, seed=3):
    """Two UEs that walk, rest, enter buildings and go away for a while."""
    rng = np.random.default_rng(seed)
    pieces = []
    for ue in range(2):
        time_s = np.cumsum(rng.integers(1, 30, n)).astype(float)
        stride_m = rng.normal(0, 6, (n, 2)) * (rng.random((n, 1)) < 0.7)
        at_m = 200 + np.cumsum(
            stride_m + np.where(np.arange(n)[:, None] < n // 2, [3.0, 1.0], [-2.0, 2.0]), axis=0
        )
        at_m[n // 3 : n // 3 + 2] = nan
        pieces.append(
            (np.full(n, ue), time_s, *at_m.T, np.arange(n) // 50 % 2 == 1, np.arange(n) // 80)
        )
    names = ("ue", "time_s", "x_m", "y_m", "indoor", "cell")
    return dict(zip(names, map(np.concatenate, zip(*pieces, strict=True)), strict=True))


def pick_rows(tracks, kept):
    return {name: column[kept] for name, column in tracks.items()}


def along(tracks, ue, time_s):
    """Where a UE is by straight lines, as the page draws it, and the row before."""
    rows = np.flatnonzero(tracks["ue"] == ue)
    at_m = np.column_stack([tracks["x_m"], tracks["y_m"]])
    times = tracks["time_s"]
    i = rows[np.clip(np.searchsorted(times[rows], time_s, side="right") - 1, 0, len(rows) - 1)]
    j = np.minimum(i + 1, rows[-1])
    j = np.where(np.isnan(at_m[j]).any(axis=1), i, j)
    span = times[j] - times[i]
    share = np.divide(time_s - times[i], span, out=np.zeros(len(time_s)), where=span > 0)
    return at_m[i] + share[:, None] * (at_m[j] - at_m[i]), i


@pytest.mark.parametrize("within_m", [0.0, 0.5, 4.0, 30.0])
def test_simplified_tracks_stay_within_the_stated_distance_at_every_time(within_m):
    full = walk()
    fewer = pick_rows(full, find_needed_rows(full, within_m))
    for ue in range(2):
        own_rows = full["time_s"][full["ue"] == ue]
        time_s = np.linspace(own_rows[0], own_rows[-1], 5001)
        (before, of_full) = along(full, ue, time_s)
        (after, row) = along(fewer, ue, time_s)
        assert (np.isnan(before) == np.isnan(after)).all()
        assert np.nanmax(np.linalg.norm(after - before, axis=1)) <= within_m + 1e-9
        assert all((fewer[k][row] == full[k][of_full]).all() for k in ("indoor", "cell"))
    assert not within_m or len(fewer["ue"]) < len(full["ue"])


def test_a_straight_line_needs_two_rows():
    time_s = np.arange(50.0)
    none = np.zeros(50)
    line = dict.fromkeys(("ue", "indoor", "cell"), none)
    line |= {"time_s": time_s, "x_m": 2 * time_s, "y_m": time_s}
    assert np.flatnonzero(find_needed_rows(line, 0.01)).tolist() == [0, 49]
    assert 20 in np.flatnonzero(
        find_needed_rows(line | {"y_m": time_s + np.where(time_s == 20, 9.0, 0.0)}, 1.0)
    )


def test_tracks_are_simplified_only_as_far_as_needed():
    full = walk()
    assert simplify_tracks(full, len(full["ue"]))[1] == 0.5
    fewer, within_m = simplify_tracks(full, 300)
    assert len(fewer["ue"]) <= 300
    assert within_m > 0.5
    assert find_needed_rows(full, within_m / 2).sum() > 300


def test_tracks_of_a_run_are_in_the_page(commuters):
    loaded, _, tables = in_page(commuters)
    table = loaded.get_rows("tracks")
    result = tables["tracks"]
    for ue in range(3):
        rows = result["ue"] == ue
        own_rows = table["ue"] == ue
        for axis in ("x_m", "y_m"):
            drawn_m = np.interp(
                table["time_s"][own_rows], result["time_s"][rows], result[axis][rows]
            )
            assert_allclose(drawn_m, table[axis][own_rows], rtol=0, atol=0.75)


# -- tables


def test_tables_are_those_of_the_run_in_order_of_attack_and_ue(commuters):
    loaded, meta, tables = in_page(commuters)
    leakage = loaded.get_rows("leakage")
    result = tables["leakage"]
    assert [a["name"] for a in meta["attacks"]] == loaded.attacks
    assert len(result["ue"]) == len(leakage["ue"])
    attacks = list(map(loaded.attacks.index, leakage["attack"]))
    order = np.lexsort([leakage["round"], leakage["ue"], attacks])
    for column in ("named_x_m", "named_y_m", "second_x_m", "second_y_m"):
        assert_allclose(result[column], leakage[column][order], atol=0.26)
    assert (result["home"] == (leakage["home_named_m"][order] <= loaded.hit_radius_m)).all()
    links = loaded.get_rows("links")
    sent = tables["links"]
    order = np.lexsort([links["round"], links["ue"]])
    names = [meta["stations"][int(k)]["name"] for k in sent["base_station"]]
    assert names == links["base_station"][order].tolist()
    assert_allclose(sent["sinr_db"], links["sinr_db"][order], atol=1e-3)
    assert_allclose(tables["rounds"]["rmse_db"], loaded.tables["rounds"]["rmse_db"], atol=1e-3)
    assert meta["final"]["rmse_db"] == loaded.summary["utility.rmse_db"]
    coverage = loaded.tables["coverage"]
    squares = tables["coverage"]
    for column in ("x_m", "rsrp_dbm", "sinr_db"):
        assert_allclose(squares[column], coverage[column], atol=0.06)


def test_huge_numbers_are_missing_without_a_warning(commuters, tmp_path):
    huge = read_yaml("""
        rounds: {rmse_db: "1e300"}, estimates: {model: "1e300", x_m: "-1e308"}, tracks:
        {x_m: "1e308", y_m: "1e300"}, updates: {x_m: "1e308"}, ues: {home_x_m: "1e308"},
        coverage: {rsrp_dbm: "1e308", x_m: "1e308"}
    """)
    folder = shutil.copytree(commuters, tmp_path / "r")
    for table, cells in huge.items():
        firsts = iter([cells])
        change_rows(folder, table, lambda row, firsts=firsts: row | next(firsts, {}))
    _, _, tables = in_page(folder)
    del huge["estimates"]
    for table, cells in huge.items():
        assert all(np.isnan(tables[table][column]).any() for column in cells)


def test_where_uploads_take_time_places_are_named_when_updates_are_merged(commuters, tmp_path):
    folder = shutil.copytree(commuters, tmp_path / "run")
    write_uploads(folder, [upload(1, 0, (43_200, 43_300, 43_400, 43_500))])
    change_rows(
        folder, "rounds", lambda row: row | {"time_s": str(float(row["requested_s"]) + 600.0)}
    )
    loaded = load_finished_run(folder)
    (panel,) = Chart("named", "", [QUANTITIES["homes"]], "").build_panels(loaded)
    (times,) = [trace["x"] for trace in panel.figure["data"] if trace["name"] == "closed-form"]
    assert times[:2] == ["2026-01-05 12:10:00", "2026-01-06 00:10:00"]


def test_with_too_much_to_draw_the_first_ues_are_drawn_and_it_is_said(commuters, monkeypatch):
    loaded = load_finished_run(commuters)
    assert collect_replay_tables(loaded)[1] == [
        "UEs move on straight lines between their true places every 20 min."
    ]
    monkeypatch.setattr(replay, "MOST_UES", 2)
    monkeypatch.setattr(replay, "MOST_ROWS", 12)
    monkeypatch.setattr(replay, "MOST_TRACKED", 12)
    tables, says = collect_replay_tables(loaded)
    assert len(tables["ues"]["home_x_m"]) == 2
    assert set(tables["leakage"]["ue"]) == set(tables["tracks"]["ue"]) == {0}
    assert "Drawn are the first 2 of 3 UEs." in says
    assert "Too much to draw: leakage of the first 1 of 3 UEs only." in says


def test_the_same_run_gives_the_same_bytes_and_names_stay_out_of_the_markup(commuters, tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    shutil.copytree(commuters, tmp_path / "r")
    path = tmp_path / "r/ues.csv"
    path.write_text(re.sub("(?m)^0,[^,]*", f"0,{evil}", path.read_text()))
    first = build_replay_chapter(load_finished_run(tmp_path / "r"))
    assert unpack(first.data["replay-data"])[0]["ues"][0] == evil
    assert evil not in "".join(first.parts)
    assert build_replay_chapter(load_finished_run(tmp_path / "r")) == first


def test_without_anything_to_see_there_is_no_chapter(commuters, tmp_path):
    loaded = load_finished_run(commuters)
    empty = {name: {k: v[:0] for k, v in table.items()} for name, table in loaded.tables.items()}
    assert build_replay_chapter(
        replace(loaded, tables=empty, folder=tmp_path, resolved={"world": {}})
    ) == Chapter("map", "Map", [])


# -- what stands


def test_the_map_leaves_courtyards_open(tmp_path, tiny):
    import shapely

    from netsim.city.buildings import Buildings
    from netsim.world.build import build_world
    from scenarios.app.results.read import _read_ground as loaded
    from scenarios.app.run.play import write_map

    world = build_world(tiny().world, Streams(0), 60.0)
    house = shapely.Polygon(
        shapely.box(0, 0, 100, 100).exterior, [shapely.box(40, 40, 60, 60).exterior]
    )
    houses = np.array([shapely.box(150, 0, 160, 10), house], dtype=object)
    buildings = Buildings(houses, np.array([5.0, 9.0]))
    world.ground = replace(world.ground, buildings=buildings)
    write_map(tmp_path, world, tiny().world.city)
    ground = loaded(tmp_path / "map.npz")
    assert ground["footprint_building"].tolist() == [0, 1, 1]
    result, few = replay._collect_shapes(ground, "footprint", "building")
    rings = [
        np.column_stack([result["x_m"], result["y_m"]])[result["shape"] == k] for k in range(3)
    ]
    # a ring that runs the other way is a hole of what is filled; the tallest house comes first
    areas = [0.5 * np.linalg.det(np.stack([p[:-1], p[1:]], axis=1)).sum() for p in rings]
    assert areas == pytest.approx([1e4, -400.0, 100.0])
    assert not few
    assert [set(result["kind"][result["shape"] == k]) for k in range(3)] == [{9.0}, {9.0}, {5.0}]


def test_streets_water_and_sectors_are_drawn_where_there_are_some(commuters, tmp_path, monkeypatch):
    shutil.copytree(commuters, tmp_path / "r")
    scene = read_yaml("""
        street_m: [[0.0, 0], [5, 5], [0, 0], [10, 0], [10, 0], [10, 20]],
        street_ptr: [0, 2, 4, 6], street_class: [6, 0, 3], station_azimuth_deg: [90.0, .nan],
        scenery_m: [[0.0, 0], [9, 0], [9, 9], [0, 0], [0, 0], [5, 0], [5, 5], [0, 0]],
        scenery_ptr: [0, 4, 8], scenery_kind: [1, 0]
    """)
    np.savez(tmp_path / "r/map.npz", **(read_arrays(commuters / "map.npz") | scene))
    loaded, meta, tables = in_page(tmp_path / "r")
    street = tables["street"]
    assert street["kind"].tolist() == [0, 0, 3, 3, 6, 6]  # main streets first
    assert_allclose(
        np.column_stack([street["x_m"], street["y_m"]]), np.roll(scene["street_m"], -2, axis=0)
    )
    assert [(s["name"], s["azimuth_deg"]) for s in meta["stations"]] == [("a", 90.0), ("b", None)]
    monkeypatch.setattr(replay, "MOST_CORNERS", 4)
    tables, says = collect_replay_tables(loaded)
    assert set(tables["street"]["kind"]) == {0, 3}
    assert any("street layer shows only part" in text for text in says)
    torn = scene | {"street_ptr": [0, 2, 9, 6]}
    np.savez(tmp_path / "r/map.npz", **(read_arrays(commuters / "map.npz") | torn))
    with pytest.raises(BadInput, match="do not fit together"):
        load_finished_run(tmp_path / "r")
