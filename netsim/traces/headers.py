"""The headers of a CSV: columns by name, and suggestions for missing ones."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from netsim.errors import BadInput
from netsim.traces.crs import AUTO, GLOBE
from netsim.traces.values import listed, shown

DEGREES, METRES = ("lat", "lon"), ("x_m", "y_m")
OPTIONAL = ("user", "rsrp_dbm", "cell", "speed_mps")
OURS = ("time_s", *DEGREES, *METRES, *OPTIONAL)
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
}  # without speed_mps: a column called speed may well be in km/h

_OTHER_UNITS = {ours: {"km", "cm", "mm", "ft", "feet", "mi", "miles"} for ours in METRES}
_OTHER_UNITS["speed_mps"] = {"kmh", "kph", "mph", "kn", "knots"}


def match(path: str, header: Sequence[str], columns: Mapping[str, str], crs: str) -> dict[str, str]:
    """Our name -> header, for all columns that the file has.

    Of latitude and longitude and metres it is the former, unless `crs` asks for metres.
    """
    for ours, name in columns.items():
        if ours not in OURS:
            raise BadInput(f"{path}: columns: {shown(ours)} is not one of our names; use {', '.join(OURS)}")
        if name not in header:
            raise BadInput(f"{path}: columns: {ours}={name}: {_no_such(header, name)}")
    header_of = {ours: columns.get(ours, ours) for ours in OURS}
    header_of = {ours: name for ours, name in header_of.items() if name in header}
    place, other = (METRES, DEGREES) if _in_metres(header_of, crs) else (DEGREES, METRES)
    missing = [ours for ours in ("time_s", *place) if ours not in header_of]
    if missing:
        raise BadInput(_missing_columns(path, header, missing, header_of))
    header_of = {ours: name for ours, name in header_of.items() if ours not in other}
    for ours, name in header_of.items():
        if units := set(re.findall(r"[a-z]+", name.lower())) & _OTHER_UNITS.get(ours, set()):
            raise BadInput(f"{path}: column {shown(name)}: is in {min(units)}, but {ours} is not; convert the column")
        if list(header).count(name) > 1:
            raise BadInput(f"{path}: line 1: {shown(name)} appears twice in the header; rename one")
    return header_of


def optional(header: Sequence[str], header_of: Mapping[str, str]) -> dict[str, str]:
    """Our name -> the header that probably means it, for optional columns that the file lacks."""
    return {ours: name for ours, name in _likely(header, header_of).items() if ours in OPTIONAL}


def notes(header_of: Mapping[str, str], likely: Mapping[str, str]) -> tuple[str, ...]:
    """Notes for the user on the columns."""
    found_notes = []
    if "user" not in header_of:
        found_notes.append("the file has no column user: all rows belong to one user, called all")
    if likely:
        text = ",".join(f"{ours}={name}" for ours, name in likely.items())
        found_notes.append(f"columns not read that may be meant: --columns {shlex.quote(text)}")
    return tuple(found_notes)


def _in_metres(header_of: Mapping[str, str], crs: str) -> bool:
    metres, degrees = (sum(ours in header_of for ours in pair) for pair in (METRES, DEGREES))
    return metres > 0 and (crs not in (AUTO, GLOBE) or metres > degrees)


def _no_such(header: Sequence[str], name: str) -> str:
    near = get_close_matches(name, header, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "use one of these"
    return f"the file has no such column (it has {listed(header)}); {hint}"


def _missing_columns(path: str, header: Sequence[str], missing: list[str], header_of: dict[str, str]) -> str:
    start = f"{path}: line 1: no column {', '.join(missing)}; the file has {listed(header)}; "
    likely = _likely(header, header_of)
    if set(METRES) <= set(likely) and not set(DEGREES) & set(likely):
        missing = [METRES[DEGREES.index(ours)] if ours in DEGREES else ours for ours in missing]
    if not set(missing) & set(likely):
        text = ",".join(f"{ours}=HEADER" for ours in missing)
        return f"{start}add what is missing, or name its header with --columns {text}"
    text = ",".join(f"{ours}={likely.get(ours, 'HEADER')}" for ours in missing)
    more = "".join(f",{ours}={name}" for ours, name in likely.items() if ours in OPTIONAL)
    return f"{start}try --columns {shlex.quote(text + more)}"


def _likely(header: Sequence[str], header_of: Mapping[str, str]) -> dict[str, str]:
    """For each of our names that the file lacks, the unused header that most probably means it."""
    plain = {"".join(c for c in h.lower() if c.isalnum()): h for h in reversed(header)}
    free = {key: name for key, name in plain.items() if name not in header_of.values()}
    likely: dict[str, str] = {}
    for ours, words in _SYNONYMS.items():
        if ours in header_of:
            continue
        names = [ours.replace("_", ""), *words.split()]
        same = [name for name in names if name in free]
        near = [hit for name in names if len(name) > 3 for hit in get_close_matches(name, free, 1, 0.8)]
        if same or near:
            likely[ours] = free.pop((same or near)[0])
    if likely.get("user", "").lower().startswith("node") and ("cell" in likely or "cell" in header_of):
        del likely["user"]  # of a base station, as drive tests call it
    return likely
