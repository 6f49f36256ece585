"""CSV or CSV.gz with a header: columns by name, and suggestions for missing ones."""

import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import ClassVar, Literal

from pydantic import Field

from netsim.errors import BadInput
from netsim.traces.formats.base import TraceFormat
from netsim.traces.source import read_sheets
from netsim.traces.table import AUTO, DEGREES, GLOBE, METRES, FixBuilder
from netsim.traces.values import listed, shown

_OPTIONAL = ("user", "rsrp_dbm", "cell")
_OURS = ("time_s", *DEGREES, *METRES, *_OPTIONAL)
_SYNONYMS = {
    "time_s": "time timestamp timestamps timems datetime date utc timeutc epoch unixtime ts gpstime timesteptime"
    " timestampms",
    "user": "userid uid imei imsi msisdn subscriber subscriberid device deviceid phone phoneid person personid driver"
    " driverid ue ueid node nodeid vehicle vehicleid taxi trackid name id",
    "lat": "latitude latdeg gpslat",
    "lon": "lng long longitude londeg gpslon gpslong",
    "x_m": "x east easting utmx vehiclex personx",
    "y_m": "y north northing utmy vehicley persony",
    "rsrp_dbm": "rsrp ltersrp ssrsrp nrrsrp signalstrength",
    "cell": "cellid rawcellid ci eci cgi ecgi nci pci cellname basestation",
}
_OTHER_UNITS = {"km", "cm", "mm", "ft", "feet", "mi", "miles"}


class CsvTable(TraceFormat):
    """CSV with a header (time_s, user, lat, lon or x_m, y_m)."""

    kind: Literal["csv"] = "csv"
    columns: dict[str, str] = Field(default_factory=dict)
    """our name: header, for headers that are not called as ours"""
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    content: ClassVar[str] = r"\A(?!\s*<)[^\n]*[,;\t]"
    reference: ClassVar = "RFC 4180"

    def read(self, fixes: FixBuilder) -> None:
        for sheet in read_sheets(fixes.path):
            if not fixes.header_of:
                self._match(sheet.header, fixes)
            columns = {ours: sheet.values(header) for ours, header in fixes.header_of.items()}
            fixes.add(fixes.path, sheet.line, {"user": ["all"] * len(sheet.line)} | columns, sheet.delimiter)

    def _match(self, header: Sequence[str], fixes: FixBuilder) -> None:
        """Find the columns: of latitude and longitude and metres the former, unless `crs` asks for metres."""
        path = fixes.path
        for ours, name in self.columns.items():
            if ours not in _OURS:
                raise BadInput(f"{path}: columns: {shown(ours)} is not one of our names; use {', '.join(_OURS)}")
            if name not in header:
                near = get_close_matches(name, header, 3, 0.5)
                hint = f"did you mean {' or '.join(near)}?" if near else "use one of these"
                problem = f"the file has no such column (it has {listed(header)})"
                raise BadInput(f"{path}: columns: {ours}={name}: {problem}; {hint}")
        names = {ours: self.columns.get(ours, ours) for ours in _OURS}
        header_of = {ours: name for ours, name in names.items() if name in header}
        in_metres, in_degrees = (sum(ours in header_of for ours in pair) for pair in (METRES, DEGREES))
        place, other = DEGREES, METRES
        if in_metres and (fixes.crs not in (AUTO, GLOBE) or in_metres > in_degrees):
            place, other = METRES, DEGREES
        if missing := [ours for ours in ("time_s", *place) if ours not in header_of]:
            raise BadInput(f"{path}: line 1: no column {_missing(header, missing, header_of)}")
        header_of = {ours: name for ours, name in header_of.items() if ours not in other}
        for ours, name in header_of.items():
            units = set(re.findall(r"[a-z]+", name.lower())) & _OTHER_UNITS
            if ours in METRES and units:
                problem = f"is in {min(units)}, but {ours} is not; convert the column"
                raise BadInput(f"{path}: column {shown(name)}: {problem}")
            if list(header).count(name) > 1:
                raise BadInput(f"{path}: line 1: {shown(name)} appears twice in the header; rename one")
        fixes.header_of = header_of
        fixes.facts["columns"] = ", ".join(o if o == name else f"{o}={name}" for o, name in header_of.items())
        fixes.facts["ignored"] = ", ".join(name for name in header if name not in header_of.values()) or "none"
        likely = {ours: name for ours, name in _likely(header, header_of).items() if ours in _OPTIONAL}
        if "user" not in header_of:
            fixes.notes.append("the file has no column user: all rows belong to one user, called all")
        if likely:
            fixes.notes.append(f"columns not read that may be meant: --columns {_option(likely)}")


def _missing(header: Sequence[str], missing: list[str], header_of: Mapping[str, str]) -> str:
    """The missing columns, those that the file has, and the headers that may be meant."""
    likely, absent = _likely(header, header_of), missing
    if set(METRES) <= set(likely) and not set(DEGREES) & set(likely):
        missing = [METRES[DEGREES.index(ours)] if ours in DEGREES else ours for ours in missing]
    if set(missing) & set(likely):
        more = {ours: name for ours, name in likely.items() if ours in _OPTIONAL}
        remedy = f"try --columns {_option({ours: likely.get(ours, 'HEADER') for ours in missing} | more)}"
    else:
        text = _option(dict.fromkeys(missing, "HEADER"))
        remedy = f"add what is missing, or name its header with --columns {text}"
    return f"{', '.join(absent)}; the file has {listed(header)}; {remedy}"


def _likely(header: Sequence[str], header_of: Mapping[str, str]) -> dict[str, str]:
    """For each of our names that the file lacks, the unused header that most probably means it."""
    plain = {"".join(c for c in name.lower() if c.isalnum()): name for name in reversed(header)}
    free = {key: name for key, name in plain.items() if name not in header_of.values()}
    likely: dict[str, str] = {}
    for ours in [ours for ours in _SYNONYMS if ours not in header_of]:
        names = [ours.replace("_", ""), *_SYNONYMS[ours].split()]
        same = [name for name in names if name in free]
        near = [hit for name in names if len(name) > 3 for hit in get_close_matches(name, free, 1, 0.8)]
        if same or near:
            likely[ours] = free.pop((same or near)[0])
    if likely.get("user", "").lower().startswith("node") and ("cell" in likely or "cell" in header_of):
        del likely["user"]  # of a base station, as drive tests call it
    return likely


def _option(header_of: Mapping[str, str]) -> str:
    """The value of --columns."""
    return shlex.quote(",".join(f"{ours}={name}" for ours, name in header_of.items()))
