"""The data of the replay: exact within stated bounds, true to the tables, and what is left out is said."""

import base64
import gzip
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from uploads import change_rows, upload, write_uploads

from netsim.checkpoint import read_arrays
from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.report.charts import HOME, Chart
from scenarios.app.report.replay import chapter, data, rounds
from scenarios.app.report.replay.chapter import DATA, replay_chapter
from scenarios.app.report.replay.data import replay_of, time_unit_s
from scenarios.app.report.replay.grid import NOWHERE, Grid, pointers, steps
from scenarios.app.report.replay.ground import ground_arrays
from scenarios.app.report.replay.tracks import Tracks, needed, of_first_ues, simplified
from scenarios.app.report.series import Laid, named_over_time
from scenarios.app.results.folder import read_table
from scenarios.app.results.read import load
from scenarios.app.run.runner import run

AREA_M = (0.0, 0.0, 1200.0, 900.0)
COMMUTERS = {
    "world.duration_s": 3 * 86_400, "world.tick_s": 1200, "world.ues.measure_every_s": None, "world.ues.count": 3,
    "world.ues.mobility": {
        "kind": "commuter",
        "home_m": [[100, 100], [1000, 700], [300, 800]], "work_m": [[600, 400], [150, 700], [900, 300]],
    },
    "world.city.width_m": 1200, "world.city.height_m": 900, "learning.round_s": 43_200,
    "world.radio.uplink": {"kind": "noma", "sic_residual": 0.01, "decoding": "error-free", "deadline_s": 60},
    "learning.attacks": [{"kind": "closed-form"}, {"kind": "dlg", "starts": 1, "iterations": 3}],
    "learning.leakage": {"random_baseline_draws": 20, "directions": 12},
}  # fmt: skip


@pytest.fixture(scope="module")
def commuters(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("commuters") / "run"
    run(tiny(COMMUTERS), folder)
    return folder


@pytest.fixture(scope="module")
def whole(commuters):
    loaded = load(commuters)
    return loaded, summed(replay_of(loaded, loaded.attacks))


def summed(replay):
    """Arrays as the page sees them: differences added up."""
    return {
        name: np.cumsum(values, dtype=values.dtype) if name in replay.meta["steps"] else values
        for name, values in replay.arrays.items()
    }


def unpacked(text):
    """Header and names of the arrays of packed data."""
    raw = gzip.decompress(base64.b64decode(text))
    return json.loads(raw[4 : 4 + int.from_bytes(raw[:4], "little")])


def of_grid(x, y):
    """Metres of the columns and rows of what moves."""
    grid = Grid.of(AREA_M, data.MOVING_M)
    at_m = grid.west_m + grid.step_m * x, grid.south_m + grid.step_m * y
    return tuple(np.where(x != NOWHERE, axis, np.nan) for axis in at_m)


# -- whole numbers


@given(st.tuples(st.floats(-1e5, 1e5), st.floats(-1e5, 1e5), st.floats(0, 1e5), st.floats(0, 1e5)), st.data())
def test_places_are_exact_up_to_half_a_step(corner, draw):
    west, south, wide, high = corner
    grid = Grid.of((west, south, west + wide, south + high), 0.5)
    longer = max(wide, high, 1.0)
    assert grid.step_m == pytest.approx(max(0.5, 2 * longer / (NOWHERE - 1)))
    share = draw.draw(arrays(float, (5, 2), elements=st.floats(-0.49, 1.49)))
    at_m = np.array([west, south]) + share * np.array([wide, high])
    x, y = grid.cells(at_m)
    back = np.column_stack([grid.west_m + grid.step_m * x, grid.south_m + grid.step_m * y])
    assert (np.abs(back - at_m) <= grid.step_m / 2 + 1e-6).all()


def test_places_that_are_unknown_or_far_away_are_nowhere():
    grid = Grid.of(AREA_M, 0.5)
    x, y = grid.cells(np.array([[np.nan, 1.0], [1.0, np.inf], [-601.0, 0.0], [0.0, 40_000.0], [-600.0, -600.0]]))
    assert x.tolist() == [NOWHERE] * 4 + [0] and y.tolist() == [NOWHERE] * 4 + [0]
    x, y = grid.clipped(np.array([[-5000.0, 60_000.0]]))
    assert (x[0], y[0]) == (0, NOWHERE - 1)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_differences_add_up_again(kind):
    values = np.random.default_rng(1).integers(0, np.iinfo(kind).max, 200, dtype=kind, endpoint=True)
    back = np.cumsum(steps(values), dtype=kind)
    assert back.dtype == kind and (back == values).all()


def test_pointers_tell_where_each_owner_begins():
    assert pointers(np.array([0, 0, 2, 2, 2]), 4).tolist() == [0, 2, 2, 5, 5]


@pytest.mark.parametrize(
    ("time_s", "unit_s"),
    [([0, 900, 86400], 900), ([0, 61], 1), ([0.5, 7200], 0.5), ([0.3], 0.1), ([np.pi], 0.001), ([], 3600)],
)
def test_times_are_multiples_of_a_unit(time_s, unit_s):
    assert time_unit_s(np.array(time_s, dtype=float), 1e5) == unit_s


# -- tracks


def walk(n=400, seed=3):
    """Two UEs that walk, rest, enter buildings and go away for a while."""
    rng = np.random.default_rng(seed)
    pieces = []
    for ue in range(2):
        time_s = np.cumsum(rng.integers(1, 30, n)).astype(float)
        stride_m = rng.normal(0, 6, (n, 2)) * (rng.random((n, 1)) < 0.7)
        at_m = 200 + np.cumsum(stride_m + np.where(np.arange(n)[:, None] < n // 2, [3.0, 1.0], [-2.0, 2.0]), axis=0)
        at_m[n // 3 : n // 3 + 2] = np.nan
        state = (np.arange(n) // 50 % 2 == 1, np.arange(n) // 80)
        pieces.append((np.full(n, ue), time_s, at_m, *state))
    return Tracks(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def along(tracks, ue, time_s):
    """Where a UE is by straight lines, as the page draws it."""
    mine = np.flatnonzero(tracks.ue == ue)
    i = mine[np.clip(np.searchsorted(tracks.time_s[mine], time_s, side="right") - 1, 0, len(mine) - 1)]
    j = np.minimum(i + 1, mine[-1])
    gone = np.isnan(tracks.at_m[j]).any(axis=1)
    j = np.where(gone, i, j)
    span = tracks.time_s[j] - tracks.time_s[i]
    share = np.divide(time_s - tracks.time_s[i], span, out=np.zeros(len(time_s)), where=span > 0)
    return tracks.at_m[i] + share[:, None] * (tracks.at_m[j] - tracks.at_m[i]), i


@pytest.mark.parametrize("within_m", [0.0, 0.5, 4.0, 30.0])
def test_simplified_tracks_stay_within_the_stated_distance_at_every_time(within_m):
    full = walk()
    fewer = full.rows(needed(full, within_m), within_m)
    for ue in range(2):
        time_s = np.linspace(full.time_s[full.ue == ue][0], full.time_s[full.ue == ue][-1], 5001)
        before, _ = along(full, ue, time_s)
        after, row = along(fewer, ue, time_s)
        assert (np.isnan(before) == np.isnan(after)).all()
        assert np.nanmax(np.linalg.norm(after - before, axis=1)) <= within_m + 1e-9
        _, of_full = along(full, ue, time_s)
        assert (fewer.indoor[row] == full.indoor[of_full]).all() and (fewer.cell[row] == full.cell[of_full]).all()
    if within_m:
        assert len(fewer) < len(full)


def test_a_straight_line_needs_two_rows():
    time_s = np.arange(50.0)
    line = Tracks(np.zeros(50, int), time_s, np.outer(time_s, [2.0, 1.0]), np.zeros(50, bool), np.zeros(50, int))
    assert np.flatnonzero(needed(line, 0.01)).tolist() == [0, 49]
    bent = Tracks(line.ue, time_s, line.at_m + np.where(time_s == 20, 9.0, 0.0)[:, None], line.indoor, line.cell)
    assert 20 in np.flatnonzero(needed(bent, 1.0))


def test_tracks_are_simplified_only_as_far_as_needed():
    full = walk()
    assert simplified(full, len(full)).within_m == 0.5
    fewer = simplified(full, 300)
    assert len(fewer) <= 300 and fewer.within_m > 0.5
    assert len(full.rows(needed(full, fewer.within_m / 2), 0.0)) > 300


@pytest.mark.parametrize(("most", "ues"), [(30, 3), (29, 2), (20, 2), (19, 1), (10, 1), (3, 1)])
def test_where_rows_cannot_be_left_out_the_tracks_of_the_first_ues_are_kept(most, ues):
    ue = np.repeat(np.arange(3), 10)
    indoor = np.arange(30) % 2 == 0  # each row is a change, which no line may pass over
    full = Tracks(ue, np.tile(np.arange(10.0), 3), np.zeros((30, 2)), indoor, np.zeros(30, int))
    fewer, n = of_first_ues(simplified(full, most), 3, most)
    assert n == ues and (np.bincount(fewer.ue, minlength=3) == [10 * (k < ues) for k in range(3)]).all()


def test_of_ues_without_rows_nothing_is_left_out():
    nobody = Tracks(np.zeros(0, int), np.zeros(0), np.zeros((0, 2)), np.zeros(0, bool), np.zeros(0, int))
    assert of_first_ues(nobody, 3, 0)[1] == 3 and of_first_ues(nobody, 0, 0)[1] == 0


@pytest.mark.slow
def test_tracks_that_are_not_drawn_are_said(commuters, monkeypatch):
    monkeypatch.setattr(data, "MOST_ROWS", 12)
    loaded = load(commuters)
    replay = replay_of(loaded, loaded.attacks)
    assert replay.tracked == 1 and len(replay.tracks) < len(loaded.tables["tracks"]["ue"])
    assert summed(replay)["track_ptr"][1:].tolist() == [len(replay.tracks)] * 3
    assert len(replay.meta["ues"]) == 3, "all else is drawn of all"
    assert "tracks are of the first 1 UE only" in "".join(replay_chapter(loaded)[0].parts)
    monkeypatch.undo()
    assert "tracks are of" not in "".join(replay_chapter(loaded)[0].parts)


def test_tracks_of_a_run_are_in_the_page(whole):
    loaded, found = whole
    table, grid = loaded.rows("tracks"), Grid.of(AREA_M, data.MOVING_M)
    unit_s = replay_of(loaded, []).meta["unit_s"]
    x_m, y_m = of_grid(found["track_x"], found["track_y"])
    for ue in range(3):
        mine = slice(found["track_ptr"][ue], found["track_ptr"][ue + 1])
        own = {k: v[table["ue"] == ue] for k, v in table.items() if k != "cell"}
        at = np.interp(own["time_s"], found["track_time"][mine] * unit_s, x_m[mine])
        up = np.interp(own["time_s"], found["track_time"][mine] * unit_s, y_m[mine])
        away_m = np.hypot(at - own["x_m"], up - own["y_m"])
        assert away_m.max() <= 0.5 + grid.step_m


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_line_from_infinity_has_an_end():
    at_m = np.array([[np.inf, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    tracks = Tracks(np.zeros(4, int), np.arange(4.0), at_m, np.zeros(4, bool), np.zeros(4, int))
    assert needed(tracks, 0.5)[[0, 3]].all()


def test_a_place_at_infinity_is_none(commuters, tmp_path):
    shutil.copytree(commuters, tmp_path / "r")
    path = tmp_path / "r" / "tracks.csv"
    head, *lines = path.read_text().splitlines()
    ue, time_s, _, *rest = lines[6].split(",")
    path.write_text("\n".join([head, *lines[:6], ",".join([ue, time_s, "inf", *rest]), *lines[7:]]) + "\n")
    tracks = replay_of(load(tmp_path / "r"), []).tracks
    (at,) = np.flatnonzero((tracks.ue == int(ue)) & (tracks.time_s == float(time_s)))
    assert np.isnan(tracks.at_m[at]).all() and np.isnan(tracks.at_m).any(axis=1).sum() == 1


@pytest.mark.parametrize(
    ("file", "column", "value"),
    [
        ("rounds", "rmse_db", "1e300"), ("estimates", "model", "1e300"), ("estimates", "x_m", "-1e308"),
        ("tracks", "x_m", "1e308"), ("tracks", "y_m", "-1e308"), ("updates", "x_m", "1e308"),
        ("ues", "home_x_m", "1e308"), ("coverage", "rsrp_dbm", "inf"), ("coverage", "sinr_db", "-1e308"),
        ("coverage", "x_m", "1e308"),
    ],
)  # fmt: skip
def test_huge_numbers_are_no_failure_and_no_warning(file, column, value, commuters, tmp_path):
    shutil.copytree(commuters, tmp_path / "r")
    path = tmp_path / "r" / f"{file}.csv"
    head, first, *lines = path.read_text().splitlines()
    cells = first.split(",")
    cells[head.split(",").index(column)] = value
    path.write_text("\n".join([head, ",".join(cells), *lines]) + "\n")
    loaded = load(tmp_path / "r")
    assert len(replay_of(loaded, loaded.attacks).arrays["curve"]) > 0


@pytest.mark.parametrize("change", ["[NaN, 3600]", "[0, Infinity]"])
def test_clock_changes_are_finite(change, commuters, tmp_path):
    shutil.copytree(commuters, tmp_path / "r")
    path = tmp_path / "r" / "manifest.json"
    path.write_text(path.read_text().replace('"clock_changes": []', f'"clock_changes": [{change}]'))
    with pytest.raises(BadInput, match="clock_changes is missing or damaged"):
        load(tmp_path / "r")


# -- rounds


def test_estimates_lead_to_the_update_that_they_are_about(whole):
    loaded, found = whole
    table, truth = loaded.rows("estimates"), loaded.rows("updates")
    x_m, y_m = of_grid(found["estimate_x"], found["estimate_y"])
    true_x_m, true_y_m = of_grid(found["update_x"], found["update_y"])
    seen = 0
    for k, name in enumerate(loaded.attacks):
        for ue in range(3):
            at = range(found["estimate_ptr"][3 * k + ue], found["estimate_ptr"][3 * k + ue + 1])
            for i in at:
                mine = (table["attack"] == name) & (table["ue"] == ue)
                mine &= np.hypot(table["x_m"] - x_m[i], table["y_m"] - y_m[i]) < 0.5
                assert found["estimate_round"][i] + 1 in table["round"][mine]
                of = found["estimate_of"][i]
                match = (truth["ue"] == ue) & (truth["round"] == found["estimate_round"][i] + 1)
                away_m = np.hypot(truth["x_m"] - true_x_m[of], truth["y_m"] - true_y_m[of])
                assert away_m[match].min() < 0.5
                seen += 1
    inside = np.isin(table["quantity"], rounds.KINDS) & np.isfinite(table["x_m"])
    beyond = (np.abs(table["x_m"] - 600) > 1200) | (np.abs(table["y_m"] - 450) > 1050)
    assert seen == (inside & ~beyond).sum() > 10


def test_named_places_are_those_of_the_table_after_every_round(whole):
    loaded, found = whole
    near_m = loaded.near_m
    spots = [of_grid(found[f"{k}_x"], found[f"{k}_y"]) for k in ("named", "second")]
    table = loaded.rows("leakage")
    for k, name in enumerate(loaded.attacks):
        for ue in range(3):
            own = slice(found["named_ptr"][3 * k + ue], found["named_ptr"][3 * k + ue + 1])
            mine = (table["attack"] == name) & (table["ue"] == ue)
            for row in np.flatnonzero(mine):
                i = own.start + np.searchsorted(found["named_round"][own], table["round"][row] - 1, side="right") - 1
                expected = [table[c][row] for c in ("named_x_m", "named_y_m", "second_x_m", "second_y_m")]
                np.testing.assert_allclose([axis[i] for spot in spots for axis in spot], expected, atol=0.26)
                hits = [table[f"{place}_named_m"][row] <= near_m for place in ("home", "work")]
                assert [bool(found["named_hit"][i] & 1), bool(found["named_hit"][i] & 2)] == hits


def test_counts_of_the_curves_are_those_of_the_tables(whole, commuters):
    loaded, found = whole
    replay = replay_of(loaded, loaded.attacks)
    values = found["curve"].reshape(len(replay.meta["curves"]), -1)
    for curve, line in zip(replay.meta["curves"], values, strict=True):
        if curve["key"] in ("home", "work"):
            _, hit = named_over_time(loaded, loaded.attacks[curve["attack"]], curve["key"])
            assert curve["of"] == 3 and line.tolist() == hit.sum(axis=1).tolist()
    keys = [curve["key"] for curve in replay.meta["curves"]]
    table = read_table(commuters, "updates")
    decoded = [100 * np.mean(table["decoded"][table["round"] == r + 1]) for r in range(6)]
    np.testing.assert_allclose(values[keys.index("decoded")], decoded, rtol=1e-6)
    np.testing.assert_allclose(values[keys.index("map")], read_table(commuters, "rounds")["rmse_db"], rtol=1e-6)


def links_of(found, meta, ue):
    """Begin, duration, SINR, base station and whether it was decoded, of each transmission of a UE."""
    own = slice(found["link_ptr"][ue], found["link_ptr"][ue + 1])
    begin_s, airtime_s = (found[f"link_{k}"][own] * meta[f"link_{k}_s"] for k in ("begin", "airtime"))
    return begin_s, airtime_s, *(found[f"link_{k}"][own] for k in ("sinr", "cell", "decoded"))


def test_planned_transmissions_end_when_latency_is_over(whole):
    loaded, found = whole
    table, meta = loaded.rows("links"), replay_of(loaded, loaded.attacks).meta
    for ue in range(3):
        begin_s, airtime_s, sinr, _, decoded = links_of(found, meta, ue)
        mine = table["ue"] == ue
        sends = np.isfinite(table["airtime_s"][mine])  # a UE without a rate sends nothing
        np.testing.assert_allclose(airtime_s, np.where(sends, table["airtime_s"][mine], 0), atol=meta["link_airtime_s"])
        expected_s = table["time_s"][mine] + table["latency_s"][mine] - table["airtime_s"][mine]
        np.testing.assert_allclose(begin_s[sends], expected_s[sends], atol=meta["link_begin_s"])
        assert (np.abs(sinr - table["sinr_db"][mine]) <= 0.5).all()
        assert (decoded == table["decoded"][mine]).all()


def test_transmissions_that_last_are_on_their_way_from_grant_to_end(commuters, tmp_path):
    """One lost before its grant is there at its end; one under way until the end of the run; one never seen is none."""
    folder = Path(shutil.copytree(commuters, tmp_path / "run"))
    asked_s = 43_200
    rows = [
        upload(2, 0, (2 * asked_s, 87_000, 88_000, 90_000)),
        upload(1, 0, (asked_s, 43_500, 44_000, 60_000), fate="late", sent_bits=10),
        upload(1, 1, (asked_s, None, None, 43_300), fate="dropped"),
        upload(1, 2, (asked_s, 43_300, None, None), fate="no-cell"),
        upload(2, 2, (2 * asked_s, 87_000, 250_000, None), fate="under-way", sent_bits=10),
    ]
    write_uploads(folder, rows)
    loaded = load(folder)
    replay = replay_of(loaded, loaded.attacks)
    found, meta = summed(replay), replay.meta
    begin_s, airtime_s, sinr, cell, decoded = links_of(found, meta, 0)
    np.testing.assert_allclose(begin_s, [44_000, 88_000], atol=meta["link_begin_s"])
    np.testing.assert_allclose(airtime_s, [16_000, 2_000], atol=meta["link_airtime_s"])
    assert decoded.tolist() == [0, 1]
    table = loaded.rows("links")
    mine = (table["ue"] == 0) & (table["round"] <= 2)
    np.testing.assert_allclose(sinr, table["sinr_db"][mine], atol=0.5)
    assert [meta["stations"][k]["name"] for k in cell] == table["base_station"][mine].tolist()
    begin_s, airtime_s, *_, decoded = links_of(found, meta, 1)
    np.testing.assert_allclose(begin_s, [43_300], atol=meta["link_begin_s"])
    assert airtime_s.tolist() == [0] and decoded.tolist() == [0]
    begin_s, airtime_s, *_ = links_of(found, meta, 2)
    np.testing.assert_allclose(begin_s + airtime_s, [3 * 86_400], atol=meta["link_begin_s"])
    assert "a cross marks the UE whose update was lost" in replay_chapter(loaded)[0].parts[-1]


def test_where_uploads_take_time_places_are_named_when_updates_are_merged(commuters, tmp_path):
    folder = Path(shutil.copytree(commuters, tmp_path / "run"))
    write_uploads(folder, [upload(1, 0, (43_200, 43_300, 43_400, 43_500))])
    change_rows(folder, "rounds", lambda row: row | {"time_s": str(float(row["requested_s"]) + 600.0)})
    loaded = load(folder)
    (panel,) = Chart("named", "", [HOME], "").panels(Laid(loaded))
    curve = next(trace for trace in panel.figure["data"] if trace["name"] == "closed-form")
    assert curve["x"][:2] == ["2026-01-05 12:10:00", "2026-01-06 00:10:00"]


def test_a_round_is_told_no_earlier_than_those_before(commuters):
    """The attacker of the first round hears its last update after the second merge."""
    loaded = load(commuters)
    late_s = loaded.tables["rounds"]["time_s"][1] + 100.0
    table = loaded.tables["leakage"]
    loaded.tables["leakage"] = table | {"time_s": np.where(table["round"] == 1, late_s, table["time_s"])}
    told_s = rounds.Rounds.of(loaded).told_s
    assert told_s[0] == told_s[1] == late_s < told_s[2]


def test_with_too_much_to_draw_less_is_drawn_and_said(commuters, monkeypatch):
    loaded = load(commuters)
    assert replay_of(loaded, loaded.attacks).drawn == rounds.Drawn(
        3, 3, 1, replay_of(loaded, loaded.attacks).drawn.beyond
    )
    every = summed(replay_of(loaded, loaded.attacks))
    monkeypatch.setattr(data, "MOST_UES", 2)
    monkeypatch.setattr(rounds, "MOST_LINKS", 6)
    monkeypatch.setattr(rounds, "MOST_NAMED", 12)
    replay = replay_of(loaded, loaded.attacks)
    found = summed(replay)
    assert (replay.n_ue, replay.drawn.detailed) == (2, 1) and replay.drawn.stride > 1
    assert len(found["link_begin"]) == 6 and len(found["named_round"]) <= 12 and len(found["track_ptr"]) == 3
    for name in ("named_x", "named_y", "second_x", "named_hit"):  # at the end they are as without a bound
        ends = [found[name][found["named_ptr"][k + 1] - 1] for k in (0, 1, 2, 3)]
        assert ends == [every[name][every["named_ptr"][k + 1] - 1] for k in (0, 1, 3, 4)]
    said = " ".join(chapter._left_out(loaded, replay))
    assert "the first 2 of 3 UEs" in said and "of the first 1 UE only" in said
    assert f"as of every {replay.drawn.stride}th round" in said


def test_the_same_run_gives_the_same_bytes_and_names_stay_out_of_the_markup(commuters, tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    shutil.copytree(commuters, tmp_path / "r")
    path = tmp_path / "r" / "ues.csv"
    path.write_text(re.sub("^0,[^,]*", f"0,{evil}", path.read_text(), flags=re.MULTILINE))
    first, blobs = replay_chapter(load(tmp_path / "r"))
    assert unpacked(blobs[DATA])["meta"]["ues"][0] == evil
    assert evil not in "".join(first.parts)
    assert replay_chapter(load(tmp_path / "r"))[1] == blobs


def test_without_anything_to_see_there_is_no_chapter(commuters):
    loaded = load(commuters)
    empty = {name: {k: v[:0] for k, v in table.items()} for name, table in loaded.tables.items()}
    bare = type(loaded)(loaded.manifest, {}, {"world": {}}, empty)
    assert replay_chapter(bare) == (chapter.Chapter("map", "Map", []), {})


def test_handovers_are_at_their_own_times(commuters, tmp_path):
    shutil.copytree(commuters, tmp_path / "r")
    path = tmp_path / "r" / "handovers.csv"
    path.write_text(f"{path.read_text()}1234,0,a,b,-90,-89\n5000.5,2,b,a,-90,-89\n")  # looks are at multiples of 1200 s
    loaded = load(tmp_path / "r")
    replay = replay_of(loaded, loaded.attacks)
    found, unit_s = summed(replay), replay.meta["unit_s"]
    assert (found["handover_time"] * unit_s).tolist() == [1234, 5000.5] and found["handover_ue"].tolist() == [0, 2]
    own = slice(found["track_ptr"][1], found["track_ptr"][2])
    assert set((found["track_time"][own] * unit_s).tolist()) <= set(loaded.rows("tracks")["time_s"].tolist())


# -- what stands


def decoded_rings(found, what, grid):
    """Lists of corners (k, 2) in metres."""
    corner_m = np.column_stack(
        [grid.west_m + grid.step_m * found[f"{what}_x"], grid.south_m + grid.step_m * found[f"{what}_y"]]
    )
    return np.split(corner_m, found[f"{what}_ptr"][1:-1])


def test_the_map_leaves_courtyards_open(tmp_path, tiny):
    import shapely

    from netsim.build import build_world
    from netsim.city.buildings import Buildings
    from scenarios.app.results.read import _ground as loaded
    from scenarios.app.run.world_map import write_map

    world = build_world(tiny().world, Streams(0), 60.0)
    house = shapely.Polygon(shapely.box(0, 0, 100, 100).exterior, [shapely.box(40, 40, 60, 60).exterior])
    low = shapely.box(150, 0, 160, 10)
    world.buildings = Buildings(np.array([house, low], dtype=object), np.array([9.0, 5.0]))
    write_map(tmp_path, world, tiny().world.city)
    ground = loaded(tmp_path / "map.npz")
    assert ground["footprint_building"].tolist() == [0, 0, 1]
    grid = Grid.of((0.0, 0.0, 400.0, 300.0), 0.1)
    found = {k: np.cumsum(v, dtype=v.dtype) if k[-2:] != "de" else v for k, v in
             ground_arrays(SimpleNamespace(ground=ground), grid).items()}  # fmt: skip
    areas = [0.5 * np.sum(p[:-1, 0] * p[1:, 1] - p[1:, 0] * p[:-1, 1]) for p in decoded_rings(found, "footprint", grid)]
    # a ring that runs the other way is a hole of what is filled; the taller house has the darkest shade
    assert areas == pytest.approx([1e4, -400.0, 100.0]) and found["footprint_shade"].tolist() == [4, 4, 0]
    older = dict(np.load(tmp_path / "map.npz"))
    del older["footprint_building"]
    older |= {"footprint_m": older["footprint_m"][[0, 1, 2, 3, 4, 10, 11, 12, 13, 14]], "footprint_ptr": [0, 5, 10]}
    np.savez(tmp_path / "map.npz", **older)
    assert loaded(tmp_path / "map.npz")["footprint_building"].tolist() == [0, 1]


def test_streets_water_and_sectors_are_drawn_where_there_are_some(commuters, tmp_path):
    shutil.copytree(commuters, tmp_path / "r")
    scene = {
        "street_m": np.array([[0.0, 0], [5, 5], [0, 0], [10, 0], [10, 0], [10, 20]]),
        "street_ptr": np.array([0, 2, 4, 6]), "street_class": np.array([6, 0, 3]),
        "station_azimuth_deg": np.array([90.0, np.nan]),
        "scenery_m": np.array([[0.0, 0], [9, 0], [9, 9], [0, 0], [0, 0], [5, 0], [5, 5], [0, 0]]),
        "scenery_ptr": np.array([0, 4, 8]), "scenery_kind": np.array([1, 0]),
    }  # fmt: skip
    np.savez(tmp_path / "r" / "map.npz", **(read_arrays(commuters / "map.npz") | scene))
    replay = replay_of(load(tmp_path / "r"), [])
    found, grid = summed(replay), Grid.of(AREA_M, data.GROUND_M)
    assert found["street_class"].tolist() == [0, 3, 6]  # main streets first
    lines = decoded_rings(found, "street", grid)
    np.testing.assert_allclose(np.concatenate(lines), scene["street_m"][[2, 3, 4, 5, 0, 1]], atol=grid.step_m)
    assert found["scenery_kind"].tolist() == [1, 0] and found["scenery_ptr"].tolist() == [0, 4, 8]
    assert [(s["name"], s["azimuth_deg"]) for s in replay.meta["stations"]] == [("a", 90.0), ("b", None)]
    np.savez(tmp_path / "r" / "map.npz", **(read_arrays(commuters / "map.npz") | scene | {"street_ptr": [0, 2, 9, 6]}))
    with pytest.raises(BadInput, match="do not fit together"):
        load(tmp_path / "r")


def test_coverage_is_laid_out_from_the_south_west(whole):
    loaded, found = whole
    replay = replay_of(loaded, loaded.attacks)
    grid, table = replay.meta["coverage"], loaded.tables["coverage"]
    assert (grid["columns"], grid["rows"]) == (100, 75)
    level = found["coverage_rsrp_dbm"].reshape(75, 100) / 10
    column = ((table["x_m"] - grid["west_m"]) // grid["side_m"]).astype(int)
    row = ((table["y_m"] - grid["south_m"]) // grid["side_m"]).astype(int)
    assert np.abs(level[row, column] - table["rsrp_dbm"]).max() <= 0.05 + 1e-9
    names = [replay.meta["stations"][k]["name"] for k in found["coverage_cell"].reshape(75, 100)[row, column]]
    assert names == table["cell"].tolist()


@pytest.mark.parametrize("indoor", [0.0, 1.0])
def test_a_map_of_samples_in_buildings_is_not_compared_with_the_street(indoor, commuters):
    """A map learnt in buildings lies below the signal at street level however good it is where it was measured."""
    loaded = load(commuters)
    tracks = loaded.tables["tracks"]
    inside = np.full(len(tracks["indoor"]), indoor)
    found, _ = replay_chapter(replace(loaded, tables=loaded.tables | {"tracks": tracks | {"indoor": inside}}))
    page = "".join(found.parts)
    assert ("less truth at street level" in page) == (not indoor)
    assert ("not compared with the signal at street level" in page) == bool(indoor)
