r"""What everybody can know of RSRP at a place: the laws that a radio is drawn from, without anything that was drawn.

The strongest cell at x has M = max over sites of the mean with or without sight and a normal shadowing term::

    P(M < t) = prod over sites [p Phi((t - a) / sigma_a) + (1 - p) Phi((t - b) / sigma_b)]
    m(x) = E clip(M - W + e, -140, -44),   e ~ N(0, noise^2)

a, b: power and antenna gain of the best sector of the site less the path loss with and without sight; p: probability of
sight; sigma: shadowing with and without sight, or indoors. W is 0 outside; inside it is the mix of buildings of low and
high loss, PL_tw + 0.5 dB a metre of depth with deviation sigma_P [TR 38.901, Section 7.4.3.1]. M and W are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.base_stations import BaseStation, sites
from netsim.errors import BadInput
from netsim.radio.base import Pairs
from netsim.radio.link_budget import RSRP_RANGE_DBM
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from netsim.setting import Radio

_LEVELS_DBM = np.arange(-200.0, 41.0, 2.0)  # M beyond them counts as the last: a report is clipped long before
_LEAST_STD_DB = 0.05  # of a radio without shadowing, in place of steps
_PLACES = 1000  # at once


@dataclass(frozen=True, eq=False)
class CoverageLaw:
    """The laws of a radio and its base stations; ue_height_m above ground or the floor."""

    radio: Radio
    stations: tuple[BaseStation, ...]
    ue_height_m: float

    def check(self) -> None:
        """Raise BadInput where sight follows from buildings, for which no probability is known."""
        if self.radio.line_of_sight.kind_name() not in ("always", "never", "probability"):
            raise BadInput(
                f"learning.learner.prior: coverage needs a probability of sight, and world.radio.line_of_sight is "
                f"{self.radio.line_of_sight.kind_name()}; take probability, always or never there, or another prior"
            )

    def mean_dbm(self, place_m: FloatArray, cells: IntArray, depth_m: float | None, above_m: float) -> FloatArray:
        """m (n,) at places (n, 2) of the strongest of some cells (k,); depth_m: from the facade, None outside.

        above_m: height of the floor above ground.
        """
        some = [self.stations[c] for c in cells.tolist()]
        each = [self._of(place_m[i : i + _PLACES], some, depth_m, above_m) for i in range(0, len(place_m), _PLACES)]
        return np.concatenate([np.zeros(0), *each])

    def _of(
        self, place_m: FloatArray, some: Sequence[BaseStation], depth_m: float | None, above_m: float
    ) -> FloatArray:
        from scipy.special import ndtr

        site = sites(tuple(some))
        first = np.unique(site, return_index=True)[1]
        pairs, best_dbm = self._links(place_m, some, site, first, depth_m or 0.0, above_m)
        share, stds = self._sight(pairs), self._stds(pairs, depth_m is not None)
        below = np.ones((len(_LEVELS_DBM), len(place_m)))
        means = [
            best_dbm - self.radio.path_loss.loss_db(replace(pairs, los=np.full(share.shape, los)), self.radio.carrier_hz)
            for los in (True, False)
        ]
        for s in range(len(first)):
            seen, hidden = (
                ndtr((_LEVELS_DBM[:, None] - mean[:, s]) / std[:, s]) for mean, std in zip(means, stds, strict=True)
            )
            below *= share[:, s] * seen + (1.0 - share[:, s]) * hidden
        middle = (_LEVELS_DBM[1:] + _LEVELS_DBM[:-1]) / 2
        reported = self._reported(np.concatenate([_LEVELS_DBM[:1], middle, _LEVELS_DBM[-1:]]), depth_m)
        return np.asarray(reported @ np.diff(below, axis=0, prepend=0.0, append=1.0))

    def _links(
        self, place_m: FloatArray, some: Sequence[BaseStation], site: IntArray, first: IntArray, depth_m: float,
        above_m: float,
    ) -> tuple[Pairs, FloatArray]:  # fmt: skip
        """Geometry of the links to all sites, and power and gain (n, n_site) of the best sector of each."""
        at_m, height_m = np.array([b.at_m for b in some]), np.array([b.height_m for b in some])
        offset_m = place_m[:, None] - at_m
        ue_height_m = np.full((len(place_m), 1), self.ue_height_m + above_m)
        received_dbm = np.empty(offset_m.shape[:2])
        for i, b in enumerate(some):
            azimuth_deg = np.array([np.nan if b.azimuth_deg is None else b.azimuth_deg])
            gain_db = b.antenna.gain_db(offset_m[:, i : i + 1], b.height_m - ue_height_m, azimuth_deg)
            received_dbm[:, i] = b.power_dbm + gain_db[:, 0]
        best_dbm = np.stack([received_dbm[:, site == s].max(axis=1) for s in range(len(first))], axis=1)
        flat_m = np.linalg.norm(offset_m[:, first], axis=2)
        slant_m = np.hypot(flat_m, height_m[first] - ue_height_m)
        pairs = Pairs(flat_m, slant_m, ue_height_m, height_m[first], distance_out_m=np.maximum(flat_m - depth_m, 0.0))
        return pairs, best_dbm

    def _sight(self, pairs: Pairs) -> FloatArray:
        """Probability of sight (n, n_site)."""
        kind = self.radio.line_of_sight.kind_name()
        if kind == "probability":
            return self.radio.path_loss.los_probability(pairs)
        return np.full(pairs.distance_2d_m.shape, 1.0 if kind == "always" else 0.0)

    def _stds(self, pairs: Pairs, inside: bool) -> tuple[FloatArray, FloatArray]:
        """Deviations of shadowing (n, n_site) with and without sight."""
        radio, shape = self.radio, pairs.distance_2d_m.shape
        part = radio.shadowing.under(radio.path_loss)
        std_db = float(getattr(part, "deviation_db", 0.0))
        seen, hidden = std_db, std_db * part.nlos_factor
        if inside and getattr(part, "indoor_decorrelation_m", None) is not None:
            indoor_db = getattr(part, "indoor_std_db", None)
            seen = hidden = std_db if indoor_db is None else indoor_db
        wide: FloatArray = np.full(shape, seen)
        if not inside and (factor := radio.shadowing.far_factor(radio.path_loss)) != 1.0:
            wide = wide * np.where(radio.path_loss.is_far(pairs, radio.carrier_hz), factor, 1.0)
        return np.maximum(wide, _LEAST_STD_DB), np.full(shape, max(hidden, _LEAST_STD_DB))

    def _reported(self, level_dbm: FloatArray, depth_m: float | None) -> FloatArray:
        """E clip(level - W + e) (k,) of levels (k,) in front of the facade, or outside."""
        radio = self.radio
        walls = [(1.0, 0.0, 0.0)] if depth_m is None else radio.penetration.walls(radio.path_loss, radio.carrier_hz, depth_m)
        return np.asarray(
            sum(
                share * _clipped_mean(level_dbm - loss_db, float(np.hypot(std_db, radio.measurement_noise_db)))
                for share, loss_db, std_db in walls
            )
        )


def _clipped_mean(mean: FloatArray, std: float) -> FloatArray:
    """E clip(X) of X ~ N(mean, std^2), clipped to the range of reports."""
    from scipy.special import ndtr

    low, high = RSRP_RANGE_DBM
    if std == 0:
        return np.clip(mean, low, high)
    a, b = (low - mean) / std, (high - mean) / std

    def density(z: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))

    inner = mean * (ndtr(b) - ndtr(a)) + std * (density(a) - density(b))
    return np.asarray(low * ndtr(a) + high * ndtr(-b) + inner)
