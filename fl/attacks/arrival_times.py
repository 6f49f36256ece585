r"""Places of UEs from the times at which updates arrive: ranks of delays matched with ranks of
distances.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, Attacked, View
from fl.attacks.threat import ARRIVAL_TIMES, CELLS
from fl.tracking.place_grid import cross_axes
from fl.types import Antennas, Estimates, Public, RoundContext, Timing
from netsim.columns import ByKey, frozen, number_row, split_row_id, update_means
from netsim.errors import BadInput
from netsim.geometry import measure_lengths
from netsim.radio.antenna import compute_sector_gain_db
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

EXPONENT = 3.5
"""path-loss exponent that an outsider assumes: that of a city [Rappaport 2002, Table 4.2]"""
_PLACES = 100  # along the longer side of the area
_RINGS = 64
_SHARPEST = 0.02  # least standard deviation of a rank's normal score about that of its distance
_LEAST = 1e-12  # probability of a rank; smaller differences of Phi are rounding errors
_NEAREST_M = 10.0  # no link is shorter
_LEAST_S = 1e-9


@frozen
class Rings:
    """The places that each cell serves, in K rings of equal width around its base station.

    share (n_cell, K): of the cell's places; mean_m (n_cell, K, 3): over a ring, where it has any
    place, the horizontal distance and the place.
    """

    share: FloatArray
    mean_m: FloatArray

    @classmethod
    def from_antennas(cls, public: Public, antennas: Antennas) -> Rings:
        """Rings of all cells, with every place served by the cell that is strongest there.

        A cell that is strongest nowhere may serve any place.
        """
        side_m = public.area.side_m
        nx, ny = np.maximum(np.round(side_m / side_m.max() * _PLACES).astype(int), 1)
        # middles of equal squares that fill the area, up to a rest at its borders
        unit = cross_axes((np.arange(nx) + 0.5) / nx, (np.arange(ny) + 0.5) / ny)
        ground_m = public.area.sample(unit)
        levels_db = compute_relative_levels_db(ground_m, public)
        strongest = np.argmax(levels_db, axis=0)
        share = np.zeros((len(levels_db), _RINGS))
        mean_m = np.zeros((len(levels_db), _RINGS, 3))
        for cell, station_m in enumerate(antennas.at_m[:, :2]):
            served_m = ground_m[strongest == cell]
            if not len(served_m):
                served_m = ground_m
            distance_m = measure_lengths(served_m - station_m)
            ring = (distance_m / max(distance_m.max(), 1e-9) * _RINGS).astype(int)
            ring = np.minimum(ring, _RINGS - 1)
            count = np.bincount(ring, minlength=_RINGS)
            share[cell] = count / len(served_m)
            for axis, value_m in enumerate((distance_m, *served_m.T)):
                mean_m[cell, :, axis] = np.bincount(ring, value_m, _RINGS) / np.maximum(count, 1)
        return cls(share, mean_m)


def compute_relative_levels_db(place_m: FloatArray, public: Public) -> FloatArray:
    """Levels (n_cell, G) of all cells at places (G, 2), by log-distance path loss and antennas of
    the usual kind.
    """
    antennas = public.antennas
    if antennas is None:
        raise ValueError("base stations without places, which `check` refuses")
    levels_db = np.empty((len(antennas.at_m), len(place_m)))
    for cell, (x_m, y_m, height_m) in enumerate(antennas.at_m):
        offset_m = place_m[:, None] - [x_m, y_m]
        drop_m = np.array([height_m - public.ue_height_m])
        distance_m = np.hypot(np.linalg.norm(offset_m[:, 0], axis=1), drop_m)
        loss_db = 10.0 * EXPONENT * np.log10(np.maximum(distance_m, _NEAREST_M))
        levels_db[cell] = antennas.power_dbm[cell] - loss_db
        if antennas.azimuth_deg is not None:
            azimuth_deg = antennas.azimuth_deg[cell : cell + 1]
            levels_db[cell] += compute_sector_gain_db(offset_m, drop_m, azimuth_deg)[:, 0]
    return levels_db


class RankMatch:
    r"""Matches the ranks of the values of links (k,) with those of the distances of their cells'
    places.

    Values and distances have normal scores q and z of correlation rho; z is that of a distance
    among the places of all cells, each cell weighing as many links as it has. A value whose rank
    lies in (a, b) has, at a distance, probability

        Phi((q_b - rho z) / s) - Phi((q_a - rho z) / s),    rho^2 = 1 - s^2 = L^2 / (L^2 +
        shadowing_db^2),

    with L the standard deviation of the path loss in dB. Equal values share their ranks, so values
    that are all alike leave the prior as it is.
    """

    def __init__(
        self, rings: Rings, cell: IntArray, value: FloatArray, shadowing_db: float
    ) -> None:
        from scipy.special import ndtri

        self._rings = rings
        self._value = np.sort(value)
        distance_m = rings.mean_m[:, :, 0]
        links = np.bincount(cell, minlength=len(rings.share)) / np.maximum(len(cell), 1)
        weight = (links[:, None] * rings.share).ravel()
        of_value = np.unique(distance_m, return_inverse=True)[1].reshape(distance_m.shape)
        mass = np.bincount(of_value.ravel(), weights=weight)
        middle = np.cumsum(mass) - mass / 2  # equal values in the middle of their ranks
        self._score = ndtri(np.clip(middle, 1e-9, 1 - 1e-9))[of_value]
        loss_db = 10.0 * EXPONENT * np.log10(np.maximum(distance_m.ravel(), _NEAREST_M))
        total = max((weight @ (loss_db - weight @ loss_db) ** 2) + shadowing_db**2, 1e-300)
        self._std = max(float(np.sqrt(shadowing_db**2 / total)), _SHARPEST)
        self._rho = 0.0
        if self._std < 1.0:
            self._rho = np.sqrt(1.0 - self._std**2)

    def estimate_distance_and_place_m(self, cell: IntArray, value: FloatArray) -> FloatArray:
        """Posterior means (n, 3) of UEs received through one cell each, with these values: their
        distance from its base station, and their place.
        """
        from scipy.special import ndtr, ndtri

        count = len(self._value)
        low = np.searchsorted(self._value, value, "left").astype(float)
        high = np.searchsorted(self._value, value, "right").astype(float)
        is_new = low == high  # no rank of its own: half of that of either neighbour
        low[is_new] = np.maximum(low[is_new] - 0.5, 0.0)
        high[is_new] = np.minimum(high[is_new] + 0.5, count)
        centre = self._rho * self._score[cell]
        a = (ndtri(low / count)[:, None] - centre) / self._std
        b = (ndtri(high / count)[:, None] - centre) / self._std
        share = self._rings.share[cell]
        weight = share * (ndtr(b) - ndtr(a))
        gap = np.where(share > 0, np.maximum(np.maximum(a, -b), 0.0), np.inf)
        lost = weight.sum(axis=1) < _LEAST  # beyond all distances of the cell: the nearest of them
        weight[lost] = (gap == gap.min(axis=1, keepdims=True))[lost]
        weight /= weight.sum(axis=1, keepdims=True)
        return np.einsum("nk,nkd->nd", weight, self._rings.mean_m[cell])


@frozen
class UploadDelays:
    """means: of the values of each pair of UE and cell so far (see `number_row`); last: cell and
    value of the last upload of each UE.
    """

    means: ByKey
    last: ByKey


class UploadAttack(Attack):
    """An attack on the times and cells of uploads, whatever is in them."""

    def check(self, public: Public, n_ue: int) -> None:
        if public.antennas is None:
            raise BadInput(
                f"learning.attacks: {self.label} needs the places of base stations, which are not "
                "known here (a trace brings cells without places); leave the attack out"
            )

    def self_test(self, view: View, facts: RoundContext, rng: Rng) -> None:
        """Return None: what it reads is in no update."""
        return


def compute_log_s_per_bit(timing: Timing) -> FloatArray:
    """Logarithm (n,) of the time per bit from the request to the arrival of each upload, s."""
    return np.log(np.maximum(timing.arrived_s - timing.requested_s, _LEAST_S) / timing.n_bits)


class ArrivalTimes(UploadAttack, kind="arrival-times"):
    r"""Locates UEs by how long their uploads take: the farther away, the slower.

    An attacker that observes arriving updates knows when each was asked for, when its last bit
    came, its size and its cell, also under secure aggregation. The value of an upload is the
    logarithm of its time per bit; the running mean of a UE's values through a cell fades by 1 - 1 /
    memory_rounds an upload. Ranks of these means are matched with ranks of distances (see
    `RankMatch`): neither power, bandwidth, training time nor the law of delays has to be known,
    only that they are alike for all UEs. A priori a UE is anywhere in the area where its cell is
    the strongest, by path loss of exponent 3.5 and antennas of the usual kind. The estimated
    centroid is the posterior mean of the place.

    Two more claims stand in `estimates.csv`: `near` (at the base station; weight: reciprocal of the
    posterior mean of the distance, 1/m), and `moved` (without a place; weight: by how much the UE
    has moved since its last upload, m: in the same cell the change of its distance, else the
    distance between its mean places, each from one upload).
    """

    use: Literal["times", "staleness", "cell"] = "times"
    """what of an upload is read: its time per bit; its staleness (versions of the model that it
    came late); or its cell only, a baseline"""
    shadowing_db: float = Field(7.0, ge=0, le=40)
    """standard deviation of gains beside path loss that the attacker reckons with, dB"""
    memory_rounds: float = Field(2.0, ge=1, le=1e9)
    """number of uploads of a UE through a cell over which values are averaged; 1: no averaging"""

    reference = "netsim: ranks of delays against ranks of distances, by a Gaussian copula"
    needs = {
        ARRIVAL_TIMES: (
            "reads when updates come; set threat.observes: updates or aggregate, "
            "without shuffle or times: false"
        ),
        CELLS: "ranks the uploads of each cell; leave threat.cells out",
        "positions": "says where UEs are, and these data have no places to compare that with",
    }

    @property
    def reads_times(self) -> bool:  # type: ignore[override]
        return self.use == "times"

    def start(self) -> UploadDelays:
        return UploadDelays(ByKey.empty(2), ByKey.empty(2))

    def run(self, view: View, facts: RoundContext, state: UploadDelays, rng: Rng) -> Attacked:
        timing = view.timing
        antennas = facts.public.antennas
        if timing is None or antennas is None or view.phase != view.learner.phases[0]:
            return Estimates.none(), state
        value = self._compute_distance_proxies(timing)
        heard = np.flatnonzero(np.isfinite(value) & (timing.base_station >= 0))
        ue, first, index = np.unique(view.ue[heard], return_index=True, return_inverse=True)
        row = heard[first]  # all rows of a UE come together
        cell = timing.base_station[row]
        value = value[row]
        mean, means = update_means(
            state.means, number_row(ue, cell), value[:, None], self.memory_rounds
        )
        rings = Rings.from_antennas(facts.public, antennas)
        _, known_cell = split_row_id(means.key)
        match = RankMatch(rings, known_cell, means.value[:, 1], self.shadowing_db)
        located = match.estimate_distance_and_place_m(cell, mean[:, 0])
        distance_m = located[:, 0]
        place_m = located[:, 1:]
        last = state.last.look_up(ue)
        seen_rows = np.flatnonzero(np.isfinite(last[:, 1]))
        last_cell = last[seen_rows, 0].astype(int)
        before = match.estimate_distance_and_place_m(last_cell, last[seen_rows, 1])
        change_m = match.estimate_distance_and_place_m(cell[seen_rows], value[seen_rows]) - before
        nearer_m = np.abs(change_m[:, 0])
        away_m = np.linalg.norm(change_m[:, 1:], axis=1)
        moved_m = np.where(last_cell == cell[seen_rows], nearer_m, away_m)

        def build_estimates(
            row: IntArray, kind: str, position_m: FloatArray, weight: FloatArray | None = None
        ) -> Estimates:
            return Estimates.from_places(view.ue[row], view.model[row], kind, position_m, weight)

        station_m = antennas.at_m[cell, :2]
        nowhere_m = np.full((len(seen_rows), 2), np.nan)
        estimates = [
            build_estimates(heard, "centroid", place_m[index]),
            build_estimates(row, "near", station_m, 1.0 / np.maximum(distance_m, 1.0)),
            build_estimates(row[seen_rows], "moved", nowhere_m, moved_m),
        ]
        last_uploads = state.last.overwrite_values(ue, np.stack([cell, value], axis=1))
        return Estimates.join(estimates), UploadDelays(means, last_uploads)

    def _compute_distance_proxies(self, timing: Timing) -> FloatArray:
        """Reading of each upload (n,): it grows with the distance."""
        if self.use == "staleness":
            return timing.staleness.astype(float)
        if self.use == "cell":
            return np.zeros(len(timing.arrived_s))
        return compute_log_s_per_bit(timing)
