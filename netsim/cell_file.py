"""Base stations from a file of cells."""

from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.base_stations import BaseStation, Layout, Origin, Site
from netsim.cells import Cells, read_cells
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import FILE_NAME
from netsim.row_id import MAX_STATIONS
from netsim.safe import file_version


class CellFile(Layout):
    """Cells of a CSV with OpenCelliD's columns (radio, mcc, net, area, cell, lon, lat, ...), as it is downloaded.

    It may be packed (gzip), lack its header, have the API's names (mnc, lac, cellid), in capitals or not, and be
    separated by commas, semicolons or tabs; above there may be lines that begin with # and one sep=;. Rows without
    a position (none, or 0, 0 or -1, -1), rows without the number of a cell and repeated cells are left out; a run says
    how many.
    Longitude and latitude are projected onto the local plane; without a replayed trace give the plane's origin.
    Cells further than `margin_m` outside of the area are left out. The file says nothing of heights and powers: all
    cells share them.
    """

    kind: Literal["cell-file"] = "cell-file"
    file: Annotated[str, FILE_NAME] = Field(min_length=1)
    """path of the CSV"""
    radio: str | None = None
    """radio technology of the cells (GSM, UMTS, LTE, NR); none: all"""
    origin_lat: float | None = Field(default=None, ge=-90, le=90)
    """latitude of the plane's (0, 0); none: that of the replayed trace"""
    origin_lon: float | None = Field(default=None, ge=-180, le=180)
    """longitude of the plane's (0, 0)"""
    height_m: float = Field(default=25.0, ge=0, le=1000)
    """antenna height of every cell"""
    power_dbm: float = Field(default=15.0, ge=-30, le=70)
    """reference-signal power of every cell"""

    margin_m: float = Field(default=1000.0, ge=0, le=1e5)
    """largest distance of a cell outside the area, m; further cells are left out"""

    reference: ClassVar = "OpenCelliD database format, wiki.opencellid.org"
    example: ClassVar = {"kind": "cell-file", "file": "cells.csv"}

    def stations(self, area: Area, origin: Origin | None, site: Site | None = None) -> tuple[BaseStation, ...]:
        cells = _read_version(self.file, self.radio, file_version(self.file))
        if self.origin_lat is not None and self.origin_lon is not None:
            origin = Origin(self.origin_lat, self.origin_lon)
        if origin is None:
            raise BadInput(
                f"{self.file}: where is the plane's origin? give base_stations.origin_lat and origin_lon "
                "(a replayed trace with longitudes brings its own)"
            )
        at = _project(cells.lon_deg, cells.lat_deg, origin)
        inside = np.flatnonzero(area.grown(self.margin_m).contains(at))
        if not 0 < len(inside) <= MAX_STATIONS:
            raise BadInput(
                f"{self.file}: {len(inside)} of its {len(cells.name)} cells lie within {self.margin_m:g} m of the area "
                f"(1 to {MAX_STATIONS} are usable); check the file's region, the origin and margin_m"
            )
        return tuple(
            BaseStation(
                name=cells.name[k],
                position_m=(float(at[k, 0]), float(at[k, 1])),
                height_m=self.height_m,
                power_dbm=self.power_dbm,
            )
            for k in inside
        )

    def notes(self) -> tuple[str, ...]:
        skipped = _read_version(self.file, self.radio, file_version(self.file)).skipped
        if not skipped:
            return ()
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in skipped.items())
        return (f"base stations: {self.file}: {sum(skipped.values()):,} rows are left out: {reasons}",)


def _project(lon: Any, lat: Any, origin: Origin) -> Any:
    """Degrees to metres east and north of the origin (azimuthal equidistant, WGS84): (n, 2)."""
    from pyproj import CRS, Transformer

    plane = CRS.from_proj4(f"+proj=aeqd +lat_0={origin.lat} +lon_0={origin.lon} +datum=WGS84")
    x, y = Transformer.from_crs("EPSG:4326", plane, always_xy=True).transform(lon, lat)
    return np.stack([x, y], axis=-1).reshape(-1, 2)


@lru_cache(maxsize=1)  # one file, so that places and notes read it once
def _read_version(path: str, radio: str | None, version: tuple[int, int]) -> Cells:
    """The cells of a file; `version` tells a changed file from the one in memory."""
    try:
        return read_cells(path, radio)
    except OSError as error:
        raise BadInput(f"{path[:200]}: cannot be read ({error.strerror}); check base_stations.file") from None
