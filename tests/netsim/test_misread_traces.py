"""Files that would be read wrongly without a word: clocks, sides of the globe, units, headers,
folders."""

from pathlib import Path

import numpy as np
from noticed import doubts as doubts_in
from noticed import lines
from numpy.testing import assert_allclose
from pytest import approx, mark
from refused import catch_line
from tabled import cases

import netsim.safe
from fl.attacks.known_homes import read_directory
from netsim.geometry import Area
from netsim.notice import Built
from netsim.radio.gain_map import GainMap
from netsim.safe import list_files_below, read_file_version
from netsim.trace_files.inspect import inspect_trace
from netsim.trace_files.read import read_trace, read_trace_table
from netsim.traces.home_work import find_user_places
from netsim.traces.moves import Moves, measure_steps
from netsim.traces.values import find_other_unit
from netsim.world.base_stations import CellFile
from scenarios.app.run.job import digest_inputs
from scenarios.app.study.study import Study

T0 = 1_709_157_600  # 2024-02-28T22:00:00Z
NEAR_M = 1e-3


def write(path, head, rows):
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def collect_doubts(path, **settings):
    """What a replay, a run and `validate` warn of, which `inspect` says as well."""
    doubts = doubts_in(read_trace(path, **settings).notices)
    shown = " ".join(inspect_trace(path, **settings).split())
    assert all(f"doubtful {' '.join(doubt.split())}" in shown for doubt in doubts)
    return doubts


def walk(n, step_deg=0.000126):
    return [f"{52.5 + step_deg * k:.6f},13.4" for k in range(n)]


@mark.parametrize(
    ("times", "n_elsewhere"),
    [
        (
            [f"{1.7 + (k // 667) * 1e-5:.5f}E+12" for k in range(2000)],
            1997,
        ),  # a spreadsheet's five decimals
        ([f"2024-02-28T{9 + k // 500:02}:00:00Z" for k in range(2000)], 1996),  # hours
        ([str(T0 + 3600 * (k // 100)) for k in range(300)], 297),
    ],
)
def test_times_that_were_rounded_put_a_user_in_many_places_at_once(tmp_path, times, n_elsewhere):
    rows = [f"{time},{place}" for time, place in zip(times, walk(len(times)), strict=True)]
    doubts = collect_doubts(write(tmp_path / "t.csv", "time_s,lat,lon", rows))
    assert doubts[0].startswith(
        f"{n_elsewhere:,} rows elsewhere than the first of the same user and time, up to "
    )
    away_m = np.array([0.0, 40, 80, 120, 160, 0, 40])  # by steps of 40 m, two of them beyond 100 m
    place_m = np.column_stack([away_m, 0 * away_m])
    user = np.array([0] * 5 + [1] * 2)
    steps = measure_steps(Moves(user, np.zeros(7), place_m))
    assert steps.n == 5
    assert steps.n_fast == 2
    assert steps.n_at_once == 5
    assert steps.apart_m == 160.0


def write_at_noon(day, clock):
    """An office that is seen at noon on 15 days, as columns of dates and of times of day."""
    days = [d for d in range(4, 23) if (d - 4) % 7 < 5]
    return [
        f"{day.format(d)},{clock.format(m)},{48.13 + 1e-6 * m:.6f},11.57"
        for d in days
        for m in range(0, 60, 5)
    ]


DATES = {
    "DATE,TIME": ("2024-03-{:02}", "12:{:02}:00"),
    "UTC DATE,UTC TIME": ("2024/03/{:02}", "12:{:02}:00.000"),
    "day,clock": ("2024.03.{:02}", "12:{:02}:00"),
}


@mark.parametrize("head", DATES)
def test_dates_alone_are_refused_and_both_columns_are_read_together(tmp_path, head):
    path = write(tmp_path / "t.csv", f"{head},LATITUDE,LONGITUDE", write_at_noon(*DATES[head]))
    date, time = head.split(",")
    places = {"lat": "LATITUDE", "lon": "LONGITUDE"}
    for half in (date, time):
        message = catch_line(
            lambda _, half=half: read_trace_table(
                path, {"time_s": half, **places}, timezone="Europe/Berlin"
            ),
            None,
        )
        assert f"line 2, column {half}: " in message
        assert "time" in message
    both = {"columns": {"time_s": f"{date}+{time}", **places}, "timezone": "Europe/Berlin"}
    trace = read_trace(path, **both)
    whole = [
        f"2024-03-{d:02}T12:{m:02}:00"
        for d in range(4, 23)
        if (d - 4) % 7 < 5
        for m in range(0, 60, 5)
    ]
    right = write(tmp_path / "right.csv", "time_s,lat,lon", [f"{t},48.13,11.57" for t in whole])
    assert trace.time_s.tolist() == read_trace(right, timezone="Europe/Berlin").time_s.tolist()
    home = find_user_places(
        trace.position_m, trace.time_s, trace.local.build_clock(float(trace.time_s[-1]))
    )
    assert home.nights == 0
    assert np.isnan(home.home_m).all()
    assert " ignored none " in " ".join(inspect_trace(path, **both).split())


@mark.parametrize("day", ["2024-03-{:02} 00:00:00", "2024-03-{:02}T00:00Z", "202403{:02}000000"])
def test_dates_that_are_written_as_midnights_are_doubtful(tmp_path, day):
    path = write(tmp_path / "t.csv", "time_s,TIME,lat,lon", write_at_noon(day, "12:{:02}:00"))
    (doubt,) = collect_doubts(path, timezone="Europe/Berlin")
    assert doubt.startswith(
        "rows of a user are at one time, or a day or more apart: are these dates?"
    )
    rows = [f"{day.format(d)},12:30,48.1,11.5" for d in range(4, 20)]  # once a day
    assert collect_doubts(
        write(tmp_path / "t.csv", "time_s,TIME,lat,lon", rows), timezone="UTC"
    ) == [doubt]
    noon = [
        row.replace("T00:00Z", "T12:00Z").replace(" 00:0", " 12:0").replace("000000,", "120000,")
        for row in rows
    ]
    assert (
        collect_doubts(write(tmp_path / "t.csv", "time_s,TIME,lat,lon", noon), timezone="UTC") == []
    )
    hourly = [f"{T0 + 3600 * k},{k},48.1,11.5" for k in range(48)]
    assert collect_doubts(write(tmp_path / "t.csv", "time_s,k,lat,lon", hourly)) == []


@mark.parametrize(
    "wrong",
    [
        [f"1970-01-01T00:00:{k:02}Z" for k in range(5)],  # a clock that was never set
        [f"2004-07-14T22:00:{k:02}Z" for k in range(5)],  # 1,024 weeks before
        [f"1989-01-05T10:00:{k:02}Z" for k in range(5)],
        [str(T0 - 2 * 1024 * 7 * 86_400 + k) for k in range(3)],
        [f"2043-10-14T22:00:{k:02}Z" for k in range(4)],  # 1,024 weeks later
    ],
)
def test_clocks_that_were_not_set_or_rolled_over_are_counted(tmp_path, wrong):
    if wrong[0].isdigit():
        written = str
    else:

        def written(s):
            return str(np.datetime64(s, "s")) + "Z"

    right = (written(T0 + k) for k in range(20))
    times = sorted([*wrong, *right], key=lambda time: (len(time), time))
    path = write(tmp_path / "t.csv", "time_s,lat,lon", [f"{time},52.5,13.4" for time in times])
    (doubt,) = collect_doubts(path)
    line = 2 + times.index(wrong[0])
    assert doubt.startswith(
        f"{len(wrong)} rows dated before 2007 or years from the others, from line {line} on: "
    )
    all_of = write(
        tmp_path / "all.csv",
        "time_s,lat,lon",
        [f"2004-07-14T22:00:{k:02}Z,52.5,13.4" for k in range(9)],
    )
    assert collect_doubts(all_of)[0].startswith("9 rows dated before 2007")


def two_weeks(lat, lon):
    """Nights at (42.36, -71.06) and days at (42.40, -71.10) of two weeks in New York's zone, places
    as texts."""
    for k in range(14 * 24):
        out = 9 <= k % 24 < 17
        yield f"{1_704_690_000 + 3600 * k},{lat(42.40 if out else 42.36)},{lon(71.10 if out else 71.06)}"


SIDES = {
    name: formats
    for name, *formats in cases(
        """
        "beside", "time_s,LATITUDE,N/S,LONGITUDE,E/W", "{:.2f},N", "{:.2f},W"
        "small letters", "time_s,LATITUDE,d1,LONGITUDE,d2", "{:.2f},n", " {:.2f} , w "
        "before", "time_s,ref,LATITUDE,ref2,LONGITUDE", "N,{:.2f}", "W,{:.2f}"
        "words, and a sign", "time_s,LATITUDE,lat_dir,LONGITUDE,lon_dir",
            "{:.2f},North", "-{:.2f},West"
        "commas", "time_s;LATITUDE;N/S;LONGITUDE;E/W", "{:.2f};N", "{:.2f};W"
        "apart", "time_s,LATITUDE,LONGITUDE,lat_ns,lon_ew", "{:.2f}", "{:.2f},N,W"
        "directions apart", "time_s,LATITUDE,LONGITUDE,lat_dir,lon_dir", "{:.2f}", "{:.2f},N,W"
        "hemispheres", "time_s,LATITUDE,LONGITUDE,lon hemisphere,lat hemisphere",
            "{:.2f}", "{:.2f},W,N"
        "of EXIF", "time_s,LATITUDE,LONGITUDE,LatitudeRef,LongitudeRef", "{:.2f}", "{:.2f},N,W"
        """
    )
}


@mark.parametrize("case", SIDES)
def test_columns_of_north_and_west_are_signs(tmp_path, case):
    head, lat, lon = SIDES[case]
    rows = [
        row.replace(",", ";").replace(".", ",") if ";" in head else row
        for row in two_weeks(lat.format, lon.format)
    ]
    path = write(tmp_path / "t.csv", head, rows)
    right = write(
        tmp_path / "r.csv", "time_s,lat,lon", two_weeks("{:.2f}".format, "-{:.2f}".format)
    )
    columns = {"lat": "LATITUDE", "lon": "LONGITUDE"}
    trace = read_trace(path, columns=columns)
    signed = read_trace(right)
    assert trace.position_m.tolist() == signed.position_m.tolist()
    assert trace.local.name == signed.local.name == "UTC-05:00"
    places = find_user_places(
        trace.position_m, trace.time_s, trace.local.build_clock(float(trace.time_s[-1]))
    )
    # not the office, where the nights of UTC+5 are
    assert np.hypot(*(places.home_m - trace.position_m[0])) < NEAR_M
    assert any(note.startswith("signs: LATITUDE by ") for note in lines(trace.notices))
    assert " ignored none " in " ".join(inspect_trace(path, columns).split())


@mark.parametrize(
    ("lat", "side", "lon", "lon_side", "message"),
    cases(
        r"""
     "42.36", "N", "71.06", "O", "'O?71.06' is not a number in [-180, 180]"
     "42.36", "N", "71.06", "", "'?71.06' is not a number"
     "-42.36", "N", "71.06", "E", "'+-42.36' is not a number"
     "42.36", "Z", "71.06", "E", "'Z?42.36' is not a number"
     """
    ),
)
def test_unknown_sides_are_refused(tmp_path, lat, side, lon, lon_side, message):
    rows = ["1,42,N,71,W", f"2,{lat},{side},{lon},{lon_side}"]
    said_of = catch_line(
        read_trace_table, write(tmp_path / "t.csv", "time_s,lat,N/S,lon,E/W", rows)
    )
    assert "line 3, column l" in said_of
    assert message in said_of
    # a heading is no side
    rows = [f"{k},{v},Vodafone" for k, v in ((1, "42,-71,S"), (2, "42,-71,E"))]
    heading = write(tmp_path / "h.csv", "time_s,lat,lon,heading,ns_operator", rows)
    assert read_trace_table(heading).fixes.place.tolist() == [[42, -71], [42, -71]]
    missing = write(tmp_path / "m.csv", "time_s,lat,N/S,lon,E/W", ["1,42,S,71,W", "2,,,,"])
    table = read_trace_table(missing)
    assert table.fixes.place.tolist() == [[-42, -71]]
    assert table.left_out["position_missing"] == 1


def test_sides_hold_for_base_stations_and_homes(tmp_path):
    text = "name,lat,N/S,lon,E/W\na,42.36,N,71.06,W\n"
    sites = tmp_path / "sites.csv"
    sites.write_text(text)
    layout = CellFile(file=str(sites))
    (station,) = layout.stations(Area(-1e3, -1e3, 1e3, 1e3), (42.36, -71.06))
    assert_allclose(station.position_m, (0.0, 0.0), atol=NEAR_M)
    assert not [*layout.notices(Built(("a",), None))]
    (tmp_path / "homes.csv").write_text(text.replace("name", "user"))
    home_m = read_directory(str(tmp_path / "homes.csv"), (42.36, -71.06)).home_m
    assert_allclose(home_m, [[0.0, 0.0]], atol=NEAR_M)


def plt_rows(n):
    days = [39_744.12 + k / 1440 for k in range(n)]
    return [f"39.9{k:03},116.3,0,492,{day:.10f},2008-10-23,02:53:04" for k, day in enumerate(days)]


HEAD = [
    "Geolife trajectory",
    "WGS 84",
    "Altitude is in Feet",
    "Reserved 3",
    "0,2,255,My Track,0,0,2,8421376",
    "0",
]


@mark.parametrize(
    "head", [[], HEAD, HEAD[:3], ["OziExplorer Track Point File Version 2.1", "WGS84"]]
)
def test_every_row_of_a_plt_is_read_whatever_stands_above(tmp_path, head):
    (tmp_path / "t.plt").write_text("\r\n".join([*head, *plt_rows(20)]))
    table = read_trace_table(tmp_path / "t.plt")
    assert len(table) == 20
    assert table.fixes.line[0] == 1 + len(head)
    assert_allclose(table.fixes.place[:, 0], 39.9 + np.arange(20) / 1e4)


@mark.parametrize("datum", ["European 1950", "NAD27", "", "Beijing 1954"])
def test_a_plt_on_another_datum_is_refused(tmp_path, datum):
    (tmp_path / "t.plt").write_text("\n".join([HEAD[0], datum, *HEAD[2:], *plt_rows(2)]))
    assert f"line 2: {datum!r} is not the datum WGS 84; convert" in catch_line(
        read_trace_table, tmp_path / "t.plt"
    )
    # its first row is damaged
    (tmp_path / "t.plt").write_text("\n".join(["x," + plt_rows(1)[0], *plt_rows(9)]))
    assert "line 2: " in catch_line(read_trace_table, tmp_path / "t.plt")


UNITS = cases(
    r"""
    "height_m", "mast_ft", "ft"
    "height_m", "mastHeightFeet", "feet"
    "height_m", "HEIGHT (cm)", "cm"
    "power_dbm", "power_w", "w"
    "power_dbm", "Power [dBW]", "dbw"
    "power_dbm", "tx_mW", "mw"
    "lat", "lat_rad", "rad"
    "lon", "longitude [gon]", "gon"
    "lat", "latitudeE7", "e7"
    "lon", "lon_e6", "e6"
    "lat", "position_lat (semicircles)", "semicircles"
    "lon", "lng_gcj02", "gcj02"
    "azimuth_deg", "mils", "mils"
    "x_m", "x_km", "km"
    "y_m", "northing (US ft)", "ft"
    "accuracy_m", "hdop", "hdop"
    "x_m", "x [m]", ""
    "rsrp_dbm", "asu", "asu"
    "x_m", "utm_easting", ""
    "rsrp_dbm", "RSRP (dBm)", ""
    "lat", "Latitude [deg]", ""
    "lon", "lon (W)", "w"
    "lat", "Latitude South", "south"
    "power_dbm", "Powerdbw", "dbw"
    "power_dbm", "EIRP_dBm", "eirp"
    "height_m", "height_amsl", "amsl"
    "lon", "lon_wgs84", ""
    "power_dbm", "Powerdbm", ""
    "height_m", "antenna_height", ""
    "cell", "cell_w", ""
    "time_s", "time_ms", ""
    "height_m", "mast", ""
    "lon", "Länge", ""
    """
)


@mark.parametrize(("ours", "header", "unit"), UNITS)
def test_a_unit_in_a_header_is_not_taken_for_another(ours, header, unit):
    assert find_other_unit(ours, header) == unit


def test_readers_refuse_other_units(tmp_path):
    path = write(tmp_path / "t.csv", "time_s,lat_rad,lon_rad", ["1,0.9,0.2"])
    message = catch_line(
        lambda _: read_trace_table(path, {"lat": "lat_rad", "lon": "lon_rad"}), None
    )
    assert message == f"{path}: column 'lat_rad': is in rad, but lat is not; convert the column"
    sites = write(tmp_path / "s.csv", "name,x_m,y_m,mast_ft,power_w", ["a,500,500,100,20"])
    area = Area(0, 0, 1e3, 1e3)
    for columns, unit in (
        ({"height_m": "mast_ft", "power_dbm": "power_w"}, "ft"),
        ({"power_dbm": "power_w"}, "w"),
    ):
        layout = CellFile(file=str(sites), columns=columns)
        assert f"is in {unit}, but " in catch_line(
            lambda _, stated_layout=layout: stated_layout.stations(area, None), None
        )
    for head in ("name,x_m,y_m,height_ft", "name,x_m,y_m,tilt_rad"):  # which no `columns` names
        layout = CellFile(file=str(write(sites, head, ["a,500,500,1"])))
        assert catch_line(
            lambda _, stated_layout=layout: stated_layout.stations(area, None), None
        ).endswith("is not; convert the column")
    gains = write(tmp_path / "g.csv", "cell,x_m,y_m,z_ft,path_gain_db", ["a,0,0,5,-60"])
    message = catch_line(lambda _: GainMap(file=str(gains)).ue_heights_m, None)
    assert "column 'z_ft': is in ft, but z_m is not" in message


@mark.parametrize(
    ("head", "row", "message"),
    cases(
        r"""
     "lat,lon", "525100515,133900870", "times 1e6 or 1e7 (E7), semicircles, "
     "lat,lon", "626490123,159754321", "semicircles, degrees and minutes"
     "lat,lon", "5230.603,01323.405", "degrees and minutes (ddmm.mmmm), or metres"
     "y_m,x_m", "525100515,133900870",
         "degrees times 1e7 (E7), or semicircles (to be converted)?"
     "y_m,x_m", "55999999,-1900000", "[-2.1e+07, 2.1e+07]; are these degrees times 1e7"
     """
    ),
)
def test_whole_numbers_for_degrees_are_called_what_they_may_be(tmp_path, head, row, message):
    assert message in catch_line(
        read_trace_table, write(tmp_path / "t.csv", f"time_s,{head}", [f"1,{row}"])
    )


@mark.parametrize(("lat_deg", "lon_deg"), [(52.5, 13.4), (40.7, -74.0), (51.5, -0.1)])
def test_web_mercator_as_metres_is_doubtful_until_it_is_named(tmp_path, lat_deg, lon_deg):
    x_m = 6_378_137 * np.radians(lon_deg)
    y_m = 6_378_137 * np.arctanh(np.sin(np.radians(lat_deg)))
    rows = [f"{T0 + k},{x_m + 10 * k},{y_m}" for k in range(20)]
    path = write(tmp_path / "t.csv", "time_s,x_m,y_m", rows)
    (doubt,) = collect_doubts(path)
    assert "x and y are far from 0, 0: metres of Web Mercator (EPSG:3857) are too long" in doubt
    assert collect_doubts(path, crs="local") == collect_doubts(path, crs="EPSG:3857") == []
    right_m = 190 * np.cos(np.radians(lat_deg))
    assert np.ptp(read_trace(path, crs="EPSG:3857").position_m[:, 0]) == approx(right_m, rel=0.005)


PARTS = {
    "tz": ("time_s,lat,lon,tz", "2024-02-28 22:0{}:00,48.1,11.5,+09:00"),
    "UTC offset": ("time_s,lat,lon,UTC offset", "2024-02-28T22:0{}:00,48.1,11.5,-5"),
    "am/pm": ("time_s,am/pm,lat,lon", "2024-02-28 02:0{}:00,PM,48.1,11.5"),
    "lat_min": ("time_s,lat,lat_min,lon,lon_min", "170915760{},48,6.1,11,30.2"),
    "lon_sign": ("time_s,lat_sign,lat,lon_sign,lon", "170915760{},-,48.1,-,11.5"),
    "date": ("date,time_s,lat,lon", "2024-02-28,4320{},48.1,11.5"),
    "GPS week": ("GPS week,time_s,lat,lon", "2303,46080{},48.1,11.5"),
}


@mark.parametrize("part", PARTS)
def test_parts_of_times_and_places_that_are_not_read_are_doubtful(tmp_path, part):
    head, row = PARTS[part]
    path = write(tmp_path / "t.csv", head, [row.format(k) for k in range(9)])
    (doubt,) = collect_doubts(path, timezone="Europe/Berlin")
    assert doubt.startswith("columns not read that belong to places or times: ")
    assert part in doubt


@mark.parametrize(
    ("head", "row"),
    [
        (
            "time_s,timezone,lat,lon",
            "2024-02-28 22:0{}:00,Europe/Berlin,48.1,11.5",
        ),  # the one that is named
        ("time_s,tz,offset,lat,lon", "2024-02-28T22:0{}:00Z,+01:00,3,48.1,11.5"),
        ("time_s,date,time,tz,lat,lon", "170915760{},2024-02-28,22:00,UTC,48.1,11.5"),
        (
            "time_s,lat,lon,lat_accuracy,longest,latency_ms,weekday",
            "170915760{},48.1,11.5,3,4,5,Wed",
        ),
        ("time_s,lat,lon,heading,weather,slope", "170915760{},48.1,11.5,S,E,N"),
    ],
)
def test_columns_that_repeat_what_is_read_are_not_doubtful(tmp_path, head, row):
    path = write(tmp_path / "t.csv", head, [row.format(k) for k in range(9)])
    assert collect_doubts(path, timezone="Europe/Berlin") == []
    assert (
        read_trace_table(path, timezone="Europe/Berlin").fixes.place.tolist() == [[48.1, 11.5]] * 9
    )


@mark.parametrize("place", ["0.9165,0.2337", "-0.41,2.64", "0,0"])
def test_radians_and_places_without_a_fix_are_doubtful(tmp_path, place):
    (doubt,) = collect_doubts(
        write(tmp_path / "t.csv", "time_s,lat,lon", [f"{T0 + k},{place}" for k in range(9)])
    )
    assert doubt.startswith("all rows are near latitude 0, longitude 0, at sea, as radians are")


GPX = (
    '<gpx><trk><trkseg><trkpt lat="47" '
    'lon="8"><time>2024-03-04T08:00:0{}Z</time></trkpt></trkseg></trk></gpx>'
)


def test_a_folder_says_which_files_are_of_other_formats(tmp_path):
    inside = tmp_path / "export" / "activities"
    inside.mkdir(parents=True)
    other_names = [
        "activities.csv",
        *(f"activities/{k}.pwx.gz" for k in range(6)),
        "activities/9.tcx",
        "Records.json",
    ]
    for name in other_names:
        (tmp_path / "export" / name).write_text("x")
    (inside / ".hidden.kml").write_text("x")
    message = catch_line(read_trace_table, tmp_path / "export")
    assert "but with 6 .gz files, 1 ." in message
    assert all(f"1 {end} file" in message for end in (".csv", ".tcx", ".json"))
    for k in range(3):
        (inside / f"{k}.gpx").write_text(GPX.format(k))
    note = lines(read_trace_table(tmp_path / "export").notices)[0]
    assert note.startswith("files of other formats in the folder are not read: 6 .gz files, 1 ")
    assert ".kml" not in note
    assert "note files of other formats" in " ".join(inspect_trace(tmp_path / "export").split())
    for name in other_names:
        (tmp_path / "export" / name).unlink()
    assert "other formats" not in inspect_trace(tmp_path / "export")


def test_folders_that_are_no_traces_are_not_walked_through(tmp_path, monkeypatch):
    visited = []
    monkeypatch.setattr(Path, "rglob", lambda *_: iter(visited.append(1) or []))
    for root in ("/", "//", "/.", "/tmp/.."):
        assert "is the root of the file system" in catch_line(read_trace_table, root)
    assert read_file_version("/") == (0, 0)
    monkeypatch.undo()
    monkeypatch.setattr(netsim.safe, "_MOST_NAMES", 20)
    for k in range(21):
        (tmp_path / f"{k}.gpx").write_text(GPX.format(k % 10))
    message = catch_line(read_trace_table, tmp_path)
    assert message == (
        f"{tmp_path}: is the root of the file system, or has more than 20 files and folders; "
        "give the folder of the traces alone"
    )
    (tmp_path / "0.gpx").unlink()
    assert len(list_files_below(tmp_path)) == 20
    assert len(read_trace_table(tmp_path)) == 20


def test_what_no_format_reads_is_not_read_for_its_digest(tmp_path, monkeypatch):
    (tmp_path / "a.gpx").write_text(GPX.format(1))
    base = {
        "title": "t",
        "seed": 1,
        "world": {"tick_s": 10, "ues": {"mobility": {"kind": "replay", "trace": str(tmp_path)}}},
    }
    base["world"] |= {
        "city": {"kind": "open-field"},
        "radio": {"path_loss": {"kind": "log-distance"}},
    }
    study = Study.model_validate(base)
    before = digest_inputs(study)
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(10**12)
    assert digest_inputs(study) == before != {str(tmp_path): ""}
    (tmp_path / "b.gpx").write_text(GPX.format(2))
    assert digest_inputs(study) != before


def test_the_box_without_the_rows_at_zero_holds_all_others(tmp_path):
    places = ["48.10004,11.50004", "48.29996,11.79996", "48.2,11.6"]
    rows = [f"{T0 + 600 * k},{place}" for k, place in enumerate([*places, "0,0"])]
    path = write(tmp_path / "t.csv", "time_s,lat,lon", rows)
    box = next(
        doubt for doubt in doubts_in(read_trace(path).notices) if "as receivers write" in doubt
    )
    corners = [float(corner) for corner in box.partition("--area-deg ")[2].split()[0].split(",")]
    assert_allclose(corners, [48.0999, 11.4999, 48.3001, 11.8001], atol=1e-9)
    kept = read_trace(path, area_deg=tuple(corners))
    assert kept.counts["rows_used"] == 3
    assert kept.counts["outside_area"] == 1
