"""CSV or CSV.gz: columns by name or number, and suggestions for missing ones."""

import re
import shlex
from collections.abc import Sequence
from itertools import chain

import numpy as np
from pydantic import Field

from netsim.errors import BadInput, format_count
from netsim.notice import Notices, notice
from netsim.trace_files.formats.base import TraceFormat
from netsim.traces.source import Headers, Sheet, match_columns, read_sheets
from netsim.traces.table import (
    AUTO,
    BOUNDS,
    DEGREES,
    GLOBE,
    METRES,
    FixBuilder,
)
from netsim.traces.trace import find_nearest_zone, find_zone
from netsim.traces.values import (
    join_texts,
    normalise_id,
    quote_text,
    to_number,
)
from netsim.units import TextPair

_PAIRS = (DEGREES, METRES)
_OPTIONAL = ("user", "rsrp_dbm", "cell", "accuracy_m")
_OURS = ("time_s", *DEGREES, *METRES, *_OPTIONAL)
_SYNONYMS = {
    "time_s": (
        "times time timestamp timestamps timems datetime date utc timeutc epoch unixtime ts "
        "gpstime timesteptime timestampms networktime measuredat recordedat localtime systemtime "
        "devicetime logtime"
    ),
    "user": (
        "user userid uid imei imsi msisdn subscriber subscriberid device deviceid phone phoneid "
        "person personid driver"
        " driverid ue ueid node nodeid vehicle vehicleid taxi trackid name id"
    ),
    "lat": "lat latitude latdeg gpslat gpslatitude",
    "lon": "lon lng long longitude londeg gpslon gpslong gpslng gpslongitude",
    "x_m": "xm x east easting utmx vehiclex personx",
    "y_m": "ym y north northing utmy vehicley persony",
    "rsrp_dbm": (
        "rsrpdbm rsrp | ltersrp ltersrpdbm ssrsrp ssrsrpdbm ssbrsrp nrrsrp nrrsrpdbm nrssrsrp "
        "nrssbrsrp | rsrpmeandbm rsrpmean meanrsrp meanrsrpdbm rsrpavg avgrsrp | rsrpmediandbm "
        "rsrpmedian medianrsrp medianrsrpdbm rsrpp50 | .*rsrp.* | signal signaldbm signalstrength "
        "signalstrengthdbm | dbm | level leveldbm signallevel"
    ),
    "accuracy_m": "accuracym accuracy horizontalaccuracy gpsaccuracy haccuracy hacc",
}
"""our name -> headers that mean it, without separators, the best first, in ranks between strokes;
one with a wildcard needs levels as well

Sources: the data set 5Gdataset of UCC (G-NetTrack Pro), docs.cellmapper.net (CellMapper CSV);
others as such apps are known to write them.
"""
_CLOCK = re.compile(r"(?i)\s*\d\d?:\d\d[:.,\d]*\s*([ap]\.?m\.?\s*)?")
_LEVEL = re.compile(r"\s*-(1[0-5]\d|160|[2-9]\d)(?!\d)")
"""from -160 to -20"""
_CELL_WORDS = {
    "global": "ncgi ecgi cgi",
    "mcc": "mcc",
    "mnc": "mnc",
    "long": "cellidentity rawcellid nci eci",
    "node": (
        "sitename siteid site rncid rnc nodeid node gnodebid gnbid gnb enodebid enodeb enbid enb"
    ),
    "area": "tac lac",
    "local": "sector sectorid localcellid lcid",
    "short": "nrcellid ci cid cellid",
    "channel": "dlearfcn earfcndl lteearfcn earfcnlte servingearfcn earfcn",
    "physical": "physcellid ltepci pcilte servingpci pci",
    "other": "psc basestation cellname",
}
"""headers of what a cell is called by, the best last"""
_CELLS = (
    "global",
    "mcc mnc long",
    "long",
    "mcc mnc node short",
    "node short",
    "node local",
    "mcc mnc area short",
    "area short",
    "short",
    "channel physical",
    "other",
    "physical",
)
"""what names a cell together, the best first"""
# identities of 16 bits hold in one area; longer ones have their base station in them
_AREA_IDS = 65_535
_RADIO = re.compile(
    r"(network|radio|access|net)?[ _]?(tech\w*|type|mode)|rat|radio|system|act", re.I
)
_NO_RSRP = re.compile(
    r"(?!.*\b(4g|5g|lte|nr|e-?utra))(.*[\W_])?"
    "(2g|3g|gsm|geran|e?gprs|edge|umts|utra|wcdma|hs[ud]?pa|td.?scdma|cdma|1x|evdo|ehrpd)",
    re.I,
)
_WRONG = {
    "cell": (
        ".*pci( ?[(].*)?|.*phys\\w*|psc|bsic",
        "repeats every few km, so that cells far apart are one",
    ),
    "rsrp_dbm": (
        ".*(rssi|rxlev|rscp|rsrq|sinr|snr|ec.?[in]o).*",
        "is no RSRP, and no map of RSRP can be learnt from it",
    ),
}
"""our name -> pattern of headers that are none, and why"""
_PART = re.compile(
    r".* (lat|lon|lng)\w*[ _]*(min|sec|sign)\w*|\d{1,8}(\.\d*)? (utc|gps)?[ _]*(date|datum|week)"
    r"|.*\d[T ]\d\d:\d\d[\d:.,]* (tz|(time)?[ _]*zone|(utc|gmt|tz|zone|time)?[ "
    r"_]*offset|am.?pm|meridiem)",
    re.I,
)
"""time, and header of what belongs to places, to seconds that count from no date, or to times of
day without a zone"""


class CsvTable(TraceFormat, kind="csv"):
    """CSV (time_s, user, lat, lon or x_m, y_m)."""

    columns: dict[str, str] = Field(default_factory=dict)
    """our name: header, or number of the column from 0, for headers that are not called as ours or
    missing"""
    survey: bool = False
    """the file has no times: all are 0"""
    endings = (".csv", ".tsv")
    content = r"\A(?!\s*<)[^\n]*[,;\t]"
    reference = "RFC 4180"

    def read(self, fixes: FixBuilder) -> None:
        names = {int(number): ours for ours, number in self.columns.items() if number.isdecimal()}
        cells = set[TextPair]()
        radios = set[str]()
        finer = ""
        for sheet in read_sheets(fixes.path, names):
            if not fixes.header_of:
                self._match_columns(sheet, fixes)
                finer = _find_cell_columns(sheet.header) if "cell" in fixes.header_of else ""
            columns = {
                ours: sheet.get_signed_texts(header, BOUNDS.get(ours, (0, 0))[1])
                for ours, header in fixes.header_of.items()
            }
            if "cell" in columns:
                columns["cell"] = _read_identities(sheet, fixes.header_of["cell"])
            is_guessed = fixes.guesses and not fixes.zone and columns.keys() >= {"time_s", *DEGREES}
            # of numbers of our own, as other simulations write them, the longitude decides
            if is_guessed and not (
                to_number(columns["time_s"][0]) >= 0 and "time_s" in sheet.header
            ):
                place_deg = [
                    np.nanmedian(sheet.parse_numbers(fixes.header_of[name], *BOUNDS[name], False))
                    for name in DEGREES
                ]
                zone = fixes.facts["guessed zone"] = find_nearest_zone(*place_deg)
                fixes.zone = find_zone(zone)
            fixes.facts.setdefault("ignored", ", ".join(sheet.unread) or "none")
            n_rows = len(sheet.line)
            columns = {"user": ["all"] * n_rows, "time_s": ["0"] * n_rows} | columns
            if finer:
                cells.update(zip(columns["cell"], _read_identities(sheet, finer), strict=True))
            if "rsrp_dbm" in columns:
                radios |= _clear_other_levels(sheet, columns["rsrp_dbm"])
            fixes.add_rows(fixes.path, sheet.line, columns, sheet.delimiter)
        fixes.notices += _report_doubts(fixes.header_of, finer, cells, radios)
        parts = [
            name for name in sheet.unread if _PART.fullmatch(f"{columns['time_s'][-1]} {name}")
        ]
        if parts and {*sheet.get_texts(parts[0])} != {str(fixes.zone)}:
            fixes.notices.append(notice("trace-columns-parted", columns=join_texts(parts)))
        if signed := [
            f"{name} by {sheet.header[k]}" for name, sides in sheet.sides.items() for k in sides
        ]:
            fixes.notices.append(notice("trace-signs", columns=join_texts(signed)))

    def _match_columns(self, sheet: Sheet, fixes: FixBuilder) -> None:
        """Find the columns: of latitude and longitude and metres the former, unless `crs` asks for
        metres.
        """
        path = fixes.path
        header = sheet.header
        header_of = match_columns(path, header, self.columns, _OURS)
        likely = _guess_columns(sheet, header_of)
        if self.survey:
            if timed := (header_of | likely).get("time_s"):
                raise BadInput(
                    f"{path}: survey: the file has times (column {quote_text(timed)}); "
                    f"leave survey out"
                )
            if mean := likely.pop("rsrp_dbm", ""):
                header_of["rsrp_dbm"] = mean
                fixes.notices.append(notice("trace-rsrp-column", header=mean))
        if fixes.guesses:
            levels = likely.get("rsrp_dbm", "").replace(" or ", "' or 'rsrp_dbm=")
            if "=" in levels:
                raise BadInput(
                    f"{path}: line 1: several columns of levels: choose --columns "
                    f"'rsrp_dbm={levels}'; the rest is guessed"
                )
            self.columns.update(likely)
            header_of |= match_columns(path, header, self.columns, _OURS)
            likely = {}
        in_degrees, in_metres = (
            [sum(ours in names for ours in pair) for names in (header_of, likely)]
            for pair in _PAIRS
        )
        by_crs = fixes.crs not in (AUTO, GLOBE) and any(in_metres)
        place, unused = (METRES, DEGREES) if by_crs or in_metres > in_degrees else (DEGREES, METRES)
        optional = {ours: name for ours, name in likely.items() if ours in _OPTIONAL}
        if missing := [
            ours
            for ours in ("rsrp_dbm" if self.survey else "time_s", *place)
            if ours not in header_of
        ]:
            suggested = {ours: likely.get(ours, "HEADER") for ours in missing} | optional
            problem = f"no column {', '.join(missing)}; the file has {join_texts(header)}"
            remedy = "--survey for a file without times, or " * (
                suggested.get("time_s") == "HEADER"
            )
            raise BadInput(
                f"{path}: line 1: {problem}; add what is missing, "
                f"or try {remedy}{_format_option(suggested)}"
            )
        for ours in unused:
            header_of.pop(ours, None)
        fixes.header_of = header_of
        fixes.facts["columns"] = ", ".join(
            o if o == name else f"{o}={name}" for o, name in header_of.items()
        )
        if "user" not in header_of:
            fixes.notices.append(notice("trace-without-users"))
        fixes.facts["option"] = _format_option(self.columns | optional)
        if optional:
            fixes.notices.append(notice("trace-columns-unread", option=_format_option(optional)))


def _simplify_headers(header: Sequence[str]) -> dict[str, str]:
    """The headers by their letters and digits alone; of equal ones the first."""
    return {"".join(c for c in name.lower() if c.isalnum()): name for name in reversed(header)}


def _guess_columns(sheet: Sheet, header_of: Headers) -> dict[str, str]:
    """For each of our names that the file lacks, the unused header that most probably means it, or
    A or B where two may be levels; none of a column that holds nothing.
    """
    columns = zip(sheet.header, sheet.columns, strict=True)
    text_of = {name: text for name, text in columns if any(map(normalise_id, text))}
    free = {
        key: name
        for key, name in _simplify_headers([*text_of]).items()
        if name not in header_of.values()
    }
    likely: dict[str, str] = {}
    for ours in [ours for ours in _SYNONYMS if ours not in header_of]:
        for rank in _SYNONYMS[ours].split("|"):
            same = [
                free[key]
                for word in rank.split()
                for key in free
                if re.fullmatch(word, key)
                and (key == word or any(map(_LEVEL.match, text_of[free[key]])))
            ]
            if same:
                likely.setdefault(ours, " or ".join(same[: 9 if ours == "rsrp_dbm" else 1]))
    clock = likely.get("time_s", "")
    if "date" in free and clock and _CLOCK.fullmatch(text_of[clock][0]):
        likely["time_s"] = f"{free['date']}+{clock}"
    if "cell" not in header_of and (cell := _find_cell_columns([*text_of])):
        likely["cell"] = cell
    if likely.get("user", "").lower().startswith("node") and (
        "cell" in likely or "cell" in header_of
    ):
        del likely["user"]  # of a base station, as drive tests call it
    return likely


def _find_cell_columns(header: Sequence[str]) -> str:
    """The column that names cells, or the columns that do so together, joined by +; empty if none
    do.

    A short identity holds in an area or at a base station, one of LTE or NR in its network,
    whatever the tracking area [3GPP TS 23.003, Sections 4.3.1, 19.6 and 19.6A]; a physical one is
    repeated every few km.
    """
    plain = _simplify_headers(header)
    header_of = {
        part: plain[word]
        for part, words in _CELL_WORDS.items()
        for word in words.split()
        if word in plain
    }
    for parts in map(str.split, _CELLS):
        if header_of.keys() >= {*parts}:
            return "+".join(map(header_of.__getitem__, parts))
    return ""


def _read_identities(sheet: Sheet, called: str) -> list[str]:
    """The texts (n,) of a column, or the identities of cells that several joined by + make, empty
    where one is unknown.

    An identity that holds beyond its area goes without that.
    """
    if called in sheet.header:
        return sheet.get_texts(called)
    names = called.split("+")
    ids = []
    for *parts, cell in zip(
        *(map(normalise_id, sheet.get_texts(name)) for name in names), strict=True
    ):
        if names[-2].lower() in ("lac", "tac") and to_number(cell) > _AREA_IDS:
            parts.pop()
        parts.append(cell)
        ids.append("-".join(parts) * all(parts))
    return ids


def _clear_other_levels(sheet: Sheet, rsrp: list[str]) -> set[str]:
    """Clear the levels (n,) of rows of GSM and UMTS, which are no RSRP; returns what the rows call
    these radios.
    """
    columns = [sheet.get_texts(name) for name in sheet.header if _RADIO.fullmatch(name)]
    other_radios = {*filter(_NO_RSRP.match, {*chain(*columns)})}
    if other_radios:
        rsrp[:] = [
            level * other_radios.isdisjoint(row) for level, *row in zip(rsrp, *columns, strict=True)
        ]
    return other_radios


def _report_doubts(
    header_of: Headers, finer: str, cells: set[TextPair], radios: set[str]
) -> Notices:
    """Doubts about names of cells that stand for several, of pairs (name, identity by `finer`), and
    on levels.
    """
    identities = {
        (normalise_id(name), identity) for name, rest in cells if (identity := normalise_id(rest))
    }
    if (n := len(dict(identities))) < len(identities):
        yield notice(
            "trace-cells-merged",
            header=header_of["cell"],
            names=format_count(n, "name"),
            number=len(identities),
            finer=finer,
        )
    for ours, (pattern, reason) in _WRONG.items():
        if re.fullmatch(pattern, header_of.get(ours, ""), re.I):
            yield notice("trace-column-wrong", header=header_of[ours], why=reason, name=ours)
    if radios:
        yield notice("trace-no-rsrp", technologies=join_texts(sorted(radios)))


def _format_option(header_of: Headers) -> str:
    columns = ",".join(f"{ours}={name}" for ours, name in header_of.items())
    return f"--columns {shlex.quote(columns)}" * bool(columns)
