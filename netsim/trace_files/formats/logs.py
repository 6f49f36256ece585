"""Logs that people hold of themselves: Google's Timeline, OwnTracks, GeoJSON, KML, TCX and FIT.

A file is read item by item, so that gigabytes of JSON never stand in memory, and an item by rules
that say where it has times and places.
"""

import codecs
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.util import find_spec
from itertools import chain, islice, zip_longest
from json import JSONDecodeError, JSONDecoder
from typing import Any, ClassVar

from netsim.errors import BadInput
from netsim.trace_files.formats.base import TraceFormat
from netsim.traces.source import Attributes, Source, XmlFile, find_files, strip_endings
from netsim.traces.table import FixBuilder, Label
from netsim.traces.values import to_number
from netsim.units import Texts

_ROWS = 20_000
_MOST_CHARACTERS = 16_777_216  # of an item
_NEXT = re.compile(r'(?:\s*,|(?:[^\["]++|"(?:[^"\\]++|\\.)*+"|\[\s*\])*+\[)\s*')
_NEXT_LINE = re.compile(r"\s*(?=\{)|\s*[^\t\n]*\t[^\t\n]*\t")
_END = re.compile(r"\s*[,\]]|\s*\n")
_decode = JSONDecoder().raw_decode


class Log(TraceFormat):
    """A log, or a folder of files that belong together, whose fixes stand in any order of time.

    Class attributes
    ----------------
    rules : paths in an item, in parts that end with a semicolon: of its user, who is else called as
    the file or folder that was named; and in each other part of times, or of labels (home, work),
    and of their places, in a text or a list, or of latitude and longitude.
    """

    rules: ClassVar[str]

    def read_items(self, file: str) -> Iterator[Any]:
        """Each item of the outer lists of a JSON file, or what ends its lines, behind two columns
        and tabs or alone, and the line where it ends. Raises ValueError, or `BadInput`.
        """
        source = Source(file, "JSON")
        # a line, or a feature that stands alone
        lines = r'\s*([^\s\[{]|\{(?!(?s:.*)"features"\s*:)(?s:.*)"type"\s*:\s*"Feature")'
        is_json = not re.match(lines, source.read_head())
        text = ""
        line = 1
        for piece in chain(codecs.iterdecode(source.read_chunks(), "utf-8-sig"), "\n"):
            text += piece
            at = 0
            while match := (_NEXT if is_json else _NEXT_LINE).match(text, at):
                try:
                    item, end = _decode(text, match.end())
                except JSONDecodeError:
                    break
                if not _END.match(text, end):  # the next piece may go on with it
                    break
                line += text.count("\n", at, end)
                at = end
                yield line, item
            text = text[at:]
            if len(text) > _MOST_CHARACTERS:
                break
        if text.strip()[:1] != "]" * is_json:
            raise ValueError(f"line {line}: no JSON, cut short, or an item of more than 16 MiB")

    def read(self, fixes: FixBuilder) -> None:
        fixes.is_sorted = False
        for file in find_files(fixes.path, self.folder):
            found = self._find_fixes(file, fixes)
            while piece := list(islice(found, _ROWS)):
                line, user, time, lat, lon = map(list, zip(*piece, strict=True))
                if offset := re.search(r"[+-](?!00:00)\d\d:\d\d$", time[0]):
                    fixes.facts.setdefault("zone", f"UTC{offset[0]}")
                fixes.add_rows(file, line, {"user": user, "time_s": time, "lat": lat, "lon": lon})

    def _find_fixes(self, file: str, fixes: FixBuilder) -> Iterator[Any]:
        """Line, user, time, latitude and longitude of each fix. Counts what is left out; of places
        that are called home or work the last ones count.
        """
        owner = strip_endings(fixes.path)
        users, *rules = map(str.split, self.rules.split(";"))
        for line, item in self.read_items(file):
            keys = item if isinstance(item, dict) else ()
            places = [
                (str(time), *_parse_place(place))
                for rule in rules
                if rule[0].partition(".")[0] in keys
                for time, *place in zip_longest(*(_dig(item, path) for path in rule))
                if None not in (time, place[0])
            ]
            fixes.left_out["no_fix"] += not places
            name = next((name for path in users for name in _dig(item, path) if name), owner)
            # of a topic owntracks/user/device the last two
            user = re.sub(r"^[^/]+/([^/]+/[^/]+).*", r"\1", str(name))
            for time, lat, lon in places:
                label = re.search(r"(?i)^(?:\w+[ _])?(home|work)$|^[a-z]", time)
                if label is None:
                    yield line, user, time, lat, lon
                elif label[1] and lat and abs(float(lat)) <= 90.0:
                    what = label[1].lower()
                    fixes.labels[what] = Label(owner, what, float(lat), float(lon))


def _dig(item: Any, path: str) -> list[Any]:
    """The values below a path, one of each object in lists on the way, None where it has none: E7
    in degrees, minutes from the start of the item as times.
    """
    values = [item]
    for key in path.split("."):
        values = [
            inner.get(key)
            for value in values
            for inner in (value if isinstance(value, list) else [value])
            if isinstance(inner, dict)
        ]
    while values and isinstance(values[0], list) and isinstance((values[0] or [""])[0], list | str):
        values = [*chain.from_iterable(values)]
    if path.endswith("E7"):
        # for years Google added 2^32 to negative ones
        numbers = map(to_number, map(str, values))
        return [(number - 4_294_967_296 * (number > 2_147_483_647)) / 1e7 for number in numbers]
    if path.endswith("OffsetFromStartTime"):
        return [
            datetime.fromisoformat(item["startTime"]) + timedelta(minutes=float(value))
            for value in values
            if value is not None
        ]
    return values


def _parse_place(place: list[Any]) -> Texts:
    """Latitude and longitude of a text, a list with the longitude first, or two numbers; empty
    where there are none.
    """
    pair = re.search(r"(-?[\d.]+(?:e[+-]?\d+)?)[°']*, ?'?(-?[\d.]+(?:e[+-]?\d+)?)", str(place))
    lat_lon = pair.groups() if pair else ("", "")
    return lat_lon[::-1] if isinstance(place[0], list) else lat_lon


class GoogleTimeline(Log, kind="google-timeline"):
    """Google's Timeline.

    Records of Takeout, the export of an Android phone or an iPhone, or a folder of months.
    """

    content = (
        r'\A\s*[\[{](?s:.*?)"(latitudeE7|semanticSegments|timeline\w+|rawSignals|topCandidate)"'
    )
    folder = "20??_*.json*"
    reference = "Google Takeout, Location History"
    rules = """;
    timestamp latitudeE7 longitudeE7;
    timestampMs latitudeE7 longitudeE7;
    timelinePath.time timelinePath.point;
    timelinePath.durationMinutesOffsetFromStartTime timelinePath.point;
    placeVisit.duration.startTimestamp
        placeVisit.location.latitudeE7 placeVisit.location.longitudeE7;
    placeVisit.duration.startTimestampMs
        placeVisit.location.latitudeE7 placeVisit.location.longitudeE7;
    placeVisit.duration.endTimestamp
        placeVisit.location.latitudeE7 placeVisit.location.longitudeE7;
    placeVisit.duration.endTimestampMs
        placeVisit.location.latitudeE7 placeVisit.location.longitudeE7;
    placeVisit.simplifiedRawPath.points.timestamp
        placeVisit.simplifiedRawPath.points.latE7 placeVisit.simplifiedRawPath.points.lngE7;
    placeVisit.simplifiedRawPath.points.timestampMs
        placeVisit.simplifiedRawPath.points.latE7 placeVisit.simplifiedRawPath.points.lngE7;
    activitySegment.simplifiedRawPath.points.timestamp
        activitySegment.simplifiedRawPath.points.latE7
        activitySegment.simplifiedRawPath.points.lngE7;
    activitySegment.simplifiedRawPath.points.timestampMs
        activitySegment.simplifiedRawPath.points.latE7
        activitySegment.simplifiedRawPath.points.lngE7;
    placeVisit.location.semanticType
        placeVisit.location.latitudeE7 placeVisit.location.longitudeE7;
    visit.topCandidate.semanticType visit.topCandidate.placeLocation;
    label placeLocation
    """


class OwnTracks(Log, kind="owntracks"):
    """OwnTracks."""

    content = r'\A(\S+\t|\s*[\[{])(?s:.*?)"_type"\s*:\s*"'
    folder = "*.rec*"
    reference = "owntracks.org, JSON"
    rules = """topic tid;
    tst lat lon
    """


class GeoJson(Log, kind="geojson"):
    """GeoJSON with times."""

    content = r'\A\s*\{(?s:.*?)"type"\s*:\s*"Feature(Collection)?"'
    reference = "RFC 7946"
    rules = """properties.user properties.topic properties.device_id properties.tid;
    properties.time geometry.coordinates;
    properties.timestamp geometry.coordinates;
    properties.tst geometry.coordinates;
    properties.coordTimes geometry.coordinates;
    properties.coordinateProperties.times geometry.coordinates
    """


class XmlLog(Log):
    """XML whose elements hold times and places."""

    def read_items(self, file: str) -> Iterator[Any]:
        xml = XmlFile(file, self.kind.upper())
        items = []
        texts = defaultdict[str, list[str]](list)

        def begin(name: str, _: Attributes) -> None:
            if name in ("Placemark", "Track", "Trackpoint"):
                texts.clear()

        def end(name: str, text: str) -> None:
            if name == "Point":  # and no shape
                texts["coord"] = texts["coordinates"]
            elif name in ("Placemark", "Track", "Trackpoint") and texts:
                items.append((xml.parser.CurrentLineNumber, dict(texts)))
                texts.clear()
            else:
                # of longitude, latitude, height the first two, turned
                place = re.sub(r"([^\s,]+)[\s,]+([^\s,]+)[\s\S]*", r"\2, \1", text.strip())
                texts[name].append(place)

        xml.read(begin, end)
        yield from items


class Kml(XmlLog, kind="kml"):
    """KML with times."""

    content = r"\A\s*(?=<)(?s:.*?)<(\w+:)?kml\b"
    folder = "*.kml*"
    reference = "OGC 12-007r2, KML 2.3"
    rules = """;
    when coord;
    begin coord;
    end coord
    """


class Tcx(XmlLog, kind="tcx"):
    """TCX."""

    content = r"\A\s*(?=<)(?s:.*?)<(\w+:)?TrainingCenterDatabase\b"
    reference = "Garmin, TrainingCenterDatabase v2"
    rules = """;
    Time LatitudeDegrees LongitudeDegrees
    """


class Fit(Log, kind="fit"):
    """FIT.

    Records of watches and bicycle computers.
    """

    content = r"\A[\x0c\x0e](?s:.{2,7})\.FIT"  # bytes that are no UTF-8 may be one character
    folder = "*.fit*"
    reference = "Garmin, FIT Protocol"
    rules = """;
    timestamp position_lat position_long
    """

    def read_items(self, file: str) -> Iterator[Any]:
        """Each message `record`, and its number among all messages. Raises `BadInput`."""
        if find_spec("fitdecode") is None:
            raise BadInput(f"{file}: fitdecode is not installed; pip install 'netsim-fl[fit]'")
        from fitdecode import ErrorHandling, FitReader, StandardUnitsDataProcessor

        for n, message in enumerate(
            FitReader(
                b"".join(islice(Source(file).unpack(), 256)),  # 256 MiB at most
                processor=StandardUnitsDataProcessor(),
                check_crc=True,
                error_handling=ErrorHandling.IGNORE,
            )
        ):
            if hasattr(message, "fields") and message.name == "record":
                # no integers: such times count from when the device was switched on
                yield (
                    n,
                    {
                        field.name: field.value
                        for field in message.fields
                        if isinstance(field.value, float | datetime)
                    },
                )
