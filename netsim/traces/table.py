"""Fixes of a trace file: formats hand over raw columns, which are checked here, and become one
table.

In memory a row takes 32 bytes (time 8, user 4, place 16, line 4), 4 more while it is read (its
track), and 8, 4 and 8 more for RSRP, cell and accuracy where the file has them; names are held
once.

A row that would make the trace wrong (no time, a place that cannot be, time running backwards)
stops the reading. One without a place or a user, or without a signal that the file has for others,
is left out and counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import pairwise

import numpy as np

from netsim.columns import Columns, frozen
from netsim.errors import BadInput, format_count
from netsim.maps import convert_to_lon_lat, project_lon_lat
from netsim.notice import Notice, list_doubts, notice
from netsim.traces.values import (
    EASTING_M,
    LATEST_EPOCH_S,
    NORTHING_M,
    RELATIVE_BELOW_S,
    Codes,
    Column,
    NameCodes,
    Refused,
    Times,
    is_missing,
    join_texts,
    normalise_id,
    parse_bounded,
    quote_text,
    renumber_names,
    replace_commas,
    suggest_remedy,
    to_number,
    to_numbers,
)
from netsim.units import (
    BoolArray,
    FloatArray,
    FloatQuadruple,
    IntArray,
    IntPair,
    LatLon,
    TextPair,
    Texts,
)

AUTO = "auto"
LOCAL = "local"
GLOBE = "EPSG:4326"
DEGREES = ("lat", "lon")
METRES = ("x_m", "y_m")
Box = FloatQuadruple
RawColumns = dict[str, Column]
_ON_A_SIDE = 33  # points of an outline; straight sides in degrees are curves in the plane


@frozen
class Plane:
    """Points (n, 2) in metres east and north, and latitude and longitude of (0, 0), None for a
    local plane.
    """

    xy_m: FloatArray
    origin_deg: LatLon | None

    @property
    def lon_deg(self) -> float | None:
        """Longitude of (0, 0), None for a local plane."""
        return None if self.origin_deg is None else self.origin_deg[1]


@dataclass(frozen=True)
class Coordinates:
    """System of places (n, 2): latitude and longitude on WGS84 (`EPSG:4326`), or metres east and
    north of the projected system `crs` (``EPSG:25832``), or of a plane without a place on the globe
    (None), which a user named or not.
    """

    crs: str | None
    named: bool = False

    @classmethod
    def from_names(cls, path: str, names: TextPair, crs: str) -> Coordinates:
        """The coordinates of a file that has degrees or metres, where a user asks for `crs`. Raises
        `BadInput`.
        """
        if names == DEGREES and crs not in (AUTO, GLOBE):
            raise BadInput(
                f"{path}: crs: {crs} is metres, but the file has latitude and longitude; use auto"
            )
        if names == METRES and crs == GLOBE:
            raise BadInput(
                f"{path}: crs: {crs} is degrees, but the file has metres; use local, or "
                f"a system in metres"
            )
        return cls(
            GLOBE if names == DEGREES else None if crs in (AUTO, LOCAL) else crs, crs != AUTO
        )

    @property
    def names(self) -> TextPair:
        """Our names of the two columns, in the order of a box's corners."""
        if self.crs == GLOBE:
            return DEGREES
        return METRES

    def to_plane(self, place: FloatArray, origin_deg: LatLon | None = None) -> Plane:
        """The places in local metres: an azimuthal equidistant projection on WGS84 around their
        median, or around the origin of another plane. Metres of a local plane are not changed.
        """
        if self.crs is None:
            return Plane(place, None)
        if self.crs == GLOBE:
            lon_lat = place[:, ::-1]
        else:
            lon_lat = convert_to_lon_lat("crs", self.crs, place)
        if np.ptp(lon_lat[:, 0]) > 180.0:  # the rows straddle the antimeridian
            lon_lat = np.column_stack([lon_lat[:, 0] % 360.0, lon_lat[:, 1]])
        lon, lat = np.median(lon_lat, axis=0).tolist()
        lat, lon = (lat, lon) if origin_deg is None else origin_deg
        return Plane(project_lon_lat(lon_lat, (lat, lon)), (lat, (lon + 180.0) % 360.0 - 180.0))

    def describe_extent(self, place: FloatArray) -> str:
        (first, second) = place.min(axis=0)
        (first_end, second_end) = place.max(axis=0)
        if self.crs == GLOBE:
            return f"lat {first:.5f} to {first_end:.5f}, lon {second:.5f} to {second_end:.5f}"
        return f"x {first:.1f} to {first_end:.1f} m, y {second:.1f} to {second_end:.1f} m"


def check_crs(path: str, crs: str) -> None:
    """Raises `BadInput` unless `crs` is auto, local, EPSG:4326 or the code of a projected system in
    metres.
    """
    if crs in (AUTO, LOCAL, GLOBE):
        return
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    remedy = (
        "use auto, local, EPSG:4326 for degrees, or a projected system in metres such as EPSG:25832"
    )
    word, _, code = crs.partition(":")
    try:
        system = CRS.from_epsg(int(code) if word.upper() == "EPSG" else -1)
    except (CRSError, ValueError):
        raise BadInput(f"{path}: crs: {crs!r} is no known EPSG code; {remedy}") from None
    if not system.is_projected or any(axis.unit_name != "metre" for axis in system.axis_info):
        raise BadInput(
            f"{path}: crs: {crs!r} is {system.name}, not a projected system in metres; {remedy}"
        )


def sample_box_border(box: Box) -> FloatArray:
    """Points (132, 2) along the border of a box (low, low, high, high), alike on all sides."""
    places = ((0, 1), (2, 1), (2, 3), (0, 3), (0, 1))
    corners = np.array([(box[i], box[j]) for i, j in places])
    return np.concatenate([np.linspace(*side, _ON_A_SIDE) for side in pairwise(corners)])


def look_like_degrees(x: FloatArray, y: FloatArray) -> bool:
    """Whether x and y may be longitude and latitude."""
    return bool(np.all(np.abs(x) <= 180.0) and np.all(np.abs(y) <= 90.0))


RSRP_BOUNDS_DBM = (-160.0, -20.0)
PLACES = {
    "lat": (-90.0, 90.0),
    "lon": (-180.0, 180.0),
    "x_m": (-EASTING_M, EASTING_M),
    "y_m": (-NORTHING_M, NORTHING_M),
}
BOUNDS = {**PLACES, "time_s": (0.0, LATEST_EPOCH_S), "accuracy_m": (0.0, 1e7)}
# how apps write an unknown level: 0, and Android's CellInfo.UNAVAILABLE
_NO_LEVELS = (0, 2_147_483_647)
_CHECK = (
    "check those columns of the file (a level is a number in dBm, such as -95 or -95 dBm; "
    "--columns rsrp_dbm=HEADER, cell=HEADER name others)"
)
_LISTED = 255  # cells that a list may number from 0
_MANY = 10  # rows that run backwards, from which on the whole file does
_CODES = ("line", "track", "user", "cell")


@frozen
class FixRows(Columns):
    """Fixes in the order of the file.

    user (n,), cell (n,) : numbers of names. time_s (n,) since 1970-01-01 UTC, or since a midnight
    without a date. place (n, 2) : finite and within bounds. line (n,) : in the user's file. None: a
    column the file lacks.
    """

    user: Codes
    time_s: FloatArray
    place: FloatArray
    line: Codes
    rsrp_dbm: FloatArray | None = None
    cell: Codes | None = None
    accuracy_m: FloatArray | None = None


@frozen
class TrackPoints(Columns):
    """Points (n,) of a user on the globe: the line of each, NaN for a missing coordinate.

    segment (n,) : numbers of pieces within which time may not run backwards; None: they are one.
    """

    line: Column
    time_s: FloatArray
    lat_deg: FloatArray
    lon_deg: FloatArray
    segment: IntArray | None = None

    def to_key(self) -> tuple[bytes, ...]:
        """Equal for copies."""
        return self.time_s.tobytes(), self.lat_deg.tobytes(), self.lon_deg.tobytes()


@dataclass(frozen=True)
class Label:
    """A place of a user that the phone itself calls `what`, home or work, in degrees."""

    user: str
    what: str
    lat: float
    lon: float


@frozen
class TraceTable:
    """The fixes of a file or folder.

    path, format : as it was named, and what it was read as. users, cells : names, in order of first
    appearance. left_out : reason -> rows that are not here. facts : what a format says of the file,
    by a word, for `netsim inspect`; notices : how it was read, and doubts about columns that are
    probably wrong. labels : homes and workplaces that the file names.
    """

    path: str
    format: str
    fixes: FixRows
    users: Texts
    cells: Texts
    coordinates: Coordinates
    left_out: dict[str, int]
    facts: dict[str, str]
    notices: tuple[Notice, ...]
    labels: tuple[Label, ...] = ()

    def __len__(self) -> int:
        return len(self.fixes.time_s)

    @property
    def n_read(self) -> int:
        return len(self) + sum(self.left_out.values())

    @property
    def relative(self) -> bool:
        """Whether times are so small that they count from a midnight of their own (below 1e8 s,
        March 1973).
        """
        return self.fixes.time_s.max() < RELATIVE_BELOW_S

    def choose_zone(self, name: str) -> str:
        """The name of the zone of local time, where a user asks for a name or for `auto`."""
        if self.relative:
            return "UTC"
        return self.facts.get("zone", AUTO) if name == AUTO else name

    def keep_rows(self, is_kept: BoolArray, reason: str) -> TraceTable:
        """The table with those rows (n,); the others are counted under the reason."""
        n = (~is_kept).sum()
        left_out = self.left_out | {reason: self.left_out.get(reason, 0) + n}
        return replace(
            self, fixes=self.fixes.select(is_kept) if n else self.fixes, left_out=left_out
        )

    def format_reasons(self) -> str:
        return ", ".join(f"{reason} {n:,}" for reason, n in self.left_out.items() if n)


class FixBuilder:
    """Checks the columns of a file, piece by piece, and makes a table of them.

    zone : of times of day without one. dates : see `Times`. guesses : whether a format may guess
    what was not stated. header_of : our name -> header in the file. facts, notices, left_out : see
    `TraceTable`; a format fills in what it knows. labels : by home or work. is_sorted : time that
    runs backwards is refused, not sorted.
    """

    is_sorted = True

    def __init__(self, path: str, crs: str, zone: tzinfo | None) -> None:
        self.path = path
        self.crs = crs
        self.zone = zone
        self.dates = "auto"
        self.guesses = False
        self.header_of: dict[str, str] = {}
        self.facts: dict[str, str] = {}
        self.notices: list[Notice] = []
        self.left_out: Counter[str] = Counter()
        self.labels: dict[str, Label] = {}
        self._names = {"user": NameCodes(), "cell": NameCodes(normalise_id)}
        self._users: dict[TextPair, int] = {}
        self._times: Times | None = None
        self._pieces: defaultdict[str, list[Column]] = defaultdict(list)
        # the number of rows before each piece, and its file
        self._files: list[tuple[int, str]] = []
        self._n_rows = self._n_tracks = 0

    def number_user(self, name: str, longer: str = "") -> int:
        """The number of a user, who is called by the longer name where several have the name."""
        return self._users.setdefault((name, longer), len(self._users))

    def add_rows(
        self,
        file: str,
        line: Sequence[int] | Column,
        columns: Mapping[str, list[str] | Column],
        delimiter: str = "",
    ) -> None:
        """Check and keep rows of a file. Raises `BadInput` with one line.

        line (n,) : of each row. columns : `user`, `time_s`, and `lat` and `lon` or `x_m` and `y_m`;
        also `rsrp_dbm`, `cell`, `accuracy_m` and `track`, within which time may not run backwards
        (default: the user). Each is a list of texts, or an array (n,): of finite numbers, NaN where
        missing, and for users of the numbers of `user`.
        """
        if not len(line):
            return
        self._files.append((self._n_rows, file))
        self._n_rows += len(line)
        for ours, values in {"line": np.asarray(line), **columns}.items():
            try:
                if isinstance(values, list):
                    column = self._parse_column(ours, values, line[0], delimiter)
                else:
                    column = values
                _check_bounds(ours, column)
            except Refused as refusal:
                header = quote_text(self.header_of.get(ours, ours), quote=False)
                raise BadInput(
                    f"{file}: line {line[refusal.row]}, column {header}: {refusal}"
                ) from None
            except (TypeError, AttributeError):
                raise BadInput(
                    f"{file}: column {ours}: holds values that are neither text nor numbers"
                ) from None
            self._pieces[ours].append(
                column.astype(np.int32 if ours in _CODES else np.float64, copy=False)
            )

    def add_track(self, file: str, user: int, points: TrackPoints) -> None:
        """Check and keep a track of a user."""
        n = len(points.line)
        segment = points.segment
        if segment is None:
            segment = np.zeros(n, int)
        track = self._n_tracks + segment
        self._n_tracks += 1 + int(segment.max(initial=0))
        places = {"lat": points.lat_deg, "lon": points.lon_deg}
        self.add_rows(
            file,
            points.line,
            {"user": np.full(n, user), "track": track, "time_s": points.time_s, **places},
        )

    def build_table(self, format: str) -> TraceTable:
        """The table of all rows. Raises `BadInput` where none is usable, or where time runs
        backwards.
        """
        if not self._n_rows:
            raise BadInput(
                f"{self.path}: no row has a position with a time; give a {format} file "
                f"that has some"
            )
        columns = {ours: np.concatenate(self._pieces.pop(ours)) for ours in list(self._pieces)}
        if self._times is not None:
            columns["time_s"] = self._times.settle_passes(columns["time_s"], columns["user"])
            self.notices += self._times.notices
        if "accuracy_m" in columns:
            self.notices.append(notice("trace-accuracy-unused"))
        users = self._name_users() if self._users else self._name_codes("user", columns)
        n_alike = Counter(map(str.casefold, users))
        cells = self._name_codes("cell", columns) if "cell" in columns else ()
        if alike := [name for name in users if n_alike[name.casefold()] > 1]:
            text = f"{join_texts(alike[:4])}{', ...' * (len(alike) > 4)}"
            self.notices.append(notice("trace-users-alike", users=text))
        columns = self._order_rows(self._drop_unplaced(format, columns))
        names = DEGREES if "lat" in columns else METRES
        place = np.column_stack([columns.pop(name) for name in names])
        fixes = FixRows(
            user=columns["user"],
            time_s=columns["time_s"],
            place=place,
            line=columns["line"],
            rsrp_dbm=columns.get("rsrp_dbm"),
            cell=columns.get("cell"),
            accuracy_m=columns.get("accuracy_m"),
        )
        coordinates = Coordinates.from_names(self.path, names, self.crs)
        table = TraceTable(
            path=self.path,
            format=format,
            fixes=fixes,
            users=users,
            cells=cells,
            coordinates=coordinates,
            left_out=dict(self.left_out),
            facts=self.facts,
            notices=tuple(self.notices),
            labels=tuple(self.labels.values()),
        )
        return _keep_usable(table)

    def _parse_column(self, ours: str, text: list[str], line: int, delimiter: str) -> Column:
        """Numbers of texts, the first of which stands in a line."""
        if ours in self._names:
            return self._names[ours].number_names(text)
        text = replace_commas(text, delimiter)
        if ours in (*PLACES, "accuracy_m"):
            return parse_bounded(text, *BOUNDS[ours])
        if ours == "rsrp_dbm":
            return to_numbers([value.removesuffix("dBm") for value in text])
        if self._times is None:
            self._times = Times(self.zone, self.header_of.get(ours, ""), self.dates)
        return self._times.read_times(text, line)

    def _name_codes(self, ours: str, columns: RawColumns) -> Texts:
        """The names of users or cells; rows without one get the number -1."""
        names = self._names[ours]
        if names.n_joined:
            header = self.header_of.get(ours, ours)
            self.notices.append(
                notice(
                    "trace-names-joined", names=format_count(names.n_joined, "name"), header=header
                )
            )
        # 0 is unknown among numbers of a network, which unlike a list have no 1
        known_names = names.list_names()
        if (
            ours == "cell"
            and "1" not in known_names
            and any(to_number(name) > _LISTED for name in known_names)
        ):
            none = "0"
        else:
            none = ""
        is_given = [not is_missing(name) and name != none for name in known_names]
        named, columns[ours] = renumber_names(known_names, columns[ours], is_given)
        return named

    def _name_users(self) -> Texts:
        """The names of users that formats number themselves, the longer ones where several are
        equal.
        """
        n_of = Counter(name for name, _ in self._users)
        equal = [user for user in self._users if n_of[user[0]] > 1]
        if equal:
            called = join_texts([f"{name}: {longer}" for name, longer in equal[:3]])
            self.notices.append(notice("trace-users-equal", number=len(equal), users=called))
        return tuple(longer if n_of[name] > 1 else name for name, longer in self._users)

    def _drop_unplaced(self, format: str, columns: RawColumns) -> RawColumns:
        """The columns without rows that have no place or no user; those get their number in the
        file as `row`.
        """
        placed = np.logical_and.reduce(
            [np.isfinite(columns[name]) for name in PLACES if name in columns]
        )
        is_usable = placed & (columns["user"] >= 0)
        if not is_usable.any():
            missing = "a user" if placed.any() else "a position with a time"
            raise BadInput(f"{self.path}: no row has {missing}; give a {format} file that has some")
        self.left_out["position_missing"] += (~placed).sum()
        self.left_out["user_missing"] += (placed & ~is_usable).sum()
        columns["row"] = np.arange(len(is_usable))
        if is_usable.all():
            return columns
        return {ours: column[is_usable] for ours, column in columns.items()}

    def _order_rows(self, columns: RawColumns) -> RawColumns:
        """The columns from the end, where that is their order of time. Raises `BadInput` where they
        have none.
        """
        track = columns.get("track", columns["user"])
        time_s = columns["time_s"]
        if not self.is_sorted:
            order = np.lexsort((time_s, columns["user"]))
            return {ours: column[order] for ours, column in columns.items()}
        back = find_backwards(track, time_s)
        if back is None:
            return columns
        if len(time_s) >= _MANY and find_backwards(track[::-1], time_s[::-1]) is None:
            self.notices.append(notice("trace-reversed"))
            return {ours: column[::-1] for ours, column in columns.items()}
        before, after = columns["line"][list(back)]
        row = columns["row"][back[1]]
        file = next(file for first, file in reversed(self._files) if first <= row)
        place = (
            f"{file}: line {after}, column "
            f"{quote_text(self.header_of.get('time_s', 'time_s'), quote=False)}"
        )
        raise BadInput(
            f"{place}: its time is before that of line {before}, of the same user; sort the rows "
            f"of each user by time"
        )


def _check_bounds(ours: str, value: Column) -> None:
    """Raise `Refused` at a number out of bounds, or a missing time."""
    low, high = BOUNDS.get(ours, (-np.inf, np.inf))
    bad = (value < low) | (value > high)
    bad |= np.isnan(value) & (ours == "time_s")
    if bad.any():
        row = int(bad.argmax())
        raise Refused(
            row,
            f"{value[row]:g} is not a number in [{low:g}, {high:g}]; "
            f"{suggest_remedy(value[row], high)}",
        )


def _keep_usable(table: TraceTable) -> TraceTable:
    """The rows that have all the signals that the file has."""
    if table.fixes.cell is not None:
        table = table.keep_rows(table.fixes.cell >= 0, "cell_missing")
    if table.fixes.rsrp_dbm is not None:
        is_known = ~np.isin(np.nan_to_num(table.fixes.rsrp_dbm), _NO_LEVELS)
        table = table.keep_rows(is_known, "rsrp_missing")
        low, high = RSRP_BOUNDS_DBM
        rsrp_dbm = np.asarray(table.fixes.rsrp_dbm)
        line = table.fixes.line
        table = table.keep_rows((rsrp_dbm >= low) & (rsrp_dbm <= high), "rsrp_out_of_range")
        if len(rsrp_dbm) and not len(table):
            wrong = f"rsrp_dbm {rsrp_dbm[0]:g} of line {line[0]} is not in [{low:g}, {high:g}] dBm"
            if rsrp_dbm[0] > 0:
                remedy = "is the sign missing, or is it ASU (LTE: RSRP + 140)? correct the column"
            else:
                remedy = "correct the column"
            raise BadInput(
                f"{table.path}: no row is usable ({table.format_reasons()}): {wrong}; {remedy}"
            )
    if not len(table):
        check = "; ".join((_CHECK, *list_doubts(table.notices)))
        raise BadInput(f"{table.path}: no row is usable ({table.format_reasons()}); {check}")
    return table


def find_backwards(track: Column, time_s: FloatArray) -> IntPair | None:
    """The rows (before, after) of a track between which time runs backwards; equal times are
    fine.
    """
    if np.all(time_s[1:] >= time_s[:-1]):
        return None
    order = np.argsort(track, kind="stable")
    track = track[order]
    time_s = time_s[order]
    is_same = track[1:] == track[:-1]
    back = np.flatnonzero(is_same & (time_s[1:] < time_s[:-1]))
    if back.size:
        return (order[back[0]], order[back[0] + 1])
    return None
