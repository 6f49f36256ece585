"""Traces as other tools write them: who is who, which clock, what is missing; a wrong reading is
told or refused."""

import re
import shlex
import shutil
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from noticed import doubts as doubts_in
from noticed import lines
from numpy.testing import assert_array_equal
from pytest import approx, mark, raises
from refused import catch_line
from tabled import cases

from netsim.errors import BadInput
from netsim.trace_files.inspect import inspect_trace
from netsim.trace_files.read import read_trace, read_trace_table
from netsim.traces.moves import Moves, measure_steps
from netsim.traces.values import assign_passes, parse_epoch_s
from netsim.world.base_stations import choose_default_layout

T0 = 1_709_157_600  # 2024-02-28T22:00:00Z
BERLIN = "Europe/Berlin"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def refuse_table(path, **choices):
    with raises(BadInput) as caught:
        read_trace_table(path, **choices)
    (line,) = caught.value.lines
    return line.removeprefix(f"{path}: ")


def count_rows_of_users(path, **choices):
    """Rows of each user."""
    table = read_trace_table(path, **choices)
    return dict(zip(table.users, np.bincount(table.fixes.user).tolist(), strict=True)), table


def fcd(*steps, head=""):
    rows = "".join(
        f'<timestep time="{t}">{"".join(movers)}</timestep>\n' for t, movers in enumerate(steps)
    )
    return f"{head}<fcd-export>\n{rows}</fcd-export>\n"


def mover(kind, name, x, y):
    return f'<{kind} id="{name}" x="{x}" y="{y}"/>'


def test_sumo_numbers_vehicles_persons_and_containers_apart(tmp_path):
    step = [
        mover("vehicle", 0, "0.00", 0),
        mover("person", 0, 600, 400),
        mover("container", 7, 5, 5),
    ]
    users, table = count_rows_of_users(write(tmp_path / "t.xml", fcd(step, step)))
    assert users == {"vehicle 0": 2, "person 0": 2, "7": 2}
    assert table.fixes.place[:, 0][:3].tolist() == [0, 600, 5]
    assert lines(table.notices) == [
        "2 users of equal names are distinguished (0: vehicle 0, 0: person 0, ...)"
    ]
    alone, table = count_rows_of_users(
        write(tmp_path / "u.xml", fcd([mover("vehicle", 0, 1, 1), mover("person", 1, 1, 1)]))
    )
    assert list(alone) == ["0", "1"]
    assert not table.notices


def gpx(*tracks):
    """Tracks of (name, times, latitude)."""
    text = ""
    for name, times, lat in tracks:
        points = "".join(f'<trkpt lat="{lat}" lon="16"><time>{t}</time></trkpt>' for t in times)
        text += f"<trk><name>{name}</name><trkseg>{points}</trkseg></trk>\n"
    return f'<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1">\n{text}</gpx>\n'


def minutes(hour, n=3):
    return [f"2024-02-29T{hour:02}:{m:02}:00Z" for m in range(n)]


def test_a_folder_of_gpx_is_a_phone_and_a_file_another(tmp_path):
    for phone, lat in (("a", 48.2), ("b", 48.3)):
        for k, hour in enumerate((7, 9)):
            write(
                tmp_path / "in" / phone / f"activity_{k}.gpx",
                gpx(("Morning Run", minutes(hour), lat)),
            )
    users, table = count_rows_of_users(tmp_path / "in")
    assert users == {"a": 6, "b": 6}
    assert "do not overlap in time and are one user, and 1 more such" in lines(table.notices)[0]
    shutil.move(tmp_path / "in" / "b" / "activity_1.gpx", tmp_path / "in" / "activity_1.gpx")
    assert count_rows_of_users(tmp_path / "in")[0] == {"Morning Run": 3, "a": 6, "b": 3}
    # at the same time: somebody else
    write(tmp_path / "in" / "activity_2.gpx", gpx(("Morning Run", minutes(9), 1)))
    users, table = count_rows_of_users(tmp_path / "in")
    assert users == {"activity_1": 3, "activity_2": 3, "a": 6, "b": 3}
    assert any(
        "(Morning Run: activity_1, Morning Run: activity_2, ...)" in note
        for note in lines(table.notices)
    )


def test_tracks_of_one_file_are_one_phone_unless_they_overlap(tmp_path):
    first = write(tmp_path / "one.gpx", gpx(*((f"track {k}", minutes(k), 1) for k in range(10))))
    users, table = count_rows_of_users(first)
    assert users == {"one": 30}
    assert lines(table.notices) == ["10 tracks of one.gpx do not overlap in time and are one user"]
    two = write(
        tmp_path / "two.gpx", gpx(("a", minutes(1), 1), ("b", minutes(1), 2), ("a", minutes(2), 1))
    )
    assert count_rows_of_users(two)[0] == {"a": 6, "b": 3}
    alike = write(tmp_path / "alike.gpx", gpx(("a", minutes(1), 1), ("a", minutes(1), 2)))
    assert count_rows_of_users(alike)[0] == {"alike/a 1": 3, "alike/a 2": 3}


@mark.parametrize("nobody", ["NULL", "-", " "])
def test_rows_of_nobody_are_left_out_and_counted(tmp_path, nobody):
    path = write(
        tmp_path / "t.csv", f"time_s,user,x_m,y_m\n1,a,1,1\n1,{nobody},9,9\n2,a,1,1\n3,,,\n"
    )
    users, table = count_rows_of_users(path)
    assert users == {"a": 2}
    assert table.left_out == {"position_missing": 1, "user_missing": 1}
    counts = read_trace(path, users="id").counts
    assert (
        counts["rows_read"] == sum(n for reason, n in counts.items() if reason != "rows_read") == 4
    )


def test_two_places_at_one_time_are_counted_and_too_fast(tmp_path):
    rows = [
        f"{T0 + 600 * k},a,{lat},16.3{far}"
        for k in range(20)
        for lat, far in ((48.2, 0), (48.29, 7))
    ]
    path = write(tmp_path / "t.csv", "\n".join(["time_s,user,lat,lon", *rows]))
    message = "20 rows elsewhere than the first of the same user and time, up to 11.3 km away"
    for text in (
        " ".join(inspect_trace(path).split()),
        " ".join(doubts_in(read_trace(path).notices)),
    ):
        assert message in text
        assert "51.282 % of steps imply more than 100 m/s" in text
        assert (
            f"first to line 3 (user a), 5 (user a), 7 (user a) of {path}; correct or remove" in text
        )
    assert "first mend what is doubtful above" in " ".join(inspect_trace(path).split())
    moved = np.array([[0.0, 0], [0, 0], [0, 99], [0, 99], [0, 300]])
    # another cell; 99 m, 0, 100.5 m/s
    steps = measure_steps(Moves(np.zeros(5, int), np.array([0.0, 0, 0, 1, 3]), moved))
    assert steps.n == 3
    assert steps.n_fast == 1
    assert steps.n_at_once == 1
    assert steps.apart_m == 99.0


def test_lost_signs_and_names_that_differ_by_case_are_told(tmp_path):
    head = "time_s,user,x_m,y_m,rsrp_dbm\n"
    rows = "1,Ann,1,1,{0}85\n2,ann,1,1,{0}90\n3,Bo,1,1,{0}90\n"
    message = catch_line(read_trace, write(tmp_path / "lost.csv", head + rows.format("")))
    assert message.endswith(
        "85 of line 2 is not in [-160, -20] dBm; is the sign missing, or is it ASU "
        "(LTE: RSRP + 140)? correct the column"
    )
    table = read_trace_table(write(tmp_path / "t.csv", head + rows.format("-")))
    assert table.users == ("Ann", "ann", "Bo")
    assert "by case alone stay apart (Ann, ann);" in lines(table.notices)[-1]
    assert "first" not in inspect_trace(tmp_path / "t.csv").split()[-12:]


@mark.parametrize(
    ("zone", "first"),
    [
        (BERLIN, "2021-10-30T12:00"),
        ("America/Santiago", "2021-04-03T12:00"),
        ("Australia/Lord_Howe", "2021-04-03T02:00"),
    ],
)
def test_the_repeated_hour_is_read_right(tmp_path, zone, first):
    """A day of a clock that ticks every five minutes, in local times."""
    times_s = [datetime.fromisoformat(first + "+00:00").timestamp() + 300 * k for k in range(288)]
    text = [f"{datetime.fromtimestamp(t, ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}" for t in times_s]
    still = write(
        tmp_path / "t.csv", "\n".join(["time_s,user,lat,lon", *(f"{t},a,-22.5,17" for t in text)])
    )
    table = read_trace_table(still, timezone=zone)
    assert table.fixes.time_s.tolist() == times_s
    assert read_trace(still, timezone=zone).counts["duplicate"] == 0
    track = write(tmp_path / "t.gpx", gpx(("a", [t.replace(" ", "T") for t in text], -22.5)))
    assert read_trace_table(track, timezone=zone).fixes.time_s.tolist() == times_s


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_passes_never_turn_time_back_where_one_order_does_not(seed):
    rng = np.random.default_rng(seed)
    true_s = np.cumsum(rng.integers(0, 2500, 40)).astype(float)
    change_s = 30_000.0
    local_s = np.where(true_s >= change_s, true_s - 3600, true_s)
    twice = np.flatnonzero((local_s >= change_s - 3600) & (local_s < change_s))
    former_s = local_s.copy()
    former_s[local_s >= change_s] += 3600  # after the hour there is one reading
    found_s, n_second = assign_passes(
        former_s, np.zeros(40, int), dict.fromkeys(twice.tolist(), 3600.0)
    )
    assert (np.diff(found_s) >= 0).all()
    assert n_second == (found_s != former_s).sum()
    assert set((found_s - former_s).tolist()) <= {0.0, 3600.0}


@mark.parametrize(
    ("header", "values", "time_s"),
    cases(
        r"""
     "timestamp_ms", ("1709157600000", "1709157600100"), (1709157600, 1709157600.1)
     "time_us", ("0", "500000"), (0, 0.5)
     "t_ns", ("1709157600000000000", "1709157601000000000"), (1709157600, 1709157601)
     "time_min", ("0", "1.5"), (0, 90)
     "timestamp", ("1709157600000", "1709157600100"), (1709157600, 1709157600.1)
     "timestamp", ("20240228220000", "20240228220001"), (1709157600, 1709157601)
     "timestamp", ("20240228220000500", "20240228220001500"), (1709157600.5, 1709157601.5)
     "t", ("2024/02/28 22:00:00", "2024/02/28 22:00:01"), (1709157600, 1709157601)
     "t", ("2024-02-28 22:00:00 UTC", "2024-02-28 22:00:01 GMT"), (1709157600, 1709157601)
     "t", ("Wed Feb 28 23:00:00 +0100 2024", "Wed Feb 28 22:00:01 +0000 2024"),
         (1709157600, 1709157601)
     "time", ("45350.5", "45351.5"), (45350.5, 45351.5)
     "time", ("45350.91667", "45351.91667"), (45350.91667, 45351.91667)
     "time_ms", ("20240228", "20240229"), (20240.228, 20240.229)
     """
    ),
)
def test_units_of_numbers_are_read(tmp_path, header, values, time_s):
    rows = "".join(f"{value},1,2\n" for value in values)
    table = read_trace_table(
        write(tmp_path / "t.csv", f"{header},lat,lon\n{rows}"), {"time_s": header}, timezone="UTC"
    )
    assert table.fixes.time_s.tolist() == approx(time_s, abs=1e-6)
    by_size = header == "timestamp" and values[0].startswith("17091")
    assert by_size == any(
        "as seconds they would lie beyond 2100" in note for note in lines(table.notices)
    )


@mark.parametrize(
    ("header", "values", "date"),
    cases(
        r"""
     "time_s", ("202402282200", "202402282201"), "2024-02-28 22:00"
     "when", ("2024022822", "2024022823"), "2024-02-28 22:00"
     "when", ("2024022822.0", "2024022823.0"), "2024-02-28 22:00"
     "when", ("2402282200", "2402282201"), "2024-02-28 22:00"
     "time_s", ("240228220000", "240228220100"), "2024-02-28 22:00"
     "days", ("45350.5", "45350.6"),
         "days since 1970, or be 2024-02-28 12:00:00 as spreadsheets"
     "day", ("20240228", "20240229"), None
     "time", ("20240228", "20240229"), "2024-02-28"
     "time", ("45350.916666667", "45350.917361111"),
         "2024-02-28 22:00:00 as spreadsheets count days"
     "date", ("45350", "45351"), "2024-02-28 00:00:00 as spreadsheets count days"
     """
    ),
)
def test_a_number_that_could_be_a_date_is_refused_with_both_readings(
    tmp_path, header, values, date
):
    path = write(
        tmp_path / "t.csv", f"{header},lat,lon\n" + "".join(f"{value},1,2\n" for value in values)
    )
    message = refuse_table(path, columns={"time_s": header}, timezone=BERLIN)
    if date is None:  # the header says days, and no trace lies 20 million of them after 1970
        assert "is not a time between 1970 and 2100 in epoch days" in message
    else:
        if date.startswith("days"):
            date = date
        else:
            date = f"seconds, or be {date}"
        assert f"line 2, column {header}: '{values[0]}' could count {date}" in message
        assert "; write ISO 8601" in message
    if (date and not values[0].startswith("45350")) or len(
        values[0]
    ) > 8:  # a window's time has no header
        with raises(ValueError, match="could count seconds, or be 2024-02-28"):
            parse_epoch_s(values[0])


def test_times_that_run_backwards_are_refused_in_every_format(tmp_path):
    day = T0 / 86400 + 25569
    plt = "Geolife trajectory\nWGS 84\n\n\n\n\n" + "".join(
        f"1,2,0,0,{day + d:.10f},d,t\n" for d in (0, 0.2, 0.1)
    )
    cab = "".join(f"37.1 -122.1 0 {T0 + s}\n" for s in (0, 20, 10))
    text = fcd([mover("vehicle", 0, 1, 1)]).replace(
        "</fcd-export>", fcd([mover("vehicle", 0, 1, 1)])[13:]
    )
    text = text.replace('time="0"', 'time="5"', 1)
    for name, content, message in (
        (
            "t.plt",
            plt,
            "line 9, column time_s: its time is before that of line 8, of the same user",
        ),
        ("new_t.txt", cab, "its time is before that of line"),
        (
            "t.fcd.xml",
            text,
            "timestep 0 s comes after timestep 5 s; sort the timesteps (were two outputs joined?)",
        ),
    ):
        assert message in refuse_table(write(tmp_path / name, content))
    cab = write(tmp_path / "new_u.txt", "".join(f"37.1 -122.1 0 {T0 + s}\n" for s in (0, 10, 20)))
    assert read_trace_table(cab).fixes.time_s.tolist() == [T0, T0 + 10, T0 + 20]


@mark.parametrize(
    "text",
    [
        "sep=;\ntime_s;user;lat;lon\n1;a;2,5;3\n",
        "# by a tool\n# version 2\ntime_s,user,lat,lon\n1,a,2.5,3\n",
        "#time_s,user,lat,lon\n1,a,2.5,3\n",
        "\ufeff# note\ntime_s\tuser\tlat\tlon\n1\ta\t2.5\t3\n",
    ],
)
def test_first_lines_of_spreadsheets_and_comments_are_no_header(tmp_path, text):
    table = read_trace_table(write(tmp_path / "t.csv", text))
    assert table.users == ("a",)
    assert table.fixes.place[:, 0].tolist() == [2.5]
    assert table.fixes.time_s.tolist() == [1]
    bad = text + text.splitlines()[-1].replace("2.5", "x").replace("2,5", "x")
    assert f"line {text.count(chr(10)) + 1}, column lat" in refuse_table(
        write(tmp_path / "t.csv", bad)
    )


@mark.parametrize(
    ("delimiter", "header"),
    [(",", "time_s,user,lat,lon"), ("\t", "time_s TAB user TAB lat TAB lon")],
)
def test_rows_without_a_header_are_refused_with_one(tmp_path, delimiter, header):
    row = delimiter.join(("1", "2008-02-02 15:36:08", "116.51172", "39.92123"))
    message = refuse_table(write(tmp_path / "t.txt", f"{row}\n{row}\n"), format="csv")
    assert "line 1" in message
    assert (
        f"is a row, and the file has no header; put one above it, such as {header}, or "
        f"name its columns" in message
    )


CHECKINS = [
    f"alice\t2010-10-{20 - day}T23:55:27Z\t30.{day:02}\t-97.{day:02}\thome\n" for day in range(10)
]  # newest first, a place last
TAXIS = "1,2008-02-02 15:36:08,116.51172,39.92123\n1,2008-02-02 15:46:08,116.51135,39.93883\n"


@mark.parametrize(
    ("text", "columns", "numbers", "choices"),
    [
        (
            "".join(CHECKINS),
            "user,time_s, lat,lon",
            {"user": 0, "time_s": 1, "lat": 2, "lon": "3"},
            {},
        ),
        (TAXIS, "-,time_s,lon,lat", "time_s=1, lon = 2,lat=3", {"timezone": "Asia/Shanghai"}),
    ],
)
def test_columns_without_a_header_are_named_in_order_or_by_number(
    tmp_path, text, columns, numbers, choices
):
    bare = write(tmp_path / "0.txt", text)
    if "\t" not in text:
        header = columns.replace(" ", "")
    else:
        header = "user\ttime_s\tlat\tlon\tplace"
    expected = read_trace_table(write(tmp_path / "t.csv", f"{header}\n{text}"), **choices)
    for named in (columns, numbers):
        for path in (bare, tmp_path / "t.csv"):  # numbers are of a header's columns as well
            result = read_trace_table(path, named, **choices)
            assert result.users == expected.users
            assert len(result) == text.count("\n")
            for column in ("user", "time_s", "place"):
                assert_array_equal(getattr(result.fixes, column), getattr(expected.fixes, column))


NAMED = (
    "name each column once, such as time_s=timestamp, or all in their order: user,time_s,lat,lon"
)


@mark.parametrize(
    ("columns", "message"),
    cases(
        r"""
     "0,1,2,3",
         "columns: '0' is none of time_s, lat, lon, x_m, y_m, user, rsrp_dbm, cell, "
         "accuracy_m; $NAMED"
     "user,time_s,lat,lat", 'columns: user,time_s,lat,lat: $NAMED'
     "user,time_s,lat=3", 'columns: user,time_s,lat=3: $NAMED'
     "time_s=1,lat=2,lon=5",
         'columns: lon=5: the file has no such column (it has 0, time_s, lat, 3, 4); use '
         'one of these'
     "user,lat,time_s,lon",
         "line 1, column lat: '2010-10-20T23:55:27Z' is not a number in [-90, 90]; "
         "correct or remove the line"
     "user,time_s,lat",
         'line 1: no column lon; the file has user, time_s, lat, 3, 4; add what is '
         'missing, or try --columns lon=HEADER'
     """,
        NAMED=NAMED,
    ),
)
def test_columns_that_no_row_has_are_refused(tmp_path, columns, message):
    assert (
        catch_line(read_trace_table, path := write(tmp_path / "t.txt", "".join(CHECKINS)), columns)
        == f"{path}: {message}"
    )


def test_users_on_several_continents_get_boxes_that_replays_take(tmp_path):
    homes = (
        [(51.5, -0.1)] * 4
        + [(51.6, 0.1)] * 3
        + [(-33.9, 151.2)] * 5
        + [(40.7, -74.0)] * 2
        + [(0.5, 30.5)]
    )
    lines = [
        f"{t},u{k},{lat + 1e-4 * t},{lon}" for k, (lat, lon) in enumerate(homes) for t in range(3)
    ]
    lines.append("99999,u0,40.7,-74")
    path = write(tmp_path / "t.csv", "\n".join(["time_s,user,lat,lon", *lines]) + "\n")
    boxes = {"-35,150,-32,153": (5, 15), "50,-2,53,1": (7, 21), "39,-75,42,-72": (3, 7)}
    message = ", ".join(
        f"--area-deg {box} ({users} users, {rows} rows)" for box, (users, rows) in boxes.items()
    )
    expected = (
        f"rows are more than 1,000 km apart: replay one region, such as {message}; rows "
        f"elsewhere: 3"
    )
    assert doubts_in(read_trace(path).notices)[0] == expected
    assert expected in " ".join(inspect_trace(path).split())
    for box, (users, rows) in boxes.items():
        trace = read_trace(path, users="id", area_deg=tuple(map(float, box.split(","))))
        assert len(trace.users) == users
        assert len(trace.user) == rows
        assert doubts_in(trace.notices) == []
    assert expected in catch_line(
        choose_default_layout, read_trace(path).area, read_trace(path).notices
    )


GRID = """\
x_m,y_m,cell,rsrp_mean_dbm,rsrp_p50
0,0,a,-80,-81
0,0,b,-90,-91
70,0,a,-85,-86
0,0,a,-80,-81
0,140,a,-95,-96
"""


def test_a_survey_has_the_times_of_a_walk_in_the_order_of_its_rows(tmp_path):
    path = write(tmp_path / "t.csv", GRID)
    table = read_trace_table(path, survey=True)
    assert table.fixes.time_s.tolist() == approx([0, 0, 50, 100, 200])  # s at 1.4 m/s
    assert table.fixes.rsrp_dbm.tolist() == [-80, -90, -85, -80, -95]
    assert read_trace_table(path, "rsrp_dbm=rsrp_p50", survey=True).fixes.rsrp_dbm[0] == -81
    assert read_trace(path, survey=True, cell="b").time_s.tolist() == [0]
    message = " ".join(inspect_trace(path, survey=True).split())
    assert "RSRP is column rsrp_mean_dbm; --columns" in message
    assert "of a walk at 1.4 m/s in their order, 200 s" in message
    assert message.endswith(f"netsim replay {path} --survey --cell a --round 5min")


@mark.parametrize(
    ("header", "survey", "message"),
    cases(
        r"""
     "x_m,y_m,cell,meanRSRP", False,
         'line 1: no column time_s; the file has x_m, y_m, cell, meanRSRP; add what is missing, or try --survey for a file without times, or --columns time_s=HEADER,rsrp_dbm=meanRSRP'
     "x_m,y_m,timestamp,rsrp_dbm", True,
         "survey: the file has times (column 'timestamp'); leave survey out"
     "x_m,y_m,time_s,rsrp_dbm", True,
         "survey: the file has times (column 'time_s'); leave survey out"
     "x_m,y_m,a,b", True,
         'line 1: no column rsrp_dbm; the file has x_m, y_m, a, b; add what is missing, or try --columns rsrp_dbm=HEADER'
     "", True,
         "survey: only a CSV takes it, and this is read as cabspotting; leave survey out"
     """
    ),
)
def test_surveys_and_times_exclude_each_other(tmp_path, header, survey, message):
    if header:
        text = f"{header}\n1,2,3,-80\n"
    else:
        text = "37.7 -122.4 0 1211033530\n"
    assert (
        catch_line(read_trace_table, path := write(tmp_path / "new_t.txt", text), survey=survey)
        == f"{path}: {message}"
    )


def test_the_command_that_is_proposed_names_columns_that_were_not_read(tmp_path):
    path = write(
        tmp_path / "t.csv", "time_s,lat,lon,RSRP,Cell ID\n1,2,3,-80,a\n2,2,3,-80,b\n3,2,3,-80,a\n"
    )
    shown = inspect_trace(path)
    assert f"netsim replay {path} --columns 'rsrp_dbm=RSRP,cell=Cell ID' --cell a --round" in shown
    named = inspect_trace(path, "cell=Cell ID")
    assert "--columns 'cell=Cell ID,rsrp_dbm=RSRP' --cell a --round" in named
    assert "the busiest (--cell all takes every one)" in named


@mark.parametrize(("name", "places", "cells"), [("V-R7", 201, 1348), ("V-R10", 315, 1043)])
def test_published_grids_are_surveys(data_folder, name, places, cells):
    table = read_trace_table(data_folder / f"rsrpgrid_{name}.csv.gz", survey=True)
    place = table.fixes.place
    time_s = table.fixes.time_s
    assert len(np.unique(place, axis=0)) == len(np.unique(time_s)) == places
    assert len(table.cells) == cells
    gaps_s = np.diff(np.unique(time_s))
    assert (np.diff(time_s) >= 0).all()
    assert 40 < 1.4 * gaps_s.min() < 60
    assert 1.4 * gaps_s.max() < 1500


# --- cells
# ----------------------------------------------------------------------------------------

DRIVE = {"time_s": "Timestamp", "lat": "Latitude", "lon": "Longitude"}
GNET = "Timestamp;Longitude;Latitude;Operator;CGI;Cellname;Node;CellID;LAC;NetworkTech;NetworkMode;Level;LTERSSI;PSC;PCI"


FIXED_CELLS = """Longitude=4.3 Operator=20401 Cellname= CellID=11 LAC=1234 NetworkMode=LTE MCC=204
MNC=01 LTERSSI=-60 PSC= CID=11"""


def drive(path, n=24, header=GNET, **changes):
    """A drive past three base stations 4 km apart, whose cells have one number and two physical
    ones; some 2G."""
    rows = [header]
    for k in range(n):
        node, pci = ((4001, 102), (4077, 100), (4200, 100))[3 * k // n]
        is_2g = k % 8 == 0
        number = node * 256 + 11
        cell = dict(pair.split("=") for pair in FIXED_CELLS.split()) | {
            "Timestamp": f"2024.05.01_08.{k:02}.00",
            "Latitude": f"{52 + k / 200:.4f}",
            "CGI": f"20401{number}",
            "Node": str(node),
            "NetworkTech": "2G" if is_2g else "4G",
            "Level": "-67" if is_2g else str(-90 - k),
            "PCI": str(pci),
            "ECI": str(number),
        }
        cell |= {name: change(k) for name, change in changes.items()}
        rows.append(";".join(map(cell.get, header.split(";"))))
    return write(path, "\n".join(rows) + "\n")


@mark.parametrize(
    ("changes", "cell", "n"),
    cases(
        """
        "", "CGI", 3
        "CGI;=", "Node+CellID", 3
        "CGI=ECI", "ECI", 3
        "CGI=ECI Operator=MCC;MNC", "MCC+MNC+ECI", 3
        "CGI;= Node;=", "LAC+CellID", 1
        "CGI;= Node;= CellID=CID", "LAC+CID", 1
        "CGI;= Node;CellID;LAC=CID", "CID", 1
        "CGI;Cellname;Node;CellID;LAC;=", "PCI", 2
        """
    ),
)
def test_the_columns_that_tell_cells_apart_are_proposed(tmp_path, changes, cell, n):
    header = GNET
    for change in changes.split():
        header = header.replace(*change.split("="))
    path = drive(tmp_path / "t.csv", header=header)
    assert refuse_table(path).endswith(f"rsrp_dbm=Level,cell={cell}")
    table = read_trace_table(path, DRIVE | {"cell": cell}, timezone="UTC")
    assert len(table.cells) == n
    assert (doubts_in(table.notices) != []) == (cell == "PCI")
    assert not {*cell.split("+")} & {*table.facts["ignored"].split(", ")}


@mark.parametrize(
    ("cell", "n"),
    cases(
        r"""
     "CellID", 1
     "LAC", 1
     "PCI", 2
     "LAC+CellID", 1
     "Node", 3
     "CGI", 3
     """
    ),
)
@mark.parametrize("header", [GNET, GNET.replace("CGI", "ECI"), GNET.replace("CGI;", "")])
def test_a_column_that_takes_several_cells_for_one_is_doubtful(tmp_path, cell, n, header):
    if cell not in header and "+" not in cell:
        return
    path = drive(tmp_path / "t.csv", header=header)
    better = next(name for name in ("CGI", "ECI", "Node+CellID") if name.split("+")[0] in header)
    message = " ".join(
        doubts_in(
            read_trace(path, columns=DRIVE | {"cell": cell}, timezone="UTC", cell="all").notices
        )
    )
    assert (f"column {cell} has {n} name{'s' * (n > 1)} for 3 of {better}, so that" in message) == (
        n < 3
    )
    assert ("column PCI repeats every few km" in message) == (cell == "PCI")
    text = " ".join(inspect_trace(path, DRIVE | {"cell": cell}, timezone="UTC").split())
    doubt = f"doubtful column {cell} has {n} name"
    assert (doubt in text) == (n < 3)


@mark.parametrize(
    "technology",
    [
        "2G",
        "GSM",
        "EDGE",
        "3G",
        "UMTS",
        "WCDMA (3G)",
        "HSPA+",
        "TD-SCDMA",
        "1xRTT",
        "UTRA",
        "GERAN",
    ],
)
@mark.parametrize("column", ["NetworkTech", "radio", "Network Type", "System"])
def test_levels_of_2g_and_3g_are_no_rsrp(tmp_path, technology, column):
    path = drive(
        tmp_path / "t.csv", NetworkTech=lambda k: ("E-UTRA", "5G NSA", technology, "LTE_CA")[k % 4]
    )
    path.write_text(path.read_text().replace("NetworkTech", column).replace("NetworkMode", "x"))
    trace = read_trace(
        path, columns=DRIVE | {"rsrp_dbm": "Level", "cell": "CGI"}, timezone="UTC", cell="all"
    )
    assert trace.counts["rsrp_missing"] == 6
    assert trace.counts["rows_used"] == 18
    assert f"levels of {technology} are no RSRP" in " ".join(doubts_in(trace.notices))
    assert len(read_trace_table(path, DRIVE, timezone="UTC")) == 24  # positions are no levels
    path.write_text(re.sub("E-UTRA|5G NSA|LTE_CA|LTE", technology, path.read_text()))
    message = catch_line(read_trace_table, path, DRIVE | {"rsrp_dbm": "Level"}, timezone="UTC")
    assert "no row is usable (rsrp_missing 24)" in message
    assert f"levels of {technology} are no RSRP" in message


@mark.parametrize("level", ["RSSI", "RxLev", "rscp_dbm", "RSRQ", "SINR", "Ec/No"])
def test_a_level_that_is_called_otherwise_is_doubtful(tmp_path, level):
    path = drive(tmp_path / "t.csv")
    path.write_text(path.read_text().replace("LTERSSI", level).replace("2G", "4G"))
    doubts = doubts_in(read_trace_table(path, DRIVE | {"rsrp_dbm": level}, timezone="UTC").notices)
    assert doubts == [
        f"column {level} is no RSRP, and no map of RSRP can be learnt from it; --columns "
        f"rsrp_dbm=HEADER names another"
    ]


@mark.parametrize(
    ("ids", "cells", "missing"),
    cases(
        r"""
     ["1024267", "0xFA10B", " 1024267", "1 024 267", "1024267.0", "0", "-1"], ["1024267"], 2
     ["2147483647", "268435455", "9223372036854775807", "nan", "77", "", "68719476735"],
         ["77"], 6
     ["0", "1", "2", "0", "300", "-1", "x"], ["0", "1", "2", "300", "x"], 1
     ['0', '0', '0', '0', '0', '0', '0'], ["0"], 0
     ["UNKNOWN", "4294967295", "unknown", "?", "77", "N/A", "77"], ["77"], 5
     """
    ),
)
def test_identities_of_cells_are_read_as_others_write_them(tmp_path, ids, cells, missing):
    rows = [f"{k},{52 + k / 1e3},4.3,{name}" for k, name in enumerate(ids)]
    table = read_trace_table(
        write(tmp_path / "t.csv", "\n".join(["time_s,lat,lon,cell", *rows]) + "\n")
    )
    used = [table.cells[c] for c in np.unique(table.fixes.cell)]
    assert used == cells
    assert table.left_out.get("cell_missing", 0) == missing


def test_a_cell_of_lte_is_one_in_two_areas_and_one_of_gsm_is_not(tmp_path):
    """Beside 2G cells, whose 16 bits hold in an area; an area that is unknown does not hide a cell
    of LTE."""
    ids = cases(
        r"""
    1, 7
    2, 7
    1, 1024267
    2, 1024267
    "", 1024267
    -1, "0xFA10B"
    "", 7
    1, -1
    1, ""
    """
    )
    rows = [f"{k},52,4.3,{area},{cell}" for k, (area, cell) in enumerate(ids)]
    path = write(tmp_path / "t.csv", "\n".join(["time_s,lat,lon,TAC,CI", *rows]) + "\n")
    table = read_trace_table(path, {"cell": "TAC+CI"})
    assert [table.cells[c] for c in table.fixes.cell] == ["1-7", "2-7", *["1024267"] * 4]
    assert table.left_out["cell_missing"] == 3
    assert (
        "has 2 names for 3 of TAC+CI"
        in doubts_in(read_trace_table(path, {"cell": "CI"}).notices)[0]
    )


@mark.parametrize(
    ("site", "cell"), [("eNB", "LCID"), ("site", "sector"), ("gNodeB ID", "NR CellID")]
)
def test_numbers_of_sectors_hold_at_their_site(tmp_path, site, cell):
    rows = [f"{k},52,{4.3 + k / 100},{4711 + k // 3},{k % 3}" for k in range(12)]
    path = write(tmp_path / "t.csv", "\n".join([f"time_s,lat,lon,{site},{cell}", *rows]) + "\n")
    better = f"{site}+{cell}"
    message = " ".join(doubts_in(read_trace_table(path, {"cell": cell}).notices))
    assert f"column {cell} has 3 names for 12 of {better}, so that" in message
    table = read_trace_table(path, {"cell": better})
    assert len(table.cells) == 12
    assert not doubts_in(table.notices)
    assert f"cell={better}" in " ".join(lines(read_trace_table(path).notices))


# -- headers and dates of apps that log drives


@mark.parametrize(
    ("header", "row", "command"),
    cases(
        r"""
        "Timestamp;Longitude;Latitude;CGI;Node;CellID;NetworkTech;Level", "2021.05.19_08.00.00;-118.49;34.01;;7;2;4G;-90", "--timezone America/Los_Angeles --columns time_s=Timestamp,lat=Latitude,lon=Longitude,rsrp_dbm=Level,cell=Node+CellID --cell 7-2"
        "Timestamp,Longitude,Latitude,CellID,RSRP,RAWCELLID,NRxRSRP", "2021.05.19_08.00.00,-8.5,51.9,2,-90,77,-95", "--timezone Europe/Dublin --columns time_s=Timestamp,lat=Latitude,lon=Longitude,rsrp_dbm=RSRP,cell=RAWCELLID --cell 77"
        "mcc,mnc,lac,cell_id,rnc,asu,dbm,lat,lon,measured_at,net_type", "310,410,5,70000,,50,-90,34,-118.5,2021-05-19T08:00:00Z,LTE", "--timezone America/Los_Angeles --columns time_s=measured_at,rsrp_dbm=dbm,cell=mcc+mnc+lac+cell_id --cell 310-410-70000"
        "lat,lon,mcc,mnc,cellid,signal,measured_at,act", "34,-118.5,310,410,70000,-90,1621411200000,LTE", "--timezone America/Los_Angeles --columns time_s=measured_at,rsrp_dbm=signal,cell=cellid --cell 70000"
        "timestamp,lat,lng,pci,ci,rsrp", "2021-05-19T08:00:00+00:00,34,-118.5,3,70000,-90", "--timezone America/Los_Angeles --columns time_s=timestamp,lon=lng,rsrp_dbm=rsrp,cell=ci --cell 70000"
        "Network Time;GPS Latitude;GPS Longitude;PCI;Signal;Level;ASU", "19.05.2021 08:00:00;34,0;-118,5;3;-90;2;50", "--timezone America/Los_Angeles --columns 'time_s=Network Time,lat=GPS Latitude,lon=GPS Longitude,rsrp_dbm=Signal,cell=PCI' --cell 3"
        "Date,Time,Lat,Long,ECI,LTE RSRP [dBm],NR_RSRP", "5/19/2021,08:00:00,34,-118.5,7,-90,2147483647", "--timezone America/Los_Angeles --columns 'time_s=Date+Time,lat=Lat,lon=Long,rsrp_dbm=LTE RSRP [dBm],cell=ECI' --cell 7"
        "Date,Time,lat,lng,EARFCN (LTE),PCI (LTE),NB PCI,RSRP (LTE PCell) [dBm],RSRP NB,RSRQ", "05/19/2021,08:00:00 PM,34,-118.5,850,3,4,-90 dBm,0,-9", "--timezone America/Los_Angeles --columns 'time_s=Date+Time,lon=lng,rsrp_dbm=RSRP (LTE PCell) [dBm],cell=EARFCN (LTE)+PCI (LTE)' --cell 850-3"
        """
    ),
)
def test_one_command_reads_a_drive_of_an_app(tmp_path, header, row, command):
    """What inspect prints is read by replay's settings alone, to the same times, places and levels."""
    later = re.sub("(8.00.0|120000)0", r"\g<1>9", row)
    path = write(tmp_path / "t.csv", f"{header}\n{row}\n{later}\n")
    shown = inspect_trace(path)
    assert f"netsim replay {path} {command} --round" in shown
    words = shlex.split(command)
    options = dict(zip(words[::2], words[1::2], strict=True))
    zone = {"timezone": options["--timezone"]} if "--timezone" in options else {}
    trace = read_trace(path, columns=options["--columns"], cell=options["--cell"], **zone)
    assert trace.rsrp_dbm.tolist()[0] == -90.0
    assert str(trace.local.first_day) == "2021-05-19"


def test_two_columns_of_levels_are_a_question(tmp_path):
    text = "time_s,lat,lon,LTE_RSRP,NR_RSRP\n1,2,3,-80,-90\n2,2,3,-80,-90\n"
    path = write(tmp_path / "t.csv", text)
    asked = (
        "levels: choose --columns 'rsrp_dbm=LTE_RSRP' or 'rsrp_dbm=NR_RSRP'; the rest is guessed"
    )
    assert catch_line(inspect_trace, path).endswith(asked)
    assert "--columns rsrp_dbm=NR_RSRP" in inspect_trace(path, "rsrp_dbm=NR_RSRP")


@mark.parametrize(
    ("dates", "stated", "day"),
    cases(
        """
        "03/04/2021 13/04/2021", {}, "2021-04-03"
        "03/04/2021 04/13/2021", {}, "2021-03-04"
        "3/4/2021 4/13/2021", {}, "2021-03-04"
        "03-04-2021 04-04-2021", {"dates": "dmy"}, "2021-04-03"
        "03/04/2021 04/04/2021", {"dates": "mdy"}, "2021-03-04"
        "03.04.2021 04.04.2021", {}, "2021-04-03"
        "03/04/2021 04/04/2021", {}, "--dates dmy, or --dates mdy"
        "13/04/2021 04/14/2021", {}, "is not a time"
        """
    ),
)
def test_dates_of_a_locale_are_read_by_a_number_above_12_or_as_stated(tmp_path, dates, stated, day):
    rows = "".join(f"{date} 10:00:00,1,2\n" for date in dates.split())
    path = write(tmp_path / "t.csv", f"time_s,lat,lon\n{rows}")
    if day[0] != "2":
        assert day in catch_line(read_trace, path, timezone="UTC", **stated)
        return
    assert str(read_trace(path, timezone="UTC", **stated).local.first_day) == day


@mark.parametrize(("clock", "hour"), [("12:00:09 AM", 0), ("2:00:09 pm", 14), ("12:00:09 PM", 12)])
def test_times_of_half_a_day_are_read(tmp_path, clock, hour):
    path = write(tmp_path / "t.csv", f"time_s,lat,lon\n4/13/2021 {clock},1,2\n")
    assert read_trace(path, timezone="UTC").time_s.tolist() == [3600.0 * hour + 9]


def test_the_command_suits_the_rows_of_the_chosen_cell(tmp_path):
    """A cell of 2 s between two rows, and one of few rows, which is not proposed."""
    ends = [f"{10 * k},1.{k % 7},2,{-80 - k % 9},a\n" for k in range(40)]
    ends += [f"{5000 + k},1,2,-90,b\n" for k in range(3)]
    path = write(tmp_path / "t.csv", "time_s,lat,lon,rsrp_dbm,cell\n" + "".join(ends))
    shown = inspect_trace(path)
    assert "--cell a --round 1min" in shown
    assert "7 distinct of cell a" in shown
    few = write(tmp_path / "f.csv", "time_s,lat,lon,rsrp_dbm,cell\n" + "".join(ends[39:41]))
    shown = inspect_trace(few)
    assert "--cell all --round" in shown
    assert "hopeless         a map of 2 rows" in shown


def test_unknown_levels_are_missing_and_asu_is_refused(tmp_path):
    rows = "".join(f"{k},1,2,{level}\n" for k, level in enumerate((-90, 2147483647, 0, -156, 5)))
    table = read_trace_table(write(tmp_path / "t.csv", f"time_s,lat,lon,rsrp_dbm\n{rows}"))
    assert table.left_out | {"rsrp_missing": 2, "rsrp_out_of_range": 1} == table.left_out
    assert table.fixes.rsrp_dbm.tolist() == [-90.0, -156.0]
    asu = write(tmp_path / "a.csv", "time_s,lat,lon,rsrp_asu\n1,2,3,50\n")
    assert "is in asu" in catch_line(read_trace_table, asu, columns="rsrp_dbm=rsrp_asu")
