"""A run read back: manifest, summary, study, tables and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.clock import Clock
from netsim.columns import no_places
from netsim.units import FloatArray
from scenarios.app.results.summary_keys import ERROR_MEDIAN
from scenarios.app.study import Fields, Record

Table = dict[str, NDArray[Any]]


def where(rows: Table, some: Any) -> Table:
    """Some rows of a table, by flags, indices or a slice."""
    return {name: column[some] for name, column in rows.items()}


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that a page is made from: manifest, summary, study and tables; ground, surfaces, grid: map.npz,
    surfaces.npz and grid.npz, empty where there is none.
    """

    manifest: Fields
    summary: Fields
    study: Fields
    tables: dict[str, Table]
    ground: dict[str, NDArray[Any]] = field(default_factory=dict)
    surfaces: dict[str, NDArray[Any]] = field(default_factory=dict)
    grid: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def attacks(self) -> list[str]:
        """Names of the attacks, in the order of the records."""
        summarised = [name for key in self.summary if (name := ERROR_MEDIAN.name_in(key)) is not None]
        return list(dict.fromkeys([*map(str, self.tables["leakage"]["attack"]), *summarised]))

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each UE."""
        ues = self.tables["ues"]
        return {int(ue): str(name) for ue, name in zip(ues["ue"], ues["name"], strict=True) if np.isfinite(ue)}

    @property
    def hit_radius_m(self) -> float:
        """Within this distance a place is found."""
        value = part(self.study, "learning", "leakage").get("hit_radius_m")
        return float(value) if isinstance(value, int | float) else 100.0

    @property
    def stations(self) -> list[tuple[str, float, float]]:
        """Name and place of each base station of map.npz; numbers for names where cells are those of a trace."""
        at_m = self.ground.get("station_m", no_places())
        cells = self.manifest.get("cells", [])
        names = range(len(at_m)) if self.replayed or len(cells) != len(at_m) else cells
        return [(str(name), float(x), float(y)) for name, (x, y) in zip(names, at_m, strict=True)]

    @property
    def replayed(self) -> bool:
        """Whether a trace replaced the radio: then its RSRP is of no base station that was placed."""
        card = part(self.manifest, "channel_card")
        serving = self.tables["links"]["base_station"]
        from_trace = str(card.get("RSRP measurement")).startswith("read from the trace")
        return from_trace or (len(serving) > 0 and not any(serving))

    def moment_s(self, number: FloatArray) -> FloatArray:
        """When rounds (n,) were merged, seconds."""
        rounds = self.rows("rounds")
        return np.interp(number, rounds["round"], rounds["time_s"]) if len(number) else number

    def rows(self, table: str, column: str = "", value: str = "") -> Table:
        """Rows of a table that have a time, a UE and a round; those with `value` in a text column."""
        columns = self.tables[table]
        keep = np.isfinite(columns["time_s"])
        for name in ("ue", "round"):
            if name in columns:
                keep &= np.isfinite(columns[name])
        if column:
            keep &= np.array([v == value for v in columns[column]], dtype=bool)
        return where(columns, keep)

    def dates(self, time_s: FloatArray) -> list[str]:
        """Simulated local time, as plotly's date axes read it."""
        clock = clock_of(self.manifest)
        start = datetime.combine(clock.first_day, datetime.min.time())
        shown_s = clock.wall_s(np.asarray(time_s, dtype=np.float64))
        return [str((start + timedelta(seconds=float(t))).replace(microsecond=0)) for t in shown_s]


def clock_of(manifest: Record) -> Clock:
    """The wall clock of a run."""
    changes = manifest.get("clock_changes", [])
    return Clock(date.fromisoformat(manifest["first_day"]), tuple((float(t), float(s)) for t, s in changes))


def part(inside: Any, *keys: str) -> Fields:
    """A mapping inside mappings, or an empty one."""
    for key in keys:
        inside = inside.get(key) if isinstance(inside, dict) else None
    return inside if isinstance(inside, dict) else {}


# -- the table tracking

FILTER = "filter"
SMOOTHER = "smoother"
PLAIN = "plain"
PRIOR = "prior"
KINDS = (PLAIN, FILTER, SMOOTHER, PRIOR)
"""the wrapped attack alone; what the tracker knows in a round; what it knows of it at the end; the prior alone"""


def tracking_attacks(run: Run) -> list[str]:
    """Attacks that track, in the order of the records."""
    return list(dict.fromkeys(map(str, run.rows("tracking")["attack"])))


def tracked(run: Run, attack: str) -> dict[str, Table]:
    """Rows of the filter and of the smoother of an attack."""
    rows = run.rows("tracking", "attack", attack)
    return {kind: where(rows, rows["hindsight"] == flag) for flag, kind in enumerate((FILTER, SMOOTHER))}


def of_kind(rows: Mapping[str, Table], kind: str, column: str) -> tuple[Table, FloatArray]:
    """Rows that know a quantity (`error_m`, `near`, `expected_distance_m`) of one of KINDS, and their values."""
    if kind in rows:
        return rows[kind], rows[kind][column]
    return rows[FILTER], rows[FILTER][f"{kind}_{column}"]


def known_hours(run: Run, rows: Mapping[str, Table], kind: str) -> tuple[FloatArray, FloatArray]:
    """Numbers of rounds (n,), and the hours (n,) of a UE up to each in which it was known within leakage.hit_radius_m.

    Mean over all UEs with a row; a row stands for the window of its round.
    """
    table, near = of_kind(rows, kind, "near")
    number, at = np.unique(table["round"], return_inverse=True)
    n_ue = len(np.unique(np.concatenate([of["ue"] for of in rows.values()])))
    hours = np.bincount(at, near == 1, minlength=len(number)) * float(run.manifest["round_s"]) / 3600.0
    return number, np.cumsum(hours) / max(n_ue, 1)
