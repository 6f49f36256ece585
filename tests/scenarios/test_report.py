"""Pages: complete, safe to open, the same twice, and damaged folders are refused in one line."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pages
import plotly.graph_objects as go
import pytest
from markupsafe import escape
from pages import body, change_json
from refused import line_of
from tracking_rows import write_rows

from fl.round.tables import TABLES
from netsim.record import write_json
from scenarios.app.report.charts import MOST_SPANS, TimeGrid, silent
from scenarios.app.report.plot import CurveStyle, spread
from scenarios.app.report.report import report
from scenarios.app.result import run
from scenarios.app.results.read import load as load_run
from scenarios.app.results.shown import headline, meaning, played
from scenarios.app.results.statistics import carried, quantile, row_numbers
from scenarios.app.results.table import lines
from scenarios.app.study.load import load
from scenarios.app.study.yaml_document import read

EVIL = "<script>alert(1)</script>"
SMALL = {
    "learning.rounds": 2,
    "world.duration_s": 2 * 604800,
    "learning.learner.hidden": [8],
    "learning.attacks": [{"kind": "closed-form"}, {"kind": "dlg", "starts": 1, "iterations": 3}],
}


@pytest.fixture(scope="module")
def campus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campus") / "run"
    run(load("campus", SMALL), folder)
    return folder


@pytest.fixture(scope="module")
def streets(tmp_path_factory):
    """Blocks of buildings, three-sector sites of a layout, a shared uplink with a deadline."""
    folder = tmp_path_factory.mktemp("streets") / "run"
    changes = {
        "world.duration_s": 240,
        "world.ues.count": 8,
        "world.base_stations.inter_site_m": 150,
        "world.radio.handover": {"time_to_trigger_s": 1.0, "hysteresis_db": 0.0},
        "world.radio.uplink.deadline_s": 0.05,
    }
    run(load("cities/plaza", changes), folder)
    return folder


@pytest.fixture
def copied(campus, tmp_path):
    """A copy of the run to damage."""
    return Path(
        shutil.copytree(campus, tmp_path / "copy", ignore=shutil.ignore_patterns("report.html"))
    )


@pytest.fixture
def many(tiny, tmp_path):
    """Four UEs without homes, noise, two attacks: some estimates diverge."""
    noise = [{"kind": "clip", "norm": 0.5}, {"kind": "gaussian", "noise_multiplier": 0.1}]
    attacks = [{"kind": "closed-form"}, {"kind": "dlg", "starts": 1, "iterations": 2}]
    run(tiny({"learning.defenses": noise, "learning.attacks": attacks}), tmp_path / "many")
    return tmp_path / "many"


def text_of(folder):
    path = report(folder)
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


def figures(page):
    """Every figure of a page, checked against plotly's own schema."""
    found = pages.figures(page)
    for one in found.values():
        go.Figure(one)
    return found


def rewrite(folder, table, change):
    """Change every row of a table."""
    path = folder / f"{table}.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    with path.open("w", newline="") as f:
        writer = csv.DictWriter(f, list(TABLES[table]))
        writer.writeheader()
        writer.writerows(change(row) for row in rows)


def test_page_of_a_run_is_complete_and_needs_no_network(campus):
    page = text_of(campus)
    summary = json.loads((campus / "summary.json").read_text())
    study = read(campus / "study.yaml").data
    assert set(figures(page)) == {"errors", "distribution", "named", "radio", "utility", "metrics"}
    assert page.count('id="replay-stage"') == page.count('id="replay-data"') == 1
    shown = body(page)
    for line in lines([summary]):
        assert all(str(escape(text)) in shown for text in (line.title, line.baseline, line.attack))
    assert "none: the server receives unmodified updates" in shown
    assert all(
        f"<b>{asked}</b>{escape(text)}" in shown
        for asked, text in headline(lines([summary]), study["learning"])
    )
    assert "Nothing protects the updates." in shown
    assert "nothing bounds what updates reveal" in shown
    assert all(str(escape(meaning(key))) in page for key in summary)
    assert "2026-01-05 00:00 to" in shown
    # nothing is fetched, and plotly's button that would send figures away is off
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)\s*=", shown)
    assert page.count('id="plotly"') == 1
    assert 'showSendToCloud: false, plotlyServerURL: ""' in page
    assert text_of(campus) == page


def test_report_loads_no_learning_library(campus):
    code = (
        "import sys; from scenarios.app.report.report import report; report(sys.argv[1]); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, campus], cwd=Path(__file__).parents[2], check=True)


def test_text_from_files_is_only_text(copied):
    change_json(copied / "manifest.json", title=EVIL, command=EVIL)
    study = (copied / "study.yaml").read_text()
    study = study.replace("name: campus", f'name: "{EVIL}"').replace(
        "kind: fedavg", f'kind: "{EVIL}"'
    )
    (copied / "study.yaml").write_text(
        re.sub(r"^paper: .*$", f'paper: "{EVIL}"', study, flags=re.M)
    )
    rewrite(copied, "ues", lambda row: row | {"name": EVIL})
    summary = json.loads((copied / "summary.json").read_text())
    summary = {key.replace("closed-form", EVIL): value for key, value in summary.items()}
    write_json(copied / "summary.json", summary | {EVIL: 1.0})
    for table in ("leakage", "estimates"):
        rewrite(
            copied, table, lambda row: row | {"attack": row["attack"].replace("closed-form", EVIL)}
        )
    page = text_of(copied)
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
    page = text_of(many)
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
        r"Privacy accounts of the UE that spent most.*<td class=\"text\">gaussian</td>",
        body(page),
        flags=re.S,
    )


def test_one_colour_for_an_attack_on_every_figure(campus):
    colors = {}
    for one in figures(text_of(campus)).values():
        for trace in one["data"]:
            name = trace["name"].split(":")[0].removesuffix(" diverged")
            own = trace.get("line", {}).get("color") or trace.get("marker", {}).get("line", {}).get(
                "color"
            )
            if name in ("closed-form", "dlg") and own:
                colors.setdefault(name, set()).add(own)
    assert {name: len(found) for name, found in colors.items()} == {"closed-form": 1, "dlg": 1}


def test_radio_is_drawn_by_distance_and_state(streets, campus):
    drawn, other = (figures(text_of(folder))["radio"] for folder in (streets, campus))
    assert [trace["name"] for trace in drawn["data"]] == ["line of sight", "no line of sight"]
    assert drawn["layout"]["xaxis"]["type"] == "log"
    with np.load(streets / "map.npz") as arrays:
        least = arrays["rsrp_dbm"].min() - 1e-3
    assert all(y >= least for y in drawn["data"][0]["y"])
    assert [trace["name"] for trace in other["data"]] == ["line of sight"]


def test_uplink_is_drawn_round_by_round(streets, campus, tmp_path):
    folder = Path(shutil.copytree(streets, tmp_path / "streets"))
    rows = list(csv.DictReader((folder / "links.csv").read_text().splitlines()))
    with (folder / "links.csv").open(
        "w", newline=""
    ) as f:  # four UEs in each round, one of them late
        writer = csv.DictWriter(f, list(TABLES["links"]))
        writer.writeheader()
        for row in {row["round"]: row for row in rows}.values():
            writer.writerows(
                row | {"ue": ue, "late": int(ue == 0), "decoded": int(ue != 0)} for ue in range(4)
            )
    drawn = figures(text_of(folder))["service"]
    decoded, *others = [trace for trace in drawn["data"] if "fill" not in trace]
    assert decoded["y"][0] == 75.0
    assert len(others) == 4
    assert others[-1]["name"].endswith("updates that were not decoded")
    spent_j = [float(row["energy_j"]) for row in {row["round"]: row for row in rows}.values()]
    np.testing.assert_allclose(others[-1]["y"], spent_j, rtol=1e-5)  # of one of four
    page = text_of(campus)
    assert "service" not in figures(page)
    assert "The uplink is ideal" in body(page)


def test_rounds_without_updates_are_marked(many):
    """Those in sequence together, on every pair of axes over rounds; of too many none."""
    assert not figures(text_of(many))["errors"]["layout"]["shapes"]
    rewrite(many, "rounds", lambda row: row | {"decoded": "0" if row["round"] == "1" else "4"})
    for figure in (figures(text_of(many))[key] for key in ("errors", "utility")):
        shapes = figure["layout"]["shapes"]
        assert len(shapes) == sum(name.startswith("xaxis") for name in figure["layout"])
        assert [shape["showlegend"] for shape in shapes] == [True] + [False] * (len(shapes) - 1)
    found = load_run(many)

    def marked(decoded):
        n = len(decoded)
        found.tables["rounds"] = {
            "round": np.arange(n),
            "time_s": 60.0 * np.arange(n),
            "decoded": np.array(decoded),
        }
        silent.cache_clear()
        return [(span["x0"][-5:], span["x1"][-5:]) for span in silent(found)]

    assert marked([0, 0, 3, 0, 1]) == [("00:00", "01:00"), ("03:00", "03:00")]
    assert len(marked([0, 1] * MOST_SPANS)) == MOST_SPANS
    assert marked([0, 1] * (MOST_SPANS + 1)) == marked([1]) == []


def test_a_trace_that_replaced_the_radio_has_none_to_draw(streets, tmp_path):
    folder = Path(shutil.copytree(streets, tmp_path / "streets"))
    change_json(
        folder / "manifest.json",
        channel_card={"RSRP measurement": "read from the trace, not modelled"},
    )
    page = text_of(folder)
    assert "radio" not in figures(page)
    assert "The RSRP was read from a trace" in body(page)
    assert "read from the trace, not modelled" in body(page)


def test_channel_card_and_warnings_are_shown_and_escaped(copied):
    said = json.loads((copied / "manifest.json").read_text())["channel_card"]
    shown = body(text_of(copied))
    modelled = [
        key
        for key, value in said.items()
        if not value.startswith("not modelled") and key != "not modelled"
    ]
    assert all(f"<dt>{key}</dt>" in shown for key in modelled)
    assert said["not modelled"] in shown
    warnings = [f"{EVIL} {k}" for k in range(9)]
    notices = [{"key": "evil", "severity": "doubt", "says": text} for text in warnings]
    change_json(
        copied / "manifest.json", channel_card={EVIL: EVIL, "not modelled": EVIL}, notices=notices
    )
    page = text_of(copied)
    assert EVIL not in page
    box = re.search(r'<ul class="warns">(.*?)</ul>', page)[1]
    assert all(f"&lt;script&gt;alert(1)&lt;/script&gt; {k}" in box for k in range(9))


def test_folders_without_a_radio_map_are_drawn(streets, tmp_path):
    folder = Path(shutil.copytree(streets, tmp_path / "streets"))
    (folder / "map.npz").unlink()
    page = text_of(folder)
    assert "service" in figures(page)
    assert "radio" not in figures(page)
    assert "This run recorded no radio map" in body(page)


@pytest.mark.parametrize("keep", [set(), {"time_s"}, {"time_s", "ue", "model", "round"}])
def test_empty_columns_are_survived(copied, keep):
    written = {table: of for table, of in TABLES.items() if (copied / f"{table}.csv").exists()}
    for table, columns in written.items():
        numbers = {name for name, column in columns.items() if column.type != "text"}
        blank = dict.fromkeys(numbers - keep, "")
        rewrite(copied, table, lambda row, blank=blank: row | blank)
    change_json(
        copied / "summary.json", **dict.fromkeys(json.loads((copied / "summary.json").read_text()))
    )
    page = text_of(copied)
    assert set(figures(page)) <= {"radio", "home", "distribution"}
    assert "so there is no error to draw" in body(page)


@pytest.mark.parametrize(
    "kept", [True, False], ids=["headers alone, of an earlier version", "no file"]
)
def test_empty_tables_are_survived(copied, kept):
    for table in TABLES:
        path = write_rows(copied, table, [])
        if not kept:
            path.unlink()
    change_json(copied / "manifest.json", tables=None if kept else {})
    np.savez_compressed(
        copied / "points.npz", ue=np.zeros(0, dtype=np.int64), position_m=np.zeros((0, 2))
    )
    assert set(figures(text_of(copied))) == {"radio"}


def _ragged(folder):
    path = folder / "leakage.csv"
    path.write_text(path.read_text() + "1,2,3\n")


def _ground(folder, **changes):
    with np.load(folder / "map.npz") as arrays:
        found = dict(arrays)
    np.savez(folder / "map.npz", **(found | changes))


DAMAGES = {
    "no manifest, no runs": (
        lambda f: (f / "manifest.json").unlink(),
        "manifest.json: no such file",
    ),
    "not finished": (
        lambda f: (f / "summary.json").unlink(),
        "not finished; the same command goes on",
    ),
    "manifest cut": (lambda f: (f / "manifest.json").write_text('{"title": "x'), "manifest.json"),
    "manifest empty": (
        lambda f: (f / "manifest.json").write_text("{}"),
        "title is missing or damaged",
    ),
    "card": (
        lambda f: change_json(f / "manifest.json", channel_card=[1]),
        "channel_card is missing or damaged",
    ),
    "area": (lambda f: change_json(f / "manifest.json", area_m=[0, 1, "x", 2]), "area_m"),
    "area of nowhere": (
        lambda f: change_json(f / "manifest.json", area_m=[0, 0, 1e300, 900]),
        "area_m",
    ),
    "duration true": (lambda f: change_json(f / "manifest.json", duration_s=True), "duration_s"),
    "no round": (lambda f: change_json(f / "manifest.json", round_s=0), "round_s"),
    "summary": (
        lambda f: change_json(f / "summary.json", **{"utility.rmse_db": [1]}),
        "utility.rmse_db",
    ),
    "table gone": (lambda f: (f / "rounds.csv").unlink(), "rounds.csv"),
    "table empty": (lambda f: (f / "rounds.csv").write_text(""), "rounds.csv"),
    "table ragged": (_ragged, "leakage.csv: damaged"),
    "not a number": (lambda f: rewrite(f, "rounds", lambda r: r | {"rmse_db": "x"}), "rmse_db"),
    "time back": (
        lambda f: rewrite(f, "tracks", lambda r: r | {"time_s": "-5"}),
        "tracks.csv: row 1: time_s -5",
    ),
    "asked never": (
        lambda f: rewrite(f, "rounds", lambda r: r | {"requested_s": "1e300"}),
        "requested_s 1e+300",
    ),
    "time endless": (
        lambda f: rewrite(f, "links", lambda r: r | {"time_s": "inf"}),
        "links.csv: row 1: time_s inf",
    ),
    "round of none": (
        lambda f: rewrite(f, "rounds", lambda r: r | {"round": "1e300"}),
        "round 1e+300 is not",
    ),
    "UE of none": (
        lambda f: rewrite(f, "tracks", lambda r: r | {"ue": "99"}),
        "ue 99 is not in [-1,",
    ),
    "column gone": (lambda f: (f / "spends.csv").write_text("round\n"), "column time_s is missing"),
    "ground": (lambda f: (f / "map.npz").write_bytes(b"PK\x03\x04 no"), "map.npz"),
    "ground of parts": (lambda f: _ground(f, footprint_ptr=[0, 7]), "do not fit"),
    "ground flat": (lambda f: _ground(f, station_m=[1.0]), "wrong shape"),
    "study": (lambda f: (f / "study.yaml").write_text("a: [1"), "study.yaml"),
    "sweep open": (
        lambda f: [(f / "manifest.json").unlink(), (f / "sweep.json").write_text("{}")],
        "not finished",
    ),
    "runs of nothing": (lambda f: (f / "runs.csv").write_text("folder,label\n"), "lists no run"),
    "runs without label": (
        lambda f: (f / "runs.csv").write_text("folder\na\n"),
        "has no column 'label'",
    ),
    "runs elsewhere": (
        lambda f: (f / "runs.csv").write_text("folder,label\n../..,a\n"),
        "lies outside",
    ),
    "runs missing": (
        lambda f: (f / "runs.csv").write_text("folder,label\nx,a\n"),
        "no finished run among 1 run",
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_folders_are_refused_in_one_line(copied, what):
    damage, says = DAMAGES[what]
    damage(copied)
    assert says in line_of(report, copied)
    assert not (copied / "report.html").exists()


def test_no_folder_at_all(tmp_path):
    assert "no such folder" in line_of(report, tmp_path / "none\nsuch")
    assert "neither the folder of a run" in line_of(report, tmp_path)


def test_quantiles_leave_out_the_unknown_and_count_the_infinite():
    nan = np.nan
    inf = np.inf
    grid = np.array([[1.0, 3.0, nan], [1.0, inf, inf], [1.0, 2.0, inf], [nan, nan, nan]])
    np.testing.assert_array_equal(quantile(grid, 0.5), [2.0, inf, 2.0, nan])
    np.testing.assert_array_equal(quantile(grid, 0.0), [1.0, 1.0, 1.0, nan])


def test_what_lasts_is_carried_forward_and_tracks_keep_their_column():
    np.testing.assert_array_equal(
        carried(np.array([[np.nan], [5.0], [np.nan], [7.0]]))[:, 0], [np.nan, 5, 5, 7]
    )
    rows = {
        "round": np.array([1.0, 1.0, 2.0]),
        "time_s": np.array([1.0, 1.2, 2.0]),
        "ue": np.array([4.0, 0.0, 4.0]),
        "model": np.zeros(3),
        "v": np.array([1.0, 2.0, 3.0]),
    }
    tracks = TimeGrid.of(rows)
    np.testing.assert_array_equal(tracks.round, [1, 2])
    np.testing.assert_array_equal(tracks.so_far("v"), [[2.0, 1.0], [2.0, 3.0]])


def test_rounds_ues_and_models_make_different_numbers():
    """The last round, UE and model that a run may have, beside their neighbours."""
    of = np.array(
        [
            (r, u, m)
            for r in (999_998, 999_999)
            for u in (9_999_999, 10_000_000)
            for m in (4094, 4095)
        ],
        float,
    )
    table = dict(zip(("round", "ue", "model"), of.T, strict=True))
    assert len(np.unique(row_numbers(table))) == len(of)


def test_a_band_up_to_infinity_is_cut_at_the_largest_finite_value():
    low, middle, high = np.array([[1.0, 2.0, 3.0], [4.0, 9.0, 6.0], [np.inf, 10.0, 7.0]])
    drawn = spread(
        CurveStyle("x", "#123456"), [0, 1, 2], (low, middle, high), np.array([3, 3, 1]), "m"
    )
    assert drawn[0]["y"] == [1, 2, 3, 7, 10, 10, None]
    assert drawn[1]["y"] == [4, 9, 6]
    assert drawn[1]["text"][2] == "6 m"
    assert "of 3" in drawn[1]["text"][1]


def test_what_was_played_counts_samples_or_measurements():
    summary = {"rounds.played": 2, "ues.count": 1, "samples.count": 3}
    assert played(summary) == "2 rounds, 1 UE, 3 measurements"
    assert played(summary | {"utility.accuracy_percent": 50.0}) == "2 rounds, 1 UE, 3 samples"
