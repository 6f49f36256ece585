"""Local time: elapsed seconds, what the wall clock shows, and rounds of whole days when clocks
change."""

import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from noticed import lines
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark, raises
from refused import catch_line
from rows import read_yaml
from tabled import cases

from netsim.clock import DAY_S, Clock
from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.trace_files.read import read_trace
from netsim.traces.home_work import find_user_places
from netsim.traces.trace import build_wall_clock, find_midnight
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.read import Manifest
from scenarios.app.study.describe import build_model
from scenarios.app.study.load import load
from scenarios.app.study.yaml_document import parse_document

BERLIN = ZoneInfo("Europe/Berlin")
HEADER = "time_s,user,lat,lon,rsrp_dbm,cell"


def clock_from(day: date, zone: str, days: int) -> tuple[Clock, float]:
    local = ZoneInfo(zone)
    noon = datetime.combine(day, time(12), local)
    first, midnight_s = find_midnight(noon.timestamp(), local)
    return build_wall_clock(first, midnight_s, local, days * DAY_S), midnight_s


@mark.parametrize(
    ("day", "zone"),
    cases(
        """
        "2026-10-23", "Europe/Berlin"  # back at 03:00
        "2026-03-28", "Europe/Berlin"  # forward at 02:00
        "2018-11-04", "America/Sao_Paulo"  # the first day begins at 01:00
        "2020-10-30", "America/Havana"  # midnight comes twice
        "2011-12-28", "Pacific/Apia"  # a day is left out
        "2026-04-03", "Australia/Lord_Howe"  # by half an hour
        "2026-06-01", "Asia/Tokyo"
        """
    ),
)
def test_the_wall_clock_is_that_of_the_zone_at_every_moment(day, zone):
    clock, midnight_s = clock_from(date.fromisoformat(day), zone, 120)
    for time_s in np.arange(0.0, 100 * DAY_S, 1717.0):
        local = datetime.fromtimestamp(midnight_s + time_s, ZoneInfo(zone))
        assert clock.to_text(time_s) == f"{local:%Y-%m-%d %H:%M}"


@mark.parametrize(
    "zone", ["Europe/Berlin", "America/Sao_Paulo", "America/Havana", "America/Los_Angeles"]
)
def test_rounds_of_a_day_end_at_local_midnight(zone):
    clock, midnight_s = clock_from(date(2018, 1, 5), zone, 400)
    ends_s = clock.compute_round_ends_s(370, DAY_S)
    for k, end_s in enumerate(ends_s, 1):
        day = date(2018, 1, 5) + timedelta(days=k)
        # the standard library's first moment of the day: a skipped midnight is the moment after it
        midnight = datetime.combine(day, time(), ZoneInfo(zone))
        assert midnight_s + end_s == midnight.timestamp()
        assert clock.compute_round_end_s(k, DAY_S) == end_s
        assert clock.count_rounds(end_s, DAY_S) == k
        assert clock.count_rounds(end_s + 1, DAY_S) == k + 1
    assert sorted(set(np.diff(ends_s) / 3600.0)) == [23.0, 24.0, 25.0]
    inside = np.concatenate([ends_s[:-1], ends_s[1:] - 1.0])
    assert_array_equal(clock.find_rounds(inside, DAY_S), np.tile(np.arange(1, 370), 2))


def build_clock_world(mobility, begins="00:00", **changes):
    document = read_yaml(
        "tick_s: 600, city: {kind: grid, width_m: 620, height_m: 520}, "
        "base_stations: [{name: a, position_m: [110, 110]}]"
    )
    ues = {"count": 12, "mobility": {"kind": mobility}}
    if mobility == "resident":
        ues["measurement_period_s"] = 600
    document |= {"duration_s": 3 * DAY_S, "begins": begins, "ues": ues} | changes
    setting = build_model(WorldSetting, parse_document(json.dumps(document), "world"))
    return build_world(setting, Streams(2), DAY_S)


FIELD = read_yaml("city: {kind: open-field, width_m: 900, height_m: 700}")


def sort_observations(world):
    """Observations in order of UE and time."""
    seen = world.drain_observations()
    return seen.select(np.lexsort((seen.time_s, seen.ue)))


@mark.parametrize(("mobility", "changes"), [("resident", {}), ("commuter", FIELD)])
def test_a_world_that_begins_at_eight_is_the_rest_of_one_from_midnight(mobility, changes):
    whole = build_clock_world(mobility, **changes)
    rest = build_clock_world(mobility, "8:00", **changes)
    late_s = 8 * 3600.0
    assert rest.clock.to_text(0.0) == "2026-01-05 08:00"
    assert rest.clock.begins_s == late_s
    assert [rest.clock.find_day(t) for t in (0.0, 15.9 * 3600, 16 * 3600)] == [0, 0, 1]
    moved = 0
    before_m = rest.locate_ues()
    for hour in range(0, 40, 2):
        whole.env.run(until=late_s + 3600.0 * hour + 0.25)
        rest.env.run(until=3600.0 * hour + 0.25)
        assert_allclose(rest.locate_ues(), whole.locate_ues(), atol=1e-6)
        moved += not np.allclose(rest.locate_ues(), before_m)
        before_m = rest.locate_ues()
    assert moved > 4
    seen = sort_observations(rest)
    expected = sort_observations(whole)
    expected = expected.select(expected.time_s >= late_s)
    assert_allclose(seen.time_s, expected.time_s - late_s, atol=1e-6)
    assert_allclose(seen.rsrp_dbm, expected.rsrp_dbm, atol=1e-6)


def test_days_of_a_world_that_begins_at_eight_end_at_midnight(tiny, tmp_path):
    clock = Clock.from_first_day(date(2026, 1, 5), 8 * 3600.0)
    assert clock.compute_round_ends_s(2, DAY_S).tolist() == [16 * 3600.0, 40 * 3600.0]
    assert clock.count_rounds(16 * 3600.0 + 1, DAY_S) == 2
    assert clock.compute_round_ends_s(2, 3600.0).tolist() == [3600.0, 7200.0]
    assert clock.find_first_s(np.array(0.0)) == -8 * 3600.0
    changes = read_yaml(
        "world.begins: '08:00', world.duration_s: 129600.0, world.tick_s: 3600, learning.round_s: "
        "86400.0, world.ues.measurement_period_s: 600, learning.attacks: []"
    )
    assert run(tiny(changes), tmp_path / "r")["rounds.played"] == 2
    time_s = read_record_table(tmp_path / "r", "rounds")["time_s"]
    assert (time_s / 3600).tolist() == [16, 36]
    manifest = Manifest.from_folder(tmp_path / "r")
    assert manifest.clock == clock
    assert manifest.period == "2026-01-05 08:00 to 2026-01-06 20:00"


@mark.parametrize("begins", ["24:00", "08:00:30", "8", "noon", "08:60"])
def test_what_is_no_time_of_day_is_refused(begins):
    assert "is not a time of day like 08:00" in catch_line(build_clock_world, "resident", begins)


def test_a_replay_has_the_clock_of_its_trace():
    replay = {"ues": {"mobility": {"kind": "replay", "trace": "t.csv"}}}
    assert "begins: the clock of a replay is that of its trace" in catch_line(
        build_clock_world, "replay", "08:00", **replay
    )


def test_shorter_rounds_count_elapsed_time_and_days_end_at_local_midnight():
    clock, _ = clock_from(date(2026, 10, 25), "Europe/Berlin", 3)
    assert clock.compute_round_ends_s(3, 3600.0).tolist() == [3600.0, 7200.0, 10800.0]
    assert clock.to_text(3 * 3600.0) == clock.to_text(2 * 3600.0) == "2026-10-25 02:00"
    assert clock.count_rounds(25 * 3600.0, 3600.0) == 25
    clock, _ = clock_from(date(2026, 10, 24), "Europe/Berlin", 4)
    ended = [clock.find_ended_day(t * 3600.0) for t in (0, 24, 24.5, 48.5, 49, 49.5, 73)]
    assert ended == [0] * 2 + [1] * 3 + [2] * 2
    plain = Clock(date(2026, 1, 5))
    assert plain.compute_round_ends_s(2, DAY_S).tolist() == [DAY_S, 2 * DAY_S]
    assert plain.count_rounds(DAY_S + 1, DAY_S) == 2


def test_a_manifest_brings_the_clock_back():
    clock, _ = clock_from(date(2026, 10, 23), "Europe/Berlin", 5)
    assert clock.changes == ((2 * DAY_S + 3 * 3600.0, -3600.0),)
    changes = json.loads(json.dumps(clock.changes))
    manifest = Manifest.model_construct(first_day=date(2026, 10, 23), clock_changes=changes)
    assert manifest.clock == clock


def five_days(path: Path) -> Path:
    """A fix every ten minutes from 23 to 27 October 2026 in Berlin, the last at 23:50; a phone that
    sleeps at home."""
    start_s = datetime(2026, 10, 23, tzinfo=BERLIN).timestamp()
    text = f"{HEADER}\n"
    for k in range((5 * 24 + 1) * 6):
        time_s = start_s + 600 * k
        is_at_work = 10 <= datetime.fromtimestamp(time_s, BERLIN).hour < 16
        lat = 52.5 + 0.01 * is_at_work + 0.00001 * (k % 7)
        lon = 13.4 + 0.00001 * (k % 5)
        text += f"{time_s:.0f},a,{lat:.5f},{lon:.5f},{-90 - k % 9},x\n"
    path.write_text(text)
    return path


def test_five_days_over_a_clock_change_are_five_rounds(tmp_path):
    trace = five_days(tmp_path / "t.csv")
    changes = read_yaml(
        "world.ues.mobility.timezone: Europe/Berlin, learning.learner.hidden: [4], "
        "learning.attacks: []"
    )
    changes["world.ues.mobility.trace"] = str(trace)
    summary = run(load("replay", changes), tmp_path / "r")
    assert summary["rounds.played"] == 5
    ends_s = read_record_table(tmp_path / "r", "rounds")["time_s"]
    assert (ends_s[:4] / 3600).tolist() == [24, 48, 73, 97]
    assert ends_s[4] == 121 * 3600 - 599
    assert Manifest.from_folder(tmp_path / "r").clock.to_text(ends_s[4] - 1) == "2026-10-27 23:50"


def test_days_and_hours_of_people_are_those_of_the_wall_clock(tmp_path):
    path = five_days(tmp_path / "t.csv")
    trace = read_trace(path, users="day", timezone="Europe/Berlin")
    assert trace.users == tuple(f"2026-10-{day}" for day in range(23, 28))
    assert np.bincount(trace.user).tolist() == [144, 144, 150, 144, 144]
    late = read_trace(path, users="id", timezone="Europe/Berlin", since="2026-10-26T10:00:00")
    assert late.time_s[0] == 10 * 3600  # a window's edge without a zone is in the trace's
    whole = read_trace(path, users="id", timezone="Europe/Berlin")
    clock = whole.local.build_clock(whole.time_s[-1])
    # at home at night; on workdays at one place from 09:00 and at another from 10:15, by the wall
    # clock
    days = [(d * DAY_S + 3600.0 * (d > 2)) for d in range(3, 9)]
    rows = [(day + 60.0 * k, 0.0) for day in days for k in range(9)]
    rows += [(day + 9 * 3600 + 60.0 * k, 500.0) for day in days for k in range(59)]
    rows += [(day + 10.25 * 3600 + 60.0 * k, -500.0) for day in days for k in range(9)]
    time_s, y_m = np.array(sorted(rows)).T
    result = find_user_places(np.column_stack([0 * y_m, y_m]), time_s, clock)
    assert result.home_m.tolist() == [0.0, 0.0]
    assert result.work_m.tolist() == [0.0, -500.0]


def write_stamped(path: Path, *times: str) -> Path:
    text = f"{HEADER}\n"
    for k, stamp in enumerate(times):
        user, moment = stamp.split("|")
        text += f"{moment},{user},52.{k:04d},13.4,-90,x\n"
    path.write_text(text)
    return path


def test_times_without_a_zone_are_read_in_the_zone_that_is_named(tmp_path):
    path = write_stamped(
        tmp_path / "t.csv",
        "a|2026-07-01 08:00:00",
        "a|2026-07-01T08:00:01.5",
        "a|2026-07-01T06:00:09Z",
    )
    trace = read_trace(path, timezone="Europe/Berlin", users="id")
    assert trace.local.midnight_s == datetime(2026, 6, 30, 22, tzinfo=UTC).timestamp()
    assert (trace.time_s - 8 * 3600).tolist() == [0.0, 1.5, 9.0]
    with raises(BadInput, match="has no time zone; name the zone in which it was written"):
        read_trace(path)
    with raises(BadInput, match="no IANA time zone"):
        read_trace(path, timezone="Europe/" + "x" * 5000)
    assert main(["inspect", str(path), "--timezone", "Europe/Berlin"]) == 0


def test_an_hour_that_comes_twice_goes_on_where_a_user_goes_on(tmp_path):
    path = write_stamped(
        tmp_path / "t.csv",
        "a|2026-10-25 02:10:00",
        "b|2026-10-25 02:50:00",
        "a|2026-10-25 02:50:00",
        "a|2026-10-25 02:05:00",
        "a|2026-10-25 02:55:00",
        "b|2026-10-25 03:00:00",
        "a|2026-10-25 03:00:00",
    )
    trace = read_trace(path, timezone="Europe/Berlin", users="id")
    assert trace.users == ("a", "b")
    minutes = trace.time_s / 60
    assert minutes[trace.user == 0].tolist() == [130, 170, 185, 235, 240]
    assert minutes[trace.user == 1].tolist() == [170, 240]
    (note,) = [note for note in lines(trace.notices) if "in an hour that came twice" in note]
    assert "5 rows in" in note
    assert "2 taken as" in note


def test_an_hour_that_never_was_is_refused(tmp_path):
    path = write_stamped(tmp_path / "t.csv", "a|2026-03-29 01:59:59", "a|2026-03-29 02:30:00")
    with raises(BadInput, match=r"line 3.*'2026-03-29 02:30:00' never was in Europe/Berlin"):
        read_trace(path, timezone="Europe/Berlin")
