"""Base stations: a list, or a layout: hexagonal, at random places, or from a file of cells."""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.city.buildings import Buildings
from netsim.columns import MAX_STATIONS, frozen
from netsim.errors import BadInput, format_count
from netsim.geometry import Area
from netsim.maps import SAME_ORIGIN_M, measure_distance_m, project_lon_lat
from netsim.notice import Built, Notice, Notices, list_doubts, notice
from netsim.part import Coordinates, FileName, OneOf, Part, Positive
from netsim.radio.antenna import ANTENNAS, Antenna, Sector
from netsim.rng import Rng, Streams
from netsim.safe import read_file_version
from netsim.traces.source import (
    Headers,
    Rows,
    Source,
    match_columns,
    read_delimited_rows,
    read_number_table,
)
from netsim.traces.values import (
    is_missing,
    join_texts,
    normalise_id,
    quote_text,
    replace_commas,
    to_number,
)
from netsim.units import FloatArray, FloatPair, IntArray, IntPair, LatLon, TextPair, Texts

if TYPE_CHECKING:
    from pandas import DataFrame

_MAX_SIDE_M = 2e6  # side of an area that is laid out for a trace
NO_SHIFT_M = np.zeros((1, 2))
"""displacement of the only image of a base station, itself"""

Height = Annotated[float, Field(ge=0, le=1000)]
"""of an antenna above ground, m"""
CellPower = Annotated[float, Field(ge=-30, le=70)]
"""of reference signals per resource element, dBm"""
Pattern = Annotated[Antenna, ANTENNAS]
"""of an antenna"""


class BaseStation(Part):
    """One cell: an antenna at a place."""

    name: str = Field(min_length=1, max_length=60)
    """name of the cell in records"""
    position_m: Coordinates
    """position east and north"""
    height_m: Height = 25.0
    """antenna height above ground"""
    power_dbm: CellPower = 15.0
    """reference-signal power per resource element, without the antenna pattern's gain: what RSRP
    counts"""
    azimuth_deg: float | None = Field(None, ge=0, lt=360)
    """azimuth of a sector antenna, degrees clockwise from north; none: isotropic"""
    antenna: Pattern = Sector()
    """pattern of an antenna with an azimuth"""

    @model_validator(mode="after")
    def _check_azimuth(self) -> Self:
        if self.azimuth_deg is None and self.antenna != Sector():
            raise ValueError(
                f"antenna: {self.antenna.kind_name()} needs azimuth_deg; without it "
                f"antennas are isotropic"
            )
        return self


Stations = tuple[BaseStation, ...]


@frozen
class Site:
    """The buildings of the area, and the stream from which places are drawn."""

    buildings: Buildings
    rng: Rng


class Layout(Part):
    """Makes base stations for an area."""

    kind: str = ""

    @abstractmethod
    def stations(self, area: Area, origin_deg: LatLon | None, site: Site | None = None) -> Stations:
        """The base stations; raises BadInput with one line when there can be none. No site: open
        ground.

        origin_deg : latitude and longitude of (0, 0), None where the plane is nowhere on the globe.
        """

    @property
    def shifts_m(self) -> FloatArray:
        """Displacements (k, 2) of the images of the layout, itself included; without wrap-around
        it is the only one.
        """
        return NO_SHIFT_M


class Hexagonal(Layout, kind="hexagonal"):
    """Sites on a hexagonal lattice through the middle of the area, as in 3GPP's reference layouts.

    With three sectors a site has three cells that point 30, 150 and 270 degrees from north. With
    `rings` the layout is the middle site and that many rings around it, whatever the area: 7, 19,
    37, ... sites. With `wrap_around` the layout of r rings repeats in six directions, at distances
    of sqrt(3 r^2 + 3 r + 1) inter-site distances: every UE is served by the nearest image of each
    site, as if it were in the middle.
    """

    inter_site_m: Positive = 500.0
    """distance between neighbouring sites, m"""
    sectors: Literal[1, 3] = 1
    """number of cells of a site"""
    height_m: Height = 25.0
    """antenna height above ground"""
    power_dbm: CellPower = 15.0
    """reference-signal power per resource element"""
    antenna: Pattern = Sector()
    """antenna pattern of three sectors; one sector is isotropic"""
    rings: int | None = Field(None, ge=0, le=36)
    """number of rings of sites around the middle one; none: sites fill the area"""
    wrap_around: bool = False
    """whether the layout repeats in all directions, for calibration in open ground; needs rings"""

    reference = "3GPP TR 38.901, Table 7.8-1 (layout)"
    example = {"kind": "hexagonal", "inter_site_m": 300}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.sectors == 1 and self.antenna != Sector():
            raise ValueError(
                f"antenna: {self.antenna.kind_name()} needs sectors: 3; one sector is isotropic"
            )
        return self

    @property
    def shifts_m(self) -> FloatArray:
        if not self.wrap_around or self.rings is None:
            return NO_SHIFT_M
        i = self.rings + 1
        j = self.rings
        turned = [(0, 0)]
        for _ in range(6):  # a turn by 60 degrees maps a to b and b to b - a
            turned.append((i, j))
            i, j = -j, i + j
        return np.array(turned) @ self._step_m

    @property
    def _step_m(self) -> FloatArray:
        """The lattice vectors a and b, in rows."""
        row_m = self.inter_site_m * math.sqrt(3) / 2
        return np.array(
            [
                [self.inter_site_m, 0.0],
                [self.inter_site_m / 2, row_m],
            ]
        )

    def _place_rings(self, area: Area) -> FloatArray:
        """The sites of the rings around the middle of the area."""
        rings = self.rings or 0
        j, i = (index.reshape(-1) for index in np.mgrid[-rings : rings + 1, -rings : rings + 1])
        near = np.abs(i + j) <= rings
        farthest_m = np.linalg.norm(area.side_m) / 2
        # the images around reach the nearest one of every site up to here
        image_distance = 2 / math.sqrt(3) * math.sqrt(3 * rings * (rings + 1) + 1)
        reach_m = self.inter_site_m * (image_distance - rings)
        if self.wrap_around and farthest_m > reach_m:
            raise BadInput(
                f"world.base_stations.wrap_around: the corners of the area are {farthest_m:.0f} m "
                f"from its middle, at most {reach_m:.0f} m are covered by {rings} rings; take a "
                "smaller area or more rings"
            )
        return area.centre_m + np.stack([i, j], axis=1)[near] @ self._step_m

    def stations(self, area: Area, origin_deg: LatLon | None, site: Site | None = None) -> Stations:
        sites = self._fill_area(area) if self.rings is None else self._place_rings(area)
        n_cells = len(sites) * self.sectors
        if n_cells > MAX_STATIONS:
            raise BadInput(
                f"world.base_stations.inter_site_m: {self.inter_site_m:g} m makes "
                f"{n_cells} cells, "
                f"at most {MAX_STATIONS} are possible; take a larger distance"
            )
        return tuple(
            self._build_cell(k, site, s)
            for k, site in enumerate(sites)
            for s in range(self.sectors)
        )

    def _fill_area(self, area: Area) -> FloatArray:
        step = self._step_m
        rows = math.ceil(area.side_m[1] / step[1, 1] / 2) + 1
        columns = math.ceil(area.side_m[0] / self.inter_site_m / 2) + 1 + rows
        if (2 * rows + 1) * (2 * columns + 1) > 100 * MAX_STATIONS:
            raise BadInput(
                f"world.base_stations.inter_site_m: {self.inter_site_m:g} m fills the area with "
                f"far more than {MAX_STATIONS} cells; take a larger distance"
            )
        row_number = np.arange(-rows, rows + 1)
        j, i = np.meshgrid(row_number, np.arange(-columns, columns + 1), indexing="ij")
        east_m = i.reshape(-1, 1) * step[0]
        sites = area.centre_m + east_m + j.reshape(-1, 1) * step[1]
        return sites[area.contains(sites)]

    def _build_cell(self, k: int, site: FloatArray, sector: int) -> BaseStation:
        return BaseStation(
            name=f"site{k}" if self.sectors == 1 else f"site{k}.{sector}",
            position_m=tuple(site.tolist()),
            height_m=self.height_m,
            power_dbm=self.power_dbm,
            azimuth_deg=None if self.sectors == 1 else 30.0 + 120.0 * sector,
            antenna=self.antenna,
        )


def collect_positions_m(stations: Sequence[BaseStation]) -> FloatArray:
    """Positions (n_bs, 2) of base stations, also of none."""
    return np.array([b.position_m for b in stations]).reshape(-1, 2)


def number_sites(stations: Stations) -> IntArray:
    """The site (n_bs,) of each base station, numbered as they first appear: antennas at one place
    share a mast.

    What stands between a site and a UE is the same for all its sectors [TR 38.901, Section 7.5,
    Step 4].
    """
    at_m = collect_positions_m(stations) + 0.0  # -0 is 0
    _, first, place = np.unique(at_m, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), int)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[place.reshape(-1)]


def choose_default_layout(area: Area, notices: Sequence[Notice] = ()) -> Hexagonal:
    """For a trace without signals: sites 500 m apart, or further so that there are not many more
    than 30.

    Raises BadInput, with doubts among notices on the trace, for an area that no plane and no
    network holds.
    """
    if area.side_m.max() > _MAX_SIDE_M:
        width, height = (f"{side / 1e3:,.0f} km" for side in area.side_m)
        raise BadInput(
            f"world.ues.mobility.trace: its area has {width} x {height}, at most "
            f"{_MAX_SIDE_M / 1e3:,.0f} km are possible without a list of base stations; choose a "
            "box (area_deg, or area_m where the file has metres; netsim inspect shows far "
            "rows), set crs: local if metres were taken for degrees, or give base stations"
            + "; ".join(("", *list_doubts(notices)))
        )
    # a hexagon of inter-site distance d covers d^2 sqrt(3) / 2
    per_site = np.prod(area.side_m) / 30.0
    distance_m = math.sqrt(per_site * 2 / math.sqrt(3))
    return Hexagonal(inter_site_m=float(np.ceil(max(500.0, distance_m) / 50) * 50))


_DRAWS = 1000  # of a place above the roofs


class Scattered(Layout, kind="uniform"):
    """Base stations at independent uniform places of the area, all at one height, as aerial base
    stations are.

    A place with a roof at or above the antenna is drawn again. Station k depends on (seed, k) and
    the city only.
    """

    count: int = Field(ge=1, le=MAX_STATIONS)
    """number of base stations"""
    height_m: Height = 50.0
    """antenna height above ground"""
    power_dbm: CellPower = 15.0
    """reference-signal power per resource element"""

    reference = (
        "Geometry-Aligned Differential Privacy for Federated Radio Map Construction, Section V"
    )
    example = {"kind": "uniform", "count": 4}

    def stations(self, area: Area, origin_deg: LatLon | None, site: Site | None = None) -> Stations:
        site = site or Site(Buildings.none(), Streams(0).derive_rng("stations"))
        at_m = np.full((self.count, 2), np.nan)
        left = np.arange(self.count)
        for draw in range(_DRAWS):
            at_m[left] = area.sample(site.rng.uniform("place", left, (2,), item=draw))
            left = left[site.buildings.find_height_m(at_m[left]) >= self.height_m]
            if not left.size:
                break
        else:
            raise BadInput(
                f"world.base_stations.height_m: {self.height_m:g} m is below the roof at {_DRAWS} "
                "random places in a row; fly higher, or leave room between the buildings"
            )
        return tuple(
            BaseStation(
                name=f"air{k}", position_m=(x, y), height_m=self.height_m, power_dbm=self.power_dbm
            )
            for k, (x, y) in enumerate(at_m.tolist())
        )


MAX_BYTES = 500 * 2**20
_ORDER = ("radio", "mcc", "net", "area", "cell", "unit", "lon", "lat")
"""the first columns of a file without a header"""
_WORDS = {
    "radio": "radio radiotype",
    "mcc": "mcc",
    "net": "net mnc",
    "area": "area lac tac",
    "cell": "cell cellid cid ci eci",
    "lon": "lon lng long longitude",
    "lat": "lat latitude",
}
_RADIOS = frozenset(("GSM", "CDMA", "UMTS", "LTE", "NR", "NBIOT"))
_WITHOUT_AREA = (
    "LTE",
    "NR",
    "NBIOT",
)  # whose cells have one number in all areas of a network [3GPP TS 23.003]
_NOWHERE = ((0.0, 0.0), (-1.0, -1.0))  # longitude and latitude, both at sea


_OF_LIST = {
    "lon": (-180.0, 180.0),
    "lat": (-90.0, 90.0),
    "x_m": (-1e9, 1e9),
    "y_m": (-1e9, 1e9),
    "name": None,
    "band": None,
    "azimuth_deg": (-360.0, 360.0),
    "tilt_deg": (-45.0, 45.0),
    "height_m": (0.0, 1000.0),
    "power_dbm": (-30.0, 70.0),
}
"""columns of a list of base stations, and their bounds"""


@frozen
class Cells:
    """Cells with name, lon and lat or x_m and y_m, and what else a list says of them; notices on
    what is left out.
    """

    table: "DataFrame"
    notices: list[Notice]


def read_cells(path: str, radio: str | None, band: str | None, columns: Headers) -> Cells:
    """The cells of a file: a list of base stations, those of one band, or a file of OpenCelliD, of
    one technology.

    Raises BadInput with one line for what cannot be read.
    """
    source = Source(path, "CSV")
    if source.n_bytes > MAX_BYTES:
        raise BadInput(f"{path}: larger than {MAX_BYTES // 2**20} MB; cut it to the region first")
    delimiter, rows = read_delimited_rows(source, ",".join(_ORDER))
    line, first = next(rows)
    header_of = match_columns(path, [name.strip() for name in first], columns, [*_OF_LIST])
    pairs = [pair for pair in (("lon", "lat"), ("x_m", "y_m")) if header_of.keys() >= set(pair)]
    has_network = "mcc" in map(str.lower, first)
    is_list = pairs != [] and not has_network
    if not (is_list or has_network) and {*_OF_LIST}.intersection(header_of):
        raise BadInput(
            f"{path}: no columns lon and lat, or x_m and y_m; the file has "
            f"{join_texts(first)}; name two so"
        )
    if (radio if is_list else band) is not None:
        raise BadInput(
            f"{path}: base_stations.{'radio' if is_list else 'band'}: the file has none; "
            f"leave it out"
        )
    if is_list:
        return _read_station_list(path, pairs[0], band, columns)
    return _read_opencellid(source, radio, delimiter, line, first, rows)


def _read_opencellid(
    source: Source, radio: str | None, delimiter: str, first_line: int, first: list[str], rows: Rows
) -> Cells:
    """The cells of a file of OpenCelliD, those of one technology if `radio` names it in capitals or
    not.

    A row without a position (none, or 0, 0 or -1, -1) or without the number of its cell, one that
    is cut short, and one of a cell that stands there already are counted. A cell of LTE or NR is
    one in all tracking areas.
    """
    names_radio = first[0].strip().upper() in _RADIOS
    is_bare = len(first) >= len(_ORDER) and names_radio and not first[1].strip().isalpha()
    places = _find_columns(source, first_line, _ORDER if is_bare else first)
    lon_lat_deg: dict[str, FloatPair] = {}
    known_keys = set[Texts]()
    skipped = Counter[str]()
    other_radios = dict[str, None]()
    for line, row in chain([(first_line, first)] if is_bare else [], rows):
        if len(row) <= max(places):
            skipped["cut short"] += 1
            continue
        *identity, lon, lat = (row[index].strip() for index in places)
        if radio is not None and identity[0].upper() != radio.upper():
            other_radios[identity[0]] = None
            continue
        kind, *network, area, cell = (normalise_id(text).lstrip("0").upper() for text in identity)
        key = (kind, *network, "" if kind in _WITHOUT_AREA else area, cell)
        lon, lat = replace_commas([lon, lat], delimiter)
        if is_missing(lon) or is_missing(lat):
            skipped["without a position"] += 1
        elif not cell:
            skipped["without a cell's number"] += 1
        elif key in known_keys:
            skipped["of a cell that stands there already"] += 1
        else:
            place = (
                _parse_degrees(source, line, "lon", lon, 180.0),
                _parse_degrees(source, line, "lat", lat, 90.0),
            )
            if place in _NOWHERE:
                skipped["without a position"] += 1
            else:
                known_keys.add(key)
                lon_lat_deg["-".join(identity)[:60]] = place
    if other_radios and not lon_lat_deg:
        problem = (
            f"no cell of {quote_text(radio or '')}; the file has {join_texts(list(other_radios))}"
        )
        raise BadInput(f"{source.path}: base_stations.radio: {problem}; name one of these")
    from pandas import DataFrame

    reasons = ", ".join(f"{n:,} {reason}" for reason, n in skipped.items())
    places_deg = DataFrame([*lon_lat_deg.values()], columns=["lon", "lat"], dtype=float)
    table = places_deg.assign(name=[*lon_lat_deg])
    notices = [notice("cells-are-centres", file=source.path, number=len(table))]
    if skipped:
        left_out = format_count(skipped.total(), "row")
        notices.append(notice("cells-left-out", file=source.path, rows=left_out, reasons=reasons))
    return Cells(table, notices)


def _read_station_list(path: str, pair: TextPair, band: str | None, columns: Headers) -> Cells:
    """The base stations of a list with a header; pair : its columns of positions."""
    read = read_number_table(path, _OF_LIST, pair, columns)
    table = read.reindex(columns=[*pair, *[*_OF_LIST][4:]])
    bands, names = (table.pop(text).astype(object).fillna("") for text in ("band", "name"))
    kept = table[(bands == band) | (band is None)]
    if kept.empty or (band is None and bands.nunique() > 1):
        known_bands = sorted(bands.unique())
        raise BadInput(
            f"{path}: base_stations.band: a radio has one carrier, and the file has cells of "
            f"{join_texts(known_bands)}; take one of these "
            f"(--set world.base_stations.band={known_bands[-1]})"
        )
    numbered = [f"cell{k}" for k in range(1, 1 + len(kept))]
    names = names[kept.index].mask(names == "", numbered)
    is_undirected = kept["tilt_deg"].notna() & kept["azimuth_deg"].isna()
    wrong = {
        "its name is that of a cell above, or too long; give it another": names.duplicated()
        | (names.str.len() > 60),
        "a tilt_deg needs an azimuth_deg; give both or neither": is_undirected,
    }
    for problem, rows in wrong.items():
        if rows.any():
            raise BadInput(f"{path}: line {rows.idxmax()}: {problem}")
    n_others = len(table) - len(kept)
    unread = [*read.attrs["unread"], *read.columns.difference([*table, "band", "name"])]
    notices = [notice("cells-of-other-bands", file=path, number=n_others)] if n_others else []
    near = {
        name: ours for name in unread for ours in _OF_LIST if ours.startswith(f"{name.lower()}_")
    }
    unread = [f"{name} (is it {near[name]}?)" if name in near else name for name in unread]
    if "samples" in map(str.lower, unread):
        notices.append(notice("cells-are-centres", file=path, number=len(kept)))
    if unread:
        notices.append(notice("cells-columns-unread", file=path, columns=join_texts(unread)))
    return Cells(kept.assign(name=names), notices)


def _find_columns(source: Source, line: int, header: Sequence[str]) -> list[int]:
    plain = {
        "".join(c for c in name.lower() if c.isalnum()): k
        for k, name in reversed(list(enumerate(header)))
    }
    places = []
    for ours, words in _WORDS.items():
        columns = [plain[word] for word in words.split() if word in plain]
        if not columns:
            problem = f"no column {ours!r}; OpenCelliD files start with {','.join(_ORDER)}"
            source.refuse(line, f"{problem}; here: {', '.join(header)[:100]}")
        places.append(columns[0])
    return places


def _parse_degrees(source: Source, line: int, name: str, text: str, limit: float) -> float:
    value = to_number(text)
    if not abs(value) <= limit:
        problem = f"{name} {quote_text(text)} must be a number from -{limit:g} to {limit:g}"
        source.refuse(line, f"{problem}; mend the row or cut it out")
    return value


class CellFile(Layout, kind="cell-file"):
    """Cells of a CSV: a list of base stations, or OpenCelliD's columns (radio, mcc, net, area,
    cell, lon, lat, ...).

    A list has a header with lat and lon, or x_m and y_m in the plane of the area, and, where they
    are known, name, azimuth_deg (none: isotropic), tilt_deg, height_m, power_dbm and band. Names
    that stand twice are refused, and headers that name another unit, as mast_ft does.

    OpenCelliD's file is read as it is downloaded: it may be packed (gzip), lack its header, have
    the API's names (mnc, lac, cellid), in capitals or not, and be separated by commas, semicolons
    or tabs; above there may be lines that begin with # and one sep=;. Rows without a position
    (none, or 0, 0 or -1, -1), rows without the number of a cell and repeated cells are left out; a
    run says how many. Cells are told apart by radio, network, area and number, those of LTE and NR
    whatever the tracking area. Their positions are centres of measurements and not those of masts:
    a run says so. Longitude and latitude are projected onto the local plane; without a replayed
    trace give the plane's origin. Cells further than `margin_m` outside of the area are left out
    and counted. Heights and powers that the file does not state are those of the layout.
    """

    file: FileName
    """path of the CSV"""
    radio: str | None = None
    """radio technology of the cells (GSM, UMTS, LTE, NR); none: all"""
    band: str | None = Field(None, min_length=1)
    """band of the cells, as the column band of a list calls it; others are left out and counted;
    none: there is one"""
    columns: dict[str, str] = Field(default_factory=dict)
    """our name: header, for headers of a list that are not called as ours"""
    origin_lat: float | None = Field(None, ge=-90, le=90)
    """latitude of the plane's (0, 0); none: that of the replayed trace"""
    origin_lon: float | None = Field(None, ge=-180, le=180)
    """longitude of the plane's (0, 0)"""
    height_m: Height = 25.0
    """antenna height above ground of cells without one"""
    power_dbm: CellPower = 15.0
    """reference-signal power per resource element of cells without one"""
    antenna: Pattern = Sector()
    """pattern of cells with an azimuth; a tilt_deg of the file takes the place of its own"""
    margin_m: float = Field(1000.0, ge=0, le=1e5)
    """largest distance of a cell outside the area, m; further cells are left out"""

    reference = "OpenCelliD database format, wiki.opencellid.org"
    example = {"kind": "cell-file", "file": "cells.csv"}

    def stations(self, area: Area, origin_deg: LatLon | None, site: Site | None = None) -> Stations:
        table = self._load_cells().table
        if self.origin_lat is not None and self.origin_lon is not None:
            stated_deg = self.origin_lat, self.origin_lon
            if (
                origin_deg is not None
                and measure_distance_m(stated_deg, origin_deg) > SAME_ORIGIN_M
            ):
                raise BadInput(
                    f"{self.file}: base_stations.origin_lat, origin_lon: the plane of "
                    f"the city or trace has another "
                    f"origin, {origin_deg[0]:.7g}, {origin_deg[1]:.7g}; leave them out"
                )
            origin_deg = stated_deg
        if "lon" in table:
            if origin_deg is None:
                raise BadInput(
                    f"{self.file}: where is the plane's origin? give base_stations.origin_lat and "
                    "origin_lon (a replayed trace with longitudes brings its own)"
                )
            position_m = project_lon_lat(table[["lon", "lat"]].to_numpy(), origin_deg)
            rest = table.drop(columns=["lon", "lat"])
            table = rest.assign(x_m=position_m[:, 0], y_m=position_m[:, 1])
        inside = area.grow(self.margin_m).contains(table[["x_m", "y_m"]].to_numpy())
        if not 0 < inside.sum() <= MAX_STATIONS:
            raise BadInput(
                f"{self.file}: {inside.sum()} of its {len(table)} cells lie within "
                f"{self.margin_m:g} m of the area (1 to {MAX_STATIONS} are usable); check the "
                "file's region, the origin and margin_m"
            )
        return tuple(map(self._build_station, table[inside].to_dict("records")))

    def _build_station(self, cell: dict[str, Any]) -> BaseStation:
        stated = {k: v for k, v in cell.items() if v == v}
        cell = {"height_m": self.height_m, "power_dbm": self.power_dbm} | stated
        tilt = {"tilt_deg": cell.pop("tilt_deg")} if "tilt_deg" in cell else {}
        if "azimuth_deg" in cell:
            cell |= {
                "azimuth_deg": cell["azimuth_deg"] % 360,
                "antenna": self.antenna.model_copy(update=tilt),
            }
        return BaseStation(position_m=(cell.pop("x_m"), cell.pop("y_m")), **cell)

    def notices(self, built: Built) -> Notices:
        cells = self._load_cells()
        yield from cells.notices
        if outside := len(cells.table) - len(built.stations):
            yield notice("cells-far", file=self.file, number=outside, margin_m=self.margin_m)

    def _load_cells(self) -> Cells:
        columns = tuple(self.columns.items())
        return _read_cached_cells(
            self.file, self.radio, self.band, columns, read_file_version(self.file)
        )


@lru_cache(maxsize=1)  # one file, so that places and notices read it once
def _read_cached_cells(
    path: str,
    radio: str | None,
    band: str | None,
    columns: tuple[TextPair, ...],
    version: IntPair,
) -> Cells:
    """The cells of a file; `version` tells a changed file from the one in memory."""
    try:
        return read_cells(path, radio, band, dict(columns))
    except OSError as error:
        raise BadInput(
            f"{path[:200]}: cannot be read ({error.strerror}); check base_stations.file"
        ) from None


LAYOUTS = OneOf("layout", Hexagonal, CellFile, Scattered)
