"""Tracks for other maps: coordinates on the globe, features, bad input."""

import csv
import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pages import read_csv
from pyproj import Geod, Proj
from rows import read_cells, read_yaml
from tabled import cases

from scenarios.app.cli.commands import main
from scenarios.app.cli.outcome import parse_origin_deg
from scenarios.app.result import run
from scenarios.app.results.export import Globe, to_geojson
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.read import load_finished_run

COMMUTER = Path(__file__).parents[2] / "scenarios/examples/commuter.csv.gz"
HOSTILE = '<script>alert("x")</script>, =1+1'


@pytest.fixture(scope="module")
def town(tiny, tmp_path_factory):
    """A run that is nowhere on the globe, with homes and attacks."""
    folder = tmp_path_factory.mktemp("export") / "r"
    changes = read_yaml("""
        world.ues: {count: 4, mobility: {kind: commuter}}, world.duration_s: 172800,
        world.tick_s: 600, learning.round_s: 86400
    """)
    run(tiny(changes), folder)
    return folder


@pytest.fixture(scope="module")
def replay_run(tiny, tmp_path_factory):
    """A replay of a trace in degrees."""
    folder = tmp_path_factory.mktemp("export") / "r"
    changes = read_yaml(f"""
        world.ues: {{mobility: {{kind: replay, trace: '{COMMUTER}'}}}},
        world.city: {{kind: open-field}}, world.base_stations: [], world.radio: {{}},
        world.duration_s: 86400, learning.round_s: 86400, learning.attacks: []
    """)
    run(tiny(changes), folder)
    return folder


@pytest.fixture
def copy_run(town, tmp_path):
    """A copy of the first that may be damaged."""
    return shutil.copytree(town, tmp_path / "copy")


def export_run(folder, *options, out):
    assert main(["export", str(folder), "--out", str(out), *options]) == 0
    return Path(out).read_text()


def select_kind(text, kind):
    return [f for f in json.loads(text)["features"] if f["properties"].get("kind") == kind]


def vertices(text):
    """UE, local time, longitude and latitude of every vertex of a track."""
    result = []
    for track in select_kind(text, "track"):
        values = track["properties"]
        line = track["geometry"]["coordinates"]
        result += [
            (values["ue"], t, *place) for t, place in zip(values["times"], line, strict=True)
        ]
    return result


def test_places_of_a_town_lie_as_far_from_its_corner_as_on_the_plane(town, tmp_path):
    text = export_run(town, "--origin=48.8566,2.3522", out=tmp_path / "a")
    rows = read_record_table(town, "ues")
    homes = select_kind(text, "home")
    assert len(homes) == np.isfinite(rows["home_x_m"]).sum() == 4
    for home in homes:
        lon, lat = home["geometry"]["coordinates"]
        east, _, away_m = Geod(ellps="WGS84").inv(2.3522, 48.8566, lon, lat)
        k = home["properties"]["ue"]
        at_m = np.array([rows["home_x_m"][k], rows["home_y_m"][k]])
        assert away_m == pytest.approx(np.hypot(*at_m), abs=0.02)
        assert east == pytest.approx(np.rad2deg(np.arctan2(*at_m)), abs=0.02)


@pytest.mark.parametrize("origin", [None, "-33.9,151.2", "78.2,-15.6", "0,180"])
def test_coordinates_come_back(origin, town, tmp_path):
    text = export_run(town, *([] if origin is None else [f"--origin={origin}"]), out=tmp_path / "a")
    lat_0, lon_0 = parse_origin_deg(origin) or (0.0, 0.0)
    rows = read_record_table(town, "tracks")
    order = np.argsort(rows["ue"], kind="stable")
    ue, _, lon, lat = map(np.array, zip(*vertices(text), strict=True))
    # to the end of the run: where the last row is
    last = np.append(np.flatnonzero(np.diff(ue)), len(ue) - 1)
    lon = np.delete(lon, last)
    lat = np.delete(lat, last)
    assert (np.abs(lon) <= 180).all()
    x_m, y_m = Proj(proj="aeqd", lat_0=lat_0, lon_0=lon_0, ellps="WGS84")(lon, lat)
    metres_per_degree = 111_000
    assert_allclose(x_m, rows["x_m"][order], atol=1e-6 * metres_per_degree)
    assert_allclose(y_m, rows["y_m"][order], atol=1e-6 * metres_per_degree)


def test_a_replayed_trace_lies_where_its_file_says(replay_run, tmp_path):
    with gzip.open(COMMUTER, "rt") as file:
        fixes = [(float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)]
    result = [(lat, lon) for _, _, lon, lat in vertices(export_run(replay_run, out=tmp_path / "a"))]
    assert len(result) > 20
    assert np.abs(np.array(result)[:, None] - np.array(fixes)).max(axis=2).min(axis=1).max() < 1e-6


def test_the_file_has_a_feature_for_everything(town, tmp_path):
    text = export_run(town, out=tmp_path / "a")
    run_ = load_finished_run(town)
    features = json.loads(text)["features"]
    homes, works = (
        int(np.isfinite(run_.tables["ues"][f"{place}_x_m"]).sum()) for place in ("home", "work")
    )
    named = len(run_.tables["named"]["ue"])
    assert named > 0
    assert Counter(feature["properties"]["kind"] for feature in features) == {
        "track": 4,
        "home": homes,
        "workplace": works,
        "base station": 2,
        "named place": named,
    }
    for feature in features:
        assert feature["type"] == "Feature"
        assert feature["geometry"]["type"] in ("Point", "LineString")
    for track in select_kind(text, "track"):
        line = track["geometry"]["coordinates"]
        of_track = track["properties"]
        assert len(line) == len(of_track["times"]) == len(of_track["indoor"]) >= 2
        assert of_track["times"][-1] == "2026-01-07T00:00:00", "to the end of the run"


@pytest.mark.parametrize("absent", [1, 2])
def test_an_absence_cuts_a_track(absent, copy_run, tmp_path):
    lines = (copy_run / "tracks.csv").read_text().splitlines()
    rows = [k for k, line in enumerate(lines) if line.startswith("0,")]
    time_s = lines[rows[absent]].split(",")[1]
    lines[rows[absent]] = f"0,{time_s},,,,"
    (copy_run / "tracks.csv").write_text("\n".join(lines) + "\n")
    tracks = [
        t
        for t in select_kind(export_run(copy_run, out=tmp_path / "a"), "track")
        if t["properties"]["ue"] == 0
    ]
    vertices = [len(t["properties"]["times"]) for t in tracks]
    assert len(rows) > 4 and vertices[0] == 2, "a line has two ends, also where there is one row"
    assert len(vertices) == 2
    assert vertices[1] - (len(rows) - absent - 1) in (0, 1)


def test_the_same_run_gives_the_same_bytes_in_its_own_folder(copy_run):
    assert main(["export", str(copy_run)]) == 0
    first = (copy_run / "tracks.geojson").read_bytes()
    run_ = load_finished_run(copy_run)
    assert to_geojson(run_, Globe.from_run(copy_run, run_, None)).encode() == first


def test_names_are_text(copy_run, tmp_path):
    path = copy_run / "ues.csv"
    rows = read_csv(path)
    rows[0]["name"] = HOSTILE
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    assert (
        select_kind(export_run(copy_run, out=tmp_path / "a"), "track")[0]["properties"]["name"]
        == HOSTILE
    )


@pytest.mark.parametrize(
    "options, words",
    read_cells("""
        --origin=1                      write LAT,LON
        --origin=nan,2                  latitude is -90 to 90
        --out {run}                     is a folder
        --out {run}/none/here.geojson   cannot be written
    """),
)
def test_bad_options_are_one_line(options, words, town, capsys):
    assert main(["export", str(town), *options.format(run=town).split()]) == 2
    text = capsys.readouterr().err
    assert words in text
    assert text.count("\n") == 1


def test_an_origin_of_a_run_that_has_one_is_refused(replay_run, capsys):
    assert main(["export", str(replay_run), "--origin=1,2"]) == 2
    assert "has a place on the globe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "file, old, new, words",
    cases(r"""
"manifest.json", '"every_s"', '"never_s"', "tracks.every_s is missing or damaged"
"manifest.json", '"origin_deg": null', '"origin_deg": "x"', "origin_deg is missing or damaged"
"tracks.csv", "\n0,0,", "\n0,0,9999999999", "beyond the globe"
"tracks.csv", "indoor", "indoors", "column indoor is missing"
"summary.json", "{", "", "cannot be read"
"""),
)
def test_a_damaged_run_is_one_line(file, old, new, words, copy_run, capsys):
    text = (copy_run / file).read_text()
    assert old in text
    (copy_run / file).write_text(text.replace(old, new, 1))
    assert main(["export", str(copy_run)]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert str(copy_run) in message
    assert not (copy_run / "tracks.geojson").exists()


def read_files(folder):
    """Read the bytes of every file of a folder."""
    return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "text",
    ["title: my scenario\n", "", '{"type":"FeatureCollection","features":[]}\n', "ue,name\n"],
)
def test_other_files_are_kept(text, town, copy_run, tmp_path, capsys):
    """Those of runs too."""
    (tmp_path / "mine.yaml").write_text(text)
    for out in (
        tmp_path / "mine.yaml",
        *(copy_run / name for name in ("summary.json", ".netsim", "tracks.csv")),
    ):
        before = read_files(out.parent)
        assert main(["export", str(town), "--out", str(out)]) == 2
        errors = capsys.readouterr().err
        assert errors.count("\n") == 1
        assert f"{out}: is not a file of ours; move it" in errors
        assert read_files(out.parent) == before


def test_an_export_takes_the_place_of_an_earlier_one(town, tmp_path):
    first, second = (
        export_run(town, *options, out=tmp_path / "a") for options in (["--origin=1,2"], [])
    )
    assert first != second


def read_log(
    tmp_path, step_s, n, begins="2024-05-06T08:15:00", columns="time_s,user,lat,lon,rsrp_dbm"
):
    """A log of a UE that goes north, a row every step_s; its times and latitudes."""
    times = np.datetime64(begins) + np.arange(n) * np.timedelta64(step_s, "s")
    lat = [f"{52 + k / 1e4:.4f}" for k in range(n)]
    path = tmp_path / "log.csv"
    rows = [
        f"{t}Z,a,{index},4.3,-{80 + k % 7}"
        for k, (t, index) in enumerate(zip(times, lat, strict=True))
    ]
    path.write_text("\n".join([columns, *rows]) + "\n")
    return path, dict(zip(map(str, times), lat, strict=True))


def replay_log(log, out, *options):
    """Replay a log without attacks."""
    return main(["replay", str(log), "--out", str(out), *QUICK.split(), *options])


QUICK = "--quiet --timezone UTC --set learning.attacks=[] --set learning.references.central=false"


@pytest.mark.parametrize(
    "step_s, n, begins, options",
    cases("""
60, 31, "2024-05-06T08:15:00", []
5, 121, "2024-05-06T08:00:00", ["--round", "2min"]
1800, 30, "2024-05-06T23:00:00", []
3600, 73, "2024-05-06T00:00:00", []
"""),
)
def test_an_exported_track_is_where_the_log_says_at_its_times(
    step_s, n, begins, options, tmp_path, capsys
):
    log, places = read_log(tmp_path, step_s, n, begins)
    assert replay_log(log, tmp_path / "r", *options) == 0
    rows = vertices(export_run(tmp_path / "r", out=tmp_path / "a"))
    assert "tracks in" in capsys.readouterr().out
    for _, shown, _, lat in rows:
        last = max(time for time in places if time <= shown)
        assert lat == pytest.approx(float(places[last]), abs=1e-6)
    assert len(rows) >= n - 1
    assert begins == rows[0][1]


def test_an_export_without_a_track_says_so(tmp_path, capsys):
    log, _ = read_log(tmp_path, 60, 31)
    assert replay_log(log, tmp_path / "r", "--set", "world.tick_s=3600") == 0
    capsys.readouterr()
    export_run(tmp_path / "r", out=tmp_path / "a")
    text = capsys.readouterr().out
    assert text.startswith("no track: they are taken every 3,600 s")
    assert "tracks in" not in text
