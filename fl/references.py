"""The `references:` section of `learning`: maps without federated learning, with which a final map
is compared.

A constant, nearest neighbours, a log-distance law, and ordinary kriging.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import nan
from typing import ClassVar, Self

import numpy as np
from pydantic import Field

from fl.types import SAMPLE_BOUNDS, HeldOut, Local, Metrics
from netsim.city.buildings import Buildings
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places, split_blocks
from netsim.geometry import Area
from netsim.part import Part
from netsim.units import FloatArray, FloatPair, IntArray


class References(Part):
    """Maps of the same training samples, drawn once at the end of a run that learns signals.

    They know all samples, as a server would to which every UE sent its data. A network like the one
    that was learnt is trained on all samples in one place: what federated learning costs is the
    ratio of the two errors.
    """

    neighbours: int | None = Field(25, ge=1, le=10_000)
    """neighbours of a nearest-neighbour map (mean weighted by inverse distance); none: no such
    map"""
    path_loss: bool = True
    """fit a law of three numbers to each model: log-distance to the nearest of its base stations,
    and an offset inside buildings; an unknown antenna of one cell is found by least squares"""
    kriging_samples: int = Field(1000, ge=0, le=5000)
    """samples of a model that kriging uses at most, evenly thinned (20,000 over all models); 0: no
    kriging"""
    central: bool = True
    """train the learner's network on the samples of all UEs together, with Adam"""
    central_epochs: int = Field(7, ge=1, le=1000)
    """passes of central training"""
    central_samples: int = Field(20_000, ge=1, le=10_000_000)
    """training samples of a model that it uses at most, evenly thinned (three times as many over
    all models)"""


def choose_even_indices(count: int, max_count: int) -> slice | list[int]:
    """Which of `count` samples to keep: all, or a bounded number evenly spaced in their order."""
    if count <= max_count:
        return slice(None)
    return [i * count // max_count for i in range(max_count)]


def predict_by_neighbours(
    max_neighbours: int, model: int, x: FloatArray, y: FloatArray, place_m: FloatArray
) -> FloatArray:
    """Mean of the nearest samples x (N, 2), y (N,), at most `max_neighbours`, at places (k, 2),
    weighted by 1 / (distance + 1 m), whatever the model.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(x)
    out = np.empty(len(place_m))
    k = min(max_neighbours, len(x))
    for block in split_blocks(len(place_m), _AT_ONCE):
        distance, index = tree.query(place_m[block], k=k)
        # a metre keeps an exact repeat from silencing its neighbours
        weight = 1.0 / (distance.reshape(-1, k) + 1.0)
        total = (weight * y[index.reshape(-1, k)]).sum(axis=1)
        out[block] = total / weight.sum(axis=1)
    return out


HEIGHT_M = 10.0
_PLACES = 21  # of the grid along each side,
_ROUNDS = 3  # laid again, finer, around the best of its places
_SAMPLES = 300  # that choose the place


def map_path_loss(
    x: FloatArray,
    y: FloatArray,
    place_m: FloatArray,
    area: Area,
    antennas_m: FloatArray | None = None,
    buildings: Buildings | None = None,
) -> FloatArray:
    """A log-distance law fitted to samples x (N, 2) in metres, y (N,) in dBm, at places (k, 2).

    y(x) = a - 10 n log10 d(x) + b [x is inside a building],   d^2 = |x - c|^2 + h^2

    with a, n and b by least squares: three numbers, of which b is 0 without footprints [Rappaport
    2002, Section 4.9]. The nearest of several antennas c counts; an unknown one is the place with
    the least squared error, h = 10 m.

    antennas_m (g, 3): places of the antennas, and their heights above the UEs; None: one, sought in
    the area and half its size around it.
    """
    antennas = antennas_m
    if antennas is None:
        antennas = find_antenna(x, y, area)[None]

    def build_terms(place_m: FloatArray) -> FloatArray:
        log_d = np.empty(len(place_m))
        for block in split_blocks(len(place_m), _AT_ONCE):
            log_d[block] = _measure_log_distance(place_m[block], antennas).min(axis=0)
        if buildings is None:
            return log_d[:, None]
        return np.column_stack([log_d, buildings.is_indoors(place_m)])

    sample_terms = build_terms(x)
    middle = sample_terms.mean(axis=0)  # a term that is the same for all samples has no slope
    slope = np.linalg.lstsq(sample_terms - middle, y - y.mean(), rcond=None)[0]
    return y.mean() + (build_terms(place_m) - middle) @ slope


def find_antenna(x: FloatArray, y: FloatArray, area: Area) -> FloatArray:
    """The place (3,) with the least squared error, and the height 10 m."""
    keep = choose_even_indices(len(x), _SAMPLES)
    x = x[keep]
    y = y[keep]
    dev = y - y.mean()
    middle = area.centre_m
    half = area.side_m  # twice the area's sides in all
    unit = np.linspace(-1.0, 1.0, _PLACES)
    for _ in range(_ROUNDS):
        x_m = middle[0] + half[0] * unit
        y_m = middle[1] + half[1] * unit
        east, north = np.meshgrid(x_m, y_m, indexing="ij")
        height = np.full(east.size, HEIGHT_M)
        places = np.stack([east.ravel(), north.ravel(), height], axis=1)
        log_d = _measure_log_distance(x, places)
        off = log_d - log_d.mean(axis=1, keepdims=True)
        power = np.maximum((off**2).mean(axis=1), 1e-12)  # 0 if all are at one distance
        slope = (off * dev).mean(axis=1) / power
        best = places[np.argmin(((dev - slope[:, None] * off) ** 2).mean(axis=1))]
        middle = best[:2]
        half = half / (_PLACES - 1) * 2
    return best


def _measure_log_distance(x: FloatArray, antenna: FloatArray) -> FloatArray:
    """log10 of the distance in metres, at least 1 m, of places x (N, 2) to antennas (g, 3): (g,
    N).
    """
    offset = x[None] - antenna[:, None, :2]
    square = (offset**2).sum(axis=-1) + antenna[:, 2:] ** 2
    return 0.5 * np.log10(np.maximum(square, 1.0))


LENGTHS_M = (25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
NOISES = (0.03, 0.1, 0.3, 1.0)
_FIT = 200  # samples that choose L and lambda
_AT_ONCE = 4096  # places that are predicted at once


def map_kriging(x: FloatArray, y: FloatArray, place_m: FloatArray) -> FloatArray:
    """Ordinary kriging of samples x (N, 2) in metres, y (N,), at places (k, 2): the best linear
    map.

    y_i = beta + f(x_i) + e_i,   cov f = s^2 exp(-|x - x'| / L),   var e = lambda s^2.

    With K = exp(-D / L) + lambda I, beta = 1' K^-1 y / 1' K^-1 1 and s^2 = (y - beta)' K^-1 (y -
    beta) / N, the map is beta + k(x)' K^-1 (y - beta). L and lambda are those of a grid with the
    largest profile likelihood -(N / 2) log s^2 - (1 / 2) log |K|, found on a part of the samples.
    [Cressie 1993, Section 3.2; Gudmundson 1991 for the covariance]
    """
    if len(x) < 3 or np.ptp(y) == 0:  # nothing that could vary with the place
        return np.full(len(place_m), y.mean())
    length_m, noise = fit_covariance(x, y)
    mean, weights, _ = _solve_kriging(_measure_distance(x, x), y, length_m, noise)
    out = np.empty(len(place_m))
    for block in split_blocks(len(place_m), _AT_ONCE):
        covariance = np.exp(_measure_distance(place_m[block], x) / -length_m)
        out[block] = mean + covariance @ weights
    return out


def fit_covariance(x: FloatArray, y: FloatArray) -> FloatPair:
    """L in metres and lambda of the largest profile likelihood."""
    keep = choose_even_indices(len(x), _FIT)
    distance = _measure_distance(x[keep], x[keep])
    y = y[keep]
    tried = []
    for length_m, noise in product(LENGTHS_M, NOISES):
        _, _, likelihood = _solve_kriging(distance, y, length_m, noise)
        tried.append((likelihood, length_m, noise))
    return max(tried)[1:]


def _solve_kriging(
    distance: FloatArray, y: FloatArray, length_m: float, noise: float
) -> tuple[float, FloatArray, float]:
    """beta, K^-1 (y - beta) (N,), and the profile likelihood."""
    from scipy.linalg import cho_factor, cho_solve

    k = np.exp(distance / -length_m)
    k[np.diag_indices(len(k))] += noise
    factor = cho_factor(k, lower=True, overwrite_a=True, check_finite=False)
    sides = np.stack([y, np.ones(len(y))], axis=1)
    of_y, of_ones = cho_solve(factor, sides, check_finite=False).T
    mean = of_y.sum() / of_ones.sum()
    weights = of_y - mean * of_ones
    variance = max((y - mean) @ weights / len(y), 1e-300)
    log_determinant = np.log(np.diag(factor[0])).sum()
    likelihood = -0.5 * len(y) * np.log(variance) - log_determinant
    return mean, weights, likelihood


def _measure_distance(place_m: FloatArray, other_m: FloatArray) -> FloatArray:
    """Distances (n, m) of places (n, 2) to places (m, 2)."""
    from scipy.spatial.distance import cdist

    return cdist(place_m, other_m)


NEIGHBOURS = 5
FEW = 5_000  # samples up to which baselines are measured in every round,
GROWN = 50  # and beyond which they are measured when samples have grown by one such part


@frozen
class Reference(Columns):
    """Training samples, as a value: the constant predictor, and the map of raw uploads.

    x (N, 2), y (N,), model (N,), cell (N,). Raw upload: inverse-distance mean of the 5 nearest
    uploaded measurements, which a server could draw if every UE simply sent its data.
    """

    bounds: ClassVar = SAMPLE_BOUNDS
    x: FloatArray
    y: FloatArray
    model: IntArray
    cell: IntArray

    @classmethod
    def empty(cls) -> Self:
        """No samples."""
        nothing = no_ints()
        return cls(no_places(), no_floats(), nothing, nothing)

    @classmethod
    def from_training(cls, train: Local) -> Self:
        """A round's training samples."""
        y = np.zeros(len(train.x)) if train.y is None else train.y
        cell = np.zeros(len(train.x), int) if train.cell is None else train.cell
        return cls(train.x, y, train.model[train.row_of_sample], cell)

    def __len__(self) -> int:
        return len(self.y)

    def thin(self, max_of_model: int, together: int) -> Self:
        """At most `max_of_model` samples of each model, and `together` of all, evenly spaced in
        their order.
        """
        models = np.unique(self.model)
        n_of_model = min(max_of_model, max(together // max(len(models), 1), 1))
        kept = [no_ints()]
        for m in models:
            rows = np.flatnonzero(self.model == m)
            kept.append(rows[choose_even_indices(len(rows), n_of_model)])
        return self.select(np.concatenate(kept))

    @property
    def samples(self) -> HeldOut:
        """The samples as records without owners."""
        return HeldOut(np.zeros_like(self.model), self.model, self.x, self.y, self.cell)

    def evaluate(self, held_out: HeldOut) -> Metrics:
        """`constant_rmse_db`, `constant_mape_percent` and `raw_upload_rmse_db` on held-out samples;
        NaN without any.
        """
        means = predict_held_out(self, held_out, predict_constant)
        raw = predict_held_out(self, held_out, partial(predict_by_neighbours, NEIGHBOURS))
        return {
            "constant_rmse_db": compute_rmse(means, held_out.y),
            "constant_mape_percent": _compute_mape(means, held_out.y),
            "raw_upload_rmse_db": compute_rmse(raw, held_out.y),
        }


@dataclass(frozen=True)
class Baselines:
    """Figures of maps without learning (see `Reference.evaluate`), and of how many samples they
    are.

    They are measured in every round while there are few samples; then whenever those that were
    trained on, or those held out, have grown by a fiftieth. All measurements of a run together then
    take O(n log n).
    """

    trained: int = 0
    held: int = 0
    figures: Metrics = field(default_factory=dict)

    def update(self, reference: Reference, held_out: HeldOut, max_held_out: int) -> Baselines:
        """Baselines of the samples so far, scored on some held-out ones; unchanged after few new
        samples.
        """
        trained = len(reference)
        held = len(held_out)
        few = trained <= FEW and held <= FEW
        grown = _has_grown(self.trained, trained) or _has_grown(self.held, held)
        if self.figures and not few and not grown:
            return self
        return Baselines(trained, held, reference.evaluate(held_out.thin(max_held_out).usual))


def _has_grown(before: int, after: int) -> bool:
    return after > before and GROWN * (after - before) >= before


def predict_constant(model: int, x: FloatArray, y: FloatArray, place_m: FloatArray) -> FloatArray:
    """The mean of samples, at all places."""
    return np.full(len(place_m), y.mean())


Law = Callable[[int, FloatArray, FloatArray, FloatArray], FloatArray]
"""(model, x, y, places) -> predictions at the places, from samples of the model"""


def predict_held_out(reference: Reference, held_out: HeldOut, law: Law) -> FloatArray:
    """Predict the held-out samples (N,) by a law from each model's samples; NaN without samples."""
    guess = np.full(len(held_out), nan)
    for m in np.unique(held_out.model).tolist():
        is_training = reference.model == m
        is_of_model = held_out.model == m
        if not is_training.any():
            continue
        rows = slice(None) if is_training.all() else is_training  # no copy of all
        place_m = held_out.x[is_of_model]
        guess[is_of_model] = law(m, reference.x[rows], reference.y[rows], place_m)
    return guess


def compute_rmse(guess: FloatArray, truth: FloatArray) -> float:
    """Root of the mean squared error of finite guesses (N,); NaN without any."""
    is_known = np.isfinite(guess)
    if not is_known.any():
        return nan
    return np.sqrt(((guess[is_known] - truth[is_known]) ** 2).mean())


def _compute_mape(guess: FloatArray, truth: FloatArray) -> float:
    is_known = np.isfinite(guess) & (truth != 0)
    if not is_known.any():
        return nan
    return 100 * np.abs((guess - truth)[is_known] / truth[is_known]).mean()
