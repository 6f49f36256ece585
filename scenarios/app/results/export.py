"""Tracks and places of a run for maps elsewhere: GeoJSON, the trips of kepler.gl, a flat CSV; coordinates on WGS84."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.maps.plane import on_globe
from netsim.multiples import last_multiple
from netsim.record import column_text
from netsim.units import FloatArray
from scenarios.app.results.run import Run, clock_of

_DECIMALS = 7  # of degrees: 1 cm
BEGINNINGS = (b'{"type":"FeatureCollection","netsim_origin":', b"ue,name,time_s,local_time,lat,lon,indoor\n")
"""the first bytes of every file that is written here, by which it may be replaced"""
_NOWHERE = "is nowhere on the globe: its south-west corner was put at this origin"

Feature = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Globe:
    """The globe under the plane of a run: its place at_m (2,) lies at latitude and longitude origin_deg.

    folder : of the run, for messages. known : whether the run says where it lies.
    """

    folder: Path
    origin_deg: tuple[float, float]
    at_m: FloatArray
    known: bool

    @classmethod
    def of(cls, folder: Path, run: Run, origin_deg: tuple[float, float] | None) -> Globe:
        """That of a run; of one that is nowhere on the globe, with its south-west corner at origin_deg or 0 N 0 E."""
        own = run.manifest.get("origin_deg")
        if own is None:
            corner_m = np.array(run.manifest["area_m"][:2], dtype=np.float64)
            return cls(folder, origin_deg or (0.0, 0.0), corner_m, known=False)
        lat, lon = map(float, own)
        if origin_deg is not None:
            raise BadInput(f"--origin: {folder} has a place on the globe ({lat:.6f}, {lon:.6f}); leave it out")
        return cls(folder, (lat, lon), np.zeros(2), known=True)

    def lon_lat(self, position_m: FloatArray) -> list[list[float]]:
        """Longitude and latitude of positions (n, 2)."""
        degrees = on_globe(position_m - self.at_m, self.origin_deg)
        if not np.isfinite(degrees).all():
            far = position_m[~np.isfinite(degrees).all(axis=1)][0]
            raise BadInput(
                f"{self.folder}: the position {far[0]:g}, {far[1]:g} m in its records is beyond the globe; run the "
                "study again"
            )
        rounded: list[list[float]] = np.round(degrees, _DECIMALS).tolist()
        return rounded


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Where a UE was from when it came until it left: time_s (n,), at_m (n, 2), indoor (n,); n is at least 2."""

    ue: int
    time_s: FloatArray
    at_m: FloatArray
    indoor: FloatArray


def _stretches(run: Run) -> Iterator[_Stretch]:
    """All tracks, UE by UE, cut where a UE was absent."""
    rows, every_s = run.rows("tracks"), float(run.manifest["tracks"]["every_s"])
    end_s = last_multiple(float(run.manifest["duration_s"]), every_s) * every_s
    position_m = np.column_stack([rows["x_m"], rows["y_m"]])
    for ue in np.unique(rows["ue"]):
        own = np.flatnonzero(rows["ue"] == ue)
        absent = np.flatnonzero(~np.isfinite(position_m[own]).all(axis=1))
        for a, b in pairwise([-1, *absent.tolist(), len(own)]):
            mine = own[a + 1 : b]
            if not len(mine):
                continue
            # at the end of the run a UE is still where its last row is; a line has two ends
            stays = b == len(own) and rows["time_s"][mine[-1]] < end_s
            mine = np.append(mine, mine[-1]) if stays or len(mine) == 1 else mine
            time_s = rows["time_s"][mine]
            time_s[-1] = end_s if stays else time_s[-1]
            yield _Stretch(int(ue), time_s, position_m[mine], rows["indoor"][mine])


def geojson_text(run: Run, globe: Globe) -> str:
    """Tracks as lines with the local time at each vertex; homes, workplaces, base stations and named places."""
    names = _names(run)
    tracks = [
        _feature(
            "LineString", globe.lon_lat(s.at_m), kind="track", **_who(names, s.ue), times=_local_times(run, s.time_s),
            indoor=(s.indoor == 1).tolist(),
        )
        for s in _stretches(run)
    ]  # fmt: skip
    return _collection(globe, [*tracks, *_places(run, globe, names)])


def kepler_text(run: Run, globe: Globe) -> str:
    """Tracks alone, as the trip layer of kepler.gl reads them: [longitude, latitude, altitude, unix seconds]."""
    names, start_s = _names(run), _start_unix_s(run)
    lines = [
        _feature(
            "LineString",
            [[*at, 0, round(start_s + t, 3)] for at, t in zip(globe.lon_lat(s.at_m), s.time_s.tolist(), strict=True)],
            **_who(names, s.ue),
        )
        for s in _stretches(run)
    ]
    return _collection(globe, lines)


def csv_text(run: Run, globe: Globe) -> str:
    """The rows of tracks.csv with names, local times and degrees."""
    rows, names = run.rows("tracks"), _names(run)
    position_m = np.column_stack([rows["x_m"], rows["y_m"]])
    there = np.flatnonzero(np.isfinite(position_m).all(axis=1))
    degrees = np.full((len(position_m), 2), "", dtype=object)
    if len(there):
        degrees[there] = [[f"{v:.{_DECIMALS}f}" for v in at] for at in globe.lon_lat(position_m[there])]
    columns: dict[str, Any] = {
        "ue": rows["ue"],
        "name": [_who(names, int(ue))["name"] for ue in rows["ue"]],
        "time_s": rows["time_s"],
        "local_time": _local_times(run, rows["time_s"]),
        "lat": degrees[:, 1],
        "lon": degrees[:, 0],
        "indoor": rows["indoor"],
    }
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(column_text, columns.values()), strict=True))
    return text.getvalue()


FORMATS = {"geojson": geojson_text, "kepler": kepler_text, "csv": csv_text}
"""what writes each format of `EXPORTS`"""


def _places(run: Run, globe: Globe, names: dict[int, str]) -> Iterator[Feature]:
    """Homes, workplaces, densest places, base stations, and the places that attacks name at the end of the run."""
    ues, named = run.tables["ues"], run.tables["named"]
    for kind, column in (("home", "home"), ("workplace", "work"), ("densest place", "densest")):
        at_m = np.column_stack([ues[f"{column}_x_m"], ues[f"{column}_y_m"]])
        for k in np.flatnonzero(np.isfinite(np.column_stack([at_m, ues["ue"]])).all(axis=1)):
            yield _point(globe, at_m[k], kind=kind, **_who(names, int(ues["ue"][k])))
    for name, *at in run.stations:
        yield _point(globe, np.array(at), kind="base station", name=name)
    at_m = np.column_stack([named["x_m"], named["y_m"]])
    whole = np.isfinite(np.column_stack([at_m, named["ue"], named["rank"]])).all(axis=1)
    for k in np.flatnonzero(whole):
        who = _who(names, int(named["ue"][k]))
        attack, rank = str(named["attack"][k]), int(named["rank"][k])
        yield _point(globe, at_m[k], kind="named place", attack=attack, rank=rank, **who)


def _point(globe: Globe, at_m: NDArray[Any], **properties: Any) -> Feature:
    return _feature("Point", globe.lon_lat(at_m[None])[0], **properties)


def _feature(shape: str, coordinates: list[Any], **properties: Any) -> Feature:
    return {"type": "Feature", "geometry": {"type": shape, "coordinates": coordinates}, "properties": properties}


def _collection(globe: Globe, features: list[Feature]) -> str:
    """RFC 7946; how the plane was put on the globe stands in a member of its own, which readers pass over."""
    lat, lon = globe.origin_deg
    origin: dict[str, Any] = {"lat": lat, "lon": lon}
    if not globe.known:
        origin["note"] = f"the area of this run {_NOWHERE}"
    whole = {"type": "FeatureCollection", "netsim_origin": origin, "features": features}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _names(run: Run) -> dict[int, str]:
    ues = run.tables["ues"]
    return {int(ue): str(name) for ue, name in zip(ues["ue"], ues["name"], strict=True) if np.isfinite(ue)}


def _who(names: dict[int, str], ue: int) -> dict[str, Any]:
    return {"ue": ue, "name": names.get(ue, str(ue))}


def _start_unix_s(run: Run) -> float:
    """When simulated time begins; a world without a time zone is taken to live in UTC."""
    start_s = run.manifest.get("start_unix_s")
    if isinstance(start_s, int | float):
        return float(start_s)
    return float(np.datetime64(run.manifest["first_day"], "s").astype(np.int64))


def _local_times(run: Run, time_s: FloatArray) -> list[str]:
    """What the wall clock shows: 2026-01-05T07:30:00."""
    shown_s = np.floor(clock_of(run.manifest).wall_s(time_s)).astype("timedelta64[s]")
    return [str(t) for t in np.datetime64(run.manifest["first_day"], "s") + shown_s]
