"""CSV or CSV.gz: columns by name or number, and suggestions for missing ones."""

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from netsim.errors import BadInput
from netsim.traces.formats.base import TraceFormat
from netsim.traces.source import matched, read_sheets
from netsim.traces.table import AUTO, BOUNDS, DEGREES, GLOBE, METRES, FixBuilder
from netsim.traces.values import listed, shown

_PAIRS = (DEGREES, METRES)
_OPTIONAL = ("user", "rsrp_dbm", "cell", "accuracy_m")
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
    "rsrp_dbm": "rsrp ltersrp ssrsrp nrrsrp signalstrength rsrpmeandbm rsrpmean meanrsrp meanrsrpdbm rsrpavg avgrsrp"
    " rsrpmediandbm rsrpmedian medianrsrp medianrsrpdbm rsrpp50",
    "accuracy_m": "accuracy horizontalaccuracy gpsaccuracy haccuracy hacc",
    "cell": "cellid rawcellid ci eci cgi ecgi nci pci cellname basestation",
}


class CsvTable(TraceFormat):
    """CSV (time_s, user, lat, lon or x_m, y_m)."""

    kind: Literal["csv"] = "csv"
    columns: dict[str, str] = Field(default_factory=dict)
    """our name: header, or number of the column from 0, for headers that are not called as ours or missing"""
    survey: bool = False
    """the file has no times: all are 0"""
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    content: ClassVar[str] = r"\A(?!\s*<)[^\n]*[,;\t]"
    reference: ClassVar = "RFC 4180"

    def read(self, fixes: FixBuilder) -> None:
        names = {int(number): ours for ours, number in self.columns.items() if number.isdecimal()}
        for sheet in read_sheets(fixes.path, names):
            if not fixes.header_of:
                self._match(sheet.header, fixes)
            columns = {
                ours: sheet.degrees(header, BOUNDS.get(ours, (0, 0))[1]) for ours, header in fixes.header_of.items()
            }
            n_rows = len(sheet.line)
            columns = {"user": ["all"] * n_rows, "time_s": ["0"] * n_rows} | columns
            fixes.add(fixes.path, sheet.line, columns, sheet.delimiter)
            fixes.facts["ignored"] = ", ".join(sheet.unread) or "none"
        if signed := [f"{name} by {sheet.header[k]}" for name, sides in sheet.sides.items() for k in sides]:
            fixes.notes.append(f"signs: {listed(signed)}")

    def _match(self, header: Sequence[str], fixes: FixBuilder) -> None:
        """Find the columns: of latitude and longitude and metres the former, unless `crs` asks for metres."""
        path = fixes.path
        header_of = matched(path, header, self.columns, _OURS)
        likely = _likely(header, header_of)
        if self.survey:
            if timed := (header_of | likely).get("time_s"):
                raise BadInput(f"{path}: survey: the file has times (column {shown(timed)}); leave survey out")
            if mean := likely.pop("rsrp_dbm", ""):
                header_of["rsrp_dbm"] = mean
                fixes.notes.append(f"RSRP is column {mean}; --columns rsrp_dbm=HEADER takes another")
        in_degrees, in_metres = ([sum(ours in of for ours in pair) for of in (header_of, likely)] for pair in _PAIRS)
        by_crs = fixes.crs not in (AUTO, GLOBE) and any(in_metres)
        place, other = (METRES, DEGREES) if by_crs or in_metres > in_degrees else (DEGREES, METRES)
        optional = {ours: name for ours, name in likely.items() if ours in _OPTIONAL}
        if missing := [ours for ours in ("rsrp_dbm" if self.survey else "time_s", *place) if ours not in header_of]:
            found = {ours: likely.get(ours, "HEADER") for ours in missing} | optional
            problem = f"no column {', '.join(missing)}; the file has {listed(header)}"
            remedy = "--survey for a file without times, or " * (found.get("time_s") == "HEADER")
            raise BadInput(f"{path}: line 1: {problem}; add what is missing, or try {remedy}{_option(found)}")
        for ours in other:
            header_of.pop(ours, None)
        fixes.header_of = header_of
        fixes.facts["columns"] = ", ".join(o if o == name else f"{o}={name}" for o, name in header_of.items())
        if "user" not in header_of:
            fixes.notes.append("the file has no column user: all rows belong to one user, called all")
        fixes.facts["option"] = _option(self.columns | optional)
        if optional:
            fixes.notes.append(f"columns not read that may be meant: {_option(optional)}")


def _likely(header: Sequence[str], header_of: Mapping[str, str]) -> dict[str, str]:
    """For each of our names that the file lacks, the unused header that most probably means it."""
    plain = {"".join(c for c in name.lower() if c.isalnum()): name for name in reversed(header)}
    free = {key: name for key, name in plain.items() if name not in header_of.values()}
    likely: dict[str, str] = {}
    for ours in [ours for ours in _SYNONYMS if ours not in header_of]:
        same = [name for name in (ours.replace("_", ""), *_SYNONYMS[ours].split()) if name in free]
        if same:
            likely[ours] = free.pop(same[0])
    if likely.get("user", "").lower().startswith("node") and ("cell" in likely or "cell" in header_of):
        del likely["user"]  # of a base station, as drive tests call it
    return likely


def _option(header_of: Mapping[str, str]) -> str:
    columns = ",".join(f"{ours}={name}" for ours, name in header_of.items())
    return f"--columns {shlex.quote(columns)}" * bool(columns)
