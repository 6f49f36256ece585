"""What an agent sees and does as an image: the city, links to serving base stations, and powers as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl.power.search import Limits
from netsim.units import BoolArray, FloatArray, IntArray
from netsim.world import World

Image = npt.NDArray[np.uint8]
MAP, BARS = 360, 120  # pixels: side of the map, height of the bars below it
_GROUND, _HOUSE, _STATION, _WEAK, _STRONG = (244, 245, 247), (200, 203, 208), (34, 34, 34), (86, 180, 233), (213, 94, 0)


@dataclass(frozen=True, eq=False)
class Scene:
    """Where things are: area (x_min, y_min, x_max, y_max) in metres, rings of each building (its walls, then those of
    courtyards), base stations (n_bs, 2), UEs (K, 2) and the base station that serves each, -1 for none.
    """

    area_m: tuple[float, float, float, float]
    footprints_m: tuple[tuple[FloatArray, ...], ...]
    station_m: FloatArray
    ue_m: FloatArray
    serving: IntArray


def scene_of(world: World) -> Scene:
    """Where everything of a world is at this moment."""
    area = world.area
    return Scene(
        (area.x_min_m, area.y_min_m, area.x_max_m, area.y_max_m),
        world.buildings.rings(),
        np.array([b.at_m for b in world.stations]).reshape(-1, 2),
        world.position_m(),
        world.serving(world.links()),
    )


def picture(scene: Scene, power_w: FloatArray, limits: Limits) -> Image:
    """An image (MAP + BARS, MAP, 3) of a scene: orange UEs send with the most power, blue ones with the least."""
    image = np.empty((MAP + BARS, MAP, 3), dtype=np.uint8)
    image[:] = _GROUND
    chart = image[:MAP]
    for rings in scene.footprints_m:
        chart[_inside([_pixels(scene, ring) for ring in rings])] = _HOUSE
    span = np.log(limits.each_max_w / limits.each_min_w)
    level = np.clip(np.log(power_w / limits.each_min_w) / span if span > 0 else np.ones(len(power_w)), 0.0, 1.0)
    color = (np.outer(1 - level, _WEAK) + np.outer(level, _STRONG)).astype(np.uint8)  # (K, 3)
    here: BoolArray = np.asarray(np.isfinite(scene.ue_m).all(axis=1))
    ue, station = _pixels(scene, np.where(here[:, None], scene.ue_m, 0.0)), _pixels(scene, scene.station_m)
    for k in np.flatnonzero(here & (scene.serving >= 0)):
        along = np.linspace(0.0, 1.0, 2 * MAP)[:, None]
        _dots(chart, ue[k] + along * (station[scene.serving[k]] - ue[k]), color[k], 0)
    for at in station:
        _dots(chart, at[None], np.array(_STATION, dtype=np.uint8), 5)
    for k in np.flatnonzero(here):
        _dots(chart, ue[k][None], color[k], 4)
    _bars(image[MAP:], level, color, here)
    return image


def _pixels(scene: Scene, at_m: FloatArray) -> FloatArray:
    """Places (n, 2) as row and column of the map; the longer side of the area fills it."""
    x0, y0, x1, y1 = scene.area_m
    size = MAP / max(x1 - x0, y1 - y0, 1e-9)
    return np.column_stack([MAP - 1 - (at_m[:, 1] - y0) * size, (at_m[:, 0] - x0) * size])


def _inside(rings: Sequence[FloatArray]) -> BoolArray:
    """Pixels of the map inside a polygon with holes, rings of corners (n, 2), by the even-odd rule."""
    row, column = np.mgrid[0:MAP, 0:MAP].astype(np.float64)
    inside = np.zeros((MAP, MAP), dtype=np.bool_)
    for corner in rings:
        for (r0, c0), (r1, c1) in zip(corner, np.roll(corner, 1, axis=0), strict=True):
            if r0 != r1:
                inside ^= ((r0 > row) != (r1 > row)) & (column < (c1 - c0) * (row - r0) / (r1 - r0) + c0)
    return inside


def _dots(chart: Image, at: FloatArray, color: npt.NDArray[np.uint8], radius: int) -> None:
    """Squares around places (n, 2)."""
    for dr in range(-radius, radius + 1):
        for dc in range(-radius, radius + 1):
            row, column = np.rint(at[:, 0]).astype(np.int64) + dr, np.rint(at[:, 1]).astype(np.int64) + dc
            kept = (row >= 0) & (row < len(chart)) & (column >= 0) & (column < chart.shape[1])
            chart[row[kept], column[kept]] = color


def _bars(below: Image, level: FloatArray, color: npt.NDArray[np.uint8], here: BoolArray) -> None:
    """One bar a UE, on the logarithmic scale of actions."""
    below[:2] = _STATION
    edge = np.linspace(4, MAP - 4, len(level) + 1).astype(np.int64)
    for k in np.flatnonzero(here):
        height = 2 + int(level[k] * (BARS - 16))
        below[BARS - 4 - height : BARS - 4, edge[k] : max(edge[k + 1] - 1, edge[k] + 1)] = color[k]
