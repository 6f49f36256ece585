"""Trace formats: what is written is read, told apart, refused in one line, in bounded memory; trips
and resampling."""

import gzip
import importlib.util
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
from noticed import lines
from numpy.testing import assert_allclose, assert_array_equal
from pytest import fixture, mark
from refused import catch_line
from tabled import cases, name_cases

from netsim.mobility.base import Ground
from netsim.mobility.replay import Replay
from netsim.rng import Streams
from netsim.trace_files.formats import TRACE_FORMATS
from netsim.trace_files.read import detect_format, read_trace, read_trace_table
from netsim.traces import source
from netsim.traces.moves import Moves, resample_trips
from netsim.traces.table import GLOBE

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "scenarios" / "examples"
T0 = 1_767_600_000  # 2026-01-05T08:00:00Z, a Monday
TRACK = [(T0 + 10.0 * i, 52.0 + 1e-4 * i, 4.0 - 2e-4 * i) for i in range(7)]

PLT_HEAD = (
    "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My "
    "Track,0,0,2,8421376\n0\n"
)
GPX_HEAD = (
    '<?xml version="1.0"?>\n<gpx version="1.1" creator="t" '
    'xmlns="http://www.topografix.com/GPX/1/1">\n'
)
FCD_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def write(path: Path, text: str | bytes) -> Path:
    if isinstance(text, str):
        raw = text.encode()
    else:
        raw = text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if path.name.endswith(".gz") else raw)
    return path


def write_plt(track) -> str:
    rows = []
    for t, lat, lon in track:
        moment = datetime.fromtimestamp(t, UTC)
        rows.append(
            f"{lat:.6f},{lon:.6f},0,492,{t / 86400 + 25569:.10f},{moment:%Y-%m-%d,%H:%M:%S}\r\n"
        )
    return PLT_HEAD.replace("\n", "\r\n") + "".join(rows)


def points(track) -> str:
    text = ""
    for t, lat, lon in track:
        moment = datetime.fromtimestamp(t, UTC)
        text += (
            f'<trkpt lat="{lat:.6f}" '
            f'lon="{lon:.6f}"><time>{moment:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>\n'
        )
    return f"<trkseg>{text}</trkseg>"


def build_gpx(*tracks: str) -> str:
    return GPX_HEAD + "".join(f"<trk>{track}</trk>" for track in tracks) + "</gpx>"


def fcd(rows, decimals: int = 2) -> str:
    """rows: (time, id, x, y), in order of time."""
    steps: dict[float, list[str]] = {}
    for t, user, x, y in rows:
        steps.setdefault(t, []).append(
            f'<vehicle id="{user}" x="{x:.{decimals}f}" y="{y:.{decimals}f}" speed="1"/>\n'
        )
    body = "".join(
        f'<timestep time="{t:.2f}">{"".join(result)}</timestep>' for t, result in steps.items()
    )
    return f"{FCD_HEAD}<fcd-export>{body}</fcd-export>"


def write_cab(track) -> str:
    return "".join(f"{lat:.5f} {lon:.5f} 0 {t:.0f}\n" for t, lat, lon in reversed(track))


def sort_columns(table):
    """Users' names, times and places, in order of user and time."""
    fixes = table.fixes
    order = np.lexsort((fixes.time_s, fixes.user))
    first, second = fixes.place.T
    return (
        [table.users[u] for u in fixes.user[order]],
        fixes.time_s[order],
        first[order],
        second[order],
    )


# --- what is written is read
# ----------------------------------------------------------------------------------------


@mark.parametrize(
    ("name", "text", "user", "format_"),
    cases(
        """
        "a/007/Trajectory/2026.plt", "$PLT", "007", "plt"
        "walk.plt.gz", "$PLT", "walk", "plt"
        "walk.gpx", "$NAMED", "Anna B.", "gpx"
        "walk.gpx.gz", "$PARTS", "walk", "gpx"
        "geo.xml", "$FCD", "v", "sumo-fcd"
        "geo.fcd.xml.gz", "$FCD", "v", "sumo-fcd"
        "new_abboip.txt", "$CAB", "abboip", "cabspotting"
        """,
        PLT=write_plt(TRACK),
        NAMED=build_gpx("<name>Anna\n B.</name>" + points(TRACK)),
        PARTS=build_gpx(points(TRACK[:3]) + points(TRACK[3:])),
        FCD=fcd([(t, "v", lon, lat) for t, lat, lon in TRACK], 6),
        CAB=write_cab(TRACK),
    ),
)
def test_a_track_on_the_globe_comes_back(tmp_path, name, text, user, format_):
    path = write(tmp_path / name, text)
    table = read_trace_table(path)
    assert table.format == format_
    assert table.users == (user,)
    assert len(table) == len(TRACK)
    assert table.coordinates.crs == GLOBE
    _, time_s, lat, lon = sort_columns(table)
    assert_allclose(np.column_stack([time_s, lat, lon]), TRACK, rtol=0, atol=1e-6)
    assert_array_equal(table.fixes.time_s, np.array(TRACK)[:, 0])
    trace = read_trace(path)
    assert trace.local.first_day == date(2026, 1, 5)
    assert trace.local.name == "UTC+00:00"
    assert trace.time_s[0] == 8 * 3600


METRES = [
    (float(t), who, 100.0 + 2.5 * t * k, 50.0 - t) for t in range(9) for k, who in enumerate("abc")
]


@mark.parametrize("name", ["m.fcd.xml", "m.csv"])
def test_local_metres_come_back_as_they_are(tmp_path, name):
    csv = "time_s,user,x_m,y_m\n" + "".join(f"{t},{user},{x},{y}\n" for t, user, x, y in METRES)
    path = write(tmp_path / name, {"m.fcd.xml": fcd(METRES), "m.csv": csv}[name])
    table = read_trace_table(path)
    assert table.coordinates.crs is None
    assert table.relative
    order = sorted(METRES, key=lambda row: (row[1], row[0]))
    users, time_s, x_m, y_m = sort_columns(table)
    assert users == [user for _, user, _, _ in order]
    columns = np.column_stack([time_s, x_m, y_m])
    assert_allclose(columns, [(t, x, y) for t, _, x, y in order], atol=1e-9)
    trace = read_trace(path, users="id")
    assert trace.local.first_day == date(1970, 1, 1)
    assert trace.local.name == "UTC"
    assert trace.time_s[0] == 0.0
    assert trace.origin_deg is None
    assert_allclose(trace.position_m, [(x, y) for _, _, x, y in order], atol=1e-9)


def test_sumo_is_in_metres_or_degrees_as_it_seems_or_as_is_said(tmp_path):
    near = write(tmp_path / "near.xml", fcd([(0, "v", 12.25, 33.5), (1, "v", 13.25, 34.5)]))
    assert read_trace_table(near).coordinates.crs is None
    assert read_trace_table(near, crs="EPSG:4326").coordinates.crs == GLOBE
    option = '<!-- <fcd-output.geo value="true"/> -->'
    text = fcd([(0, "v", 12.25, 33.5)]).replace("<fcd-export>", f"{option}<fcd-export>")
    stated = write(tmp_path / "said.xml", text)
    assert read_trace_table(stated).coordinates.crs == GLOBE
    geo = write(tmp_path / "geo.xml", fcd([(0, "v", 4.0, 52.0), (1, "v", 4.1, 52.1)], 6))
    table = read_trace_table(geo)
    assert table.fixes.place[0].tolist() == [52.0, 4.0]
    assert "crs: local" in lines(table.notices)[0]
    assert read_trace_table(geo, crs="local").coordinates.crs is None


# --- folders
# ----------------------------------------------------------------------------------------


@mark.parametrize("inside", ["", "Data", "Data/000/Trajectory"])
def test_a_geolife_folder_has_a_user_a_folder(tmp_path, inside):
    for user, first in (("000", 0), ("000", 3), ("012", 0)):
        folder = tmp_path / "Data" / user
        write(folder / "Trajectory" / f"2026{first}.plt", write_plt(TRACK[first : first + 3]))
        write(folder / "labels.txt", "Start Time\n")
    table = read_trace_table(tmp_path / inside)
    assert table.format == "plt"
    count = dict(zip(table.users, np.bincount(table.fixes.user).tolist(), strict=True))
    if inside == "Data/000/Trajectory":
        assert count == {"000": 6}
    else:
        assert count == {"000": 6, "012": 3}


def test_a_cabspotting_folder_has_a_user_a_file(tmp_path):
    write(tmp_path / "new_b.txt", write_cab(TRACK))
    write(tmp_path / "new_a.txt", write_cab(TRACK[:2]))
    write(tmp_path / "_cabs.txt", "<cab id=1/>")
    table = read_trace_table(tmp_path)
    assert table.users == ("a", "b")
    assert np.bincount(table.fixes.user).tolist() == [2, 7]


# --- telling formats apart
# ----------------------------------------------------------------------------------------

SAMPLES = {
    "csv": "time_s,user,lat,lon\n1,a,2,3\n",
    "plt": write_plt(TRACK),
    "gpx": build_gpx(points(TRACK)),
    "sumo-fcd": fcd(METRES),
    "cabspotting": write_cab(TRACK),
}


@mark.parametrize("format_", SAMPLES)
def test_content_tells_the_format_whatever_the_name(tmp_path, format_):
    for name in ("trace", "trace.csv", "trace.txt", "trace.txt.gz"):
        assert detect_format(str(write(tmp_path / name, SAMPLES[format_]))) == format_


def test_what_is_nothing_is_refused_with_the_list(tmp_path):
    problem = catch_line(read_trace_table, write(tmp_path / "x.txt", "once upon a time\n"))
    assert "its format is not recognised (begins with 'once upon a time'); name" in problem
    assert all(f"{name}: " in problem for name in TRACE_FORMATS.parts)
    (tmp_path / "empty").mkdir()
    problem = catch_line(read_trace_table, tmp_path / "empty")
    assert "cannot be read (a folder without files such as *.gpx*, *.plt*" in problem


# --- bad input
# ----------------------------------------------------------------------------------------

BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
REMOTE = '<!DOCTYPE x SYSTEM "http://localhost/x.dtd">'
GOOD_GPX = build_gpx(points(TRACK))
GOOD_FCD = fcd(METRES)
BAD = name_cases(
    r"""
    "bomb.gpx", "$BOMB", "line 2: declares a document type (DOCTYPE)"
    "remote.fcd.xml.gz", "$REMOTE", "line 2: declares a document type (DOCTYPE)"
    "cut.gpx", "$CUT", "line 9: not XML (no element found); "
    "endless.fcd.xml", "<fcd-export>\n<timestep time='$ENDLESS",
        "line 1: a tag or a text longer than 1 MiB; give a SUMO FCD XML file"
    "endless.csv", "time_s,lat,lon\n$ENDLESS", "line 2: longer than 1 MiB; give a CSV file of rows"
    "lat.gpx", '$GPX_HEAD<trk><trkseg>\n<trkpt lat="91" lon="0"/></trkseg></trk></gpx>',
        "line 4: trkpt, lat: '91' is not a number in [-90, 90];"
    "x.fcd.xml",
        '<fcd-export><timestep time="0">\n<vehicle id="a" x="east" y="2"/></timestep></fcd-export>',
        "line 2: x 'east', y '2' are no numbers; correct or remove it"
    "noid.fcd.xml",
        '<fcd-export><timestep time="0"><person x="1" y="2"/></timestep></fcd-export>',
        "line 1: a person without id, x or y; write them with SUMO's --fcd-output.attributes"
    "notime.fcd.xml", '<fcd-export><vehicle id="a" x="1" y="2"/></fcd-export>',
        "line 1: a vehicle outside a timestep; give SUMO's --fcd-output"
    "time.fcd.xml", '<fcd-export><timestep time="-1"/></fcd-export>',
        "line 1: time '-1' is not a time from 0 s on; correct it"
    "cut.plt", '${PLT_HEAD}1,2,0,0,45000.5,d,t\n1,2,0\n',
        'line 8: 3 fields, but PLT has 5 or more; '
    "lat.plt", '${PLT_HEAD}400.1,2,0,0,45000.5,d,t\n',
        "line 7, column lat: '400.1' is not a number in [-90, 90]; "
    "days.plt", '$PLT_HEAD\n1,2,0,0,1e9,d,t\n',
        "line 8, column days since 1899-12-30: '1e9' is not a number in [25569, 73050]; "
    "new_b.txt", "37.75 -122.39 0 1213084687\n37.75 -192.39 0 1213084687\n",
        "line 2, column lon: '-192.39' is not a number in [-180, 180]; "
    """,
    GPX_HEAD=GPX_HEAD,
    PLT_HEAD=PLT_HEAD,
    BOMB=GOOD_GPX.replace("<gpx", f"{BOMB}\n<gpx"),
    REMOTE=GOOD_FCD.replace("<fcd", f"{REMOTE}\n<fcd"),
    CUT=GOOD_GPX[:-30],
    ENDLESS="9" * (2**20 + 9),
)
BAD["utf16.fcd.xml"] = (
    GOOD_FCD.encode("utf-16"),
    "line 1: holds a NUL byte: binary or UTF-16; give a UTF-8 SUMO FCD XML file",
)


@mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_line(tmp_path, name):
    text, problem = BAD[name]
    path = write(tmp_path / name, text)
    assert catch_line(read_trace_table, path).startswith(f"{path}: {problem}")


@mark.parametrize(
    ("name", "format_"),
    [("t.fcd.xml.gz", "sumo-fcd"), ("new_t.txt.gz", "cabspotting"), ("t.csv.gz", "csv")],
)
def test_packed_files_cut_short_or_grown_too_large_are_refused(
    tmp_path, name, format_, monkeypatch
):
    path = write(tmp_path / name, SAMPLES[format_])
    assert len(read_trace_table(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    problem = f"gzip data cut short after {len(whole) - 9} bytes; copy the file again"
    assert catch_line(read_trace_table, path).startswith(f"{path}: {problem}")
    path.write_bytes(whole)
    monkeypatch.setattr(source, "MAX_UNPACKED_BYTES", 20)
    limit = (
        "unpacks to more than 20 bytes, the most that is read; unpack it if you trust it, "
        "and split it"
    )
    assert catch_line(read_trace_table, path) == f"{path}: {limit}"


@mark.parametrize(
    ("choice", "problem"),
    cases(
        r"""
     {"columns": {"lat": "y"}},
         "columns: only a CSV takes it, and this is read as gpx; leave columns out"
     {"crs": "EPSG:25832"},
         "crs: EPSG:25832 is metres, but the file has latitude and longitude; use auto"
     {"crs": "EPSG:0"}, "crs: 'EPSG:0' is no known EPSG code; use auto, local"
     {"crs": "EPSG:4258"},
         "crs: 'EPSG:4258' is ETRS89, not a projected system in metres; use auto, local"
     {"area_m": (0, 0, 1, 1)},
         "area_m: the trace has lat and lon; give area_deg, or leave it out"
     {"resample_s": 1e6}, "resample_s: 1,000,000 s is longer than every trip; take less"
     {"format": "sumo-fcd"},
         "no row has a position with a time; give a sumo-fcd file that has some"
     """
    ),
)
def test_choices_that_do_not_fit_are_refused(tmp_path, choice, problem):
    path = write(tmp_path / "t.gpx", build_gpx(points(TRACK)))
    assert catch_line(read_trace, path, **choice).startswith(f"{path}: {problem}")


# --- long files
# ----------------------------------------------------------------------------------------


@mark.parametrize("chunk", [1, 7])
@mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_pieces_of_a_file_make_the_whole(tmp_path, monkeypatch, chunk, newline):
    text = 'time_s,user,lat,lon\n1,"a ""b""",1,2\n\n2,ü,3,4\n3,"x\ny",5,6\n'
    path = write(tmp_path / "t.csv", text.replace("\n", newline))
    whole = read_trace_table(path)
    monkeypatch.setattr(source, "CHUNK_BYTES", chunk)
    pieces = read_trace_table(path)
    assert pieces.users == whole.users == ('a "b"', "ü", "x\ny")
    assert_array_equal(pieces.fixes.place.T, whole.fixes.place.T)
    broken = write(tmp_path / "b.csv", (text + "4,z,north,6\n").replace("\n", newline))
    assert catch_line(read_trace_table, broken).startswith(f"{broken}: line 7, column lat: 'north'")
    late = write(tmp_path / "l.csv", (text + "1,ü,5,6\n").replace("\n", newline))
    message = catch_line(read_trace_table, late)
    assert "line 7, column time_s: its time is before that of line 4, of the same user" in message


# --- trips and resampling
# ----------------------------------------------------------------------------------------


def test_nothing_is_interpolated_across_a_gap():
    time_s = np.array([0.0, 10.0, 611.0, 620.0, 5.0, 15.0])
    moves = Moves(np.array([0, 0, 0, 0, 1, 1]), time_s, np.column_stack([time_s, -time_s]))
    regular, n_trips = resample_trips(moves, 5.0, 600.0)
    assert n_trips == 3
    assert regular.user.tolist() == [0] * 5 + [1] * 3
    assert regular.time_s.tolist() == [0, 5, 10, 615, 620, 5, 10, 15]
    assert_allclose(regular.xy_m[:, 0], regular.time_s)
    bridged, n_trips = resample_trips(moves, 5.0, 601.0)
    assert n_trips == 2
    assert (bridged.user == 0).sum() == 125


def test_resampling_equals_a_loop_over_trips():
    rng = np.random.default_rng(3)
    user = rng.integers(0, 5, 400)
    time_s = 1.7e9 + np.round(rng.uniform(0, 20_000, 400), 1)
    xy_m = rng.uniform(0, 1000, (400, 2))
    regular, n_trips = resample_trips(Moves(user, time_s, xy_m), 7.0, 300.0)
    expected = []
    count = 0
    for name in range(5):
        owned = np.flatnonzero(user == name)
        owned = owned[np.argsort(time_s[owned], kind="stable")]
        for trip in np.split(owned, np.flatnonzero(np.diff(time_s[owned]) > 300.0) + 1):
            count += 1
            trip_s = time_s[trip]
            ticks = np.arange(np.ceil(trip_s[0] / 7.0), np.floor(trip_s[-1] / 7.0) + 1) * 7.0
            x_m, y_m = (np.interp(ticks, trip_s, column) for column in xy_m[trip].T)
            expected.append(np.column_stack([np.full(len(ticks), name), ticks, x_m, y_m]))
    assert n_trips == count
    result = np.column_stack([regular.user, regular.time_s, regular.xy_m])
    assert_allclose(result, np.concatenate(expected), atol=1e-4)


def test_a_replay_is_absent_at_night(tmp_path):
    """Two trips of a minute, a night apart."""
    times = [*range(0, 61, 20), *range(36_000, 36_061, 20)]
    rows = "".join(f"{T0 + t},a,{52 + t * 1e-7:.7f},4\n" for t in times)
    path = write(tmp_path / "n.csv", f"time_s,user,lat,lon\n{rows}")
    part = Replay(trace=str(path), resample_s=10, gap_s=120)
    trace = part.load(86400.0)
    assert np.diff(trace.time_s).tolist() == [10.0] * 6 + [36_000 - 60] + [10.0] * 6
    assert "resampled: 14 rows, every 10 s of 2 trips" in lines(trace.notices)
    ground = Ground(trace.area, trace.local.build_clock(1.0), Streams(0), trace=trace)
    state = part.start(np.arange(1), ground)
    t0 = 8 * 3600.0
    present = []
    for t in (30, 60, 75, 76, 30_000, 36_001):
        state, _ = part.advance(state, t0, t0 + t, None)
        present.append(np.isfinite(state.position_m).all())
    assert present == [True, True, True, False, False, True]
    longer = part.model_copy(update={"absent_after_s": 900.0})
    state, _ = longer.advance(longer.start(np.arange(1), ground), t0, t0 + 900.0, None)
    assert np.isfinite(state.position_m).all()


def test_a_phone_that_is_asked_rarely_reports_the_first_fix_of_each_period(tmp_path):
    """By a dictionary of periods. It still moves by all fixes, and several cells of a moment are
    one measurement."""
    draw = np.random.default_rng(5)
    rows = []
    text = ""
    for user in "ab":
        for k, t in enumerate(T0 + np.cumsum(draw.integers(20, 800, 60))):
            for cell in "xy"[: 1 + k % 2]:
                rows.append((t, user))
                text += f"{t},{user},{52 + k * 1e-5:.6f},4,-90,{cell}\n"
    path = write(tmp_path / "p.csv", f"time_s,user,lat,lon,rsrp_dbm,cell\n{text}")
    first: dict[tuple[str, int], int] = {}
    for t, user in rows:
        first.setdefault((user, t // 900), t)
    expected = sorted((t, user) for t, user in rows if first[user, t // 900] == t)
    part = Replay(trace=str(path), sample_s=900, cell="all", timezone="UTC", users="id")
    trace = part.load(86400.0)
    n = len(expected)
    assert trace.counts["not_sampled"] == len(rows) - n
    assert trace.counts["rows_used"] == n
    assert trace.counts["rows_read"] == len(rows)
    notes = " ".join(lines(trace.notices))
    assert f"sampling: every 900 s: {n} of {len(rows)} fixes, the first" in notes
    ground = Ground(trace.area, trace.local.build_clock(1.0), Streams(0), trace=trace)
    whole = Replay(trace=str(path), cell="all", timezone="UTC", users="id")
    assert "sampling: a fix every" in " ".join(lines(whole.load(86400.0).notices))
    rare = part.start(np.arange(2), ground)
    often = whole.start(np.arange(2), replace(ground, trace=whole.load(86400.0)))
    seen = []
    before = 0.0
    for now_s in np.arange(8 * 3600.0, 18 * 3600.0, 700.0):
        rare, fixes = part.advance(rare, before, now_s, None)
        often, _ = whole.advance(often, before, now_s, None)
        moment_s = fixes.time_s + trace.local.midnight_s
        seen += [(t, "ab"[u]) for t, u in zip(moment_s, fixes.ue, strict=True)]
        assert_array_equal(rare.position_m, often.position_m)
        before = now_s
    assert sorted(seen) == [row for row in expected if row[0] < trace.local.midnight_s + before]
    assert len(seen) > 40


# --- bundled examples
# ----------------------------------------------------------------------------------------


@fixture(scope="module")
def maker():
    script = ROOT / "benchmarks" / "make_example_trace.py"
    spec = importlib.util.spec_from_file_location("maker", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@mark.parametrize("name", ["walk.plt", "walk.gpx", "cars.fcd.xml", "new_taxi.txt"])
def test_examples_are_small_and_made_by_their_script(maker, name):
    raw = (EXAMPLES / name).read_bytes()
    assert len(raw) < 40_000
    assert raw == maker.EXAMPLE_OF[name]()


# --- encodings, missing positions
# ----------------------------------------------------------------------------------------


@mark.parametrize("encoding", ["utf-7", "nonsense", "x" * 500])
@mark.parametrize("root", ["gpx", "fcd-export"])
def test_xml_in_an_unknown_encoding_is_refused_in_a_line(tmp_path, root, encoding):
    path = tmp_path / "t.xml"
    path.write_text(
        f'<?xml version="1.0" encoding="{encoding}"?><{root}><a b="caf\u00e9"/></{root}>',
        encoding="utf-8",
    )
    assert "not XML in UTF-8" in catch_line(read_trace_table, path)


# --- prefixes
# ----------------------------------------------------------------------------------------


def test_names_of_elements_may_have_a_prefix(tmp_path):
    """As a namespace that is not the default one is written."""
    plain = build_gpx(points(TRACK))
    prefixed = re.sub(r"<(/?)(gpx|trk|trkseg|trkpt|time)\b", r"<\1g:\2", plain).replace(
        "xmlns=", "xmlns:g="
    )
    expected = read_trace_table(write(tmp_path / "plain.gpx", plain)).fixes
    result = read_trace_table(write(tmp_path / "prefixed.gpx", prefixed)).fixes
    assert len(expected.time_s) == len(TRACK)
    assert_array_equal(result.time_s, expected.time_s)
    assert_array_equal(result.place, expected.place)
