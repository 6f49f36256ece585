"""Traces: what is read, what is refused and how, who the users are, and that a replay loses no
row."""

import gzip
import os
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
from noticed import lines
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, fixture, mark
from refused import catch_line
from tabled import cases, name_cases

from netsim.clock import Clock
from netsim.geometry import Area
from netsim.mobility.base import Ground
from netsim.mobility.replay import Replay
from netsim.rng import Streams
from netsim.trace_files.read import read_trace, read_trace_table
from netsim.traces.home_work import UserPlaces, find_user_places
from netsim.ues import Fixes, Looks
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

T0 = 1_619_039_402  # 2021-04-21T21:10:02Z, a Wednesday
GROUND = Ground(Area(0, 0, 1, 1), Clock(date(2021, 4, 21)), Streams(1))


def write(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def rows(*lines: str, header: str = "time_s,user,lat,lon,rsrp_dbm,cell") -> str:
    return "\n".join([header, *lines]) + "\n"


GOOD = rows(
    f"{T0},a,34.0100,-118.4900,-100.5,x",
    f"{T0},a,34.0100,-118.4900,-90,y",
    f"{T0 + 1},b,34.0200,-118.4800,-80,x",
    f"{T0 + 60},a,34.0110,-118.4900,-95,x",
)


# --- reading
# ----------------------------------------------------------------------------------------


@mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_what_is_written_is_read(tmp_path, name):
    table = read_trace_table(write(tmp_path, GOOD, name))
    assert table.fixes.time_s.tolist() == [T0, T0, T0 + 1, T0 + 60]
    assert "".join(table.users[u] for u in table.fixes.user) == "aaba"
    assert "".join(table.cells[c] for c in table.fixes.cell) == "xyxx"
    lat, lon = table.fixes.place.T.tolist()
    assert lat == [34.01, 34.01, 34.02, 34.011]
    assert lon == [-118.49, -118.49, -118.48, -118.49]
    assert table.fixes.rsrp_dbm.tolist() == [-100.5, -90, -80, -95]
    assert len(table) == 4
    assert not table.notices


@mark.parametrize(
    ("old", "new"),
    cases(
        r"""
        "\n", "\r\n"
        "\n", "\r"
        "\n", "\n\n"
        ",", ";"
        ",", "\t"
        "a,", '"a",'
        "time_s", "\ufefftime_s"
        "-95,x\n", "-95,x"
        """
    ),
)
def test_dialects_of_csv_read_the_same(tmp_path, old, new):
    plain = read_trace_table(write(tmp_path, GOOD, "plain.csv"))
    second = read_trace_table(write(tmp_path, GOOD.replace(old, new), "other.csv"))
    for column in ("time_s", "user", "rsrp_dbm", "cell", "place"):
        assert_array_equal(getattr(plain.fixes, column), getattr(second.fixes, column))
    assert plain.users == second.users
    assert plain.cells == second.cells


def test_columns_map_names_to_headers(tmp_path):
    text = "Timestamp,Latitude,Longitude,RSRP,extra\n1619039402,34,-118,-100,1\n"
    columns = {"time_s": "Timestamp", "lat": "Latitude", "lon": "Longitude", "rsrp_dbm": "RSRP"}
    table = read_trace_table(write(tmp_path, text), columns)
    assert table.fixes.rsrp_dbm.tolist() == [-100]
    assert table.facts["ignored"] == "extra"
    assert table.users == ("all",)
    assert lines(table.notices) == [
        "the file has no column user: all rows belong to one user, called all"
    ]


def test_unusable_rows_are_counted_once_each(tmp_path):
    ends = ("-100,x", ",x", "nan,x", "?,x", "2147483647,x", "-160.5,x", "-100,", ",NaN")
    path = write(tmp_path, rows(*(f"{i},a,1,2,{end}" for i, end in enumerate(ends, 1))))
    table = read_trace_table(path)
    left_out = {reason: n for reason, n in table.left_out.items() if n}
    assert left_out == {"cell_missing": 2, "rsrp_missing": 4, "rsrp_out_of_range": 1}
    assert len(table) == 1
    assert table.cells == ("x",)
    counts = dict(read_trace(path).counts)
    assert counts.pop("rows_read") == sum(counts.values()) == 8


PLAIN = "time_s,user,lat,lon\n"
BAD = name_cases(
    r"""
    "lat text", '${PLAIN}1,a,1,2\n2,a,abc,2\n', "line 3, column lat: 'abc' is not a number in [-90, 90];"
    "lat empty", '${PLAIN}1,a,,2\n', 'no row has a position with a time; give a csv file'
    "lat underscore", '${PLAIN}1,a,1_0,2\n', "line 2, column lat: '1_0' is not a number in [-90, 90];"
    "lon too small", '${PLAIN}1,a,1,-180.1\n', "line 2, column lon: '-180.1' is not a number in [-180, 180];"
    "after newlines", '${PLAIN}1,"a\nb",1,2\n\n2,c,x,2\n', "line 5, column lat: 'x' is not a number in [-90, 90];"
    "time empty", '${PLAIN}1,a,1,2\n,a,1,2\n', "line 3, column time_s: '' is not a time between 1970 and 2100 in epoch seconds, as line 2 "
    "time negative", '$PLAIN-5,a,1,2\n', "line 2, column time_s: '-5' is not a time between 1970 and 2100 in epoch seconds, as line 2 "
    "time digits", '${PLAIN}20210421141953,a,1,2\n',
        "line 2, column time_s: '20210421141953' has no time zone; name the zone "
    "time naive", '${PLAIN}2021-04-21T14:19:53,a,1,2\n',
        "line 2, column time_s: '2021-04-21T14:19:53' has no time zone; name the zone "
    "number among ISO", '${PLAIN}2021-04-21T14:19:53Z,a,1,2\n5,a,1,2\n',
        "line 3, column time_s: '5' is a number among ISO 8601 times;"
    "time backwards", '${PLAIN}5,a,1,2\n6,b,1,2\n4,a,1,2\n',
        'line 4, column time_s: its time is before that of line 2, of the same user; '
        'sort the rows of each user by time'
    "no user", '${PLAIN}5,,1,2\n6,NULL,1,2\n',
        "no row has a user; give a csv file that has some"
    "too many fields", '${PLAIN}5,a,1,2,3\n',
        "line 2: 5 fields, but the rows above have 4; correct or remove the line (does it end with"
    "too few fields", '${PLAIN}5,a,1,2\n6,a,1\n', 'line 3: 3 fields, but the rows above have 4; correct or remove the line (is'
    "open quote", '${PLAIN}5,"a,1,2\n',
        "line 2: not CSV (unexpected end of data); correct the quoting"
    "header only", '$PLAIN', "has a header but no rows; give a file with at least one row"
    "nothing but lines", "\n\n", 'the file is empty; begin it with a header such as time_s,'
    "header twice", "time_s,lat,lat,lon\n1,2,3,4\n",
        "line 1: 'lat' appears twice in the header; rename one"
    "no header", "5,7,1,2\n6,7,1,2\n",
        "line 1 ('5,7,1,2') is a row, and the file has no header; put one above it, such "
        "as time_s,user,lat,lon, or name its columns in their order: --columns "
        "user,time_s,lat,lon"
    "other headers", "timestamp,Latitude,lon,RSRP\n1,2,3,4\n",
        'line 1: no column time_s, lat; the file has timestamp, Latitude, lon, RSRP; add what is '
        'missing, or try --columns time_s=timestamp,lat=Latitude,rsrp_dbm=RSRP'
    "other metres", "time,x,y\n1,2,3\n",
        'line 1: no column time_s, x_m, y_m; the file has time, x, y; add what is missing, or try '
        '--columns time_s=time,x_m=x,y_m=y'
    """,
    PLAIN=PLAIN,
)


@mark.parametrize("case", BAD)
def test_bad_text_is_refused_in_one_line(tmp_path, case):
    text, problem = BAD[case]
    path = write(tmp_path, text)
    assert catch_line(read_trace_table, path).startswith(f"{path}: {problem}")


BYTES = name_cases(
    r"""
    "empty", "t.csv", b"", "the file is empty (0 bytes); give a file with rows"
    "not gzip", "t.csv.gz", b"time_s",
        "named .gz but not gzip (begins with b'time'); rename or compress it"
    "not UTF-8", "t.csv", b"time_s,lat\n1,\xff\n",
        "line 2: byte 0xff is not UTF-8; save the file as UTF-8"
    "binary", "t.csv", b"a,b\n\n\0\1",
        "line 3: holds a NUL byte: binary or UTF-16; give a UTF-8 CSV file"
    """
)
BYTES["damaged"] = (
    "t.csv.gz",
    gzip.compress(GOOD.encode())[:-8] + b"\0" * 8,
    "gzip data damaged (CRC check failed",
)


@mark.parametrize("case", BYTES)
def test_bad_bytes_are_refused_in_one_line(tmp_path, case):
    name, raw, problem = BYTES[case]
    path = tmp_path / name
    path.write_bytes(raw)
    assert catch_line(read_trace_table, path).startswith(f"{path}: {problem}")


def test_a_path_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "absent.csv"
    problem = "cannot be read (No such file or directory); check the path"
    assert catch_line(read_trace_table, path).startswith(f"{path}: {problem}")
    assert catch_line(read_trace_table, tmp_path).startswith(f"{tmp_path}: cannot be read (")


# --- choosing rows
# ----------------------------------------------------------------------------------------


def test_a_trace_is_in_local_metres_and_seconds_from_local_midnight(tmp_path):
    text = rows(
        f"{T0},a,34.0,-118.5",
        f"{T0 + 1},a,34.0,-118.5",
        f"{T0 + 2},a,34.009,-118.5",
        header=PLAIN.strip(),
    )
    trace = read_trace(write(tmp_path, text), timezone="America/Los_Angeles")
    assert trace.origin_deg == (34.0, -118.5)
    assert_allclose(trace.position_m[:2], 0.0, atol=1e-6)
    # a degree of latitude at 34 N on WGS84 is 110,922 m
    assert_allclose(trace.position_m[2], [0.0, 110_922 * 0.009], atol=0.1)
    assert trace.local.first_day == date(2021, 4, 21)
    assert trace.time_s[0] == 14 * 3600 + 10 * 60 + 2
    assert trace.rsrp_dbm is None
    assert trace.cell is None
    assert not trace.cells


def test_points_astride_the_antimeridian_stay_together(tmp_path):
    text = rows("1,a,-17,179.999", "2,a,-17,-179.999", "3,a,-17,-179.999", header=PLAIN.strip())
    trace = read_trace(write(tmp_path, text))
    assert trace.area.side_m[0] == approx(213, abs=1)
    assert trace.origin_deg[1] == approx(-179.999)


def test_after_a_clock_change_elapsed_time_goes_on(tmp_path):
    # Paris leaves winter time at 01:00 UTC
    start = datetime(2021, 3, 28, tzinfo=UTC).timestamp()
    text = rows(f"{start},a,48,2", f"{start + 86400},a,48,2", header=PLAIN.strip())
    trace = read_trace(write(tmp_path, text), timezone="Europe/Paris")
    assert trace.time_s.tolist() == [3600.0, 3600.0 + 86400.0]


def test_windows_boxes_and_cells_keep_what_they_say(tmp_path):
    path = write(tmp_path, GOOD)
    everything = read_trace(path, cell="all")
    assert everything.counts["rows_used"] == 4
    window = read_trace(path, cell="all", since=T0 + 1, until="2021-04-21T21:11:02Z")
    assert window.counts["rows_used"] == 1
    assert window.counts["outside_window"] == 3
    box = read_trace(path, cell="all", area_deg=(34.0, -118.495, 34.0105, -118.485))
    assert box.counts["rows_used"] == 2
    assert box.counts["outside_area"] == 2
    assert box.users == ("all",)
    y = read_trace(path, cell="y", users="id")
    assert y.users == ("a",)
    assert y.cells == ("y",)
    assert y.cell.tolist() == [0]
    assert y.rsrp_dbm.tolist() == [-90.0]


def test_choices_that_leave_nothing_are_refused(tmp_path):
    path = write(tmp_path, GOOD)
    span = "2021-04-21T21:10:02Z to 2021-04-21T21:11:02Z"
    place = f"the file covers {span}, lat 34.01000 to 34.02000, lon -118.49000 to -118.48000"
    message = catch_line(read_trace, path, until=T0)
    assert f"no row is left (outside_window 4); {place}; widen since, until or area_deg" in message
    message = catch_line(read_trace, path, cell="xy")
    assert "no row of 'xy'; did you mean y or x? busiest cells (rows): x (3), y (1);" in message
    bare = write(tmp_path, PLAIN + "1,a,1,2\n", "bare.csv")
    message = catch_line(read_trace, bare, cell="x")
    assert "cell: 'x' asked for, but the file has no column cell;" in message
    useless = write(tmp_path, rows("1,a,1,2,,x"), "useless.csv")
    assert "no row is usable (rsrp_missing 1)" in catch_line(read_trace, useless)


# --- users
# ----------------------------------------------------------------------------------------

NOON_S = 1_619_092_800  # 2021-04-22T12:00:00Z
TWO_DAYS = (
    PLAIN + f"{NOON_S},a,1,2\n{NOON_S + 86400},c,1,2\n{NOON_S + 5},b,1,2\n{NOON_S + 9},a,1,2\n"
)


def test_users_may_be_ids_days_or_one_target(tmp_path):
    path = write(tmp_path, TWO_DAYS)
    ids = read_trace(path, users="id")
    assert "".join(ids.users[u] for u in ids.user) == "aacb"
    assert (ids.time_s - 43200).tolist() == [0, 9, 86400, 5]
    days = read_trace(path, users="day")
    assert days.users == ("2021-04-22", "2021-04-23")
    assert days.user.tolist() == [0, 0, 0, 1]
    whole = read_trace(path, users="all")
    assert whole.users == ("all",)
    assert (whole.time_s - 43200).tolist() == [0, 5, 9, 86400]


def test_auto_users_are_ids_if_one_of_them_spans_two_rounds(tmp_path):
    path = write(tmp_path, TWO_DAYS)
    whole = read_trace(path, users="auto", round_s=86400.0)
    assert whole.users == ("all",)
    assert (
        lines(whole.notices)[-1]
        == "users: all rows are one target: no user has rows in two rounds of 86,400 s"
    )
    ids = read_trace(path, users="auto", round_s=9.0)
    assert ids.users == ("a", "c", "b")


# --- places
# ----------------------------------------------------------------------------------------


HOME = (20.0, 50.0)
OFFICE = (5020.0, 50.0)
BAR = (9020.0, 50.0)


def stay(
    at_m: tuple[float, float], start_h: float, hours: float, every_s: float = 300.0
) -> np.ndarray:
    """Rows (n, 3) of time and place around at_m, 20 m an axis, from hour start_h."""
    time_s = start_h * 3600 + np.arange(0.0, hours * 3600, every_s)
    noise_m = np.random.default_rng(int(start_h)).normal(0, 20, (len(time_s), 2))
    return np.column_stack([time_s, np.array(at_m) + noise_m])


def week(
    nights: int = 7, at_m: tuple[float, float] = HOME, first_h: float = 0.0
) -> list[np.ndarray]:
    """Nights of 5 hours at one place, each followed by 5 hours at the office."""
    days = [24.0 * d for d in range(nights)]
    return [piece for h in days for piece in (stay(at_m, h + first_h, 5), stay(OFFICE, h + 10, 5))]


def locate_places(*stays: np.ndarray, first_day: date = date(2021, 4, 21)) -> UserPlaces:
    rows = np.concatenate(stays)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return find_user_places(rows[:, 1:], rows[:, 0], Clock(first_day))


def test_home_is_where_nights_are_and_work_where_office_hours_are():
    result = locate_places(*week(), stay(BAR, 19, 20))
    assert_allclose(result.home_m, HOME, atol=5)
    assert_allclose(result.work_m, OFFICE, atol=5)
    assert np.isnan(result.densest_m).all()
    assert result.nights == 7


def test_weekends_are_not_work():
    """Of ten days from a Saturday three weekends' days at the bar, and the others at the office."""
    nights = [stay(HOME, 24 * d, 5) for d in range(9)]
    days = [stay(BAR if d % 7 < 2 else OFFICE, 24 * d + 10, 5) for d in range(9)]
    result = locate_places(*nights, *days, first_day=date(2021, 4, 24))
    assert_allclose(result.work_m, OFFICE, atol=5)
    weekend = locate_places(*nights, *days[:2], *days[7:], first_day=date(2021, 4, 24))
    assert np.isfinite(weekend.home_m).all()
    assert np.isnan(weekend.work_m).all()


def test_work_is_not_home():
    nights = [stay(HOME, 24 * d, 5) for d in range(5)]
    near_home = (HOME[0] + 150, HOME[1])
    result = locate_places(*nights, *(stay(near_home, 24 * d + 11, 3) for d in range(5)))
    assert np.isfinite(result.home_m).all()
    assert np.isnan(result.work_m).all()


def test_time_counts_and_not_rows():
    """A row a second in the bar for twenty minutes: more rows, and less time, than one in five
    minutes all night."""
    visits = [stay(BAR, 24 * d, 1 / 3, 1.0) for d in range(4)]
    nights = [stay(HOME, 24 * d + 1, 4) for d in range(4)]
    assert_allclose(locate_places(*visits, *nights).home_m, HOME, atol=5)


@mark.parametrize("cut_m", [0.0, 33.3])
def test_home_moves_with_the_plane(cut_m):
    """Wherever an origin lies: no line of a grid cuts the place in two."""
    rows = np.concatenate([*week(), stay(BAR, 19, 4)])
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    clock = Clock(date(2021, 4, 21))
    by_m = np.array([1e6 + cut_m, -3e5 - cut_m])
    original = find_user_places(rows[:, 1:], rows[:, 0], clock)
    shifted = find_user_places(rows[:, 1:] + by_m, rows[:, 0], clock)
    assert_allclose(shifted.home_m - by_m, original.home_m, atol=1e-6)
    assert_allclose(shifted.work_m - by_m, original.work_m, atol=1e-6)


@mark.parametrize("step", [3, 11])
def test_home_does_not_hang_on_the_sampling_rate(step):
    rows = np.concatenate(week())
    result = find_user_places(rows[::step, 1:], rows[::step, 0], Clock(date(2021, 4, 21)))
    assert_allclose(result.home_m, HOME, atol=20)
    assert_allclose(result.work_m, OFFICE, atol=20)


def test_few_nights_make_no_home_and_the_place_of_most_time_stands_by_itself():
    assert np.isfinite(locate_places(*week(3)).home_m).all()
    two = locate_places(*week(2), stay(OFFICE, 40, 3))
    assert two.nights == 2
    assert np.isnan([two.home_m, two.work_m]).all()
    assert_allclose(two.densest_m, OFFICE, atol=5)
    by_day = locate_places(*week(7, first_h=7.0))  # nobody knows where the nights were spent
    assert by_day.nights == 0
    assert np.isnan(by_day.home_m).all()
    assert np.isfinite(by_day.densest_m).all()


def test_who_spends_the_nights_in_many_places_has_no_home():
    """A driver: half of the nights in the depot, and the others anywhere."""
    nights = [stay(HOME if d % 2 else (3000.0 * d, 9000.0), 24 * d, 5) for d in range(12)]
    assert np.isnan(locate_places(*nights).home_m).all()
    added = locate_places(*nights, stay(HOME, 24 * 12, 5))
    assert_allclose(added.home_m, HOME, atol=5)
    waits = []  # no place has most of a night
    for d in range(9):
        for k in range(5):
            place_m = (200.0 * k + 9000.0 * (d % 2), 400.0 * k)
            waits.append(stay(place_m, 24 * d + k, 0.8))
    assert np.isnan(locate_places(*waits).home_m).all()


def test_hours_of_a_night_are_those_of_the_wall_clock():
    """From 23 to 1 h a day earlier by the clock that has not changed."""
    clock = Clock(date(2021, 4, 21), ((1.0, 7200.0),))
    rows = np.concatenate([stay(HOME, 24 * d + 22.5, 3) for d in range(5)])
    assert find_user_places(rows[:, 1:], rows[:, 0], clock).nights == 5
    early = np.concatenate([stay(HOME, 24 * d + 4.5, 3) for d in range(5)])
    assert find_user_places(early[:, 1:], early[:, 0], clock).nights == 0


# --- replay
# ----------------------------------------------------------------------------------------


@fixture
def walk(tmp_path) -> Replay:
    """Three users, 200 rows at irregular times in two hours, many of them equal."""
    rng = np.random.default_rng(5)
    time_s = T0 + np.sort(rng.integers(0, 7200, 200))
    assembly = (
        f"{t},{'abc'[i % 3]},{34 + i / 1e5:.5f},-118.5,{-100 + i % 7},{'xy'[i % 2]}"
        for i, t in enumerate(time_s)
    )
    return Replay(trace=str(write(tmp_path, rows(*assembly))), cell="all", users="id")


def replay_windows(part: Replay, edges: np.ndarray) -> list[Fixes]:
    state = part.start(np.arange(3), GROUND)
    pieces = []
    for t0_s, t1_s in pairwise(edges):
        state, fixes = part.advance(state, t0_s, t1_s, GROUND)
        assert ((fixes.time_s >= t0_s) & (fixes.time_s < t1_s)).all()
        order = np.lexsort((fixes.time_s, fixes.ue))
        assert (order == np.arange(len(fixes))).all()
        pieces.append(fixes)
    return pieces


def test_windows_partition_the_rows(walk):
    trace = walk.load(86400.0)
    edges = np.append(np.linspace(trace.time_s[0], trace.time_s.max(), 23), np.inf)
    fixes = Fixes.join(replay_windows(walk, edges))
    fixes = fixes.select(np.lexsort((fixes.time_s, fixes.ue)))
    assert_array_equal(fixes.ue, trace.user)
    for column in ("time_s", "position_m", "rsrp_dbm", "cell"):
        assert_array_equal(getattr(fixes, column), getattr(trace, column))


def test_position_is_the_last_fix_while_it_is_fresh(walk):
    trace = walk.load(86400.0)
    part = walk.model_copy(update={"absent_after_s": 90.0})
    start = part.start(np.arange(3), GROUND)
    assert np.isnan(start.position_m).all()
    # jumps forward and back: the position depends on the end of the window alone
    for later_s in (0.0, 600.0, 601.0, 3000.0, 60.0, 7000.0, 9000.0):
        t1_s = trace.time_s.min() + later_s
        start, _ = part.advance(start, t1_s - 1, t1_s, GROUND)
        for ue in range(3):
            before = np.flatnonzero((trace.user == ue) & (trace.time_s <= t1_s))
            expected_m = np.full(2, np.nan)
            if before.size and t1_s - trace.time_s[before[-1]] <= 90.0:
                expected_m = trace.position_m[before[-1]]
            assert_array_equal(start.position_m[ue], expected_m)


def follow_world(tmp_path, lines, tick_s):
    """Tracks of a world of that trace (time, user, place on the x axis): UE -> look -> place, NaN
    for an absent one."""
    text = rows(*(f"{t},{u},{x},0,-80" for t, u, x in lines), header="time_s,user,x_m,y_m,rsrp_dbm")
    trace = str(write(tmp_path, text))
    mobility = {"kind": "replay", "trace": trace, "users": "id", "absent_after_s": 1e6}
    setting = WorldSetting(
        tick_s=tick_s,
        duration_s=None,
        city={"kind": "open-field"},
        base_stations=(),
        ues={"mobility": mobility},
    )
    world = build_world(setting, Streams(0), 86_400.0)
    world.follow(Looks.choose_interval(len(world.ues), world.duration_s, tick_s))
    world.env.run(until=world.duration_s)
    world.catch_up()
    assert world.tracks.looks.every_s == approx(tick_s)
    result = {ue: {} for ue in range(len(world.ues))}
    for item in world.tracks.drain():
        for ue, at_m in zip(item.ue, item.seen.at_m, strict=True):
            result[int(ue)][item.look] = float(at_m[0])
    return result


def test_tracks_of_a_replay_are_where_the_log_says_at_that_time(tmp_path):
    """An hourly log: in the office from 9 h to before 17 h, and a row at time 0."""
    office = [(3600 * h, "a", 4.0 * (9 <= h % 24 < 17)) for h in range(72)]
    track = {0: 0.0}
    for d in (0, 24, 48):
        track |= {d + 8: 0.0, d + 9: 4.0, d + 16: 4.0, d + 17: 0.0}
    assert follow_world(tmp_path, office, 3600) == {0: track}


@mark.parametrize("tick_s", [0.1, 0.3, 1.0, 7.0, 60.0])
@mark.parametrize("begins_s", [0, 1_699_920_000, 1_699_920_000 + 20 * 420])
def test_tracks_at_every_tick_are_at_the_last_row_so_far(tick_s, begins_s, tmp_path):
    """A UE at 2 m/s, logged on ticks and between, and one that comes later; with dates, seconds are
    rounded."""
    ticks = np.append(np.arange(30), np.arange(0, 30, 0.37))
    log = (
        np.unique(np.round(ticks * tick_s, 3)),
        np.round(np.arange(11, 16) * tick_s, 3),
    )
    lines = []
    for user, times in zip("ab", log, strict=True):
        lines += [(f"{begins_s + t:.3f}", user, f"{2 * t:.3f}") for t in times]
    tracks = follow_world(tmp_path, lines, tick_s)
    start_s = begins_s % 86_400
    first = round(start_s / tick_s)
    for ue, times in enumerate(log):
        track = sorted(tracks[ue].items())
        for k in range(first, first + 29):
            passed_m = [x for look, x in track if look <= k]
            past_s = times[times <= k * tick_s - start_s + 1e-5]
            assert passed_m[-1:] == approx(2 * past_s[-1:]), (ue, k)
    assert tracks[0][first] == 0.0


def test_fewer_ues_play_the_first_users_and_more_are_refused(walk):
    trace = walk.load(86400.0)
    _, fixes = walk.advance(walk.start(np.arange(2), GROUND), 0.0, 1e9, GROUND)
    assert len(fixes) == (trace.user < 2).sum()
    problem = "ues: 4 are more than the 3 users of the trace; ask for fewer"
    assert catch_line(walk.start, np.arange(4), GROUND) == problem


def test_places_of_a_replay_are_those_of_each_user(walk):
    trace = walk.load(86400.0)
    places = walk.places(walk.start(np.arange(3), GROUND), GROUND)
    for ue in range(3):
        is_own = trace.user == ue
        expected = find_user_places(trace.position_m[is_own], trace.time_s[is_own], GROUND.clock)
        assert_array_equal(places.home_m[ue], expected.home_m)
        assert_array_equal(places.work_m[ue], expected.work_m)
        assert_array_equal(places.densest()[ue], expected.densest_m)
        assert places.nights[ue] == expected.nights
        assert np.isfinite(expected.densest_m).all()


# --- measured data
# ----------------------------------------------------------------------------------------


@mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA does not name the folder of traces"
)
def test_santa_monica_has_the_published_rows():
    path = Path(os.environ["NETSIM_DATA"]) / "rsrp_santamonica_att_2021.csv.gz"
    trace = read_trace(path, users="id", cell="850-329", timezone="America/Los_Angeles")
    assert trace.counts["rows_used"] == 17_819
    assert len(trace.users) == 57
    assert len(np.unique(trace.time_s // 86_400)) == 16


@mark.parametrize(
    ("text", "lat"),
    cases(
        r"""
        "time_s;lat;lon;rsrp_dbm\n1,5;52,51;13,4;-95,5\n", 52.51
        "time_s\tlat\tlon\trsrp_dbm\n1,5\t52,512\t13\t-95,5\n", 52.512
        'time_s,lat,lon,rsrp_dbm\n"1,5","52,51","13,4","-95,5"\n', 52.51
        """
    ),
)
def test_decimal_commas_are_read(tmp_path, text, lat):
    fixes = read_trace_table(write(tmp_path, text)).fixes
    assert fixes.time_s[0] == 1.5
    assert fixes.place[0, 0] == lat
    assert fixes.rsrp_dbm[0] == -95.5


@mark.parametrize("lat", ['"52,512"', '"1,234.5"', '","'])
def test_a_comma_that_may_mean_thousands_is_refused(tmp_path, lat):
    path = write(tmp_path, f"time_s,lat,lon\n1,52.5,13.4\n2,{lat},13.4\n")
    problem = f"line 3, column lat: '{lat[1:-1]}' is not a number in [-90, 90];"
    assert problem in catch_line(read_trace_table, path)


# --- who is there
# ----------------------------------------------------------------------------------------


def cars(tmp_path, step_s, n=60, steps=400):
    """A SUMO trace: car k drives from step 3 k on for 20 to 79 steps. Path, and first and last step
    (n,)."""
    first = 3 * np.arange(n)
    last = first + 20 + np.random.default_rng(0).integers(0, 60, n)
    text = ""
    for t in range(steps):
        text += f'<timestep time="{t * step_s:.2f}">'
        for k in np.flatnonzero((first <= t) & (t <= last)):
            x_m = 10 * (t - first[k])
            text += f'<vehicle id="c{k}" x="{x_m}.0" y="{k}.0" speed="10"/>'
        text += "</timestep>\n"
    return write(tmp_path, f"<fcd-export>{text}</fcd-export>", "fcd.xml"), first, last


@mark.parametrize("step_s", [0.1, 1200.0])
def test_a_car_that_left_is_absent(step_s, tmp_path):
    path, first, last = cars(tmp_path, step_s)
    part = Replay(trace=str(path), users="id")
    trace = part.load(86400.0)
    assert part.presence(trace).absent_after_s == approx(1.5 * step_s)
    number = np.array([int(name[1:]) for name in trace.users])
    ues = np.arange(len(trace.users))
    state = part.start(ues, GROUND)
    for step in (1, 50, 51, 120, 200, 390):
        state, _ = part.advance(state, 0.0, (step - 0.2) * step_s, GROUND)
        is_present = np.isfinite(state.position_m).all(axis=1)
        driving = (first <= step - 1) & (step - 1 <= last)
        assert_array_equal(is_present, driving[number])
    stated = part.model_copy(update={"absent_after_s": 5 * step_s})
    state, _ = stated.advance(stated.start(ues, GROUND), 0.0, 119.8 * step_s, GROUND)
    late = (first <= 119) & (last >= 120 - 5)
    assert_array_equal(np.isfinite(state.position_m).all(axis=1), late[number])


def find_presence(tmp_path, times, **fields):
    rows = "".join(f"{t},a,{k % 50},0\n" for k, t in enumerate(times))
    part = Replay(trace=str(write(tmp_path, f"time_s,user,x_m,y_m\n{rows}")), **fields)
    return part.presence(part.load(86400.0))


def test_people_with_holes_in_their_traces_stay_there(tmp_path):
    # a cab: a row every 60 s or so, now and then one after three minutes, two hours off
    rng = np.random.default_rng(2)
    shift = np.cumsum(np.where(rng.uniform(size=1000) < 0.05, 180.0, rng.uniform(30, 61, 1000)))
    result = find_presence(tmp_path, [*shift, *(shift + shift[-1] + 7200)])
    assert result.absent_after_s == approx(270.0)
    assert "every 180 s" in result.why
    # a phone: every 5 s, with silences of minutes that make up much of its time
    phone = np.cumsum(np.where(np.arange(2000) % 100 == 0, 500.0, 5.0))
    result = find_presence(tmp_path, phone)
    assert result.absent_after_s == 600.0
    assert "a pause that ends a trip" in result.why
    assert find_presence(tmp_path, phone, gap_s=100.0).absent_after_s == 7.5
    # one row an hour: a trip is not over after ten minutes
    assert find_presence(tmp_path, np.arange(100) * 3600.0).absent_after_s == 5400.0
    words = find_presence(tmp_path, [0.0]).to_words()
    assert "absent 600 s after its last fix (gap_s, for no user has rows at two times)" in words
    words = find_presence(tmp_path, phone, absent_after_s=42.0).to_words()
    assert "absent 42 s after its last fix (absent_after_s)" in words


def test_a_place_beyond_the_globe_asks_what_it_may_be(tmp_path):
    swapped = write(tmp_path, "user,time_s,lat,lon\na,0,-122.4,37.2\n")
    hint = "are lat and lon swapped (--columns lat=HEADER,lon=HEADER)? Else"
    assert hint in catch_line(read_trace_table, swapped)
    metres = write(tmp_path, "user,time_s,lat,lon\na,0,685.1,200\na,9,690,210\n")
    hint = "or metres (--columns x_m=HEADER,y_m=HEADER)? Else"
    assert hint in catch_line(read_trace_table, metres)
    # what was given is no column of degrees
    table = read_trace_table(metres, columns={"x_m": "lon", "y_m": "lat"})
    assert_allclose(table.fixes.place, [[200, 685.1], [210, 690]])
