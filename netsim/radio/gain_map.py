"""Path gains of every cell on a grid, from a file: what ray tracers compute, or what was
measured.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from netsim.checkpoint import read_arrays
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.notice import Built, Notices, notice
from netsim.part import FileName
from netsim.radio.path_loss import LossLaw, Pairs, PathLoss
from netsim.safe import read_file_version
from netsim.traces.source import read_number_table
from netsim.traces.values import join_texts
from netsim.units import FloatArray, FloatPair, IntPair, db_from_ratio

if TYPE_CHECKING:
    from pandas import DataFrame

_AXES = ("z_m", "y_m", "x_m")
_GAINS = {"path_gain_db": (-400.0, 0.0), "path_loss_db": (0.0, 400.0)}
_BOUNDS = {**dict.fromkeys(_AXES, (-1e9, 1e9)), "cell": None, **_GAINS}
_NEEDED = ("x_m", "y_m", "cell")
_SAME_M = 0.01  # single precision far from the origin
_EVERY_M = 1e4  # height up to which a plane holds whose height is not stated
_MAX_EMPTY = 10  # points of a grid for each point of a table


class GainMap(PathLoss, kind="map"):
    """Path gains of every cell on a grid, from a file, linear in dB between grid points and between
    heights.

    Obstacles and walls are in the gains, so there is neither shadowing nor penetration loss beside
    them. A grid point without a gain (0, NaN, an empty field, a missing row) counts for nothing;
    where more than half of the weight is on such points the gain is uncovered_gain_db. Places
    beyond the outer points, and UEs on floors above the highest plane, have the gains of the
    nearest ones; a CSV without z_m holds at all heights. `carrier_hz` is not used.

    An .npz has `path_gain` (n_cells, ny, nx), linear, or (n_cells, nz, ny, nx); `cell_centers` (ny,
    nx, 3) or (nz, ny, nx, 3), m; and `cells` (n_cells,), the names of base stations. A CSV has a
    row for each cell and point: cell, x_m, y_m, path_gain_db (or path_loss_db), and z_m if there
    are heights.
    """

    reference = "radio maps of Sionna RT, nvlabs.github.io/sionna/rt/api/radio_maps.html"
    example = {"kind": "map", "file": "gains.npz"}
    has_obstacles = True

    file: FileName
    """path of the .npz or CSV"""
    includes_antenna: bool = True
    """whether the antennas of the base stations are in the gains, as ray tracers compute them;
    false: they are added"""
    uncovered_gain_db: float = Field(-200.0, ge=-400, le=-100)
    """gain where no path arrives, dB"""

    @property
    def has_antennas(self) -> bool:  # type: ignore[override]
        return self.includes_antenna

    @property
    def ue_heights_m(self) -> FloatPair:  # type: ignore[override]
        z_m = _read_gains(self.file, read_file_version(self.file)).index.levels[0]
        return z_m[0], z_m[-1]

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        raise NotImplementedError("it is the loss to certain base stations: `build_law` has them")

    def build_law(
        self, cells: Sequence[str], area: Area, ue_height_m: float, carrier_hz: float
    ) -> LossLaw:
        from scipy.interpolate import RegularGridInterpolator

        table, _ = self._read_cells(cells)
        axes_m = [level.to_numpy() for level in table.index.levels]
        low_m, high_m = np.transpose([axis[[0, -1]] for axis in axes_m])
        reach = Area(low_m[2], low_m[1], high_m[2], high_m[1])
        corners_m = np.array([area.low_m, area.high_m])
        is_inside = reach.grow(axes_m[2][1] - axes_m[2][0]).contains(corners_m)
        is_high_enough = low_m[0] - _SAME_M <= ue_height_m <= high_m[0] + _SAME_M
        if not is_inside.all() or not is_high_enough:
            raise BadInput(
                f"world.radio.path_loss: {self.file} has gains for {reach}, {low_m[0]:g} "
                f"to {high_m[0]:g} m above "
                f"ground; the area is {area}, ues.height_m {ue_height_m:g}; compute them there"
            )
        gain_db = table.to_numpy().reshape(*map(len, axes_m), -1)
        is_covered = ~np.isnan(gain_db)
        both = np.stack([is_covered, np.where(is_covered, gain_db, 0.0)], axis=-1)
        interpolated = RegularGridInterpolator(axes_m, both, bounds_error=False)

        def look_up_loss_db(pairs: Pairs) -> FloatArray:
            north_east_m = np.asarray(pairs.position_m)[:, ::-1]
            height_m = np.broadcast_to(np.reshape(pairs.ue_height_m, -1), len(north_east_m))
            at_m = np.clip(np.column_stack([height_m, north_east_m]), low_m, high_m)
            weight, total = np.moveaxis(interpolated(at_m), -1, 0)
            mean_db = total / np.maximum(weight, 0.5)
            return -np.where(weight < 0.5, self.uncovered_gain_db, mean_db)

        return look_up_loss_db

    def notices(self, built: Built) -> Notices:
        table, n_unused = self._read_cells(built.stations)
        if missing := 100.0 * table.isna().to_numpy().mean():
            yield notice(
                "gains-missing", file=self.file, percent=missing, gain_db=self.uncovered_gain_db
            )
        if n_unused:
            yield notice("gains-of-other-cells", file=self.file, number=n_unused)
        low_m, high_m = self.ue_heights_m
        has_floors = 2 * _SAME_M < high_m - low_m < _EVERY_M
        if built.floor_m is not None and not (has_floors and built.floor_m <= high_m):
            yield notice("gains-of-outdoors", file=self.file, floor_m=built.floor_m)

    def _read_cells(self, cells: Sequence[str]) -> tuple["DataFrame", int]:
        """The gains of base stations, and the number of other cells."""
        table = _read_gains(self.file, read_file_version(self.file))
        if lacking := [name for name in cells if name not in table]:
            problem = f"has no gains of {join_texts(lacking)}; its cells are {join_texts([*table])}"
            raise BadInput(f"world.radio.path_loss: {self.file} {problem}")
        return table[[*cells]], len(table.columns) - len(cells)


@lru_cache(maxsize=1)
def _read_gains(file: str, version: IntPair) -> "DataFrame":
    """Gains in dB of a file by (z, y, x) and cell, NaN for none; `version` tells a changed file
    from an older one.
    """
    try:
        if file.lower().endswith(".npz"):
            return _read_arrays(file)
        return _read_table(file)
    except BadInput:
        raise
    except (TypeError, ValueError) as error:
        problem = str(error).removeprefix(f"{file}: ")
        raise BadInput(
            f"{file}: {problem}; write it as the reference of path_loss: {{kind: map}} says"
        ) from None


def _read_arrays(file: str) -> "DataFrame":
    """The gains of an .npz. Raises ValueError."""
    from pandas import DataFrame, MultiIndex

    arrays = read_arrays(Path(file), is_ours=False)
    if lacking := {"path_gain", "cell_centers", "cells"} - arrays.keys():
        raise ValueError(f"there is no {', '.join(sorted(lacking))}")
    gain, centre_m, cells = (arrays[name] for name in ("path_gain", "cell_centers", "cells"))
    fits = gain.shape == (*cells.shape, *centre_m.shape[:-1])
    if not fits or centre_m.shape[-1:] != (3,):
        shapes = (
            f"path_gain {gain.shape}, cell_centers {centre_m.shape} and cells {cells.shape} "
            f"do not fit"
        )
        raise ValueError(
            f"{shapes}: (n_cells, ny, nx), (ny, nx, 3) and (n_cells,), or nz before ny"
        )
    if ((gain < 0) | (gain > 1)).any():
        raise ValueError("path_gain: linear gains are 0 to 1, are these in dB?")
    points = MultiIndex.from_arrays(centre_m.reshape(-1, 3).T[::-1].astype(float).round(3))
    gain_db = db_from_ratio(np.where(gain > 0, gain, np.nan))
    table = DataFrame(gain_db.reshape(len(cells), -1).T, points, cells.astype(str))
    return _build_grid(table, _SAME_M)


def _read_table(file: str) -> "DataFrame":
    """The gains of a CSV, a row for each cell and point. Raises ValueError."""
    table = read_number_table(file, _BOUNDS, _NEEDED)
    if len(gain_columns := [name for name in _GAINS if name in table]) != 1:
        raise ValueError(
            f"there is none, or more than one, of the columns path_gain_db and "
            f"path_loss_db beside {', '.join(_NEEDED)}"
        )
    above_m = _SAME_M if "z_m" in table else _EVERY_M
    table = table.assign(z_m=table.get("z_m", 0.0)).round(dict.fromkeys(_AXES, 3))
    if (twice := table.duplicated(["cell", *_AXES])).any():
        raise BadInput(
            f"{file}: line {twice.idxmax()}: its cell has a gain at that point already; remove one"
        )
    wide = table.pivot(index=[*_AXES], columns="cell", values=gain_columns[0])
    return _build_grid(-wide if gain_columns == ["path_loss_db"] else wide, above_m)


def _build_grid(wide: "DataFrame", above_m: float) -> "DataFrame":
    """Gains by (z, y, x) and cell as a grid; a single plane holds up to above_m above it. Raises
    ValueError.
    """
    from pandas import MultiIndex, concat

    if wide.index.has_duplicates or wide.columns.has_duplicates:
        raise ValueError("a cell, or a point, stands twice in it")
    if wide.index.levshape[0] == 1:
        upper = wide.index.set_levels(wide.index.levels[0] + above_m, level=0)
        wide = concat([wide, wide.set_axis(upper)])
    full_index = MultiIndex.from_product(wide.index.levels)
    has_gaps = len(full_index) > _MAX_EMPTY * len(wide)
    if has_gaps or min(full_index.levshape[1:]) < 2:
        raise ValueError("its points are no grid along x and y, two or more on each")
    return wide.reindex(full_index)
