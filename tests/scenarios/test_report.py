"""Pages: complete, safe to open, the same twice, and damaged folders are refused in one line."""

import json
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pages
import plotly.graph_objects as go
import pytest
from markupsafe import escape
from numpy.testing import assert_allclose, assert_array_equal
from pages import body, change_json, read_csv, read_json
from refused import catch_line
from rows import read_cells, read_yaml
from tracking_rows import write_rows

from fl.round.tables import TABLES
from netsim.record import write_json
from scenarios.app.report.charts import MOST_SPANS, find_silent_spans
from scenarios.app.report.laws import TimeGrid
from scenarios.app.report.plot import CurveStyle, draw_median_spread
from scenarios.app.report.report import write_report
from scenarios.app.result import run
from scenarios.app.results.read import load_finished_run as load_run
from scenarios.app.results.shown import build_headline, describe_key, describe_played
from scenarios.app.results.statistics import (
    carry_forward,
    compute_quantile_over_tracks,
    encode_row_keys,
)
from scenarios.app.results.table import build_lines
from scenarios.app.study.load import load
from scenarios.app.study.yaml_document import read_document

EVIL = "<script>alert(1)</script>"
SMALL = read_yaml("""
    learning.rounds: 2, world.duration_s: 1209600, learning.learner.hidden: [8],
    learning.attacks: [{kind: closed-form}, {kind: dlg, starts: 1, iterations: 3}]
""")


@pytest.fixture(scope="module")
def campus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campus") / "run"
    run(load("campus", SMALL), folder)
    return folder


@pytest.fixture(scope="module")
def streets(tmp_path_factory):
    """Blocks of buildings, three-sector sites of a layout, a shared uplink with a deadline."""
    folder = tmp_path_factory.mktemp("streets") / "run"
    changes = read_yaml("""
        world.duration_s: 240, world.ues.count: 8, world.base_stations.inter_site_m: 150,
        world.radio.handover: {time_to_trigger_s: 1.0, hysteresis_db: 0.0},
        world.radio.uplink.deadline_s: 0.05
    """)
    run(load("cities/plaza", changes), folder)
    return folder


@pytest.fixture
def folder(streets, tmp_path):
    """A copy of the run in streets."""
    return Path(shutil.copytree(streets, tmp_path / "streets"))


@pytest.fixture
def run_copy(campus, tmp_path):
    """A copy of the run to damage."""
    return Path(
        shutil.copytree(campus, tmp_path / "copy", ignore=shutil.ignore_patterns("report.html"))
    )


@pytest.fixture
def many(tiny, tmp_path):
    """Four UEs without homes, noise, two attacks: some estimates diverge."""
    changes = read_yaml("""
        learning.defenses: [{kind: clip, norm: 0.5}, {kind: gaussian, noise_multiplier: 0.1}],
        learning.attacks: [{kind: closed-form}, {kind: dlg, starts: 1, iterations: 2}]
    """)
    run(tiny(changes), tmp_path / "many")
    return tmp_path / "many"


def write_text_of_page(folder):
    path = write_report(folder)
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


def figures(page):
    """Every figure of a page, checked against plotly's own schema."""
    result = pages.figures(page)
    for item in result.values():
        go.Figure(item)
    return result


def rewrite(folder, table, change):
    """Change every row of a table."""
    rows = read_csv(folder / f"{table}.csv")
    write_rows(folder, table, list(map(change, rows)))


def test_page_of_a_run_is_complete_and_needs_no_network(campus):
    page = write_text_of_page(campus)
    summary = read_json(campus / "summary.json")
    study = read_document(campus / "study.yaml").data
    assert set(figures(page)) == {"errors", "distribution", "named", "radio", "utility", "metrics"}
    assert page.count('id="replay-stage"') == page.count('id="replay-data"') == 1
    shown = body(page)
    for line in build_lines([summary]):
        assert all(str(escape(text)) in shown for text in (line.title, line.baseline, line.attack))
    assert "none: the server receives unmodified updates" in shown
    assert all(
        f"<b>{requested}</b>{escape(text)}" in shown
        for requested, text in build_headline(build_lines([summary]), study["learning"])
    )
    assert "Nothing protects the updates." in shown
    assert "nothing bounds what updates reveal" in shown
    assert all(str(escape(describe_key(key))) in page for key in summary)
    assert "2026-01-05 00:00 to" in shown
    # nothing is fetched, and plotly's button that would send figures away is off
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)\s*=", shown)
    assert page.count('id="plotly"') == 1
    assert 'showSendToCloud: false, plotlyServerURL: ""' in page
    assert write_text_of_page(campus) == page


def test_report_loads_no_learning_library(campus):
    code = (
        "import sys; from scenarios.app.report.report import write_report; "
        "write_report(sys.argv[1]); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, campus], cwd=Path(__file__).parents[2], check=True)


def test_text_from_files_is_only_text(run_copy):
    change_json(run_copy / "manifest.json", title=EVIL, command=EVIL)
    study = (run_copy / "study.yaml").read_text()
    study = study.replace("name: campus", f'name: "{EVIL}"').replace(
        "kind: fedavg", f'kind: "{EVIL}"'
    )
    (run_copy / "study.yaml").write_text(re.sub(r"(?m)^paper: .*$", f'paper: "{EVIL}"', study))
    rewrite(run_copy, "ues", lambda row: row | {"name": EVIL})
    summary = read_json(run_copy / "summary.json")
    summary = {key.replace("closed-form", EVIL): value for key, value in summary.items()}
    write_json(run_copy / "summary.json", summary | {EVIL: 1.0})
    for table in ("leakage", "estimates"):
        path = run_copy / f"{table}.csv"
        path.write_text(path.read_text().replace("closed-form", EVIL))
    page = write_text_of_page(run_copy)
    assert EVIL not in page
    assert "<h1>&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in page
    assert body(page).count("&lt;script&gt;") > 5
    drawn = figures(page)
    texts = json.dumps(drawn)
    assert "&lt;script&gt;" in texts
    assert "<script" not in texts
    assert any(
        trace["name"] == "&lt;script&gt;alert(1)&lt;/script&gt;"
        for trace in drawn["errors"]["data"]
    )


def test_several_ues_have_bands_crosses_and_a_ledger(many):
    rewrite(
        many,
        "leakage",
        lambda row: row | ({"diverged": "1", "error_m": ""} if row["ue"] == "0" else {}),
    )
    page = write_text_of_page(many)
    drawn = figures(page)
    assert any(trace.get("fill") == "toself" for trace in drawn["errors"]["data"])
    lost = [trace for trace in drawn["errors"]["data"] if trace["yaxis"] == "y2"]
    # percent of UEs times cells
    assert len(lost) == 2
    assert all(0 < y <= 100 for trace in lost for y in trace["y"])
    assert len(drawn["epsilon"]["data"][0]["x"]) == 2
    assert "named" not in drawn
    assert "No UE has a known home" in body(page)
    assert re.search(
        r"(?s)Privacy accounts of the UE that spent most.*<td class=\"text\">gaussian</td>",
        body(page),
    )


def test_one_colour_for_an_attack_on_every_figure(campus):
    colors = {}
    for item in figures(write_text_of_page(campus)).values():
        for trace in item["data"]:
            name = trace["name"].split(":")[0].removesuffix(" diverged")
            line = trace.get("line") or trace.get("marker", {}).get("line", {})
            if name in ("closed-form", "dlg") and line.get("color"):
                colors.setdefault(name, set()).add(line["color"])
    assert sorted(colors) == ["closed-form", "dlg"]
    assert all(len(result) == 1 for result in colors.values())


def test_radio_is_drawn_by_distance_and_state(streets, campus):
    drawn, second = (figures(write_text_of_page(folder))["radio"] for folder in (streets, campus))
    assert [trace["name"] for trace in drawn["data"]] == ["line of sight", "no line of sight"]
    assert drawn["layout"]["xaxis"]["type"] == "log"
    with np.load(streets / "map.npz") as arrays:
        smallest = arrays["rsrp_dbm"].min() - 1e-3
    assert all(y >= smallest for y in drawn["data"][0]["y"])
    assert [trace["name"] for trace in second["data"]] == ["line of sight"]


def test_uplink_is_drawn_round_by_round(folder, campus):
    rows = read_csv(folder / "links.csv")
    last = {row["round"]: row for row in rows}.values()
    four = [
        row | {"ue": ue, "late": int(ue == 0), "decoded": int(ue != 0)}
        for row in last
        for ue in range(4)
    ]
    write_rows(folder, "links", four)  # in each round, one of them late
    drawn = figures(write_text_of_page(folder))["service"]
    decoded, *rest = [trace for trace in drawn["data"] if "fill" not in trace]
    assert decoded["y"][0] == 75.0
    assert len(rest) == 4
    assert rest[-1]["name"].endswith("updates that were not decoded")
    spent_j = [float(row["energy_j"]) for row in last]
    assert_allclose(rest[-1]["y"], spent_j, rtol=1e-5)  # of one of four
    page = write_text_of_page(campus)
    assert "service" not in figures(page)
    assert "The uplink is ideal" in body(page)


def test_rounds_without_updates_are_marked(many):
    """Those in sequence together, on every pair of axes over rounds; of too many none."""
    assert not figures(write_text_of_page(many))["errors"]["layout"]["shapes"]
    rewrite(many, "rounds", lambda row: row | {"decoded": "0" if row["round"] == "1" else "4"})
    for figure in (figures(write_text_of_page(many))[key] for key in ("errors", "utility")):
        shapes = figure["layout"]["shapes"]
        assert len(shapes) == sum(name.startswith("xaxis") for name in figure["layout"])
        assert [shape["showlegend"] for shape in shapes] == [True] + [False] * (len(shapes) - 1)
    result = load_run(many)

    def find_marked(decoded):
        n = len(decoded)
        result.tables["rounds"] = {
            "round": np.arange(n),
            "time_s": 60.0 * np.arange(n),
            "decoded": np.array(decoded),
        }
        find_silent_spans.cache_clear()
        return [(span["x0"][-5:], span["x1"][-5:]) for span in find_silent_spans(result)]

    assert find_marked([0, 0, 3, 0, 1]) == [("00:00", "01:00"), ("03:00", "03:00")]
    assert len(find_marked([0, 1] * MOST_SPANS)) == MOST_SPANS
    assert find_marked([0, 1] * (MOST_SPANS + 1)) == find_marked([1]) == []


def test_a_trace_that_replaced_the_radio_has_none_to_draw(folder):
    change_json(
        folder / "manifest.json",
        channel_card={"RSRP measurement": "read from the trace, not modelled"},
    )
    page = write_text_of_page(folder)
    assert "radio" not in figures(page)
    assert "The RSRP was read from a trace" in body(page)
    assert "read from the trace, not modelled" in body(page)


def test_channel_card_and_warnings_are_shown_and_escaped(run_copy):
    message = read_json(run_copy / "manifest.json")["channel_card"]
    shown = body(write_text_of_page(run_copy))
    assert message.pop("not modelled") in shown
    modelled = [key for key, value in message.items() if not value.startswith("not modelled")]
    assert all(f"<dt>{key}</dt>" in shown for key in modelled)
    warnings = [f"{EVIL} {k}" for k in range(9)]
    notices = [{"key": "evil", "severity": "doubt", "says": text} for text in warnings]
    change_json(
        run_copy / "manifest.json", channel_card={EVIL: EVIL, "not modelled": EVIL}, notices=notices
    )
    page = write_text_of_page(run_copy)
    assert EVIL not in page
    box = re.search(r'<ul class="warns">(.*?)</ul>', page)[1]
    assert all(f"&lt;script&gt;alert(1)&lt;/script&gt; {k}" in box for k in range(9))


def test_folders_without_a_radio_map_are_drawn(folder):
    (folder / "map.npz").unlink()
    page = write_text_of_page(folder)
    assert "service" in figures(page)
    assert "radio" not in figures(page)
    assert "This run recorded no radio map" in body(page)


@pytest.mark.parametrize("keep", [set(), {"time_s"}, {"time_s", "ue", "model", "round"}])
def test_empty_columns_are_survived(run_copy, keep):
    written = {
        table: values for table, values in TABLES.items() if (run_copy / f"{table}.csv").exists()
    }
    for table, columns in written.items():
        blank = dict.fromkeys(
            {name for name, column in columns.items() if column.type != "text"} - keep, ""
        )
        rewrite(run_copy, table, lambda row, blank=blank: row | blank)
    path = run_copy / "summary.json"
    write_json(path, dict.fromkeys(read_json(path)))
    page = write_text_of_page(run_copy)
    assert set(figures(page)) <= {"radio", "home", "distribution"}
    assert "so there is no error to draw" in body(page)


@pytest.mark.parametrize(
    "kept", [True, False], ids=["headers alone, of an earlier version", "no file"]
)
def test_empty_tables_are_survived(run_copy, kept):
    for table in TABLES:
        path = write_rows(run_copy, table, [])
        if not kept:
            path.unlink()
    change_json(run_copy / "manifest.json", tables=None if kept else {})
    np.savez_compressed(
        run_copy / "points.npz", ue=np.zeros(0, dtype=np.int64), position_m=np.zeros((0, 2))
    )
    assert set(figures(write_text_of_page(run_copy))) == {"radio"}


DAMAGES = """
delete   manifest.json  -                            manifest.json: no such file
delete   summary.json   -                            not finished; the same command goes on
write    manifest.json  {"title": "x                 manifest.json
write    manifest.json  {}                           title is missing or damaged
json     manifest.json  {"channel_card": [1]}        channel_card is missing or damaged
json     manifest.json  {"area_m": [0, 1, "x", 2]}   area_m
json     manifest.json  {"area_m": [0, 0, 1e300, 900]}  area_m
json     manifest.json  {"duration_s": true}         duration_s
json     manifest.json  {"round_s": 0}               round_s
json     summary.json   {"utility.rmse_db": [1]}     utility.rmse_db
delete   rounds.csv     -                            rounds.csv
empty    rounds.csv     -                            rounds.csv
append   leakage.csv    1,2,3                        leakage.csv: damaged
rows     rounds.csv     {"rmse_db": "x"}             rmse_db
rows     tracks.csv     {"time_s": "-5"}             tracks.csv: row 1: time_s -5
rows     rounds.csv     {"requested_s": "1e300"}     requested_s 1e+300
rows     links.csv      {"time_s": "inf"}            links.csv: row 1: time_s inf
rows     rounds.csv     {"round": "1e300"}           round 1e+300 is not
rows     tracks.csv     {"ue": "99"}                 ue 99 is not in [-1,
write    spends.csv     round                        column time_s is missing
write    map.npz        PK\x03\x04 no              map.npz
arrays   map.npz        {"footprint_ptr": [0, 7]}    do not fit
arrays   map.npz        {"station_m": [1.0]}         wrong shape
write    study.yaml     a: [1                        study.yaml
open     sweep.json     {}                           not finished
write    runs.csv       folder,label                 lists no run
write    runs.csv       folder|a                     has no column 'label'
write    runs.csv       folder,label|../..,a         lies outside
write    runs.csv       folder,label|x,a             no finished run among 1 run
"""
"""how a file is damaged, the file, with what, and a word of the refusal"""


def damage(path, how, text):
    lines = text.replace("|", "\n") + "\n"
    if how in ("delete", "open"):
        (path.with_name("manifest.json") if how == "open" else path).unlink()
    if how in ("write", "open"):
        path.write_text(lines)
    elif how == "empty":
        path.write_text("")
    elif how == "append":
        path.write_text(path.read_text() + lines)
    elif how == "json":
        change_json(path, **json.loads(text))
    elif how == "rows":
        rewrite(path.parent, path.stem, lambda row: row | json.loads(text))
    elif how == "arrays":
        with np.load(path) as arrays:
            changed = dict(arrays) | json.loads(text)
        np.savez(path, **changed)


@pytest.mark.parametrize("how, file, text, says", read_cells(DAMAGES))
def test_damaged_folders_are_refused_in_one_line(run_copy, how, file, text, says):
    damage(run_copy / file, how, text)
    assert says in catch_line(write_report, run_copy)
    assert not (run_copy / "report.html").exists()


def test_no_folder_at_all(tmp_path):
    assert "no such folder" in catch_line(write_report, tmp_path / "none\nsuch")
    assert "neither the folder of a run" in catch_line(write_report, tmp_path)


def test_quantiles_leave_out_the_unknown_and_count_the_infinite():
    nan = np.nan
    inf = np.inf
    grid = np.array([[1.0, 3.0, nan], [1.0, inf, inf], [1.0, 2.0, inf], [nan, nan, nan]])
    assert_array_equal(compute_quantile_over_tracks(grid, 0.5), [2.0, inf, 2.0, nan])
    assert_array_equal(compute_quantile_over_tracks(grid, 0.0), [1.0, 1.0, 1.0, nan])


def test_what_lasts_is_carried_forward_and_tracks_keep_their_column():
    assert_array_equal(
        carry_forward(np.array([[np.nan], [5.0], [np.nan], [7.0]]))[:, 0], [np.nan, 5, 5, 7]
    )
    rows = read_yaml("""
        round: [1.0, 1.0, 2.0], time_s: [1.0, 1.2, 2.0], ue: [4.0, 0.0, 4.0], model: [0.0, 0.0, 0.0],
        v: [1.0, 2.0, 3.0]
    """)
    tracks = TimeGrid.from_rows({name: np.array(column) for name, column in rows.items()})
    assert_array_equal(tracks.round, [1, 2])
    assert_array_equal(tracks.carry_column("v"), [[2.0, 1.0], [2.0, 3.0]])


def test_rounds_ues_and_models_make_different_numbers():
    """The last round, UE and model that a run may have, beside their neighbours."""
    corners = product((999_998, 999_999), (9_999_999, 10_000_000), (4094, 4095))
    numbers = np.array([*corners], dtype=float).T
    rows = dict(zip(("round", "ue", "model"), numbers, strict=True))
    assert len(np.unique(encode_row_keys(rows))) == 8


def test_a_band_up_to_infinity_is_cut_at_the_largest_finite_value():
    low, middle, high = np.array([[1.0, 2.0, 3.0], [4.0, 9.0, 6.0], [np.inf, 10.0, 7.0]])
    drawn = draw_median_spread(
        CurveStyle("x", "#123456"), [0, 1, 2], (low, middle, high), np.array([3, 3, 1]), "m"
    )
    assert drawn[0]["y"] == [1, 2, 3, 7, 10, 10, None]
    assert drawn[1]["y"] == [4, 9, 6]
    assert drawn[1]["text"][2] == "6 m"
    assert "of 3" in drawn[1]["text"][1]


def test_what_was_played_counts_samples_or_measurements():
    summary = {"rounds.played": 2, "ues.count": 1, "samples.count": 3}
    assert describe_played(summary) == "2 rounds, 1 UE, 3 measurements"
    assert (
        describe_played(summary | {"utility.accuracy_percent": 50.0}) == "2 rounds, 1 UE, 3 samples"
    )
