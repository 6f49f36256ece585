"""Logs of phones and watches: what each shape holds is read, whatever is wrong with one is refused,
and pieces of a file make the whole."""

import gzip
import json

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from phone_shapes import SHAPES, SIDES, T0, build_locations, build_month, build_track, to_text
from pytest import fixture, mark, skip
from refused import catch_line
from tabled import cases

from netsim.trace_files.inspect import inspect_trace
from netsim.trace_files.read import read_labels, read_trace, read_trace_table
from netsim.traces import source

LEFT_OUT = {
    "Records": {"position_missing": 1},
    "Timeline": {"no_fix": 4},
    "rec": {"no_fix": 1},
    "points": {"no_fix": 1},
    "track": {"no_fix": 1},
    "run": {"no_fix": 1},
}


def write(folder, shape, track, indent=None):
    path = folder / shape.partition("/")[2]
    path.write_text(to_text(shape, track, indent), encoding="utf-8")
    return path


@mark.parametrize("side", SIDES)
@mark.parametrize("shape", SHAPES)
def test_each_shape_comes_back(tmp_path, shape, side):
    """The date line and the south, where Google's E7 once overflowed."""
    track = build_track(*SIDES[side])
    if shape.endswith("month"):
        track = track[:39]
        track = [row if k % 3 != 1 else (row[0], *track[k - 1][1:]) for k, row in enumerate(track)]
    table = read_trace_table(path := write(tmp_path, shape, track))
    assert table.format == shape.partition("/")[0]
    assert table.users == (
        {"rec": "al", "json": "al/phone", "points": "al"}.get(path.name, path.name),
    )
    assert_array_equal(table.fixes.time_s, [t for t, _, _ in track])
    assert_allclose(table.fixes.place, [place for _, *place in track], rtol=0, atol=1e-9)
    assert {k: n for k, n in table.left_out.items() if n} == LEFT_OUT.get(path.name, {})
    shown = inspect_trace(path)
    assert f"format           {table.format}: " in shown
    local = (
        "UTC+01:00"
        if path.name in ("Timeline", "iphone")
        else f"UTC{round(table.fixes.place[0, 1] / 15):+03d}:00"
    )
    assert read_trace(path, users="id").local.name == local
    assert f"time {local} " in shown


def test_places_that_a_phone_names_are_labels(tmp_path):
    track = build_track(52.5, 13.4, 39)
    labels = {}
    for shape in SHAPES:
        for label in read_labels(path := write(tmp_path, shape, track)):
            assert label.user == path.name
            labels[path.name, label.what] = label.lat, label.lon
    assert labels == {
        ("Timeline", "home"): (52.5000001, 13.4),
        ("iphone", "work"): (-52.4, 13.25),
        ("month", "home"): track[36][1:],
    }


def test_the_samples_hold_what_is_said_of_them(phones):
    """384 rows each, the first of which is the same."""
    names = (
        "Records.json",
        "Timeline.json",
        "location-history.json",
        "2026-03.rec",
        "track.kml",
        "points.geojson",
    )
    for name in names:
        table = read_trace_table(phones / name)
        assert len(table) == 384
        assert table.fixes.time_s[0] == T0
        assert_allclose(table.fixes.place[0], (52.51005, 13.39009), atol=1e-5)
        assert_allclose(np.median(table.fixes.place[:20], axis=0), (52.51, 13.39), atol=2e-5)
    homes = [(label.lat, label.lon) for label in read_labels(phones / "Timeline.json")]
    assert homes == [(52.51, 13.39), (52.5235, 13.415)]


@fixture
def phones(data_folder):
    folder = data_folder.parent / "field" / "phones"
    if not folder.is_dir():
        skip("no samples of phones here")
    return folder


def test_months_of_a_folder_are_one_user_and_devices_of_a_file_several(tmp_path):
    folder = tmp_path / "Semantic"
    track = build_track(52.5, 13.4, 36)
    for year, rows in (("2021", track[:18]), ("2022", track[18:])):
        (folder / year).mkdir(parents=True)
        (folder / year / f"{year}_MARCH.json").write_text(json.dumps(build_month(rows)))
    (folder / "Settings.json").write_text("{}")
    table = read_trace_table(folder)
    assert table.users == ("Semantic",)
    assert len(table) == 36
    messages = build_locations(track[:5], topic="owntracks/al/phone")
    messages += build_locations(track[:5], topic="owntracks/al/watch")
    (tmp_path / "all.json").write_text(json.dumps(messages))
    assert read_trace_table(tmp_path / "all.json").users == ("al/phone", "al/watch")


@mark.parametrize("shape", [shape for shape in SHAPES if not shape.startswith(("kml", "tcx"))])
def test_pieces_make_the_whole_and_what_is_cut_short_is_refused(tmp_path, monkeypatch, shape):
    track = build_track(52.5, 13.4, 12)
    whole = read_trace_table(path := write(tmp_path, shape, track, indent=2)).fixes
    packed = path.with_name("packed.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for chunk in (1, 50, 333):
        monkeypatch.setattr(source, "CHUNK_BYTES", chunk)
        pieces = read_trace_table(packed, format=shape.partition("/")[0]).fixes
        assert_array_equal(pieces.place, whole.place)
        assert_array_equal(pieces.line, whole.line)
    monkeypatch.undo()
    text = path.read_text()
    for end in np.random.default_rng(1).integers(200, len(text) * 2 // 3, 12):
        if text[:end][-1] not in "}\n":
            path.write_text(text[:end])
            message = catch_line(read_trace_table, path, format=shape.partition("/")[0])
            assert message.startswith(f"{path}: ")


def records(item):
    return f'{{"locations":[{{"latitudeE7":1,"longitudeE7":1,"timestamp":"2026-03-01T23:00:00Z"}},{item}]}}'


@mark.parametrize(
    ("name", "text", "problem"),
    cases(
        r"""
        "far", '{"latitudeE7":910000000,"longitudeE7":1,"timestamp":"2026-03-01T23:00:00Z"}',
            "line 1, column lat: '91.0' is not a number in [-90, 90]; "
        "huge", '{"latitudeE7":1e300,"longitudeE7":1,"timestamp":"2026-03-01T23:00:00Z"}', "line 1, column lat: "
        "late", '{"latitudeE7":1,"longitudeE7":1,"timestamp":"2226-03-01T23:00:00Z"}',
            "line 1, column time_s: '2226-03-01T23:00:00Z' is not between 1970 and 2100; "
        "clock", '{"latitudeE7":1,"longitudeE7":1,"timestamp":"2026-03-01T23:00:00"}',
            "line 1, column time_s: '2026-03-01T23:00:00' has no time zone; "
        "digits", '{"latitudeE7":$DIGITS}', "is no google-timeline file (ValueError: Exceeds the limit"
        "deep", "$DEEP", "is no google-timeline file (RecursionError: maximum recursion depth"
        "long", '{"a": "$LONG"}', "is no google-timeline file (ValueError: line 1: no JSON, cut short, or an item of"
        "bare", "{latitude: 1}", "is no google-timeline file (ValueError: line 1: no JSON, cut short"
        """,
        DIGITS="9" * 5000,
        DEEP="[" * 100_000,
        LONG="x" * (2**24 + 2**21),
    ),
)
def test_hostile_items_are_refused_in_a_line(tmp_path, name, text, problem):
    path = tmp_path / name
    path.write_text(records(text))
    assert catch_line(read_trace_table, path).startswith(f"{path}: {problem}")


@mark.parametrize("value", ["null", "[]", "{}", '"x"', "true", "NaN", "[[]]", "3", '[{"a": [1]}]'])
def test_values_of_other_kinds_are_left_out_and_counted(tmp_path, value):
    """In each place where a shape has something else."""
    track = build_track(52.5, 13.4, 3)
    for shape in SHAPES:
        content = SHAPES[shape](track)
        if isinstance(content, str):
            continue
        lists = (
            [content]
            if isinstance(content, list)
            else [v for v in content.values() if isinstance(v, list)]
        )
        for items in lists:
            items.append(json.loads(value))
        path = tmp_path / shape.partition("/")[2]
        path.write_text(json.dumps(content))
        whole = read_trace_table(write(tmp_path, shape, track))
        path.write_text(json.dumps(content))
        table = read_trace_table(path)
        assert len(table) == len(whole)
        assert table.left_out["no_fix"] >= whole.left_out["no_fix"] + (value not in ("[]",))
