"""Shadowing: a random function of position, drawn once for every site of base stations."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cache, cached_property
from math import exp, log, nan, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from pydantic import Field

from netsim.columns import frozen
from netsim.compiled import compiled
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import Amount, Fraction, Part
from netsim.radio.indoor_links import IndoorShadow
from netsim.radio.path_loss import Pairs, PathLoss
from netsim.rng import Rng
from netsim.ues import Indoors
from netsim.units import BoolArray, Float32Array, FloatArray, FloatPair, FloatQuadruple, IntArray

# decorrelation distances between the two ends of the grid around the torus: exp(-8) = 3e-4
_WRAP = 8.0
_MAX_VALUES = 2e9  # 8 GB of float32, whatever memory there is
_USUAL_STD_DB = 6.0  # where neither the scenario nor the path loss law has one


class ShadowField(Protocol):
    """Shadowing of every base station as a function of position, constant in time."""

    def __call__(self, position_m: FloatArray) -> FloatArray:
        """Shadowing in dB (n, n_bs) at positions (n, 2), NaN where the position is NaN."""


class IndoorField(Protocol):
    """Shadowing of every base station inside buildings, constant in time."""

    def __call__(self, position_m: FloatArray, indoors: Indoors) -> FloatArray:
        """Shadowing in dB (n, n_bs) of UEs at positions (n, 2), all of them inside."""


class Stds(NamedTuple):
    """Standard deviations, dB: in sight, without, in sight where the law's `is_far`; inside, None:
    as outside.
    """

    seen: float = 0.0
    hidden: float = 0.0
    far: float = 0.0
    inside: float | None = None


class Shadowing(Part):
    """Loss by obstacles around the mean path loss, in dB, with mean zero."""

    kind: str = ""

    def choose_stds(self, law: PathLoss) -> Stds:
        """The deviations beside a path loss law: those that are not set are the law's."""
        return Stds()

    def describe_stds(self, law: PathLoss) -> list[str]:
        """The same in words, for the channel card; empty if there are none."""
        return []

    @abstractmethod
    def draw_field(self, area: Area, site: IntArray, rng: Rng, std_db: float) -> ShadowField:
        """The shadowing of one city, drawn once.

        site (n_bs,) is the index of the site of each base station: base stations of one site share
        their shadowing, which depends on that index only.
        """

    def draw_nlos_field(
        self, area: Area, site: IntArray, rng: Rng, std_db: float
    ) -> ShadowField | None:
        """A separate field for links without line of sight; None: that of `draw_field`, scaled."""
        return None

    def draw_indoor_field(
        self, site: IntArray, rng: Rng, std_db: float | None
    ) -> IndoorField | None:
        """A separate field for UEs inside buildings; None: as outside."""
        return None


@frozen
class Shadow:
    """Shadowing of all links of one city: fields in line of sight, without it, and inside
    buildings, and their stds.

    hidden: None: that in sight, scaled; inside: None: as outside; path_loss, carrier_hz: tell which
    links are far.
    """

    stds: Stds
    seen: ShadowField
    hidden: ShadowField | None
    inside: IndoorField | None
    path_loss: PathLoss
    carrier_hz: float

    @property
    def depends_on_sight(self) -> bool:
        """Whether it differs with and without line of sight."""
        seen_db, hidden_db, far_db, _ = self.stds
        return self.hidden is not None or not seen_db == hidden_db == far_db

    def subtract_loss(
        self, position_m: FloatArray, pairs: Pairs, loss_db: FloatArray
    ) -> FloatArray:
        """Gain in dB (n, n_bs) at positions (n, 2): shadowing less a loss (n, n_bs)."""
        if pairs.indoors is None or self.inside is None or not pairs.indoors.inside.any():
            return self._subtract_outside(position_m, pairs, loss_db)
        inside = pairs.indoors.inside
        gain_db = -loss_db
        gain_db[inside] += self.inside(position_m[inside], pairs.indoors.select(inside))
        gain_db[~inside] = self._subtract_outside(
            position_m[~inside], pairs.select(~inside), loss_db[~inside]
        )
        return gain_db

    def _subtract_outside(
        self, position_m: FloatArray, pairs: Pairs, loss_db: FloatArray
    ) -> FloatArray:
        seen_db = self.seen(position_m)
        if pairs.los is None or not self.depends_on_sight:
            return seen_db - loss_db
        drawn, hidden, far, _ = self.stds
        if far != drawn:
            is_far = pairs.los & self.path_loss.is_far(pairs, self.carrier_hz)
            seen_db = seen_db * np.where(is_far, far / drawn, 1.0)
        if self.hidden is not None:
            return np.where(pairs.los, seen_db, self.hidden(position_m)) - loss_db
        return _scale_hidden(seen_db, pairs.los, hidden / drawn, loss_db)


class NoShadowing(Shadowing, kind="none"):
    """No shadowing: 0 dB everywhere."""

    reference = "netsim: path loss alone"

    def draw_field(self, area: Area, site: IntArray, rng: Rng, std_db: float) -> ShadowField:
        return lambda position_m: np.zeros((len(position_m), len(site)))


class GaussianShadowing(Shadowing):
    """Gaussian shadowing of mean 0 dB; deviations that are not set are those published with the
    path loss law.
    """

    std_db: float | None = Field(None, ge=0, le=100)
    """standard deviation, dB; none: as published with the path loss law (uma, umi, rma), 6 dB for
    other laws"""
    nlos_std_db: float | None = Field(None, gt=0, le=100)
    """standard deviation without line of sight, dB; none: std_db if it is set, else as published
    with the law"""

    def choose_stds(self, law: PathLoss) -> Stds:
        if self.std_db is None and law.std_db is not None:
            seen, hidden = law.std_db
            return Stds(seen, self.nlos_std_db or hidden, law.far_std_db or seen)
        seen = _USUAL_STD_DB if self.std_db is None else self.std_db
        return Stds(seen, self.nlos_std_db or seen, seen)

    def describe_stds(self, law: PathLoss) -> list[str]:
        seen, hidden, far, inside = self.choose_stds(law)
        texts = [f"{seen:g} dB" if hidden == seen else f"{seen:g} dB in sight"]
        if far != seen:
            texts.append(f"{far:g} dB beyond the breakpoint")
        if hidden != seen:
            texts.append(f"{hidden:g} dB without")
        if inside not in (None, seen):
            texts.append(f"{inside:g} dB indoors")
        if self.std_db is None and law.std_db is not None:
            texts[-1] += f" as {law.kind_name()} publishes"
        return texts


Correlation = FloatPair
"""of two corners of a cell of a grid, along a side and the diagonal"""


def _correlate_corners(step_m: float, decorrelation_m: float) -> Correlation:
    step = step_m / decorrelation_m
    return exp(-step), exp(-step * sqrt(2.0))


@frozen
class GridField:
    """Bilinear interpolation on a grid, scaled so that the variance is the same at every position.

    draw() makes values (ny, nx, n_site), float32 (precision 1e-6 dB at 10 dB), when they are first
    needed: checking a scenario does without. Their corner is at low_m (2,). Positions outside the
    grid take the value at its edge. column (n_bs,) is the site of each base station; empty if every
    base station has its own site.
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
    def correlation(self) -> Correlation:
        """Of the corners of a cell, by the decorrelation distance that the grid is drawn with."""
        return _correlate_corners(
            self.step_m, _shorten_decorrelation_m(self.decorrelation_m, self.step_m)
        )

    def __call__(self, position_m: FloatArray) -> FloatArray:
        """Shadowing in dB (n, n_bs), in single precision."""
        terms = (self.low_m, self.step_m, *self.correlation)
        return _interpolate(self.value_db, self.column, position_m, *terms)

    def is_below(
        self, values: Float32Array, position_m: FloatArray, limit: FloatArray
    ) -> BoolArray:
        """Which values (n, n_bs) of a table (ny, nx, n_site) are below a limit (n, n_bs), at the
        nodes nearest to positions (n, 2); none is below NaN.
        """
        return _compare_values(values, self.column, position_m, self.low_m, self.step_m, limit)


@compiled
def _interpolate(
    table: Float32Array,
    column: IntArray,
    position_m: FloatArray,
    low_m: FloatArray,
    step_m: float,
    side: float,
    diagonal: float,
) -> FloatArray:
    """Values (n, n_bs) of a table (ny, nx, n_site) between its nodes, step_m apart from
    low_m, at positions (n, 2); NaN at NaN.
    """
    ny, nx, n_site = table.shape
    n_bs = len(column) or n_site
    values = np.empty((len(position_m), n_bs))
    for i in range(len(position_m)):
        x = min(max((position_m[i, 0] - low_m[0]) / step_m, 0.0), nx - 1.0)
        y = min(max((position_m[i, 1] - low_m[1]) / step_m, 0.0), ny - 1.0)
        east = int(min(nx - 2.0, x))  # the first where x is NaN: its weights are NaN
        north = int(min(ny - 2.0, y))
        weights = _compute_weights(x - east, y - north, (side, diagonal))
        left = np.float32(weights[0])
        right = np.float32(weights[1])
        above = np.float32(weights[2])
        beyond = np.float32(weights[3])
        for b in range(n_bs):
            s = column[b] if len(column) else b
            value = left * table[north, east, s] + right * table[north, east + 1, s]
            value = value + above * table[north + 1, east, s]
            values[i, b] = value + beyond * table[north + 1, east + 1, s]
    return values


@compiled
def _compare_values(
    table: Float32Array,
    column: IntArray,
    position_m: FloatArray,
    low_m: FloatArray,
    step_m: float,
    limit: FloatArray,
) -> BoolArray:
    """As `GridField.is_below`; at any node where the position is NaN."""
    ny, nx, _ = table.shape
    below = np.empty(limit.shape, np.bool_)
    for i in range(len(limit)):
        east = int(min(nx - 1.0, max((position_m[i, 0] - low_m[0]) / step_m + 0.5, 0.0)))
        north = int(min(ny - 1.0, max((position_m[i, 1] - low_m[1]) / step_m + 0.5, 0.0)))
        for b in range(limit.shape[1]):
            s = column[b] if len(column) else b
            below[i, b] = table[north, east, s] < limit[i, b]
    return below


@compiled
def _scale_hidden(
    seen_db: FloatArray, los: BoolArray, factor: float, loss_db: FloatArray
) -> FloatArray:
    """Shadowing (n, n_bs), without line of sight times a factor, less a loss."""
    gain_db = np.empty(los.shape)
    for i in range(len(los)):
        for b in range(los.shape[1]):
            gain_db[i, b] = seen_db[i, b] * (1.0 if los[i, b] else factor) - loss_db[i, b]
    return gain_db


@compiled
def _compute_weights(x: float, y: float, correlation: Correlation) -> FloatQuadruple:
    """Bilinear weights of the corners of a unit cell at (x, y), scaled to variance 1.

    With b = 2 x (1 - x) on each axis the variance is
    (1 - b_x)(1 - b_y) + c_side (b_x (1 - b_y) + (1 - b_x) b_y) + c_diagonal b_x b_y.
    """
    side, diagonal = correlation
    left = 1.0 - x
    down = 1.0 - y
    bx = 2.0 * x * left
    by = 2.0 * y * down
    diagonal_part = (1.0 - 2.0 * side + diagonal) * (bx * by)
    variance = 1.0 + (side - 1.0) * (bx + by) + diagonal_part
    scale = 1.0 / np.sqrt(variance)
    left *= scale
    x *= scale
    return left * down, x * down, left * y, x * y


class Independent(GaussianShadowing, kind="iid"):
    """Spatially white shadowing: an independent value N(0, std^2) for every place and site.

    Positions are rounded to millimetres: positions with the same rounded coordinates have the same
    value.
    """

    reference = "netsim: log-normal, without spatial correlation, a common simplification"

    def draw_field(self, area: Area, site: IntArray, rng: Rng, std_db: float) -> ShadowField:
        def draw_values_db(position_m: FloatArray) -> FloatArray:
            is_placed = np.all(np.isfinite(position_m), axis=1)
            placed_m = np.where(is_placed[:, None], position_m, 0.0)
            mm = np.round(placed_m * 1e3).astype(int)
            place = mm[:, 0] * 2_654_435_761 + mm[:, 1]
            owner = np.tile(site, len(place))
            item = np.repeat(place, len(site))
            value = rng.normal("iid", owner, item=item).reshape(len(place), len(site))
            return np.where(is_placed[:, None], std_db * value, nan)

        return draw_values_db


class Correlated(GaussianShadowing, kind="correlated"):
    r"""A Gaussian random field for each site, independent of other sites, with exponential
    correlation::

        E[s(x) s(y)] = std^2 exp(-|x - y| / decorrelation)

    The value at a place is the same at all times and for all UEs.

    The field is drawn on a grid by circulant embedding: white noise on a torus, filtered with the
    square root of the eigenvalues of the covariance (its FFT). The torus is larger than the grid by
    8 decorrelation distances, so that wrap-around correlates opposite ends of the grid by at most
    exp(-8). Negative eigenvalues are set to 0 and the rest is scaled so that the variance is std^2
    again. Between grid points the value is interpolated bilinearly and divided by the standard
    deviation of the interpolated value, so that every position has exactly `std_db`.

    That division raises the correlation of distant points slightly (6 % on the default grid). The
    grid is therefore drawn with a shorter decorrelation distance, chosen such that two random
    positions at distance `decorrelation_m` have correlation 1/e for any grid spacing.

    Links without line of sight and UEs inside buildings have separate fields where
    `nlos_decorrelation_m` and `indoor_decorrelation_m` are given [TR 38.901, Table 7.5-6]; inside,
    each (site, building, floor) has one. With `site_correlation` c the field of a site is sqrt(c)
    times a common one plus sqrt(1 - c) times its own.

    The grid extends one decorrelation distance beyond the area; further out the value at its edge
    is used.
    """

    reference = (
        "Gudmundson, 'Correlation model for shadow fading in mobile radio systems', "
        "Electron. Lett. 27(23), "
        "1991; Dietrich and Newsam, SIAM J. Sci. Comput. 18(4), 1997 (circulant embedding)"
    )

    decorrelation_m: Amount = 50.0
    """distance at which the correlation is 1/e, m"""
    nlos_decorrelation_m: Amount | None = None
    """the same without line of sight, m, which then has a separate field; none: one field,
    scaled"""
    indoor_decorrelation_m: float | None = Field(None, gt=0, le=1e5)
    """the same inside buildings, m, where each floor then has a separate field; none: as outside"""
    site_correlation: Fraction = 0.0
    """correlation between sites: 0 in TR 38.901, 0.5 in TR 36.814"""

    def choose_stds(self, law: PathLoss) -> Stds:
        stds = super().choose_stds(law)
        if self.indoor_decorrelation_m is None:
            return stds
        published = self.std_db is None and law.indoor_shadowing
        return stds._replace(inside=published[0] if published else stds.seen)

    def draw_nlos_field(
        self, area: Area, site: IntArray, rng: Rng, std_db: float = _USUAL_STD_DB
    ) -> ShadowField | None:
        if self.nlos_decorrelation_m is None:
            return None
        return self._build_grid("nlos", std_db, self.nlos_decorrelation_m, area, site, rng)

    def draw_indoor_field(
        self, site: IntArray, rng: Rng, std_db: float | None
    ) -> IndoorField | None:
        if self.indoor_decorrelation_m is None or std_db is None:
            return None
        return IndoorShadow(std_db, self.indoor_decorrelation_m, site, rng, self.site_correlation)

    def draw_field(
        self, area: Area, site: IntArray, rng: Rng, std_db: float = _USUAL_STD_DB
    ) -> GridField:
        """Draws one field for each site; that of site s depends on (seed, s) and the area only."""
        return self._build_grid("field", std_db, self.decorrelation_m, area, site, rng)

    def _build_grid(
        self,
        label: str,
        std_db: float,
        decorrelation_m: float,
        area: Area,
        site: IntArray,
        rng: Rng,
    ) -> GridField:
        step_m = decorrelation_m / 10
        with np.errstate(over="ignore"):
            cells = np.ceil((area.side_m[::-1] + 2 * decorrelation_m) / step_m)
        ny, nx = (int(min(n, _MAX_VALUES)) + 1 for n in cells)
        sites, column = np.unique(site, return_inverse=True)
        n_sites = len(sites)
        if ny * nx * n_sites > _MAX_VALUES:
            raise BadInput(
                f"world.radio.shadowing: a grid of {step_m:g} m makes {n_sites} grids "
                f"of {nx} x {ny} values, above "
                f"{_MAX_VALUES:g} in all; give a larger decorrelation_m, or a smaller area"
            )

        def draw_values_db() -> Float32Array:
            from scipy.fft import (
                next_fast_len,
            )  # here, so that checking a scenario does not pay for it

            grid_decorrelation_m = _shorten_decorrelation_m(decorrelation_m, step_m)
            wrap = _WRAP * grid_decorrelation_m / step_m
            torus = [next_fast_len(int(n - 1 + wrap) + 1, real=True) for n in (ny, nx)]
            amplitude = np.sqrt(_compute_spectrum(torus, step_m / grid_decorrelation_m))
            value_db = np.empty((ny, nx, n_sites), np.float32)

            def draw_unit(label: str, owner: int) -> FloatArray:
                white = rng.normal(label, [owner], tuple(torus))[0]
                return np.fft.irfft2(np.fft.rfft2(white) * amplitude, s=torus)[:ny, :nx]

            site_weight = sqrt(1.0 - self.site_correlation)
            common = np.zeros(1)
            if self.site_correlation:
                common = sqrt(self.site_correlation) * draw_unit(f"{label}.common", 0)
            for k, owner in enumerate(sites.tolist()):  # one at a time: a torus of doubles is large
                value_db[:, :, k] = std_db * (common + site_weight * draw_unit(label, owner))
            return value_db

        alone = np.array_equal(column, np.arange(n_sites))  # no site has two base stations
        return GridField(
            draw_values_db,
            area.low_m - decorrelation_m,
            step_m,
            decorrelation_m,
            column[:0] if alone else column,
        )


def _compute_spectrum(torus: list[int], step: float) -> FloatArray:
    """Eigenvalues (ny, nx // 2 + 1) of exp(-d step) on a torus, d in cells; clipped at 0, mean
    1.
    """
    y, x = (np.minimum(np.arange(n), n - np.arange(n)) for n in torus)
    covariance = np.exp(-step * np.hypot(y[:, None], x))
    eigenvalue = np.maximum(np.fft.fft2(covariance).real, 0.0)
    eigenvalue /= eigenvalue.mean()  # the mean eigenvalue is the variance
    return eigenvalue[:, : torus[1] // 2 + 1]


@cache
def _shorten_decorrelation_m(decorrelation_m: float, step_m: float) -> float:
    """The decorrelation distance of the grid for which random positions have correlation 1/e at
    decorrelation_m.

    With g = E[1 / sqrt(variance left by interpolation)] over a cell, distant points correlate by
    g^2 exp(-d / D); this is 1/e at d = decorrelation for D = decorrelation / (1 + 2 ln g).
    """
    middle = (np.arange(16) + 0.5) / 16
    x = np.tile(middle, 16).tolist()
    y = np.repeat(middle, 16).tolist()
    shorter_m = decorrelation_m
    for _ in range(20):  # a contraction: g depends on D weakly
        correlation = _correlate_corners(step_m, shorter_m)
        weights = [_compute_weights(*place, correlation) for place in zip(x, y, strict=True)]
        gain = np.array(weights).sum(axis=1).mean()  # bilinear weights sum to 1 before scaling
        shorter_m = decorrelation_m / (1.0 + 2.0 * log(gain))
    return shorter_m
