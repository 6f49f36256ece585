"""From a path to a `Table`, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from netsim.errors import BadInput
from netsim.traces.crs import AUTO, check_crs
from netsim.traces.formats.cabspotting import read_cabspotting
from netsim.traces.formats.csv_table import read_csv
from netsim.traces.formats.detect import TITLES, detect
from netsim.traces.formats.gpx import read_gpx
from netsim.traces.formats.ns2 import read_ns2
from netsim.traces.formats.plt import read_plt
from netsim.traces.formats.sumo_fcd import read_sumo_fcd
from netsim.traces.table import Table
from netsim.traces.trace import named_zone

Format = Literal["auto", "csv", "plt", "gpx", "sumo-fcd", "ns2", "cabspotting"]


def read_table(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    format: Format = "auto",
    crs: str = AUTO,
    sample_s: float = 1.0,
    timezone: str = "auto",
) -> Table:
    """Read and check a trace file, or a folder of them.

    Parameters
    ----------
    columns : our name -> header, for a CSV whose headers are not called as ours, e.g. ``{"lat": "Latitude"}``.
    format : what the file is; `auto` looks.
    crs : what x and y are; `auto` is degrees where the format has them, and else metres of a local plane,
        as `local` always is; ``EPSG:25832`` names a projected system.
    timezone : IANA name of the zone in which a file's times of day without a zone were written; `auto` refuses them.
    sample_s : time between rows of a file of movements (ns-2), which has no times of rows.

    Raises `BadInput` with one line: file, place, value, bound, remedy.
    """
    name = str(path)
    if format not in ("auto", *TITLES):
        raise BadInput(f"{name}: format: {format!r} is none of auto, {', '.join(TITLES)}; use one of these")
    check_crs(name, crs)
    detected = detect(name) if format == "auto" else format
    if columns and detected != "csv":
        raise BadInput(f"{name}: columns: only a CSV has headers, and this is read as {detected}; leave columns out")
    zone = None if timezone == "auto" else named_zone(timezone)
    readers: dict[str, Callable[[], Table]] = {
        "csv": lambda: read_csv(name, columns or {}, crs, zone),
        "plt": lambda: read_plt(name, crs),
        "gpx": lambda: read_gpx(name, crs, zone),
        "sumo-fcd": lambda: read_sumo_fcd(name, crs),
        "ns2": lambda: read_ns2(name, crs, sample_s),
        "cabspotting": lambda: read_cabspotting(name, crs),
    }
    return readers[detected]()
