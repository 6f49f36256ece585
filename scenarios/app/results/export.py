"""Tracks and places of a run for maps elsewhere: GeoJSON, coordinates on WGS84."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.clock import last_multiple
from netsim.errors import BadInput
from netsim.maps import on_globe
from netsim.units import FloatArray
from scenarios.app.results.read import Run, Table, where
from scenarios.app.study import Fields

_DECIMALS = 7  # of degrees: 1 cm
BEGINNING = b'{"type":"FeatureCollection","netsim_origin":'
"""the first bytes of every file that is written here, by which it may be replaced"""

Feature = Fields


@dataclass(frozen=True, eq=False)
class Globe:
    """The globe under the plane of a run: its place at_m (2,) lies at latitude and longitude
    origin_deg.

    folder : of the run, for messages. known : whether the run says where it lies.
    """

    folder: Path
    origin_deg: tuple[float, float]
    at_m: FloatArray
    known: bool

    @classmethod
    def of(cls, folder: Path, run: Run, origin_deg: tuple[float, float] | None) -> Globe:
        """That of a run; of one that is nowhere on the globe, with its south-west corner at
        origin_deg or 0 N 0 E.
        """
        if run.manifest.origin_deg is None:
            return cls(
                folder, origin_deg or (0.0, 0.0), np.array(run.manifest.area_m[:2]), known=False
            )
        lat, lon = run.manifest.origin_deg
        if origin_deg is not None:
            raise BadInput(
                f"--origin: {folder} has a place on the globe ({lat:.6f}, {lon:.6f}); leave it out"
            )
        return cls(folder, (lat, lon), np.zeros(2), known=True)

    def lon_lat(self, position_m: FloatArray) -> list[list[float]]:
        """Longitude and latitude of positions (n, 2)."""
        degrees = on_globe(position_m - self.at_m, self.origin_deg)
        if not np.isfinite(degrees).all():
            far = position_m[~np.isfinite(degrees).all(axis=1)][0]
            raise BadInput(
                f"{self.folder}: the position {far[0]:g}, {far[1]:g} m in its records is beyond "
                "the globe; run the study again"
            )
        rounded: list[list[float]] = np.round(degrees, _DECIMALS).tolist()
        return rounded


def _stretches(run: Run) -> Iterator[Table]:
    """Rows of `tracks` from when a UE came until it left, UE by UE: two at least, as a line has two
    ends.

    At the end of the run a UE is still where its last row is.
    """
    rows = run.rows("tracks")
    every_s = run.manifest.tracks.every_s
    end_s = last_multiple(run.manifest.duration_s, every_s) * every_s
    there = np.asarray(np.isfinite(_at_m(rows)).all(axis=1))
    for ue in np.unique(rows["ue"]):
        own = np.flatnonzero(rows["ue"] == ue)
        for piece in np.split(own, np.flatnonzero(~there[own])):
            mine = piece[there[piece]]
            if not len(mine):
                continue
            stays = mine[-1] == own[-1] and rows["time_s"][mine[-1]] < end_s
            stretch = where(rows, np.append(mine, mine[-1]) if stays or len(mine) == 1 else mine)
            if stays:
                stretch["time_s"][-1] = end_s
            yield stretch


def _at_m(rows: Table) -> FloatArray:
    return np.column_stack([rows["x_m"], rows["y_m"]])


def geojson_text(run: Run, globe: Globe) -> str:
    """Tracks as lines with the local time at each vertex; homes, workplaces, base stations and
    named places.

    RFC 7946; how the plane was put on the globe stands in a member of its own, which readers pass
    over.
    """
    tracks = [
        _feature(
            "LineString",
            globe.lon_lat(_at_m(rows)),
            kind="track",
            **_ue(run, rows["ue"][0]),
            times=_local_times(run, rows["time_s"]),
            indoor=(rows["indoor"] == 1).tolist(),
        )
        for rows in _stretches(run)
    ]
    lat, lon = globe.origin_deg
    origin: Fields = {"lat": lat, "lon": lon}
    if not globe.known:
        origin["note"] = (
            "the area of this run is nowhere on the globe: its south-west corner was "
            "put at this origin"
        )
    features = [*tracks, *_places(run, globe)]
    whole = {"type": "FeatureCollection", "netsim_origin": origin, "features": features}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _places(run: Run, globe: Globe) -> Iterator[Feature]:
    """Homes, workplaces, densest places, base stations, and the places that attacks name at the end
    of the run.
    """
    for kind, column in (("home", "home"), ("workplace", "work"), ("densest place", "densest")):
        for ue, *at_m in _known(run.tables["ues"], "ue", f"{column}_x_m", f"{column}_y_m"):
            yield _point(globe, at_m, kind=kind, **_ue(run, ue))
    for name, *at_m in run.stations:
        yield _point(globe, at_m, kind="base station", name=name)
    for ue, rank, x_m, y_m, attack in _known(
        run.tables["named"], "ue", "rank", "x_m", "y_m", text="attack"
    ):
        yield _point(
            globe, [x_m, y_m], kind="named place", attack=attack, rank=int(rank), **_ue(run, ue)
        )


def _known(rows: Table, *columns: str, text: str = "") -> Iterator[tuple[float, ...]]:
    """Cells of rows in which all these numbers are known, and of a column of texts."""
    known = where(rows, np.asarray(np.isfinite([rows[name] for name in columns]).all(axis=0)))
    return zip(*(known[name].tolist() for name in (*columns, text) if name), strict=True)


def _point(globe: Globe, at_m: Sequence[float], **properties: object) -> Feature:
    return _feature("Point", globe.lon_lat(np.array([at_m]))[0], **properties)


def _feature(shape: str, coordinates: Sequence[object], **properties: object) -> Feature:
    return {
        "type": "Feature",
        "geometry": {"type": shape, "coordinates": coordinates},
        "properties": properties,
    }


def _ue(run: Run, ue: float) -> Fields:
    """Number and name of a UE."""
    return {"ue": int(ue), "name": run.names.get(int(ue), str(int(ue)))}


def _local_times(run: Run, time_s: FloatArray) -> list[str]:
    """What the wall clock shows: 2026-01-05T07:30:00."""
    shown_s = np.floor(run.manifest.clock.wall_s(time_s)).astype("timedelta64[s]")
    return [str(t) for t in np.datetime64(run.manifest.first_day, "s") + shown_s]
