"""Shadowing: a random function of position, drawn once for every site of base stations."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import log, sqrt
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.columns import frozen
from netsim.compiled import compiled
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import Part
from netsim.radio.indoor_links import IndoorShadow
from netsim.radio.path_loss import PathLoss
from netsim.rng import Rng
from netsim.ues import Indoors
from netsim.units import Float32Array, FloatArray, IntArray


class ShadowField(Protocol):
    """Shadowing of every base station as a function of position, constant in time."""

    def __call__(self, position_m: FloatArray) -> FloatArray:
        """Shadowing in dB (n, n_bs) at positions (n, 2), NaN where the position is NaN."""
        ...


class IndoorField(Protocol):
    """Shadowing of every base station inside buildings, constant in time."""

    def __call__(self, position_m: FloatArray, indoors: Indoors) -> FloatArray:
        """Shadowing in dB (n, n_bs) of UEs at positions (n, 2), all of them inside."""
        ...


class Shadowing(Part):
    """Loss by obstacles around the mean path loss, in dB, with mean zero."""

    kind: str

    @property
    def nlos_factor(self) -> float:
        """Ratio of the standard deviations without and with line of sight."""
        return 1.0

    def under(self, law: PathLoss) -> Self:
        """A copy for a path loss law: deviations that are not set are those of the law."""
        return self

    def far_factor(self, law: PathLoss) -> float:
        """Ratio of the deviations in line of sight where the law's `is_far` and elsewhere, 1 if they are equal."""
        return 1.0

    def deviations(self, far_factor: float) -> list[str]:
        """Standard deviations in words, for the channel card; empty if there are none.

        far_factor: see the method `far_factor`.
        """
        return []

    @abstractmethod
    def field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField:
        """The shadowing of one city, drawn once.

        site (n_bs,) is the index of the site of each base station: base stations of one site share their shadowing,
        which depends on that index only.
        """

    def nlos_field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField | None:
        """A separate field for links without line of sight; None: `field` times `nlos_factor`."""
        return None

    def indoor_field(self, site: IntArray, rng: Rng) -> IndoorField | None:
        """A separate field for UEs inside buildings; None: as outside."""
        return None


_WRAP = 8.0  # decorrelation distances between the two ends of the grid around the torus: exp(-8) = 3e-4
_MAX_VALUES = 2e9  # 8 GB of float32, whatever memory there is
_USUAL_STD_DB = 6.0  # where neither the scenario nor the path loss law has one


@dataclass(frozen=True)
class _NoField:
    n_bs: int

    def __call__(self, position_m: FloatArray) -> FloatArray:
        return np.zeros((len(position_m), self.n_bs))


class NoShadowing(Shadowing):
    """No shadowing: 0 dB everywhere."""

    reference: ClassVar = "none: path loss alone"
    example: ClassVar = {"kind": "none"}

    kind: Literal["none"] = "none"

    def field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField:
        """Zero."""
        return _NoField(len(site))


class GaussianShadowing(Shadowing):
    """Gaussian shadowing of mean 0 dB; deviations that are not set are those published with the path loss law."""

    std_db: float | None = Field(default=None, ge=0, le=100)
    """standard deviation, dB; none: as published with the path loss law (uma, umi, rma), 6 dB for other laws"""
    nlos_std_db: float | None = Field(default=None, gt=0, le=100)
    """standard deviation without line of sight, dB; none: std_db if it is set, else as published with the law"""

    @model_validator(mode="after")
    def _scalable(self) -> Self:
        if self.std_db == 0 and self.nlos_std_db is not None:
            raise ValueError("nlos_std_db: needs a std_db above 0, whose field it scales")
        return self

    def under(self, law: PathLoss) -> Self:
        if self.std_db is not None or law.std_db is None:
            return self
        los_db, nlos_db = law.std_db
        return self.model_copy(update={"std_db": los_db, "nlos_std_db": self.nlos_std_db or nlos_db})

    def far_factor(self, law: PathLoss) -> float:
        if self.std_db is not None or law.std_db is None or law.far_std_db is None:
            return 1.0
        return law.far_std_db / law.std_db[0]

    def deviations(self, far_factor: float) -> list[str]:
        said = [f"{self.deviation_db:g} dB"]
        if far_factor != 1.0:
            said.append(f"{far_factor * self.deviation_db:g} dB beyond the breakpoint")
        if self.nlos_std_db is not None:
            said = [f"{said[0]} in sight", *said[1:], f"{self.nlos_std_db:g} dB without"]
        return said

    @property
    def deviation_db(self) -> float:
        """Standard deviation in line of sight, which is that of the drawn field."""
        return _USUAL_STD_DB if self.std_db is None else self.std_db

    @property
    def nlos_factor(self) -> float:
        return 1.0 if self.nlos_std_db is None else self.nlos_std_db / self.deviation_db


@frozen
class GridField:
    """Bilinear interpolation on a grid, scaled so that the variance is the same at every position.

    draw() makes values (ny, nx, n_site), float32 (precision 1e-6 dB at 10 dB), when they are first needed: checking a
    scenario does without. Their corner is at low_m (2,). Positions outside the grid take the value at its
    edge. column (n_bs,) is the site of each base station; empty if every base station has its own site.
    """

    draw: Callable[[], Float32Array]
    low_m: FloatArray
    step_m: float
    decorrelation_m: float
    column: IntArray

    @cached_property
    def value_db(self) -> Float32Array:
        """The values, kept."""
        return self.draw()

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the corners of a cell (4, 4), with 1 on the diagonal."""
        return _corner_covariance(self.step_m / _shortened(self.decorrelation_m, self.step_m))

    def __call__(self, position_m: FloatArray) -> FloatArray:
        """Shadowing in dB (n, n_bs), in single precision."""
        ny, nx, n_site = self.value_db.shape
        top = np.array([nx - 1.0, ny - 1.0])
        at = np.clip((position_m - self.low_m) / self.step_m, 0.0, top)
        cell = np.where(at < top - 1.0, at, top - 1.0).astype(np.int64)  # a NaN takes any cell: its weights are NaN
        x, y = (at - cell).T
        weight = np.stack(_weights(x, y, self.covariance)).astype(np.float32)
        node = cell[:, 1] * nx + cell[:, 0]
        return self._of_stations(_interpolated(self.value_db.reshape(ny * nx, n_site), node, weight, nx))

    def nearest(self, values: Float32Array, position_m: FloatArray) -> Float32Array:
        """Values (ny, nx, n_site) at the node nearest to each position (n, 2); any node for NaN: (n, n_bs)."""
        ny, nx, _ = values.shape
        top = np.array([nx - 1.0, ny - 1.0])
        at = (position_m - self.low_m) / self.step_m + 0.5
        column, row = np.maximum(np.where(at < top, at, top), 0.0).astype(np.int64).T
        return self._of_stations(values[row, column])

    def _of_stations(self, value: np.ndarray) -> np.ndarray:
        """Values of base stations (n, n_bs) from those of sites (n, n_site)."""
        return value[:, self.column] if len(self.column) else value


@compiled
def _interpolated(table: Float32Array, node: IntArray, weight: Float32Array, row: int) -> FloatArray:
    """Sums (n, n_site) of table (nodes, n_site) at node, node + 1 and the two a row further, by weight (4, n)."""
    found = np.empty((len(node), table.shape[1]))
    for i in range(len(node)):
        at = node[i]
        left, right, above, beyond = weight[0, i], weight[1, i], weight[2, i], weight[3, i]
        for s in range(table.shape[1]):
            value = left * table[at, s] + right * table[at + 1, s]
            value = value + above * table[at + row, s]
            found[i, s] = value + beyond * table[at + row + 1, s]
    return found


def _weights(x: FloatArray, y: FloatArray, covariance: FloatArray) -> tuple[FloatArray, ...]:
    """Bilinear weights (n,) of the corners of a unit cell at (x, y), scaled to variance 1 for corners so correlated.

    With b = 2 x (1 - x) on each axis the variance is
    (1 - b_x)(1 - b_y) + c_side (b_x (1 - b_y) + (1 - b_x) b_y) + c_diagonal b_x b_y.
    """
    side, diagonal = float(covariance[0, 1]), float(covariance[0, 3])
    left, down = 1.0 - x, 1.0 - y
    bx, by = 2.0 * x * left, 2.0 * y * down
    variance = 1.0 + (side - 1.0) * (bx + by) + (1.0 - 2.0 * side + diagonal) * (bx * by)
    scale = 1.0 / np.sqrt(variance)
    left, x = left * scale, x * scale
    return left * down, x * down, left * y, x * y


@frozen
class _Memoryless:
    std_db: float
    site: IntArray
    rng: Rng

    def __call__(self, position_m: FloatArray) -> FloatArray:
        known = np.asarray(np.isfinite(position_m).all(axis=1))
        mm = np.round(np.where(known[:, None], position_m, 0.0) * 1e3).astype(np.int64)
        place = mm[:, 0] * 2_654_435_761 + mm[:, 1]
        n_bs = len(self.site)
        owner, item = np.tile(self.site, len(place)), np.repeat(place, n_bs)
        value = self.rng.normal("iid", owner, item=item).reshape(len(place), n_bs)
        return np.where(known[:, None], self.std_db * value, np.nan)


class Independent(GaussianShadowing):
    """Spatially white shadowing: an independent value N(0, std^2) for every place and site.

    Positions are rounded to millimetres: positions with the same rounded coordinates have the same value.
    """

    reference: ClassVar = "log-normal shadowing without spatial correlation, a common simplification"
    example: ClassVar = {"kind": "iid"}

    kind: Literal["iid"] = "iid"

    def field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField:
        return _Memoryless(self.deviation_db, site, rng)


class Correlated(GaussianShadowing):
    r"""A Gaussian random field for each site, independent of other sites, with exponential correlation::

        E[s(x) s(y)] = std^2 exp(-|x - y| / decorrelation)

    The value at a place is the same at all times and for all UEs.

    The field is drawn on a grid by circulant embedding: white noise on a torus, filtered with the square root
    of the eigenvalues of the covariance (its FFT). The torus is larger than the grid by 8 decorrelation
    distances, so that wrap-around correlates opposite ends of the grid by at most exp(-8).
    Negative eigenvalues are set to 0 and the rest is scaled so that the variance is std^2 again. Between grid
    points the value is interpolated bilinearly and divided by the standard deviation of the interpolated
    value, so that every position has exactly `std_db`.

    That division raises the correlation of distant points slightly (6 % on the default grid). The grid is
    therefore drawn with a shorter decorrelation distance, chosen such that two random positions at distance
    `decorrelation_m` have correlation 1/e for any grid spacing.

    Links without line of sight and UEs inside buildings have separate fields where `nlos_decorrelation_m` and
    `indoor_decorrelation_m` are given [TR 38.901, Table 7.5-6]; inside, each (site, building, floor) has one. With
    `site_correlation` c the field of a site is sqrt(c) times a common one plus sqrt(1 - c) times its own.

    The grid extends one decorrelation distance beyond the area; further out the value at its edge is used.
    """

    reference: ClassVar = (
        "Gudmundson, 'Correlation model for shadow fading in mobile radio systems', Electron. Lett. 27(23), "
        "1991; Dietrich and Newsam, SIAM J. Sci. Comput. 18(4), 1997 (circulant embedding)"
    )
    example: ClassVar = {"kind": "correlated"}

    kind: Literal["correlated"] = "correlated"
    decorrelation_m: float = Field(default=50.0, gt=0, le=1e9)
    """distance at which the correlation is 1/e, m"""
    nlos_decorrelation_m: float | None = Field(default=None, gt=0, le=1e9)
    """the same without line of sight, m, which then has a separate field; none: one field, scaled"""
    indoor_decorrelation_m: float | None = Field(default=None, gt=0, le=1e5)
    """the same inside buildings, m, where each floor then has a separate field; none: as outside"""
    indoor_std_db: float | None = Field(default=None, ge=0, le=100)
    """standard deviation inside buildings, dB; none: std_db if it is set, else as published with the law"""
    site_correlation: float = Field(default=0.0, ge=0, le=1)
    """correlation between sites: 0 in TR 38.901, 0.5 in TR 36.814"""

    @model_validator(mode="after")
    def _check_indoors(self) -> Self:
        if self.indoor_std_db is not None and self.indoor_decorrelation_m is None:
            raise ValueError("indoor_std_db: needs indoor_decorrelation_m, which gives floors separate fields")
        return self

    def under(self, law: PathLoss) -> Self:
        part = super().under(law)
        if part is self or part.indoor_decorrelation_m is None or part.indoor_std_db is not None:
            return part
        return part.model_copy(update={"indoor_std_db": law.indoor_shadowing[0] if law.indoor_shadowing else None})

    def deviations(self, far_factor: float) -> list[str]:
        said = super().deviations(far_factor)
        return said if self.indoor_std_db is None else [*said, f"{self.indoor_std_db:g} dB indoors"]

    def nlos_field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField | None:
        if self.nlos_decorrelation_m is None:
            return None
        std_db = self.deviation_db if self.nlos_std_db is None else self.nlos_std_db
        return self._drawn("nlos", std_db, self.nlos_decorrelation_m, area, site, rng)

    def indoor_field(self, site: IntArray, rng: Rng) -> IndoorField | None:
        if self.indoor_decorrelation_m is None:
            return None
        std_db = self.deviation_db if self.indoor_std_db is None else self.indoor_std_db
        return IndoorShadow(std_db, self.indoor_decorrelation_m, site, rng, self.site_correlation)

    def field(self, area: Area, site: IntArray, rng: Rng) -> GridField:
        """Draws one field for each site; that of site s depends on (seed, s) and the area only."""
        return self._drawn("field", self.deviation_db, self.decorrelation_m, area, site, rng)

    def _drawn(
        self,
        what: str,
        std_db: float,
        decorrelation_m: float,
        area: Area,
        site: IntArray,
        rng: Rng,
    ) -> GridField:
        """One field for each site, drawn as `what`."""
        step_m = decorrelation_m / 10
        with np.errstate(over="ignore"):
            cells = np.ceil((area.side_m[::-1] + 2 * decorrelation_m) / step_m)
        ny, nx = (int(min(n, _MAX_VALUES)) + 1 for n in cells)
        sites, column = np.unique(site, return_inverse=True)
        if ny * nx * len(sites) > _MAX_VALUES:
            raise BadInput(
                f"world.radio.shadowing: a grid of {step_m:g} m makes {len(sites)} grids of {nx} x {ny} values, above "
                f"{_MAX_VALUES:g} in all; give a larger decorrelation_m, or a smaller area"
            )

        def draw() -> Float32Array:
            from scipy.fft import next_fast_len  # here, so that checking a scenario does not pay for it

            grid_decorrelation_m = _shortened(decorrelation_m, step_m)
            wrap = _WRAP * grid_decorrelation_m / step_m
            torus = [next_fast_len(int(n - 1 + wrap) + 1, real=True) for n in (ny, nx)]
            amplitude = np.sqrt(_spectrum(torus, step_m / grid_decorrelation_m))
            value_db = np.empty((ny, nx, len(sites)), dtype=np.float32)

            def one(what: str, owner: int) -> FloatArray:
                white = rng.normal(what, [owner], (torus[0], torus[1]))[0]
                return np.fft.irfft2(np.fft.rfft2(white) * amplitude, s=torus)[:ny, :nx]

            own = sqrt(1.0 - self.site_correlation)
            common = sqrt(self.site_correlation) * one(f"{what}.common", 0) if self.site_correlation else None
            for k, owner in enumerate(sites.tolist()):  # one at a time: a torus of doubles is large
                whole = one(what, owner)
                value_db[:, :, k] = std_db * (whole if common is None else common + own * whole)
            return value_db

        low_m = area.low_m - decorrelation_m
        alone = np.array_equal(column, np.arange(len(sites)))  # no site has two base stations
        return GridField(draw, low_m, step_m, decorrelation_m, column[:0] if alone else column)


_CORNERS = ((0, 0), (1, 0), (0, 1), (1, 1))  # of a cell: right, up


def _spectrum(torus: list[int], step: float) -> FloatArray:
    """Eigenvalues (ny, nx // 2 + 1) of exp(-d step) on a torus, d in cells; clipped at 0, mean 1."""
    y, x = (np.minimum(np.arange(n), n - np.arange(n)) for n in torus)
    covariance = np.exp(-step * np.hypot(y[:, None], x[None, :]))
    eigenvalue = np.maximum(np.fft.fft2(covariance).real, 0.0)
    eigenvalue /= eigenvalue.mean()  # the mean eigenvalue is the variance
    return eigenvalue[:, : torus[1] // 2 + 1]


def _corner_covariance(step: float) -> FloatArray:
    """Covariance (4, 4) of the corners of a cell whose side is `step` decorrelation distances."""
    corner = np.array(_CORNERS, dtype=np.float64)
    return np.asarray(np.exp(-step * np.linalg.norm(corner[:, None] - corner[None, :], axis=-1)))


@cache
def _shortened(decorrelation_m: float, step_m: float) -> float:
    """The decorrelation distance of the grid for which random positions have correlation 1/e at decorrelation_m.

    With g = E[1 / sqrt(variance left by interpolation)] over a cell, distant points correlate by
    g^2 exp(-d / D); this is 1/e at d = decorrelation for D = decorrelation / (1 + 2 ln g).
    """
    middle = (np.arange(16) + 0.5) / 16
    x, y = np.tile(middle, 16), np.repeat(middle, 16)
    shorter_m = decorrelation_m
    for _ in range(20):  # a contraction: g depends on D weakly
        weight = np.array(_weights(x, y, _corner_covariance(step_m / shorter_m)))
        gain = float(weight.sum(axis=0).mean())  # bilinear weights sum to 1 before scaling
        shorter_m = decorrelation_m / (1.0 + 2.0 * log(gain))
    return shorter_m
