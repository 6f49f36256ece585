"""What figures are drawn from: a run, and its rows laid out in time.

Shapes: n_time rounds that have a row; n_track columns, each a (UE, model) pair or, in a comparison, a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from netsim.clock import Clock
from netsim.units import FloatArray, IntArray
from scenarios.draw import DARK, GREY, Figure, Interval, Look, spread
from scenarios.summary import with_home

Table = dict[str, NDArray[Any]]
Series = tuple[FloatArray, FloatArray]
"""Times and values (n_time,) each."""

SMALLEST_M = 0.1  # nearer than this is drawn at this: a logarithmic axis has no zero
WIDE_RANGE = 30.0  # ratio of largest to smallest beyond which an axis is logarithmic
GUESS, FLOOR = Look("random guesses", GREY, dash="dot"), Look("perfect attacker", DARK, dash="dash")


@dataclass(frozen=True)
class Run:
    """All that a page is drawn from: manifest, summary, study and tables; ground, surfaces, grid: map.npz,
    surfaces.npz and grid.npz, empty where there is none.
    """

    manifest: dict[str, Any]
    summary: dict[str, Any]
    study: dict[str, Any]
    tables: dict[str, Table]
    points_m: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    ground: dict[str, NDArray[Any]] = field(default_factory=dict)
    surfaces: dict[str, NDArray[Any]] = field(default_factory=dict)
    grid: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def attacks(self) -> list[str]:
        """Names of the attacks, in the order of the records."""
        said = [k.split(".")[1] for k in self.summary if k.startswith("attack.") and k.count(".") > 1]
        return list(dict.fromkeys([*map(str, self.tables["leakage"]["attack"]), *said]))

    @property
    def near_m(self) -> float:
        """What counts as knowing a place."""
        value = part(self.study, "learning", "leakage").get("near_m")
        return float(value) if isinstance(value, int | float) else 100.0

    @property
    def stations(self) -> list[tuple[str, float, float]]:
        """Name and place of each base station: those of a layout stand in map.npz, and their names in the manifest."""
        listed = part(self.study, "world").get("base_stations")
        if isinstance(listed, list) and listed:
            return [(str(s.get("name")), *s["at_m"]) for s in listed if _placed(s)]
        at_m, cells = self.ground.get("station_m", ()), self.manifest.get("cells")
        named = isinstance(cells, list) and len(cells) == len(at_m) and not self.replayed
        names = map(str, cells if named and cells is not None else range(len(at_m)))
        return [(name, float(x), float(y)) for name, (x, y) in zip(names, at_m, strict=True)]

    @property
    def replayed(self) -> bool:
        """Whether a trace replaced the radio: then its RSRP is of no base station that was placed."""
        card, serving = part(self.manifest, "channel_card"), self.tables["links"]["base_station"]
        from_trace = str(card.get("RSRP measurement")).startswith("read from the trace")
        return from_trace or (len(serving) > 0 and not any(serving))

    def requested_s(self, number: FloatArray) -> FloatArray:
        """When the server asked for the updates of rounds (n,), seconds: the same in every run of a study."""
        return np.minimum(number * float(self.manifest["round_s"]), float(self.manifest["duration_s"]))

    def rows(self, table: str, column: str = "", value: str = "") -> Table:
        """Rows of a table that have a time, a UE and a round; those with `value` in a text column."""
        columns = self.tables[table]
        keep = np.isfinite(columns["time_s"])
        for name in ("ue", "round"):
            if name in columns:
                keep &= np.isfinite(columns[name])
        if column:
            keep &= np.array([v == value for v in columns[column]], dtype=bool)
        return {k: v[keep] for k, v in columns.items()}

    def dates(self, time_s: FloatArray) -> list[str]:
        """Simulated local time, as plotly's date axes read it."""
        clock = clock_of(self.manifest)
        start = datetime.combine(clock.first_day, datetime.min.time())
        shown_s = clock.wall_s(np.asarray(time_s, dtype=np.float64))
        return [str((start + timedelta(seconds=float(t))).replace(microsecond=0)) for t in shown_s]


def clock_of(manifest: Mapping[str, Any]) -> Clock:
    """The wall clock of a run; one of an older run knows no changes. Raises ValueError for what is none."""
    changes = manifest.get("clock_changes", [])
    if not isinstance(changes, list) or not all(
        isinstance(change, list) and len(change) == 2 and all(isinstance(v, int | float) for v in change)
        for change in changes
    ):
        raise ValueError("clock_changes are no list of a time and a shift each")
    return Clock(date.fromisoformat(manifest["first_day"]), tuple((float(t), float(s)) for t, s in changes))


def part(inside: Any, *keys: str) -> dict[str, Any]:
    """A mapping inside mappings, or an empty one."""
    for key in keys:
        inside = inside.get(key) if isinstance(inside, dict) else None
    return inside if isinstance(inside, dict) else {}


def _placed(station: Any) -> bool:
    at = station.get("at_m") if isinstance(station, dict) else None
    return isinstance(at, list) and len(at) == 2 and all(isinstance(v, int | float) for v in at)


@dataclass(frozen=True)
class Tracks:
    """Rows laid out in time: a column of the table becomes (n_time, n_track), NaN where there is no row.

    time_s (n_time,) is that of each round's latest row, round its number.
    """

    rows: Table
    round: FloatArray
    time_s: FloatArray
    ue: FloatArray
    at: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, rows: Table, each: Literal["model", "ue"] = "model") -> Tracks:
        """One track per (UE, model); or per UE, for figures that are the same in all its models."""
        number, i = np.unique(rows["round"], return_inverse=True)
        time_s = np.full(len(number), -np.inf)
        np.maximum.at(time_s, i, rows["time_s"])
        keys, j = np.unique(
            rows["ue"] * 4096 + (np.nan_to_num(rows["model"]) if each == "model" else 0), return_inverse=True
        )
        return cls(rows, number, time_s, keys // 4096, (i, j))

    def lay(self, values: FloatArray) -> FloatArray:
        """Values of the rows as (n_time, n_track)."""
        grid = np.full((len(self.time_s), len(self.ue)), np.nan)
        grid[self.at] = values
        return grid

    def so_far(self, name: str) -> FloatArray:
        """A figure that lasts until the next one (n_time, n_track)."""
        return carried(self.lay(self.rows[name]))

    def error_m(self) -> FloatArray:
        """Centroid errors (n_time, n_track); one that diverged counts as infinite."""
        return self.lay(np.where(self.diverged, np.inf, self.rows["error_m"]))

    @property
    def diverged(self) -> Any:
        """Whether the estimate of a row is outside the area or not finite."""
        return (self.rows["heard"] == 1) & (self.rows["diverged"] == 1)


def carried(grid: FloatArray) -> FloatArray:
    """Each column's last known value (n_time, n_track); NaN before the first."""
    row = np.where(np.isnan(grid), -1, np.arange(len(grid))[:, None])
    last = np.maximum.accumulate(row, axis=0)
    return np.asarray(np.where(last < 0, np.nan, np.take_along_axis(grid, np.maximum(last, 0), axis=0)))


def quantile(grid: FloatArray, q: float) -> FloatArray:
    """Quantile over tracks (n_time,): NaN is left out, infinities take part."""
    if not grid.size:
        return np.full(len(grid), np.nan)
    ordered = np.sort(grid, axis=1)  # NaN comes last
    at = q * np.maximum((~np.isnan(grid)).sum(axis=1) - 1, 0)
    below, above = np.floor(at).astype(int), np.ceil(at).astype(int)
    every = np.arange(len(grid))
    low, high = ordered[every, below], ordered[every, above]
    with np.errstate(invalid="ignore"):  # infinity less infinity; such a quantile is infinite, see below
        between = low + (at - below) * (high - low)
    return np.asarray(np.where(above == below, low, np.where(np.isinf(high), np.inf, between)))


def quartiles(grid: FloatArray) -> Interval:
    """Lower quartile, median, upper quartile over tracks."""
    return quantile(grid, 0.25), quantile(grid, 0.5), quantile(grid, 0.75)


def count(grid: FloatArray) -> IntArray:
    """How many tracks have a figure (n_time,)."""
    return np.asarray((~np.isnan(grid)).sum(axis=1))


def median_line(look: Look, x: Sequence[Any], grid: FloatArray, unit: str = "m", **more: Any) -> list[Figure]:
    """Median and quartiles over tracks, or nothing where no median is known."""
    values = quartiles(grid)
    return spread(look, x, values, count(grid), unit, **more) if np.isfinite(values[1]).any() else []


def drawable(error_m: FloatArray) -> FloatArray:
    """Errors as a logarithmic axis can show them."""
    return np.maximum(error_m, SMALLEST_M)


def diagonal_m(manifest: Mapping[str, Any]) -> float:
    """The longest distance inside the area."""
    west, south, east, north = manifest["area_m"]
    return float(np.hypot(east - west, north - south))


DATES: Figure = {
    "type": "date", "title": {"text": "simulated local time"}, "hoverformat": "%a %Y-%m-%d %H:%M",
}  # fmt: skip


def attack_tracks(run: Run, own: Iterable[Look]) -> list[tuple[Look, Tracks]]:
    """Rows of each attack laid out in time; an attack without rows is left out."""
    found = [(look, run.rows("leakage", "attack", look.name)) for look in own]
    return [(look, Tracks.of(rows)) for look, rows in found if len(rows["ue"])]


def home_tracks(run: Run, own: Iterable[Look]) -> list[tuple[Look, Tracks]]:
    """The same with one track a UE, of those that have a home."""
    homes, found = with_home(run.tables["ues"]), []
    for look, tracks in attack_tracks(run, own):
        mine = np.isin(tracks.rows["ue"], homes)
        if mine.any():
            found.append((look, Tracks.of({k: v[mine] for k, v in tracks.rows.items()}, "ue")))
    return found


def unfound(distance_m: FloatArray) -> FloatArray:
    """Distances (n_time, n_ue) in which a UE of which nothing has been said yet is infinitely far."""
    return np.asarray(np.where(np.isnan(distance_m), np.inf, distance_m))


def over_ues(run: Run) -> str:
    """What medians are taken over."""
    return "Lines are medians over UEs, bands their quartiles. " if len(run.tables["ues"]["ue"]) > 1 else ""


def wide(values: FloatArray) -> bool:
    """Whether figures span so much that only a logarithmic axis shows them all."""
    positive = values[np.isfinite(values) & (values > 0)]
    return bool(len(positive)) and float(positive.max()) > WIDE_RANGE * float(positive.min())
