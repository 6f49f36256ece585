"""Logs of phones and watches in every shape that is read, of a track of (time, lat, lon)."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np

T0 = 1_772_406_000  # 2026-03-01T23:00:00Z
SIDES = {"east": (52.51, 13.39), "south": (-33.8688, 151.2093), "west": (-16.5, -179.999)}


def build_track(lat, lon, n=40):
    draw = np.random.default_rng(3)
    places = np.round(draw.normal((lat, lon), 1e-4, (n, 2)), 7).tolist()
    return [(T0 + 900 * k, *place) for k, place in enumerate(places)]


def iso(t, hours=0):
    moment = datetime.fromtimestamp(t, UTC) + timedelta(hours=hours)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000{f'{hours:+03d}:00' if hours else 'Z'}"


def e7(lat, lon, keys="latitudeE7 longitudeE7", wrap=0):
    both = zip(keys.split(), (round(lat * 1e7), round(lon * 1e7)), strict=True)
    return {key: value + wrap * 2**32 * (value < 0) for key, value in both}


def paths(track, point):
    for k in range(0, len(track), 8):
        yield {
            "startTime": iso(track[k][0], 1),
            "timelinePath": [point(*p) for p in track[k : k + 8]],
        }


def build_android(track):
    visit = {"topCandidate": {"semanticType": "UNKNOWN", "placeLocation": {"latLng": "1°, 2°"}}}
    label = {"label": "HOME", "placeLocation": "52.5000001°, 13.4°"}
    raw = {"position": {"LatLng": "1°, 2°", "timestamp": iso(T0)}}
    segments = [*paths(track, lambda t, lat, lon: {"point": f"{lat}°, {lon}°", "time": iso(t, 1)})]
    return {
        "semanticSegments": [*segments, {"visit": visit}, {"timelineMemory": {}}],
        "rawSignals": [raw, {"wifiScan": {}}],
        "userLocationProfile": {"frequentPlaces": [label, {"placeLocation": "1°, 2°"}]},
    }


def build_iphone(track):
    def point(t, lat, lon):
        minutes = (t - T0) % 7200 // 60
        return {"point": f"geo:{lat},{lon}", "durationMinutesOffsetFromStartTime": str(minutes)}

    visit = {"topCandidate": {"semanticType": "Inferred Work", "placeLocation": "geo:-52.4,13.25"}}
    return [{"startTime": iso(T0, 1), "visit": visit}, *paths(track, point)]


def build_month(track):
    """Visits from a row to the next, and paths of activities."""
    objects = []
    for (t, lat, lon), (end, _, _), (mid, *way) in zip(
        track[::3], track[1::3], track[2::3], strict=False
    ):
        place = {"location": {**e7(lat, lon), "semanticType": "TYPE_HOME"}}
        place["duration"] = {"startTimestamp": iso(t), "endTimestamp": iso(end)}
        points = [{**e7(*way, "latE7 lngE7"), "timestamp": iso(mid)}]
        objects += [
            {"placeVisit": place},
            {"activitySegment": {"simplifiedRawPath": {"points": points}}},
        ]
    return {"timelineObjects": objects}


def build_feature(place, kind="Point", **properties):
    geometry = {"type": kind, "coordinates": place}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def build_points(track):
    rows = [build_feature([lon, lat, 30], time=iso(t), user="al") for t, lat, lon in track]
    return {
        "type": "FeatureCollection",
        "name": "a [b]",
        "features": [*rows, build_feature([1, 2])],
    }


def build_line(track):
    times = [iso(t) for t, _, _ in track]
    places = [[lon, lat] for _, lat, lon in track]
    line = build_feature(places[:9], "LineString", coordTimes=times[:9])
    lines = build_feature([places[9:20], places[20:]], "MultiLineString")
    lines["properties"]["coordinateProperties"] = {"times": [times[9:20], times[20:]]}
    return {"type": "FeatureCollection", "features": [line, lines]}


def build_locations(track, keys="lat lon tst", **more):
    return [
        {"_type": "location", "lat": lat, "lon": lon, "tst": t, **more} for t, lat, lon in track
    ]


def build_rec(track):
    rows = [f"{iso(m['tst'])}\t*    \t{json.dumps(m)}\n" for m in build_locations(track, tid="al")]
    return "".join([*rows, f'{iso(T0)}\tlwt\t{{"_type": "lwt", "tst": {T0}}}\n'])


def build_kml(track):
    when = "".join(f"<when>{iso(t)}</when>" for t, _, _ in track[:20])
    coord = "".join(f"<gx:coord>{lon} {lat} 3</gx:coord>" for _, lat, lon in track[:20])
    rest = "".join(
        f"<Placemark><name>Point {t}</name><TimeStamp><when>{iso(t)}</when></TimeStamp>"
        f"<Point><coordinates> {lon},{lat},0\n</coordinates></Point></Placemark>"
        for t, lat, lon in track[20:]
    )
    shape = "<Placemark><LineString><coordinates>1,2 3,4</coordinates></LineString></Placemark>"
    return (
        f"<kml xmlns:gx='g'><Document><TimeSpan><begin>{iso(T0)}</begin></TimeSpan>{shape}<Placemark>"
        f"<gx:Track>{when}{coord}</gx:Track></Placemark>{rest}</Document></kml>"
    )


def build_tcx(track):
    points = "".join(
        f"<Trackpoint><Time>{iso(t)}</Time><Position><LatitudeDegrees>{lat}</LatitudeDegrees>"
        f"<LongitudeDegrees>{lon}</LongitudeDegrees></Position></Trackpoint>"
        for t, lat, lon in track
    )
    lap = f"<Lap><Track>{points}<Trackpoint><Time>{iso(T0)}</Time></Trackpoint></Track></Lap>"
    return f"<TrainingCenterDatabase><Activity><Id>x</Id>{lap}</Activity></TrainingCenterDatabase>"


RECORDS = {
    "records": lambda rows: [
        {**e7(*p, wrap=1), "timestamp": iso(t), "accuracy": 9} for t, *p in rows
    ],
    "old": lambda rows: [{**e7(*p), "timestampMs": f"{t}000"} for t, *p in rows],
}
SHAPES = {
    "google-timeline/Records": lambda rows: {
        "locations": [{"timestamp": iso(T0)}, *RECORDS["records"](rows)]
    },
    "google-timeline/old": lambda rows: {"locations": RECORDS["old"](rows[::-1])},
    "google-timeline/Timeline": build_android,
    "google-timeline/iphone": build_iphone,
    "google-timeline/month": build_month,
    "owntracks/rec": build_rec,
    "owntracks/json": lambda rows: {
        "count": 40,
        "data": build_locations(rows, topic="owntracks/al/phone"),
    },
    "geojson/points": build_points,
    "geojson/line": build_line,
    "kml/track": build_kml,
    "tcx/run": build_tcx,
}


def to_text(shape, track, indent=None):
    content = SHAPES[shape](track)
    if isinstance(content, str):
        return content
    return json.dumps(content, indent=indent, ensure_ascii=False)
