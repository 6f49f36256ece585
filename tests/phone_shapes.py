"""Logs of phones and watches in every shape that is read, of a track of (time, lat, lon)."""

import re
import struct
from datetime import UTC, datetime, timedelta, timezone
from string import Template

import numpy as np

T0 = 1_772_406_000  # 2026-03-01T23:00:00Z
SIDES = {"east": (52.51, 13.39), "south": (-33.8688, 151.2093), "west": (-16.5, -179.999)}
# a name, what begins the file, what it holds of one row or of three, and what ends it
_SHAPES = """
google-timeline/Records
{"locations":[{"timestamp":"2026-03-01T23:00:00.000Z"},
{"latitudeE7":$wrapped_lat0,"longitudeE7":$wrapped_lon0,"timestamp":"$utc0","accuracy":9}
]}
google-timeline/old
{"locations":[
{"latitudeE7":$e7_lat2,"longitudeE7":$e7_lon2,"timestampMs":"${t2}000"},{"latitudeE7":$e7_lat1,"longitudeE7":$e7_lon1,"timestampMs":"${t1}000"},{"latitudeE7":$e7_lat0,"longitudeE7":$e7_lon0,"timestampMs":"${t0}000"}
]}
google-timeline/Timeline
{"semanticSegments":[
{"startTime":"$local0","timelinePath":[{"point":"$lat0°, $lon0°","time":"$local0"},{"point":"$lat1°, $lon1°","time":"$local1"},{"point":"$lat2°, $lon2°","time":"$local2"}]}
,{"visit":{"topCandidate":{"semanticType":"UNKNOWN","placeLocation":{"latLng":"1°, 2°"}}}},{"timelineMemory":{}}],"rawSignals":[{"position":{"LatLng":"1°, 2°","timestamp":"2026-03-01T23:00:00.000Z"}},{"wifiScan":{}}],"userLocationProfile":{"frequentPlaces":[{"label":"HOME","placeLocation":"52.5000001°, 13.4°"},{"placeLocation":"1°, 2°"}]}}
google-timeline/iphone
[{"startTime":"2026-03-02T00:00:00.000+01:00","visit":{"topCandidate":{"semanticType":"Inferred Work","placeLocation":"geo:-52.4,13.25"}}},
{"startTime":"$local0","timelinePath":[{"point":"geo:$lat0,$lon0","durationMinutesOffsetFromStartTime":"0"},{"point":"geo:$lat1,$lon1","durationMinutesOffsetFromStartTime":"15"},{"point":"geo:$lat2,$lon2","durationMinutesOffsetFromStartTime":"30"}]}
]
google-timeline/month
{"timelineObjects":[
{"placeVisit":{"location":{"latitudeE7":$e7_lat0,"longitudeE7":$e7_lon0,"semanticType":"TYPE_HOME"},"duration":{"startTimestamp":"$utc0","endTimestamp":"$utc1"}}},{"activitySegment":{"simplifiedRawPath":{"points":[{"latE7":$e7_lat2,"lngE7":$e7_lon2,"timestamp":"$utc2"}]}}}
]}
owntracks/rec

$utc0\t*    \t{"_type":"location","tid":"al","lat":$lat0,"lon":$lon0,"tst":$t0}
2026-03-01T23:00:00.000Z\tlwt\t{"_type":"lwt","tst":1772406000}
owntracks/json
{"count":40,"data":[
{"_type":"location","topic":"owntracks/al/phone","lat":$lat0,"lon":$lon0,"tst":$t0}
]}
geojson/points
{"type":"FeatureCollection","name":"a [b]","features":[
{"type":"Feature","geometry":{"type":"Point","coordinates":[$lon0,$lat0,30]},"properties":{"time":"$utc0","user":"al"}}
,{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]},"properties":{}}]}
geojson/line
{"type":"FeatureCollection","features":[
{"type":"Feature","geometry":{"type":"LineString","coordinates":[[$lon0,$lat0],[$lon1,$lat1],[$lon2,$lat2]]},"properties":{"coordTimes":["$utc0","$utc1","$utc2"]}}
]}
geojson/lines
{"type":"FeatureCollection","features":[
{"type":"Feature","geometry":{"type":"MultiLineString","coordinates":[[[$lon0,$lat0],[$lon1,$lat1]],[[$lon2,$lat2]]]},"properties":{"coordinateProperties":{"times":[["$utc0","$utc1"],["$utc2"]]}}}
]}
kml/track
<kml xmlns:gx='g'><Document><TimeSpan><begin>2026-03-01T23:00:00.000Z</begin></TimeSpan><Placemark><LineString><coordinates>1,2 3,4</coordinates></LineString></Placemark>
<Placemark><gx:Track><when>$utc0</when><when>$utc1</when><gx:coord>$lon0 $lat0 3</gx:coord><gx:coord>$lon1 $lat1 3</gx:coord></gx:Track></Placemark><Placemark><name>Point $t2</name><TimeStamp><when>$utc2</when></TimeStamp><Point><coordinates> $lon2,$lat2,0&#10;</coordinates></Point></Placemark>
</Document></kml>
tcx/run
<TrainingCenterDatabase><Activity><Id>x</Id><Lap><Track>
<Trackpoint><Time>$utc0</Time><Position><LatitudeDegrees>$lat0</LatitudeDegrees><LongitudeDegrees>$lon0</LongitudeDegrees></Position></Trackpoint>
<Trackpoint><Time>2026-03-01T23:00:00.000Z</Time></Trackpoint></Track></Lap></Activity></TrainingCenterDatabase>
"""
SHAPES = {name: parts for name, *parts in re.findall("(.+/.+)\n(.*)\n(.+)\n(.+)\n", _SHAPES)}


def build_track(lat, lon, n=39):
    """Rows a quarter of an hour apart; n : a multiple of three."""
    draw = np.random.default_rng(3)
    places = np.round(draw.normal((lat, lon), 1e-4, (n, 2)), 7).tolist()
    return [(T0 + 900 * k, *place) for k, place in enumerate(places)]


def to_text(shape, track):
    begin, row, end = SHAPES[shape]
    step = 3 if "lat2" in row else 1
    rows = [fill(row, track[k : k + step]) for k in range(0, len(track), step)]
    comma = "," * begin.startswith(("[", "{"))
    return "\n".join([begin, f"{comma}\n".join(rows), f"{end}\n"]).lstrip()


def fill(text, rows):
    names = {}
    for k, (t, lat, lon) in enumerate(rows):
        names |= {f"t{k}": t, f"lat{k}": lat, f"lon{k}": lon}
        for zone, hours in (("utc", 0), ("local", 1)):
            moment = datetime.fromtimestamp(t, timezone(timedelta(hours=hours)))
            names[f"{zone}{k}"] = moment.isoformat("T", "milliseconds").replace("+00:00", "Z")
        for name, degrees in (("lat", lat), ("lon", lon)):
            names[f"e7_{name}{k}"] = round(degrees * 1e7)
            names[f"wrapped_{name}{k}"] = round(degrees * 1e7) % 2**32
    return Template(text).substitute(names)


# of the FIT SDK, for four bits each
_CRCS = struct.unpack(
    ">16H",
    bytes.fromhex("0000CC01D8011400F0013C002800E401A0016C007800B40150009C0188014400"),
)


def add_crc(data):
    crc = 0
    for byte in data:
        for bits in (byte & 15, byte >> 4):
            crc = (crc >> 4) ^ _CRCS[crc & 15] ^ _CRCS[bits]
    return data + crc.to_bytes(2, "little")


def build_fit(track, *raw, profile=2132):
    """A FIT file of messages `record`; raw : further ones, of seconds and semicircles."""
    epoch = int(datetime(1989, 12, 31, tzinfo=UTC).timestamp())
    rows = [(t - epoch, *(round(x / 180 * 2**31) for x in place)) for t, *place in track]
    # message 20 has timestamp (253, uint32), position_lat (0, sint32) and position_long (1)
    body = bytes.fromhex("40 00 00 1400 03 fd0486 000485 010485")
    body += b"".join(struct.pack("<BIii", 0, *row) for row in (*rows, *raw))
    return add_crc(add_crc(struct.pack("<BBHI4s", 14, 0x20, profile, len(body), b".FIT")) + body)
