"""Path gains of every cell on a grid, from a file: what ray tracers compute, or what was measured."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.checkpoint import read_arrays
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import FILE_NAME
from netsim.radio.path_loss import LossLaw, Pairs, PathLoss
from netsim.safe import file_version
from netsim.traces.source import read_table
from netsim.traces.values import listed
from netsim.units import FloatArray, db_from_ratio

if TYPE_CHECKING:
    from pandas import DataFrame

_AXES = ("z_m", "y_m", "x_m")
_GAINS = {"path_gain_db": (-400.0, 0.0), "path_loss_db": (0.0, 400.0)}
_BOUNDS = {**dict.fromkeys(_AXES, (-1e9, 1e9)), "cell": None, **_GAINS}
_NEEDED = ("x_m", "y_m", "cell")
_SAME_M = 0.01  # single precision far from the origin
_EVERY_M = 1e4  # height up to which a plane holds whose height is not stated
_MAX_EMPTY = 10  # points of a grid for each point of a table


@frozen
class Grid:
    """Gains (nz, ny, nx, n_cells) in dB, NaN for none, over ascending axes_m: z (nz,), y (ny,), x (nx,)."""

    gain_db: FloatArray
    axes_m: tuple[FloatArray, ...]
    cells: tuple[str, ...]


class GainMap(PathLoss):
    """Path gains of every cell on a grid, from a file, linear in dB between grid points and between heights.

    Obstacles and walls are in the gains, so there is neither shadowing nor penetration loss beside them. A grid point
    without a gain (0, NaN, an empty field, a missing row) counts for nothing; where more than half of the weight is on
    such points the gain is uncovered_gain_db. Places beyond the outer points, and UEs on floors above the highest
    plane, have the gains of the nearest ones; a CSV without z_m holds at all heights. `carrier_hz` is not used.

    An .npz has `path_gain` (n_cells, ny, nx), linear, or (n_cells, nz, ny, nx); `cell_centers` (ny, nx, 3) or
    (nz, ny, nx, 3), m; and `cells` (n_cells,), the names of base stations. A CSV has a row for each cell and point:
    cell, x_m, y_m, path_gain_db (or path_loss_db), and z_m if there are heights.
    """

    reference: ClassVar = "radio maps of Sionna RT, nvlabs.github.io/sionna/rt/api/radio_maps.html"
    example: ClassVar = {"kind": "map", "file": "gains.npz"}
    has_obstacles: ClassVar[bool] = True

    kind: Literal["map"] = "map"
    file: Annotated[str, FILE_NAME] = Field(min_length=1)
    """path of the .npz or CSV"""
    includes_antenna: bool = True
    """whether the antennas of the base stations are in the gains, as ray tracers compute them; false: they are added"""
    uncovered_gain_db: float = Field(default=-200.0, ge=-400, le=-100)
    """gain where no path arrives, dB"""

    @property
    def has_antennas(self) -> bool:  # type: ignore[override]
        return self.includes_antenna

    @property
    def ue_heights_m(self) -> tuple[float, float]:  # type: ignore[override]
        z_m = self._grid().axes_m[0]
        return float(z_m[0]), float(z_m[-1])

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        raise NotImplementedError("it is the loss to certain base stations: `law` has them")

    def law(self, cells: Sequence[str], area: Area, ue_height_m: float, carrier_hz: float) -> LossLaw:
        from scipy.interpolate import RegularGridInterpolator

        gain_db, axes_m, (low_m, high_m) = self._of(cells), self._grid().axes_m, self.ue_heights_m
        (bottom_m, top_m), (left_m, right_m) = (axis[[0, -1]].tolist() for axis in axes_m[1:])
        reach = Area(left_m, bottom_m, right_m, top_m)
        corners_in = reach.grown(axes_m[2][1] - left_m).contains(np.array([area.low_m, area.high_m]))
        if not corners_in.all() or not low_m - _SAME_M <= ue_height_m <= high_m + _SAME_M:
            raise BadInput(
                f"world.radio.path_loss: {self.file} has gains for {reach}, {low_m:g} to {high_m:g} m above ground; "
                f"the area is {area}, ues.height_m {ue_height_m:g}; compute them there"
            )
        known = ~np.isnan(gain_db)
        table = np.stack([known, np.where(known, gain_db, 0.0)], axis=-1)
        interpolated = RegularGridInterpolator(axes_m, table, bounds_error=False)
        ends_m = np.array([axis[[0, -1]] for axis in axes_m]).T

        def law(pairs: Pairs) -> FloatArray:
            north_east_m = np.asarray(pairs.position_m)[:, ::-1]
            height_m = np.broadcast_to(np.reshape(pairs.ue_height_m, -1), len(north_east_m))
            at_m = np.clip(np.column_stack([height_m, north_east_m]), *ends_m)
            weight, total = np.moveaxis(interpolated(at_m), -1, 0)
            return -np.where(weight < 0.5, self.uncovered_gain_db, total / np.maximum(weight, 0.5))

        return law

    def notes(self, cells: Sequence[str]) -> tuple[str, ...]:
        missing = 100.0 * float(np.isnan(self._of(cells)).mean())
        others = len(self._grid().cells) - len(cells)
        text = (
            f"{missing:.3g} % of its gains are none or 0, {self.uncovered_gain_db:g} dB there; cells that are no base "
        )
        return (f"path loss: {self.file}: {text}station and left out: {others:,}",) if missing or others else ()

    def _of(self, cells: Sequence[str]) -> FloatArray:
        grid = self._grid()
        if lacking := [name for name in cells if name not in grid.cells]:
            problem = f"has no gains of {listed(lacking)}; its cells are {listed(grid.cells)}"
            raise BadInput(f"world.radio.path_loss: {self.file} {problem}")
        return grid.gain_db[..., [grid.cells.index(name) for name in cells]]

    def _grid(self) -> Grid:
        return _read(self.file, file_version(self.file))


@lru_cache(maxsize=1)
def _read(file: str, version: tuple[int, int]) -> Grid:
    """The gains of a file; `version` tells a changed file from the one in memory."""
    try:
        return _grid_of(_of_arrays(file) if file.lower().endswith(".npz") else read_table(file, _BOUNDS, _NEEDED))
    except BadInput:
        raise
    except (TypeError, ValueError) as error:
        problem = str(error).removeprefix(f"{file}: ")
        raise BadInput(f"{file}: {problem}; write it as the reference of path_loss: {{kind: map}} says") from None


def _of_arrays(file: str) -> "DataFrame":
    """The arrays of an .npz as a row for each cell and point. Raises ValueError."""
    from pandas import DataFrame

    arrays = read_arrays(Path(file), own=False)
    if lacking := {"path_gain", "cell_centers", "cells"} - arrays.keys():
        raise ValueError(f"there is no {', '.join(sorted(lacking))}")
    gain, centre_m = (np.asarray(arrays[name], np.float64) for name in ("path_gain", "cell_centers"))
    cells = np.ravel(arrays["cells"]).astype(str)
    if gain.shape != (len(cells), *centre_m.shape[:-1]) or centre_m.shape[-1:] != (3,):
        shapes = f"path_gain {gain.shape} and cell_centers {centre_m.shape} do not fit {len(cells)} cells"
        raise ValueError(f"{shapes}: (n_cells, ny, nx) and (ny, nx, 3), or nz before ny")
    if ((gain < 0) | (gain > 1)).any():
        raise ValueError("path_gain: linear gains are 0 to 1, are these in dB?")
    places = np.tile(centre_m.reshape(-1, 3), (len(cells), 1))
    table = DataFrame(places, columns=[*_AXES[::-1]]).assign(cell=np.repeat(cells, len(places) // len(cells)))
    return table.assign(path_gain_db=db_from_ratio(np.where(gain > 0, gain, np.nan)).ravel())


def _grid_of(table: "DataFrame") -> Grid:
    """The grid of rows of a cell and a point each. Raises ValueError."""
    from pandas import MultiIndex

    if len(given := [name for name in _GAINS if name in table]) != 1:
        raise ValueError("there is none, or more than one, of the columns path_gain_db and path_loss_db")
    above_m = _SAME_M if "z_m" in table else _EVERY_M
    table = table.assign(z_m=table.get("z_m", 0.0)).round(dict.fromkeys(_AXES, 3))
    if (twice := table.duplicated(["cell", *_AXES])).any():
        cell, x_m, y_m = table.loc[twice.idxmax(), ["cell", "x_m", "y_m"]]
        raise ValueError(f"{cell} has two gains at {x_m:g}, {y_m:g} m")
    wide = table.pivot(index=[*_AXES], columns="cell", values=given[0])
    shape = tuple(len(level) for level in wide.index.levels)
    if np.prod(shape) > _MAX_EMPTY * len(wide) or min(shape[1:]) < 2:
        raise ValueError("its points are no grid along x and y, two or more on each")
    axes_m = tuple(level.to_numpy() for level in wide.index.levels)
    gain_db = wide.reindex(MultiIndex.from_product(axes_m)).to_numpy().reshape(*shape, -1)
    if shape[0] == 1:  # one plane has a thickness
        gain_db, axes_m = np.concatenate([gain_db, gain_db]), (axes_m[0] + [0.0, above_m], *axes_m[1:])
    return Grid(-gain_db if given == ["path_loss_db"] else gain_db, axes_m, tuple(wide.columns))
