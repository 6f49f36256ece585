"""A radio map of virtual obstacles: heights on a grid and propagation parameters, learnt
alternately.
"""

from dataclasses import replace
from math import inf, nan, pi
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, Strict

from fl.data.links import LINKS, POSITIONS, STATIONS
from fl.learners import GridLearner
from fl.radio_map.link_patterns import LinkPatterns, build_patterns
from fl.radio_map.obstacles import (
    CELLS,
    HEIGHTS,
    GridLinks,
    build_height_grid,
    compute_gain_db,
    compute_height_gradient,
    compute_link_gradients,
    compute_theta_gradient,
    find_crossings,
    recall_crossings,
    standardise_distance,
    to_theta,
)
from fl.tracking.place_grid import PlaceGrid
from fl.types import DenseUpdates, HeldOut, Local, Metrics, Model, Public, Updates
from netsim.columns import average_or_nan, divide_or_zero, split_blocks
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

Pair = Annotated[tuple[float, float], Strict(False)]
PROPAGATION = "propagation"
RINGS_M = (0.0, 6.0, 12.0, 24.0, 48.0, 96.0)
"""where rings begin; the last has no end"""
_SECTORS = 8
_BLOCK = 20_000  # links predicted at once, to bound memory


class RadioMap(GridLearner, kind="radio-map"):
    r"""Learns the gain of any link from heights of virtual obstacles h (n_cell,) and propagation
    parameters theta (4,).

    `fl.radio_map.obstacles` has the law and its gradients. A round has two phases, each a step of
    FedSGD on the squared error::

        heights       h     <- clamp(h - learning_rate_heights * merged dF/dh)          at (h,
        theta)
        propagation   theta <- theta - learning_rate_propagation * merged dF/dtheta     at (new h,
        theta)

    An update is the gradient itself. `gradient: normalised` scales every device's height gradient
    to norm 1 first, which also trains from initial values with vanishing gradients. Noise on
    heights does not protect the other phase: gradients of theta are averages of a device's errors
    and are sent without noise unless a defense covers them too.

    Figures: mae_links_db (the links of the round, under the model that the round started from), and
    on held-out links mae_new_links_db, mae_new_stations_db (new base stations, same UEs) and
    mae_new_positions_db (UEs that never train); rmse_db is over all of these, constant_rmse_db the
    deviation of their RSRP, which the best constant would have. With `theory` also those of
    `compute_descent_figures` and `compute_decay_figures`.

    Departs from the paper: the sigmoid has a scale (`sigmoid_scale_m: 1` is the literal one), and
    heights may be negative, since over flat ground psi(0) = 1/2 would dim every link that ends near
    it.
    """

    phases = (HEIGHTS, PROPAGATION)
    grid_phase = HEIGHTS
    cell_m: float = Field(3.0, gt=0, le=1e4)
    """side of a cell, m; must divide both sides of the area"""
    sigmoid_scale_m: float = Field(2.0, gt=0, le=100)
    """scale of the sigmoid of the height of a link above an obstacle (s), m"""
    initial_height_m: float = Field(10.0, ge=-1000, le=1000)
    """initial height of every obstacle (H_max), m"""
    min_height_m: float = Field(-10.0, ge=-1000, le=1000)
    """smallest height of an obstacle, m"""
    max_height_m: float = Field(50.0, ge=-1000, le=1000)
    """largest height of an obstacle, m"""
    learning_rate_heights: float = Field(300.0, ge=0, le=1e9)
    """learning rate of heights (eta_h)"""
    learning_rate_propagation: float = Field(1e-3, ge=0, le=1e9)
    """learning rate of the propagation parameters (eta_theta); 0: they stay at their initial
    values"""
    gradient: Literal["raw", "normalised"] = "raw"
    """gradient of heights: raw, or scaled to norm 1 on the UE"""
    initial_slope_db: Pair = (-20.0, -38.0)
    """initial slopes with and without line of sight, dB per decade of distance"""
    initial_gain_db: Pair = (-30.0, -21.0)
    """initial gains at 1 m with and without line of sight, dB"""
    theory: bool = False
    """also estimate the constants of the descent lemma: smoothness, dissimilarity, and the noise
    that they allow"""

    reference = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map "
        "Construction, Eqs. 4 to 16"
    )
    example = {"kind": "radio-map", "cell_m": 50}
    offers = frozenset({CELLS})
    needs = {"links": "one map learns from every base station's links; take data links"}

    def init(self, public: Public, rng: Rng) -> Model:
        if public.antennas is None:
            raise BadInput(
                "learning.learner: radio-map needs to know where base stations are; a trace that "
                "brings cells without places cannot be learnt from"
            )
        grid = build_height_grid(public.area, self.cell_m)
        heights = np.full(len(grid), self.initial_height_m)
        theta = to_theta(self.initial_slope_db, self.initial_gain_db)
        constants = {
            "area_m": np.concatenate([public.area.low_m, public.area.high_m]),
            "antenna_m": public.antennas.at_m,
            "power_dbm": public.antennas.power_dbm,
            "ue_height_m": np.array([public.ue_height_m]),
        }
        return Model(np.concatenate([heights, theta])[None], constants)

    def get_update_grid(self, model: Model) -> PlaceGrid:
        return build_height_grid(Area(*model.constants["area_m"].tolist()), self.cell_m)

    def get_heights_m(self, model: Model) -> FloatArray:
        """Learnt heights (n_cell,)."""
        return model.parameters[0, :-4]

    def build_links(
        self, model: Model, x: FloatArray, y: FloatArray, cell: IntArray, row: IntArray
    ) -> GridLinks:
        """Samples as links: UE positions x (N, 2), RSRP y (N,), base station cell (N,), device row
        (N,).

        A position outside of the area, as some curation makes, has a link that begins at the
        border.
        """
        grid = self.get_update_grid(model)
        constants = model.constants
        ue = np.column_stack([x, np.full(len(x), constants["ue_height_m"][0])])
        antenna = constants["antenna_m"][cell]
        distance_m = np.linalg.norm(ue - antenna, axis=1)
        return GridLinks(
            recall_crossings(grid, ue, antenna),
            standardise_distance(distance_m),
            y - constants["power_dbm"][cell],
            row,
        )

    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        gradients = self.compute_gradients(model, phase, data)
        if phase == HEIGHTS and self.gradient == "normalised":
            gradients = _normalise_rows(gradients)
        return DenseUpdates(data.ue, data.model, data.count.astype(float), gradients, phase)

    def compute_gradients(self, model: Model, phase: str, data: Local) -> FloatArray:
        """dF_i/dh (n, n_cell) or dF_i/dtheta (n, 4) of every row."""
        law = compute_height_gradient if phase == HEIGHTS else compute_theta_gradient
        links = self._build_training_links(model, data)
        return law(links, *self._split_parameters(model), self.sigmoid_scale_m, data.count)

    def compute_link_patterns(
        self, model: Model, place_m: FloatArray, links: int, error_db: float
    ) -> LinkPatterns:
        """Every base station is measured; `gradient: normalised` scales what all links give
        together to norm 1.
        """
        grid = self.get_update_grid(model)
        antenna = model.constants["antenna_m"]
        height_m = model.constants["ue_height_m"][0]
        k = min(links, len(antenna))
        parts = []
        normalises = self.gradient == "normalised"
        for block in split_blocks(len(place_m), max(1, _BLOCK // k)):
            positions_m = place_m[block]
            away_m = positions_m[:, None] - antenna[:, :2]
            square = (away_m**2).sum(axis=2)
            nearest = np.argpartition(square, k - 1, axis=1)[:, :k]
            station = antenna[nearest.ravel()]
            row = np.repeat(np.arange(len(positions_m)), k)
            ue = np.column_stack([positions_m[row], np.full(len(row), height_m)])
            x = standardise_distance(np.linalg.norm(ue - station, axis=1))
            grid_links = GridLinks(find_crossings(grid, ue, station), x, np.zeros(len(x)), row)
            gradient = compute_link_gradients(
                grid_links, *self._split_parameters(model), self.sigmoid_scale_m
            )
            value = gradient * error_db * 2 / len(antenna)
            parts.append(build_patterns(grid_links.under, value, len(positions_m), k, normalises))
        return LinkPatterns.join(parts)

    def _build_training_links(self, model: Model, data: Local) -> GridLinks:
        return self.build_links(
            model, data.x, np.asarray(data.y), np.asarray(data.cell), data.row_of_sample
        )

    @staticmethod
    def _split_parameters(model: Model) -> tuple[FloatArray, FloatArray]:
        return model.parameters[0, :-4], model.parameters[0, -4:]

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        heights, theta = self._split_parameters(model)
        if phase == HEIGHTS:
            step = self.learning_rate_heights * merged[0]
            heights = np.clip(heights - step, self.min_height_m, self.max_height_m)
        else:
            theta = theta - self.learning_rate_propagation * merged[0]
        return replace(model, parameters=np.concatenate([heights, theta])[None])

    def compute_errors_db(
        self, model: Model, x: FloatArray, y: FloatArray, cell: IntArray
    ) -> FloatArray:
        """Predicted minus measured gain of links (N,), some at a time."""
        error_db = np.zeros(len(x))
        for block in split_blocks(len(x), _BLOCK):
            row = np.zeros_like(cell[block])
            links = self.build_links(model, x[block], y[block], cell[block], row)
            error_db[block] = self._compute_link_errors_db(model, links)
        return error_db

    def _compute_link_errors_db(self, model: Model, links: GridLinks) -> FloatArray:
        """Predicted minus measured gain of links (N,)."""
        gain = compute_gain_db(links, *self._split_parameters(model), self.sigmoid_scale_m)
        return gain - links.gain_db

    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        error = self.compute_errors_db(model, held_out.x, held_out.y, held_out.cell)
        groups = {"new_links": LINKS, "new_stations": STATIONS, "new_positions": POSITIONS}
        errors = {
            f"mae_{name}_db": average_or_nan(np.abs(error[held_out.group == g]))
            for name, g in groups.items()
        }
        constant_db = held_out.y.std() if len(held_out) else nan
        return {
            "rmse_db": np.sqrt(average_or_nan(error**2)),
            "constant_rmse_db": constant_db,
        } | errors

    def diagnose(self, model: Model, data: Local) -> Metrics:
        links = self._build_training_links(model, data)
        figures = {
            "mae_links_db": average_or_nan(np.abs(self._compute_link_errors_db(model, links)))
        }
        if self.theory:
            figures |= self._compute_theory(model, data)
        return figures

    def _compute_theory(self, model: Model, data: Local) -> Metrics:
        """Lemma 1 and Corollary 1 for a step without clip and noise from this model, and how
        gradients fall off.
        """
        rows = self.compute_gradients(model, HEIGHTS, data)
        weight = data.count / data.count.sum()
        mean = weight @ rows
        eta = self.learning_rate_heights
        ahead = self.step(model, HEIGHTS, mean[None])
        change = weight @ self.compute_gradients(ahead, HEIGHTS, data) - mean
        step = self.get_heights_m(ahead) - self.get_heights_m(model)
        figures = compute_descent_figures(rows, weight, step, change, eta)
        eta_theta = self.learning_rate_propagation
        figures["kappa_theta"] = eta_theta * (1.0 - figures["smoothness_l"] * eta_theta / 2.0)
        return figures | compute_decay_figures(
            rows, self.get_update_grid(model).place_m, data.average_x()
        )


def _normalise_rows(rows: FloatArray) -> FloatArray:
    """Rows of norm 1; a row of zeros stays. The largest is taken out first: squares of tiny numbers
    are zero.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)[:, None]
    scaled = divide_or_zero(rows, largest)
    norm = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.divide(scaled, norm, out=scaled, where=norm > 0)


def compute_descent_figures(
    rows: FloatArray, weight: FloatArray, step: FloatArray, change: FloatArray, eta: float
) -> Metrics:
    r"""Lemma 1 and Corollary 1 for steps without noise, with L and B estimated.

    Device gradients g_i = rows (n, d) with weights w_i = weight (n,) that sum to 1, their mean g,
    J~ = sum_i w_i^2; the step (d,) that was taken with learning rate eta, and the change (d,) of
    the mean gradient along it::

        dissimilarity_b   B, B^2 = sum_i w_i |g_i|^2 / |g|^2; infinite where the mean vanishes
        smoothness_l      L = |change| / |step|
        kappa_h           eta (1/2 - L eta B^2 / 2): a step lowers F by kappa_h |g|^2 at least
        largest_step      1 / (L B^2)
        largest_mu        (1 / (B^2 L eta) - 1) / J~: the largest budget of noise over gradient for
        a step that descends
        residual          sqrt(eta B^4 L^4 / (8 kappa_h)): where Corollary 1 leaves the gradient;
        NaN unless it descends

    The estimates are local: L is no bound on all of space. Corollary 1 bounds a gradient norm by a
    smoothness constant (its Eq. 67 takes B^2 L^2 for |g_i|^2), so the residual is a figure, not a
    guarantee; and a bound on the average of a series is printed there as one on its limit.
    """
    mean = weight @ rows
    length = float(np.linalg.norm(step))
    energy = float(mean @ mean)
    b2 = float(weight @ np.square(rows).sum(axis=1)) / energy if energy > 0 else inf
    smooth = float(np.linalg.norm(change)) / length if length > 0 else nan
    kappa = eta * (0.5 - smooth * eta / 2.0 * b2)
    residual = nan
    if kappa > 0:
        residual = (eta * b2**2 * smooth**4 / (8.0 * kappa)) ** 0.5
    return {
        "dissimilarity_b": b2**0.5,
        "smoothness_l": smooth,
        "kappa_h": kappa,
        "largest_step": 1.0 / (smooth * b2),
        "largest_mu": (1.0 / (b2 * smooth * eta) - 1.0) / float(weight @ weight),
        "residual": residual,
    }


def compute_decay_figures(rows: FloatArray, centre_m: FloatArray, place_m: FloatArray) -> Metrics:
    """Whether squared gradients of heights, rows (n, M) of cells centre_m (M, 2), fall off around
    devices at place_m.

    Theorem 1 says that E[G_m^2] falls along every direction; its proof compares sets of links only.
    The cells around a device are parted into rings and eight directions: monotone_percent of the
    directions have no ring with a larger mean than the one inside of it; fall_..._m_db is the mean
    square of a ring over that of the first. Every device counts alike: its squares are divided by
    the largest of them.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    live = largest > 0
    if not live.any():
        return {"monotone_percent": nan}
    square = (rows[live] / largest[live, None]) ** 2
    mean = _average_rings(square, centre_m, place_m[live])
    is_known = np.isfinite(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        rises = np.any(mean[:, 1:] > mean[:, :-1], axis=1)
        is_compared = (is_known[:, 1:] & is_known[:, :-1]).any(axis=1)
        total = np.where(is_known, mean, 0.0).sum(axis=(0, 2))
        profile = total / is_known.sum(axis=(0, 2))
        fall_db = 10 * np.log10(profile / profile[0])
    figures = {"monotone_percent": 100.0 * average_or_nan(~rises[is_compared])}
    for start, fall in zip(RINGS_M[1:], fall_db[1:], strict=True):
        figures[f"fall_{start:g}_m_db"] = fall
    return figures


def _average_rings(square: FloatArray, centre_m: FloatArray, place_m: FloatArray) -> FloatArray:
    """Mean of square (n, M) over the cells of each ring and direction (n, ring, 8); NaN where no
    cell lies.
    """
    shape = (len(square), len(RINGS_M), _SECTORS)
    away = centre_m[None] - place_m[:, None]
    distance_m = np.hypot(away[..., 0], away[..., 1])
    ring = np.searchsorted(RINGS_M, distance_m, "right") - 1
    angle = np.arctan2(away[..., 1], away[..., 0])
    turn = (angle + pi) / (2 * pi)
    sector = np.minimum((turn * _SECTORS).astype(int), _SECTORS - 1)
    row = np.arange(len(square))[:, None]
    place = np.ravel_multi_index((row, ring, sector), shape).ravel()
    size = int(np.prod(shape))
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.bincount(place, weights=square.ravel(), minlength=size)
        mean = total / np.bincount(place, minlength=size)
    return mean.reshape(shape)
