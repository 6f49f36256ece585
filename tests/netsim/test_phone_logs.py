"""Logs of phones and watches: what each shape holds is read, whatever is wrong with one is refused,
and pieces of a file make the whole."""

import gzip
import json

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from phone_shapes import SHAPES, SIDES, T0, build_fit, build_track, fill, to_text
from pytest import fixture, mark, skip
from refused import catch_line
from tabled import cases

from netsim.trace_files.formats import logs
from netsim.trace_files.inspect import inspect_trace
from netsim.trace_files.read import read_labels, read_trace, read_trace_table
from netsim.traces import source

LEFT_OUT = {"Records": "position_missing 1", "Timeline": "no_fix 4"}
LEFT_OUT |= dict.fromkeys(("rec", "points", "track", "run"), "no_fix 1")
USERS = {"rec": "al", "json": "al/phone", "points": "al"}
SAMPLES = (
    "Records.json",
    "Timeline.json",
    "location-history.json",
    "2026-03.rec",
    "track.kml",
    "points.geojson",
)
TRACK = build_track(52.5, 13.4)


def write(folder, shape, track=TRACK):
    path = folder / shape.partition("/")[2]
    path.write_text(to_text(shape, track), encoding="utf-8")
    return path


@mark.parametrize("side", SIDES)
@mark.parametrize("shape", SHAPES)
def test_each_shape_comes_back(tmp_path, shape, side):
    """The date line and the south, where Google's E7 once overflowed."""
    track = build_track(*SIDES[side])
    format, _, name = shape.partition("/")
    if name == "month":  # a visit ends where it begins
        for k in range(0, len(track), 3):
            track[k + 1] = (track[k + 1][0], *track[k][1:])
    table = read_trace_table(path := write(tmp_path, shape, track))
    assert table.format == format
    assert table.users == (USERS.get(name, name),)
    assert_array_equal(table.fixes.time_s, [t for t, _, _ in track])
    assert_allclose(table.fixes.place, [place for _, *place in track], rtol=0, atol=1e-9)
    assert table.format_reasons() == LEFT_OUT.get(name, "")
    hours = 1 if name in ("Timeline", "iphone") else round(table.fixes.place[0, 1] / 15)
    local = f"UTC{hours:+03d}:00"
    assert read_trace(path, users="id").local.name == local
    shown = inspect_trace(path)
    assert f"format           {format}: " in shown
    assert f"time {local} " in shown


def test_places_that_a_phone_names_are_labels(tmp_path):
    found = {shape: read_labels(write(tmp_path, shape)) for shape in SHAPES}
    labels = [tuple(vars(label).values()) for shape in SHAPES for label in found[shape]]
    assert labels == [
        ("Timeline", "home", 52.5000001, 13.4),
        ("iphone", "work", -52.4, 13.25),
        ("month", "home", *TRACK[36][1:]),
    ]


def test_the_samples_hold_what_is_said_of_them(phones):
    """384 rows each, the first of which is the same."""
    for name in SAMPLES:
        fixes = read_trace_table(phones / name).fixes
        assert len(fixes.time_s) == 384
        assert fixes.time_s[0] == T0
        assert_allclose(fixes.place[0], (52.51005, 13.39009), atol=1e-5)
        assert_allclose(np.median(fixes.place[:20], axis=0), (52.51, 13.39), atol=2e-5)
    homes = [(label.lat, label.lon) for label in read_labels(phones / "Timeline.json")]
    assert homes == [(52.51, 13.39), (52.5235, 13.415)]


@fixture
def phones(data_folder):
    folder = data_folder.parent / "field" / "phones"
    if not folder.is_dir():
        skip("no samples of phones here")
    return folder


def test_months_of_a_folder_are_one_user_and_devices_of_a_file_several(tmp_path):
    for year, rows in (("2021", TRACK[:18]), ("2022", TRACK[18:])):
        folder = tmp_path / "Semantic" / year
        folder.mkdir(parents=True)
        write(folder, "google-timeline/month", rows).rename(folder / f"{year}_MARCH.json")
    (tmp_path / "Semantic" / "Settings.json").write_text("{}")
    table = read_trace_table(tmp_path / "Semantic")
    assert table.users == ("Semantic",)
    assert len(table) == len(TRACK)
    phone = write(tmp_path, "owntracks/json")
    (message, *_) = json.loads(phone.read_text())["data"]
    phone.write_text(json.dumps([message, message | {"topic": "owntracks/al/watch"}]))
    assert read_trace_table(phone).users == ("al/phone", "al/watch")


@mark.parametrize("shape", [shape for shape in SHAPES if not shape.startswith(("kml", "tcx"))])
def test_pieces_make_the_whole_and_what_is_cut_short_is_refused(tmp_path, monkeypatch, shape):
    format = shape.partition("/")[0]
    path = write(tmp_path, shape, TRACK[:12])
    if not shape.endswith("rec"):
        path.write_text(json.dumps(json.loads(path.read_text()), indent=2, ensure_ascii=False))
    whole = read_trace_table(path).fixes
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for chunk in (1, 50, 333):
        monkeypatch.setattr(source, "CHUNK_BYTES", chunk)
        pieces = read_trace_table(packed, format=format).fixes
        assert_array_equal(pieces.place, whole.place)
        assert_array_equal(pieces.line, whole.line)
    monkeypatch.undo()
    text = path.read_text()
    for end in np.random.default_rng(1).integers(200, len(text) * 2 // 3, 12):
        if text[:end][-1] not in "}\n":
            path.write_text(text[:end])
            message = catch_line(read_trace_table, path, format=format)
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
@mark.parametrize("shape", [shape for shape in SHAPES if SHAPES[shape][0][:1] in ("[", "{")])
def test_values_of_other_kinds_are_left_out_and_counted(tmp_path, shape, value):
    """In each place where a shape has something else."""
    whole = read_trace_table(path := write(tmp_path, shape, TRACK[:3]))
    content = json.loads(path.read_text())
    for items in content.values() if isinstance(content, dict) else [content]:
        if isinstance(items, list):
            items.append(json.loads(value))
    path.write_text(json.dumps(content))
    table = read_trace_table(path)
    assert len(table) == len(whole)
    assert table.left_out["no_fix"] >= whole.left_out["no_fix"] + (value != "[]")


def test_features_alone_and_one_a_line_are_read(tmp_path):
    path = tmp_path / "walk.geojson"
    feature = json.loads(fill(SHAPES["geojson/line"][1], TRACK[:3]))
    turned = {key: feature[key] for key in sorted(feature)}
    more = json.loads(fill(SHAPES["geojson/line"][1], TRACK[3:6]))
    lines = f"{json.dumps(turned)}\n{json.dumps(more)}"
    for text, n in ((json.dumps(feature, indent=1), 3), (json.dumps(turned), 3), (lines, 6)):
        path.write_text(text)
        assert len(read_trace_table(path)) == n


@mark.parametrize(("profile", "pack"), [(2132, bytes), (0xA9C3, gzip.compress)])
def test_fit_has_the_places_and_times_that_were_written(tmp_path, profile, pack):
    """Without a position, and with a time since the device was switched on, a row is no fix; bytes
    of a header may make a letter.
    """
    track = [*build_track(*SIDES["west"]), (T0 + 86_400, 45.0, -90.0)]
    nowhere = (1_141_340_400, 2**31 - 1, 2**31 - 1)
    data = build_fit(track, nowhere, (5, 2**29, 2**29), profile=profile)
    (tmp_path / "walk.fit").write_bytes(pack(data))
    table = read_trace_table(tmp_path / "walk.fit")
    assert (table.format, table.users) == ("fit", ("walk",))
    assert table.format_reasons() == "no_fix 2"
    assert_array_equal(table.fixes.time_s, [t for t, _, _ in track])
    assert_allclose(table.fixes.place, [place for _, *place in track], rtol=0, atol=90 / 2**31)
    assert table.fixes.place[-1].tolist() == [45.0, -90.0]
    (tmp_path / "more.fit").write_bytes(FIT)
    assert read_trace_table(tmp_path).users == (tmp_path.name,)


FIT = build_fit(TRACK)


@mark.parametrize(
    ("data", "problem"),
    [
        (FIT[:-9], "FitEOFError: expected "),
        (FIT[:-2], "FitEOFError: expected 2 bytes, got 0"),
        (FIT[:60] + b"x" + FIT[61:], "FitCRCError: mismatching CRC in FIT footer"),
        (FIT[:3] + b"x" + FIT[4:], "FitCRCError: mismatching CRC in FIT header"),
        (b"\x10" + FIT[1:], "error: unpack requires a buffer of 2 bytes"),
        *((FIT[:14] + draw.bytes(300), "") for draw in map(np.random.default_rng, range(50))),
        (FIT + b"PK", "FitHeaderError: file truncated? expected 12 bytes, got 2"),
    ],
)
def test_damaged_fit_is_refused_in_a_line(tmp_path, data, problem):
    (path := tmp_path / "x.fit").write_bytes(data)
    message = catch_line(read_trace_table, path, format="fit")
    assert message.startswith(f"{path}: is no fit file ({problem}")


def test_what_has_to_be_installed_or_unpacked_first_is_said(tmp_path, monkeypatch):
    (path := tmp_path / "x").write_bytes(FIT)
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    line = "fitdecode is not installed; pip install 'netsim-fl[fit]'"
    assert catch_line(read_trace_table, path) == f"{path}: {line}"
    path.write_bytes(b"PK\3\4")
    for format in ("auto", "kml"):
        assert "a zip archive, as a KMZ is; unpack it" in catch_line(
            read_trace_table, path, format=format
        )
