"""Tracks and places of a run for maps elsewhere: GeoJSON, coordinates on WGS84."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.clock import find_last_multiple
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.maps import unproject_m
from netsim.units import FloatArray, FloatPair
from scenarios.app.results.read import Run, Table, iterate_cells, select_rows, stack_places_m
from scenarios.app.study import Fields

_DECIMALS = 7  # of degrees: 1 cm
BEGINNING = '{"type":"FeatureCollection","netsim_origin":'
"""the first bytes of every file that is written here, by which it may be replaced"""

Feature = Fields


@frozen
class Globe:
    """The globe under the plane of a run: its place at_m (2,) lies at latitude and longitude
    origin_deg.

    folder : of the run, for messages. known : whether the run says where it lies.
    """

    folder: Path
    origin_deg: FloatPair
    at_m: FloatArray
    is_known: bool

    @classmethod
    def from_run(cls, folder: Path, run: Run, origin_deg: FloatPair | None) -> Globe:
        """That of a run; of one that is nowhere on the globe, with its south-west corner at
        origin_deg or 0 N 0 E.
        """
        if run.manifest.origin_deg is None:
            return cls(
                folder, origin_deg or (0.0, 0.0), np.array(run.manifest.area_m[:2]), is_known=False
            )
        lat, lon = run.manifest.origin_deg
        if origin_deg is not None:
            raise BadInput(
                f"--origin: {folder} has a place on the globe ({lat:.6f}, {lon:.6f}); leave it out"
            )
        return cls(folder, (lat, lon), np.zeros(2), is_known=True)

    def to_lon_lat(self, position_m: FloatArray) -> list[list[float]]:
        """Return longitude and latitude of positions (n, 2)."""
        degrees = unproject_m(position_m - self.at_m, self.origin_deg)
        if not np.isfinite(degrees).all():
            far = position_m[~np.isfinite(degrees).all(axis=1)][0]
            raise BadInput(
                f"{self.folder}: the position {far[0]:g}, {far[1]:g} m in its records is beyond "
                "the globe; run the study again"
            )
        return np.round(degrees, _DECIMALS).tolist()


def _split_stretches(run: Run) -> Iterator[Table]:
    """Split rows of `tracks` from when a UE came until it left, UE by UE.

    Two at least, as a line has two ends. At the end of the run a UE is still where its last row
    is.
    """
    rows = run.get_rows("tracks")
    every_s = run.manifest.tracks.every_s
    end_s = find_last_multiple(run.manifest.duration_s, every_s) * every_s
    is_present = np.isfinite(rows["x_m"]) & np.isfinite(rows["y_m"])
    for ue in np.unique(rows["ue"]):
        track = np.flatnonzero(rows["ue"] == ue)
        for piece in np.split(track, np.flatnonzero(~is_present[track])):
            stretch = piece[is_present[piece]]
            if not len(stretch):
                continue
            last = stretch[-1]
            stays = last == track[-1] and rows["time_s"][last] < end_s
            if stays or len(stretch) == 1:
                stretch = np.append(stretch, last)
            selected = select_rows(rows, stretch)
            if stays:
                selected["time_s"][-1] = end_s
            yield selected


def to_geojson(run: Run, globe: Globe) -> str:
    """Write tracks as lines with the local time at each vertex, and places as points.

    Homes, workplaces, base stations and named places. RFC 7946; how the plane was put on the globe
    stands in a member of its own, which readers pass over.
    """
    features = [
        _build_feature(
            "LineString",
            globe.to_lon_lat(stack_places_m(rows)),
            kind="track",
            **_describe_ue(run, rows["ue"][0]),
            times=run.format_dates(rows["time_s"], "T"),
            indoor=(rows["indoor"] == 1).tolist(),
        )
        for rows in _split_stretches(run)
    ]
    features += _list_places(run, globe)
    lat, lon = globe.origin_deg
    origin: Fields = {"lat": lat, "lon": lon}
    if not globe.is_known:
        origin["note"] = (
            "the area of this run is nowhere on the globe: its south-west corner was "
            "put at this origin"
        )
    return (
        json.dumps(
            {"type": "FeatureCollection", "netsim_origin": origin, "features": features},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
        + "\n"
    )


def _list_places(run: Run, globe: Globe) -> Iterator[Feature]:
    """List homes, workplaces, densest places, base stations, and places that attacks name."""
    ues = run.tables["ues"]
    for kind, column in (("home", "home"), ("workplace", "work"), ("densest place", "densest")):
        for ue, *place_m in _list_known_cells(ues, "ue", f"{column}_x_m", f"{column}_y_m"):
            yield _build_point(globe, place_m, kind=kind, **_describe_ue(run, ue))
    for name, *place_m in run.stations:
        yield _build_point(globe, place_m, kind="base station", name=name)
    for ue, rank, *place_m, attack in _list_known_cells(
        run.tables["named"], "ue", "rank", "x_m", "y_m", text="attack"
    ):
        yield _build_point(
            globe,
            place_m,
            kind="named place",
            attack=attack,
            rank=int(rank),
            **_describe_ue(run, ue),
        )


def _list_known_cells(rows: Table, *columns: str, text: str = "") -> Iterator[tuple[Any, ...]]:
    """List cells of rows in which all these numbers are known, and of a column of texts."""
    is_known = np.logical_and.reduce([np.isfinite(rows[name]) for name in columns])
    return iterate_cells(select_rows(rows, is_known), *(*columns, text) if text else columns)


def _build_point(globe: Globe, at_m: Sequence[float], **properties: object) -> Feature:
    return _build_feature("Point", globe.to_lon_lat(np.array([at_m]))[0], **properties)


def _build_feature(shape: str, coordinates: Sequence[object], **properties: object) -> Feature:
    return {
        "type": "Feature",
        "geometry": {"type": shape, "coordinates": coordinates},
        "properties": properties,
    }


def _describe_ue(run: Run, ue: float) -> Fields:
    """Describe the number and name of a UE."""
    return {"ue": int(ue), "name": run.names.get(int(ue), str(int(ue)))}
